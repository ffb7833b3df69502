//! Convolutions in all three directions: every one of a network, and some of every kind.

use super::{DTYPES, ModelResult, Row, Values, draw, field, values};
use crate::error::Result;
use candle_core::{DType, Tensor};
use squall_model::networks::NetworkName;
use squall_model::ops::{ConvSpec, Convolution, Fuse};
use squall_model::{Backend, Network, NetworkConfig};
use std::collections::BTreeMap;
use std::time::Instant;

/// What sums in another order, and a rounded result, may differ by. Winograd's sums of f32 are four times less exact.
const RESULT: [Option<f64>; 3] = [Some(1e-5), Some(6e-3), Some(8e-4)];
/// Gradients of kernels are f32 sums of exact products in every type.
const SUMS: [Option<f64>; 3] = [Some(1e-5); 3];
/// Over a million pixels a judge that sums in f32 is itself no better.
const SUMS_OF_F32: [Option<f64>; 3] = [Some(1e-4); 3];

/// Lines of every convolution of a network; `progress` is called with a line for each that is done.
pub(super) fn rows(
    name: NetworkName,
    (h, w): (usize, usize),
    by: Backend,
    progress: impl FnMut(&str),
) -> Result<Vec<Row>> {
    let network = Network::build(&NetworkConfig::published(name), Backend::best(), 1)?;
    let cases = distinct(network.summary(h, w)?.convolutions());
    lines(name.as_str(), &cases, by, progress)
}

/// Lines of convolutions of every kind on fields of odd extents, against plain loops: kernels, strides, dilations,
/// groups, few channels and numbers of them that no vector divides.
pub(super) fn of_every_kind() -> Result<Vec<Row>> {
    let spec = |kernel: (usize, usize), stride, dilation, groups| ConvSpec {
        kernel,
        stride,
        dilation,
        groups,
        padding: (dilation * (kernel.0 / 2), dilation * (kernel.1 / 2)),
        periodic: false,
    };
    let wraps = |spec| ConvSpec {
        periodic: true,
        ..spec
    };
    let kinds = [
        (spec((1, 1), 1, 1, 1), 64, 48),
        (spec((1, 1), 2, 1, 1), 24, 40),
        (spec((1, 1), 1, 1, 1), 13, 7),
        (spec((3, 3), 1, 1, 1), 32, 64),
        (spec((3, 3), 2, 1, 1), 32, 48),
        (spec((3, 3), 1, 1, 1), 48, 27),
        (wraps(spec((3, 3), 2, 1, 1)), 16, 24),
        (spec((3, 3), 1, 2, 1), 48, 32),
        (spec((3, 3), 1, 4, 1), 32, 32),
        (spec((3, 3), 1, 12, 1), 64, 32),
        (spec((3, 3), 1, 1, 4), 32, 64),
        (spec((3, 3), 2, 1, 3), 12, 15),
        (spec((7, 7), 2, 1, 1), 3, 64),
        (spec((3, 3), 2, 1, 1), 3, 32),
        (spec((5, 5), 1, 1, 1), 16, 3),
        (spec((3, 5), 1, 1, 1), 8, 9),
    ];
    let mut cases = Vec::new();
    for (spec, c, o) in kinds {
        let [b, h, w] = [2, 25, 37];
        let (p, q) = spec.output_size((h, w))?;
        let (x, y) = ([b, h, w, c], [b, p, q, o]);
        cases.push(Convolution { spec, x, y });
    }
    lines("of every kind", &cases, Backend::Reference, |_| ())
}

/// A line for each direction, one for gradients of depthwise kernels and one for what a library rounds where there are
/// any.
fn lines(
    subject: &str,
    cases: &[Convolution],
    by: Backend,
    mut progress: impl FnMut(&str),
) -> Result<Vec<Row>> {
    let mut forward = Row::new(subject, "convolutions", RESULT);
    let mut data = Row::new(subject, "their gradient of the input", RESULT);
    let sums = if by == Backend::Reference {
        SUMS
    } else {
        SUMS_OF_F32
    };
    let mut weights = Row::new(subject, "their gradient of the kernel", sums);
    // Sums over pixels that come in the type of the operands.
    let rounded = [sums[0], RESULT[1], RESULT[2]];
    let mut rounded = Row::new(subject, "that, where it is rounded", rounded);
    let mut depthwise = Row::new(subject, "that of depthwise kernels", sums);
    for (done, case) in cases.iter().enumerate() {
        let began = Instant::now();
        let judge = Judge::new(case)?;
        let place = || judge.place();
        let plain = judge.forward(by, DType::F32)?;
        let forward_off = forward.add(place, &plain, |d| judge.forward(Backend::best(), d))?;
        let plain = judge.data(by, DType::F32)?;
        let data_off = data.add(place, &plain, |d| judge.data(Backend::best(), d))?;
        // It is known how they are rounded once they are computed.
        let plain = judge.weights(by, DType::F32)?;
        let mut ours = Vec::new();
        for dtype in DTYPES {
            ours.push(judge.weights(Backend::best(), dtype)?);
        }
        let line = if judge.is_depthwise() {
            &mut depthwise
        } else if judge.is_rounded()? {
            &mut rounded
        } else {
            &mut weights
        };
        let mut ours = ours.into_iter();
        let weights_off = line.add(place, &plain, |_| Ok(ours.next().unwrap_or_default()))?;
        let (done, all, took) = (done + 1, cases.len(), began.elapsed().as_secs_f64());
        let off = [forward_off, data_off, weights_off]
            .map(|off| off.map(|off| format!("{off:.1e}")).join(" "));
        progress(&format!(
            "{subject}, {done} of {all}: {}, {took:.1} s; off by {}",
            place(),
            off.join(", ")
        ));
    }
    let rows = [forward, data, weights, rounded, depthwise].into_iter();
    Ok(rows.filter(|row| row.cases > 0).collect())
}

