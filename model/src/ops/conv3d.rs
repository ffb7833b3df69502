//! Convolutions over time, latitude and longitude.
//!
//! Letters: t time (frames of a clip), kt extent of the kernel in time; others as in [`super`]. Weights are
//! `(kt, out, in / groups, kh, kw)`: every tap in time is the weights of a convolution over latitude and longitude, and
//! lies in one piece.
//!
//! The fast backend adds up such convolutions frame by frame. Frames are views of the clip, sums are added as they are
//! written, and what a kernel is turned into for speed is made once for all frames.

#[cfg(any(feature = "onednn", feature = "cuda"))]
use super::Fuse;
#[cfg(any(feature = "onednn", feature = "cuda"))]
use super::Weights;
use super::conv_spec::{ConvSpec, source};
use super::host::{Host, expect, tensor};
use super::{Backend, Landing, reference};
use crate::error::{ModelError, Result};
use crate::profile;
use candle_core::Tensor;

/// A convolution's geometry in time and in a frame. Padding in time is zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Conv3dSpec {
    /// In latitude and longitude.
    pub plane: ConvSpec,
    /// Extent of the kernel in time.
    pub kernel_t: usize,
    /// Step between output frames.
    pub stride_t: usize,
    /// Frames of zeros before and after the clip: less than half of the kernel.
    pub padding_t: usize,
}

impl Conv3dSpec {
    /// With an odd kernel in time that keeps the number of frames.
    pub fn same_time(plane: ConvSpec, kernel_t: usize) -> Self {
        Self {
            plane,
            kernel_t,
            stride_t: 1,
            padding_t: kernel_t / 2,
        }
    }

    /// With another step in time; frames shrink by it, rounding up.
    #[must_use]
    pub fn stride_t(self, stride_t: usize) -> Self {
        Self { stride_t, ..self }
    }

    /// Output extents (t, h, w) of an input of (t, h, w).
    ///
    /// # Errors
    /// [`ModelError::Shape`] if the kernel does not fit, a field of the spec is zero, or padding in time is half the kernel or
    /// more.
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

    /// The frame that a tap of an output frame reads; `None` where the padding is.
    pub(crate) fn frame(&self, output: usize, tap: usize, frames: usize) -> Option<usize> {
        source(output, self.stride_t, tap, self.padding_t, frames, false)
    }

