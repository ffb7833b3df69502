//! Bytes that a convolution's loops hold beside its activations, from shapes alone.

#[cfg(feature = "onednn")]
use super::way::Way;
#[cfg(feature = "onednn")]
use super::winograd::{self, Direction};
use super::{Backend, ConvSpec};
use candle_core::DType;

#[cfg(feature = "onednn")]
const DIRECTIONS: [Direction; 3] = [
    Direction::Forward,
    Direction::BackwardData,
    Direction::BackwardWeights,
];

/// A convolution as its loops see it.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(feature = "onednn"), allow(dead_code))]
pub(crate) struct Sizes<'a> {
    pub dtype: DType,
    pub spec: &'a ConvSpec,
    pub x: [usize; 4],
    pub y: [usize; 4],
}

impl Sizes<'_> {
    fn taps(&self) -> usize {
        self.spec.kernel.0 * self.spec.kernel.1
    }

    /// Bytes of all its kernels, if one takes so many.
    fn kernels(&self, bytes: usize) -> u64 {
        (bytes * (self.y[3] * self.x[3] / self.spec.groups.max(1))) as u64
    }

    #[cfg(feature = "onednn")]
    fn way(&self, backend: Backend, direction: Direction) -> Way {
        Way::of(backend, self.dtype, self.spec, (self.x, self.y), direction)
    }
}

impl Backend {
    /// Bytes that inference keeps of the kernels of a convolution as its loops read them.
    pub(crate) fn kept_bytes(self, sizes: Sizes<'_>) -> u64 {
        #[cfg(feature = "onednn")]
        if self == Self::OneDnn {
            return sizes.kernels(match sizes.way(self, Direction::Forward) {
                Way::Winograd => 4 * winograd::points(sizes.spec),
                Way::Direct => 4 * sizes.taps(),
                // Packed.
                Way::OneDnn => Way::OneDnn.dtype(sizes.dtype).size_in_bytes() * sizes.taps(),
            });
        }
        sizes.kernels(4 * sizes.taps())
    }

    /// The most bytes of kernels, and of sums of their gradient, that a step makes beside the parameters and gradients themselves
    /// before it gives them back.
    pub(crate) fn working_bytes(self, sizes: Sizes<'_>) -> u64 {
        #[cfg(feature = "onednn")]
        if self == Self::OneDnn {
            let made = DIRECTIONS.map(|direction| {
                let way = sizes.way(self, direction);
                match (way, direction) {
                    (Way::Winograd, _) => 4 * winograd::points(sizes.spec),
                    // As the primitive gives it, and as it is added to the rest.
                    (Way::OneDnn, Direction::BackwardWeights) => 8 * sizes.taps(),
                    (Way::OneDnn, _) => way.dtype(sizes.dtype).size_in_bytes() * sizes.taps(),
                    (Way::Direct, _) => 4 * sizes.taps(),
                }
            });
            return sizes.kernels(made.into_iter().max().unwrap_or(0));
        }
        sizes.kernels(4 * sizes.taps())
    }

    /// Bytes that the threads hold to compute it, and go on holding.
    pub(crate) fn thread_bytes(self, sizes: Sizes<'_>) -> u64 {
        #[cfg(feature = "onednn")]
        if self == Self::OneDnn && sizes.way(self, Direction::Forward) == Way::Winograd {
            let values = winograd::scratch_values(sizes.spec, (sizes.x[3], sizes.y[3]));
            return (4 * values * rayon::current_num_threads()) as u64;
        }
        let _ = sizes;
        0
    }
}
