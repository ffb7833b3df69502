//! The leaderboard of a search: results and ranking of its trials.

use super::Values;
use super::described::in_words;
use super::ladder::Ladder;
use super::repeats::{scores_at, spread, together};
use crate::error::{JobError, Result};
use serde::{Deserialize, Serialize};
use squall_data::{DataError, atomic};
use std::cmp::Ordering;
use std::path::Path;

/// A trial, or one of its runs if it is repeated with other seeds, and the results so far.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Its number, from 0; trial 0 is the unchanged recipe.
    pub number: usize,
    /// Which of its trial's runs it is, from 0 for the recipe's own seed; the next one has the seed after it.
    #[serde(default, skip_serializing_if = "is_first")]
    pub repeat: usize,
    /// The keys that it changes, with their values.
    pub values: Values,
    /// The score at every rung that it has reached.
    pub scores: Vec<f64>,
    /// Steps done at the newest of these rungs.
    pub steps: u64,
    /// The name of the score.
    pub score_name: String,
    /// Why it failed, if it did.
    pub failed: Option<String>,
    /// Seconds of its training, over all processes that worked on it.
    pub seconds: f64,
    /// For every rung reached, the number of steps until there that were unexpectedly skipped because a loss or
    /// gradient was not finite.
    #[serde(default)]
    pub skipped: Vec<u64>,
    /// For every rung reached, whether the network found no storm there.
    #[serde(default)]
    pub empty: Vec<bool>,
    /// The validation of its model (`best.safetensors`), with the recipe's own seed; known once the search is done.
    #[serde(skip)]
    pub best: Option<BestModel>,
}

fn is_first(repeat: &usize) -> bool {
    *repeat == 0
}

/// The validation at which a trial's model was saved.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BestModel {
    /// Steps done before it.
    pub step: u64,
    /// Its score.
    pub score: f64,
}

impl Trial {
    fn new(number: usize, values: Values) -> Self {
        Self {
            number,
            values,
            ..Self::default()
        }
    }

    /// Its name for messages.
    #[must_use]
    pub fn name(&self) -> String {
        match self.repeat {
            0 => format!("trial {}", self.number),
            repeat => format!("trial {}, repeat {repeat}", self.number),
        }
    }

    /// Whether the trial has reached this rung or failed.
    #[must_use]
    pub fn is_done(&self, rung: usize) -> bool {
        self.failed.is_some() || self.scores.len() > rung
    }

    /// Whether it failed before this rung.
    fn is_out(&self, rung: usize) -> bool {
        self.failed.is_some() && self.scores.len() <= rung
    }

    /// The score at a rung, if the trial reached it.
    fn score_at(&self, rung: usize) -> Option<f64> {
        self.scores
            .get(rung)
            .copied()
            .filter(|score| !score.is_nan())
    }

    /// Skipped steps until a rung.
    pub(super) fn skipped_at(&self, rung: usize) -> u64 {
        self.skipped.get(rung).copied().unwrap_or(0)
    }

    /// Whether the network found no storm at a rung.
    pub(super) fn is_empty_at(&self, rung: usize) -> bool {
        self.empty.get(rung).copied().unwrap_or(false)
    }

    /// Whether the network found no storm at the newest rung: its score is that of the background.
    #[must_use]
    pub fn finds_nothing(&self) -> bool {
        let newest = self.scores.len().checked_sub(1);
        newest.is_some_and(|rung| self.is_empty_at(rung))
    }

    /// The newest score; `None` for a trial that failed or has not started.
    #[must_use]
    pub fn score(&self) -> Option<f64> {
        match self.failed {
            Some(_) => None,
            None => self.scores.last().copied(),
        }
    }
}

