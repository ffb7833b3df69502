//! Peak number of values that inference holds, from shapes alone. A tensor lives from the operation that makes it to
//! its last reader.

use super::{Event, Trace};
use crate::storage::Storage;

/// The values that inference of one sample holds at its peak, excluding the network's input and logits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Live {
    /// The peak over all operations if nothing is computed in strips.
    pub whole_field: u64,
    /// The peak over the operations before the part that can run in strips.
    pub before_strips: u64,
    /// Values passed to the part that runs in strips.
    pub kept_for_strips: u64,
    /// The peak within that part, excluding its inputs, for one strip that covers the whole field.
    pub in_strips: u64,
}

impl Trace {
    /// Whether inference can compute the last part in strips.
    pub fn has_strips(&self) -> bool {
        self.strips_from.is_some()
    }

    /// The peak number of values, of the storage's data type, for inference of one sample.
    pub fn live_values(&self, storage: &Storage) -> Live {
        let size = storage.dtype.size_in_bytes() as u64;
        // An f32 layer copies its inputs to f32; the network's input is f32 already.
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
                // The caller counts the network's input.
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

    /// The tensor whose memory inference reuses for this one.
    fn owner(&self, mut id: usize) -> usize {
        while let Some(other) = self.nodes[id].fused_with {
            id = other;
        }
        id
    }

    /// For every event, the tensors that no later event reads.
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
