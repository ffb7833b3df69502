//! A convolution as a problem for cuDNN: direction, types and geometry, all that decides which engine runs it.

use super::library::Direction;
use candle_core::DType;

/// Everything that decides which engine runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in super::super) struct Problem {
    pub(in super::super) direction: Direction,
    pub(in super::super) dtype: DType,
    /// Whether operands of f32 may be rounded to TF32.
    pub(in super::super) tf32: bool,
    /// (b, h, w, c)
    pub(in super::super) x: [usize; 4],
    /// (b, p, q, o)
    pub(in super::super) y: [usize; 4],
    pub(in super::super) kernel: (usize, usize),
    /// Above, and on both sides.
    pub(in super::super) padding: (usize, usize),
    pub(in super::super) padding_below: usize,
    pub(in super::super) stride: usize,
    pub(in super::super) dilation: usize,
    pub(in super::super) groups: usize,
    /// Of [`Direction::Forward`]: what follows in the same call.
    pub(in super::super) ending: Option<Ending>,
}

/// What follows a convolution before its result is rounded: a bias for each channel, in the operands' type (cuDNN has
/// nothing ready without one, nor for one of f32 beside half types), then what is named here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in super::super) struct Ending {
    /// A tensor like the result is added.
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
    /// Its name on disk.
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

    /// Extents of the kernels as they lie in memory: (outer, taps, inner).
    pub(super) fn kernels(&self) -> [usize; 3] {
        let taps = self.kernel.0 * self.kernel.1;
        [self.y[3], taps, self.x[3] / self.groups]
    }

    /// The types that the result may have, the better first: sums of half precisions are kept in f32 where they can be.
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
    /// That of the operands.
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

/// The number of bytes that addresses are multiples of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Alignment(i64);

impl Alignment {
    /// What most engines want.
    const FULL: i64 = 16;

    /// The alignment of all these addresses: of memory as it is given out, or of a sample of a batch, which may begin
    /// anywhere in it.
    pub(super) fn of(addresses: &[u64]) -> Self {
        let all = addresses.iter().fold(Self::FULL as u64, |a, b| a | b);
        Self(1 << all.trailing_zeros())
    }

    pub(super) fn bytes(self) -> i64 {
        self.0
    }

    /// What is added to a problem's name on disk.
    pub(super) fn text(self) -> String {
        match self.0 {
            Self::FULL => String::new(),
            less => format!(" at {less}"),
        }
    }
}

/// Whether every engine can read at all these addresses.
pub(in super::super) fn are_aligned(addresses: &[u64]) -> bool {
    Alignment::of(addresses).0 == Alignment::FULL
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
            assert_eq!(Alignment::of(addresses).bytes(), bytes, "{addresses:?}");
            assert_eq!(are_aligned(addresses), bytes == 16, "{addresses:?}");
        }
        assert_eq!(Alignment::of(&[256]).text(), "");
        assert_eq!(Alignment::of(&[4]).text(), " at 4");
    }
}
