//! Convolutions by cuDNN: a thin safe wrapper.
//!
//! A [`Problem`] is everything that determines which engine runs. The engine is found once, by timing cuDNN's first
//! suggestions, and stored on disk. A resumed run uses the same engine as long as cuDNN lists it at the same position,
//! and so do ranks that share the file. Only deterministic engines are used, so that a recipe gives bit-identical
//! results on the same kind of GPU. If there is none, a slow kernel of our own solves the problem, which is logged
//! once.
//!
//! All calls use cuDNN's graph API: a problem is a [`graph::Graph`] of one operation, or of a convolution and its
//! epilogue ([`Ending`]). An engine with its knobs becomes a [`plan::Plan`] once per process; a call then only combines
//! a plan with addresses, which takes the host microseconds.

mod bands;
#[cfg(test)]
mod described;
mod descriptor;
mod engine;
mod find;
mod graph;
mod library;
mod parts;
mod plan;
mod problem;
mod target;

#[cfg(test)]
pub(super) use described::{A100, Described, H200};
pub(super) use library::Direction;
pub(super) use parts::samples;
pub(super) use problem::{Ending, Problem, are_aligned};

use super::algorithms::Algorithms;
use super::device::Gpu;
use super::library::prepare;
use super::plain;
use crate::error::Result;
use crate::gpu::GpuError;
use crate::lock::locked;
use candle_core::cuda_backend::cudarc::driver::CudaStream;
use candle_core::{DType, Tensor};
use library::{Functions, dotted};
use plan::Plan;
use problem::Alignment;
use std::collections::HashMap;
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::Arc;
use target::Target;

/// The major version to whose headers the function declarations correspond.
const MAJOR: usize = 9;
/// The workspace limit of a convolution in bytes, and as a share of the GPU's memory.
pub(super) const MOST_MEMORY: usize = 1 << 30;
const MOST_SHARE: usize = 16;

/// How a problem is solved.
#[derive(Clone)]
enum Way {
    Cudnn(Arc<Plan>),
    /// By kernels of our own, because cuDNN does not support it.
    Own,
}

impl Way {
    /// The type of the result.
    fn result(&self, problem: &Problem) -> DType {
        match self {
            Self::Cudnn(plan) => plan.graph.result.dtype(problem),
            Self::Own => problem.dtype,
        }
    }
}

/// The library before a GPU is open.
pub(super) struct Library(Functions);

/// The cuDNN handle on this process's stream, with the decisions so far.
pub(super) struct Cudnn {
    functions: Arc<Functions>,
    target: Target,
    /// How each problem is solved. Entries are never removed, because captured graphs may refer to their plans.
    ways: HashMap<(Problem, Alignment), Way>,
    choices: Algorithms,
    /// The workspace limit of a convolution in bytes.
    most_memory: usize,
}

// SAFETY: cuDNN allows a handle on any thread as long as one at a time uses it; the only one lies in a mutex.
unsafe impl Send for Cudnn {}

impl Cudnn {
    pub(super) fn load() -> std::result::Result<Library, GpuError> {
        // cuDNN loads these by name, and the loader would not search cuDNN's own directory.
        prepare(&[
            "libcublasLt.so.13",
            "libcublas.so.13",
            "libcublasLt.so.12",
            "libcublas.so.12",
        ]);
        let version = library::version()?;
        // The functions are declared according to the headers of version 9.
        if version / 10_000 != MAJOR {
            return Err(GpuError::LibraryVersion {
                what: "cuDNN",
                expected: format!("version {MAJOR}"),
                found: dotted(version),
            });
        }
        Ok(Library(Functions::load()?))
    }

    /// In cuDNN's numbering: 9.19.0 is 91900.
    pub(super) fn version(&self) -> String {
        dotted(self.functions.version())
    }

    /// The workspace limit in bytes; larger for f32 if a sample's fields, given by their shapes, need it.
    pub(super) fn most_memory(&self, f32s: Option<([usize; 4], [usize; 4])>) -> usize {
        let turned = f32s.map_or(0, |(x, y)| parts::turned(x, y));
        parts::memory(self.most_memory, turned)
    }

    /// The result type of a problem that was solved before.
    pub(super) fn result_type(&self, problem: &Problem) -> Option<DType> {
        let ways = self.ways.iter();
        let ways = ways.filter(|((known, _), _)| known == problem);
        let types: Vec<DType> = ways.map(|(_, way)| way.result(problem)).collect();
        // The type may differ between alignments of the operands.
        let rounded = types.iter().find(|&&dtype| dtype != DType::F32);
        rounded.or(types.first()).copied()
    }
}

impl Library {
    /// Creates a handle on a stream.
    pub(super) fn start(
        self,
        stream: &CudaStream,
        architecture: &str,
        cache: Option<PathBuf>,
        gpu_memory: usize,
    ) -> Result<Cudnn> {
        let functions = Arc::new(self.0);
        let mut handle = null_mut();
        // SAFETY: the place is writable; the stream lives as long as the process's GPU.
        unsafe {
            functions.check("cudnnCreate", "", (functions.cudnnCreate)(&mut handle))?;
            let status = (functions.cudnnSetStream)(handle, stream.cu_stream().cast());
            functions.check("cudnnSetStream", "", status)?;
        }
        let name = format!("{architecture}-cudnn-{}.engines", functions.version());
        Ok(Cudnn {
            functions,
            target: Target::Handle(handle),
            ways: HashMap::new(),
            choices: Algorithms::read(cache.map(|folder| folder.join(name))),
            most_memory: MOST_MEMORY.min(gpu_memory / MOST_SHARE),
        })
    }
}

