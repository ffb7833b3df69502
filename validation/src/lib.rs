//! Scores of predictions against labels (pixels, events, tracks), and of fast operations against plain loops.
//!
//! - Masks: [`confusion`] (which class was taken for which), [`iou`].
//! - Boxes: [`average_precision`].
//! - Events and tracks: [`event_scores`] (time by time), [`track_scores`] (whole tracks).
//! - Against the world's data: [`world_scores`] (best tracks, other trackers, catalogues of rivers).
//! - How sure a score is: [`bootstrap`]. What chance alone gives: [`chance`]. Which storms were found: [`storms`].
//! - How exact the operations are: [`parity`].
//!
//! # Example
//! Of two true cells one is found, and one more is predicted: the intersection is a third of the union.
//! ```
//! use ndarray::Array2;
//! use squall_data::{Calendar, Class, ClassMask, LatLonGrid, Time};
//! use squall_validation::{Confusion, SegmentationScorer};
//!
//! let grid = LatLonGrid::global(4, 8)?;
//! let time = Time::new(Calendar::NoLeap, 2000, 1, 1, 0, 0, 0)?;
//! let cyclone = |columns: std::ops::Range<usize>| {
//!     let codes = Array2::from_shape_fn((4, 8), |(j, i)| u8::from(j == 2 && columns.contains(&i)));
//!     ClassMask::new(time, codes)
//! };
//! let confusion = Confusion::of_masks(&cyclone(0..2)?, &cyclone(1..3)?, &grid)?;
//! assert_eq!(confusion.pixels_of(Class::TropicalCyclone).iou(), Some(1.0 / 3.0));
//! let mut scorer = SegmentationScorer::new();
//! scorer.add(&confusion);
//! let score = scorer.score().expect("one sample was added");
//! assert_eq!((score.samples, score.classes[1].recall), (1, Some(0.5)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

pub mod average_precision;
pub mod bootstrap;
pub mod chance;
pub mod confusion;
pub mod error;
pub mod event_scores;
pub mod iou;
pub mod parity;
pub mod storms;
pub mod track_scores;
pub mod world_scores;

pub use average_precision::{BoxScores, DetectionScore, DetectionScorer, score_boxes};
pub use chance::{Chance, Record};
pub use confusion::Confusion;
pub use error::ValidationError;
pub use event_scores::{EventScores, MatchingRules, score_events};
pub use iou::{SegmentationScore, SegmentationScorer};
pub use storms::Storm;
pub use track_scores::{TrackRules, TrackScores, score_listed_tracks, score_tracks};
pub use world_scores::{MaskAgreement, WorldRules, WorldScores, score_against_world};
