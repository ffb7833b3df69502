//! Heartbeats between the ranks of a run, and their last messages.
//!
//! A leader waits for its turn, a server for the scores of a validation: how long such a wait takes says nothing about
//! whether the other rank is alive. So each rank that is a process has a thread that sends a heartbeat every second,
//! whatever the process computes meanwhile. Servers and leaders exchange heartbeats, and so do a leader and the rest of
//! its group. What happens when a rank has been silent for as long as the recipe lets ranks wait depends on its role
//! ([`Peer`]): a silent server ends the job, because its part of the parameters is nowhere else; a silent leader is
//! only noted, because other groups can do its steps; a silent rank of a group stops the whole group.
//!
//! A rank that cannot go on says so in its last heartbeat. Its group then gives up with it: its processes retire, that
//! is, wait for the end of the job, because MPI ends the whole job when one process ends early.

use super::heartbeat_peers::Peer;
use super::liveness::{Heartbeat, Liveness};
use crate::comm::watchdog::STOPPED;
use crate::comm::{Arrival, CommError, Communicator, doing};
use crate::error::Result;
use crate::train::team::OnStall;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Orders to the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeartbeatOrder {
    /// The run is over.
    End,
    /// Announce that this rank cannot continue.
    GiveUp,
    /// Announce that this rank cannot continue, and retire.
    Retire,
}

/// The channel of orders to the thread. Orders may be sent before the thread starts.
pub(super) struct OrderChannel {
    pub sender: Sender<HeartbeatOrder>,
    pub receiver: Receiver<HeartbeatOrder>,
}

impl OrderChannel {
    pub fn open() -> Self {
        let (sender, receiver) = channel();
        Self { sender, receiver }
    }
}

/// The thread that sends this rank's heartbeats and records those of others, until [`Heartbeats::end`].
#[derive(Default)]
pub(super) struct Heartbeats {
    liveness: Option<Arc<Liveness>>,
    orders: Option<Sender<HeartbeatOrder>>,
    thread: Option<JoinHandle<Box<dyn Communicator>>>,
    /// Set after the end: all ranks must free shared resources in the same order.
    ended: Option<Box<dyn Communicator>>,
}

impl Heartbeats {
    /// Starts the thread on a communicator of all participating ranks; `peers` are the ranks to exchange heartbeats
    /// with. `on_stall` is called when a server has been silent for longer than `limit`.
    ///
    /// # Errors
    /// [`CommError::Library`] if the system cannot start a thread.
    pub fn start(
        comm: Box<dyn Communicator>,
        peers: Vec<(usize, Peer)>,
        limit: Duration,
        orders: OrderChannel,
        on_stall: OnStall,
    ) -> Result<Self> {
        let rank = comm.rank();
        let liveness = Arc::new(Liveness::new(comm.size(), limit));
        let beating = HeartbeatThread {
            comm,
            peers,
            liveness: Arc::clone(&liveness),
        };
        let OrderChannel { sender, receiver } = orders;
        let thread = std::thread::Builder::new().name("squall-pulse".into());
        let thread = thread.spawn(move || beating.run(&receiver, on_stall));
        let thread = thread.map_err(CommError::no_thread(rank))?;
        Ok(Self {
            liveness: Some(liveness),
            orders: Some(sender),
            thread: Some(thread),
            ended: None,
        })
    }

    /// Whether a rank has sent no heartbeat for longer than the limit, or will never send one; false without
    /// heartbeats.
    pub fn is_silent(&self, rank: usize) -> bool {
        let liveness = self.liveness.as_ref();
        liveness.is_some_and(|known| known.is_gone(rank) || known.is_silent(rank))
    }

    /// Whether heartbeats are enabled.
    pub fn are_sent(&self) -> bool {
        self.liveness.is_some()
    }

    /// Whether a rank has announced that it cannot continue.
    pub fn is_gone(&self, rank: usize) -> bool {
        let liveness = self.liveness.as_ref();
        liveness.is_some_and(|known| known.is_gone(rank))
    }

