//! Wind speed.

use super::plane_by_rows;
use crate::error::{ClimateError, Result};
use ndarray::{Array2, ArrayView2};

/// Speed of the wind (u, v), m s-1.
///
/// # Shapes
/// All planes (lat, lon).
/// # Errors
/// [`ClimateError::Mismatch`] if the planes differ in shape.
pub fn wind_speed(u_m_s: ArrayView2<'_, f32>, v_m_s: ArrayView2<'_, f32>) -> Result<Array2<f32>> {
    if u_m_s.dim() != v_m_s.dim() {
        return Err(ClimateError::shapes(
            "wind components",
            u_m_s.shape(),
            v_m_s.shape(),
        ));
    }
    Ok(plane_by_rows(u_m_s.dim(), |j, row| {
        for ((speed, &u), &v) in row.iter_mut().zip(u_m_s.row(j)).zip(v_m_s.row(j)) {
            *speed = (u * u + v * v).sqrt();
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::arr2;

    #[test]
    fn values_follow_their_definition() {
        let (u, v) = (
            arr2(&[[3.0, 0.0], [f32::NAN, -5.0]]),
            arr2(&[[4.0, 2.0], [1.0, 12.0]]),
        );
        let speed = wind_speed(u.view(), v.view()).unwrap();
        assert_eq!(
            (speed[[0, 0]], speed[[0, 1]], speed[[1, 1]]),
            (5.0, 2.0, 13.0)
        );
        assert!(speed[[1, 0]].is_nan());
        let narrow = arr2(&[[1.0]]);
        let error = wind_speed(u.view(), narrow.view()).unwrap_err();
        assert!(error.to_string().contains("expected (2, 2), found (1, 1)"));
    }
}
