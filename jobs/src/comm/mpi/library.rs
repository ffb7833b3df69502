//! The MPI library of this process: started once, ended when its last communicator is dropped.

use super::ffi;
use super::wait::Patience;
use super::watch::Watch;
use crate::comm::{CommError, Result};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

/// Exit code of a job that one rank's panic ended: that of a Rust program that panicked.
pub const PANIC_CODE: i32 = 101;

/// Exit code of a job that [`super::Mpi::abort_when_stalled`] ended.
pub const STALL_CODE: i32 = 102;

/// Exit code of a job in which an MPI function failed and which was not ended earlier.
pub(super) const FAILED_CODE: i32 = 103;

/// How often a process that has retired checks whether the job is over.
const RETIRED_NAP: Duration = Duration::from_millis(10);

/// A thread's turn to call the library, until this is dropped.
#[allow(dead_code)] // they are held
pub(super) enum Turn<'a> {
    Shared(RwLockReadGuard<'a, ()>),
    Alone(RwLockWriteGuard<'a, ()>),
}

/// What all communicators of this process share.
pub(super) struct Library {
    /// As the library names itself.
    pub version: String,
    /// This process among all of the job.
    pub rank: usize,
    /// Every call passes this gate; a process that retires closes it.
    gate: RwLock<()>,
    /// The library does not allow two threads in it at once.
    one_at_a_time: bool,
    /// A call failed: other ranks may wait for this one, so that ending in order would hang.
    failed: AtomicBool,
    /// How long this process waits.
    pub watch: Arc<Watch>,
}

impl Library {
    /// Starts MPI, as the process of this rank if the launcher has told.
    ///
    /// # Errors
    /// [`CommError::Layout`] if it runs already or allows calls of one thread only, [`CommError::Library`].
    pub fn start(watch: Arc<Watch>, told: Option<usize>) -> Result<Self> {
        let threads = {
            let _inside = watch.inside(told.unwrap_or(0), "MPI_Init_thread");
            ffi::start()?
        };
        // From here on a return must end MPI, or the launcher reports a crash: `Library` does on drop.
        let library = Self {
            version: ffi::version(),
            rank: ffi::rank_in_world(),
            gate: RwLock::new(()),
            one_at_a_time: threads != ffi::Threads::Multiple,
            failed: AtomicBool::new(false),
            watch,
        };
        match threads {
            ffi::Threads::Fewer(level) => Err(CommError::Layout(format!(
                "{} offers thread level {level}, but communication runs in its own thread: \
                 MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE is needed",
                library.version
            ))),
            ffi::Threads::Serialized | ffi::Threads::Multiple => Ok(library),
        }
    }

    /// This thread's turn to call the library; it never comes once the process has retired.
    pub fn turn(&self) -> Turn<'_> {
        // The lock guards no data of ours that a panic could have left half written.
        match self.one_at_a_time {
            true => Turn::Alone(self.close()),
            false => Turn::Shared(self.gate.read().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    fn close(&self) -> RwLockWriteGuard<'_, ()> {
        self.gate.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The result of a call that returned this code.
    ///
    /// # Errors
    /// [`CommError::Library`] in the library's words.
    pub fn check(&self, rank: usize, call: &'static str, code: i32) -> Result<()> {
        if code == ffi::SUCCESS {
            return Ok(());
        }
        self.failed.store(true, Ordering::Relaxed);
        Err(CommError::Library {
            rank,
            call,
            reason: self.words_of(code),
        })
    }

    /// What a code means, in the library's words.
    pub fn words_of(&self, code: i32) -> String {
        let _turn = self.turn();
        ffi::error_text(code)
    }

    /// Waits for the end of the job, with no other thread in the library any more, and ends this process in order.
    ///
    /// Messages of this process that the library knows of stay under way, so their memory is never freed. The thread
    /// that started MPI may be among those that wait for others for ever, so it cannot be the one that ends it, as the
    /// standard asks; Open MPI and MPICH do not mind.
    pub fn retire(&self) -> ! {
        self.watch.limit_waits(Duration::MAX);
        let _closed = self.close();
        if ffi::running() {
            let Some(mut all) = ffi::Meeting::of_all() else {
                ffi::abort(FAILED_CODE);
            };
            loop {
                match all.has_met() {
                    Ok(true) => break,
                    Ok(false) => std::thread::sleep(RETIRED_NAP),
                    Err(_) => ffi::abort(FAILED_CODE),
                }
            }
            ffi::finish();
        }
        std::process::exit(0)
    }

    /// Ends MPI in order, when all ranks are there: the library's own end would wait for them without a word.
    fn finish(&self) {
        if !ffi::running() {
            return;
        }
        let all = {
            let _turn = self.turn();
            ffi::Meeting::of_all()
        };
        let Some(mut all) = all else {
            ffi::abort(FAILED_CODE);
        };
        let patience = Patience::new(self, || "the end, where all ranks meet,".into());
        loop {
            let met = {
                let _turn = self.turn();
                all.has_met()
            };
            match met {
                Ok(true) => break,
                Ok(false) => patience.pause(),
                Err(_) => ffi::abort(FAILED_CODE),
            }
        }
        let _inside = self.watch.inside(self.rank, "MPI_Finalize");
        ffi::finish();
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        if std::thread::panicking() {
            ffi::abort(PANIC_CODE);
        }
        if self.failed.load(Ordering::Relaxed) {
            ffi::abort(FAILED_CODE);
        }
        self.finish();
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.version)
    }
}

/// Makes a panic on any thread of this rank end the whole job, with exit code [`PANIC_CODE`].
///
/// Without it the other ranks wait for ever for the one that panicked. The message is shown first, by the hook that was
/// installed before. Where MPI is not running, only that hook is called; of a panic that is an answer
/// ([`squall_data::caught`]) nobody is told.
pub fn abort_on_panic() {
    let earlier = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if squall_data::caught::is_caught() {
            return;
        }
        earlier(panic);
        if ffi::running() {
            ffi::abort(PANIC_CODE);
        }
    }));
}
