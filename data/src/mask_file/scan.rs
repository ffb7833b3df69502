//! Scans mask files and merges them into one time axis.

use super::flags::codes_of;
use crate::archive::coordinates::{GridAxes, time_axis};
use crate::archive::decode::{as_meant, as_stored, wrap_of};
use crate::archive::nc;
use crate::archive::{BadFiles, Place};
use crate::error::{DataError, Result};
use crate::facts::FileFacts;
use crate::grid::AxisOrder;
use crate::snapshot::shape_text;
use crate::{Calendar, Class, LatLonGrid, Time};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// A tool's representation of masks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum MaskKind {
    /// Class codes (Squall, ClimateNet).
    Labels,
    /// Anything above 0 is tagged (ARTMIP, TempestExtremes).
    Tag,
}

/// Names of mask variables, most specific first.
const MASK_VARIABLES: [(&str, MaskKind); 5] = [
    ("LABELS", MaskKind::Labels),
    ("labels", MaskKind::Labels),
    ("ar_binary_tag", MaskKind::Tag),
    ("binary_tag", MaskKind::Tag),
    ("object_id", MaskKind::Tag),
];

/// The required shape of a mask variable.
const ON_GRID: &str = "a mask of (time, lat, lon) or (lat, lon)";

/// Attributes of our masks that describe the rules or network.
pub(super) const MADE_BY: [&str; 7] = [
    "thresholds",
    "percentile_climatology",
    "squall_model_hash",
    "thresholds_applied",
    "warm_core",
    "ensemble",
    "moisture_transport",
];
/// Index of the first attribute that masks of earlier versions may lack: its absence means nothing.
const FIRST_OF_LATER: usize = 3;

/// The values of [`MADE_BY`] in a file.
pub(super) type MadeBy = [Option<String>; MADE_BY.len()];

/// Whether two files were made by different rules or networks.
fn differ(first: &MadeBy, other: &MadeBy) -> bool {
    let pairs = first.iter().zip(other).enumerate();
    let mut apart = pairs.filter(|(_, (first, other))| first != other);
    apart.any(|(at, (first, other))| at < FIRST_OF_LATER || first.is_some() && other.is_some())
}

/// Whether the values of [`MADE_BY`] in a file name rules and no network.
fn names_rules([thresholds, _, model, ..]: &MadeBy) -> bool {
    thresholds.is_some() && model.is_none()
}

#[derive(PartialEq)]
pub(super) struct MaskFile {
    pub path: PathBuf,
    /// The state of the file when scanned.
    facts: FileFacts,
    pub name: &'static str,
    pub layout: MaskKind,
    /// Meaning of the label codes; empty for tags.
    pub codes: Vec<(f64, Class)>,
    /// The class of a tag.
    pub tagged: Class,
    /// Stored values that mark missing data.
    pub missing: Vec<f64>,
    /// The stored value in all cells of an unwritten time, if the file defines no other.
    pub unwritten: Option<f64>,
    /// Scale and offset of stored values; 1 and 0 if they are not packed.
    pub packing: (f64, f64),
    /// The result of [`wrap_of`] the variable.
    pub wrap: Option<f64>,
    pub order: AxisOrder,
    pub file_shape: (usize, usize),
    pub has_time: bool,
    /// Longitude varies slower than latitude.
    pub transposed: bool,
}

impl MaskFile {
    /// Lengths of the slower and the faster dimension of a plane in the file.
    pub fn stored_shape(&self) -> (usize, usize) {
        let (rows, columns) = self.file_shape;
        if self.transposed {
            (columns, rows)
        } else {
            (rows, columns)
        }
    }

