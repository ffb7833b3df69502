//! Stored numbers to values: missing ones, unsigned ones, packing, valid ranges, then a unit conversion.
//!
//! Source: CF conventions 1.10, sections 2.5.1 and 8.1; the netCDF users' guide on `_Unsigned` and `valid_range`.

use super::nc::{numbers, text};
use super::units::Conversion;
use crate::error::{DataError, Result};
use ndarray::Array3;
use netcdf::types::{FloatType, IntType, NcVariableType};
use netcdf::{Extent, Variable};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Larger numbers are what netCDF (9.97e36), CMIP (1e20) and Ferret (1e34) leave where nothing was written.
const HUGE: f64 = 9e19;

/// How near to a missing value a float is one, as a share of it: writers round, `-999.9` to `f32` for instance.
const NEAR: f64 = 1e-6;

/// How the stored numbers of one variable become values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Decoder {
    missing: Vec<f64>,
    /// [`NEAR`], or 0 for integers: packed ones beside the fill value are values.
    near: f64,
    valid: Option<(f64, f64)>,
    scale: f64,
    offset: f64,
    wrap: Option<f64>,
    /// Every stored number is exact as `f32`.
    single: bool,
}

impl Decoder {
    /// The decoder of a variable whose values are then converted to another unit.
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
            // Nobody packs to the library's own fill values on purpose.
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

    /// Whether the stored number stands for "nothing here".
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

    /// Decodes numbers that are exact as `f32`, in place.
    fn decode_single(&self, values: &mut [f32]) {
        let plain = self.scale == 1.0 && self.offset == 0.0 && self.valid.is_none();
        match (&self.missing[..], plain && self.wrap.is_none()) {
            // The common cases, in loops that the compiler turns into vector code.
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

/// What is to be added to the negative numbers of a variable for them to be what they mean, if it says that they are
/// unsigned: netCDF classic has no such types.
pub(crate) fn wrap_of(variable: &Variable<'_>) -> Option<f64> {
    let unsigned = text(variable, "_Unsigned").is_some_and(|v| v.eq_ignore_ascii_case("true"));
    match variable.vartype() {
        NcVariableType::Int(IntType::I8) if unsigned => Some(256.0),
        NcVariableType::Int(IntType::I16) if unsigned => Some(65_536.0),
        NcVariableType::Int(IntType::I32) if unsigned => Some(4_294_967_296.0),
        _ => None,
    }
}

/// The number that a stored one means, given [`wrap_of`] its variable.
pub(crate) fn as_meant(stored: f64, wrap: Option<f64>) -> f64 {
    match wrap {
        Some(wrap) if stored < 0.0 => stored + wrap,
        _ => stored,
    }
}

/// How a missing value is stored, given [`wrap_of`] its variable: some name by a large number what is a negative one.
pub(crate) fn as_stored(missing: f64, wrap: Option<f64>) -> f64 {
    match wrap {
        Some(wrap) if missing >= wrap / 2.0 => missing - wrap,
        _ => missing,
    }
}

/// The valid stored numbers. A range of floats on packed integers is one of values (a common misreading of CF).
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
    // To the nearest number that can be stored: the extremes of a file, by which it was packed, are often its bounds.
    let stored = |bound: Option<f64>, open: f64| match (bound, wrap) {
        // An open end, too, is the other one where the scale factor is negative.
        (bound, _) if of_values => ((bound.unwrap_or(open) - offset) / scale).round(),
        (None, _) => open,
        (Some(bound), Some(_)) => as_meant(bound, wrap),
        (Some(bound), _) if is_single => f64::from(bound as f32),
        (Some(bound), _) => bound,
    };
    let (low, high) = (stored(low, f64::NEG_INFINITY), stored(high, f64::INFINITY));
    // A negative scale factor turns the bounds round.
    Some((low.min(high), low.max(high)))
}

/// Values as they are stored.
pub(crate) enum Stored {
    Single(Vec<f32>),
    Other(Vec<f64>),
}

/// Reads the values at `extents` as they are stored.
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
        DataError::unreadable(path, format!("variable `{}`: {error}", variable.name()))
    })
}

