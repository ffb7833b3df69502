//! The kernels: their sources, each compiled once for this GPU, all in parallel.
//!
//! `README.md` lists them with their arguments and grids.

mod launch;

pub(super) use launch::{Arg, Grid, int, long, suffix};

use super::device::failed;
use super::kept::{keep_code, kept_code};
use super::nvrtc::Compiler;
use crate::error::Result;
use crate::gpu::GpuError;
use crate::lock::locked;
use candle_core::cuda_backend::cudarc::driver::{CudaContext, CudaFunction, CudaModule, sys};
use candle_core::cuda_backend::cudarc::nvrtc::Ptx;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

/// The common beginning of every source.
const COMMON: &str = include_str!("common.cuh");

/// A source file.
pub(super) struct File {
    name: &'static str,
    text: &'static str,
}

impl File {
    /// The complete text to compile.
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

/// Machine code by source file, or the compilation error.
type Compiled = HashMap<&'static str, std::result::Result<Vec<u8>, GpuError>>;

/// NVRTC's stack use is unknown, and a thread's stack costs nothing until it is used.
const COMPILER_STACK: usize = 16 << 20;

/// All kernels of a GPU.
pub(super) struct Kernels {
    compiler: Compiler,
    architecture: String,
    cache: Option<PathBuf>,
    /// Code that is compiled but not loaded yet; empty before the first kernel is requested.
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

    /// Loads the code of a file and, after that, its functions.
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

    /// Loads a file's code, from the cache of an earlier run if possible.
    fn load(&self, context: &Arc<CudaContext>, file: &'static File) -> Result<Arc<CudaModule>> {
        let compiled = (self.compiled).get_or_init(|| Mutex::new(self.compile_what_is_missing()));
        let kept = self.kept(file);
        let known = kept.as_deref().and_then(kept_code);
        // Code that was cached with another driver may fail to load, which is no error.
        if let Some(module) = known.and_then(|code| self.module(context, &code).ok()) {
            return Ok(module);
        }
        let ready = locked(compiled).remove(file.name);
        let code = ready.unwrap_or_else(|| self.compile(file))?;
        Ok(self.module(context, &code)?)
    }

    /// Compiles every file that is not cached, in parallel: a process that needs one kernel soon needs the others.
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
            // A file whose thread failed or could not be started is compiled when it is needed.
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

    /// The cache path of a file's machine code; the name changes with everything on which the code depends.
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
