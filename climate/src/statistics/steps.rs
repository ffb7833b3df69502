//! Intervals between analysed times.

use serde::{Deserialize, Serialize};
use squall_data::Time;
use squall_data::calendar::DAY_SECONDS;
use std::collections::BTreeMap;

/// If at least this share of days has the same number of times, their times are complete, however they are distributed
/// within a day.
const MIN_EQUAL_DAYS_SHARE: f64 = 0.9;
/// With fewer days, a first day cut by the start of the data may exceed the rest of [`MIN_EQUAL_DAYS_SHARE`].
const MIN_DAYS: u64 = 10;
/// Minimum share of equal steps for a usual step.
const MIN_EQUAL_STEPS_SHARE: f64 = 0.6;

/// The steps between consecutive analysed times.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Steps {
    last: Option<Time>,
    /// Number of steps by length in seconds.
    steps: BTreeMap<i64, u64>,
    /// Number of times so far on the current day.
    of_day: u64,
    /// Number of days by (times on the day, days to the next day with times).
    days: Vec<((u64, i64), u64)>,
}

impl Steps {
    /// Adds the next time.
    pub(super) fn add(&mut self, time: Time) {
        let Some(last) = self.last.replace(time) else {
            self.of_day = 1;
            return;
        };
        let seconds = time.seconds_since(last);
        if seconds > 0 {
            *self.steps.entry(seconds).or_default() += 1;
        }
        let days = time.midnight().seconds_since(last.midnight()) / DAY_SECONDS;
        if days <= 0 {
            self.of_day += 1;
            return;
        }
        let day = (std::mem::replace(&mut self.of_day, 1), days);
        match self.days.iter_mut().find(|(known, _)| *known == day) {
            Some((_, count)) => *count += 1,
            None => self.days.push((day, 1)),
        }
    }

    /// The usual interval of analysed times in hours, ignoring missing times. If days are alike, it follows from the
    /// number of times per day, because a day may have only 0, 6 and 12 UTC. Otherwise it is the most frequent step.
    /// `None` if there is no usual interval.
    pub(super) fn usual_hours(&self) -> Option<f64> {
        let days: u64 = self.days.iter().map(|(_, count)| count).sum();
        let is_usual = |count: u64| count as f64 >= MIN_EQUAL_DAYS_SHARE * days as f64;
        let alike = self.days.iter().find(|(_, count)| is_usual(*count));
        if let Some(((times, apart), _)) = alike.filter(|_| days >= MIN_DAYS) {
            return Some(24.0 * *apart as f64 / *times as f64);
        }
        let all: u64 = self.steps.values().sum();
        let is_usual = |count: u64| count as f64 >= MIN_EQUAL_STEPS_SHARE * all as f64;
        let usual = self.steps.iter().find(|(_, count)| is_usual(**count));
        usual.map(|(seconds, _)| *seconds as f64 / 3600.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use squall_data::Calendar;

    /// The usual interval of times at the given hours.
    fn usual(hours: impl Iterator<Item = i64>) -> Option<f64> {
        let zero = Time::new(Calendar::NoLeap, 2001, 1, 1, 0, 0, 0).unwrap();
        let mut steps = Steps::default();
        hours.for_each(|hour| steps.add(zero.add_seconds(3600 * hour)));
        steps.usual_hours()
    }

    #[test]
    fn the_usual_step_is_that_of_data_that_lack_none() {
        for step in [1, 3, 6, 24, 120] {
            let hours = (0..2000).map(|k| k * step);
            assert_eq!(usual(hours), Some(step as f64), "{step}");
        }
        // Starting at 18 UTC; with every seventh time missing; one season per year.
        assert_eq!(usual((3..8).map(|k| 6 * k)), Some(6.0));
        let lacking = (0..2000).filter(|k| k % 7 != 3).map(|k| 6 * k);
        assert_eq!(usual(lacking), Some(6.0));
        let summers = (0..5).flat_map(|year| (0..368).map(move |k| 8760 * year + 6 * k));
        assert_eq!(usual(summers), Some(6.0));
        // Three times per day, on every day or every fifth.
        for apart in [1, 5] {
            let days = (0..50).flat_map(|day| [0, 6, 12].map(|hour| 24 * apart * day + hour));
            assert_eq!(usual(days), Some(8.0 * apart as f64));
        }
        // Every third time is missing: 6 and 12 hours are equally likely.
        assert_eq!(usual((0..2000).filter(|k| k % 3 != 2).map(|k| 6 * k)), None);
        assert_eq!(usual(0..1), None);
    }
}
