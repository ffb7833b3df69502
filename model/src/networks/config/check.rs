//! Validation of configurations: ranges of single keys, and the limits of each network.

use super::NetworkConfig;
use crate::error::{ModelError, Result};
use crate::networks::{NetworkName, keys};
use std::fmt::Display;
use std::ops::RangeInclusive;

/// Upper limit on the blocks of a stage.
const MOST_BLOCKS: usize = 1000;

/// Upper limit on dilations, larger than any field.
const MOST_RATE: usize = 10_000;

/// Returns the error for a key with an invalid value.
fn refuse(key: &'static str, expected: impl Display, found: impl Display) -> Result<()> {
    let reason = format!("expected {expected}, found {found}");
    Err(ModelError::Config { key, reason })
}

/// Checks that each integer is in its range.
fn within<const N: usize>(keys: [(&'static str, usize, RangeInclusive<usize>); N]) -> Result<()> {
    for (key, found, range) in keys {
        if !range.contains(&found) {
            let (least, most) = range.into_inner();
            return refuse(key, format!("{least} to {most}"), found);
        }
    }
    Ok(())
}

impl NetworkConfig {
    /// Checks that the network can be built.
    ///
    /// # Errors
    /// [`ModelError::Config`] with the key, the expected and the actual value.
    pub fn check(&self) -> Result<()> {
        keys::check(self)?;
        if self.batch_norm && !self.preactivation_relu {
            return refuse("preactivation_relu", "true with batch_norm", false);
        }
        within([
            ("channels_in", self.channels_in, 1..=256),
            ("classes", self.classes, 2..=250),
        ])?;
        self.check_widths()?;
        self.check_blocks()?;
        if self.name.is_detector() {
            self.check_detector()?;
        }
        self.check_stride()?;
        self.check_rates()?;
        if self.name == NetworkName::CgNet {
            self.check_stages()?;
        }
        within([("growth", self.growth, 1..=1024)])?;
        self.check_kernel()?;
        self.check_padding()?;
        self.check_shares()
    }

    fn check_widths(&self) -> Result<()> {
        let widths = [
            ("width", Some(self.width)),
            ("decoder_width", self.decoder_width),
        ];
        for (key, width) in widths {
            if let Some(width) = width.filter(|width| !(*width > 0.0 && *width <= 8.0)) {
                return refuse(key, "above 0, at most 8", width);
            }
        }
        Ok(())
    }

    /// Checks that the network supports this depth.
    fn check_blocks(&self) -> Result<()> {
        let lengths = match self.name {
            NetworkName::DeepCam
            | NetworkName::Detector2d
            | NetworkName::Detector2dHalf
            | NetworkName::Detector3d
            | NetworkName::Detector15pf => 1..=1,
            NetworkName::Tiramisu => 2..=6,
            NetworkName::CgNet => 2..=2,
            NetworkName::DeepLabV3Plus
            | NetworkName::DeepLabV3PlusDeconv
            | NetworkName::DeepLabV3PlusBilinear
            | NetworkName::DetectorDense => 2..=4,
        };
        let counted = |count: &usize| (1..=MOST_BLOCKS).contains(count);
        if !lengths.contains(&self.blocks.len()) || !self.blocks.iter().all(counted) {
            let (found, least, most) = (&self.blocks, lengths.start(), lengths.end());
            let expected = format!("{least} to {most} counts of 1 to {MOST_BLOCKS}");
            return refuse("blocks", expected, format!("{found:?}"));
        }
        Ok(())
    }

    /// Checks the keys that only detectors read.
    fn check_detector(&self) -> Result<()> {
        let halvings = self.blocks.first().copied().unwrap_or(0);
        if !self.name.finds_centres() && !(2..=6).contains(&halvings) {
            return refuse("blocks", "2 to 6 halvings", halvings);
        }
        within([("time_steps", self.time_steps, 3..=256)])?;
        if self.mask_classes == 1 || self.mask_classes > 250 {
            let expected = "0 for no masks, or 2 to 250";
            return refuse("mask_classes", expected, self.mask_classes);
        }
        Ok(())
    }

    fn check_stride(&self) -> Result<()> {
        let strides: &[usize] = match self.name.doubles() {
            // Three of them make up for a stride of 8.
            true => &[8],
            false => &[8, 16],
        };
        if !strides.contains(&self.output_stride) {
            let expected = format!("one of {strides:?} for `{}`", self.name.as_str());
            return refuse("output_stride", expected, self.output_stride);
        }
        Ok(())
    }

    fn check_rates(&self) -> Result<()> {
        let rates = &self.atrous_rates;
        let fits = |rate: &usize| (1..=MOST_RATE).contains(rate);
        if rates.is_empty() || !rates.iter().all(fits) {
            let expected = format!("rates of 1 to {MOST_RATE}");
            return refuse("atrous_rates", expected, format!("{rates:?}"));
        }
        Ok(())
    }

    /// Checks the rates and blocks of CGNet's two stages.
    fn check_stages(&self) -> Result<()> {
        let (rates, blocks) = (&self.atrous_rates, &self.blocks);
        if rates.len() != 2 {
            let expected = "one rate for each of two stages";
            return refuse("atrous_rates", expected, format!("{rates:?}"));
        }
        if blocks.contains(&1) {
            return refuse("blocks", "2 or more in each stage", format!("{blocks:?}"));
        }
        Ok(())
    }

    fn check_kernel(&self) -> Result<()> {
        if self.kernel.is_multiple_of(2) || self.kernel > 15 {
            return refuse("kernel", "an odd extent up to 15", self.kernel);
        }
        Ok(())
    }

    fn check_padding(&self) -> Result<()> {
        if self.periodic_latitude && !self.periodic_longitude {
            return Err(ModelError::Config {
                key: "periodic_latitude",
                reason: "expected `periodic_longitude` with it: ClimateNet wraps both".into(),
            });
        }
        Ok(())
    }

    /// Checks that shares are in [0, 1).
    fn check_shares(&self) -> Result<()> {
        let shares = [
            ("dropout", self.dropout),
            ("batch_norm_decay", self.batch_norm_decay),
        ];
        for (key, share) in shares {
            if !(0.0..1.0).contains(&share) {
                return refuse(key, "[0, 1)", share);
            }
        }
        Ok(())
    }
}
