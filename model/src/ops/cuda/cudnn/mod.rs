//! cuDNN's convolutions: thin and safe.
//!
//! A [`Problem`] is everything that decides which engine runs; that is found once, by timing those that cuDNN names
//! first, and kept on disk, so that a run that goes on takes the same one as long as cuDNN names it in the same place, and
//! so do ranks that share the file.
//! Only deterministic engines are taken: the same recipe gives the same bits on the same kind of GPU. Where there is
//! none a slow kernel of our own solves the problem, which is reported once.
//!
//! Everything goes by cuDNN's graphs: a problem is a [`graph::Graph`] of one operation, or of a convolution and what
//! follows it ([`Ending`]); an engine with its choices is made a [`plan::Plan`] once per process, and a call is no more
//! than a plan with its addresses, which takes the host microseconds.

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

/// The generation whose headers say how the functions are called.
const MAJOR: usize = 9;
/// Working memory of one convolution at most, and as a share of the GPU's memory.
pub(super) const MOST_MEMORY: usize = 1 << 30;
const MOST_SHARE: usize = 16;

/// How one problem is solved.
#[derive(Clone)]
enum Way {
    Cudnn(Arc<Plan>),
    /// cuDNN has nothing for it: kernels of our own do.
    Own,
}

impl Way {
    /// The type of what it gives.
    fn result(&self, problem: &Problem) -> DType {
        match self {
            Self::Cudnn(plan) => plan.graph.result.dtype(problem),
            Self::Own => problem.dtype,
        }
    }
}

/// The library, before a GPU is open.
pub(super) struct Library(Functions);

/// The library's handle on this process's stream, with what it has been asked so far.
pub(super) struct Cudnn {
    functions: Arc<Functions>,
    target: Target,
    /// How each problem is solved. Entries stay: captured work of a plan may need it.
    ways: HashMap<(Problem, Alignment), Way>,
    choices: Algorithms,
    /// Working memory of one convolution at most.
    most_memory: usize,
}

// SAFETY: cuDNN allows a handle on any thread as long as one at a time uses it; the only one lies in a mutex.
unsafe impl Send for Cudnn {}

impl Cudnn {
    pub(super) fn load() -> std::result::Result<Library, GpuError> {
        // cuDNN asks for them by name, and the loader would not look where it lies itself.
        prepare(&[
            "libcublasLt.so.13",
            "libcublas.so.13",
            "libcublasLt.so.12",
            "libcublas.so.12",
        ]);
        let version = library::version()?;
        // The functions are declared as in the headers of version 9.
        if version / 10_000 != MAJOR {
            return Err(GpuError::LibraryVersion {
                what: "cuDNN",
                expected: format!("version {MAJOR}"),
                found: dotted(version),
            });
        }
        Ok(Library(Functions::load()?))
    }

    /// As cuDNN counts: 9.19.0 is 91900.
    pub(super) fn version(&self) -> String {
        dotted(self.functions.version())
    }

    /// Bytes that a convolution works in at most, beside its operands and its result; more for f32 if its
    /// fields, of which these are one sample's, need it.
    pub(super) fn most_memory(&self, f32s: Option<([usize; 4], [usize; 4])>) -> usize {
        let turned = f32s.map_or(0, |(x, y)| parts::turned(x, y));
        parts::memory(self.most_memory, turned)
    }

    /// The type of the result of a problem that was solved before.
    pub(super) fn result_type(&self, problem: &Problem) -> Option<DType> {
        let ways = self.ways.iter();
        let ways = ways.filter(|((known, _), _)| known == problem);
        let types: Vec<DType> = ways.map(|(_, way)| way.result(problem)).collect();
        // With a different alignment of the operands it may be a different one.
        let rounded = types.iter().find(|&&dtype| dtype != DType::F32);
        rounded.or(types.first()).copied()
    }
}

impl Library {
    /// A handle on a stream.
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
    /// How to solve a problem whose tensors lie at these addresses, in the order of [`graph::IDS`]; with two operands,
    /// the result need not exist yet.
    fn way(&mut self, gpu: &Gpu, problem: &Problem, places: &[u64]) -> Result<Way> {
        let alignment = Alignment::of(places);
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
        // What follows a convolution is a pass of its own then, which is not slow.
        if matches!(way, Way::Own) && problem.ending.is_none() {
            tracing::warn!(
                "cuDNN has no deterministic algorithm within {} MB for {text}: a slow kernel computes it",
                problem.memory(self.most_memory) / 1_000_000,
            );
        }
        self.ways.insert((*problem, alignment), way.clone());
        Ok(way)
    }

    /// The way that takes the least time, which is kept.
    fn new_way(
        &mut self,
        gpu: &Gpu,
        problem: &Problem,
        alignment: Alignment,
        places: &[u64],
        text: &str,
    ) -> Result<Way> {
        // A result that is not made yet, in the widest type.
        let room = match places.len() {
            2 => Some(gpu.empty(&problem.kernels(), DType::F32)?),
            _ => None,
        };
        let made = room.as_ref().map(|room| gpu.address(room)).transpose()?;
        let places: Vec<u64> = places.iter().copied().chain(made).collect();
        // Another run may have what this one lacks, so that only a choice between all is kept.
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
            // Ranks that begin together time the same problems; whoever is first decides for all.
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
    /// Solves a problem whose result is of its operands' type: `to` of `a` and `b`, in the order of [`Direction`].
    pub(super) fn convolve(
        &self,
        problem: &Problem,
        a: &Tensor,
        b: &Tensor,
        to: &Tensor,
    ) -> Result<()> {
        // The type of kernels' gradients is not known beforehand.
        debug_assert_ne!(problem.direction, Direction::BackwardFilter);
        match self.by_cudnn(problem, &[a, b, to])? {
            true => Ok(()),
            false => plain::convolve(self, problem, a, b, to),
        }
    }

    /// Solves a problem with an [`Ending`] in one call and gives true, if cuDNN can: `to` of `x` and `w`,
    /// with a bias in their type and a residual if the ending has one.
    pub(super) fn convolve_and_end(
        &self,
        problem: &Problem,
        (x, w, to): (&Tensor, &Tensor, &Tensor),
        bias: &Tensor,
        residual: Option<&Tensor>,
    ) -> Result<bool> {
        let tensors: Vec<&Tensor> = [x, w, to, bias].into_iter().chain(residual).collect();
        let places = tensors.iter().map(|tensor| self.address(tensor));
        // cuDNN 9.19 names the same engines for them whatever it is told of alignment: it does not look at that.
        if !are_aligned(&places.collect::<Result<Vec<u64>>>()?) {
            return Ok(false);
        }
        self.by_cudnn(problem, &tensors)
    }

    /// Solves a problem of these tensors and gives true, if cuDNN can.
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

    /// The gradient of the kernels, (outer, taps, inner), of `x` and `dy`: in f32 where cuDNN gives it so, else in
    /// their type.
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
