//! Imports torchvision's ResNet (v1, post-activated) as initial values of our encoder (v2, pre-activated).
//!
//! Our kernels without a normalisation of their own (the stem, and those next to a sum) take theirs with its
//! normalisation folded in. Our pre-activations, which theirs lacks, become the identity. Units with a projection
//! shortcut then compute the same as in torchvision.
//!
//! # Source
//! torchvision `models/resnet.py`; He et al. 2015 (arXiv:1512.03385) against He et al. 2016 (arXiv:1603.05027).

use super::layout::{Layout, WeightSource, as_ours, counter, norm_leaf};

/// The naming of `torchvision.models.resnet50` and `resnet101`.
pub(super) const RESNET: Layout = Layout {
    name: "torchvision-resnet",
    source,
    shape: as_ours,
    tells: |name| name == "layer1.0.conv1.weight",
    unused,
    encoder: |name| {
        ["conv1.", "bn1.", "layer"]
            .iter()
            .any(|part| name.starts_with(part))
    },
    differences: |_| {
        &[
            "torchvision's ResNet is post-activated (v1): its identity shortcuts carry values after the ReLU, ours before; \
         units with a projection compute the same",
            "its strides sit in the first unit of blocks 2 to 4, ours in the last unit of blocks 1 to 3; after the output \
         stride is reached, ours become dilations",
            "the first kernel takes 3 colours: each of our channels gets the mean over them, times 3 / our channels",
            "so these are initial values to train from: logits are not those of the original network",
        ]
    },
    needs_batch_norm: true,
};

fn unused(name: &str) -> Option<&'static str> {
    if name.starts_with("fc.") {
        return Some("the classifier of ImageNet");
    }
    counter(name)
}

/// `encoder.block2.unit1.conv1.norm.scale` reads `layer2.0.bn1.weight`, and so on.
fn source(ours: &str) -> WeightSource {
    let Some(path) = ours.strip_prefix("encoder.") else {
        return WeightSource::Absent;
    };
    match path {
        "stem.weight" => return folded("conv1", "bn1", true),
        "stem.bias" => return folded_bias("bn1"),
        _ => {}
    }
    if let Some(leaf) = path.strip_prefix("post.") {
        return identity(leaf);
    }
    let Some((unit, part)) = unit_of(path) else {
        return WeightSource::Absent;
    };
    match part {
        "conv1.weight" | "conv2.weight" => WeightSource::Same(format!("{unit}.{part}")),
        "conv3.weight" => folded(&format!("{unit}.conv3"), &format!("{unit}.bn3"), false),
        "conv3.bias" => folded_bias(&format!("{unit}.bn3")),
        "shortcut.weight" => {
            let (kernel, norm) = (
                format!("{unit}.downsample.0"),
                format!("{unit}.downsample.1"),
            );
            folded(&kernel, &norm, false)
        }
        "shortcut.bias" => folded_bias(&format!("{unit}.downsample.1")),
        part => match part.split_once('.') {
            Some(("preact", leaf)) => identity(leaf),
            Some((conv @ ("conv1" | "conv2"), leaf)) => match leaf.strip_prefix("norm.") {
                Some(leaf) => norm_leaf(leaf).map_or(WeightSource::Absent, |leaf| {
                    let norm = conv.replace("conv", "bn");
                    WeightSource::Same(format!("{unit}.{norm}.{leaf}"))
                }),
                None => WeightSource::Absent,
            },
            _ => WeightSource::Absent,
        },
    }
}

/// `block2.unit1.conv1.weight` is `layer2.0` and `conv1.weight`.
fn unit_of(path: &str) -> Option<(String, &str)> {
    let mut parts = path.splitn(3, '.');
    let block: usize = parts.next()?.strip_prefix("block")?.parse().ok()?;
    let unit: usize = parts.next()?.strip_prefix("unit")?.parse().ok()?;
    Some((
        format!("layer{block}.{}", unit.checked_sub(1)?),
        parts.next()?,
    ))
}

fn folded(kernel: &str, norm: &str, spread: bool) -> WeightSource {
    WeightSource::FoldedKernel {
        kernel: format!("{kernel}.weight"),
        norm: norm.to_string(),
        spread,
    }
}

fn folded_bias(norm: &str) -> WeightSource {
    WeightSource::FoldedBias {
        norm: norm.to_string(),
    }
}

/// The parameters of a normalisation that is the identity.
fn identity(leaf: &str) -> WeightSource {
    match leaf {
        "scale" => WeightSource::Constant(1.0),
        "shift" | "running_mean" => WeightSource::Constant(0.0),
        // The variance is 1 after ε is added.
        "running_variance" => WeightSource::Constant(1.0 - super::EPSILON),
        _ => WeightSource::Absent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_torchvision() {
        let same = |name: &str| WeightSource::Same(name.to_string());
        let check =
            |ours: &str, expected: WeightSource| assert_eq!(source(ours), expected, "{ours}");
        check(
            "encoder.block3.unit2.conv2.weight",
            same("layer3.1.conv2.weight"),
        );
        check(
            "encoder.block1.unit1.conv1.norm.running_variance",
            same("layer1.0.bn1.running_var"),
        );
        check(
            "encoder.block1.unit3.conv2.norm.scale",
            same("layer1.2.bn2.weight"),
        );
        check(
            "encoder.block2.unit1.shortcut.weight",
            folded("layer2.0.downsample.0", "layer2.0.downsample.1", false),
        );
        check(
            "encoder.block4.unit3.conv3.bias",
            folded_bias("layer4.2.bn3"),
        );
        check("encoder.stem.weight", folded("conv1", "bn1", true));
        check(
            "encoder.block1.unit1.preact.scale",
            WeightSource::Constant(1.0),
        );
        check("decoder.classify.weight", WeightSource::Absent);
        check("encoder.block1.unit0.conv1.weight", WeightSource::Absent);
    }
}
