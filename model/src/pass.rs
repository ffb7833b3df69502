//! One forward and backward pass through a network, and the tape between them: a stack that the forward pass pushes and
//! the backward pass pops.
//!
//! - `tape`: what layers push and pop. It holds tensors as [`Storage`] prescribes: unchanged, rounded to bf16, or not
//!   at all where a normalisation can be recomputed from its input.
//! - `block`: parts of a network that leave only their inputs on the tape (gradient checkpointing). Their forward pass
//!   runs again before their backward pass, with the same dropout keys and without recording batch statistics twice.
//! - `statistics`: the batch means and variances that update the running statistics.

mod block;
mod statistics;
mod tape;

pub use statistics::BatchStatistics;
pub(crate) use statistics::Recorded;
pub(crate) use tape::{Normed, Saved};

use crate::captured::Captured;
use crate::error::Result;
use crate::ops::conv_spec::Rows;
use crate::ops::norm::BatchNormRanks;
use crate::ops::{Backend, BatchNormSaved};
use crate::parameters::{BufferId, ParameterId};
use crate::storage::Storage;
use candle_core::{DType, Tensor, TensorId};
use std::collections::HashMap;
use std::sync::Arc;
use tape::Kept;

/// The state of one forward pass and, in training, of its backward pass.
///
/// Layers push what their backward pass needs and pop it there, so memory is freed as the backward pass proceeds, and a
/// layer used twice needs no bookkeeping.
#[derive(Debug)]
pub struct Pass {
    pub(crate) backend: Backend,
    /// The strip of the field that inference computes; `None` for the whole field.
    pub(crate) rows: Option<Rows>,
    storage: Storage,
    training: bool,
    /// Whether layers push to the tape: false in inference and inside a block that will be replayed.
    recording: bool,
    /// Whether a block is being replayed for its backward pass.
    replaying: bool,
    tape: Vec<Saved>,
    /// Tensors that the tape holds in converted form, by tensor id, so that each is converted only once.
    kept: HashMap<TensorId, Kept>,
    /// Batch statistics recorded so far.
    statistics: Vec<Recorded>,
    /// The ranks that share batch statistics with this one.
    norm_ranks: Option<Arc<dyn BatchNormRanks>>,
    /// The CUDA graphs captured for both passes, if any, and the launch number of this pass.
    captured: Option<(Arc<Captured>, u64)>,
    /// State of the generator of dropout keys.
    key: u64,
    /// Whether dropout has drawn a key, which makes every pass different.
    has_drawn_keys: bool,
}

impl Pass {
    /// A training pass. `key` (derived from seed and step) determines which values dropout keeps.
    pub fn train(backend: Backend, storage: impl Into<Storage>, key: u64) -> Self {
        Self {
            backend,
            rows: None,
            storage: storage.into(),
            training: true,
            recording: true,
            replaying: false,
            tape: Vec::new(),
            kept: HashMap::new(),
            statistics: Vec::new(),
            norm_ranks: None,
            captured: None,
            key,
            has_drawn_keys: false,
        }
    }

    /// An inference pass: running statistics, no tape, no dropout.
    pub fn infer(backend: Backend, storage: impl Into<Storage>) -> Self {
        Self {
            training: false,
            recording: false,
            ..Self::train(backend, storage, 0)
        }
    }

    /// Makes this pass launch the graphs of `captured`, if any. The caller has checked that they fit
    /// ([`Captured::fits`]).
    #[must_use]
    pub fn launching(self, captured: Option<Arc<Captured>>) -> Self {
        let captured = captured.map(|captured| (captured, 0));
        Self { captured, ..self }
    }

    /// The graphs passed to [`Self::launching`], and the launch number.
    pub(crate) fn captured(&self) -> Option<&(Arc<Captured>, u64)> {
        self.captured.as_ref()
    }

    /// Records the launch number of the forward pass.
    #[cfg(feature = "cuda")]
    pub(crate) fn was_launched(&mut self, number: u64) {
        if let Some((_, launch)) = &mut self.captured {
            *launch = number;
        }
    }

