//! Waiting for others without hanging: tracks which ranks are alive, and a barrier that notices missing ranks.

use super::{Fault, Faults};
use crate::comm::{CommError, Result, doing, lock};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Interval at which a waiting rank checks whether its peers are alive.
pub(super) const LOOK: Duration = Duration::from_millis(10);

/// All ranks of the process, over all groups.
pub(super) struct World {
    node_of: Vec<usize>,
    faults: Faults,
    failed: Vec<AtomicBool>,
    operations: Vec<AtomicU64>,
}

/// Random delay of operations, if any.
pub(super) struct Lateness(Option<(StdRng, Duration)>);

impl Lateness {
    pub fn pass(&mut self) {
        if let Some((random, longest)) = &mut self.0 {
            std::thread::sleep(longest.mul_f64(random.random::<f64>()));
        }
    }
}

/// The waiting rank and its operation.
pub(super) struct Wait<'a> {
    pub rank: usize,
    pub doing: &'a str,
}

impl World {
    pub fn new(node_of: Vec<usize>, faults: Faults) -> Self {
        let count = node_of.len();
        Self {
            node_of,
            faults,
            failed: (0..count).map(|_| AtomicBool::new(false)).collect(),
            operations: (0..count).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    pub fn node_of(&self, rank: usize) -> usize {
        self.node_of[rank]
    }

    pub fn nodes(&self) -> usize {
        self.node_of
            .iter()
            .collect::<std::collections::BTreeSet<_>>()
            .len()
    }

    /// The delays of one rank's handle to a group or window.
    pub fn lateness(&self, rank: usize) -> Lateness {
        let random = |(seed, longest): (u64, Duration)| {
            let mixed = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let stream = mixed.wrapping_add(rank as u64);
            (StdRng::seed_from_u64(stream), longest)
        };
        Lateness(self.faults.delays.map(random))
    }

    /// Marks a rank as gone: after an error it takes no further part, so nobody may wait for it.
    pub fn give_up(&self, rank: usize) {
        self.failed[rank].store(true, Ordering::SeqCst);
    }

    pub fn has_failed(&self, rank: usize) -> bool {
        self.failed[rank].load(Ordering::SeqCst)
    }

    /// Counts an operation and triggers its fault, if it has one.
    pub fn meet_fault(&self, rank: usize, doing: &str) -> Result<()> {
        let number = self.operations[rank].fetch_add(1, Ordering::SeqCst);
        for &(who, when, fault) in &self.faults.injected {
            if (who, when) != (rank, number) {
                continue;
            }
            match fault {
                Fault::Sleeps(time) => std::thread::sleep(time),
                Fault::Dies => self.give_up(rank),
            }
        }
        if self.has_failed(rank) {
            return Err(CommError::Gone {
                rank,
                peer: rank,
                doing: doing.into(),
            });
        }
        Ok(())
    }

    /// Waits until `ready` returns something; fails when a required rank is gone.
    pub fn wait<T, R>(
        &self,
        wait: &Wait,
        (state, signal): (&Mutex<T>, &Condvar),
        mut ready: impl FnMut(&mut T) -> Option<R>,
        gone: impl Fn() -> Option<usize>,
    ) -> Result<R> {
        let start = Instant::now();
        let mut guard = lock(state);
        loop {
            // Checked before `ready`, so that what a rank did before it left still counts.
            let lost = gone();
            if let Some(found) = ready(&mut guard) {
                return Ok(found);
            }
            let Wait { rank, doing } = *wait;
            let doing = doing::in_words(doing);
            if let Some(peer) = lost {
                return Err(CommError::Gone { rank, peer, doing });
            }
            let waited = start.elapsed();
            if self.faults.limit.is_some_and(|limit| waited >= limit) {
                return Err(CommError::Stalled {
                    rank,
                    doing,
                    waited,
                });
            }
            guard = signal
                .wait_timeout(guard, LOOK)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }
}

/// A barrier that knows which ranks have left.
pub(super) struct Meeting {
    world: Arc<World>,
    members: Vec<usize>,
    left: Vec<AtomicBool>,
    state: Mutex<Arrivals>,
    signal: Condvar,
}

#[derive(Default)]
struct Arrivals {
    arrived: usize,
    rounds: u64,
}

impl Meeting {
    pub fn new(world: Arc<World>, members: Vec<usize>) -> Self {
        let left = members.iter().map(|_| AtomicBool::new(false)).collect();
        Self {
            world,
            members,
            left,
            state: Mutex::default(),
            signal: Condvar::new(),
        }
    }

    pub fn world(&self) -> &Arc<World> {
        &self.world
    }

    pub fn members(&self) -> &[usize] {
        &self.members
    }

    pub fn leave(&self, rank: usize) {
        self.left[rank].store(true, Ordering::SeqCst);
    }

    /// The world number of this member if it is gone.
    pub fn gone(&self, rank: usize) -> Option<usize> {
        let peer = self.members[rank];
        (self.left[rank].load(Ordering::SeqCst) || self.world.has_failed(peer)).then_some(peer)
    }

    /// Returns once all members have called it.
    pub fn wait(&self, rank: usize, doing: &str) -> Result<()> {
        let round = {
            let mut state = lock(&self.state);
            state.arrived += 1;
            if state.arrived == self.members.len() {
                state.arrived = 0;
                state.rounds += 1;
                self.signal.notify_all();
                return Ok(());
            }
            state.rounds
        };
        let wait = Wait {
            rank: self.members[rank],
            doing,
        };
        let over = |state: &mut Arrivals| (state.rounds > round).then_some(());
        let gone = || (0..self.members.len()).find_map(|member| self.gone(member));
        let result = self
            .world
            .wait(&wait, (&self.state, &self.signal), over, gone);
        if result.is_err() {
            self.world.give_up(self.members[rank]);
        }
        result
    }
}
