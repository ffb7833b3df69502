//! Waiting for the library without taking a core from those who compute.

use super::ffi::{self, Group};
use super::library::STALL_CODE;
use crate::comm::CommError;
use std::time::{Duration, Instant};

/// For so long after something moved, other threads only get their turn: most waits are short.
const EAGER: Duration = Duration::from_micros(500);

/// Then we sleep for so long between two looks. A link of 10 Gbit/s brings 60 kB meanwhile, less than sockets hold.
const NAP: Duration = Duration::from_micros(50);

/// Lets others work for a moment, after so long a wait.
pub(super) fn rest(waited: Duration) {
    if waited < EAGER {
        std::thread::yield_now();
    } else {
        std::thread::sleep(NAP);
    }
}

/// One wait.
pub(super) struct Patience<'a, F: Fn() -> String> {
    group: &'a Group,
    doing: F,
    moved: Instant,
}

impl<'a, F: Fn() -> String> Patience<'a, F> {
    pub fn new(group: &'a Group, doing: F) -> Self {
        Self {
            group,
            doing,
            moved: Instant::now(),
        }
    }

    /// Something has moved.
    pub fn moved(&mut self) {
        self.moved = Instant::now();
    }

    /// Lets others work for a moment; ends the job where nothing has moved for longer than its limit.
    pub fn pause(&self) {
        let waited = self.moved.elapsed();
        rest(waited);
        if let Some(stall) = self.group.library.stall.get()
            && waited > stall.after
        {
            (stall.report)(&CommError::Stalled {
                rank: self.group.rank,
                doing: (self.doing)(),
                waited,
            });
            // No return: the library still writes to the caller's buffers.
            ffi::abort(STALL_CODE);
        }
    }
}
