//! The ranks of a group: they compute gradients for the steps assigned by the first server.

use super::standing::Standing;
use crate::error::{JobError, Result};
use crate::train::feed::Feed;
use crate::train::timeline::StepPhase;
use crate::train::{Outcome, Run, Team, TrainReport};
use squall_data::sampler::BatchPlan;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Instant;

/// Works until there are no more steps; returns how the run ended.
pub(super) fn work(
    mut run: Run<'_>,
    team: &mut Team,
    folder: &Path,
    stop: &AtomicBool,
) -> Result<TrainReport> {
    let start = Instant::now();
    team.begin_timeline(run.recipe.training.trace_steps);
    team.link()?.begin(run.learner.network.parameters())?;
    // Dropped after `feed`, which its threads wait for.
    let mut loader;
    let (feed, queue) = channel();
    let backend = run.learner.network.backend();
    loader = Feed::new(run.store, queue.into_iter(), &run.loader, backend)?;
    let mut steps = VecDeque::new();
    let (mut own, mut last_loss) = (0, None);
    loop {
        let orders = team.link()?.orders();
        if orders.validates() {
            run.validate_for_servers(team, stop)?;
        }
        if orders.stops() {
            break;
        }
        for step in orders.new_steps() {
            run.order_batch(step, &feed);
            steps.push_back(step);
        }
        let Some(step) = steps.pop_front() else {
            break;
        };
        let before = Instant::now();
        let batch = loader.next().ok_or(JobError::Thread("loader"))??;
        team.timeline.note(StepPhase::Input, before);
        // Any rank of the group may have been asked; its leader informs the servers.
        team.ask_to_stop(stop.load(Ordering::Relaxed));
        let stopping = team.is_to_stop();
        team.link()?.note_stop(stopping);
        run.learner.progress.step = step;
        let result = run.learner.step(&batch, team)?;
        loader.give_back(batch);
        if result.skipped {
            let parameters = run.learner.network.parameters_mut();
            team.link()?.skip(parameters, step, &result)?;
        }
        last_loss = Some(result.loss);
        team.timeline.step(folder)?;
        own += 1;
        if own % run.recipe.distributed.check_every_steps == 0 {
            let parameters = run.learner.network.parameters();
            team.check_parameters(parameters)?;
        }
    }
    team.timeline.end(folder)?;
    let spent = team.timeline.spent;
    let all = team.gather(bytemuck::bytes_of(&spent))?;
    let mut missing = [loader.missing_values()];
    team.sum_counts(&mut missing)?;
    let parameters = run.learner.network.parameters_mut();
    let link = team.link()?;
    let (ending, validate) = link.leave(&all, missing[0], parameters)?;
    // If asked to stop, it leaves the last state unscored and the run unfinished.
    let complete = !validate || run.validate_for_servers(team, stop)?;
    team.link()?.heartbeats.end();
    let report = ending.report(folder, start, last_loss, missing[0]);
    Ok(TrainReport {
        spent,
        outcome: match complete {
            true => report.outcome,
            false => Outcome::Interrupted,
        },
        ..report
    })
}

impl Run<'_> {
    /// Restores what this group had read when the checkpoint was taken.
    pub(super) fn restore_view(
        &mut self,
        standing: &Standing,
        group: usize,
        team: &mut Team,
    ) -> Result<()> {
        let parameters = self.learner.network.parameters_mut();
        let view = &standing.views[group];
        parameters.update_all(|values| values.copy_from_slice(view))?;
        if let Some(running) = standing.running_of(group) {
            parameters.set_buffers(running)?;
        }
        let versions = standing.servers.iter().map(|server| server.views[group]);
        team.link()?.has_seen(versions.collect());
        Ok(())
    }

    /// Orders the batch of a step from the loader.
    fn order_batch(&self, step: u64, feed: &Sender<BatchPlan>) {
        let mut plans = self.samples.starting_at(step);
        // A loader that has ended reports it on the next request.
        let _ = plans.next().map(|plan| feed.send(plan));
    }

    /// Scores the current network for the first server; false if asked to stop meanwhile.
    fn validate_for_servers(&self, team: &mut Team, stop: &AtomicBool) -> Result<bool> {
        let scores = match &self.evaluator {
            Some(evaluator) => evaluator.run(&self.learner.network, stop, team)?,
            None => None,
        };
        let parameters = self.learner.network.parameters();
        team.link()?.send_scores(scores.as_ref(), parameters)?;
        Ok(scores.is_some())
    }
}
