//! Convolutions: shapes are checked here, work is done by the backend.

#[cfg(feature = "onednn")]
use super::algorithm::ConvAlgorithm;
#[cfg(feature = "onednn")]
pub use super::algorithm::leave_to_onednn;
#[cfg(feature = "onednn")]
use super::conv_joined::{add_by_winograd, by_winograd, transposed_by_winograd};
use super::conv_spec::{ConvSpec, Rows};
#[cfg(feature = "onednn")]
use super::direct;
use super::elementwise::rectified;
#[cfg(feature = "onednn")]
use super::finish::Finish;
#[cfg(feature = "onednn")]
use super::host::Typed;
use super::host::{Host, bhwc, expect, tensor};
#[cfg(feature = "onednn")]
use super::onednn;
#[cfg(feature = "onednn")]
use super::value::by_dtype;
#[cfg(feature = "onednn")]
use super::winograd::Direction;
use super::{Backend, Channels, Cpu, Fuse, Landing, Weights, on_gpu, reference};
use crate::error::Result;
use crate::profile;
use candle_core::{DType, Tensor};
use std::borrow::Cow;

/// What errors call the gradient of a convolution's input.
const BACKWARD_DATA: &str = "conv2d_backward_data";

/// The shapes and the spec of one convolution, checked.
#[derive(Clone, Copy)]
#[cfg_attr(not(feature = "onednn"), allow(dead_code))]
pub(crate) struct ConvGeometry {
    pub x_shape: [usize; 4],
    pub y_shape: [usize; 4],
    pub spec: ConvSpec,
}

/// Checks what is added to a convolution's output.
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

/// What is added to every channel before a ReLU, if either is asked for.
fn bias(weights: &Weights, channels: usize, relu: bool) -> Option<Cow<'_, [f32]>> {
    match weights.bias() {
        Some(bias) => Some(Cow::Borrowed(bias)),
        None => relu.then(|| Cow::Owned(vec![0.0; channels])),
    }
}

