//! A network's configuration as written in a recipe: omitted keys take the defaults of the chosen network.

use super::{NetworkConfig, NetworkName};
use crate::error::{ModelError, Result};
use serde::{Deserialize, Serialize};

/// Declares [`Keys`] and the functions that visit every key.
macro_rules! keys {
    ($($key:ident: $kind:ty,)*) => {
        /// The keys of [`NetworkConfig`], all optional.
        #[derive(Debug, Clone, Default, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub(super) struct Keys {
            name: Option<NetworkName>,
            $(#[serde(skip_serializing_if = "Option::is_none")]
            $key: Option<$kind>,)*
        }

        impl TryFrom<Keys> for NetworkConfig {
            type Error = ModelError;

            fn try_from(keys: Keys) -> Result<Self> {
                let base = Self::of(keys.name.unwrap_or(NetworkName::DeepLabV3Plus));
                $(refuse_foreign(base.name, stringify!($key), keys.$key.is_some())?;)*
                Ok(Self {
                    name: base.name,
                    $($key: keys.$key.unwrap_or(base.$key),)*
                })
            }
        }

        impl From<NetworkConfig> for Keys {
            /// Every key that the network reads.
            fn from(config: NetworkConfig) -> Self {
                let name = config.name;
                let keys = Self {
                    name: Some(name),
                    $($key: name.reads(stringify!($key)).then_some(config.$key),)*
                };
                // TOML cannot represent a key without a value.
                Self {
                    decoder_width: keys.decoder_width.filter(Option::is_some),
                    ..keys
                }
            }
        }

        /// Rejects a key that differs from its default although the network does not read it.
        pub(super) fn check(config: &NetworkConfig) -> Result<()> {
            let base = NetworkConfig::of(config.name);
            $(refuse_foreign(config.name, stringify!($key), config.$key != base.$key)?;)*
            Ok(())
        }
    };
}

keys! {
    channels_in: usize,
    classes: usize,
    width: f64,
    decoder_width: Option<f64>,
    blocks: Vec<usize>,
    output_stride: usize,
    atrous_rates: Vec<usize>,
    growth: usize,
    kernel: usize,
    batch_norm: bool,
    preactivation_relu: bool,
    batch_norm_decay: f32,
    periodic_longitude: bool,
    periodic_latitude: bool,
    latitude_input: bool,
    dropout: f32,
    time_steps: usize,
    box_relu: bool,
    mask_classes: usize,
}

/// The beginning of the error message for a key that the chosen network does not read. Callers that parse recipes get
/// only the message of an error, and recognise it by these words.
pub const FOREIGN_KEY: &str = "it says nothing about the network";

/// Rejects a key that was given although the network does not read it.
fn refuse_foreign(name: NetworkName, key: &'static str, given: bool) -> Result<()> {
    if !given || name.reads(key) {
        return Ok(());
    }
    let reason = format!("{FOREIGN_KEY} `{}`: leave it out", name.as_str());
    Err(ModelError::Config { key, reason })
}
