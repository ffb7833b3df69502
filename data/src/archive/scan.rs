//! Examines a file: its grid, its times, and where each channel is found.

use super::alias;
use super::candidate::{self, Candidate};
use super::coordinates::{
    GridAxes, LevelAxis, level_axes, nearest_level, picked_levels, time_axis,
};
use super::decode::Decoder;
use super::forecast::{OtherTime, lead, other_times};
use super::nc;
use super::problem::Problem;
use crate::error::Result;
use crate::facts::FileFacts;
use crate::grid::AxisOrder;
use crate::{Calendar, LatLonGrid, Time, Variable};
use netcdf::Extent;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The meaning of a variable's dimension.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) enum Role {
    Time,
    Lat,
    Lon,
    Level,
    /// A dimension of length 1 without meaning (height = 2 m, ensemble member).
    Single,
}

/// Location of a field in a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct FieldSource {
    /// The variable's name in the file.
    pub name: String,
    /// The unit given by the file.
    pub unit: Option<String>,
    /// Index of the level, if the variable has levels.
    pub level: Option<usize>,
    /// How it differs from the channel, if it is a stand-in.
    pub proxy: Option<Cow<'static, str>>,
    pub roles: Vec<Role>,
    pub decoder: Decoder,
}

impl FieldSource {
    /// The extents of the planes at some times and some levels, if it has levels.
    pub(crate) fn extents(&self, times: &Range<usize>, levels: &Range<usize>) -> Vec<Extent> {
        let at = |role: &Role| match role {
            Role::Lat | Role::Lon => Extent::from(..),
            Role::Time => Extent::from(times.clone()),
            Role::Level => Extent::from(levels.clone()),
            Role::Single => Extent::from(0),
        };
        self.roles.iter().map(at).collect()
    }

    /// Number of levels to read at once, as consecutive planes of this many cells: a chunk of a compressed file may
    /// span levels, and every read decompresses it.
    pub(super) fn levels_at_once(&self, cells: usize) -> usize {
        let place = |role| self.roles.iter().position(|r| *r == role);
        if place(Role::Level) < place(Role::Lat).min(place(Role::Lon)) {
            (VALUES_AT_ONCE / cells.max(1)).max(1)
        } else {
            1
        }
    }

    /// Whether longitude varies slower than latitude in the file.
    pub(crate) fn is_transposed(&self) -> bool {
        let place = |role| self.roles.iter().position(|r| *r == role);
        place(Role::Lon) < place(Role::Lat)
    }

    /// The message that it stands in for a channel, if it does.
    pub(super) fn stands_in_for(&self, channel: Variable) -> Option<Problem> {
        let difference = self.proxy.as_ref()?;
        let text = format!("{channel} is read from `{}`: {difference}", self.name);
        Some(Problem::of_channel(channel, text))
    }

    /// Sort key: the channel itself, then a level of a field, then a stand-in.
    pub(super) fn rank(&self) -> (bool, bool) {
        (self.proxy.is_some(), self.level.is_some())
    }
}

/// Maximum number of values read at once: 64 MiB as f32.
const VALUES_AT_ONCE: usize = 1 << 24;

/// A field on pressure levels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Levels {
    pub pressure_pa: Vec<f64>,
    pub family: Option<alias::Family>,
    pub source: FieldSource,
}

/// To count as a column, levels must reach above the first and below the second of these pressures in Pa: 500 and 850
/// hPa, within one percent. About a twentieth of the vapour lies above 500 hPa.
const COLUMN_PA: [f64; 2] = [50_500.0, 84_150.0];

impl Levels {
    /// Whether the levels suffice to integrate column water: three or more, from 850 hPa or below to 500 hPa or above.
    pub(super) fn are_column(&self) -> bool {
        let pressures = || self.pressure_pa.iter().copied();
        let top = pressures().fold(f64::INFINITY, f64::min);
        let bottom = pressures().fold(0.0, f64::max);
        self.pressure_pa.len() > 2 && top < COLUMN_PA[0] && bottom > COLUMN_PA[1]
    }
}

/// Why a variable that has a channel's name cannot provide it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Refusal {
    pub channel: Variable,
    pub name: String,
    pub expected: String,
    pub found: String,
}

