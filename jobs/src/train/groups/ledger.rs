//! Assigns steps to groups: every step of the run is done once, even if groups are slow or lost.

use std::collections::BTreeSet;

/// Steps assigned, done, and returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ledger {
    total: u64,
    /// The first step that was never assigned.
    next: u64,
    /// Steps that were assigned and returned undone.
    returned: BTreeSet<u64>,
    held: Vec<BTreeSet<u64>>,
    done: u64,
    closed: bool,
}

impl Ledger {
    /// A ledger of steps `0..total` for this many groups. `done` of them are done; those in `pending` are not, although
    /// later ones may be.
    pub fn new(total: u64, groups: usize, done: u64, pending: &[u64]) -> Self {
        Self {
            total,
            next: (done + pending.len() as u64).min(total),
            returned: pending
                .iter()
                .copied()
                .filter(|&step| step < total)
                .collect(),
            held: vec![BTreeSet::new(); groups],
            done,
            closed: false,
        }
    }

    /// Records that groups already have these steps, which were pending.
    pub fn hold(&mut self, held: &[Vec<u64>]) {
        for (mine, steps) in self.held.iter_mut().zip(held) {
            let returned = &mut self.returned;
            mine.extend(steps.iter().filter(|step| returned.remove(step)));
        }
    }

    /// The steps that each group has.
    pub fn held(&self) -> Vec<Vec<u64>> {
        let steps = self.held.iter();
        steps.map(|held| held.iter().copied().collect()).collect()
    }

    /// The next step for a group; `None` if there are no more.
    pub fn issue(&mut self, group: usize) -> Option<u64> {
        if self.closed {
            return None;
        }
        let step = self.returned.pop_first().or_else(|| {
            (self.next < self.total).then(|| {
                self.next += 1;
                self.next - 1
            })
        })?;
        self.held[group].insert(step);
        Some(step)
    }

    /// Records that a group has done a step.
    pub fn finish(&mut self, group: usize, step: u64) {
        if self.held[group].remove(&step) {
            self.done += 1;
        }
    }

    /// Returns a group's steps, so that others may have them.
    pub fn give_back(&mut self, group: usize) {
        let held = std::mem::take(&mut self.held[group]);
        self.returned.extend(held);
    }

    /// Stops assigning steps.
    pub fn close(&mut self) {
        self.closed = true;
    }

    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether a group without steps may still get one, because another group has some and may be lost.
    pub fn waits(&self, group: usize) -> bool {
        !self.closed && self.held[group].is_empty() && self.done < self.total
    }

    pub fn done(&self) -> u64 {
        self.done
    }

    pub fn is_complete(&self) -> bool {
        self.done >= self.total
    }

    /// Steps that were assigned but are not done.
    pub fn pending(&self) -> Vec<u64> {
        let held = self.held.iter().flatten();
        let all: BTreeSet<u64> = held.chain(&self.returned).copied().collect();
        all.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_done_once_whoever_is_lost() {
        let mut ledger = Ledger::new(6, 2, 0, &[]);
        let issued: Vec<_> = [0, 1, 0, 1].map(|group| ledger.issue(group)).into();
        assert_eq!(issued, [Some(0), Some(1), Some(2), Some(3)]);
        ledger.finish(1, 1);
        assert_eq!(ledger.pending(), [0, 2, 3]);
        ledger.give_back(0);
        // What a lost group sends late counts no more.
        ledger.finish(0, 0);
        assert_eq!(ledger.done(), 1);
        let mut rest = vec![];
        while let Some(step) = ledger.issue(1) {
            rest.push(step);
        }
        assert_eq!(rest, [0, 2, 4, 5]);
        for step in [3, 0, 2, 4, 5] {
            ledger.finish(1, step);
        }
        assert!(ledger.is_complete() && ledger.pending().is_empty());
    }

    #[test]
    fn a_run_goes_on_with_what_was_pending() {
        let mut ledger = Ledger::new(8, 1, 4, &[2]);
        assert_eq!(ledger.issue(0), Some(2));
        assert_eq!(ledger.issue(0), Some(5));
        ledger.close();
        assert_eq!(ledger.issue(0), None);
        assert_eq!((ledger.done(), ledger.pending()), (4, vec![2, 5]));
    }

    #[test]
    fn groups_keep_the_steps_that_they_had() {
        let mut before = Ledger::new(9, 2, 0, &[]);
        (0..4).for_each(|step| assert_eq!(before.issue(step % 2), Some(step as u64)));
        before.finish(0, 0);
        assert_eq!(before.issue(0), Some(4));
        assert_eq!(before.held(), [vec![2, 4], vec![1, 3]]);
        let mut after = Ledger::new(9, 2, before.done(), &before.pending());
        after.hold(&before.held());
        assert_eq!(after, before);
        assert_eq!(after.issue(1), Some(5));
    }
}
