//! How far the analysed times are apart.

use serde::{Deserialize, Serialize};
use squall_data::Time;
use squall_data::calendar::DAY_SECONDS;
use std::collections::BTreeMap;

/// Where so large a share of the days is alike their times are complete, however they lie in a day.
const ALIKE: f64 = 0.9;
/// Of fewer days one that the beginning of the data cuts may be more than the rest of [`ALIKE`].
const LEAST_DAYS: u64 = 10;
/// The step of so large a share of all is the usual one.
const USUAL: f64 = 0.6;

/// The steps from one analysed time to the next.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Steps {
    last: Option<Time>,
    /// How often the next time was so many seconds later.
    steps: BTreeMap<i64, u64>,
    /// Times of the day of the last one, so far.
    of_day: u64,
    /// How many days had so many times, with the next such day so many days later.
    days: Vec<((u64, i64), u64)>,
}

impl Steps {
    /// Takes the next time in.
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

    /// The hours from one time to the next of data that lack none: by the times of a day, if days are alike, because a
    /// day may have 0, 6 and 12 UTC alone; else the step that most are. `None` where there is none.
    pub(super) fn usual_hours(&self) -> Option<f64> {
        let days: u64 = self.days.iter().map(|(_, count)| count).sum();
        let is_usual = |count: u64| count as f64 >= ALIKE * days as f64;
        let alike = self.days.iter().find(|(_, count)| is_usual(*count));
        if let Some(((times, apart), _)) = alike.filter(|_| days >= LEAST_DAYS) {
            return Some(24.0 * *apart as f64 / *times as f64);
        }
        let all: u64 = self.steps.values().sum();
        let is_usual = |count: u64| count as f64 >= USUAL * all as f64;
        let usual = self.steps.iter().find(|(_, count)| is_usual(**count));
        usual.map(|(seconds, _)| *seconds as f64 / 3600.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use squall_data::Calendar;

    /// The usual step of times at these hours.
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
        // From 18 UTC on; every seventh is missing; a season of each year.
        assert_eq!(usual((3..8).map(|k| 6 * k)), Some(6.0));
        let lacking = (0..2000).filter(|k| k % 7 != 3).map(|k| 6 * k);
        assert_eq!(usual(lacking), Some(6.0));
        let summers = (0..5).flat_map(|year| (0..368).map(move |k| 8760 * year + 6 * k));
        assert_eq!(usual(summers), Some(6.0));
        // Three times of each day, and of every fifth.
        for apart in [1, 5] {
            let days = (0..50).flat_map(|day| [0, 6, 12].map(|hour| 24 * apart * day + hour));
            assert_eq!(usual(days), Some(8.0 * apart as f64));
        }
        // Every third is missing: nobody knows whether 6 hours are usual or 12.
        assert_eq!(usual((0..2000).filter(|k| k % 3 != 2).map(|k| 6 * k)), None);
        assert_eq!(usual(0..1), None);
    }
}
