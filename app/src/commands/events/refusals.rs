//! Rejects input from which no events can be made, in plain words, and output that would overwrite the input.

use crate::failure::Advice;
use crate::input::{absolute_folder, name_of, same_dates};
use squall_climate::stream::is_result;
use squall_climate::track::readers::{TrackFormat, format_of, lacking};
use squall_data::{Calendar, DataError};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

/// A hint at the supported inputs.
const TAKES: &str = "give the masks or boxes that it was made from; also read are IBTrACS, HURDAT2, ATCF, tracks of \
                     TempestExtremes, TECA and TRACK, trajectories as netCDF, CSV with track_id, time, lon and \
                     lat, and events as parquet or geojson. `squall compare`, `squall trends` and `squall score` take tables of events as they are";

/// Explains why masks could not be opened. If the input is a table, or a folder of tables, the error says so rather
/// than what its first line or file lacks.
pub fn explained(error: DataError, input: &str) -> anyhow::Error {
    let path = Path::new(input);
    if let Some(unknown) = unknown_layout(input) {
        return unknown;
    }
    let is_none = matches!(error, DataError::NoInput { .. });
    let what = match &error {
        _ if path.is_file() => table(path),
        DataError::NoInput { .. } => folder(path),
        DataError::MissingVariable { path: file, .. } if is_result(&name_of(file)) => folder(path),
        _ => None,
    };
    match what {
        Some(what) => Advice::input(format!("`{input}` {what}, neither masks nor boxes"), TAKES),
        None => match tracks_in(path).filter(|_| is_none) {
            Some(name) => Advice::input(
                format!("`{input}` is a folder of tracks of other tools, such as `{name}`"),
                "give one of its files: tracks are read from one at a time",
            ),
            None => error.into(),
        },
    }
}

/// Describes what unsupported track files lack; `None` for any other input.
pub fn unknown_layout(input: &str) -> Option<anyhow::Error> {
    let path = Path::new(input);
    let lacks = path.is_file().then(|| lacking(path))??;
    Some(Advice::input(
        format!("`{input}` looks like tracks of a layout that is not read: it {lacks}"),
        "rename or add columns or variables so that it has those of one of the layouts that `docs/input.md` lists under tracks of other tools",
    ))
}

/// The first file by name in a folder that has tracks of another tool.
fn tracks_in(folder: &Path) -> Option<String> {
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| path.is_file());
    files.sort();
    let is_one = |path: &&PathBuf| match format_of(path) {
        Ok(Some(format)) => format != TrackFormat::SquallEvents,
        _ => false,
    };
    files.iter().find(is_one).map(|path| name_of(path))
}

/// Describes a file that is a text table.
fn table(path: &Path) -> Option<&'static str> {
    if let Ok(Some(TrackFormat::SquallEvents)) = format_of(path) {
        return Some("is a table of events");
    }
    let lines = BufReader::new(File::open(path).ok()?).lines();
    let lines = lines.map_while(Result::ok);
    let first = lines
        .map(|line| line.trim().to_string())
        .find(|line| !line.is_empty() && !line.starts_with('#'))?;
    // Paths may contain commas, but then the file exists.
    first.contains(',').then_some("is a table")
}

/// Describes a folder with the tables of a run.
fn folder(path: &Path) -> Option<&'static str> {
    let is_one = ["events.csv", "tracks.csv"].map(|name| path.join(name).is_file());
    (is_one == [true, true]).then_some("holds what `squall events` writes")
}

/// Rejects a file with another calendar than `--calendar`; the two Gregorian ones count as one.
pub fn refuse_calendar(
    asked: Option<Calendar>,
    found: Calendar,
    input: &str,
) -> anyhow::Result<()> {
    let Some(asked) = asked else {
        return Ok(());
    };
    same_dates(input, found, asked).map_err(|error| {
        let hint = "leave --calendar out: the file tells its own";
        Advice::input(error.to_string(), hint)
    })
}

/// Rejects input that would be replaced: results of an earlier run in this run's output folder.
pub fn refuse_own<'p>(inputs: impl Iterator<Item = &'p Path>, out: &Path) -> anyhow::Result<()> {
    let Some(out) = absolute_folder(out) else {
        return Ok(()); // not there yet
    };
    let is_there = |path: &&Path| {
        let folder = path.parent().and_then(absolute_folder);
        is_result(&name_of(path)) && folder.as_ref() == Some(&out)
    };
    match inputs.into_iter().find(is_there) {
        Some(path) => Err(Advice::usage(
            format!(
                "`{}` would be replaced by what is made from it",
                path.display()
            ),
            "choose another folder with --out",
        )),
        None => Ok(()),
    }
}
