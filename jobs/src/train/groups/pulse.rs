//! Signs of life between the ranks of a run, and their last words.
//!
//! A leader waits for its turn, a server for the scores of a validation: the length of such a wait says nothing. So each rank that is
//! a process has a thread that shows others every second that it lives, whatever the process computes meanwhile. Servers and
//! leaders show it each other, a leader and the rest of its group likewise. What a silence as long as the recipe lets ranks wait means
//! depends on whose it is ([`Kin`]): a server's ends the job, for its part of the parameters is nowhere else; a leader's is only noted, since
//! others can do the steps of its group; in a group nobody can go on without the others.
//!
//! A rank that cannot go on says so as its last word. Its group then gives up with it: their processes retire, which is to wait for the
//! end of the job, because MPI ends the job where a process ends before.

use super::heard::{Heard, Word};
use super::kin::Kin;
use crate::comm::{Arrival, CommError, Communicator};
use crate::error::{JobError, Result};
use crate::train::team::OnStall;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A thread that comes so much later than it meant to was stopped, and knows nothing of that time.
const STOPPED: Duration = Duration::from_secs(1);

/// What the thread is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Everything is over.
    End,
    /// Say that this rank does not go on.
    GiveUp,
    /// The same, and retire.
    Retire,
}

/// Shows that this rank lives, and notes who else does, until [`Pulse::end`].
#[derive(Default)]
pub(super) struct Pulse {
    heard: Option<Arc<Heard>>,
    orders: Option<Orders>,
    thread: Option<JoinHandle<Box<dyn Communicator>>>,
    /// After the end: all ranks free what they share in the same order.
    ended: Option<Box<dyn Communicator>>,
}

/// The way to the thread, which may not have begun yet.
#[derive(Debug, Clone)]
pub(super) struct Orders(Sender<Order>);

impl Orders {
    /// This rank cannot go on, and its process retires.
    pub fn retire(&self) {
        // Where the thread has ended everything is over.
        let _ = self.0.send(Order::Retire);
    }
}

/// What the thread will be told.
#[derive(Debug)]
pub(super) struct Told {
    orders: Orders,
    inbox: Receiver<Order>,
}

impl Told {
    pub fn new() -> Self {
        let (orders, inbox) = channel();
        Self {
            orders: Orders(orders),
            inbox,
        }
    }

    pub fn orders(&self) -> Orders {
        self.orders.clone()
    }
}

impl Pulse {
    /// Begins, on a communicator of whoever takes part; `kin` are the ranks to show it to and to listen to. `on_stall` hears of a server
    /// that was silent for longer than `limit`.
    ///
    /// # Errors
    /// [`CommError::Library`] if the system gives no thread.
    pub fn start(
        comm: Box<dyn Communicator>,
        kin: Vec<(usize, Kin)>,
        limit: Duration,
        told: Told,
        on_stall: OnStall,
    ) -> Result<Self> {
        let rank = comm.rank();
        let heard = Arc::new(Heard::new(comm.size(), limit));
        let beating = Beating {
            comm,
            kin,
            heard: Arc::clone(&heard),
        };
        let Told { orders, inbox } = told;
        let thread = std::thread::Builder::new().name("squall-pulse".into());
        let thread = thread.spawn(move || beating.run(&inbox, on_stall));
        let thread = thread.map_err(|error| {
            JobError::from(CommError::Library {
                rank,
                call: "std::thread::spawn",
                reason: error.to_string(),
            })
        })?;
        Ok(Self {
            heard: Some(heard),
            orders: Some(orders),
            thread: Some(thread),
            ended: None,
        })
    }

    /// Whether a rank has shown nothing for longer than the limit, or never will; no if nobody shows anything.
    pub fn is_silent(&self, rank: usize) -> bool {
        let heard = self.heard.as_ref();
        heard.is_some_and(|heard| heard.is_gone(rank) || heard.is_silent(rank))
    }

    /// Whether a rank has said that it does not go on.
    pub fn is_gone(&self, rank: usize) -> bool {
        let heard = self.heard.as_ref();
        heard.is_some_and(|heard| heard.is_gone(rank))
    }

    /// Whether a rank, or one of its group, will not come to the end of the job, as far as is known.
    pub fn is_missing(&self, rank: usize) -> bool {
        let heard = self.heard.as_ref();
        heard.is_some_and(|heard| heard.is_missing(rank))
    }

