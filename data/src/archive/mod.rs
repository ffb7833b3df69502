//! A simulation: many netCDF files of any dialect, seen as one time axis.
//!
//! Variables are found by name (the aliases of CAM, ERA5, MERRA-2, CMIP and GFS), on any latitude-longitude grid in any
//! order, in any convertible unit. [`Archive::problems`] lists everything that was guessed, replaced or skipped.
//!
//! How files become fields: `input` lists the files. `scan` examines each of them once, using `coordinates` for its
//! axes and `candidate` for its variables, whose names are in `alias` and whose units are in `units`. `build` merges
//! all files into one time axis, of which `kept` leaves out times that a command has no use for. `read` then reads the
//! fields of a time: `decode` turns stored numbers into values, and `derive` computes channels that the files lack.
//! `served` names what serves as each channel.

mod alias;
mod blocks;
mod build;
mod candidate;
mod classic;
pub(crate) mod coordinates;
pub(crate) mod decode;
mod derive;
mod extra;
mod fields;
pub(crate) mod file_date;
mod forecast;
mod input;
mod kept;
mod levels;
pub(crate) mod nc;
mod problem;
mod read;
pub(crate) mod scan;
mod served;
mod survey;
mod time_mean;
mod units;
mod wind;

pub(crate) use alias::{Match, matches};
pub use derive::precipitable_water;
pub use extra::StoredTransport;
pub use fields::StoredField;
pub use input::{files_of, folders_of};
pub use nc::on_library_thread;
pub use survey::Survey;
pub use units::unit_factor;
pub(crate) use units::{Conversion, conversion};

use crate::error::Result;
use crate::facts::FileFacts;
use crate::grid::LatLonGrid;
use crate::{Calendar, Time, Variable};
use build::Build;
use problem::Problem;
use scan::Layout;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// How to handle an unusable input file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadFiles {
    /// Stop, naming it.
    Fail,
    /// Go on without it; [`Archive::problems`] names it.
    Skip,
}

/// A time of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// Index of the file in its archive.
    pub file: usize,
    /// Index of the time in the file.
    pub at: usize,
}

/// Many files seen as one time axis. Reading takes `&self` and may be done from several threads.
pub struct Archive {
    files: Vec<(PathBuf, usize)>,
    /// Length and modification time of each file when last examined, to detect changes.
    facts: Mutex<Vec<FileFacts>>,
    /// What files of one make have in common; `files` holds indices into it.
    layouts: Vec<Layout>,
    grid: Arc<LatLonGrid>,
    calendar: Calendar,
    times: Vec<Time>,
    /// The files that hold each time: several if variables are split over files.
    places: Vec<Vec<Place>>,
    /// The times of each file, as (place on the axis, index in the file). Computed only once a file is found to have
    /// changed.
    times_of_files: OnceLock<Vec<Vec<(usize, usize)>>>,
    available: Vec<Variable>,
    problems: Vec<Problem>,
    /// How many of `problems`, the first ones, do not depend on which times there are.
    general_problems: usize,
    /// The sentences of `problems`.
    told: Vec<String>,
    skipped_files: usize,
    /// Whether Z1000 was missing somewhere and was computed there.
    has_completed_heights: AtomicBool,
    open: nc::FileCache,
}

impl std::fmt::Debug for Archive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (times, files) = (self.times.len(), self.files.len());
        write!(f, "Archive of {times} times in {files} files")
    }
}

impl Archive {
    /// Opens a file, a folder, a glob or a text file that lists paths.
    ///
    /// # Errors
    /// [`crate::DataError`] naming the first file that cannot be used, and why.
    pub fn open(input: &str) -> Result<Self> {
        Self::open_with(input, BadFiles::Fail)
    }

    /// Like [`Self::open`], with a choice of how to handle unusable files.
    ///
    /// # Errors
    /// [`crate::DataError::NoInput`] if no usable file is left; [`crate::DataError::Mismatch`] if files differ in grid
    /// or calendar.
    pub fn open_with(input: &str, bad_files: BadFiles) -> Result<Self> {
        let paths = files_of(input)?;
        let found = (paths.iter()).map(|path| on_library_thread(|| scan::scan(path)));
        Build::of(input, paths.len(), found, bad_files)
    }

    /// The grid of every field.
    pub fn grid(&self) -> &Arc<LatLonGrid> {
        &self.grid
    }

    /// Whether latitude descends in some file, and whether longitudes of some file are others than those of
    /// [`Self::grid`] or in another order.
    pub fn axes_differ(&self) -> [bool; 2] {
        let mut differ = [false; 2];
        for layout in &self.layouts {
            let [lat, lon] = layout.order.differs();
            differ = [differ[0] || lat, differ[1] || lon];
        }
        differ
    }

    /// The calendar of the time axis.
    pub fn calendar(&self) -> Calendar {
        self.calendar
    }

