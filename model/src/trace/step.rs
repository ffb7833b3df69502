//! What a training step holds, from shapes alone: the tape as it grows and shrinks, and the gradients of activations
//! beside it.

use super::{Event, Joined, Reads, Trace};
use crate::ops::Convolution;
use crate::storage::{Recompute, Storage};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// The network's input: whoever gives it holds it, and nobody asks for its gradient.
const INPUT: usize = 0;

/// The tensors of a training step.
pub(super) struct Step<'a> {
    trace: &'a Trace,
    /// Bytes that a convolution holds while it runs.
    working: &'a dyn Fn(&Convolution) -> u64,
    recompute: Recompute,
    /// Bytes of a value as it is computed, and as it is kept.
    computed: u64,
    kept: u64,
    /// How often the tape holds a tensor.
    held: HashMap<usize, usize>,
    /// Tensors whose gradients wait for the layer that gave them.
    gradients: HashSet<usize>,
    now: u64,
    /// The most bytes of activations and their gradients so far.
    pub peak: u64,
}

impl<'a> Step<'a> {
    pub fn new(
        trace: &'a Trace,
        storage: &Storage,
        working: &'a dyn Fn(&Convolution) -> u64,
    ) -> Self {
        let (computed, kept) = storage.value_bytes();
        Self {
            trace,
            working,
            recompute: storage.recompute,
            computed,
            kept,
            held: HashMap::new(),
            gradients: HashSet::new(),
            now: 0,
            peak: 0,
        }
    }
}

