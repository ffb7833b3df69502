//! One file per subcommand: arguments to library calls.

pub mod events;
pub mod inspect;
pub mod label;
pub mod score;
pub mod simulate;
pub mod stage;
pub mod summary;
pub mod version;
