//! Kernel launches: grids and arguments.
//!
//! `README.md` lists both for every kernel.

use super::File;
use crate::error::{ModelError, Result};
use crate::ops::cuda::device::{Gpu, driver_error};
use candle_core::cuda_backend::cudarc::driver::sys;
use candle_core::{DType, Tensor};
use std::ffi::c_void;
use std::ptr::null_mut;

/// Threads per block.
const THREADS: u32 = 256;

/// The number of blocks in x, y and z.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Grid(u32, u32, u32);

fn blocks(count: usize, each: usize, most: usize) -> u32 {
    count.div_ceil(each).clamp(1, most) as u32
}

/// The grids of `README.md`, by their letters there.
impl Grid {
    /// `F`: over this many values.
    pub(in super::super) fn flat(values: usize) -> Self {
        Self(blocks(values, 2048, 4096), 1, 1)
    }

    /// `E`: for kernels that add partial sums.
    pub(in super::super) fn ends(channels: usize, samples: usize) -> Self {
        Self(channels.div_ceil(32) as u32, samples as u32, 1)
    }

    /// `L`: for the loss over this many pixels.
    pub(in super::super) fn loss(pixels: usize) -> Self {
        Self(blocks(pixels, 1024, 1024), 1, 1)
    }

    /// `K` and `1`: this many blocks.
    pub(in super::super) fn blocks(count: usize) -> Self {
        Self(count as u32, 1, 1)
    }

    /// The number of blocks in x.
    pub(in super::super) fn width(self) -> usize {
        self.0 as usize
    }

    /// The number of blocks in y: the number of partial sums per field.
    pub(in super::super) fn chunks(self) -> usize {
        self.1 as usize
    }
}

/// Grids of kernels of which two blocks fit on a multiprocessor. There are no more blocks than run at the same time, so
/// none waits for another to finish.
impl Gpu {
    fn side_by_side(&self) -> usize {
        2 * self.multiprocessors
    }

    /// `P`: over this many values, where each thread stays with some channels.
    pub(in super::super) fn pixels(&self, values: usize) -> Grid {
        Grid(blocks(values, 2048, self.side_by_side()), 1, 1)
    }

    /// `C`: for sums over pixels per channel, of `samples` samples.
    pub(in super::super) fn sums(&self, pixels: usize, channels: usize, samples: usize) -> Grid {
        let side = channels.div_ceil(128);
        let most = (self.side_by_side() / (side * samples)).max(1);
        Grid(side as u32, blocks(pixels, 128, most), samples as u32)
    }

    /// `D`: for depthwise convolutions; z runs over the kernel rows whose gradients are summed.
    pub(in super::super) fn depthwise(&self, pixels: usize, channels: usize, rows: usize) -> Grid {
        let side = channels.div_ceil(64);
        let most = (self.side_by_side() / (side * rows)).max(1);
        Grid(side as u32, blocks(pixels, 96, most), rows as u32)
    }
}

/// A kernel argument.
#[derive(Debug, Clone, Copy)]
pub(in super::super) enum Arg<'a> {
    At(&'a Tensor),
    Null,
    I32(i32),
    I64(i64),
    U64(u64),
    F32(f32),
    F64(f64),
}

impl<'a> From<&'a Tensor> for Arg<'a> {
    fn from(tensor: &'a Tensor) -> Self {
        Self::At(tensor)
    }
}

impl<'a> From<Option<&'a Tensor>> for Arg<'a> {
    fn from(tensor: Option<&'a Tensor>) -> Self {
        tensor.map_or(Self::Null, Self::At)
    }
}

impl From<f32> for Arg<'_> {
    fn from(value: f32) -> Self {
        Self::F32(value)
    }
}

impl From<u64> for Arg<'_> {
    fn from(value: u64) -> Self {
        Self::U64(value)
    }
}

impl From<bool> for Arg<'_> {
    fn from(value: bool) -> Self {
        Self::I32(i32::from(value))
    }
}

/// An `i32` of the kernel.
pub(in super::super) fn int<'a>(value: usize) -> Arg<'a> {
    Arg::I32(value as i32)
}

/// An `i64` of the kernel.
pub(in super::super) fn long<'a>(value: usize) -> Arg<'a> {
    Arg::I64(value as i64)
}

/// The suffix of kernel names for a type.
///
/// # Errors
/// [`ModelError::DType`] for a type without kernels.
pub(in super::super) fn suffix(dtype: DType) -> Result<&'static str> {
    match dtype {
        DType::F32 => Ok("f32"),
        DType::BF16 => Ok("bf16"),
        DType::F16 => Ok("f16"),
        got => Err(ModelError::DType {
            op: "a kernel of the GPU",
            got,
        }),
    }
}

impl Gpu {
    /// Launches a kernel for values of `dtype`.
    pub(in super::super) fn launch(
        &self,
        file: &'static File,
        name: &str,
        dtype: DType,
        grid: Grid,
        arguments: &[Arg<'_>],
    ) -> Result<()> {
        self.launch_named(file, &format!("{name}_{}", suffix(dtype)?), grid, arguments)
    }

    /// Launches the kernel of this name.
    pub(in super::super) fn launch_named(
        &self,
        file: &'static File,
        name: &str,
        grid: Grid,
        arguments: &[Arg<'_>],
    ) -> Result<()> {
        let function = self.kernels.function(self.stream.context(), file, name)?;
        // Every argument gets a word of its own; smaller ones occupy its first bytes.
        let words = arguments.iter().map(|argument| {
            Ok(match *argument {
                Arg::At(tensor) => self.address(tensor)?,
                Arg::Null => 0,
                Arg::I32(value) => u64::from(value as u32),
                Arg::I64(value) => value as u64,
                Arg::U64(value) => value,
                Arg::F32(value) => u64::from(value.to_bits()),
                Arg::F64(value) => value.to_bits(),
            })
        });
        let mut words = words.collect::<Result<Vec<u64>>>()?;
        let mut places: Vec<*mut c_void> = words
            .iter_mut()
            .map(|word| std::ptr::from_mut(word).cast())
            .collect();
        self.bind()?;
        let Grid(x, y, z) = grid;
        let stream = self.stream.cu_stream();
        // SAFETY: number, order and types of the arguments are those of `README.md`, which the tests hold; the
        // driver copies them before it returns.
        let status = unsafe {
            sys::cuLaunchKernel(
                function,
                x,
                y,
                z,
                THREADS,
                1,
                1,
                0,
                stream,
                places.as_mut_ptr(),
                null_mut(),
            )
        };
        status.result().map_err(driver_error("cuLaunchKernel"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel would take values of one byte for f32 and read beyond their end.
    #[test]
    fn a_type_without_kernels_is_refused() {
        for dtype in [DType::F32, DType::BF16, DType::F16] {
            assert_eq!(suffix(dtype).unwrap(), dtype.as_str());
        }
        let error = suffix(DType::U8).unwrap_err().to_string();
        assert!(error.contains("data type U8 is not supported"), "{error}");
    }
}
