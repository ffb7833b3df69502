//! Validations: which groups score the network, and what is done with their scores.

use super::Coordinator;
use crate::error::Result;
use crate::train::evaluate::Scores;
use crate::train::groups::link::parsed;
use crate::train::groups::message::Request;

/// A group that scores the network as it was after this many steps, with these running statistics.
pub(super) struct Validating {
    pub(super) group: usize,
    pub(super) step: u64,
    pub(super) running: Vec<f32>,
}

impl Coordinator<'_, '_> {
    /// Removes a group from the list of those that score the network; returns the step that it was scoring, if any.
    pub(super) fn stops_validating(&mut self, group: usize) -> Option<u64> {
        let at = self.validating.iter().position(|v| v.group == group)?;
        Some(self.validating.remove(at).step)
    }

    /// Receives the scores of a validation and records them.
    pub(in crate::train::groups) fn scores(
        &mut self,
        group: usize,
        request: &Request,
    ) -> Result<()> {
        let step = self.stops_validating(group);
        let step = step.unwrap_or(self.ledger.done());
        if request.stop != 0 {
            self.ledger.close();
        }
        if request.bytes == 0 {
            self.server.run.validation_due = true;
            return Ok(());
        }
        let count = self.server.run.learner.network.parameters().count();
        let (mut values, running) = (vec![0f32; count], self.server.running_statistics());
        let mut theirs = vec![0f32; running.len()];
        let mail = &mut self.server.mail;
        let text = mail.take_bytes(group, request.bytes)?;
        let whole = text.is_some()
            && mail.take(group, bytemuck::cast_slice_mut(&mut values))?
            && mail.take(group, bytemuck::cast_slice_mut(&mut theirs))?;
        let (Some(text), true) = (text, whole) else {
            self.server.run.validation_due = true;
            self.loses(group);
            return Ok(());
        };
        let scores: Scores = parsed(&text)?;
        // The network as it was scored; the run has advanced meanwhile.
        let run = &mut self.server.run;
        let parameters = run.learner.network.parameters_mut();
        parameters.update_all(|all| all.copy_from_slice(&values))?;
        parameters.set_buffers(&theirs)?;
        run.judge(step, scores, self.progress)?;
        let parameters = run.learner.network.parameters_mut();
        parameters.set_buffers(&running)?;
        Ok(())
    }
}
