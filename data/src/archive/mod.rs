//! A simulation: many netCDF files of any dialect, seen as one time axis.
//!
//! Variables are found by name (the aliases of CAM, ERA5, MERRA-2, CMIP and GFS), on any latitude-longitude grid in any
//! order, in any convertible unit; what was decided on the way is said in [`Archive::problems`].

mod alias;
mod file_date;
mod input;
pub(crate) mod nc;
pub(crate) mod scan;
mod units;
mod vapour;

pub use alias::{Match, matches};
pub use input::files_of;
pub use nc::on_library_thread;
pub use units::conversion;
pub use vapour::precipitable_water;

use crate::error::{DataError, Result};
use crate::grid::LatLonGrid;
use crate::snapshot::Snapshot;
use crate::{Calendar, Time, Variable};
use ndarray::{Array2, Array3, Axis};
use scan::{FileInfo, Source};
use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Files kept open: reading in order needs two, overlapping variable sets a few more.
const OPEN_FILES: usize = 6;

/// What to do with an input file that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadFiles {
    /// Stop, naming it.
    Fail,
    /// Go on without it; [`Archive::problems`] names it.
    Skip,
}

/// Many files seen as one time axis. Reading takes `&self` and may be done from several threads.
pub struct Archive {
    files: Vec<FileInfo>,
    grid: Arc<LatLonGrid>,
    times: Vec<Time>,
    /// For each time, the (file, index in file) that hold it: several if variables are split over files.
    places: Vec<Vec<(usize, usize)>>,
    available: Vec<Variable>,
    problems: Vec<String>,
    /// Used on the library's thread only.
    open: Mutex<VecDeque<(usize, netcdf::File)>>,
}

impl std::fmt::Debug for Archive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Archive of {} times in {} files",
            self.times.len(),
            self.files.len()
        )
    }
}

impl Archive {
    /// Opens a file, a folder, a glob or a text file that lists paths.
    ///
    /// # Errors
    /// [`DataError`] naming the first file that cannot be used, and why.
    pub fn open(input: &str) -> Result<Self> {
        Self::open_with(input, BadFiles::Fail)
    }

    /// As [`Self::open`], with a choice about files that cannot be used.
    ///
    /// # Errors
    /// [`DataError::NoInput`] if nothing usable is left; [`DataError::Mismatch`] if files differ in grid or calendar.
    pub fn open_with(input: &str, bad_files: BadFiles) -> Result<Self> {
        let paths = files_of(input)?;
        let (mut files, mut problems) = (Vec::<FileInfo>::new(), Vec::new());
        for path in &paths {
            let usable = on_library_thread(|| scan::scan(path)).and_then(|info| match files.first() {
                Some(first) => agrees(first, &info).map(|()| info),
                None => Ok(info),
            });
            match usable {
                Ok(info) => files.push(info),
                Err(error) if bad_files == BadFiles::Skip => {
                    problems.push(format!("skipped: {error}"))
                }
                Err(error) => return Err(error),
            }
        }
        let Some(first) = files.first() else {
            let reason = format!(
                "none of {} files can be used; first: {}",
                paths.len(),
                problems[0]
            );
            return Err(DataError::NoInput {
                input: input.into(),
                reason,
            });
        };
        let grid = Arc::new(first.grid.clone());
        let origin = first.times[0];
        let mut axis: BTreeMap<i64, (Time, Vec<(usize, usize)>)> = BTreeMap::new();
        for (file, info) in files.iter().enumerate() {
            for (index, &time) in info.times.iter().enumerate() {
                let entry = axis.entry(time.seconds_since(origin));
                entry
                    .or_insert_with(|| (time, Vec::new()))
                    .1
                    .push((file, index));
            }
        }
        let (times, places): (Vec<_>, Vec<_>) = axis.into_values().unzip();
        problems.extend(repeated(&files, &times, &places));
        problems.extend(once_each(&files));
        let has = |variable: Variable| {
            let held = |place: &Vec<(usize, usize)>| {
                place.iter().any(|&(file, _)| files[file].serves(variable))
            };
            places.iter().all(held)
        };
        let available = Variable::CHANNELS.into_iter().filter(|&v| has(v)).collect();
        Ok(Self {
            files,
            grid,
            times,
            places,
            available,
            problems,
            open: Mutex::default(),
        })
    }

