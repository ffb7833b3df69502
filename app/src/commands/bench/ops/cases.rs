//! The operations of a network at its field sizes, in every direction. Training runs convolutions in all three
//! directions, except those that read the input fields, whose gradient is not needed.

use serde::Serialize;
use squall_model::ops::{ConvSpec, Convolution};
use std::collections::BTreeMap;

/// The kind of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Op {
    Convolution,
    /// A separate kernel for every channel.
    Depthwise,
    /// Batch normalisation with batch statistics and the following ReLU.
    BatchNorm,
    Add,
    MaxPool,
    GlobalAverage,
    Resize,
    Dropout,
    /// Softmax and weighted cross entropy, together with the gradient.
    Loss,
    Argmax,
}

/// The direction of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Direction {
    Forward,
    /// The gradient of the input.
    Input,
    /// The gradient of the kernel.
    Kernel,
}

/// One operation with its shapes; also the request to a peer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Case {
    pub op: Op,
    pub direction: Direction,
    /// Input shape, `(b, h, w, c)`.
    pub x: [usize; 4],
    /// Output shape.
    pub y: [usize; 4],
    pub kernel: (usize, usize),
    pub stride: usize,
    pub dilation: usize,
    pub groups: usize,
    pub padding: (usize, usize),
    /// Number of occurrences in a pass of the network; 0 for one that represents all of its kind.
    #[serde(skip)]
    pub times: usize,
}

/// Every convolution of a network in its three directions, then other operations at its field sizes.
///
/// A transposed convolution is timed as the convolution that it transposes, which has the same three directions: its
/// forward pass is that convolution's input gradient.
pub(super) fn of_network(convolutions: &[Convolution], batch: usize, classes: usize) -> Vec<Case> {
    let mut counted: BTreeMap<String, (usize, Convolution, usize)> = BTreeMap::new();
    for (place, convolution) in convolutions.iter().enumerate() {
        let entry = counted.entry(format!("{convolution:?}"));
        entry.or_insert((place, *convolution, 0)).2 += 1;
    }
    let mut distinct: Vec<_> = counted.into_values().collect();
    distinct.sort_by_key(|(place, ..)| *place);
    let mut cases = Vec::new();
    for (_, convolution, times) in distinct {
        for direction in [Direction::Forward, Direction::Input, Direction::Kernel] {
            cases.push(Case::of(&convolution, direction, batch, times));
        }
    }
    if let Some(first) = convolutions.first() {
        cases.extend(others([batch, first.x[1], first.x[2]], classes));
    }
    cases
}

/// Operations other than convolutions, for fields of this batch size and extent.
fn others([b, h, w]: [usize; 3], classes: usize) -> Vec<Case> {
    let (half, quarter) = ([b, h / 2, w / 2, 64], [b, h / 4, w / 4, 256]);
    let pooled = [b, half[1].div_ceil(2), half[2].div_ceil(2), half[3]];
    let enlarged = [b, h, w, 256];
    let logits = [b, h, w, classes];
    let both = [Direction::Forward, Direction::Input];
    let forward = [Direction::Forward];
    let kinds: [(Op, &[Direction], _, _); 8] = [
        (Op::BatchNorm, &both, quarter, quarter),
        (Op::Add, &forward, quarter, quarter),
        (Op::MaxPool, &both, half, pooled),
        (Op::GlobalAverage, &both, quarter, [b, 1, 1, quarter[3]]),
        (Op::Resize, &both, quarter, enlarged),
        (Op::Dropout, &forward, quarter, quarter),
        (Op::Loss, &forward, logits, logits),
        (Op::Argmax, &forward, logits, [b, h, w, 1]),
    ];
    let mut cases = Vec::new();
    for (op, directions, x, y) in kinds {
        for &direction in directions {
            let (kernel, stride, padding) = match op {
                Op::MaxPool => ((3, 3), 2, (1, 1)),
                _ => ((1, 1), 1, (0, 0)),
            };
            cases.push(Case {
                op,
                direction,
                x,
                y,
                kernel,
                stride,
                dilation: 1,
                groups: 1,
                padding,
                times: 0,
            });
        }
    }
    cases
}

