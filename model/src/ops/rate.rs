//! How fast the machine multiplies now: what other times are measured against.

use super::{Backend, ConvSpec, Fuse};
use crate::error::Result;
use candle_core::{DType, Device, Tensor};
use std::time::Instant;

impl Backend {
    /// Floating-point operations a second of a matrix product of values of a type (a 1x1 convolution is one): the median of three,
    /// measured now, on the cores that this process may use. Where the processor does not multiply bf16 this is the rate at
    /// which it computes on values stored so.
    ///
    /// # Errors
    /// Those of the convolution.
    pub fn matrix_rate(self, dtype: DType) -> Result<f64> {
        let (pixels, channels) = (96, 512);
        let x = Tensor::ones((1, pixels, pixels, channels), dtype, &Device::Cpu)?;
        let w = Tensor::ones((channels, channels, 1, 1), DType::F32, &Device::Cpu)?;
        // Copies are no part of it.
        let (x, w) = (self.bring(&x)?, self.bring(&w)?);
        self.wait()?;
        let mut times = [0.0; 3];
        for time in &mut times {
            let started = Instant::now();
            self.conv2d(&x, &w, None, &ConvSpec::same(1), Fuse::None)?;
            self.wait()?;
            *time = started.elapsed().as_secs_f64();
        }
        times.sort_by(f64::total_cmp);
        Ok(2.0 * (pixels * pixels * channels * channels) as f64 / times[1])
    }
}
