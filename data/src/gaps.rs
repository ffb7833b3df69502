//! Finds gaps in time axes.

use crate::Time;
use std::collections::BTreeMap;
use std::fmt;

/// A gap is a step longer than this many usual ones.
const LONGER: f64 = 1.5;
/// This many equal longer steps in a row are not gaps: hourly output may become daily.
const IN_A_ROW: usize = 3;

/// The gaps of a time axis; formats as a clause for a warning.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gaps {
    /// Number of gaps.
    pub count: usize,
    /// The times before and after the first gap.
    pub first: (Time, Time),
    /// The times before and after the longest gap; the first one in a tie.
    pub longest: (Time, Time),
    /// The most common step in hours.
    pub usual_hours: f64,
}

impl Gaps {
    /// Finds the gaps of ascending times: steps longer than one and a half of the most common one. `None` if there are
    /// none, or if most steps differ, so that gaps are undefined. Steps are measured in the axis' own calendar.
    ///
    /// # Example
    /// ```
    /// use squall_data::gaps::Gaps;
    /// use squall_data::{Calendar, Time};
    /// let at = |h: i64| Time::new(Calendar::NoLeap, 2000, 2, 28, 0, 0, 0).unwrap().add_seconds(3600 * h);
    /// let axis = |hours: &[i64]| Gaps::of(&hours.iter().map(|&h| at(h)).collect::<Vec<_>>());
    /// assert_eq!(axis(&[0, 6, 12, 18, 24, 30]), None);
    /// let gaps = axis(&[0, 6, 12, 24, 30, 36, 60]).unwrap();
    /// assert_eq!((gaps.count, gaps.first, gaps.longest), (2, (at(12), at(24)), (at(36), at(60))));
    /// ```
    pub fn of(times: &[Time]) -> Option<Self> {
        let steps = steps_of(times);
        let (usual, often) = usual_step(&steps)?;
        if 2 * often < steps.len() {
            return None;
        }
        let (mut count, mut first, mut longest) = (0, None, None);
        let mut at = 0;
        for same in steps.chunk_by(|a, b| a == b) {
            if same[0] as f64 > LONGER * usual as f64 && same.len() < IN_A_ROW {
                count += same.len();
                first.get_or_insert(at);
                longest = longest
                    .filter(|&known: &usize| steps[known] >= same[0])
                    .or(Some(at));
            }
            at += same.len();
        }
        let around = |at: usize| (times[at], times[at + 1]);
        Some(Self {
            count,
            first: around(first?),
            longest: around(longest?),
            usual_hours: usual as f64 / 3600.0,
        })
    }
}

/// The most common step of ascending times in seconds; in a tie the shortest. `None` for a single time.
pub fn usual_step_seconds(times: &[Time]) -> Option<i64> {
    usual_step(&steps_of(times)).map(|(usual, _)| usual)
}

/// [`usual_step_seconds`] in hours.
pub fn usual_step_hours(times: &[Time]) -> Option<f64> {
    usual_step_seconds(times).map(|usual| usual as f64 / 3600.0)
}

/// The median step of ordered times in seconds; for an even number of steps the longer of the two in the middle. Equal
/// times are ignored; `None` if there are no steps.
pub fn median_step_seconds(times: &[Time]) -> Option<i64> {
    let mut steps = steps_of(times);
    steps.retain(|&step| step > 0);
    steps.sort_unstable();
    steps.get(steps.len() / 2).copied()
}

/// The steps of an axis, seconds.
fn steps_of(times: &[Time]) -> Vec<i64> {
    times
        .windows(2)
        .map(|pair| pair[1].seconds_since(pair[0]))
        .collect()
}

/// The most common of these steps, and its frequency.
fn usual_step(steps: &[i64]) -> Option<(i64, usize)> {
    let mut counts = BTreeMap::<i64, usize>::new();
    steps.iter().for_each(|step| {
        *counts.entry(*step).or_default() += 1;
    });
    // In a tie the shorter step is the usual one: [0, 6, 500] has a gap.
    let (&usual, &often) = counts.iter().rev().max_by_key(|(_, count)| **count)?;
    Some((usual, often))
}

