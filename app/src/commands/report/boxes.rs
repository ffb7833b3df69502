//! Boxes of a page: the file, the tables that `squall events` made from it, and detection scores of one file against
//! another.

use super::inputs::split;
use super::scores::box_lines;
use crate::box_files;
use crate::commands::score::{about_times, judge, share_times};
use crate::failure::Advice;
use crate::made_by;
use squall_climate::report::{BoxSource, Score, Source, SourceKind};
use squall_climate::{table, track};
use squall_data::boxes::{self, BoxFrames};
use squall_data::{Calendar, Class, LatLonGrid};
use std::path::{Path, PathBuf};

/// The boxes of one argument.
pub(super) struct Boxes {
    pub(super) file: PathBuf,
    /// All boxes of the file, for scores.
    pub(super) all: BoxFrames,
    /// The boxes shown: those above the minimum confidence.
    pub(super) shown: BoxSource,
    /// Events and tracks that `squall events` made from them, if the argument names that folder.
    pub(super) events: Option<Source>,
    /// Classes of events that nobody looked for, as far as the file beside them says.
    pub(super) not_looked_for: Vec<Class>,
    /// Whether they have confidences, as a network's boxes do.
    of_network: bool,
}

impl Boxes {
    /// Opens `FILE` or `FILE:EVENTS`. Boxes with confidences are a network's, and are named after their folder.
    pub(super) fn open(
        argument: &str,
        file: PathBuf,
        grid: &LatLonGrid,
        calendar: Calendar,
        min_confidence: f32,
    ) -> anyhow::Result<Self> {
        let pixels = boxes::pixel_grid(&file, Some(grid))?;
        let all = box_files::read(&file, &pixels, calendar)?;
        let mut found = all.frames().iter().flat_map(|frame| &frame.boxes);
        let of_network = found.any(|found| found.geo.confidence.is_some());
        let kind = if of_network {
            SourceKind::Network
        } else {
            SourceKind::Truth
        };
        let named = match file.file_stem() {
            Some(stem) if stem != "boxes" => Some(stem),
            _ => file.parent().and_then(Path::file_name),
        };
        let label = named.map_or("boxes".into(), |name| name.to_string_lossy().into_owned());
        let mut shown = BoxSource::new(kind, &label, all.clone()).at_least(min_confidence);
        let events = match split(argument).1 {
            Some(folder) => Some(tables(Path::new(folder), kind, calendar)?.labelled(label)),
            None => None,
        };
        if events.is_some() {
            shown = shown.followed_by(kind);
        }
        Ok(Self {
            not_looked_for: not_looked_for(&file),
            file,
            all,
            shown,
            events,
            of_network,
        })
    }

    /// Changes the kind of the boxes and their events.
    pub(super) fn call(&mut self, kind: SourceKind) {
        self.shown.kind = kind;
        if let Some(events) = &mut self.events {
            events.kind = kind;
            self.shown.followed_by = Some(kind);
        }
    }
}

/// The classes of events that the rules of boxes do not look for, as `label --method lows` says beside its boxes.
fn not_looked_for(file: &Path) -> Vec<Class> {
    let told = made_by::told_classes(file);
    let is_untold = |class: &Class| !told.is_empty() && !told.contains(class);
    Class::EVENTS.into_iter().filter(is_untold).collect()
}

/// The tables that `squall events` wrote into a folder.
fn tables(folder: &Path, kind: SourceKind, calendar: Calendar) -> anyhow::Result<Source> {
    let events = folder.join("events.csv");
    if !events.is_file() {
        return Err(Advice::usage(
            format!("`{}` has no events.csv", folder.display()),
            "behind the boxes stands the folder that `squall events` wrote of them",
        ));
    }
    let events = table::read_events(events, calendar)?;
    let tracks = folder.join("tracks.csv");
    let tracks = if tracks.is_file() {
        table::read_tracks(tracks, calendar)?
    } else {
        track::from_events(&events)
    };
    Ok(Source::new(kind, events, tracks))
}

/// The scores of every network's boxes against those of every truth or rule, over the times of both; also notes for the
/// reader about the times of each pair.
pub(super) fn scores(
    all: &[Boxes],
    min_confidence: f32,
) -> anyhow::Result<(Vec<Score>, Vec<String>)> {
    let (mut lines, mut notes) = (Vec::new(), Vec::new());
    let of_network = |boxes: &&Boxes| boxes.of_network;
    for judged in all.iter().filter(of_network) {
        for judging in all.iter().filter(|boxes| !of_network(boxes)) {
            let names = [judged, judging].map(|boxes| &boxes.shown.label);
            if share_times(&judged.all, &judging.all)? {
                let scores = judge(&judged.all, &judging.all, min_confidence)?;
                let group = format!("Boxes of {} against {}", names[0], names[1]);
                let about = about_times(&judged.all, &judging.all, &scores.boxes.coverage);
                notes.extend(about.map(|about| format!("{group}: {about}.")));
                lines.extend(box_lines(&group, &scores));
            } else {
                notes.push(format!(
                    "The boxes of {} and {} have no time in common: there are no scores of them.",
                    names[0], names[1]
                ));
            }
        }
    }
    Ok((lines, notes))
}
