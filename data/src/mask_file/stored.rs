//! The meaning of a mask's stored values.

use super::scan::MaskFile;
use crate::archive::decode::as_meant;

/// Maximum distance of a packed code from its integer.
const LARGEST_SLIP: f64 = 0.49;

impl MaskFile {
    /// The number that a stored value means.
    pub fn meant(&self, stored: f64) -> f64 {
        let (scale, offset) = self.packing;
        as_meant(stored, self.wrap) * scale + offset
    }

    /// By how much packing may shift an integer.
    pub fn near(&self) -> f64 {
        match self.packing {
            (1.0, 0.0) => 0.0,
            (scale, _) => scale.abs().min(LARGEST_SLIP),
        }
    }

    /// Whether a stored value of a tag marks missing data. (No object number is as large as netCDF's default fill
    /// value.)
    pub fn is_missing(&self, stored: f64) -> bool {
        stored.is_nan() || stored > 1e15 || self.missing.contains(&stored)
    }

    /// Whether some cell of a tag with these stored values is known to have no object.
    pub fn has_background(&self, stored: &[f64]) -> bool {
        let is_background =
            |value: &f64| !self.is_missing(*value) && self.meant(*value) <= self.near();
        stored.iter().any(is_background)
    }
}
