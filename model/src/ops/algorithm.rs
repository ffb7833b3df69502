//! The choice of the algorithm for a convolution of the fast backend, a function of the geometry, the data type of the
//! activations and the processor.

use super::winograd::{self, Baseline, Direction};
use super::{Backend, Convolution, direct};
use candle_core::DType;
use std::sync::atomic::{AtomicBool, Ordering};

static ONEDNN_ALONE: AtomicBool = AtomicBool::new(false);

/// Disables our own algorithms for the whole process, so that oneDNN runs all convolutions, or enables them again. For
/// comparisons.
pub fn leave_to_onednn(alone: bool) {
    ONEDNN_ALONE.store(alone, Ordering::Relaxed);
}

/// The implementation of a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConvAlgorithm {
    /// Our loops of Winograd's F(4x4, 3x3) and F(4x4, 5x5).
    Winograd,
    /// Our matrix products over lines of pixels.
    Direct,
    /// The backend's general implementation: oneDNN, cuDNN, or plain loops for the reference.
    Library,
}

impl ConvAlgorithm {
    /// Chooses the algorithm from the geometry, the data type of the activations and the processor, never from a
    /// timing, so that runs are reproducible bit for bit.
    pub(crate) fn of(
        backend: Backend,
        dtype: DType,
        conv: &Convolution,
        direction: Direction,
    ) -> Self {
        if !backend.is_onednn() || ONEDNN_ALONE.load(Ordering::Relaxed) {
            return Self::Library;
        }
        // A processor with bf16 vector instructions multiplies bf16 twice as fast as f32: only Winograd's reduced
        // multiplication count still beats that. One with tile instructions (AMX) is ten times as fast.
        let native = dtype == DType::BF16 && backend.is_fast(dtype);
        let in_tiles = native && backend.multiplies_tiles();
        let baseline = match native {
            true => Baseline::NativeBf16,
            false => Baseline::F32,
        };
        if !in_tiles && winograd::pays(conv, direction, baseline) {
            Self::Winograd
        } else if !native
            && (conv.spec.stride > 1 || direction != Direction::BackwardWeights)
            && direct::pays(conv)
        {
            Self::Direct
        } else {
            Self::Library
        }
    }

    /// The name of the implementation on a backend, as profiles print it.
    pub(crate) fn name(self, backend: Backend) -> &'static str {
        match self {
            Self::Winograd => "Winograd",
            Self::Direct => "Direct",
            Self::Library if backend.is_gpu() => "cuDNN",
            Self::Library if backend.is_onednn() => "OneDnn",
            Self::Library => "plain",
        }
    }
}

impl Backend {
    /// The type in which [`ConvAlgorithm::Library`] computes for activations of `dtype`; our own loops convert on the
    /// fly.
    pub(super) fn library_dtype(self, dtype: DType) -> DType {
        match self.is_gpu() || self.is_fast(DType::BF16) {
            true => dtype,
            false => DType::F32,
        }
    }
}
