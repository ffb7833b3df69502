//! Gradient checkpointing: blocks of layers that leave only their inputs on the tape and run a second time before their
//! backward pass.

use super::Pass;
use super::tape::{Kept, Saved};
use crate::error::Result;
use crate::storage::Recompute;
use candle_core::Tensor;

impl Pass {
    /// Runs a part of the network. Where blocks are recomputed, only `inputs` stay on the tape; the backward pass of
    /// the part must begin with [`Self::replay`].
    pub(crate) fn block<const N: usize, T>(
        &mut self,
        inputs: [Tensor; N],
        forward: impl FnOnce(&mut Self, [Tensor; N]) -> Result<T>,
    ) -> Result<T> {
        if !self.recording || self.storage.recompute != Recompute::Blocks {
            return forward(self, inputs);
        }
        for input in &inputs {
            // Rounding the input would change everything inside the block: normalisations and ReLUs amplify the error.
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

    /// Restores the tape entries of a block by running its forward pass again on its saved inputs.
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
}
