//! Records when a server last received a message of a group.

use super::LOOK;
use crate::comm::watchdog::STOPPED;
use std::time::{Duration, Instant};

/// The time of the last message of a group, excluding time in which this server did not poll.
#[derive(Debug, Clone, Copy)]
pub(super) struct LastMessage {
    at: Instant,
    looked: Instant,
}

impl LastMessage {
    /// A message has arrived now.
    pub fn at(now: Instant) -> Self {
        Self {
            at: now,
            looked: now,
        }
    }

    /// Records that this server polls for messages, as it does every [`LOOK`]. If it polls much later, it was
    /// suspended, perhaps with the whole job, or wrote a checkpoint, and does not know whether groups were silent
    /// during that time. That time is excluded, but earlier silence still counts, so that frequent checkpoints cannot
    /// hide a hanging group.
    pub fn look(&mut self, now: Instant) {
        let away = now.saturating_duration_since(self.looked);
        if away > LOOK + STOPPED {
            self.at += away;
        }
        self.looked = now;
    }

    /// That time, shifted by the time in which this server did not poll.
    pub fn since(&self) -> Instant {
        self.at
    }

    /// Time since then.
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
        let mut last = LastMessage::at(start);
        (1..=50).for_each(|look| last.look(after(100 * look)));
        assert_eq!(last.since(), start);
        // Stopped for an hour.
        last.look(after(3_605_000));
        assert_eq!(last.since(), after(3_600_000));
        last.look(after(3_605_100));
        assert_eq!(last.since(), after(3_600_000));
    }

    /// Two seconds of every minute, as long as it takes to write one.
    #[test]
    fn checkpoints_hide_no_silence() {
        let start = Instant::now();
        let mut now = start;
        let mut last = LastMessage::at(start);
        for _ in 0..10 {
            for _ in 0..580 {
                now += Duration::from_millis(100);
                last.look(now);
            }
            now += Duration::from_secs(2);
            last.look(now);
        }
        assert_eq!(now - start, Duration::from_secs(600));
        assert_eq!(last.since() - start, Duration::from_secs(20));
    }
}
