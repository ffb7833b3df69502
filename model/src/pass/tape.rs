//! What layers keep for their backward pass: a stack, pushed in the forward pass and popped in the backward pass.

use super::Pass;
use crate::error::Result;
use crate::ops::{BatchNormSaved, Channels, Marks};
use crate::parameters::ParameterId;
use crate::storage::Recompute;
use candle_core::{DType, Tensor};
use std::sync::Arc;

/// One entry of the tape.
#[derive(Debug)]
pub(crate) enum Saved {
    Tensor(Kept),
    /// The mean and variance that a normalisation used.
    Norm(BatchNormSaved),
    /// The index of the maximum in each window of max pooling.
    Winners(Marks),
    /// Where a ReLU passes gradients, one bit per value.
    Gate(Marks),
    /// The shape of an input whose values are not needed.
    Shape([usize; 4]),
    /// The key that a dropout layer drew, or the generator state at the start of a block.
    Key(u64),
}

/// How the tape holds a tensor.
#[derive(Debug, Clone)]
pub(crate) enum Kept {
    /// Unchanged.
    Whole(Tensor),
    /// f32, rounded to bf16.
    Rounded(Tensor),
    /// Not stored: recomputed by applying the normalisation again.
    Normed(Arc<Normed>),
    /// Not stored: recomputed by applying a parametric ReLU with these slopes to a tensor that is [`Kept::Normed`].
    Prelu(Arc<(Kept, Channels<'static>)>),
}

/// A batch normalisation that can be applied again.
#[derive(Debug)]
pub(crate) struct Normed {
    /// The input; the normalisation's own backward pass keeps it too.
    pub x: Kept,
    /// The data type of the computation.
    pub dtype: DType,
    pub scale: Channels<'static>,
    pub shift: Channels<'static>,
    pub relu: bool,
}

impl Pass {
    /// Pushes an entry for the backward pass; does nothing in inference.
    pub(crate) fn push(&mut self, saved: Saved) {
        if self.recording {
            self.tape.push(saved);
        }
    }

    /// Pushes a tensor in the form that the pass's [`Storage`](crate::storage::Storage) prescribes.
    pub(crate) fn push_tensor(&mut self, tensor: &Tensor) -> Result<()> {
        if self.recording {
            let kept = self.keep(tensor)?;
            self.tape.push(Saved::Tensor(kept));
        }
        Ok(())
    }

    /// Pushes a layer's input and returns it in the type that the layer computes in.
    ///
    /// The tape holds the narrower of the two types: widening a value and narrowing it again is lossless.
    pub(crate) fn push_input(&mut self, layer: ParameterId, x: &Tensor) -> Result<Tensor> {
        Ok(self.push_input_kept(layer, x)?.0)
    }

    /// As [`Self::push_input`], and also returns the form in which the tape holds the tensor, if it does.
    pub(crate) fn push_input_kept(
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

    /// Pops the input that [`Self::push_input`] pushed, in the type that the layer computes in, and the type in which
    /// it was stored. The input's gradient must have the latter type, because gradients from other consumers are added
    /// in it.
    pub(crate) fn pop_input(&mut self, layer: ParameterId) -> Result<(Tensor, DType)> {
        let x = self.pop_tensor()?;
        let used = self.backend.convert(&x, self.dtype_of(layer))?;
        Ok((used, x.dtype()))
    }

    /// Converts a tensor to the form in which the tape holds it; a tensor kept twice takes memory once.
    pub(super) fn keep(&mut self, tensor: &Tensor) -> Result<Kept> {
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

    /// Registers `y` as recomputable from a normalisation, where normalisations are recomputed.
    pub(crate) fn recompute_from_norm(&mut self, y: &Tensor, normed: Normed) {
        // A parametric ReLU derives its gate from y, whose sign may change if y is recomputed from a rounded value.
        let exact = normed.relu || !self.storage.rounds();
        if self.recording && exact && self.storage.recompute != Recompute::None {
            let kept = Kept::Normed(Arc::new(normed));
            self.kept.insert(y.id(), kept);
        }
    }

    /// Registers `y`, a parametric ReLU of `x`, as recomputable if `x` is.
    pub(crate) fn recompute_from_prelu(
        &mut self,
        y: &Tensor,
        x: &Tensor,
        slope: Channels<'static>,
    ) {
        if let Some(kept @ Kept::Normed(_)) = self.kept.get(&x.id()) {
            let sloped = Arc::new((kept.clone(), slope));
            self.kept.insert(y.id(), Kept::Prelu(sloped));
        }
    }

    /// Restores a tensor from the form in which the tape holds it.
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
            Kept::Prelu(sloped) => {
                let x = self.restore(sloped.0.clone())?;
                self.backend.prelu(&x, &sloped.1)
            }
        }
    }

    /// Ends the forward pass: drops the table of converted tensors, so that only the tape keeps memory alive.
    pub(crate) fn end_forward(&mut self) {
        self.kept.clear();
    }

    fn pop(&mut self) -> Saved {
        self.tape
            .pop()
            .expect("every layer pops what it pushed, in reverse order")
    }

    /// Pops the tensor that [`Self::push_tensor`] pushed, in its original type.
    pub(crate) fn pop_tensor(&mut self) -> Result<Tensor> {
        match self.pop() {
            Saved::Tensor(kept) => self.restore(kept),
            other => unreachable!("expected a tensor on the tape, found {other:?}"),
        }
    }

    /// Pops the entry of a normalisation.
    pub(crate) fn pop_norm(&mut self) -> BatchNormSaved {
        match self.pop() {
            Saved::Norm(saved) => saved,
            other => unreachable!("expected statistics on the tape, found {other:?}"),
        }
    }

    /// Pops the entry of max pooling.
    pub(crate) fn pop_winners(&mut self) -> Marks {
        match self.pop() {
            Saved::Winners(winners) => winners,
            other => unreachable!("expected winners on the tape, found {other:?}"),
        }
    }

    /// Pushes the gate of a ReLU (where it passes gradients) if the rest of the tape does not determine it: a rounded
    /// value may lie on the other side of zero.
    pub(crate) fn push_gate(&mut self, y: &Tensor) -> Result<()> {
        if self.recording && self.keeps_gates() {
            self.tape.push(Saved::Gate(self.backend.positive(y)?));
        }
        Ok(())
    }

    /// Pops the gate of a ReLU if [`Self::push_gate`] pushed it.
    pub(crate) fn pop_gate(&mut self) -> Option<Marks> {
        if !self.keeps_gates() {
            return None;
        }
        match self.pop() {
            Saved::Gate(bits) => Some(bits),
            other => unreachable!("expected a gate on the tape, found {other:?}"),
        }
    }

    /// Whether the signs of a ReLU's output are kept separately from its values.
    fn keeps_gates(&self) -> bool {
        self.storage.rounds()
    }

    /// Pops the shape that a layer pushed.
    pub(crate) fn pop_shape(&mut self) -> [usize; 4] {
        match self.pop() {
            Saved::Shape(shape) => shape,
            other => unreachable!("expected a shape on the tape, found {other:?}"),
        }
    }

    /// Pops the key that a dropout layer or a block pushed.
    pub(crate) fn pop_key(&mut self) -> u64 {
        match self.pop() {
            Saved::Key(key) => key,
            other => unreachable!("expected a key on the tape, found {other:?}"),
        }
    }

    /// Whether every layer has popped what it pushed.
    pub(crate) fn is_tape_empty(&self) -> bool {
        self.tape.is_empty()
    }
}
