//! A network as a tree with shapes and costs, from shapes alone.

use crate::error::{ModelError, Result};
use crate::networks::strips::{HALO, rows_of_strip};
use crate::ops::{Backend, Convolution};
use crate::storage::{Recompute, Storage};
use crate::trace::Trace;
use candle_core::DType;
use serde::Serialize;
use std::fmt;
use std::num::NonZeroUsize;

/// One layer with its costs for one sample.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Path in the network.
    pub name: String,
    /// Output (h, w, c).
    pub output: [usize; 3],
    /// Trainable values.
    pub parameters: usize,
    /// Floating-point operations of the forward pass; a multiply-add counts 2.
    pub forward_flops: u64,
}

/// Costs of a network for one sample of a given size.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// The network's name.
    pub network: String,
    /// Input (h, w, c) of a frame.
    pub input: [usize; 3],
    /// Frames of a sample: 1, but for networks over time.
    pub frames: usize,
    /// Trainable values.
    pub parameters: usize,
    /// Floating-point operations of one forward pass.
    pub forward_flops: u64,
    /// Floating-point operations of inference, which leaves out what only teaches: the decoder of a detector.
    pub inference_flops: u64,
    /// Floating-point operations of one training step per sample: three forward passes.
    pub training_flops: u64,
    /// Bytes of f32 activations that a training step keeps per sample: every layer's output once.
    pub activation_bytes: u64,
    /// Layers in forward order.
    pub layers: Vec<Row>,
    #[serde(skip)]
    pub(crate) trace: Trace,
}

impl Summary {
    pub(crate) fn new(network: &str, frames: usize, input: [usize; 3], trace: Trace) -> Self {
        let forward_flops = trace.rows.iter().map(|row| row.forward_flops).sum();
        Self {
            network: network.to_string(),
            input,
            frames,
            parameters: trace.rows.iter().map(|row| row.parameters).sum::<usize>()
                + trace.parameters_skipped,
            forward_flops,
            inference_flops: trace
                .inference_rows()
                .iter()
                .map(|row| row.forward_flops)
                .sum(),
            training_flops: 3 * forward_flops,
            activation_bytes: 4 * trace.output_values,
            layers: trace.rows.clone(),
            trace,
        }
    }

    /// The convolutions in forward order, each as often as it runs.
    pub fn convolutions(&self) -> &[Convolution] {
        &self.trace.convolutions
    }

    /// Bytes that a training step of `batch` samples needs at its peak, with activations stored as `storage` says and
    /// an optimiser that keeps `state` values (Adam: two per parameter): the tape and the tensors beside it where they
    /// are most, parameters, gradients, the optimiser's state, and what the program itself takes.
    ///
    /// Layers that are named to stay in f32 count like the others.
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
        let working = |conv: &Convolution| {
            backend.working_bytes(dtype, conv) / batch + backend.copied_bytes(dtype, conv)
        };
        let activations = self.trace.peak_bytes(storage, &working);
        let activations = activations + activations / holes(storage.recompute);
        batch * (activations + ends)
            + 4 * (2 * self.parameters + state) as u64
            + packed.max().unwrap_or(0)
            + threads.max().unwrap_or(0)
            + backend.library_bytes(dtype, convolutions)
            + PROGRAM
    }

    /// Bytes that a process needs while the state of the first of several goes to the others, before their first step:
    /// parameters and the optimiser's `state` values where they belong and in one message, and what the program itself
    /// takes. Of large networks on small fields that is more than a step needs; reading a checkpoint, into where it
    /// belongs, never is.
    pub fn spreading_bytes(&self, state: usize) -> u64 {
        4 * 2 * (self.parameters + state) as u64 + PROGRAM
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
        let ([height, _, _], dtype) = (self.input, storage.dtype);
        let live = self.trace.live_values();
        let bytes = |values: u64| values * dtype.size_in_bytes() as u64;
        let batch = batch as u64;
        let wrapped = self.trace.convolutions.iter();
        let wrapped = wrapped.map(|conv| backend.wrapped_bytes(dtype, conv));
        // A GPU's library reads channels of several tensors from one only.
        let joined = if backend.is_gpu() {
            bytes(self.trace.most_concatenated)
        } else {
            0
        };
        let copied = wrapped.max().unwrap_or(0) + joined;
        let activations = if strips.get() == 1 {
            batch * (bytes(live.whole_field) + copied)
        } else if self.trace.has_strips() {
            let rows = height.min(rows_of_strip(height, strips) + HALO) as u64;
            let strip = (bytes(live.in_strips) + copied) * rows / height.max(1) as u64;
            (batch * (bytes(live.before_strips) + copied))
                .max(batch * bytes(live.kept_for_strips) + strip)
        } else {
            return Err(ModelError::Strips {
                network: self.network.clone(),
                strips: strips.get(),
            });
        };
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
        let [_, width, channels] = self.input;
        let ends = 4 * self.frames * (height * width * channels + output);
        let ends = ends as u64 + self.input_copy();
        // An eighth are holes in the heap, as measured.
        let activations = activations + activations / 8;
        // What the loops themselves hold grows with the network.
        let library = backend.library_bytes(dtype, self.convolutions());
        let loops = kernels / 20 + threads.max().unwrap_or(0) + library;
        Ok(batch * ends + activations + kernels + loops + PROGRAM)
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

/// Code, libraries and threads, bytes.
const PROGRAM: u64 = 40 << 20;

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [h, w, c] = self.input;
        let clip = match self.frames {
            1 => String::new(),
            frames => format!("{frames} frames of "),
        };
        writeln!(f, "{} on {clip}{h} x {w} x {c}", self.network)?;
        let mut open: Vec<&str> = Vec::new();
        for row in &self.layers {
            let path: Vec<&str> = row.name.split('.').collect();
            let shared = open.iter().zip(&path).take_while(|(a, b)| a == b).count();
            for (depth, part) in path.iter().enumerate().skip(shared) {
                let label = format!("{:indent$}{part}", "", indent = 2 * depth + 2);
                if depth + 1 < path.len() {
                    writeln!(f, "{label}")?;
                    continue;
                }
                let [h, w, c] = row.output;
                let shape = format!("{h} x {w} x {c}");
                let flops = match row.forward_flops {
                    0 => String::new(),
                    flops => format!("{:.2} GF", flops as f64 / 1e9),
                };
                writeln!(
                    f,
                    "{label:<40} {shape:>18} {:>12} {flops:>12}",
                    row.parameters
                )?;
            }
            open = path;
        }
        let gigabytes = |bytes: u64| bytes as f64 / 1e9;
        let backend = Backend::best();
        let training = |dtype: DType| {
            gigabytes(self.training_bytes(backend, 1, &dtype.into(), 2 * self.parameters))
        };
        let inference = |dtype: DType| {
            let whole = NonZeroUsize::MIN;
            let bytes = self.inference_bytes(backend, 1, &dtype.into(), whole);
            gigabytes(bytes.unwrap_or(0))
        };
        writeln!(
            f,
            "parameters {:.2} M; forward {:.3} TF, training {:.2} TF per sample; activations {:.2} GB in f32; memory of one \
             sample: training step {:.2} GB (bf16 {:.2}), inference {:.2} GB (bf16 {:.2})",
            self.parameters as f64 / 1e6,
            self.forward_flops as f64 / 1e12,
            self.training_flops as f64 / 1e12,
            self.activation_bytes as f64 / 1e9,
            training(DType::F32),
            training(DType::BF16),
            inference(DType::F32),
            inference(DType::BF16),
        )
    }
}
