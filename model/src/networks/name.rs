//! The names of the networks, and the configuration keys that each network reads.

use crate::error::{ModelError, Result};
use serde::{Deserialize, Serialize};

/// A network's name, as written in recipes, model files and on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum NetworkName {
    /// DeepLabV3+ with the full-resolution `deconv1x` decoder of the SC18 paper.
    #[serde(rename = "deeplabv3plus")]
    DeepLabV3Plus,
    /// DeepLabV3+ with the decoder that ends at a quarter of the resolution and upsamples twice by a factor of two.
    #[serde(rename = "deeplabv3plus-deconv")]
    DeepLabV3PlusDeconv,
    /// DeepLabV3+ with the bilinear decoder.
    #[serde(rename = "deeplabv3plus-bilinear")]
    DeepLabV3PlusBilinear,
    /// MLPerf HPC DeepCAM: DeepLabV3+ on an Xception encoder, weight-compatible with its PyTorch checkpoints.
    #[serde(rename = "deepcam")]
    DeepCam,
    /// The fully convolutional DenseNet of the SC18 paper.
    #[serde(rename = "tiramisu")]
    Tiramisu,
    /// ClimateNet's context-guided network.
    #[serde(rename = "cgnet")]
    CgNet,
    /// The semi-supervised box detector of ExtremeWeather, frame by frame.
    #[serde(rename = "detector-2d")]
    Detector2d,
    /// As [`Self::Detector2d`], with half the channels.
    #[serde(rename = "detector-2d-half")]
    Detector2dHalf,
    /// As [`Self::Detector2dHalf`], with kernels that extend over time.
    #[serde(rename = "detector-3d")]
    Detector3d,
    /// The box detector of the 15-petaflop runs: nine convolutions and five transposed convolutions.
    #[serde(rename = "detector-15pf")]
    Detector15pf,
    /// Boxes around centres, on the encoder and pyramid of DeepLabV3+; optionally also masks.
    #[serde(rename = "detector-dense")]
    DetectorDense,
}

/// The keys of [`NetworkConfig`](super::NetworkConfig) that every network reads.
const COMMON_KEYS: [&str; 6] = [
    "channels_in",
    "classes",
    "width",
    "batch_norm_decay",
    "periodic_longitude",
    "latitude_input",
];

impl NetworkName {
    /// Every name.
    pub const ALL: [Self; 11] = [
        Self::DeepLabV3Plus,
        Self::DeepLabV3PlusDeconv,
        Self::DeepLabV3PlusBilinear,
        Self::DeepCam,
        Self::Tiramisu,
        Self::CgNet,
        Self::Detector2d,
        Self::Detector2dHalf,
        Self::Detector3d,
        Self::Detector15pf,
        Self::DetectorDense,
    ];

    /// The networks that classify every pixel.
    pub const SEGMENTATION: [Self; 6] = Self::with(false);

    /// The networks that find boxes.
    pub const DETECTION: [Self; 5] = Self::with(true);

    /// Those of all names that are detectors, or those that are not, if there are N of them.
    const fn with<const N: usize>(detectors: bool) -> [Self; N] {
        let mut found = [Self::ALL[0]; N];
        let (mut count, mut at) = (0, 0);
        while at < Self::ALL.len() {
            if Self::ALL[at].is_detector() == detectors {
                found[count] = Self::ALL[at];
                count += 1;
            }
            at += 1;
        }
        assert!(count == N, "another number of networks");
        found
    }

    /// Whether it finds boxes; otherwise it classifies every pixel.
    pub const fn is_detector(self) -> bool {
        match self {
            Self::DeepLabV3Plus
            | Self::DeepLabV3PlusDeconv
            | Self::DeepLabV3PlusBilinear
            | Self::DeepCam
            | Self::Tiramisu
            | Self::CgNet => false,
            Self::Detector2d
            | Self::Detector2dHalf
            | Self::Detector3d
            | Self::Detector15pf
            | Self::DetectorDense => true,
        }
    }

    /// Whether it finds boxes around centres; other detectors find one per cell.
    pub fn finds_centres(self) -> bool {
        match self {
            Self::DetectorDense => true,
            Self::DeepLabV3Plus
            | Self::DeepLabV3PlusDeconv
            | Self::DeepLabV3PlusBilinear
            | Self::DeepCam
            | Self::Tiramisu
            | Self::CgNet
            | Self::Detector2d
            | Self::Detector2dHalf
            | Self::Detector3d
            | Self::Detector15pf => false,
        }
    }

    /// Whether it has a decoder that reconstructs its input, as detectors of cells have.
    pub fn reconstructs(self) -> bool {
        self.is_detector() && !self.finds_centres()
    }

    /// The name as written in recipes and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DeepLabV3Plus => "deeplabv3plus",
            Self::DeepLabV3PlusDeconv => "deeplabv3plus-deconv",
            Self::DeepLabV3PlusBilinear => "deeplabv3plus-bilinear",
            Self::DeepCam => "deepcam",
            Self::Tiramisu => "tiramisu",
            Self::CgNet => "cgnet",
            Self::Detector2d => "detector-2d",
            Self::Detector2dHalf => "detector-2d-half",
            Self::Detector3d => "detector-3d",
            Self::Detector15pf => "detector-15pf",
            Self::DetectorDense => "detector-dense",
        }
    }

    /// Whether this network reads a key of [`NetworkConfig`](super::NetworkConfig).
    pub(super) fn reads(self, key: &str) -> bool {
        COMMON_KEYS.contains(&key) || self.own_keys().contains(&key)
    }

    /// The keys of [`NetworkConfig`](super::NetworkConfig) that this network reads in addition to those that all
    /// networks read: `channels_in`, `classes`, `width`, `batch_norm_decay`, `periodic_longitude` and `latitude_input`.
    pub fn own_keys(self) -> &'static [&'static str] {
        match self {
            Self::DeepLabV3Plus | Self::DeepLabV3PlusDeconv | Self::DeepLabV3PlusBilinear => &[
                "decoder_width",
                "blocks",
                "output_stride",
                "atrous_rates",
                "batch_norm",
                "preactivation_relu",
                "dropout",
            ],
            Self::DeepCam => &["decoder_width", "blocks", "atrous_rates"],
            Self::Tiramisu => &["blocks", "growth", "kernel", "batch_norm", "dropout"],
            Self::CgNet => &["blocks", "atrous_rates", "periodic_latitude"],
            Self::Detector2d | Self::Detector2dHalf => &["blocks", "kernel", "box_relu"],
            Self::Detector3d => &["blocks", "kernel", "box_relu", "time_steps"],
            Self::Detector15pf => &["kernel", "box_relu"],
            Self::DetectorDense => &[
                "decoder_width",
                "blocks",
                "atrous_rates",
                "batch_norm",
                "preactivation_relu",
                "mask_classes",
            ],
        }
    }
}

// `ALL` lacks no name, unless one comes after the last.
const _: () = assert!(NetworkName::ALL.len() == NetworkName::DetectorDense as usize + 1);

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_network_has_a_place_a_name_and_a_task() {
        for (place, name) in NetworkName::ALL.into_iter().enumerate() {
            assert_eq!(name as usize, place, "{name:?}");
            assert_eq!(name.as_str().parse::<NetworkName>().unwrap(), name);
            let detects = NetworkName::DETECTION.contains(&name);
            assert_eq!(detects, name.is_detector(), "{name:?}");
            assert_eq!(NetworkName::SEGMENTATION.contains(&name), !detects);
        }
    }
}
