//! A network's tensors from shapes alone: what its tape would hold, the most that a training step holds at once
//! ([`step`]), and the most that inference does ([`live`]).
//!
//! Layers tell a trace what they would do with a [`crate::pass::Pass`]; the two must say the same.

mod live;
mod step;

use crate::error::Result;
use crate::ops::Convolution;
use crate::storage::Storage;
use crate::summary::Row;
use std::ops::Range;
use step::Step;

/// A tensor that would be: its shape, and which one it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flow {
    pub shape: [usize; 4],
    id: usize,
}

/// What a trace knows of a tensor.
#[derive(Debug, Clone, Default)]
struct Node {
    values: u64,
    /// A normalisation gives it, inside this block (0: outside of all): the backward pass can apply it again there.
    normed: Option<usize>,
    /// Its sign is needed as it was.
    signed: bool,
    /// Inference computes it together with this one, in the same memory.
    folded: Option<usize>,
    /// Channels side by side that only the next layer reads.
    joined: Option<Joined>,
}

/// A copy of channels side by side, which a layer makes for itself.
#[derive(Debug, Clone, Copy)]
struct Joined {
    /// The layer needs the copy for its backward pass, too.
    both_ways: bool,
}

#[derive(Debug, Clone)]
enum Event {
    /// The tape keeps a tensor.
    Keep(usize),
    /// The tape keeps this many bytes of something else.
    Bytes(u64),
    /// The tape keeps a bit of every value, if it rounds the values themselves.
    Gate(usize),
    /// A layer turns tensors side by side, which the tape keeps, into another: on the way back it holds the gradients
    /// of all. Between them lie these convolutions.
    Layer(Vec<usize>, usize, Reads, Range<usize>),
    /// So does an operation that is not a row of the summary, whose inputs the tape does not keep.
    Op(Vec<usize>, usize),
    /// What comes next reads a tensor, too.
    Read(usize),
    /// A block of these inputs, and where it ends.
    Open(Vec<usize>, usize),
    /// Inference holds these until the block ends that begins here: whoever runs it has them.
    Hold(Vec<usize>),
    Close,
}

/// How long a layer's backward pass reads what it kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reads {
    /// Until the gradients of its parameters are done, before those of its inputs.
    First,
    /// Until all of its gradients are done.
    Throughout,
}

/// Collects costs while shapes flow through a network.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trace {
    pub rows: Vec<Row>,
    /// Values of the rows' outputs.
    pub values: u64,
    /// Every convolution, in forward order.
    pub convolutions: Vec<Convolution>,
    /// How many of the convolutions belong to layers so far.
    told: usize,
    /// The convolutions whose kernels inference keeps as its loops read them, and those that it makes ready each time.
    pub kept: Vec<Convolution>,
    pub made: Vec<Convolution>,
    /// Most values that one convolution reads of several tensors.
    pub joined: u64,
    /// Where what only training runs begins: the event, and the row.
    training_from: Option<(usize, usize)>,
    /// Training does without that end, too.
    leaves_end_out: bool,
    /// Trainable values of the end that was left out.
    pub parameters_left_out: usize,
    /// The event from which on inference can compute in strips.
    last_from: Option<usize>,
    nodes: Vec<Node>,
    events: Vec<Event>,
    /// Blocks so far, and the one that is open.
    blocks: usize,
    open: usize,
}

impl Trace {
    /// The network's input.
    pub fn input(&mut self, shape: [usize; 4]) -> Flow {
        self.tensor(shape)
    }

    fn tensor(&mut self, shape: [usize; 4]) -> Flow {
        let values = shape.iter().map(|&n| n as u64).product();
        self.nodes.push(Node {
            values,
            ..Node::default()
        });
        Flow {
            shape,
            id: self.nodes.len() - 1,
        }
    }

    /// What an operation without costs makes of tensors.
    pub fn op(&mut self, from: &[Flow], shape: [usize; 4]) -> Flow {
        let y = self.tensor(shape);
        self.events.push(Event::Op(ids(from), y.id));
        y
    }

    /// x after dropout of a share of its values: in inference x itself.
    pub fn dropout(&mut self, x: Flow, share: f32) -> Flow {
        if share == 0.0 {
            return x;
        }
        let y = self.op(&[x], x.shape);
        self.folds(x, y);
        y
    }

    /// Inference computes y together with x, of which nothing is left.
    pub fn folds(&mut self, x: Flow, y: Flow) {
        self.nodes[y.id].folded = Some(x.id);
    }

    /// The next layer reads x, which it adds, besides its input.
    pub fn reads(&mut self, x: Flow) {
        self.events.push(Event::Read(x.id));
    }

    /// The next layer copies channels side by side for its forward pass, and on the way back, too, or not.
    pub fn reads_joined(&mut self, parts: &[Flow], both_ways: bool) {
        let all = self.concat(parts);
        self.nodes[all.id].joined = Some(Joined { both_ways });
        self.reads(all);
    }