/// An entry of the leaderboard.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LeaderboardEntry {
    /// Its place, from 1 for the best.
    pub place: usize,
    /// The trial's number.
    pub trial: usize,
    /// Number of steps trained.
    pub steps: u64,
    /// Its newest score; the mean over its repeats.
    pub score: Option<f64>,
    /// The changed keys with their values; [`Search::own_values`](super::Search::own_values) returns those of trial 0.
    #[serde(serialize_with = "as_an_object")]
    pub values: Values,
    /// Why it has no score.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Seconds of training.
    pub seconds: f64,
    /// The score of its model, at its best validation.
    pub best_score: Option<f64>,
    /// Number of steps after which its model was saved.
    pub best_step: Option<u64>,
    /// Steps that were unexpectedly skipped because a loss or gradient was not finite.
    pub skipped_steps: u64,
    /// With repeats: the standard deviation of their newest scores, about the mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread: Option<f64>,
    /// With repeats: their newest scores, that of the recipe's own seed first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scores: Vec<f64>,
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
    /// All trials, by number; of those with repeats the means.
    pub trials: Vec<Trial>,
    /// The runs of each trial.
    runs: Vec<Vec<Trial>>,
}

impl Board {
    pub(super) fn new(values: Vec<Values>, repeats: usize) -> Self {
        let trials = values.into_iter().enumerate();
        let trials: Vec<Trial> = trials
            .map(|(number, values)| Trial::new(number, values))
            .collect();
        let repeated = |trial: &Trial| -> Vec<Trial> {
            let run = |repeat| Trial {
                repeat,
                ..trial.clone()
            };
            (0..repeats).map(run).collect()
        };
        Self {
            runs: trials.iter().map(repeated).collect(),
            trials,
        }
    }

    /// A run of a trial.
    pub(super) fn run(&self, number: usize, repeat: usize) -> &Trial {
        &self.runs[number][repeat]
    }

    /// Takes up the results of a run.
    fn take(&mut self, run: Trial) {
        let (number, repeat) = (run.number, run.repeat);
        self.runs[number][repeat] = run;
        self.trials[number] = together(&self.runs[number]);
    }

    /// Reads a run of a trial from its folder.
    ///
    /// # Errors
    /// [`JobError::Damaged`] if the file is invalid or belongs to another one.
    pub(super) fn read(&mut self, folder: &Path, number: usize, repeat: usize) -> Result<&Trial> {
        let path = folder.join("trial.json");
        if path.exists() {
            let text = std::fs::read_to_string(&path).map_err(DataError::io("read", &path))?;
            let trial = serde_json::from_str(&text);
            let trial: Trial = trial.map_err(|error| JobError::damaged(&path, error))?;
            // The number in the file decides whose folder is trained in.
            let expected = self.run(number, repeat);
            let is_it = (trial.number, trial.repeat) == (number, repeat);
            if !is_it || trial.values != expected.values {
                let reason = format!(
                    "expected {} ({}), found {} ({})",
                    expected.name(),
                    in_words(&expected.values),
                    trial.name(),
                    in_words(&trial.values)
                );
                return Err(JobError::damaged(path, reason));
            }
            self.take(trial);
        }
        Ok(self.run(number, repeat))
    }

    pub(super) fn keep(&mut self, folder: &Path, trial: Trial) -> Result<()> {
        let path = folder.join("trial.json");
        let text = crate::metrics::to_json(&trial, &path)?;
        atomic::write(&path, text.as_bytes())?;
        self.take(trial);
        Ok(())
    }

    pub(super) fn is_done(&self, rung: usize, chosen: &[usize]) -> bool {
        chosen
            .iter()
            .all(|&number| self.trials[number].is_done(rung))
    }

    /// The first rung that some of its trials have not reached, with these trials; `None` at the end.
    pub(super) fn next_rung(&self, ladder: &Ladder) -> Option<(usize, Vec<usize>)> {
        let mut halts = self.chosen(ladder).into_iter().enumerate();
        halts.find(|(rung, chosen)| !self.is_done(*rung, chosen))
    }

