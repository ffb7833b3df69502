//! How alike two maps are: the numbers of a Taylor diagram.

use ndarray::ArrayView2;
use serde::{Deserialize, Serialize};

/// A map against a reference map, every cell weighted by its area.
///
/// With σ the standard deviation in space, E' the centred root-mean-square difference and R the correlation:
/// E'² = σ² + σ_ref² − 2 σ σ_ref R.
///
/// # Source
/// Taylor 2001, doi:10.1029/2000JD900719.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Taylor {
    /// Cells where both maps have a value.
    pub cells: u64,
    /// Mean of the reference.
    pub reference_mean: f64,
    /// Mean of the map less that of the reference.
    pub bias: f64,
    /// Standard deviation of the reference.
    pub reference_deviation: f64,
    /// Standard deviation of the map over that of the reference; `None` if the reference is constant.
    pub deviation_ratio: Option<f64>,
    /// Correlation; `None` if either map is constant.
    pub correlation: Option<f64>,
    /// Root-mean-square difference after both means are taken away, in units of the map.
    pub centred_rms: f64,
    /// Root-mean-square difference.
    pub rms: f64,
}

impl Taylor {
    /// Compares two maps of one shape; `None` if no cell is known in both.
    pub fn of(
        reference: ArrayView2<'_, f64>,
        map: ArrayView2<'_, f64>,
        row_areas_km2: &[f64],
    ) -> Option<Self> {
        let cells: Vec<(f64, f64, f64)> = reference
            .rows()
            .into_iter()
            .zip(map.rows())
            .zip(row_areas_km2)
            .flat_map(|((a, b), &area)| {
                let pairs = a.into_iter().zip(b);
                pairs.map(move |(&a, &b)| (a, b, area)).collect::<Vec<_>>()
            })
            .filter(|(a, b, area)| a.is_finite() && b.is_finite() && *area > 0.0)
            .collect();
        let area: f64 = cells.iter().map(|cell| cell.2).sum();
        if cells.is_empty() {
            return None;
        }
        let mean = |value: &dyn Fn(&(f64, f64, f64)) -> f64| {
            cells.iter().map(|cell| value(cell) * cell.2).sum::<f64>() / area
        };
        let (mean_a, mean_b) = (mean(&|c| c.0), mean(&|c| c.1));
        let variance_a = mean(&|c| (c.0 - mean_a).powi(2));
        let variance_b = mean(&|c| (c.1 - mean_b).powi(2));
        let covariance = mean(&|c| (c.0 - mean_a) * (c.1 - mean_b));
        // A mean is rounded: what is left of a constant after it is taken away is not always 0.
        let varies = |value: fn(&(f64, f64, f64)) -> f64| {
            let mut pairs = cells.windows(2);
            pairs.any(|pair| value(&pair[0]) != value(&pair[1]))
        };
        let a = if varies(|c| c.0) {
            variance_a.sqrt()
        } else {
            0.0
        };
        let b = if varies(|c| c.1) {
            variance_b.sqrt()
        } else {
            0.0
        };
        let bias = mean_b - mean_a;
        // In this order nothing is left of two equal maps.
        let centred = mean(&|c| (c.1 - c.0 - bias).powi(2));
        Some(Self {
            cells: cells.len() as u64,
            reference_mean: mean_a,
            bias,
            reference_deviation: a,
            deviation_ratio: (a > 0.0).then(|| b / a),
            correlation: (a > 0.0 && b > 0.0).then(|| covariance / (a * b)),
            centred_rms: centred.sqrt(),
            rms: (centred + bias * bias).sqrt(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use approx::assert_relative_eq;
    use ndarray::{Array2, array};

    #[test]
    fn numbers_by_hand_and_the_triangle() {
        // The second row has three times the area: means 2.5 and 4, deviations by hand.
        let (reference, map) = (
            array![[1.0, 1.0], [2.0, 4.0]],
            array![[1.0, f64::NAN], [5.0, 5.0]],
        );
        let areas = [1.0, 3.0];
        let taylor = Taylor::of(reference.view(), map.view(), &areas).unwrap();
        assert_eq!(taylor.cells, 3);
        // Weights 1, 3, 3: means 19/7 and 31/7.
        assert_relative_eq!(taylor.reference_mean, 19.0 / 7.0);
        assert_relative_eq!(taylor.bias, 12.0 / 7.0);
        let (s, r) = (
            taylor.deviation_ratio.unwrap() * taylor.reference_deviation,
            taylor.reference_deviation,
        );
        let triangle = s * s + r * r - 2.0 * s * r * taylor.correlation.unwrap();
        assert_relative_eq!(taylor.centred_rms.powi(2), triangle, max_relative = 1e-12);
        // Differences 0, 3, 1 with weights 1, 3, 3.
        assert_relative_eq!(taylor.rms, (30.0f64 / 7.0).sqrt(), max_relative = 1e-12);
    }

    #[test]
    fn a_map_is_itself_and_its_double() {
        let map = Array2::from_shape_fn((5, 8), |(j, i)| ((j * 3 + i * 5) % 7) as f64);
        let areas = [1.0, 2.0, 3.0, 2.0, 1.0];
        let same = Taylor::of(map.view(), map.view(), &areas).unwrap();
        assert_relative_eq!(same.deviation_ratio.unwrap(), 1.0);
        assert_relative_eq!(same.correlation.unwrap(), 1.0, max_relative = 1e-12);
        assert_eq!((same.rms, same.bias), (0.0, 0.0));
        let doubled = Taylor::of(map.view(), (&map * 2.0).view(), &areas).unwrap();
        assert_relative_eq!(doubled.deviation_ratio.unwrap(), 2.0);
        assert_relative_eq!(doubled.correlation.unwrap(), 1.0, max_relative = 1e-12);
        let flat = Taylor::of(Array2::zeros((5, 8)).view(), map.view(), &areas).unwrap();
        assert_eq!((flat.deviation_ratio, flat.correlation), (None, None));
    }

    #[test]
    fn a_constant_does_not_vary_whatever_its_mean_is_rounded_to() {
        // The mean of these is 0.1 + 1.4e-17.
        let (tenth, areas) = (Array2::from_elem((2, 3), 0.1), [1.0, 3.0]);
        let map = Array2::from_shape_fn((2, 3), |(j, i)| (j + i) as f64);
        let of = Taylor::of(tenth.view(), map.view(), &areas).unwrap();
        assert_eq!(
            (of.reference_deviation, of.deviation_ratio, of.correlation),
            (0.0, None, None)
        );
        let to = Taylor::of(map.view(), tenth.view(), &areas).unwrap();
        assert_eq!((to.deviation_ratio, to.correlation), (Some(0.0), None));
    }
}
