//! The forward and backward pass as two CUDA graphs.

use crate::detection::{DetectorGradient, DetectorOutput};
use crate::error::{ModelError, Result};
use crate::gpu::GpuError;
use crate::ops::cuda::{self, Graph};
use crate::pass::{Pass, Recorded};
use crate::storage::Storage;
use crate::{Gradients, Network};
use candle_core::{DType, Tensor};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// A network's captured passes.
///
/// The first graph allocates the tape and the second frees it. The network's output and the batch statistics stay valid
/// until the next launch.
pub struct Captured {
    forward: Graph,
    backward: Graph,
    /// The graphs' input.
    x: Tensor,
    gradient: OutputGradient,
    /// Whether a detector reconstructs its input.
    reconstruct: bool,
    /// An offset that the graphs add to dropout keys.
    key: Tensor,
    /// Whether the network uses dropout.
    draws_keys: bool,
    /// The results of the forward pass, in memory of its graph; `None` only during `drop`.
    results: Option<Results>,
    /// Addresses of parameters, their rounded copies and gradients at the time of capture.
    places: [u64; 3],
    /// The number of launches of the forward graph.
    launches: AtomicU64,
    /// The number of the launch whose tape the backward graph has not consumed yet; 0 if there is none.
    open: AtomicU64,
}

/// The results of a forward pass, overwritten by each launch.
struct Results {
    output: Output,
    statistics: Vec<Recorded>,
}

/// The output of a forward pass.
enum Output {
    Logits(Tensor),
    Boxes(DetectorOutput),
}

/// The gradient of the output.
enum OutputGradient {
    Logits(Tensor),
    Boxes(DetectorGradient),
}

impl Output {
    /// Allocates memory for the gradient.
    fn gradient(&self) -> Result<OutputGradient> {
        let room = |tensor: &Tensor| cuda::room(tensor.dims(), DType::F32);
        Ok(match self {
            Self::Logits(logits) => OutputGradient::Logits(room(logits)?),
            Self::Boxes(output) => OutputGradient::Boxes(DetectorGradient {
                heads: room(&output.heads)?,
                reconstruction: output.reconstruction.as_ref().map(room).transpose()?,
                segmentation: output.segmentation.as_ref().map(room).transpose()?,
            }),
        })
    }
}

impl fmt::Debug for Captured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Captured({:?})", self.x.dims())
    }
}

impl Drop for Captured {
    /// Frees the results of the last launch. A tape that no backward pass consumed is leaked until the process ends.
    fn drop(&mut self) {
        if self.launches.load(Ordering::Relaxed) == 0 {
            // No memory is mapped at these addresses.
            std::mem::forget(self.results.take());
        }
    }
}

impl Captured {
    /// Captures the training passes of a network for inputs like `x`, with reconstruction of the input if `reconstruct`
    /// is set. Nothing is computed. The same passes must have run once without capture, so that kernels are loaded and
    /// algorithms are chosen.
    ///
    /// # Errors
    /// [`GpuError::NotCaptured`] naming what cannot be captured; nothing has changed.
    pub fn capture(
        network: &Network,
        x: &Tensor,
        storage: &Storage,
        gradients: &mut Gradients,
        reconstruct: bool,
    ) -> Result<Self> {
        check(network, gradients)?;
        // So that the captured backward pass does not contain a copy of pending changes.
        gradients.settle()?;
        // The graphs have memory pools of their own, so the memory of the uncaptured passes is returned. Not again
        // between the two captures: the first graph owns its memory from its capture on.
        cuda::give_back_memory()?;
        let places = places(network, gradients)?;
        let (x, key) = (
            cuda::room(x.dims(), x.dtype())?,
            cuda::room(&[1], DType::I64)?,
        );
        let (forward, (output, mut pass)) = cuda::capture(&key, || {
            let mut pass = Pass::train(network.backend(), storage, 0);
            let output = match network.is_detector() {
                true => Output::Boxes(network.detect(&x, &mut pass, reconstruct)?),
                false => Output::Logits(network.forward(&x, &mut pass)?),
            };
            Ok((output, pass))
        })?;
        let draws_keys = pass.has_drawn_keys();
        let statistics = pass.take_statistics();
        let results = Results { output, statistics };
        // Before the first launch no memory is mapped at these addresses, so it must not be freed.
        let gradient = match results.output.gradient() {
            Ok(gradient) => gradient,
            Err(error) => {
                std::mem::forget((results, pass));
                return Err(error);
            }
        };
        let backward = cuda::capture(&key, || match &gradient {
            OutputGradient::Logits(dlogits) => network.backward(dlogits, pass, gradients),
            OutputGradient::Boxes(gradient) => {
                network.backward_detection(gradient.clone(), pass, gradients)
            }
        });
        match backward {
            Ok((backward, ())) => Ok(Self {
                forward,
                backward,
                x,
                gradient,
                reconstruct,
                key,
                draws_keys,
                results: Some(results),
                places,
                launches: AtomicU64::new(0),
                open: AtomicU64::new(0),
            }),
            Err(error) => {
                std::mem::forget(results);
                Err(error)
            }
        }
    }

