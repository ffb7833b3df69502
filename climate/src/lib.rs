//! From fields and masks to climate statements: labels, events, tracks, statistics, maps and reports.

#![forbid(unsafe_code)]

mod closed_low;
pub mod compare;
pub mod derived;
pub mod detect;
pub mod error;
pub mod events;
pub mod label;
pub mod map;
pub mod report;
pub mod statistics;
pub mod stream;
pub mod table;
pub mod track;

pub use error::ClimateError;
pub use events::Event;
pub use track::Track;