    /// The grid of every field.
    pub fn grid(&self) -> &Arc<LatLonGrid> {
        &self.grid
    }

    /// The calendar of the time axis.
    pub fn calendar(&self) -> Calendar {
        self.files[0].calendar
    }

    /// All times, strictly ascending over all files.
    pub fn times(&self) -> &[Time] {
        &self.times
    }

    /// The channels that every time has, in model order: as such, as a level, by a stated proxy, or computed (TMQ from q).
    pub fn available(&self) -> &[Variable] {
        &self.available
    }

    /// What was skipped, guessed or replaced, one sentence each.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Number of files.
    pub fn file_count(&self) -> usize {
        self.files.len()
    }

    /// The file that holds a time, and the index in it.
    pub fn source_of(&self, index: usize) -> (&Path, usize) {
        let (file, at) = self.places[index][0];
        (&self.files[file].path, at)
    }

    /// The fields of one time.
    ///
    /// # Errors
    /// [`DataError::MissingVariable`] naming the channel and what the file has; [`DataError::BadVariable`] if a field has
    /// no valid value at all; [`DataError::Unreadable`] if the file is damaged.
    pub fn read(&self, index: usize, variables: &[Variable]) -> Result<Snapshot> {
        let (rows, columns) = self.grid.shape();
        let mut fields = Array3::zeros((variables.len(), rows, columns));
        for (&variable, mut plane) in variables.iter().zip(fields.axis_iter_mut(Axis(0))) {
            let place = self.places[index]
                .iter()
                .find(|&&(file, _)| self.files[file].serves(variable));
            let &(file, at) = place.ok_or_else(|| self.missing(index, variable))?;
            let info = &self.files[file];
            match info
                .channels
                .iter()
                .find(|(channel, _)| *channel == variable)
            {
                Some((_, source)) => self.copy(file, source, at, None, plane.view_mut())?,
                None => plane.assign(&self.integrate(index, file, at)?),
            }
            if plane.iter().all(|value| value.is_nan()) {
                return Err(DataError::BadVariable {
                    path: info.path.clone(),
                    variable: variable.name().into(),
                    expected: format!("numbers at {}", self.times[index]),
                    found: "only missing values".into(),
                });
            }
        }
        let (path, at) = self.source_of(index);
        Ok(Snapshot {
            time: self.times[index],
            grid: self.grid.clone(),
            variables: variables.to_vec(),
            fields,
            source: (path.to_path_buf(), at),
        })
    }

    /// TMQ from humidity on levels, even where the file has TMQ itself: for checks.
    ///
    /// # Errors
    /// [`DataError::MissingVariable`] if there is no humidity on pressure levels.
    pub fn integrate_tmq(&self, index: usize) -> Result<Array2<f32>> {
        let place = self.places[index]
            .iter()
            .find(|&&(file, _)| self.files[file].humidity.is_some());
        let &(file, at) = place.ok_or_else(|| self.missing(index, Variable::Tmq))?;
        self.integrate(index, file, at)
    }

    fn integrate(&self, index: usize, file: usize, at: usize) -> Result<Array2<f32>> {
        let levels = self.files[file]
            .humidity
            .as_ref()
            .ok_or_else(|| self.missing(index, Variable::Tmq))?;
        let (rows, columns) = self.grid.shape();
        let mut q = Array3::zeros((levels.pressure_pa.len(), rows, columns));
        for (level, plane) in q.axis_iter_mut(Axis(0)).enumerate() {
            self.copy(file, &levels.source, at, Some(level), plane)?;
        }
        let surface = |variable| {
            let there = self.places[index]
                .iter()
                .any(|&(file, _)| self.files[file].serves(variable));
            let snapshot = there.then(|| self.read(index, &[variable])).transpose()?;
            Ok(snapshot.map(|s| s.fields.index_axis_move(Axis(0), 0)))
        };
        let (ps, qref): (Option<Array2<f32>>, Option<Array2<f32>>) =
            (surface(Variable::Ps)?, surface(Variable::Qrefht)?);
        let (ps, qref) = (
            ps.as_ref().map(|f| f.view()),
            qref.as_ref().map(|f| f.view()),
        );
        Ok(precipitable_water(&levels.pressure_pa, q.view(), ps, qref))
    }

