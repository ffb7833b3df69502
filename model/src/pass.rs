//! One pass through a network: the tape that the forward pass writes and the backward pass reads from its end.
//!
//! The tape holds tensors as [`Storage`] says: as they are, rounded to bf16, or not at all where they follow from
//! another one by a normalisation. A block of layers can leave only its inputs; its forward pass then runs again before
//! its backward pass, with the same dropout keys and without recording batch statistics twice.

mod statistics;

pub use statistics::BatchStatistics;
pub(crate) use statistics::Recorded;

use crate::captured::Captured;
use crate::error::Result;
use crate::ops::conv_spec::Rows;
use crate::ops::norm::BatchNormRanks;
use crate::ops::{Backend, BatchNormSaved, Channels, Marks};
use crate::parameters::{BufferId, ParameterId};
use crate::storage::{Recompute, Storage};
use candle_core::{DType, Tensor, TensorId};
use std::collections::HashMap;
use std::sync::Arc;

/// What a layer left for its backward pass.
#[derive(Debug)]
pub(crate) enum Saved {
    Tensor(Kept),
    Norm(BatchNormSaved),
    Winners(Marks),
    /// Where a ReLU lets gradients through, one bit a value.
    Gate(Marks),
    Shape([usize; 4]),
    Key(u64),
}

