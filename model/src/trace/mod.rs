//! A network's costs from shapes alone: parameters, operations, and the most memory that a training step ([`step`]) or
//! inference ([`live`]) holds at once.
//!
//! A trace is a dry run. Every layer has a `trace` method beside `forward` and `backward`: it takes a [`Flow`] (a
//! tensor of which only the shape is known), records as events what the layer would do with a [`crate::pass::Pass`]
//! (what the tape keeps, which tensors it reads and makes), and gives the output's [`Flow`]. [`step`] and [`live`] play
//! these events back and count bytes. So a layer whose forward pass keeps something must say so in its `trace` too;
//! `validation/memory.sh` compares the result with measured peaks.

mod live;
mod step;

use crate::error::Result;
use crate::ops::Convolution;
use crate::storage::Storage;
use crate::summary::Row;
use candle_core::DType;
use std::ops::Range;
use step::Step;

/// A tensor of a dry run: its shape, and its index among the trace's nodes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flow {
    pub shape: [usize; 4],
    id: usize,
}

/// What a trace knows of a tensor.
#[derive(Debug, Clone, Default)]
struct Node {
    values: u64,
    /// The block inside which a normalisation gives it (0: outside of all): there the backward pass can apply it again.
    normed: Option<usize>,
    /// Its sign is needed as it was.
    signed: bool,
    /// The tensor into whose memory inference computes it, in one operation with that one.
    fused_with: Option<usize>,
    /// It is a sum of several convolutions: while the next is added, the sum so far lies beside it.
    summed: bool,
    /// It is a concatenation that only the next layer makes and reads.
    concatenated: Option<Concatenated>,
}

/// Channels of several tensors, copied side by side by the layer that reads them.
#[derive(Debug, Clone, Copy)]
struct Concatenated {
    /// The layer makes the copy again for its backward pass.
    in_backward: bool,
}

/// What happens in a pass, in forward order. Numbers of type `usize` are indices of tensors, unless said otherwise.
#[derive(Debug, Clone)]
enum Event {
    /// The tape keeps a tensor.
    Keep(usize),
    /// The tape keeps this many bytes of something else.
    Bytes(u64),
    /// The tape keeps a bit of every value, if it rounds the values themselves.
    Gate(usize),
    /// A layer, a row of the summary: the tape keeps its inputs, and its backward pass holds the gradients of its
    /// inputs and of its output at once.
    Layer {
        inputs: Vec<usize>,
        output: usize,
        reads: Reads,
        /// Its convolutions, as indices into [`Trace::convolutions`].
        convolutions: Range<usize>,
        /// Its row of the summary.
        row: usize,
    },
    /// An operation that is no row of the summary, and whose inputs the tape does not keep.
    Op {
        inputs: Vec<usize>,
        output: usize,
    },
    /// The next layer reads this tensor besides its inputs.
    Read(usize),
    /// A block begins: its inputs, and the index of the event that closes it.
    Open {
        inputs: Vec<usize>,
        end: usize,
    },
    /// The caller of the next block holds these tensors until it ends.
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
    /// The layers so far.
    pub rows: Vec<Row>,
    /// Values of the outputs of all rows.
    pub output_values: u64,
    /// Every convolution, in forward order.
    pub convolutions: Vec<Convolution>,
    /// How many of the convolutions belong to layers so far; later ones belong to the next layer.
    convolutions_of_layers: usize,
    /// The convolutions whose kernels inference packs once and keeps packed.
    pub prepared_once: Vec<Convolution>,
    /// The convolutions whose kernels inference packs in every pass.
    pub prepared_each_pass: Vec<Convolution>,
    /// The most values that any one convolution reads from several tensors together.
    pub most_concatenated: u64,
    /// Where the part begins that only training runs: the event, and the row.
    training_only_from: Option<(usize, usize)>,
    /// Training does not run that part either.
    skips_training_only: bool,
    /// Trainable values of the part that is not run.
    pub parameters_skipped: usize,
    /// The event from which on inference can compute in strips.
    strips_from: Option<usize>,
    nodes: Vec<Node>,
    events: Vec<Event>,
    /// The number of blocks so far.
    blocks: usize,
    /// The number of the open block, counted from 1; 0 outside of all.
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

