//! The start of a decoder: deep features are upsampled to the resolution of low-level ones, concatenated with them and
//! refined.

use super::NetworkConfig;
use crate::error::Result;
use crate::gradients::Gradients;
use crate::layers::resize::{resize, resize_backward};
use crate::layers::unit::Unit;
use crate::layers::upsample_unit::{UpsampleUnit, half};
use crate::layers::{Joining, JoiningParts, Layer, Style};
use crate::ops::ConvSpec;
use crate::parameters::Parameters;
use crate::pass::Pass;
use crate::trace::{Flow, Trace};
use candle_core::Tensor;

/// Low-level features reduced by a 1x1, deep features upsampled to their resolution, and two 3x3 units over both.
#[derive(Debug)]
pub(super) struct Join {
    low: Unit,
    /// Upsamplings by two, from the deep features' resolution to the low-level ones'; if empty, deep features are
    /// resized.
    doublings: Vec<UpsampleUnit>,
    refine: [Unit; 2],
    /// Channels of the upsampled deep features and of the reduced low-level ones.
    parts: [usize; 2],
    periodic: bool,
}

impl Join {
    /// A join for `low_level` channels and deep features that are upsampled `doublings` times.
    pub(super) fn new(
        parameters: &mut Parameters,
        name: &str,
        config: &NetworkConfig,
        (low_level, doublings): (usize, usize),
    ) -> Result<Self> {
        let style = Style::of(config);
        let at = |part: &str| format!("{name}.{part}");
        let (point, kernel) = (ConvSpec::same(1), ConvSpec::same(3));
        let parts = [256, 48].map(|channels| config.decoder_channels(channels));
        let [channels, low_channels] = parts;
        let (reduced, same) = ((low_level, low_channels), (channels, channels));
        let joined = (channels + low_channels, channels);
        let low = Unit::new(parameters, &at("low_level"), point, reduced, style)?;
        let double =
            |index: usize| UpsampleUnit::new(parameters, &at(&format!("up{index}")), same, style);
        let doublings = (1..=doublings).map(double).collect::<Result<Vec<_>>>()?;
        let refine = [
            Unit::new(parameters, &at("refine1"), kernel, joined, style)?,
            Unit::new(parameters, &at("refine2"), kernel, same, style)?,
        ];
        Ok(Self {
            low,
            doublings,
            refine,
            parts,
            periodic: style.periodic,
        })
    }

    /// Every upsampling unit with its output extents; the last extents are `size`.
    fn doublings(
        &self,
        size: (usize, usize),
    ) -> impl Iterator<Item = (&UpsampleUnit, (usize, usize))> {
        let count = self.doublings.len();
        self.doublings
            .iter()
            .enumerate()
            .map(move |(index, double)| {
                let size = (index + 1..count).fold(size, |size, _| half(size));
                (double, size)
            })
    }

    /// Deep and low-level features, joined at the latter's resolution and refined.
    pub(super) fn forward(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        inputs: [Tensor; 2],
    ) -> Result<Tensor> {
        pass.block(inputs, |pass, inputs| self.inside(p, pass, inputs))
    }

    fn inside(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        [mut deep, low]: [Tensor; 2],
    ) -> Result<Tensor> {
        let (_, h, w, _) = low.dims4()?;
        let low = self.low.forward(p, pass, &low)?;
        if self.doublings.is_empty() {
            deep = resize(pass, &deep, (h, w), self.periodic)?;
        }
        for (double, size) in self.doublings((h, w)) {
            deep = double.forward(p, pass, &deep, size)?;
        }
        let y = self.refine[0].forward_joined(p, pass, &{ [deep, low] })?;
        self.refine[1].forward(p, pass, &y)
    }

    /// The gradients of the deep and of the low-level features.
    pub(super) fn backward(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        dy: Tensor,
        gradients: &mut Gradients,
    ) -> Result<(Tensor, Tensor)> {
        pass.replay(|pass, inputs| self.inside(p, pass, inputs))?;
        let dy = self.refine[1].backward(p, pass, dy, gradients)?;
        let [mut ddeep, dlow] =
            self.refine[0].backward_parts(p, pass, dy, self.parts, gradients)?;
        if self.doublings.is_empty() {
            ddeep = resize_backward(pass, &ddeep, self.periodic)?;
        }
        for double in self.doublings.iter().rev() {
            ddeep = double.backward(p, pass, ddeep, gradients)?;
        }
        let dlow = self.low.backward(p, pass, dlow, gradients)?;
        Ok((ddeep, dlow))
    }

    pub(super) fn trace(&self, mut deep: Flow, low: Flow, trace: &mut Trace) -> Result<Flow> {
        trace.block_taking(&[deep, low], |trace| {
            let [b, h, w, _] = low.shape;
            let low = self.low.trace(low, trace)?;
            if self.doublings.is_empty() {
                deep = trace.op(&[deep], [b, h, w, deep.shape[3]]);
            }
            for (double, size) in self.doublings((h, w)) {
                deep = double.trace(deep, size, trace)?;
            }
            let y = self.refine[0].trace_joined(&[deep, low], trace)?;
            self.refine[1].trace(y, trace)
        })
    }
}