impl Cudnn {
    /// How to solve a problem whose tensors lie at these addresses, in the order of [`graph::IDS`]. With only two
    /// addresses, the result has not been allocated yet.
    fn way(&mut self, gpu: &Gpu, problem: &Problem, places: &[u64]) -> Result<Way> {
        let alignment = Alignment::common(places);
        if let Some(way) = self.ways.get(&(*problem, alignment)) {
            return Ok(way.clone());
        }
        gpu.must_be_done_now("looking for an algorithm")?;
        let text = problem.text() + &alignment.text();
        let way = match self.choices.get(&text) {
            Some(kept) => {
                let plan = self.kept(problem, alignment, kept)?;
                if let Some(plan) = &plan {
                    tracing::debug!("{text}: {} as in an earlier run", plan.config.engine);
                }
                plan.map(|plan| Way::Cudnn(Arc::new(plan)))
            }
            None => None,
        };
        let way = match way {
            Some(way) => way,
            None => self.new_way(gpu, problem, alignment, places, &text)?,
        };
        // The epilogue then runs as a separate pass, which is not slow.
        if matches!(way, Way::Own) && problem.ending.is_none() {
            tracing::warn!(
                "cuDNN has no deterministic algorithm within {} MB for {text}: a slow kernel computes it",
                problem.memory(self.most_memory) / 1_000_000,
            );
        }
        self.ways.insert((*problem, alignment), way.clone());
        Ok(way)
    }

    /// Finds the fastest solution and stores it.
    fn new_way(
        &mut self,
        gpu: &Gpu,
        problem: &Problem,
        alignment: Alignment,
        places: &[u64],
        text: &str,
    ) -> Result<Way> {
        // A temporary result, in the widest type.
        let room = match places.len() {
            2 => Some(gpu.empty(&problem.kernels(), DType::F32)?),
            _ => None,
        };
        let made = room.as_ref().map(|room| gpu.address(room)).transpose()?;
        let places: Vec<u64> = places.iter().copied().chain(made).collect();
        // A run with more free memory might find more candidates, so only a choice among all of them is stored.
        let Some(found) = self.find(gpu, problem, alignment, &places)? else {
            return Ok(Way::Own);
        };
        let plan = found.plan;
        tracing::debug!(
            "{text}: {} is taken, with a result of {:?}",
            plan.config.engine,
            plan.graph.result.dtype(problem)
        );
        if let (true, Some(number)) = (found.all_ran, find::number(&plan)) {
            let holds = self.choices.add(text.to_string(), number);
            // Ranks that start together time the same problems; the first to finish decides for all.
            if holds != number
                && let Some(plan) = self.kept(problem, alignment, holds)?
            {
                tracing::debug!("{text}: {} as another process", plan.config.engine);
                return Ok(Way::Cudnn(Arc::new(plan)));
            }
        }
        Ok(Way::Cudnn(Arc::new(plan)))
    }
}

impl Gpu {
    /// Solves a problem whose result has the operands' type: `to` from `a` and `b`, in the order of [`Direction`].
    pub(super) fn convolve(
        &self,
        problem: &Problem,
        a: &Tensor,
        b: &Tensor,
        to: &Tensor,
    ) -> Result<()> {
        // The type of kernel gradients is not known in advance.
        debug_assert_ne!(problem.direction, Direction::BackwardFilter);
        match self.by_cudnn(problem, &[a, b, to])? {
            true => Ok(()),
            false => plain::convolve(self, problem, a, b, to),
        }
    }

    /// Solves a problem with an [`Ending`] in one call if cuDNN supports it, and returns whether it did: `to` from `x`
    /// and `w`, with a bias in their type and, if the ending includes one, a residual.
    pub(super) fn convolve_and_end(
        &self,
        problem: &Problem,
        (x, w, to): (&Tensor, &Tensor, &Tensor),
        bias: &Tensor,
        residual: Option<&Tensor>,
    ) -> Result<bool> {
        let tensors: Vec<&Tensor> = [x, w, to, bias].into_iter().chain(residual).collect();
        let places = tensors.iter().map(|tensor| self.address(tensor));
        // cuDNN 9.19 suggests the same engines for unaligned tensors, whatever alignment is declared: it ignores it
        // here.
        if !are_aligned(&places.collect::<Result<Vec<u64>>>()?) {
            return Ok(false);
        }
        self.by_cudnn(problem, &tensors)
    }

    /// Solves a problem on these tensors if cuDNN supports it, and returns whether it did.
    fn by_cudnn(&self, problem: &Problem, tensors: &[&Tensor]) -> Result<bool> {
        let places = tensors.iter().map(|tensor| self.address(tensor));
        let places = places.collect::<Result<Vec<u64>>>()?;
        self.bind()?;
        let mut cudnn = locked(&self.cudnn);
        match cudnn.way(self, problem, &places)? {
            Way::Cudnn(plan) => cudnn.run(self, &plan, &places).map(|()| true),
            Way::Own => Ok(false),
        }
    }

    /// The kernel gradient, (outer, taps, inner), from `x` and `dy`: in f32 if cuDNN supports that, otherwise in their
    /// type.
    pub(super) fn kernel_gradient(
        &self,
        problem: &Problem,
        x: &Tensor,
        dy: &Tensor,
    ) -> Result<Tensor> {
        let (a, b) = (self.address(x)?, self.address(dy)?);
        self.bind()?;
        let mut cudnn = locked(&self.cudnn);
        let way = cudnn.way(self, problem, &[a, b])?;
        let to = self.empty(&problem.kernels(), way.result(problem))?;
        match way {
            Way::Cudnn(plan) => cudnn.run(self, &plan, &[a, b, self.address(&to)?])?,
            Way::Own => plain::convolve(self, problem, x, dy, &to)?,
        }
        Ok(to)
    }
}
