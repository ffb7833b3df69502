//! Gradients between their backward pass and their use.

use crate::train::objective::BatchLoss;
use crate::train::team::Signals;
use squall_model::BatchStatistics;

/// A step after the passes of one or more of its batches.
#[derive(Debug)]
pub(in crate::train) struct Begun {
    pub pending: PendingStep,
    /// The loss, summed over these batches.
    pub loss: BatchLoss,
    /// How many they are.
    pub batches: usize,
}

impl Begun {
    /// A step after its first batch; `step` is the number of steps before it, `scale` what its loss was multiplied by.
    pub fn with((step, scale): (u64, f32), loss: BatchLoss, statistics: BatchStatistics) -> Self {
        Self {
            pending: PendingStep {
                step,
                scale,
                count: loss.count,
                sums: None,
                gradients: None,
                statistics,
                fault: None,
                bad_field: None,
            },
            loss,
            batches: 1,
        }
    }

    /// The same step after one more batch.
    pub fn and(mut self, loss: BatchLoss, statistics: BatchStatistics) -> Self {
        self.loss = self.loss.and(loss);
        self.pending.statistics.append(statistics);
        self.batches += 1;
        self
    }
}

/// A step between its backward pass and its update.
#[derive(Debug, Clone)]
pub(crate) struct PendingStep {
    /// Steps done before it.
    pub step: u64,
    /// What the loss was multiplied by.
    pub scale: f32,
    /// What a rank divided its gradients by: pixels or samples of a batch, the same on all.
    pub count: f64,
    /// What follows from the sums over ranks; none while they are still exchanged.
    pub sums: Option<StepSums>,
    /// The gradients; none while they are exchanged, or where they lie in the learner's buffer.
    pub gradients: Option<Vec<f32>>,
    /// Batch statistics of one batch after the other, which travel between ranks with the facts of the step.
    pub statistics: BatchStatistics,
    /// Why the loss of this rank is not finite.
    pub fault: Option<String>,
    /// The first value of its batches that is not finite, noted early if batches are gone when the gradients are used.
    pub bad_field: Option<String>,
}

/// What follows from the sums of a step's facts over ranks, the same on all.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct StepSums {
    /// The recipe's loss.
    #[serde(deserialize_with = "crate::metrics::number_or_nan")]
    pub loss: f64,
    /// What the gradients are to be multiplied by, apart from the loss scale.
    pub factor: f64,
    /// Ranks whose loss is not finite.
    pub not_finite: usize,
    /// What ranks said of the run. Not saved: it is not the state of one.
    #[serde(skip)]
    pub signals: Signals,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A checkpoint may hold gradients of a step that will be skipped.
    #[test]
    fn a_loss_that_is_not_finite_is_read_again() {
        for loss in [f64::NAN, f64::INFINITY] {
            let written = StepSums {
                loss,
                factor: 0.5,
                not_finite: 1,
                signals: Signals::default(),
            };
            let text = serde_json::to_string(&written).unwrap();
            let read: StepSums = serde_json::from_str(&text).unwrap();
            assert!(read.loss.is_nan(), "{text}");
            assert_eq!((read.factor, read.not_finite), (0.5, 1));
        }
    }
}
