//! `squall inspect`: describes a file or folder.

use crate::commands::events::refusals::unknown_layout;
use crate::commands::label::{caution_of_grid, caution_of_steps, lacks};
use crate::commands::score::kind::{Kind, Offer, has_masks, offers, table, tables_in};
use crate::failure::Advice;
use crate::{made_by, output, own_folder};
use clap::Args;
use squall_climate::detect::Method;
use squall_climate::table::calendar_beside;
use squall_climate::track::readers::{ReadOptions, TrackFormat, TrackTable, format_of, read};
use squall_data::archive::files_of;
use squall_data::inspect::{Inspection, inspect_with_archive};
use squall_data::{Archive, DataError, Time};
use std::collections::BTreeMap;
use std::path::Path;

/// Track formats whose files have no calendar.
const TELL_NO_CALENDAR: [TrackFormat; 4] = [
    TrackFormat::StitchNodesGfdl,
    TrackFormat::StitchNodesCsv,
    TrackFormat::TrackText,
    TrackFormat::PointsCsv,
];

/// Hint if tracks cannot be read as they are.
const READ_OPTIONS_HINT: &str = "its notes (`problems` of --json) say what is in the way; a calendar or columns that the file does not name are told to `squall events` and `squall score` by --calendar and --columns";

/// Show what a file or folder holds: dialect, variables, units, grid, calendar, time span, problems.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  squall inspect run\n  squall inspect '/data/era5/2005*.nc'\n  squall inspect ibtracs.csv"
)]
pub struct Inspect {
    /// Fields or masks: a file, a folder, a quoted glob, or a text file that lists paths. Or tracks: a file in the
    /// format of Squall, IBTrACS, HURDAT2, ATCF, TempestExtremes, TECA, TRACK or others, or a folder with only these.
    path: String,
    /// Print JSON instead of text; for several track files, a list with one entry per file.
    #[arg(long)]
    json: bool,
}

impl Inspect {
    /// Prints the inspection; an error if nothing in it is usable.
    pub fn run(self) -> anyhow::Result<()> {
        let found = inspect_with_archive(&self.path).map(|(mut inspection, archive)| {
            let has_channels = !(inspection.channels.is_empty() && inspection.missing.is_empty());
            if let Some(archive) = archive.filter(|_| has_channels) {
                inspection.label_lacks = label_lacks(&archive);
                let cautions = cautions(&archive, &inspection.label_lacks);
                inspection.problems.extend(cautions);
            }
            inspection
        });
        // Text that is not a list of files, and netCDF of tracks, whose axes form no grid.
        let table = match Path::new(&self.path).is_file() || found.is_err() {
            true => table(&self.path),
            false => None,
        };
        let mut inspection = match (table, found) {
            (Some(table), found) => {
                let inspection = of_table(&self.path, &table, found.ok());
                output::result(&inspection, self.json)?;
                return self.check_usable(inspection.usable, Some(READ_OPTIONS_HINT.into()));
            }
            (None, Ok(found)) => found,
            (None, Err(error)) => return self.print_tables(error),
        };
        // A folder without fields or masks may hold tables or a comparison of another command.
        let told = match inspection.usable {
            true => None,
            false => own_folder::description(Path::new(&self.path)),
        };
        if !inspection.usable && told.is_none() {
            let tables = tracks_alone(&self.path);
            if !tables.is_empty() {
                return self.print_each(&tables);
            }
        }
        inspection.usable = inspection.usable || self.has_tables();
        if let Some(told) = &told {
            // Statistics beside tables are no fields, which is no problem.
            if !has_masks(Path::new(&self.path)).unwrap_or(true) {
                inspection.problems.clear();
            }
            inspection.problems.insert(0, told.clone());
        }
        output::result(&inspection, self.json)?;
        self.check_usable(inspection.usable, told)
    }

    /// An error if nothing is usable; `told` names the command that reads it, or what may help.
    fn check_usable(&self, usable: bool, told: Option<String>) -> anyhow::Result<()> {
        if usable {
            return Ok(());
        }
        Err(Advice::input(
            format!(
                "`{}` has no fields, masks, boxes or tracks that can be used",
                self.path
            ),
            told.unwrap_or_else(|| {
                "its notes (`problems` of --json) say what is in the way".into()
            }),
        ))
    }

    /// Describes each table of tracks or boxes in a folder that has nothing else. Returns `error` if there is none, or
    /// if it concerns unreadable netCDF, and an error if no table is usable.
    fn print_tables(&self, error: DataError) -> anyhow::Result<()> {
        let is_none = matches!(error, DataError::NoInput { .. });
        let tables = match is_none {
            true => tables_in(&self.path),
            false => Vec::new(),
        };
        if !tables.is_empty() {
            return self.print_each(&tables);
        }
        match own_folder::description(Path::new(&self.path)) {
            Some(told) if is_none => Err(Advice::input(error.to_string(), told)),
            _ => Err(unknown_layout(&self.path).unwrap_or_else(|| error.into())),
        }
    }

