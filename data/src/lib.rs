//! From simulation files, or a seed, to batches in host memory.
//!
//! After this crate latitude ascends, longitude lies in [0, 360), units are SI and missing values are NaN.

#![forbid(unsafe_code)]

pub mod atomic;
pub mod calendar;
pub mod error;
pub mod grid;
pub mod label;
pub mod random;
pub mod snapshot;
pub mod variable;

pub use calendar::{Calendar, Time};
pub use error::DataError;
pub use grid::LatLonGrid;
pub use label::{Class, ClassMask};
pub use snapshot::Snapshot;
pub use variable::Variable;
