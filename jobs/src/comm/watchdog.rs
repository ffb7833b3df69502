//! A thread that notices stalled communication.
//!
//! A broken link raises no error: MPI waits for it for minutes. The rank at fault is the one whose watchdog stays
//! silent, because it has not reached the bucket that the others wait in.

use super::reducer::ProgressReader;
use super::{CommError, Result};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A watching thread that wakes up this much too late was suspended, perhaps with the whole job: it missed what
/// happened meanwhile, and that time is not a stall.
pub(crate) const STOPPED: Duration = Duration::from_secs(1);

/// Watches a reducer until dropped.
#[derive(Debug)]
pub struct Watchdog {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Starts a watchdog that calls `on_stall` once, with [`CommError::Stalled`] naming rank, bucket and step, when a
    /// bucket has been in progress for longer than `limit`. The callback usually logs the diagnosis and aborts the job.
    ///
    /// # Errors
    /// [`CommError::Library`] if the system cannot start a thread.
    pub fn start(
        reader: ProgressReader,
        rank: usize,
        limit: Duration,
        on_stall: impl FnOnce(CommError) + Send + 'static,
    ) -> Result<Self> {
        let (end, ended) = channel::<()>();
        let look = (limit / 10).clamp(Duration::from_millis(1), Duration::from_secs(1));
        let watch = move || {
            let (mut looked, mut resumed) = (Instant::now(), Instant::now());
            while ended.recv_timeout(look) == Err(RecvTimeoutError::Timeout) {
                // Time during which the process was suspended, perhaps with the whole job, is not a stall.
                if looked.elapsed() > look + STOPPED {
                    resumed = Instant::now();
                }
                looked = Instant::now();
                let progress = reader.progress();
                let Some(underway) = progress.underway else {
                    continue;
                };
                let waited = underway.since.max(resumed).elapsed();
                if waited > limit {
                    return on_stall(CommError::Stalled {
                        rank,
                        doing: format!(
                            "the sum of bucket {} in step {}, after {} finished buckets,",
                            underway.bucket, underway.step, progress.finished
                        ),
                        waited,
                    });
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("squall-watchdog".into())
            .spawn(watch)
            .map_err(CommError::no_thread(rank))?;
        Ok(Self {
            end: Some(end),
            thread: Some(thread),
        })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
