//! When a server last heard of a group.

use super::LOOK;
use crate::comm::watchdog::STOPPED;
use std::time::{Duration, Instant};

/// The time of the last message of a group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heard {
    at: Instant,
    looked: Instant,
}

impl Heard {
    /// A message came now.
    pub fn at(now: Instant) -> Self {
        Self {
            at: now,
            looked: now,
        }
    }

    /// Notes that this server looks for messages, as it does every [`LOOK`]. One that looks much later was stopped,
    /// perhaps with the whole job: groups that could send nothing meanwhile were not silent.
    pub fn look(&mut self, now: Instant) {
        if now.saturating_duration_since(self.looked) > LOOK + STOPPED {
            self.at = now;
        }
        self.looked = now;
    }

    /// When that was.
    pub fn since(&self) -> Instant {
        self.at
    }

    /// How long ago that was.
    pub fn elapsed(&self) -> Duration {
        self.at.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_in_which_a_job_stands_still_is_no_silence() {
        let start = Instant::now();
        let after = |milliseconds| start + Duration::from_millis(milliseconds);
        let mut heard = Heard::at(start);
        (1..=50).for_each(|look| heard.look(after(100 * look)));
        assert_eq!(heard.since(), start);
        // Stopped for an hour.
        heard.look(after(3_605_000));
        assert_eq!(heard.since(), after(3_605_000));
        heard.look(after(3_605_100));
        assert_eq!(heard.since(), after(3_605_000));
    }
}
