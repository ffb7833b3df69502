//! Convolutions: checks shapes and dispatches to the backend.

use super::algorithm::ConvAlgorithm;
pub use super::algorithm::leave_to_onednn;
use super::conv_joined::{add_by_winograd, by_winograd, transposed_by_winograd};
use super::conv_spec::{ConvSpec, Convolution, Rows};
use super::direct;
use super::elementwise::rectified;
use super::finish::Finish;
use super::host::{Host, Typed, bhwc, expect, tensor};
#[cfg(feature = "onednn")]
use super::onednn;
use super::value::by_dtype;
use super::winograd::Direction;
use super::{Backend, Channels, Cpu, Fuse, GradientSink, Weights, on_gpu, reference};
use crate::error::Result;
use crate::profile;
use candle_core::{DType, Tensor};
use std::borrow::Cow;

/// The name of the operation in errors about the gradient of a convolution's input.
const BACKWARD_DATA: &str = "conv2d_backward_data";

/// Checks the residual that is added to a convolution's output.
pub(super) fn check_fused(
    op: &'static str,
    weights: &Weights,
    y_shape: [usize; 4],
    fuse: Fuse<'_>,
) -> Result<()> {
    if let Some(bias) = weights.channels() {
        expect(op, "bias", y_shape[3], bias.len())?;
    }
    if let Some(residual) = fuse.residual() {
        expect(op, "residual", &y_shape[..], residual.dims())?;
    }
    Ok(())
}

/// The bias, if there is one; zeros if only a ReLU was requested.
fn bias(weights: &Weights, channels: usize, relu: bool) -> Option<Cow<'_, [f32]>> {
    match weights.bias() {
        Some(bias) => Some(Cow::Borrowed(bias)),
        None => relu.then(|| Cow::Owned(vec![0.0; channels])),
    }
}

