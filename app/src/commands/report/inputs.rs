//! The inputs of a page: masks with their tables, boxes and comparisons, recognised by the contents of their folders.

use super::boxes::Boxes;
use super::masks::Masks;
use crate::commands::score::kind::has_masks;
use crate::commands::score::table_path;
use crate::failure::Advice;
use crate::input;
use crate::tags::Tags;
use squall_climate::compare::Comparison;
use squall_climate::report::SourceKind;
use squall_data::boxes::FileKind;
use squall_data::{Archive, Calendar, LatLonGrid, Time};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// All inputs named by the arguments.
pub(super) struct Inputs {
    pub(super) masks: Vec<Masks>,
    pub(super) boxes: Vec<Boxes>,
    pub(super) comparisons: Vec<Comparison>,
    /// Folders of the comparisons.
    pub(super) comparison_folders: Vec<String>,
    pub(super) grid: Arc<LatLonGrid>,
    pub(super) calendar: Calendar,
    /// Times of the map: those of the first masks, or else of all boxes.
    pub(super) times: Vec<Time>,
}

/// The kind of input that an argument names.
enum Kind {
    Comparison,
    Boxes(PathBuf),
    Masks,
}

impl Kind {
    /// Determines the kind, ignoring a trailing `:DIR`. A folder with `changes.json` is a comparison. A table or file
    /// of boxes is boxes, and so is a folder with `boxes.csv` but no netCDF file except those of `squall events`.
    /// Everything else is masks.
    fn of(argument: &str) -> Self {
        let path = Path::new(split(argument).0);
        if Comparison::is_in(path) {
            return Self::Comparison;
        }
        if path.is_file() && FileKind::by_extension(path).is_some() {
            return Self::Boxes(path.into());
        }
        let table = path.join("boxes.csv");
        if table.is_file() && !has_masks(path).unwrap_or(false) {
            return Self::Boxes(table);
        }
        Self::Masks
    }
}

impl Inputs {
    /// Opens all inputs. `fields` provide grid and calendar if there are boxes without masks. Boxes with less than
    /// `min_confidence` are not shown.
    pub(super) fn open(
        arguments: &[String],
        tags: Tags,
        fields: Option<&Archive>,
        min_confidence: f32,
    ) -> anyhow::Result<Self> {
        let mut masks: Vec<Masks> = Vec::new();
        let mut box_files = Vec::new();
        let (mut comparisons, mut comparison_folders) = (Vec::new(), Vec::new());
        for argument in arguments {
            let (named, argument) = named(argument);
            match (Kind::of(argument), named) {
                (Kind::Masks, named) => masks.push(Masks::open(argument, named, tags)?),
                (_, Some(kind)) => {
                    return Err(Advice::usage(
                        format!("`{argument}` are no masks"),
                        format!(
                            "leave `{}=` out: what boxes and comparisons are is known",
                            kind.name().to_lowercase()
                        ),
                    ));
                }
                (Kind::Comparison, None) => {
                    comparisons.push(Comparison::read(argument)?);
                    comparison_folders.push(argument.to_string());
                }
                (Kind::Boxes(file), None) => box_files.push((argument, file)),
            }
        }
        set_others_apart(&mut masks);
        check_masks(&masks)?;
        if let (Some(first), Some(fields)) = (masks.first(), fields) {
            check_fields(first, fields)?;
            masks
                .iter()
                .for_each(|one| input::compare_origin(&one.archive, fields));
        }
        let known = (masks.first()).map(|first| (first.archive.grid(), first.archive.calendar()));
        let of_fields = || fields.map(|fields| (fields.grid(), fields.calendar()));
        let Some((grid, calendar)) = known.or_else(of_fields) else {
            return Err(Advice::usage(
                "no folder of masks among the arguments, and no fields",
                "a page needs masks, or boxes with --fields; `squall compare` writes a page of its own, changes.html",
            ));
        };
        let grid = grid.clone();
        let mut boxes = box_files
            .into_iter()
            .map(|(argument, file)| Boxes::open(argument, file, &grid, calendar, min_confidence))
            .collect::<anyhow::Result<Vec<_>>>()?;
        set_events_apart(&masks, &mut boxes);
        let times = match masks.first() {
            Some(first) => first.archive.times().to_vec(),
            None => times_of(&boxes),
        };
        Ok(Self {
            masks,
            boxes,
            comparisons,
            comparison_folders,
            grid,
            calendar,
            times,
        })
    }

