//! What the netCDF library gives, made safe to use: attributes of any type, one plane of a packed variable.

use crate::error::{DataError, Result};
use ndarray::Array2;
use netcdf::types::{FloatType, IntType, NcVariableType};
use netcdf::{AttributeValue, Extent, File, Variable};
use std::path::Path;
use std::sync::OnceLock;

/// Runs `act` on the one thread that calls the netCDF library.
///
/// The library is not thread-safe, and the HDF5 below it keeps its error printing per thread: netCDF turns it off where
/// it is first used, and every other thread would fill the terminal with tracebacks of harmless probes.
pub fn on_library_thread<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    static THREAD: OnceLock<Option<rayon::ThreadPool>> = OnceLock::new();
    let build = || rayon::ThreadPoolBuilder::new().num_threads(1).thread_name(|_| "netcdf".into()).build().ok();
    match THREAD.get_or_init(build) {
        Some(thread) => thread.install(act),
        None => act(),
    }
}

/// Opens a file for reading.
///
/// # Errors
/// [`DataError::Io`] if there is no such file, [`DataError::Unreadable`] if it is no netCDF file or damaged.
pub(crate) fn open(path: &Path) -> Result<File> {
    let metadata = std::fs::metadata(path).map_err(DataError::io("open", path))?;
    let unreadable = |reason: String| DataError::Unreadable {
        path: path.into(),
        reason,
    };
    if metadata.len() == 0 {
        return Err(unreadable("the file is empty".into()));
    }
    netcdf::open(path).map_err(|error| unreadable(format!("netCDF: {error}")))
}

/// An attribute as text, if it is text.
pub(crate) fn text(variable: &Variable<'_>, name: &str) -> Option<String> {
    match variable.attribute_value(name)?.ok()? {
        AttributeValue::Str(text) => Some(text.trim_matches(['\0', ' ']).to_string()),
        AttributeValue::Strs(texts) => texts.into_iter().next(),
        _ => None,
    }
}

/// An attribute as numbers; text that reads as a number counts.
pub(crate) fn numbers(variable: &Variable<'_>, name: &str) -> Vec<f64> {
    use AttributeValue as A;
    let Some(Ok(value)) = variable.attribute_value(name) else {
        return Vec::new();
    };
    match value {
        A::Uchar(v) => vec![v.into()],
        A::Schar(v) => vec![v.into()],
        A::Ushort(v) => vec![v.into()],
        A::Short(v) => vec![v.into()],
        A::Uint(v) => vec![v.into()],
        A::Int(v) => vec![v.into()],
        A::Ulonglong(v) => vec![v as f64],
        A::Longlong(v) => vec![v as f64],
        A::Float(v) => vec![v.into()],
        A::Double(v) => vec![v],
        A::Uchars(v) => v.into_iter().map(f64::from).collect(),
        A::Schars(v) => v.into_iter().map(f64::from).collect(),
        A::Ushorts(v) => v.into_iter().map(f64::from).collect(),
        A::Shorts(v) => v.into_iter().map(f64::from).collect(),
        A::Uints(v) => v.into_iter().map(f64::from).collect(),
        A::Ints(v) => v.into_iter().map(f64::from).collect(),
        A::Ulonglongs(v) => v.into_iter().map(|v| v as f64).collect(),
        A::Longlongs(v) => v.into_iter().map(|v| v as f64).collect(),
        A::Floats(v) => v.into_iter().map(f64::from).collect(),
        A::Doubles(v) => v,
        A::Str(text) => text.trim().parse().into_iter().collect(),
        A::Strs(texts) => texts
            .iter()
            .filter_map(|text| text.trim().parse().ok())
            .collect(),
    }
}

/// Whether the variable holds numbers.
pub(crate) fn is_numeric(variable: &Variable<'_>) -> bool {
    matches!(
        variable.vartype(),
        NcVariableType::Int(_) | NcVariableType::Float(_)
    )
}

/// All values of a coordinate variable.
///
/// # Errors
/// [`DataError::BadVariable`] if it holds no numbers or cannot be read.
pub(crate) fn coordinate(path: &Path, variable: &Variable<'_>) -> Result<Vec<f64>> {
    let values = if is_numeric(variable) {
        variable
            .get_values::<f64, _>(..)
            .map_err(|error| error.to_string())
    } else {
        Err("no numbers".to_string())
    };
    values.map_err(|found| DataError::BadVariable {
        path: path.into(),
        variable: variable.name(),
        expected: "readable numbers".into(),
        found,
    })
}