impl fmt::Display for Gaps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let between = |(before, after): (Time, Time)| format!("between {before} and {after}");
        let longest = between(self.longest);
        match self.count {
            1 => write!(f, "the time axis has a gap: no time {longest}")?,
            count if self.first == self.longest => {
                write!(
                    f,
                    "the time axis has {count} gaps, the first and longest {longest}"
                )?;
            }
            count => {
                let first = between(self.first);
                write!(
                    f,
                    "the time axis has {count} gaps, the first {first}, the longest {longest}"
                )?;
            }
        }
        let days = self.longest.1.days_since(self.longest.0);
        let length = if days < 2.0 {
            format!("{} h", 24.0 * days)
        } else {
            format!("{} days", (10.0 * days).round() / 10.0)
        };
        write!(f, " ({length}; mostly every {} h)", self.usual_hours)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Calendar;

    fn axis(hours: impl IntoIterator<Item = i64>) -> Vec<Time> {
        let start = Time::new(Calendar::NoLeap, 2000, 2, 25, 0, 0, 0).unwrap();
        let at = |h: i64| start.add_seconds(3600 * h);
        hours.into_iter().map(at).collect()
    }

    fn count(times: &[Time]) -> usize {
        Gaps::of(times).map_or(0, |gaps| gaps.count)
    }

    #[test]
    fn a_gap_is_a_step_that_leaves_out_a_time() {
        let every = |step: i64, from: i64, to: i64| (from..to).map(move |k| step * k);
        for (what, times, expected) in [
            ("nothing", axis([]), 0),
            ("one time", axis([0]), 0),
            ("two times", axis([0, 500]), 0),
            ("even", axis(every(6, 0, 60)), 0),
            (
                "one time left out",
                axis(every(6, 0, 60).filter(|h| *h != 48)),
                1,
            ),
            (
                "a jitter of a sixth of a step",
                axis(every(6, 0, 60).map(|h| h + h % 4 / 2)),
                0,
            ),
            (
                "another step from the middle on",
                axis(every(3, 0, 80).chain(every(6, 40, 70))),
                0,
            ),
            (
                "a lonely time between two gaps as long as each other",
                axis(every(6, 0, 20).chain([240]).chain(every(6, 61, 80))),
                2,
            ),
            (
                "no two steps alike",
                axis([0, 1, 3, 7, 15, 31, 63, 127, 255]),
                0,
            ),
            (
                "five days of every ten",
                axis(every(24, 0, 40).filter(|h| h / 120 % 2 == 0)),
                3,
            ),
            ("three times", axis([0, 6, 500]), 1),
        ] {
            assert_eq!(count(&times), expected, "{what}");
        }
    }

    /// A leap day that the calendar does not have is not missing, and one that it has is; months differ in length.
    #[test]
    fn a_gap_is_one_of_the_axis_own_calendar() {
        let days = |calendar: Calendar, leap_day: bool| -> Vec<Time> {
            let dates = [26, 27, 28, 29].map(|day| (2, day)).into_iter();
            let dates = dates.chain([1, 2, 3, 4].map(|day| (3, day)));
            dates
                .filter(|date| leap_day || *date != (2, 29))
                .map(|(month, day)| Time::new(calendar, 2000, month, day, 0, 0, 0).unwrap())
                .collect()
        };
        assert_eq!(count(&days(Calendar::NoLeap, false)), 0);
        assert_eq!(count(&days(Calendar::Standard, true)), 0);
        assert_eq!(count(&days(Calendar::Standard, false)), 1);
        let months: Vec<Time> = (0..48)
            .map(|k| Time::new(Calendar::Standard, 2000 + k / 12, k % 12 + 1, 1, 0, 0, 0).unwrap())
            .collect();
        assert_eq!(count(&months), 0);
        let without: Vec<Time> = months[..20].iter().chain(&months[21..]).copied().collect();
        assert_eq!(count(&without), 1);
    }

    #[test]
    fn the_usual_step_is_the_most_common_one() {
        assert_eq!(usual_step_hours(&axis([0])), None);
        assert_eq!(usual_step_hours(&axis([0, 24, 48, 54, 72])), Some(24.0));
        assert_eq!(usual_step_hours(&axis([0, 12, 18, 30, 36])), Some(6.0));
    }

    #[test]
    fn the_median_step_is_in_the_middle_of_those_that_are_steps() {
        let median =
            |hours: &[i64]| median_step_seconds(&axis(hours.iter().copied())).map(|s| s / 3600);
        assert_eq!(median(&[0]), None);
        assert_eq!(median(&[0, 0]), None);
        assert_eq!(median(&[0, 0, 0, 6, 30, 36]), Some(6));
        assert_eq!(median(&[0, 6, 30]), Some(24));
    }

    #[test]
    fn gaps_say_where_they_are() {
        let said = |hours: &[i64]| Gaps::of(&axis(hours.iter().copied())).unwrap().to_string();
        assert_eq!(
            said(&[0, 6, 12, 18, 96, 102]),
            "the time axis has a gap: no time between 2000-02-25T18:00:00 and 2000-03-01T00:00:00 (3.3 days; mostly every 6 h)"
        );
        assert_eq!(
            said(&[0, 6, 12, 24, 30, 36, 60]),
            "the time axis has 2 gaps, the first between 2000-02-25T12:00:00 and 2000-02-26T00:00:00, \
             the longest between 2000-02-26T12:00:00 and 2000-02-27T12:00:00 (24 h; mostly every 6 h)"
        );
        assert!(
            said(&[0, 6, 12, 48, 54, 60, 72]).contains("2 gaps, the first and longest between")
        );
    }
}
