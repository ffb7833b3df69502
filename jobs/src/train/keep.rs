//! Saves the best model after a validation, the last model, and a checkpoint to resume from.

use super::evaluate::Scores;
use super::progress::{Best, TrainEvent};
use super::{Run, Team};
use crate::contract::Contract;
use crate::error::Result;
use crate::run_dir::RunDir;
use squall_model::ModelFile;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

impl Run<'_> {
    /// Scores the network, or its average if the recipe asks for one, and saves it if it is the best so far. Returns
    /// false if asked to stop meanwhile.
    pub(super) fn validate(
        &mut self,
        team: &mut Team,
        progress: &mut dyn FnMut(&TrainEvent),
        stop: &AtomicBool,
    ) -> Result<bool> {
        self.averaged(|run| run.validate_as_it_is(team, progress, stop))
    }

    /// Runs `with` on the averaged weights if the recipe asks for an average, and returns its result.
    fn averaged<T>(&mut self, with: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.learner.exchange_average()?;
        let answer = with(self);
        self.learner.exchange_average()?;
        answer
    }

    /// [`Self::validate`] with the current weights.
    fn validate_as_it_is(
        &mut self,
        team: &mut Team,
        progress: &mut dyn FnMut(&TrainEvent),
        stop: &AtomicBool,
    ) -> Result<bool> {
        let step = self.learner.progress.step;
        let Some(evaluator) = &self.evaluator else {
            self.validation_due = false;
            let written = self.write_last_as_best();
            return team.after_files(written).map(|()| true);
        };
        self.learner.give_back_memory()?;
        let scores = evaluator.run(&self.learner.network, stop, team)?;
        self.learner.give_back_memory()?;
        let Some(scores) = scores else {
            return Ok(false);
        };
        let judged = self.judge(step, scores, progress);
        team.after_files(judged)?;
        self.validation_due = false;
        Ok(true)
    }

    /// Saves the current network as the best model: without validation the last model is the best.
    pub(super) fn write_last_as_best(&self) -> Result<()> {
        self.learner.check_finite()?;
        self.write_model(RunDir::best, self.learner.progress.step, None)
    }

    /// Records the scores of the network after `step` steps, and saves it as the best model if they are the best so
    /// far.
    pub(super) fn judge(
        &mut self,
        step: u64,
        scores: Scores,
        progress: &mut dyn FnMut(&TrainEvent),
    ) -> Result<()> {
        self.learner.check_finite()?;
        // Without any true box there is no score; the last model then counts as the best.
        let scored = match &scores {
            Scores::Masks(_) | Scores::Both(_) => true,
            Scores::Boxes(boxes) => boxes.truths.iter().any(|&truths| truths > 0),
        };
        let better = |best: &Best| !scored || scores.score() > best.scores.score();
        let best = self.best.as_ref().is_none_or(better);
        if best {
            self.write_model(RunDir::best, step, Some(scores.score()))?;
            self.best = Some(Best {
                step,
                scores: scores.clone(),
            });
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.validation(step, &scores, best)?;
        }
        progress(&TrainEvent::Validated { step, scores, best });
        Ok(())
    }

    /// Writes the last model and the checkpoint, unless the network is not finite: then the earlier files stay. All ranks
    /// of `team` call it, and leave it once the files are written.
    pub(super) fn save(
        &mut self,
        team: &mut Team,
        progress: &mut dyn FnMut(&TrainEvent),
    ) -> Result<()> {
        // Pending steps are part of the state on every rank.
        self.learner.finish_exchange(team)?;
        let written = self.write_state(progress);
        team.after_files(written)
    }

    /// The part of [`Self::save`] in which ranks do not communicate.
    fn write_state(&mut self, progress: &mut dyn FnMut(&TrainEvent)) -> Result<()> {
        let step = self.learner.progress.step;
        self.learner.check_finite()?;
        if let Some(recorder) = &mut self.recorder {
            recorder.sync(step)?;
        }
        if self.run_dir.is_some() {
            self.averaged(|run| run.write_model(RunDir::last, step, None))?;
        }
        let Some(run_dir) = &self.run_dir else {
            return Ok(());
        };
        self.write_checkpoint(run_dir)?;
        let path = run_dir.checkpoint();
        progress(&TrainEvent::CheckpointSaved { step, path });
        Ok(())
    }

    /// Writes the current network as a model file, on the first rank.
    fn write_model(
        &self,
        path: fn(&RunDir) -> PathBuf,
        step: u64,
        score: Option<f64>,
    ) -> Result<()> {
        let Some(run_dir) = &self.run_dir else {
            return Ok(());
        };
        let contract = Contract {
            step,
            score,
            ..self.contract.clone()
        };
        let mut facts = ModelFile::default();
        contract.put(&mut facts)?;
        let mut contents = self.learner.network.parameters().lend();
        contents.take(facts);
        contents.write(&path(run_dir))?;
        Ok(())
    }
}
