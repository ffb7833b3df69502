//! One file per subcommand: arguments to library calls.

pub mod bench;
mod box_files;
pub mod compare;
pub mod demo;
pub mod events;
pub mod infer;
pub mod inspect;
pub mod label;
pub mod model;
pub mod report;
pub mod scale;
pub mod score;
pub mod simulate;
pub mod stage;
mod stage_local;
mod stage_origin;
mod stage_splits;
pub mod submit;
pub mod summary;
pub mod supervise;
mod tags;
pub mod train;
pub mod tune;
pub mod version;
