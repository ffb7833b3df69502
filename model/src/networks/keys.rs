//! A network's configuration as it stands in a recipe: keys that are left out have the defaults of the chosen network.

use super::{NetworkConfig, NetworkName};
use crate::error::{ModelError, Result};
use serde::{Deserialize, Serialize};

/// The keys of [`NetworkConfig`], each of which may be left out.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Keys {
    name: Option<NetworkName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    channels_in: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    classes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    width: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decoder_width: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blocks: Option<Vec<usize>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_stride: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    atrous_rates: Option<Vec<usize>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    growth: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch_norm: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    preactivation_relu: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch_norm_decay: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    periodic_longitude: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    periodic_latitude: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latitude_input: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dropout: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_steps: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    box_relu: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mask_classes: Option<usize>,
}

/// Refuses the first key that was given although it says nothing about the network.
pub(super) fn refuse_foreign(name: NetworkName, given: &[(&'static str, bool)]) -> Result<()> {
    let foreign = given
        .iter()
        .find(|(key, given)| *given && !name.own_keys().contains(key));
    match foreign {
        None => Ok(()),
        Some(&(key, _)) => Err(ModelError::Config {
            key,
            reason: format!(
                "it says nothing about the network `{}`: leave it out",
                name.as_str()
            ),
        }),
    }
}

impl TryFrom<Keys> for NetworkConfig {
    type Error = ModelError;

    fn try_from(keys: Keys) -> Result<Self> {
        let base = Self::of(keys.name.unwrap_or(NetworkName::DeepLabV3Plus));
        refuse_foreign(
            base.name,
            &[
                ("decoder_width", keys.decoder_width.is_some()),
                ("blocks", keys.blocks.is_some()),
                ("output_stride", keys.output_stride.is_some()),
                ("atrous_rates", keys.atrous_rates.is_some()),
                ("growth", keys.growth.is_some()),
                ("kernel", keys.kernel.is_some()),
                ("batch_norm", keys.batch_norm.is_some()),
                ("preactivation_relu", keys.preactivation_relu.is_some()),
                ("periodic_latitude", keys.periodic_latitude.is_some()),
                ("dropout", keys.dropout.is_some()),
                ("time_steps", keys.time_steps.is_some()),
                ("box_relu", keys.box_relu.is_some()),
                ("mask_classes", keys.mask_classes.is_some()),
            ],
        )?;
        Ok(Self {
            name: base.name,
            channels_in: keys.channels_in.unwrap_or(base.channels_in),
            classes: keys.classes.unwrap_or(base.classes),
            width: keys.width.unwrap_or(base.width),
            decoder_width: keys.decoder_width.or(base.decoder_width),
            blocks: keys.blocks.unwrap_or(base.blocks),
            output_stride: keys.output_stride.unwrap_or(base.output_stride),
            atrous_rates: keys.atrous_rates.unwrap_or(base.atrous_rates),
            growth: keys.growth.unwrap_or(base.growth),
            kernel: keys.kernel.unwrap_or(base.kernel),
            batch_norm: keys.batch_norm.unwrap_or(base.batch_norm),
            preactivation_relu: keys.preactivation_relu.unwrap_or(base.preactivation_relu),
            batch_norm_decay: keys.batch_norm_decay.unwrap_or(base.batch_norm_decay),
            periodic_longitude: keys.periodic_longitude.unwrap_or(base.periodic_longitude),
            periodic_latitude: keys.periodic_latitude.unwrap_or(base.periodic_latitude),
            latitude_input: keys.latitude_input.unwrap_or(base.latitude_input),
            dropout: keys.dropout.unwrap_or(base.dropout),
            time_steps: keys.time_steps.unwrap_or(base.time_steps),
            box_relu: keys.box_relu.unwrap_or(base.box_relu),
            mask_classes: keys.mask_classes.unwrap_or(base.mask_classes),
        })
    }
}

impl From<NetworkConfig> for Keys {
    /// Every key that says something about the network.
    fn from(config: NetworkConfig) -> Self {
        let own = config.name.own_keys();
        let has = |key: &str| own.contains(&key);
        Self {
            name: Some(config.name),
            channels_in: Some(config.channels_in),
            classes: Some(config.classes),
            width: Some(config.width),
            decoder_width: config.decoder_width,
            blocks: has("blocks").then_some(config.blocks),
            output_stride: has("output_stride").then_some(config.output_stride),
            atrous_rates: has("atrous_rates").then_some(config.atrous_rates),
            growth: has("growth").then_some(config.growth),
            kernel: has("kernel").then_some(config.kernel),
            batch_norm: has("batch_norm").then_some(config.batch_norm),
            preactivation_relu: has("preactivation_relu").then_some(config.preactivation_relu),
            batch_norm_decay: Some(config.batch_norm_decay),
            periodic_longitude: Some(config.periodic_longitude),
            periodic_latitude: has("periodic_latitude").then_some(config.periodic_latitude),
            latitude_input: Some(config.latitude_input),
            dropout: has("dropout").then_some(config.dropout),
            time_steps: has("time_steps").then_some(config.time_steps),
            box_relu: has("box_relu").then_some(config.box_relu),
            mask_classes: has("mask_classes").then_some(config.mask_classes),
        }
    }
}
