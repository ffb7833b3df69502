//! The MPI library of this process: started once, finalised when its last communicator is dropped.

use super::ffi;
use super::wait::Patience;
use super::watch::Watch;
use crate::comm::{CommError, Result};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

/// Exit code of a job ended by a rank's panic: that of a Rust program that panicked.
pub const PANIC_CODE: i32 = 101;

/// Exit code of a job ended by [`super::Mpi::abort_when_stalled`].
pub const STALL_CODE: i32 = 102;

/// Exit code of a job in which an MPI function failed and that nothing else ended earlier.
pub(super) const FAILED_CODE: i32 = 103;

/// Polling interval of a retired process that waits for the end of the job.
const RETIRED_NAP: Duration = Duration::from_millis(10);

/// A thread's permission to call the library, until dropped.
#[allow(dead_code)] // they are held
pub(super) enum Turn<'a> {
    Shared(RwLockReadGuard<'a, ()>),
    Alone(RwLockWriteGuard<'a, ()>),
}

/// State shared by all communicators of this process.
pub(super) struct Library {
    /// The library's name and version.
    pub version: String,
    /// This process's rank in the job.
    pub rank: usize,
    /// Every call passes this gate; a retiring process closes it.
    gate: RwLock<()>,
    /// Whether the library forbids concurrent calls.
    one_at_a_time: bool,
    /// Whether a call failed: other ranks may then wait for this one, so that finalising would hang.
    failed: AtomicBool,
    /// The limit of waits.
    pub watch: Arc<Watch>,
}

impl Library {
    /// Starts MPI, as this rank if the launcher reported it.
    ///
    /// # Errors
    /// [`CommError::Layout`] if it is already running or supports only a single thread; [`CommError::Library`].
    pub fn start(watch: Arc<Watch>, launcher_rank: Option<usize>) -> Result<Self> {
        let threads = {
            let _inside = watch.inside(launcher_rank.unwrap_or(0), "MPI_Init_thread");
            ffi::start()?
        };
        // From here on every return must finalise MPI, or the launcher reports a crash; dropping `Library` does.
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

    /// Waits for this thread's turn to call the library; blocks forever once the process has retired.
    pub fn turn(&self) -> Turn<'_> {
        // The lock guards no data that a panic could leave inconsistent.
        match self.one_at_a_time {
            true => Turn::Alone(self.close()),
            false => Turn::Shared(self.gate.read().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    fn close(&self) -> RwLockWriteGuard<'_, ()> {
        self.gate.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks the return code of a call.
    ///
    /// # Errors
    /// [`CommError::Library`] with the library's message.
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

    /// The library's message for a code.
    pub fn words_of(&self, code: i32) -> String {
        let _turn = self.turn();
        ffi::error_text(code)
    }

    /// Waits for the end of the job, with no other thread in the library, and then ends this process cleanly.
    ///
    /// Messages of this process stay in flight, so their memory is never freed. The standard asks the thread that
    /// started MPI to finalise it, but that thread may be waiting forever; Open MPI and MPICH accept another one.
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

    /// Finalises MPI once all ranks are ready: otherwise the library itself would wait for them, without diagnosis.
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
/// Otherwise the other ranks would wait forever for the one that panicked. The previously installed hook first shows
/// the message; without a running MPI it is all that happens. Panics that are caught and handled
/// ([`squall_data::caught`]) are ignored.
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
