//! Which data type activations are stored and computed in.

use crate::ops::Backend;
use candle_core::DType;
use serde::{Deserialize, Serialize};

/// A precision policy. Parameters, batch-norm statistics and the loss are f32 in every one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// bf16 where the machine computes it faster than f32, else f32.
    #[default]
    Auto,
    /// Single precision.
    F32,
    /// bf16 activations, also where that is slower.
    Bf16,
}

impl Precision {
    /// The data type of activations on this machine, and a sentence if it is not what was asked for.
    pub fn resolve(self, backend: Backend) -> (DType, Option<&'static str>) {
        let fast = backend.is_fast(DType::BF16);
        match (self, fast) {
            (Self::F32, _) => (DType::F32, None),
            (Self::Auto, true) => (DType::BF16, None),
            (Self::Auto, false) => (
                DType::F32,
                Some("this machine has no fast bf16: computing in f32"),
            ),
            (Self::Bf16, true) => (DType::BF16, None),
            (Self::Bf16, false) => (
                DType::BF16,
                Some(
                    "this machine has no fast bf16: storing bf16, computing in f32, slower than f32",
                ),
            ),
        }
    }
}
