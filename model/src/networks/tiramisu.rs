use super::architecture::Architecture;
use super::config::NetworkConfig;
use crate::error::Result;
use crate::parameters::{Gradients, Parameters};
use crate::pass::Pass;
use crate::summary::Trace;
use candle_core::Tensor;
#[derive(Debug)]
pub(super) struct Tiramisu {}
impl Tiramisu {
    pub(super) fn new(_: &mut Parameters, _: &NetworkConfig) -> Result<Self> {
        Err(crate::ModelError::Config {
            key: "name",
            reason: "not built yet".into(),
        })
    }
}
impl Architecture for Tiramisu {
    fn forward(&self, _: &Parameters, _: &mut Pass, x: &Tensor) -> Result<Tensor> {
        Ok(x.clone())
    }
    fn backward(&self, _: &Parameters, _: &mut Pass, _: Tensor, _: &mut Gradients) -> Result<()> {
        Ok(())
    }
    fn trace(&self, _: [usize; 4], _: &mut Trace) -> Result<()> {
        Ok(())
    }
}
