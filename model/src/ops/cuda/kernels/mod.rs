//! The kernels: their sources, compiled for this GPU once, all at the same time.
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
