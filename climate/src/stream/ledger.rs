//! Rows of events held back until their track is decided.

use crate::events::Event;
use crate::track::Tracker;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};

/// Holds rows back while it is unknown whether their track will be listed. Releases them in their original order, after
/// which they never change.
///
/// A track is decided at most one minimum duration and one gap after it started (three or four days with the defaults),
/// or after 30 days if there is a minimum wind or displacement. The ledger therefore never holds more rows than those
/// of that period.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ledger {
    waiting: VecDeque<Event>,
    /// Identities of discarded tracks that still have rows in `waiting`.
    discarded: BTreeSet<u64>,
}

impl Ledger {
    /// Adds the events of a time, after the tracker has processed them, and returns the decided rows.
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
        self.release(ready)
    }

    /// Returns the remaining rows.
    pub fn finish(mut self, discarded: &[u64]) -> Vec<Event> {
        self.discarded.extend(discarded);
        self.release(self.waiting.len())
    }

    /// Number of rows held back.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether no rows are held back.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    fn release(&mut self, count: usize) -> Vec<Event> {
        let mut released: Vec<Event> = self.waiting.drain(..count).collect();
        for event in &mut released {
            event.track_id = event.track_id.filter(|id| !self.discarded.contains(id));
        }
        if count > 0 && !self.discarded.is_empty() {
            let waiting: BTreeSet<u64> = self.waiting.iter().filter_map(|e| e.track_id).collect();
            self.discarded.retain(|id| waiting.contains(id));
        }
        released
    }
}
