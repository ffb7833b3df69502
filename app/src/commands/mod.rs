//! One file or folder per subcommand: converts arguments to library calls.

pub mod bench;
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
pub mod submit;
pub mod summary;
pub mod supervise;
pub mod train;
pub mod trends;
pub mod tune;
pub mod version;
