//! The moving average of the weights, if the recipe asks for one.

use super::Learner;
use crate::error::Result;
use squall_model::optim::Average;

impl Learner {
    /// Initialises the average with the current weights.
    pub(in crate::train) fn begin_average(&mut self) -> Result<()> {
        if let Some(average) = &mut self.average {
            average.begin(self.network.parameters())?;
        }
        Ok(())
    }

    /// Swaps the weights and their averages; does nothing without an average.
    pub(in crate::train) fn exchange_average(&mut self) -> Result<()> {
        if let Some(average) = &mut self.average {
            average.exchange(self.network.parameters_mut())?;
        }
        Ok(())
    }

    /// Number of values kept besides the parameters: optimiser state and average.
    pub(in crate::train) fn state_len(&self) -> usize {
        let average = self.average.as_ref().map_or(0, Average::state_len);
        self.optimizer.state_len() + average
    }
}