    /// The output of an operation whose costs are not counted.
    pub fn op(&mut self, from: &[Flow], shape: [usize; 4]) -> Flow {
        let y = self.tensor(shape);
        self.events.push(Event::Op {
            inputs: ids(from),
            output: y.id,
        });
        y
    }

    /// x after dropout of a share of its values: in inference x itself.
    pub fn dropout(&mut self, x: Flow, share: f32) -> Flow {
        if share == 0.0 {
            return x;
        }
        let y = self.op(&[x], x.shape);
        self.fused_in_inference(x, y);
        y
    }

    /// Notes that inference computes y in one operation with x, in the memory that x would have.
    pub fn fused_in_inference(&mut self, x: Flow, y: Flow) {
        self.nodes[y.id].fused_with = Some(x.id);
    }

    /// Notes that y is a sum of several convolutions.
    pub fn sum_of_convolutions(&mut self, y: Flow) {
        self.nodes[y.id].summed = true;
    }

    /// Notes that the next layer reads x besides its input, to add it.
    pub fn also_reads(&mut self, x: Flow) {
        self.events.push(Event::Read(x.id));
    }

    /// Notes that the next layer copies the channels of all parts side by side for its forward pass and, if
    /// `in_backward`, again for its backward pass.
    pub fn also_reads_concatenated(&mut self, parts: &[Flow], in_backward: bool) {
        let all = self.concat(parts);
        self.nodes[all.id].concatenated = Some(Concatenated { in_backward });
        self.also_reads(all);
    }

    /// Notes a convolution of the next layer, whose kernels inference packs once.
    pub fn convolution(&mut self, convolution: Convolution) {
        self.convolutions.push(convolution);
        self.prepared_once.push(convolution);
    }

    /// Notes convolutions of the next layer, whose kernels are packed in every pass.
    pub fn convolutions_prepared_each_pass(
        &mut self,
        planes: impl Iterator<Item = Convolution> + Clone,
    ) {
        self.convolutions.extend(planes.clone());
        self.prepared_each_pass.extend(planes);
    }

    /// A trace of training that does not run what [`Self::training_only`] marks.
    pub fn without_training_only() -> Self {
        Self {
            skips_training_only: true,
            ..Self::default()
        }
    }

    /// Traces the end of a network, which inference does not run.
    pub fn training_only(&mut self, end: impl FnOnce(&mut Self)) {
        if self.skips_training_only {
            // Its parameters are there, and are trained by nothing.
            let mut aside = self.clone();
            end(&mut aside);
            let rows = aside.rows[self.rows.len()..].iter();
            self.parameters_skipped += rows.map(|row| row.parameters).sum::<usize>();
            return;
        }
        let (once, each_pass) = (self.prepared_once.len(), self.prepared_each_pass.len());
        self.training_only_from = Some((self.events.len(), self.rows.len()));
        end(self);
        self.prepared_once.truncate(once);
        self.prepared_each_pass.truncate(each_pass);
    }

    /// The events of what inference runs.
    fn inferred(&self) -> &[Event] {
        let end = self
            .training_only_from
            .map_or(self.events.len(), |(event, _)| event);
        &self.events[..end]
    }

    /// Values of the network's input.
    pub fn input_values(&self) -> u64 {
        self.nodes.first().map_or(0, |input| input.values)
    }

    /// Notes that inference can compute in strips what follows.
    pub fn begin_strips(&mut self) {
        self.strips_from = Some(self.events.len());
    }

