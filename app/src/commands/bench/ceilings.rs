//! Measures this machine's memory bandwidth in the same run: the upper bound of memory-limited operations.

use super::median;
use candle_core::{Device, Tensor};
use rayon::prelude::*;
use squall_model::Backend;
use std::time::Instant;

/// Array length for timing memory: larger than any cache.
pub(super) const LONG: usize = 16 << 20;
/// Values per task of the triad.
const CHUNK: usize = 1 << 16;

/// The STREAM triad: two arrays read and one written, 12 bytes per value.
pub(super) enum Triad {
    /// a ← a + s b on all threads.
    Host(Vec<f32>, Vec<f32>),
    /// a + b into a reused buffer, on the GPU.
    Gpu(Backend, Tensor, Tensor),
}

impl Triad {
    /// A triad over arrays of this many values.
    pub fn new(backend: Backend, count: usize) -> anyhow::Result<Self> {
        let (a, b) = (vec![1f32; count], vec![2f32; count]);
        if !backend.is_gpu() {
            return Ok(Self::Host(a, b));
        }
        let bring = |values| backend.bring(&Tensor::from_vec(values, count, &Device::Cpu)?);
        Ok(Self::Gpu(backend, bring(a)?, bring(b)?))
    }

    /// Measures the seconds of one triad.
    pub fn seconds(&mut self) -> anyhow::Result<f64> {
        let started = Instant::now();
        match self {
            Self::Host(a, b) => {
                let chunks = a.par_chunks_mut(CHUNK).zip(b.par_chunks(CHUNK));
                chunks.for_each(|(a, b)| a.iter_mut().zip(b).for_each(|(a, b)| *a += 1e-3 * b));
                std::hint::black_box(a);
            }
            Self::Gpu(backend, a, b) => {
                backend.add(a, b)?;
                backend.wait()?;
            }
        }
        Ok(started.elapsed().as_secs_f64())
    }

    /// Measures the bandwidth in bytes per second: the median of three runs.
    pub fn rate(&mut self) -> anyhow::Result<f64> {
        let mut seconds = [self.seconds()?, self.seconds()?, self.seconds()?];
        let count = match self {
            Self::Host(a, _) => a.len(),
            Self::Gpu(_, a, _) => a.elem_count(),
        };
        Ok((12 * count) as f64 / median(&mut seconds))
    }

    /// Describes a time at this rate.
    pub fn words(&self) -> &'static str {
        match self {
            Self::Host(..) => "its bytes at the rate of a triad on all threads",
            Self::Gpu(..) => "its bytes at the rate of a sum of two arrays on the GPU",
        }
    }
}
