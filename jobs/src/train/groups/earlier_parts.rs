//! Earlier states of a server's part: the first server may be some steps behind and request one of them.

use std::collections::BTreeMap;

/// Earlier states of a server's part as bytes of a file, by each group's number of steps.
///
/// The total number of steps would not identify a state: once a group is lost its steps are no longer counted, so the
/// others reach the same total a second time.
#[derive(Debug, Default)]
pub(super) struct EarlierParts(BTreeMap<Vec<u64>, Vec<u8>>);

impl EarlierParts {
    /// Stores the state after these numbers of steps of each group.
    pub fn keep(&mut self, steps_of: &[u64], part: Vec<u8>) {
        self.0.insert(steps_of.to_vec(), part);
    }

    /// Returns the state after these numbers of steps of each group, if stored. Drops all states with no more steps in
    /// total.
    pub fn take(&mut self, steps_of: &[u64]) -> Option<Vec<u8>> {
        let part = self.0.remove(steps_of);
        let done: u64 = steps_of.iter().sum();
        self.0.retain(|kept, _| kept.iter().sum::<u64>() > done);
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_taken_once_and_earlier_ones_are_dropped() {
        let mut kept = EarlierParts::default();
        for (steps, part) in [([2, 1], 3), ([2, 2], 4), ([3, 3], 6)] {
            kept.keep(&steps, vec![part]);
        }
        assert_eq!(kept.take(&[2, 2]), Some(vec![4]));
        for gone in [[2, 2], [2, 1]] {
            assert_eq!(kept.take(&gone), None);
        }
        assert_eq!(kept.take(&[3, 3]), Some(vec![6]));
        assert!(kept.0.is_empty());
    }

    /// The second group is lost in its fifth step, before the checkpoint of the first ten is asked for.
    #[test]
    fn as_many_steps_of_other_groups_are_another_state() {
        let mut kept = EarlierParts::default();
        kept.keep(&[5, 5], vec![10]);
        assert_eq!(kept.take(&[5, 0]), None);
        // Ten steps in all, but fifteen of the run.
        assert_eq!(kept.take(&[10, 0]), None);
        assert!(kept.0.is_empty());
    }
}
