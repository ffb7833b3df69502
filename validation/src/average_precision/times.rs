//! Which times of two tables of boxes are compared: one rule for all scores of boxes.

use crate::error::{Result, ValidationError};
use serde::{Deserialize, Serialize};
use squall_data::{GeoBox, Time};
use std::collections::BTreeMap;
use std::fmt;

/// The boxes of one time.
pub type BoxesAt = (Time, Vec<GeoBox>);

/// The times of two tables that are compared, and which were not.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedTimes {
    /// In order: the time, the boxes of the truth then and those of the prediction, none where a side found nothing.
    pub times: Vec<(Time, [Vec<GeoBox>; 2])>,
    /// Which times either side has.
    pub coverage: TimeCoverage,
}

/// Whose table is known, by its origin, to list every time that was searched, also those without a box.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListsAll {
    /// That of the truth.
    pub truth: bool,
    /// That of the prediction.
    pub prediction: bool,
}

/// The times at which two tables are compared.
///
/// A time that only one side has was looked at by one side alone and is left out, if the other side's table lists all
/// times: as `lists_all` says, or because it has times without a box. Another table has no rows where nothing was
/// found: there, a time between its first and its last is one without boxes, at which all boxes of the other side are
/// missed, or false. Both kinds are named and counted.
///
/// # Errors
/// [`ValidationError::Invalid`] if neither has a time, [`ValidationError::Mismatch`] if calendars differ.
pub fn compared_times(
    truth: &[BoxesAt],
    predicted: &[BoxesAt],
    lists_all: ListsAll,
) -> Result<ComparedTimes> {
    let Some(&(zero, _)) = truth.first().or(predicted.first()) else {
        return Err(ValidationError::Invalid(
            "there are no boxes to score".into(),
        ));
    };
    let sides = [
        Side::of(truth, zero, lists_all.truth)?,
        Side::of(predicted, zero, lists_all.prediction)?,
    ];
    let mut all: BTreeMap<i64, Time> = BTreeMap::new();
    for (time, _) in truth.iter().chain(predicted) {
        all.insert(time.seconds_since(zero), *time);
    }
    let mut compared = ComparedTimes {
        times: Vec::new(),
        coverage: TimeCoverage::default(),
    };
    let coverage = &mut compared.coverage;
    for (key, time) in all {
        let boxes = sides.each_ref().map(|side| side.boxes.get(&key));
        let left_out = sides
            .iter()
            .any(|side| !side.boxes.contains_key(&key) && !side.is_empty_at(key));
        let has = |side: Option<&Vec<GeoBox>>| side.is_some_and(|boxes| !boxes.is_empty());
        match boxes {
            _ if left_out => coverage.left_out.push(time),
            [found, None] if has(found) => coverage.only_in_truth.push(time),
            [None, found] if has(found) => coverage.only_in_prediction.push(time),
            _ => coverage.both += 1,
        }
        if !left_out {
            let list = |side: Option<&Vec<GeoBox>>| side.cloned().unwrap_or_default();
            compared.times.push((time, boxes.map(list)));
        }
    }
    Ok(compared)
}

/// The boxes of one table by seconds from a common zero.
struct Side {
    boxes: BTreeMap<i64, Vec<GeoBox>>,
    lists_all_times: bool,
}

impl Side {
    fn of(table: &[BoxesAt], zero: Time, lists_all: bool) -> Result<Self> {
        let mut boxes: BTreeMap<i64, Vec<GeoBox>> = BTreeMap::new();
        for (time, more) in table {
            if time.calendar() != zero.calendar() {
                return Err(ValidationError::Mismatch {
                    what: "calendar of the boxes",
                    expected: zero.calendar().to_string(),
                    found: time.calendar().to_string(),
                });
            }
            let slot = boxes.entry(time.seconds_since(zero)).or_default();
            slot.extend(more);
        }
        Ok(Self {
            lists_all_times: lists_all || boxes.values().any(Vec::is_empty),
            boxes,
        })
    }

    /// Whether a time that the table does not have is one at which nothing was found.
    fn is_empty_at(&self, key: i64) -> bool {
        let (first, last) = (self.boxes.first_key_value(), self.boxes.last_key_value());
        let inside = first.is_some_and(|f| *f.0 < key) && last.is_some_and(|l| key < *l.0);
        inside && !self.lists_all_times
    }
}

