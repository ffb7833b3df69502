//! CGNet as an ONNX graph: `networks/{cgnet,cgnet_block}.rs`, for inference.

use super::layers::{Layers, SAME, Steps, Value};
use crate::error::Result;

/// The logits of `x`.
pub(super) fn build(layers: &mut Layers<'_>, x: &Value) -> Result<Value> {
    let config = layers.config;
    let half = layers.pool("AveragePool", x);
    let quarter = layers.pool("AveragePool", &half);
    let mut y = active(layers, "stem1", x, Steps::stride(2))?;
    y = active(layers, "stem2", &y, SAME)?;
    y = active(layers, "stem3", &y, SAME)?;
    y = joined(layers, "join1", &[y, half])?;
    let (count, rate) = (config.blocks[0], config.atrous_rates[0]);
    let (first, last) = stage(layers, "stage2", &y, count, rate)?;
    y = joined(layers, "join2", &[last, first, quarter])?;
    let (count, rate) = (config.blocks[1], config.atrous_rates[1]);
    let (first, last) = stage(layers, "stage3", &y, count, rate)?;
    y = joined(layers, "join3", &[first, last])?;
    let logits = layers.conv("classify", &y, SAME, None)?;
    Ok(layers.resize(&logits, x.size))
}

/// A convolution, its normalisation and a parametric ReLU.
fn active(layers: &mut Layers<'_>, name: &str, x: &Value, steps: Steps) -> Result<Value> {
    let y = layers.normed(name, x, steps)?;
    layers.prelu(name, &y)
}

/// Concatenated fields, normalised, then a parametric ReLU.
fn joined(layers: &mut Layers<'_>, name: &str, parts: &[Value]) -> Result<Value> {
    let all = layers.concat(parts)?;
    let y = layers.norm(&format!("{name}.norm"), &all)?;
    layers.prelu(name, &y)
}

/// The outputs of the downsampling block and of the last block.
fn stage(
    layers: &mut Layers<'_>,
    name: &str,
    x: &Value,
    count: usize,
    rate: usize,
) -> Result<(Value, Value)> {
    let halve = format!("{name}.halve");
    let mut y = guided(layers, &halve, x, Steps::stride(2), rate)?;
    y = layers.conv(&format!("{halve}.reduce"), &y, SAME, None)?;
    let first = layers.gate(&format!("{halve}.gate"), &y)?;
    let mut y = first.clone();
    for index in 1..count {
        let block = format!("{name}.block{index}");
        let found = guided(layers, &block, &y, SAME, rate)?;
        let found = layers.gate(&format!("{block}.gate"), &found)?;
        y = layers.add(&y, &found)?;
    }
    Ok((first, y))
}

/// The near and wide surroundings of a pixel, concatenated; their normalisation is folded into the two depthwise
/// kernels.
fn guided(
    layers: &mut Layers<'_>,
    name: &str,
    x: &Value,
    steps: Steps,
    rate: usize,
) -> Result<Value> {
    let at = |part: &str| format!("{name}.{part}");
    let inner = active(layers, &at("enter"), x, steps)?;
    let count = inner.channels;
    let (mut scale, mut shift) = layers.norm_fold(&at("joint.norm"), 2 * count)?;
    let far = (scale.split_off(count), shift.split_off(count));
    let local = layers.conv(&at("local"), &inner, SAME, Some((scale, shift)))?;
    let steps = Steps::dilation(rate);
    let surround = layers.conv(&at("surround"), &inner, steps, Some(far))?;
    let both = layers.concat(&[local, surround])?;
    layers.prelu(&at("joint"), &both)
}
