//! Gradients between their backward pass and their use.

use crate::train::team::Signals;
use squall_model::BatchStatistics;

/// The gradients of a step between its backward pass and its update.
#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    /// Steps done before it.
    pub step: u64,
    /// What the loss was multiplied by.
    pub scale: f32,
    /// What a rank divided its gradients by: pixels or samples of its batch, the same on all.
    pub count: f64,
    /// What all ranks together know of it; none while they are still exchanging it.
    pub shared: Option<Shared>,
    /// The gradients; none while they are exchanged, or where they lie in the learner's buffer.
    pub gradients: Option<Vec<f32>>,
    /// Whose batch statistics the facts hold.
    pub statistics: BatchStatistics,
    /// Why the loss of this rank is no number.
    pub fault: Option<String>,
    /// The first value of its batch that is no number, of a batch that is gone when the gradients are used.
    pub bad_field: Option<String>,
}

/// What all ranks together know of a step.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Shared {
    /// The recipe's loss.
    pub loss: f64,
    /// What the gradients are to be multiplied by, apart from the loss scale.
    pub factor: f64,
    /// Ranks whose loss is no number.
    pub not_finite: usize,
    /// What ranks said of the run. Not saved: it is not the state of one.
    #[serde(skip)]
    pub signals: Signals,
}
