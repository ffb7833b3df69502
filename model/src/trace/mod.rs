//! A network's costs from shapes alone: parameters, operations, and the peak memory of a training step ([`step`]) or of
//! inference ([`live`]).
//!
//! A trace is a dry run. Every layer has a `trace` method beside `forward` and `backward`. It takes a [`Flow`] (a
//! tensor of which only the shape is known), records as events what the layer does with a [`crate::pass::Pass`] (what
//! the tape keeps, which tensors it reads and makes), and returns the output's [`Flow`]. [`step`] and [`live`] replay
//! these events and count bytes. A layer whose forward pass keeps something must therefore record that in its `trace`
//! too; `validation/memory.sh` compares the result with measured peaks.

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

/// What the trace records about a tensor.
#[derive(Debug, Clone, Default)]
struct Node {
    values: u64,
    /// The block in which a normalisation makes it (0: outside all blocks); the backward pass can recompute it there.
    normed: Option<usize>,
    /// Whether the backward pass needs its exact sign.
    signed: bool,
    /// The tensor in whose memory inference computes it, fused with the operation that makes that tensor.
    fused_with: Option<usize>,
    /// Whether it is a sum of several convolutions: while one is added, the partial sum takes memory beside it.
    summed: bool,
    /// Set for a concatenation that exists only while the next layer reads it.
    concatenated: Option<Concatenated>,
}

/// A concatenation of channels, copied by the layer that reads it.
#[derive(Debug, Clone, Copy)]
struct Concatenated {
    /// Whether the layer makes the copy again for its backward pass.
    in_backward: bool,
}

/// An event of a pass, in forward order. `usize` values are tensor indices unless stated otherwise.
#[derive(Debug, Clone)]
enum Event {
    /// The tape keeps a tensor.
    Keep(usize),
    /// The tape keeps this many bytes that are not a tensor.
    Bytes(u64),
    /// The tape keeps one bit per value of this tensor, if it rounds the values themselves.
    Gate(usize),
    /// A layer (a row of the summary). The tape keeps its inputs. Its backward pass holds the gradients of its inputs
    /// and of its output at the same time.
    Layer {
        inputs: Vec<usize>,
        output: usize,
        reads: Reads,
        /// Its convolutions, as indices into [`Trace::convolutions`].
        convolutions: Range<usize>,
        /// Its row of the summary.
        row: usize,
    },
    /// An operation that has no row in the summary and whose inputs the tape does not keep.
    Op {
        inputs: Vec<usize>,
        output: usize,
    },
    /// The next layer also reads this tensor.
    Read(usize),
    /// A block begins: its inputs, and the index of its closing event.
    Open {
        inputs: Vec<usize>,
        end: usize,
    },
    /// The caller of the next block holds these tensors until it ends.
    Hold(Vec<usize>),
    Close,
}

/// How long a layer's backward pass needs its saved tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reads {
    /// Until its parameter gradients are done; its input gradients come later.
    First,
    /// Until all its gradients are done.
    Throughout,
}