    /// The trials that advance to each rung, by number: all to the first, the best of the previous rung to the others.
    ///
    /// If a trial fails, the next best advances in its place; if there is none, the previous rung admits one more.
    /// Later results only add trials, so the outcome does not depend on the order in which processes learn of results.
    #[must_use]
    pub fn chosen(&self, ladder: &Ladder) -> Vec<Vec<usize>> {
        let mut wanted: Vec<usize> = (0..ladder.rungs())
            .map(|rung| ladder.trials_at(rung))
            .collect();
        loop {
            let mut advancing = self.advancing(&wanted);
            let Some((rung, missing)) = self.rung_to_widen(&wanted, &advancing) else {
                advancing
                    .iter_mut()
                    .for_each(|advancing| advancing.sort_unstable());
                return advancing;
            };
            wanted[rung] += missing;
        }
    }

    /// The trials that advance to each rung, best first, so that the wanted number gets there.
    fn advancing(&self, wanted: &[usize]) -> Vec<Vec<usize>> {
        let mut advancing: Vec<Vec<usize>> = vec![(0..self.trials.len()).collect()];
        for (before, &wanted) in wanted.iter().skip(1).enumerate() {
            let there = |number: &&usize| self.trials[**number].score_at(before).is_some();
            let mut ranked: Vec<usize> = advancing[before].iter().filter(there).copied().collect();
            ranked.sort_by(|&a, &b| ahead(&self.trials[a], &self.trials[b], before));
            let mut hopeful = 0;
            ranked.retain(|&number| {
                let goes = hopeful < wanted;
                hopeful += usize::from(goes && !self.trials[number].is_out(before + 1));
                goes
            });
            advancing.push(ranked);
        }
        advancing
    }

    /// A rung that must admit more trials, and how many: too few reach the next one although it took all it could get.
    /// `None` if there is no such rung, or trials in progress must finish first.
    fn rung_to_widen(&self, wanted: &[usize], advancing: &[Vec<usize>]) -> Option<(usize, usize)> {
        // Trials in progress count as having reached the rung.
        let missing = |rung: usize| {
            let out = |number: &&usize| self.trials[**number].is_out(rung);
            let lost = advancing[rung].iter().filter(out).count();
            wanted[rung].saturating_sub(advancing[rung].len() - lost)
        };
        (1..wanted.len())
            .take_while(|&rung| self.is_done(rung - 1, &advancing[rung - 1]))
            .find(|&rung| rung > 1 && missing(rung) > 0 && missing(rung - 1) == 0)
            .map(|rung| (rung - 1, missing(rung)))
    }

    /// All trials, best first: those that advanced furthest; among these, those without steps skipped for non-finite
    /// values; among these, those that find storms; among these, those with the highest score.
    #[must_use]
    pub fn places(&self) -> Vec<LeaderboardEntry> {
        let mut order: Vec<&Trial> = self.trials.iter().collect();
        let reached = |trial: &Trial| match trial.failed {
            Some(_) => 0,
            None => trial.scores.len(),
        };
        order.sort_by(|a, b| {
            let halts = reached(a);
            reached(b)
                .cmp(&halts)
                .then_with(|| match halts.checked_sub(1) {
                    Some(last) => ahead(a, b, last),
                    None => a.number.cmp(&b.number),
                })
        });
        let place = |(index, trial): (usize, &Trial)| {
            let scores = self.scores_of_repeats(trial);
            LeaderboardEntry {
                place: index + 1,
                trial: trial.number,
                steps: trial.steps,
                score: trial.score(),
                values: trial.values.clone(),
                failed: trial.failed.clone(),
                seconds: trial.seconds,
                best_score: trial.best.map(|best| best.score),
                best_step: trial.best.map(|best| best.step),
                skipped_steps: trial.skipped.last().copied().unwrap_or(0),
                spread: spread(&scores),
                scores,
            }
        };
        order.into_iter().enumerate().map(place).collect()
    }

    /// The scores of a trial's repeats behind its newest score; none if it has no score, or a single run.
    fn scores_of_repeats(&self, trial: &Trial) -> Vec<f64> {
        let runs = &self.runs[trial.number];
        match (trial.score(), trial.scores.len()) {
            (Some(_), rungs) if runs.len() > 1 => scores_at(runs, rungs - 1),
            _ => Vec::new(),
        }
    }
}

