//! Signs of life between servers and leaders, whose waits for each other may last.
//!
//! A leader waits for its turn, a server for the scores of a validation: the length of such a wait says nothing. So each of them has
//! a thread that shows the others every second that its process lives, whatever the process computes meanwhile. A server that
//! shows nothing for as long as the recipe lets ranks wait ends the job, for its part of the parameters is nowhere else; a leader's
//! silence is only noted, since others can do the steps of its group.

use crate::comm::{Arrival, CommError, Communicator};
use crate::error::{JobError, Result};
use crate::train::team::OnStall;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A thread that comes so much later than it meant to was stopped, and knows nothing of that time.
const STOPPED: Duration = Duration::from_secs(1);

/// Shows that this rank lives, and notes who else does, until [`Pulse::end`].
#[derive(Default)]
pub(super) struct Pulse {
    heard: Option<Arc<Heard>>,
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<Box<dyn Communicator>>>,
    /// After the end: all ranks free what they share in the same order.
    ended: Option<Box<dyn Communicator>>,
}

/// When each rank was heard last, in milliseconds since the start.
#[derive(Debug)]
struct Heard {
    start: Instant,
    ranks: Vec<AtomicU64>,
}

impl Heard {
    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn note(&self, rank: usize) {
        self.ranks[rank].store(self.now(), Ordering::Relaxed);
    }

    fn silent(&self, rank: usize) -> Duration {
        let last = self.ranks[rank].load(Ordering::Relaxed);
        Duration::from_millis(self.now().saturating_sub(last))
    }
}

impl Pulse {
    /// Begins, on a communicator of the servers, which come first, and the leaders. `on_stall` hears of a server that was silent for
    /// longer than `limit`.
    ///
    /// # Errors
    /// [`CommError::Library`] if the system gives no thread.
    pub fn start(
        comm: Box<dyn Communicator>,
        servers: usize,
        limit: Duration,
        on_stall: OnStall,
    ) -> Result<Self> {
        let (end, ended) = channel();
        let heard = Arc::new(Heard {
            start: Instant::now(),
            ranks: (0..comm.size()).map(|_| AtomicU64::new(0)).collect(),
        });
        let rank = comm.rank();
        let others = if rank < servers { comm.size() } else { servers };
        let beating = Beating {
            comm,
            others: (0..others).filter(|&other| other != rank).collect(),
            servers,
            limit,
            heard: Arc::clone(&heard),
        };
        let thread = std::thread::Builder::new().name("squall-pulse".into());
        let thread = thread.spawn(move || beating.run(&ended, on_stall));
        let thread = thread.map_err(|error| {
            JobError::from(CommError::Library {
                rank,
                call: "std::thread::spawn",
                reason: error.to_string(),
            })
        })?;
        Ok(Self {
            heard: Some(heard),
            end: Some(end),
            thread: Some(thread),
            ended: None,
        })
    }

    /// For how long a rank has shown nothing; no time if nobody shows anything.
    pub fn silent(&self, rank: usize) -> Duration {
        self.heard
            .as_ref()
            .map_or(Duration::ZERO, |heard| heard.silent(rank))
    }

    /// This rank waits for no other any more, and none for it.
    pub fn end(&mut self) {
        self.end = None;
        if let Some(Ok(comm)) = self.thread.take().map(JoinHandle::join) {
            self.ended = Some(comm);
        }
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.end();
    }
}

/// What the thread has.
struct Beating {
    comm: Box<dyn Communicator>,
    /// Whom it shows itself to, and listens to.
    others: Vec<usize>,
    servers: usize,
    limit: Duration,
    heard: Arc<Heard>,
}

