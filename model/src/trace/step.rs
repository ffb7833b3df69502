//! The tape of a training step from shapes alone.

use super::{Event, Trace};
use crate::storage::{Recompute, Storage};
use std::collections::HashMap;
use std::ops::Range;

/// The tape of a training step as it grows and shrinks.
pub(super) struct Step<'a> {
    trace: &'a Trace,
    recompute: Recompute,
    /// Bytes of a value as it is computed, and as it is kept.
    computed: u64,
    kept: u64,
    /// How often the tape holds a tensor.
    held: HashMap<usize, usize>,
    now: u64,
    /// The most bytes of activations and their gradients so far.
    pub peak: u64,
}

impl<'a> Step<'a> {
    pub fn new(trace: &'a Trace, storage: &Storage) -> Self {
        let (computed, kept) = storage.value_bytes();
        Self {
            trace,
            recompute: storage.recompute,
            computed,
            kept,
            held: HashMap::new(),
            now: 0,
            peak: 0,
        }
    }
}

impl Step<'_> {
    fn values(&self, id: usize) -> u64 {
        self.trace.nodes[id].values
    }

    fn gate(&self, id: usize) -> u64 {
        if self.kept < self.computed {
            self.values(id).div_ceil(8)
        } else {
            0
        }
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

    fn keep(&mut self, id: usize, block: usize) {
        if !self.is_made_again(id, block) {
            let count = self.held.entry(id).or_default();
            *count += 1;
            if *count == 1 {
                self.now += self.kept * self.trace.nodes[id].values;
            }
        }
        self.peak = self.peak.max(self.now);
    }

    fn release(&mut self, id: usize, block: usize) {
        if self.is_made_again(id, block) {
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
        self.now += self.computed * self.values(id);
        self.peak = self.peak.max(self.now);
    }

    fn release_input(&mut self, id: usize, block: usize) {
        if self.kept == self.computed {
            return self.release(id, block);
        }
        self.now -= self.computed * self.values(id);
    }

    /// What an operation holds beside the tape: the gradients of what it read and gave, and what it read if the tape does not hold
    /// that as it is needed.
    fn work(&mut self, parts: &[usize], y: usize, block: usize) {
        let again = |&x: &usize| self.is_made_again(x, block) || self.kept < self.computed;
        let values = |x: usize| if again(&x) { 2 } else { 1 } * self.values(x);
        let read: u64 = parts.iter().map(|&x| values(x)).sum();
        self.peak = (self.peak).max(self.now + self.computed * (read + self.values(y)));
    }

    pub fn forward(&mut self, range: Range<usize>, block: usize) {
        let mut at = range.start;
        while at < range.end {
            match &self.trace.events[at] {
                Event::Keep(id) => self.keep(*id, block),
                Event::Bytes(bytes) => self.now += bytes,
                Event::Gate(id) => self.now += self.gate(*id),
                Event::Open(inputs, end) if self.recompute == Recompute::Blocks => {
                    inputs.iter().for_each(|id| self.keep_input(*id, block));
                    at = *end;
                }
                _ => {}
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
                Event::Layer(parts, y) => self.work(parts, *y, block),
                Event::Close if self.recompute == Recompute::Blocks => {
                    let Some(index) = opened.iter().position(|&(_, end)| end == at) else {
                        continue;
                    };
                    let (start, end) = opened[index];
                    if let Event::Open(inputs, _) = &self.trace.events[start] {
                        inputs.iter().for_each(|id| self.release_input(*id, block));
                    }
                    self.forward(start + 1..end, index + 1);
                    self.backward(start + 1..end, index + 1);
                    at = start;
                }
                _ => {}
            }
        }
    }
}
