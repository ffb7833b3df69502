//! The operations of the networks, behind one closed interface.
//!
//! Every operation is a method of [`Backend`] on candle tensors. Shape letters: b batch, h latitude, w longitude, c
//! channel, k class. Activations are BHWC, contiguous, f32 or bf16 or f16; weights are f32 in PyTorch's layouts,
//! `(out, in / groups, kh, kw)` and `(in, out, kh, kw)` for transposed convolutions. Gradients of parameters are
//! **added** to the destination slice.
//!
//! [`Backend::Reference`] is plain loops against which the others are tested; one test suite runs on every backend.
//! Half precisions are computed in f32, except for bf16 convolutions on processors that multiply bf16
//! ([`Backend::is_fast`]).
//!
//! Each file here is an operation (`leaky_relu` is the shortest): it checks shapes, names the operation for
//! [`crate::profile`], and dispatches to an implementation: `reference`, `fast` (parallel loops in host memory),
//! `direct`, `winograd` and `onednn` (convolutions; `algorithm` chooses among them), or `cuda`.
//!
//! To add an operation: plain loops in `reference` that define it, a method of [`Backend`] for it and one for its
//! gradient, and cases in `tests/gradient_check.rs` (finite differences) and in `tests/backend_parity`; then, if it
//! takes significant time, faster implementations. `on_gpu!` must come before any code that needs values in host
//! memory.

mod algorithm;
#[cfg(feature = "onednn")]
mod asked;
mod avg_pool;
mod backend;
pub mod conv;
pub mod conv3d;
mod conv_joined;
pub mod conv_spec;
mod conv_transpose;
#[cfg(feature = "cuda")]
pub mod cuda;
mod depthwise;
pub(crate) mod direct;
mod elementwise;
mod fast;
pub(crate) mod finish;
pub(crate) mod footprint;
mod gate;
pub(crate) mod gemm;
pub(crate) mod host;
pub(crate) mod joined;
pub(crate) mod kept;
mod leaky_relu;
pub mod loss;
pub mod norm;
#[cfg(feature = "onednn")]
mod onednn;
mod prelu;
mod rate;
mod reference;
pub(crate) mod resample;
pub mod resident;
pub(crate) mod scratch;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod value;
mod weights;
pub(crate) mod winograd;
mod wrap;

pub use backend::Backend;
pub use conv_spec::{ConvSpec, ConvTransposeSpec, Convolution, PoolSpec};
pub use conv3d::Conv3dSpec;
pub use finish::Fuse;
pub use norm::BatchNormSaved;
pub use resident::{Channels, GradientSink, Marks};
pub use weights::Weights;

/// The loops for host memory.
#[derive(Clone, Copy, Debug)]
enum Cpu {
    /// Plain loops.
    Reference,
    /// Parallel loops, used by [`Backend::OneDnn`].
    Fast,
}

/// On the GPU backend, returns `$given`, the result of an operation on the GPU, from the calling function. On other
/// backends, and in builds without `cuda`, it does nothing.
macro_rules! on_gpu {
    ($backend:expr, $given:expr) => {
        #[cfg(feature = "cuda")]
        if $backend == $crate::ops::Backend::Cuda {
            return $given;
        }
    };
}
pub(crate) use on_gpu;