/// Checks the buffers for the gradients of weights and bias.
pub(super) fn check_gradients(
    op: &'static str,
    conv: &Convolution,
    dw: usize,
    dbias: Option<&GradientSink<'_>>,
) -> Result<()> {
    let Convolution { spec, x, y } = conv;
    let inner = x[3] / spec.groups.max(1);
    let weights = [y[3], inner, spec.kernel.0, spec.kernel.1];
    expect(op, "dy", spec.output_shape(op, *x, &weights)?, *y)?;
    expect(op, "dw", weights.iter().product(), dw)?;
    dbias.map_or(Ok(()), |dbias| expect(op, "dbias", y[3], dbias.len()))
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
        self.conv2d_joined(&[x], weights, bias, spec, fuse)
    }

    /// As [`Self::conv2d`], with weights that cache their packed forms.
    ///
    /// # Shapes
    /// As [`Self::conv2d`]; the weights hold the bias.
    /// # Errors
    /// [`crate::ModelError::Shape`] naming what differs.
    pub fn conv2d_with(
        self,
        x: &Tensor,
        weights: &Weights,
        spec: &ConvSpec,
        fuse: Fuse<'_>,
    ) -> Result<Tensor> {
        self.conv2d_of_rows(x, weights, spec, fuse, None)
    }

    /// As [`Self::conv2d_with`] for a range of rows of a field, by the algorithm that the whole field would use.
    ///
    /// # Errors
    /// [`crate::ModelError::Shape`] naming what differs.
    pub(crate) fn conv2d_of_rows(
        self,
        x: &Tensor,
        weights: &Weights,
        spec: &ConvSpec,
        fuse: Fuse<'_>,
        rows: Option<Rows>,
    ) -> Result<Tensor> {
        let op = "conv2d";
        let x_shape = bhwc(op, "x", x)?;
        let [b, h, w, c] = x_shape;
        let whole = [b, rows.map_or(h, |rows| rows.whole), w, c];
        let whole = Convolution::of(op, spec, whole, weights.dims())?;
        let algorithm = ConvAlgorithm::of(self, x.dtype(), &whole, Direction::Forward);
        let spec = &rows.map_or(*spec, |rows| rows.spec(spec));
        let conv = &Convolution::of(op, spec, x_shape, weights.dims())?;
        if algorithm == ConvAlgorithm::Winograd {
            return by_winograd(conv, &[x], weights, fuse);
        }
        check_fused(op, weights, conv.y, fuse)?;
        let name = algorithm.name(self);
        let _span = profile::span(|| {
            let dims = (x.dims(), weights.dims());
            format!("conv2d {:?} {:?} {} {name}", dims.0, dims.1, spec.brief())
        });
        on_gpu!(self, super::cuda::forward(conv, x, weights, fuse));
        if algorithm == ConvAlgorithm::Direct {
            return directly(conv, x, weights, fuse);
        }
        #[cfg(feature = "onednn")]
        if self == Self::OneDnn {
            return by_onednn(conv, x, weights, fuse);
        }
        let (x_values, w) = (Host::of(op, x)?, weights.plain(op)?);
        let mut y = reference::conv::forward(conv, &x_values, &w, weights.bias());
        if let Some(residual) = fuse.residual() {
            let residual = Host::of(op, residual)?;
            y.iter_mut().zip(residual.iter()).for_each(|(y, r)| *y += r);
        }
        if fuse.relu() {
            y.iter_mut().for_each(|y| *y = rectified(*y));
        }
        tensor(y, &conv.y, x.dtype())
    }

    /// The gradient of [`Self::conv2d`] with respect to x.
    ///
    /// # Shapes
    /// dy `(b, p, q, o)`, weights `(o, c / groups, kh, kw)` → `x_shape`, `(b, h, w, c)`
    /// # Errors
    /// [`crate::ModelError::Shape`] naming what differs.
    pub fn conv2d_backward_data(
        self,
        dy: &Tensor,
        weights: &Tensor,
        x_shape: [usize; 4],
        spec: &ConvSpec,
    ) -> Result<Tensor> {
        self.transposed(dy, &Weights::transposed(weights), x_shape, spec, false)
    }

    /// The gradient of a convolution's input, plus a bias, then a ReLU if requested.
    pub(super) fn transposed(
        self,
        dy: &Tensor,
        weights: &Weights,
        x_shape: [usize; 4],
        spec: &ConvSpec,
        relu: bool,
    ) -> Result<Tensor> {
        let op = BACKWARD_DATA;
        let conv = &Convolution::of(op, spec, x_shape, weights.dims())?;
        expect(op, "dy", &conv.y[..], dy.dims())?;
        if let Some(bias) = weights.channels() {
            expect(op, "bias", x_shape[3], bias.len())?;
        }
        let algorithm = ConvAlgorithm::of(self, dy.dtype(), conv, Direction::BackwardData);
        let name = algorithm.name(self);
        let _span = profile::span(|| {
            let dims = (x_shape, weights.dims());
            format!(
                "conv2d backward data {:?} {:?} {} {name}",
                dims.0,
                dims.1,
                spec.brief()
            )
        });
        on_gpu!(self, super::cuda::transposed(conv, dy, weights, relu));
        match algorithm {
            ConvAlgorithm::Winograd => {
                let whole = (relu, &x_shape[3..]);
                let mut dx = transposed_by_winograd(conv, dy, weights, whole)?;
                return Ok(dx.pop().expect("one field"));
            }
            ConvAlgorithm::Direct => return transposed_directly(conv, dy, weights, relu),
            ConvAlgorithm::Library => {}
        }
        #[cfg(feature = "onednn")]
        if self == Self::OneDnn {
            return transposed_by_onednn(conv, dy, weights, relu);
        }
        let w = weights.plain(op)?;
        let dx = reference::conv::backward_data(conv, &Host::of(op, dy)?, &w);
        let dx = tensor(dx, &x_shape, dy.dtype())?;
        let Some(bias) = bias(weights, x_shape[3], relu) else {
            return Ok(dx);
        };
        self.batch_norm_apply(&dx, vec![1.0; x_shape[3]], &*bias, None, relu)
    }

    /// The type to which [`Self::conv2d_backward_weights`] rounds sums over the pixels before it adds them: f32, except
    /// where a GPU library outputs the type of its operands. `None` if it is not known yet, because nothing of these
    /// shapes has been computed.
    ///
    /// # Errors
    /// [`crate::ModelError::Gpu`] if there is no GPU.
    pub fn kernel_gradient_type(self, dtype: DType, conv: &Convolution) -> Result<Option<DType>> {
        on_gpu!(self, super::cuda::kernel_gradient_type(dtype, conv));
        let _ = (dtype, conv);
        Ok(Some(DType::F32))
    }

    /// Adds the gradients of [`Self::conv2d`] with respect to the weights and the bias.
    ///
    /// # Shapes
    /// x `(b, h, w, c)`, dy `(b, p, q, o)`; dw has the values of `(o, c / groups, kh, kw)`, dbias `o`.
    /// # Errors
    /// [`crate::ModelError::Shape`] naming what differs.
    pub fn conv2d_backward_weights<'d>(
        self,
        x: &Tensor,
        dy: &Tensor,
        spec: &ConvSpec,
        dw: impl Into<GradientSink<'d>>,
        dbias: Option<GradientSink<'_>>,
    ) -> Result<()> {
        let dw = dw.into();
        let _span = profile::span(|| {
            format!(
                "conv2d backward weights {:?} {:?} {}",
                x.dims(),
                dy.dims(),
                spec.brief()
            )
        });
        let op = "conv2d_backward_weights";
        let conv = &Convolution {
            spec: *spec,
            x: bhwc(op, "x", x)?,
            y: bhwc(op, "dy", dy)?,
        };
        check_gradients(op, conv, dw.len(), dbias.as_ref())?;
        on_gpu!(self, super::cuda::backward_weights(conv, x, dy, dw, dbias));
        if let Some(dbias) = dbias {
            self.add_channel_sums(op, dy, dbias)?;
        }
        let dw = dw.host()?;
        match ConvAlgorithm::of(self, x.dtype(), conv, Direction::BackwardWeights) {
            ConvAlgorithm::Winograd => return add_by_winograd(conv, &[x], dy, dw),
            ConvAlgorithm::Direct => return add_directly(conv, x, dy, dw),
            ConvAlgorithm::Library => {}
        }
        #[cfg(feature = "onednn")]
        if self == Self::OneDnn {
            return by_dtype!(self.library_dtype(x.dtype()), V => {
                let (values, grad) = (Typed::<V>::of(op, x)?, Typed::<V>::of(op, dy)?);
                onednn::backward_weights(conv, &values, &grad, dw)
            });
        }
        let (values, grad) = (Host::of(op, x)?, Host::of(op, dy)?);
        reference::conv::backward_weights(conv, &values, &grad, dw);
        Ok(())
    }

    /// A parameter's values, one per channel.
    pub(super) fn channels_of(
        self,
        op: &'static str,
        values: &Tensor,
    ) -> Result<Channels<'static>> {
        on_gpu!(self, super::cuda::channels_of(values));
        Ok(Host::of(op, values)?.to_vec().into())
    }

    /// Adds the sum over the pixels of every channel.
    pub(super) fn add_channel_sums(
        self,
        op: &'static str,
        dy: &Tensor,
        sums: GradientSink<'_>,
    ) -> Result<()> {
        on_gpu!(self, super::cuda::add_channel_sums(dy, sums));
        let sums = sums.host()?;
        let channels = sums.len();
        let (mean, _) = match self.on_cpu() {
            Cpu::Reference => reference::norm::moments(&Host::of(op, dy)?, channels),
            Cpu::Fast => by_dtype!(dy.dtype(), V => {
                super::fast::norm::moments(&Typed::<V>::of(op, dy)?, channels)
            }),
        };
        let count = (dy.elem_count() / channels) as f64;
        sums.iter_mut()
            .zip(mean)
            .for_each(|(sum, mean)| *sum += (mean * count) as f32);
        Ok(())
    }
}

