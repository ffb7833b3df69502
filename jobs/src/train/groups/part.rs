//! The parameters held by one server, with their optimiser.

use super::plan;
use crate::error::Result;
use squall_model::optim::{Optimizer, OptimizerConfig, Update};
use squall_model::{FileContents, Gradients, ModelFile, Parameters};
use std::ops::Range;
use std::path::Path;

/// Some layers of a network and their optimiser.
#[derive(Debug)]
pub(super) struct Part {
    parameters: Parameters,
    gradients: Gradients,
    optimizer: Optimizer,
    /// Factor on the learning rate of a group.
    faster: f32,
    /// The buffer in which parameters are sent, while not in flight.
    place: Vec<f32>,
}

impl Part {
    /// The parameters in these ranges with their state in `optimizer`, modified as
    /// [`of_servers`](super::momentum::of_servers) says.
    pub fn of(
        parameters: &Parameters,
        optimizer: &Optimizer,
        ranges: &[Range<usize>],
        (config, faster): (OptimizerConfig, f32),
    ) -> Result<Self> {
        let part = parameters.part(ranges)?;
        let mut own = Optimizer::new(&config, &part)?;
        if optimizer.steps() > 0 {
            let mut state = FileContents::default();
            optimizer.lend_to(&mut state)?;
            let path = Path::new("the state of the run");
            own.load_from(path, &state.facts, &state)?;
        }
        Ok(Self {
            gradients: Gradients::new(&part),
            place: vec![0.0; plan::count(ranges)],
            parameters: part,
            optimizer: own,
            faster,
        })
    }

    /// The destination for the gradient of an update.
    pub fn gradient_mut(&mut self) -> &mut [f32] {
        self.gradients.as_mut_slice()
    }

    /// Updates the parameters with the gradient.
    pub fn learn(&mut self, rate: f32, scale: f32) -> Result<()> {
        let update = Update {
            gradient_scale: scale,
            ..Update::rate(rate * self.faster)
        };
        let Self {
            parameters,
            gradients,
            optimizer,
            ..
        } = self;
        optimizer.update(parameters, gradients, update)?;
        Ok(())
    }

    /// The concatenated parameters, in a reusable buffer.
    pub fn take_values(&mut self) -> Result<Vec<f32>> {
        let mut values = std::mem::take(&mut self.place);
        self.parameters.update_all(|new| {
            values.resize(new.len(), 0.0);
            values.copy_from_slice(new);
        })?;
        Ok(values)
    }

    /// Returns that buffer for reuse.
    pub fn give_back(&mut self, values: Vec<f32>) {
        self.place = values;
    }

    /// Stores parameters and optimiser state in a file.
    pub fn save_into(&self, file: &mut ModelFile) -> Result<()> {
        file.tensors.extend(self.parameters.to_named()?);
        self.optimizer.save_into(file)?;
        Ok(())
    }
}
