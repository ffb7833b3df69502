//! Convolutions of tensors that are concatenated along the channels, without making the concatenation where the loops
//! can read the parts in place.

use super::algorithm::ConvAlgorithm;
use super::conv_spec::Rows;
use super::finish::Finish;
use super::host::{bhwc, expect};
use super::joined::{self, Joined};
use super::value::by_dtype;
use super::winograd::{self, Direction};
use super::{Backend, ConvSpec, Convolution, Fuse, GradientSink, Weights};
use crate::error::Result;
use crate::profile;
use candle_core::Tensor;

impl Backend {
    /// The convolution of several tensors' channels, bit-identical to that of [`Self::concat`].
    ///
    /// # Shapes
    /// parts `(b, h, w, cᵢ)`, weights `(o, Σ cᵢ / groups, kh, kw)`, bias `o` → `(b, p, q, o)`
    /// # Errors
    /// [`crate::ModelError::Shape`] naming what differs.
    pub fn conv2d_joined(
        self,
        parts: &[&Tensor],
        weights: &Tensor,
        bias: Option<&Tensor>,
        spec: &ConvSpec,
        fuse: Fuse<'_>,
    ) -> Result<Tensor> {
        let mut all = Weights::of(weights);
        if let Some(bias) = bias {
            all = all.biased(self.channels_of("conv2d", bias)?);
        }
        self.conv2d_of_parts(parts, &all, spec, fuse, None)
    }

    /// As [`Self::conv2d_joined`], with weights that cache their packed forms, for a range of rows of a field, by the
    /// algorithm that the whole field would use.
    pub(crate) fn conv2d_of_parts(
        self,
        parts: &[&Tensor],
        weights: &Weights,
        spec: &ConvSpec,
        fuse: Fuse<'_>,
        rows: Option<Rows>,
    ) -> Result<Tensor> {
        if let [x] = parts {
            return self.conv2d_of_rows(x, weights, spec, fuse, rows);
        }
        if self.is_onednn() && joined::can_be_read(parts) {
            let x_shape @ [b, h, w, c] = joined::shape("conv2d", parts)?;
            let whole = [b, rows.map_or(h, |rows| rows.whole), w, c];
            let whole = Convolution::of("conv2d", spec, whole, weights.dims())?;
            if ConvAlgorithm::of(self, parts[0].dtype(), &whole, Direction::Forward)
                == ConvAlgorithm::Winograd
            {
                let spec = &rows.map_or(*spec, |rows| rows.spec(spec));
                let conv = Convolution::of("conv2d", spec, x_shape, weights.dims())?;
                return by_winograd(&conv, parts, weights, fuse);
            }
        }
        self.conv2d_of_rows(&self.concat(parts)?, weights, spec, fuse, rows)
    }

    /// The gradients of [`Self::conv2d_joined`] with respect to each tensor, whose channel counts are `channels`.
    ///
    /// # Shapes
    /// dy `(b, p, q, o)`, weights `(o, Σ cᵢ / groups, kh, kw)` → `(b, h, w, cᵢ)` for each of `channels`
    /// # Errors
    /// [`crate::ModelError::Shape`] naming what differs.
    pub fn conv2d_joined_backward_data(
        self,
        dy: &Tensor,
        weights: &Tensor,
        ([b, h, w], channels): ([usize; 3], &[usize]),
        spec: &ConvSpec,
    ) -> Result<Vec<Tensor>> {
        let x_shape = [b, h, w, channels.iter().sum()];
        if channels.len() == 1 {
            return Ok(vec![self.conv2d_backward_data(dy, weights, x_shape, spec)?]);
        }
        if self.is_onednn() && joined::is_aligned(channels.iter().copied()) {
            let op = "conv2d_backward_data";
            let conv = Convolution::of(op, spec, x_shape, weights.dims())?;
            expect(op, "dy", &conv.y[..], dy.dims())?;
            if ConvAlgorithm::of(self, dy.dtype(), &conv, Direction::BackwardData)
                == ConvAlgorithm::Winograd
            {
                let _span = profile::span(|| {
                    let (dims, spec) = (weights.dims(), spec.brief());
                    format!("conv2d backward data {x_shape:?} {dims:?} {spec} Winograd")
                });
                let weights = Weights::transposed(weights);
                return transposed_by_winograd(&conv, dy, &weights, (false, channels));
            }
        }
        if self.reads_apart(spec) {
            let mut first = 0;
            let part = |&count: &usize| {
                let kernel = weights.narrow(1, first, count)?.contiguous()?;
                first += count;
                self.conv2d_backward_data(dy, &kernel, [b, h, w, count], spec)
            };
            return channels.iter().map(part).collect();
        }
        let dx = self.conv2d_backward_data(dy, weights, x_shape, spec)?;
        self.split(&dx, channels)
    }

