//! A single operation, ready to run repeatedly.

use super::cases::{Case, Direction, Op};
use candle_core::{DType, Device, Tensor};
use squall_model::Backend;
use squall_model::ops::loss::Criterion;
use squall_model::ops::norm::{After, NormBackward};
use squall_model::ops::{Channels, Fuse, GradientSink, PoolSpec};

/// Runs the operation once.
pub(super) type Work = Box<dyn FnMut() -> anyhow::Result<()>>;

/// Added to variances, for stability.
const EPS: f32 = 1e-5;
/// Dropout rate.
const RATE: f32 = 0.2;

/// Prepares the operation with random operands on the compute device.
pub(super) fn ready(case: &Case, backend: Backend, dtype: DType) -> anyhow::Result<Work> {
    let case = *case;
    let drawn = |shape: &[usize], dtype| -> anyhow::Result<Tensor> {
        let values = Tensor::randn(0f32, 1f32, shape, &Device::Cpu)?;
        Ok(backend.bring(&backend.convert(&values, dtype)?)?)
    };
    let x = drawn(&case.x, dtype)?;
    let dy = drawn(&case.y, dtype)?;
    Ok(match case.op {
        Op::Convolution | Op::Depthwise => {
            let kernel = drawn(&case.kernel_shape(), DType::F32)?;
            convolution(case, backend, [x, dy, kernel])?
        }
        Op::BatchNorm => batch_norm(case, backend, [x, dy])?,
        Op::Add => Box::new(move || Ok(backend.add(&x, &dy).map(drop)?)),
        Op::MaxPool => {
            let spec = PoolSpec::stem(false);
            let (_, marks) = backend.max_pool(&x, &spec)?;
            match case.direction {
                Direction::Forward => {
                    Box::new(move || Ok(backend.max_pool(&x, &spec).map(drop)?))
                }
                _ => Box::new(move || {
                    let dx = backend.max_pool_backward(&dy, &marks, case.x, &spec);
                    Ok(dx.map(drop)?)
                }),
            }
        }
        Op::GlobalAverage => match case.direction {
            Direction::Forward => {
                Box::new(move || Ok(backend.global_average_pool(&x).map(drop)?))
            }
            _ => Box::new(move || {
                let dx = backend.global_average_pool_backward(&dy, case.x);
                Ok(dx.map(drop)?)
            }),
        },
        Op::Resize => {
            let [_, h, w, _] = case.y;
            match case.direction {
                Direction::Forward => {
                    Box::new(move || Ok(backend.resize_bilinear(&x, (h, w), false).map(drop)?))
                }
                _ => Box::new(move || {
                    let dx = backend.resize_bilinear_backward(&dy, case.x, false);
                    Ok(dx.map(drop)?)
                }),
            }
        }
        Op::Dropout => {
            let mut key = 0;
            Box::new(move || {
                key += 1;
                Ok(backend.dropout(&x, RATE, key).map(drop)?)
            })
        }
        Op::Loss => {
            let logits = drawn(&case.x, DType::F32)?;
            let classes = case.x[3];
            let pixels = case.x[..3].iter().product::<usize>();
            let labels: Vec<u8> = (0..pixels).map(|at| (at % classes) as u8).collect();
            let criterion = Criterion::cross_entropy(&vec![1.0; classes]);
            Box::new(move || {
                let loss = backend.segmentation_loss(&logits, &labels, &criterion, 1.0)?;
                std::hint::black_box(loss.value());
                Ok(())
            })
        }
        Op::Argmax => {
            let logits = drawn(&case.x, DType::F32)?;
            Box::new(move || Ok(backend.argmax(&logits).map(drop)?))
        }
    })
}

fn convolution(case: Case, backend: Backend, [x, dy, kernel]: [Tensor; 3]) -> anyhow::Result<Work> {
    let spec = case.spec();
    let depthwise = case.op == Op::Depthwise;
    let mut sums = Sums::new(kernel.elem_count(), backend)?;
    Ok(match case.direction {
        Direction::Forward => Box::new(move || {
            let y = match depthwise {
                true => backend.depthwise_conv2d(&x, &kernel, &spec),
                false => backend.conv2d(&x, &kernel, None, &spec, Fuse::None),
            };
            Ok(y.map(drop)?)
        }),
        Direction::Input => Box::new(move || {
            let dx = match depthwise {
                true => backend.depthwise_conv2d_backward_data(&dy, &kernel, case.x, &spec),
                false => backend.conv2d_backward_data(&dy, &kernel, case.x, &spec),
            };
            Ok(dx.map(drop)?)
        }),
        Direction::Kernel => Box::new(move || {
            let place = sums.sink();
            match depthwise {
                true => backend.depthwise_conv2d_backward_weights(&x, &dy, &spec, place)?,
                false => backend.conv2d_backward_weights(&x, &dy, &spec, place, None)?,
            }
            Ok(())
        }),
    })
}

fn batch_norm(case: Case, backend: Backend, [x, dy]: [Tensor; 2]) -> anyhow::Result<Work> {
    let channels = case.x[3];
    let gamma = backend.equal_channels(1.0, channels)?;
    let beta = backend.equal_channels(0.0, channels)?;
    let forward = move |x: &Tensor, gamma: &Channels<'_>, beta: &Channels<'_>| {
        backend.batch_norm_forward(x, gamma, beta, EPS, None, true, None)
    };
    if case.direction == Direction::Forward {
        return Ok(Box::new(move || Ok(forward(&x, &gamma, &beta).map(drop)?)));
    }
    let (_, saved) = forward(&x, &gamma, &beta)?;
    let after = After {
        relu: true,
        residual: false,
    };
    let [mut dgamma, mut dbeta] = [Sums::new(channels, backend)?, Sums::new(channels, backend)?];
    Ok(Box::new(move || {
        let of = NormBackward {
            dy: &dy,
            x: &x,
            y: None,
            gamma: (&gamma).into(),
            beta: (&beta).into(),
            saved: &saved,
            after,
            ranks: None,
        };
        let dx = backend.batch_norm_backward(&of, dgamma.sink(), dbeta.sink());
        Ok(dx.map(drop)?)
    }))
}

/// Accumulators of parameter gradients, on the GPU if that computes.
enum Sums {
    Host(Vec<f32>),
    #[cfg(feature = "cuda")]
    Gpu(Tensor),
}

impl Sums {
    fn new(count: usize, backend: Backend) -> anyhow::Result<Self> {
        #[cfg(feature = "cuda")]
        if backend.is_gpu() {
            let zeros = Tensor::zeros(count, DType::F32, &Device::Cpu)?;
            return Ok(Self::Gpu(backend.bring(&zeros)?));
        }
        let _ = backend;
        Ok(Self::Host(vec![0.0; count]))
    }

    fn sink(&mut self) -> GradientSink<'_> {
        match self {
            Self::Host(values) => GradientSink::Host(values),
            #[cfg(feature = "cuda")]
            Self::Gpu(values) => GradientSink::Gpu(values.clone()),
        }
    }
}
