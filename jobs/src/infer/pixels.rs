//! From the fields of a time to the pixels of a network.

use crate::error::{JobError, Result};
use ndarray::Axis;
use squall_data::{Archive, DataError, Normalisation, Snapshot};
use std::path::Path;

/// Refuses the snapshot of a time if more of a field is missing than allowed, or its mean is out of the range of its
/// values: a network sees there what it never saw, and says something all the same.
///
/// # Errors
/// [`JobError::Data`] naming variable and file: the fields of a time may lie in several.
pub(super) fn check_values(
    archive: &Archive,
    (index, snapshot): (usize, &Snapshot),
    max_missing_share: f64,
) -> Result<()> {
    for (&variable, plane) in snapshot.variables.iter().zip(snapshot.fields.outer_iter()) {
        let finite = plane.iter().filter(|value| value.is_finite()).count();
        let share = 1.0 - finite as f64 / plane.len().max(1) as f64;
        if share > max_missing_share {
            let files = archive.files_read(index, &[variable]);
            let path = files.first().copied().map(Path::to_path_buf);
            return Err(JobError::Data(DataError::Unreadable {
                path: path.unwrap_or_else(|| snapshot.source.0.clone()),
                reason: format!(
                    "{:.1} % of the values of {variable} at {} are missing, at most {:.1} % are allowed",
                    100.0 * share,
                    snapshot.time,
                    100.0 * max_missing_share
                ),
            }));
        }
    }
    Ok(archive.check_plausible(index, snapshot)?)
}

/// A snapshot as normalised pixels `(lat, lon, channel)`, and how many of its values were missing and are the mean now.
///
/// # Errors
/// [`JobError::Data`] if the snapshot lacks a channel.
pub(super) fn normalised(
    snapshot: &Snapshot,
    normalisation: &Normalisation,
) -> Result<(Vec<f32>, usize)> {
    by_rows(snapshot, normalisation, |row| Ok(normalisation.apply(row)?))
}

/// A snapshot as pixels `(lat, lon, channel)` in SI units, and how many of its values are missing: NaN.
pub(super) fn interleaved(
    snapshot: &Snapshot,
    normalisation: &Normalisation,
) -> Result<(Vec<f32>, usize)> {
    by_rows(snapshot, normalisation, |row| {
        Ok(row.iter().filter(|value| value.is_nan()).count())
    })
}

/// The channels of a normalisation side by side, with `finish` done to every row, which tells how many of its values are
/// missing.
fn by_rows(
    snapshot: &Snapshot,
    normalisation: &Normalisation,
    mut finish: impl FnMut(&mut [f32]) -> Result<usize>,
) -> Result<(Vec<f32>, usize)> {
    let channels = normalisation.variables();
    let (rows, columns) = snapshot.grid.shape();
    let mut planes = Vec::with_capacity(channels.len());
    for &variable in &channels {
        let plane = snapshot.field(variable);
        planes.push(plane.ok_or_else(|| {
            DataError::MissingVariable {
                path: snapshot.source.0.clone(),
                variable: variable.name().to_string(),
                found: (snapshot.variables.iter())
                    .map(|v| v.name().to_string())
                    .collect(),
            }
        })?);
    }
    let mut pixels = vec![0f32; rows * columns * channels.len()];
    let mut missing = 0;
    // Row by row, so that a row of all channels stays in the cache until it is normalised.
    let row_values = (columns * channels.len()).max(1);
    for (j, row) in pixels.chunks_exact_mut(row_values).enumerate() {
        for (k, plane) in planes.iter().enumerate() {
            let slots = row.iter_mut().skip(k).step_by(channels.len());
            // Infinities in a file mean nothing; they count as missing.
            slots
                .zip(plane.index_axis(Axis(0), j))
                .for_each(|(slot, &value)| {
                    *slot = if value.is_finite() { value } else { f32::NAN };
                });
        }
        missing += finish(row)?;
    }
    Ok((pixels, missing))
}
