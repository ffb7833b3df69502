//! From simulation files, or a seed, to batches in host memory.
//!
//! After this crate latitude ascends, longitude lies in [0, 360), units are SI and missing values are NaN.

#![forbid(unsafe_code)]

pub mod archive;
pub mod atomic;
pub mod batch;
pub mod boxes;
pub mod calendar;
mod calendar_text;
pub mod caught;
mod centroid;
pub mod class_weights;
pub mod error;
pub mod facts;
pub mod gaps;
pub mod grid;
pub mod history;
pub mod inspect;
pub mod label;
pub mod loader;
pub mod mask_file;
pub mod netcdf_file;
pub mod normalise;
pub mod random;
pub mod sampler;
pub mod snapshot;
pub mod staging;
pub mod store;
pub mod synthetic;
pub mod testdata;
pub mod variable;
pub mod wire;

pub use archive::Archive;
pub use batch::HostBatch;
pub use boxes::{BoxClass, BoxFrame, BoxFrames, GeoBox, PixelBox, TrackedBox};
pub use calendar::{Calendar, Time};
pub use error::DataError;
pub use grid::LatLonGrid;
pub use label::{Class, ClassMask};
pub use loader::Loader;
pub use normalise::Normalisation;
pub use sampler::Sampler;
pub use snapshot::Snapshot;
pub use store::Store;
pub use variable::Variable;