    /// Fails if a file has changed since it was scanned, unless it has only grown: the meaning of its codes and the
    /// times of its masks may be different. `grid` is that of its masks, and `own` has their indices in the file.
    pub fn check_unchanged(
        &self,
        grid: &LatLonGrid,
        mut own: impl Iterator<Item = (usize, Time)>,
    ) -> Result<()> {
        if FileFacts::of(&self.path) == self.facts {
            return Ok(());
        }
        let now = look(self.path.clone(), Some(self.tagged))?;
        let is_there = |(at, time): (usize, Time)| {
            let found = now.times.get(at);
            found.and_then(|found| found.instant_in(time.calendar())) == Some(time)
        };
        let reads_as_before = Self {
            facts: self.facts.clone(),
            ..now.file
        } == *self;
        if reads_as_before && now.grid.same_as(grid) && own.all(is_there) {
            return Ok(());
        }
        Err(DataError::unreadable(
            &self.path,
            "it has changed since it was looked at: give the command again",
        ))
    }
}

/// The contents of one file.
struct Found {
    file: MaskFile,
    grid: LatLonGrid,
    calendar: Calendar,
    times: Vec<Time>,
    source: String,
    made_by: MadeBy,
    names_a_class: bool,
}

/// Mask files being merged.
#[derive(Default)]
pub(super) struct Scan {
    /// The class of tags whose variable names none.
    tagged: Option<Class>,
    pub files: Vec<MaskFile>,
    /// Every time and the location of its mask.
    pub all: Vec<(Time, Place)>,
    /// Grid and calendar of the first file: those of the archive.
    pub common: Option<(LatLonGrid, Calendar)>,
    pub source: String,
    pub notes: Vec<String>,
    /// Whether some file has tags without a class, for which [`Self::tagged`] is used.
    pub has_unnamed: bool,
    /// Why files were skipped.
    pub skipped: Vec<String>,
    /// A warning if files were made by different rules or networks.
    pub mixed: Option<String>,
    /// Whether some file names neither its rules nor a network.
    pub has_unruled: bool,
    /// The values of [`MADE_BY`] in the first file.
    pub made_by: Option<MadeBy>,
    taken: HashSet<i64>,
}

impl Scan {
    /// Scans files in order.
    ///
    /// # Errors
    /// The error of the first unusable file; if such files are skipped, [`DataError::NoInput`] if none is left.
    pub fn of(
        input: &str,
        paths: Vec<PathBuf>,
        tagged: Option<Class>,
        bad_files: BadFiles,
    ) -> Result<Self> {
        let mut scan = Self {
            tagged,
            ..Self::default()
        };
        let candidates = paths.len();
        for path in paths {
            match look(path, tagged).and_then(|found| scan.add(found)) {
                Ok(()) => {}
                Err(error) if bad_files == BadFiles::Skip => {
                    scan.skipped.push(error.to_string());
                }
                Err(error) => return Err(error),
            }
        }
        if scan.files.is_empty() {
            let reason = match scan.skipped.first() {
                Some(first) => {
                    format!("none of {candidates} mask files can be used; first: {first}")
                }
                None => "no mask files".into(),
            };
            return Err(DataError::no_input(input, reason));
        }
        Ok(scan)
    }

    /// Adds a file that matches the earlier ones; otherwise fails without any effect.
    fn add(&mut self, found: Found) -> Result<()> {
        let times = self.common_times(&found)?;
        self.take(&found.file.path, &times)?;
        let Found {
            file,
            grid,
            calendar,
            source,
            made_by,
            names_a_class,
            ..
        } = found;
        self.note_class(&file, names_a_class);
        if self.source.is_empty() {
            self.source = source;
        }
        self.common.get_or_insert((grid, calendar));
        self.note_rules(&file, made_by);
        let number = self.files.len();
        let place = |at: usize| Place { file: number, at };
        let placed = times.into_iter().enumerate();
        self.all.extend(placed.map(|(at, time)| (time, place(at))));
        self.files.push(file);
        Ok(())
    }

