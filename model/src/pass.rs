//! One pass through a network, and the tape that its forward pass writes and its backward pass reads from the end.
//!
//! - `tape`: what layers push and pop. It holds tensors as [`Storage`] says: as they are, rounded to bf16, or not at
//!   all where a normalisation can be applied again to what it was given.
//! - `block`: parts of a network that leave only their inputs on the tape (gradient checkpointing). Their forward pass
//!   runs again before their backward pass, with the same dropout keys and without recording batch statistics twice.
//! - `statistics`: means and variances that batch normalisations saw, for their running statistics.

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
/// Layers push what they need on the way forward and pop it on the way back, so memory is freed as the backward pass
/// goes, and a layer used twice needs no bookkeeping.
#[derive(Debug)]
pub struct Pass {
    pub(crate) backend: Backend,
    /// How the rows that inference computes lie in their field; none where it computes the whole field.
    pub(crate) rows: Option<Rows>,
    storage: Storage,
    training: bool,
    /// Layers leave something on the tape: not in inference, and not inside a block that will run again.
    recording: bool,
    /// A block of layers is running a second time, for its backward pass.
    replaying: bool,
    tape: Vec<Saved>,
    /// Tensors that the tape holds in another form than their own, by the tensor: each is rounded only once.
    kept: HashMap<TensorId, Kept>,
    /// What batch normalisations saw so far.
    statistics: Vec<Recorded>,
    /// The ranks that normalise with this one.
    norm_ranks: Option<Arc<dyn BatchNormRanks>>,
    /// CUDA graphs of both passes, if these were captured before, and which of their launches this pass is.
    captured: Option<(Arc<Captured>, u64)>,
    /// The state of the generator of dropout keys.
    key: u64,
    /// Dropout has asked for a key, so that every pass differs.
    has_drawn_keys: bool,
}

impl Pass {
    /// A training pass; `key` (a function of seed and step) decides which values dropout keeps.
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

    /// This pass, launched as the graphs of `captured` if there are any; whoever gives them made sure that they fit
    /// ([`Captured::fits`]).
    #[must_use]
    pub fn launching(self, captured: Option<Arc<Captured>>) -> Self {
        let captured = captured.map(|captured| (captured, 0));
        Self { captured, ..self }
    }

    /// The graphs that [`Self::launching`] was given, and the number of the launch.
    pub(crate) fn captured(&self) -> Option<&(Arc<Captured>, u64)> {
        self.captured.as_ref()
    }

    /// Notes which of its graph's launches the forward pass was.
    #[cfg(feature = "cuda")]
    pub(crate) fn was_launched(&mut self, number: u64) {
        if let Some((_, launch)) = &mut self.captured {
            *launch = number;
        }
    }

    /// This pass, normalising together with the passes of `norm_ranks`, if there are any.
    #[must_use]
    pub fn normalising(self, norm_ranks: Option<Arc<dyn BatchNormRanks>>) -> Self {
        Self { norm_ranks, ..self }
    }

    /// The ranks that [`Self::normalising`] was given.
    pub(crate) fn norm_ranks(&self) -> Option<&dyn BatchNormRanks> {
        self.norm_ranks.as_deref()
    }

    /// Whether layers normalise by the batch and drop values out.
    pub(crate) fn is_training(&self) -> bool {
        self.training
    }

    /// Whether a block runs again, so that nobody reads its output.
    pub(crate) fn is_replaying(&self) -> bool {
        self.replaying
    }

    /// What the layer that owns this parameter computes in.
    pub(crate) fn dtype_of(&self, parameter: ParameterId) -> DType {
        self.storage.of(parameter)
    }

    /// The type that the layer that owns this kernel gives its output in.
    pub(crate) fn dtype_given_by(&self, kernel: ParameterId) -> DType {
        self.storage.given_by(kernel)
    }

    /// The output `y` of the layer that owns this kernel, in the type that it gives it in.
    pub(crate) fn output(&self, kernel: ParameterId, y: &Tensor) -> Result<Tensor> {
        self.backend.convert(y, self.dtype_given_by(kernel))
    }

    /// The gradient `dy` in the type that the layer of this parameter computes in; another type's is freed.
    pub(crate) fn gradient(&self, layer: ParameterId, dy: Tensor) -> Result<Tensor> {
        self.backend.convert(&dy, self.dtype_of(layer))
    }

    /// A fresh key for one dropout layer.
    pub(crate) fn next_key(&mut self) -> u64 {
        self.has_drawn_keys = true;
        self.key = self.key.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.key
    }

    /// What the next key follows from.
    #[cfg(feature = "cuda")]
    pub(crate) fn key(&self) -> u64 {
        self.key
    }

    /// Whether a layer does something different in every pass.
    #[cfg(feature = "cuda")]
    pub(crate) fn has_drawn_keys(&self) -> bool {
        self.has_drawn_keys
    }

    /// The statistics that the batch normalisations have recorded, left where they lie; the pass has none afterwards.
    #[cfg(feature = "cuda")]
    pub(crate) fn take_statistics(&mut self) -> Vec<Recorded> {
        std::mem::take(&mut self.statistics)
    }

    /// Sets the statistics of the batch normalisations: those of a launch of the graphs, which ran no layer.
    #[cfg(feature = "cuda")]
    pub(crate) fn give_statistics(&mut self, seen: Vec<Recorded>) {
        self.statistics = seen;
    }

    /// Notes the statistics of a batch, once however often the layer runs.
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

    /// What the batch normalisations of this pass saw; a second call gives nothing.
    ///
    /// # Errors
    /// [`crate::ModelError::Gpu`] if it cannot be read.
    pub fn batch_statistics(&mut self) -> Result<BatchStatistics> {
        BatchStatistics::of(std::mem::take(&mut self.statistics))
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
