//! Convolutions over time, latitude and longitude.
//!
//! Shape letters: t time (frames of a clip), kt kernel size in time; others as in [`super`]. Weights are
//! `(kt, out, in / groups, kh, kw)`: each tap in time is a contiguous set of weights of a 2-D convolution.
//!
//! The fast backend sums 2-D convolutions. Each covers all frames that use the same taps, because reading a kernel
//! takes as long as multiplying a small field by it. Frames are views of the clip, sums are accumulated in place, and
//! packed kernels are made once.

use super::conv_spec::{ConvSpec, source};
use super::host::{Host, expect, tensor};
use super::{Backend, Fuse, GradientSink, Weights, reference};
use crate::error::{ModelError, Result};
use crate::profile;
use candle_core::Tensor;

/// A convolution's geometry in time and in a frame. Padding in time is zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Conv3dSpec {
    /// The geometry in latitude and longitude.
    pub plane: ConvSpec,
    /// Kernel size in time.
    pub kernel_t: usize,
    /// Stride in time.
    pub stride_t: usize,
    /// Zero frames before and after the clip: less than half the kernel.
    pub padding_t: usize,
}

impl Conv3dSpec {
    /// A geometry with an odd kernel in time that preserves the number of frames.
    pub fn same_time(plane: ConvSpec, kernel_t: usize) -> Self {
        Self {
            plane,
            kernel_t,
            stride_t: 1,
            padding_t: kernel_t / 2,
        }
    }

    /// This geometry with another stride in time, which divides the number of frames, rounding up.
    #[must_use]
    pub fn stride_t(self, stride_t: usize) -> Self {
        Self { stride_t, ..self }
    }

    /// Output extents (t, h, w) of an input of (t, h, w).
    ///
    /// # Errors
    /// [`ModelError::Shape`] if the kernel does not fit, a field of the spec is zero, or padding in time is half the
    /// kernel or more.
    pub fn output_size(&self, (t, h, w): (usize, usize, usize)) -> Result<(usize, usize, usize)> {
        let bad = |what, expected: &str, got: String| {
            Err(ModelError::Shape {
                op: "conv3d",
                what,
                expected: expected.into(),
                got,
            })
        };
        if self.kernel_t * self.stride_t == 0 || 2 * self.padding_t >= self.kernel_t {
            let expected = "kernel and stride in time above 0, padding below half the kernel";
            return bad("spec", expected, format!("{self:?}"));
        }
        let (p, q) = self.plane.output_size((h, w))?;
        match (t + 2 * self.padding_t).checked_sub(self.kernel_t) {
            Some(room) => Ok((room / self.stride_t + 1, p, q)),
            None => bad(
                "input",
                "as many frames as the kernel",
                format!("{t} frames"),
            ),
        }
    }

    /// The frame that a tap of an output frame reads; `None` for padding.
    pub(crate) fn frame(&self, output: usize, tap: usize, frames: usize) -> Option<usize> {
        source(output, self.stride_t, tap, self.padding_t, frames, false)
    }

    /// Pairs the elements with their tap indices, and moves the tap that never reads padding to the front.
    fn first_tap_first<T>(&self, of_taps: Vec<T>) -> Vec<(usize, T)> {
        let mut taps: Vec<(usize, T)> = of_taps.into_iter().enumerate().collect();
        taps[..=self.padding_t].rotate_right(1);
        taps
    }

    /// Checks an input and weights and returns the output's shape.
    fn output_shape(
        &self,
        op: &'static str,
        x: [usize; 5],
        weights: &[usize],
    ) -> Result<[usize; 5]> {
        let [b, t, h, w, c] = x;
        let (out_t, out_h, out_w) = self.output_size((t, h, w))?;
        let [kt, plane @ ..] = weights else {
            return Err(ModelError::Shape {
                op,
                what: "weights",
                expected: "(kt, out, in / groups, kh, kw)".into(),
                got: format!("{weights:?}"),
            });
        };
        expect(op, "weights' extent in time", self.kernel_t, *kt)?;
        let [_, _, _, out] = self.plane.output_shape(op, [b, h, w, c], plane)?;
        Ok([b, out_t, out_h, out_w, out])
    }
}

/// The five extents of a clip.
fn bthwc(op: &'static str, what: &'static str, clip: &Tensor) -> Result<[usize; 5]> {
    match *clip.dims() {
        [b, t, h, w, c] if b * t * h * w * c > 0 => Ok([b, t, h, w, c]),
        ref other => Err(ModelError::Shape {
            op,
            what,
            expected: "(b, t, h, w, c)".into(),
            got: format!("{other:?}"),
        }),
    }
}

/// Views a clip batch as consecutive frames.
fn frames(clip: &Tensor, [b, t, h, w, c]: [usize; 5]) -> Result<Tensor> {
    Ok(clip.contiguous()?.reshape((b * t, h, w, c))?)
}

/// Views of the weights of every tap in time.
fn taps(weights: &Tensor) -> Result<Vec<Tensor>> {
    let weights = weights.contiguous()?;
    let kt = weights.dim(0)?;
    (0..kt).map(|tap| Ok(weights.get(tap)?)).collect()
}