    /// The times of a file in the calendar of the first one, whose grid it must have.
    fn common_times(&self, found: &Found) -> Result<Vec<Time>> {
        let (known, of_first) = match &self.common {
            Some((known, of_first)) => (known, *of_first),
            None => (&found.grid, found.calendar),
        };
        // Since 1582 the two Gregorian calendars are the same.
        let times = found.times.iter().map(|time| time.instant_in(of_first));
        match times.collect::<Option<Vec<Time>>>() {
            Some(times) if known.same_as(&found.grid) => Ok(times),
            _ => {
                let [expected, is] = known.describe_beside(&found.grid);
                Err(DataError::mismatch(
                    "grid or calendar",
                    &found.file.path,
                    format!("{expected}, {of_first}"),
                    format!("{is}, {}", found.calendar),
                ))
            }
        }
    }

    /// Takes the times of a file, none of which an earlier one may have.
    fn take(&mut self, path: &Path, times: &[Time]) -> Result<()> {
        let first = self.all.first().map(|(first, _)| first);
        let origin = first.or(times.first()).copied();
        let since = |time: &Time| origin.map_or(0, |origin| time.seconds_since(origin));
        if let Some(again) = times.iter().find(|time| self.taken.contains(&since(time))) {
            return Err(DataError::mismatch(
                "time axis",
                path,
                "each time once",
                format!("{again} again"),
            ));
        }
        self.taken.extend(times.iter().map(since));
        Ok(())
    }

    /// Notes whether a file has tags without a class, and how they are read if no class was given.
    fn note_class(&mut self, file: &MaskFile, names_a_class: bool) {
        let is_unnamed = file.layout == MaskKind::Tag && !names_a_class;
        self.has_unnamed |= is_unnamed;
        if is_unnamed && self.tagged.is_none() && self.notes.is_empty() {
            self.notes.push(format!(
                "`{}` in `{}` names no class and is read as atmospheric rivers",
                file.name,
                file.path.display()
            ));
        }
    }

    /// Notes the rules or network of a file, and whether they are not those of the first one.
    fn note_rules(&mut self, file: &MaskFile, made_by: MadeBy) {
        let first = self.made_by.as_ref();
        let differs = first.is_some_and(|first| differ(first, &made_by));
        if let (true, None, Some(first)) = (differs, &self.mixed, self.files.first()) {
            self.mixed = Some(format!(
                "`{}` was made by other rules or another network than `{}`",
                file.path.display(),
                first.path.display()
            ));
        }
        self.has_unruled |= !names_rules(&made_by);
        self.made_by.get_or_insert(made_by);
    }
}

/// Scans one file; `tagged` is the class of a tag whose variable names none.
fn look(path: PathBuf, tagged: Option<Class>) -> Result<Found> {
    // Recorded before reading, so that later changes are detected.
    let facts = FileFacts::of(&path);
    let file = nc::open(&path)?;
    let found = MASK_VARIABLES
        .into_iter()
        .find(|(name, _)| file.variable(name).is_some());
    let Some((name, layout)) = found else {
        return Err(nc::missing(&path, &file, "LABELS"));
    };
    // The name implies the class.
    let names_a_class = name == "ar_binary_tag";
    let tagged = tagged.filter(|_| !names_a_class);
    let axes = GridAxes::of(&path, &file)?;
    let axis = time_axis(&path, &file)?;
    let variable = file.variable(name);
    let dimensions = variable.as_ref().map(nc::dimensions).unwrap_or_default();
    let wrap = variable.as_ref().and_then(wrap_of);
    let mut codes = match (layout, &variable) {
        (MaskKind::Labels, Some(variable)) => codes_of(&path, variable)?,
        _ => Vec::new(),
    };
    // `flag_values` have the variable's type, so they wrap like it.
    codes
        .iter_mut()
        .for_each(|(code, _)| *code = as_meant(*code, wrap));
    let missing = variable.as_ref().map(|v| stored_missing(v, wrap));
    let missing = missing.unwrap_or_default();
    let unwritten = variable.as_ref();
    let unwritten = unwritten.and_then(|v| stored_unwritten(v, &missing));
    let number = |key: &str, without: f64| {
        let found = variable.iter().flat_map(|v| nc::numbers(v, key)).next();
        found.unwrap_or(without)
    };
    let packing = (number("scale_factor", 1.0), number("add_offset", 0.0));
    let orientation =
        Orientation::of(&dimensions, &axes, axis.times.len()).map_err(|expected| {
            let names: Vec<&str> = dimensions.iter().map(|(name, _)| name.as_str()).collect();
            let lengths: Vec<usize> = dimensions.iter().map(|(_, length)| *length).collect();
            let found = format!("{} of ({})", shape_text(&lengths), names.join(", "));
            DataError::bad_variable(&path, name, expected, found)
        })?;
    Ok(Found {
        grid: axes.grid,
        calendar: axis.calendar,
        times: axis.times,
        source: text(&file, "source").unwrap_or_default(),
        made_by: MADE_BY.map(|name| text(&file, name)),
        names_a_class,
        file: MaskFile {
            path,
            facts,
            name,
            layout,
            codes,
            missing,
            unwritten,
            packing,
            wrap,
            tagged: tagged.unwrap_or(Class::AtmosphericRiver),
            order: axes.order,
            file_shape: axes.file_shape,
            has_time: orientation.has_time,
            transposed: orientation.transposed,
        },
    })
}

