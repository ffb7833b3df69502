//! One training step: forward, loss, backward, exchange between ranks, update.

use super::feed::Batch;
use super::groups::Contribution;
use super::objective::{LossInput, Objective};
use super::team::{Signals, Team};
use super::trace::Work;
use crate::comm::Wire;
use crate::error::{JobError, Result};
use crate::recipe::{Distributed, Recipe};
use candle_core::DType;
use rand::Rng;
use rayon::prelude::*;
use squall_data::HostBatch;
use squall_data::random::stream;
use squall_model::gpu::allow_tf32;
use squall_model::optim::{LossScale, Mirror, Optimizer, Schedule, Update};
use squall_model::{Backend, Gradients, ModelError, Network, NetworkConfig, Pass, Storage};
use std::collections::VecDeque;
use std::time::Instant;

mod launches;
mod numbers;
mod pending;

use launches::Launches;
pub(super) use pending::{PendingStep, StepSums};

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepResult {
    /// The recipe's loss before the update.
    pub loss: f64,
    /// Norm of the gradient before clipping; NaN if the loss was no number.
    pub gradient_norm: f64,
    /// Learning rate.
    pub learning_rate: f32,
    /// Whether the parameters were left as they were.
    pub skipped: bool,
}

/// A network with everything that changes it.
#[derive(Debug)]
pub struct Learner {
    pub(super) network: Network,
    pub(super) optimizer: Optimizer,
    gradients: Gradients,
    schedule: Schedule,
    objective: Objective,
    pub(super) loss_scale: LossScale,
    pub(super) storage: Storage,
    /// The kernels that training multiplies by, if the optimiser rounds them.
    copies: Option<Mirror>,
    seed: u64,
    total_steps: u64,
    /// Steps in a row that may be skipped.
    max_skipped: u32,
    pub(super) progress: LearnerProgress,
    /// Whether a step has changed the parameters, so that the scale of the loss is found.
    found_scale: bool,
    /// Why the loss of the last step was no number, if it was none.
    loss_fault: Option<String>,
    without_gradient: WithoutGradient,
    /// Steps between a gradient and its use.
    lag: usize,
    /// Gradients that wait for their use, the oldest first.
    pub(super) pending_steps: VecDeque<PendingStep>,
    launches: Launches,
}

/// Which parameters the first backward pass did not reach.
#[derive(Debug)]
enum WithoutGradient {
    /// No step has been taken yet.
    Unknown,
    /// These, not yet told.
    Found(Vec<String>),
    /// None, or told.
    Settled,
}

/// What a learner counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct LearnerProgress {
    /// Steps done.
    pub step: u64,
    /// Steps skipped in a row, up to now.
    pub skipped_in_row: u32,
    /// Steps skipped in all.
    pub skipped: u64,
}

impl Learner {
    /// An untrained network of a recipe, one of `ranks`.
    ///
    /// # Errors
    /// [`JobError::Model`] naming the key that cannot be.
    pub(super) fn new(
        recipe: &Recipe,
        network: &NetworkConfig,
        objective: Objective,
        total_steps: u64,
        ranks: usize,
    ) -> Result<Self> {
        let backend = Backend::best();
        let (dtype, note) = recipe.precision.resolve(backend);
        if let Some(note) = note {
            tracing::info!("{note}");
        }
        let network = Network::build(network, backend, recipe.seed)?;
        let policy = &recipe.precision;
        allow_tf32(policy.tf32);
        let (recompute, saved) = (recipe.training.recompute, recipe.training.saved_activations);
        let storage = policy.storage(network.parameters(), dtype)?;
        let storage = storage.keeping(recompute, saved);
        let copies = policy.copies(network.parameters(), dtype, recipe.seed);
        let loss_scale = policy.loss_scale(dtype);
        let mut schedule = recipe.schedule.clone();
        let batches = recipe.distributed.batches(recipe.training.batch, ranks);
        schedule.rate *= recipe.distributed.rate_scaling.factor(batches);
        let obstacle = match () {
            () if !backend.is_gpu() => Some("the CPU computes"),
            () if ranks > 1 => Some("gradients go to other ranks while they are computed"),
            () if recipe.distributed.gradient_lag > 0 => Some("gradients wait on the host"),
            () if copies.is_some() => Some("kernels are rounded anew, elsewhere, after every step"),
            () => None,
        };
        Ok(Self {
            optimizer: Optimizer::new(&recipe.optimiser, network.parameters())?,
            gradients: Gradients::new(network.parameters()),
            schedule,
            objective,
            loss_scale: LossScale::new(loss_scale)?,
            storage,
            copies,
            seed: recipe.seed,
            total_steps,
            max_skipped: if dtype == DType::F32 && !loss_scale.is_dynamic() {
                0
            } else {
                recipe.training.max_skipped_steps
            },
            progress: LearnerProgress::default(),
            found_scale: false,
            loss_fault: None,
            without_gradient: WithoutGradient::Unknown,
            lag: recipe.distributed.gradient_lag,
            pending_steps: VecDeque::new(),
            launches: Launches::new(recipe.training.cuda_graphs, obstacle),
            network,
        })
    }

