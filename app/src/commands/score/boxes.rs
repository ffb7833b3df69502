//! Boxes against boxes: by average precision, by event and by track.

use super::Score;
use crate::arguments::{MIN_CONFIDENCE, check_confidence};
use crate::failure::Advice;
use serde::Serialize;
use squall_climate::Event;
use squall_climate::events::{EventFields, from_boxes};
use squall_climate::track::{Tracker, TrackerOptions};
use squall_data::{BoxFrame, BoxFrames, Class, DataError, LatLonGrid, Time, TrackedBox, boxes};
use squall_validation::average_precision::{BoxScores, BoxesAt, compared_times, score_boxes};
use squall_validation::bootstrap::Bootstrap;
use squall_validation::{
    EventScores, MatchingRules, Record, TrackRules, TrackScores, score_events, score_tracks,
};
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

/// Number of bootstrap draws for intervals: each goes over all boxes.
const DRAWS: usize = 300;
/// Default grid for comparing boxes without fields: half a degree.
const COMPARED: (usize, usize) = (361, 720);

/// The default grid for comparing boxes without fields.
pub fn box_grid() -> anyhow::Result<LatLonGrid> {
    Ok(LatLonGrid::global(COMPARED.0, COMPARED.1)?)
}

/// All scores of predicted boxes.
#[derive(Debug, Serialize)]
pub struct Scores {
    /// Average precision of all boxes, ranked by confidence.
    #[serde(flatten)]
    pub boxes: BoxScores,
    /// Minimum confidence for a predicted box to count as an event.
    pub min_confidence: f32,
    /// By box and time, over the times of `boxes`.
    pub events: EventScores,
    /// By track, over the same times.
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
    let min_confidence = arguments.min_confidence.unwrap_or(MIN_CONFIDENCE);
    check_confidence(min_confidence)?;
    let calendar = arguments.calendar_of(&[predicted, truth]);
    let read = |path: &Path| -> anyhow::Result<BoxFrames> {
        let grid = boxes::pixel_grid(path, None)?;
        let frames = boxes::read(path, &grid, calendar).map_err(with_calendar)?;
        frames
            .notes
            .iter()
            .for_each(|note| tracing::warn!("{note}"));
        Ok(frames)
    };
    judge(&read(predicted)?, &read(truth)?, min_confidence)
}

/// Names the option if a file has another calendar than the one used for the dates in tables.
fn with_calendar(error: DataError) -> anyhow::Error {
    let DataError::Mismatch {
        what: "calendar",
        found,
        ..
    } = &error
    else {
        return error.into();
    };
    let hint = format!(
        "give `--calendar {found}` if the other side is of that calendar too: tables of boxes do not tell theirs"
    );
    Advice::input(error.to_string(), hint)
}

/// All scores of predicted boxes against true ones, over the times that [`compared_times`] gives.
pub fn judge(
    predicted: &BoxFrames,
    truth: &BoxFrames,
    min_confidence: f32,
) -> anyhow::Result<Scores> {
    let bootstrap = Bootstrap {
        draws: DRAWS,
        ..Bootstrap::default()
    };
    let (truths, predictions) = (by_time(truth), by_time(predicted));
    let boxes = score_boxes(&truths, &predictions, &bootstrap)?;
    let compared = compared_times(&truths, &predictions)?.times.into_iter();
    let times: Vec<Time> = compared.map(|(time, _)| time).collect();
    let sure = |found: &TrackedBox| found.geo.is_sure(min_confidence);
    let found = followed(predicted, &times, sure)?;
    let real = followed(truth, &times, |_| true)?;
    let record = Record::of_times(times);
    let events = score_events(&real, &found, &MatchingRules::default(), &bootstrap);
    let tracks = score_tracks(&real, &found, &TrackRules::default());
    Ok(Scores {
        boxes,
        min_confidence,
        events: events.with_chance(&real, &found, &record),
        tracks: tracks.with_chance(&real, &found, &record),
    })
}

/// Whether two box files have a time at which they can be compared.
pub fn share_times(predicted: &BoxFrames, truth: &BoxFrames) -> anyhow::Result<bool> {
    let (truths, predictions) = (by_time(truth), by_time(predicted));
    let nothing = truths.is_empty() && predictions.is_empty();
    Ok(!nothing && !compared_times(&truths, &predictions)?.times.is_empty())
}

fn by_time(frames: &BoxFrames) -> Vec<BoxesAt> {
    let of_frame = |frame: &BoxFrame| {
        let boxes = frame.boxes.iter().map(|tracked| tracked.geo).collect();
        (frame.time, boxes)
    };
    frames.frames().iter().map(of_frame).collect()
}