    /// The files of masks, boxes and events that are read.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let masks = self.masks.iter().flat_map(|one| one.archive.paths());
        let boxes = self.boxes.iter().map(|one| one.file.as_path());
        let tables = self.masks.iter().filter_map(|one| table_path(&one.tables));
        (masks.chain(boxes).map(Path::to_path_buf))
            .chain(tables)
            .collect()
    }
}

/// Rejects fields on another grid, or without any time of the masks.
fn check_fields(masks: &Masks, fields: &Archive) -> anyhow::Result<()> {
    let archive = &masks.archive;
    let hint = format!(
        "give the fields of the run that `{}` was made from",
        masks.folder
    );
    if !fields.grid().same_as(archive.grid()) {
        let (expected, found) = (archive.grid().describe(), fields.grid().describe());
        let message = format!(
            "the fields are on another grid than the masks: expected {expected}, found {found}"
        );
        return Err(Advice::usage(message, hint));
    }
    if !input::are_of_one_calendar(archive.times(), fields.times())
        || !archive
            .times()
            .iter()
            .any(|time| fields.find(*time).is_some())
    {
        let of = |times: &[Time]| times.first().map_or("none".into(), Time::to_string);
        let message = format!(
            "the fields have none of the masks' times (these begin at {} {}, the fields at {} {})",
            of(archive.times()),
            archive.calendar(),
            of(fields.times()),
            fields.calendar()
        );
        return Err(Advice::usage(message, hint));
    }
    Ok(())
}

/// The times of all boxes, in order and without duplicates.
fn times_of(boxes: &[Boxes]) -> Vec<Time> {
    let frames = boxes.iter().flat_map(|source| source.all.frames());
    let mut times: Vec<Time> = frames.map(|frame| frame.time).collect();
    let Some(&zero) = times.first() else {
        return times;
    };
    times.sort_by_key(|time| time.seconds_since(zero));
    times.dedup();
    times
}

/// Gives the events of boxes their own kind if masks or other boxes also have events of that kind.
fn set_events_apart(masks: &[Masks], boxes: &mut [Boxes]) {
    let mut kinds: Vec<SourceKind> = masks.iter().map(|one| one.kind).collect();
    for one in boxes.iter_mut().filter(|one| one.events.is_some()) {
        if kinds.contains(&one.shown.kind) {
            let mut others = (0..).map(SourceKind::Other);
            let free = others.find(|kind| !kinds.contains(kind));
            one.call(free.unwrap_or(one.shown.kind));
        }
        kinds.push(one.shown.kind);
    }
}

/// Splits an argument such as `masks:events` into a path and the folder of its tables; colons that are part of an
/// existing path do not split.
pub(super) fn split(argument: &str) -> (&str, Option<&str>) {
    let is_there = |part: &str| Path::new(part).exists();
    if is_there(argument) {
        return (argument, None);
    }
    let signs = || argument.match_indices(':');
    let parts = || signs().map(move |(at, _)| (&argument[..at], &argument[at + 1..]));
    let both = parts().find(|(path, tables)| is_there(path) && is_there(tables));
    // If only one of them exists, or it is a pattern, the error should name what is missing.
    let one = both.or_else(|| parts().rfind(|(path, _)| is_there(path)));
    match one.or_else(|| argument.split_once(':')) {
        Some((path, tables)) => (path, Some(tables)),
        None => (argument, None),
    }
}

