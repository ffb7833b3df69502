//! Which predicted box found which true one, and which times of two tables belong together.

use super::{DetectionScore, DetectionScorer};
use crate::bootstrap::Bootstrap;
use crate::error::{Result, ValidationError};
use serde::{Deserialize, Serialize};
use squall_data::{GeoBox, Time};
use std::collections::BTreeMap;
use std::fmt;

/// The boxes of one time.
pub type BoxesAt = (Time, Vec<GeoBox>);

/// Scores two tables of boxes.
///
/// A time that only one side has was looked at by one side alone and is left out, if the other side's table also lists times
/// without a box. A table that lists none has no rows where nothing was found: there, a time between its first and its last
/// is one without boxes. Both kinds are named and counted.
///
/// # Errors
/// [`ValidationError::Invalid`] if the two have no time in common, [`ValidationError::Mismatch`] if calendars differ.
pub fn score_boxes(
    truth: &[BoxesAt],
    predicted: &[BoxesAt],
    bootstrap: &Bootstrap,
) -> Result<BoxScores> {
    let Some(&(zero, _)) = truth.first().or(predicted.first()) else {
        return Err(ValidationError::Invalid(
            "there are no boxes to score".into(),
        ));
    };
    let sides = [Side::of(truth, zero)?, Side::of(predicted, zero)?];
    let mut times: BTreeMap<i64, Time> = BTreeMap::new();
    for (time, _) in truth.iter().chain(predicted) {
        times.insert(time.seconds_since(zero), *time);
    }
    let mut coverage = TimeCoverage::default();
    let mut scorer = DetectionScorer::new();
    for (key, time) in times {
        let [truth, predicted] = sides.each_ref().map(|side| side.boxes.get(&key));
        let left_out = sides
            .iter()
            .any(|side| !side.boxes.contains_key(&key) && !side.is_empty_at(key));
        match (truth, predicted) {
            _ if left_out => coverage.left_out.push(time),
            (Some(_), None) => coverage.only_in_truth.push(time),
            (None, Some(_)) => coverage.only_in_prediction.push(time),
            _ => coverage.both += 1,
        }
        if !left_out {
            let list = |side: Option<&Vec<GeoBox>>| side.cloned().unwrap_or_default();
            scorer.add(time, &list(truth), &list(predicted))?;
        }
    }
    let score = scorer.score(bootstrap).ok_or_else(|| {
        ValidationError::Invalid(
            "the boxes of the prediction and of the truth have no time in common".into(),
        )
    })?;
    Ok(BoxScores { coverage, score })
}

/// The boxes of one table by seconds from a common zero.
struct Side {
    boxes: BTreeMap<i64, Vec<GeoBox>>,
    lists_empty_times: bool,
}

impl Side {
    fn of(table: &[BoxesAt], zero: Time) -> Result<Self> {
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
            lists_empty_times: boxes.values().any(Vec::is_empty),
            boxes,
        })
    }

    /// Whether a time that the table does not have is one at which nothing was found.
    fn is_empty_at(&self, key: i64) -> bool {
        let (first, last) = (self.boxes.first_key_value(), self.boxes.last_key_value());
        let inside = first.is_some_and(|f| *f.0 < key) && last.is_some_and(|l| key < *l.0);
        inside && !self.lists_empty_times
    }
}

/// Which times were compared.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeCoverage {
    /// Times that both sides have.
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
    /// How many.
    pub count: u64,
    /// The first few.
    pub first: Vec<String>,
}

/// So many times are named.
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

/// Scores of two tables of boxes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BoxScores {
    /// Which times were compared.
    pub coverage: TimeCoverage,
    /// Average precision.
    #[serde(flatten)]
    pub score: DetectionScore,
}