impl Beating {
    /// Gives the communicator back, whatever happens to it: errors are told by those who need an answer.
    fn run(mut self, ended: &Receiver<()>, on_stall: OnStall) -> Box<dyn Communicator> {
        let every = (self.limit / 8).clamp(Duration::from_millis(5), Duration::from_secs(1));
        let mut looked = Instant::now();
        while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
            if looked.elapsed() > every + STOPPED {
                self.others.iter().for_each(|&other| self.heard.note(other));
            }
            looked = Instant::now();
            let mut here = Ok(());
            let others = std::mem::take(&mut self.others);
            for other in others {
                match self.meet(other) {
                    Ok(true) => self.others.push(other),
                    Ok(false) => {}
                    Err(error) => here = Err(error),
                }
            }
            if let Err(error) = here {
                tracing::debug!(%error, "no more signs of life");
                break;
            }
            let silent = self
                .others
                .iter()
                .find(|&&other| other < self.servers && self.heard.silent(other) > self.limit);
            if let Some(&server) = silent {
                on_stall(CommError::Stalled {
                    rank: self.comm.rank(),
                    doing: format!("the wait for a sign of life of parameter server {server}"),
                    waited: self.heard.silent(server),
                });
                break;
            }
        }
        self.comm
    }

    /// Listens to another rank and shows it that this one lives; gives whether it is still there.
    fn meet(&mut self, other: usize) -> crate::comm::Result<bool> {
        loop {
            match self.comm.wait_any(&[other], Duration::ZERO)? {
                Arrival::Message(_) => {
                    self.comm.receive(other, &mut [0])?;
                    self.heard.note(other);
                }
                Arrival::Gone(_) => return Ok(false),
                Arrival::Nothing => break,
            }
        }
        // Who does not listen gets nothing: it would only pile up.
        if self.heard.silent(other) > self.limit {
            return Ok(true);
        }
        self.comm.offer(other, &[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::threads;
    use std::sync::Barrier;

    const LIMIT: Duration = Duration::from_secs(2);

    /// Two servers and two leaders, of which `dead` shows nothing: what each was told, and how long that one was silent to it.
    fn watch(dead: Option<usize>) -> Vec<(Option<CommError>, Duration)> {
        let over = Barrier::new(4);
        threads::run(threads::ranks(4), |comm| {
            let rank = comm.rank();
            let (tell, told) = channel();
            let on_stall = Box::new(move |stall: CommError| tell.send(stall).unwrap());
            let mut pulse = Pulse::default();
            let mut kept: Option<Box<dyn Communicator>> = None;
            if dead == Some(rank) {
                kept = Some(Box::new(comm));
            } else {
                pulse = Pulse::start(Box::new(comm), 2, LIMIT, on_stall).unwrap();
            }
            std::thread::sleep(LIMIT * 8 / 5);
            let silent = pulse.silent(dead.unwrap_or(0));
            over.wait();
            pulse.end();
            drop(kept);
            (told.try_recv().ok(), silent)
        })
    }

    #[test]
    fn who_lives_may_take_as_long_as_it_likes() {
        for (rank, (told, silent)) in watch(None).into_iter().enumerate() {
            assert_eq!(told, None, "rank {rank}");
            // Of itself a rank hears nothing.
            assert!(rank == 0 || silent < LIMIT, "rank {rank}: {silent:?}");
        }
    }

    #[test]
    fn a_silent_server_ends_the_job() {
        for (rank, (told, _)) in watch(Some(1)).into_iter().enumerate() {
            let Some(stall) = told else {
                assert_eq!(rank, 1);
                continue;
            };
            let words = stall.to_string();
            let expected =
                format!("rank {rank}: the wait for a sign of life of parameter server 1 has");
            assert!(words.starts_with(&expected), "{words}");
        }
    }

    #[test]
    fn a_silent_leader_is_only_noted() {
        for (rank, (told, silent)) in watch(Some(2)).into_iter().enumerate() {
            assert_eq!(told, None, "rank {rank}");
            // Leaders do not listen to each other.
            assert!(rank >= 2 || silent > LIMIT, "rank {rank}: {silent:?}");
        }
    }
}
