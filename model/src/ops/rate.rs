//! The current rate of matrix products on this machine, as a baseline for measured times.

use super::{Backend, ConvSpec, Fuse};
use crate::error::Result;
use candle_core::{DType, Device, Tensor};
use std::time::Instant;

/// The minimum duration of a GPU measurement; below it, launch and synchronisation would dominate.
const LEAST_SECONDS: f64 = 0.02;

/// A rate in operations per second that every real GPU exceeds.
const SLOW: f64 = 1e11;

impl Backend {
    /// The floating-point rate, in operations per second, of a matrix product (as a 1x1 convolution) in a data type:
    /// the median of three, measured now, on the cores available to this process. If the processor does not multiply
    /// bf16, this is the rate of computing on values stored in bf16.
    ///
    /// # Errors
    /// As for the convolution.
    pub fn matrix_rate(self, dtype: DType) -> Result<f64> {
        if !self.is_gpu() {
            return self.rate_of(dtype, (96, 512));
        }
        // A small product leaves most of a GPU idle, but suffices for something as slow as the stand-in GPU.
        match self.rate_of(dtype, (64, 256))? {
            slow if slow < SLOW => Ok(slow),
            _ => self.rate_of(dtype, (256, 1024)),
        }
    }

    /// The rate of a product with `pixels` × `pixels` pixels and `channels` × `channels` weights.
    fn rate_of(self, dtype: DType, (pixels, channels): (usize, usize)) -> Result<f64> {
        // Random values: products of ones draw less power, and so run faster, than those of a network. One row of
        // pixels is repeated, because generating random values takes longer than multiplying them.
        let row = Tensor::randn(0f32, 1f32, (1, 1, pixels, channels), &Device::Cpu)?;
        let x = (row.broadcast_as((1, pixels, pixels, channels))?).contiguous()?;
        let w = Tensor::randn(0f32, 0.03f32, (channels, channels, 1, 1), &Device::Cpu)?;
        // Copied beforehand, so that transfers are not measured.
        let (x, w) = (self.bring(&x.to_dtype(dtype)?)?, self.bring(&w)?);
        let seconds_of = |products: usize| -> Result<f64> {
            self.wait()?;
            let started = Instant::now();
            for _ in 0..products {
                self.conv2d(&x, &w, None, &ConvSpec::same(1), Fuse::None)?;
            }
            self.wait()?;
            Ok(started.elapsed().as_secs_f64() / products as f64)
        };
        let mut products = 1;
        if self.is_gpu() {
            seconds_of(1)?; // chooses the algorithm
            products = (LEAST_SECONDS / seconds_of(4)?).ceil().clamp(1.0, 1000.0) as usize;
        }
        let mut times = [0.0; 3];
        for time in &mut times {
            *time = seconds_of(products)?;
        }
        times.sort_by(f64::total_cmp);
        Ok(2.0 * (pixels * pixels * channels * channels) as f64 / times[1])
    }
}