    /// Prepares the exchange of gradients with the other ranks of a team.
    pub(super) fn join(&mut self, options: &Distributed, team: &mut Team) -> Result<()> {
        let parameters = self.network.parameters();
        if options.wire == Wire::F16 && self.loss_scale.scale() == 1.0 && team.is_first() {
            tracing::warn!(
                "`distributed.wire` is f16 and the loss is not scaled: of gradients below 6e-5 digits are lost, and those below 3e-8 become zero; expected \"bf16\", or `precision.loss_scale`"
            );
        }
        let statistics: usize = parameters.buffers().iter().map(|b| b.values.len()).sum();
        let facts = FACTS + statistics + Signals::FACTS;
        team.begin(options, parameters, &mut self.gradients, facts)
    }

    /// One training step on a batch, together with the other ranks of a team.
    ///
    /// With a lag, what it tells is of the gradients that it used, those of an earlier step; the first steps use none.
    /// A loss or gradient that is no number on any rank leaves parameters and optimiser as they were on all.
    ///
    /// # Errors
    /// [`JobError::Diverged`] after more such steps in a row than allowed, naming the first tensor that is no number;
    /// [`JobError::Model`]; [`JobError::Comm`].
    pub fn step(&mut self, batch: &Batch, team: &mut Team) -> Result<StepResult> {
        let pending = self.forward_backward(batch, team)?;
        self.pending_steps.push_back(pending);
        if self.pending_steps.len() <= self.lag {
            self.progress.step += 1;
            return Ok(StepResult {
                loss: f64::NAN,
                gradient_norm: f64::NAN,
                learning_rate: 0.0,
                skipped: true,
            });
        }
        let Some(oldest) = self.pending_steps.pop_front() else {
            unreachable!("one was just added")
        };
        self.apply_gradients(oldest, batch, team)
    }

    /// Counts on from where a run was left.
    pub(super) fn go_on_from(&mut self, progress: LearnerProgress) {
        // With a lag the first steps have no gradient.
        self.found_scale = progress.skipped + (self.lag as u64) < progress.step;
        self.progress = progress;
    }

    /// The scale of the loss is looked for anew, by a group that goes on: others have done the steps before.
    pub(super) fn find_scale_anew(&mut self) {
        self.found_scale = false;
    }

    /// How many f32 values would take the memory of the kernels that the optimiser rounds: one and a half of each
    /// parameter.
    pub(super) fn copied_values(&self) -> usize {
        self.copies
            .as_ref()
            .map_or(0, |copies| 3 * copies.as_slice().len() / 2)
    }

    /// Rounds the kernels that training multiplies by as the last update did, or would have: before the first step of a
    /// run or of a part of it.
    pub(super) fn round_kernels(&mut self) -> Result<()> {
        let Some(copies) = &mut self.copies else {
            return Ok(());
        };
        let parameters = self.network.parameters_mut();
        self.optimizer.fill_mirror(parameters, copies)?;
        Ok(parameters.compute_with(copies, &self.storage)?)
    }

    /// Between steps and other work: passes that are launched as a whole have memory of their own, which other work
    /// cannot use, nor they what that leaves.
    pub(super) fn give_back_memory(&self) -> Result<()> {
        if self.launches.are_written() {
            self.network.backend().give_back_memory()?;
        }
        Ok(())
    }

