//! How much memory a training step or inference takes, from shapes alone.
//!
//! `validation/memory.sh` compares these numbers with measured peaks; docs/speed.md has the results.

use super::Summary;
use crate::error::{ModelError, Result};
use crate::networks::strips::{HALO, rows_of_strip};
use crate::ops::{Backend, Convolution};
use crate::storage::{Recompute, Storage};
use candle_core::DType;
use std::num::NonZeroUsize;

/// Code, libraries and threads of inference, bytes, as measured on fields of 48 x 72.
const INFERENCE: u64 = 37 << 20;

/// The same of training.
const TRAINING: u64 = 46 << 20;

/// More of it where some layers compute in another type than the others: kernels of both.
const SECOND_TYPE: u64 = 3 << 20;

impl Summary {
    /// Bytes that a training step of `batch` samples needs at its peak, with activations stored as `storage` says and
    /// an optimiser that keeps `state` values (Adam: two per parameter): the tape and the tensors beside it where they
    /// are most, parameters, gradients, the optimiser's state, and what the program itself takes.
    ///
    /// `validation/memory.sh` compares it with measured peaks: docs/speed.md has them.
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
        // The input, what the loss reads and its gradient.
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
        // Kernels once, however many samples.
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

    /// Bytes that a process needs while the state of the first of several goes to the others, before their first step:
    /// parameters and the optimiser's `state` values where they belong and in one message, and what the program itself
    /// takes. Of large networks on small fields that is more than a step needs; reading a checkpoint, into where it
    /// belongs, never is.
    pub fn spreading_bytes(&self, state: usize) -> u64 {
        4 * 2 * (self.parameters + state) as u64 + TRAINING
    }

    /// Bytes that inference of `batch` samples needs at its peak, with activations stored as `storage` says and the
    /// last part in this many strips ([`crate::Network::infer_in_strips`]): parameters and what is made of them for
    /// speed, the input, the fields that are alive together at any operation, the logits, and what the program itself
    /// takes.
    ///
    /// As [`Self::training_bytes`] it is compared with measured peaks.
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
        // An eighth are holes in the heap, as measured.
        let activations = activations + activations / 8;
        // What the loops themselves hold grows with the network.
        let library = backend.library_bytes(dtype, self.convolutions());
        let loops = kernels / 20 + threads.max().unwrap_or(0) + library;
        Ok(batch * ends + activations + kernels + loops + INFERENCE)
    }

    /// Bytes of the fields that inference of `batch` samples holds at once, without its input and its logits.
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
        // A GPU's library reads channels of several tensors from one only.
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
        // Strips are computed of one sample after the other.
        Ok(before.max(batch * bytes(live.kept_for_strips) + strip))
    }

    /// Bytes of the input with what the network adds to it, if it adds any.
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

/// One byte in this many of a step's activations is a hole in the heap between others, as measured: more where the
/// tensors that come and go are of many sizes, as they are inside blocks.
fn holes(recompute: Recompute) -> u64 {
    match recompute {
        Recompute::Blocks => 9,
        Recompute::None | Recompute::Norms => 20,
    }
}
