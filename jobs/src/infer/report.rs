//! What happens during an inference, and what came of it.

use super::{Gives, InferPlan, SkippedTime};
use crate::train::Outcome;
use serde::Serialize;
use squall_data::{ClassMask, TrackedBox};
use std::path::{Path, PathBuf};

/// What happens during inference.
#[derive(Debug)]
#[non_exhaustive]
pub enum InferEvent<'a> {
    /// Before the first mask.
    Started(InferPlan),
    /// A mask is made, though not written yet. Masks of files that an earlier call finished do not come.
    Mask {
        /// Times done, those of earlier calls and those left out included; on the first rank, those of all ranks.
        done: usize,
        /// Times in all.
        total: usize,
        /// The mask.
        mask: &'a ClassMask,
    },
    /// The boxes of a time are found, though not written yet.
    Boxes {
        /// Times done, those of earlier calls and those left out included; on the first rank, those of all ranks.
        done: usize,
        /// Times in all.
        total: usize,
        /// The boxes, the surest first.
        boxes: &'a [TrackedBox],
    },
    /// The first rank has no more to do and waits for the others.
    Others {
        /// Times done by all ranks.
        done: usize,
        /// Times in all.
        total: usize,
    },
    /// A mask file is finished.
    FileFinished(&'a Path),
}

/// What came out of an inference; also `manifest.json` in the output folder, but for the times of the clock.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InferReport {
    /// How it ended.
    pub outcome: Outcome,
    /// What was made of each time.
    pub gives: Gives,
    /// Masks in the folder, or times of which boxes are.
    pub masks: usize,
    /// Masks made by this call, on all ranks.
    pub new_masks: usize,
    /// Mask files in the folder, or tables of boxes where there are no masks, in order of time.
    #[serde(serialize_with = "crate::metrics::paths_as_text")]
    pub files: Vec<PathBuf>,
    /// Times left out.
    pub skipped: Vec<SkippedTime>,
    /// Input files that were left out whole.
    pub skipped_files: usize,
    /// Missing input values that were replaced by the mean.
    pub missing_values: u64,
    /// Ranks that shared the work.
    pub ranks: usize,
    /// Members of the ensemble that were averaged for each mask: models times views.
    pub members: usize,
    /// Seconds of this call.
    pub seconds: f64,
    /// Seconds in which networks waited for fields, over all ranks.
    pub wait_seconds: f64,
    /// Seconds in which networks computed, over all ranks.
    pub compute_seconds: f64,
    /// Where the time went.
    pub spent: Spent,
}

/// Shares of the time of all ranks from their first read to their last write; they add up to 1.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Spent {
    /// The network computed.
    pub network: f64,
    /// It waited for fields.
    pub input: f64,
    /// It waited for masks to be written.
    pub output: f64,
    /// Everything else: progress, threads that begin and end.
    pub rest: f64,
}

impl Spent {
    pub(super) fn of(network: f64, input: f64, output: f64, all: f64) -> Self {
        if all <= 0.0 {
            return Self::default();
        }
        Self {
            network: network / all,
            input: input / all,
            output: output / all,
            rest: (all - network - input - output).max(0.0) / all,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Spent;

    #[test]
    fn shares_of_the_time_add_up_to_one() {
        let spent = Spent::of(5.0, 2.0, 1.0, 10.0);
        let shares = [spent.network, spent.input, spent.output, spent.rest];
        assert_eq!(shares, [0.5, 0.2, 0.1, 0.2]);
        // Clocks of several threads may count a little more than all of it.
        assert_eq!(Spent::of(6.0, 5.0, 0.0, 10.0).rest, 0.0);
        assert_eq!(Spent::of(0.0, 0.0, 0.0, 0.0), Spent::default());
    }
}
