//! Decodes stored numbers to values: missing values, unsigned integers, packing, valid ranges, then the unit.
//!
//! Source: CF conventions 1.10, sections 2.5.1 and 8.1; the netCDF users' guide on `_Unsigned` and `valid_range`.

use super::nc::{numbers, text};
use super::units::Conversion;
use crate::error::{DataError, FileFault, Result};
use ndarray::Array3;
use netcdf::types::{FloatType, IntType, NcVariableType};
use netcdf::{Extent, Variable};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Larger numbers are missing: netCDF (9.97e36), CMIP (1e20) and Ferret (1e34) use such fill values.
const HUGE: f64 = 9e19;

/// Relative tolerance for matching floats with the missing value: writers round it, for instance `-999.9` to `f32`.
const NEAR: f64 = 1e-6;

/// Decodes the stored numbers of one variable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Decoder {
    missing: Vec<f64>,
    /// [`NEAR`], or 0 for integers: packed integers next to the fill value are valid.
    near: f64,
    valid: Option<(f64, f64)>,
    scale: f64,
    offset: f64,
    wrap: Option<f64>,
    /// Whether every stored number is exact as `f32`.
    single: bool,
}

impl Decoder {
    /// Creates the decoder of a variable, followed by a conversion to another unit.
    pub(crate) fn new(variable: &Variable<'_>, to_unit: Conversion) -> Self {
        let first = |name: &str| numbers(variable, name).first().copied();
        let kind = variable.vartype();
        let wrap = wrap_of(variable);
        let packing = (first("scale_factor"), first("add_offset"));
        let (scale, offset) = (packing.0.unwrap_or(1.0), packing.1.unwrap_or(0.0));
        let mut missing: Vec<f64> = ["_FillValue", "missing_value"]
            .iter()
            .flat_map(|name| numbers(variable, name))
            .filter(|v| v.is_finite() && v.abs() < HUGE)
            .collect();
        if missing.is_empty() && packing.0.is_some() && wrap.is_none() {
            // Nobody uses the library's own fill values for packed data.
            match kind {
                NcVariableType::Int(IntType::I16) => missing.push(-32_767.0),
                NcVariableType::Int(IntType::I32) => missing.push(-2_147_483_647.0),
                _ => {}
            }
        }
        missing
            .iter_mut()
            .for_each(|value| *value = as_stored(*value, wrap));
        missing.dedup();
        Self {
            missing,
            near: match kind {
                NcVariableType::Int(_) => 0.0,
                _ => NEAR,
            },
            valid: valid_range(variable, wrap, packing.0.is_some(), (scale, offset)),
            scale: scale * to_unit.factor,
            offset: offset * to_unit.factor + to_unit.offset,
            wrap,
            single: matches!(
                kind,
                NcVariableType::Float(FloatType::F32)
                    | NcVariableType::Int(IntType::I8 | IntType::U8 | IntType::I16 | IntType::U16)
            ),
        }
    }

    /// Whether a stored number marks a missing value.
    fn is_missing(&self, stored: f64) -> bool {
        let same = |m: &f64| stored == *m || (stored - m).abs() < self.near * m.abs();
        !stored.is_finite() || stored.abs() > HUGE || self.missing.iter().any(same)
    }

    fn value(&self, stored: f64) -> f32 {
        if self.is_missing(stored) {
            return f32::NAN;
        }
        let stored = as_meant(stored, self.wrap);
        if self
            .valid
            .is_some_and(|(low, high)| stored < low || stored > high)
        {
            return f32::NAN;
        }
        (stored * self.scale + self.offset) as f32
    }

    /// Bytes of a value as [`stored`] reads it.
    pub(super) fn stored_bytes(&self) -> usize {
        if self.single { 4 } else { 8 }
    }

    /// Decodes numbers that are exact as `f32`, in place.
    fn decode_single(&self, values: &mut [f32]) {
        let plain = self.scale == 1.0 && self.offset == 0.0 && self.valid.is_none();
        match (&self.missing[..], plain && self.wrap.is_none()) {
            // The common cases, in loops that vectorise.
            ([], true) => values.iter_mut().for_each(|v| {
                *v = if v.abs() <= HUGE as f32 { *v } else { f32::NAN };
            }),
            (&[missing], true) => {
                let (missing, near) = (missing as f32, (missing.abs() * self.near) as f32);
                values.iter_mut().for_each(|v| {
                    let keep = v.abs() <= HUGE as f32 && (*v - missing).abs() > near;
                    *v = if keep { *v } else { f32::NAN };
                });
            }
            _ => values
                .iter_mut()
                .for_each(|v| *v = self.value(f64::from(*v))),
        }
    }
}

/// The amount to add to negative stored numbers of a variable with the attribute `_Unsigned` (256 for bytes); `None`
/// for others. netCDF classic, which has no unsigned types, stores unsigned numbers this way.
pub(crate) fn wrap_of(variable: &Variable<'_>) -> Option<f64> {
    let unsigned = text(variable, "_Unsigned").is_some_and(|v| v.eq_ignore_ascii_case("true"));
    match variable.vartype() {
        NcVariableType::Int(IntType::I8) if unsigned => Some(256.0),
        NcVariableType::Int(IntType::I16) if unsigned => Some(65_536.0),
        NcVariableType::Int(IntType::I32) if unsigned => Some(4_294_967_296.0),
        _ => None,
    }
}