/// The events of boxes at the compared times, including times that a file omits because it has nothing there. Every
/// class has the file's own track ids or, without these, those of the tracker.
fn followed(
    frames: &BoxFrames,
    times: &[Time],
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
    for &time in times {
        let boxes = frames.at(time).unwrap_or_default();
        let boxes: Vec<TrackedBox> = boxes.iter().copied().filter(&wanted).collect();
        let found = from_boxes(time, &boxes, &grid, &EventFields::default())?;
        let (with, mut without): (Vec<_>, Vec<_>) = found
            .into_iter()
            .partition(|one| known.contains(&one.event.class));
        short.extend(tracker.push(time, &mut without)?.discarded);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::{INPUT, classify};
    use squall_data::boxes::BoxSink;
    use squall_data::boxes::extreme_weather::ExtremeWeatherWriter;
    use squall_data::{Calendar, LatLonGrid};
    use std::sync::Arc;

    /// Cyclones at 15°N: day, hour, west edge; without an edge a time at which nothing is.
    fn frames(name: &str, rows: &[(i64, i64, Option<f64>)]) -> BoxFrames {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let mut text = String::from("class,time,west_deg,south_deg,east_deg,north_deg\n");
        for (day, hour, west) in rows {
            text += &match west {
                Some(west) => format!(
                    "tropical_cyclone,2000-01-{day:02}T{hour:02}:00:00,{west},10,{},20\n",
                    west + 10.0
                ),
                None => format!(",2000-01-{day:02}T{hour:02}:00:00,,,,\n"),
            };
        }
        std::fs::write(&path, text).unwrap();
        let grid = LatLonGrid::global(24, 36).unwrap();
        boxes::read(&path, &grid, Calendar::NoLeap).unwrap()
    }

    #[test]
    fn events_and_precision_count_the_same_times() {
        // The truth lists no empty times: nothing was there on the second day, on which the prediction sees two storms,
        // nor is it known what was there on the ninth.
        let truth = frames(
            "truth.csv",
            &[
                (1, 0, Some(100.0)),
                (3, 0, Some(110.0)),
                (4, 0, Some(120.0)),
            ],
        );
        let predicted = frames(
            "predicted.csv",
            &[
                (1, 0, Some(100.0)),
                (2, 0, Some(200.0)),
                (2, 0, Some(250.0)),
                (4, 0, Some(120.0)),
                (9, 0, Some(50.0)),
            ],
        );
        let scores = judge(&predicted, &truth, 0.5).unwrap();
        let storm = &scores.events.classes[0];
        // Missed: the third day, at which only the truth has a row. False: both of the second.
        assert_eq!((storm.hits, storm.misses, storm.false_alarms), (2, 1, 2));
        let precision = &scores.boxes.score.classes[1];
        assert_eq!((precision.truths, precision.predictions), (3, 4));
        let coverage = &scores.boxes.coverage;
        assert_eq!(
            (
                coverage.both,
                coverage.only_in_truth.count,
                coverage.only_in_prediction.count,
                coverage.left_out.count
            ),
            (2, 1, 1, 1)
        );
        // A truth that does list empty times did not look at the second day.
        let listing = frames(
            "listing.csv",
            &[
                (1, 0, Some(100.0)),
                (3, 0, Some(110.0)),
                (3, 12, None),
                (4, 0, Some(120.0)),
            ],
        );
        let scores = judge(&predicted, &listing, 0.5).unwrap();
        let storm = &scores.events.classes[0];
        assert_eq!((storm.hits, storm.misses, storm.false_alarms), (2, 1, 0));
    }

    #[test]
    fn a_file_of_another_calendar_than_tables_names_the_option() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let grid = Arc::new(LatLonGrid::global(24, 36).unwrap());
        let found = frames("boxes.csv", &[(1, 0, Some(100.0)), (2, 0, Some(110.0))]);
        let mut file = ExtremeWeatherWriter::new(at("boxes.h5"), grid);
        let mut table = String::from("class,time,west_deg,south_deg,east_deg,north_deg\n");
        for frame in found.frames() {
            file.write(frame.time, &frame.boxes).unwrap();
            let west = frame.boxes[0].geo.west_deg;
            table += &format!(
                "tropical_cyclone,{},{west},10,{},20\n",
                frame.time,
                west + 10.0
            );
        }
        Box::new(file).finish().unwrap();
        std::fs::write(at("boxes.csv"), table).unwrap();
        for (predicted, truth) in [("boxes.h5", "boxes.csv"), ("boxes.csv", "boxes.h5")] {
            let mut arguments = Score::of_masks(String::new(), String::new(), None);
            let error = score(&arguments, &at(predicted), &at(truth)).unwrap_err();
            let (code, hint) = classify(&error);
            assert_eq!(code, INPUT);
            assert!(hint.unwrap().contains("`--calendar noleap`"), "{error}");
            arguments.calendar = Some(Calendar::NoLeap);
            let scores = score(&arguments, &at(predicted), &at(truth)).unwrap();
            assert_eq!(scores.boxes.coverage.both, 2);
        }
    }
}
