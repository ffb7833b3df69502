//! Boxes against boxes: by average precision, by event and by track.

use super::Score;
use crate::failure::Advice;
use serde::Serialize;
use squall_climate::Event;
use squall_climate::events::{EventFields, from_boxes};
use squall_climate::track::{Tracker, TrackerOptions};
use squall_data::{BoxFrame, BoxFrames, Class, LatLonGrid, TrackedBox, boxes};
use squall_validation::average_precision::{BoxScores, BoxesAt, score_boxes};
use squall_validation::bootstrap::Bootstrap;
use squall_validation::{
    EventScores, MatchingRules, TrackRules, TrackScores, score_events, score_tracks,
};
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

/// Draws for intervals: each goes over all boxes.
const DRAWS: usize = 300;
/// The grid of files that give boxes in pixels and not in degrees: CAM5's of 0.25 degrees, as ExtremeWeather's.
const PIXELS: (usize, usize) = (768, 1152);
/// The grid on which boxes are compared where no fields give one: half a degree.
const COMPARED: (usize, usize) = (361, 720);

/// The grid of files that give boxes in pixels.
pub fn pixel_grid() -> anyhow::Result<LatLonGrid> {
    Ok(LatLonGrid::global(PIXELS.0, PIXELS.1)?)
}

/// The grid on which boxes are compared where no fields give one.
pub fn box_grid() -> anyhow::Result<LatLonGrid> {
    Ok(LatLonGrid::global(COMPARED.0, COMPARED.1)?)
}

/// All scores of predicted boxes.
#[derive(Debug, Serialize)]
pub struct Scores {
    /// Of all boxes, by confidence.
    #[serde(flatten)]
    pub boxes: BoxScores,
    /// From here on a predicted box was taken for an event.
    pub min_confidence: f32,
    /// By box and time.
    pub events: EventScores,
    /// By track.
    pub tracks: TrackScores,
}

impl fmt::Display for Scores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.boxes)?;
        writeln!(
            f,
            "boxes of confidence {} and more, taken for events and tracked:",
            self.min_confidence
        )?;
        write!(f, "{}\n{}", self.events, self.tracks)
    }
}

/// Scores two files of boxes: tables, ExtremeWeather's HDF5 or COCO's JSON.
pub fn score(arguments: &Score, predicted: &Path, truth: &Path) -> anyhow::Result<Scores> {
    let min_confidence = arguments.min_confidence;
    if !(0.0..=1.0).contains(&min_confidence) {
        return Err(Advice::usage(
            format!("--min-confidence is {min_confidence}"),
            "it is a share from 0 to 1",
        ));
    }
    let grid = pixel_grid()?;
    let read = |path: &Path| -> anyhow::Result<BoxFrames> {
        let frames = boxes::read(path, &grid, arguments.calendar)?;
        frames
            .notes
            .iter()
            .for_each(|note| tracing::warn!("{note}"));
        Ok(frames)
    };
    let (predicted, truth) = (read(predicted)?, read(truth)?);
    let bootstrap = Bootstrap {
        draws: DRAWS,
        ..Bootstrap::default()
    };
    let boxes = score_boxes(&by_time(&truth), &by_time(&predicted), &bootstrap)?;
    let sure = |found: &TrackedBox| found.geo.confidence.is_none_or(|c| c >= min_confidence);
    let found = followed(&predicted, &truth, sure)?;
    let real = followed(&truth, &predicted, |_| true)?;
    Ok(Scores {
        boxes,
        min_confidence,
        events: score_events(&real, &found, &MatchingRules::default(), &bootstrap),
        tracks: score_tracks(&real, &found, &TrackRules::default()),
    })
}

fn by_time(frames: &BoxFrames) -> Vec<BoxesAt> {
    let of_frame = |frame: &BoxFrame| {
        let boxes = frame.boxes.iter().map(|tracked| tracked.geo).collect();
        (frame.time, boxes)
    };
    frames.frames().iter().map(of_frame).collect()
}

/// The events of some boxes at the times that another file has too: of every class with the file's own identities or, where
/// it has none, with those of the tracker.
fn followed(
    frames: &BoxFrames,
    other: &BoxFrames,
    wanted: impl Fn(&TrackedBox) -> bool,
) -> anyhow::Result<Vec<Event>> {
    let boxes = frames.frames().iter().flat_map(|frame| &frame.boxes);
    let known: BTreeSet<Class> = boxes
        .filter(|found| found.track_id.is_some())
        .map(|found| Class::from(found.geo.class))
        .collect();
    let grid = box_grid()?;
    let mut tracker = Tracker::new(&grid, TrackerOptions::for_boxes())?;
    let mut short = BTreeSet::new();
    let (mut listed, mut events): (Vec<Event>, Vec<Event>) = Default::default();
    let shared = frames.frames().iter();
    for frame in shared.filter(|frame| other.at(frame.time).is_some()) {
        let boxes: Vec<TrackedBox> = frame.boxes.iter().copied().filter(&wanted).collect();
        let found = from_boxes(frame.time, &boxes, &grid, &EventFields::default())?;
        let (with, mut without): (Vec<_>, Vec<_>) = found
            .into_iter()
            .partition(|one| known.contains(&one.event.class));
        short.extend(tracker.push(frame.time, &mut without)?.discarded);
        listed.extend(with.into_iter().map(|one| one.event));
        events.extend(without.into_iter().map(|one| one.event));
    }
    short.extend(tracker.finish().discarded);
    for event in &mut events {
        event.track_id = event.track_id.filter(|id| !short.contains(id));
    }
    events.append(&mut listed);
    Ok(events)
}