    /// Whether the passes were captured for this network, input and gradients at their current addresses, with the same
    /// choice of reconstruction.
    pub fn fits(
        &self,
        network: &Network,
        x: &Tensor,
        gradients: &Gradients,
        reconstruct: bool,
    ) -> bool {
        let same = |x: &Tensor| (x.dims(), x.dtype()) == (self.x.dims(), self.x.dtype());
        let there = || places(network, gradients).is_ok_and(|places| places == self.places);
        same(x) && reconstruct == self.reconstruct && !gradients.is_watched() && there()
    }

    pub(crate) fn forward(&self, x: &Tensor, pass: &mut Pass) -> Result<Tensor> {
        self.launch_forward(x, pass)?;
        match &self.results().output {
            Output::Logits(logits) => Ok(logits.clone()),
            Output::Boxes(_) => Err(other_passes()),
        }
    }

    pub(crate) fn detect(&self, x: &Tensor, pass: &mut Pass) -> Result<DetectorOutput> {
        self.launch_forward(x, pass)?;
        match &self.results().output {
            Output::Boxes(output) => Ok(output.clone()),
            Output::Logits(_) => Err(other_passes()),
        }
    }

    fn results(&self) -> &Results {
        let Some(results) = &self.results else {
            unreachable!("it is taken when this is dropped")
        };
        results
    }

    fn launch_forward(&self, x: &Tensor, pass: &mut Pass) -> Result<()> {
        if pass.norm_ranks().is_some() {
            let what = "statistics shared with other ranks";
            return Err(GpuError::NotCaptured { what }.into());
        }
        cuda::copy_into(x, &self.x)?;
        if self.draws_keys {
            // A wrapping sum has the same bits for signed and unsigned numbers.
            cuda::write(&self.key, &[pass.key().cast_signed()])?;
        }
        self.forward.launch()?;
        let number = self.launches.fetch_add(1, Ordering::Relaxed) + 1;
        self.open.store(number, Ordering::Relaxed);
        pass.was_launched(number);
        pass.give_statistics(self.results().statistics.clone());
        Ok(())
    }

    pub(crate) fn backward(
        &self,
        dlogits: &Tensor,
        launch: u64,
        gradients: &mut Gradients,
    ) -> Result<()> {
        match &self.gradient {
            OutputGradient::Logits(place) => {
                self.launch_backward(&[(dlogits, place)], launch, gradients)
            }
            OutputGradient::Boxes(_) => Err(other_passes()),
        }
    }

    pub(crate) fn backward_detection(
        &self,
        gradient: &DetectorGradient,
        launch: u64,
        gradients: &mut Gradients,
    ) -> Result<()> {
        let OutputGradient::Boxes(place) = &self.gradient else {
            return Err(other_passes());
        };
        let mut copies = vec![(&gradient.heads, &place.heads)];
        for parts in [
            (&gradient.reconstruction, &place.reconstruction),
            (&gradient.segmentation, &place.segmentation),
        ] {
            match parts {
                (Some(from), Some(to)) => copies.push((from, to)),
                (None, None) => {}
                _ => return Err(other_passes()),
            }
        }
        self.launch_backward(&copies, launch, gradients)
    }

    /// Copies the inputs of the backward pass, then launches it.
    fn launch_backward(
        &self,
        copies: &[(&Tensor, &Tensor)],
        launch: u64,
        gradients: &mut Gradients,
    ) -> Result<()> {
        let order = Ordering::Relaxed;
        if launch == 0 || (self.open.compare_exchange(launch, 0, order, order)).is_err() {
            let what = "the backward pass of an earlier forward pass";
            return Err(GpuError::NotCaptured { what }.into());
        }
        // A host copy would not see the new gradients.
        gradients.settle()?;
        for (from, to) in copies {
            cuda::copy_into(from, to)?;
        }
        self.backward.launch()
    }
}

/// Returns an error if these passes cannot be captured at all.
fn check(network: &Network, gradients: &Gradients) -> Result<()> {
    if !network.backend().is_gpu() {
        let what = "passes that are not computed on a GPU";
        return Err(GpuError::NotCaptured { what }.into());
    }
    if gradients.is_watched() {
        let what = "gradients that are given away while they are computed";
        return Err(GpuError::NotCaptured { what }.into());
    }
    Ok(())
}

fn other_passes() -> ModelError {
    let what = "a pass of another kind than those that were captured";
    GpuError::NotCaptured { what }.into()
}

/// Addresses of the first parameter, the first rounded kernel and the gradients; 0 for those that do not exist.
fn places(network: &Network, gradients: &Gradients) -> Result<[u64; 3]> {
    let parameters = network.parameters();
    let address = |tensor: Option<&Tensor>| tensor.map_or(Ok(0), cuda::address);
    Ok([
        address(parameters.iter().next().map(|parameter| parameter.tensor()))?,
        address(parameters.first_rounded())?,
        cuda::address(&gradients.buffer()?)?,
    ])
}