impl Step<'_> {
    fn values(&self, id: usize) -> u64 {
        self.trace.nodes[id].values
    }

    fn computed(&self, id: usize) -> u64 {
        self.computed * self.values(id)
    }

    fn gate(&self, id: usize) -> u64 {
        if self.kept < self.computed {
            self.values(id).div_ceil(8)
        } else {
            0
        }
    }

    /// Bytes that the convolutions of a layer hold while they run, one after another.
    fn working(&self, convolutions: &Range<usize>) -> u64 {
        let convolutions = self.trace.convolutions[convolutions.clone()].iter();
        convolutions.map(self.working).max().unwrap_or(0)
    }

    /// This much is held beside what is held anyway.
    fn beside(&mut self, bytes: u64) {
        self.peak = self.peak.max(self.now + bytes);
    }

    /// Whether the tape does without a tensor that is read in this block.
    fn is_made_again(&self, id: usize, block: usize) -> bool {
        let node = &self.trace.nodes[id];
        if node.signed && self.kept < self.computed {
            return false;
        }
        match self.recompute {
            Recompute::None => false,
            Recompute::Norms => node.normed.is_some(),
            Recompute::Blocks => node.normed == Some(block),
        }
    }

    /// Whether the tape holds a tensor in memory of its own.
    fn is_kept(&self, id: usize, block: usize) -> bool {
        let is_given = id == INPUT && self.kept == 4;
        !is_given && !self.is_made_again(id, block)
    }

    fn keep(&mut self, id: usize, block: usize) {
        if self.is_kept(id, block) {
            let count = self.held.entry(id).or_default();
            *count += 1;
            if *count == 1 {
                self.now += self.kept * self.values(id);
            }
        }
        self.beside(0);
    }

    fn release(&mut self, id: usize, block: usize) {
        if !self.is_kept(id, block) {
            return;
        }
        if let Some(count) = self.held.get_mut(&id) {
            *count -= 1;
            if *count == 0 {
                self.held.remove(&id);
                self.now -= self.kept * self.values(id);
            }
        }
    }

    /// A block's input, which is never rounded.
    fn keep_input(&mut self, id: usize, block: usize) {
        if self.kept == self.computed {
            return self.keep(id, block);
        }
        self.now += self.computed(id);
        self.beside(0);
    }

    fn release_input(&mut self, id: usize, block: usize) {
        if self.kept == self.computed {
            return self.release(id, block);
        }
        self.now -= self.computed(id);
    }

    /// What an operation reads in memory of its own, because the tape does not hold it as it is needed.
    fn restored(&self, parts: &[usize], block: usize) -> u64 {
        let is_restored = |id: usize| self.is_made_again(id, block) || self.kept < self.computed;
        let parts = parts.iter().copied().filter(|&id| is_restored(id));
        parts.map(|id| self.computed(id)).sum()
    }

    pub fn forward(&mut self, range: Range<usize>, block: usize) {
        let mut at = range.start;
        while at < range.end {
            match &self.trace.events[at] {
                Event::Keep(id) => self.keep(*id, block),
                Event::Bytes(bytes) => self.now += bytes,
                Event::Gate(id) => self.now += self.gate(*id),
                Event::Layer(parts, y, _, convolutions) => {
                    parts.iter().for_each(|&id| self.keep(id, block));
                    let working = self.working(convolutions);
                    self.beside(self.restored(parts, block) + self.computed(*y) + working);
                }
                Event::Op(_, y) => self.beside(self.computed(*y)),
                Event::Open(inputs, end) if self.recompute == Recompute::Blocks => {
                    inputs.iter().for_each(|id| self.keep_input(*id, block));
                    at = *end;
                }
                Event::Open(..) | Event::Close | Event::Read(_) | Event::Hold(_) => {}
            }
            at += 1;
        }
    }

    pub fn backward(&mut self, range: Range<usize>, block: usize) {
        // Blocks are numbered in the order in which they open, and are not inside each other.
        let mut opened: Vec<(usize, usize)> = Vec::new();
        for (at, event) in self.trace.events[range.clone()].iter().enumerate() {
            if let Event::Open(_, end) = event {
                opened.push((range.start + at, *end));
            }
        }
        let mut at = range.end;
        while at > range.start {
            at -= 1;
            match &self.trace.events[at] {
                Event::Keep(id) => self.release(*id, block),
                Event::Bytes(bytes) => self.now -= bytes,
                Event::Gate(id) => self.now -= self.gate(*id),
                Event::Layer(parts, y, reads, convolutions) => {
                    let working = self.working(convolutions);
                    self.turn_layer(at, (parts, *y), (*reads, working), block);
                }
                Event::Op(parts, y) => self.turn_op(parts, *y),
                Event::Close if self.recompute == Recompute::Blocks => {
                    let Some(index) = opened.iter().position(|&(_, end)| end == at) else {
                        continue;
                    };
                    let (start, end) = opened[index];
                    self.forward(start + 1..end, index + 1);
                    if let Event::Open(inputs, _) = &self.trace.events[start] {
                        inputs.iter().for_each(|id| self.release_input(*id, block));
                    }
                    self.backward(start + 1..end, index + 1);
                    at = start;
                }
                Event::Open(..) | Event::Close | Event::Read(_) | Event::Hold(_) => {}
            }
        }
    }

    /// The backward pass of a layer.
    fn turn_layer(
        &mut self,
        at: usize,
        (parts, y): (&[usize], usize),
        (reads, working): (Reads, u64),
        block: usize,
    ) {
        let dy = self.take(y);
        let (restored, through) = (self.restored(parts, block), self.through(parts));
        let read = at.checked_sub(1).map(|before| &self.trace.events[before]);
        let read = match read {
            Some(Event::Read(id)) => Some((*id, self.trace.nodes[*id].joined)),
            _ => None,
        };
        let copied = match read {
            Some((id, Some(Joined { both_ways: true }))) => self.computed(id),
            _ => 0,
        };
        let beside = dy + copied + working;
        match reads {
            Reads::First => {
                self.beside(beside + restored);
                parts.iter().for_each(|&id| self.release(id, block));
                self.beside(beside + through);
            }
            Reads::Throughout => {
                self.beside(beside + restored + through);
                parts.iter().for_each(|&id| self.release(id, block));
            }
        }
        self.land(parts, through);
        // What the layer added gets the same gradient.
        if let Some((id, None)) = read {
            self.land(&[id], dy);
        }
    }

    /// The backward pass of an operation.
    fn turn_op(&mut self, parts: &[usize], y: usize) {
        if self.trace.nodes[y].joined.is_some() {
            return;
        }
        let (dy, through) = (self.take(y), self.through(parts));
        self.beside(dy + through);
        self.land(parts, through);
    }

    /// Bytes of the gradient of a layer's output, which goes when the layer is done with it.
    fn take(&mut self, y: usize) -> u64 {
        let dy = self.computed(y);
        if self.gradients.remove(&y) {
            self.now -= dy;
        }
        dy
    }

    /// Bytes of the gradients of a layer's inputs.
    fn through(&self, parts: &[usize]) -> u64 {
        let parts = parts.iter().filter(|&&id| id != INPUT);
        parts.map(|&id| self.computed(id)).sum()
    }

    /// Gradients of this many bytes in all are there: the first of a tensor stays, another is added to it in a third
    /// place.
    fn land(&mut self, parts: &[usize], through: u64) {
        let (known, fresh): (Vec<usize>, Vec<usize>) = (parts.iter().copied())
            .filter(|&id| id != INPUT)
            .partition(|id| self.gradients.contains(id));
        for id in known {
            self.beside(through + self.computed(id));
        }
        for id in fresh {
            self.gradients.insert(id);
            self.now += self.computed(id);
        }
    }
}