/// The unsigned value of a stored number, given [`wrap_of`] its variable.
pub(crate) fn as_meant(stored: f64, wrap: Option<f64>) -> f64 {
    match wrap {
        Some(wrap) if stored < 0.0 => stored + wrap,
        _ => stored,
    }
}

/// The stored form of a missing value, given [`wrap_of`] its variable: some files give 255 for the stored byte -1.
pub(crate) fn as_stored(missing: f64, wrap: Option<f64>) -> f64 {
    match wrap {
        Some(wrap) if missing >= wrap / 2.0 => missing - wrap,
        _ => missing,
    }
}

/// The range of valid stored numbers. A range given in floats for packed integers is assumed to apply to unpacked
/// values, a common misreading of CF.
fn valid_range(
    variable: &Variable<'_>,
    wrap: Option<f64>,
    packed: bool,
    (scale, offset): (f64, f64),
) -> Option<(f64, f64)> {
    let first = |name: &str| numbers(variable, name).first().copied();
    let pair = numbers(variable, "valid_range");
    let low = first("valid_min").or(pair.first().copied());
    let high = first("valid_max").or(pair.get(1).copied());
    if low.is_none() && high.is_none() {
        return None;
    }
    let is_float = |name: &str| {
        use netcdf::AttributeValue as A;
        matches!(
            variable.attribute_value(name),
            Some(Ok(A::Float(_)
                | A::Floats(_)
                | A::Double(_)
                | A::Doubles(_)))
        )
    };
    let of_values = packed
        && matches!(variable.vartype(), NcVariableType::Int(_))
        && ["valid_range", "valid_min", "valid_max"]
            .into_iter()
            .any(is_float);
    let is_single = variable.vartype() == NcVariableType::Float(FloatType::F32);
    // Rounded to the nearest storable number: the bounds are often the extremes by which the file was packed.
    let stored = |bound: Option<f64>, open: f64| match (bound, wrap) {
        // With a negative scale factor, an open end changes sides, too.
        (bound, _) if of_values => ((bound.unwrap_or(open) - offset) / scale).round(),
        (None, _) => open,
        (Some(bound), Some(_)) => as_meant(bound, wrap),
        (Some(bound), _) if is_single => f64::from(bound as f32),
        (Some(bound), _) => bound,
    };
    let (low, high) = (stored(low, f64::NEG_INFINITY), stored(high, f64::INFINITY));
    // A negative scale factor swaps the bounds.
    Some((low.min(high), low.max(high)))
}

/// Values in their stored type.
pub(crate) enum Stored {
    Single(Vec<f32>),
    Other(Vec<f64>),
}

impl Stored {
    /// Bytes of the values in memory.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Single(values) => size_of_val(values.as_slice()),
            Self::Other(values) => size_of_val(values.as_slice()),
        }
    }

    /// The part of this index, of a number of equal parts.
    pub(super) fn part(&self, index: usize, parts: usize) -> Self {
        let range = |length: usize| index * (length / parts)..(index + 1) * (length / parts);
        match self {
            Self::Single(values) => Self::Single(values[range(values.len())].to_vec()),
            Self::Other(values) => Self::Other(values[range(values.len())].to_vec()),
        }
    }
}

/// Reads the values at `extents` in their stored type.
///
/// # Errors
/// [`DataError::Unreadable`] naming file and variable.
pub(crate) fn stored(
    path: &Path,
    variable: &Variable<'_>,
    extents: Vec<Extent>,
    decoder: &Decoder,
) -> Result<Stored> {
    let read = if decoder.single {
        variable.get_values(extents).map(Stored::Single)
    } else {
        variable.get_values(extents).map(Stored::Other)
    };
    read.map_err(|error| {
        let words = format!("variable `{}`: {error}", variable.name());
        DataError::fault(path, FileFault::of_library(&error, words))
    })
}

/// The extents of consecutive planes in a file.
pub(crate) struct PlaneLayout {
    pub count: usize,
    pub rows: usize,
    pub columns: usize,
    /// Whether longitude varies slowest.
    pub transposed: bool,
}

/// Consecutive planes (lat, lon) of stored values, in file order.
///
/// # Errors
/// [`DataError::Unreadable`] if the number of values does not match the number of planes.
pub(crate) fn planes(
    path: &Path,
    stored: Stored,
    decoder: &Decoder,
    layout: &PlaneLayout,
) -> Result<Array3<f32>> {
    let PlaneLayout {
        count,
        rows,
        columns,
        transposed,
    } = *layout;
    let values = match stored {
        Stored::Single(mut values) => {
            decoder.decode_single(&mut values);
            values
        }
        Stored::Other(values) => values.into_iter().map(|v| decoder.value(v)).collect(),
    };
    let shape = if transposed {
        (count, columns, rows)
    } else {
        (count, rows, columns)
    };
    let planes = Array3::from_shape_vec(shape, values)
        .map_err(|error| DataError::unreadable(path, error))?;
    Ok(if transposed {
        planes.permuted_axes([0, 2, 1])
    } else {
        planes
    })
}

#[cfg(test)]
mod tests;
