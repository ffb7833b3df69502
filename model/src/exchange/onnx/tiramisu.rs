//! Tiramisu as an ONNX graph: `networks/tiramisu/mod.rs`, for inference.

use super::layers::{Layers, SAME, Steps, Value};
use crate::error::Result;

/// The logits of `x`.
pub(super) fn build(layers: &mut Layers<'_>, x: &Value) -> Result<Value> {
    let blocks = &layers.config.blocks;
    let mut y = step(layers, "input", x, SAME)?;
    let above = blocks.len() - 1;
    let mut skips = Vec::with_capacity(above);
    for (index, &count) in blocks[..above].iter().enumerate() {
        let name = format!("down{}", index + 1);
        let skip = dense(layers, &name, &y, count, true)?;
        y = step(layers, &format!("{name}.halve"), &skip, Steps::stride(2))?;
        skips.push(skip);
    }
    y = dense(layers, "bottom", &y, blocks[above], false)?;
    for (index, skip) in skips.into_iter().enumerate().rev() {
        let name = format!("up{}", index + 1);
        let doubled = layers.upsample(&format!("{name}.double"), &y, skip.size, None)?;
        let joined = layers.concat(&[doubled, skip])?;
        y = dense(layers, &name, &joined, blocks[index], index == 0)?;
    }
    layers.conv("classify", &y, SAME, None)
}

/// A convolution, its normalisation or bias, and a ReLU.
fn step(layers: &mut Layers<'_>, name: &str, x: &Value, steps: Steps) -> Result<Value> {
    if layers.config.batch_norm {
        return layers.unit(name, x, steps);
    }
    let y = layers.conv(name, x, steps, None)?;
    Ok(layers.relu(&y))
}

/// The outputs of `count` layers, each of which reads x and all earlier outputs; preceded by x itself if `whole`.
fn dense(
    layers: &mut Layers<'_>,
    name: &str,
    x: &Value,
    count: usize,
    whole: bool,
) -> Result<Value> {
    let mut parts = vec![x.clone()];
    for layer in 1..=count {
        let joined = match &parts[..] {
            [alone] => alone.clone(),
            parts => layers.concat(parts)?,
        };
        parts.push(step(
            layers,
            &format!("{name}.layer{layer}"),
            &joined,
            SAME,
        )?);
    }
    layers.concat(if whole { &parts } else { &parts[1..] })
}
