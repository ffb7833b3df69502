//! Labels by rule: tropical cyclones and atmospheric rivers as the DeepCAM data set has them.
mod candidates;
mod sampling;
mod scaling;
mod thresholds;

pub use candidates::CycloneCandidate;
pub use scaling::GridScaling;
pub use thresholds::{ArThresholds, TcThresholds, Thresholds};
