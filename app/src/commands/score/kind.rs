//! Determines what a path given to `squall score` holds.

use crate::failure::Advice;
use crate::own_folder;
use anyhow::Context;
use squall_climate::stream::is_result;
use squall_climate::track::readers::{format_of, lacking};
use squall_data::DataError;
use squall_data::archive::files_of;
use squall_data::boxes::FileKind;
use squall_data::mask_file::MaskArchive;
use squall_jobs::infer::is_unfinished;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

/// What can be scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Masks on a grid.
    Masks,
    /// Boxes around storms.
    Boxes,
    /// Points of tracks.
    Tracks,
    /// A table of tracks without their points: `tracks.csv`.
    Lives,
    /// A table of something else.
    OtherTable,
}

impl Kind {
    /// The name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Masks => "masks",
            Self::Boxes => "boxes",
            Self::Tracks => "tracks",
            Self::Lives => "tracks without their points",
            Self::OtherTable => "another table",
        }
    }
}

/// One thing that a path holds.
#[derive(Debug, Clone)]
pub struct Offer {
    /// What it is.
    pub kind: Kind,
    /// Where it is.
    pub path: PathBuf,
}

impl Offer {
    /// Why this cannot be scored, whatever it is compared with.
    pub fn refusal(&self) -> Option<anyhow::Error> {
        let name = self.path.display();
        let beside = ["events.csv", "objects.csv"].map(|table| self.path.with_file_name(table));
        let beside = beside.iter().find(|path| path.is_file());
        match self.kind {
            Kind::Masks | Kind::Boxes | Kind::Tracks => None,
            Kind::Lives => Some(Advice::usage(
                format!(
                    "`{name}` has one row for each track, which does not tell where it was at the times between"
                ),
                match beside {
                    Some(table) => format!(
                        "give `{}` instead, which has a row for each object and time",
                        table.display()
                    ),
                    None => "give the table that has a row for each object and time: events.csv of `squall events`, objects.csv of labels and of the truth".into(),
                },
            )),
            Kind::OtherTable => Some(Advice::usage(
                match lacking(&self.path) {
                    Some(lacks) => format!(
                        "`{name}` looks like tracks of a layout that is not read: it {lacks}"
                    ),
                    None => format!("`{name}` is a table, but none of boxes or tracks"),
                },
                "tables that are scored are boxes.csv, events.csv, objects.csv, tracks of IBTrACS, HURDAT2, ATCF, TempestExtremes, TECA and TRACK, trajectories as netCDF and CSV with track_id, time, lon and lat; all by their header",
            )),
        }
    }
}

/// Everything that a path holds: one thing for a file, possibly several for a folder of results; anything but a table
/// counts as masks.
///
/// # Errors
/// If it cannot be read, or is of an inference without results yet.
pub fn offers(input: &str) -> anyhow::Result<Vec<Offer>> {
    let path = Path::new(input);
    let offer = |kind, path: &Path| Offer {
        kind,
        path: path.to_path_buf(),
    };
    if path.is_file() {
        return Ok(vec![offer(kind_of(path)?, path)]);
    }
    let mut found = Vec::new();
    if path.is_dir() {
        let table = |name: &str| Some(path.join(name)).filter(|p| p.is_file());
        if let Some(boxes) = table("boxes.csv") {
            found.push(offer(Kind::Boxes, &boxes));
        }
        if let Some(events) = table("events.csv").or_else(|| table("objects.csv")) {
            found.push(offer(Kind::Tracks, &events));
        }
        if !has_masks(path).with_context(|| format!("reading `{input}`"))? {
            if let (true, Some(lives)) = (found.is_empty(), table("tracks.csv")) {
                found.push(offer(Kind::Lives, &lives));
            }
            if !found.is_empty() {
                return Ok(found);
            }
            if is_unfinished(path) {
                return Err(Advice::input(
                    format!(
                        "`{input}` is of an inference that was stopped: it has neither masks nor a table of all boxes yet"
                    ),
                    "`squall infer`, given again, makes what is missing",
                ));
            }
        }
    }
    found.push(offer(Kind::Masks, path));
    Ok(found)
}

