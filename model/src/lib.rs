//! From tensors to tensors: operations on NHWC, networks, losses, optimisers and model files.

mod captured;
pub mod detection;
pub mod error;
pub mod exchange;
pub mod gpu;
pub mod gradients;
pub mod input;
mod layers;
pub mod memory;
pub mod model_file;
pub mod networks;
pub mod ops;
pub mod optim;
pub mod parameters;
pub mod pass;
pub mod precision;
pub mod profile;
pub mod storage;
pub mod summary;
mod trace;

pub use captured::Captured;
pub use error::ModelError;
pub use gpu::{DeviceChoice, GpuError};
pub use model_file::ModelFile;
pub use networks::{Network, NetworkConfig, Prediction};
pub use ops::Backend;
pub use parameters::{Gradients, Parameters};
pub use pass::{BatchStatistics, Pass};
pub use precision::{KernelRounding, Precision, PrecisionPolicy};
pub use storage::{Recompute, SavedActivations, Storage};
