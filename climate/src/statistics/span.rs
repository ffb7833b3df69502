//! The time that statistics are of.

use serde::{Deserialize, Serialize};
use squall_data::Time;

/// The first and the last of some times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Span {
    ends: Option<(Time, Time)>,
}

impl Span {
    /// Both, if there is any time.
    pub fn ends(&self) -> Option<(Time, Time)> {
        self.ends
    }

    /// Takes a time in.
    pub fn add(&mut self, time: Time) {
        let (first, last) = self.ends.unwrap_or((time, time));
        let earlier = if time < first { time } else { first };
        self.ends = Some((earlier, if time > last { time } else { last }));
    }
}