/// How stored numbers become values: missing ones, packing, then a unit conversion.
#[derive(Debug, Clone)]
pub(crate) struct Decoder {
    missing: Vec<f64>,
    valid: (f64, f64),
    scale: f64,
    offset: f64,
    wrap: Option<f64>,
    single: bool,
}

impl Decoder {
    pub(crate) fn new(variable: &Variable<'_>, (factor, shift): (f64, f64)) -> Self {
        let first = |name: &str| numbers(variable, name).first().copied();
        let missing = ["_FillValue", "missing_value"]
            .iter()
            .flat_map(|name| numbers(variable, name))
            .collect();
        let range = numbers(variable, "valid_range");
        let low = first("valid_min")
            .or(range.first().copied())
            .unwrap_or(f64::NEG_INFINITY);
        let high = first("valid_max")
            .or(range.get(1).copied())
            .unwrap_or(f64::INFINITY);
        let (packed, base) = (
            first("scale_factor").unwrap_or(1.0),
            first("add_offset").unwrap_or(0.0),
        );
        let kind = variable.vartype();
        // netCDF classic has no unsigned types: the attribute says that negative numbers are large ones.
        let unsigned =
            text(variable, "_Unsigned").is_some_and(|flag| flag.eq_ignore_ascii_case("true"));
        let wrap = match kind {
            NcVariableType::Int(IntType::I8) if unsigned => Some(256.0),
            NcVariableType::Int(IntType::I16) if unsigned => Some(65_536.0),
            NcVariableType::Int(IntType::I32) if unsigned => Some(4_294_967_296.0),
            _ => None,
        };
        Self {
            missing,
            valid: (low, high),
            scale: packed * factor,
            offset: base * factor + shift,
            wrap,
            single: kind == NcVariableType::Float(FloatType::F32),
        }
    }

    fn decode(&self, stored: f64) -> f32 {
        let same =
            |missing: &f64| stored == *missing || (stored - missing).abs() < 1e-6 * missing.abs();
        // 9.97e36 and 1e20 are what netCDF and CMIP leave where nothing was written.
        if !stored.is_finite() || stored.abs() > 9e19 || self.missing.iter().any(same) {
            return f32::NAN;
        }
        let stored = match self.wrap {
            Some(wrap) if stored < 0.0 => stored + wrap,
            _ => stored,
        };
        if stored < self.valid.0 || stored > self.valid.1 {
            return f32::NAN;
        }
        (stored * self.scale + self.offset) as f32
    }
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
pub(crate) fn stored(path: &Path, variable: &Variable<'_>, extents: Vec<Extent>, decoder: &Decoder) -> Result<Stored> {
    let read = if decoder.single {
        variable.get_values(extents).map(Stored::Single)
    } else {
        variable.get_values(extents).map(Stored::Other)
    };
    read.map_err(|error| DataError::Unreadable {
        path: path.into(),
        reason: format!("variable `{}`: {error}", variable.name()),
    })
}

/// The (lat, lon) plane of stored values, in file order; `transposed` if longitude varies slowest.
///
/// # Errors
/// [`DataError::Unreadable`] if their number is not that of the grid's cells.
pub(crate) fn plane(
    path: &Path,
    stored: Stored,
    decoder: &Decoder,
    (rows, columns): (usize, usize),
    transposed: bool,
) -> Result<Array2<f32>> {
    let values: Vec<f32> = match stored {
        Stored::Single(mut values) => {
            values.iter_mut().for_each(|value| *value = decoder.decode(f64::from(*value)));
            values
        }
        Stored::Other(values) => values.into_iter().map(|value| decoder.decode(value)).collect(),
    };
    let shape = if transposed { (columns, rows) } else { (rows, columns) };
    let plane = Array2::from_shape_vec(shape, values)
        .map_err(|error| DataError::Unreadable { path: path.into(), reason: error.to_string() })?;
    Ok(if transposed { plane.reversed_axes() } else { plane })
}
