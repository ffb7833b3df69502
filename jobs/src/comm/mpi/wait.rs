//! Waiting for the library without taking a core from computing threads.

use super::library::Library;
use crate::comm::watchdog::STOPPED;
use crate::comm::{CommError, doing};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// For this long after progress a wait only yields to other threads: most waits are short.
const EAGER: Duration = Duration::from_micros(500);

/// After that a wait sleeps this long between polls. A link of 10 Gbit/s delivers 60 kB in this time, less than socket
/// buffers hold.
const NAP: Duration = Duration::from_micros(50);

/// Lets other threads run, after a wait of this length.
pub(super) fn rest(waited: Duration) {
    if waited < EAGER {
        std::thread::yield_now();
    } else {
        std::thread::sleep(NAP);
    }
}

/// The beginning of a wait since `moved`, shifted by what a pause of this length, which ends `now`, lasted beyond
/// [`STOPPED`]: the process was suspended, perhaps with the whole job. What counts of every pause keeps the wait bounded on
/// a machine so busy that all pauses are long. Progress within the pause shifts nothing beyond now.
fn without_suspension(moved: Instant, pause: Duration, now: Instant) -> Instant {
    (moved + pause.saturating_sub(STOPPED)).min(now)
}

/// One wait.
pub(super) struct Patience<'a, F: Fn() -> String> {
    library: &'a Library,
    doing: F,
    moved: Cell<Instant>,
    looked: Cell<Instant>,
}

impl<'a, F: Fn() -> String> Patience<'a, F> {
    /// Starts a wait; `doing` describes what for.
    pub fn new(library: &'a Library, doing: F) -> Self {
        let now = Cell::new(Instant::now());
        Self {
            library,
            doing,
            moved: now.clone(),
            looked: now,
        }
    }

    /// Records progress.
    pub fn moved(&self) {
        self.moved.set(Instant::now());
    }

    /// Time since the last progress.
    pub fn idle(&self) -> Duration {
        self.moved.get().elapsed()
    }

    /// Yields to other threads; ends the job if there was no progress for longer than the limit.
    pub fn pause(&self) {
        let now = Instant::now();
        let pause = now.duration_since(self.looked.replace(now));
        self.moved
            .set(without_suspension(self.moved.get(), pause, now));
        let waited = now.duration_since(self.moved.get());
        rest(waited);
        if waited > EAGER {
            self.library.watch.check(waited, || CommError::Stalled {
                rank: self.library.rank,
                doing: doing::in_words(&(self.doing)()),
                waited,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every pause of more than a second began the wait anew: with a stuck rank on a busy machine it never ended.
    #[test]
    fn a_wait_of_long_pauses_ends_and_a_suspension_counts_as_little() {
        let begun = Instant::now();
        let waited = |pauses: &[Duration]| {
            let (mut moved, mut now) = (begun, begun);
            for &pause in pauses {
                now += pause;
                moved = without_suspension(moved, pause, now);
            }
            now.duration_since(moved)
        };
        assert_eq!(waited(&[NAP; 100]), 100 * NAP);
        assert_eq!(waited(&[3 * STOPPED / 2; 100]), 100 * STOPPED);
        assert_eq!(waited(&[NAP, 3600 * STOPPED, NAP]), STOPPED + 2 * NAP);
    }

    /// Pieces that arrived one after the other for a minute, without a pause, would put off the end of a wait by a minute.
    #[test]
    fn progress_does_not_begin_a_wait_in_the_future() {
        let looked = Instant::now();
        let now = looked + 60 * STOPPED;
        let moved = now - NAP;
        assert_eq!(without_suspension(moved, 60 * STOPPED, now), now);
        assert_eq!(without_suspension(moved, NAP, now), moved);
    }
}