/// [`Backend::conv2d_of_rows`] by matrix products over lines of pixels.
fn directly(conv: &Convolution, x: &Tensor, weights: &Weights, fuse: Fuse<'_>) -> Result<Tensor> {
    let op = "conv2d";
    by_dtype!(x.dtype(), V => {
        let residual = (fuse.residual()).map(|residual| Typed::<V>::of(op, residual));
        let residual = residual.transpose()?;
        let finish = Finish {
            bias: weights.bias(),
            residual: residual.as_deref(),
            relu: fuse.relu(),
        };
        // Before x is widened, so that the temporary memory for packing is free again.
        let panels = weights.panels(op)?;
        let y = direct::forward(conv, &Host::of(op, x)?, panels, finish);
        tensor(y, &conv.y, x.dtype())
    })
}

/// Adds the gradient of the weights by matrix products over lines of pixels.
fn add_directly(conv: &Convolution, x: &Tensor, dy: &Tensor, dw: &mut [f32]) -> Result<()> {
    let op = "conv2d_backward_weights";
    by_dtype!(x.dtype(), V => {
        let (values, grad) = (Typed::<V>::of(op, x)?, Typed::<V>::of(op, dy)?);
        direct::add_backward_weights(conv, &values, &grad, dw);
        Ok(())
    })
}