/// Planes (lat, lon) of stored values, one after the other, in file order; `transposed` if longitude varies slowest.
///
/// # Errors
/// [`DataError::Unreadable`] if their number is not that of the cells of so many planes.
pub(crate) fn planes(
    path: &Path,
    stored: Stored,
    decoder: &Decoder,
    (count, rows, columns): (usize, usize, usize),
    transposed: bool,
) -> Result<Array3<f32>> {
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
mod tests {
    use super::*;
    use crate::archive::nc;

    fn read(file: &str, name: &str) -> Option<(Vec<f32>, usize)> {
        let path = crate::testdata::real(&format!("netcdf-stress/{file}"))?;
        let netcdf = nc::open(&path).unwrap();
        let variable = netcdf.variable(name).unwrap();
        let decoder = Decoder::new(&variable, Conversion::IDENTITY);
        let stored = variable.get_values::<f64, _>(..).unwrap();
        let values: Vec<f32> = stored.iter().map(|v| decoder.value(*v)).collect();
        if decoder.single {
            let mut single = variable.get_values::<f32, _>(..).unwrap();
            decoder.decode_single(&mut single);
            let same = |(a, b): (&f32, &f32)| a == b || a.is_nan() && b.is_nan();
            assert!(single.iter().zip(&values).all(same), "{file} {name}");
        }
        let missing = values.iter().filter(|v| v.is_nan()).count();
        Some((values, missing))
    }

    fn range(values: &[f32]) -> (f32, f32) {
        values.iter().fold((f32::MAX, f32::MIN), |(low, high), &v| {
            (low.min(v), high.max(v))
        })
    }

    /// Ranges as the table of SOURCE.md gives them (netCDF4-python).
    #[test]
    fn ranges_of_files_that_break_readers() {
        for (file, name, (low, high)) in [
            // unsigned 16 bits, valid range "0, -6"
            ("20171025_2056.Cloud_Top_Height.nc", "HT", (0.0, 15_430.0)),
            // negative scale factors, NaN as fill value of integers
            ("eraint_uvz.nc", "z", (10_300.0, 123_300.0)),
            ("eraint_uvz.nc", "u", (-24.56, 78.5)),
            ("ubyte.nc", "ub", (0.0, 255.0)),
            ("ubyte.nc", "sb", (-128.0, 127.0)),
            ("coads_climatology.nc", "SST", (-2.6, 33.15)),
            ("basin_mask.nc", "basin", (1.0, 58.0)),
        ] {
            let Some((values, missing)) = read(file, name) else {
                return;
            };
            let found = range(&values);
            let near = |a: f32, b: f32| (a - b).abs() <= 1e-2 * b.abs().max(0.1);
            assert!(
                near(found.0, low) && near(found.1, high),
                "{file} {name}: {found:?}"
            );
            assert!(missing < values.len());
        }
    }

    /// The values of a variable that holds these numbers.
    fn decoded<T>(stored: &[T], attributes: &[(&str, f64)], fill: Option<T>) -> Vec<f32>
    where
        T: netcdf::NcTypeDescriptor + Into<netcdf::AttributeValue> + Copy + Send + Sync,
    {
        let attributes = attributes.iter();
        let attributes =
            attributes.map(|&(name, value)| (name, netcdf::AttributeValue::from(value)));
        decoded_by(stored, attributes.collect(), fill)
    }

    fn decoded_by<T>(
        stored: &[T],
        attributes: Vec<(&str, netcdf::AttributeValue)>,
        fill: Option<T>,
    ) -> Vec<f32>
    where
        T: netcdf::NcTypeDescriptor + Into<netcdf::AttributeValue> + Copy + Send + Sync,
    {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("numbers.nc");
        nc::on_library_thread(|| {
            let mut file = netcdf::create(&path).unwrap();
            file.add_dimension("x", stored.len()).unwrap();
            let mut variable = file.add_variable::<T>("q", &["x"]).unwrap();
            for (name, value) in attributes {
                variable.put_attribute(name, value).unwrap();
            }
            if let Some(fill) = fill {
                variable.put_attribute("_FillValue", fill).unwrap();
            }
            variable.put_values(stored, ..).unwrap();
            file.close().unwrap();
            let file = nc::open(&path).unwrap();
            let variable = file.variable("q").unwrap();
            let decoder = Decoder::new(&variable, Conversion::IDENTITY);
            let stored = variable.get_values::<f64, _>(..).unwrap();
            stored.into_iter().map(|v| decoder.value(v)).collect()
        })
    }

    /// By the tolerance of floats two thousand numbers on each side of the fill value had been missing.
    #[test]
    fn of_integers_only_the_fill_value_itself_is_missing() {
        for (missing, told) in [(-2_000_000_000_i32, true), (-2_147_483_647, false)] {
            let stored = [missing, missing - 1, missing + 1, missing + 1999, 0];
            let values = decoded(&stored, &[("scale_factor", 1e-6)], told.then_some(missing));
            assert!(values[0].is_nan(), "{values:?}");
            for (value, stored) in values.iter().zip(stored).skip(1) {
                assert_eq!(*value, (f64::from(stored) * 1e-6) as f32, "{stored}");
            }
        }
        let values = decoded(&[-999.9f32, -999.8], &[("missing_value", -999.9)], None);
        assert!(values[0].is_nan() && values[1] == -999.8, "{values:?}");
    }

    /// By rounding the lowest number, the pressure in the eye of a storm for instance, had been outside of it.
    #[test]
    fn the_ends_of_a_valid_range_are_valid() {
        let (low, high) = (92_345.1, 104_321.7);
        let (scale, offset) = ((high - low) / 65_534.0, (high + low) / 2.0);
        for [low, high] in [[low, high], [low, high].map(|end| f64::from(end as f32))] {
            let attributes = [
                ("scale_factor", scale),
                ("add_offset", offset),
                ("valid_min", low),
                ("valid_max", high),
            ];
            let values = decoded(&[-32_767i16, 32_767, 0], &attributes, Some(-32_768));
            assert_eq!(values, [92_345.1, 104_321.7, 98_333.4], "{low} to {high}");
        }
        // A step beyond is not.
        let attributes = [
            ("scale_factor", 0.1),
            ("valid_min", -1.5),
            ("valid_max", 3.0),
        ];
        let values = decoded(&[-16i16, -15, 30, 31], &attributes, None);
        assert!(values[0].is_nan() && values[3].is_nan(), "{values:?}");
        assert_eq!(values[1..3], [-1.5, 3.0]);
        let values = decoded(&[0.1f32, 0.100_001], &[("valid_max", 0.1)], None);
        assert!(values[0] == 0.1 && values[1].is_nan(), "{values:?}");
    }

    /// Where one end alone is named, all valid numbers had been missing, and the others had not.
    #[test]
    fn one_end_of_a_valid_range_holds_for_negative_scale_factors() {
        let packed = |end| {
            decoded(
                &[-11i16, -10, 0, 10, 11],
                &[("scale_factor", -0.5), end],
                None,
            )
        };
        let low = packed(("valid_min", -5.0));
        assert_eq!(low[..4], [5.5, 5.0, 0.0, -5.0]);
        assert!(low[4].is_nan(), "{low:?}");
        let high = packed(("valid_max", 5.0));
        assert!(high[0].is_nan(), "{high:?}");
        assert_eq!(high[1..], [5.0, 0.0, -5.0, -5.5]);
    }

    /// 255 and 65535 had been values where the fill value was named by them.
    #[test]
    fn a_missing_value_of_unsigned_numbers_may_be_named_by_a_large_one() {
        for missing in [-1.0f64, 255.0] {
            let attributes = vec![
                ("_Unsigned", "true".into()),
                ("missing_value", missing.into()),
            ];
            let values = decoded_by(&[-1i8, -2, 0, 127], attributes, None);
            assert!(values[0].is_nan(), "{missing}: {values:?}");
            assert_eq!(values[1..], [254.0, 0.0, 127.0], "{missing}");
        }
        let attributes = vec![
            ("_Unsigned", "true".into()),
            ("missing_value", 65_535.0f64.into()),
        ];
        let values = decoded_by(&[-1i16, -32_768], attributes, None);
        assert!(values[0].is_nan() && values[1] == 32_768.0, "{values:?}");
    }

    #[test]
    fn attributes_as_text_count() {
        let Some((values, _)) = read("fnoc1.nc", "u") else {
            return;
        };
        // scale_factor = "0.005": winds of some m/s, not thousands.
        assert!(range(&values).1 < 50.0, "{:?}", range(&values));
    }
}
