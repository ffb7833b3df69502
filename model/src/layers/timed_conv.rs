//! A convolution with a bias over frames, whose kernel may extend over time; and its transpose, for decoders that share
//! their encoder's kernels.
//!
//! Tensors are `(frames, h, w, c)`. The frames of a clip are consecutive, so a layer that does not extend over time can
//! ignore clips.

use super::Layer;
use super::resize::shape_of;
use crate::error::{ModelError, Result};
use crate::gradients::Gradients;
use crate::ops::{Backend, Conv3dSpec, Convolution, Fuse, GradientSink, Weights};
use crate::parameters::{Kind, ParameterId, Parameters};
use crate::pass::Pass;
use crate::trace::{Flow, Trace};
use candle_core::{DType, Tensor};

/// Kernel, bias, geometry and clip length.
#[derive(Debug)]
pub(crate) struct TimedConv {
    name: String,
    weight: ParameterId,
    bias: ParameterId,
    spec: Conv3dSpec,
    /// Frames per clip at the input.
    frames: usize,
    channels_in: usize,
    channels_out: usize,
}

impl TimedConv {
    pub(crate) fn new(
        parameters: &mut Parameters,
        name: &str,
        (spec, frames): (Conv3dSpec, usize),
        (channels_in, channels_out): (usize, usize),
    ) -> Result<Self> {
        let (kh, kw) = spec.plane.kernel;
        let shape = [spec.kernel_t, channels_out, channels_in, kh, kw];
        // A kernel that does not extend over time has the shape of a plain convolution's.
        let shape = &shape[usize::from(spec.kernel_t == 1)..];
        let fan_in = channels_in * spec.kernel_t * kh * kw;
        Ok(Self {
            name: name.to_string(),
            weight: parameters.weight(format!("{name}.weight"), shape, fan_in)?,
            bias: parameters.vector(format!("{name}.bias"), Kind::Bias, channels_out, 0.0)?,
            spec,
            frames,
            channels_in,
            channels_out,
        })
    }

    /// The id of the kernel.
    pub(crate) fn kernel(&self) -> ParameterId {
        self.weight
    }

    /// Frames per clip at the output.
    pub(crate) fn frames_out(&self) -> Result<usize> {
        // The smallest field that the kernel fits on will do.
        let (kh, kw) = self.spec.plane.kernel;
        Ok(self.spec.output_size((self.frames, kh, kw))?.0)
    }

    fn is_flat(&self) -> bool {
        self.spec.kernel_t == 1 && self.spec.stride_t == 1
    }

    /// The shape (b, t, h, w, c) of frames that form clips of length `t`.
    fn clips(&self, [n, h, w, c]: [usize; 4], t: usize) -> Result<[usize; 5]> {
        if t == 0 || !n.is_multiple_of(t) {
            return Err(ModelError::Shape {
                op: "clips",
                what: "frames",
                expected: format!("a multiple of {t}"),
                got: n.to_string(),
            });
        }
        Ok([n / t, t, h, w, c])
    }

    /// The convolution without the tape, with or without the bias.
    fn apply(&self, p: &Parameters, pass: &Pass, x: &Tensor, bias: bool) -> Result<Tensor> {
        let (backend, weight) = (pass.backend, p.kernel(self.weight, pass));
        let bias = bias.then(|| p.get(self.bias));
        if self.is_flat() {
            return backend.conv2d(x, weight, bias, &self.spec.plane, Fuse::None);
        }
        let clips = x.reshape(&self.clips(shape_of(x)?, self.frames)?)?;
        let y = backend.conv3d(&clips, weight, bias, &self.spec)?;
        let (b, t, h, w, c) = y.dims5()?;
        Ok(y.reshape((b * t, h, w, c))?)
    }

    /// The gradient of [`Self::apply`] with respect to x, which has this shape.
    fn transposed(
        &self,
        p: &Parameters,
        pass: &Pass,
        dy: &Tensor,
        x: [usize; 4],
    ) -> Result<Tensor> {
        let (backend, weight) = (pass.backend, p.kernel(self.weight, pass));
        if self.is_flat() {
            return backend.conv2d_backward_data(dy, weight, x, &self.spec.plane);
        }
        let clips = dy.reshape(&self.clips(shape_of(dy)?, self.frames_out()?)?)?;
        let x_clips = self.clips(x, self.frames)?;
        let dx = backend.conv3d_backward_data(&clips, weight, x_clips, &self.spec)?;
        Ok(dx.reshape(&x)?)
    }

