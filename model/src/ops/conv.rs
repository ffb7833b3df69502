//! Convolutions and transposed convolutions: shapes are checked here, work is done by the backend.

use super::conv_spec::{ConvSpec, ConvTransposeSpec};
use super::host::{Host, bhwc, expect, tensor};
#[cfg(feature = "onednn")]
use super::winograd::{self, Direction, Kernels};
use super::{Backend, reference};
use crate::error::Result;
use candle_core::Tensor;

/// What happens to a convolution's output before it is written.
#[derive(Debug, Clone, Copy)]
pub enum Fuse<'a> {
    /// Nothing.
    None,
    /// max(y, 0).
    Relu,
    /// y + residual.
    Add(&'a Tensor),
    /// max(y + residual, 0).
    AddRelu(&'a Tensor),
}

impl<'a> Fuse<'a> {
    fn residual(&self) -> Option<&'a Tensor> {
        match self {
            Self::Add(residual) | Self::AddRelu(residual) => Some(residual),
            Self::None | Self::Relu => None,
        }
    }

    fn relu(&self) -> bool {
        matches!(self, Self::Relu | Self::AddRelu(_))
    }
}

/// Everything a backend needs for one pass of a convolution, checked.
#[cfg_attr(not(feature = "onednn"), allow(dead_code))]
pub(crate) struct Pass<'a> {
    pub x_shape: [usize; 4],
    pub y_shape: [usize; 4],
    pub spec: &'a ConvSpec,
}

impl Backend {
    /// The convolution of x with weights, plus bias, then `fuse`.
    ///
    /// # Shapes
    /// x `(b, h, w, c)`, weights `(o, c / groups, kh, kw)`, bias `o` → `(b, p, q, o)` with
    /// [`ConvSpec::output_size`].
    /// # Errors
    /// [`crate::ModelError::Shape`] naming what differs.
    pub fn conv2d(
        self,
        x: &Tensor,
        weights: &Tensor,
        bias: Option<&Tensor>,
        spec: &ConvSpec,
        fuse: Fuse<'_>,
    ) -> Result<Tensor> {
        let op = "conv2d";
        let x_shape = bhwc(op, "x", x)?;
        let y_shape = spec.output_shape(op, x_shape, weights.dims())?;
        if let Some(bias) = bias {
            expect(op, "bias", &[y_shape[3]][..], bias.dims())?;
        }
        if let Some(residual) = fuse.residual() {
            expect(op, "residual", &y_shape[..], residual.dims())?;
        }
        let (values, w) = (Host::of(op, x)?, Host::of(op, weights)?);
        let bias = bias.map(|bias| Host::of(op, bias)).transpose()?;
        let residual = fuse
            .residual()
            .map(|residual| Host::of(op, residual))
            .transpose()?;
        let pass = Pass {
            x_shape,
            y_shape,
            spec,
        };
        let y = match self {
            Self::Reference => {
                let mut y =
                    reference::conv::forward(&values, x_shape, &w, bias.as_deref(), y_shape, spec);
                if let Some(residual) = residual {
                    y.iter_mut().zip(residual.iter()).for_each(|(y, r)| *y += r);
                }
                if fuse.relu() {
                    y.iter_mut().for_each(|y| *y = y.max(0.0));
                }
                y
            }
            #[cfg(feature = "onednn")]
            Self::OneDnn if winograd::pays(spec, x_shape, y_shape, Direction::Forward) => {
                let kernels = Kernels::forward(&w, y_shape[3], x_shape[3]);
                let finish = winograd::Finish {
                    bias: bias.as_deref(),
                    residual: residual.as_deref(),
                    relu: fuse.relu(),
                };
                winograd::forward(spec, (x_shape, y_shape), &values, &kernels, finish)
            }
            #[cfg(feature = "onednn")]
            Self::OneDnn => super::onednn::forward(
                &pass,
                &values,
                &w,
                bias.as_deref(),
                residual.as_deref(),
                fuse.relu(),
            )?,
        };
        tensor(y, &pass.y_shape, x.dtype())
    }

    /// The gradient of [`Self::conv2d`] with respect to x.
    ///
    /// # Errors
    /// [`crate::ModelError::Shape`] naming what differs.
    pub fn conv2d_backward_data(
        self,
        dy: &Tensor,
        weights: &Tensor,
        x_shape: [usize; 4],
        spec: &ConvSpec,
    ) -> Result<Tensor> {
        let op = "conv2d_backward_data";
        let y_shape = spec.output_shape(op, x_shape, weights.dims())?;
        expect(op, "dy", &y_shape[..], dy.dims())?;
        let (grad, w) = (Host::of(op, dy)?, Host::of(op, weights)?);
        let dx = match self {
            Self::Reference => reference::conv::backward_data(&grad, y_shape, &w, x_shape, spec),
            #[cfg(feature = "onednn")]
            Self::OneDnn if winograd::pays(spec, x_shape, y_shape, Direction::BackwardData) => {
                let kernels = Kernels::backward(&w, y_shape[3], x_shape[3]);
                winograd::backward_data(spec, (x_shape, y_shape), &grad, &kernels)
            }
            #[cfg(feature = "onednn")]
            Self::OneDnn => super::onednn::backward_data(
                &Pass {
                    x_shape,
                    y_shape,
                    spec,
                },
                &grad,
                &w,
            )?,
        };
        tensor(dx, &x_shape, dy.dtype())
    }

