//! A convolution with its parameters.

use super::Joining;
use crate::error::Result;
use crate::gradients::Gradients;
use crate::ops::{ConvSpec, Convolution, Fuse, GradientSink, Weights, joined};
use crate::parameters::{Kind, ParameterId, Parameters};
use crate::pass::Pass;
use crate::trace::{Flow, Trace};
use candle_core::{DType, Tensor};

/// A convolution, with or without bias.
#[derive(Debug)]
pub(crate) struct Conv {
    name: String,
    weight: ParameterId,
    bias: Option<ParameterId>,
    spec: ConvSpec,
    channels_in: usize,
    pub(crate) channels_out: usize,
}

impl Conv {
    pub(crate) fn new(
        parameters: &mut Parameters,
        name: &str,
        spec: ConvSpec,
        (channels_in, channels_out): (usize, usize),
        bias: bool,
    ) -> Result<Self> {
        let inner = channels_in / spec.groups;
        let shape = [channels_out, inner, spec.kernel.0, spec.kernel.1];
        let fan_in = inner * spec.kernel.0 * spec.kernel.1;
        let weight = parameters.weight(format!("{name}.weight"), &shape, fan_in)?;
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

    /// Sets the initial value of the bias, if there is one, which would otherwise be zero.
    pub(crate) fn start_bias(&self, parameters: &mut Parameters, value: f32) {
        if let Some(bias) = self.bias {
            parameters.start_with(bias, value);
        }
    }

    /// The convolution plus `residual`, fused. The gradient of the residual is that of the output.
    pub(crate) fn forward_adding(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        x: &Tensor,
        residual: &Tensor,
    ) -> Result<Tensor> {
        let x = pass.push_input(self.weight, x)?;
        self.apply(parameters, pass, &[&x], Fuse::Add(residual))
    }

    /// The convolution followed by a ReLU, fused.
    pub(crate) fn forward_relu(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        parts: &[Tensor],
    ) -> Result<Tensor> {
        let parts = self.push_inputs(pass, parts)?;
        self.apply(parameters, pass, &all(&parts), Fuse::Relu)
    }

    fn push_inputs(&self, pass: &mut Pass, parts: &[Tensor]) -> Result<Vec<Tensor>> {
        let push = |x: &Tensor| pass.push_input(self.weight, x);
        parts.iter().map(push).collect()
    }

    fn apply(
        &self,
        parameters: &Parameters,
        pass: &Pass,
        parts: &[&Tensor],
        fuse: Fuse<'_>,
    ) -> Result<Tensor> {
        let weight = parameters.kernel(self.weight, pass);
        let y = if pass.is_training() {
            let bias = self.bias.map(|bias| parameters.get(bias));
            (pass.backend).conv2d_joined(parts, weight, bias, &self.spec, fuse)?
        } else {
            let weights = parameters.prepared(self.weight, || {
                biased(Weights::of(weight), parameters, self.bias)
            })?;
            (pass.backend).conv2d_of_parts(parts, &weights, &self.spec, fuse, pass.rows)?
        };
        pass.output(self.weight, &y)
    }

    /// In inference: the convolution with a scale folded into the kernel, plus a shift, then `fuse`. The result has
    /// type `after`.
    pub(crate) fn forward_folded(
        &self,
        parameters: &Parameters,
        pass: &Pass,
        parts: &[Tensor],
        fold: impl FnOnce() -> Result<Fold>,
        (fuse, after): (Fuse<'_>, DType),
    ) -> Result<Tensor> {
        let part = |x| input(pass, x, self.dtype(pass), after);
        let parts = parts.iter().map(part).collect::<Result<Vec<_>>>()?;
        let weights = parameters.prepared(self.weight, || {
            let (scale, shift) = fold()?;
            let weights = Weights::of(parameters.get(self.weight));
            Ok(weights.scaled(scale).biased(shift))
        })?;
        let y =
            (pass.backend).conv2d_of_parts(&all(&parts), &weights, &self.spec, fuse, pass.rows)?;
        pass.backend.convert(&y, after)
    }

    /// The id of the kernel.
    pub(crate) fn kernel(&self) -> ParameterId {
        self.weight
    }

    /// The type in which this layer computes.
    pub(crate) fn dtype(&self, pass: &Pass) -> DType {
        pass.dtype_of(self.weight)
    }

    /// The type of this layer's output.
    pub(crate) fn output_dtype(&self, pass: &Pass) -> DType {
        pass.output_dtype(self.weight)
    }

    /// Keeps what the backward pass needs when the output itself is not needed.
    pub(crate) fn forward_unread(&self, pass: &mut Pass, x: &Tensor) -> Result<()> {
        pass.push_input(self.weight, x).map(drop)
    }
}

/// Adds a bias that starts at zero, if requested.
pub(super) fn bias_of(
    parameters: &mut Parameters,
    name: &str,
    channels: usize,
    wanted: bool,
) -> Result<Option<ParameterId>> {
    wanted
        .then(|| parameters.vector(format!("{name}.bias"), Kind::Bias, channels, 0.0))
        .transpose()
}

/// The gradient buffers of a kernel and, if there is one, of its bias.
pub(super) fn gradient_buffers<'g>(
    parameters: &Parameters,
    gradients: &'g mut Gradients,
    weight: ParameterId,
    bias: Option<ParameterId>,
) -> (GradientSink<'g>, Option<GradientSink<'g>>) {
    let weight = parameters.range(weight);
    match bias {
        Some(bias) => {
            let (dw, dbias) = gradients.two_sinks(weight, parameters.range(bias));
            (dw, Some(dbias))
        }
        None => (gradients.sink(weight), None),
    }
}

/// A scale and a shift per channel.
pub(crate) type Fold = (Vec<f32>, Vec<f32>);

/// The weights with their bias, if there is one.
pub(super) fn biased(
    weights: Weights,
    p: &Parameters,
    bias: Option<ParameterId>,
) -> Result<Weights> {
    Ok(match bias {
        Some(bias) => weights.biased(p.values(bias)?),
        None => weights,
    })
}

impl Conv {
    /// Adds only the parameter gradients, for a first layer, whose input needs no gradient.
    pub(crate) fn backward_parameters(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        dy: &Tensor,
        gradients: &mut Gradients,
    ) -> Result<()> {
        self.add_gradients(parameters, pass, dy, 1, gradients)
            .map(drop)
    }

