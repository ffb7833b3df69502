//! Rolls and mirrors fields for ensemble members, and averages their outputs in the original orientation.

use crate::error::{JobError, Result};
use ndarray::{Array2, Array4, ArrayView3, Axis};
use squall_data::store::View;
use squall_data::{DataError, Normalisation};

/// Rolls and mirrors samples of normalised pixels as a view says.
pub(super) fn in_view(
    pixels: &[f32],
    (rows, columns): (usize, usize),
    view: View,
    normalisation: &Normalisation,
) -> Vec<f32> {
    let channels = normalisation.channels.len();
    let row = columns * channels;
    let shift = (view.roll % columns) * channels;
    let mut out = vec![0f32; pixels.len()];
    let samples = pixels
        .chunks_exact(rows * row)
        .zip(out.chunks_exact_mut(rows * row));
    for (sample, turned) in samples {
        for (j, source) in sample.chunks_exact(row).enumerate() {
            let j = if view.mirror { rows - 1 - j } else { j };
            let target = &mut turned[j * row..(j + 1) * row];
            target[shift..].copy_from_slice(&source[..row - shift]);
            target[..shift].copy_from_slice(&source[row - shift..]);
        }
    }
    if view.mirror {
        for (k, scale) in normalisation.channels.iter().enumerate() {
            if !scale.variable.is_meridional() {
                continue;
            }
            // With x = (v - s) / d, negating v turns x into -x - 2 s / d; missing values stay the mean.
            let (fill, twice) = (scale.fill(), (2.0 * scale.subtract / scale.divide) as f32);
            for x in out.iter_mut().skip(k).step_by(channels) {
                if *x != fill {
                    *x = -*x - twice;
                }
            }
        }
    }
    out
}

/// The class with the highest probability; the first one in a tie.
pub(super) fn most_probable(probabilities: ArrayView3<'_, f32>) -> Array2<u8> {
    probabilities.map_axis(Axis(2), |pixel| {
        let mut best = 0;
        for (class, p) in pixel.iter().enumerate() {
            if *p > pixel[best] {
                best = class;
            }
        }
        best as u8
    })
}

/// Running mean and spread of the probabilities of an ensemble's members.
///
/// # Source
/// Welford 1962, doi:10.1080/00401706.1962.10490022: members that agree exactly have a spread of exactly 0.
pub(super) struct EnsembleMean {
    members: usize,
    shape: (usize, usize, usize, usize),
    /// `(sample, lat, lon, class)`.
    mean: Vec<f32>,
    /// Sums of squared distances from the mean.
    squares: Vec<f32>,
}

impl EnsembleMean {
    /// An empty mean for this number of samples, rows, columns and classes.
    pub fn new(shape: (usize, usize, usize, usize)) -> Self {
        let (samples, rows, columns, classes) = shape;
        let count = samples * rows * columns * classes;
        Self {
            members: 0,
            shape,
            mean: vec![0.0; count],
            squares: vec![0.0; count],
        }
    }

    /// Adds the probabilities of a member that saw the fields in this view.
    pub fn add(&mut self, probabilities: &Array4<f32>, view: View) {
        self.members += 1;
        let share = 1.0 / self.members as f32;
        let (_, rows, columns, classes) = self.shape;
        let row = columns * classes;
        let shift = (view.roll % columns) * classes;
        let seen = probabilities.as_standard_layout();
        let seen = seen.as_slice().unwrap_or(&[]);
        let fold = |(mean, squares): (&mut f32, &mut f32), p: &f32| {
            let distance = p - *mean;
            *mean += distance * share;
            *squares += distance * (p - *mean);
        };
        let sums = self.mean.chunks_exact_mut(row);
        let sums = sums.zip(self.squares.chunks_exact_mut(row));
        for (at, (mean, squares)) in sums.enumerate() {
            let (sample, j) = (at / rows, at % rows);
            let j = if view.mirror { rows - 1 - j } else { j };
            let (west, east) = seen[(sample * rows + j) * row..][..row].split_at(shift);
            // Undoes the roll of the view.
            let moved = east.iter().chain(west);
            mean.iter_mut()
                .zip(squares)
                .zip(moved)
                .for_each(|(sums, p)| fold(sums, p));
        }
    }