/// What files with the same structure have in common; a century of files shares one layout.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Layout {
    pub order: AxisOrder,
    /// Rows and columns in the file, before a repeated column is dropped.
    pub file_shape: (usize, usize),
    pub channels: Vec<(Variable, FieldSource)>,
    pub levels: Vec<Levels>,
    /// Fields at the single level given by a scalar coordinate; they cannot form a column.
    pub picked: Vec<Levels>,
    /// Winds, temperature, height and humidity on model levels, for messages.
    pub on_model_levels: Vec<String>,
    /// Vertically integrated vapour transport, which is not a channel.
    pub dewpoint: Option<FieldSource>,
    /// Vertically integrated vapour transport, which is no channel.
    pub transport: Vec<(alias::Transport, FieldSource)>,
    pub refused: Vec<Refusal>,
    /// All variables of the file, for messages.
    pub names: Vec<String>,
    /// Messages for the user: guesses, stand-ins.
    pub problems: Vec<Problem>,
    /// Last, because it is slow to compare.
    #[serde(with = "shared")]
    pub grid: Arc<LatLonGrid>,
}

/// A new layout is compared only with this many of the latest ones: packed files with individual offsets all have
/// different layouts, and comparing all pairs of a century would take too long.
const COMPARED: usize = 64;

impl Layout {
    /// The index of an equal layout in `all`, to which this one is appended if there is none.
    pub(crate) fn place_in(mut self, all: &mut Vec<Self>) -> usize {
        if let Some(first) = all.first().filter(|first| first.grid.same_as(&self.grid)) {
            self.grid = first.grid.clone();
        }
        let others = all.iter().enumerate().rev().take(COMPARED);
        if let Some((place, _)) = others.into_iter().find(|(_, other)| **other == self) {
            return place;
        }
        all.push(self);
        all.len() - 1
    }

    /// Whether all fields are read identically from files of either layout.
    pub(super) fn reads_as(&self, other: &Self) -> bool {
        self.grid.same_as(&other.grid)
            && (self.order, self.file_shape) == (other.order, other.file_shape)
            && self.channels == other.channels
            && self.levels == other.levels
            && self.picked == other.picked
            && self.dewpoint == other.dewpoint
            && self.transport == other.transport
    }

    /// Adds a message, unless it is already there: a variable may provide two channels.
    pub(super) fn add_problem(&mut self, sentence: String) {
        let problem = Problem::general(sentence);
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// After all variables of a file were examined, reports stand-ins and unusable variables.
    fn conclude(&mut self) {
        let stand_ins: Vec<Problem> = self.stand_ins().collect();
        self.problems.extend(stand_ins);
        // An unusable variable only matters if nothing else provides the channel.
        let is_summed = self.humidity().is_some();
        let served = |wanted: Variable| {
            let mut channels = self.channels.iter();
            channels.any(|(channel, _)| *channel == wanted) || wanted == Variable::Tmq && is_summed
        };
        self.refused.retain(|refusal| !served(refusal.channel));
        for refusal in &self.refused {
            let text = format!(
                "`{}` cannot serve as {}: expected {}, found {}",
                refusal.name, refusal.channel, refusal.expected, refusal.found
            );
            (self.problems).push(Problem::refused(refusal.channel, text));
        }
        self.channels.sort_by_key(|(channel, _)| *channel);
    }

    /// Messages about stand-ins.
    pub(super) fn stand_ins(&self) -> impl Iterator<Item = Problem> {
        let channels = self.channels.iter();
        channels.filter_map(|(channel, source)| source.stands_in_for(*channel))
    }

    /// The source of a channel: direct, one level, or a stand-in.
    pub(crate) fn channel(&self, variable: Variable) -> Option<&FieldSource> {
        let found = self
            .channels
            .iter()
            .find(|(channel, _)| *channel == variable);
        found.map(|(_, source)| source)
    }

    /// Describes the uses of a variable besides being a channel.
    pub(crate) fn other_uses(&self, name: &str) -> Vec<&'static str> {
        let is = |source: &FieldSource| source.name == name;
        let lacks = |channel| self.channel(channel).is_none();
        let column = self.humidity();
        let summed = column.is_some_and(|levels| is(&levels.source)) && lacks(Variable::Tmq);
        let wet = self.dewpoint.as_ref().is_some_and(is) && lacks(Variable::Qrefht);
        let moved = self.transport.iter().any(|(_, source)| is(source));
        let has_height = |hpa: f64| {
            let own = self.levels.iter().filter(|levels| is(&levels.source));
            let mut heights = own.filter(|levels| levels.family == Some(alias::Family::Height));
            heights.any(|levels| nearest_level(&levels.pressure_pa, hpa, 50.0).is_some())
        };
        let [upper, lower, middle] = [300.0, 250.0, 500.0].map(has_height);
        let uses = [
            // Another file may have the channel itself, which comes first.
            (summed, "TMQ (summed over levels, where no file has it)"),
            (wet, "QREFHT (computed, with PS, where no file has it)"),
            (moved, "vapour transport"),
            (middle && upper, "warm cores (Z300, Z500)"),
            (middle && lower && !upper, "warm cores (Z250, Z500)"),
        ];
        let uses = uses.into_iter().filter(|(serves, _)| *serves);
        uses.map(|(_, words)| words).collect()
    }

