//! Shared state of a group: inboxes, and a board for exchanging objects.

use super::meeting::{LOOK, Meeting, Wait, World};
use super::window::Segments;
use crate::comm::{Arrival, CommError, Result, lock};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Number of message buffers that an inbox keeps for reuse.
const KEPT_BUFFERS: usize = 4;

/// A group of ranks and its shared state.
pub(super) struct Group {
    pub meeting: Meeting,
    inboxes: Vec<Inbox>,
    pub board: Mutex<Vec<Notes>>,
}

/// What one rank posts for the others.
#[derive(Default, Clone)]
pub(super) struct Notes {
    pub colour: Option<u32>,
    pub number: usize,
    pub made: Option<Made>,
}

/// An object made by one rank and shared with others.
#[derive(Clone)]
pub(super) enum Made {
    Group(Arc<Group>),
    Window(Arc<Segments>),
}

/// The messages to one rank, with a queue per sender.
struct Inbox {
    queues: Mutex<Queues>,
    signal: Condvar,
}

struct Queues {
    from: Vec<VecDeque<Vec<u8>>>,
    unused: Vec<Vec<u8>>,
}

impl Group {
    pub fn new(world: Arc<World>, members: Vec<usize>) -> Self {
        let count = members.len();
        let inbox = |_| Inbox {
            queues: Mutex::new(Queues {
                from: vec![VecDeque::new(); count],
                unused: Vec::new(),
            }),
            signal: Condvar::new(),
        };
        Self {
            meeting: Meeting::new(world, members),
            inboxes: (0..count).map(inbox).collect(),
            board: Mutex::new(vec![Notes::default(); count]),
        }
    }

    /// Posts a message to an inbox.
    pub fn post(&self, from: usize, to: usize, bytes: &[u8], doing: &str) -> Result<()> {
        if let Some(peer) = self.meeting.gone(to) {
            return Err(CommError::Gone {
                rank: self.meeting.members()[from],
                peer,
                doing: doing.into(),
            });
        }
        let inbox = &self.inboxes[to];
        let mut message = lock(&inbox.queues).unused.pop().unwrap_or_default();
        message.clear();
        message.extend_from_slice(bytes);
        lock(&inbox.queues).from[from].push_back(message);
        inbox.signal.notify_all();
        Ok(())
    }

    /// Waits for a message from any of these ranks, within the time limit.
    pub fn arrival(&self, rank: usize, from: &[usize], at_most: Duration) -> Arrival {
        let inbox = &self.inboxes[rank];
        let start = Instant::now();
        let mut queues = lock(&inbox.queues);
        loop {
            // Checked before the queues, so that messages sent by a rank before it left still count.
            let gone = (from.iter().copied()).find(|&peer| self.meeting.gone(peer).is_some());
            let sent = |peer: &usize| !queues.from[*peer].is_empty();
            if let Some(peer) = from.iter().copied().find(sent) {
                return Arrival::Message(peer);
            }
            if let Some(peer) = gone {
                return Arrival::Gone(peer);
            }
            let left = at_most.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Arrival::Nothing;
            }
            let woken = inbox.signal.wait_timeout(queues, left.min(LOOK));
            queues = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Takes the next message of a sender from this rank's inbox.
    pub fn take(&self, rank: usize, from: usize, bytes: &mut [u8], doing: &str) -> Result<()> {
        let inbox = &self.inboxes[rank];
        let wait = Wait {
            rank: self.meeting.members()[rank],
            doing,
        };
        let next = |queues: &mut Queues| queues.from[from].pop_front();
        let state = (&inbox.queues, &inbox.signal);
        let message = self
            .meeting
            .world()
            .wait(&wait, state, next, || self.meeting.gone(from))?;
        if message.len() != bytes.len() {
            return Err(CommError::Size {
                rank: wait.rank,
                what: format!(
                    "bytes of a message from rank {}",
                    self.meeting.members()[from]
                ),
                expected: bytes.len(),
                got: message.len(),
            });
        }
        bytes.copy_from_slice(&message);
        let mut queues = lock(&inbox.queues);
        if queues.unused.len() < KEPT_BUFFERS {
            queues.unused.push(message);
        }
        Ok(())
    }
}
