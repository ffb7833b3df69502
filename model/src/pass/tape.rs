//! What layers leave for their backward pass: a stack, pushed on the way forward and popped on the way back.

use super::Pass;
use crate::error::Result;
use crate::ops::{BatchNormSaved, Channels, Marks};
use crate::parameters::ParameterId;
use crate::storage::Recompute;
use candle_core::{DType, Tensor};
use std::sync::Arc;

/// What a layer left for its backward pass.
#[derive(Debug)]
pub(crate) enum Saved {
    Tensor(Kept),
    /// Mean and variance that a normalisation used.
    Norm(BatchNormSaved),
    /// Which value of each window max pooling took.
    Winners(Marks),
    /// Where a ReLU lets gradients through, one bit a value.
    Gate(Marks),
    /// The shape of an input that is not needed itself.
    Shape([usize; 4]),
    /// The key that a dropout layer drew, or the generator's state at the start of a block.
    Key(u64),
}

/// How the tape holds a tensor.
#[derive(Debug, Clone)]
pub(crate) enum Kept {
    /// As it is.
    Whole(Tensor),
    /// f32, rounded to bf16.
    Rounded(Tensor),
    /// Not itself: the normalisation that gave it is applied again.
    Normed(Arc<Normed>),
    /// Not itself: a parametric ReLU with these slopes is applied again, to a tensor that is [`Kept::Normed`].
    Prelu(Arc<(Kept, Channels<'static>)>),
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

impl Pass {
    /// Keeps something for the backward pass; nothing in inference.
    pub(crate) fn push(&mut self, saved: Saved) {
        if self.recording {
            self.tape.push(saved);
        }
    }

    /// Keeps a tensor for the backward pass, in the form that the pass's [`Storage`](crate::storage::Storage) asks for.
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
        Ok(self.push_input_kept(layer, x)?.0)
    }

    /// What [`Self::push_input`] gives, and how the tape holds it, if it does.
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

    /// The input that [`Self::push_input`] kept, in the type that the layer computes in, and the type that it was kept
    /// in, which its gradient is given in: other readers add theirs in that one.
    pub(crate) fn pop_input(&mut self, layer: ParameterId) -> Result<(Tensor, DType)> {
        let x = self.pop_tensor()?;
        let used = self.backend.convert(&x, self.dtype_of(layer))?;
        Ok((used, x.dtype()))
    }

    /// How the tape holds this tensor; one that is kept twice takes memory once.
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

    /// Has the tape hold `y` as a normalisation to apply again, where normalisations are recomputed.
    pub(crate) fn recompute_from_norm(&mut self, y: &Tensor, normed: Normed) {
        // A parametric ReLU tells its gate from y, whose sign may change where it follows from a rounded value.
        let exact = normed.relu || !self.storage.rounds();
        if self.recording && exact && self.storage.recompute != Recompute::None {
            let kept = Kept::Normed(Arc::new(normed));
            self.kept.insert(y.id(), kept);
        }
    }

    /// Has the tape hold `y`, a parametric ReLU of `x`, as one to apply again, if it holds `x` as a normalisation.
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

    /// The tensor that the tape holds as `kept`.
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

    /// Ends the forward pass: forgets which tensors have another form, so that the tape alone keeps memory alive.
    pub(crate) fn end_forward(&mut self) {
        self.kept.clear();
    }

    fn pop(&mut self) -> Saved {
        self.tape
            .pop()
            .expect("every layer pops what it pushed, in reverse order")
    }

    /// The tensor that [`Self::push_tensor`] kept, in its own type.
    pub(crate) fn pop_tensor(&mut self) -> Result<Tensor> {
        match self.pop() {
            Saved::Tensor(kept) => self.restore(kept),
            other => unreachable!("expected a tensor on the tape, found {other:?}"),
        }
    }

    /// What a normalisation pushed.
    pub(crate) fn pop_norm(&mut self) -> BatchNormSaved {
        match self.pop() {
            Saved::Norm(saved) => saved,
            other => unreachable!("expected statistics on the tape, found {other:?}"),
        }
    }

    /// What max pooling pushed.
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

    /// Whether the signs of a ReLU's output are kept apart from its values.
    fn keeps_gates(&self) -> bool {
        self.storage.rounds()
    }

    /// The shape that a layer pushed.
    pub(crate) fn pop_shape(&mut self) -> [usize; 4] {
        match self.pop() {
            Saved::Shape(shape) => shape,
            other => unreachable!("expected a shape on the tape, found {other:?}"),
        }
    }

    /// The key that a dropout layer or a block pushed.
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
