//! Training and inference: from a recipe and a sample store to a model, from a model and an archive to masks.
//!
//! Read [`train::train`] and [`infer::infer`] first. Nothing here prints: both tell a closure what happens, and stop
//! when a flag is set, leaving behind what the next call continues from.
//!
//! - Training: [`recipe`], [`mod@train`], [`tune`] (a search over recipes), [`clips`] (samples of networks over time).
//! - Inference: [`mod@infer`], [`contract`] (what a model file says of its channels, normalisation, grid and network).
//! - Ranks: [`comm`], [`staging`] (a store to the disk of every node).
//! - Before a job is sent: [`machine`], [`performance`] (how long a step takes), [`launch`] (job scripts).
//! - A run's folder: [`run_dir`], [`lock`], [`metrics`], [`tensorboard`], [`code`] (which program wrote it).
//!
//! # Example
//! A recipe that comes with the program, changed, and the script of a job that trains by it.
//! ```
//! use squall_jobs::launch::{Job, script};
//! use squall_jobs::{Machine, Recipe};
//! use std::path::Path;
//!
//! let recipe = Recipe::named(Path::new("small"), &["training.batch=4".into(), "training.epochs=5.0".into()])?;
//! assert_eq!(recipe.training.total_steps(30), 150);
//! let job = Job { nodes: 2, ..Job::new("century", "small", "store", "run") };
//! let text = script(&job, &Machine::named("perlmutter")?)?;
//! assert!(text.contains("#SBATCH --nodes=2\n"));
//! # Ok::<(), squall_jobs::JobError>(())
//! ```

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
pub use memory::{available_memory, build_network, free_memory};
pub use recipe::Recipe;
pub use run_dir::RunDir;
pub use train::{Outcome, Team, TrainEvent, TrainReport, train, train_together};
