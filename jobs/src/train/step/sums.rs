//! Sums over the batches of a step, on this rank and over all ranks: loss, statistics, gradients.

use super::{Learner, PendingStep, StepSums};
use crate::error::Result;
use crate::train::objective::BatchLoss;
use crate::train::team::{Signals, Team};
use crate::train::timeline::StepPhase;
use squall_model::Parameters;
use std::time::Instant;

/// Number of values that describe a step's loss.
const LOSS_FACTS: usize = 3;

/// Number of values beside the gradients that each rank sends in a step: of its loss, batch statistics, signals.
pub(crate) fn facts_of_step(parameters: &Parameters) -> usize {
    LOSS_FACTS + parameters.statistics_count() + Signals::FACTS
}

impl Learner {
    /// Ends a step's backward pass: submits the loss and the batch statistics to the exchange, whose sums arrive in
    /// [`Self::receive`]; a single rank has them already.
    pub(super) fn hand_over(
        &self,
        pending: &mut PendingStep,
        loss: BatchLoss,
        team: &mut Team,
    ) -> Result<()> {
        let not_finite = !loss.is_finite();
        if team.size() > 1 {
            let facts: [f32; LOSS_FACTS] = [
                loss.divisor.unwrap_or(0.0) as f32,
                loss.weighted_sum as f32,
                f32::from(u8::from(not_finite)),
            ];
            let statistics = &pending.statistics.values;
            return team.submit_facts([&facts, &statistics[..]].concat());
        }
        let sums = match self.accumulate {
            1 => StepSums {
                loss: loss.value,
                factor: 1.0,
                ..StepSums::default()
            },
            _ => self.sums_of(
                loss.weighted_sum,
                loss.divisor.unwrap_or(0.0),
                pending.count,
            ),
        };
        pending.sums = Some(StepSums {
            not_finite: usize::from(not_finite),
            ..sums
        });
        if self.lag > 0 {
            pending.gradients = Some(self.gradients.as_slice().into_owned());
        }
        Ok(())
    }

    /// Waits until the gradients of a step are exchanged and moves them into the learner's buffer.
    pub(super) fn receive(
        &mut self,
        pending: &mut PendingStep,
        team: &mut Team,
    ) -> Result<StepSums> {
        if let Some(gradients) = pending.gradients.take() {
            self.gradients.put(&(0..gradients.len()), gradients)?;
        }
        if let Some(sums) = pending.sums {
            return Ok(sums);
        }
        let began = Instant::now();
        let (mut facts, signals) = team.collect(&mut self.gradients)?;
        team.timeline.note(StepPhase::Exchange, began);
        let ranks = team.size() as f32;
        let statistics = facts.split_off(LOSS_FACTS.min(facts.len()));
        pending.statistics.values = statistics.into_iter().map(|v| v / ranks).collect();
        let [divisor, weighted, not_finite] = facts[..] else {
            unreachable!("as many facts as were sent")
        };
        let sums = self.sums_of(weighted.into(), divisor.into(), pending.count);
        let sums = StepSums {
            // Gradients arrive averaged over ranks.
            factor: f64::from(ranks) * sums.factor,
            not_finite: not_finite.round() as usize,
            signals,
            ..sums
        };
        pending.sums = Some(sums);
        Ok(sums)
    }

    /// Returns the loss of a step from the sums over its batches, and the factor to apply to the sum of their
    /// gradients, each of which was divided by `count`.
    fn sums_of(&self, weighted_sum: f64, divisor: f64, count: f64) -> StepSums {
        let mean = self.objective.is_mean();
        StepSums {
            loss: match mean {
                true => weighted_sum / divisor.max(f64::MIN_POSITIVE),
                false => weighted_sum * self.objective.constant_factor(),
            },
            factor: match mean {
                true if divisor > 0.0 => count / divisor,
                true => 0.0,
                false => 1.0,
            },
            ..StepSums::default()
        }
    }

    /// Waits for the exchange of all pending steps, so that they can be saved.
    pub(in crate::train) fn finish_exchange(&mut self, team: &mut Team) -> Result<()> {
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
}
