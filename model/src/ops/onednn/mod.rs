//! Convolutions by oneDNN: the safe wrapper of `squall-onednn-sys`.
//!
//! Activations are f32, or bf16 where the processor multiplies bf16 ([`computes_bf16`]): products of bf16 values are
//! exact in f32, in which oneDNN sums. Primitives are built once per geometry and thread.
//!
//! Fields that wrap in longitude are padded with zeros, and the edge columns are then recomputed ([`seam`]). If the
//! edges are most of the field, or the kernels are larger than the field, the field is copied with extra columns on
//! both sides instead. The kernel gradients of atrous and 1x1 kernels are sums of matrix products, one per tap over the
//! pixels that the tap reads: oneDNN's own code is up to ten times slower there, and falls back to reference code at
//! the published rates. The dispatch depends on the geometry alone, so that two runs of one recipe are bit-identical.

mod blocks;
mod machine;
mod narrow;
mod packing;
mod plain;
mod primitive;
mod product;
mod seam;
mod strips;
mod tapped;
mod taps;
#[cfg(test)]
mod tests;
mod trimmed;
mod turned;
mod wrapped;

pub use machine::{computes_bf16, computing_threads, describe, kind, multiplies_tiles};
pub use packing::{Packings, Source};
pub use strips::transposed_bytes;
pub use taps::adds_up_taps;

use super::conv_spec::Convolution;
use super::finish::Finish;
use super::value::Value;
use super::winograd::Direction;
use crate::error::Result;
use machine::in_tiles;
use primitive::{Operands, descriptor, run};
use seam::Seam;
use squall_onednn_sys as sys;
use std::ffi::c_void;
use trimmed::Trimmed;
use wrapped::{unwrap_columns, wrap, wrapped_columns};

/// The output of a convolution, + bias, + residual, ReLU.
pub fn forward<V: Value>(
    geometry: &Convolution,
    x: &[V],
    weights: Source<'_>,
    finish: Finish<'_, V>,
) -> Result<Vec<V>> {
    if plain::is_needed(geometry) {
        return Ok(plain::forward(geometry, x, weights, finish));
    }
    if tapped::is_faster(geometry, in_tiles::<V>()) {
        return tapped::forward(geometry, x, weights, finish);
    }
    if let Some((trimmed, geometry)) = Trimmed::if_trimmable(geometry) {
        if weights.packings.is_none() {
            let kernels = trimmed.kernels(&weights.plain());
            return forward_open_or_wrapped(&geometry, x, kernels[..].into(), finish);
        }
        let weights = Source {
            trimmed: Some(&trimmed),
            ..weights
        };
        return forward_open_or_wrapped(&geometry, x, weights, finish);
    }
    forward_open_or_wrapped(geometry, x, weights, finish)
}

fn forward_open_or_wrapped<V: Value>(
    geometry: &Convolution,
    x: &[V],
    weights: Source<'_>,
    finish: Finish<'_, V>,
) -> Result<Vec<V>> {
    let Some(seam) = Seam::if_wrapping(geometry) else {
        return forward_whole(geometry, x, weights, finish);
    };
    let mut y = forward_whole(&seam.open(), x, weights, finish)?;
    let residual = finish.residual.map(|residual| seam.outputs(residual));
    let finish = Finish {
        residual: residual.as_deref(),
        ..finish
    };
    seam.put(
        &forward_whole(&seam.edges(), &seam.inputs(x), weights, finish)?,
        &mut y,
    );
    Ok(y)
}

fn forward_whole<V: Value>(
    geometry: &Convolution,
    x: &[V],
    weights: Source<'_>,
    finish: Finish<'_, V>,
) -> Result<Vec<V>> {
    let Finish {
        bias,
        residual,
        relu,
    } = finish;
    let mut desc = descriptor::<V>(sys::FORWARD, geometry);
    (desc.bias, desc.sum, desc.relu) = (
        bias.is_some().into(),
        residual.is_some().into(),
        relu.into(),
    );
    let weights = weights.packed("conv2d", desc)?;
    let length: usize = geometry.y.iter().product();
    assert!(
        x.len() >= geometry.x.iter().product::<usize>()
            && bias.is_none_or(|bias| bias.len() >= geometry.y[3])
            && residual.is_none_or(|residual| residual.len() >= length),
        "convolution over the end of a slice"
    );
    let wide = wrap(x, geometry.x, wrapped_columns(geometry));
    let mut y = Vec::with_capacity(length);
    y.extend_from_slice(residual.unwrap_or(&[]));
    let operands = Operands {
        src: wide.as_ptr() as *mut c_void,
        weights: weights.as_ptr() as *mut c_void,
        bias: bias.map_or(std::ptr::null_mut(), |bias| bias.as_ptr() as *mut c_void),
        dst: y.as_mut_ptr() as *mut c_void,
        gradient: std::ptr::null_mut(),
    };
    // SAFETY: the assertion above holds the sizes; oneDNN reads src, weights and bias and writes every value of dst,
    // which has room for `length` (and holds the residual where `sum` makes oneDNN read it first).
    unsafe {
        run("conv2d", desc, &operands)?;
        y.set_len(length);
    }
    Ok(y)
}

