//! Intensity classes of tropical cyclones by wind.

use serde::{Deserialize, Serialize};

/// Metres per second of one knot.
pub const KNOT_M_S: f64 = 1852.0 / 3600.0;

/// Intensity class of a wind: depression, storm, hurricane 1 to 5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Category {
    /// Tropical depression.
    Depression,
    /// Tropical storm.
    Storm,
    /// Hurricane of category 1.
    One,
    /// Hurricane of category 2.
    Two,
    /// Hurricane of category 3.
    Three,
    /// Hurricane of category 4.
    Four,
    /// Hurricane of category 5.
    Five,
}

/// Lower limits of storm and of categories 1 to 5, knots.
///
/// Source: US National Hurricane Center, "Saffir-Simpson Hurricane Wind Scale" (2012 limits).
const SAFFIR_SIMPSON_KNOTS: [f64; 6] = [34.0, 64.0, 83.0, 96.0, 113.0, 137.0];

/// Whether a wind, in knots or km/h, reaches a limit. Tables round winds to 0.001 m/s, and the round trip must not move
/// a wind of whole knots below its limit.
pub(super) fn reaches(wind: f64, limit: f64) -> bool {
    wind >= limit - ROUNDING
}

/// Tables round by at most 0.001 kt or 0.0018 km/h; reported winds are coarser.
const ROUNDING: f64 = 0.002;

impl Category {
    /// All categories, weakest first.
    pub const ALL: [Self; 7] = [
        Self::Depression,
        Self::Storm,
        Self::One,
        Self::Two,
        Self::Three,
        Self::Four,
        Self::Five,
    ];

    /// The Saffir-Simpson category of a sustained wind; `None` for NaN.
    ///
    /// # Example
    /// ```
    /// use squall_climate::statistics::Category;
    /// assert_eq!(Category::saffir_simpson(33.0), Some(Category::One));
    /// assert_eq!(Category::saffir_simpson(70.4), Some(Category::Four));
    /// ```
    pub fn saffir_simpson(wind_m_s: f64) -> Option<Self> {
        let knots = wind_m_s / KNOT_M_S;
        let reached = SAFFIR_SIMPSON_KNOTS
            .iter()
            .filter(|&&limit| reaches(knots, limit));
        (!knots.is_nan()).then(|| Self::ALL[reached.count()])
    }

    /// The minimum winds of storms and categories 1 to 5, m/s.
    pub fn lowest_winds_m_s() -> [f64; 6] {
        SAFFIR_SIMPSON_KNOTS.map(|knots| (knots - ROUNDING) * KNOT_M_S)
    }

    /// The word used in tables: `TD`, `TS`, `1` to `5`.
    pub fn name(self) -> &'static str {
        ["TD", "TS", "1", "2", "3", "4", "5"][self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_belong_to_the_stronger_category() {
        for (k, knots) in SAFFIR_SIMPSON_KNOTS.into_iter().enumerate() {
            let at = Category::saffir_simpson(knots * KNOT_M_S).unwrap();
            let below = Category::saffir_simpson((knots - 0.5) * KNOT_M_S).unwrap();
            assert_eq!((at, below), (Category::ALL[k + 1], Category::ALL[k]));
        }
        // Rounded as in tables.
        for (k, knots) in SAFFIR_SIMPSON_KNOTS.into_iter().enumerate() {
            let written = (1000.0 * knots * KNOT_M_S).round() / 1000.0;
            assert_eq!(
                Category::saffir_simpson(written),
                Some(Category::ALL[k + 1])
            );
        }
        let lowest = Category::lowest_winds_m_s().map(|wind| Category::saffir_simpson(wind + 1e-9));
        assert_eq!(
            lowest.to_vec(),
            Category::ALL[1..]
                .iter()
                .copied()
                .map(Some)
                .collect::<Vec<_>>()
        );
        // The scale's published limits in km/h are rounded: 136.5 kt exceeds the limit of category 5 in km/h (252) but
        // not in knots.
        assert_eq!(
            Category::saffir_simpson(136.5 * KNOT_M_S),
            Some(Category::Four)
        );
        assert_eq!(Category::saffir_simpson(f64::NAN), None);
    }
}
