//! `squall score`: predictions against labels, by pixel, by event and by track.

use crate::progress::Progress;
use crate::{interrupt, output};
use clap::Args;
use serde::Serialize;
use squall_climate::events::{EventFields, ExtractOptions, extract};
use squall_climate::{Event, table};
use squall_data::DataError;
use squall_data::mask_file::MaskArchive;
use squall_validation::bootstrap::Bootstrap;
use squall_validation::{
    Confusion, EventScores, MatchingRules, SegmentationScore, SegmentationScorer, TrackRules,
    TrackScores, score_events, score_tracks,
};
use std::collections::HashSet;
use std::fmt;
use std::path::Path;

/// Score masks against labels or truth: IoU, and which events and tracks were found.
#[derive(Debug, Args)]
pub struct Score {
    /// Masks to be judged (a folder may also hold events.csv or objects.csv).
    #[arg(long, value_name = "MASKS")]
    pub prediction: String,
    /// Masks that judge.
    #[arg(long, value_name = "MASKS")]
    pub truth: String,
    /// Another table of predicted events than the one in the folder of the prediction.
    #[arg(long, value_name = "FILE")]
    pub events: Option<String>,
    /// One JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

/// All scores of a prediction.
#[derive(Debug, Serialize)]
pub struct Scores {
    /// By pixel.
    pub pixels: SegmentationScore,
    /// By object and time.
    pub events: EventScores,
    /// By track; absent if neither side has tracks.
    pub tracks: Option<TrackScores>,
}

impl fmt::Display for Scores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.pixels, self.events)?;
        self.tracks
            .iter()
            .try_for_each(|tracks| write!(f, "\n{tracks}"))
    }
}

impl Score {
    /// Prints the scores.
    pub fn run(self) -> anyhow::Result<()> {
        let scores = self.score()?;
        if self.json {
            output::json(&scores)
        } else {
            output::text(&scores)
        }
    }

    /// Computes the scores over the times that both sides have.
    pub fn score(&self) -> anyhow::Result<Scores> {
        let (predicted, truth) = (
            MaskArchive::open(&self.prediction)?,
            MaskArchive::open(&self.truth)?,
        );
        if predicted.grid().hash() != truth.grid().hash() {
            let (expected, found) = (truth.grid().describe(), predicted.grid().describe());
            return Err(DataError::Mismatch {
                what: "grid",
                path: self.prediction.clone().into(),
                expected,
                found,
            }
            .into());
        }
        let shared: Vec<(usize, usize)> = (predicted.times().iter().enumerate())
            .filter_map(|(p, &time)| Some((p, truth.find(time)?)))
            .collect();
        if shared.is_empty() {
            let reason = format!("no time of `{}` is in it", self.truth);
            return Err(DataError::NoInput {
                input: self.prediction.clone(),
                reason,
            }
            .into());
        }
        let left_out = predicted.times().len() + truth.times().len() - 2 * shared.len();
        if left_out > 0 {
            tracing::warn!("{left_out} times stand on one side only and are left out");
        }
        let mut scorer = SegmentationScorer::new();
        let mut progress = Progress::new("score", shared.len());
        let (mut found, mut real) = (Vec::new(), Vec::new());
        let listed = [
            self.table(&self.prediction, &predicted)?,
            table_of(&self.truth, &truth)?,
        ];
        let mut times = HashSet::new();
        for (done, &(p, t)) in shared.iter().enumerate() {
            interrupt::check()?;
            let (prediction, label) = (predicted.read(p)?, truth.read(t)?);
            scorer.add(&Confusion::of_masks(&label, &prediction, truth.grid())?);
            times.insert(label.time);
            for (side, mask, events) in [(0, &prediction, &mut found), (1, &label, &mut real)] {
                if listed[side].is_none() {
                    let objects = extract(
                        mask,
                        truth.grid(),
                        &EventFields::default(),
                        &ExtractOptions::default(),
                    )?;
                    events.extend(objects.into_iter().map(|object| object.event));
                }
            }
            progress.set(done + 1, String::new());
        }
        progress.finish();
        let [predicted_table, true_table] = listed;
        let at_shared = |table: Vec<Event>| {
            table
                .into_iter()
                .filter(|event| times.contains(&event.time))
                .collect()
        };
        let found: Vec<Event> = predicted_table.map_or(found, at_shared);
        let real: Vec<Event> = true_table.map_or(real, at_shared);
        let tracked = |events: &[Event]| events.iter().any(|event| event.track_id.is_some());
        let pixels = scorer
            .score()
            .ok_or_else(|| DataError::Invalid("no masks to score".into()))?;
        Ok(Scores {
            pixels,
            events: score_events(
                &real,
                &found,
                &MatchingRules::default(),
                &Bootstrap::default(),
            ),
            tracks: (tracked(&real) && tracked(&found))
                .then(|| score_tracks(&real, &found, &TrackRules::default())),
        })
    }

    fn table(&self, input: &str, masks: &MaskArchive) -> anyhow::Result<Option<Vec<Event>>> {
        match &self.events {
            Some(path) => Ok(Some(table::read_events(path, masks.calendar())?)),
            None => table_of(input, masks),
        }
    }
}

/// The table of events in a folder, if it has one.
pub fn table_of(folder: &str, masks: &MaskArchive) -> anyhow::Result<Option<Vec<Event>>> {
    let path = ["events.csv", "objects.csv"]
        .map(|name| Path::new(folder).join(name))
        .into_iter()
        .find(|p| p.is_file());
    let Some(path) = path else { return Ok(None) };
    Ok(Some(table::read_events(path, masks.calendar())?))
}
