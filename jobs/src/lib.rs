//! Training and inference: from a recipe and a sample store to a model, from a model and an archive to masks.
//!
//! Read [`train::train`] and [`infer::infer`] first. Nothing here prints: both tell a closure what happens, and stop
//! when a flag is set, leaving behind what the next call continues from.

// With MPI or NCCL not forbidden, but denied: `comm::mpi::ffi` and `comm::nccl::ffi` allow it for themselves.
#![cfg_attr(not(any(feature = "mpi", feature = "nccl")), forbid(unsafe_code))]
#![deny(unsafe_code)]

pub mod clips;
pub mod code;
pub mod comm;
pub mod contract;
pub mod error;
pub mod infer;
pub mod launch;
pub mod lock;
pub mod machine;
mod memory;
pub mod metrics;
pub mod performance;
pub mod recipe;
pub mod run_dir;
pub mod staging;
pub mod tensorboard;
pub mod train;
pub mod tune;
mod upload;

pub use contract::Contract;
pub use error::JobError;
pub use infer::{InferEvent, InferOptions, InferReport, Inference, Model, infer};
pub use machine::Machine;
pub use recipe::Recipe;
pub use run_dir::RunDir;
pub use train::{Outcome, Team, TrainEvent, TrainReport, train, train_together};
