//! A search by one or several processes that share a folder: each claims a trial, trains it up to a rung, and compares.

use super::described::{SearchDescription, files_of, hashes_of};
use super::outcome::{is_out, score_at, skipped_until};
use super::repeats::seed_of;
use super::waiting::{Claimed, Waiting};
use super::{BestModel, Board, Ladder, Trial, Values, changed};
use crate::error::{JobError, Result};
use crate::lock::FolderLock;
use crate::metrics::{Metric, read_metrics};
use crate::recipe::{Recipe, Task};
use crate::run_dir::RunDir;
use crate::train::{Team, TrainEvent, has_validation, steps_alone, train_together};
use squall_data::store::Split;
use squall_data::{DataError, Store, atomic};
use squall_model::{Backend, Network, Precision};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A search for better values of a recipe's keys.
#[derive(Debug)]
pub struct Search<'a> {
    /// File or name of the varied recipe.
    pub recipe: &'a Path,
    /// Overrides common to all trials.
    pub overrides: &'a [String],
    /// Keys and values of every trial ([`super::distinct`]).
    pub trials: &'a [Values],
    /// The number of trials and of their repeats, and how many trials advance from each rung.
    pub ladder: Ladder,
    /// The training data.
    pub store: &'a Arc<Store>,
    /// The folder of the search.
    pub folder: &'a Path,
    /// Host memory limit of a trial in bytes ([`super::share_of_memory`]); all free memory if `None`.
    pub memory_bytes: Option<u64>,
    /// A trial of another process whose files have not changed for this long is named.
    pub stalled_after: Duration,
}

