//! A layer on a field padded on all four sides by wrapping around.

use super::Layer;
use super::resize::shape_of;
use crate::error::Result;
use crate::gradients::Gradients;
use crate::networks::NetworkConfig;
use crate::ops::ConvSpec;
use crate::parameters::Parameters;
use crate::pass::{Pass, Saved};
use crate::trace::{Flow, Trace};
use candle_core::Tensor;

/// The source of padding values on each axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Padding {
    /// Zeros.
    Zero,
    /// The opposite edge of the field in longitude, zeros in latitude.
    Longitude,
    /// The opposite edge on both axes: wrong on a sphere, for weights that were trained with it.
    Both,
}

impl Padding {
    /// The padding that a network's configuration selects.
    pub(crate) fn of(config: &NetworkConfig) -> Self {
        match (config.periodic_latitude, config.periodic_longitude) {
            (true, _) => Self::Both,
            (false, true) => Self::Longitude,
            (false, false) => Self::Zero,
        }
    }

    /// The geometry and the margin to wrap beforehand that together pad as `spec` does in this mode.
    pub(crate) fn apply(self, spec: ConvSpec) -> (ConvSpec, usize) {
        match self {
            Self::Zero => (spec, 0),
            Self::Longitude => (spec.periodic(true), 0),
            Self::Both => (
                ConvSpec {
                    padding: (0, 0),
                    ..spec
                },
                spec.padding.0,
            ),
        }
    }
}

/// A layer preceded by a margin of wrapped rows and columns.
#[derive(Debug)]
pub(crate) struct Wrapped<L> {
    pub(crate) layer: L,
    pub(crate) margin: usize,
}

impl<L> Wrapped<L> {
    /// Pads x with the margin.
    pub(crate) fn widen(&self, pass: &mut Pass, x: &Tensor) -> Result<Tensor> {
        if self.margin == 0 {
            return Ok(x.clone());
        }
        pass.push(Saved::Shape(shape_of(x)?));
        pass.backend.wrap(x, self.margin)
    }
}

impl<L: Layer> Layer for Wrapped<L> {
    fn forward(&self, parameters: &Parameters, pass: &mut Pass, x: &Tensor) -> Result<Tensor> {
        let wide = self.widen(pass, x)?;
        self.layer.forward(parameters, pass, &wide)
    }

    fn backward(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        dy: Tensor,
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        let dx = self.layer.backward(parameters, pass, dy, gradients)?;
        if self.margin == 0 {
            return Ok(dx);
        }
        let shape = pass.pop_shape();
        pass.backend.wrap_backward(&dx, shape, self.margin)
    }

    fn trace(&self, x: Flow, trace: &mut Trace) -> Result<Flow> {
        let ([b, h, w, c], margin) = (x.shape, 2 * self.margin);
        if margin == 0 {
            return self.layer.trace(x, trace);
        }
        let wide = trace.op(&[x], [b, h + margin, w + margin, c]);
        self.layer.trace(wide, trace)
    }
}
