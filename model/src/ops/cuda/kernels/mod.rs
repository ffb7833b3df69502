//! The kernels: their sources, compiled for this GPU once, all at the same time, and how they are launched.
//!
//! `README.md` lists them with their arguments and grids.

use super::device::{Gpu, driver_error, failed};
use super::kept::{keep_code, kept_code};
use super::nvrtc::Compiler;
use crate::error::{ModelError, Result};
use crate::gpu::GpuError;
use crate::lock::locked;
use candle_core::cuda_backend::cudarc::driver::{CudaContext, CudaFunction, CudaModule, sys};
use candle_core::cuda_backend::cudarc::nvrtc::Ptx;
use candle_core::{DType, Tensor};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::ffi::c_void;
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

/// What every source begins with.
const COMMON: &str = include_str!("common.cuh");

/// A source file.
pub(super) struct File {
    name: &'static str,
    text: &'static str,
}

impl File {
    /// As it is compiled.
    fn whole(&self) -> String {
        format!("{COMMON}\n{}", self.text)
    }
}

macro_rules! files {
    ($($name:ident = $file:literal,)*) => {
        $(pub(super) const $name: &File = &File {
            name: $file,
            text: include_str!($file),
        };)*

        /// Every source file.
        const ALL: &[&File] = &[$($name),*];
    };
}

files! {
    ELEMENTWISE = "elementwise.cu",
    CHANNELS = "channels.cu",
    NORM = "norm.cu",
    POOL = "pool.cu",
    RESIZE = "resize.cu",
    DEPTHWISE = "depthwise.cu",
    DEPTHWISE_WALK = "depthwise_walk.cu",
    FILTER = "filter.cu",
    CONVOLVE = "convolve.cu",
    LOSS = "loss.cu",
    OPTIMIZER = "optimizer.cu",
}

/// Threads of a block.
const THREADS: u32 = 256;

/// Blocks in x, y and z.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grid(u32, u32, u32);

fn blocks(count: usize, each: usize, most: usize) -> u32 {
    count.div_ceil(each).clamp(1, most) as u32
}

/// The grids of `README.md`, by their letters there.
impl Grid {
    /// `F`: over this many values.
    pub(super) fn flat(values: usize) -> Self {
        Self(blocks(values, 2048, 4096), 1, 1)
    }

    /// `E`: adds partial sums.
    pub(super) fn ends(channels: usize, samples: usize) -> Self {
        Self(channels.div_ceil(32) as u32, samples as u32, 1)
    }

    /// `L`: the loss of this many pixels.
    pub(super) fn loss(pixels: usize) -> Self {
        Self(blocks(pixels, 1024, 1024), 1, 1)
    }

    /// `K` and `1`: this many blocks.
    pub(super) fn blocks(count: usize) -> Self {
        Self(count as u32, 1, 1)
    }

    /// Blocks in x.
    pub(super) fn width(self) -> usize {
        self.0 as usize
    }

    /// Blocks in y: into how many partial sums a field's pixels are summed.
    pub(super) fn chunks(self) -> usize {
        self.1 as usize
    }
}

/// Grids of kernels of which two blocks fit on a multiprocessor: no more blocks than that, so that none waits for
/// another to end.
impl Gpu {
    fn side_by_side(&self) -> usize {
        2 * self.multiprocessors
    }

    /// `P`: over this many values, of which a thread keeps to some channels.
    pub(super) fn pixels(&self, values: usize) -> Grid {
        Grid(blocks(values, 2048, self.side_by_side()), 1, 1)
    }

    /// `C`: sums over pixels per channel, of `samples` samples.
    pub(super) fn sums(&self, pixels: usize, channels: usize, samples: usize) -> Grid {
        let side = channels.div_ceil(128);
        let most = (self.side_by_side() / (side * samples)).max(1);
        Grid(side as u32, blocks(pixels, 128, most), samples as u32)
    }

    /// `D`: depthwise convolutions; in z the rows of a kernel whose gradients are summed.
    pub(super) fn depthwise(&self, pixels: usize, channels: usize, rows: usize) -> Grid {
        let side = channels.div_ceil(64);
        let most = (self.side_by_side() / (side * rows)).max(1);
        Grid(side as u32, blocks(pixels, 96, most), rows as u32)
    }
}

/// An argument of a kernel.
#[derive(Debug, Clone, Copy)]
pub(super) enum Arg<'a> {
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
pub(super) fn int<'a>(value: usize) -> Arg<'a> {
    Arg::I32(value as i32)
}

/// An `i64` of the kernel.
pub(super) fn long<'a>(value: usize) -> Arg<'a> {
    Arg::I64(value as i64)
}

/// What a kernel's name ends in for a type.
///
/// # Errors
/// [`ModelError::DType`] of a type that no kernel is written for.
pub(super) fn suffix(dtype: DType) -> Result<&'static str> {
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

/// Machine code by source file, or why there is none.
type Compiled = HashMap<&'static str, std::result::Result<Vec<u8>, GpuError>>;

/// NVRTC's own depth of calls is not known, and a thread's stack costs nothing before it is used.
const COMPILER_STACK: usize = 16 << 20;

