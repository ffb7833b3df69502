//! A rank's work together with that of the other ranks: how they tell each other to stop, and who waits for whom.

use super::InferEvent;
use super::claims::Claims;
use super::heartbeat::{DEAD_AFTER, Heartbeat, WatchedRanks};
use super::log::{self, FinishedFile, Others};
use super::pipeline::{Job, Ran};
use super::stop_signal::StopSignal;
use crate::comm::Communicator;
use crate::error::{Result, all_or_none};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time between two looks at whether the others are done.
const LOOK: Duration = Duration::from_millis(20);

/// What this rank knows of the others, and how it tells them to stop.
pub(super) struct OtherRanks {
    pub stop: StopSignal,
    /// What the others have done, on the first rank: its progress is that of all.
    others: Option<Others>,
}

impl OtherRanks {
    /// Times that they have done, on the first rank; 0 on the others.
    pub fn times(&mut self) -> usize {
        self.others.as_mut().map_or(0, Others::times)
    }

    /// Waits, after this rank has done its `own` times, until the others have done theirs or somebody says stop; on the
    /// first rank `progress` hears meanwhile what the others have done.
    ///
    /// # Errors
    /// [`Comm`](crate::JobError::Comm) if one of them is dead.
    fn watch(
        &mut self,
        job: &Job<'_, '_>,
        own: usize,
        mut others: WatchedRanks,
        progress: &mut dyn FnMut(&InferEvent<'_>),
        stop: &AtomicBool,
    ) -> Result<()> {
        let mut told = usize::MAX;
        loop {
            if others.are_done(DEAD_AFTER)? || self.stop.is_sent() {
                return Ok(());
            }
            if stop.load(Ordering::Relaxed) {
                self.stop.send();
                return Ok(());
            }
            let done = job.done + own + self.times();
            if self.others.is_some() && done != told {
                told = done;
                progress(&InferEvent::Others {
                    done,
                    total: job.total,
                });
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// Does this rank's part of a job and waits until the others have done theirs; gives what this rank did. All ranks call
/// it.
///
/// # Errors
/// This rank's own error, at once where the others cannot be told; [`Comm`](crate::JobError::Comm) if another one is
/// dead, [`Elsewhere`](crate::JobError::Elsewhere) if it failed.
pub(super) fn work(
    job: &Job<'_, '_>,
    claims: &mut Claims,
    comm: &mut dyn Communicator,
    progress: &mut dyn FnMut(&InferEvent<'_>),
    stop: &AtomicBool,
) -> Result<Ran> {
    let (rank, size, out) = (comm.rank(), comm.size(), job.inference.out);
    let mut other_ranks = OtherRanks {
        stop: claims.stop_signal(),
        others: (rank == 0 && size > 1).then(|| Others::of(out, size)),
    };
    let heartbeat = Heartbeat::start(claims, rank)?;
    // Whatever ends this rank early, a panic included, ends the others too.
    let mut alarm = claims.stop_signal().armed();
    let ran =
        log::open(out, rank).and_then(|log| job.run(claims, &mut other_ranks, log, progress, stop));
    if let Ok(done) = &ran
        && !done.stopped
    {
        let own = done.finished.iter().map(FinishedFile::times).sum();
        let others = WatchedRanks::of(claims, rank, size);
        // The first rank sees when all others are done, and they wait for it. So no rank enters the collective call at
        // the end while another still computes: there a long wait would be taken for a stall.
        let (at_once, later) = match rank {
            0 => (None, heartbeat),
            _ => (heartbeat, None),
        };
        at_once.into_iter().for_each(Heartbeat::done);
        // Where a rank is dead this ends here: it would never enter the collective call at the end.
        other_ranks.watch(job, own, others, progress, stop)?;
        later.into_iter().for_each(Heartbeat::done);
        alarm.disarm();
    } else {
        heartbeat.into_iter().for_each(Heartbeat::done);
        // Others that cannot be told go on until they take this rank for dead, and would then end the job with a
        // message that does not say why.
        if ran.is_err() && !alarm.send() {
            alarm.disarm();
            return ran;
        }
    }
    drop(alarm);
    all_or_none(comm, ran)
}
