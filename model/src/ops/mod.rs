//! The operations of the networks, behind one closed interface.
//!
//! Every operation is a method of [`Backend`] on candle tensors. Letters: b batch, h latitude, w longitude, c channel,
//! k class. Activations are BHWC, contiguous, f32 or bf16 or f16; weights are f32 in PyTorch's layouts, `(out, in / groups,
//! kh, kw)` and `(in, out, kh, kw)` for transposed convolutions. Gradients of parameters are **added** to what their
//! slice holds.
//!
//! [`Backend::Reference`] is plain loops and judges the others; one test suite runs for each backend.
//!
//! Half precisions are computed in f32, but for bf16 convolutions on processors that multiply bf16: [`Backend::is_fast`] says so.

mod avg_pool;
pub mod conv;
pub mod conv3d;
pub mod conv_spec;
mod depthwise;
#[cfg_attr(not(feature = "onednn"), allow(dead_code))]
pub(crate) mod direct;
mod elementwise;
#[cfg_attr(not(feature = "onednn"), allow(dead_code))]
mod fast;
#[cfg_attr(not(feature = "onednn"), allow(dead_code))]
pub(crate) mod finish;
mod fuse;
mod gate;
#[cfg_attr(not(feature = "onednn"), allow(dead_code))]
pub(crate) mod gemm;
pub(crate) mod host;
mod leaky_relu;
pub mod loss;
pub mod norm;
#[cfg(feature = "onednn")]
mod onednn;
mod prelu;
mod rate;
mod reference;
pub(crate) mod resample;
pub(crate) mod rows;
#[cfg_attr(not(feature = "onednn"), allow(dead_code))]
pub(crate) mod scratch;
#[cfg(test)]
pub(crate) mod testing;
#[cfg_attr(not(feature = "onednn"), allow(dead_code))]
pub(crate) mod value;
#[cfg(feature = "onednn")]
mod way;
mod weights;
#[cfg_attr(not(feature = "onednn"), allow(dead_code))]
pub(crate) mod winograd;
mod wrap;

pub use conv_spec::{ConvSpec, ConvTransposeSpec, PoolSpec};
pub use conv3d::Conv3dSpec;
pub use fuse::Fuse;
pub use norm::BatchNormSaved;
pub use weights::Weights;

use candle_core::DType;

/// Which implementation runs the operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    /// Plain loops.
    Reference,
    /// oneDNN for convolutions, own parallel loops for what memory limits.
    #[cfg(feature = "onednn")]
    OneDnn,
}

impl Backend {
    /// The fastest backend of this build.
    pub fn best() -> Self {
        #[cfg(feature = "onednn")]
        return Self::OneDnn;
        #[cfg(not(feature = "onednn"))]
        Self::Reference
    }

    /// Every backend of this build.
    pub fn all() -> Vec<Self> {
        let mut all = vec![Self::Reference];
        if Self::best() != Self::Reference {
            all.push(Self::best());
        }
        all
    }

    /// One line for logs and `--version`: library, version, instruction set, threads.
    pub fn describe(self) -> String {
        match self {
            Self::Reference => "reference operations".to_string(),
            #[cfg(feature = "onednn")]
            Self::OneDnn => onednn::describe(),
        }
    }

    /// Whether computing in `dtype` is faster here than in f32.
    pub fn is_fast(self, dtype: DType) -> bool {
        match (self, dtype) {
            (_, DType::F32) => true,
            #[cfg(feature = "onednn")]
            (Self::OneDnn, DType::BF16) => onednn::computes_bf16(),
            _ => false,
        }
    }
}