/// An event during a search.
#[derive(Debug)]
#[non_exhaustive]
pub enum TuneEvent<'a> {
    /// A run of a trial starts, or continues after a rung.
    Trial {
        /// The run, as it stands.
        trial: &'a Trial,
        /// The step at which it will be halted.
        until: u64,
    },
    /// An event in the training of that run.
    Train(&'a TrainEvent),
    /// The run reached that step, or failed.
    Halted(&'a Trial),
    /// Other processes are training all remaining trials; this one waits.
    Waiting,
    /// The files of a trial that another process trains have not changed for a while: that process may be stopped.
    StandsStill {
        /// The trial's number.
        trial: usize,
        /// The other process, if its claim names it.
        holder: Option<String>,
        /// For how long.
        idle: Duration,
    },
}

/// Polling interval of an idle process.
const NAP: Duration = Duration::from_millis(500);

impl Search<'_> {
    /// The recipe of a run of a trial, and the steps of its rungs. If the recipe's length is in steps, all trials have
    /// equally many; if it is in epochs, they see equally many samples, up to a step.
    ///
    /// # Errors
    /// [`JobError::Recipe`] and [`JobError::Data`] if its values do not fit the recipe or the data, leave too few steps
    /// for the rungs, or no validation sample has labels; [`JobError::Model`] if its network is impossible or too
    /// large.
    pub fn plan_of(&self, trial: &Trial) -> Result<(Recipe, Vec<u64>)> {
        let mut recipe = changed(self.recipe, self.overrides, &trial.values)?;
        recipe.seed = seed_of(recipe.seed, trial.repeat);
        let steps = steps_alone(&recipe, self.store)?;
        let halts = self.ladder.halts(steps).map_err(JobError::recipe)?;
        recipe.training.epochs = None;
        recipe.training.steps = halts.last().copied();
        recipe.training.validate_every_steps = halts.first().copied();
        // Trials end only at rungs, so that they can be compared: no time limit, no early stopping.
        recipe.training.max_seconds = None;
        (recipe.training.target_score, recipe.training.patience) = (None, None);
        recipe.check()?;
        if !has_validation(&recipe, self.store) {
            return Err(without_validation(&recipe, self.store));
        }
        // Reject impossible or too large networks before the first trial rather than at their turn.
        Network::outline(&recipe.network, Backend::best(), recipe.seed)?;
        Ok((recipe, halts))
    }

    /// The values of these keys in the unchanged recipe; keys without a value are left out.
    ///
    /// # Errors
    /// [`JobError::Recipe`] if the recipe cannot be used.
    pub fn own_values(&self, keys: &[&str]) -> Result<Values> {
        let recipe = changed(self.recipe, self.overrides, &Values::new())?;
        let value = |key: &&str| Some(((*key).to_string(), recipe.value_of(key)?));
        Ok(keys.iter().filter_map(value).collect())
    }

    /// Trains each trial as far as it should go, and returns the board; `None` if a signal stopped the search first.
    ///
    /// A trial that diverges or does not fit into memory is out; the next best advances in its place.
    ///
    /// # Errors
    /// [`JobError::Resume`] if the folder holds another search; other errors of training.
    pub fn run(
        &self,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&TuneEvent),
    ) -> Result<Option<Board>> {
        let mut board = self.open()?;
        let mut waits_at = None;
        let mut waiting = Waiting::new(self.stalled_after);
        while let Some((rung, chosen)) = board.next_rung(&self.ladder) {
            let Some(claimed) = self.pass(rung, &chosen, &mut board, stop, progress)? else {
                return Ok(None);
            };
            if board.is_done(rung, &chosen) {
                continue;
            }
            if waits_at.replace(rung) != Some(rung) {
                progress(&TuneEvent::Waiting);
            }
            let folder_of = |(number, repeat)| self.folder_of_run(number, repeat);
            for event in waiting.look(claimed, folder_of) {
                progress(&event);
            }
            std::thread::sleep(NAP);
        }
        for number in 0..board.trials.len() {
            board.trials[number].best = self.best_of(&board.trials[number])?;
        }
        Ok(Some(board))
    }

    /// The board of a search that was stopped, as the files of its trials have it; models are not looked at.
    ///
    /// # Errors
    /// [`JobError::Damaged`] if a file cannot be used.
    pub fn standing(&self) -> Result<Board> {
        let mut board = Board::new(self.trials.to_vec(), self.ladder.repeats());
        for (number, repeat) in self.runs_of(0..self.trials.len()) {
            board.read(&self.folder_of_run(number, repeat), number, repeat)?;
        }
        Ok(board)
    }

    /// Goes once over the runs of a rung's trials and trains those that no other process has claimed. Returns those that
    /// others have, or `None` if stopped.
    fn pass(
        &self,
        rung: usize,
        chosen: &[usize],
        board: &mut Board,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&TuneEvent),
    ) -> Result<Option<Vec<Claimed>>> {
        let mut claimed = Vec::new();
        for (number, repeat) in self.runs_of(chosen.iter().copied()) {
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let folder = self.folder_of_run(number, repeat);
            if board.read(&folder, number, repeat)?.is_done(rung) {
                continue;
            }
            // Only the process that holds this lock trains the run and writes its file.
            let claim = match FolderLock::take(&folder.join("claim")) {
                Err(JobError::Locked { holder, .. }) => {
                    claimed.push(((number, repeat), holder));
                    continue;
                }
                claim => claim?,
            };
            // Another process may have finished it before this one got the lock.
            if board.read(&folder, number, repeat)?.is_done(rung) {
                continue;
            }
            let run = board.run(number, repeat).clone();
            let run = self.advance(run, rung, stop, progress)?;
            board.keep(&folder, run)?;
            drop(claim);
            if !board.run(number, repeat).is_done(rung) {
                return Ok(None);
            }
            progress(&TuneEvent::Halted(board.run(number, repeat)));
        }
        Ok(Some(claimed))
    }

    /// Trains a run of a trial up to a rung, or until asked to stop.
    fn advance(
        &self,
        mut trial: Trial,
        rung: usize,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&TuneEvent),
    ) -> Result<Trial> {
        let (recipe, halts) = self.plan_of(&trial)?;
        let until = halts[rung];
        progress(&TuneEvent::Trial {
            trial: &trial,
            until,
        });
        let folder = self.folder_of_run(trial.number, trial.repeat);
        let halt = AtomicBool::new(false);
        let started = Instant::now();
        let mut tell = |event: &TrainEvent| {
            progress(&TuneEvent::Train(event));
            let there = matches!(event, TrainEvent::Validated { step, .. } if *step >= until);
            if there || stop.load(Ordering::Relaxed) {
                halt.store(true, Ordering::Relaxed);
            }
        };
        let metrics = RunDir::metrics_of(&folder);
        // Nothing is left to train if an earlier process was killed after the validation at the rung but before writing
        // the trial's file.
        if score_at(&metrics, until)?.is_none() {
            let mut team = Team::solo().within(self.memory_bytes);
            let report = train_together(&recipe, self.store, &folder, &mut tell, &halt, &mut team);
            trial.seconds += started.elapsed().as_secs_f64();
            match report {
                // Stopped before the validation at the rung; after it, the trial counts.
                Ok(_) if stop.load(Ordering::Relaxed) && score_at(&metrics, until)?.is_none() => {
                    return Ok(trial);
                }
                Ok(_) => {}
                Err(error) if is_out(&error) => {
                    trial.failed = Some(error.to_string());
                    return Ok(trial);
                }
                Err(error) => return Err(error),
            }
        }
        let Some(scores) = score_at(&metrics, until)? else {
            let reason = format!("there is no validation of step {until}");
            return Err(JobError::damaged(metrics, reason));
        };
        if scores.loss().is_finite() && scores.score().is_finite() {
            // Trials of earlier versions lack these for rungs already passed.
            trial.skipped.resize(trial.scores.len(), 0);
            trial.skipped.push(skipped_until(&metrics, until, &recipe)?);
            trial.empty.resize(trial.scores.len(), false);
            trial.empty.push(scores.finds_nothing());
            trial.scores.push(scores.score());
            trial.steps = until;
            trial.score_name = scores.score_name().to_string();
        } else {
            trial.failed = Some(format!(
                "diverged: loss or score of the validation of step {until} is not finite"
            ));
        }
        Ok(trial)
    }

    /// Step and score of the model that a trial keeps: its newest validation that improved on all earlier ones.
    fn best_of(&self, trial: &Trial) -> Result<Option<BestModel>> {
        if trial.score().is_none() {
            return Ok(None);
        }
        let metrics = read_metrics(&RunDir::metrics_of(&self.folder_of(trial.number)))?;
        Ok(metrics.iter().rev().find_map(|metric| match metric {
            Metric::Validation {
                step,
                scores,
                best: true,
            } if *step <= trial.steps => Some(BestModel {
                step: *step,
                score: scores.score(),
            }),
            _ => None,
        }))
    }

    /// Waits until no other process is training a trial, but at most this long.
    ///
    /// When ranks are asked to stop, the launcher kills all of them as soon as the first one exits, even if others are
    /// still saving.
    pub fn let_others_save(&self, patience: Duration) {
        let until = Instant::now() + patience;
        let is_free = |&(number, repeat): &(usize, usize)| {
            let claim = self.folder_of_run(number, repeat).join("claim");
            !claim.exists() || FolderLock::take(&claim).is_ok()
        };
        let runs = self.runs_of(0..self.trials.len());
        while !runs.iter().all(is_free) && Instant::now() < until {
            std::thread::sleep(NAP / 5);
        }
    }

    /// The runs of these trials: number and repeat of each.
    fn runs_of(&self, trials: impl Iterator<Item = usize>) -> Vec<(usize, usize)> {
        let repeats = self.ladder.repeats();
        let runs = |number| (0..repeats).map(move |repeat| (number, repeat));
        trials.flat_map(runs).collect()
    }

    /// The folder of a trial's run; with repeats, of the run with the recipe's own seed.
    #[must_use]
    pub fn folder_of(&self, trial: usize) -> PathBuf {
        self.folder_of_run(trial, 0)
    }

    /// The folder of one of a trial's repeats.
    fn folder_of_run(&self, trial: usize, repeat: usize) -> PathBuf {
        let name = match repeat {
            0 => format!("{trial:04}"),
            _ => format!("{trial:04}-repeat{repeat}"),
        };
        self.folder.join("trials").join(name)
    }

    /// The board as other processes and earlier calls left it; fails for a folder of another search.
    fn open(&self) -> Result<Board> {
        let drawn = Board::new(self.trials.to_vec(), self.ladder.repeats());
        // Checked before anything is written: the user must correct values that the recipe rejects.
        let (mut files, mut auto) = (BTreeSet::new(), false);
        for trial in &drawn.trials {
            let (recipe, _) = self.plan_of(trial)?;
            files.extend(files_of(&recipe));
            auto |= recipe.precision.compute == Precision::Auto;
        }
        let described = self.describe(&files, auto)?;
        let path = self.folder.join("search.json");
        let _lock = loop {
            match FolderLock::take(self.folder) {
                Err(JobError::Locked { .. }) => std::thread::sleep(NAP / 10),
                lock => break lock?,
            }
        };
        if path.exists() {
            let there = std::fs::read_to_string(&path).map_err(DataError::io("read", &path))?;
            let there = SearchDescription::parse(&path, &there)?;
            let changes = SearchDescription::parse(&path, &described)?.changes_of_result(&there)?;
            if !changes.is_empty() {
                return Err(JobError::Resume {
                    folder: self.folder.to_path_buf(),
                    reason: format!("it has another search ({})", changes.join("; ")),
                });
            }
        } else {
            atomic::write(&path, described.as_bytes())?;
        }
        Ok(drawn)
    }

    /// The text of `search.json`: all that determines the results of a search. `files` are those that its trials read;
    /// `auto` says whether a trial leaves its precision to the device.
    fn describe(&self, files: &BTreeSet<PathBuf>, auto: bool) -> Result<String> {
        let base = Recipe::named(self.recipe, self.overrides)?;
        let (dtype, _) = Precision::Auto.resolve(Backend::best());
        let boxes = self.store.boxes_hash();
        let document = serde_json::json!({
            "recipe": base.to_toml(),
            "data": self.store.data_hash(),
            "boxes": boxes.filter(|_| base.task == Task::Detect),
            "files": hashes_of(files),
            "auto": auto.then(|| format!("{dtype:?}").to_lowercase()),
            "trials": self.trials,
            "halts": self.ladder.rungs(),
            "keep_one_of": self.ladder.keep_one_of(),
            "repeats": self.ladder.repeats(),
        });
        crate::metrics::to_json(&document, &self.folder.join("search.json"))
    }
}

/// The error for a store whose validation samples cannot distinguish trials.
fn without_validation(recipe: &Recipe, store: &Store) -> JobError {
    let ids = store.ids(Split::Validation);
    let (what, how) = match recipe.task {
        Task::Segment => (
            "validation sample of the store has a mask",
            "stage it with --labels",
        ),
        // The samples are labelled, but no label contains a box.
        Task::Detect if ids.iter().any(|&id| store.boxes(id).is_some()) => (
            "sample of a validation holds a box",
            "stage it with another --seed or --block-days, or give more `training.validation_samples`",
        ),
        Task::Detect => (
            "validation sample of the store has boxes",
            "stage it with --boxes, or with a folder of labels that holds boxes.csv",
        ),
    };
    JobError::recipe(format!(
        "trials are compared by their validations, and no {what}: {how}"
    ))
}
