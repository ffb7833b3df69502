//! Input channels that tell a network how far north a row lies, which its kernels cannot see.

use crate::error::Result;
use crate::lock::locked;
use crate::ops::Backend;
use candle_core::{Device, Tensor};
use std::sync::Mutex;

/// The channels of latitude of every shape so far; kept only on a GPU, to which they would be copied in every pass.
#[derive(Debug, Default)]
pub(super) struct Latitudes(Mutex<Vec<Tensor>>);

impl Latitudes {
    /// The channels of latitude for fields like `x`, where `backend` computes.
    ///
    /// # Shapes
    /// x `(b, h, w, c)` → `(b, h, w, 2)`
    pub(super) fn of(&self, x: &Tensor, backend: Backend) -> Result<Tensor> {
        if !backend.is_gpu() {
            return latitude_channels(x);
        }
        let mut kept = locked(&self.0);
        let fits = |kept: &&Tensor| kept.dims()[..3] == x.dims()[..3] && kept.dtype() == x.dtype();
        if let Some(kept) = kept.iter().find(fits) {
            return Ok(kept.clone());
        }
        let made = backend.bring(&latitude_channels(x)?)?;
        kept.push(made.clone());
        Ok(made)
    }
}

/// The position of every row, from -1 to 1, and its square: `(b, h, w, 2)`, as `x` is stored.
fn latitude_channels(x: &Tensor) -> Result<Tensor> {
    let (b, h, w, _) = x.dims4()?;
    let mut values = Vec::with_capacity(b * h * w * 2);
    for row in (0..b).flat_map(|_| 0..h) {
        let position = 2.0 * (row as f32 + 0.5) / h as f32 - 1.0;
        (0..w).for_each(|_| values.extend([position, position * position]));
    }
    let channels = Tensor::from_vec(values, (b, h, w, 2), &Device::Cpu)?;
    Ok(channels.to_dtype(x.dtype())?)
}