    /// A convolution whose kernels inference makes ready once.
    pub fn convolution(&mut self, convolution: Convolution) {
        self.convolutions.push(convolution);
        self.kept.push(convolution);
    }

    /// Convolutions whose kernels every pass makes ready.
    pub fn convolutions_unkept(&mut self, planes: impl Iterator<Item = Convolution> + Clone) {
        self.convolutions.extend(planes.clone());
        self.made.extend(planes);
    }

    /// A trace of a training that does without the end that [`Self::training_only`] marks.
    pub fn without_end() -> Self {
        Self {
            leaves_end_out: true,
            ..Self::default()
        }
    }

    /// The end of a network, which inference does without.
    pub fn training_only(&mut self, end: impl FnOnce(&mut Self)) {
        if self.leaves_end_out {
            // Its parameters are there, and are trained by nothing.
            let mut aside = self.clone();
            end(&mut aside);
            let rows = aside.rows[self.rows.len()..].iter();
            self.parameters_left_out += rows.map(|row| row.parameters).sum::<usize>();
            return;
        }
        let (kept, made) = (self.kept.len(), self.made.len());
        self.training_from = Some((self.events.len(), self.rows.len()));
        end(self);
        self.kept.truncate(kept);
        self.made.truncate(made);
    }

    /// The events of what inference runs.
    fn inferred(&self) -> &[Event] {
        let end = self
            .training_from
            .map_or(self.events.len(), |(event, _)| event);
        &self.events[..end]
    }

    /// Values of the network's input.
    pub fn input_values(&self) -> u64 {
        self.nodes.first().map_or(0, |input| input.values)
    }

    /// Notes that inference can compute in strips what follows.
    pub fn begin_last(&mut self) {
        self.last_from = Some(self.events.len());
    }

    /// Notes that nobody computes in strips what was noted to be computable so.
    pub fn forget_last(&mut self) {
        self.last_from = None;
    }

    /// The rows of what inference computes: all but those of what only training runs.
    pub fn inference_rows(&self) -> &[Row] {
        let end = self.training_from.map_or(self.rows.len(), |(_, row)| row);
        &self.rows[..end]
    }

    /// The tensor of the channels of all parts, side by side.
    pub fn concat(&mut self, parts: &[Flow]) -> Flow {
        let [b, h, w, _] = parts.first().map_or([0; 4], |part| part.shape);
        let channels = parts.iter().map(|part| part.shape[3]).sum();
        self.op(parts, [b, h, w, channels])
    }

    /// The tape keeps x.
    pub fn keep(&mut self, x: Flow) {
        self.events.push(Event::Keep(x.id));
    }

    /// The tape keeps the signs of y where it rounds values.
    pub fn keep_gate(&mut self, y: Flow) {
        self.events.push(Event::Gate(y.id));
    }

    /// The tape keeps bytes that are not activations.
    pub fn keep_bytes(&mut self, bytes: u64) {
        self.events.push(Event::Bytes(bytes));
    }

    /// A layer keeps tensors that lie side by side and gives one of `shape`: a row of the summary.
    pub fn layer(
        &mut self,
        name: &str,
        parts: &[Flow],
        shape: [usize; 4],
        parameters: usize,
        flops: u64,
    ) -> Flow {
        let y = self.tensor(shape);
        let reads = match flops {
            0 => Reads::Throughout,
            _ => Reads::First,
        };
        let convolutions = self.told..self.convolutions.len();
        self.told = convolutions.end;
        self.events
            .push(Event::Layer(ids(parts), y.id, reads, convolutions));
        self.values += self.nodes[y.id].values;
        self.rows.push(Row {
            name: name.to_string(),
            output: [shape[1], shape[2], shape[3]],
            parameters,
            forward_flops: flops,
        });
        y
    }

    /// y can be computed again from what the layer before it kept; if its sign is needed, only from what is not
    /// rounded.
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

    /// A part whose inside can be computed again from its inputs, which are held until it ends.
    pub fn block<T>(
        &mut self,
        inputs: &[Flow],
        inside: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        self.hold(inputs);
        self.block_taking(inputs, inside)
    }

    /// Whoever runs the block that begins next holds these until it ends.
    pub fn hold(&mut self, inputs: &[Flow]) {
        self.events.push(Event::Hold(ids(inputs)));
    }

    /// The same of a part that drops its inputs once it has read them.
    pub fn block_taking<T>(
        &mut self,
        inputs: &[Flow],
        inside: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let at = self.events.len();
        self.events.push(Event::Open(ids(inputs), 0));
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

    /// The most bytes of activations and their gradients that a training step of one sample holds at once, and of
    /// `working` beside them: what a convolution holds while it runs.
    pub fn peak_bytes(&self, storage: &Storage, working: &dyn Fn(&Convolution) -> u64) -> u64 {
        let mut step = Step::new(self, storage, working);
        let all = 0..self.events.len();
        step.forward(all.clone(), 0);
        step.backward(all, 0);
        step.peak
    }
}

fn ids(flows: &[Flow]) -> Vec<usize> {
    flows.iter().map(|flow| flow.id).collect()
}