    /// Makes this pass share batch statistics with the other ranks of `norm_ranks`, if any.
    #[must_use]
    pub fn normalising(self, norm_ranks: Option<Arc<dyn BatchNormRanks>>) -> Self {
        Self { norm_ranks, ..self }
    }

    /// The ranks passed to [`Self::normalising`].
    pub(crate) fn norm_ranks(&self) -> Option<&dyn BatchNormRanks> {
        self.norm_ranks.as_deref()
    }

    /// Whether layers use batch statistics and apply dropout.
    pub(crate) fn is_training(&self) -> bool {
        self.training
    }

    /// Whether a block is being replayed, so that its output is not needed.
    pub(crate) fn is_replaying(&self) -> bool {
        self.replaying
    }

    /// The data type in which the layer that owns this parameter computes.
    pub(crate) fn dtype_of(&self, parameter: ParameterId) -> DType {
        self.storage.compute_dtype(parameter)
    }

    /// The output data type of the layer that owns this kernel.
    pub(crate) fn output_dtype(&self, kernel: ParameterId) -> DType {
        self.storage.output_dtype(kernel)
    }

    /// Converts `y`, the output of the layer that owns this kernel, to that layer's output type.
    pub(crate) fn output(&self, kernel: ParameterId, y: &Tensor) -> Result<Tensor> {
        self.backend.convert(y, self.output_dtype(kernel))
    }

    /// Converts the gradient `dy` to the type in which this parameter's layer computes, and frees the original.
    pub(crate) fn gradient(&self, layer: ParameterId, dy: Tensor) -> Result<Tensor> {
        self.backend.convert(&dy, self.dtype_of(layer))
    }

    /// A fresh key for one dropout layer.
    pub(crate) fn next_key(&mut self) -> u64 {
        self.has_drawn_keys = true;
        self.key = self.key.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.key
    }

    /// The generator state from which the next key follows.
    #[cfg(feature = "cuda")]
    pub(crate) fn key(&self) -> u64 {
        self.key
    }

    /// Whether any layer behaves differently in every pass.
    #[cfg(feature = "cuda")]
    pub(crate) fn has_drawn_keys(&self) -> bool {
        self.has_drawn_keys
    }

    /// Takes the recorded batch statistics without copying them from their device.
    #[cfg(feature = "cuda")]
    pub(crate) fn take_statistics(&mut self) -> Vec<Recorded> {
        std::mem::take(&mut self.statistics)
    }

    /// Replaces the recorded batch statistics by those of a graph launch, which runs no layers.
    #[cfg(feature = "cuda")]
    pub(crate) fn give_statistics(&mut self, seen: Vec<Recorded>) {
        self.statistics = seen;
    }

    /// Records the statistics of a batch, once even if the layer runs again.
    pub(crate) fn record_statistics(
        &mut self,
        mean: BufferId,
        variance: BufferId,
        saved: &BatchNormSaved,
    ) {
        if !self.replaying {
            let batch = saved.clone();
            self.statistics.push(Recorded {
                mean,
                variance,
                batch,
            });
        }
    }

    /// Takes the batch statistics of this pass; a second call returns none.
    ///
    /// # Errors
    /// [`crate::ModelError::Gpu`] if they cannot be read.
    pub fn batch_statistics(&mut self) -> Result<BatchStatistics> {
        BatchStatistics::from_recorded(std::mem::take(&mut self.statistics))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Layers that drop the same values would be one layer.
    #[test]
    fn every_layer_of_every_step_drops_other_values() {
        let mut keys = Vec::new();
        for step in 0..3 {
            let mut pass = Pass::train(Backend::Reference, DType::F32, step);
            keys.extend([pass.next_key(), pass.next_key(), pass.next_key()]);
            let mut again = Pass::train(Backend::Reference, DType::F32, step);
            assert_eq!(again.next_key(), keys[3 * step as usize]);
        }
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 9);
    }
}
