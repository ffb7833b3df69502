//! Tropical damping of precipitable water, and vapour transport.

use super::wind_speed;
use crate::error::{ClimateError, Result};
use ndarray::{Array2, Array3, ArrayView2};
use rayon::prelude::*;

/// Standard acceleration of gravity, m s-2.
const STANDARD_GRAVITY: f64 = 9.80665;

/// The factor that removes the tropics from a moisture field: 1 − exp(−φ²/(2σ²)), φ and σ in degrees.
///
/// # Source
/// ClimDeepLearn, `create_multichannel_multithreshold_labels.py`, "damp anomalies to 0 near the tropics".
pub(crate) fn tropical_damping(lat_deg: f64, sigma_deg: f64) -> f64 {
    -(-lat_deg.powi(2) / (2.0 * sigma_deg.powi(2))).exp_m1()
}

/// Integrated vapour transport (1/g) |∫ q (u, v) dp| over pressure levels by the trapezoidal rule, kg m-1 s-1.
///
/// Levels may be in any order. Levels below ground are left out of a column: those with a higher pressure than the
/// surface, if `surface_pa` is given (analyses extrapolate to them), and those with NaN in any of the three fields.
/// Below the lowest remaining level, its flux extends down to the surface. The result is NaN for fewer than two levels,
/// and where the surface pressure is missing, because the levels below ground are then unknown.
///
/// # Shapes
/// `pressure_pa`: (level); the fields: (level, lat, lon); `surface_pa`: (lat, lon).
/// # Errors
/// [`ClimateError::Mismatch`] if shapes differ.
pub fn integrated_vapour_transport(
    pressure_pa: &[f64],
    q_kg_kg: &Array3<f32>,
    u_m_s: &Array3<f32>,
    v_m_s: &Array3<f32>,
    surface_pa: Option<ArrayView2<'_, f32>>,
) -> Result<Array2<f32>> {
    let [east, north] = transport_components(pressure_pa, q_kg_kg, u_m_s, v_m_s, surface_pa)?;
    wind_speed(east.view(), north.view())
}

/// The eastward and northward components of [`integrated_vapour_transport`], kg m-1 s-1.
///
/// # Shapes
/// As there; both components (lat, lon).
/// # Errors
/// [`ClimateError::Mismatch`] if shapes differ.
pub(crate) fn transport_components(
    pressure_pa: &[f64],
    q_kg_kg: &Array3<f32>,
    u_m_s: &Array3<f32>,
    v_m_s: &Array3<f32>,
    surface_pa: Option<ArrayView2<'_, f32>>,
) -> Result<[Array2<f32>; 2]> {
    let (levels, rows, columns) = q_kg_kg.dim();
    if let Some(found) = surface_pa.filter(|plane| plane.dim() != (rows, columns)) {
        return Err(ClimateError::shapes(
            "surface pressure of the levels",
            &[rows, columns],
            found.shape(),
        ));
    }
    for (name, found) in [("u", u_m_s.shape()), ("v", v_m_s.shape())] {
        if found != q_kg_kg.shape() {
            let what = format!("levels of q and {name}");
            return Err(ClimateError::shapes(what, q_kg_kg.shape(), found));
        }
    }
    if pressure_pa.len() != levels {
        return Err(ClimateError::Mismatch {
            what: "pressure levels".into(),
            expected: levels.to_string(),
            found: pressure_pa.len().to_string(),
        });
    }
    let mut order: Vec<usize> = (0..levels).collect();
    order.sort_by(|&a, &b| pressure_pa[a].total_cmp(&pressure_pa[b]));
    let columns_of = |j: usize, i: usize| {
        let surface = surface_pa.map(|plane| f64::from(plane[[j, i]]));
        if surface.is_some_and(|pressure| !pressure.is_finite()) {
            return (f64::NAN, f64::NAN);
        }
        let above_ground = |k: &&usize| surface.is_none_or(|surface| pressure_pa[**k] < surface);
        let flux = order.iter().take_while(above_ground).filter_map(|&k| {
            let q = f64::from(q_kg_kg[[k, j, i]]);
            let (east, north) = (
                f64::from(u_m_s[[k, j, i]]) * q,
                f64::from(v_m_s[[k, j, i]]) * q,
            );
            (east.is_finite() && north.is_finite()).then_some((pressure_pa[k], east, north))
        });
        column_transport(flux, surface)
    };
    let mut north = Array2::zeros((rows, columns));
    let mut east = Array2::zeros((rows, columns));
    let lines = east
        .outer_iter_mut()
        .into_par_iter()
        .zip(north.outer_iter_mut().into_par_iter());
    lines.enumerate().for_each(|(j, (mut east, mut north))| {
        for i in 0..columns {
            let (e, n) = columns_of(j, i);
            (east[i], north[i]) = (e as f32, n as f32);
        }
    });
    Ok([east, north])
}

/// Proxy of integrated vapour transport from a single level of wind: precipitable water times the wind at 850 hPa, kg
/// m-1 s-1.
///
/// The wind at 850 hPa approximates the moisture-weighted mean wind, as most moisture lies below 700 hPa. Equals
/// [`crate::detect::VapourTransport::proxy`] in one cell; `climate/tests/impact.rs` compares it with the integral over
/// levels of a GFS analysis.
///
/// # Example
/// ```
/// // 40 kg m-2 carried at 20 m/s.
/// assert_eq!(squall_climate::derived::vapour_transport_proxy(40.0, 12.0, 16.0), 800.0);
/// ```
pub fn vapour_transport_proxy(tmq_kg_m2: f64, u850_m_s: f64, v850_m_s: f64) -> f64 {
    tmq_kg_m2 * u850_m_s.hypot(v850_m_s)
}

