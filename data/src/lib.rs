//! Data: from simulation files, or a seed, to batches in host memory.
//!
//! Everything that this crate returns has ascending latitude, longitude in [0, 360), SI units and NaN for missing
//! values.
//!
//! - Reading: [`archive`] (many files as one time axis), [`variable`] (names and units), [`snapshot`] (one time),
//!   [`inspect`] (what a file or folder is), [`channel_source`] (what serves as a channel).
//! - Time and space: [`calendar`], [`gaps`], [`grid`].
//! - Labels: [`label`] (class masks), [`mask_file`] (masks as CF netCDF), [`boxes`].
//! - Training: [`store`] (flat samples), [`staging`] (copies on node-local disks), [`sampler`] (which samples a rank
//!   sees), [`loader`] (prefetched batches), [`normalise`], [`class_weights`], [`random`].
//! - A synthetic run and its truth: [`synthetic`].
//! - Atomic file writes: [`atomic`], [`netcdf_file`]; table cells: [`cell`].
//!
//! # Example
//! ```
//! use squall_data::synthetic::{Scenario, SyntheticConfig, SyntheticRun};
//! use squall_data::{Calendar, Time, Variable};
//!
//! let run = SyntheticRun::new(SyntheticConfig {
//!     rows: 32,
//!     columns: 64,
//!     start: Time::new(Calendar::NoLeap, 1996, 8, 26, 0, 0, 0)?,
//!     step_hours: 6,
//!     steps: 4,
//!     scenario: Scenario::PRESENT,
//!     seed: 1,
//! })?;
//! let (snapshot, truth) = run.snapshot(3);
//! assert_eq!(snapshot.time.hours_since(run.time(0)), 18.0);
//! assert_eq!(snapshot.fields.dim(), (Variable::CHANNELS.len(), 32, 64));
//! let pressure = snapshot.field(Variable::Psl).expect("a synthetic run has every channel");
//! assert_eq!(pressure.dim(), truth.mask.codes.dim());
//! # Ok::<(), squall_data::DataError>(())
//! ```

#![forbid(unsafe_code)]

pub mod archive;
pub mod atomic;
pub mod batch;
pub mod boxes;
pub mod calendar;
pub mod caught;
pub mod cell;
pub mod channel_source;
pub mod class_weights;
pub mod error;
pub mod facts;
pub mod gaps;
pub mod grid;
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
pub use channel_source::{ChannelSource, ChannelSources};
pub use error::DataError;
pub use grid::LatLonGrid;
pub use label::{Class, ClassMask};
pub use loader::Loader;
pub use normalise::Normalisation;
pub use sampler::Sampler;
pub use snapshot::Snapshot;
pub use store::Store;
pub use variable::Variable;