impl Backend {
    /// The convolution of clips with weights, plus bias.
    ///
    /// # Shapes
    /// x `(b, t, h, w, c)`, weights `(kt, o, c / groups, kh, kw)`, bias `o` → `(b, u, p, q, o)` with
    /// [`Conv3dSpec::output_size`].
    /// # Errors
    /// [`ModelError::Shape`] naming what differs.
    pub fn conv3d(
        self,
        x: &Tensor,
        weights: &Tensor,
        bias: Option<&Tensor>,
        spec: &Conv3dSpec,
    ) -> Result<Tensor> {
        let op = "conv3d";
        let x_shape = bthwc(op, "x", x)?;
        let y_shape = spec.output_shape(op, x_shape, weights.dims())?;
        let _span = profile::span(|| format!("conv3d {x_shape:?} {:?}", weights.dims()));
        if let Some(bias) = bias {
            expect(op, "bias", y_shape[4], bias.elem_count())?;
        }
        if self == Self::Reference {
            let (values, w) = (Host::of(op, x)?, Host::of(op, weights)?);
            let bias = bias.map(|bias| Host::of(op, bias)).transpose()?;
            let shapes = (x_shape, y_shape);
            let y = reference::conv3d::forward(&values, &w, bias.as_deref(), shapes, spec);
            return tensor(y, &y_shape, x.dtype());
        }
        let all = frames(x, x_shape)?;
        let mut bias = bias.map(|bias| self.channels_of(op, bias)).transpose()?;
        let (t, u) = (x_shape[1], y_shape[1]);
        let reads = |at| taps_of_output(spec, at, t);
        let mut runs = Run::all((y_shape[0], u), spec.stride_t == 1, reads);
        for (tap, values) in spec.first_tap_first(taps(weights)?) {
            // The first tap never reads padding, so it carries the bias.
            let kernel = Weights::of(&values).reused();
            let kernel = match bias.take() {
                Some(bias) => kernel.biased(bias),
                None => kernel,
            };
            for run in &mut runs {
                let Some(frame) = run.read_by(tap) else {
                    continue;
                };
                let x = all.narrow(0, run.sample * t + frame, run.frames.len())?;
                let fuse = run.sum.as_ref().map_or(Fuse::None, Fuse::Add);
                run.sum = Some(self.conv2d_with(&x, &kernel, &spec.plane, fuse)?);
            }
        }
        let outputs: Vec<Tensor> = runs.into_iter().filter_map(|run| run.sum).collect();
        Ok(self.stack(&outputs)?.reshape(&y_shape)?)
    }

    /// The gradient of [`Self::conv3d`] with respect to x.
    ///
    /// # Shapes
    /// dy `(b, u, p, q, o)`, weights `(kt, o, c / groups, kh, kw)` → `x_shape`, `(b, t, h, w, c)`
    /// # Errors
    /// [`ModelError::Shape`] naming what differs.
    pub fn conv3d_backward_data(
        self,
        dy: &Tensor,
        weights: &Tensor,
        x_shape: [usize; 5],
        spec: &Conv3dSpec,
    ) -> Result<Tensor> {
        let op = "conv3d_backward_data";
        let y_shape = spec.output_shape(op, x_shape, weights.dims())?;
        expect(op, "dy", &y_shape[..], dy.dims())?;
        let _span = profile::span(|| format!("{op} {x_shape:?} {:?}", weights.dims()));
        if self == Self::Reference {
            let (grad, w) = (Host::of(op, dy)?, Host::of(op, weights)?);
            let shapes = (x_shape, y_shape);
            let dx = reference::conv3d::backward_data(&grad, &w, shapes, spec);
            return tensor(dx, &x_shape, dy.dtype());
        }
        let [_, t, h, w, c] = x_shape;
        let u = y_shape[1];
        let all = frames(dy, y_shape)?;
        let reads = |at| taps_of_input(spec, at, (t, u));
        let mut runs = Run::all((x_shape[0], t), spec.stride_t == 1, reads);
        for (tap, values) in taps(weights)?.into_iter().enumerate() {
            let kernel = Weights::transposed(&values).reused();
            for run in &mut runs {
                let Some(frame) = run.read_by(tap) else {
                    continue;
                };
                let (shape, plane) = ([run.frames.len(), h, w, c], &spec.plane);
                let dy = all.narrow(0, run.sample * u + frame, run.frames.len())?;
                let part = self.transposed(&dy, &kernel, shape, plane, false)?;
                run.sum = Some(match &run.sum {
                    Some(sum) => self.add(sum, &part)?,
                    None => part,
                });
            }
        }
        let outputs = runs.into_iter().map(|run| match run.sum {
            Some(dx) => Ok(dx),
            None => self.zeros([run.frames.len(), h, w, c], dy.dtype()),
        });
        let outputs = outputs.collect::<Result<Vec<_>>>()?;
        Ok(self.stack(&outputs)?.reshape(&x_shape)?)
    }

