//! The period of statistics.

use serde::{Deserialize, Serialize};
use squall_data::Time;

/// The first and last of some times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Span {
    ends: Option<(Time, Time)>,
}

impl Span {
    /// The first and last time, if there is any.
    pub fn ends(&self) -> Option<(Time, Time)> {
        self.ends
    }

    /// Adds a time.
    pub fn add(&mut self, time: Time) {
        let (first, last) = self.ends.unwrap_or((time, time));
        let earlier = if time < first { time } else { first };
        self.ends = Some((earlier, if time > last { time } else { last }));
    }
}
