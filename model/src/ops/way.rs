//! Which loops run a convolution of the fast backend: a function of the geometry and the kind of processor.

use super::winograd::{self, Direction};
use super::{Backend, ConvSpec, direct, pointwise};
use candle_core::DType;
use std::sync::atomic::{AtomicBool, Ordering};

static ONEDNN_ALONE: AtomicBool = AtomicBool::new(false);

/// Leaves the convolutions of the whole process to oneDNN or no longer, to see what the other ways are worth.
pub fn leave_to_onednn(alone: bool) {
    ONEDNN_ALONE.store(alone, Ordering::Relaxed);
}

/// Which loops run a convolution of the fast backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Winograd,
    Direct,
    Pointwise,
    /// What is left; of the plain backend everything.
    OneDnn,
}

impl Way {
    /// A function of the geometry and the kind of processor, never of a timing, so that runs can be repeated bit for bit.
    pub(crate) fn of(
        backend: Backend,
        dtype: DType,
        spec: &ConvSpec,
        (x, y): ([usize; 4], [usize; 4]),
        direction: Direction,
    ) -> Self {
        if backend == Backend::Reference || ONEDNN_ALONE.load(Ordering::Relaxed) {
            Self::OneDnn
        } else if winograd::pays(spec, x, y, direction) {
            Self::Winograd
        } else if (spec.stride > 1 || direction != Direction::BackwardWeights)
            && direct::pays(spec, x, y)
        {
            Self::Direct
        } else if pays_pointwise(dtype, spec, (x, y), direction) {
            Self::Pointwise
        } else {
            Self::OneDnn
        }
    }
}

/// Whether the matrix product over pixels beats oneDNN: not where the processor multiplies halves as such.
fn pays_pointwise(
    dtype: DType,
    spec: &ConvSpec,
    (x, y): ([usize; 4], [usize; 4]),
    direction: Direction,
) -> bool {
    let native = dtype != DType::F32 && Backend::OneDnn.is_fast(dtype);
    let runs = match direction {
        Direction::Forward => true,
        // The gradient of a strided kernel's input has holes.
        Direction::BackwardData => spec.stride == 1,
        Direction::BackwardWeights => false,
    };
    runs && !native && pointwise::pays(spec, x, y)
}
