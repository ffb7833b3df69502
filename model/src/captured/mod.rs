//! The forward and the backward pass of a network on a GPU, each captured once and launched as a whole.
//!
//! A step of a network consists of a thousand kernels or more. If they are short, launching them one by one takes the
//! CPU longer than the GPU needs to run them; two CUDA graphs need two launches. A graph is fixed: shapes, addresses
//! and all numbers that kernels receive from the host. Data that change from step to step therefore lie in GPU memory
//! (fields, the dropout key, the gradient of the output). What cannot be captured is an error that names it: statistics
//! shared with other ranks, and gradients delivered while they are computed. The loss lies between the two passes and
//! is not captured.

#[cfg(feature = "cuda")]
#[path = "enabled.rs"]
mod way;
#[cfg(not(feature = "cuda"))]
#[path = "disabled.rs"]
mod way;

pub use way::Captured;