impl Case {
    fn of(of: &Convolution, direction: Direction, batch: usize, times: usize) -> Self {
        let Convolution { spec, x, y } = of;
        // A stride in time skips frames: each tap of a kernel over time reads as many frames of x as y has.
        let frames = batch * x[0].min(y[0]);
        let with_batch = |[_, h, w, c]: [usize; 4]| [frames, h, w, c];
        // Layers run per-channel kernels as a separate operation.
        let depthwise = spec.groups > 1 && spec.groups == x[3] && x[3] == y[3];
        Self {
            op: if depthwise {
                Op::Depthwise
            } else {
                Op::Convolution
            },
            direction,
            x: with_batch(*x),
            y: with_batch(*y),
            kernel: spec.kernel,
            stride: spec.stride,
            dilation: spec.dilation,
            groups: spec.groups,
            padding: spec.padding,
            times,
        }
    }

    /// The convolution's geometry with zero padding, which peers support, too.
    pub fn spec(&self) -> ConvSpec {
        ConvSpec {
            kernel: self.kernel,
            stride: self.stride,
            dilation: self.dilation,
            groups: self.groups,
            padding: self.padding,
            periodic: false,
        }
    }

    /// Shape of a convolution's kernel.
    pub fn kernel_shape(&self) -> [usize; 4] {
        let (kh, kw) = self.kernel;
        [self.y[3], self.x[3] / self.groups, kh, kw]
    }

    pub fn is_convolution(&self) -> bool {
        matches!(self.op, Op::Convolution | Op::Depthwise)
    }

    /// Floating-point operations of the matrix products.
    pub fn flops(&self) -> f64 {
        let [_, inner, kh, kw] = self.kernel_shape();
        match self.is_convolution() {
            true => 2.0 * count(self.y) * (inner * kh * kw) as f64,
            false => 0.0,
        }
    }

    /// Shape of the part of x that is read: a stride longer than the kernel skips pixels. The gradient of x is written
    /// completely.
    fn read(&self) -> [usize; 4] {
        if !self.is_convolution() || self.direction == Direction::Input {
            return self.x;
        }
        let ([b, h, w, c], [_, rows, columns, _]) = (self.x, self.y);
        let (kh, kw) = self.kernel;
        [b, h.min(rows * kh), w.min(columns * kw), c]
    }

    /// Minimum memory traffic in bytes: every operand once, and twice if a reduction over it must precede its use.
    pub fn bytes(&self, size: usize) -> f64 {
        let (x, y) = (count(self.x) * size as f64, count(self.y) * size as f64);
        let kernel = self.kernel_shape().iter().product::<usize>() as f64 * 4.0;
        let backward = self.direction != Direction::Forward;
        match self.op {
            Op::Convolution | Op::Depthwise => {
                // Kernel gradients are accumulated.
                let of_kernel = self.direction == Direction::Kernel;
                let kernels = if of_kernel { 2.0 } else { 1.0 };
                count(self.read()) * size as f64 + y + kernels * kernel
            }
            Op::BatchNorm if backward => 2.0 * (x + y) + x,
            Op::BatchNorm => 2.0 * x + y,
            Op::Add => 2.0 * x + y,
            // One byte records which value of a window was the largest.
            Op::MaxPool => x + y + count(self.y),
            Op::GlobalAverage | Op::Resize | Op::Dropout => x + y,
            // Logits and their gradient are f32; labels and classes are bytes.
            Op::Loss => count(self.x) * 8.0 + count(self.x) / self.x[3] as f64,
            Op::Argmax => count(self.x) * 4.0 + count(self.y),
        }
    }

    /// Bytes of its operands and result.
    pub fn held(&self, size: usize) -> f64 {
        self.bytes(size) + (count(self.x) - count(self.read())) * size as f64
    }