    /// Nobody waits for a rank any more: it hears of that, if it still listens.
    pub fn dismiss(&self, rank: usize) {
        if let Some(heard) = &self.heard {
            heard.dismiss(rank);
        }
    }

    /// This rank cannot go on; returns when those who need it have been told, or at once if nobody shows anything. Gives whether.
    pub fn give_up(&mut self) -> bool {
        let told = self.thread.is_some();
        self.end_with(Order::GiveUp);
        told
    }

    /// This rank waits for no other any more, and none for it.
    pub fn end(&mut self) {
        self.end_with(Order::End);
    }

    fn end_with(&mut self, order: Order) {
        if let Some(Orders(orders)) = self.orders.take() {
            // A thread that has ended needs no order.
            let _ = orders.send(order);
        }
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
    kin: Vec<(usize, Kin)>,
    heard: Arc<Heard>,
}

impl Beating {
    /// Gives the communicator back, whatever happens to it: errors are told by those who need an answer.
    fn run(mut self, inbox: &Receiver<Order>, on_stall: OnStall) -> Box<dyn Communicator> {
        let limit = self.heard.limit;
        let every = (limit / 8).clamp(Duration::from_millis(5), Duration::from_secs(1));
        let mut looked = Instant::now();
        loop {
            match inbox.recv_timeout(every) {
                Ok(Order::End) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(Order::GiveUp) => {
                    self.say(Word::Last);
                    break;
                }
                Ok(Order::Retire) => {
                    // Who has waited too long may have waited for a rank that is no more.
                    let quiet = |(mate, kin): &(usize, Kin)| {
                        *kin == Kin::Mate && self.heard.silence(*mate) > 3 * every
                    };
                    match self.kin.iter().any(quiet) {
                        true => self.retire(Word::LastWithoutAll),
                        false => self.retire(Word::Last),
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if looked.elapsed() > every + STOPPED {
                self.kin
                    .iter()
                    .for_each(|(other, _)| self.heard.note(*other, Word::Lives));
            }
            looked = Instant::now();
            if let Err(error) = self.meet_all() {
                tracing::debug!(%error, "no more signs of life");
                break;
            }
            let (own, heard) = (self.comm.rank(), &self.heard);
            let is = |wanted: Kin| move |(_, kin): &&(usize, Kin)| *kin == wanted;
            let mut servers = self.kin.iter().filter(is(Kin::Server));
            if let Some((server, _)) = servers.find(|(server, _)| heard.is_silent(*server)) {
                on_stall(CommError::Stalled {
                    rank: own,
                    doing: format!("the wait for a sign of life of parameter server {server}"),
                    waited: heard.silence(*server),
                });
                break;
            }
            let mut mates = self.kin.iter().filter(is(Kin::Mate));
            if let Some((mate, _)) = mates.find(|(mate, _)| heard.is_silent(*mate)) {
                tracing::error!(
                    "rank {own}: rank {mate} of this group has shown no sign of life for {:.1} s: the group gives up",
                    heard.silence(*mate).as_secs_f64()
                );
                self.retire(Word::LastWithoutAll);
            }
            // A last word of a leader is a server's business.
            let last =
                (self.kin.iter()).find(|(other, kin)| *kin != Kin::Leader && heard.is_gone(*other));
            if let Some((other, kin)) = last {
                match kin {
                    Kin::Mate => {
                        tracing::warn!("rank {own} gives up with rank {other} of its group")
                    }
                    _ => tracing::warn!("rank {own}: the others have gone on without this group"),
                }
                self.retire(Word::Last);
            }
        }
        self.comm
    }

    fn meet_all(&mut self) -> crate::comm::Result<()> {
        let mut result = Ok(());
        for (other, kin) in std::mem::take(&mut self.kin) {
            match self.meet(other) {
                Ok(true) => self.kin.push((other, kin)),
                Ok(false) => {}
                Err(error) => result = Err(error),
            }
        }
        result
    }

    /// Listens to another rank and shows it that this one lives; gives whether it is still there.
    fn meet(&mut self, other: usize) -> crate::comm::Result<bool> {
        loop {
            match self.comm.wait_any(&[other], Duration::ZERO)? {
                Arrival::Message(_) => {
                    let mut byte = [0];
                    self.comm.receive(other, &mut byte)?;
                    self.heard.note(other, Word::of(byte[0]));
                }
                Arrival::Gone(_) => return Ok(false),
                Arrival::Nothing => break,
            }
        }
        if self.heard.take_dismissal(other) {
            return self.comm.offer(other, &[Word::Last.byte()]);
        }
        // Who does not listen gets nothing: it would only pile up.
        if self.heard.is_silent(other) || self.heard.is_gone(other) {
            return Ok(true);
        }
        self.comm.offer(other, &[Word::Lives.byte()])
    }

    fn say(&mut self, last_word: Word) {
        for (other, _) in &self.kin {
            if let Err(error) = self.comm.offer(*other, &[last_word.byte()]) {
                tracing::debug!(%error, "a last word was not heard");
            }
        }
    }

    /// This rank's group does not go on, which everybody hears.
    fn retire(&mut self, last_word: Word) -> ! {
        self.say(last_word);
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

    /// Two servers and two groups of two ranks, one of which does `what` that cannot be undone: what each was told, and whether it found
    /// the first leader silent, and gone.
    fn watch(who: usize, what: Fate) -> Vec<(Option<CommError>, bool, bool)> {
        let layout = Layout::of(6, 2, 2).unwrap();
        let over = Barrier::new(6);
        threads::run(threads::ranks(6), |comm| {
            let rank = comm.rank();
            let (tell, heard) = channel();
            let on_stall = Box::new(move |stall: CommError| tell.send(stall).unwrap());
            let mut pulse = Pulse::default();
            let mut kept: Option<Box<dyn Communicator>> = None;
            if who == rank && what == Fate::Stands {
                kept = Some(Box::new(comm));
            } else {
                let kin = Kin::of(layout, layout.role(rank));
                let comm = Box::new(comm);
                pulse = Pulse::start(comm, kin, LIMIT, Told::new(), on_stall).unwrap();
            }
            if who == rank && what == Fate::GivesUp {
                assert!(pulse.give_up());
            }
            if what == Fate::IsDismissed && rank < layout.servers {
                pulse.dismiss(who);
            }
            std::thread::sleep(LIMIT * 8 / 5);
            let leader = layout.leader(0);
            let found = (pulse.is_silent(leader), pulse.is_gone(leader));
            over.wait();
            // Those who retire never come back.
            std::mem::forget(pulse);
            drop(kept);
            (heard.try_recv().ok(), found.0, found.1)
        })
    }

    #[derive(Clone, Copy, PartialEq)]
    enum Fate {
        Lives,
        Stands,
        GivesUp,
        IsDismissed,
    }

    #[test]
    fn who_lives_may_take_as_long_as_it_likes() {
        for (rank, (told, silent, gone)) in watch(0, Fate::Lives).into_iter().enumerate() {
            assert_eq!((told, gone), (None, false), "rank {rank}");
            let listens = rank < 2 || rank == 3;
            assert!(!(listens && silent), "rank {rank}");
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
        for (rank, (told, silent, gone)) in watch(2, Fate::Stands).into_iter().enumerate() {
            assert_eq!(told, None, "rank {rank}");
            assert!(rank >= 2 || silent, "rank {rank}");
            assert!(rank >= 2 || !gone, "rank {rank}");
        }
    }

    #[test]
    fn a_last_word_of_a_member_is_that_of_its_group() {
        // That of a leader; of its member; of a member that stands still, which the leader finds out.
        for (who, fate) in [(2, Fate::GivesUp), (3, Fate::GivesUp), (3, Fate::Stands)] {
            for (rank, (told, _, gone)) in watch(who, fate).into_iter().enumerate() {
                assert_eq!(told, None, "rank {rank}");
                assert!(
                    rank >= 2 || gone,
                    "rank {who} gave up, rank {rank} does not know"
                );
            }
        }
    }

    #[test]
    fn who_is_dismissed_gives_up() {
        for (rank, (told, _, gone)) in watch(2, Fate::IsDismissed).into_iter().enumerate() {
            assert_eq!(told, None, "rank {rank}");
            assert!(rank >= 2 || gone, "rank {rank}");
        }
    }
}
