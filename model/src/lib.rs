//! From tensors to tensors: operations on NHWC, networks, losses, optimisers and model files.

pub mod error;
pub mod memory;
pub mod ops;

pub use error::ModelError;
pub use ops::Backend;