/// Collects costs as shapes flow through a network.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trace {
    /// The layers so far.
    pub rows: Vec<Row>,
    /// Total number of output values of all rows.
    pub output_values: u64,
    /// Every convolution, in forward order.
    pub convolutions: Vec<Convolution>,
    /// How many of the convolutions are assigned to layers; the rest belong to the next layer.
    convolutions_of_layers: usize,
    /// Convolutions whose kernels inference packs once and keeps packed.
    pub prepared_once: Vec<Convolution>,
    /// Convolutions whose kernels inference packs in every pass.
    pub prepared_each_pass: Vec<Convolution>,
    /// The largest concatenated input of any convolution, in values.
    pub most_concatenated: u64,
    /// Where the part that only training runs begins: the event index and the row index.
    training_only_from: Option<(usize, usize)>,
    /// Whether training skips that part too.
    skips_training_only: bool,
    /// Trainable values of the skipped part.
    pub parameters_skipped: usize,
    /// The first event that inference can compute in strips.
    strips_from: Option<usize>,
    nodes: Vec<Node>,
    events: Vec<Event>,
    /// The number of blocks so far.
    blocks: usize,
    /// The number of the open block, counted from 1; 0 outside all blocks.
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

    /// Adds an operation whose costs are not counted, and returns its output.
    pub fn op(&mut self, from: &[Flow], shape: [usize; 4]) -> Flow {
        let y = self.tensor(shape);
        self.events.push(Event::Op {
            inputs: ids(from),
            output: y.id,
        });
        y
    }

    /// Dropout of a share of the values of x; in inference the output is x itself.
    pub fn dropout(&mut self, x: Flow, share: f32) -> Flow {
        if share == 0.0 {
            return x;
        }
        let y = self.op(&[x], x.shape);
        self.fused_in_inference(x, y);
        y
    }

    /// Records that inference fuses y with x and computes it in the memory of x.
    pub fn fused_in_inference(&mut self, x: Flow, y: Flow) {
        self.nodes[y.id].fused_with = Some(x.id);
    }

    /// Records that y is a sum of several convolutions.
    pub fn sum_of_convolutions(&mut self, y: Flow) {
        self.nodes[y.id].summed = true;
    }

    /// Records that the next layer also reads x, in order to add it.
    pub fn also_reads(&mut self, x: Flow) {
        self.events.push(Event::Read(x.id));
    }

    /// Records that the next layer concatenates the channels of all parts for its forward pass and, if `in_backward`,
    /// again for its backward pass.
    pub fn also_reads_concatenated(&mut self, parts: &[Flow], in_backward: bool) {
        let all = self.concat(parts);
        self.nodes[all.id].concatenated = Some(Concatenated { in_backward });
        self.also_reads(all);
    }

    /// Adds a convolution of the next layer, whose kernels inference packs once.
    pub fn convolution(&mut self, convolution: Convolution) {
        self.convolutions.push(convolution);
        self.prepared_once.push(convolution);
    }

    /// Adds convolutions of the next layer, whose kernels inference packs in every pass.
    pub fn convolutions_prepared_each_pass(
        &mut self,
        planes: impl Iterator<Item = Convolution> + Clone,
    ) {
        self.convolutions.extend(planes.clone());
        self.prepared_each_pass.extend(planes);
    }

    /// A trace of training that skips the part marked by [`Self::training_only`].
    pub fn without_training_only() -> Self {
        Self {
            skips_training_only: true,
            ..Self::default()
        }
    }

    /// Traces the last part of a network, which inference does not run.
    pub fn training_only(&mut self, end: impl FnOnce(&mut Self)) {
        if self.skips_training_only {
            // The parameters of a skipped part exist but are not trained.
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

    /// The events of the part that inference runs.
    fn inferred(&self) -> &[Event] {
        let end = self
            .training_only_from
            .map_or(self.events.len(), |(event, _)| event);
        &self.events[..end]
    }

    /// The number of values of the network's input.
    pub fn input_values(&self) -> u64 {
        self.nodes.first().map_or(0, |input| input.values)
    }

    /// Marks the start of the part that inference can compute in strips.
    pub fn begin_strips(&mut self) {
        self.strips_from = Some(self.events.len());
    }

    /// Undoes [`Self::begin_strips`], for a network of which only one branch could run in strips.
    pub fn forbid_strips(&mut self) {
        self.strips_from = None;
    }

    /// The rows of the layers that inference runs.
    pub fn inference_rows(&self) -> &[Row] {
        let end = self
            .training_only_from
            .map_or(self.rows.len(), |(_, row)| row);
        &self.rows[..end]
    }

    /// The concatenation of the channels of all parts.
    pub fn concat(&mut self, parts: &[Flow]) -> Flow {
        let [b, h, w, _] = parts.first().map_or([0; 4], |part| part.shape);
        let channels = parts.iter().map(|part| part.shape[3]).sum();
        self.op(parts, [b, h, w, channels])
    }

    /// Records that the tape keeps x.
    pub fn keep(&mut self, x: Flow) {
        self.events.push(Event::Keep(x.id));
    }

    /// Records that the tape keeps the signs of y if it rounds values.
    pub fn keep_gate(&mut self, y: Flow) {
        self.events.push(Event::Gate(y.id));
    }

    /// Records that the tape keeps bytes that are not activations.
    pub fn keep_bytes(&mut self, bytes: u64) {
        self.events.push(Event::Bytes(bytes));
    }

    /// Adds a layer, a row of the summary, that keeps its inputs `parts` on the tape, and returns its output of
    /// `shape`.
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

    /// Records that y can be recomputed from the saved input of the preceding normalisation. If the exact sign of y is
    /// needed, this holds only where the tape does not round.
    pub fn recompute_from_norm(&mut self, y: Flow, signed: bool) {
        let node = &mut self.nodes[y.id];
        (node.normed, node.signed) = (Some(self.open), signed);
    }

    /// Records that y is an elementwise function of x, so it can be recomputed if x can.
    pub fn recompute_from(&mut self, y: Flow, x: Flow) {
        let from = &self.nodes[x.id];
        let (normed, signed) = (from.normed, from.signed);
        let node = &mut self.nodes[y.id];
        (node.normed, node.signed) = (normed, signed);
    }

    /// Traces a block, whose inside can be recomputed from its inputs. The caller holds the inputs until the block
    /// ends.
    pub fn block<T>(
        &mut self,
        inputs: &[Flow],
        inside: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        self.hold(inputs);
        self.block_taking(inputs, inside)
    }

    /// Records that the caller holds these tensors until the next block ends.
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

    /// Peak bytes of activations and their gradients in a training step of one sample, including `working`: the
    /// workspace of a running convolution in a data type.
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