    fn add_gradients(
        &self,
        backend: Backend,
        (x, dy): (&Tensor, &Tensor),
        dw: GradientSink<'_>,
        dbias: Option<GradientSink<'_>>,
    ) -> Result<()> {
        if self.is_flat() {
            return backend.conv2d_backward_weights(x, dy, &self.spec.plane, dw, dbias);
        }
        let x = x.reshape(&self.clips(shape_of(x)?, self.frames)?)?;
        let dy = dy.reshape(&self.clips(shape_of(dy)?, self.frames_out()?)?)?;
        backend.conv3d_backward_weights(&x, &dy, &self.spec, dw, dbias)
    }

    /// Adds only the parameter gradients; returns the input and the type of its gradient.
    pub(crate) fn backward_parameters(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        dy: &Tensor,
        gradients: &mut Gradients,
    ) -> Result<(Tensor, DType)> {
        let (x, kept) = pass.pop_input(self.weight)?;
        let dy = pass.gradient(self.weight, dy.clone())?;
        let (dw, dbias) = gradients.two_sinks(p.range(self.weight), p.range(self.bias));
        self.add_gradients(pass.backend, (&x, &dy), dw, Some(dbias))?;
        Ok((x, kept))
    }
}

/// The transposed convolution, which maps the convolution's output space to its input space with the same kernel and no
/// bias.
impl TimedConv {
    /// The transposed convolution of g; the result has shape x.
    pub(crate) fn forward_transposed(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        g: &Tensor,
        x: [usize; 4],
    ) -> Result<Tensor> {
        let g = pass.push_input(self.weight, g)?;
        self.transposed(p, pass, &g, x)
    }

    /// Returns the gradient of g and adds the kernel's gradient. The convolution's own backward pass adds to it as
    /// well.
    pub(crate) fn backward_transposed(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        dx: &Tensor,
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        let (g, kept) = pass.pop_input(self.weight)?;
        let dx = pass.gradient(self.weight, dx.clone())?;
        let dw = gradients.shared_sink(p.range(self.weight));
        self.add_gradients(pass.backend, (&dx, &g), dw, None)?;
        let dg = self.apply(p, pass, &dx, false)?;
        pass.backend.convert(&dg, kept)
    }

    /// Adds the costs of [`Self::forward_transposed`] to `trace`; the result has the shape of `x`.
    pub(crate) fn trace_transposed(&self, name: &str, g: Flow, x: Flow, trace: &mut Trace) -> Flow {
        self.trace_planes(g.shape, x.shape, trace);
        trace.layer(name, &[g], x.shape, 0, self.flops(g.shape))
    }

    /// Every output value uses every tap once.
    fn flops(&self, y: [usize; 4]) -> u64 {
        2 * (y.iter().product::<usize>() * self.taps()) as u64
    }

    fn taps(&self) -> usize {
        let (kh, kw) = self.spec.plane.kernel;
        self.channels_in * self.spec.kernel_t * kh * kw
    }

    /// Records the 2-D convolutions that it consists of.
    fn trace_planes(&self, y: [usize; 4], x: [usize; 4], trace: &mut Trace) {
        let plane = Convolution {
            spec: self.spec.plane,
            x,
            y,
        };
        if self.is_flat() {
            return trace.convolution(plane);
        }
        trace.convolutions_prepared_each_pass(std::iter::repeat_n(plane, self.spec.kernel_t));
    }
}

impl Layer for TimedConv {
    fn forward(&self, p: &Parameters, pass: &mut Pass, x: &Tensor) -> Result<Tensor> {
        let x = pass.push_input(self.weight, x)?;
        if self.is_flat() && !pass.is_training() {
            let weights = p.prepared(self.weight, || {
                Ok(Weights::of(p.get(self.weight)).biased(p.values(self.bias)?))
            })?;
            let y = (pass.backend).conv2d_with(&x, &weights, &self.spec.plane, Fuse::None)?;
            return pass.output(self.weight, &y);
        }
        let y = self.apply(p, pass, &x, true)?;
        pass.output(self.weight, &y)
    }

    fn backward(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        dy: Tensor,
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        let dy = pass.gradient(self.weight, dy)?;
        let (x, kept) = self.backward_parameters(p, pass, &dy, gradients)?;
        let shape = shape_of(&x)?;
        drop(x);
        let dx = self.transposed(p, pass, &dy, shape)?;
        pass.backend.convert(&dx, kept)
    }

    fn trace(&self, x: Flow, trace: &mut Trace) -> Result<Flow> {
        let [n, h, w, _] = x.shape;
        let (t, p, q) = self.spec.output_size((self.frames, h, w))?;
        let y = [n / self.frames * t, p, q, self.channels_out];
        let parameters = (self.taps() + 1) * self.channels_out;
        self.trace_planes(y, x.shape, trace);
        let y = trace.layer(&self.name, &[x], y, parameters, self.flops(y));
        if !self.is_flat() {
            trace.sum_of_convolutions(y);
        }
        Ok(y)
    }
}