/// [`offers`]; of a folder without netCDF files the table of tracks or boxes that is in it, whatever its name.
///
/// # Errors
/// As of [`offers`]; if such a folder has no table, or several of one kind.
pub fn scorable(input: &str) -> anyhow::Result<Vec<Offer>> {
    let (folder, found) = (Path::new(input), offers(input)?);
    let is_known = !folder.is_dir() || found.iter().any(|one| one.kind != Kind::Masks);
    if is_known || !matches!(files_of(input), Err(DataError::NoInput { .. })) {
        return Ok(found);
    }
    let tables = tables_in(input);
    for kind in [Kind::Tracks, Kind::Boxes] {
        let of_kind = tables.iter().filter(|table| table.kind == kind);
        let paths: Vec<&Path> = of_kind.map(|table| table.path.as_path()).collect();
        if let [first, second, ..] = paths[..] {
            return Err(Advice::usage(
                format!(
                    "`{input}` has {} tables of {}, such as `{}` and `{}`",
                    paths.len(),
                    kind.name(),
                    first.display(),
                    second.display()
                ),
                "give one of them",
            ));
        }
    }
    if tables.is_empty() {
        return Err(Advice::input(
            format!("`{input}` has neither masks nor a table of boxes or tracks"),
            own_folder::description(folder).unwrap_or_else(|| {
                "give a folder of masks, or a table: boxes.csv, events.csv, or tracks of a layout that docs/input.md has"
                    .into()
            }),
        ));
    }
    Ok(tables)
}

/// The table of tracks or boxes at a path, if there is nothing else. Boxes in files other than CSV are recognised by
/// name alone.
pub fn table(path: &str) -> Option<Offer> {
    let found = offers(path).ok()?;
    let [only] = found.as_slice() else {
        return None;
    };
    let is_table = match only.kind {
        Kind::Tracks => true,
        Kind::Boxes => matches!(FileKind::by_extension(&only.path), Some(FileKind::Table)),
        _ => false,
    };
    is_table.then(|| only.clone())
}

/// The tables of tracks or boxes in a folder, by name; empty if the path is not a folder.
pub fn tables_in(folder: &str) -> Vec<Offer> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries
        .map(|entry| entry.path())
        .filter(|path| path.is_file());
    let mut tables: Vec<Offer> = files.filter_map(|path| table(path.to_str()?)).collect();
    tables.sort_by(|a, b| a.path.cmp(&b.path));
    tables
}

/// Whether a folder has netCDF files that `squall events` did not write: its statistics, object_id.nc and tracks are
/// not masks.
///
/// # Errors
/// If the folder cannot be listed.
pub fn has_masks(folder: &Path) -> std::io::Result<bool> {
    let mut entries = std::fs::read_dir(folder)?.filter_map(Result::ok);
    Ok(entries.any(|entry| {
        let is_netcdf = entry.path().extension().is_some_and(|end| end == "nc");
        is_netcdf && !is_result(&entry.file_name().to_string_lossy())
    }))
}

fn kind_of(path: &Path) -> anyhow::Result<Kind> {
    let by_name = FileKind::by_extension(path);
    let is_boxes = match by_name {
        Some(FileKind::Table) => has_edges(path)?,
        Some(FileKind::Coco) => true,
        // ExtremeWeather's box files have the same extension as DeepCAM's masks.
        Some(FileKind::ExtremeWeather) => MaskArchive::open(&path.to_string_lossy()).is_err(),
        None => false,
    };
    Ok(match by_name {
        _ if is_boxes => Kind::Boxes,
        _ if format_of(path)?.is_some() => Kind::Tracks,
        Some(FileKind::Table) => of_unknown_table(&header(path)?),
        _ if lacking(path).is_some() => Kind::OtherTable,
        _ => Kind::Masks,
    })
}

/// The kind of a CSV file whose header matches neither boxes nor points; without a comma it may be a list of mask
/// files.
fn of_unknown_table(header: &[String]) -> Kind {
    let has = |wanted: &str| header.iter().any(|name| name == wanted);
    match header {
        _ if has("track_id") && has("start_time") => Kind::Lives,
        [] | [_] => Kind::Masks,
        _ => Kind::OtherTable,
    }
}

/// Whether the header has edges of boxes but no centre.
fn has_edges(path: &Path) -> anyhow::Result<bool> {
    let header = header(path)?;
    let has = |wanted: &str| header.iter().any(|name| name == wanted);
    Ok(has("west_deg") && has("north_deg") && !has("lon_deg"))
}