/// Which times were compared.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeCoverage {
    /// Times that both sides have, be it without a box.
    pub both: u64,
    /// Times at which only the truth has boxes: all of them are missed.
    pub only_in_truth: SomeTimes,
    /// Times at which only the prediction has boxes: all of them are false.
    pub only_in_prediction: SomeTimes,
    /// Times at which the other side did not look, which are not scored.
    pub left_out: SomeTimes,
}

/// A number of times, the first ones by name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SomeTimes {
    /// Number of times.
    pub count: u64,
    /// The first few of them.
    pub first: Vec<String>,
}

/// How many times are named at most.
const NAMED: usize = 5;

impl SomeTimes {
    fn push(&mut self, time: Time) {
        self.count += 1;
        if self.first.len() < NAMED {
            self.first.push(time.to_string());
        }
    }
}

impl fmt::Display for SomeTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.count)?;
        if self.count > 0 {
            let more = if self.count as usize > self.first.len() {
                ", ..."
            } else {
                ""
            };
            write!(f, " ({}{more})", self.first.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use squall_data::{BoxClass, Calendar};

    fn day(day: i64) -> Time {
        Time::new(Calendar::NoLeap, 2000, 1, day, 0, 0, 0).unwrap()
    }

    fn table(days: &[(i64, usize)]) -> Vec<BoxesAt> {
        let geo = GeoBox {
            class: BoxClass::TropicalCyclone,
            west_deg: 10.0,
            south_deg: 10.0,
            east_deg: 20.0,
            north_deg: 20.0,
            confidence: None,
        };
        days.iter().map(|&(d, n)| (day(d), vec![geo; n])).collect()
    }

    fn compared(truth: &[BoxesAt], predicted: &[BoxesAt]) -> ComparedTimes {
        compared_times(truth, predicted, ListsAll::default()).unwrap()
    }

    #[test]
    fn a_table_without_empty_times_is_empty_within_its_period_and_silent_outside() {
        let truth = table(&[(1, 1), (4, 2)]);
        let predicted = table(&[(1, 1), (2, 3), (4, 0), (9, 1)]);
        let found = compared(&truth, &predicted);
        let counts: Vec<_> = (found.times.iter())
            .map(|(time, [truth, predicted])| (*time, truth.len(), predicted.len()))
            .collect();
        // The second day is empty in the truth; the ninth is after it.
        assert_eq!(counts, [(day(1), 1, 1), (day(2), 0, 3), (day(4), 2, 0)]);
        assert_eq!(found.coverage.only_in_prediction.count, 1);
        assert_eq!(found.coverage.left_out.first, [day(9).to_string()]);
        // A truth that lists empty times has not looked at the second day.
        let listing = table(&[(1, 1), (3, 0), (4, 2)]);
        let found = compared(&listing, &predicted);
        assert_eq!(found.times.len(), 2);
        assert_eq!(found.coverage.left_out.count, 3);
        // On the third day neither finds anything: nothing is missed.
        let silent = table(&[(1, 1), (4, 1)]);
        let found = compared(&listing, &silent);
        let coverage = &found.coverage;
        assert_eq!(coverage.both, 3);
        assert_eq!((coverage.only_in_truth.count, found.times.len()), (0, 3));
        let found = compared(&silent, &listing);
        assert_eq!(found.coverage.only_in_prediction.count, 0);
    }

    /// Blocks of days, as of a split, with a box at each time: the days between were not searched.
    #[test]
    fn a_table_that_lists_all_its_times_is_silent_between_them() {
        let truth = table(&[(1, 1), (2, 1), (3, 1), (4, 1)]);
        let predicted = table(&[(1, 1), (4, 1)]);
        assert_eq!(compared(&truth, &predicted).coverage.only_in_truth.count, 2);
        let prediction = ListsAll {
            prediction: true,
            ..ListsAll::default()
        };
        let found = compared_times(&truth, &predicted, prediction).unwrap();
        let coverage = &found.coverage;
        assert_eq!((coverage.both, coverage.left_out.count), (2, 2));
        assert_eq!((coverage.only_in_truth.count, found.times.len()), (0, 2));
        let truth_alone = ListsAll {
            truth: true,
            ..ListsAll::default()
        };
        let found = compared_times(&predicted, &truth, truth_alone).unwrap();
        assert_eq!(found.coverage.only_in_prediction.count, 0);
    }
}