    /// Describes each table; an error if none is usable.
    fn print_each(&self, tables: &[Offer]) -> anyhow::Result<()> {
        let each = |table: &Offer| of_table(&table.path.to_string_lossy(), table, None);
        let found: Vec<Inspection> = tables.iter().map(each).collect();
        match found.as_slice() {
            [only] => output::result(only, self.json)?,
            several if self.json => output::json(&several)?,
            several => several.iter().try_for_each(output::text)?,
        }
        self.check_usable(
            found.iter().any(|one| one.usable),
            Some(READ_OPTIONS_HINT.into()),
        )
    }

    /// Whether the input has tracks, or is a folder with a table of tracks or boxes; false if they cannot be read.
    fn has_tables(&self) -> bool {
        let is_folder = Path::new(&self.path).is_dir();
        let is_table = |kind: Kind| kind == Kind::Tracks || kind == Kind::Boxes && is_folder;
        offers(&self.path).is_ok_and(|found| found.iter().any(|one| is_table(one.kind)))
    }
}

/// The channels that each method of `squall label` lacks.
fn label_lacks(archive: &Archive) -> BTreeMap<String, Vec<String>> {
    let lacking = |method: Method| -> Vec<String> {
        let names = lacks(method, archive).into_iter();
        names.map(|channel| channel.name().to_string()).collect()
    };
    let methods = Method::ALL.into_iter();
    methods
        .map(|method| (method.name().to_string(), lacking(method)))
        .collect()
}

/// What there is to say of cyclones that methods which lack nothing would find.
fn cautions(archive: &Archive, lacks: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let mut able = Method::ALL.to_vec();
    able.retain(|method| lacks.get(method.name()).is_some_and(Vec::is_empty));
    let follows = able.iter().any(|method| method.follows_cyclones());
    let of_steps = caution_of_steps(archive.times()).filter(|_| follows);
    let of_grid = caution_of_grid(archive.grid()).filter(|_| able.contains(&Method::Deepcam));
    of_steps.into_iter().chain(of_grid).collect()
}

/// The tracks of an input whose netCDF files all hold tracks, and the tables next to them. By the names of their
/// variables they look like fields.
fn tracks_alone(input: &str) -> Vec<Offer> {
    let files = files_of(input).unwrap_or_default();
    let tracks: Option<Vec<Offer>> = files.iter().map(|path| table(path.to_str()?)).collect();
    match tracks {
        Some(_) if Path::new(input).is_dir() => tables_in(input),
        tracks => tracks.unwrap_or_default(),
    }
}

/// Describes a table as an inspection; contents besides the table are passed in.
fn of_table(input: &str, table: &Offer, found: Option<Inspection>) -> Inspection {
    let bytes = std::fs::metadata(&table.path).map_or(0, |m| m.len());
    let format = format_of(&table.path).ok().flatten();
    let otherwise = found.as_ref().is_some_and(|found| found.usable);
    let mut inspection = Inspection {
        files: 1,
        bytes,
        makes: found.map_or_else(Vec::new, |found| found.makes),
        usable: true,
        ..Inspection::new(input, format.map_or("boxes", |format| format.name()))
    };
    if table.kind == Kind::Tracks {
        if format.is_some_and(|format| TELL_NO_CALENDAR.contains(&format)) {
            inspection.problems.push(
                "the file names no calendar: `standard` is assumed, unless --calendar tells another"
                    .into(),
            );
        }
        match read(&table.path, &options(&table.path, format)) {
            Ok(tracks) => set_tracks(&mut inspection, tracks),
            Err(error) => {
                inspection.problems.push(error.to_string());
                inspection.usable = otherwise;
            }
        }
    }
    inspection
}

/// Read options for a track table; the calendar of our own tables comes from the files next to them.
fn options(path: &Path, format: Option<TrackFormat>) -> ReadOptions {
    let ours = [TrackFormat::SquallEvents, TrackFormat::SquallExport];
    let is_ours = format.is_some_and(|format| ours.contains(&format));
    let beside = |folder: &Path| {
        let of_boxes = || made_by::calendar_of_boxes(&made_by::beside_boxes(folder)?);
        calendar_beside(folder).or_else(of_boxes)
    };
    let folder = path.parent().filter(|_| is_ours);
    ReadOptions {
        calendar: folder.and_then(beside).unwrap_or_default(),
        ..ReadOptions::default()
    }
}

/// Fills in number and time range of the tracks.
fn set_tracks(inspection: &mut Inspection, table: TrackTable) {
    inspection.tracks = Some((table.tracks.len(), table.points()));
    let points = table.tracks.iter().flat_map(|track| &track.points);
    let mut times: Vec<Time> = points.map(|point| point.time).collect();
    if let Some(&zero) = times.first() {
        times.sort_by_key(|time| time.seconds_since(zero));
        times.dedup();
        let last = times[times.len() - 1];
        inspection.calendar = Some(zero.calendar().cf_name().to_string());
        inspection.times = Some((times[0].to_string(), last.to_string(), times.len()));
    }
    inspection.problems.extend(table.notes);
}