/// The names in the first line of a table; empty for a binary file.
fn header(path: &Path) -> anyhow::Result<Vec<String>> {
    let file =
        std::fs::File::open(path).with_context(|| format!("reading `{}`", path.display()))?;
    let mut line = String::new();
    if BufReader::new(file).read_line(&mut line).is_err() {
        return Ok(Vec::new());
    }
    let names = line.trim_start_matches('\u{feff}').split(',');
    Ok(names.map(|name| name.trim().to_string()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::classify;

    #[test]
    fn tables_are_told_by_their_header() {
        let folder = tempfile::tempdir().unwrap();
        for (header, expected) in [
            (
                "class,time,west_deg,south_deg,east_deg,north_deg",
                Kind::Boxes,
            ),
            (
                "class,time,lon_deg,lat_deg,west_deg,north_deg",
                Kind::Tracks,
            ),
            ("track_id,class,start_time,end_time", Kind::Lives),
            ("\u{feff}track_id,class,start_time,end_time", Kind::Lives),
            ("name,wind", Kind::OtherTable),
            ("masks/a.nc", Kind::Masks),
        ] {
            let path = folder.path().join("table.csv");
            std::fs::write(&path, format!("{header}\n")).unwrap();
            assert_eq!(kind_of(&path).unwrap(), expected, "{header}");
        }
    }

    #[test]
    fn a_table_of_lives_is_refused_by_its_name_and_for_the_table_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let lives = folder.path().join("tracks.csv");
        std::fs::write(&lives, "track_id,class,start_time,end_time\n").unwrap();
        let hint = || {
            let [offer] = &offers(lives.to_str().unwrap()).unwrap()[..] else {
                panic!("a file is one thing");
            };
            let error = offer.refusal().unwrap();
            assert!(!error.to_string().contains("masks"), "{error}");
            classify(&error).1.unwrap()
        };
        assert!(
            hint().contains("events.csv of `squall events`"),
            "{}",
            hint()
        );
        let objects = folder.path().join("objects.csv");
        std::fs::write(&objects, "class,time,lon_deg,lat_deg\n").unwrap();
        assert!(hint().contains(objects.to_str().unwrap()), "{}", hint());
    }

    /// A detector that is stopped leaves tables of days, which are no masks.
    #[test]
    fn an_inference_that_was_stopped_is_told_where_it_has_no_result() {
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().to_str().unwrap();
        let write = |name: &str| std::fs::write(folder.path().join(name), "").unwrap();
        write("finished.jsonl");
        write("boxes.2000-01-01.csv");
        let error = offers(input).unwrap_err();
        assert!(error.to_string().contains("was stopped"), "{error}");
        assert!(classify(&error).1.unwrap().contains("given again"));
        write("masks.2000-01-01.nc");
        assert_eq!(offers(input).unwrap()[0].kind, Kind::Masks);
    }

    #[test]
    fn what_events_exports_makes_no_masks_of_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let kinds = || {
            let offers = offers(folder.path().to_str().unwrap()).unwrap();
            offers.iter().map(|offer| offer.kind).collect::<Vec<_>>()
        };
        let write = |name: &str| std::fs::write(folder.path().join(name), "text").unwrap();
        for name in [
            "tracks.csv",
            "statistics.nc",
            "object_id.nc",
            "tracks.tropical_cyclone.ibtracs.nc",
        ] {
            write(name);
        }
        assert_eq!(kinds(), [Kind::Lives]);
        write("events.csv");
        assert_eq!(kinds(), [Kind::Tracks]);
        write("masks.nc");
        assert_eq!(kinds(), [Kind::Tracks, Kind::Masks]);
    }

    /// Best tracks in a folder of their own were taken for masks.
    #[test]
    fn a_folder_with_a_table_alone_is_scored_by_it() {
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().to_str().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text);
        write("notes.txt", "of somebody").unwrap();
        let error = scorable(input).unwrap_err();
        assert!(error.to_string().contains("has neither masks"), "{error}");
        let points = "class,time,lon_deg,lat_deg,west_deg,north_deg\n";
        write("best.csv", points).unwrap();
        let found = scorable(input).unwrap();
        assert_eq!(found.len(), 1);
        let expected = (Kind::Tracks, folder.path().join("best.csv"));
        assert_eq!((found[0].kind, found[0].path.clone()), expected);
        write("other.csv", points).unwrap();
        let error = scorable(input).unwrap_err();
        assert!(error.to_string().contains("2 tables of tracks"), "{error}");
        assert_eq!(classify(&error).1.unwrap(), "give one of them");
        // What may be masks is left to those who read them.
        write("masks.nc4", "text").unwrap();
        assert_eq!(scorable(input).unwrap()[0].kind, Kind::Masks);
    }
}
