//! Scores: predictions against labels, by pixel and by event.

#![forbid(unsafe_code)]
