//! Rows of events that wait until their track is decided.

use crate::events::Event;
use crate::track::Tracker;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};

/// Holds rows back while it is not known whether their track will be listed, and gives them out in the order in which
/// they came, once and for all.
///
/// A track is decided at the latest one shortest duration and one gap after it began (three or four days with the
/// defaults), or 30 days where it must reach a wind or a distance, so that no more than the rows of that time wait.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ledger {
    waiting: VecDeque<Event>,
    /// Identities of tracks too short to be listed, while rows of theirs wait.
    discarded: BTreeSet<u64>,
}

impl Ledger {
    /// Takes the events of a time, after the tracker has, and gives out what is decided.
    pub fn add(&mut self, events: Vec<Event>, tracker: &Tracker, discarded: &[u64]) -> Vec<Event> {
        self.waiting.extend(events);
        self.discarded.extend(discarded);
        let undecided: BTreeSet<u64> = tracker.undecided().collect();
        let waits = |event: &Event| event.track_id.is_some_and(|id| undecided.contains(&id));
        let ready = self
            .waiting
            .iter()
            .take_while(|event| !waits(event))
            .count();
        self.give(ready)
    }

    /// Gives out the rest.
    pub fn finish(mut self, discarded: &[u64]) -> Vec<Event> {
        self.discarded.extend(discarded);
        self.give(self.waiting.len())
    }

    /// Number of rows that wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    fn give(&mut self, count: usize) -> Vec<Event> {
        let mut given: Vec<Event> = self.waiting.drain(..count).collect();
        for event in &mut given {
            event.track_id = event.track_id.filter(|id| !self.discarded.contains(id));
        }
        if count > 0 && !self.discarded.is_empty() {
            let waiting: BTreeSet<u64> = self.waiting.iter().filter_map(|e| e.track_id).collect();
            self.discarded.retain(|id| waiting.contains(id));
        }
        given
    }
}
