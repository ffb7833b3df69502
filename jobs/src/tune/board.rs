//! What trials have reached, and who is ahead.

use super::ladder::Ladder;
use crate::error::{JobError, Result};
use serde::{Deserialize, Serialize};
use squall_data::{DataError, atomic};
use std::cmp::Ordering;
use std::path::Path;

/// A trial with what it has reached so far.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// From 0; that one is the recipe as it is.
    pub number: usize,
    /// Keys and values that the recipe is changed by.
    pub values: Vec<(String, String)>,
    /// The score at every halt that it has reached.
    pub scores: Vec<f64>,
    /// Steps until the newest of them.
    pub steps: u64,
    /// What the score is.
    pub score_name: String,
    /// Why it goes no further, if it broke down.
    pub failed: Option<String>,
    /// Seconds that it trained for, by all that had it.
    pub seconds: f64,
}

impl Trial {
    fn new(number: usize, values: Vec<(String, String)>) -> Self {
        Self {
            number,
            values,
            ..Self::default()
        }
    }

    /// Whether nothing is left to be done for this halt.
    #[must_use]
    pub fn is_done(&self, rung: usize) -> bool {
        self.failed.is_some() || self.scores.len() > rung
    }

    /// The newest score; none of a trial that broke down or has not begun.
    #[must_use]
    pub fn score(&self) -> Option<f64> {
        match self.failed {
            Some(_) => None,
            None => self.scores.last().copied(),
        }
    }
}

/// A line of the leaderboard.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Place {
    /// The place, from 1 for the best.
    pub place: usize,
    /// The trial's number.
    pub trial: usize,
    /// Steps that it was trained for.
    pub steps: u64,
    /// Its newest score.
    pub score: Option<f64>,
    /// What is different from the recipe.
    #[serde(serialize_with = "as_an_object")]
    pub values: Vec<(String, String)>,
    /// Why it has no score.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Seconds of training.
    pub seconds: f64,
}

fn as_an_object<S: serde::Serializer>(
    values: &[(String, String)],
    to: S,
) -> std::result::Result<S::Ok, S::Error> {
    to.collect_map(values.iter().map(|(key, value)| (key, value)))
}

/// All trials.
#[derive(Debug, Clone, PartialEq)]
pub struct Board {
    /// All trials, by number.
    pub trials: Vec<Trial>,
}

impl Board {
    pub(super) fn new(values: Vec<Vec<(String, String)>>) -> Self {
        let trials = values.into_iter().enumerate();
        Self {
            trials: trials
                .map(|(number, values)| Trial::new(number, values))
                .collect(),
        }
    }

    /// The trial as its folder has it.
    pub(super) fn read(&mut self, folder: &Path, number: usize) -> Result<&Trial> {
        let path = folder.join("trial.json");
        if path.exists() {
            let text = std::fs::read_to_string(&path).map_err(DataError::io("read", &path))?;
            self.trials[number] = serde_json::from_str(&text).map_err(|e| JobError::Damaged {
                path,
                reason: e.to_string(),
            })?;
        }
        Ok(&self.trials[number])
    }

    pub(super) fn keep(&mut self, folder: &Path, trial: Trial) -> Result<()> {
        let path = folder.join("trial.json");
        let text = crate::metrics::to_json(&trial, &path)?;
        atomic::write(&path, text.as_bytes())?;
        let number = trial.number;
        self.trials[number] = trial;
        Ok(())
    }

    pub(super) fn is_done(&self, rung: usize, chosen: &[usize]) -> bool {
        chosen
            .iter()
            .all(|&number| self.trials[number].is_done(rung))
    }

    /// The trials that go to this halt, by number: all to the first, the best of those before to the others. Of equals
    /// the one with the lower number is better.
    #[must_use]
    pub fn chosen(&self, rung: usize, ladder: &Ladder) -> Vec<usize> {
        let mut chosen: Vec<usize> = (0..self.trials.len()).collect();
        for before in 0..rung {
            let score = |number: &usize| {
                let trial = &self.trials[*number];
                trial
                    .scores
                    .get(before)
                    .copied()
                    .filter(|score| !score.is_nan())
            };
            chosen.retain(|number| score(number).is_some());
            chosen.sort_by(|a, b| better(score(a), score(b)).then(a.cmp(b)));
            chosen.truncate(self.trials.len().min(ladder.stay(before + 1)));
        }
        chosen.sort_unstable();
        chosen
    }

    /// All trials, the best first: those that went furthest, of these those with the highest score.
    #[must_use]
    pub fn places(&self) -> Vec<Place> {
        let mut order: Vec<&Trial> = self.trials.iter().collect();
        let reached = |trial: &Trial| match trial.failed {
            Some(_) => 0,
            None => trial.scores.len(),
        };
        order.sort_by(|a, b| {
            reached(b)
                .cmp(&reached(a))
                .then(better(a.score(), b.score()))
                .then(a.number.cmp(&b.number))
        });
        let place = |(index, trial): (usize, &Trial)| Place {
            place: index + 1,
            trial: trial.number,
            steps: trial.steps,
            score: trial.score(),
            values: trial.values.clone(),
            failed: trial.failed.clone(),
            seconds: trial.seconds,
        };
        order.into_iter().enumerate().map(place).collect()
    }
}

/// The higher score first, and what is no number last.
fn better(a: Option<f64>, b: Option<f64>) -> Ordering {
    let known = |score: Option<f64>| match score {
        Some(score) if !score.is_nan() => score,
        _ => f64::NEG_INFINITY,
    };
    known(b).total_cmp(&known(a))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board(scores: &[&[f64]]) -> Board {
        let mut board = Board::new(scores.iter().map(|_| Vec::new()).collect());
        for (trial, scores) in board.trials.iter_mut().zip(scores) {
            trial.scores = scores.to_vec();
        }
        board
    }

    #[test]
    fn the_best_go_on() {
        let ladder = Ladder::new(6, 3, 3).unwrap();
        let mut board = board(&[&[0.1], &[0.5, 0.6], &[0.5, 0.7], &[0.2], &[0.4], &[0.3]]);
        assert_eq!(board.chosen(0, &ladder), [0, 1, 2, 3, 4, 5]);
        assert_eq!(board.chosen(1, &ladder), [1, 2]);
        assert_eq!(board.chosen(2, &ladder), [2]);
        // What breaks down later makes room for nobody: that would depend on when it was known.
        board.trials[2].scores.pop();
        board.trials[2].failed = Some("diverged".into());
        assert_eq!(board.chosen(1, &ladder), [1, 2]);
        assert_eq!(board.chosen(2, &ladder), [1]);
    }

    #[test]
    fn who_went_further_is_ahead_and_who_failed_is_last() {
        let mut board = board(&[&[0.9], &[0.5, 0.6, 0.7], &[0.5, 0.7, 0.71], &[0.2]]);
        board.trials[0].failed = Some("diverged".into());
        let places = board.places();
        let order: Vec<_> = places.iter().map(|p| (p.trial, p.score)).collect();
        assert_eq!(
            order,
            [(2, Some(0.71)), (1, Some(0.7)), (3, Some(0.2)), (0, None)]
        );
    }
}
