//! Input channels that encode the latitude of a row, which a convolution cannot see.

use crate::error::Result;
use crate::lock::locked;
use crate::ops::Backend;
use candle_core::{Device, Tensor};
use std::sync::Mutex;

/// The latitude channels of every shape used so far. Cached only on a GPU, which would otherwise need an upload in
/// every pass.
#[derive(Debug, Default)]
pub(super) struct Latitudes(Mutex<Vec<Tensor>>);

impl Latitudes {
    /// The latitude channels for fields of the shape of `x`, on the device of `backend`.
    ///
    /// # Shapes
    /// x `(b, h, w, c)` → `(b, h, w, 2)`
    pub(super) fn channels_for(&self, x: &Tensor, backend: Backend) -> Result<Tensor> {
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

/// The position of every row, from -1 to 1, and its square: `(b, h, w, 2)`, in the data type of `x`.
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
