//! The values that inference holds at once, from shapes alone: each tensor lives from the operation that makes it to
//! the last that reads it.

use super::{Event, Trace};
use crate::storage::Storage;

/// Values that inference of one sample holds at once, without the network's input and its logits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Live {
    /// The most at any operation, if nothing is computed in strips.
    pub whole_field: u64,
    /// The most at any operation before the part that can be computed in strips.
    pub before_strips: u64,
    /// How many the part in strips is given.
    pub kept_for_strips: u64,
    /// The most that the part in strips makes beside those, if one strip is the whole field.
    pub in_strips: u64,
}

impl Trace {
    /// Whether inference can compute the last part in strips.
    pub fn has_strips(&self) -> bool {
        self.strips_from.is_some()
    }

    /// How many values of the storage's data type inference of one sample holds at once.
    pub fn live_values(&self, storage: &Storage) -> Live {
        let size = storage.dtype.size_in_bytes() as u64;
        // A layer that stays in f32 copies what it reads; the network's input is f32 already.
        let copied = |event: &Event| match event {
            Event::Layer { inputs, row, .. } if storage.is_f32(&self.rows[*row].name) => {
                let read = inputs.iter().filter(|&&id| id > 0);
                read.map(|&id| self.nodes[id].values * 4 / size).sum()
            }
            _ => 0,
        };
        let ends = self.last_reads();
        let from = self.strips_from.unwrap_or(self.inferred().len());
        let mut held = vec![false; self.nodes.len()];
        let (mut now, mut given) = (0, 0);
        let mut live = Live::default();
        for (at, event) in self.inferred().iter().enumerate() {
            if at == from {
                (given, live.kept_for_strips) = (now, now);
            }
            if let Event::Layer { output, .. } | Event::Op { output, .. } = event {
                let y = self.owner(*output);
                // The input is counted by who gives it.
                if !held[y] && y > 0 {
                    held[y] = true;
                    now += self.nodes[y].values;
                }
                let summed = self.nodes[*output].summed;
                let so_far = u64::from(summed) * self.nodes[*output].values;
                let most: u64 = now + copied(event) + so_far;
                live.whole_field = live.whole_field.max(most);
                if at < from {
                    live.before_strips = live.before_strips.max(most);
                } else {
                    live.in_strips = live.in_strips.max(most.saturating_sub(given));
                }
            }
            for &id in &ends[at] {
                if std::mem::take(&mut held[id]) {
                    now -= self.nodes[id].values;
                }
            }
        }
        live
    }

    /// The tensor in whose memory inference has this one.
    fn owner(&self, mut id: usize) -> usize {
        while let Some(other) = self.nodes[id].fused_with {
            id = other;
        }
        id
    }

    /// After every event the tensors that nobody reads any more.
    fn last_reads(&self) -> Vec<Vec<usize>> {
        let mut last = vec![None; self.nodes.len()];
        let (mut opened, mut held): (Vec<(usize, &[usize])>, &[usize]) = (Vec::new(), &[]);
        let mut beside = Vec::new();
        for (at, event) in self.inferred().iter().enumerate() {
            match event {
                Event::Layer { inputs, output, .. } | Event::Op { inputs, output } => {
                    for id in inputs
                        .iter()
                        .copied()
                        .chain([*output])
                        .chain(beside.drain(..))
                    {
                        last[self.owner(id)] = Some(at);
                    }
                }
                Event::Read(id) => beside.push(*id),
                Event::Hold(inputs) => held = inputs,
                Event::Open { end, .. } => opened.push((*end, std::mem::take(&mut held))),
                Event::Close => {
                    let index = opened.iter().position(|&(end, _)| end == at);
                    let (_, inputs) = opened.swap_remove(index.expect("a block closes once"));
                    for &id in inputs {
                        last[self.owner(id)] = last[self.owner(id)].max(Some(at));
                    }
                }
                Event::Keep(_) | Event::Bytes(_) | Event::Gate(_) => {}
            }
        }
        let mut ends = vec![Vec::new(); self.inferred().len()];
        for (id, at) in last.into_iter().enumerate() {
            if let Some(at) = at {
                ends[at].push(id);
            }
        }
        ends
    }
}