/// The gradient of the input.
pub fn backward_data<V: Value>(
    geometry: &Convolution,
    dy: &[V],
    weights: Source<'_>,
) -> Result<Vec<V>> {
    if plain::is_needed(geometry) {
        return Ok(plain::backward_data(geometry, dy, weights));
    }
    if narrow::is_needed::<V>(geometry) {
        return Ok(narrow::backward_data(geometry, dy, &weights.plain()));
    }
    if let Some(turned) = turned::turned::<V>(geometry) {
        return turned::backward_data(&turned, dy, weights);
    }
    let Some(seam) = Seam::if_wrapping(geometry) else {
        return backward_data_whole(geometry, dy, weights);
    };
    let mut dx = backward_data_whole(&seam.open(), dy, weights)?;
    let mut wrapped = backward_data_whole(&seam.edges(), &seam.outputs(dy), weights)?;
    seam.add_wrapped(&mut wrapped, &mut dx);
    Ok(dx)
}

fn backward_data_whole<V: Value>(
    geometry: &Convolution,
    dy: &[V],
    weights: Source<'_>,
) -> Result<Vec<V>> {
    if plain::must_widen::<V>(Direction::BackwardData, geometry) {
        let dx = backward_data_whole(geometry, &plain::widened(dy), weights.unpacked())?;
        return Ok(plain::narrowed(dx));
    }
    assert!(
        dy.len() >= geometry.y.iter().product::<usize>(),
        "convolution over the end of a slice"
    );
    let extra = wrapped_columns(geometry);
    let desc = descriptor::<V>(sys::BACKWARD_DATA, geometry);
    let weights = weights.packed("conv2d_backward_data", desc)?;
    let [batch, height, width, channels] = geometry.x;
    let length = batch * height * (width + 2 * extra) * channels;
    let mut dx = Vec::with_capacity(length);
    let operands = Operands {
        src: dx.as_mut_ptr() as *mut c_void,
        weights: weights.as_ptr() as *mut c_void,
        bias: std::ptr::null_mut(),
        dst: dy.as_ptr() as *mut c_void,
        gradient: std::ptr::null_mut(),
    };
    // SAFETY: the assertion above holds the size; oneDNN reads dst and weights and writes every value of src, which has
    // room for `length`.
    unsafe {
        run("conv2d_backward_data", desc, &operands)?;
        dx.set_len(length);
    }
    Ok(if extra == 0 {
        dx
    } else {
        unwrap_columns(&dx, geometry.x, extra)
    })
}

/// Adds the gradient of the weights to `dw`.
pub fn backward_weights<V: Value>(
    geometry: &Convolution,
    x: &[V],
    dy: &[V],
    dw: &mut [f32],
) -> Result<()> {
    if plain::is_needed(geometry) {
        plain::backward_weights(geometry, x, dy, dw);
        return Ok(());
    }
    let tiles = in_tiles::<V>();
    if taps::are_faster(geometry, tiles) {
        return taps::backward_weights(geometry, x, dy, dw);
    }
    if let Some(strips) = strips::Strips::if_worthwhile(geometry, size_of::<V>(), tiles) {
        let (mut x_of, mut dy_of) = (Vec::new(), Vec::new());
        return strips.groups::<V>().try_for_each(|group| {
            strips.inputs(x, &group, &mut x_of);
            strips.outputs(dy, &group, &mut dy_of);
            backward_weights_whole(&strips.geometry(group.len()), &x_of, &dy_of, dw)
        });
    }
    let Some(seam) = Seam::if_wrapping(geometry) else {
        return backward_weights_whole(geometry, x, dy, dw);
    };
    backward_weights_whole(&seam.open(), x, dy, dw)?;
    let (x, dy) = (seam.wrapped_inputs(x), seam.outputs(dy));
    backward_weights_whole(&seam.edges(), &x, &dy, dw)
}

fn backward_weights_whole<V: Value>(
    geometry: &Convolution,
    x: &[V],
    dy: &[V],
    dw: &mut [f32],
) -> Result<()> {
    if plain::must_widen::<V>(Direction::BackwardWeights, geometry) {
        return backward_weights_whole(geometry, &plain::widened(x), &plain::widened(dy), dw);
    }
    let ([.., inputs], [.., outputs]) = (geometry.x, geometry.y);
    let spec = geometry.spec;
    let kernels = outputs * (inputs / spec.groups) * spec.kernel.0 * spec.kernel.1;
    assert!(
        x.len() >= geometry.x.iter().product::<usize>()
            && dy.len() >= geometry.y.iter().product::<usize>()
            && dw.len() >= kernels,
        "convolution over the end of a slice"
    );
    let wide = wrap(x, geometry.x, wrapped_columns(geometry));
    let op = "conv2d_backward_weights";
    let desc = descriptor::<V>(sys::BACKWARD_WEIGHTS, geometry);
    let mut room = packing::room(op, desc)?;
    let operands = Operands {
        src: wide.as_ptr() as *mut c_void,
        weights: room.as_mut_ptr(),
        bias: std::ptr::null_mut(),
        dst: dy.as_ptr() as *mut c_void,
        gradient: dw.as_mut_ptr().cast(),
    };
    // SAFETY: the assertion above holds the sizes; oneDNN reads src and dst and writes the room, which was made for this
    // `desc`, and the shim adds it to the plain gradient, no more kernels than `dw` has.
    unsafe { run(op, desc, &operands) }
}
