//! Scores of predictions against labels (pixels, events, tracks), and of fast operations against plain loops.

#![forbid(unsafe_code)]

pub mod average_precision;
pub mod bootstrap;
pub mod confusion;
pub mod error;
pub mod event_scores;
pub mod iou;
pub mod parity;
pub mod track_scores;
pub mod world_scores;

pub use average_precision::{BoxScores, DetectionScore, DetectionScorer, score_boxes};
pub use confusion::Confusion;
pub use error::ValidationError;
pub use event_scores::{EventScores, MatchingRules, score_events};
pub use iou::{SegmentationScore, SegmentationScorer};
pub use track_scores::{TrackRules, TrackScores, score_listed_tracks, score_tracks};
pub use world_scores::{MaskAgreement, WorldRules, WorldScores, score_against_world};
