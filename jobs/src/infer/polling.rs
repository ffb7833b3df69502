//! Limits how often a rank polls the shared file system for files of other ranks.

use std::time::{Duration, Instant};

/// The polling interval is the elapsed time divided by this, up to a maximum.
const PARTS: u32 = 8;

/// Polls at intervals that grow with the time waited, so that a short call is hardly delayed, and ranks that wait for
/// hours do not burden the file system.
#[derive(Debug)]
pub(super) struct Polling {
    began: Instant,
    last: Option<Instant>,
    longest: Duration,
}

impl Polling {
    /// Starts now, with intervals that grow up to `longest`.
    pub fn slowing_to(longest: Duration) -> Self {
        Self {
            began: Instant::now(),
            last: None,
            longest,
        }
    }

    /// If a poll is due, returns the time since the last one (zero for the first) and counts it as done.
    pub fn due(&mut self) -> Option<Duration> {
        self.due_at(Instant::now())
    }

    fn due_at(&mut self, now: Instant) -> Option<Duration> {
        let apart = (now.duration_since(self.began) / PARTS).min(self.longest);
        let since = self.last.map(|last| now.duration_since(last));
        if since.is_some_and(|since| since < apart) {
            return None;
        }
        self.last = Some(now);
        Some(since.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_grow_up_to_the_longest() {
        let tick = Duration::from_millis(10);
        let longest = Duration::from_millis(500);
        let mut polling = Polling::slowing_to(longest);
        let began = polling.began;
        let mut gaps = Vec::new();
        for k in 0..=1000u32 {
            let since_began = k * tick;
            if let Some(gap) = polling.due_at(began + since_began) {
                let most = (since_began / PARTS).min(longest) + tick;
                assert!(gap <= most, "{gap:?} after {since_began:?}");
                gaps.push((since_began, gap));
            }
        }
        assert_eq!(gaps[0], (Duration::ZERO, Duration::ZERO));
        // Each look up to 80 ms, then each by a seventh later than the one before up to 4 s: 9 + 29.3 at most.
        let early = gaps.iter().filter(|(at, _)| *at <= 8 * longest).count();
        assert!((25..=39).contains(&early), "{early}");
        let late: Vec<_> = gaps[early + 1..].iter().map(|(_, gap)| *gap).collect();
        assert!(late.len() >= 10 && late.iter().all(|gap| *gap == longest));
    }
}
