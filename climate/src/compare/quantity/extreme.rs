//! The values of single tracks whose distributions and annual extremes are compared.

use super::Quantity;

/// A value of each track whose distribution is compared, and whose extreme is that of a year.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extreme {
    /// Highest wind of a tropical cyclone.
    CycloneWind,
    /// Lowest pressure of a tropical cyclone.
    CyclonePressure,
    /// Largest area of an atmospheric river.
    RiverArea,
    /// Highest vapour transport of an atmospheric river.
    RiverTransport,
}

impl Extreme {
    /// Number of extremes.
    pub(in crate::compare) const COUNT: usize = Self::RiverTransport as usize + 1;

    /// The unit in tables.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::CycloneWind => "m/s",
            Self::CyclonePressure => "hPa",
            Self::RiverArea => "km²",
            Self::RiverTransport => "kg m⁻¹ s⁻¹",
        }
    }

    /// Whether the smallest value is extreme.
    pub(crate) fn is_lowest(self) -> bool {
        match self {
            Self::CyclonePressure => true,
            Self::CycloneWind | Self::RiverArea | Self::RiverTransport => false,
        }
    }

    /// The quantity that counts the tracks with this extreme.
    pub(crate) fn tracks(self) -> Quantity {
        match self {
            Self::CycloneWind | Self::CyclonePressure => Quantity::CycloneTracks,
            Self::RiverArea | Self::RiverTransport => Quantity::RiverTracks,
        }
    }
}
