//! Accumulated cyclone energy and power dissipation.

use crate::statistics::category::{KNOT_M_S, reaches};

/// Minimum wind that counts, knots (tropical storm).
const STORM_KNOTS: f64 = 34.0;
/// Interval of six-hourly advisories.
const ADVISORY_HOURS: f64 = 6.0;

/// Accumulated cyclone energy of one point of a track, 10⁴ kt²: v² · 10⁻⁴ for winds of storm strength at six-hourly
/// points. At other intervals the energy is weighted by the hours that the point represents.
///
/// # Source
/// Bell et al. 2000, "Climate Assessment for 1999", BAMS 81(6), S19.
///
/// # Example
/// ```
/// // A day of 100 knots in 6-hourly points, and in 3-hourly points.
/// let wind_m_s = 100.0 * 1852.0 / 3600.0;
/// let six: f64 = (0..4).map(|_| squall_climate::statistics::ace_of_point(wind_m_s, 6.0)).sum();
/// let three: f64 = (0..8).map(|_| squall_climate::statistics::ace_of_point(wind_m_s, 3.0)).sum();
/// assert!((six - 4.0).abs() < 1e-9 && (three - 4.0).abs() < 1e-9);
/// ```
pub fn ace_of_point(wind_m_s: f64, hours: f64) -> f64 {
    let knots = wind_m_s / KNOT_M_S;
    if reaches(knots, STORM_KNOTS) {
        1e-4 * knots * knots * hours / ADVISORY_HOURS
    } else {
        0.0
    }
}

/// Power dissipation of one point of a cyclone's track, m³ s-2: the cube of the wind times the time that the point
/// represents. The index of a track is the sum over its points.
///
/// # Source
/// Emanuel 2005, "Increasing destructiveness of tropical cyclones over the past 30 years", Nature 436, equation 2.
///
/// # Example
/// ```
/// // Six hours of 50 m/s.
/// assert_eq!(squall_climate::statistics::power_dissipation_of_point(50.0, 6.0), 2.7e9);
/// ```
pub fn power_dissipation_of_point(wind_m_s: f64, hours: f64) -> f64 {
    wind_m_s.powi(3) * hours * 3600.0
}
