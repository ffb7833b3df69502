//! From fields and masks to climate statements: labels, events, tracks, statistics, maps and reports.
//!
//! - Labels by rule: [`label`] (the DeepCAM rules), [`detect`] (TempestExtremes, percentiles, TECA-BARD), [`derived`]
//!   (the fields they need).
//! - Events and tracks: [`events`] (at one time), [`track`] (through time), [`stream`] (both, over a century).
//! - Tables: [`table`], and [`track`] for the formats of other tools.
//! - Statements: [`statistics`], [`compare`] (two runs or periods), [`trends`] (within one).
//! - Pictures: [`map`], [`report`].
//!
//! # Example
//! A cyclone that lies across 0°E and moves east for two steps is one track.
//! ```
//! use ndarray::Array2;
//! use squall_climate::events::{EventFields, ExtractOptions, extract};
//! use squall_climate::stream::{EventStream, Moment};
//! use squall_climate::track::TrackerOptions;
//! use squall_data::{Calendar, ClassMask, LatLonGrid, Time};
//!
//! let grid = LatLonGrid::global(91, 180)?; // every 2 degrees
//! let start = Time::new(Calendar::NoLeap, 2000, 9, 1, 0, 0, 0)?;
//! let mut stream = EventStream::new(&grid, TrackerOptions::default())?;
//! for step in 0..3_usize {
//!     let columns = step..step + 4; // from 356°E on
//!     let inside = |j: usize, i: usize| (55..58).contains(&j) && columns.contains(&((i + 2) % 180));
//!     let codes = Array2::from_shape_fn((91, 180), |(j, i)| u8::from(inside(j, i)));
//!     let mask = ClassMask::new(start.add_seconds(6 * 3600 * step as i64), codes)?;
//!     let fields = EventFields::default();
//!     let found = extract(&mask, &grid, &fields, &ExtractOptions::default())?;
//!     let moment = Moment { time: mask.time, mask: Some(&mask), hours: 6.0, fields_hours: 6.0, fields: &fields };
//!     stream.add(&moment, found)?;
//! }
//! let (decided, _statistics, counts) = stream.finish();
//! assert_eq!((counts.times, counts.cyclones), (3, 3));
//! assert_eq!(decided.tracks.len(), 1);
//! assert_eq!(decided.tracks[0].points, 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod closed_low;
pub mod compare;
pub mod derived;
pub mod detect;
pub mod error;
pub mod events;
pub mod label;
pub mod map;
mod partial;
pub mod report;
pub mod statistics;
pub mod stream;
pub mod table;
pub mod track;
pub mod trends;

pub use error::ClimateError;
pub use events::Event;
pub use track::Track;
