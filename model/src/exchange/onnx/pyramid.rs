//! The atrous pyramid as an ONNX graph: `layers/aspp.rs`, for inference.

use super::layers::{Layers, SAME, Steps, Value};
use crate::error::Result;
use crate::layers::aspp::Pooling;

/// One 1x1 convolution, the atrous 3x3 ones and the mean of the whole field, concatenated and mixed.
pub(super) fn build(layers: &mut Layers<'_>, x: &Value, pooling: Pooling) -> Result<Value> {
    let mut parts = vec![layers.unit("aspp.conv_1x1", x, SAME)?];
    for (index, &rate) in layers.config.atrous_rates.iter().enumerate() {
        let name = format!("aspp.conv_3x3_{}", index + 1);
        parts.push(layers.unit(&name, x, Steps::dilation(rate))?);
    }
    parts.push(image_pooling(layers, "aspp.image_pooling", x, pooling)?);
    let all = layers.concat(&parts)?;
    layers.unit("aspp.mix", &all, SAME)
}

/// The field's mean, passed through a 1x1 convolution and a ReLU, and broadcast to every pixel.
fn image_pooling(
    layers: &mut Layers<'_>,
    name: &str,
    x: &Value,
    pooling: Pooling,
) -> Result<Value> {
    let channels = layers.outputs(&format!("{name}.weight"), 0)?;
    let fold = match pooling {
        Pooling::Bias => None,
        Pooling::Half => Some((vec![0.5; channels], vec![0.0; channels])),
        Pooling::Affine => Some(layers.affine_fold(name, channels)?),
    };
    let mean = layers.mean(x);
    let y = layers.conv(name, &mean, SAME, fold)?;
    let y = layers.relu(&y);
    Ok(layers.spread(&y, x.size))
}