/// The stored values that mark missing data in a mask, given [`wrap_of`] its variable.
fn stored_missing(variable: &netcdf::Variable<'_>, wrap: Option<f64>) -> Vec<f64> {
    let told = ["_FillValue", "missing_value"].map(|key| nc::numbers(variable, key));
    (told.into_iter().flatten())
        // Some files use 0 as fill value and for background; NaN never counts as a tag anyway.
        .filter(|value| *value != 0.0 && !value.is_nan())
        .map(|value| as_stored(value, wrap))
        .collect()
}

/// The library's default fill value, if the file defines no other: all cells of an unwritten time have it.
fn stored_unwritten(variable: &netcdf::Variable<'_>, missing: &[f64]) -> Option<f64> {
    let fill = nc::default_fill(variable)?;
    let is_told = variable.attribute("_FillValue").is_some();
    (!is_told && !missing.contains(&fill)).then_some(fill)
}

/// The order of a mask's dimensions in its file.
struct Orientation {
    has_time: bool,
    /// Longitude varies slower than latitude.
    transposed: bool,
}

impl Orientation {
    /// The orientation of a mask with these dimensions (names and lengths) in a file of this many times; if it is
    /// ambiguous, the error says what was expected.
    fn of(
        dimensions: &[(String, usize)],
        axes: &GridAxes,
        times: usize,
    ) -> std::result::Result<Self, String> {
        let (has_time, plane) = match dimensions {
            [a, b] => (false, [a, b]),
            [_, a, b] => (true, [a, b]),
            _ => return Err(ON_GRID.into()),
        };
        let names = plane.map(|(name, _)| name.as_str());
        let lengths = plane.map(|(_, length)| *length);
        let (lat, lon) = (axes.lat.as_str(), axes.lon.as_str());
        let (rows, columns) = axes.file_shape;
        let transposed = names == [lon, lat];
        // Dimensions with other names than the axes are identified by their lengths, except on a square grid.
        let is_plane = if transposed {
            lengths == [columns, rows]
        } else {
            lengths == [rows, columns] && (names == [lat, lon] || rows != columns)
        };
        if !is_plane {
            return Err(ON_GRID.into());
        }
        // In a file of several times, a mask without a time dimension would be repeated at each time.
        let has_each_time = if has_time {
            dimensions[0].1 == times
        } else {
            times == 1
        };
        if !has_each_time {
            return Err(format!("a mask for each of {times} times"));
        }
        Ok(Self {
            has_time,
            transposed,
        })
    }
}

/// An attribute of a file, if it is text.
pub(super) fn text(file: &netcdf::File, name: &str) -> Option<String> {
    nc::text_of(file.attribute(name)?.value().ok()?)
}
