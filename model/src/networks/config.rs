//! What can be chosen about a network.

use crate::error::{ModelError, Result};
use serde::{Deserialize, Serialize};

/// Which network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum NetworkName {
    /// DeepLabV3+ with the full-resolution `deconv1x` decoder of the SC18 paper.
    #[serde(rename = "deeplabv3plus")]
    DeepLabV3Plus,
    /// DeepLabV3+ with the decoder that ends at a quarter of the resolution and doubles twice.
    #[serde(rename = "deeplabv3plus-deconv")]
    DeepLabV3PlusDeconv,
    /// DeepLabV3+ with the bilinear decoder.
    #[serde(rename = "deeplabv3plus-bilinear")]
    DeepLabV3PlusBilinear,
}

impl NetworkName {
    /// Every name.
    pub const ALL: [Self; 3] = [
        Self::DeepLabV3Plus,
        Self::DeepLabV3PlusDeconv,
        Self::DeepLabV3PlusBilinear,
    ];

    /// As in recipes and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DeepLabV3Plus => "deeplabv3plus",
            Self::DeepLabV3PlusDeconv => "deeplabv3plus-deconv",
            Self::DeepLabV3PlusBilinear => "deeplabv3plus-bilinear",
        }
    }
}

impl std::str::FromStr for NetworkName {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|name| name.as_str() == text);
        found.ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.into_iter().map(Self::as_str).collect();
            let reason = format!("expected one of {}, found `{text}`", known.join(", "));
            ModelError::Config {
                key: "network",
                reason,
            }
        })
    }
}

/// A network's configuration. The defaults are the published network, with what ten years taught switched on: batch
/// normalisation and periodic longitude. [`NetworkConfig::published`] switches both off.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkConfig {
    /// Which network.
    pub name: NetworkName,
    /// Channels of the input.
    pub channels_in: usize,
    /// Classes of the output.
    pub classes: usize,
    /// Multiplies the channels of the encoder, rounded to multiples of 8.
    pub width: f64,
    /// Multiplies the channels of the pyramid and the decoder; as `width` if not given.
    pub decoder_width: Option<f64>,
    /// Bottleneck units per block; `[3, 4, 6, 3]` is ResNet-50, `[3, 4, 23, 3]` ResNet-101.
    pub blocks: Vec<usize>,
    /// Input pixels per pixel of the encoder's output: 8 or 16.
    pub output_stride: usize,
    /// Dilations of the pyramid's 3x3 kernels.
    pub atrous_rates: Vec<usize>,
    /// Batch normalisation; if off, every one is the published multiplication by one half.
    pub batch_norm: bool,
    /// What running statistics keep at each step.
    pub batch_norm_decay: f32,
    /// Longitude wraps in every padding.
    pub periodic_longitude: bool,
    /// Two more input channels that say where on the globe a row lies: its position from -1 (first row) to 1 (last), and
    /// the square of it. Kernels alone see no latitude, which decides what a moist pixel is.
    pub latitude_input: bool,
    /// Share of the pyramid's output that dropout clears in training.
    pub dropout: f32,
}

impl Default for NetworkConfig {
    fn default() -> Self {
        Self {
            name: NetworkName::DeepLabV3Plus,
            channels_in: 16,
            classes: 3,
            width: 1.0,
            decoder_width: None,
            blocks: vec![3, 4, 6, 3],
            output_stride: 8,
            atrous_rates: vec![12, 24, 36],
            batch_norm: true,
            batch_norm_decay: 0.97,
            periodic_longitude: true,
            latitude_input: false,
            dropout: 0.0,
        }
    }
}

impl NetworkConfig {
    /// The configuration of the SC18 runs: no batch normalisation, zero padding.
    ///
    /// # Source
    /// 1810.01993, section V-B, and ClimDeepLearn `deeplab_model.py`.
    pub fn published(name: NetworkName) -> Self {
        Self {
            name,
            batch_norm: false,
            periodic_longitude: false,
            ..Self::default()
        }
    }

    /// A network that two CPU cores train in minutes: 0.36 M parameters, 8 GF per training sample at 192 x 288.
    ///
    /// A quarter of the published encoder's channels in three blocks of one unit, an eleventh of the decoder's, rates for a
    /// 1-degree grid.
    pub fn small() -> Self {
        Self {
            width: 0.25,
            decoder_width: Some(0.09),
            blocks: vec![1, 1, 1],
            atrous_rates: vec![3, 6, 12],
            batch_norm_decay: 0.9,
            ..Self::default()
        }
    }

    /// Channels that the first layers see.
    pub(crate) fn inputs(&self) -> usize {
        self.channels_in + if self.latitude_input { 2 } else { 0 }
    }

    /// Channels of an encoder layer that the paper gives `channels`.
    pub(crate) fn encoder_channels(&self, channels: usize) -> usize {
        scaled(channels, self.width)
    }

    /// Channels of a decoder layer that the paper gives `channels`.
    pub(crate) fn decoder_channels(&self, channels: usize) -> usize {
        scaled(channels, self.decoder_width.unwrap_or(self.width))
    }

    /// Refuses what cannot be built.
    ///
    /// # Errors
    /// [`ModelError::Config`] naming the key, what was expected and found.
    pub fn check(&self) -> Result<()> {
        let bad = |key: &'static str, reason: String| Err(ModelError::Config { key, reason });
        if self.channels_in == 0 || self.channels_in > 256 {
            return bad(
                "channels_in",
                format!("expected 1 to 256, found {}", self.channels_in),
            );
        }
        if !(2..=250).contains(&self.classes) {
            return bad(
                "classes",
                format!("expected 2 to 250, found {}", self.classes),
            );
        }
        let widths = [
            ("width", Some(self.width)),
            ("decoder_width", self.decoder_width),
        ];
        for (key, width) in widths {
            if width.is_some_and(|width| !(width > 0.0 && width <= 8.0)) {
                return bad(key, format!("expected above 0, at most 8, found {width:?}"));
            }
        }
        if !(2..=4).contains(&self.blocks.len()) || self.blocks.contains(&0) {
            let found = &self.blocks;
            return bad(
                "blocks",
                format!("expected 2 to 4 counts above 0, found {found:?}"),
            );
        }
        if ![8, 16].contains(&self.output_stride) {
            return bad(
                "output_stride",
                format!("expected 8 or 16, found {}", self.output_stride),
            );
        }
        if self.atrous_rates.is_empty() || self.atrous_rates.contains(&0) {
            let found = &self.atrous_rates;
            return bad(
                "atrous_rates",
                format!("expected rates above 0, found {found:?}"),
            );
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return bad(
                "dropout",
                format!("expected [0, 1), found {}", self.dropout),
            );
        }
        if !(0.0..1.0).contains(&self.batch_norm_decay) {
            let found = self.batch_norm_decay;
            return bad(
                "batch_norm_decay",
                format!("expected [0, 1), found {found}"),
            );
        }
        Ok(())
    }
}

fn scaled(channels: usize, factor: f64) -> usize {
    let eights = (channels as f64 * factor / 8.0).round() as usize;
    8 * eights.max(1)
}