/// Both components for one column, from the top down to the surface if its pressure is known; NaN for fewer than two
/// levels.
fn column_transport(
    flux: impl Iterator<Item = (f64, f64, f64)>,
    surface_pa: Option<f64>,
) -> (f64, f64) {
    let (mut east, mut north, mut layers) = (0.0, 0.0, 0);
    let mut above: Option<(f64, f64, f64)> = None;
    for (pressure, u, v) in flux {
        if let Some((top, u_top, v_top)) = above {
            east += 0.5 * (u + u_top) * (pressure - top);
            north += 0.5 * (v + v_top) * (pressure - top);
            layers += 1;
        }
        above = Some((pressure, u, v));
    }
    if layers == 0 {
        return (f64::NAN, f64::NAN);
    }
    if let (Some(surface), Some((lowest, u, v))) = (surface_pa, above) {
        east += u * (surface - lowest);
        north += v * (surface - lowest);
    }
    (east / STANDARD_GRAVITY, north / STANDARD_GRAVITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_equator_is_dry_and_the_poles_untouched() {
        let damping = |lat_deg| tropical_damping(lat_deg, 19.0);
        assert_eq!(damping(0.0), 0.0);
        // exp(−1/2) at one sigma, by hand.
        approx::assert_relative_eq!(damping(19.0), 1.0 - 0.606_530_66, max_relative = 1e-6);
        assert!((damping(90.0) - 1.0).abs() < 1e-4);
        assert_eq!(damping(-19.0), damping(19.0));
    }

    #[test]
    fn transport_of_a_uniform_layer_is_q_times_wind_times_mass() {
        let pressure = [20_000.0, 100_000.0, 50_000.0];
        let full = |value: f32| Array3::from_elem((3, 4, 8), value);
        let (q, u, mut v) = (full(0.01), full(3.0), full(4.0));
        let ivt = integrated_vapour_transport(&pressure, &q, &u, &v, None).unwrap();
        // 0.01 · 5 m/s · 80,000 Pa / g
        approx::assert_relative_eq!(
            f64::from(ivt[[1, 1]]),
            4000.0 / 9.80665,
            max_relative = 1e-6
        );
        v[[1, 0, 0]] = f32::NAN; // 1000 hPa below ground
        v[[0, 0, 1]] = f32::NAN;
        v[[1, 0, 1]] = f32::NAN;
        let ivt = integrated_vapour_transport(&pressure, &q, &u, &v, None).unwrap();
        approx::assert_relative_eq!(
            f64::from(ivt[[0, 0]]),
            1500.0 / 9.80665,
            max_relative = 1e-6
        );
        assert!(ivt[[0, 1]].is_nan());
        assert!(integrated_vapour_transport(&pressure[..2], &q, &u, &v, None).is_err());
    }

    #[test]
    fn what_lies_below_ground_carries_nothing() {
        let pressure = [50_000.0, 85_000.0, 100_000.0];
        let mut q = Array3::from_elem((3, 2, 2), 0.01f32);
        let (u, v) = (
            Array3::from_elem((3, 2, 2), 3.0),
            Array3::from_elem((3, 2, 2), 4.0),
        );
        // Analyses extrapolate below a plateau, to moister values than any above it.
        q.index_axis_mut(ndarray::Axis(0), 2).fill(0.03);
        let mut surface = Array2::from_elem((2, 2), 101_000.0f32);
        surface[[0, 0]] = 70_000.0;
        surface[[0, 1]] = 90_000.0;
        // The lowest level is below ground; there is a layer between the level above it and the surface.
        surface[[1, 0]] = 99_000.0;
        let ivt = integrated_vapour_transport(&pressure, &q, &u, &v, Some(surface.view())).unwrap();
        let per_g = |flux: f64| flux * 5.0 / 9.80665;
        // One level: NaN; two levels and the layer below the lower one; all levels and the layer to the surface.
        assert!(ivt[[0, 0]].is_nan());
        let expected = [
            ([0, 1], per_g(0.01 * 35_000.0 + 0.01 * 5_000.0)),
            ([1, 0], per_g(0.01 * 35_000.0 + 0.01 * 14_000.0)),
            (
                [1, 1],
                per_g(0.01 * 35_000.0 + 0.02 * 15_000.0 + 0.03 * 1_000.0),
            ),
        ];
        for (at, expected) in expected {
            approx::assert_relative_eq!(f64::from(ivt[at]), expected, max_relative = 1e-6);
        }
        // Columns with unknown levels below ground used to count all levels.
        surface[[1, 1]] = f32::NAN;
        let ivt = integrated_vapour_transport(&pressure, &q, &u, &v, Some(surface.view())).unwrap();
        assert!(ivt[[1, 1]].is_nan() && ivt[[1, 0]].is_finite());
        let ivt = integrated_vapour_transport(&pressure, &q, &u, &v, None).unwrap();
        let all = per_g(0.01 * 35_000.0 + 0.02 * 15_000.0);
        approx::assert_relative_eq!(f64::from(ivt[[1, 1]]), all, max_relative = 1e-6);
        let other = Array2::zeros((2, 3));
        let error = integrated_vapour_transport(&pressure, &q, &u, &v, Some(other.view()));
        assert!(error.unwrap_err().to_string().contains("surface pressure"));
    }
}
