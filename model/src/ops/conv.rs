//! Convolutions and transposed convolutions: shapes are checked here, work is done by the backend.

use super::conv_spec::{ConvSpec, ConvTransposeSpec};
#[cfg(feature = "onednn")]
use super::direct::{self, Panels};
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
use super::winograd::{self, Direction, Kernels};
use super::{Backend, reference};
use crate::error::Result;
use crate::profile;
#[cfg(feature = "onednn")]
use candle_core::DType;
use candle_core::Tensor;
#[cfg(feature = "onednn")]
use std::sync::atomic::{AtomicBool, Ordering};

/// What happens to a convolution's output before it is written.
#[derive(Debug, Clone, Copy)]
pub enum Fuse<'a> {
    /// Nothing.
    None,
    /// max(y, 0); oneDNN makes 0 of NaN here.
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

/// Outputs, inputs and taps of weights.
#[cfg(feature = "onednn")]
fn sizes(weights: &Tensor) -> (usize, usize, usize) {
    match *weights.dims() {
        [out, inner, kh, kw] => (out, inner, kh * kw),
        _ => unreachable!("the weights' rank was checked"),
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
        let _span = profile::span(|| {
            format!(
                "conv2d {:?} {:?} {}",
                x.dims(),
                weights.dims(),
                spec.brief()
            )
        });
        let op = "conv2d";
        let x_shape = bhwc(op, "x", x)?;
        let y_shape = spec.output_shape(op, x_shape, weights.dims())?;
        if let Some(bias) = bias {
            expect(op, "bias", &[y_shape[3]][..], bias.dims())?;
        }
        if let Some(residual) = fuse.residual() {
            expect(op, "residual", &y_shape[..], residual.dims())?;
        }
        let w = Host::of(op, weights)?;
        let bias = bias.map(|bias| Host::of(op, bias)).transpose()?;
        match self {
            Self::Reference => {
                let x_values = Host::of(op, x)?;
                let mut y = reference::conv::forward(
                    &x_values,
                    x_shape,
                    &w,
                    bias.as_deref(),
                    y_shape,
                    spec,
                );
                if let Some(residual) = fuse.residual() {
                    let residual = Host::of(op, residual)?;
                    y.iter_mut().zip(residual.iter()).for_each(|(y, r)| *y += r);
                }
                if fuse.relu() {
                    y.iter_mut().for_each(|y| *y = rectified(*y));
                }
                tensor(y, &y_shape, x.dtype())
            }
            #[cfg(feature = "onednn")]
            Self::OneDnn => {
                let shapes = (x_shape, y_shape);
                let way = Way::of(spec, shapes, Direction::Forward, x.dtype());
                by_dtype!(way.dtype(x.dtype()), V => {
                    let residual = (fuse.residual()).map(|residual| Typed::<V>::of(op, residual));
                    let residual = residual.transpose()?;
                    let finish = Finish {
                        bias: bias.as_deref(),
                        residual: residual.as_deref(),
                        relu: fuse.relu(),
                    };
                    let y = match way {
                        Way::Winograd => {
                            let kernels = Kernels::forward(&w, y_shape[3], x_shape[3]);
                            winograd::forward(spec, shapes, &Typed::<V>::of(op, x)?, &kernels, finish)
                        }
                        Way::Direct => {
                            let panels = Panels::forward(&w, sizes(weights));
                            direct::forward(spec, shapes, &Host::of(op, x)?, &panels, finish)
                        }
                        Way::OneDnn => {
                            let pass = Pass { x_shape, y_shape, spec };
                            onednn::forward(&pass, &Typed::<V>::of(op, x)?, &w, finish)?
                        }
                    };
                    tensor(y, &y_shape, x.dtype())
                })
            }
        }
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
        let _span = profile::span(|| {
            format!(
                "conv2d backward data {x_shape:?} {:?} {}",
                weights.dims(),
                spec.brief()
            )
        });
        let op = "conv2d_backward_data";
        let y_shape = spec.output_shape(op, x_shape, weights.dims())?;
        expect(op, "dy", &y_shape[..], dy.dims())?;
        let w = Host::of(op, weights)?;
        match self {
            Self::Reference => {
                let grad = Host::of(op, dy)?;
                let dx = reference::conv::backward_data(&grad, y_shape, &w, x_shape, spec);
                tensor(dx, &x_shape, dy.dtype())
            }
            #[cfg(feature = "onednn")]
            Self::OneDnn => {
                let shapes = (x_shape, y_shape);
                let way = Way::of(spec, shapes, Direction::BackwardData, dy.dtype());
                by_dtype!(way.dtype(dy.dtype()), V => {
                    let dx: Vec<V> = match way {
                        Way::Winograd => {
                            let kernels = Kernels::backward(&w, y_shape[3], x_shape[3]);
                            winograd::backward_data(spec, shapes, &Typed::<V>::of(op, dy)?, &kernels)
                        }
                        Way::Direct => {
                            let panels = Panels::backward(&w, sizes(weights));
                            direct::backward_data(spec, shapes, &Host::of(op, dy)?, &panels, Finish::NOTHING)
                        }
                        Way::OneDnn => {
                            let pass = Pass { x_shape, y_shape, spec };
                            onednn::backward_data(&pass, &Typed::<V>::of(op, dy)?, &w)?
                        }
                    };
                    tensor(dx, &x_shape, dy.dtype())
                })
            }
        }
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
        let inner = x_shape[3] / spec.groups.max(1);
        let weights = [y_shape[3], inner, spec.kernel.0, spec.kernel.1];
        expect(op, "dy", spec.output_shape(op, x_shape, &weights)?, y_shape)?;
        expect(op, "dw", weights.iter().product(), dw.len())?;
        if let Some(dbias) = dbias {
            expect(op, "dbias", y_shape[3], dbias.len())?;
            self.add_channel_sums(op, dy, dbias)?;
        }
        match self {
            Self::Reference => {
                let (values, grad) = (Host::of(op, x)?, Host::of(op, dy)?);
                reference::conv::backward_weights(&values, x_shape, &grad, y_shape, spec, dw);
                Ok(())
            }
            #[cfg(feature = "onednn")]
            Self::OneDnn => {
                let shapes = (x_shape, y_shape);
                let way = Way::of(spec, shapes, Direction::BackwardWeights, x.dtype());
                by_dtype!(way.dtype(x.dtype()), V => {
                    let (values, grad) = (Typed::<V>::of(op, x)?, Typed::<V>::of(op, dy)?);
                    match way {
                        Way::Winograd => {
                            winograd::add_backward_weights(spec, shapes, &values, &grad, dw);
                        }
                        Way::Direct => {
                            direct::add_backward_weights(spec, shapes, &values, &grad, dw);
                        }
                        Way::OneDnn => {
                            let pass = Pass { x_shape, y_shape, spec };
                            onednn::backward_weights(&pass, &values, &grad, dw)?;
                        }
                    }
                    Ok(())
                })
            }
        }
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
            self.add_channel_sums("conv_transpose2d_backward_weights", dy, dbias)?;
        }
        Ok(())
    }

    /// Adds the sum over pixels of every channel.
    fn add_channel_sums(self, op: &'static str, dy: &Tensor, sums: &mut [f32]) -> Result<()> {
        let channels = sums.len();
        let (mean, _) = match self {
            Self::Reference => reference::norm::moments(&Host::of(op, dy)?, channels),
            #[cfg(feature = "onednn")]
            Self::OneDnn => by_dtype!(dy.dtype(), V => {
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

#[cfg(feature = "onednn")]
static ONEDNN_ALONE: AtomicBool = AtomicBool::new(false);

/// Leaves the convolutions of the whole process to oneDNN, to see what the other ways are worth.
#[cfg(feature = "onednn")]
pub fn leave_to_onednn() {
    ONEDNN_ALONE.store(true, Ordering::Relaxed);
}

/// Which loops run a convolution of the fast backend.
#[cfg(feature = "onednn")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Winograd,
    Direct,
    OneDnn,
}

#[cfg(feature = "onednn")]
impl Way {
    /// A function of the geometry, the type of the activations and the kind of processor, never of a timing, so that runs
    /// can be repeated bit for bit.
    fn of(
        spec: &ConvSpec,
        (x, y): ([usize; 4], [usize; 4]),
        direction: Direction,
        dtype: DType,
    ) -> Self {
        // A processor that multiplies bf16 does it twice as fast as f32, with fewer instructions around it than our loops.
        if ONEDNN_ALONE.load(Ordering::Relaxed) || dtype == DType::BF16 && onednn::computes_bf16() {
            Self::OneDnn
        } else if winograd::pays(spec, x, y, direction) {
            Self::Winograd
        } else if direct::pays(spec, x, y) {
            Self::Direct
        } else {
            Self::OneDnn
        }
    }

    /// The type in which this way reads activations of `dtype`: our loops convert as they go, oneDNN computes in what it reads.
    fn dtype(self, dtype: DType) -> DType {
        match self {
            Self::OneDnn if !onednn::computes_bf16() => DType::F32,
            _ => dtype,
        }
    }
}
