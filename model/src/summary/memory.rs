//! The memory that a training step or inference needs, from shapes alone.
//!
//! `validation/memory.sh` compares these numbers with measured peaks; docs/speed.md has the results.

use super::Summary;
use crate::error::{ModelError, Result};
use crate::networks::strips::{HALO, rows_of_strip};
use crate::ops::{Backend, Convolution};
use crate::storage::{Recompute, Storage};
use candle_core::DType;
use std::num::NonZeroUsize;

/// Bytes of code, libraries and threads in inference, measured on fields of 48 x 72.
const INFERENCE: u64 = 37 << 20;

/// The same for training.
const TRAINING: u64 = 46 << 20;

/// Additional bytes where layers compute in two data types and need kernels for both.
const SECOND_TYPE: u64 = 3 << 20;

impl Summary {
    /// Peak bytes of a training step of `batch` samples, with activations stored as in `storage` and an optimiser that
    /// keeps `state` values (Adam: two per parameter). It counts the tape and the tensors alive with it at the peak,
    /// parameters, gradients, optimiser state, and the program itself.
    ///
    /// `validation/memory.sh` compares it with measured peaks; docs/speed.md has the results.
    pub fn training_bytes(
        &self,
        backend: Backend,
        batch: usize,
        storage: &Storage,
        state: usize,
    ) -> u64 {
        let [height, width, channels] = self.input;
        let output = self.layers.last();
        let output: usize = output.map_or(0, |row| row.output.iter().product());
        // The input, the loss's copy of the output, and its gradient.
        let ends = 4 * self.frames * (height * width * channels + 2 * output);
        let ends = ends as u64 + self.input_copy();
        let (dtype, convolutions) = (storage.dtype, self.convolutions());
        let packed = convolutions
            .iter()
            .map(|conv| backend.packed_bytes(dtype, conv));
        let threads = convolutions
            .iter()
            .map(|conv| backend.thread_bytes(dtype, conv));
        let batch = batch.max(1) as u64;
        // Packed kernels exist once, whatever the number of samples.
        let working = |conv: &Convolution, dtype: DType| {
            backend.working_bytes(dtype, conv) / batch + backend.copied_bytes(dtype, conv)
        };
        let activations = self.trace.peak_bytes(storage, &working);
        let activations = activations + activations / holes(storage.recompute);
        batch * (activations + ends)
            + 4 * (2 * self.parameters + state) as u64
            + packed.max().unwrap_or(0)
            + threads.max().unwrap_or(0)
            + backend.library_bytes(dtype, convolutions)
            + TRAINING
            + u64::from(storage.layers.is_some()) * SECOND_TYPE
    }

    /// Peak bytes while the first process broadcasts its state before the first step: parameters and `state` optimiser
    /// values, in place and in one message, and the program itself. For large networks on small fields this exceeds a
    /// step. Reading a checkpoint never does, as its tensors are read in place.
    pub fn spreading_bytes(&self, state: usize) -> u64 {
        4 * 2 * (self.parameters + state) as u64 + TRAINING
    }

    /// Peak bytes of inference of `batch` samples, with activations stored as in `storage` and the last part in this
    /// many strips ([`crate::Network::infer_in_strips`]). It counts parameters and their packed copies, the input, the
    /// fields that are alive at the same time, the logits, and the program itself.
    ///
    /// As with [`Self::training_bytes`], it is compared with measured peaks.
    ///
    /// # Errors
    /// [`ModelError::Strips`] if the network cannot be computed in strips.
    pub fn inference_bytes(
        &self,
        backend: Backend,
        batch: usize,
        storage: &Storage,
        strips: NonZeroUsize,
    ) -> Result<u64> {
        let (dtype, batch) = (storage.dtype, batch as u64);
        let activations = self.inference_activations(backend, batch, storage, strips)?;
        let (kept, made) = (
            self.trace.prepared_once.iter(),
            self.trace.prepared_each_pass.iter(),
        );
        let threads = kept.clone().map(|conv| backend.thread_bytes(dtype, conv));
        let kept: u64 = kept.map(|conv| backend.kept_bytes(dtype, conv)).sum();
        let made = made.map(|conv| backend.kept_bytes(dtype, conv)).max();
        let kernels = 4 * self.parameters as u64 + kept + made.unwrap_or(0);
        let output = self.trace.inference_rows().last();
        let output = output.map_or(0, |row| row.output.iter().product());
        let [height, width, channels] = self.input;
        let ends = 4 * self.frames * (height * width * channels + output);
        let ends = ends as u64 + self.input_copy();
        // Heap fragmentation, measured as one eighth.
        let activations = activations + activations / 8;
        // The working memory of the operations grows with the network.
        let library = backend.library_bytes(dtype, self.convolutions());
        let loops = kernels / 20 + threads.max().unwrap_or(0) + library;
        Ok(batch * ends + activations + kernels + loops + INFERENCE)
    }

    /// Peak bytes of the fields that inference of `batch` samples holds, excluding its input and logits.
    fn inference_activations(
        &self,
        backend: Backend,
        batch: u64,
        storage: &Storage,
        strips: NonZeroUsize,
    ) -> Result<u64> {
        let dtype = storage.dtype;
        let live = self.trace.live_values(storage);
        let bytes = |values: u64| values * dtype.size_in_bytes() as u64;
        let wrapped = self.trace.convolutions.iter();
        let wrapped = wrapped.map(|conv| backend.wrapped_bytes(dtype, conv));
        // A GPU's library needs concatenated channels in one tensor.
        let joined = if backend.is_gpu() {
            bytes(self.trace.most_concatenated)
        } else {
            0
        };
        let copied = wrapped.max().unwrap_or(0) + joined;
        if strips.get() == 1 {
            return Ok(batch * (bytes(live.whole_field) + copied));
        }
        if !self.trace.has_strips() {
            return Err(ModelError::Strips {
                network: self.network.clone(),
                strips: strips.get(),
            });
        }
        let [height, _, _] = self.input;
        let rows = height.min(rows_of_strip(height, strips) + HALO) as u64;
        let strip = (bytes(live.in_strips) + copied) * rows / height.max(1) as u64;
        let before = batch * (bytes(live.before_strips) + copied);
        // Strips are computed sample by sample.
        Ok(before.max(batch * bytes(live.kept_for_strips) + strip))
    }

    /// Bytes of the copy of the input with the channels that the network adds; 0 if it adds none.
    fn input_copy(&self) -> u64 {
        let [height, width, channels] = self.input;
        let taken = self.trace.input_values();
        if taken == (self.frames * height * width * channels) as u64 {
            0
        } else {
            4 * taken
        }
    }
}

/// The measured heap fragmentation is one byte in this many of a step's activations. It is higher where tensors of many
/// sizes come and go, as they do inside blocks.
fn holes(recompute: Recompute) -> u64 {
    match recompute {
        Recompute::Blocks => 9,
        Recompute::None | Recompute::Norms => 20,
    }
}
