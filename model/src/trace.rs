//! A network's tensors from shapes alone: what its tape would hold, and the most that a training step holds at once.
//!
//! Layers tell a trace what they would do with a [`crate::pass::Pass`]; the two must say the same.

use crate::error::Result;
use crate::ops::ConvSpec;
use crate::storage::{Recompute, Storage};
use crate::summary::Row;
use std::collections::HashMap;
use std::ops::Range;

/// A tensor that would be: its shape, and which one it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flow {
    pub shape: [usize; 4],
    id: usize,
}

/// What a trace knows of a tensor.
#[derive(Debug, Clone)]
struct Node {
    values: u64,
    /// A normalisation gives it, inside this block (0: outside of all): the backward pass can apply it again there.
    normed: Option<usize>,
    /// Its sign is needed as it was.
    signed: bool,
}

#[derive(Debug, Clone)]
enum Event {
    /// The tape keeps a tensor.
    Keep(usize),
    /// The tape keeps so many bytes of something else.
    Bytes(u64),
    /// The tape keeps a bit of every value, if it rounds the values themselves.
    Gate(usize),
    /// A layer turns one tensor into another: on the way back it holds the gradients of both.
    Layer(usize, usize),
    /// A block of as many inputs, and where it ends.
    Open(Vec<usize>, usize),
    Close,
}

/// A convolution from x to y; of a transposed one, the convolution that it transposes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Convolution {
    /// Its geometry.
    pub spec: ConvSpec,
    /// Shape of what it reads.
    pub x: [usize; 4],
    /// Shape of what it gives.
    pub y: [usize; 4],
}

/// Collects costs while shapes flow through a network.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trace {
    pub rows: Vec<Row>,
    /// Of the rows' outputs.
    pub values: u64,
    /// In forward order.
    pub convolutions: Vec<Convolution>,
    /// The rows before and after which inference can compute in strips.
    pub last_from: Option<usize>,
    nodes: Vec<Node>,
    events: Vec<Event>,
    /// Blocks so far, and the one that is open.
    blocks: usize,
    open: usize,
}

impl Trace {
    /// A tensor that an operation without costs gives.
    pub fn tensor(&mut self, shape: [usize; 4]) -> Flow {
        let values = shape.iter().map(|&n| n as u64).product();
        self.nodes.push(Node {
            values,
            normed: None,
            signed: false,
        });
        Flow {
            shape,
            id: self.nodes.len() - 1,
        }
    }

    /// From here on inference can compute in strips.
    pub fn begin_last(&mut self) {
        self.last_from = Some(self.rows.len());
    }

    /// Channels side by side.
    pub fn concat(&mut self, parts: &[Flow]) -> Flow {
        let [b, h, w, _] = parts.first().map_or([0; 4], |part| part.shape);
        let channels = parts.iter().map(|part| part.shape[3]).sum();
        self.tensor([b, h, w, channels])
    }

    /// The tape keeps x.
    pub fn keep(&mut self, x: Flow) {
        self.events.push(Event::Keep(x.id));
    }

    /// The tape keeps the signs of y where it rounds values.
    pub fn keep_gate(&mut self, y: Flow) {
        self.events.push(Event::Gate(y.id));
    }

    /// The tape keeps bytes that are no activations.
    pub fn keep_bytes(&mut self, bytes: u64) {
        self.events.push(Event::Bytes(bytes));
    }

    /// A layer keeps x and gives a tensor of `shape`: a row of the summary.
    pub fn layer(
        &mut self,
        name: &str,
        x: Flow,
        shape: [usize; 4],
        parameters: usize,
        flops: u64,
    ) -> Flow {
        let y = self.tensor(shape);
        self.keep(x);
        self.events.push(Event::Layer(x.id, y.id));
        self.values += self.nodes[y.id].values;
        self.rows.push(Row {
            name: name.to_string(),
            output: [shape[1], shape[2], shape[3]],
            parameters,
            forward_flops: flops,
        });
        y
    }

    /// y can be computed again from what the layer before it kept; if its sign is needed, only from what is not rounded.
    pub fn follows(&mut self, y: Flow, signed: bool) {
        let node = &mut self.nodes[y.id];
        (node.normed, node.signed) = (Some(self.open), signed);
    }

    /// y is one value at a time of x: it can be computed again if x can.
    pub fn follows_from(&mut self, y: Flow, x: Flow) {
        let from = &self.nodes[x.id];
        let (normed, signed) = (from.normed, from.signed);
        let node = &mut self.nodes[y.id];
        (node.normed, node.signed) = (normed, signed);
    }

    /// A part whose inside can be computed again from its inputs.
    pub fn block<T>(
        &mut self,
        inputs: &[Flow],
        inside: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let at = self.events.len();
        let ids = inputs.iter().map(|x| x.id).collect();
        self.events.push(Event::Open(ids, 0));
        self.blocks += 1;
        let outer = std::mem::replace(&mut self.open, self.blocks);
        let output = inside(self)?;
        self.open = outer;
        let close = self.events.len();
        if let Event::Open(_, end) = &mut self.events[at] {
            *end = close;
        }
        self.events.push(Event::Close);
        Ok(output)
    }

    /// The most bytes of activations and their gradients that a training step of one sample holds at once.
    pub fn peak_bytes(&self, storage: &Storage) -> u64 {
        let (computed, kept) = storage.value_bytes();
        let mut step = Step {
            trace: self,
            recompute: storage.recompute,
            computed,
            kept,
            held: HashMap::new(),
            now: 0,
            peak: 0,
        };
        let all = 0..self.events.len();
        step.forward(all.clone(), 0);
        step.backward(all, 0);
        step.peak
    }
}

/// The tape of a training step as it grows and shrinks.
struct Step<'a> {
    trace: &'a Trace,
    recompute: Recompute,
    /// Bytes of a value as it is computed, and as it is kept.
    computed: u64,
    kept: u64,
    /// How often the tape holds a tensor.
    held: HashMap<usize, usize>,
    now: u64,
    peak: u64,
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

    /// What an operation holds beside the tape: two tensors, and a third if the tape does not hold it as it is needed.
    fn work(&mut self, x: usize, y: usize, block: usize) {
        let again = self.is_made_again(x, block) || self.kept < self.computed;
        let third = if again { self.values(x) } else { 0 };
        let beside = self.computed * (self.values(x) + self.values(y) + third);
        self.peak = self.peak.max(self.now + beside);
    }

    fn forward(&mut self, range: Range<usize>, block: usize) {
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

    fn backward(&mut self, range: Range<usize>, block: usize) {
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
                Event::Layer(x, y) => self.work(*x, *y, block),
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
