//! The fields by which warm cores of cyclones are detected.

/// The criterion for warm cores of [`super::tempest`] and [`super::lows`]; a series uses only one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarmCore {
    /// The height of 300 hPa above 500 hPa, as published.
    Z300,
    /// The height of 250 hPa above 500 hPa, for files with 250 hPa instead of 300, as in much of CMIP.
    ///
    /// The threshold is the published layer's 6 m, as is usual with TempestExtremes on such files:
    /// `_DIFF(zg(250hPa),zg(500hPa)),-6,6.5,1.0`. In the deeper layer this corresponds to 0.30 K, not 0.40 K (g/R · 6 m
    /// / ln(500/250)), so weak storms pass that the published layer excludes.
    Z250,
    /// T200, T500 and the height of 200 hPa above 1000 hPa, for files with neither.
    Substitute,
}

impl WarmCore {
    /// All variants, the published one first.
    pub const ALL: [Self; 3] = [Self::Z300, Self::Z250, Self::Substitute];

    /// Upper and lower pressure of the heights, hPa; `None` for the substitute.
    pub fn levels_hpa(self) -> Option<[u16; 2]> {
        match self {
            Self::Z300 => Some([300, 500]),
            Self::Z250 => Some([250, 500]),
            Self::Substitute => None,
        }
    }

    /// A phrase for logs and file attributes.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Z300 => "the thickness from 500 to 300 hPa (Z300, Z500), as published",
            Self::Z250 => {
                "the thickness from 500 to 250 hPa (Z250, Z500) instead of to 300 hPa, by the same threshold"
            }
            Self::Substitute => {
                "T200, T500 and the thickness from 1000 to 200 hPa (Z200, Z1000) instead of that from 500 to 300 hPa"
            }
        }
    }
}
