//! Column water from humidity on pressure levels.

use ndarray::{Array2, ArrayView2, ArrayView3};

/// Standard gravity, m s-2.
const GRAVITY: f64 = 9.80665;

/// ∫ q dp / g in kg m-2: trapezoids between the levels above ground, and the layer between the lowest of them and the
/// surface.
///
/// Levels below ground (pressure above `ps`) hold extrapolated values and do not count. The surface layer has the
/// near-surface humidity at its bottom where `qref` is given, else that of the lowest level.
///
/// # Shapes
/// `levels_pa` l, `q` (l, lat, lon) in kg kg-1, `ps` (lat, lon) in Pa.
pub fn precipitable_water(
    levels_pa: &[f64],
    q: ArrayView3<'_, f32>,
    ps: Option<ArrayView2<'_, f32>>,
    qref: Option<ArrayView2<'_, f32>>,
) -> Array2<f32> {
    let mut order: Vec<usize> = (0..levels_pa.len()).collect();
    order.sort_by(|&a, &b| levels_pa[a].total_cmp(&levels_pa[b])); // from the top down
    let (_, rows, columns) = q.dim();
    Array2::from_shape_fn((rows, columns), |(j, i)| {
        let surface = ps.map_or(f64::INFINITY, |ps| f64::from(ps[[j, i]]));
        let mut above: Option<(f64, f64)> = None;
        let mut sum = 0.0;
        for &level in &order {
            let (p, humidity) = (levels_pa[level], f64::from(q[[level, j, i]]));
            if p >= surface || humidity.is_nan() {
                break;
            }
            if let Some((p_above, q_above)) = above {
                sum += 0.5 * (humidity + q_above) * (p - p_above);
            }
            above = Some((p, humidity));
        }
        match above {
            None => f32::NAN,
            Some((p, humidity)) if surface.is_finite() => {
                let bottom = qref.map_or(humidity, |q| f64::from(q[[j, i]]));
                ((sum + 0.5 * (humidity + bottom) * (surface - p)) / GRAVITY) as f32
            }
            Some(_) => (sum / GRAVITY) as f32,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Array3, array};

    #[test]
    fn a_uniform_column_holds_q_times_mass() {
        let levels = [100_000.0, 50_000.0, 20_000.0, 70_000.0];
        let q = Array3::from_elem((4, 1, 2), 0.01);
        let ps = array![[90_000.0f32, 101_000.0]];
        let water = precipitable_water(&levels, q.view(), Some(ps.view()), None);
        for (found, surface) in water.iter().zip(ps) {
            let expected = 0.01 * (f64::from(surface) - 20_000.0) / 9.80665;
            assert!(
                (f64::from(*found) - expected).abs() < 1e-3,
                "{found} {expected}"
            );
        }
    }
}
