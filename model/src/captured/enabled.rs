//! The passes as two CUDA graphs.

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

/// A network's passes, captured.
///
/// The tape lies in memory that the first graph takes and the second gives back; what the network gave and statistics
/// of a batch stay until the next launch.
pub struct Captured {
    forward: Graph,
    backward: Graph,
    /// What the graphs read.
    x: Tensor,
    gradient: OutputGradient,
    /// Whether a detector was asked to make its input again.
    reconstruct: bool,
    /// What they add to the keys of dropout.
    key: Tensor,
    /// Whether there is dropout.
    draws_keys: bool,
    /// What the forward pass gives, in memory of its graph; none only while this is dropped.
    left: Option<Left>,
    /// Addresses of parameters, their rounded copies and gradients when the passes were captured.
    places: [u64; 3],
    /// Launches of the forward graph.
    launches: AtomicU64,
    /// The launch whose tape the backward graph has not taken yet; 0 if it has taken that of the last one.
    open: AtomicU64,
}

/// The results of a forward pass, which each launch writes anew.
struct Left {
    output: Output,
    statistics: Vec<Recorded>,
}

/// What a forward pass gives.
enum Output {
    Logits(Tensor),
    Boxes(DetectorOutput),
}

/// The gradient of that.
enum OutputGradient {
    Logits(Tensor),
    Boxes(DetectorGradient),
}

impl Output {
    /// Memory for its gradient.
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
    /// What the last launch left is given back; a tape whose backward pass never came stays with the process.
    fn drop(&mut self) {
        if self.launches.load(Ordering::Relaxed) == 0 {
            // There is no memory behind these addresses.
            std::mem::forget(self.left.take());
        }
    }
}

impl Captured {
    /// The training passes of a network for inputs like `x`, which a detector makes again if it is to `reconstruct`;
    /// nothing is computed. The same passes must have run before, one operation at a time, so that kernels are loaded
    /// and algorithms are chosen.
    ///
    /// # Errors
    /// [`GpuError::NotCaptured`] naming what cannot be captured; everything is as it was.
    pub fn of(
        network: &Network,
        x: &Tensor,
        storage: &Storage,
        gradients: &mut Gradients,
        reconstruct: bool,
    ) -> Result<Self> {
        check(network, gradients)?;
        // The backward pass finds nothing that would have to be copied first.
        gradients.settle()?;
        // The passes have memory of their own; what they took when they were done step by step would be kept for
        // nobody. Not again between the two: the first has its memory from when it is captured on.
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
        let left = Left { output, statistics };
        // Until something is launched there is no memory behind these addresses that could be given back.
        let gradient = match left.output.gradient() {
            Ok(gradient) => gradient,
            Err(error) => {
                std::mem::forget((left, pass));
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
                left: Some(left),
                places,
                launches: AtomicU64::new(0),
                open: AtomicU64::new(0),
            }),
            Err(error) => {
                std::mem::forget(left);
                Err(error)
            }
        }
    }

    /// Whether they are of this network, input and gradients, where they lie, and make the input again if that is asked
    /// for.
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
        match &self.left().output {
            Output::Logits(logits) => Ok(logits.clone()),
            Output::Boxes(_) => Err(other_passes()),
        }
    }

    pub(crate) fn detect(&self, x: &Tensor, pass: &mut Pass) -> Result<DetectorOutput> {
        self.launch_forward(x, pass)?;
        match &self.left().output {
            Output::Boxes(output) => Ok(output.clone()),
            Output::Logits(_) => Err(other_passes()),
        }
    }

    fn left(&self) -> &Left {
        let Some(left) = &self.left else {
            unreachable!("it is taken when this is dropped")
        };
        left
    }

    fn launch_forward(&self, x: &Tensor, pass: &mut Pass) -> Result<()> {
        if pass.norm_ranks().is_some() {
            let what = "statistics shared with other ranks";
            return Err(GpuError::NotCaptured { what }.into());
        }
        cuda::copy_into(x, &self.x)?;
        if self.draws_keys {
            // A sum that wraps is the same of signed and unsigned numbers.
            cuda::write(&self.key, &[pass.key().cast_signed()])?;
        }
        self.forward.launch()?;
        let number = self.launches.fetch_add(1, Ordering::Relaxed) + 1;
        self.open.store(number, Ordering::Relaxed);
        pass.was_launched(number);
        pass.give_statistics(self.left().statistics.clone());
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

    /// Launches the backward pass after copies of what it reads.
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
        // A copy in host memory would not see what comes.
        gradients.settle()?;
        for (from, to) in copies {
            cuda::copy_into(from, to)?;
        }
        self.backward.launch()
    }
}

/// An error if such passes cannot be captured at all.
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

/// Addresses of the first parameter, of the first rounded kernel and of the gradients; 0 where there is none.
fn places(network: &Network, gradients: &Gradients) -> Result<[u64; 3]> {
    let parameters = network.parameters();
    let address = |tensor: Option<&Tensor>| tensor.map_or(Ok(0), cuda::address);
    Ok([
        address(parameters.iter().next().map(|parameter| parameter.tensor()))?,
        address(parameters.first_rounded())?,
        cuda::address(&gradients.buffer()?)?,
    ])
}