    /// Takes back [`Self::begin_strips`], for a network of which only a part could be computed so.
    pub fn forbid_strips(&mut self) {
        self.strips_from = None;
    }

    /// The rows of what inference computes: all but those of what only training runs.
    pub fn inference_rows(&self) -> &[Row] {
        let end = self
            .training_only_from
            .map_or(self.rows.len(), |(_, row)| row);
        &self.rows[..end]
    }

    /// The tensor of the channels of all parts, side by side.
    pub fn concat(&mut self, parts: &[Flow]) -> Flow {
        let [b, h, w, _] = parts.first().map_or([0; 4], |part| part.shape);
        let channels = parts.iter().map(|part| part.shape[3]).sum();
        self.op(parts, [b, h, w, channels])
    }

    /// Notes that the tape keeps x.
    pub fn keep(&mut self, x: Flow) {
        self.events.push(Event::Keep(x.id));
    }

    /// Notes that the tape keeps the signs of y where it rounds values.
    pub fn keep_gate(&mut self, y: Flow) {
        self.events.push(Event::Gate(y.id));
    }

    /// Notes that the tape keeps bytes that are not activations.
    pub fn keep_bytes(&mut self, bytes: u64) {
        self.events.push(Event::Bytes(bytes));
    }

    /// The output, of `shape`, of a layer that keeps its inputs `parts` on the tape; the layer is a row of the summary.
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
        let convolutions = self.convolutions_of_layers..self.convolutions.len();
        self.convolutions_of_layers = convolutions.end;
        self.events.push(Event::Layer {
            inputs: ids(parts),
            output: y.id,
            reads,
            convolutions,
            row: self.rows.len(),
        });
        self.output_values += self.nodes[y.id].values;
        self.rows.push(Row {
            name: name.to_string(),
            output: [shape[1], shape[2], shape[3]],
            parameters,
            forward_flops: flops,
        });
        y
    }

    /// Notes that y can be computed again from what the normalisation before it kept; if its sign is needed, only where
    /// that is not rounded.
    pub fn recompute_from_norm(&mut self, y: Flow, signed: bool) {
        let node = &mut self.nodes[y.id];
        (node.normed, node.signed) = (Some(self.open), signed);
    }

    /// Notes that y is a function of x value by value, so that it can be computed again if x can.
    pub fn recompute_from(&mut self, y: Flow, x: Flow) {
        let from = &self.nodes[x.id];
        let (normed, signed) = (from.normed, from.signed);
        let node = &mut self.nodes[y.id];
        (node.normed, node.signed) = (normed, signed);
    }

    /// Traces a block, whose inside can be computed again from its inputs; its caller holds them until it ends.
    pub fn block<T>(
        &mut self,
        inputs: &[Flow],
        inside: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        self.hold(inputs);
        self.block_taking(inputs, inside)
    }

    /// Notes that the caller of the next block holds these tensors until it ends.
    pub fn hold(&mut self, inputs: &[Flow]) {
        self.events.push(Event::Hold(ids(inputs)));
    }

    /// As [`Self::block`], for a block that drops its inputs once it has read them.
    pub fn block_taking<T>(
        &mut self,
        inputs: &[Flow],
        inside: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let at = self.events.len();
        self.events.push(Event::Open {
            inputs: ids(inputs),
            end: 0,
        });
        self.blocks += 1;
        let outer = std::mem::replace(&mut self.open, self.blocks);
        let output = inside(self)?;
        self.open = outer;
        let close = self.events.len();
        if let Event::Open { end, .. } = &mut self.events[at] {
            *end = close;
        }
        self.events.push(Event::Close);
        Ok(output)
    }

    /// The most bytes of activations and their gradients that a training step of one sample holds at once, and of
    /// `working` beside them: what a convolution holds while it runs in a data type.
    pub fn peak_bytes(
        &self,
        storage: &Storage,
        working: &dyn Fn(&Convolution, DType) -> u64,
    ) -> u64 {
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
