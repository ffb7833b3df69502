//! Coordinates this rank's work with the others': stop requests, and who waits for whom.

use super::InferEvent;
use super::claims::Claims;
use super::heartbeat::{Heartbeat, Limits, WatchedRanks};
use super::log::{self, FinishedFile, OtherRanksLog};
use super::pipeline::{Job, RankResult};
use super::stop_signal::StopSignal;
use super::work::{Stage, Work};
use crate::comm::Communicator;
use crate::error::{Result, all_or_none};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Interval between checks whether the others are done.
const LOOK: Duration = Duration::from_millis(20);

/// The state of the other ranks as known to this one, and the way to stop them.
pub(super) struct OtherRanks {
    pub stop: StopSignal,
    /// How far this rank is, for the others.
    pub work: Arc<Work>,
    /// Progress of the others, on the first rank, whose progress covers all ranks.
    others: Option<OtherRanksLog>,
}

impl OtherRanks {
    /// Number of times done by the other ranks, on the first rank; 0 elsewhere.
    pub fn times(&mut self) -> usize {
        self.others.as_mut().map_or(0, OtherRanksLog::times)
    }

    /// After this rank has done its `own` times, waits until the others are done or a stop is requested; on the first
    /// rank, `progress` meanwhile receives the others' counts.
    ///
    /// # Errors
    /// [`Comm`](crate::JobError::Comm) if one of them is dead or stuck.
    fn watch(
        &mut self,
        job: &Job<'_, '_>,
        own: usize,
        mut others: WatchedRanks,
        progress: &mut dyn FnMut(&InferEvent<'_>),
        stop: &AtomicBool,
    ) -> Result<()> {
        let inference = job.inference;
        let limits = Limits::new(
            inference.options.stalled_after,
            inference.ensemble.members(),
        );
        self.work.begin(Stage::Waiting, "");
        let mut told = usize::MAX;
        loop {
            // The others see that this rank still looks.
            self.work.advance();
            if others.are_done(limits)? || self.stop.is_sent() {
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

/// Does this rank's part of a job and waits until the others have done theirs; returns what this rank did. All ranks
/// call it.
///
/// # Errors
/// This rank's own error, immediately if the others cannot be informed; [`Comm`](crate::JobError::Comm) if another rank
/// is dead or stuck, [`Elsewhere`](crate::JobError::Elsewhere) if it failed.
pub(super) fn work(
    job: &Job<'_, '_>,
    claims: &mut Claims,
    comm: &mut dyn Communicator,
    progress: &mut dyn FnMut(&InferEvent<'_>),
    stop: &AtomicBool,
) -> Result<RankResult> {
    let (rank, size, out) = (comm.rank(), comm.size(), job.inference.out);
    let mut other_ranks = OtherRanks {
        stop: claims.stop_signal(),
        work: Arc::default(),
        others: (rank == 0 && size > 1).then(|| OtherRanksLog::of(out, size)),
    };
    let heartbeat = Heartbeat::start(claims, rank, Arc::clone(&other_ranks.work))?;
    // Anything that ends this rank early, including a panic, must end the others, too.
    let mut alarm = claims.stop_signal().armed();
    let ran =
        log::open(out, rank).and_then(|log| job.run(claims, &mut other_ranks, log, progress, stop));
    if let Ok(done) = &ran
        && !done.stopped
    {
        let own = done.finished.iter().map(FinishedFile::times).sum();
        let others = WatchedRanks::watched_by(claims, rank, size);
        // The first rank sees when all others are done, and they wait for it. So no rank enters the final collective
        // call while another still computes: a long wait there would count as a stall.
        let (at_once, later) = match rank {
            0 => (None, heartbeat),
            _ => (heartbeat, None),
        };
        at_once.into_iter().for_each(Heartbeat::done);
        // Fails if a rank is dead or stuck, which would never enter the final collective call.
        other_ranks.watch(job, own, others, progress, stop)?;
        later.into_iter().for_each(Heartbeat::done);
        alarm.disarm();
    } else {
        heartbeat.into_iter().for_each(Heartbeat::done);
        // Ranks that cannot be informed continue until they consider this rank dead, and would then end the job without
        // the reason.
        if ran.is_err() && !alarm.send() {
            alarm.disarm();
            return ran;
        }
    }
    drop(alarm);
    all_or_none(comm, ran)
}
