//! Decides which groups a server listens to.

use crate::recipe::Order;

/// The state of a group, as seen by a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GroupState {
    /// It trains.
    Here,
    /// It has missed its turn for long; no longer waited for, but it may come back.
    Absent,
    /// It has said goodbye and waits for the end of the run.
    Left,
    /// It will never send anything again.
    Lost,
}

/// Decides whose message is taken next.
#[derive(Debug, Clone)]
pub(super) struct Turns {
    order: Order,
    states: Vec<GroupState>,
    /// The group whose turn it is, or that is preferred.
    next: usize,
}

impl Turns {
    /// All groups are here; it is the turn of `next`.
    pub fn new(order: Order, groups: usize, next: usize) -> Self {
        Self {
            order,
            states: vec![GroupState::Here; groups],
            next,
        }
    }

    /// The group whose turn is next, in round-robin order if no group has missed a turn.
    pub fn in_turns(&self) -> Option<usize> {
        let missed = |state: &GroupState| matches!(state, GroupState::Absent | GroupState::Lost);
        let orderly = self.order == Order::RoundRobin && !self.states.iter().any(missed);
        orderly.then_some(self.next)
    }

    /// The groups whose messages would be accepted now, the preferred one first.
    pub fn listened(&self) -> Vec<usize> {
        let count = self.states.len();
        let from_next = (0..count).map(|at| (self.next + at) % count);
        let training =
            from_next.filter(|&g| matches!(self.states[g], GroupState::Here | GroupState::Absent));
        match self.order {
            Order::Arrival => training.collect(),
            Order::RoundRobin => {
                // Absent groups may miss their turn; the first that is here may not.
                let mut listened = Vec::new();
                for group in training {
                    listened.push(group);
                    if self.states[group] == GroupState::Here {
                        break;
                    }
                }
                listened
            }
        }
    }

    /// Records that a group was served; returns whether it had been absent.
    pub fn served(&mut self, group: usize) -> bool {
        let was = std::mem::replace(&mut self.states[group], GroupState::Here);
        self.next = (group + 1) % self.states.len();
        was == GroupState::Absent
    }

    /// Records that a group says goodbye.
    pub fn leaves(&mut self, group: usize) {
        self.states[group] = GroupState::Left;
        self.next = (group + 1) % self.states.len();
    }

    /// Records that a group will never send anything again.
    pub fn loses(&mut self, group: usize) {
        self.states[group] = GroupState::Lost;
    }

    /// After a long silence in round-robin order: stops waiting for the group whose turn it is.
    pub fn gives_up(&mut self) -> Option<usize> {
        let late = match self.order {
            Order::Arrival => None,
            Order::RoundRobin => self.listened().pop(),
        };
        let late = late.filter(|&group| self.states[group] == GroupState::Here)?;
        self.states[late] = GroupState::Absent;
        Some(late)
    }

    /// Whether no group trains any more.
    pub fn over(&self) -> bool {
        let gone = |state: &GroupState| matches!(state, GroupState::Left | GroupState::Lost);
        self.states.iter().all(gone)
    }

    /// Whether a group is lost.
    pub fn is_lost(&self, group: usize) -> bool {
        self.states[group] == GroupState::Lost
    }

    /// Groups that have said goodbye and still listen.
    pub fn left(&self) -> Vec<usize> {
        let all = 0..self.states.len();
        all.filter(|&g| self.states[g] == GroupState::Left)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrival_prefers_who_was_served_longest_ago() {
        let mut turns = Turns::new(Order::Arrival, 3, 0);
        assert_eq!(turns.listened(), [0, 1, 2]);
        turns.served(1);
        assert_eq!(turns.listened(), [2, 0, 1]);
        turns.loses(0);
        turns.leaves(2);
        assert_eq!((turns.listened(), turns.left()), (vec![1], vec![2]));
        assert_eq!(turns.gives_up(), None);
        turns.leaves(1);
        assert!(turns.over() && turns.is_lost(0) && !turns.is_lost(1));
    }

    #[test]
    fn round_robin_waits_for_one_unless_it_is_absent() {
        let mut turns = Turns::new(Order::RoundRobin, 3, 0);
        assert_eq!((turns.listened(), turns.in_turns()), (vec![0], Some(0)));
        turns.served(0);
        assert_eq!(turns.listened(), [1]);
        assert_eq!(turns.in_turns(), Some(1));
        assert_eq!(turns.gives_up(), Some(1));
        assert_eq!(turns.in_turns(), None);
        // Group 1 may come back at its turn, but does not hold up the others.
        assert_eq!(turns.listened(), [1, 2]);
        turns.served(2);
        assert_eq!(turns.listened(), [0]);
        turns.served(0);
        assert!(turns.served(1));
        assert_eq!(turns.listened(), [2]);
        turns.leaves(2);
        assert_eq!(turns.listened(), [0]);
        for group in [0, 1] {
            assert_eq!(turns.gives_up(), Some(group));
        }
        assert!(!turns.over() && turns.gives_up().is_none());
    }
}
