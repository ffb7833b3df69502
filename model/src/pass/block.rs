//! Blocks of layers that run a second time, so that between the passes the tape holds only their inputs (gradient
//! checkpointing).

use super::Pass;
use super::tape::{Kept, Saved};
use crate::error::Result;
use crate::storage::Recompute;
use candle_core::Tensor;

impl Pass {
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
}