    /// Forward and backward pass of a batch; gradients go to the other ranks while the backward pass runs.
    fn forward_backward(&mut self, batch: &Batch, team: &mut Team) -> Result<PendingStep> {
        let step = self.progress.step;
        let backend = self.network.backend();
        // Ranks drop different values of different samples.
        let place: &[u64] = match team.rank() {
            0 => &[step],
            rank => &[step, rank as u64],
        };
        let key = stream(self.seed, "dropout", place).random();
        let began = Instant::now();
        let scale = self.loss_scale.scale();
        let x = batch.tensor()?;
        let captured = (self.launches).of(&self.network, &x, &self.storage, &mut self.gradients)?;
        let mut pass = Pass::train(backend, &self.storage, key)
            .normalising(team.norm_ranks().cloned())
            .launching(captured);
        let input = LossInput {
            x: &x,
            batch: &batch.host,
            scale,
            several_ranks: team.size() > 1,
            progress: step as f64 / self.total_steps.max(1) as f64,
        };
        let output = self.objective.loss(&self.network, input, &mut pass)?;
        drop(x);
        let began = team.trace.note(Work::Forward, began);
        let finite = output.weighted_sum.is_finite();
        let mut pending = PendingStep {
            step,
            scale,
            count: output.count,
            sums: None,
            gradients: None,
            statistics: pass.batch_statistics()?,
            fault: None,
            bad_field: None,
        };
        if !finite {
            pending.fault = Some(self.why_the_loss(&batch.host)?);
        }
        if self.lag > 0 {
            // This batch is gone when its gradients are used.
            pending.bad_field = bad_field(&batch.host);
        }
        let (value, weighted_sum, divisor) = (output.value, output.weighted_sum, output.divisor);
        self.gradients.clear();
        team.set_step(step);
        if finite || team.size() > 1 {
            // The others wait for this rank's gradients, whatever they are.
            output.backward(&self.network, pass, &mut self.gradients)?;
        }
        team.dawdle();
        team.trace.note(Work::Backward, began);
        if team.size() > 1 {
            let facts = [
                divisor.unwrap_or(0.0) as f32,
                weighted_sum as f32,
                f32::from(u8::from(!finite)),
            ];
            let statistics = &pending.statistics.values;
            team.submit_facts([&facts, &statistics[..]].concat())?;
            return Ok(pending);
        }
        pending.sums = Some(StepSums {
            loss: value,
            factor: 1.0,
            not_finite: usize::from(!finite),
            signals: Signals::default(),
        });
        if self.lag > 0 {
            pending.gradients = Some(self.gradients.as_slice().into_owned());
        }
        Ok(pending)
    }

    /// Waits until the gradients of a step are exchanged and puts them into the learner's buffer.
    fn receive(&mut self, pending: &mut PendingStep, team: &mut Team) -> Result<StepSums> {
        if let Some(gradients) = pending.gradients.take() {
            self.gradients.put(&(0..gradients.len()), gradients)?;
        }
        if let Some(sums) = pending.sums {
            return Ok(sums);
        }
        let began = Instant::now();
        let (mut facts, signals) = team.collect(&mut self.gradients)?;
        team.trace.note(Work::Exchange, began);
        let ranks = team.size() as f32;
        let statistics = facts.split_off(FACTS.min(facts.len()));
        pending.statistics.values = statistics.into_iter().map(|v| v / ranks).collect();
        let [divisor, weighted, not_finite] = facts[..] else {
            unreachable!("as many facts as were sent")
        };
        let (divisor, count) = (f64::from(divisor), pending.count);
        let mean = self.objective.is_mean();
        let sums = StepSums {
            loss: match mean {
                true => f64::from(weighted) / divisor.max(f64::MIN_POSITIVE),
                false => f64::from(weighted) * self.objective.constant_factor(),
            },
            // Gradients came as averages over ranks.
            factor: f64::from(ranks)
                * match mean {
                    true if divisor > 0.0 => count / divisor,
                    true => 0.0,
                    false => 1.0,
                },
            not_finite: not_finite.round() as usize,
            signals,
        };
        pending.sums = Some(sums);
        Ok(sums)
    }