/// [`Backend::conv2d_of_rows`] by oneDNN.
#[cfg(feature = "onednn")]
fn by_onednn(conv: &Convolution, x: &Tensor, weights: &Weights, fuse: Fuse<'_>) -> Result<Tensor> {
    let op = "conv2d";
    // oneDNN's ReLU maps NaN to 0. f16, the first type to overflow, gets a separate ReLU pass that keeps NaN.
    let apart = fuse.relu() && x.dtype() == DType::F16;
    by_dtype!(Backend::OneDnn.library_dtype(x.dtype()), V => {
        let residual = (fuse.residual()).map(|residual| Typed::<V>::of(op, residual));
        let residual = residual.transpose()?;
        let finish = Finish {
            bias: weights.bias(),
            residual: residual.as_deref(),
            relu: fuse.relu() && !apart,
        };
        let values = weights.values(op)?;
        let kernels = weights.for_onednn(&values);
        let mut y = onednn::forward(conv, &Typed::<V>::of(op, x)?, kernels, finish)?;
        if apart {
            super::fast::norm::shift_in_place(&mut y, &vec![0.0; conv.y[3]], true);
        }
        tensor(y, &conv.y, x.dtype())
    })
}

/// [`Backend::transposed`] by matrix products over lines of pixels.
fn transposed_directly(
    conv: &Convolution,
    dy: &Tensor,
    weights: &Weights,
    relu: bool,
) -> Result<Tensor> {
    by_dtype!(dy.dtype(), V => {
        let finish = Finish {
            bias: weights.bias(),
            residual: None,
            relu,
        };
        let panels = weights.panels(BACKWARD_DATA)?;
        let grad = Host::of(BACKWARD_DATA, dy)?;
        let dx: Vec<V> = direct::backward_data(conv, &grad, panels, finish);
        tensor(dx, &conv.x, dy.dtype())
    })
}

/// [`Backend::transposed`] by oneDNN.
#[cfg(feature = "onednn")]
fn transposed_by_onednn(
    conv: &Convolution,
    dy: &Tensor,
    weights: &Weights,
    relu: bool,
) -> Result<Tensor> {
    by_dtype!(Backend::OneDnn.library_dtype(dy.dtype()), V => {
        let values = weights.values(BACKWARD_DATA)?;
        let kernels = weights.for_onednn(&values);
        let grad = Typed::<V>::of(BACKWARD_DATA, dy)?;
        let mut dx = onednn::backward_data(conv, &grad, kernels)?;
        if let Some(bias) = bias(weights, conv.x[3], relu) {
            super::fast::norm::shift_in_place(&mut dx, &bias, relu);
        }
        tensor(dx, &conv.x, dy.dtype())
    })
}
