//! The memory of a training step, from shapes alone: the tape as it grows and shrinks, and the gradients of activations
//! that are alive with it.

use super::{Concatenated, Event, Reads, Trace};
use crate::ops::Convolution;
use crate::storage::{Recompute, Storage};
use candle_core::DType;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// The network's input: its caller holds it, and its gradient is not computed.
const INPUT: usize = 0;

/// The memory state of a simulated training step.
pub(super) struct Step<'a> {
    trace: &'a Trace,
    storage: &'a Storage,
    /// Workspace bytes of a running convolution in a data type.
    working: &'a dyn Fn(&Convolution, DType) -> u64,
    recompute: Recompute,
    /// Bytes of a value as computed.
    computed_size: u64,
    /// Bytes of a value as kept on the tape.
    kept_size: u64,
    /// Number of tape entries that share a tensor.
    references: HashMap<usize, usize>,
    /// Tensors whose gradient is waiting for the backward pass of the layer that made them.
    gradients: HashSet<usize>,
    /// Current bytes of activations and their gradients.
    now: u64,
    /// Peak of [`Self::now`] and of temporary memory beside it.
    pub peak: u64,
}

impl<'a> Step<'a> {
    pub fn new(
        trace: &'a Trace,
        storage: &'a Storage,
        working: &'a dyn Fn(&Convolution, DType) -> u64,
    ) -> Self {
        let (computed_size, kept_size) = storage.value_bytes();
        Self {
            trace,
            storage,
            working,
            recompute: storage.recompute,
            computed_size,
            kept_size,
            references: HashMap::new(),
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

    fn computed_bytes(&self, id: usize) -> u64 {
        self.computed_size * self.values(id)
    }

    /// Bytes of a tensor's sign bits, which are kept only where its values are rounded.
    fn gate_bytes(&self, id: usize) -> u64 {
        if self.kept_size < self.computed_size {
            self.values(id).div_ceil(8)
        } else {
            0
        }
    }

    /// Peak workspace of a layer's convolutions, which run one after another.
    fn working_bytes(&self, convolutions: &Range<usize>, in_f32: bool) -> u64 {
        let dtype = if in_f32 {
            DType::F32
        } else {
            self.storage.dtype
        };
        let convolutions = self.trace.convolutions[convolutions.clone()].iter();
        convolutions
            .map(|convolution| (self.working)(convolution, dtype))
            .max()
            .unwrap_or(0)
    }

    /// Whether the layer of a row computes in f32 while the others do not.
    fn is_f32(&self, row: usize) -> bool {
        self.storage.is_f32(&self.trace.rows[row].name)
    }

    /// Bytes of the f32 copies that an f32 layer makes of its inputs, outputs or their gradients; the network's input
    /// is f32 already.
    fn f32_bytes(&self, tensors: &[usize]) -> u64 {
        let made = tensors.iter().filter(|&&id| id != INPUT);
        made.map(|&id| 4 * self.values(id)).sum()
    }

    /// Updates the peak for `bytes` of temporary memory beside [`Self::now`].
    fn note_peak(&mut self, bytes: u64) {
        self.peak = self.peak.max(self.now + bytes);
    }

    /// Whether the tape omits a tensor read in this block because it is recomputed.
    fn is_recomputed(&self, id: usize, block: usize) -> bool {
        let node = &self.trace.nodes[id];
        if node.signed && self.kept_size < self.computed_size {
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
        let is_given = id == INPUT && self.kept_size == 4;
        !is_given && !self.is_recomputed(id, block)
    }

    fn keep(&mut self, id: usize, block: usize) {
        if self.is_kept(id, block) {
            let count = self.references.entry(id).or_default();
            *count += 1;
            if *count == 1 {
                self.now += self.kept_size * self.values(id);
            }
        }
        self.note_peak(0);
    }

    fn release(&mut self, id: usize, block: usize) {
        if !self.is_kept(id, block) {
            return;
        }
        if let Some(count) = self.references.get_mut(&id) {
            *count -= 1;
            if *count == 0 {
                self.references.remove(&id);
                self.now -= self.kept_size * self.values(id);
            }
        }
    }

    /// Keeps a block's input, which is never rounded.
    fn keep_input(&mut self, id: usize, block: usize) {
        if self.kept_size == self.computed_size {
            return self.keep(id, block);
        }
        self.now += self.computed_bytes(id);
        self.note_peak(0);
    }

    fn release_input(&mut self, id: usize, block: usize) {
        if self.kept_size == self.computed_size {
            return self.release(id, block);
        }
        self.now -= self.computed_bytes(id);
    }

    /// Bytes of the inputs that a backward pass must first convert or recompute from the tape.
    fn restored_bytes(&self, parts: &[usize], block: usize) -> u64 {
        let is_restored =
            |id: usize| self.is_recomputed(id, block) || self.kept_size < self.computed_size;
        let parts = parts.iter().copied().filter(|&id| is_restored(id));
        parts.map(|id| self.computed_bytes(id)).sum()
    }

    /// Replays the events of this range, which lie in `block`, in forward order.
    pub fn forward(&mut self, range: Range<usize>, block: usize) {
        let mut at = range.start;
        while at < range.end {
            match &self.trace.events[at] {
                Event::Keep(id) => self.keep(*id, block),
                Event::Bytes(bytes) => self.now += bytes,
                Event::Gate(id) => self.now += self.gate_bytes(*id),
                Event::Layer {
                    inputs,
                    output,
                    convolutions,
                    row,
                    ..
                } => {
                    inputs.iter().for_each(|&id| self.keep(id, block));
                    let in_f32 = self.is_f32(*row);
                    let working = self.working_bytes(convolutions, in_f32);
                    let restored = self.restored_bytes(inputs, block);
                    let copies = if in_f32 {
                        self.f32_bytes(inputs) + self.f32_bytes(&[*output])
                    } else {
                        0
                    };
                    let summed = self.trace.nodes[*output].summed;
                    let made = self.computed_bytes(*output) * if summed { 2 } else { 1 };
                    self.note_peak(restored + copies + made + working);
                }
                Event::Op { output, .. } => self.note_peak(self.computed_bytes(*output)),
                Event::Open { inputs, end } if self.recompute == Recompute::Blocks => {
                    inputs.iter().for_each(|id| self.keep_input(*id, block));
                    at = *end;
                }
                Event::Open { .. } | Event::Close | Event::Read(_) | Event::Hold(_) => {}
            }
            at += 1;
        }
    }

    /// Replays the events of this range, which lie in `block`, in reverse order; recomputed blocks are first replayed
    /// forward.
    pub fn backward(&mut self, range: Range<usize>, block: usize) {
        // Blocks are numbered in the order in which they open and are never nested.
        let mut opened: Vec<(usize, usize)> = Vec::new();
        for (at, event) in self.trace.events[range.clone()].iter().enumerate() {
            if let Event::Open { end, .. } = event {
                opened.push((range.start + at, *end));
            }
        }
        let mut at = range.end;
        while at > range.start {
            at -= 1;
            match &self.trace.events[at] {
                Event::Keep(id) => self.release(*id, block),
                Event::Bytes(bytes) => self.now -= bytes,
                Event::Gate(id) => self.now -= self.gate_bytes(*id),
                Event::Layer {
                    inputs,
                    output,
                    reads,
                    convolutions,
                    row,
                } => {
                    let in_f32 = self.is_f32(*row);
                    let mut working = self.working_bytes(convolutions, in_f32);
                    if in_f32 {
                        // f32 copies of the inputs, reused for their gradients, and of the output's gradient.
                        working += self.f32_bytes(inputs) + self.f32_bytes(&[*output]);
                    }
                    self.backward_layer(at, (inputs, *output), (*reads, working), block);
                }
                Event::Op { inputs, output } => self.backward_op(inputs, *output),
                Event::Close if self.recompute == Recompute::Blocks => {
                    let Some(index) = opened.iter().position(|&(_, end)| end == at) else {
                        continue;
                    };
                    let (start, end) = opened[index];
                    self.forward(start + 1..end, index + 1);
                    if let Event::Open { inputs, .. } = &self.trace.events[start] {
                        inputs.iter().for_each(|id| self.release_input(*id, block));
                    }
                    self.backward(start + 1..end, index + 1);
                    at = start;
                }
                Event::Open { .. } | Event::Close | Event::Read(_) | Event::Hold(_) => {}
            }
        }
    }

    /// Replays the backward pass of the layer at event `at`.
    fn backward_layer(
        &mut self,
        at: usize,
        (parts, y): (&[usize], usize),
        (reads, working): (Reads, u64),
        block: usize,
    ) {
        let dy = self.take_gradient(y);
        let (restored, through) = (
            self.restored_bytes(parts, block),
            self.input_gradient_bytes(parts),
        );
        let read = at.checked_sub(1).map(|before| &self.trace.events[before]);
        let read = match read {
            Some(Event::Read(id)) => Some((*id, self.trace.nodes[*id].concatenated)),
            _ => None,
        };
        let copied = match read {
            Some((id, Some(Concatenated { in_backward: true }))) => self.computed_bytes(id),
            _ => 0,
        };
        let beside = dy + copied + working;
        match reads {
            Reads::First => {
                self.note_peak(beside + restored);
                parts.iter().for_each(|&id| self.release(id, block));
                self.note_peak(beside + through);
            }
            Reads::Throughout => {
                self.note_peak(beside + restored + through);
                parts.iter().for_each(|&id| self.release(id, block));
            }
        }
        self.add_gradients(parts, through);
        // The tensor that the layer added has the same gradient.
        if let Some((id, None)) = read {
            self.add_gradients(&[id], dy);
        }
    }

    /// Replays the backward pass of an operation.
    fn backward_op(&mut self, parts: &[usize], y: usize) {
        if self.trace.nodes[y].concatenated.is_some() {
            return;
        }
        let (dy, through) = (self.take_gradient(y), self.input_gradient_bytes(parts));
        self.note_peak(dy + through);
        self.add_gradients(parts, through);
    }

    /// Removes the gradient of a layer's output, freed once the layer's backward pass is done, and returns its bytes.
    fn take_gradient(&mut self, y: usize) -> u64 {
        let dy = self.computed_bytes(y);
        if self.gradients.remove(&y) {
            self.now -= dy;
        }
        dy
    }

    /// Bytes of the gradients of a layer's inputs.
    fn input_gradient_bytes(&self, parts: &[usize]) -> u64 {
        let parts = parts.iter().filter(|&&id| id != INPUT);
        parts.map(|&id| self.computed_bytes(id)).sum()
    }

    /// Adds the gradients of `parts`, `through` bytes in total, to the waiting ones. The first gradient of a tensor is
    /// stored as it is; a second is added to it in newly allocated memory.
    fn add_gradients(&mut self, parts: &[usize], through: u64) {
        let (known, fresh): (Vec<usize>, Vec<usize>) = (parts.iter().copied())
            .filter(|&id| id != INPUT)
            .partition(|id| self.gradients.contains(id));
        for id in known {
            self.note_peak(through + self.computed_bytes(id));
        }
        for id in fresh {
            self.gradients.insert(id);
            self.now += self.computed_bytes(id);
        }
    }
}
