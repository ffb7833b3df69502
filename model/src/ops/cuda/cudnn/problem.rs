//! A convolution as a problem for cuDNN: direction, types and geometry, which together determine the engine.

use super::library::Direction;
use candle_core::DType;

/// Everything that determines which engine runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in super::super) struct Problem {
    pub(in super::super) direction: Direction,
    pub(in super::super) dtype: DType,
    /// Whether f32 operands may be rounded to TF32.
    pub(in super::super) tf32: bool,
    /// (b, h, w, c)
    pub(in super::super) x: [usize; 4],
    /// (b, p, q, o)
    pub(in super::super) y: [usize; 4],
    pub(in super::super) kernel: (usize, usize),
    /// Above and below, and on both sides.
    pub(in super::super) padding: (usize, usize),
    pub(in super::super) padding_below: usize,
    pub(in super::super) stride: usize,
    pub(in super::super) dilation: usize,
    pub(in super::super) groups: usize,
    /// For [`Direction::Forward`]: the epilogue in the same call.
    pub(in super::super) ending: Option<Ending>,
}

/// The epilogue of a convolution before its result is rounded: a bias per channel, in the operands' type (cuDNN has no
/// precompiled engine without one, nor for an f32 bias with half types), then the operations named here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in super::super) struct Ending {
    /// Whether a tensor of the result's shape is added.
    pub(in super::super) residual: bool,
    pub(in super::super) relu: bool,
}

impl Ending {
    fn text(self) -> String {
        let words = [
            (true, " bias"),
            (self.residual, " residual"),
            (self.relu, " relu"),
        ];
        let named = words.iter().filter(|(named, _)| *named);
        named.map(|(_, word)| *word).collect()
    }
}

impl Problem {
    /// Its name in the cache file.
    pub(in super::super) fn text(&self) -> String {
        let direction = match self.direction {
            Direction::Forward => "forward",
            Direction::BackwardData => "data",
            Direction::BackwardFilter => "filter",
        };
        let numbers = [
            &self.x[..],
            &self.y[..],
            &[self.kernel.0, self.kernel.1, self.padding.0, self.padding.1],
            &[self.stride, self.dilation, self.groups],
        ];
        let numbers: Vec<String> = numbers.concat().iter().map(usize::to_string).collect();
        let dtype = match self.tf32 {
            true => "tf32",
            false => self.dtype.as_str(),
        };
        let below = match self.padding_below == self.padding.0 {
            true => String::new(),
            false => format!(" below {}", self.padding_below),
        };
        let ending = self.ending.map(Ending::text).unwrap_or_default();
        format!("{direction} {dtype} {}{below}{ending}", numbers.join(" "))
    }

    /// The extents of the kernels in memory order: (outer, taps, inner).
    pub(super) fn kernels(&self) -> [usize; 3] {
        let taps = self.kernel.0 * self.kernel.1;
        [self.y[3], taps, self.x[3] / self.groups]
    }

    /// The possible result types, best first: f32 sums of half precisions are kept in f32 if possible.
    pub(super) fn results(&self) -> &'static [ResultType] {
        match (self.direction, self.dtype) {
            (Direction::BackwardFilter, DType::BF16 | DType::F16) => {
                &[ResultType::F32, ResultType::Same]
            }
            _ => &[ResultType::Same],
        }
    }
}

/// The type of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum ResultType {
    /// The type of the operands.
    Same,
    F32,
}

impl ResultType {
    pub(super) fn dtype(self, problem: &Problem) -> DType {
        match self {
            Self::Same => problem.dtype,
            Self::F32 => DType::F32,
        }
    }
}

/// The alignment of addresses in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Alignment(i64);

impl Alignment {
    /// The alignment that most engines require.
    const FULL: i64 = 16;

    /// The common alignment of these addresses: that of allocated memory or, for samples inside a batch, possibly less.
    pub(super) fn common(addresses: &[u64]) -> Self {
        let all = addresses.iter().fold(Self::FULL as u64, |a, b| a | b);
        Self(1 << all.trailing_zeros())
    }

    pub(super) fn bytes(self) -> i64 {
        self.0
    }

    /// The suffix of a problem's name in the cache file.
    pub(super) fn text(self) -> String {
        match self.0 {
            Self::FULL => String::new(),
            less => format!(" at {less}"),
        }
    }
}

/// Whether all addresses have the alignment that every engine accepts.
pub(in super::super) fn are_aligned(addresses: &[u64]) -> bool {
    Alignment::common(addresses).0 == Alignment::FULL
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(direction: Direction, dtype: DType) -> Problem {
        Problem {
            direction,
            dtype,
            tf32: false,
            x: [2, 8, 10, 16],
            y: [2, 4, 5, 12],
            kernel: (3, 3),
            padding: (1, 0),
            padding_below: 1,
            stride: 2,
            dilation: 1,
            groups: 4,
            ending: None,
        }
    }

    #[test]
    fn a_name_tells_everything() {
        let data = problem(Direction::BackwardData, DType::BF16);
        assert_eq!(data.text(), "data bf16 2 8 10 16 2 4 5 12 3 3 1 0 2 1 4");
        let tf32 = Problem {
            tf32: true,
            ..problem(Direction::Forward, DType::F32)
        };
        assert!(tf32.text().starts_with("forward tf32 2 8"));
        let below = Problem {
            padding_below: 0,
            ..data
        };
        assert_eq!(below.text(), data.text() + " below 0");
        let forward = problem(Direction::Forward, DType::F16);
        for (residual, relu, words) in [
            (false, false, "4 bias"),
            (false, true, "4 bias relu"),
            (true, true, "4 bias residual relu"),
        ] {
            let ending = Some(Ending { residual, relu });
            let text = Problem { ending, ..forward }.text();
            assert!(text.ends_with(words), "{text}");
        }
    }

    #[test]
    fn only_sums_over_pixels_of_half_types_may_be_wider() {
        for direction in [Direction::Forward, Direction::BackwardData] {
            assert_eq!(problem(direction, DType::F16).results(), [ResultType::Same]);
        }
        let filter = |dtype| problem(Direction::BackwardFilter, dtype);
        assert_eq!(filter(DType::F32).results(), [ResultType::Same]);
        let half = filter(DType::BF16);
        let types = half.results().iter().map(|result| result.dtype(&half));
        assert_eq!(types.collect::<Vec<_>>(), [DType::F32, DType::BF16]);
        assert_eq!(half.kernels(), [12, 9, 4]);
    }

    #[test]
    fn the_least_aligned_address_counts() {
        for (addresses, bytes) in [
            (&[256u64, 512][..], 16),
            (&[256, 520], 8),
            (&[258, 512], 2),
            (&[4096 + 16], 16),
            (&[], 16),
        ] {
            assert_eq!(Alignment::common(addresses).bytes(), bytes, "{addresses:?}");
            assert_eq!(are_aligned(addresses), bytes == 16, "{addresses:?}");
        }
        assert_eq!(Alignment::common(&[256]).text(), "");
        assert_eq!(Alignment::common(&[4]).text(), " at 4");
    }
}