    /// Adds the gradients of [`Self::conv3d`] with respect to the weights and the bias.
    ///
    /// # Shapes
    /// x `(b, t, h, w, c)`, dy `(b, u, p, q, o)`; dw has the values of `(kt, o, c / groups, kh, kw)`, dbias `o`.
    /// # Errors
    /// [`ModelError::Shape`] naming what differs.
    pub fn conv3d_backward_weights<'d>(
        self,
        x: &Tensor,
        dy: &Tensor,
        spec: &Conv3dSpec,
        dw: impl Into<GradientSink<'d>>,
        dbias: Option<GradientSink<'_>>,
    ) -> Result<()> {
        let dw = dw.into();
        let op = "conv3d_backward_weights";
        let (x_shape, y_shape) = (bthwc(op, "x", x)?, bthwc(op, "dy", dy)?);
        let _span = profile::span(|| format!("{op} {x_shape:?} {y_shape:?}"));
        let inner = x_shape[4] / spec.plane.groups.max(1);
        let (kh, kw) = spec.plane.kernel;
        let weights = [spec.kernel_t, y_shape[4], inner, kh, kw];
        expect(op, "dy", spec.output_shape(op, x_shape, &weights)?, y_shape)?;
        expect(op, "dw", weights.iter().product(), dw.len())?;
        if let Some(dbias) = dbias {
            expect(op, "dbias", y_shape[4], dbias.len())?;
            self.add_channel_sums(op, dy, dbias)?;
        }
        if self == Self::Reference {
            let (values, grad) = (Host::of(op, x)?, Host::of(op, dy)?);
            let shapes = (x_shape, y_shape);
            reference::conv3d::backward_weights(&values, &grad, shapes, spec, dw.host()?);
            return Ok(());
        }
        let (t, u) = (x_shape[1], y_shape[1]);
        let (x, dy) = (frames(x, x_shape)?, frames(dy, y_shape)?);
        for (tap, mut dw) in dw.pieces(spec.kernel_t)?.into_iter().enumerate() {
            let reads = |at| spec.frame(at, tap, t).map(|frame| (tap, frame));
            let reads = |at| Vec::from_iter(reads(at));
            for run in Run::all((x_shape[0], u), spec.stride_t == 1, reads) {
                for &(_, first) in &run.reads {
                    let x = x.narrow(0, run.sample * t + first, run.frames.len())?;
                    let first = run.sample * u + run.frames.start;
                    let dy = dy.narrow(0, first, run.frames.len())?;
                    self.conv2d_backward_weights(&x, &dy, &spec.plane, dw.again(), None)?;
                }
            }
        }
        Ok(())
    }
}

/// Consecutive frames of a sample that use the same taps, so that one convolution per tap covers all of them.
#[derive(Debug)]
struct Run {
    sample: usize,
    frames: std::ops::Range<usize>,
    /// Each tap with the frame that it connects to the first frame of the run; later frames of the run follow in step.
    reads: Vec<(usize, usize)>,
    /// The sum over the taps processed so far.
    sum: Option<Tensor>,
}

impl Run {
    /// Runs that cover all frames of all samples, given the taps that each frame uses. Only with a stride of 1 are the
    /// connected frames consecutive as well.
    fn all(
        (samples, frames): (usize, usize),
        joined: bool,
        reads: impl Fn(usize) -> Vec<(usize, usize)>,
    ) -> Vec<Self> {
        let taps = |reads: &[(usize, usize)]| reads.iter().map(|read| read.0).collect::<Vec<_>>();
        let mut runs: Vec<Self> = Vec::new();
        for sample in 0..samples {
            for at in 0..frames {
                let reads = reads(at);
                match runs.last_mut() {
                    Some(run)
                        if joined && run.sample == sample && taps(&run.reads) == taps(&reads) =>
                    {
                        run.frames.end = at + 1;
                    }
                    _ => runs.push(Self {
                        sample,
                        frames: at..at + 1,
                        reads,
                        sum: None,
                    }),
                }
            }
        }
        runs
    }

    /// The frame that a tap connects to the first frame of the run.
    fn read_by(&self, tap: usize) -> Option<usize> {
        let read = self.reads.iter().find(|read| read.0 == tap);
        read.map(|read| read.1)
    }
}

/// The taps of an output frame that read input frames, each with the frame that it reads.
fn taps_of_output(spec: &Conv3dSpec, output: usize, frames: usize) -> Vec<(usize, usize)> {
    let read = |tap| Some((tap, spec.frame(output, tap, frames)?));
    (0..spec.kernel_t).filter_map(read).collect()
}

/// The taps through which an input frame is read, each with the output frame that reads it.
fn taps_of_input(spec: &Conv3dSpec, at: usize, (t, u): (usize, usize)) -> Vec<(usize, usize)> {
    let outputs = |tap| {
        let reads = move |&output: &usize| spec.frame(output, tap, t) == Some(at);
        (0..u).filter(reads).map(move |output| (tap, output))
    };
    (0..spec.kernel_t).flat_map(outputs).collect()
}