    /// Whether a rank, or one of its group, is known not to reach the end of the job.
    pub fn is_missing(&self, rank: usize) -> bool {
        let liveness = self.liveness.as_ref();
        liveness.is_some_and(|known| known.is_missing(rank))
    }

    /// Informs a rank, if it still listens, that no rank waits for it any more.
    pub fn dismiss(&self, rank: usize) {
        if let Some(liveness) = &self.liveness {
            liveness.dismiss(rank);
        }
    }

    /// Announces that this rank cannot continue; returns true once the ranks that need it have been informed, or false
    /// at once without heartbeats.
    pub fn give_up(&mut self) -> bool {
        let told = self.thread.is_some();
        self.end_with(HeartbeatOrder::GiveUp);
        told
    }

    /// Ends the heartbeats: this rank waits for no other any more, and none waits for it.
    pub fn end(&mut self) {
        self.end_with(HeartbeatOrder::End);
    }

    fn end_with(&mut self, order: HeartbeatOrder) {
        if let Some(orders) = self.orders.take() {
            // A thread that has ended needs no order.
            let _ = orders.send(order);
        }
        if let Some(Ok(comm)) = self.thread.take().map(JoinHandle::join) {
            self.ended = Some(comm);
        }
    }
}

impl Drop for Heartbeats {
    fn drop(&mut self) {
        self.end();
    }
}

/// The state of the thread.
struct HeartbeatThread {
    comm: Box<dyn Communicator>,
    /// The ranks to exchange heartbeats with.
    peers: Vec<(usize, Peer)>,
    liveness: Arc<Liveness>,
}