    /// Waits for the exchange of all pending steps, so that they can be saved.
    pub(super) fn finish_exchange(&mut self, team: &mut Team) -> Result<()> {
        let mut all = std::mem::take(&mut self.pending_steps);
        for pending in &mut all {
            if pending.sums.is_none() {
                self.receive(pending, team)?;
                pending.gradients = Some(self.gradients.as_slice().into_owned());
            }
        }
        self.pending_steps = all;
        Ok(())
    }

    /// Waits for the exchange of a step's gradients and hands them to the optimiser, unless they or the loss are not
    /// finite.
    fn apply_gradients(
        &mut self,
        mut pending: PendingStep,
        batch: &Batch,
        team: &mut Team,
    ) -> Result<StepResult> {
        let learning_rate = self.schedule.rate(pending.step, self.total_steps);
        let sums = self.receive(&mut pending, team)?;
        // Known on all ranks at the same step, however early one of them received it.
        team.heard(sums.signals);
        let mut result = StepResult {
            loss: sums.loss,
            gradient_norm: f64::NAN,
            learning_rate,
            skipped: true,
        };
        let fault = if sums.not_finite == 0 {
            match self.update(&pending, sums, learning_rate, team)? {
                Ok(norm) => {
                    (result.gradient_norm, result.skipped) = (norm, false);
                    // Where no pixel counts, no parameter has a gradient, and rightly so.
                    if sums.loss != 0.0 {
                        self.find_without_gradient();
                    }
                    None
                }
                // A field that is no number can hide behind a ReLU and show in the gradient only. Gradients are the
                // same on all ranks, so all come here.
                Err(error @ ModelError::NotFinite { .. }) => {
                    let field = match self.lag {
                        0 => bad_field(&batch.host),
                        _ => pending.bad_field,
                    };
                    let field = team.first_to_say(field)?;
                    let field = field.map(|field| format!(", and {field}"));
                    Some(("gradient", format!("{error}{}", field.unwrap_or_default())))
                }
                Err(other) => return Err(other.into()),
            }
        } else {
            // All ranks know of it in the same step, and all say why before any of them ends the job.
            let why = team.first_to_say(pending.fault)?;
            let many = match team.size() {
                1 => String::new(),
                ranks => format!("on {} of {ranks} ranks: ", sums.not_finite),
            };
            let why = why.unwrap_or_else(|| "it does not say why".into());
            Some(("loss", format!("{many}{why}")))
        };
        self.count(fault)?;
        Ok(result)
    }

    /// Hands gradients to the optimiser, here or on the servers, and takes up what follows from it; gives their norm, or
    /// why the optimiser took no step.
    fn update(
        &mut self,
        pending: &PendingStep,
        sums: StepSums,
        rate: f32,
        team: &mut Team,
    ) -> Result<std::result::Result<f64, ModelError>> {
        let began = Instant::now();
        let update = Update {
            gradient_scale: (sums.factor / f64::from(pending.scale)) as f32,
            mirror: self.copies.as_mut(),
            rate,
        };
        if team.link.is_some() {
            // The servers' statistics may come with their parameters and stand in place of these.
            self.network.blend_statistics(&pending.statistics);
        }
        let parameters = self.network.parameters_mut();
        let answer = match &mut team.link {
            None => self.optimizer.update(parameters, &self.gradients, update),
            Some(servers) => {
                let given = Contribution {
                    step: pending.step,
                    gradients: &self.gradients,
                    update,
                    loss: sums.loss,
                    statistics: &pending.statistics.values,
                };
                servers.update(parameters, given)?
            }
        };
        self.loss_scale.record(answer.is_ok());
        let work = match team.link {
            None => Work::Update,
            Some(_) => Work::Exchange,
        };
        team.trace.note(work, began);
        if answer.is_ok() {
            if team.link.is_none() {
                self.network.blend_statistics(&pending.statistics);
            }
            if let Some(copies) = &self.copies {
                let parameters = self.network.parameters_mut();
                parameters.compute_with(copies, &self.storage)?;
            }
        }
        Ok(answer)
    }

