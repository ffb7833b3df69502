//! DeepCAM as an ONNX graph: `networks/{xception,deepcam,join}.rs` and `layers/separable.rs`, for inference.

use super::layers::{Layers, SAME, Steps, Value};
use super::pyramid;
use crate::error::Result;
use crate::layers::aspp::Pooling;
use crate::layers::upsample_unit::half;
use crate::networks::xception::{self, BlockSpec};

/// The logits of `x`.
pub(super) fn build(layers: &mut Layers<'_>, x: &Value) -> Result<Value> {
    let (deep, low) = encoder(layers, x)?;
    let deep = pyramid::build(layers, &deep, Pooling::Affine)?;
    let quarter = low.size;
    let low = layers.unit("decoder.low_level", &low, SAME)?;
    let mut y = layers.double("decoder.up1", &deep, half(quarter))?;
    y = layers.double("decoder.up2", &y, quarter)?;
    y = layers.concat(&[y, low])?;
    y = layers.unit("decoder.refine1", &y, SAME)?;
    y = layers.unit("decoder.refine2", &y, SAME)?;
    y = layers.conv("decoder.project", &y, SAME, None)?;
    y = layers.double("decoder.up3", &y, half(x.size))?;
    layers.upsample("decoder.classify", &y, x.size, None)
}

/// The features at a sixteenth of the input, and the low-level features at a quarter.
fn encoder(layers: &mut Layers<'_>, x: &Value) -> Result<(Value, Value)> {
    let stem = layers.unit("encoder.stem1", x, Steps::stride(2))?;
    let mut y = layers.unit("encoder.stem2", &stem, SAME)?;
    let mut low = None;
    for block in xception::plan(layers.config) {
        y = residual(layers, &block, &y)?;
        low.get_or_insert_with(|| y.clone());
    }
    for index in 1..=3 {
        let name = format!("encoder.exit{index}");
        y = separable_unit(layers, &name, &y, Steps::dilation(2))?;
        y = layers.relu(&y);
    }
    Ok((y, low.expect("there are entry blocks")))
}

/// Separable units, with a ReLU between units, around a shortcut.
fn residual(layers: &mut Layers<'_>, block: &BlockSpec, x: &Value) -> Result<Value> {
    let (name, units) = (&block.name, block.channels.len() - 1);
    let mut y = x.clone();
    for unit in 1..=units {
        y = separable_unit(layers, &format!("{name}.sep{unit}"), &y, SAME)?;
        if unit < units {
            y = layers.relu(&y);
        }
    }
    let shortcut = match block.stride.map(Steps::stride) {
        None => x.clone(),
        Some(steps) => {
            y = layers.conv(&format!("{name}.last.depthwise"), &y, steps, None)?;
            y = layers.conv(&format!("{name}.last.pointwise"), &y, SAME, None)?;
            layers.normed(&format!("{name}.skip"), x, steps)?
        }
    };
    y = layers.add(&y, &shortcut)?;
    Ok(if block.relu { layers.relu(&y) } else { y })
}

/// A depthwise and a 1x1 convolution, then normalisation.
fn separable_unit(layers: &mut Layers<'_>, name: &str, x: &Value, steps: Steps) -> Result<Value> {
    let y = layers.conv(&format!("{name}.depthwise"), x, steps, None)?;
    let point = format!("{name}.pointwise");
    let channels = layers.outputs(&format!("{point}.weight"), 0)?;
    let fold = layers.norm_fold(&format!("{name}.norm"), channels)?;
    layers.conv(&point, &y, SAME, Some(fold))
}
