//! A transposed convolution with its parameters.

use super::conv::{Fold, bias_of, biased, gradient_buffers, input};
use crate::error::Result;
use crate::gradients::Gradients;
use crate::ops::{ConvTransposeSpec, Convolution, Weights};
use crate::parameters::{ParameterId, Parameters};
use crate::pass::Pass;
use crate::trace::{Flow, Trace};
use candle_core::{DType, Tensor};

/// A transposed 3x3 convolution that doubles the extents, then crops the result to its target.
#[derive(Debug)]
pub(crate) struct Upsample {
    name: String,
    weight: ParameterId,
    bias: Option<ParameterId>,
    spec: ConvTransposeSpec,
    channels_in: usize,
    pub(crate) channels_out: usize,
}

impl Upsample {
    pub(crate) fn new(
        parameters: &mut Parameters,
        name: &str,
        periodic: bool,
        (channels_in, channels_out): (usize, usize),
        bias: bool,
    ) -> Result<Self> {
        let spec = ConvTransposeSpec::double(periodic);
        let shape = [channels_in, channels_out, 3, 3];
        // With stride 2 an average of 9 / 4 taps contribute to each output pixel.
        let weight = parameters.weight(format!("{name}.weight"), &shape, channels_in * 9 / 4)?;
        let bias = bias_of(parameters, name, channels_out, bias)?;
        Ok(Self {
            name: name.to_string(),
            weight,
            bias,
            spec,
            channels_in,
            channels_out,
        })
    }

    /// The output, of extents `target` (h, w): twice the input's, or one less where the encoder rounded up.
    pub(crate) fn forward(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        x: &Tensor,
        (h, w): (usize, usize),
    ) -> Result<Tensor> {
        let x = &pass.push_input(self.weight, x)?;
        let weight = parameters.kernel(self.weight, pass);
        if !pass.is_training() {
            let weights = parameters.prepared(self.weight, || {
                biased(Weights::transposed(weight), parameters, self.bias)
            })?;
            let y = (pass.backend).conv_transpose2d_with(x, &weights, &self.spec, false)?;
            return pass.backend.cut(&y, (h, w));
        }
        let bias = self.bias.map(|bias| parameters.get(bias));
        let y = (pass.backend).conv_transpose2d(x, weight, bias, &self.spec)?;
        pass.backend.cut(&y, (h, w))
    }

    /// The id of the kernel.
    pub(crate) fn kernel(&self) -> ParameterId {
        self.weight
    }

    /// The type in which this layer computes.
    pub(crate) fn dtype(&self, pass: &Pass) -> DType {
        pass.dtype_of(self.weight)
    }

    /// In inference: the output with a scale folded into the kernel, a shift instead of the bias, then a ReLU. The
    /// result has type `after`.
    pub(crate) fn forward_folded(
        &self,
        parameters: &Parameters,
        pass: &Pass,
        x: &Tensor,
        size: (usize, usize),
        fold: impl FnOnce() -> Result<Fold>,
        after: DType,
    ) -> Result<Tensor> {
        let x = input(pass, x, self.dtype(pass), after)?;
        let weights = parameters.prepared(self.weight, || {
            let (scale, mut shift) = fold()?;
            if let Some(bias) = self.bias {
                let bias = parameters.values(bias)?;
                for ((shift, scale), bias) in shift.iter_mut().zip(&scale).zip(bias) {
                    *shift += scale * bias;
                }
            }
            let weights = Weights::transposed(parameters.get(self.weight));
            Ok(weights.scaled(scale).biased(shift))
        })?;
        let y = (pass.backend).conv_transpose2d_with(&x, &weights, &self.spec, true)?;
        (pass.backend).convert(&pass.backend.cut(&y, size)?, after)
    }

    pub(crate) fn backward(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        dy: Tensor,
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        let (x, kept) = pass.pop_input(self.weight)?;
        let mut dy = pass.gradient(self.weight, dy)?;
        let (_, h, w, _) = x.dims4()?;
        let (full_h, full_w) = self.spec.output_size((h, w));
        dy = pass.backend.fill_up(&dy, (full_h, full_w))?;
        let (dw, dbias) = gradient_buffers(parameters, gradients, self.weight, self.bias);
        (pass.backend).conv_transpose2d_backward_weights(&x, &dy, &self.spec, dw, dbias)?;
        drop(x);
        let kernel = parameters.kernel(self.weight, pass);
        let dx = (pass.backend).conv_transpose2d_backward_data(&dy, kernel, &self.spec)?;
        pass.backend.convert(&dx, kept)
    }

    pub(crate) fn trace(
        &self,
        x: Flow,
        (target_h, target_w): (usize, usize),
        trace: &mut Trace,
    ) -> Flow {
        let [b, h, w, _] = x.shape;
        let y = [b, target_h, target_w, self.channels_out];
        let taps = 9 * self.channels_in * self.channels_out;
        let bias = self.bias.map_or(0, |_| self.channels_out);
        // Every input pixel uses every tap once.
        let flops = 2 * (b * h * w * taps) as u64;
        let (full_h, full_w) = self.spec.output_size((h, w));
        trace.convolution(Convolution {
            spec: self.spec.conv,
            x: [b, full_h, full_w, self.channels_out],
            y: x.shape,
        });
        trace.layer(&self.name, &[x], y, taps + bias, flops)
    }
}