    /// Adds the parameter gradients. Returns batch and extents of the input, which consisted of this many parts, and
    /// the types of the parts' gradients.
    fn add_gradients(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        dy: &Tensor,
        parts: usize,
        gradients: &mut Gradients,
    ) -> Result<([usize; 3], Vec<DType>)> {
        let (mut x, mut kept) = (Vec::with_capacity(parts), Vec::with_capacity(parts));
        for _ in 0..parts {
            let (part, dtype) = pass.pop_input(self.weight)?;
            x.push(part);
            kept.push(dtype);
        }
        x.reverse();
        kept.reverse();
        let dy = &pass.gradient(self.weight, dy.clone())?;
        let (dw, dbias) = gradient_buffers(parameters, gradients, self.weight, self.bias);
        (pass.backend).conv2d_joined_backward_weights(&all(&x), dy, &self.spec, dw, dbias)?;
        let (b, h, w, _) = x[0].dims4()?;
        Ok(([b, h, w], kept))
    }
}

/// Borrows every tensor.
fn all(parts: &[Tensor]) -> Vec<&Tensor> {
    parts.iter().collect()
}

impl Joining for Conv {
    fn forward_joined(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        parts: &[Tensor],
    ) -> Result<Tensor> {
        let parts = self.push_inputs(pass, parts)?;
        self.apply(parameters, pass, &all(&parts), Fuse::None)
    }

    fn backward_joined(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        dy: Tensor,
        channels: &[usize],
        gradients: &mut Gradients,
    ) -> Result<Vec<Tensor>> {
        let dy = pass.gradient(self.weight, dy)?;
        let (extents, kept) =
            self.add_gradients(parameters, pass, &dy, channels.len(), gradients)?;
        let kernel = parameters.kernel(self.weight, pass);
        let shapes = (extents, channels);
        let dparts = (pass.backend).conv2d_joined_backward_data(&dy, kernel, shapes, &self.spec)?;
        let dparts = dparts.into_iter().zip(kept);
        dparts
            .map(|(dpart, dtype)| pass.backend.convert(&dpart, dtype))
            .collect()
    }

    fn trace_joined(&self, parts: &[Flow], trace: &mut Trace) -> Result<Flow> {
        let [b, h, w, _] = parts[0].shape;
        let (p, q) = self.spec.output_size((h, w))?;
        let taps = self.channels_in / self.spec.groups * self.spec.kernel.0 * self.spec.kernel.1;
        let y = [b, p, q, self.channels_out];
        let bias = self.bias.map_or(0, |_| self.channels_out);
        trace.convolution(Convolution {
            spec: self.spec,
            x: [b, h, w, self.channels_in],
            y,
        });
        if parts.len() > 1 {
            trace.most_concatenated = trace
                .most_concatenated
                .max((b * h * w * self.channels_in) as u64);
        }
        let aligned = joined::is_aligned(parts.iter().map(|part| part.shape[3]));
        if parts.len() > 1 && self.spec.kernel == (1, 1) {
            // The forward pass reads the parts in place, but the backward pass must concatenate them.
            trace.also_reads_concatenated(parts, false);
        } else if !aligned {
            trace.also_reads_concatenated(parts, true);
        }
        Ok(trace.layer(
            &self.name,
            parts,
            y,
            taps * self.channels_out + bias,
            2 * (b * p * q * taps * self.channels_out) as u64,
        ))
    }

    fn channels_in(&self) -> usize {
        self.channels_in
    }
}

/// Converts x for a convolution that computes in `dtype` and whose result has type `after`.
pub(super) fn input(pass: &Pass, x: &Tensor, dtype: DType, after: DType) -> Result<Tensor> {
    let x = pass.backend.convert(x, dtype)?;
    // If the result is wider than `dtype`, x is widened again so that the result is not rounded to `dtype` first.
    if after.size_in_bytes() > dtype.size_in_bytes() {
        return pass.backend.convert(&x, after);
    }
    Ok(x)
}
