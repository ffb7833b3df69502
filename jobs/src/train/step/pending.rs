//! Gradients between their backward pass and the update that applies them.

use crate::train::objective::BatchLoss;
use crate::train::team::Signals;
use squall_model::BatchStatistics;

/// A step after the passes of some of its batches.
#[derive(Debug)]
pub(in crate::train) struct Begun {
    pub pending: PendingStep,
    /// The loss, combined over these batches.
    pub loss: BatchLoss,
    /// The number of these batches.
    pub batches: usize,
}

impl Begun {
    /// Starts a step with its first batch; `step` is the number of steps before it, `scale` its loss scale.
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

    /// Adds one more batch.
    pub fn and(mut self, loss: BatchLoss, statistics: &BatchStatistics) -> Self {
        self.loss = self.loss.and(loss);
        self.pending.statistics.include(statistics);
        self.batches += 1;
        self
    }
}

/// A step between its backward pass and its update.
#[derive(Debug, Clone)]
pub(crate) struct PendingStep {
    /// Steps done before it.
    pub step: u64,
    /// The loss scale.
    pub scale: f32,
    /// The divisor that each rank applied to its gradients: pixels or samples of a batch, the same on all ranks.
    pub count: f64,
    /// Results of the sums over ranks; `None` during the exchange.
    pub sums: Option<StepSums>,
    /// The gradients; `None` during the exchange, or while they are in the learner's buffer.
    pub gradients: Option<Vec<f32>>,
    /// Batch statistics: summed over the batches so far, their mean at the end of the step; they are exchanged with the
    /// facts of the step.
    pub statistics: BatchStatistics,
    /// Why this rank's loss is not finite.
    pub fault: Option<String>,
    /// The first non-finite value of its batches, recorded early if the batches are gone when the gradients are
    /// applied.
    pub bad_field: Option<String>,
}

/// Results of summing a step's facts over ranks, identical on all ranks.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct StepSums {
    /// The recipe's loss.
    #[serde(deserialize_with = "crate::metrics::number_or_nan")]
    pub loss: f64,
    /// The factor to apply to the gradients, besides the loss scale.
    pub factor: f64,
    /// Number of ranks with a non-finite loss.
    pub not_finite: usize,
    /// Signals that ranks raised. Not saved, because they are not part of the state.
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
