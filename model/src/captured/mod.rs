//! The forward and the backward pass of a network on a GPU, captured once and launched as a whole.
//!
//! A step of a network is a thousand kernels or more. Where they are short, starting them one by one takes the
//! processor longer than running them takes the GPU; two CUDA graphs take two calls. What is captured is fixed: shapes,
//! addresses and all numbers that kernels get from the host. So what differs from step to step lies in memory of the
//! GPU (fields, the key of dropout, the gradient of what the network gave), and what cannot is refused by name:
//! statistics shared with other ranks, gradients that are given away while they are computed. The loss lies between the
//! two passes and is not captured.

#[cfg(feature = "cuda")]
#[path = "enabled.rs"]
mod way;
#[cfg(not(feature = "cuda"))]
#[path = "disabled.rs"]
mod way;

pub use way::Captured;
