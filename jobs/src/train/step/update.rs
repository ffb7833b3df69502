//! Applies the gradients of a step, or handles non-finite ones.

use super::fault::bad_field;
use super::{Learner, PendingStep, StepResult, StepSums};
use crate::error::Result;
use crate::train::feed::Batch;
use crate::train::groups::Contribution;
use crate::train::team::Team;
use crate::train::timeline::StepPhase;
use squall_model::ModelError;
use squall_model::optim::Update;
use std::time::Instant;

impl Learner {
    /// Waits for the exchange of a step's gradients and passes them to the optimiser, unless they or the loss are not
    /// finite.
    pub(super) fn apply_gradients(
        &mut self,
        mut pending: PendingStep,
        batch: &Batch,
        team: &mut Team,
    ) -> Result<StepResult> {
        let learning_rate = self.schedule.rate(pending.step, self.total_steps);
        let sums = self.receive(&mut pending, team)?;
        // All ranks note the signals at the same step, however early one of them received them.
        team.note_signals(sums.signals);
        let mut result = StepResult {
            loss: sums.loss,
            gradient_norm: f64::NAN,
            learning_rate,
            skipped: true,
        };
        let scale_could_fall = self.loss_scale.can_fall();
        let mut lowers_scale = false;
        let fault = if sums.not_finite == 0 {
            match self.update(&pending, sums, learning_rate, team)? {
                Ok(norm) => {
                    (result.gradient_norm, result.skipped) = (norm, false);
                    // If no pixel counts, all gradients are legitimately zero.
                    if sums.loss != 0.0 {
                        self.find_without_gradient();
                    }
                    None
                }
                // A non-finite field can hide behind a ReLU and show only in the gradient. Gradients are identical on
                // all ranks, so all ranks take this branch.
                Err(error @ ModelError::NotFinite { .. }) => {
                    let field = match self.lag {
                        0 => pending.bad_field.or_else(|| bad_field(&batch.host)),
                        _ => pending.bad_field,
                    };
                    let field = team.first_to_say(field)?;
                    // No scale helps against a field that is not finite.
                    lowers_scale = scale_could_fall && field.is_none();
                    let field = field.map(|field| format!(", and {field}"));
                    Some(("gradient", format!("{error}{}", field.unwrap_or_default())))
                }
                Err(other) => return Err(other.into()),
            }
        } else {
            // All ranks learn of it in the same step and exchange the reason before any of them ends the job.
            let why = team.first_to_say(pending.fault)?;
            let many = match team.size() {
                1 => String::new(),
                ranks => format!("on {} of {ranks} ranks: ", sums.not_finite),
            };
            let why = why.unwrap_or_else(|| "it does not say why".into());
            Some(("loss", format!("{many}{why}")))
        };
        self.count(fault, lowers_scale)?;
        Ok(result)
    }

    /// Passes gradients to the optimiser, here or on the servers, and applies what follows from the update. Returns the
    /// gradient norm, or why the optimiser took no step.
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
            // Statistics from the servers may arrive with the parameters and replace these.
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
        let phase = match team.link {
            None => StepPhase::Update,
            Some(_) => StepPhase::Exchange,
        };
        let began = team.timeline.note(phase, began);
        if answer.is_ok() {
            if team.link.is_none() {
                self.network.blend_statistics(&pending.statistics);
            }
            if let Some(average) = &mut self.average {
                average.update(self.network.parameters())?;
                team.timeline.note(StepPhase::Update, began);
            }
            if let Some(copies) = &self.copies {
                let parameters = self.network.parameters_mut();
                parameters.compute_with(copies, &self.storage)?;
            }
        }
        Ok(answer)
    }
}
