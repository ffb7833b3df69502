//! Training and inference: a recipe and a sample store give a model; a model and an archive give masks.
//!
//! Start with [`train::train`] and [`infer::infer`]. Nothing here prints: both report progress through a closure.
//! Setting a flag stops them, and the next call resumes from the state that they leave on disk.
//!
//! - Training: [`recipe`], [`mod@train`], [`tune`] (a search over recipes), [`clips`] (samples of networks over time).
//! - Inference: [`mod@infer`], [`contract`] (the channels, normalisation, grid and network recorded in a model file).
//! - Ranks: [`comm`], [`staging`] (copies a store to the local disk of every node).
//! - Job planning: [`machine`], [`performance`] (predicted step times), [`launch`] (job scripts).
//! - Run folders: [`run_dir`], [`lock`], [`metrics`], [`tensorboard`], [`code`] (identifies the program that wrote a
//!   run).
//!
//! # Example
//! Loads a built-in recipe with two overrides, and writes the job script that trains with it.
//! ```
//! use squall_jobs::launch::{Job, script};
//! use squall_jobs::{Machine, Recipe};
//! use std::path::Path;
//!
//! let recipe = Recipe::named(Path::new("small"), &["training.batch=4".into(), "training.epochs=5.0".into()])?;
//! assert_eq!(recipe.training.total_steps(120, 4), 150);
//! let job = Job { nodes: 2, ..Job::new("century", "small", "store", "run") };
//! let text = script(&job, &Machine::named("perlmutter")?)?;
//! assert!(text.contains("#SBATCH --nodes=2\n"));
//! # Ok::<(), squall_jobs::JobError>(())
//! ```

// `unsafe` is forbidden without MPI and NCCL. With them it is only denied, so that `comm::mpi::ffi` and
// `comm::nccl::ffi` can allow it.
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
pub use memory::{available_memory, build_network, free_memory};
pub use recipe::Recipe;
pub use run_dir::RunDir;
pub use train::{Outcome, Team, TrainEvent, TrainReport, train, train_together};
