//! Whether a network may be saved: its values and its latest losses must be finite.

use super::Learner;
use crate::error::{JobError, Result};

impl Learner {
    /// Refuses to save a network with a non-finite value. All ranks reach the same result.
    ///
    /// # Errors
    /// [`JobError::Diverged`] naming the first such parameter or running statistic.
    pub(in crate::train) fn check_finite(&self) -> Result<()> {
        let parameters = self.network.parameters();
        let name = match parameters.first_not_finite()? {
            Some(parameter) => Some(&parameter.name),
            None => {
                let mut statistics = parameters.buffers().iter();
                let bad = statistics.find(|s| s.values.iter().any(|v| !v.is_finite()));
                bad.map(|statistics| &statistics.name)
            }
        };
        name.map_or(Ok(()), |name| {
            Err(self.diverged(format!(
                "`{name}` of the network holds a value that is not finite"
            )))
        })
    }

    /// Refuses to end a training whose last steps had non-finite losses: they did not change the parameters, so the
    /// network no longer produces finite losses. A single skipped step may be chance in half precision and is accepted.
    ///
    /// # Errors
    /// [`JobError::Diverged`] with the reason of the last skipped step.
    pub(in crate::train) fn check_end(&self) -> Result<()> {
        let skipped = self.progress.skipped_in_row;
        let lasting = self.loss_fault.as_ref().filter(|_| skipped > 1);
        lasting.map_or(Ok(()), |why| {
            Err(self.diverged(format!(
                "it ends with a loss that is not finite, {skipped} steps skipped in a row ({why})"
            )))
        })
    }

    fn diverged(&self, reason: String) -> JobError {
        JobError::Diverged {
            step: self.progress.step,
            reason,
        }
    }
}