/// Orders two trials at a rung: first the one without steps skipped for non-finite values, then the one with the higher
/// score, then the one with the lower number.
fn ahead(a: &Trial, b: &Trial, rung: usize) -> Ordering {
    let skipped = |trial: &Trial| trial.skipped_at(rung) > 0;
    let score = |trial: &Trial| trial.score_at(rung).unwrap_or(f64::NEG_INFINITY);
    skipped(a)
        .cmp(&skipped(b))
        .then(score(b).total_cmp(&score(a)))
        .then(a.number.cmp(&b.number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;
    use squall_data::random::stream;

    fn board(scores: &[&[f64]]) -> Board {
        let mut board = Board::new(scores.iter().map(|_| Vec::new()).collect(), 1);
        for (trial, scores) in board.trials.iter_mut().zip(scores) {
            trial.scores = scores.to_vec();
        }
        board
    }

    #[test]
    fn the_best_go_on() {
        let ladder = Ladder::new(6, 3, 3).unwrap();
        let mut board = board(&[&[0.1], &[0.5, 0.6], &[0.5, 0.7], &[0.2], &[0.4], &[0.3]]);
        let all = vec![0, 1, 2, 3, 4, 5];
        assert_eq!(board.chosen(&ladder), [all, vec![1, 2], vec![2]]);
        // In place of one that breaks down the next best of its halt goes on.
        board.trials[2].failed = Some("diverged".into());
        assert_eq!(board.chosen(&ladder)[1..], [vec![1, 2], vec![1, 2]]);
        // Where that breaks down, too, the halt before has the next best.
        board.trials[1].failed = Some("diverged".into());
        assert_eq!(board.next_rung(&ladder), Some((1, vec![1, 2, 4])));
        // And where that one does not come so far, the one after it.
        let mut further = board.clone();
        further.trials[4].failed = Some("diverged".into());
        assert_eq!(further.next_rung(&ladder), Some((1, vec![1, 2, 4, 5])));
        board.trials[4].scores.push(0.1);
        assert_eq!(board.next_rung(&ladder), Some((2, vec![1, 2, 4])));
        board.trials[4].scores.push(0.1);
        assert_eq!(board.next_rung(&ladder), None);
        assert_eq!(board.places()[0].trial, 4);
    }

    /// Who went on, and what came of it, does not depend on who was fast; and somebody comes to the end unless all break
    /// down.
    #[test]
    fn the_same_go_on_whatever_ends_first() {
        let ladder = Ladder::new(9, 3, 3).unwrap();
        for case in 0..200 {
            let ended = |last_first: bool| {
                let nothing: &[f64] = &[];
                let mut board = board(&[nothing; 9]);
                while let Some((rung, chosen)) = board.next_rung(&ladder) {
                    let is_open = |number: &usize| !board.trials[*number].is_done(rung);
                    let open: Vec<usize> = chosen.into_iter().filter(is_open).collect();
                    let next = if last_first {
                        open.last()
                    } else {
                        open.first()
                    };
                    let number = *next.unwrap();
                    let place = [number as u64, rung as u64];
                    let score: f64 = stream(case, "trials", &place).random();
                    let trial = &mut board.trials[number];
                    if score < 0.4 {
                        trial.failed = Some("diverged".into());
                    } else {
                        trial.scores.push(score);
                        trial.steps = rung as u64 + 1;
                    }
                }
                board.places()
            };
            let places = ended(false);
            assert_eq!(places, ended(true));
            assert!(places[0].score.is_none() || places[0].steps == 3);
        }
    }

    #[test]
    fn trials_with_skipped_steps_rank_after_others() {
        let ladder = Ladder::new(3, 2, 3).unwrap();
        let mut board = board(&[&[0.4], &[0.9], &[0.5]]);
        board.trials[1].skipped = vec![7];
        assert_eq!(board.chosen(&ladder)[1], [2]);
        let order = board.places().iter().map(|p| p.trial).collect::<Vec<_>>();
        assert_eq!(order, [2, 0, 1]);
        // What happens after a halt does not change what was chosen there.
        board.trials[2].scores.push(0.8);
        board.trials[2].skipped = vec![0, 3];
        assert_eq!(board.chosen(&ladder)[1], [2]);
    }

    #[test]
    fn a_trial_says_whether_its_newest_score_is_that_of_the_background() {
        let mut board = board(&[&[0.2923], &[0.3285]]);
        board.trials[1].empty = vec![true];
        let nothing = |board: &Board| [0, 1].map(|k| board.trials[k].finds_nothing());
        assert_eq!(nothing(&board), [false, true]);
        // It may find some later.
        board.trials[1].scores.push(0.5);
        board.trials[1].empty.push(false);
        assert_eq!(nothing(&board), [false, false]);
    }

    /// The luckiest seed would have gone on.
    #[test]
    fn the_best_mean_of_repeats_goes_on() {
        let ladder = Ladder::new(2, 2, 2).unwrap().repeated(2).unwrap();
        let mut board = Board::new(vec![Vec::new(); 2], 2);
        for (number, repeat, score) in [(0, 0, 0.9), (0, 1, 0.1), (1, 0, 0.6), (1, 1, 0.7)] {
            assert_eq!(board.next_rung(&ladder), Some((0, vec![0, 1])));
            board.take(Trial {
                scores: vec![score],
                ..board.run(number, repeat).clone()
            });
        }
        assert_eq!(board.next_rung(&ladder), Some((1, vec![1])));
        let places = board.places();
        let first = &places[0];
        assert_eq!((first.trial, first.scores.as_slice()), (1, &[0.6, 0.7][..]));
        let [score, spread] = [first.score, first.spread].map(Option::unwrap);
        assert!((score - 0.65).abs() < 1e-12, "{score}");
        assert!((spread - 0.1 / 2_f64.sqrt()).abs() < 1e-12, "{spread}");
        // A run's file is not that of another seed.
        let folder = tempfile::tempdir().unwrap();
        let run = board.run(0, 1).clone();
        board.keep(folder.path(), run).unwrap();
        board.read(folder.path(), 0, 1).unwrap();
        let error = board.read(folder.path(), 0, 0).unwrap_err().to_string();
        let words = "expected trial 0 (the recipe as it is), found trial 0, repeat 1 (";
        assert!(error.contains(words), "{error}");
    }

    #[test]
    fn a_trial_of_an_earlier_program_is_read() {
        let text = r#"{"number":1,"values":[],"scores":[0.5],"steps":4,"score_name":"mean IoU","failed":null,"seconds":1.0}"#;
        let trial: Trial = serde_json::from_str(text).unwrap();
        assert_eq!((trial.score(), trial.skipped_at(0)), (Some(0.5), 0));
        assert!(!trial.finds_nothing());
    }

    /// As of a folder that was copied by hand: its number named the folder that was trained in, or none at all.
    #[test]
    fn a_trial_in_the_folder_of_another_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let values = |rate: &str| vec![("schedule.rate".to_string(), rate.to_string())];
        let mut board = Board::new(vec![Vec::new(), values("1e-3")], 1);
        board.read(folder.path(), 1, 0).unwrap();
        let second = board.trials[1].clone();
        board.keep(folder.path(), second).unwrap();
        board.read(folder.path(), 1, 0).unwrap();
        let error = board.read(folder.path(), 0, 0).unwrap_err().to_string();
        let words = "expected trial 0 (the recipe as it is), found trial 1 (schedule.rate=1e-3)";
        assert!(
            error.contains(words) && error.contains("trial.json"),
            "{error}"
        );
        for (number, rate) in [(9, "1e-3"), (1, "2e-3")] {
            let other = Trial::new(number, values(rate));
            let text = serde_json::to_string(&other).unwrap();
            std::fs::write(folder.path().join("trial.json"), text).unwrap();
            let error = board.read(folder.path(), 1, 0).unwrap_err();
            assert!(matches!(error, JobError::Damaged { .. }), "{error}");
        }
    }

    #[test]
    fn trials_that_went_further_rank_first_and_failed_ones_last() {
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