    /// Kind, sizes, direction, and number of occurrences in a pass.
    pub fn name(&self) -> String {
        let ([_, h, w, c], [.., o]) = (self.x, self.y);
        let (kh, kw) = self.kernel;
        let what = match self.op {
            Op::Convolution => format!("{kh}x{kw} {c} to {o}"),
            Op::Depthwise => format!("{kh}x{kw} depthwise {c}"),
            Op::BatchNorm => format!("batch norm + ReLU {c}"),
            Op::Add => format!("add {c}"),
            Op::MaxPool => format!("max pool {kh}x{kw} {c}"),
            Op::GlobalAverage => format!("global average {c}"),
            Op::Resize => format!("resize {c} to {} x {}", self.y[1], self.y[2]),
            Op::Dropout => format!("dropout {c}"),
            Op::Loss => format!("softmax + cross entropy {c}"),
            Op::Argmax => format!("argmax {c}"),
        };
        let stride = match self.stride {
            1 => String::new(),
            stride => format!(" /{stride}"),
        };
        let dilation = match self.dilation {
            1 => String::new(),
            dilation => format!(" dilated {dilation}"),
        };
        let direction = match self.direction {
            Direction::Forward => "",
            Direction::Input => ", gradient of input",
            Direction::Kernel => ", gradient of kernel",
        };
        let times = match self.times {
            0 | 1 => String::new(),
            times => format!(" ({times} x)"),
        };
        format!("{what}{stride}{dilation}, {h} x {w}{direction}{times}")
    }
}

fn count(shape: [usize; 4]) -> f64 {
    shape.iter().product::<usize>() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convolution(groups: usize) -> Convolution {
        Convolution {
            spec: ConvSpec {
                groups,
                ..ConvSpec::same(3).stride(2)
            },
            x: [1, 8, 12, 4],
            y: [1, 4, 6, 4],
        }
    }

    #[test]
    fn a_convolution_is_counted_and_timed_in_three_directions() {
        let all = [convolution(1), convolution(4), convolution(1)];
        let cases = of_network(&all, 2, 3);
        let convolutions: Vec<_> = cases.iter().filter(|case| case.is_convolution()).collect();
        assert_eq!(convolutions.len(), 6);
        assert_eq!(convolutions[0].name(), "3x3 4 to 4 /2, 8 x 12 (2 x)");
        assert_eq!(
            convolutions[5].name(),
            "3x3 depthwise 4 /2, 8 x 12, gradient of kernel"
        );
        // 2 samples of 4 x 6 pixels and 4 channels, each a sum of 9 pixels and 4 channels.
        assert_eq!(convolutions[0].flops(), (2 * 2 * 24 * 4 * 36) as f64);
        assert_eq!(convolutions[3].flops(), (2 * 2 * 24 * 4 * 9) as f64);
    }

    #[test]
    fn of_clips_as_many_frames_are_read_as_a_stride_in_time_leaves() {
        let plane = Convolution {
            x: [8, 8, 12, 4],
            y: [4, 4, 6, 4],
            ..convolution(1)
        };
        for case in &of_network(&[plane], 2, 3)[..3] {
            assert_eq!((case.x, case.y), ([8, 8, 12, 4], [8, 4, 6, 4]));
        }
    }

    #[test]
    fn bytes_are_those_of_every_operand_once() {
        let cases = of_network(&[convolution(1)], 1, 3);
        let bytes = |name: &str| {
            let found = cases.iter().find(|case| case.name().starts_with(name));
            found.expect(name).bytes(2)
        };
        // x and y in bf16, the kernel in f32.
        assert_eq!(bytes("3x3 4 to 4"), (2 * (384 + 96) + 4 * 144) as f64);
        // Of every second pixel, each way, the others are not read; of the gradient all are written.
        let shortcut = Convolution {
            spec: ConvSpec::same(1).stride(2),
            ..convolution(1)
        };
        let [forward, input, kernel] = [0, 1, 2].map(|at| of_network(&[shortcut], 1, 3)[at]);
        assert_eq!(forward.bytes(2), (2 * (96 + 96) + 4 * 16) as f64);
        assert_eq!(input.bytes(2), (2 * (384 + 96) + 4 * 16) as f64);
        assert_eq!(kernel.bytes(2), (2 * (96 + 96) + 2 * 4 * 16) as f64);
        assert_eq!(kernel.held(2), (2 * (384 + 96) + 2 * 4 * 16) as f64);
        // Logits and gradient in f32, labels in bytes.
        assert_eq!(bytes("softmax"), (8 * 96 * 3 + 96) as f64);
        assert_eq!(bytes("add"), (3 * 2 * 2 * 3 * 256) as f64);
    }
}