impl HeartbeatThread {
    /// Always returns the communicator: errors are reported where an answer is needed.
    fn run(mut self, inbox: &Receiver<HeartbeatOrder>, on_stall: OnStall) -> Box<dyn Communicator> {
        // The thread itself reports silent ranks, below; a slow one-byte message is not a stall.
        let _patient = doing::patiently();
        let every = self.every();
        let mut looked = Instant::now();
        loop {
            let order = inbox.recv_timeout(every);
            // This process was itself suspended for a while, which says nothing about the others.
            if looked.elapsed() > every + STOPPED {
                let all = self.peers.iter();
                all.for_each(|(other, _)| self.liveness.note(*other, Heartbeat::Lives));
            }
            looked = Instant::now();
            if let Err(error) = self.meet_all() {
                tracing::debug!(%error, "no more signs of life");
                break;
            }
            match order {
                Ok(HeartbeatOrder::End) | Err(RecvTimeoutError::Disconnected) => {
                    self.say(Heartbeat::Done);
                    break;
                }
                Ok(HeartbeatOrder::GiveUp) => {
                    let word = self.last_word();
                    self.say(word);
                    break;
                }
                Ok(HeartbeatOrder::Retire) => self.retire(),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let (own, liveness) = (self.comm.rank(), &self.liveness);
            liveness.note_silence(self.peers.iter().map(|(other, _)| *other));
            let silent = |wanted: Peer| {
                let mut all = self.peers.iter().filter(move |(_, peer)| *peer == wanted);
                all.find(|(other, _)| liveness.is_silent(*other))
            };
            if let Some((server, _)) = silent(Peer::Server) {
                on_stall(CommError::Stalled {
                    rank: own,
                    doing: format!("the wait for a sign of life of parameter server {server}"),
                    waited: liveness.silence(*server),
                });
                break;
            }
            if let Some((mate, _)) = silent(Peer::Mate) {
                tracing::error!(
                    "rank {own}: rank {mate} of this group has shown no sign of life for {:.1} s: the group gives up",
                    liveness.silence(*mate).as_secs_f64()
                );
                self.retire();
            }
            // The servers handle a leader that cannot continue.
            let mut others = self.peers.iter().filter(|(_, peer)| *peer != Peer::Leader);
            match others.find(|(other, _)| liveness.is_gone(*other)) {
                None => continue,
                Some((mate, Peer::Mate)) => {
                    tracing::warn!("rank {own} gives up with rank {mate} of its group");
                }
                Some(_) => tracing::warn!("rank {own}: the others have gone on without this group"),
            }
            self.retire();
        }
        self.comm
    }

    /// Interval between heartbeats.
    fn every(&self) -> Duration {
        (self.liveness.limit / 8).clamp(Duration::from_millis(5), Duration::from_secs(1))
    }

    /// The last heartbeat of a rank that cannot continue: if it has waited too long, a rank of its group may be gone.
    fn last_word(&self) -> Heartbeat {
        let every = self.every();
        let missing = |(mate, peer): &(usize, Peer)| {
            let quiet = self.liveness.silence(*mate) > 3 * every && !self.liveness.is_gone(*mate);
            *peer == Peer::Mate && (quiet || self.liveness.is_missing(*mate))
        };
        match self.peers.iter().any(missing) {
            true => Heartbeat::LastWithoutAll,
            false => Heartbeat::Last,
        }
    }

    fn meet_all(&mut self) -> crate::comm::Result<()> {
        let mut result = Ok(());
        for (other, peer) in std::mem::take(&mut self.peers) {
            match self.meet(other) {
                Ok(true) => self.peers.push((other, peer)),
                Ok(false) => {}
                Err(error) => result = Err(error),
            }
        }
        result
    }

    /// Exchanges heartbeats with another rank; returns whether it is still there.
    fn meet(&mut self, other: usize) -> crate::comm::Result<bool> {
        loop {
            match self.comm.wait_any(&[other], Duration::ZERO)? {
                Arrival::Message(_) => {
                    let mut byte = [0];
                    self.comm.receive(other, &mut byte)?;
                    self.liveness.note(other, Heartbeat::from_byte(byte[0]));
                }
                Arrival::Gone(_) => return Ok(false),
                Arrival::Nothing => break,
            }
        }
        if self.liveness.take_dismissal(other) {
            return self.comm.offer(other, &[Heartbeat::Last.byte()]);
        }
        // Sends nothing to a rank that does not listen, because messages would pile up.
        if !self.liveness.listens(other) {
            return Ok(true);
        }
        self.comm.offer(other, &[Heartbeat::Lives.byte()])
    }

    fn say(&mut self, heartbeat: Heartbeat) {
        for (other, _) in &self.peers {
            if let Err(error) = self.comm.offer(*other, &[heartbeat.byte()]) {
                tracing::debug!(%error, "a heartbeat was not heard");
            }
        }
    }

    /// Informs all peers that this rank's group cannot continue, and retires.
    fn retire(&mut self) -> ! {
        let word = self.last_word();
        self.say(word);
        self.comm.retire()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::threads;
    use crate::train::groups::plan::Layout;
    use std::sync::Barrier;

    const LIMIT: Duration = Duration::from_secs(2);

    /// What a rank saw: what its stall said, whether the first leader was silent to it, and gone; of a rank that stood
    /// still, the last that the others of its group had to say to it.
    type Saw = (Option<CommError>, bool, bool, Option<Heartbeat>);

    /// Two servers and two groups of two ranks, one of which meets its fate.
    fn watch(who: usize, what: Fate) -> Vec<Saw> {
        let layout = Layout::of(6, 2, 2).unwrap();
        let over = Barrier::new(6);
        threads::run(threads::ranks(6), |comm| {
            let rank = comm.rank();
            let (tell, told) = channel();
            let on_stall = Box::new(move |stall: CommError| tell.send(stall).unwrap());
            let peers = Peer::of_role(layout, layout.role(rank));
            let mut comm: Option<Box<dyn Communicator>> = Some(Box::new(comm));
            let mut heartbeats = Heartbeats::default();
            if (who, Fate::Stands) != (rank, what) {
                let comm = comm.take().unwrap();
                let orders = OrderChannel::open();
                heartbeats =
                    Heartbeats::start(comm, peers.clone(), LIMIT, orders, on_stall).unwrap();
            }
            if (who, Fate::GivesUp) == (rank, what) {
                assert!(heartbeats.give_up());
            }
            if what == Fate::IsDismissed && rank < layout.servers {
                heartbeats.dismiss(who);
            }
            if what == Fate::IsDone && layout.role(rank) == layout.role(who) {
                heartbeats.end();
            }
            std::thread::sleep(LIMIT * 8 / 5);
            let leader = layout.leader(0);
            let found = (heartbeats.is_silent(leader), heartbeats.is_gone(leader));
            over.wait();
            let mut last = None;
            if let Some(comm) = &mut comm {
                for (mate, _) in peers.iter().filter(|(_, peer)| *peer == Peer::Mate) {
                    while comm.wait_any(&[*mate], Duration::ZERO) == Ok(Arrival::Message(*mate)) {
                        let mut byte = [0];
                        comm.receive(*mate, &mut byte).unwrap();
                        last = Some(Heartbeat::from_byte(byte[0]));
                    }
                }
            }
            // Those who retire never come back.
            std::mem::forget(heartbeats);
            (told.try_recv().ok(), found.0, found.1, last)
        })
    }

    /// The same of several fates, all at once: it is mostly waiting.
    fn watch_all<const CASES: usize>(cases: [(usize, Fate); CASES]) -> [Vec<Saw>; CASES] {
        std::thread::scope(|scope| {
            let running = cases.map(|(who, what)| scope.spawn(move || watch(who, what)));
            running.map(|case| case.join().unwrap())
        })
    }

    #[derive(Clone, Copy, PartialEq)]
    enum Fate {
        Lives,
        Stands,
        GivesUp,
        IsDismissed,
        IsDone,
    }

    #[test]
    fn living_and_finished_ranks_are_never_given_up() {
        for saw in watch_all([(2, Fate::Lives), (2, Fate::IsDone)]) {
            for (rank, (told, silent, gone, _)) in saw.into_iter().enumerate() {
                assert_eq!((told, gone), (None, false), "rank {rank}");
                assert!(!silent, "rank {rank}");
            }
        }
    }

    #[test]
    fn a_silent_server_ends_the_job() {
        for (rank, (told, ..)) in watch(1, Fate::Stands).into_iter().enumerate() {
            // Members of groups hear of their leaders only.
            let Some(stall) = told else {
                assert!([1, 3, 5].contains(&rank), "rank {rank}");
                continue;
            };
            let words = stall.to_string();
            let expected =
                format!("rank {rank}: the wait for a sign of life of parameter server 1 has");
            assert!(words.starts_with(&expected), "{words}");
        }
    }

    #[test]
    fn a_silent_leader_is_noted_and_its_group_gives_up() {
        for (rank, (told, silent, gone, last)) in watch(2, Fate::Stands).into_iter().enumerate() {
            assert_eq!((told, gone), (None, false), "rank {rank}");
            assert!(rank >= 2 || silent, "rank {rank}");
            // Its member has given up, and knows that it is missing.
            assert_eq!(last, (rank == 2).then_some(Heartbeat::LastWithoutAll));
        }
    }

    #[test]
    fn a_last_word_of_a_member_is_that_of_its_group() {
        // That of a leader; of its member; of a member that stands still, which the leader finds out.
        let cases = [(2, Fate::GivesUp), (3, Fate::GivesUp), (3, Fate::Stands)];
        for ((who, fate), saw) in cases.into_iter().zip(watch_all(cases)) {
            for (rank, (told, _, gone, last)) in saw.into_iter().enumerate() {
                assert_eq!(told, None, "rank {rank}");
                assert!(
                    rank >= 2 || gone,
                    "rank {who} gave up, rank {rank} does not know"
                );
                let stands = (rank, Fate::Stands) == (who, fate);
                assert_eq!(last, stands.then_some(Heartbeat::LastWithoutAll));
            }
        }
    }

    #[test]
    fn dismissed_ranks_give_up() {
        for (rank, (told, _, gone, _)) in watch(2, Fate::IsDismissed).into_iter().enumerate() {
            assert_eq!(told, None, "rank {rank}");
            assert!(rank >= 2 || gone, "rank {rank}");
        }
    }
}