    /// Checks an input and weights and gives the output's shape.
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

/// Frames one after the other: the same memory.
#[cfg(any(feature = "onednn", feature = "cuda"))]
fn frames(clip: &Tensor, [b, t, h, w, c]: [usize; 5]) -> Result<Tensor> {
    Ok(clip.contiguous()?.reshape((b * t, h, w, c))?)
}

/// The weights of every tap in time: the same memory.
#[cfg(any(feature = "onednn", feature = "cuda"))]
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
        match self {
            Self::Reference => {
                let (values, w) = (Host::of(op, x)?, Host::of(op, weights)?);
                let bias = bias.map(|bias| Host::of(op, bias)).transpose()?;
                let shapes = (x_shape, y_shape);
                let y = reference::conv3d::forward(&values, &w, bias.as_deref(), shapes, spec);
                tensor(y, &y_shape, x.dtype())
            }
            #[cfg(any(feature = "onednn", feature = "cuda"))]
            _ => {
                let all = frames(x, x_shape)?;
                let mut kernels: Vec<Weights> = taps(weights)?.iter().map(Weights::of).collect();
                if let Some(bias) = bias {
                    let bias = self.channels_of(op, bias)?;
                    let first = kernels.remove(spec.padding_t).biased(bias);
                    kernels.insert(spec.padding_t, first);
                }
                let mut outputs = Vec::with_capacity(y_shape[0] * y_shape[1]);
                for (sample, at) in pairs(y_shape) {
                    outputs.push(self.frame_of(&all, x_shape[1], (sample, at), &kernels, spec)?);
                }
                Ok(self.stack(&outputs)?.reshape(&y_shape)?)
            }
        }
    }

    /// Frame `at` of the output for a sample.
    #[cfg(any(feature = "onednn", feature = "cuda"))]
    fn frame_of(
        self,
        all: &Tensor,
        t: usize,
        (sample, at): (usize, usize),
        kernels: &[Weights],
        spec: &Conv3dSpec,
    ) -> Result<Tensor> {
        let read = |tap: usize| -> Result<Option<Tensor>> {
            let frame = spec.frame(at, tap, t);
            let frame = frame.map(|frame| all.narrow(0, sample * t + frame, 1));
            Ok(frame.transpose()?)
        };
        // This tap is never in the padding, so it brings the bias.
        let first = spec.padding_t;
        let Some(x) = read(first)? else {
            unreachable!("padding is below half the kernel")
        };
        let mut y = self.conv2d_with(&x, &kernels[first], &spec.plane, Fuse::None)?;
        for tap in (0..kernels.len()).filter(|&tap| tap != first) {
            if let Some(x) = read(tap)? {
                y = self.conv2d_with(&x, &kernels[tap], &spec.plane, Fuse::Add(&y))?;
            }
        }
        Ok(y)
    }

    /// The gradient of [`Self::conv3d`] with respect to x.
    ///
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
        match self {
            Self::Reference => {
                let (grad, w) = (Host::of(op, dy)?, Host::of(op, weights)?);
                let shapes = (x_shape, y_shape);
                let dx = reference::conv3d::backward_data(&grad, &w, shapes, spec);
                tensor(dx, &x_shape, dy.dtype())
            }
            #[cfg(any(feature = "onednn", feature = "cuda"))]
            _ => {
                let [_, t, h, w, c] = x_shape;
                let all = frames(dy, y_shape)?;
                let kernels: Vec<Weights> =
                    taps(weights)?.iter().map(Weights::transposed).collect();
                let mut outputs = Vec::with_capacity(x_shape[0] * t);
                for (sample, at) in pairs(x_shape) {
                    let mut dx: Option<Tensor> = None;
                    for (output, tap) in readers(spec, at, (t, y_shape[1])) {
                        let dy = all.narrow(0, sample * y_shape[1] + output, 1)?;
                        let shape = [1, h, w, c];
                        let part =
                            self.transposed(&dy, &kernels[tap], shape, &spec.plane, false)?;
                        dx = Some(match dx {
                            Some(sum) => self.add(&sum, &part)?,
                            None => part,
                        });
                    }
                    outputs.push(match dx {
                        Some(dx) => dx,
                        None => self.zeros([1, h, w, c], dy.dtype())?,
                    });
                }
                Ok(self.stack(&outputs)?.reshape(&x_shape)?)
            }
        }
    }

    /// Adds the gradients of [`Self::conv3d`] with respect to the weights and the bias.
    ///
    /// # Errors
    /// [`ModelError::Shape`] naming what differs.
    pub fn conv3d_backward_weights<'d>(
        self,
        x: &Tensor,
        dy: &Tensor,
        spec: &Conv3dSpec,
        dw: impl Into<Landing<'d>>,
        dbias: Option<Landing<'_>>,
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
        match self {
            Self::Reference => {
                let (values, grad) = (Host::of(op, x)?, Host::of(op, dy)?);
                let shapes = (x_shape, y_shape);
                reference::conv3d::backward_weights(&values, &grad, shapes, spec, dw.host()?);
            }
            #[cfg(any(feature = "onednn", feature = "cuda"))]
            _ => {
                let (t, u) = (x_shape[1], y_shape[1]);
                let (x, dy) = (frames(x, x_shape)?, frames(dy, y_shape)?);
                for (tap, mut dw) in dw.pieces(spec.kernel_t)?.into_iter().enumerate() {
                    for (sample, run) in runs(spec, tap, (x_shape[0], t, u)) {
                        let Some(first) = spec.frame(run.start, tap, t) else {
                            unreachable!("runs are of frames that are read")
                        };
                        let x = x.narrow(0, sample * t + first, run.len())?;
                        let dy = dy.narrow(0, sample * u + run.start, run.len())?;
                        self.conv2d_backward_weights(&x, &dy, &spec.plane, dw.again(), None)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Sample and frame of a clip, frame by frame.
#[cfg(any(feature = "onednn", feature = "cuda"))]
fn pairs([b, t, ..]: [usize; 5]) -> impl Iterator<Item = (usize, usize)> {
    (0..b).flat_map(move |sample| (0..t).map(move |at| (sample, at)))
}

/// The output frames that read input frame `at`, each with the tap that does.
#[cfg(any(feature = "onednn", feature = "cuda"))]
fn readers(
    spec: &Conv3dSpec,
    at: usize,
    (t, u): (usize, usize),
) -> impl Iterator<Item = (usize, usize)> + '_ {
    (0..spec.kernel_t).flat_map(move |tap| {
        let reads = move |&output: &usize| spec.frame(output, tap, t) == Some(at);
        (0..u).filter(reads).map(move |output| (output, tap))
    })
}

/// Of each sample the runs of output frames whose tap reads frames that follow each other.
#[cfg(any(feature = "onednn", feature = "cuda"))]
fn runs(
    spec: &Conv3dSpec,
    tap: usize,
    (b, t, u): (usize, usize, usize),
) -> Vec<(usize, std::ops::Range<usize>)> {
    let read: Vec<usize> = (0..u)
        .filter(|&at| spec.frame(at, tap, t).is_some())
        .collect();
    let of_one: Vec<std::ops::Range<usize>> = match (read.first(), read.last()) {
        (Some(&first), Some(&last)) if spec.stride_t == 1 => {
            std::iter::once(first..last + 1).collect()
        }
        _ => read.iter().map(|&at| at..at + 1).collect(),
    };
    let of_sample = |sample| of_one.iter().map(move |run| (sample, run.clone()));
    (0..b).flat_map(of_sample).collect()
}
