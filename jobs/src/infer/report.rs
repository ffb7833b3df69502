//! Events and report of an inference.

use super::{Gives, InferPlan, SkippedTime};
use crate::train::Outcome;
use serde::Serialize;
use squall_data::{ClassMask, TrackedBox};
use std::path::{Path, PathBuf};

/// An event during inference.
#[derive(Debug)]
#[non_exhaustive]
pub enum InferEvent<'a> {
    /// Before the first mask.
    Started(InferPlan),
    /// A mask has been computed but not yet written. Masks of files finished by earlier calls are not reported.
    Mask {
        /// Times done, including skipped ones and those of earlier calls; on the first rank, over all ranks.
        done: usize,
        /// Total number of times.
        total: usize,
        /// The mask.
        mask: &'a ClassMask,
    },
    /// The boxes of a time have been found but not yet written.
    Boxes {
        /// Times done, including skipped ones and those of earlier calls; on the first rank, over all ranks.
        done: usize,
        /// Total number of times.
        total: usize,
        /// The boxes, most confident first.
        boxes: &'a [TrackedBox],
    },
    /// The first rank has finished and waits for the others.
    Others {
        /// Times done by all ranks.
        done: usize,
        /// Total number of times.
        total: usize,
    },
    /// A mask file is finished.
    FileFinished(&'a Path),
}

/// The result of an inference; also `manifest.json` in the output folder, except for wall-clock times.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InferReport {
    /// How it ended.
    pub outcome: Outcome,
    /// Output per time.
    pub gives: Gives,
    /// Number of masks in the folder, or of times with boxes.
    pub masks: usize,
    /// Number of masks made by this call, on all ranks.
    pub new_masks: usize,
    /// Mask files in the folder, or box tables if there are no masks, in order of time.
    #[serde(serialize_with = "crate::metrics::paths_as_text")]
    pub files: Vec<PathBuf>,
    /// Skipped times.
    pub skipped: Vec<SkippedTime>,
    /// Number of input files that were skipped as a whole.
    pub skipped_files: usize,
    /// Missing input values that were replaced by the mean.
    pub missing_values: u64,
    /// Ranks that shared the work.
    pub ranks: usize,
    /// Ensemble members averaged per mask: models times views.
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

/// Shares of the time of all ranks between their first read and their last write; they add up to 1.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Spent {
    /// Computing.
    pub network: f64,
    /// Waiting for fields.
    pub input: f64,
    /// Waiting for the writer.
    pub output: f64,
    /// Everything else: progress reports, starting and ending threads.
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