    /// Adds the gradients of [`Self::conv2d_joined`] with respect to the weights and the bias.
    ///
    /// # Shapes
    /// parts `(b, h, w, cᵢ)`, dy `(b, p, q, o)`; dw has the values of `(o, Σ cᵢ / groups, kh, kw)`, dbias `o`.
    /// # Errors
    /// [`crate::ModelError::Shape`] naming what differs.
    pub fn conv2d_joined_backward_weights<'d>(
        self,
        parts: &[&Tensor],
        dy: &Tensor,
        spec: &ConvSpec,
        dw: impl Into<GradientSink<'d>>,
        dbias: Option<GradientSink<'_>>,
    ) -> Result<()> {
        if let [x] = parts {
            return self.conv2d_backward_weights(x, dy, spec, dw, dbias);
        }
        if self.is_onednn() && joined::can_be_read(parts) && parts[0].dtype() == dy.dtype() {
            let op = "conv2d_backward_weights";
            let conv = Convolution {
                spec: *spec,
                x: joined::shape(op, parts)?,
                y: bhwc(op, "dy", dy)?,
            };
            if ConvAlgorithm::of(self, dy.dtype(), &conv, Direction::BackwardWeights)
                == ConvAlgorithm::Winograd
            {
                let dw = dw.into();
                super::conv::check_gradients(op, &conv, dw.len(), dbias.as_ref())?;
                let _span = profile::span(|| {
                    format!(
                        "conv2d backward weights {:?} {:?} {}",
                        conv.x,
                        conv.y,
                        spec.brief()
                    )
                });
                if let Some(dbias) = dbias {
                    self.add_channel_sums(op, dy, dbias)?;
                }
                let dw = dw.host()?;
                return add_by_winograd(&conv, parts, dy, dw);
            }
        }
        if self.reads_apart(spec) {
            return self.add_side_by_side(parts, dy, spec, dw.into().host()?, dbias);
        }
        self.conv2d_backward_weights(&self.concat(parts)?, dy, spec, dw, dbias)
    }

    /// Whether the gradient of a kernel can be computed per part at no extra cost, which avoids the concatenation: a
    /// 1x1 kernel's gradient is a matrix product.
    fn reads_apart(self, spec: &ConvSpec) -> bool {
        !self.is_gpu() && spec.kernel == (1, 1) && spec.groups == 1
    }

    /// Adds the gradient of a 1x1 kernel, part by part, each to its columns.
    fn add_side_by_side(
        self,
        parts: &[&Tensor],
        dy: &Tensor,
        spec: &ConvSpec,
        dw: &mut [f32],
        mut dbias: Option<GradientSink<'_>>,
    ) -> Result<()> {
        let op = "conv2d_backward_weights";
        let counts = parts.iter().map(|x| Ok(bhwc(op, "x", x)?[3]));
        let counts = counts.collect::<Result<Vec<usize>>>()?;
        let (all, outputs) = (counts.iter().sum::<usize>(), bhwc(op, "dy", dy)?[3]);
        expect(op, "dw", outputs * all, dw.len())?;
        let mut first = 0;
        for (x, count) in parts.iter().zip(counts) {
            let mut columns = vec![0.0; outputs * count];
            self.conv2d_backward_weights(x, dy, spec, &mut columns[..], dbias.take())?;
            for (dw, column) in dw.chunks_mut(all.max(1)).zip(columns.chunks(count.max(1))) {
                let dw = dw[first..first + count].iter_mut();
                dw.zip(column).for_each(|(dw, column)| *dw += column);
            }
            first += count;
        }
        Ok(())
    }
}

/// The convolution of concatenated channels by Winograd's algorithm.
pub(super) fn by_winograd(
    conv: &Convolution,
    parts: &[&Tensor],
    weights: &Weights,
    fuse: Fuse<'_>,
) -> Result<Tensor> {
    let op = "conv2d";
    super::conv::check_fused(op, weights, conv.y, fuse)?;
    let _span = profile::span(|| {
        let (dims, spec) = (weights.dims(), conv.spec.brief());
        format!("conv2d {:?} {dims:?} {spec} Winograd", conv.x)
    });
    let dtype = parts[0].dtype();
    by_dtype!(dtype, V => {
        let held = joined::values::<V>(op, parts)?;
        let residual = (fuse.residual()).map(|residual| super::host::Typed::<V>::of(op, residual));
        let residual = residual.transpose()?;
        let finish = Finish {
            bias: weights.bias(),
            residual: residual.as_deref(),
            relu: fuse.relu(),
        };
        let x = Joined::new(held.iter().map(|part| &**part), conv.x[..3].iter().product());
        let y = winograd::forward(conv, &x, weights.kernels(op)?, finish);
        super::host::tensor(y, &conv.y, dtype)
    })
}

/// The gradient of this convolution's input, plus a bias, then a ReLU if requested; one tensor for each of `channels`.
pub(super) fn transposed_by_winograd(
    conv: &Convolution,
    dy: &Tensor,
    weights: &Weights,
    (relu, channels): (bool, &[usize]),
) -> Result<Vec<Tensor>> {
    let op = "conv2d_backward_data";
    let [b, h, w, _] = conv.x;
    by_dtype!(dy.dtype(), V => {
        let finish = Finish {
            bias: weights.bias(),
            residual: None,
            relu,
        };
        let (kernels, values) = (weights.kernels(op)?, super::host::Typed::<V>::of(op, dy)?);
        let dx = winograd::backward_data(conv, &values, kernels, finish, channels);
        (dx.into_iter().zip(channels))
            .map(|(dx, &c)| super::host::tensor(dx, &[b, h, w, c], dy.dtype()))
            .collect()
    })
}

pub(super) fn add_by_winograd(
    conv: &Convolution,
    parts: &[&Tensor],
    dy: &Tensor,
    dw: &mut [f32],
) -> Result<()> {
    let op = "conv2d_backward_weights";
    by_dtype!(dy.dtype(), V => {
        let (held, grad) = (joined::values::<V>(op, parts)?, super::host::Typed::<V>::of(op, dy)?);
        let x = Joined::new(held.iter().map(|part| &**part), conv.x[..3].iter().product());
        winograd::add_backward_weights(conv, &x, &grad, dw);
        Ok(())
    })
}