/// Each geometry once, in an order that does not change.
fn distinct(all: &[Convolution]) -> Vec<Convolution> {
    let named = all.iter().map(|case| (format!("{case:?}"), *case));
    named.collect::<BTreeMap<_, _>>().into_values().collect()
}

/// A convolution with its operands in every type.
struct Judge {
    case: Convolution,
    kernel: Tensor,
    x: [Tensor; 3],
    dy: [Tensor; 3],
    /// What gradients of the kernel are added to.
    dw: Vec<f32>,
}

impl Judge {
    fn new(case: &Convolution) -> ModelResult<Self> {
        let Convolution { spec, x, y } = *case;
        let kernel = [y[3], x[3] / spec.groups, spec.kernel.0, spec.kernel.1];
        let every = |tensor: Tensor| -> ModelResult<[Tensor; 3]> {
            let [a, b, c] = DTYPES.map(|dtype| Backend::best_of_cpu().convert(&tensor, dtype));
            Ok([a?, b?, c?])
        };
        Ok(Self {
            case: *case,
            kernel: field(1, &kernel)?,
            x: every(field(2, &x)?)?,
            dy: every(field(3, &y)?)?,
            dw: draw(4, kernel.iter().product()),
        })
    }

    fn place(&self) -> String {
        let Convolution { spec, x, y } = &self.case;
        let (kh, kw) = spec.kernel;
        format!(
            "{kh}x{kw} {} {} -> {} on {} x {}",
            spec.brief(),
            x[3],
            y[3],
            x[1],
            x[2]
        )
    }

    /// Layers run a depthwise kernel by operations of its own.
    fn is_depthwise(&self) -> bool {
        let Convolution { spec, x, y } = &self.case;
        spec.groups > 1 && spec.groups == x[3] && x[3] == y[3]
    }

    /// Whether sums over pixels of half precisions are rounded to them.
    fn is_rounded(&self) -> ModelResult<bool> {
        for dtype in DTYPES {
            let sums = Backend::best().kernel_gradient_type(dtype, &self.case)?;
            if sums.is_some_and(|sums| sums != DType::F32) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn forward(&self, backend: Backend, dtype: DType) -> Values {
        let (x, spec) = (with_dtype(&self.x, dtype), &self.case.spec);
        values(&if self.is_depthwise() {
            backend.depthwise_conv2d(x, &self.kernel, spec)?
        } else {
            backend.conv2d(x, &self.kernel, None, spec, Fuse::None)?
        })
    }

    fn data(&self, backend: Backend, dtype: DType) -> Values {
        let Convolution { spec, x, .. } = &self.case;
        let dy = with_dtype(&self.dy, dtype);
        values(&if self.is_depthwise() {
            backend.depthwise_conv2d_backward_data(dy, &self.kernel, *x, spec)?
        } else {
            backend.conv2d_backward_data(dy, &self.kernel, *x, spec)?
        })
    }

    fn weights(&self, backend: Backend, dtype: DType) -> Values {
        let (x, dy, spec) = (
            with_dtype(&self.x, dtype),
            with_dtype(&self.dy, dtype),
            &self.case.spec,
        );
        let mut dw = self.dw.clone();
        if self.is_depthwise() {
            backend.depthwise_conv2d_backward_weights(x, dy, spec, &mut dw)?;
        } else {
            backend.conv2d_backward_weights(x, dy, spec, &mut dw, None)?;
        }
        Ok(dw)
    }
}

/// The tensor of a type.
fn with_dtype(all: &[Tensor; 3], dtype: DType) -> &Tensor {
    all.iter().find(|t| t.dtype() == dtype).unwrap_or(&all[0])
}
