//! Tracks against tracks: best tracks or those of another tracker.

use super::Score;
use serde::Serialize;
use squall_climate::track::readers::{ReadOptions, TrackTable, read};
use squall_data::{Class, DataError};
use squall_validation::bootstrap::Bootstrap;
use squall_validation::world_scores::Criterion;
use squall_validation::{WorldRules, WorldScores, score_against_world};
use std::fmt;
use std::path::Path;

/// Scores of the classes that both sides track.
#[derive(Debug, Serialize)]
pub struct TrackScores {
    /// What the two files are.
    pub formats: [&'static str; 2],
    /// One for each class.
    pub tracks: Vec<WorldScores>,
}

impl fmt::Display for TrackScores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [predicted, truth] = self.formats;
        write!(f, "{predicted} against {truth}")?;
        self.tracks.iter().try_for_each(|s| write!(f, "\n{s}"))
    }
}

/// Scores a file of tracks against another.
pub fn score(arguments: &Score, predicted: &Path, truth: &Path) -> anyhow::Result<TrackScores> {
    let options = ReadOptions {
        calendar: arguments.calendar,
        columns: arguments.columns.clone(),
    };
    let table = |path: &Path| -> anyhow::Result<TrackTable> {
        let table = read(path, &options)?;
        for note in &table.notes {
            tracing::warn!("{}: {note}", path.display());
        }
        Ok(table)
    };
    let (predicted, truth) = (table(predicted)?, table(truth)?);
    let has = |table: &TrackTable, class| table.tracks.iter().any(|track| track.class == class);
    let criterion = |class| match (arguments.by_mean_distance, class) {
        (true, _) => Criterion::MEAN_DISTANCE,
        (false, Class::AtmosphericRiver) => Criterion::NEAR_RIVER,
        (false, _) => Criterion::NEAR,
    };
    let scores = Class::TRACKED
        .into_iter()
        .filter(|&class| has(&predicted, class) && has(&truth, class))
        .map(|class| {
            let rules = WorldRules {
                class,
                criterion: criterion(class),
                // A wind makes a storm, not a river.
                min_reference_wind_m_s: (arguments.min_wind)
                    .filter(|_| class != Class::AtmosphericRiver),
                ..WorldRules::default()
            };
            score_against_world(&truth, &predicted, &rules, &Bootstrap::default())
        })
        .collect::<Result<Vec<_>, _>>()?;
    if scores.is_empty() {
        return Err(DataError::NoInput {
            input: arguments.prediction.clone(),
            reason: format!("no tracks of a class that `{}` has too", arguments.truth),
        }
        .into());
    }
    Ok(TrackScores {
        formats: [predicted.format.name(), truth.format.name()],
        tracks: scores,
    })
}
