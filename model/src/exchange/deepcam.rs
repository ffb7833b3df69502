//! The names of DeepCAM's weights in PyTorch.
//!
//! # Source
//! mlcommons/hpc `deepcam/src/deepCam/architecture/deeplab_xception.py`, whose batch normalisations sit in a wrapper
//! (`.bn`). Checkpoints of `train.py` hold the state dictionary under `model`, with every name prefixed by `module.` if
//! the run was distributed.

use super::layout::{Layout, WeightSource, counter, norm_leaf};

/// The naming of the MLPerf HPC DeepCAM reference.
pub(super) const DEEPCAM: Layout = Layout {
    name: "deepcam",
    source: |ours| pytorch_name(ours).map_or(WeightSource::Absent, WeightSource::Same),
    shape,
    tells: |name| name.starts_with("xception_features."),
    unused: counter,
    encoder: |name| name.starts_with("xception_features."),
    differences: |_| &[],
    needs_batch_norm: false,
};

/// The name in PyTorch's state dictionary of a parameter or running statistic of our network `deepcam` (with the
/// reference's 16 middle blocks or any other number); `None` if the name is not one of ours.
///
/// Shapes are equal except for `aspp.image_pooling.scale` and `.shift`, which are `(n)` here and `(n, 1, 1)` there.
/// Values are always equal: kernels are `(out, in / groups, h, w)`, those of transposed convolutions `(in, out, h, w)`.
/// PyTorch's `num_batches_tracked` has no counterpart.
fn pytorch_name(ours: &str) -> Option<String> {
    let parts: Vec<&str> = ours.split('.').collect();
    match *parts.as_slice() {
        ["encoder", stem, ref rest @ ..] if stem.starts_with("stem") => {
            let index = number(stem, "stem", 2)?;
            let (conv, norm) = (format!("conv{index}"), format!("bn{index}"));
            conv_or_norm("xception_features", &conv, &norm, rest)
        }
        ["encoder", exit, ref rest @ ..] if exit.starts_with("exit") => {
            let index = 2 + number(exit, "exit", 3)?;
            let (conv, norm) = (format!("conv{index}"), format!("bn{index}"));
            separable("xception_features", &conv, &norm, rest)
        }
        ["encoder", block, part, ref rest @ ..] => {
            let block = format!("xception_features.block{}", number(block, "block", 999)?);
            match part {
                "skip" => conv_or_norm(&block, "skip", "skipbn", rest),
                // The index after two units of convolution, normalisation and ReLU, without the second ReLU.
                "last" => separable(&block, "rep.5", "", rest),
                unit => {
                    let first = 3 * (number(unit, "sep", 3)? - 1);
                    let (conv, norm) = (format!("rep.{first}"), format!("rep.{}", first + 1));
                    separable(&block, &conv, &norm, rest)
                }
            }
        }
        ["aspp", "image_pooling", leaf] => {
            let pool = "bottleneck.global_avg_pool.global_average_pool";
            match leaf {
                "weight" => Some(format!("{pool}.1.weight")),
                "scale" => Some(format!("{pool}.2.weights")),
                "shift" => Some(format!("{pool}.2.bias")),
                _ => None,
            }
        }
        ["aspp", "mix", ref rest @ ..] => conv_or_norm("bottleneck", "conv", "bn", rest),
        ["aspp", branch, ref rest @ ..] => {
            let index = match branch {
                "conv_1x1" => 1,
                atrous => 1 + number(atrous, "conv_3x3_", 9)?,
            };
            let branch = format!("bottleneck.aspp{index}");
            conv_or_norm(&branch, "atrous_convolution", "bn", rest)
        }
        ["decoder", part, ref rest @ ..] => match part {
            "low_level" => conv_or_norm("", "conv2", "bn2", rest),
            "up1" => conv_or_norm("upsample", "deconv1.0", "deconv1.1", rest),
            "up2" => conv_or_norm("upsample", "deconv1.3", "deconv1.4", rest),
            "refine1" => conv_or_norm("upsample", "conv1.0", "conv1.1", rest),
            "refine2" => conv_or_norm("upsample", "conv1.3", "conv1.4", rest),
            "project" if rest == ["bias"] => Some("upsample.conv1.6.bias".to_string()),
            "project" => conv_or_norm("upsample", "conv1.6", "", rest),
            "up3" => conv_or_norm("upsample", "deconv2.0", "deconv2.1", rest),
            "classify" => conv_or_norm("upsample", "last_deconv.0", "", rest),
            _ => None,
        },
        _ => None,
    }
}

/// Our shape, except that the pooled branch's scale and shift have spatial extents there.
fn shape(name: &str, ours: &[usize]) -> Vec<usize> {
    match name.contains(".global_average_pool.2.") {
        true => [ours, &[1, 1]].concat(),
        false => ours.to_vec(),
    }
}

/// The number after `prefix`, if it is between 1 and `most`.
fn number(text: &str, prefix: &str, most: usize) -> Option<usize> {
    let number = text.strip_prefix(prefix)?.parse().ok()?;
    (1..=most).contains(&number).then_some(number)
}

/// The reference's name of a weight of a convolution `conv` or its normalisation `norm` (empty if there is none) inside
/// `parent`.
fn conv_or_norm(parent: &str, conv: &str, norm: &str, rest: &[&str]) -> Option<String> {
    let path = match *rest {
        ["weight"] => format!("{conv}.weight"),
        ["norm", leaf] if !norm.is_empty() => format!("{norm}.bn.{}", norm_leaf(leaf)?),
        _ => return None,
    };
    Some(if parent.is_empty() {
        path
    } else {
        format!("{parent}.{path}")
    })
}

/// The reference's name of a weight of a separable convolution or its normalisation.
fn separable(parent: &str, conv: &str, norm: &str, rest: &[&str]) -> Option<String> {
    match *rest {
        ["depthwise", "weight"] => Some(format!("{parent}.{conv}.conv1.weight")),
        ["pointwise", "weight"] => Some(format!("{parent}.{conv}.pointwise.weight")),
        ["norm", ..] => conv_or_norm(parent, conv, norm, rest),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_reference() {
        let name = |ours: &str| pytorch_name(ours).unwrap_or_default();
        let stem = "xception_features.conv1.weight";
        assert_eq!(name("encoder.stem1.weight"), stem);
        let block = "xception_features.block2.rep.4.bn.weight";
        assert_eq!(name("encoder.block2.sep2.norm.scale"), block);
        let atrous = "bottleneck.aspp2.atrous_convolution.weight";
        assert_eq!(name("aspp.conv_3x3_1.weight"), atrous);
        assert_eq!(pytorch_name("encoder.stem9.weight"), None);
    }
}