    /// Adds the gradients of [`Self::conv2d`] with respect to the weights and the bias.
    ///
    /// # Errors
    /// [`crate::ModelError::Shape`] naming what differs.
    pub fn conv2d_backward_weights(
        self,
        x: &Tensor,
        dy: &Tensor,
        spec: &ConvSpec,
        dw: &mut [f32],
        dbias: Option<&mut [f32]>,
    ) -> Result<()> {
        let op = "conv2d_backward_weights";
        let (x_shape, y_shape) = (bhwc(op, "x", x)?, bhwc(op, "dy", dy)?);
        let inner = x_shape[3] / spec.groups.max(1);
        let weights = [y_shape[3], inner, spec.kernel.0, spec.kernel.1];
        expect(op, "dy", spec.output_shape(op, x_shape, &weights)?, y_shape)?;
        expect(op, "dw", weights.iter().product(), dw.len())?;
        let (values, grad) = (Host::of(op, x)?, Host::of(op, dy)?);
        if let Some(dbias) = dbias {
            expect(op, "dbias", y_shape[3], dbias.len())?;
            self.add_channel_sums(&grad, dbias);
        }
        match self {
            Self::Reference => {
                reference::conv::backward_weights(&values, x_shape, &grad, y_shape, spec, dw)
            }
            #[cfg(feature = "onednn")]
            Self::OneDnn if winograd::pays(spec, x_shape, y_shape, Direction::BackwardWeights) => {
                winograd::add_backward_weights(spec, (x_shape, y_shape), &values, &grad, dw);
            }
            #[cfg(feature = "onednn")]
            Self::OneDnn => super::onednn::backward_weights(
                &Pass {
                    x_shape,
                    y_shape,
                    spec,
                },
                &values,
                &grad,
                dw,
            )?,
        }
        Ok(())
    }

    /// The transposed convolution of x with weights, plus bias.
    ///
    /// # Shapes
    /// x `(b, p, q, o)`, weights `(o, c, kh, kw)`, bias `c` → `(b, h, w, c)` with [`ConvTransposeSpec::output_size`].
    /// # Errors
    /// [`crate::ModelError::Shape`] naming what differs.
    pub fn conv_transpose2d(
        self,
        x: &Tensor,
        weights: &Tensor,
        bias: Option<&Tensor>,
        spec: &ConvTransposeSpec,
    ) -> Result<Tensor> {
        let op = "conv_transpose2d";
        let [b, p, q, _] = bhwc(op, "x", x)?;
        let (h, w) = spec.output_size((p, q));
        let channels = weights.dims().get(1).copied().unwrap_or(0) * spec.conv.groups;
        let y = self.conv2d_backward_data(x, weights, [b, h, w, channels], &spec.conv)?;
        match bias {
            None => Ok(y),
            Some(bias) => {
                let shift = Host::of(op, bias)?;
                self.batch_norm_apply(&y, &vec![1.0; shift.len()], &shift, None, false)
            }
        }
    }

    /// The gradient of [`Self::conv_transpose2d`] with respect to x.
    ///
    /// # Errors
    /// [`crate::ModelError::Shape`] naming what differs.
    pub fn conv_transpose2d_backward_data(
        self,
        dy: &Tensor,
        weights: &Tensor,
        spec: &ConvTransposeSpec,
    ) -> Result<Tensor> {
        self.conv2d(dy, weights, None, &spec.conv, Fuse::None)
    }

    /// Adds the gradients of [`Self::conv_transpose2d`] with respect to the weights and the bias.
    ///
    /// # Errors
    /// [`crate::ModelError::Shape`] naming what differs.
    pub fn conv_transpose2d_backward_weights(
        self,
        x: &Tensor,
        dy: &Tensor,
        spec: &ConvTransposeSpec,
        dw: &mut [f32],
        dbias: Option<&mut [f32]>,
    ) -> Result<()> {
        // The convolution that this transposes maps dy to x.
        self.conv2d_backward_weights(dy, x, &spec.conv, dw, None)?;
        if let Some(dbias) = dbias {
            expect(
                "conv_transpose2d_backward_weights",
                "dbias",
                dy.dims()[3],
                dbias.len(),
            )?;
            self.add_channel_sums(&Host::of("conv_transpose2d_backward_weights", dy)?, dbias);
        }
        Ok(())
    }

    /// Adds the sum over pixels of every channel.
    fn add_channel_sums(self, values: &[f32], sums: &mut [f32]) {
        let channels = sums.len();
        let (mean, _) = match self {
            Self::Reference => reference::norm::moments(values, channels),
            #[cfg(feature = "onednn")]
            Self::OneDnn => super::fast::norm::moments(values, channels),
        };
        let count = (values.len() / channels) as f64;
        sums.iter_mut()
            .zip(mean)
            .for_each(|(sum, mean)| *sum += (mean * count) as f32);
    }
}