/// All kernels of a GPU.
pub(super) struct Kernels {
    compiler: Compiler,
    architecture: String,
    cache: Option<PathBuf>,
    /// Compiled and not loaded yet; none before the first kernel is asked for.
    compiled: OnceLock<Mutex<Compiled>>,
    modules: Mutex<HashMap<&'static str, Arc<CudaModule>>>,
    functions: Mutex<HashMap<String, CudaFunction>>,
}

impl Kernels {
    pub(super) fn new(compiler: Compiler, architecture: String, cache: Option<PathBuf>) -> Self {
        Self {
            compiler,
            architecture,
            cache,
            compiled: OnceLock::new(),
            modules: Mutex::default(),
            functions: Mutex::default(),
        }
    }

    /// The code of a file and, after that, its functions.
    fn function(
        &self,
        context: &Arc<CudaContext>,
        file: &'static File,
        name: &str,
    ) -> Result<sys::CUfunction> {
        let mut functions = locked(&self.functions);
        if let Some(function) = functions.get(name) {
            return Ok(function.cu_function());
        }
        let mut modules = locked(&self.modules);
        let module = match modules.get(file.name) {
            Some(module) => module.clone(),
            None => {
                let module = self.load(context, file)?;
                modules.insert(file.name, module.clone());
                module
            }
        };
        let function = module.load_function(name).map_err(|error| {
            failed(
                "cuModuleGetFunction",
                &format!("`{name}` of `{}`: {error}", file.name),
            )
        })?;
        let handle = function.cu_function();
        functions.insert(name.to_string(), function);
        Ok(handle)
    }

    /// Compiled, or as compiled by an earlier run.
    fn load(&self, context: &Arc<CudaContext>, file: &'static File) -> Result<Arc<CudaModule>> {
        let compiled = (self.compiled).get_or_init(|| Mutex::new(self.compile_what_is_missing()));
        let kept = self.kept(file);
        let known = kept.as_deref().and_then(kept_code);
        // What another driver left is no reason to fail.
        if let Some(module) = known.and_then(|code| self.module(context, &code).ok()) {
            return Ok(module);
        }
        let ready = locked(compiled).remove(file.name);
        let code = ready.unwrap_or_else(|| self.compile(file))?;
        Ok(self.module(context, &code)?)
    }

    /// Every file that no earlier run has left, all at the same time: whoever needs one kernel soon needs the others.
    fn compile_what_is_missing(&self) -> Compiled {
        let missing = ALL.iter().copied().filter(|file| {
            let kept = self.kept(file);
            kept.is_none_or(|path| kept_code(&path).is_none())
        });
        let missing: Vec<&'static File> = missing.collect();
        if missing.is_empty() {
            return Compiled::new();
        }
        let began = Instant::now();
        let compiled = std::thread::scope(|scope| {
            let begin = |file: &'static File| {
                let builder = std::thread::Builder::new()
                    .name(format!("compile-{}", file.name))
                    .stack_size(COMPILER_STACK);
                (
                    file.name,
                    builder.spawn_scoped(scope, move || self.compile(file)),
                )
            };
            let begun: Vec<_> = missing.iter().copied().map(begin).collect();
            // A file without a thread, or whose thread failed, is compiled when it is asked for.
            let ended = begun.into_iter().filter_map(|(name, thread)| {
                let code = thread.ok()?.join().ok()?;
                Some((name, code))
            });
            ended.collect::<Compiled>()
        });
        tracing::info!(
            "{} files of GPU kernels compiled for {} in {:.1} s",
            compiled.len(),
            self.architecture,
            began.elapsed().as_secs_f64()
        );
        compiled
    }

    fn compile(&self, file: &'static File) -> std::result::Result<Vec<u8>, GpuError> {
        let code = (self.compiler).compile(file.name, &file.whole(), &self.architecture)?;
        if let Some(path) = self.kept(file) {
            keep_code(&path, &code);
        }
        Ok(code)
    }

    /// Where a file's machine code is kept: a name that changes with whatever it depends on.
    fn kept(&self, file: &File) -> Option<PathBuf> {
        let folder = self.cache.as_ref()?;
        let (major, minor) = self.compiler.version();
        let digest = Sha256::new()
            .chain_update(format!("{} {major}.{minor}\n", self.architecture))
            .chain_update(file.whole())
            .finalize();
        let key: String = digest
            .iter()
            .take(16)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Some(folder.join(format!("{key}.cubin")))
    }

    fn module(
        &self,
        context: &Arc<CudaContext>,
        code: &[u8],
    ) -> std::result::Result<Arc<CudaModule>, GpuError> {
        let image = Ptx::from_binary(code.to_vec());
        context.load_module(image).map_err(|error| GpuError::Call {
            call: "cuModuleLoadData",
            reason: error.to_string(),
        })
    }
}

impl Gpu {
    /// Starts a kernel that works on values of `dtype`.
    pub(super) fn launch(
        &self,
        file: &'static File,
        name: &str,
        dtype: DType,
        grid: Grid,
        arguments: &[Arg<'_>],
    ) -> Result<()> {
        self.launch_named(file, &format!("{name}_{}", suffix(dtype)?), grid, arguments)
    }

    /// Starts the kernel of this name.
    pub(super) fn launch_named(
        &self,
        file: &'static File,
        name: &str,
        grid: Grid,
        arguments: &[Arg<'_>],
    ) -> Result<()> {
        let function = self.kernels.function(self.stream.context(), file, name)?;
        // Every argument has a word of its own; smaller ones lie in its first bytes.
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
