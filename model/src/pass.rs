//! One pass through a network: the tape that the forward pass writes and the backward pass reads from its end.

use crate::ops::{Backend, BatchNormSaved};
use crate::parameters::BufferId;
use candle_core::{DType, Tensor};

/// What a layer left for its backward pass.
#[derive(Debug)]
pub(crate) enum Saved {
    Tensor(Tensor),
    Norm(BatchNormSaved),
    Winners(Vec<u8>),
    Shape([usize; 4]),
    Key(u64),
}

/// The state of one forward pass and, in training, of its backward pass.
///
/// Layers push what they need on the way forward and pop it on the way back, so memory is freed as the backward pass
/// goes, and a layer used twice needs no bookkeeping.
#[derive(Debug)]
pub struct Pass {
    pub(crate) backend: Backend,
    pub(crate) dtype: DType,
    training: bool,
    tape: Vec<Saved>,
    statistics: Vec<(BufferId, BufferId, BatchNormSaved)>,
    key: u64,
}

impl Pass {
    /// A training pass; `key` (a function of seed and step) decides which values dropout keeps.
    pub fn train(backend: Backend, dtype: DType, key: u64) -> Self {
        Self {
            backend,
            dtype,
            training: true,
            tape: Vec::new(),
            statistics: Vec::new(),
            key,
        }
    }

    /// An inference pass: running statistics, no tape, no dropout.
    pub fn infer(backend: Backend, dtype: DType) -> Self {
        Self {
            training: false,
            ..Self::train(backend, dtype, 0)
        }
    }

    pub(crate) fn is_training(&self) -> bool {
        self.training
    }

    /// Keeps something for the backward pass; nothing in inference.
    pub(crate) fn push(&mut self, saved: Saved) {
        if self.training {
            self.tape.push(saved);
        }
    }

    pub(crate) fn push_tensor(&mut self, tensor: &Tensor) {
        if self.training {
            self.tape.push(Saved::Tensor(tensor.clone()));
        }
    }

    fn pop(&mut self) -> Saved {
        self.tape
            .pop()
            .expect("every layer pops what it pushed, in reverse order")
    }

    pub(crate) fn pop_tensor(&mut self) -> Tensor {
        match self.pop() {
            Saved::Tensor(tensor) => tensor,
            other => unreachable!("expected a tensor on the tape, found {other:?}"),
        }
    }

    pub(crate) fn pop_norm(&mut self) -> BatchNormSaved {
        match self.pop() {
            Saved::Norm(saved) => saved,
            other => unreachable!("expected statistics on the tape, found {other:?}"),
        }
    }

    pub(crate) fn pop_winners(&mut self) -> Vec<u8> {
        match self.pop() {
            Saved::Winners(winners) => winners,
            other => unreachable!("expected winners on the tape, found {other:?}"),
        }
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
        self.key = self.key.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.key
    }

    pub(crate) fn record_statistics(
        &mut self,
        mean: BufferId,
        variance: BufferId,
        saved: &BatchNormSaved,
    ) {
        self.statistics.push((mean, variance, saved.clone()));
    }

    pub(crate) fn take_statistics(&mut self) -> Vec<(BufferId, BufferId, BatchNormSaved)> {
        std::mem::take(&mut self.statistics)
    }

    /// Whether every layer has taken back what it left.
    pub(crate) fn is_spent(&self) -> bool {
        self.tape.is_empty()
    }
}
