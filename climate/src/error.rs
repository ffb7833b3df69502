//! The errors of this crate.

use squall_data::snapshot::shape_text;
use squall_data::{DataError, Time, Variable};
use std::path::PathBuf;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, ClimateError>;

/// Everything that input can cause.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClimateError {
    /// Reading or writing failed.
    #[error(transparent)]
    Data(#[from] DataError),
    /// An algorithm needs a field that the snapshot does not have.
    #[error("{algorithm} needs {}, which {place} does not have", missing.iter().map(|v| v.name()).collect::<Vec<_>>().join(", "))]
    MissingField {
        /// What was to be computed.
        algorithm: &'static str,
        /// The variables it lacks.
        missing: Vec<Variable>,
        /// File and time.
        place: String,
    },
    /// Two arrays or tables that must agree do not.
    #[error("{what}: expected {expected}, found {found}")]
    Mismatch {
        /// What is compared.
        what: String,
        /// What would be right.
        expected: String,
        /// What was given.
        found: String,
    },
    /// A series in which the vapour transport is now of one source, now of another.
    #[error("the moisture that moves at {time} in `{}`: expected {expected}, as at other times, found {found}", path.display())]
    TransportDiffers {
        /// The file of that time.
        path: PathBuf,
        /// The time.
        time: Time,
        /// What other times have.
        expected: &'static str,
        /// What that time has.
        found: &'static str,
    },
    /// A series in which moisture, of which percentiles are to be taken, is computed now in one way, now in another.
    #[error("{what} at {time} in `{}`: expected {expected}, as before, found {found}", path.display())]
    MoistureDiffers {
        /// A file of that time.
        path: PathBuf,
        /// The time.
        time: Time,
        /// What of it differs.
        what: &'static str,
        /// What times before have.
        expected: String,
        /// What that time has.
        found: String,
    },
    /// A table cannot be read.
    #[error("cannot read table `{}`: {reason}", path.display())]
    Table {
        /// The file.
        path: PathBuf,
        /// Line and column, expected and found.
        reason: String,
    },
    /// A table lacks a column.
    #[error("cannot read table `{}`: {unit} 1: expected a column `{column}`, found {}", path.display(), found.join(", "))]
    MissingColumn {
        /// The file.
        path: PathBuf,
        /// What the file counts, as for a cell.
        unit: &'static str,
        /// Name of the column.
        column: String,
        /// Those that it has.
        found: Vec<String>,
    },
    /// A cell of a table does not hold what its column needs.
    #[error("cannot read table `{}`, {unit} {line}, column `{column}`: expected {expected}, found `{found}`", path.display())]
    TableCell {
        /// The file.
        path: PathBuf,
        /// What `line` counts: lines, or rows or features where a file has no lines.
        unit: &'static str,
        /// Line of the file, counted from 1; the header is line 1.
        line: u64,
        /// Name of the column.
        column: String,
        /// What would be right.
        expected: &'static str,
        /// What stands there.
        found: String,
    },
    /// A cell of a table holds no date of its calendar, which most tables do not tell.
    #[error("cannot read table `{}`, {unit} {line}, column `{column}`: expected {expected}, found `{found}`", path.display())]
    TableDate {
        /// The file.
        path: PathBuf,
        /// What `line` counts, as for a cell.
        unit: &'static str,
        /// Line of the file, as for a cell.
        line: u64,
        /// Name of the column.
        column: String,
        /// What would be right.
        expected: String,
        /// What stands there.
        found: String,
    },
    /// Winds of tracks of which nothing tells the unit, or whose unit is none of a wind.
    #[error("cannot use the winds `{column}` of `{}`: expected {expected}, found {found}", path.display())]
    WindUnit {
        /// The file.
        path: PathBuf,
        /// The column or variable.
        column: String,
        /// What would be right.
        expected: &'static str,
        /// What tells it, or what the winds are.
        found: String,
    },
    /// The column of winds that a user asks for is not in the file, or the file has none to choose from.
    #[error("cannot take the winds `{column}` of `{}`: expected {expected}, found {found}", path.display())]
    WindColumn {
        /// The file.
        path: PathBuf,
        /// What was asked for.
        column: String,
        /// What would be right.
        expected: &'static str,
        /// What the file has, or is.
        found: String,
    },
    /// A point of a track has the number of a time step instead of a date.
    #[error("cannot read `{}`, line {line}: expected a date yyyymmddhh, found `{found}`, a time step", path.display())]
    TimeStep {
        /// The file.
        path: PathBuf,
        /// Line of the file, counted from 1.
        line: u64,
        /// What stands there.
        found: String,
    },
    /// A deck holds the forecasts of several techniques or starts, each of which has a track of its own for the same storm.
    #[error("cannot read tracks from `{}`: expected best tracks, or the forecasts of one technique from one start, found {found}", path.display())]
    ManyForecasts {
        /// The file.
        path: PathBuf,
        /// Its techniques and starts.
        found: String,
    },
    /// A season has too few times for percentiles.
    #[error(
        "percentiles of month {month}: expected at least {least} times within {reach} months of it, found {found}"
    )]
    FewTimes {
        /// The month about which the season is, 1 to 12.
        month: usize,
        /// How many times it has.
        found: u32,
        /// How many it needs.
        least: u32,
        /// How many months on each side belong to it.
        reach: usize,
    },
    /// A saved climatology of moisture cannot be used, or not for these fields.
    #[error("cannot use the climatology `{}`: {what}: expected {expected}, found {found}", path.display())]
    Climatology {
        /// The file.
        path: PathBuf,
        /// What of it is not as it must be.
        what: String,
        /// What would be right.
        expected: String,
        /// What the file has.
        found: String,
    },
    /// Two runs that are compared are on different grids.
    #[error("grid of `{}`: expected {expected} as in `{}`, found {found}", path.display(), other.display())]
    GridsDiffer {
        /// The folder of the second run.
        path: PathBuf,
        /// The grid of the first.
        expected: String,
        /// The folder of the first.
        other: PathBuf,
        /// The grid of the second.
        found: String,
    },
    /// Two runs that are compared have no month of the year in common.
    #[error("months of `{}`: expected some of {expected}, found {found}", path.display())]
    NoCommonMonths {
        /// The folder of the second run.
        path: PathBuf,
        /// The months of the first.
        expected: String,
        /// The months of the second.
        found: String,
    },
    /// A run does not have the months or years that a comparison or trends need.
    #[error("cannot use `{}`: {reason}", path.display())]
    Period {
        /// The folder.
        path: PathBuf,
        /// What it lacks.
        reason: String,
    },
    /// Both sides of a comparison have the same years of the same run.
    #[error("both sides have {first} to {last} of `{}`: no interval and no p-value holds for years against themselves", path.display())]
    SharedYears {
        /// The folder.
        path: PathBuf,
        /// First year that both have.
        first: i64,
        /// Last one.
        last: i64,
    },
    /// A side of a comparison has a run twice.
    #[error("`{}` is twice among the runs of {side}: its years would count twice", path.display())]
    MemberTwice {
        /// The folder.
        path: PathBuf,
        /// What the side is called.
        side: String,
    },
    /// A request that no input could satisfy.
    #[error("{0}")]
    Invalid(String),
}

impl ClimateError {
    /// The error of two arrays whose shapes must agree and do not.
    pub(crate) fn shapes(what: impl Into<String>, expected: &[usize], found: &[usize]) -> Self {
        Self::Mismatch {
            what: what.into(),
            expected: shape_text(expected),
            found: shape_text(found),
        }
    }
}
