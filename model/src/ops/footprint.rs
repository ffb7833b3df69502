//! Working memory of convolutions beside their activations, from shapes alone.

use super::algorithm::ConvAlgorithm;
#[cfg(feature = "onednn")]
use super::onednn;
use super::winograd::{self, Direction};
use super::{Backend, Convolution};
use candle_core::DType;

const DIRECTIONS: [Direction; 3] = [
    Direction::Forward,
    Direction::BackwardData,
    Direction::BackwardWeights,
];

fn taps(conv: &Convolution) -> usize {
    conv.spec.kernel.0 * conv.spec.kernel.1
}

/// Bytes of all kernels of a convolution, at `bytes` per value.
fn kernels(conv: &Convolution, bytes: usize) -> u64 {
    (bytes * (conv.y[3] * conv.x[3] / conv.spec.groups.max(1))) as u64
}

impl Backend {
    /// Bytes of packed kernels that inference keeps for a convolution.
    pub(crate) fn kept_bytes(self, dtype: DType, conv: &Convolution) -> u64 {
        let algorithm = ConvAlgorithm::of(self, dtype, conv, Direction::Forward);
        kernels(
            conv,
            match algorithm {
                ConvAlgorithm::Winograd => 4 * winograd::points(&conv.spec),
                ConvAlgorithm::Direct => 4 * taps(conv),
                // In oneDNN's packed layout, or in cuDNN's.
                ConvAlgorithm::Library => self.library_dtype(dtype).size_in_bytes() * taps(conv),
            },
        )
    }

    /// Peak bytes of temporary kernels, or of sums of their gradients, while a step runs the convolution.
    pub(crate) fn working_bytes(self, dtype: DType, conv: &Convolution) -> u64 {
        let made =
            DIRECTIONS.map(
                |direction| match ConvAlgorithm::of(self, dtype, conv, direction) {
                    ConvAlgorithm::Winograd => 4 * winograd::points(&conv.spec),
                    ConvAlgorithm::Library if self.packs(dtype, conv, direction) => 0,
                    ConvAlgorithm::Direct | ConvAlgorithm::Library => 4 * taps(conv),
                },
            );
        kernels(conv, made.into_iter().max().unwrap_or(0))
    }

    /// Whether kernels or their gradients exist only in the packed form that [`Self::packed_bytes`] counts. This holds
    /// for oneDNN, except for gradients that are computed tap by tap and then added.
    fn packs(self, dtype: DType, conv: &Convolution, direction: Direction) -> bool {
        #[cfg(feature = "onednn")]
        if self == Self::OneDnn {
            return direction != Direction::BackwardWeights || !onednn::adds_up_taps(conv, dtype);
        }
        let _ = (dtype, conv, direction);
        false
    }

    /// Bytes of a copy of the input padded in longitude, where the implementation cannot wrap by itself.
    pub(crate) fn wrapped_bytes(self, dtype: DType, conv: &Convolution) -> u64 {
        let ([b, h, w, c], side) = (conv.x, conv.spec.padding.1);
        // Depthwise kernels wrap by themselves.
        let alone = conv.spec.groups > 1 && conv.spec.groups == c;
        if !self.is_gpu() || !conv.spec.periodic || side == 0 || alone {
            return 0;
        }
        (b * h * (w + 2 * side) * c * dtype.size_in_bytes()) as u64
    }

    /// Bytes of the copies of fields that a step makes for the kernel gradient.
    pub(crate) fn copied_bytes(self, dtype: DType, conv: &Convolution) -> u64 {
        if self.is_gpu() {
            return self.wrapped_bytes(dtype, conv);
        }
        #[cfg(feature = "onednn")]
        if self == Self::OneDnn {
            let algorithm = ConvAlgorithm::of(self, dtype, conv, Direction::BackwardWeights);
            let spec = conv.spec;
            let window = spec.kernel != (1, 1) && spec.dilation < 3 && spec.groups == 1;
            let half = self.library_dtype(dtype) == DType::BF16;
            if algorithm == ConvAlgorithm::Library && window && half {
                return onednn::transposed_bytes(conv) as u64;
            }
        }
        0
    }

    /// Bytes of packed kernels that oneDNN's primitives read and write in a step, in buffers that the thread keeps.
    pub(crate) fn packed_bytes(self, dtype: DType, conv: &Convolution) -> u64 {
        if !self.is_onednn() {
            return 0;
        }
        let packed = DIRECTIONS.map(|direction| {
            match (ConvAlgorithm::of(self, dtype, conv, direction), direction) {
                (ConvAlgorithm::Library, Direction::BackwardWeights) => 4 * taps(conv),
                (ConvAlgorithm::Library, _) => {
                    self.library_dtype(dtype).size_in_bytes() * taps(conv)
                }
                _ => 0,
            }
        });
        kernels(conv, packed.into_iter().max().unwrap_or(0))
    }

    /// Peak bytes of a library's workspace for any of the convolutions, not counted elsewhere.
    pub(crate) fn library_bytes(self, dtype: DType, convolutions: &[Convolution]) -> u64 {
        #[cfg(feature = "cuda")]
        if self == Self::Cuda {
            let f32s = convolutions.iter().filter(|_| dtype == DType::F32);
            return super::cuda::working_memory(f32s);
        }
        let _ = (dtype, convolutions);
        0
    }

    /// Bytes of the buffers that threads allocate for the convolution and keep.
    pub(crate) fn thread_bytes(self, dtype: DType, conv: &Convolution) -> u64 {
        match ConvAlgorithm::of(self, dtype, conv, Direction::Forward) {
            ConvAlgorithm::Winograd => {
                let values = winograd::scratch_values(&conv.spec, (conv.x[3], conv.y[3]));
                (4 * values * rayon::current_num_threads()) as u64
            }
            ConvAlgorithm::Direct | ConvAlgorithm::Library => 0,
        }
    }
}
