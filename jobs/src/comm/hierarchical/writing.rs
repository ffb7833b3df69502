//! Chooses by timing between two ways of writing to shared memory: through the caches or past them.
//!
//! Values that a core has just written lie in its caches. A reader on a core that shares the last-level cache finds
//! them there at once. For a reader that does not, on another socket or another die, reading memory is faster than
//! asking another core's caches. Which of the two holds depends on where ranks run, which cannot be known inside a
//! virtual machine and may change. The sums are the same, to the bit.

use std::time::{Duration, Instant};

/// How values are written that other ranks read next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteMode {
    /// Through this core's caches.
    Cached,
    /// Past them, into memory.
    Streamed,
}

/// Passes from one trial of both ways to the next. A pass is one piece of values that goes through shared memory.
const ROUND: usize = 256;
/// Passes of each way in a trial. The first of them are slowed by what the other way left in the caches.
const TRIED: usize = 6;
/// How many of these count, from the end. The fastest of them is taken, because other processes may take the core
/// during any one.
const COUNTED: usize = 4;
/// Passes over fewer values are not timed: they are too short to compare, and cost little.
const FEWEST: usize = 1 << 14;

/// Tries both ways now and then and takes the faster one in between.
///
/// All ranks count the same passes and so try the same way at the same time. Each then takes what was faster on its own
/// core: they need not agree.
#[derive(Debug)]
pub(super) struct WriteModes {
    passes: usize,
    /// Seconds a value of the fastest pass by either way, in the trial under way.
    fastest: [f64; 2],
    best: WriteMode,
}

impl WriteModes {
    pub fn new() -> Self {
        Self {
            passes: 0,
            fastest: [f64::INFINITY; 2],
            best: WriteMode::Cached,
        }
    }

    /// The way of the next pass, over this many values.
    pub fn next(&self, values: usize) -> WriteMode {
        match self.passes % ROUND / TRIED {
            _ if values < FEWEST => WriteMode::Cached,
            0 => WriteMode::Cached,
            1 => WriteMode::Streamed,
            _ => self.best,
        }
    }

    /// Records that the pass is over and kept this rank busy for this long, not counting its waits for others.
    pub fn passed(&mut self, values: usize, busy: Duration) {
        if values < FEWEST {
            return;
        }
        let at = self.passes % ROUND;
        let (way, pass) = (at / TRIED, at % TRIED);
        if way < 2 && pass >= TRIED - COUNTED {
            let fastest = &mut self.fastest[way];
            *fastest = fastest.min(busy.as_secs_f64() / values as f64);
        }
        self.passes += 1;
        if self.passes % ROUND == 2 * TRIED {
            let [cached, streamed] = std::mem::replace(&mut self.fastest, [f64::INFINITY; 2]);
            self.best = match streamed < cached {
                true => WriteMode::Streamed,
                false => WriteMode::Cached,
            };
        }
    }
}

/// A stopwatch for the time that a rank works, paused while it waits for others.
pub(super) struct Busy {
    since: Instant,
    total: Duration,
}

impl Busy {
    pub fn begin() -> Self {
        Self {
            since: Instant::now(),
            total: Duration::ZERO,
        }
    }

    /// Stops the watch: the rank begins to wait.
    pub fn pause(&mut self) {
        self.total += self.since.elapsed();
    }

    /// Starts the watch again: the wait is over.
    pub fn go_on(&mut self) {
        self.since = Instant::now();
    }

    /// How long it was busy.
    pub fn end(mut self) -> Duration {
        self.pause();
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes so many passes, of which each takes as long as `seconds` says, and returns their ways.
    fn ways(
        ways: &mut WriteModes,
        passes: usize,
        seconds: impl Fn(WriteMode, usize) -> f64,
    ) -> Vec<WriteMode> {
        let values = 10 * FEWEST;
        let pass = |pass| {
            let way = ways.next(values);
            ways.passed(values, Duration::from_secs_f64(seconds(way, pass)));
            way
        };
        (0..passes).map(pass).collect()
    }

    #[test]
    fn the_faster_way_is_taken_until_the_next_trial() {
        let mut all = WriteModes::new();
        let found = ways(&mut all, ROUND, |way, pass| match (way, pass) {
            // The first passes of a way pay for the other's, and one was disturbed.
            (WriteMode::Streamed, TRIED | 9) => 9.0,
            (WriteMode::Streamed, _) => 1.0,
            (WriteMode::Cached, 0..2) => 0.5,
            (WriteMode::Cached, _) => 2.0,
        });
        assert_eq!(found[..TRIED], [WriteMode::Cached; TRIED]);
        assert_eq!(found[TRIED..], [WriteMode::Streamed; ROUND - TRIED]);
        // The ranks have moved: what was found before counts no longer.
        let found = ways(&mut all, ROUND, |way, pass| match (way, pass) {
            (WriteMode::Streamed, 6..8) => 0.7,
            (WriteMode::Streamed, _) => 1.5,
            (WriteMode::Cached, _) => 1.2,
        });
        assert_eq!(found[..TRIED], [WriteMode::Cached; TRIED]);
        assert_eq!(found[TRIED..2 * TRIED], [WriteMode::Streamed; TRIED]);
        assert_eq!(found[2 * TRIED..], [WriteMode::Cached; ROUND - 2 * TRIED]);
    }

    #[test]
    fn short_vectors_neither_try_nor_count() {
        let mut all = WriteModes::new();
        ways(&mut all, TRIED, |_, _| 1.0);
        assert_eq!(all.next(FEWEST), WriteMode::Streamed);
        assert_eq!(all.next(FEWEST - 1), WriteMode::Cached);
        let before = all.passes;
        all.passed(FEWEST - 1, Duration::from_secs(1));
        assert_eq!(all.passes, before);
    }

    #[test]
    fn waiting_is_not_counted() {
        let mut busy = Busy::begin();
        busy.pause();
        std::thread::sleep(Duration::from_millis(30));
        busy.go_on();
        assert!(busy.end() < Duration::from_millis(20));
    }
}
