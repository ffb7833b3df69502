//! DeepLabV3+ as an ONNX graph: `networks/{resnet,deeplab_v3_plus,decoder}.rs` and `layers/{bottleneck,aspp}.rs`, for
//! inference.

use super::layers::{After, Layers, Value};
use crate::error::Result;
use crate::networks::config::NetworkName;

/// The logits of `x`.
pub(super) fn build(layers: &mut Layers<'_>, x: Value) -> Result<Value> {
    let x = if layers.config.latitude_input {
        layers.with_latitude(&x)
    } else {
        x
    };
    let (deep, low) = encoder(layers, &x)?;
    let deep = pyramid(layers, &deep)?;
    decoder(layers, deep, &low, &x)
}

/// The features at the output stride, and the low-level features.
fn encoder(layers: &mut Layers<'_>, x: &Value) -> Result<(Value, Value)> {
    let config = layers.config;
    let stem = layers.conv("encoder.stem", x, (2, 1), After::Bias)?;
    let mut y = layers.stem_pool(&stem);
    let mut low = y.clone();
    let (mut reached, mut dilation) = (4, 1);
    for (block, &count) in config.blocks.iter().enumerate() {
        for unit in 0..count {
            let shrinks = unit + 1 == count && block + 1 < config.blocks.len();
            let atrous = shrinks && reached == config.output_stride;
            let stride = if shrinks && !atrous { 2 } else { 1 };
            let name = format!("encoder.block{}.unit{}", block + 1, unit + 1);
            let (next, reduced) = bottleneck(layers, &name, &y, (stride, dilation))?;
            y = next;
            if block == 0 {
                low = reduced;
            }
            reached *= stride;
            dilation *= if atrous { 2 } else { 1 };
        }
    }
    if config.batch_norm {
        y = layers.norm("encoder.post", &y)?;
    }
    Ok((y, low))
}

/// The output, and the reduced features inside.
fn bottleneck(
    layers: &mut Layers<'_>,
    name: &str,
    x: &Value,
    (stride, dilation): (usize, usize),
) -> Result<(Value, Value)> {
    let at = |part: &str| format!("{name}.{part}");
    let active = layers.norm(&at("preact"), x)?;
    let shortcut = if layers.weights.contains_key(&at("shortcut.weight")) {
        layers.conv(&at("shortcut"), &active, (stride, 1), After::Bias)?
    } else if stride > 1 {
        layers.subsample(x, stride)
    } else {
        x.clone()
    };
    let reduced = layers.conv(&at("conv1"), &active, (1, 1), After::NormRelu)?;
    let inner = layers.conv(&at("conv2"), &reduced, (stride, dilation), After::NormRelu)?;
    let expanded = layers.conv(&at("conv3"), &inner, (1, 1), After::Bias)?;
    Ok((layers.add(&expanded, &shortcut), reduced))
}

fn pyramid(layers: &mut Layers<'_>, x: &Value) -> Result<Value> {
    let mut parts = vec![layers.conv("aspp.conv_1x1", x, (1, 1), After::NormRelu)?];
    for (index, &rate) in layers.config.atrous_rates.iter().enumerate() {
        let name = format!("aspp.conv_3x3_{}", index + 1);
        parts.push(layers.conv(&name, x, (1, rate), After::NormRelu)?);
    }
    parts.push(layers.image_pooling("aspp.image_pooling", x)?);
    let all = layers.concat(&parts);
    layers.conv("aspp.mix", &all, (1, 1), After::NormRelu)
}

fn decoder(layers: &mut Layers<'_>, deep: Value, low: &Value, x: &Value) -> Result<Value> {
    let config = layers.config;
    let same = (1, 1);
    let bilinear = config.name == NetworkName::DeepLabV3PlusBilinear;
    let reduced = layers.conv("decoder.low_level", low, same, After::NormRelu)?;
    let deep = if bilinear {
        layers.resize(&deep, low.size)
    } else {
        layers.double("decoder.up1", &deep, low.size)?
    };
    let joined = layers.concat(&[deep, reduced]);
    let mut y = layers.conv("decoder.refine1", &joined, same, After::NormRelu)?;
    y = layers.conv("decoder.refine2", &y, same, After::NormRelu)?;
    if bilinear {
        let logits = layers.conv("decoder.classify", &y, same, After::Bias)?;
        return Ok(layers.resize(&logits, x.size));
    }
    let half = (x.size.0.div_ceil(2), x.size.1.div_ceil(2));
    y = layers.double("decoder.up2", &y, half)?;
    y = layers.double("decoder.up3", &y, x.size)?;
    if config.name == NetworkName::DeepLabV3Plus {
        // As published, layers at full resolution have a bias and neither normalisation nor activation.
        let after = if config.batch_norm {
            After::NormRelu
        } else {
            After::Bias
        };
        let skip = layers.conv("decoder.skip1", x, same, after)?;
        let skip = layers.conv("decoder.skip2", &skip, same, after)?;
        y = layers.concat(&[y, skip]);
        y = layers.conv("decoder.full1", &y, same, after)?;
        y = layers.conv("decoder.full2", &y, same, after)?;
    }
    layers.conv("decoder.classify", &y, same, After::Bias)
}
