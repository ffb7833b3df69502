//! The forward and the backward pass of a network on a GPU, written down once and launched as a whole.
//!
//! A step of a network is a thousand kernels or more. Where each of them is short the processor, which starts one after
//! the other, takes longer than the GPU; two CUDA graphs take two calls. What is written down is fixed: shapes,
//! addresses and all numbers that kernels get from the host. So what differs from step to step must lie in memory of
//! the GPU, and what does not is refused by name: dropout, whose keys are new in every step, statistics shared with
//! other ranks, gradients that are given away while they are computed.

#[cfg(feature = "cuda")]
#[path = "enabled.rs"]
mod way;
#[cfg(not(feature = "cuda"))]
#[path = "disabled.rs"]
mod way;

pub use way::Captured;
