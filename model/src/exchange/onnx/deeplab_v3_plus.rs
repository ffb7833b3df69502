//! DeepLabV3+ as an ONNX graph: `networks/{resnet,deeplab_v3_plus,join}.rs`, `networks/decoder/mod.rs` and
//! `layers/bottleneck.rs`, for inference.

use super::layers::{Layers, SAME, Steps, Value};
use super::pyramid;
use crate::error::Result;
use crate::layers::aspp::Pooling;
use crate::layers::upsample_unit::half;
use crate::networks::resnet;

/// The logits of `x`.
pub(super) fn build(layers: &mut Layers<'_>, x: &Value) -> Result<Value> {
    let (deep, low) = encoder(layers, x)?;
    let pooling = Pooling::of_deeplab(layers.config.batch_norm);
    let deep = pyramid::build(layers, &deep, pooling)?;
    decoder(layers, deep, &low, x)
}

/// The features at the output stride, and the low-level features.
fn encoder(layers: &mut Layers<'_>, x: &Value) -> Result<(Value, Value)> {
    let config = layers.config;
    let stem = layers.conv("encoder.stem", x, Steps::stride(2), None)?;
    let mut y = layers.pool("MaxPool", &stem);
    let mut low = y.clone();
    for unit in resnet::plan(config) {
        let steps = Steps {
            stride: unit.stride,
            dilation: unit.dilation,
        };
        let (next, reduced) = bottleneck(layers, &unit.name, &y, steps)?;
        y = next;
        if unit.block == 0 {
            low = reduced;
        }
    }
    if config.batch_norm {
        y = layers.norm("encoder.post", &y)?;
        y = layers.relu(&y);
    }
    Ok((y, low))
}

/// The output, and the reduced features inside the unit.
fn bottleneck(
    layers: &mut Layers<'_>,
    name: &str,
    x: &Value,
    steps: Steps,
) -> Result<(Value, Value)> {
    let at = |part: &str| format!("{name}.{part}");
    let mut active = layers.norm(&at("preact"), x)?;
    if layers.config.preactivation_relu {
        active = layers.relu(&active);
    }
    let shortcut = if layers.weights.contains_key(&at("shortcut.weight")) {
        layers.conv(&at("shortcut"), &active, Steps::stride(steps.stride), None)?
    } else if steps.stride > 1 {
        layers.subsample(x, steps.stride)
    } else {
        x.clone()
    };
    let reduced = layers.unit(&at("conv1"), &active, SAME)?;
    let inner = layers.unit(&at("conv2"), &reduced, steps)?;
    let expanded = layers.conv(&at("conv3"), &inner, SAME, None)?;
    Ok((layers.add(&expanded, &shortcut)?, reduced))
}

fn decoder(layers: &mut Layers<'_>, deep: Value, low: &Value, x: &Value) -> Result<Value> {
    let name = layers.config.name;
    let bilinear = !name.doubles();
    let reduced = layers.unit("decoder.low_level", low, SAME)?;
    let deep = if bilinear {
        layers.resize(&deep, low.size)
    } else {
        layers.double("decoder.up1", &deep, low.size)?
    };
    let joined = layers.concat(&[deep, reduced])?;
    let mut y = layers.unit("decoder.refine1", &joined, SAME)?;
    y = layers.unit("decoder.refine2", &y, SAME)?;
    if bilinear {
        let logits = layers.conv("decoder.classify", &y, SAME, None)?;
        return Ok(layers.resize(&logits, x.size));
    }
    y = layers.double("decoder.up2", &y, half(x.size))?;
    y = layers.double("decoder.up3", &y, x.size)?;
    if name.has_full_resolution() {
        let skip = full(layers, "decoder.skip1", x)?;
        let skip = full(layers, "decoder.skip2", &skip)?;
        y = layers.concat(&[y, skip])?;
        y = full(layers, "decoder.full1", &y)?;
        y = full(layers, "decoder.full2", &y)?;
    }
    layers.conv("decoder.classify", &y, SAME, None)
}

/// A layer at full resolution: as published, with a bias and neither normalisation nor activation.
fn full(layers: &mut Layers<'_>, name: &str, x: &Value) -> Result<Value> {
    if layers.config.batch_norm {
        layers.unit(name, x, SAME)
    } else {
        layers.conv(name, x, SAME, None)
    }
}
