//! Wind speed, upper-level temperature and thickness.

use super::plane_by_rows;
use crate::error::{ClimateError, Result};
use ndarray::{Array2, ArrayView2};
use squall_data::snapshot::shape_text;

/// Speed of the wind (u, v), m s-1.
///
/// # Errors
/// [`ClimateError::Mismatch`] if the planes differ in shape.
pub fn wind_speed(u_m_s: ArrayView2<'_, f32>, v_m_s: ArrayView2<'_, f32>) -> Result<Array2<f32>> {
    combine("wind components", u_m_s, v_m_s, |u, v| {
        (u * u + v * v).sqrt()
    })
}

/// Mean of the temperatures at 200 and 500 hPa, K: where it is highest lies the warm core of a cyclone.
///
/// # Errors
/// [`ClimateError::Mismatch`] if the planes differ in shape.
/// # Source
/// GFDL TSTORMS / TECA `teca_tc_candidates`: "mean temperature between 200mb and 500mb for warm core layer".
pub fn upper_mean_temperature(
    t200_k: ArrayView2<'_, f32>,
    t500_k: ArrayView2<'_, f32>,
) -> Result<Array2<f32>> {
    combine("T200 and T500", t200_k, t500_k, |a, b| 0.5 * (a + b))
}

/// Thickness of the layer from 1000 to 200 hPa, m: proportional to its mean virtual temperature.
///
/// # Errors
/// [`ClimateError::Mismatch`] if the planes differ in shape.
pub fn thickness(z200_m: ArrayView2<'_, f32>, z1000_m: ArrayView2<'_, f32>) -> Result<Array2<f32>> {
    combine("Z200 and Z1000", z200_m, z1000_m, |top, bottom| {
        top - bottom
    })
}

fn combine(
    what: &str,
    a: ArrayView2<'_, f32>,
    b: ArrayView2<'_, f32>,
    each: impl Fn(f32, f32) -> f32 + Sync,
) -> Result<Array2<f32>> {
    if a.dim() != b.dim() {
        return Err(ClimateError::Mismatch {
            what: what.into(),
            expected: shape_text(a.shape()),
            found: shape_text(b.shape()),
        });
    }
    Ok(plane_by_rows(a.dim(), |j, row| {
        for ((out, &a), &b) in row.iter_mut().zip(a.row(j)).zip(b.row(j)) {
            *out = each(a, b);
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::arr2;

    #[test]
    fn values_follow_their_definitions() {
        let (a, b) = (
            arr2(&[[3.0, 0.0], [f32::NAN, -5.0]]),
            arr2(&[[4.0, 2.0], [1.0, 12.0]]),
        );
        let speed = wind_speed(a.view(), b.view()).unwrap();
        assert_eq!(
            (speed[[0, 0]], speed[[0, 1]], speed[[1, 1]]),
            (5.0, 2.0, 13.0)
        );
        assert!(speed[[1, 0]].is_nan());
        assert_eq!(
            upper_mean_temperature(a.view(), b.view()).unwrap()[[0, 0]],
            3.5
        );
        assert_eq!(thickness(a.view(), b.view()).unwrap()[[0, 1]], -2.0);
        let narrow = arr2(&[[1.0]]);
        let error = thickness(a.view(), narrow.view()).unwrap_err();
        assert!(error.to_string().contains("expected (2, 2), found (1, 1)"));
    }
}
