//! Layers: their parameters, forward pass, backward pass and costs.
//!
//! There is no automatic differentiation. A layer consists of four parts that must agree:
//! - `new` adds its parameters to [`Parameters`], under names that begin with the layer's name; model files use these
//!   names.
//! - `forward` pushes onto the tape of the [`Pass`] what its backward pass needs.
//! - `backward` pops that in reverse order, adds the gradients of its parameters to [`Gradients`], and returns the
//!   gradient of its input.
//! - `trace` records the same in a [`Trace`] from shapes alone: operations, and what the tape keeps.
//!
//! `tests/networks.rs` and `tests/published_networks.rs` compare gradients of whole networks with finite differences.
//!
//! Shape letters: b batch, h latitude, w longitude, c channel; p, q and o are height, width and channels of an output.

pub(crate) mod affine;
pub(crate) mod aspp;
pub(crate) mod batch_norm;
pub(crate) mod bottleneck;
pub(crate) mod conv;
pub(crate) mod gate;
pub(crate) mod norm;
pub(crate) mod prelu;
pub(crate) mod resize;
pub(crate) mod separable;
pub(crate) mod timed_conv;
pub(crate) mod unit;
pub(crate) mod upsample;
pub(crate) mod upsample_unit;
pub(crate) mod wrapped;

use crate::error::Result;
use crate::gradients::Gradients;
use crate::networks::NetworkConfig;
use crate::parameters::Parameters;
use crate::pass::Pass;
use crate::trace::{Flow, Trace};
use candle_core::Tensor;

/// A differentiable function of one tensor, with parameters.
pub(crate) trait Layer {
    /// The output; in training the layer pushes what its backward pass needs.
    ///
    /// # Shapes
    /// x `(b, h, w, c)` → `(b, p, q, o)`, where p and q may be smaller or larger than h and w. Frames of clips are
    /// counted in b, and a layer over time may output fewer of them.
    fn forward(&self, parameters: &Parameters, pass: &mut Pass, x: &Tensor) -> Result<Tensor>;

    /// Returns the gradient of the input and adds the parameters' gradients to `gradients`.
    ///
    /// # Shapes
    /// dy `(b, p, q, o)`, the shape of the output → `(b, h, w, c)`, the shape of the input
    fn backward(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        dy: Tensor,
        gradients: &mut Gradients,
    ) -> Result<Tensor>;

    /// Returns the output's shape and adds the costs to `trace`. Allocates nothing.
    fn trace(&self, x: Flow, trace: &mut Trace) -> Result<Flow>;
}

/// A sequence of layers.
impl<L: Layer> Layer for [L] {
    fn forward(&self, parameters: &Parameters, pass: &mut Pass, x: &Tensor) -> Result<Tensor> {
        let mut y = x.clone();
        for layer in self {
            y = layer.forward(parameters, pass, &y)?;
        }
        Ok(y)
    }

    fn backward(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        mut dy: Tensor,
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        for layer in self.iter().rev() {
            dy = layer.backward(parameters, pass, dy, gradients)?;
        }
        Ok(dy)
    }

    fn trace(&self, x: Flow, trace: &mut Trace) -> Result<Flow> {
        let mut y = x;
        for layer in self {
            y = layer.trace(y, trace)?;
        }
        Ok(y)
    }
}

/// A layer whose input is the concatenation of several tensors along the channels, passed as separate parts.
pub(crate) trait Joining {
    /// The output; in training the tape keeps the parts, not their concatenation.
    ///
    /// # Shapes
    /// parts `(b, h, w, cᵢ)` → `(b, p, q, o)`
    fn forward_joined(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        parts: &[Tensor],
    ) -> Result<Tensor>;

    /// Returns the gradients of the parts, which have `channels` channels each, and adds the parameters' gradients to
    /// `gradients`.
    ///
    /// # Shapes
    /// dy `(b, p, q, o)` → `(b, h, w, cᵢ)` for each of `channels`
    fn backward_joined(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        dy: Tensor,
        channels: &[usize],
        gradients: &mut Gradients,
    ) -> Result<Vec<Tensor>>;

    /// Returns the output's shape and adds the costs to `trace`, as [`Layer::trace`] does.
    fn trace_joined(&self, parts: &[Flow], trace: &mut Trace) -> Result<Flow>;

    /// The total number of channels of all parts.
    fn channels_in(&self) -> usize;
}

/// The case of a single part.
impl<J: Joining + ?Sized> Layer for J {
    fn forward(&self, parameters: &Parameters, pass: &mut Pass, x: &Tensor) -> Result<Tensor> {
        self.forward_joined(parameters, pass, std::slice::from_ref(x))
    }

    fn backward(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        dy: Tensor,
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        let all = [self.channels_in()];
        let [dx] = self.backward_parts(parameters, pass, dy, all, gradients)?;
        Ok(dx)
    }

    fn trace(&self, x: Flow, trace: &mut Trace) -> Result<Flow> {
        self.trace_joined(&[x], trace)
    }
}

/// A [`Joining`] layer called with a number of parts known at compile time.
pub(crate) trait JoiningParts: Joining {
    /// As [`Joining::backward_joined`]: one gradient for each of `channels`.
    ///
    /// # Shapes
    /// dy `(b, p, q, o)` → `(b, h, w, cᵢ)` for each of `channels`
    fn backward_parts<const N: usize>(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        dy: Tensor,
        channels: [usize; N],
        gradients: &mut Gradients,
    ) -> Result<[Tensor; N]> {
        let parts = self.backward_joined(parameters, pass, dy, &channels, gradients)?;
        Ok(parts.try_into().expect("as many gradients as parts"))
    }
}

impl<J: Joining + ?Sized> JoiningParts for J {}

/// Splits `x` into tensors of the given numbers of channels; the inverse of a concatenation.
///
/// # Shapes
/// x `(b, h, w, Σ cᵢ)` → `(b, h, w, cᵢ)` for each of `channels`
pub(crate) fn split<const N: usize>(
    pass: &Pass,
    x: &Tensor,
    channels: [usize; N],
) -> Result<[Tensor; N]> {
    let parts = pass.backend.split(x, &channels)?;
    Ok(parts.try_into().expect("as many parts as counts"))
}

/// Options that all layers of a network share while it is built.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    /// Whether longitude wraps in every padding.
    pub periodic: bool,
    /// Whether there is batch normalisation, rather than the published multiplication by one half.
    pub batch_norm: bool,
    /// Whether a ReLU precedes every unit of a residual encoder even without batch normalisation.
    pub preactivation_relu: bool,
}

impl Style {
    /// The style of a network's configuration.
    pub(crate) fn of(config: &NetworkConfig) -> Self {
        Self {
            periodic: config.periodic_longitude,
            batch_norm: config.batch_norm,
            preactivation_relu: config.preactivation_relu,
        }
    }
}
