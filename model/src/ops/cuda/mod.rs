//! Operations on an NVIDIA GPU: kernels of our own, and cuDNN for convolutions.
//!
//! A process computes on one GPU, on one stream. Tensors stay there between operations; an operand in host memory is
//! copied when an operation uses it. Operations are asynchronous: only reading values synchronises.
//!
//! - The machine: `library` loads NVIDIA's libraries by name, `device` opens the GPU, `memory` tracks its memory,
//!   `stream` controls access to its stream, `copies` and `upload` move tensors.
//! - Kernels: sources in `kernels`, compiled by `nvrtc`, launched by `kernels::launch`.
//! - Operations: `channels`, `depthwise`, `elementwise`, `loss`, `norm`, `optimizer`, `pool`; convolutions in
//!   `convolution`, by `cudnn` or, where that has no deterministic algorithm, `plain`.
//! - Whole passes as CUDA graphs: `graph`, for `crate::captured`.

mod algorithms;
mod channels;
mod convolution;
mod copies;
mod cudnn;
mod depthwise;
mod device;
mod elementwise;
#[cfg(test)]
mod engines;
mod graph;
mod input;
mod kept;
mod kernels;
mod lend;
mod library;
mod loss;
mod memory;
mod norm;
mod nvrtc;
pub(crate) mod optimizer;
mod plain;
mod pool;
mod stream;
mod upload;

use channels::Edges;
pub(crate) use channels::zeros;
pub(super) use channels::{
    add_channel_sums, concat, gate, gate_backward, pad, pad_backward, prelu, prelu_backward, rows,
    split,
};
pub(super) use convolution::{backward_weights, forward, kernel_gradient_type, transposed};
pub(crate) use copies::to_host;
pub(super) use depthwise::{depthwise, depthwise_backward_data, depthwise_backward_weights};
pub use device::{cache_in, choose, describe, identity, is_chosen, kind};
pub(super) use elementwise::{
    add, convert, dropout, leaky_relu, leaky_relu_backward, masked, positive, relu, relu_backward,
    scale,
};
pub(crate) use graph::{Graph, address, capture, copy_into, room};
pub use input::{Arriving, Uploader};
pub use lend::Lent;
pub(crate) use lend::lend;
pub use library::{finds, look_in};
pub(super) use loss::{argmax, segmentation, softmax, squared_error};
pub use memory::{available_memory, forget_peak, peak_memory};
pub(crate) use memory::{give_back_memory, working_memory};
pub(crate) use norm::Moments;
pub(super) use norm::{Operands, affine_backward, apply, backward as norm_backward, statistics};
pub(super) use pool::{
    average_pool, average_pool_backward, global_average, global_average_backward, max_pool,
    max_pool_backward, resize, resize_backward,
};
pub(crate) use stream::Mark;

use crate::error::Result;
use candle_core::cuda_backend::cudarc::driver::DeviceRepr;
use candle_core::{DType, Tensor};
use device::{Gpu, gpu};

/// Whether a GPU is available; opens it.
pub fn is_there() -> bool {
    gpu().is_ok()
}

/// Waits until all work is done.
pub(super) fn wait() -> Result<()> {
    gpu()?.wait()
}

/// The tensor on the GPU.
pub(super) fn bring(tensor: &Tensor) -> Result<Tensor> {
    gpu()?.bring(tensor)
}

/// Reads a tensor's values.
pub(crate) fn read<T: candle_core::WithDType + DeviceRepr>(tensor: &Tensor) -> Result<Vec<T>> {
    gpu()?.take(tensor)
}

/// Reads the values of several tensors with one copy, because every copy to the host synchronises.
pub(crate) fn read_all(tensors: &[&Tensor]) -> Result<Vec<Vec<f32>>> {
    let gpu = gpu()?;
    let counts = tensors.iter().map(|tensor| tensor.elem_count());
    let together = gpu.empty(&[counts.clone().sum()], DType::F32)?;
    let mut first = 0;
    for (tensor, count) in tensors.iter().zip(counts.clone()) {
        copy_into(&tensor.flatten_all()?, &together.narrow(0, first, count)?)?;
        first += count;
    }
    let mut values = gpu.take::<f32>(&together)?.into_iter();
    Ok(counts
        .map(|count| values.by_ref().take(count).collect())
        .collect())
}

/// Replaces a tensor's values.
pub(crate) fn write<T: candle_core::WithDType + DeviceRepr>(
    tensor: &Tensor,
    values: &[T],
) -> Result<()> {
    gpu()?.write(tensor, values)
}

/// A flat tensor of these values on the GPU.
pub(crate) fn give(values: &[f32]) -> Result<Tensor> {
    gpu()?.give(values, &[values.len()])
}

/// A flat tensor of `count` equal values on the GPU.
pub(super) fn filled(value: f32, count: usize) -> Result<Tensor> {
    gpu()?.filled(value, count)
}

/// Sets all values of a tensor to zero.
pub(crate) fn clear(tensor: &Tensor) -> Result<()> {
    gpu()?.clear(tensor)
}

/// A parameter's values, one per channel.
pub(super) fn channels_of(values: &Tensor) -> Result<super::Channels<'static>> {
    let values = elementwise::like(gpu()?, values, DType::F32)?;
    Ok(super::Channels::Gpu(values.flatten_all()?))
}

/// Pads x with `margin` wrapped rows and columns.
pub(super) fn wrap(x: &Tensor, shape: [usize; 4], margin: usize) -> Result<Tensor> {
    pad(x, shape, wrapped(margin))
}

/// The gradient of [`wrap`].
pub(super) fn wrap_backward(dy: &Tensor, shape: [usize; 4], margin: usize) -> Result<Tensor> {
    pad_backward(dy, shape, wrapped(margin))
}

/// Pads x with rows and columns of zeros: above, below, left, right.
pub(super) fn with_zeros(x: &Tensor, shape: [usize; 4], sides: [usize; 4]) -> Result<Tensor> {
    let wrap = (false, false);
    pad(x, shape, Edges { sides, wrap })
}

/// Crops these rows and columns; the result has `shape`.
pub(super) fn without_edges(x: &Tensor, shape: [usize; 4], sides: [usize; 4]) -> Result<Tensor> {
    let wrap = (false, false);
    pad_backward(x, shape, Edges { sides, wrap })
}

fn wrapped(margin: usize) -> Edges {
    Edges {
        sides: [margin; 4],
        wrap: (true, true),
    }
}

/// Scratch memory for sums in f64.
fn partial(gpu: &Gpu, values: usize) -> Result<Tensor> {
    gpu.empty(&[values], DType::F64)
}

/// The channels' values on the GPU, copied there if necessary.
fn bring_channels(gpu: &Gpu, values: &super::Channels<'_>) -> Result<Tensor> {
    match values {
        super::Channels::Host(values) => gpu.give(values, &[values.len()]),
        super::Channels::Gpu(values) => Ok(values.clone()),
    }
}

/// Adds a gradient to its buffer, copying it if the buffer is in host memory.
fn add_to_sink(
    gpu: &Gpu,
    sink: super::GradientSink<'_>,
    add: impl FnOnce(&Tensor) -> Result<()>,
) -> Result<()> {
    match sink {
        super::GradientSink::Gpu(values) => add(&values),
        super::GradientSink::Host(values) => {
            let sums = gpu.give(values, &[values.len()])?;
            add(&sums)?;
            gpu.read(&sums, values)?;
            gpu.wait()
        }
    }
}
