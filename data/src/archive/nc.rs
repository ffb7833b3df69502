//! Safe access to the netCDF library: on one thread, with files kept open and attributes of any type.

use super::blocks::Blocks;
use super::classic;
use crate::error::{DataError, FileFault, Result};
use netcdf::types::{IntType, NcVariableType};
use netcdf::{AttributeValue, File, Group, Variable};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Number of files kept open if each time is in a single file: reading in order needs two, several threads a few more.
const OPEN_FILES: usize = 8;
/// Maximum number of files kept open, since each takes memory.
const MOST_OPEN_FILES: usize = 64;
/// Maximum length of a coordinate: a few bytes of header can declare more values than fit into memory, without any
/// being written.
const MOST_VALUES: usize = 1 << 24;

/// Runs `act` on the one thread that calls the netCDF library.
///
/// The library is not thread-safe, and the underlying HDF5 has per-thread error printing: netCDF disables it only on
/// the thread where it is first used, and any other thread would print tracebacks of harmless probes.
pub fn on_library_thread<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    static THREAD: OnceLock<Option<rayon::ThreadPool>> = OnceLock::new();
    let build = || {
        let builder = rayon::ThreadPoolBuilder::new().num_threads(1);
        builder.thread_name(|_| "netcdf".into()).build().ok()
    };
    match THREAD.get_or_init(build) {
        Some(thread) => thread.install(act),
        None => act(),
    }
}

/// Recently read files, kept open; used only on the library's thread.
pub(crate) struct FileCache {
    open: Mutex<Open>,
    room: usize,
}

#[derive(Default)]
struct Open {
    files: VecDeque<(usize, File)>,
    blocks: Blocks,
}

impl FileCache {
    /// An empty cache with room for all files of a time: with less room, each would be reopened for every time.
    pub(crate) fn new(of_a_time: usize) -> Self {
        Self {
            open: Mutex::default(),
            room: of_a_time.clamp(OPEN_FILES, MOST_OPEN_FILES),
        }
    }

    /// Runs `act` on the library's thread with the open file number `id` at `path`. If the file must be opened first,
    /// `check` decides whether it may be used.
    ///
    /// # Errors
    /// As [`open`]; errors of `check` and `act`.
    pub(crate) fn with<T: Send>(
        &self,
        id: usize,
        path: &Path,
        check: impl FnOnce() -> Result<()> + Send,
        act: impl FnOnce(&File) -> Result<T> + Send,
    ) -> Result<T> {
        self.with_blocks(id, path, check, |file, _| act(file))
    }

    /// As [`Self::with`]; `act` also gets the blocks of values that were read.
    pub(super) fn with_blocks<T: Send>(
        &self,
        id: usize,
        path: &Path,
        check: impl FnOnce() -> Result<()> + Send,
        act: impl FnOnce(&File, &mut Blocks) -> Result<T> + Send,
    ) -> Result<T> {
        on_library_thread(|| {
            // A panic elsewhere leaves the cache usable: it holds only open files and whole blocks.
            let mut cached = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            let Open { files, blocks } = &mut *cached;
            if let Some(at) = files.iter().position(|(known, _)| *known == id) {
                // Moves it to the back; files are closed from the front.
                let entry = files.remove(at).expect("just found");
                files.push_back(entry);
            } else {
                let file = open(path)?;
                check()?;
                if files.len() == self.room
                    && let Some((closed, _)) = files.pop_front()
                {
                    blocks.forget(closed);
                }
                files.push_back((id, file));
            }
            act(&files.back().expect("just pushed").1, blocks)
        })
    }
}

/// Opens a file for reading.
///
/// # Errors
/// [`DataError::Io`] if there is no such file; [`DataError::Unreadable`] if it is not netCDF, damaged or truncated.
pub(crate) fn open(path: &Path) -> Result<File> {
    let metadata = std::fs::metadata(path).map_err(DataError::io("open", path))?;
    let unreadable = |reason: String| DataError::unreadable(path, reason);
    if metadata.len() == 0 {
        return Err(unreadable("the file is empty".into()));
    }
    let header = std::fs::File::open(path).map_err(DataError::io("open", path))?;
    if let Some(expected) = classic::expected_length(header)
        && expected > metadata.len()
    {
        return Err(unreadable(format!(
            "it is cut short: {} bytes, and its header tells of {expected}",
            metadata.len()
        )));
    }
    netcdf::open(path).map_err(|error| {
        let of_library = || FileFault::of_library(&error, format!("netCDF: {error}"));
        DataError::fault(
            path,
            super::input::other_format(path).unwrap_or_else(of_library),
        )
    })
}

