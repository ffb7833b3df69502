//! Encodes the browser's times as integers, which a script decodes to dates of any calendar.

use crate::statistics::Span;
use serde_json::{Value, json};
use squall_data::Time;
use squall_data::calendar::DAY_SECONDS;

/// A clock that counts from the first of all times, in the largest unit that divides all intervals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Clock {
    first: Time,
    last: Time,
    unit_seconds: i64,
}

impl Clock {
    /// The clock for these times; `None` if there are none.
    pub(super) fn spanning(times: impl Iterator<Item = Time> + Clone) -> Option<Self> {
        let mut span = Span::default();
        times.clone().for_each(|time| span.add(time));
        let (first, last) = span.ends()?;
        let unit = times.fold(0, |unit, time| common(unit, time.seconds_since(first)));
        Some(Self {
            first,
            last,
            unit_seconds: unit.max(1),
        })
    }

    /// Number of units since the first time.
    pub(super) fn units(&self, time: Time) -> i64 {
        time.seconds_since(self.first) / self.unit_seconds
    }

    /// Number of units in `hours`, at least one.
    pub(super) fn units_of_hours(&self, hours: i64) -> i64 {
        (hours * 3600 / self.unit_seconds).max(1)
    }

    /// The data with which a script converts times to dates of any calendar: the unit, the second of the first day, and
    /// every run of consecutive days of a month as days since the first, year, month, day.
    pub(super) fn json(&self) -> Value {
        let seconds = self.first.second_of_day();
        let midnight = self.first.add_seconds(-seconds);
        let days = self.last.seconds_since(midnight) / DAY_SECONDS;
        let mut runs: Vec<[i64; 4]> = Vec::new();
        let mut before = (0, 0, 0);
        for day in 0..=days {
            let (year, month, date) = midnight.add_seconds(day * DAY_SECONDS).date();
            // The standard calendar skips ten days of October 1582.
            if (year, month) != (before.0, before.1) || date != before.2 + 1 {
                runs.push([day, year, month, date]);
            }
            before = (year, month, date);
        }
        json!({ "unit": self.unit_seconds, "second": seconds, "months": runs })
    }
}

/// Greatest common divisor.
fn common(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.abs(), b.abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use squall_data::Calendar;

    #[test]
    fn units_and_months_of_three_calendars() {
        for (calendar, february) in [
            (Calendar::NoLeap, 28),
            (Calendar::Day360, 30),
            (Calendar::Standard, 29),
        ] {
            let time =
                |month, day, hour| Time::new(calendar, 2000, month, day, hour, 30, 0).unwrap();
            let times = [time(2, 20, 3), time(2, 20, 9), time(3, 2, 3)];
            let clock = Clock::spanning(times.into_iter()).unwrap();
            assert_eq!(clock.unit_seconds, 6 * 3600);
            assert_eq!(clock.units(times[1]), 1);
            assert_eq!(clock.units_of_hours(24), 4);
            let json = clock.json();
            assert_eq!(json["second"], 3 * 3600 + 1800);
            let march = february - 19;
            assert_eq!(
                json["months"],
                json!([[0, 2000, 2, 20], [march, 2000, 3, 1]]),
                "{calendar}"
            );
        }
        assert_eq!(Clock::spanning(std::iter::empty()), None);
    }

    #[test]
    fn the_days_that_october_1582_lacks_begin_a_run() {
        let time = |day| Time::new(Calendar::Standard, 1582, 10, day, 0, 0, 0).unwrap();
        let clock = Clock::spanning([time(3), time(16)].into_iter()).unwrap();
        assert_eq!(
            clock.json()["months"],
            json!([[0, 1582, 10, 3], [2, 1582, 10, 15]])
        );
    }
}
