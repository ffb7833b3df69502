//! How thresholds for cyclones scale with the grid spacing.
//!
//! The published thresholds were tuned on a quarter-degree grid. A coarser grid shows the same storm with less
//! vorticity, less wind, a shallower low and a weaker warm core, so thresholds must shrink equally or nothing is found.
//! Each factor here is the ratio of what two grids show of one reference vortex,
//!
//! v(r) = V · 2x / (1 + x²),  x = r / R,  R = 100 km,
//!
//! which is smooth, close to solid rotation inside R (where v = V) and to a free vortex far outside. Its low and its
//! warm core are modelled as 1 / (1 + r²/L²) with L = 1.5 R and 2 R.
//!
//! With grid spacing d:
//! - *vorticity*: centred differences at the centre give 2 v(d) / d, so f = (1 + d₀²/R²) / (1 + d²/R²);
//! - *pressure, core*: the mean over a cell, taken as the disc of equal area (radius a, πa² = d²), of 1 / (1 + r²/L²)
//!   is (L²/a²) ln(1 + a²/L²);
//! - *wind*: the mean of v over an interval of length d around R.
//!
//! d₀ is a quarter of a degree. Finer grids use the published numbers, like d₀.

use squall_data::grid::KM_PER_DEGREE;

/// Radius of maximum wind of the reference vortex, km: typical of quarter-degree models.
const RADIUS_KM: f64 = 100.0;
/// Radius of its low.
const LOW_KM: f64 = 1.5 * RADIUS_KM;
/// Radius of its warm core.
const CORE_KM: f64 = 2.0 * RADIUS_KM;
/// The spacing for which the thresholds were published, degrees.
pub(super) const PUBLISHED_DEG: f64 = 0.25;
const PUBLISHED_KM: f64 = PUBLISHED_DEG * KM_PER_DEGREE;

/// Factors for the published thresholds; all 1 at a quarter of a degree and finer, decreasing with coarser spacing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GridScaling {
    /// Factor for vorticity.
    pub vorticity: f64,
    /// Factor for the rise of sea-level pressure.
    pub pressure: f64,
    /// Factor for the fall of temperature and thickness around the warm core.
    pub core: f64,
    /// Factor for wind speed.
    pub wind: f64,
}

impl GridScaling {
    /// The factors for a grid spacing.
    pub fn for_spacing_km(spacing_km: f64) -> Self {
        let spacing = spacing_km.max(PUBLISHED_KM);
        let ratio = |shown: &dyn Fn(f64) -> f64| shown(spacing) / shown(PUBLISHED_KM);
        Self {
            vorticity: ratio(&|d| 1.0 / (1.0 + (d / RADIUS_KM).powi(2))),
            pressure: ratio(&|d| cell_mean(d, LOW_KM)),
            core: ratio(&|d| cell_mean(d, CORE_KM)),
            wind: ratio(&radial_mean_wind),
        }
    }
}

/// Mean of 1 / (1 + r²/L²) over a cell of side `spacing`, approximated by a disc of the same area.
fn cell_mean(spacing: f64, radius: f64) -> f64 {
    let q = spacing.powi(2) / (std::f64::consts::PI * radius.powi(2));
    q.ln_1p() / q
}

/// Mean of v/V over an interval of length `spacing` around the radius of maximum wind (cut off at the centre).
fn radial_mean_wind(spacing: f64) -> f64 {
    let half = spacing / (2.0 * RADIUS_KM);
    let (inner, outer) = ((1.0 - half).max(0.0), 1.0 + half);
    ((1.0 + outer * outer) / (1.0 + inner * inner)).ln() / (outer - inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(s: GridScaling) -> [f64; 4] {
        [s.vorticity, s.pressure, s.core, s.wind]
    }

    #[test]
    fn a_quarter_degree_and_finer_is_one() {
        for degrees in [0.05, 0.2347, 0.25] {
            assert_eq!(
                all(GridScaling::for_spacing_km(degrees * KM_PER_DEGREE)),
                [1.0; 4]
            );
        }
    }

    #[test]
    fn factors_agree_with_sums_over_the_vortex() {
        let spacing = 2.5 * KM_PER_DEGREE;
        let got = GridScaling::for_spacing_km(spacing);
        // Mean over a disc by summing rings.
        let disc = |d: f64, radius: f64| {
            let a = d / std::f64::consts::PI.sqrt();
            let n = 20_000;
            let (mut sum, mut area) = (0.0, 0.0);
            for k in 0..n {
                let r = (f64::from(k) + 0.5) * a / f64::from(n);
                sum += r / (1.0 + (r / radius).powi(2));
                area += r;
            }
            sum / area
        };
        let low = disc(spacing, LOW_KM) / disc(PUBLISHED_KM, LOW_KM);
        let core = disc(spacing, CORE_KM) / disc(PUBLISHED_KM, CORE_KM);
        approx::assert_relative_eq!(got.pressure, low, max_relative = 1e-6);
        approx::assert_relative_eq!(got.core, core, max_relative = 1e-6);
        let v = |r: f64| 2.0 * (r / RADIUS_KM) / (1.0 + (r / RADIUS_KM).powi(2));
        let vorticity = (v(spacing) / spacing) / (v(PUBLISHED_KM) / PUBLISHED_KM);
        approx::assert_relative_eq!(got.vorticity, vorticity, max_relative = 1e-12);
        let stretch = |d: f64| {
            let (from, to) = ((RADIUS_KM - d / 2.0).max(0.0), RADIUS_KM + d / 2.0);
            let n = 20_000;
            let step = (to - from) / f64::from(n);
            (0..n)
                .map(|k| v(from + (f64::from(k) + 0.5) * step))
                .sum::<f64>()
                / f64::from(n)
        };
        let wind = stretch(spacing) / stretch(PUBLISHED_KM);
        approx::assert_relative_eq!(got.wind, wind, max_relative = 1e-6);
    }

    proptest! {
        #[test]
        fn factors_fall_with_the_spacing(a in 1.0..600.0f64, more in 0.1..200.0f64) {
            let (fine, coarse) = (all(GridScaling::for_spacing_km(a)), all(GridScaling::for_spacing_km(a + more)));
            for (f, c) in fine.into_iter().zip(coarse) {
                prop_assert!(c > 0.0 && c <= f && f <= 1.0);
                prop_assert!(c < f || a + more <= PUBLISHED_KM);
            }
        }
    }
}
