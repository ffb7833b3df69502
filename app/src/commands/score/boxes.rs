//! Boxes against boxes: by average precision, by event and by track.

use super::Score;
use crate::arguments::{MIN_CONFIDENCE, check_confidence};
use crate::box_files;
use crate::failure::Advice;
use crate::made_by;
use serde::Serialize;
use squall_climate::Event;
use squall_climate::events::{EventFields, from_boxes};
use squall_climate::track::{Tracker, TrackerOptions};
use squall_data::{BoxFrame, BoxFrames, Class, DataError, LatLonGrid, Time, TrackedBox, boxes};
use squall_validation::average_precision::{
    BoxScores, BoxesAt, ListsAll, TimeCoverage, compared_times, score_boxes,
};
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
    /// Classes whose events and tracks are not scored, because the rules of the true boxes do not look for them.
    pub left_out: Vec<Class>,
}

impl Scores {
    /// Leaves out the events and tracks of classes that are not among those `told` of the truth; none are told of boxes
    /// that may be of any class.
    fn of_truth(mut self, told: &[Class]) -> Self {
        if told.is_empty() {
            return self;
        }
        let untold = |class: Class| !told.contains(&class);
        let scored = self.events.classes.iter().map(|score| score.class);
        self.left_out = scored.filter(|class| untold(*class)).collect();
        self.events.classes.retain(|score| !untold(score.class));
        self.tracks.classes.retain(|score| !untold(score.class));
        self.tracks.storms.retain(|storm| !untold(storm.class));
        self
    }
}

impl fmt::Display for Scores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.boxes)?;
        writeln!(
            f,
            "boxes of confidence {} and more, taken for events and tracked:",
            self.min_confidence
        )?;
        for class in &self.left_out {
            writeln!(
                f,
                "{}: not scored, the rules of the true boxes do not look for it",
                class.name()
            )?;
        }
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
        let frames = box_files::read(path, &grid, calendar).map_err(with_calendar)?;
        frames
            .notes
            .iter()
            .for_each(|note| tracing::warn!("{note}"));
        Ok(frames)
    };
    let told = made_by::told_classes(truth);
    let (predicted, truth) = (read(predicted)?, read(truth)?);
    let scores = judge(&predicted, &truth, min_confidence)?.of_truth(&told);
    if let Some(about) = about_times(&predicted, &truth, &scores.boxes.coverage) {
        tracing::warn!("{about}");
    }
    Ok(scores)
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
    let lists_all = lists_all(predicted, truth);
    let boxes = score_boxes(&truths, &predictions, lists_all, &bootstrap)?;
    let compared = compared_times(&truths, &predictions, lists_all)?;
    let times: Vec<Time> = compared.times.into_iter().map(|(time, _)| time).collect();
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
        left_out: Vec::new(),
    })
}

/// Whether two box files have a time at which they can be compared.
pub fn share_times(predicted: &BoxFrames, truth: &BoxFrames) -> anyhow::Result<bool> {
    let (truths, predictions) = (by_time(truth), by_time(predicted));
    let nothing = truths.is_empty() && predictions.is_empty();
    if nothing {
        return Ok(false);
    }
    let compared = compared_times(&truths, &predictions, lists_all(predicted, truth))?;
    Ok(!compared.times.is_empty())
}

fn lists_all(predicted: &BoxFrames, truth: &BoxFrames) -> ListsAll {
    ListsAll {
        truth: truth.lists_all_times,
        prediction: predicted.lists_all_times,
    }
}

/// What to know before the scores are believed, if the prediction lacks times of the truth, as one of a split does.
pub fn about_times(
    predicted: &BoxFrames,
    truth: &BoxFrames,
    coverage: &TimeCoverage,
) -> Option<String> {
    let lacks = |frame: &&BoxFrame| predicted.at(frame.time).is_none();
    let lacking = truth.frames().iter().filter(lacks).count();
    if lacking == 0 {
        return None;
    }
    let missed = coverage.only_in_truth.count;
    if missed > coverage.both {
        return Some(format!(
            "at {missed} of the truth's {} times the prediction has no row, and all boxes then count as missed: if those times were not searched, give the folder of `squall infer` as the prediction, or the truth of the searched times alone",
            truth.frames().len()
        ));
    }
    (lacking as u64 > missed).then(|| {
        format!(
            "{} of the truth's {} times are not among those of the prediction and are not scored",
            lacking as u64 - missed,
            truth.frames().len()
        )
    })
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

    /// With a box at each time, days between those of a split had counted as searched in vain.
    #[test]
    fn boxes_of_a_split_are_scored_at_its_times_alone() {
        let days: Vec<_> = (1..=9).map(|day| (day, 0, Some(100.0))).collect();
        let truth = frames("truth.csv", &days);
        let split = [days[0], days[1], days[8]];
        let mut predicted = frames("boxes.csv", &split);
        let hits = |predicted: &BoxFrames| {
            let scores = judge(predicted, &truth, 0.5).unwrap();
            let storm = &scores.events.classes[0];
            let about = about_times(predicted, &truth, &scores.boxes.coverage);
            (storm.hits, storm.misses, about.unwrap())
        };
        let (found, missed, about) = hits(&predicted);
        assert_eq!((found, missed), (3, 6));
        assert!(about.contains("at 6 of the truth's 9 times"), "{about}");
        predicted.lists_all_times = true;
        let (found, missed, about) = hits(&predicted);
        assert_eq!((found, missed), (3, 0));
        assert!(about.starts_with("6 of the truth's 9 times"), "{about}");
        let whole = judge(&truth, &truth, 0.5).unwrap();
        assert_eq!(about_times(&truth, &truth, &whole.boxes.coverage), None);
    }

    /// What `squall infer` writes beside its table tells how many times it searched.
    #[test]
    fn a_table_of_a_finished_inference_lists_all_its_times() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("boxes.csv");
        let mut text = String::from("class,time,west_deg,south_deg,east_deg,north_deg\n");
        for day in [1, 2, 9] {
            text += &format!("tropical_cyclone,2000-01-{day:02}T00:00:00,100,10,110,20\n");
        }
        std::fs::write(&path, text).unwrap();
        let grid = LatLonGrid::global(24, 36).unwrap();
        let lists_all = |path: &Path| {
            let read = box_files::read(path, &grid, Calendar::NoLeap);
            read.unwrap().lists_all_times
        };
        assert!(!lists_all(&path));
        let manifest = folder.path().join("manifest.json");
        std::fs::write(&manifest, r#"{"files":[{"masks":2},{"masks":1}]}"#).unwrap();
        assert!(lists_all(&path));
        let copy = folder.path().join("copy.csv");
        std::fs::copy(&path, &copy).unwrap();
        assert!(!lists_all(&copy));
        // Rows were taken out since.
        std::fs::write(&manifest, r#"{"files":[{"masks":2},{"masks":2}]}"#).unwrap();
        assert!(!lists_all(&path));
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
