//! How a step's passes are started on a GPU: one operation after the other, or as a whole.

use crate::error::Result;
use candle_core::Tensor;
use squall_model::{Captured, Gradients, Network, Storage};
use std::sync::Arc;

/// Steps before passes are written down: kernels are loaded and algorithms chosen by then.
const BEFORE: u32 = 2;

/// Whether the passes are launched as a whole.
#[derive(Debug, Default)]
pub(super) enum Launches {
    /// No: every operation is started when its turn comes.
    #[default]
    OneByOne,
    /// After so many more steps.
    AsWhole { after: u32 },
    /// They were written down.
    Written(Arc<Captured>),
}

impl Launches {
    /// As wanted; of a step that cannot be launched as a whole it is told why.
    pub fn new(wanted: bool, obstacle: Option<&str>) -> Self {
        match (wanted, obstacle) {
            (false, _) => Self::OneByOne,
            (true, None) => Self::AsWhole { after: BEFORE },
            (true, Some(why)) => Self::refused(why),
        }
    }

    fn refused(why: &str) -> Self {
        tracing::warn!("no CUDA graphs, operations are started one by one: {why}");
        Self::OneByOne
    }

    /// The passes for an input like `x`, if they are launched as a whole.
    ///
    /// # Errors
    /// Of the GPU, whatever went wrong on it before.
    pub fn of(
        &mut self,
        network: &Network,
        x: &Tensor,
        storage: &Storage,
        gradients: &mut Gradients,
    ) -> Result<Option<Arc<Captured>>> {
        match self {
            Self::OneByOne => return Ok(None),
            Self::Written(captured) if captured.fits(network, x, gradients) => {
                return Ok(Some(Arc::clone(captured)));
            }
            // Parameters lie elsewhere, or the batch is another one.
            Self::Written(_) => {
                *self = Self::AsWhole { after: BEFORE };
                network.backend().give_back_memory()?;
            }
            Self::AsWhole { .. } => {}
        }
        if let Self::AsWhole { after: after @ 1.. } = self {
            *after -= 1;
            return Ok(None);
        }
        match Captured::of(network, x, storage, gradients) {
            Ok(captured) => {
                let captured = Arc::new(captured);
                *self = Self::Written(Arc::clone(&captured));
                Ok(Some(captured))
            }
            Err(error) => {
                *self = Self::refused(&error.to_string());
                network.backend().give_back_memory()?;
                Ok(None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::DType;
    use squall_model::{Backend, NetworkConfig};

    #[test]
    fn passes_are_written_down_when_all_is_loaded_and_never_again_once_refused() {
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
        let mut launches = Launches::new(true, None);
        for left in [1, 0] {
            let none = launches.of(&network, &x, &DType::F32.into(), &mut gradients);
            assert!(none.unwrap().is_none());
            assert!(matches!(launches, Launches::AsWhole { after } if after == left));
        }
        // The CPU cannot.
        let none = launches.of(&network, &x, &DType::F32.into(), &mut gradients);
        assert!(none.unwrap().is_none());
        assert!(matches!(launches, Launches::OneByOne));
    }

    #[test]
    fn they_are_not_where_nobody_asks_or_something_is_in_the_way() {
        assert!(matches!(Launches::new(false, None), Launches::OneByOne));
        let refused = Launches::new(true, Some("it rains"));
        assert!(matches!(refused, Launches::OneByOne));
    }
}
