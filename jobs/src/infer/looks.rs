//! When to look at a shared file system for word of the other ranks.

use std::time::{Duration, Instant};

/// Parts of the time since the beginning that two looks are apart.
const PARTS: u32 = 8;

/// Looks that are close together at the beginning and rarer as it lasts: a short call is not prolonged by much, and
/// ranks that wait for hours do not burden the file system.
#[derive(Debug)]
pub(super) struct Looks {
    began: Instant,
    last: Option<Instant>,
    rarest: Duration,
}

impl Looks {
    /// Looks from now on, in the end so far apart.
    pub fn in_the_end_every(rarest: Duration) -> Self {
        Self {
            began: Instant::now(),
            last: None,
            rarest,
        }
    }

    /// The time since the last look, where it is time for the next one, which is then the last; zero for the first one.
    pub fn due(&mut self) -> Option<Duration> {
        self.due_at(Instant::now())
    }

    fn due_at(&mut self, now: Instant) -> Option<Duration> {
        let apart = (now.duration_since(self.began) / PARTS).min(self.rarest);
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
    fn looks_become_rarer_and_never_too_rare() {
        let tick = Duration::from_millis(10);
        let rarest = Duration::from_millis(500);
        let mut looks = Looks::in_the_end_every(rarest);
        let began = looks.began;
        let mut gaps = Vec::new();
        for k in 0..=1000u32 {
            let since_began = k * tick;
            if let Some(gap) = looks.due_at(began + since_began) {
                let most = (since_began / PARTS).min(rarest) + tick;
                assert!(gap <= most, "{gap:?} after {since_began:?}");
                gaps.push((since_began, gap));
            }
        }
        assert_eq!(gaps[0], (Duration::ZERO, Duration::ZERO));
        // Each look up to 80 ms, then each by a seventh later than the one before up to 4 s: 9 + 29.3 at most.
        let early = gaps.iter().filter(|(at, _)| *at <= 8 * rarest).count();
        assert!((25..=39).contains(&early), "{early}");
        let late: Vec<_> = gaps[early + 1..].iter().map(|(_, gap)| *gap).collect();
        assert!(late.len() >= 10 && late.iter().all(|gap| *gap == rarest));
    }
}
