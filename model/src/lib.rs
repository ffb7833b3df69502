//! Operations on NHWC tensors, networks, losses, optimisers and model files.
//!
//! - Networks: [`networks`], [`detection`] (boxes), [`summary`] (shapes and costs).
//! - One pass: [`pass`] (the tape), [`storage`] and [`precision`] (the data types of activations), [`profile`].
//! - Training: [`parameters`], [`gradients`], [`optim`].
//! - Operations: [`ops`], on the CPU or a GPU; [`gpu`] (device selection), [`input`] (uploads fields to the GPU),
//!   [`memory`] (keeps the heap between steps).
//! - Files: [`file_contents`] is written as a [`model_file`] and read back through a [`stored_file`]; [`exchange`]
//!   converts weights (PyTorch, safetensors, ONNX).
//!
//! # Example
//! A network with random weights classifies every pixel; [`Network`] shows a training step.
//! ```
//! use candle_core::{DType, Device, Tensor};
//! use squall_model::{Backend, Network, NetworkConfig};
//!
//! let config = NetworkConfig { width: 0.05, blocks: vec![1, 1], channels_in: 4, ..NetworkConfig::default() };
//! let network = Network::build(&config, Backend::best(), 1)?;
//! let x_bhwc = Tensor::ones((1, 16, 32, 4), DType::F32, &Device::Cpu)?;
//! let prediction = network.predict(&x_bhwc, DType::F32, true)?;
//! assert_eq!(prediction.classes.len(), 16 * 32);
//! let probabilities_bhwk = prediction.probabilities.expect("they were asked for");
//! assert_eq!(probabilities_bhwk.dims(), [1, 16, 32, 3]);
//! # Ok::<(), squall_model::ModelError>(())
//! ```

mod captured;
mod checksum;
pub mod detection;
pub mod error;
pub mod exchange;
pub mod file_contents;
pub mod gpu;
pub mod gradients;
pub mod input;
mod layers;
mod lock;
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
pub mod stored_file;
pub mod summary;
pub mod tensors;
mod trace;

pub use captured::Captured;
pub use error::ModelError;
pub use file_contents::FileContents;
pub use gpu::{DeviceChoice, GpuError};
pub use gradients::Gradients;
pub use model_file::ModelFile;
pub use networks::{Network, NetworkConfig, Prediction};
pub use ops::Backend;
pub use parameters::Parameters;
pub use pass::{BatchStatistics, Pass};
pub use precision::{KernelRounding, Precision, PrecisionPolicy};
pub use storage::{Recompute, SavedActivations, Storage};
pub use stored_file::StoredFile;
pub use tensors::Tensors;