/// The error for a file that lacks a variable; lists some of those that it has.
pub(crate) fn missing(path: &Path, file: &File, variable: &str) -> DataError {
    let found: Vec<String> = file.variables().map(|v| v.name()).take(30).collect();
    if found.is_empty() {
        let grouped = in_groups(file);
        if !grouped.is_empty() {
            let names = grouped[..grouped.len().min(30)].join(", ");
            return DataError::fault(path, FileFault::Groups(names));
        }
    }
    DataError::MissingVariable {
        path: path.into(),
        variable: variable.into(),
        found,
    }
}

/// The variables in a file's groups, including their own variables.
fn in_groups(file: &File) -> Vec<String> {
    fn add(group: &Group<'_>, outer: &str, found: &mut Vec<String>) {
        let prefix = format!("{outer}{}/", group.name());
        found.extend(group.variables().map(|v| format!("{prefix}{}", v.name())));
        for inner in group.groups() {
            add(&inner, &prefix, found);
        }
    }
    let mut found = Vec::new();
    for group in file.groups().into_iter().flatten() {
        add(&group, "", &mut found);
    }
    found
}

/// Names and lengths of a variable's dimensions.
pub(crate) fn dimensions(variable: &Variable<'_>) -> Vec<(String, usize)> {
    let dimensions = variable.dimensions().iter();
    dimensions.map(|d| (d.name(), d.len())).collect()
}

/// An attribute as text, if it is text.
pub(crate) fn text(variable: &Variable<'_>, name: &str) -> Option<String> {
    text_of(variable.attribute_value(name)?.ok()?)
}

/// The text of an attribute, which netCDF-4 may store as characters or as strings; `None` for numbers.
pub(crate) fn text_of(value: AttributeValue) -> Option<String> {
    let text = match value {
        AttributeValue::Str(text) => text,
        // Of several strings, as in `flag_meanings`, each is a word.
        AttributeValue::Strs(texts) if !texts.is_empty() => texts.join(" "),
        _ => return None,
    };
    Some(text.trim_matches(['\0', ' ']).to_string())
}

/// An attribute as numbers; numeric text counts.
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

/// Reads all values of a coordinate variable, unpacked with its scale and offset.
///
/// # Errors
/// [`DataError::BadVariable`] if it is not numeric, longer than any real axis, or unreadable.
pub(crate) fn coordinate(path: &Path, variable: &Variable<'_>) -> Result<Vec<f64>> {
    let lengths = variable.dimensions().iter().map(netcdf::Dimension::len);
    let count = lengths.fold(1, usize::saturating_mul);
    if count > MOST_VALUES {
        let expected = format!("a coordinate of at most {MOST_VALUES} values");
        return Err(DataError::bad_variable(
            path,
            variable.name(),
            expected,
            count,
        ));
    }
    let values = if is_numeric(variable) {
        variable
            .get_values::<f64, _>(..)
            .map_err(|error| error.to_string())
    } else {
        Err("no numbers".to_string())
    };
    let mut values = values.map_err(|found| {
        DataError::bad_variable(path, variable.name(), "readable numbers", found)
    })?;
    let (scale, offset) = packing(variable);
    values.iter_mut().for_each(|v| *v = *v * scale + offset);
    Ok(values)
}

/// The value that [`coordinate`] returns for unwritten elements: from the variable's fill value, or else that of its
/// type.
pub(crate) fn unwritten(variable: &Variable<'_>) -> Option<f64> {
    let told = numbers(variable, "_FillValue").first().copied();
    // The default fill values of bytes and unsigned numbers are possible dates; those of the other types are not.
    let of_type = default_fill(variable).filter(|fill| *fill < -32_000.0);
    let (scale, offset) = packing(variable);
    told.or(of_type).map(|stored| stored * scale + offset)
}

/// The library's default fill value for a variable without its own.
pub(crate) fn default_fill(variable: &Variable<'_>) -> Option<f64> {
    Some(match variable.vartype() {
        NcVariableType::Int(IntType::I8) => -127.0,
        NcVariableType::Int(IntType::U8) => 255.0,
        NcVariableType::Int(IntType::I16) => -32_767.0,
        NcVariableType::Int(IntType::U16) => 65_535.0,
        NcVariableType::Int(IntType::I32) => -2_147_483_647.0,
        NcVariableType::Int(IntType::U32) => 4_294_967_295.0,
        NcVariableType::Int(IntType::I64) => -9_223_372_036_854_775_806_i64 as f64,
        NcVariableType::Int(IntType::U64) => 18_446_744_073_709_551_614_u64 as f64,
        // 15 · 2^119, for both float types.
        NcVariableType::Float(_) => 9.969_209_968_386_869e36,
        _ => return None,
    })
}

/// Scale and offset of a variable; 1 and 0 if it is not packed.
fn packing(variable: &Variable<'_>) -> (f64, f64) {
    let number = |name: &str, without: f64| {
        let found = numbers(variable, name);
        found.first().copied().unwrap_or(without)
    };
    (number("scale_factor", 1.0), number("add_offset", 0.0))
}
