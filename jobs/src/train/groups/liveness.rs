//! Tracks which ranks are alive, from their heartbeats.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The content of a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heartbeat {
    /// The rank is alive.
    Lives = 0,
    /// The rank cannot continue; or, from a rank that waits no longer: the receiver must stop.
    Last = 1,
    /// The same, and a rank of its group will not reach the end of the job either.
    LastWithoutAll = 2,
    /// The rank has done all its work and sends no more heartbeats.
    Done = 3,
}

impl Heartbeat {
    pub fn byte(self) -> u8 {
        self as u8
    }

    /// Decodes a byte; an unknown byte of another version still means that the rank is alive.
    pub fn from_byte(byte: u8) -> Self {
        match byte {
            1 => Self::Last,
            2 => Self::LastWithoutAll,
            3 => Self::Done,
            _ => Self::Lives,
        }
    }
}

/// The known state of each rank.
#[derive(Debug)]
pub(super) struct Liveness {
    start: Instant,
    /// Silence beyond this counts.
    pub limit: Duration,
    /// Time of the last heartbeat, in milliseconds since the start.
    last: Vec<AtomicU64>,
    /// Whether that was too long ago when this process last checked; a process that was itself suspended does not know
    /// what arrived meanwhile.
    silent: Vec<AtomicBool>,
    /// Whether it has done all its work.
    done: Vec<AtomicBool>,
    /// Whether it has announced that it cannot continue.
    gone: Vec<AtomicBool>,
    /// Whether it has announced that not all of its group will reach the end of the job.
    incomplete: Vec<AtomicBool>,
    /// Whether it must be informed that no rank waits for it any more.
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

    /// Records a heartbeat of a rank.
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

    /// Checks which of these ranks are silent.
    pub fn note_silence(&self, ranks: impl Iterator<Item = usize>) {
        for rank in ranks {
            let silent =
                self.silence(rank) > self.limit && !self.done[rank].load(Ordering::Relaxed);
            self.silent[rank].store(silent, Ordering::Relaxed);
        }
    }

    /// Time since the last heartbeat of a rank.
    pub fn silence(&self, rank: usize) -> Duration {
        let last = self.last[rank].load(Ordering::Relaxed);
        Duration::from_millis(self.now().saturating_sub(last))
    }

    /// Whether that exceeded the limit when this process last checked, and the rank still has work to do.
    pub fn is_silent(&self, rank: usize) -> bool {
        self.silent[rank].load(Ordering::Relaxed)
    }

    /// Whether a rank has announced that it cannot continue.
    pub fn is_gone(&self, rank: usize) -> bool {
        self.gone[rank].load(Ordering::Relaxed)
    }

    /// Whether a rank is believed to still receive heartbeats.
    pub fn listens(&self, rank: usize) -> bool {
        let done = self.done[rank].load(Ordering::Relaxed);
        !(done || self.is_silent(rank) || self.is_gone(rank))
    }

    /// Whether a rank, or one of its group, is known not to reach the end of the job.
    pub fn is_missing(&self, rank: usize) -> bool {
        let incomplete = self.incomplete[rank].load(Ordering::Relaxed);
        incomplete || self.is_silent(rank) && !self.is_gone(rank)
    }

    /// Marks a rank as no longer waited for.
    pub fn dismiss(&self, rank: usize) {
        self.dismissed[rank].store(true, Ordering::Relaxed);
    }

    /// Whether a rank must still be informed of its dismissal; true only once.
    pub fn take_dismissal(&self, rank: usize) -> bool {
        self.dismissed[rank].swap(false, Ordering::Relaxed)
    }
}