/// How the tape holds a tensor.
#[derive(Debug, Clone)]
pub(crate) enum Kept {
    Whole(Tensor),
    /// f32, rounded to bf16.
    Rounded(Tensor),
    /// A normalised tensor, by way of what was normalised.
    Normed(Arc<Normed>),
    /// A parametric ReLU of a normalised tensor, and its slopes.
    Sloped(Arc<(Kept, Channels<'static>)>),
}

/// A batch normalisation that can be applied again.
#[derive(Debug)]
pub(crate) struct Normed {
    /// What was normalised; the normalisation's own backward pass keeps it too.
    pub x: Kept,
    /// What the normalisation was computed in.
    pub dtype: DType,
    pub scale: Channels<'static>,
    pub shift: Channels<'static>,
    pub relu: bool,
}

/// The state of one forward pass and, in training, of its backward pass.
///
/// Layers push what they need on the way forward and pop it on the way back, so memory is freed as the backward pass
/// goes, and a layer used twice needs no bookkeeping.
#[derive(Debug)]
pub struct Pass {
    pub(crate) backend: Backend,
    /// How the rows that inference computes lie in their field; none where it computes the whole field.
    pub(crate) rows: Option<Rows>,
    storage: Storage,
    training: bool,
    /// Layers leave something on the tape: not in inference, and not inside a block that will run again.
    recording: bool,
    /// A block of layers is running a second time, for its backward pass.
    replaying: bool,
    tape: Vec<Saved>,
    /// How tensors that are not kept whole are kept.
    kept: HashMap<TensorId, Kept>,
    statistics: Vec<Recorded>,
    /// The ranks that normalise with this one.
    norm_ranks: Option<Arc<dyn BatchNormRanks>>,
    /// The passes, if they were captured before, and the number of the launch.
    captured: Option<(Arc<Captured>, u64)>,
    key: u64,
    has_drawn_keys: bool,
}

impl Pass {
    /// A training pass; `key` (a function of seed and step) decides which values dropout keeps.
    pub fn train(backend: Backend, storage: impl Into<Storage>, key: u64) -> Self {
        Self {
            backend,
            rows: None,
            storage: storage.into(),
            training: true,
            recording: true,
            replaying: false,
            tape: Vec::new(),
            kept: HashMap::new(),
            statistics: Vec::new(),
            norm_ranks: None,
            captured: None,
            key,
            has_drawn_keys: false,
        }
    }

    /// This pass, launched as the graphs of `captured` if there are any; whoever gives them made sure that they fit
    /// ([`Captured::fits`]).
    #[must_use]
    pub fn launching(self, captured: Option<Arc<Captured>>) -> Self {
        let captured = captured.map(|captured| (captured, 0));
        Self { captured, ..self }
    }

    pub(crate) fn captured(&self) -> Option<&(Arc<Captured>, u64)> {
        self.captured.as_ref()
    }

    /// Notes which of its graph's launches the forward pass was.
    #[cfg(feature = "cuda")]
    pub(crate) fn was_launched(&mut self, number: u64) {
        if let Some((_, launch)) = &mut self.captured {
            *launch = number;
        }
    }

    /// This pass, normalising together with the passes of `norm_ranks`, if there are any.
    #[must_use]
    pub fn normalising(self, norm_ranks: Option<Arc<dyn BatchNormRanks>>) -> Self {
        Self { norm_ranks, ..self }
    }

    pub(crate) fn norm_ranks(&self) -> Option<&dyn BatchNormRanks> {
        self.norm_ranks.as_deref()
    }

    /// An inference pass: running statistics, no tape, no dropout.
    pub fn infer(backend: Backend, storage: impl Into<Storage>) -> Self {
        Self {
            training: false,
            recording: false,
            ..Self::train(backend, storage, 0)
        }
    }

    pub(crate) fn is_training(&self) -> bool {
        self.training
    }

    /// Whether a block runs again, so that nobody reads its output.
    pub(crate) fn is_replaying(&self) -> bool {
        self.replaying
    }

    /// What the layer that owns this parameter computes in.
    pub(crate) fn dtype_of(&self, parameter: ParameterId) -> DType {
        self.storage.of(parameter)
    }

    /// Keeps something for the backward pass; nothing in inference.
    pub(crate) fn push(&mut self, saved: Saved) {
        if self.recording {
            self.tape.push(saved);
        }
    }

    pub(crate) fn push_tensor(&mut self, tensor: &Tensor) -> Result<()> {
        if self.recording {
            let kept = self.keep(tensor)?;
            self.tape.push(Saved::Tensor(kept));
        }
        Ok(())
    }

    /// Keeps a layer's input and gives it in the type that the layer computes in.
    ///
    /// What is kept is the narrower of the two: widening a value and narrowing it again gives the same bits.
    pub(crate) fn push_input(&mut self, layer: ParameterId, x: &Tensor) -> Result<Tensor> {
        Ok(self.push_source(layer, x)?.0)
    }

    /// What [`Self::push_input`] gives, and how the tape holds it, if it does.
    pub(crate) fn push_source(
        &mut self,
        layer: ParameterId,
        x: &Tensor,
    ) -> Result<(Tensor, Option<Kept>)> {
        let dtype = self.dtype_of(layer);
        let used = self.backend.convert(x, dtype)?;
        if !self.recording {
            return Ok((used, None));
        }
        let narrows = dtype.size_in_bytes() < x.dtype().size_in_bytes();
        let kept = self.keep(if narrows { &used } else { x })?;
        self.tape.push(Saved::Tensor(kept.clone()));
        Ok((used, Some(kept)))
    }

    /// The input that [`Self::push_input`] kept, in the type that the layer computes in.
    pub(crate) fn pop_input(&mut self, layer: ParameterId) -> Result<Tensor> {
        let x = self.pop_tensor()?;
        self.backend.convert(&x, self.dtype_of(layer))
    }

    /// A gradient in the type that a layer computes in.
    pub(crate) fn gradient(&self, layer: ParameterId, dy: &Tensor) -> Result<Tensor> {
        self.backend.convert(dy, self.dtype_of(layer))
    }

    /// How the tape holds this tensor; one that is kept twice takes memory once.
    fn keep(&mut self, tensor: &Tensor) -> Result<Kept> {
        if let Some(kept) = self.kept.get(&tensor.id()) {
            return Ok(kept.clone());
        }
        if !self.storage.rounds() || tensor.dtype() != DType::F32 {
            return Ok(Kept::Whole(tensor.clone()));
        }
        let kept = Kept::Rounded(self.backend.convert(tensor, DType::BF16)?);
        self.kept.insert(tensor.id(), kept.clone());
        Ok(kept)
    }

    /// Notes that `y` follows from what a normalisation keeps, if such tensors are not kept.
    pub(crate) fn follows(&mut self, y: &Tensor, normed: Normed) {
        // A parametric ReLU tells its gate from y, whose sign may change where it follows from a rounded value.
        let exact = normed.relu || !self.storage.rounds();
        if self.recording && exact && self.storage.recompute != Recompute::None {
            let kept = Kept::Normed(Arc::new(normed));
            self.kept.insert(y.id(), kept);
        }
    }

    /// Notes that `y` is a parametric ReLU of `x`, if x is one of the tensors that are not kept.
    pub(crate) fn follows_by_slope(&mut self, y: &Tensor, x: &Tensor, slope: Channels<'static>) {
        if let Some(kept @ Kept::Normed(_)) = self.kept.get(&x.id()) {
            let sloped = Arc::new((kept.clone(), slope));
            self.kept.insert(y.id(), Kept::Sloped(sloped));
        }
    }

    fn restore(&self, kept: Kept) -> Result<Tensor> {
        match kept {
            Kept::Whole(tensor) => Ok(tensor),
            Kept::Rounded(tensor) => self.backend.convert(&tensor, DType::F32),
            Kept::Normed(normed) => {
                let x = self.restore(normed.x.clone())?;
                let x = self.backend.convert(&x, normed.dtype)?;
                let (scale, shift) = (&normed.scale, &normed.shift);
                (self.backend).batch_norm_apply(&x, scale, shift, None, normed.relu)
            }
            Kept::Sloped(sloped) => {
                let x = self.restore(sloped.0.clone())?;
                self.backend.prelu(&x, &sloped.1)
            }
        }
    }

    /// Runs a part of the network, whose backward pass begins with [`Self::replay`]: where blocks are computed again,
    /// only `inputs` stay on the tape.
    pub(crate) fn block<const N: usize, T>(
        &mut self,
        inputs: [Tensor; N],
        forward: impl FnOnce(&mut Self, [Tensor; N]) -> Result<T>,
    ) -> Result<T> {
        if !self.recording || self.storage.recompute != Recompute::Blocks {
            return forward(self, inputs);
        }
        for input in &inputs {
            // A rounded input would change everything inside: normalisations and ReLUs amplify it.
            let kept = if self.storage.rounds() {
                Kept::Whole(input.clone())
            } else {
                self.keep(input)?
            };
            self.tape.push(Saved::Tensor(kept));
        }
        self.push(Saved::Key(self.key));
        self.recording = false;
        let output = forward(self, inputs);
        self.recording = true;
        output
    }

    /// Puts the inside of a block on the tape by running its forward pass again on its inputs.
    pub(crate) fn replay<const N: usize, T>(
        &mut self,
        forward: impl FnOnce(&mut Self, [Tensor; N]) -> Result<T>,
    ) -> Result<()> {
        if self.storage.recompute != Recompute::Blocks {
            return Ok(());
        }
        let key = self.pop_key();
        let mut inputs = Vec::with_capacity(N);
        for _ in 0..N {
            inputs.push(self.pop_tensor()?);
        }
        inputs.reverse();
        let Ok(inputs) = <[Tensor; N]>::try_from(inputs) else {
            unreachable!("as many inputs as were popped")
        };
        let key = std::mem::replace(&mut self.key, key);
        self.replaying = true;
        let output = forward(self, inputs);
        self.replaying = false;
        self.key = key;
        self.kept.clear();
        output.map(drop)
    }

    /// Ends the forward pass: nobody will ask any more how a tensor is kept.
    pub(crate) fn turn_back(&mut self) {
        self.kept.clear();
    }

    fn pop(&mut self) -> Saved {
        self.tape
            .pop()
            .expect("every layer pops what it pushed, in reverse order")
    }

    pub(crate) fn pop_tensor(&mut self) -> Result<Tensor> {
        match self.pop() {
            Saved::Tensor(kept) => self.restore(kept),
            other => unreachable!("expected a tensor on the tape, found {other:?}"),
        }
    }

    pub(crate) fn pop_norm(&mut self) -> BatchNormSaved {
        match self.pop() {
            Saved::Norm(saved) => saved,
            other => unreachable!("expected statistics on the tape, found {other:?}"),
        }
    }

    pub(crate) fn pop_winners(&mut self) -> Marks {
        match self.pop() {
            Saved::Winners(winners) => winners,
            other => unreachable!("expected winners on the tape, found {other:?}"),
        }
    }

    /// Keeps where a ReLU lets gradients through, if that cannot be told from what else the tape keeps: a rounded value
    /// may lie on the other side of zero.
    pub(crate) fn push_gate(&mut self, y: &Tensor) -> Result<()> {
        if self.recording && self.keeps_gates() {
            self.tape.push(Saved::Gate(self.backend.positive(y)?));
        }
        Ok(())
    }

    /// Where the ReLU lets gradients through, if [`Self::push_gate`] kept it.
    pub(crate) fn pop_gate(&mut self) -> Option<Marks> {
        if !self.keeps_gates() {
            return None;
        }
        match self.pop() {
            Saved::Gate(bits) => Some(bits),
            other => unreachable!("expected a gate on the tape, found {other:?}"),
        }
    }

    fn keeps_gates(&self) -> bool {
        self.storage.rounds()
    }

    pub(crate) fn pop_shape(&mut self) -> [usize; 4] {
        match self.pop() {
            Saved::Shape(shape) => shape,
            other => unreachable!("expected a shape on the tape, found {other:?}"),
        }
    }

    pub(crate) fn pop_key(&mut self) -> u64 {
        match self.pop() {
            Saved::Key(key) => key,
            other => unreachable!("expected a key on the tape, found {other:?}"),
        }
    }

    /// A fresh key for one dropout layer.
    pub(crate) fn next_key(&mut self) -> u64 {
        self.has_drawn_keys = true;
        self.key = self.key.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.key
    }

    /// What the next key follows from.
    #[cfg(feature = "cuda")]
    pub(crate) fn key(&self) -> u64 {
        self.key
    }

    /// Whether a layer does something different in every pass.
    #[cfg(feature = "cuda")]
    pub(crate) fn has_drawn_keys(&self) -> bool {
        self.has_drawn_keys
    }

    /// The statistics that the batch normalisations have recorded, left where they lie; the pass has none afterwards.
    #[cfg(feature = "cuda")]
    pub(crate) fn take_statistics(&mut self) -> Vec<Recorded> {
        std::mem::take(&mut self.statistics)
    }

    /// Sets the statistics of the batch normalisations: those of a launch of the graphs, which ran no layer.
    #[cfg(feature = "cuda")]
    pub(crate) fn give_statistics(&mut self, seen: Vec<Recorded>) {
        self.statistics = seen;
    }

    /// Notes the statistics of a batch, once however often the layer runs.
    pub(crate) fn record_statistics(
        &mut self,
        mean: BufferId,
        variance: BufferId,
        saved: &BatchNormSaved,
    ) {
        if !self.replaying {
            let batch = saved.clone();
            self.statistics.push(Recorded {
                mean,
                variance,
                batch,
            });
        }
    }

    /// What the batch normalisations of this pass saw; a second call gives nothing.
    ///
    /// # Errors
    /// [`crate::ModelError::Gpu`] if it cannot be read.
    pub fn batch_statistics(&mut self) -> Result<BatchStatistics> {
        BatchStatistics::of(std::mem::take(&mut self.statistics))
    }

    /// Whether every layer has taken back what it left.
    pub(crate) fn is_spent(&self) -> bool {
        self.tape.is_empty()
    }
}
