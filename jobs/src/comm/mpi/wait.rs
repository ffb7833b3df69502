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
        if now.duration_since(self.looked.replace(now)) > STOPPED {
            self.moved.set(now);
        }
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
