//! How the passes of a step are launched on a GPU: one operation at a time, or as a captured CUDA graph.

use crate::error::Result;
use candle_core::Tensor;
use squall_model::{Backend, Captured, Gradients, Network, Storage};
use std::sync::Arc;

/// Batches before capture: by then kernels are loaded and algorithms chosen.
const BEFORE: u32 = 2;

/// Factor on a step's peak memory that leaves room for single operations and captured passes together: captured passes
/// have their own memory.
const ROOM: f64 = 1.5;

/// Whether and how the passes are launched as graphs.
#[derive(Debug, Default)]
pub(super) struct Launches {
    /// Whether the recipe asks for graphs: a warning is then due if they are not possible.
    asked: bool,
    how: LaunchMode,
}

#[derive(Debug, Default)]
enum LaunchMode {
    /// Operations are launched one at a time.
    #[default]
    OneByOne,
    /// Passes will be captured after this many more batches.
    AsWhole { after: u32 },
    /// Passes are launched as this graph.
    Captured(Arc<Captured>),
}

impl Launches {
    /// Launches as the recipe asks; by default as graphs unless there is an obstacle.
    pub fn new(wanted: Option<bool>, obstacle: Option<&str>) -> Self {
        let mut launches = Self {
            asked: wanted == Some(true),
            how: LaunchMode::OneByOne,
        };
        match obstacle {
            _ if wanted == Some(false) => {}
            None => launches.how = LaunchMode::AsWhole { after: BEFORE },
            Some(why) => launches.refuse(why),
        }
        launches
    }

    /// Falls back to single operations, and logs why.
    fn refuse(&mut self, why: &str) {
        if self.asked {
            tracing::warn!("no CUDA graphs, operations are started one by one: {why}");
        } else {
            tracing::debug!("no CUDA graphs: {why}");
        }
        self.how = LaunchMode::OneByOne;
    }

    /// Whether the passes are captured and so have their own memory.
    pub fn are_captured(&self) -> bool {
        matches!(self.how, LaunchMode::Captured(_))
    }

    /// The captured passes for an input shaped like `x`, which a detector with `reconstruct` also reconstructs; `None`
    /// if this batch runs as single operations.
    ///
    /// # Errors
    /// Errors of the GPU, including those of operations launched earlier.
    pub fn captured_passes(
        &mut self,
        network: &Network,
        x: &Tensor,
        storage: &Storage,
        gradients: &mut Gradients,
        reconstruct: bool,
    ) -> Result<Option<Arc<Captured>>> {
        match &self.how {
            LaunchMode::OneByOne => return Ok(None),
            LaunchMode::Captured(captured) if captured.fits(network, x, gradients, reconstruct) => {
                return Ok(Some(Arc::clone(captured)));
            }
            // The parameters have moved in memory, or the batch shape or the loss has changed.
            LaunchMode::Captured(_) => {
                self.how = LaunchMode::AsWhole { after: BEFORE };
                network.backend().give_back_memory()?;
            }
            LaunchMode::AsWhole { .. } => {}
        }
        if let LaunchMode::AsWhole { after: after @ 1.. } = &mut self.how {
            *after -= 1;
            return Ok(None);
        }
        if !self.asked && !has_room(network.backend()) {
            self.refuse("there is little memory left");
            return Ok(None);
        }
        match Captured::capture(network, x, storage, gradients, reconstruct) {
            Ok(captured) => {
                let captured = Arc::new(captured);
                self.how = LaunchMode::Captured(Arc::clone(&captured));
                Ok(Some(captured))
            }
            Err(error) => {
                self.refuse(&error.to_string());
                network.backend().give_back_memory()?;
                Ok(None)
            }
        }
    }
}

/// The reason why a step cannot be launched as graphs, if any.
pub(super) fn graph_obstacle(
    backend: Backend,
    ranks: usize,
    gradient_lag: usize,
) -> Option<&'static str> {
    if !backend.is_gpu() {
        Some("the CPU computes")
    } else if ranks > 1 {
        Some("gradients go to other ranks while they are computed")
    } else if gradient_lag > 0 {
        Some("gradients wait on the host")
    } else {
        None
    }
}

/// Whether peak memory so far leaves enough room for captured passes.
fn has_room(backend: Backend) -> bool {
    match (backend.available_memory(), backend.peak_memory()) {
        (Some(all), Some(peak)) => peak as f64 * ROOM <= all as f64,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::DType;
    use squall_model::{Backend, NetworkConfig};

    #[test]
    fn passes_are_captured_down_when_all_is_loaded_and_never_again_once_refused() {
        let config = NetworkConfig {
            channels_in: 3,
            width: 0.05,
            blocks: vec![1, 1],
            atrous_rates: vec![2],
            ..NetworkConfig::default()
        };
        let network = Network::build(&config, Backend::Reference, 1).unwrap();
        let mut gradients = Gradients::new(network.parameters());
        let x = Tensor::zeros((1, 16, 24, 3), DType::F32, &candle_core::Device::Cpu).unwrap();
        let mut launches = Launches::new(Some(true), None);
        for left in [1, 0] {
            let none =
                launches.captured_passes(&network, &x, &DType::F32.into(), &mut gradients, false);
            assert!(none.unwrap().is_none());
            assert!(matches!(launches.how, LaunchMode::AsWhole { after } if after == left));
        }
        // The CPU cannot.
        let none =
            launches.captured_passes(&network, &x, &DType::F32.into(), &mut gradients, false);
        assert!(none.unwrap().is_none());
        assert!(matches!(launches.how, LaunchMode::OneByOne));
    }

    #[test]
    fn passes_are_launched_one_by_one_if_unwanted_or_impossible() {
        let how = |wanted, obstacle| Launches::new(wanted, obstacle).how;
        assert!(matches!(how(Some(false), None), LaunchMode::OneByOne));
        for wanted in [None, Some(true)] {
            assert!(matches!(
                how(wanted, Some("it rains")),
                LaunchMode::OneByOne
            ));
            assert!(matches!(how(wanted, None), LaunchMode::AsWhole { .. }));
        }
    }

    #[test]
    fn passes_are_launched_one_by_one_without_known_gpu_memory() {
        assert!(!has_room(Backend::Reference));
    }
}
