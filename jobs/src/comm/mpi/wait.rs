//! Waiting for the library without taking a core from the threads that compute.

use super::library::Library;
use crate::comm::watchdog::STOPPED;
use crate::comm::{CommError, doing};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// For this long after progress a wait only yields to other threads: most waits are short.
const EAGER: Duration = Duration::from_micros(500);

/// After that a wait sleeps this long between polls. A link of 10 Gbit/s brings 60 kB meanwhile, less than sockets
/// hold.
const NAP: Duration = Duration::from_micros(50);

/// Lets other threads run for a moment, after a wait of this length.
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
    /// A wait that begins now; `doing` says for what.
    pub fn new(library: &'a Library, doing: F) -> Self {
        let now = Cell::new(Instant::now());
        Self {
            library,
            doing,
            moved: now.clone(),
            looked: now,
        }
    }

    /// Something has moved.
    pub fn moved(&self) {
        self.moved.set(Instant::now());
    }

    /// How long nothing has moved.
    pub fn idle(&self) -> Duration {
        self.moved.get().elapsed()
    }

    /// Lets others work for a moment; ends the job where nothing has moved for longer than its limit.
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
