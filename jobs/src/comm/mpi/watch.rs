//! Limits the time that threads wait for the library.
//!
//! Messages and barriers are polled and check their time themselves. Calls that block inside the library (initialising,
//! finalising, creating groups and windows, its own sums) cannot, so a separate thread checks it for them.

use super::ffi;
use super::library::STALL_CODE;
use crate::comm::watchdog::STOPPED;
use crate::comm::{CommError, StallReport, doing, lock};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// The limit of all waits of this process.
pub(super) struct Watch {
    /// Nanoseconds that a wait may last; `u64::MAX` for no limit.
    limit: AtomicU64,
    report: OnceLock<StallReport>,
    /// Called on a stall instead of `report`; the job then continues without this rank.
    instead: Mutex<Option<Arc<StallReport>>>,
    blocked: Mutex<Blocked>,
}

/// The calls currently inside the library.
#[derive(Default)]
struct Blocked {
    calls: BTreeMap<u64, Call>,
    next: u64,
}

struct Call {
    rank: usize,
    doing: String,
    since: Instant,
}

/// A blocking call, until dropped.
pub(super) struct Inside<'a> {
    watch: &'a Watch,
    number: Option<u64>,
}

impl Watch {
    /// No limit until [`Watch::start`].
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            limit: AtomicU64::new(u64::MAX),
            report: OnceLock::new(),
            instead: Mutex::new(None),
            blocked: Mutex::default(),
        })
    }

    /// Makes waits longer than `after` end the job, after calling `report`. Only the first call has an effect; returns
    /// whether this was the first.
    pub fn start(self: &Arc<Self>, after: Duration, report: StallReport) -> bool {
        if self.report.set(report).is_err() {
            return false;
        }
        self.set_limit(after);
        let watched = Arc::downgrade(self);
        let look = move || {
            let (mut looked, mut resumed) = (Instant::now(), Instant::now());
            while let Some(watch) = watched.upgrade() {
                if looked.elapsed() > 2 * STOPPED {
                    resumed = Instant::now();
                }
                looked = Instant::now();
                watch.look(resumed);
                let pause = watch.limit() / 10;
                drop(watch);
                std::thread::sleep(
                    pause.clamp(Duration::from_millis(10), Duration::from_millis(500)),
                );
            }
        };
        let thread = std::thread::Builder::new().name("squall-mpi-watch".into());
        if let Err(error) = thread.spawn(look) {
            tracing::warn!("calls of the MPI library may block for ever: {error}");
        }
        true
    }

    /// Changes the limit, once started.
    pub fn limit_waits(&self, after: Duration) {
        if self.report.get().is_some() {
            self.set_limit(after);
        }
    }

    /// Replaces the stall callback by one that does not end the job; `None` restores it.
    pub fn replace_report(&self, instead: Option<StallReport>) {
        let mut place = lock(&self.instead);
        *place = instead.map(Arc::new);
    }

    fn set_limit(&self, after: Duration) {
        let nanos = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        self.limit.store(nanos, Ordering::Relaxed);
    }

    fn limit(&self) -> Duration {
        Duration::from_nanos(self.limit.load(Ordering::Relaxed))
    }

    /// Registers a call that blocks inside the library.
    pub fn inside(&self, rank: usize, call: &str) -> Inside<'_> {
        let watched = self.report.get().is_some() && !doing::is_patient();
        let number = watched.then(|| {
            let mut blocked = lock(&self.blocked);
            let number = blocked.next;
            blocked.next += 1;
            let call = Call {
                rank,
                doing: doing::in_words(call),
                since: Instant::now(),
            };
            blocked.calls.insert(number, call);
            number
        });
        Inside {
            watch: self,
            number,
        }
    }

    /// Ends the job if a call has blocked for too long since this process was last resumed.
    fn look(&self, resumed: Instant) {
        let limit = self.limit();
        let waited = |call: &Call| call.since.max(resumed).elapsed();
        let late = |call: &&Call| waited(call) > limit;
        let stall = lock(&self.blocked)
            .calls
            .values()
            .find(late)
            .map(|call| CommError::Stalled {
                rank: call.rank,
                doing: call.doing.clone(),
                waited: waited(call),
            });
        if let Some(stall) = stall {
            self.end(&stall);
        }
    }

    /// Ends the job if this thread has waited for too long; `stall` describes the wait.
    pub fn check(&self, waited: Duration, stall: impl FnOnce() -> CommError) {
        if waited > self.limit() && !doing::is_patient() {
            self.end(&stall());
        }
    }

    fn end(&self, stall: &CommError) -> ! {
        let instead = {
            let place = lock(&self.instead);
            place.clone()
        };
        if let Some(tell) = instead {
            tell(stall);
            loop {
                std::thread::park();
            }
        }
        if let Some(report) = self.report.get() {
            report(stall);
        }
        // Must not return: the library may still write to a caller's buffers.
        ffi::abort(STALL_CODE)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            lock(&self.watch.blocked).calls.remove(&number);
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watch of {:?}", self.limit())
    }
}
