//! Bytes that a convolution's loops hold beside its activations, from shapes alone.

#[cfg(feature = "onednn")]
use super::algorithm::ConvAlgorithm;
#[cfg(feature = "onednn")]
use super::conv::ConvGeometry;
#[cfg(feature = "onednn")]
use super::onednn;
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
pub(crate) struct Sizes {
    pub dtype: DType,
    pub spec: ConvSpec,
    pub x: [usize; 4],
    pub y: [usize; 4],
}

impl Sizes {
    fn taps(&self) -> usize {
        self.spec.kernel.0 * self.spec.kernel.1
    }

    /// Bytes of all its kernels, if one takes `bytes`.
    fn kernels(&self, bytes: usize) -> u64 {
        (bytes * (self.y[3] * self.x[3] / self.spec.groups.max(1))) as u64
    }

    #[cfg(feature = "onednn")]
    fn geometry(&self) -> ConvGeometry {
        ConvGeometry {
            x_shape: self.x,
            y_shape: self.y,
            spec: self.spec,
        }
    }

    #[cfg(feature = "onednn")]
    fn algorithm(&self, backend: Backend, direction: Direction) -> ConvAlgorithm {
        ConvAlgorithm::of(backend, self.dtype, &self.spec, (self.x, self.y), direction)
    }
}

impl Backend {
    /// Bytes that inference keeps of the kernels of a convolution as its loops read them.
    pub(crate) fn kept_bytes(self, sizes: Sizes) -> u64 {
        #[cfg(feature = "onednn")]
        if self == Self::OneDnn {
            return sizes.kernels(match sizes.algorithm(self, Direction::Forward) {
                ConvAlgorithm::Winograd => 4 * winograd::points(&sizes.spec),
                ConvAlgorithm::Direct => 4 * sizes.taps(),
                // Packed.
                ConvAlgorithm::Library => {
                    ConvAlgorithm::Library.dtype(sizes.dtype).size_in_bytes() * sizes.taps()
                }
            });
        }
        #[cfg(feature = "cuda")]
        if self == Self::Cuda {
            // As cuDNN reads them.
            return sizes.kernels(sizes.dtype.size_in_bytes() * sizes.taps());
        }
        sizes.kernels(4 * sizes.taps())
    }

    /// The most bytes of kernels, or of sums of their gradient, that a step makes while it runs the convolution.
    pub(crate) fn working_bytes(self, sizes: Sizes) -> u64 {
        #[cfg(feature = "onednn")]
        if self == Self::OneDnn {
            let made = DIRECTIONS.map(|direction| {
                let algorithm = sizes.algorithm(self, direction);
                match (algorithm, direction) {
                    (ConvAlgorithm::Winograd, _) => 4 * winograd::points(&sizes.spec),
                    // Tap by tap, before it is added to the rest.
                    (ConvAlgorithm::Library, Direction::BackwardWeights)
                        if onednn::adds_up_taps(&sizes.geometry(), sizes.dtype) =>
                    {
                        4 * sizes.taps()
                    }
                    // Packed where they stay.
                    (ConvAlgorithm::Library, _) => 0,
                    (ConvAlgorithm::Direct, _) => 4 * sizes.taps(),
                }
            });
            return sizes.kernels(made.into_iter().max().unwrap_or(0));
        }
        sizes.kernels(4 * sizes.taps())
    }

    /// Bytes of a copy of the input with longitude wrapped around it, where the convolution cannot wrap itself.
    pub(crate) fn wrapped_bytes(self, sizes: Sizes) -> u64 {
        let ([b, h, w, c], side) = (sizes.x, sizes.spec.padding.1);
        // Where every channel has a kernel of its own, the kernels wrap themselves.
        let alone = sizes.spec.groups > 1 && sizes.spec.groups == c;
        if !self.is_gpu() || !sizes.spec.periodic || side == 0 || alone {
            return 0;
        }
        (b * h * (w + 2 * side) * c * sizes.dtype.size_in_bytes()) as u64
    }

    /// Bytes of copies of fields that a step makes for the gradient of the kernels.
    pub(crate) fn copied_bytes(self, sizes: Sizes) -> u64 {
        if self.is_gpu() {
            return self.wrapped_bytes(sizes);
        }
        #[cfg(feature = "onednn")]
        if self == Self::OneDnn
            && sizes.algorithm(self, Direction::BackwardWeights) == ConvAlgorithm::Library
        {
            let spec = sizes.spec;
            let window = spec.kernel != (1, 1) && spec.dilation < 3 && spec.groups == 1;
            if window && ConvAlgorithm::Library.dtype(sizes.dtype) == DType::BF16 {
                return onednn::transposed_bytes(&sizes.geometry()) as u64;
            }
        }
        let _ = sizes;
        0
    }

    /// Bytes of kernels as oneDNN's primitives of a step read and write them, in memory that the thread goes on
    /// holding.
    pub(crate) fn packed_bytes(self, sizes: Sizes) -> u64 {
        #[cfg(feature = "onednn")]
        if self == Self::OneDnn {
            let packed = DIRECTIONS.map(|direction| match sizes.algorithm(self, direction) {
                ConvAlgorithm::Library if direction == Direction::BackwardWeights => {
                    4 * sizes.taps()
                }
                ConvAlgorithm::Library => {
                    ConvAlgorithm::Library.dtype(sizes.dtype).size_in_bytes() * sizes.taps()
                }
                _ => 0,
            });
            return sizes.kernels(packed.into_iter().max().unwrap_or(0));
        }
        let _ = sizes;
        0
    }

    /// Bytes that a library works in at most while it computes any of the convolutions, and that are counted
    /// nowhere else.
    pub(crate) fn library_bytes(self, convolutions: impl Iterator<Item = Sizes>) -> u64 {
        #[cfg(feature = "cuda")]
        if self == Self::Cuda {
            let f32s = convolutions.filter(|sizes| sizes.dtype == DType::F32);
            return super::cuda::working_memory(f32s.map(|sizes| (sizes.x, sizes.y)));
        }
        let _ = convolutions;
        0
    }

    /// Bytes that the threads hold to compute it, and go on holding.
    pub(crate) fn thread_bytes(self, sizes: Sizes) -> u64 {
        #[cfg(feature = "onednn")]
        if self == Self::OneDnn
            && sizes.algorithm(self, Direction::Forward) == ConvAlgorithm::Winograd
        {
            let values = winograd::scratch_values(&sizes.spec, (sizes.x[3], sizes.y[3]));
            return (4 * values * rayon::current_num_threads()) as u64;
        }
        let _ = sizes;
        0
    }
}
