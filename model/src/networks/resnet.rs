//! The ResNet v2 encoder with atrous blocks.
//!
//! # Source
//! TensorFlow slim `resnet_v2`: a block's stride is in its last unit; once the output stride is reached, the strides of
//! later blocks become dilations.

use super::NetworkConfig;
use crate::error::Result;
use crate::gradients::Gradients;
use crate::layers::bottleneck::{Bottleneck, BottleneckSpec};
use crate::layers::conv::Conv;
use crate::layers::norm::Norm;
use crate::layers::resize::MaxPool;
use crate::layers::{Layer, Style};
use crate::ops::{ConvSpec, PoolSpec};
use crate::parameters::Parameters;
use crate::pass::Pass;
use crate::trace::{Flow, Trace};
use candle_core::Tensor;

/// The position of a unit in the encoder, and the stride and dilation of its 3x3 kernel.
pub(crate) struct UnitPlan {
    pub name: String,
    /// The index of its block, from 0.
    pub block: usize,
    pub stride: usize,
    pub dilation: usize,
}

/// The units of the encoder in order.
pub(crate) fn plan(config: &NetworkConfig) -> Vec<UnitPlan> {
    let mut units = Vec::new();
    let (mut reached, mut dilation) = (4, 1);
    let last_block = config.blocks.len() - 1;
    for (block, &count) in config.blocks.iter().enumerate() {
        for unit in 0..count {
            let shrinks = unit + 1 == count && block < last_block;
            let atrous = shrinks && reached == config.output_stride;
            let stride = if shrinks && !atrous { 2 } else { 1 };
            units.push(UnitPlan {
                name: format!("encoder.block{}.unit{}", block + 1, unit + 1),
                block,
                stride,
                dilation,
            });
            reached *= stride;
            dilation *= if atrous { 2 } else { 1 };
        }
    }
    units
}

/// Stem, blocks and, with batch normalisation, the final activation of a pre-activated network.
#[derive(Debug)]
pub(super) struct ResNet {
    stem: Conv,
    pool: MaxPool,
    units: Vec<Bottleneck>,
    /// The unit whose reduced features feed the decoder's skip: the last one of the first block, at a quarter of the
    /// input.
    tapped: usize,
    post: Option<Norm>,
    pub(super) channels_out: usize,
    pub(super) low_level_channels: usize,
}

impl ResNet {
    pub(super) fn new(parameters: &mut Parameters, config: &NetworkConfig) -> Result<Self> {
        let (style, root) = (Style::of(config), config.encoder_channels(64));
        let stem = ConvSpec::same(7).stride(2).periodic(style.periodic);
        let channels = (config.inputs(), root);
        let stem = Conv::new(parameters, "encoder.stem", stem, channels, true)?;
        let (mut units, mut channels_in) = (Vec::new(), root);
        for unit in plan(config) {
            let inner = config.encoder_channels(64 << unit.block);
            let spec = BottleneckSpec {
                channels_in,
                inner,
                channels_out: 4 * inner,
                stride: unit.stride,
                dilation: unit.dilation,
            };
            units.push(Bottleneck::new(parameters, &unit.name, spec, style)?);
            channels_in = spec.channels_out;
        }
        let post = (style.batch_norm)
            .then(|| Norm::new(parameters, "encoder.post", channels_in, style))
            .transpose()?;
        Ok(Self {
            stem,
            pool: MaxPool(PoolSpec::stem(style.periodic)),
            units,
            tapped: config.blocks[0] - 1,
            post,
            channels_out: channels_in,
            low_level_channels: config.encoder_channels(64),
        })
    }

    /// The features at the output stride, and the low-level features at a quarter of the input.
    pub(super) fn forward(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        x: &Tensor,
    ) -> Result<(Tensor, Tensor)> {
        let stem = self.stem.forward(parameters, pass, x)?;
        let mut y = self.pool.forward(parameters, pass, &stem)?;
        drop(stem);
        let mut low = None;
        for (index, unit) in self.units.iter().enumerate() {
            let (next, reduced) = unit.forward_tapped(parameters, pass, &y)?;
            y = next;
            if index == self.tapped {
                low = Some(reduced);
            }
        }
        if let Some(post) = &self.post {
            y = post.forward(parameters, pass, &y)?;
        }
        Ok((y, low.expect("the tapped unit is one of the units")))
    }

    pub(super) fn backward(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        mut dy: Tensor,
        dlow: Tensor,
        gradients: &mut Gradients,
    ) -> Result<()> {
        if let Some(post) = &self.post {
            dy = post.backward(parameters, pass, dy, gradients)?;
        }
        for (index, unit) in self.units.iter().enumerate().rev() {
            let tapped = (index == self.tapped).then(|| dlow.clone());
            dy = unit.backward_tapped(parameters, pass, dy, tapped, gradients)?;
        }
        let dstem = self.pool.backward(parameters, pass, dy, gradients)?;
        (self.stem).backward_parameters(parameters, pass, &dstem, gradients)
    }

    pub(super) fn trace(&self, x: Flow, trace: &mut Trace) -> Result<(Flow, Flow)> {
        let stem = self.stem.trace(x, trace)?;
        let mut y = self.pool.trace(stem, trace)?;
        let mut low = y;
        for (index, unit) in self.units.iter().enumerate() {
            let (next, reduced) = unit.trace_tapped(y, trace)?;
            y = next;
            if index == self.tapped {
                low = reduced;
            }
        }
        if let Some(post) = &self.post {
            y = post.trace(y, trace)?;
        }
        Ok((y, low))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stride and dilation of the units whose 3x3 kernels have any, for blocks of 3, 4, 6 and 3 units. A block's stride
    /// is in its last unit, the last block has none, and a stride beyond the output stride doubles later dilations.
    #[test]
    fn strides_become_dilations_of_the_blocks_that_follow() {
        let all = |block: usize, units: usize, dilation: usize| {
            (1..=units)
                .map(move |unit| (format!("encoder.block{block}.unit{unit}"), 1usize, dilation))
        };
        let halved = |block: usize, unit: usize| {
            std::iter::once((format!("encoder.block{block}.unit{unit}"), 2usize, 1usize))
        };
        for (output_stride, expected) in [
            (
                8,
                halved(1, 3)
                    .chain(all(3, 6, 2))
                    .chain(all(4, 3, 4))
                    .collect::<Vec<_>>(),
            ),
            (
                16,
                halved(1, 3)
                    .chain(halved(2, 4))
                    .chain(all(4, 3, 2))
                    .collect(),
            ),
        ] {
            let config = NetworkConfig {
                output_stride,
                ..NetworkConfig::default()
            };
            let units = plan(&config);
            assert_eq!(units.len(), 16);
            let blocks = units.iter().map(|unit| unit.block);
            let counts = [0, 1, 2, 3].map(|block| blocks.clone().filter(|&b| b == block).count());
            assert_eq!(counts, [3, 4, 6, 3]);
            let found: Vec<_> = units
                .into_iter()
                .map(|unit| (unit.name, unit.stride, unit.dilation))
                .filter(|(_, stride, dilation)| (*stride, *dilation) != (1, 1))
                .collect();
            assert_eq!(found, expected, "output stride {output_stride}");
        }
    }
}
