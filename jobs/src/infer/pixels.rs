//! Converts the fields of a time to the pixels of a network.

use crate::error::{JobError, Result};
use half::f16;
use ndarray::Axis;
use squall_data::store::{Encoding, SampleReader};
use squall_data::{Archive, DataError, Normalisation, Snapshot, Time, Variable};
use std::path::PathBuf;

/// Rejects the snapshot of a time if more of a field is missing than allowed, or its mean is outside of the variable's
/// range: a network would produce output for such fields, but never saw any like them in training.
///
/// # Errors
/// [`JobError::Data`] naming variable and file: the fields of a time may be in several files.
pub(super) fn check_values(
    archive: &Archive,
    (index, snapshot): (usize, &Snapshot),
    max_missing_share: f64,
) -> Result<()> {
    for (&variable, plane) in snapshot.variables.iter().zip(snapshot.fields.outer_iter()) {
        let finite = plane.iter().filter(|value| value.is_finite()).count();
        let share = 1.0 - finite as f64 / plane.len().max(1) as f64;
        if share > max_missing_share {
            let path = archive.file_of(index, variable);
            let path = path.unwrap_or(&snapshot.source.0).to_path_buf();
            let what = (variable, snapshot.time);
            return Err(mostly_missing(path, what, share, max_missing_share));
        }
    }
    Ok(archive.check_plausible(index, snapshot)?)
}

/// Rejects a sample of a store, `(lat, lon, channel)` as its reader copies it, if more of a field is missing than
/// allowed.
///
/// # Errors
/// [`JobError::Data`] naming variable and store.
pub(super) fn check_stored(
    sample: &[u8],
    reader: &SampleReader,
    (variables, time): (&[Variable], Time),
    max_missing_share: f64,
) -> Result<()> {
    let mut missing = vec![0usize; variables.len()];
    let encoding = reader.encoding();
    let values = sample.chunks_exact(encoding.bytes());
    let cells = (values.len() / variables.len().max(1)).max(1);
    for (at, value) in values.enumerate() {
        let is_missing = match (encoding, value) {
            (Encoding::F32, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]).is_nan(),
            (Encoding::F16, &[a, b]) => f16::from_le_bytes([a, b]).is_nan(),
            _ => false,
        };
        missing[at % variables.len()] += usize::from(is_missing);
    }
    for (&variable, missing) in variables.iter().zip(missing) {
        let share = missing as f64 / cells as f64;
        if share > max_missing_share {
            let path = reader.store().folder().to_path_buf();
            return Err(mostly_missing(
                path,
                (variable, time),
                share,
                max_missing_share,
            ));
        }
    }
    Ok(())
}

/// The error for a field, in a file or a store, of which more is missing than allowed.
fn mostly_missing(
    path: PathBuf,
    (variable, time): (Variable, Time),
    share: f64,
    allowed: f64,
) -> JobError {
    let reason = format!(
        "{:.1} % of the values of {variable} at {time} are missing, at most {:.1} % are allowed",
        100.0 * share,
        100.0 * allowed
    );
    JobError::Data(DataError::unreadable(path, reason))
}

/// Converts a snapshot to normalised pixels `(lat, lon, channel)`; also returns how many missing values were replaced
/// by the mean.
///
/// # Errors
/// [`JobError::Data`] if the snapshot lacks a channel.
pub(super) fn normalised(
    snapshot: &Snapshot,
    normalisation: &Normalisation,
) -> Result<(Vec<f32>, usize)> {
    by_rows(snapshot, normalisation, |row| Ok(normalisation.apply(row)?))
}

/// Converts a snapshot to pixels `(lat, lon, channel)` in SI units; also returns the number of missing values (NaN).
pub(super) fn interleaved(
    snapshot: &Snapshot,
    normalisation: &Normalisation,
) -> Result<(Vec<f32>, usize)> {
    by_rows(snapshot, normalisation, |row| {
        Ok(row.iter().filter(|value| value.is_nan()).count())
    })
}

/// Interleaves the channels of a normalisation into pixels, calling `finish` on every row; it returns the number of
/// missing values in the row.
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
    // Row by row, so that a row of all channels stays in cache until it is normalised.
    let row_values = (columns * channels.len()).max(1);
    for (j, row) in pixels.chunks_exact_mut(row_values).enumerate() {
        for (k, plane) in planes.iter().enumerate() {
            let slots = row.iter_mut().skip(k).step_by(channels.len());
            // Infinities in a file have no meaning; they count as missing.
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