/// Checks where the gradients of weights and bias go.
pub(super) fn check_gradients(
    op: &'static str,
    spec: &ConvSpec,
    (x_shape, y_shape): ([usize; 4], [usize; 4]),
    dw: usize,
    dbias: Option<&Landing<'_>>,
) -> Result<()> {
    let inner = x_shape[3] / spec.groups.max(1);
    let weights = [y_shape[3], inner, spec.kernel.0, spec.kernel.1];
    expect(op, "dy", spec.output_shape(op, x_shape, &weights)?, y_shape)?;
    expect(op, "dw", weights.iter().product(), dw)?;
    dbias.map_or(Ok(()), |dbias| expect(op, "dbias", y_shape[3], dbias.len()))
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

    /// What [`Self::conv2d`] gives, with weights that keep what was made of them.
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

    /// What [`Self::conv2d_with`] gives of some rows of a field, by the algorithm that would compute the whole.
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
        #[cfg(feature = "onednn")]
        let algorithm = {
            let [b, h, w, c] = x_shape;
            let whole = [b, rows.map_or(h, |rows| rows.whole), w, c];
            let shapes = (whole, spec.output_shape(op, whole, weights.dims())?);
            ConvAlgorithm::of(self, x.dtype(), spec, shapes, Direction::Forward)
        };
        let spec = &rows.map_or(*spec, |rows| rows.spec(spec));
        let y_shape = spec.output_shape(op, x_shape, weights.dims())?;
        #[cfg(feature = "onednn")]
        if algorithm == ConvAlgorithm::Winograd {
            return by_winograd(&[x], weights, spec, (x_shape, y_shape), fuse);
        }
        check_fused(op, weights, y_shape, fuse)?;
        #[cfg(feature = "onednn")]
        let name = algorithm.name(self);
        #[cfg(not(feature = "onednn"))]
        let name = if self.is_gpu() { "cuDNN" } else { "plain" };
        let _span = profile::span(|| {
            let dims = (x.dims(), weights.dims());
            format!("conv2d {:?} {:?} {} {name}", dims.0, dims.1, spec.brief())
        });
        on_gpu!(
            self,
            super::cuda::forward(x, weights, spec, (x_shape, y_shape), fuse)
        );
        #[cfg(feature = "onednn")]
        if self == Self::OneDnn {
            return by_direct_or_onednn(x, weights, spec, (x_shape, y_shape), fuse, algorithm);
        }
        let (x_values, w) = (Host::of(op, x)?, weights.plain(op)?);
        let mut y = reference::conv::forward(&x_values, x_shape, &w, weights.bias(), y_shape, spec);
        if let Some(residual) = fuse.residual() {
            let residual = Host::of(op, residual)?;
            y.iter_mut().zip(residual.iter()).for_each(|(y, r)| *y += r);
        }
        if fuse.relu() {
            y.iter_mut().for_each(|y| *y = rectified(*y));
        }
        tensor(y, &y_shape, x.dtype())
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

    /// The gradient of a convolution's input, plus a bias, then ReLU if asked.
    pub(super) fn transposed(
        self,
        dy: &Tensor,
        weights: &Weights,
        x_shape: [usize; 4],
        spec: &ConvSpec,
        relu: bool,
    ) -> Result<Tensor> {
        let op = BACKWARD_DATA;
        let y_shape = spec.output_shape(op, x_shape, weights.dims())?;
        expect(op, "dy", &y_shape[..], dy.dims())?;
        if let Some(bias) = weights.channels() {
            expect(op, "bias", x_shape[3], bias.len())?;
        }
        #[cfg(feature = "onednn")]
        let algorithm = ConvAlgorithm::of(
            self,
            dy.dtype(),
            spec,
            (x_shape, y_shape),
            Direction::BackwardData,
        );
        #[cfg(feature = "onednn")]
        let name = algorithm.name(self);
        #[cfg(not(feature = "onednn"))]
        let name = if self.is_gpu() { "cuDNN" } else { "plain" };
        let _span = profile::span(|| {
            let dims = (x_shape, weights.dims());
            format!(
                "conv2d backward data {:?} {:?} {} {name}",
                dims.0,
                dims.1,
                spec.brief()
            )
        });
        on_gpu!(
            self,
            super::cuda::transposed(dy, weights, spec, (x_shape, y_shape), relu)
        );
        #[cfg(feature = "onednn")]
        if self == Self::OneDnn {
            let shapes = (x_shape, y_shape);
            return match algorithm {
                ConvAlgorithm::Winograd => {
                    let whole = (relu, &x_shape[3..]);
                    let mut dx = transposed_by_winograd(dy, weights, spec, shapes, whole)?;
                    Ok(dx.pop().expect("one field"))
                }
                ConvAlgorithm::Direct => transposed_directly(dy, weights, spec, shapes, relu),
                ConvAlgorithm::Library => transposed_by_onednn(dy, weights, spec, shapes, relu),
            };
        }
        let w = weights.plain(op)?;
        let dx = reference::conv::backward_data(&Host::of(op, dy)?, y_shape, &w, x_shape, spec);
        let dx = tensor(dx, &x_shape, dy.dtype())?;
        let Some(bias) = bias(weights, x_shape[3], relu) else {
            return Ok(dx);
        };
        self.batch_norm_apply(&dx, vec![1.0; x_shape[3]], &*bias, None, relu)
    }

    /// The type that [`Self::conv2d_backward_weights`] rounds sums over the pixels to before it adds them: f32, but
    /// where a GPU's library gives them in the type of its operands. None where that is not known yet, because nothing
    /// of these shapes was computed.
    ///
    /// # Shapes
    /// x `(b, h, w, c)`, y `(b, p, q, o)`
    /// # Errors
    /// [`crate::ModelError::Gpu`] if there is no GPU.
    pub fn kernel_gradient_type(
        self,
        dtype: DType,
        spec: &ConvSpec,
        x: [usize; 4],
        y: [usize; 4],
    ) -> Result<Option<DType>> {
        on_gpu!(self, super::cuda::kernel_gradient_type(dtype, spec, (x, y)));
        let _ = (dtype, spec, x, y);
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
        dw: impl Into<Landing<'d>>,
        dbias: Option<Landing<'_>>,
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
        let (x_shape, y_shape) = (bhwc(op, "x", x)?, bhwc(op, "dy", dy)?);
        let shapes = (x_shape, y_shape);
        check_gradients(op, spec, shapes, dw.len(), dbias.as_ref())?;
        on_gpu!(
            self,
            super::cuda::backward_weights(x, dy, spec, shapes, dw, dbias)
        );
        if let Some(dbias) = dbias {
            self.add_channel_sums(op, dy, dbias)?;
        }
        let dw = dw.host()?;
        match self.on_cpu() {
            Cpu::Reference => {
                let (values, grad) = (Host::of(op, x)?, Host::of(op, dy)?);
                reference::conv::backward_weights(&values, x_shape, &grad, y_shape, spec, dw);
                Ok(())
            }
            #[cfg(feature = "onednn")]
            Cpu::OneDnn => {
                let algorithm =
                    ConvAlgorithm::of(self, x.dtype(), spec, shapes, Direction::BackwardWeights);
                if algorithm == ConvAlgorithm::Winograd {
                    return add_by_winograd(&[x], dy, spec, shapes, dw);
                }
                by_dtype!(algorithm.dtype(x.dtype()), V => {
                    let (values, grad) = (Typed::<V>::of(op, x)?, Typed::<V>::of(op, dy)?);
                    match algorithm {
                        ConvAlgorithm::Winograd => unreachable!("given above"),
                        ConvAlgorithm::Direct => {
                            direct::add_backward_weights(spec, shapes, &values, &grad, dw);
                        }
                        ConvAlgorithm::Library => {
                            let geometry = ConvGeometry { x_shape, y_shape, spec: *spec };
                            onednn::backward_weights(&geometry, &values, &grad, dw)?;
                        }
                    }
                    Ok(())
                })
            }
        }
    }

    /// A parameter's values, one for each channel.
    pub(super) fn channels_of(
        self,
        op: &'static str,
        values: &Tensor,
    ) -> Result<Channels<'static>> {
        on_gpu!(self, super::cuda::channels_of(values));
        Ok(Host::of(op, values)?.to_vec().into())
    }

    /// Adds the sum over pixels of every channel.
    pub(super) fn add_channel_sums(
        self,
        op: &'static str,
        dy: &Tensor,
        sums: Landing<'_>,
    ) -> Result<()> {
        on_gpu!(self, super::cuda::add_channel_sums(dy, sums));
        let sums = sums.host()?;
        let channels = sums.len();
        let (mean, _) = match self.on_cpu() {
            Cpu::Reference => reference::norm::moments(&Host::of(op, dy)?, channels),
            #[cfg(feature = "onednn")]
            Cpu::OneDnn => by_dtype!(dy.dtype(), V => {
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

/// What [`Backend::conv2d_of_rows`] gives where it is not Winograd's loops that do.
#[cfg(feature = "onednn")]
fn by_direct_or_onednn(
    x: &Tensor,
    weights: &Weights,
    spec: &ConvSpec,
    (x_shape, y_shape): ([usize; 4], [usize; 4]),
    fuse: Fuse<'_>,
    algorithm: ConvAlgorithm,
) -> Result<Tensor> {
    let op = "conv2d";
    by_dtype!(algorithm.dtype(x.dtype()), V => {
        let residual = (fuse.residual()).map(|residual| Typed::<V>::of(op, residual));
        let residual = residual.transpose()?;
        let finish = Finish {
            bias: weights.bias(),
            residual: residual.as_deref(),
            relu: fuse.relu(),
        };
        let y = match algorithm {
            ConvAlgorithm::Winograd => unreachable!("`by_winograd` comes first"),
            ConvAlgorithm::Direct => {
                let (shapes, panels) = ((x_shape, y_shape), weights.panels(op)?);
                direct::forward(spec, shapes, &Host::of(op, x)?, panels, finish)
            }
            ConvAlgorithm::Library => {
                let geometry = ConvGeometry { x_shape, y_shape, spec: *spec };
                let values = weights.values(op)?;
                let kernels = weights.for_onednn(&values);
                onednn::forward(&geometry, &Typed::<V>::of(op, x)?, kernels, finish)?
            }
        };
        tensor(y, &y_shape, x.dtype())
    })
}

/// What [`Backend::transposed`] gives, by matrix products over lines of pixels.
#[cfg(feature = "onednn")]
fn transposed_directly(
    dy: &Tensor,
    weights: &Weights,
    spec: &ConvSpec,
    shapes: ([usize; 4], [usize; 4]),
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
        let dx: Vec<V> = direct::backward_data(spec, shapes, &grad, panels, finish);
        tensor(dx, &shapes.0, dy.dtype())
    })
}

/// What [`Backend::transposed`] gives, by oneDNN.
#[cfg(feature = "onednn")]
fn transposed_by_onednn(
    dy: &Tensor,
    weights: &Weights,
    spec: &ConvSpec,
    (x_shape, y_shape): ([usize; 4], [usize; 4]),
    relu: bool,
) -> Result<Tensor> {
    by_dtype!(ConvAlgorithm::Library.dtype(dy.dtype()), V => {
        let geometry = ConvGeometry { x_shape, y_shape, spec: *spec };
        let values = weights.values(BACKWARD_DATA)?;
        let kernels = weights.for_onednn(&values);
        let grad = Typed::<V>::of(BACKWARD_DATA, dy)?;
        let mut dx = onednn::backward_data(&geometry, &grad, kernels)?;
        if let Some(bias) = bias(weights, x_shape[3], relu) {
            super::fast::norm::shift_in_place(&mut dx, &bias, relu);
        }
        tensor(dx, &x_shape, dy.dtype())
    })
}
