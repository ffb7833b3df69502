//! What is unknown: times at which a side has no mask, and missing cells.

use super::pair::Pair;
use crate::plan::counted;
use squall_climate::Event;
use squall_data::Time;
use std::collections::HashSet;

/// What is missing on one side or both, over the common times.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    /// Number of times at which a side has only missing values.
    pub times_without_mask: usize,
    /// Number of cells that are missing on one side at the other times.
    missing_cells: usize,
    /// Number of all cells at these times.
    cells: usize,
    /// The times with such cells.
    partial: HashSet<Time>,
    /// The events in the known cells of the masks at these times, predicted and true.
    known: [Vec<Event>; 2],
}

impl Gaps {
    /// Counts the missing cells of a time; whether there are any.
    pub fn add(&mut self, pair: &Pair) -> bool {
        let missing = pair.missing_cells();
        self.cells += pair.label.codes.len();
        self.missing_cells += missing;
        if missing > 0 {
            self.partial.insert(pair.label.time);
        }
        missing > 0
    }

    /// Adds the events of a side at a time with missing cells.
    pub fn add_known(&mut self, side: usize, events: &[Event]) {
        self.known[side].extend_from_slice(events);
    }

    /// Share of the cells that are missing on one side, 0 to 1.
    pub fn missing_share(&self) -> f64 {
        self.missing_cells as f64 / self.cells.max(1) as f64
    }

    /// Says what is not scored; `has_table` if a side lists its events.
    pub fn say(&self, has_table: bool) {
        if self.times_without_mask > 0 {
            tracing::warn!(
                "left out: {} at which a side has only missing values",
                counted(self.times_without_mask, "time")
            );
        }
        if self.missing_cells > 0 {
            let percent = 100.0 * self.missing_share();
            tracing::warn!("left out: {percent:.3} % of the cells, missing on one side");
        }
        if has_table && !self.partial.is_empty() {
            tracing::warn!(
                "at {} with missing cells, events are made from the cells of the masks that both sides know, not taken from tables; tracks are those of the tables, in missing cells, too",
                counted(self.partial.len(), "time")
            );
        }
    }

    /// Replaces the events of both sides at times with missing cells: tables list events without regard to what the
    /// other side knows.
    pub fn replace_unknown(self, events: [Vec<Event>; 2]) -> [Vec<Event>; 2] {
        let Self { partial, known, .. } = self;
        let [predicted, real] = events.map(|mut events| {
            events.retain(|event| !partial.contains(&event.time));
            events
        });
        let [known_predicted, known_real] = known;
        [
            [predicted, known_predicted].concat(),
            [real, known_real].concat(),
        ]
    }
}
