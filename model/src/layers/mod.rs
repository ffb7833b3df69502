//! Layers: what parameters they own, their forward pass, their backward pass, their costs.
//!
//! Nothing is differentiated automatically. A layer consists of four parts that must agree:
//! - `new` adds its parameters to [`Parameters`], under names that begin with its own; model files have these names.
//! - `forward` pushes onto the tape of the [`Pass`] what its backward pass needs.
//! - `backward` pops that in reverse order, adds the gradients of its parameters to [`Gradients`], and gives the
//!   gradient of its input.
//! - `trace` tells a [`Trace`] the same from shapes alone: operations, and what the tape keeps.
//!
//! `tests/networks.rs` and `tests/published_networks.rs` compare gradients of whole networks with finite differences.
//!
//! Letters: b batch, h latitude, w longitude, c channel; p, q and o are those of an output.

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

/// A function of one tensor, with parameters, and its gradient.
pub(crate) trait Layer {
    /// The output; in training the layer leaves on the tape what its backward pass needs.
    ///
    /// # Shapes
    /// x `(b, h, w, c)` → `(b, p, q, o)`, p and q smaller, larger or the same; of clips, frames are b, and a layer over
    /// time may leave fewer of them.
    fn forward(&self, parameters: &Parameters, pass: &mut Pass, x: &Tensor) -> Result<Tensor>;

    /// The gradient of the input; the parameters' gradients are added to `gradients`.
    ///
    /// # Shapes
    /// dy `(b, p, q, o)` as [`Self::forward`] gave y → `(b, h, w, c)` as it took x
    fn backward(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        dy: Tensor,
        gradients: &mut Gradients,
    ) -> Result<Tensor>;

    /// The output's shape; costs are added to `trace`. Allocates nothing.
    fn trace(&self, x: Flow, trace: &mut Trace) -> Result<Flow>;
}

/// Layers one after the other.
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

/// A layer that reads several tensors whose channels lie side by side, as if they were one.
pub(crate) trait Joining {
    /// The output; in training the tape keeps the parts, not a copy of all of them.
    ///
    /// # Shapes
    /// parts `(b, h, w, cᵢ)` → `(b, p, q, o)`
    fn forward_joined(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        parts: &[Tensor],
    ) -> Result<Tensor>;

    /// The gradients of the parts, whose channels `channels` counts; the parameters' gradients are added to
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

    /// The output's shape; costs are added to `trace`, as by [`Layer::trace`].
    fn trace_joined(&self, parts: &[Flow], trace: &mut Trace) -> Result<Flow>;

    /// Channels of all parts together.
    fn channels_in(&self) -> usize;
}

/// Of one tensor, which has all channels.
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

/// A [`Joining`] layer whose caller knows how many parts there are.
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

/// The tensors that lie side by side in `x`, whose channels `channels` counts in this order.
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

/// What layers of one network share while it is built.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    /// Longitude wraps in every padding.
    pub periodic: bool,
    /// Batch normalisation, or the published multiplication by one half.
    pub batch_norm: bool,
    /// A ReLU before every unit of a residual encoder, also without batch normalisation.
    pub preactivation_relu: bool,
}

impl Style {
    /// The style that a network's configuration asks for.
    pub(crate) fn of(config: &NetworkConfig) -> Self {
        Self {
            periodic: config.periodic_longitude,
            batch_norm: config.batch_norm,
            preactivation_relu: config.preactivation_relu,
        }
    }
}
