//! The errors of this crate.

use squall_data::snapshot::shape_text;
use squall_data::{DataError, Time, Variable};
use std::path::PathBuf;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, ClimateError>;

/// Errors caused by input.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClimateError {
    /// Reading or writing failed.
    #[error(transparent)]
    Data(#[from] DataError),
    /// An algorithm needs a field that the snapshot does not have.
    #[error("{algorithm} needs {}, which {place} does not have", missing.iter().map(|v| v.name()).collect::<Vec<_>>().join(", "))]
    MissingField {
        /// The algorithm or quantity.
        algorithm: &'static str,
        /// The missing variables.
        missing: Vec<Variable>,
        /// File and time of the snapshot.
        place: String,
    },
    /// Two arrays or tables disagree.
    #[error("{what}: expected {expected}, found {found}")]
    Mismatch {
        /// The property compared.
        what: String,
        /// The expected value.
        expected: String,
        /// The value found.
        found: String,
    },
    /// The vapour transport of a series comes from different sources at different times.
    #[error("the moisture that moves at {time} in `{}`: expected {expected}, as at other times, found {found}", path.display())]
    TransportDiffers {
        /// The file of that time.
        path: PathBuf,
        /// The time.
        time: Time,
        /// The source at other times.
        expected: &'static str,
        /// The source at this time.
        found: &'static str,
    },
    /// The moisture of a series, needed for percentiles, is computed in different ways at different times.
    #[error("{what} at {time} in `{}`: expected {expected}, as before, found {found}", path.display())]
    MoistureDiffers {
        /// A file of that time.
        path: PathBuf,
        /// The time.
        time: Time,
        /// The property that differs.
        what: &'static str,
        /// Its value at earlier times.
        expected: String,
        /// Its value at this time.
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
        /// The unit in which the file counts, as for a cell.
        unit: &'static str,
        /// Name of the column.
        column: String,
        /// The columns found.
        found: Vec<String>,
    },
    /// A cell of a table has an invalid value for its column.
    #[error("cannot read table `{}`, {unit} {line}, column `{column}`: expected {expected}, found `{found}`", path.display())]
    TableCell {
        /// The file.
        path: PathBuf,
        /// What `line` counts: lines, or rows or features if the file has no lines.
        unit: &'static str,
        /// Line of the file, counted from 1; the header is line 1.
        line: u64,
        /// Name of the column.
        column: String,
        /// The expected value.
        expected: &'static str,
        /// The text found.
        found: String,
    },
    /// A cell of a table is not a date in its calendar. Most tables do not state their calendar.
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
        /// The expected value.
        expected: String,
        /// The text found.
        found: String,
    },
    /// The unit of a track's winds is unknown or not a unit of speed.
    #[error("cannot use the winds `{column}` of `{}`: expected {expected}, found {found}", path.display())]
    WindUnit {
        /// The file.
        path: PathBuf,
        /// The column or variable.
        column: String,
        /// The expected unit.
        expected: &'static str,
        /// The unit found, or what was searched for it.
        found: String,
    },
    /// The column of winds requested by the user does not exist, or the file has no columns to choose from.
    #[error("cannot take the winds `{column}` of `{}`: expected {expected}, found {found}", path.display())]
    WindColumn {
        /// The file.
        path: PathBuf,
        /// The requested column.
        column: String,
        /// The expected columns.
        expected: &'static str,
        /// The columns or kind of the file.
        found: String,
    },
    /// A point of a track has the number of a time step instead of a date.
    #[error("cannot read `{}`, line {line}: expected a date yyyymmddhh, found `{found}`, a time step", path.display())]
    TimeStep {
        /// The file.
        path: PathBuf,
        /// Line of the file, counted from 1.
        line: u64,
        /// The text found.
        found: String,
    },
    /// A deck contains forecasts of several techniques or start times, each with its own track of the same storm.
    #[error("cannot read tracks from `{}`: expected best tracks, or the forecasts of one technique from one start, found {found}", path.display())]
    ManyForecasts {
        /// The file.
        path: PathBuf,
        /// Its techniques and start times.
        found: String,
    },
    /// A season has too few times for percentiles.
    #[error(
        "percentiles of month {month}: expected at least {least} times within {reach} months of it, found {found}"
    )]
    FewTimes {
        /// The central month of the season, 1 to 12.
        month: usize,
        /// Number of times in the season.
        found: u32,
        /// Required number of times.
        least: u32,
        /// Number of months on each side that belong to the season.
        reach: usize,
    },
    /// A saved climatology of moisture is invalid or does not match these fields.
    #[error("cannot use the climatology `{}`: {what}: expected {expected}, found {found}", path.display())]
    Climatology {
        /// The file.
        path: PathBuf,
        /// The property that differs.
        what: String,
        /// The expected value.
        expected: String,
        /// The value in the file.
        found: String,
    },
    /// Two runs to compare have different grids.
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
    /// Two runs to compare have no month of the year in common.
    #[error("months of `{}`: expected some of {expected}, found {found}", path.display())]
    NoCommonMonths {
        /// The folder of the second run.
        path: PathBuf,
        /// The months of the first.
        expected: String,
        /// The months of the second.
        found: String,
    },
    /// A run lacks months or years that a comparison or trends need.
    #[error("cannot use `{}`: {reason}", path.display())]
    Period {
        /// The folder.
        path: PathBuf,
        /// What is missing.
        reason: String,
    },
    /// Both sides of a comparison contain the same years of the same run.
    #[error("both sides have {first} to {last} of `{}`: no interval and no p-value holds for years against themselves", path.display())]
    SharedYears {
        /// The folder.
        path: PathBuf,
        /// First common year.
        first: i64,
        /// Last common year.
        last: i64,
    },
    /// A side of a comparison contains a run twice.
    #[error("`{}` is twice among the runs of {side}: its years would count twice", path.display())]
    MemberTwice {
        /// The folder.
        path: PathBuf,
        /// The name of the side.
        side: String,
    },
    /// An invalid request.
    #[error("{0}")]
    Invalid(String),
}

impl ClimateError {
    /// Creates the error for two arrays of different shapes.
    pub(crate) fn shapes(what: impl Into<String>, expected: &[usize], found: &[usize]) -> Self {
        Self::Mismatch {
            what: what.into(),
            expected: shape_text(expected),
            found: shape_text(found),
        }
    }
}
