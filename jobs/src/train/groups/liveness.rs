//! Which ranks are alive, as far as their heartbeats tell.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What a heartbeat says of the rank that it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heartbeat {
    /// It lives.
    Lives = 0,
    /// Its rank does not go on, or, from a rank that waits no longer: the receiver is to stop.
    Last = 1,
    /// The same, and a rank of its group will not come to the end of the job either.
    LastWithoutAll = 2,
    /// Its rank has done all its work and sends no more heartbeats.
    Done = 3,
}

impl Heartbeat {
    pub fn byte(self) -> u8 {
        self as u8
    }

    /// What a byte means; a byte that this version does not know still means that the rank lives.
    pub fn of(byte: u8) -> Self {
        match byte {
            1 => Self::Last,
            2 => Self::LastWithoutAll,
            3 => Self::Done,
            _ => Self::Lives,
        }
    }
}

/// What is known of each rank.
#[derive(Debug)]
pub(super) struct Liveness {
    start: Instant,
    /// A rank silent for longer counts as silent.
    pub limit: Duration,
    /// When its last heartbeat came, in milliseconds since the start.
    last: Vec<AtomicU64>,
    /// That was too long ago when this process last checked: a process that was stopped itself does not know what came
    /// meanwhile.
    silent: Vec<AtomicBool>,
    /// It has done all its work.
    done: Vec<AtomicBool>,
    /// It has said that it does not go on.
    gone: Vec<AtomicBool>,
    /// It has said that not all of its group will come to the end of the job.
    incomplete: Vec<AtomicBool>,
    /// It is to hear that nobody waits for it any more.
    dismissed: Vec<AtomicBool>,
}

impl Liveness {
    pub fn new(ranks: usize, limit: Duration) -> Self {
        let none = || (0..ranks).map(|_| AtomicBool::new(false)).collect();
        Self {
            start: Instant::now(),
            limit,
            last: (0..ranks).map(|_| AtomicU64::new(0)).collect(),
            silent: none(),
            done: none(),
            gone: none(),
            incomplete: none(),
            dismissed: none(),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// A heartbeat of a rank has just come.
    pub fn note(&self, rank: usize, heartbeat: Heartbeat) {
        self.last[rank].store(self.now(), Ordering::Relaxed);
        self.silent[rank].store(false, Ordering::Relaxed);
        let flag = match heartbeat {
            Heartbeat::Lives => return,
            Heartbeat::Done => &self.done,
            Heartbeat::Last => &self.gone,
            Heartbeat::LastWithoutAll => {
                self.incomplete[rank].store(true, Ordering::Relaxed);
                &self.gone
            }
        };
        flag[rank].store(true, Ordering::Relaxed);
    }

    /// Finds out who of these is silent.
    pub fn note_silence(&self, ranks: impl Iterator<Item = usize>) {
        for rank in ranks {
            let silent =
                self.silence(rank) > self.limit && !self.done[rank].load(Ordering::Relaxed);
            self.silent[rank].store(silent, Ordering::Relaxed);
        }
    }

    /// How long ago the last heartbeat of a rank came.
    pub fn silence(&self, rank: usize) -> Duration {
        let last = self.last[rank].load(Ordering::Relaxed);
        Duration::from_millis(self.now().saturating_sub(last))
    }

    /// Whether that was longer than the limit when this process last checked, and the rank still has work to do.
    pub fn is_silent(&self, rank: usize) -> bool {
        self.silent[rank].load(Ordering::Relaxed)
    }

    /// Whether a rank has said that it does not go on.
    pub fn is_gone(&self, rank: usize) -> bool {
        self.gone[rank].load(Ordering::Relaxed)
    }

    /// Whether a rank still receives heartbeats, as far as is known.
    pub fn listens(&self, rank: usize) -> bool {
        let done = self.done[rank].load(Ordering::Relaxed);
        !(done || self.is_silent(rank) || self.is_gone(rank))
    }

    /// Whether a rank, or one of its group, will not come to the end of the job, as far as is known.
    pub fn is_missing(&self, rank: usize) -> bool {
        let incomplete = self.incomplete[rank].load(Ordering::Relaxed);
        incomplete || self.is_silent(rank) && !self.is_gone(rank)
    }

    /// Nobody waits for a rank any more.
    pub fn dismiss(&self, rank: usize) {
        self.dismissed[rank].store(true, Ordering::Relaxed);
    }

    /// Whether a rank must still be told so; true only once.
    pub fn take_dismissal(&self, rank: usize) -> bool {
        self.dismissed[rank].swap(false, Ordering::Relaxed)
    }
}