    /// The parameters that the first backward pass did not reach, once.
    ///
    /// It is told and not an error: a branch whose activations all start below zero has no gradient either, and may get
    /// one later; what is missing from the network's backward pass shows at the first step of any run.
    pub(super) fn take_without_gradient(&mut self) -> Option<Vec<String>> {
        let found = matches!(self.without_gradient, WithoutGradient::Found(_));
        let told =
            found.then(|| std::mem::replace(&mut self.without_gradient, WithoutGradient::Settled));
        match told {
            Some(WithoutGradient::Found(names)) => Some(names),
            _ => None,
        }
    }

    fn find_without_gradient(&mut self) {
        if !matches!(self.without_gradient, WithoutGradient::Unknown) {
            return;
        }
        let zero = self.gradients.all_zero(self.network.parameters());
        let names: Vec<String> = zero.iter().map(|p| p.name.clone()).collect();
        self.without_gradient = if names.is_empty() {
            WithoutGradient::Settled
        } else {
            tracing::warn!(
                "the gradient of {} is exactly zero after the first step: nothing is learnt there",
                names.join(", ")
            );
            WithoutGradient::Found(names)
        };
    }

    /// The first tensor that explains a loss which is no number.
    fn why_the_loss(&self, batch: &HostBatch) -> Result<String> {
        if let Some(parameter) = self.network.parameters().first_not_finite()? {
            return Ok(format!(
                "parameter `{}` holds what is no number",
                parameter.name
            ));
        }
        Ok(bad_field(batch).unwrap_or_else(|| {
            "all parameters and fields are numbers: an activation overflowed".to_string()
        }))
    }

    fn count(&mut self, fault: Option<(&str, String)>) -> Result<()> {
        let progress = &mut self.progress;
        self.loss_fault = match &fault {
            Some(("loss", why)) => Some(why.clone()),
            _ => None,
        };
        if let Some((what, why)) = fault {
            progress.skipped_in_row += 1;
            progress.skipped += 1;
            tracing::warn!(
                step = progress.step + 1,
                "the {what} is no number: step skipped ({why})"
            );
            // Before the first good step overflows are how the scale of the loss is found.
            let searching = !self.found_scale && what == "gradient" && self.loss_scale.can_fall();
            if progress.skipped_in_row > self.max_skipped && !searching {
                return Err(JobError::Diverged {
                    step: progress.step,
                    reason: format!(
                        "the {what} was no number in {} steps in a row ({why})",
                        progress.skipped_in_row
                    ),
                });
            }
        } else {
            progress.skipped_in_row = 0;
            self.found_scale = true;
        }
        progress.step += 1;
        Ok(())
    }
}

/// Numbers that ranks exchange beside gradients and batch statistics.
const FACTS: usize = 3;

/// The first value of a batch that is no number, in words.
fn bad_field(batch: &HostBatch) -> Option<String> {
    let (at, value) = match &batch.stored {
        None => {
            let at = first_where(&batch.x, |x| !x.is_finite())?;
            (at, batch.x[at])
        }
        // What is missing there is replaced on the GPU.
        Some(stored) => {
            let values = batch.shape.iter().product::<usize>().max(1);
            if stored.bytes.len() / values == 2 {
                let (words, _) = stored.bytes.as_chunks();
                let value = |word: &[u8; 2]| half::f16::from_le_bytes(*word);
                let at = first_where(words, |word| value(word).is_infinite())?;
                (at, value(&words[at]).to_f32())
            } else {
                let (words, _) = stored.bytes.as_chunks();
                let value = |word: &[u8; 4]| f32::from_le_bytes(*word);
                let at = first_where(words, |word| value(word).is_infinite())?;
                (at, value(&words[at]))
            }
        }
    };
    Some(format!("value {at} of the batch's fields is {value}"))
}

/// The place of the first value that is `bad`, looked for on all threads: with a lag every batch is looked through.
fn first_where<T: Sync>(values: &[T], bad: impl Fn(&T) -> bool + Sync) -> Option<usize> {
    const PART: usize = 1 << 16;
    let part = (values.par_chunks(PART)).position_first(|part| part.iter().any(&bad))?;
    let inside = values[part * PART..].iter().position(&bad)?;
    Some(part * PART + inside)
}

#[cfg(test)]
mod tests;
