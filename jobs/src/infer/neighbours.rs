//! A rank's work beside that of others: who hears of whom, and who waits for whom.

use super::InferEvent;
use super::alive::{DEAD_AFTER, Pulse, Watched};
use super::claims::{Bell, Claims};
use super::log::{self, FinishedFile, Others};
use super::pipeline::{Job, Ran};
use crate::comm::Communicator;
use crate::error::{Result, all_or_none};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time between two looks at whether the others are done.
const LOOK: Duration = Duration::from_millis(20);

/// What tells a rank of others, and others of it.
pub(super) struct Neighbours {
    pub bell: Bell,
    /// On the rank that tells of the work of all.
    others: Option<Others>,
}

impl Neighbours {
    /// Times that they have done, where this rank tells of the work of all.
    pub fn times(&mut self) -> usize {
        self.others.as_mut().map_or(0, Others::times)
    }

    /// Waits, after `own` times of this rank, until the others have done their work or the bell rings; the rank that tells
    /// of the work of all does so meanwhile.
    ///
    /// # Errors
    /// [`Comm`](crate::JobError::Comm) if one of them is dead.
    fn watch(
        &mut self,
        job: &Job<'_, '_>,
        own: usize,
        mut others: Watched,
        progress: &mut dyn FnMut(&InferEvent<'_>),
        stop: &AtomicBool,
    ) -> Result<()> {
        let mut told = usize::MAX;
        loop {
            if others.are_done(DEAD_AFTER)? || self.bell.rings() {
                return Ok(());
            }
            if stop.load(Ordering::Relaxed) {
                self.bell.ring();
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
/// This rank's own, at once where the others cannot be told; [`Comm`](crate::JobError::Comm) if another one is dead,
/// [`Elsewhere`](crate::JobError::Elsewhere) if it failed.
pub(super) fn work(
    job: &Job<'_, '_>,
    claims: &mut Claims,
    comm: &mut dyn Communicator,
    progress: &mut dyn FnMut(&InferEvent<'_>),
    stop: &AtomicBool,
) -> Result<Ran> {
    let (rank, size, out) = (comm.rank(), comm.size(), job.inference.out);
    let mut neighbours = Neighbours {
        bell: claims.bell(),
        others: (rank == 0 && size > 1).then(|| Others::of(out, size)),
    };
    let pulse = Pulse::start(claims, rank)?;
    // Whatever ends this rank early, a panic included, ends the others too.
    let mut alarm = claims.bell().armed();
    let ran =
        log::open(out, rank).and_then(|log| job.run(claims, &mut neighbours, log, progress, stop));
    if let Ok(done) = &ran
        && !done.stopped
    {
        let own = done.finished.iter().map(FinishedFile::times).sum();
        let others = Watched::of(claims, rank, size);
        // The first rank sees when all others are done, and they wait for it: nobody comes to the meeting below while a
        // rank still computes, because there patience ends.
        let (at_once, later) = match rank {
            0 => (None, pulse),
            _ => (pulse, None),
        };
        at_once.into_iter().for_each(Pulse::done);
        // A dead rank comes to no meeting: nothing is left to agree on.
        neighbours.watch(job, own, others, progress, stop)?;
        later.into_iter().for_each(Pulse::done);
        alarm.disarm();
    } else {
        pulse.into_iter().for_each(Pulse::done);
        // Others would only come to the meeting below when they take this rank for dead, and end the job with words that
        // do not say why.
        if ran.is_err() && !alarm.ring() {
            alarm.disarm();
            return ran;
        }
    }
    drop(alarm);
    all_or_none(comm, ran)
}