    /// Reads one plane into grid order.
    fn copy(
        &self,
        file: usize,
        source: &Source,
        at: usize,
        level: Option<usize>,
        plane: ndarray::ArrayViewMut2<'_, f32>,
    ) -> Result<()> {
        let info = &self.files[file];
        let read = self.with_file(file, |netcdf| {
            let variable = netcdf
                .variable(&source.name)
                .ok_or_else(|| DataError::Unreadable {
                    path: info.path.clone(),
                    reason: format!(
                        "variable `{}` has gone since the file was scanned",
                        source.name
                    ),
                })?;
            let extents = source.extents(at, level);
            nc::stored(&info.path, &variable, extents, &source.decoder)
        })?;
        let read = nc::plane(&info.path, read, &source.decoder, info.file_shape, source.is_transposed())?;
        info.order.copy_plane(read.view(), plane);
        Ok(())
    }

    fn with_file<T: Send>(
        &self,
        file: usize,
        act: impl FnOnce(&netcdf::File) -> Result<T> + Send,
    ) -> Result<T> {
        on_library_thread(|| {
            // A panic elsewhere leaves the cache usable: it holds only open files.
            let mut open = self.open.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if let Some((_, netcdf)) = open.iter().find(|(known, _)| *known == file) {
                return act(netcdf);
            }
            if open.len() == OPEN_FILES {
                open.pop_front();
            }
            open.push_back((file, nc::open(&self.files[file].path)?));
            act(&open.back().expect("just pushed").1)
        })
    }

    fn missing(&self, index: usize, variable: Variable) -> DataError {
        let files = self.places[index]
            .iter()
            .map(|&(file, _)| &self.files[file]);
        let found = files.flat_map(|info| {
            info.channels
                .iter()
                .map(|(channel, _)| channel.name().to_string())
        });
        let found = found.collect();
        DataError::MissingVariable {
            path: self.source_of(index).0.into(),
            variable: variable.name().into(),
            found,
        }
    }
}

impl FileInfo {
    fn serves(&self, variable: Variable) -> bool {
        let listed = self
            .channels
            .iter()
            .any(|(channel, _)| *channel == variable);
        listed || variable == Variable::Tmq && self.humidity.is_some()
    }
}

fn agrees(first: &FileInfo, other: &FileInfo) -> Result<()> {
    let differs = |what, expected: String, found: String| {
        Err(DataError::Mismatch {
            what,
            path: other.path.clone(),
            expected,
            found,
        })
    };
    if first.grid.hash() != other.grid.hash() {
        return differs("grid", first.grid.describe(), other.grid.describe());
    }
    if first.calendar != other.calendar {
        return differs(
            "calendar",
            first.calendar.cf_name().into(),
            other.calendar.cf_name().into(),
        );
    }
    Ok(())
}

/// A sentence if a channel stands at one time in two files: the first by name is read.
fn repeated(files: &[FileInfo], times: &[Time], places: &[Vec<(usize, usize)>]) -> Option<String> {
    let twice = |place: &&Vec<(usize, usize)>| {
        Variable::CHANNELS.iter().any(|&v| {
            place
                .iter()
                .filter(|&&(file, _)| files[file].serves(v))
                .count()
                > 1
        })
    };
    let count = places.iter().filter(twice).count();
    let first = places.iter().position(|place| twice(&place))?;
    let names = places[first]
        .iter()
        .map(|&(file, _)| files[file].path.display().to_string());
    let names = names.collect::<Vec<_>>().join("`, `");
    Some(format!(
        "{count} times stand in more than one file, first {} in `{names}`: the first file is read",
        times[first]
    ))
}

/// The problems of all files, each said once.
fn once_each(files: &[FileInfo]) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    files
        .iter()
        .flat_map(|info| &info.problems)
        .for_each(|p| *counts.entry(p).or_default() += 1);
    let all = files.len();
    counts
        .into_iter()
        .map(|(problem, count)| {
            if count == all {
                problem.to_string()
            } else {
                format!("{problem} ({count} of {all} files)")
            }
        })
        .collect()
}
