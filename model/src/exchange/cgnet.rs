//! The names of CGNet's weights in ClimateNet's PyTorch files.
//!
//! # Source
//! ClimateNet `climatenet/models.py` and `climatenet/modules.py`; its `weights.pth` is a plain state dictionary.

use super::layout::{Layout, WeightSource, counter, norm_leaf};
use crate::networks::NetworkConfig;

/// ClimateNet's naming of CGNet's weights.
pub(super) const CGNET: Layout = Layout {
    name: "cgnet",
    source: |ours| pytorch_name(ours).map_or(WeightSource::Absent, WeightSource::Same),
    shape,
    tells: |name| name.starts_with("level1_0."),
    unused: counter,
    encoder: |name| !name.starts_with("classifier."),
    differences,
    needs_batch_norm: false,
};

fn differences(config: &NetworkConfig) -> &'static [&'static str] {
    if config.periodic_latitude {
        return &[];
    }
    &["ClimateNet pads latitude as if it wrapped: set `periodic_latitude` for the same logits"]
}

/// The name in ClimateNet's state dictionary of a parameter or running statistic of our network `cgnet`; `None` if the
/// name is not one of ours.
///
/// Shapes are equal except for the kernels inside gates, `(n, m, 1, 1)` here and `(n, m)` there. The weights are
/// equivalent only with `periodic_latitude`. PyTorch's `num_batches_tracked` has no counterpart.
fn pytorch_name(ours: &str) -> Option<String> {
    let parts: Vec<&str> = ours.split('.').collect();
    let (place, rest) = match *parts.as_slice() {
        ["classify", "weight"] => return Some("classifier.0.conv.weight".to_string()),
        ["stem1", ref rest @ ..] => ("level1_0".to_string(), active(rest)?),
        ["stem2", ref rest @ ..] => ("level1_1".to_string(), active(rest)?),
        ["stem3", ref rest @ ..] => ("level1_2".to_string(), active(rest)?),
        ["join1", ref rest @ ..] => ("b1".to_string(), normed(rest)?),
        ["join2", ref rest @ ..] => ("bn_prelu_2".to_string(), normed(rest)?),
        ["join3", ref rest @ ..] => ("bn_prelu_3".to_string(), normed(rest)?),
        [stage @ ("stage2" | "stage3"), block, ref rest @ ..] => {
            let level = stage.replace("stage", "level");
            match block.strip_prefix("block") {
                None if block == "halve" => (format!("{level}_0"), guided(rest, true)?),
                None => return None,
                Some(number) => {
                    let index = number.parse::<usize>().ok()?.checked_sub(1)?;
                    (format!("{level}.{index}"), guided(rest, false)?)
                }
            }
        }
        _ => return None,
    };
    Some(format!("{place}.{rest}"))
}

/// Our shape, except that the kernels inside gates are matrices there.
fn shape(name: &str, ours: &[usize]) -> Vec<usize> {
    match (name.contains(".F_glo.fc."), ours) {
        (true, &[outputs, inputs, 1, 1]) => vec![outputs, inputs],
        _ => ours.to_vec(),
    }
}

/// ClimateNet's name of a weight of a context-guided block; only in a downsampling block are normalisation and
/// activation separate.
fn guided(parts: &[&str], halving: bool) -> Option<String> {
    match *parts {
        ["enter", ref rest @ ..] => Some(format!("conv1x1.{}", active(rest)?)),
        ["local", "weight"] => Some("F_loc.conv.weight".to_string()),
        ["surround", "weight"] => Some("F_sur.conv.weight".to_string()),
        ["joint", ref rest @ ..] if halving => normed(rest),
        ["joint", ref rest @ ..] => Some(format!("bn_prelu.{}", normed(rest)?)),
        ["reduce", "weight"] if halving => Some("reduce.conv.weight".to_string()),
        ["gate", "reduce", leaf @ ("weight" | "bias")] => Some(format!("F_glo.fc.0.{leaf}")),
        ["gate", "expand", leaf @ ("weight" | "bias")] => Some(format!("F_glo.fc.2.{leaf}")),
        _ => None,
    }
}

/// ClimateNet's name of a weight of a convolution with normalisation and activation.
fn active(parts: &[&str]) -> Option<String> {
    match *parts {
        ["weight"] => Some("conv.weight".to_string()),
        ref rest => normed(rest),
    }
}

/// ClimateNet's name of a weight of a normalisation with activation.
fn normed(parts: &[&str]) -> Option<String> {
    match *parts {
        ["slope"] => Some("act.weight".to_string()),
        ["norm", leaf] => Some(format!("bn.{}", norm_leaf(leaf)?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_climatenet() {
        let name = |ours: &str| pytorch_name(ours).unwrap_or_default();
        assert_eq!(name("stem1.weight"), "level1_0.conv.weight");
        let joint = "stage3.block2.joint.norm.running_variance";
        assert_eq!(name(joint), "level3.1.bn_prelu.bn.running_var");
        let gate = "level2_0.F_glo.fc.2.bias";
        assert_eq!(name("stage2.halve.gate.expand.bias"), gate);
        assert_eq!(pytorch_name("stage4.halve.local.weight"), None);
    }
}
