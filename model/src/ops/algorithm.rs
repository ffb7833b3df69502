//! Which algorithm computes a convolution of the fast backend: a function of the geometry, the type of the activations
//! and the kind of processor.

use super::winograd::{self, Beside, Direction};
use super::{Backend, Convolution, direct};
use candle_core::DType;
use std::sync::atomic::{AtomicBool, Ordering};

static ONEDNN_ALONE: AtomicBool = AtomicBool::new(false);

/// Leaves the convolutions of the whole process to oneDNN or no longer, to see what the other algorithms are worth.
pub fn leave_to_onednn(alone: bool) {
    ONEDNN_ALONE.store(alone, Ordering::Relaxed);
}

/// What computes a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConvAlgorithm {
    /// Our loops of Winograd's F(4x4, 3x3) and F(4x4, 5x5).
    Winograd,
    /// Our matrix products over lines of pixels.
    Direct,
    /// What the backend has for everything else: oneDNN, cuDNN, or plain loops for the reference.
    Library,
}

impl ConvAlgorithm {
    /// A function of the geometry, the type of the activations and the kind of processor, never of a timing, so that
    /// runs can be repeated bit for bit.
    pub(crate) fn of(
        backend: Backend,
        dtype: DType,
        conv: &Convolution,
        direction: Direction,
    ) -> Self {
        if !backend.is_onednn() || ONEDNN_ALONE.load(Ordering::Relaxed) {
            return Self::Library;
        }
        // A processor that multiplies bf16 in vectors does it twice as fast as f32: only Winograd's fewer products are
        // faster then. One that multiplies tiles of it (AMX) does it ten times as fast.
        let native = dtype == DType::BF16 && backend.is_fast(dtype);
        let in_tiles = native && backend.multiplies_tiles();
        let beside = match native {
            true => Beside::NativeBf16,
            false => Beside::F32,
        };
        if !in_tiles && winograd::pays(conv, direction, beside) {
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

    /// The name of what runs these convolutions on a backend, as profiles print it.
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
    /// The type in which [`ConvAlgorithm::Library`] computes with activations of `dtype`; our own loops convert as they
    /// go.
    pub(super) fn library_dtype(self, dtype: DType) -> DType {
        match self.is_gpu() || self.is_fast(DType::BF16) {
            true => dtype,
            false => DType::F32,
        }
    }
}