/// Splits a prefix such as in `truth=labels`; equals signs that are part of an existing path do not split.
fn named(argument: &str) -> (Option<SourceKind>, &str) {
    let named = argument.split_once('=').and_then(|(name, rest)| {
        let kind = SourceKind::ALL
            .into_iter()
            .find(|kind| kind.name().to_lowercase() == name);
        kind.map(|kind| (Some(kind), rest))
    });
    match named {
        Some(named) if !Path::new(argument).exists() => named,
        _ => (None, argument),
    }
}

/// Gives each source its own kind. Of several heuristics or networks, one keeps its kind: the first that the user
/// declared as such, or else the first. The rest become [`SourceKind::Other`]s. All of these are named after their
/// folders, by full path if the names are equal.
fn set_others_apart(masks: &mut [Masks]) {
    let mut beside: Vec<usize> = (0..masks.len())
        .filter(|&k| matches!(masks[k].kind, SourceKind::Heuristic | SourceKind::Other(_)))
        .collect();
    for kind in [SourceKind::Heuristic, SourceKind::Network] {
        let all: Vec<usize> = (0..masks.len())
            .filter(|&k| masks[k].kind == kind)
            .collect();
        let said = all.iter().find(|&&k| masks[k].named);
        let Some(&kept) = said.or(all.first()) else {
            continue;
        };
        if all.len() > 1 && kind == SourceKind::Network {
            beside.extend(&all);
        }
        for k in all.into_iter().filter(|&k| k != kept) {
            masks[k].kind = SourceKind::Other(0);
        }
    }
    let others = masks
        .iter_mut()
        .filter(|one| matches!(one.kind, SourceKind::Other(_)));
    for (number, one) in others.enumerate() {
        one.kind = SourceKind::Other(number);
    }
    if beside.len() < 2 {
        return;
    }
    let names = beside
        .iter()
        .map(|&k| Path::new(&masks[k].folder).file_name());
    let names: Option<BTreeSet<_>> = names.collect();
    let told_apart = names.is_some_and(|names| names.len() == beside.len());
    for k in beside {
        let folder = Path::new(&masks[k].folder);
        let name = folder.file_name().filter(|_| told_apart);
        let label = match name {
            Some(name) => name.to_string_lossy().into_owned(),
            None => masks[k].folder.clone(),
        };
        masks[k].label = label;
    }
}

/// Checks that there is at most one truth, and that all masks are on one grid and have the same dates.
fn check_masks(masks: &[Masks]) -> anyhow::Result<()> {
    for (index, one) in masks.iter().enumerate() {
        if masks[..index].iter().any(|other| other.kind == one.kind) {
            return Err(Advice::usage(
                format!("`{}` is a second truth", one.folder),
                "a page judges by one truth; `other=DIR` shows masks beside it",
            ));
        }
        let (found, expected) = (&one.archive, &masks[0].archive);
        input::same_grid("grid", &one.folder, found.grid(), expected.grid())?;
        input::same_dates(&one.folder, found.calendar(), expected.calendar())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_beside_the_tables_of_their_events_are_boxes() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str| std::fs::write(folder.path().join(name), "text").unwrap();
        let are_boxes = || matches!(Kind::of(folder.path().to_str().unwrap()), Kind::Boxes(_));
        for name in ["boxes.csv", "events.csv", "tracks.csv", "statistics.nc"] {
            write(name);
        }
        assert!(are_boxes());
        write("masks.nc");
        assert!(!are_boxes());
    }

    #[test]
    fn folders_may_have_the_sign_of_tables_in_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let at = |name: &str| folder.join(name).to_str().unwrap().to_string();
        for name in ["masks", "m:1", "m", "events", "e:2"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        let check = |masks: &str, tables: &str| {
            let (masks, tables) = (at(masks), at(tables));
            let argument = format!("{masks}:{tables}");
            assert_eq!(split(&argument), (&masks[..], Some(&tables[..])));
        };
        check("masks", "events");
        check("m:1", "events");
        check("masks", "e:2");
        check("m:1", "e:2");
        // What is not there is told as such.
        check("m:1", "nowhere");
        check("nowhere", "events");
        assert_eq!(split(&at("m:1")), (&at("m:1")[..], None));
    }
}