    /// The mean probabilities and their standard deviation, `(sample, lat, lon, class)`.
    pub fn mean_and_spread(self) -> Result<(Array4<f32>, Array4<f32>)> {
        let members = self.members.max(1) as f32;
        let spread = self
            .squares
            .into_iter()
            .map(|sum| (sum.max(0.0) / members).sqrt());
        let shaped = |values: Vec<f32>| {
            Array4::from_shape_vec(self.shape, values)
                .map_err(|error| JobError::Data(DataError::Invalid(error.to_string())))
        };
        Ok((shaped(self.mean)?, shaped(spread.collect())?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::Array3;
    use squall_data::Variable;
    use squall_data::normalise::{ChannelScale, NormalisationMethod};

    fn normalisation() -> Normalisation {
        let scale = |variable, subtract, divide| ChannelScale {
            variable,
            subtract,
            divide,
            missing: subtract + divide,
        };
        Normalisation {
            method: NormalisationMethod::MeanStd,
            channels: vec![
                scale(Variable::U850, 1.0, 2.0),
                scale(Variable::V850, 0.5, 4.0),
            ],
        }
    }

    /// A view of normalised pixels is the normalised view of the fields.
    #[test]
    fn viewing_and_normalising_commute() {
        let (rows, columns, normalisation) = (4, 5, normalisation());
        let value = |j: usize, i: usize, k: usize| (10 * j + i) as f32 + 0.25 * k as f32;
        let missing = |j: usize, i: usize| (j, i) == (1, 2);
        let normal = |get: &dyn Fn(usize, usize, usize) -> f32| {
            let mut pixels = Vec::new();
            for j in 0..rows {
                for i in 0..columns {
                    pixels.extend([get(j, i, 0), get(j, i, 1)]);
                }
            }
            normalisation.apply(&mut pixels).unwrap();
            pixels
        };
        let or_nan = |j, i, v: f32| if missing(j, i) { f32::NAN } else { v };
        let plain = normal(&|j, i, k| or_nan(j, i, value(j, i, k)));
        for view in [(0, false), (2, false), (0, true), (3, true)] {
            let (roll, mirror) = view;
            let expected = normal(&|j, i, k| {
                let (j, i) = (
                    if mirror { rows - 1 - j } else { j },
                    (i + columns - roll) % columns,
                );
                let sign = if mirror && k == 1 { -1.0 } else { 1.0 };
                or_nan(j, i, sign * value(j, i, k))
            });
            let found = in_view(
                &plain,
                (rows, columns),
                View { roll, mirror },
                &normalisation,
            );
            for (a, b) in found.iter().zip(&expected) {
                assert!((a - b).abs() < 1e-5, "{view:?}: {a} instead of {b}");
            }
        }
    }

    #[test]
    fn members_are_turned_back_averaged_and_compared() {
        let at = |j: usize, i: usize, k: usize| ((7 * j + 3 * i + k) % 10) as f32 / 10.0;
        let plain = Array4::from_shape_fn((1, 4, 5, 3), |(_, j, i, k)| at(j, i, k));
        let view = View {
            roll: 2,
            mirror: true,
        };
        let seen = Array4::from_shape_fn((1, 4, 5, 3), |(_, j, i, k)| at(3 - j, (i + 3) % 5, k));
        let mut same = EnsembleMean::new((1, 4, 5, 3));
        same.add(&plain, View::default());
        same.add(&seen, view);
        let (mean, spread) = same.mean_and_spread().unwrap();
        assert_eq!(mean, plain);
        assert!(spread.iter().all(|s| *s == 0.0));
        let mut apart = EnsembleMean::new((1, 1, 1, 3));
        for p in [0.2f32, 0.4, 0.9] {
            let member = Array4::from_elem((1, 1, 1, 3), p);
            apart.add(&member, View::default());
        }
        let (mean, spread) = apart.mean_and_spread().unwrap();
        let expected = ((0.09f32 + 0.01 + 0.16) / 3.0).sqrt();
        assert!((mean[(0, 0, 0, 0)] - 0.5).abs() < 1e-6);
        assert!((spread[(0, 0, 0, 1)] - expected).abs() < 1e-6);
        let p = Array3::from_shape_vec((1, 2, 3), vec![0.3, 0.3, 0.4, 0.4, 0.4, 0.2]).unwrap();
        assert_eq!(most_probable(p.view()), ndarray::array![[2, 0]]);
    }
}
