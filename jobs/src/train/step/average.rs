//! The average of the network over its steps, where the recipe wants one.

use super::Learner;
use crate::error::Result;
use squall_model::optim::Average;

impl Learner {
    /// Lets the average begin with the network as it is now.
    pub(in crate::train) fn begin_average(&mut self) -> Result<()> {
        if let Some(average) = &mut self.average {
            average.begin(self.network.parameters())?;
        }
        Ok(())
    }

    /// Exchanges the network's values with their averages; nothing where there is no average.
    pub(in crate::train) fn exchange_average(&mut self) -> Result<()> {
        if let Some(average) = &mut self.average {
            average.exchange(self.network.parameters_mut())?;
        }
        Ok(())
    }

    /// Values that are kept beside the parameters: the optimiser's, and the average.
    pub(in crate::train) fn state_len(&self) -> usize {
        let average = self.average.as_ref().map_or(0, Average::state_len);
        self.optimizer.state_len() + average
    }
}