    /// All times, strictly ascending over all files.
    pub fn times(&self) -> &[Time] {
        &self.times
    }

    /// The index of a time, which may be one of the other Gregorian calendar ([`Time::instant_in`]).
    pub fn find(&self, time: Time) -> Option<usize> {
        time.find_in(&self.times)
    }

    /// The channels available at every time, in model order: directly, as a level, by a declared stand-in, or computed.
    pub fn available(&self) -> &[Variable] {
        &self.available
    }

    /// What was skipped, guessed or replaced, one sentence each.
    pub fn problems(&self) -> &[String] {
        &self.told
    }

    /// Those [`Self::problems`] that concern these channels, or what they are computed from at the first time, or no
    /// particular channel. Channels that are missing at the same times share a sentence.
    pub fn problems_of(&self, used: &[Variable]) -> Vec<String> {
        let used = self.with_sources(0, used);
        problem::together(
            self.problems
                .iter()
                .filter(|problem| problem.concerns(&used)),
        )
    }

    /// How many files were left out because they cannot be used ([`BadFiles::Skip`]); [`Self::problems`] names them.
    pub fn skipped_files(&self) -> usize {
        self.skipped_files
    }

    /// A note for the user if fields read so far have been completed.
    ///
    /// Many files omit levels below ground (MERRA-2's, many of CMIP's), and in nearly every low 1000 hPa is below
    /// ground, so Z1000 would be missing exactly where cyclones are. It is computed there from PSL and TREFHT, as
    /// models do that write these levels, or with the standard atmosphere's temperature.
    pub fn completed(&self) -> Option<&'static str> {
        let is_completed = self.has_completed_heights.load(Ordering::Relaxed);
        is_completed.then_some(
            "Z1000 is blank in places, as below the ground: it is computed there from PSL, and TREFHT if it is known",
        )
    }

    /// All files that are read.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|(path, _)| path.as_path())
    }

    /// The first file of each layout (files with the same variable names), and the number of such files.
    pub(crate) fn makes(&self) -> Vec<(&Path, usize)> {
        let mut makes: Vec<(&[String], &Path, usize)> = Vec::new();
        for (path, layout) in &self.files {
            let names = &self.layouts[*layout].names[..];
            match makes.iter_mut().find(|(known, ..)| *known == names) {
                Some((.., count)) => *count += 1,
                None => makes.push((names, path, 1)),
            }
        }
        makes
            .into_iter()
            .map(|(_, path, count)| (path, count))
            .collect()
    }

    /// Number of files.
    pub fn file_count(&self) -> usize {
        self.files.len()
    }

    /// The file that holds a time, and the index in it.
    pub fn source_of(&self, index: usize) -> (&Path, usize) {
        let place = self.places[index][0];
        (self.path(place), place.at)
    }

    /// Whether the files of a time provide a channel, directly or computed; its values may still prove unusable.
    ///
    /// Channels missing from [`Self::available`] may exist at some times; this finds them without reading any.
    pub fn offers(&self, index: usize, variable: Variable) -> bool {
        index < self.places.len() && self.how(index, variable).is_some()
    }

    /// The number of times at which the files provide a channel ([`Self::offers`]).
    pub fn times_with(&self, variable: Variable) -> usize {
        if self.available.contains(&variable) {
            return self.times.len();
        }
        let indices = 0..self.times.len();
        let has = |&index: &usize| self.offers(index, variable);
        indices.filter(has).count()
    }

    /// The first time at which the files lack one of these channels.
    pub fn first_without(&self, variables: &[Variable]) -> Option<usize> {
        let lacks = |index: usize| variables.iter().any(|&v| !self.offers(index, v));
        (0..self.times.len()).find(|&index| lacks(index))
    }

    /// All files with fields of a time, in the order of the archive.
    pub fn files_at(&self, index: usize) -> impl Iterator<Item = &Path> {
        self.places[index].iter().map(|&place| self.path(place))
    }

    /// Names of the pressure-level fields in the files of a time.
    pub fn level_fields(&self, index: usize) -> Vec<&str> {
        let layouts = self.places[index].iter().map(|&place| self.layout(place));
        let levels = layouts.flat_map(|layout| &layout.levels);
        levels.map(|l| l.source.name.as_str()).collect()
    }

    fn path(&self, place: Place) -> &Path {
        &self.files[place.file].0
    }

    fn layout(&self, place: Place) -> &Layout {
        &self.layouts[self.files[place.file].1]
    }

    /// The first `Some` that `wanted` gives for the files of a time, and the place of that file.
    fn first_with<'a, T>(
        &'a self,
        index: usize,
        wanted: impl Fn(&'a Layout) -> Option<T>,
    ) -> Option<(Place, T)> {
        let mut places = self.places[index].iter();
        places.find_map(|&place| Some((place, wanted(self.layout(place))?)))
    }
}