    /// Specific humidity on pressure levels that form a column.
    pub(crate) fn humidity(&self) -> Option<&Levels> {
        self.levels
            .iter()
            .find(|l| l.family == Some(alias::Family::Humidity) && l.are_column())
    }
}

/// Serialises a shared grid by value for other processes.
mod shared {
    use crate::LatLonGrid;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::sync::Arc;

    pub(super) fn serialize<S: Serializer>(
        grid: &Arc<LatLonGrid>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        grid.as_ref().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Arc<LatLonGrid>, D::Error> {
        LatLonGrid::deserialize(deserializer).map(Arc::new)
    }
}

/// The contents of a file.
#[derive(Debug)]
pub(crate) struct FileInfo {
    pub path: PathBuf,
    /// The state of the file when examined.
    pub facts: FileFacts,
    pub layout: Layout,
    pub times: Vec<Time>,
    pub calendar: Calendar,
}

/// Examines a file.
///
/// # Errors
/// The first reason why it is unusable, naming file and variable.
pub(crate) fn scan(path: &Path) -> Result<FileInfo> {
    // Recorded before reading, so that later changes are detected.
    let facts = FileFacts::of(path);
    let file = nc::open(path)?;
    let GridAxes {
        lat,
        lon,
        grid,
        order,
        file_shape,
    } = GridAxes::of(path, &file)?;
    let axis = time_axis(path, &file)?;
    let shape = FileShape {
        lat,
        lon,
        levels: level_axes(path, &file),
        picked_levels: picked_levels(path, &file),
        is_forecast: lead(path, &file).is_some(),
        has_many_times: axis.times.len() > 1,
        other_times: other_times(path, &file, &axis),
        time: axis.dimension,
    };
    let mut layout = Layout {
        order,
        file_shape,
        channels: Vec::new(),
        levels: Vec::new(),
        picked: Vec::new(),
        on_model_levels: Vec::new(),
        dewpoint: None,
        transport: Vec::new(),
        refused: Vec::new(),
        names: file.variables().map(|v| v.name()).collect(),
        problems: axis.problems.into_iter().map(Problem::general).collect(),
        grid: Arc::new(grid),
    };
    for variable in file.variables().filter(nc::is_numeric) {
        match Candidate::from_variable(&variable, &shape) {
            Some(field) => field.add_to(&mut layout),
            None => candidate::refuse_no_field(&variable, &shape, &mut layout),
        }
    }
    layout.conclude();
    Ok(FileInfo {
        path: path.into(),
        facts,
        layout,
        times: axis.times,
        calendar: axis.calendar,
    })
}

/// What all variables of a file share.
pub(super) struct FileShape {
    /// Name of the latitude dimension.
    pub lat: String,
    /// Name of the longitude dimension.
    pub lon: String,
    /// Name of the time dimension, if there is one.
    pub time: Option<String>,
    pub levels: Vec<LevelAxis>,
    /// Levels given by scalar coordinates, by the names of these.
    pub picked_levels: Vec<(String, LevelAxis)>,
    pub has_many_times: bool,
    pub other_times: Vec<OtherTime>,
    /// Whether its times are lead times relative to the start of a forecast.
    pub is_forecast: bool,
}
