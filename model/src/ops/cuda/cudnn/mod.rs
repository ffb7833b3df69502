//! cuDNN's convolutions: thin and safe.
//!
//! A [`Problem`] is everything that decides which algorithm runs; it is found once, by timing the first that cuDNN names, and kept on
//! disk, so that a run that goes on takes the same one. Only deterministic algorithms are taken: the same recipe gives the same
//! bits on the same kind of GPU. Where there is none a slow kernel of our own solves the problem, which is told once.

mod calls;
mod find;
mod parts;

pub(super) use calls::Direction;
pub(super) use parts::samples;

use super::algorithms::Algorithms;
use super::device::Gpu;
use super::library::prepare;
use super::plain;
use crate::error::Result;
use crate::gpu::GpuError;
use calls::{
    CROSS_CORRELATION, DEFAULT_MATH, FLOAT, FMA_MATH, Functions, NHWC, Place, Pointer,
    TENSOR_OP_MATH, code, dotted,
};
use candle_core::cuda_backend::cudarc::driver::CudaStream;
use candle_core::{DType, Tensor};
use std::collections::HashMap;
use std::ffi::c_int;
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::{Arc, PoisonError};

/// The generation whose headers say how the functions are called.
const MAJOR: usize = 9;
/// The algorithm that is our own kernel.
const OWN: c_int = -1;
/// Working memory of one convolution at most, and as a share of the GPU's memory.
const MOST_MEMORY: usize = 1 << 30;
const MOST_SHARE: usize = 16;

/// Everything that decides which algorithm runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Problem {
    pub(super) direction: Direction,
    pub(super) dtype: DType,
    /// Of f32: whether operands may be rounded to TF32.
    pub(super) tf32: bool,
    /// (b, h, w, c)
    pub(super) x: [usize; 4],
    /// (b, p, q, o)
    pub(super) y: [usize; 4],
    pub(super) kernel: (usize, usize),
    pub(super) padding: (usize, usize),
    pub(super) stride: usize,
    pub(super) dilation: usize,
    pub(super) groups: usize,
}

impl Problem {
    /// Its name on disk.
    pub(super) fn text(&self) -> String {
        let direction = match self.direction {
            Direction::Forward => "forward",
            Direction::BackwardData => "data",
            Direction::BackwardFilter => "filter",
        };
        let numbers = [
            &self.x[..],
            &self.y[..],
            &[self.kernel.0, self.kernel.1, self.padding.0, self.padding.1],
            &[self.stride, self.dilation, self.groups],
        ];
        let numbers: Vec<String> = numbers.concat().iter().map(usize::to_string).collect();
        let dtype = match self.tf32 {
            true => "tf32",
            false => self.dtype.as_str(),
        };
        format!("{direction} {dtype} {}", numbers.join(" "))
    }
}

/// How one problem is solved.
struct Plan {
    x: Pointer,
    y: Pointer,
    w: Pointer,
    convolution: Pointer,
    /// How values are to be multiplied.
    math: c_int,
    algorithm: c_int,
    memory: usize,
}

/// The library, before a GPU is open.
pub(super) struct Library(Functions);

/// The library's handle on this process's stream, with what it has been asked so far.
pub(super) struct Cudnn {
    functions: Functions,
    handle: Pointer,
    plans: HashMap<Problem, Arc<Plan>>,
    algorithms: Algorithms,
    /// Working memory of one convolution at most.
    most_memory: usize,
}

// SAFETY: cuDNN allows a handle on any thread as long as one at a time uses it; the only one lies in a mutex.
unsafe impl Send for Cudnn {}
// SAFETY: descriptors are not written any more once a plan is made, and are used under the same mutex.
unsafe impl Send for Plan {}
// SAFETY: as above.
unsafe impl Sync for Plan {}

impl Cudnn {
    pub(super) fn load() -> std::result::Result<Library, GpuError> {
        // cuDNN asks for them by name, and the loader would not look where it lies itself.
        prepare(&[
            "libcublasLt.so.13",
            "libcublas.so.13",
            "libcublasLt.so.12",
            "libcublas.so.12",
        ]);
        let functions = Functions::load()?;
        let version = functions.version();
        // What is called stands as it is in the headers of version 9.
        if version / 10_000 != MAJOR {
            return Err(GpuError::LibraryVersion {
                what: "cuDNN",
                expected: format!("version {MAJOR}"),
                found: dotted(version),
            });
        }
        Ok(Library(functions))
    }

    /// As cuDNN counts: 9.19.0 is 91900.
    pub(super) fn version(&self) -> String {
        dotted(self.functions.version())
    }

    /// Bytes that a convolution works in at most, beside its operands and its result.
    pub(super) fn most_memory(&self) -> usize {
        self.most_memory
    }

    fn check(&self, call: &'static str, status: c_int) -> Result<()> {
        self.functions.check(call, status)
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
        let functions = self.0;
        let mut handle = null_mut();
        // SAFETY: the place is writable; the stream lives as long as the process's GPU.
        unsafe {
            functions.check("cudnnCreate", (functions.cudnnCreate)(&mut handle))?;
            let status = (functions.cudnnSetStream)(handle, stream.cu_stream().cast());
            functions.check("cudnnSetStream", status)?;
        }
        let name = format!("{architecture}-cudnn-{}.algorithms", functions.version());
        Ok(Cudnn {
            functions,
            handle,
            plans: HashMap::new(),
            algorithms: Algorithms::read(cache.map(|folder| folder.join(name))),
            most_memory: MOST_MEMORY.min(gpu_memory / MOST_SHARE),
        })
    }
}

impl Plan {
    /// First operand, second operand and result of a direction.
    fn descriptors(&self, direction: Direction) -> [Pointer; 3] {
        match direction {
            Direction::Forward => [self.x, self.w, self.y],
            Direction::BackwardData => [self.w, self.y, self.x],
            Direction::BackwardFilter => [self.x, self.y, self.w],
        }
    }
}

impl Cudnn {
    /// Descriptors of a problem, no algorithm yet.
    fn describe(&self, problem: &Problem) -> Result<Plan> {
        let f = &self.functions;
        let (mut x, mut y, mut w, mut convolution) =
            (null_mut(), null_mut(), null_mut(), null_mut());
        let i = |value: usize| value as c_int;
        let dtype = code(problem.dtype);
        let math = match (problem.dtype, problem.tf32) {
            (DType::F32, false) => FMA_MATH,
            (DType::F32, true) => DEFAULT_MATH,
            _ => TENSOR_OP_MATH,
        };
        let Problem {
            kernel,
            padding,
            stride,
            dilation,
            groups,
            ..
        } = *problem;
        // SAFETY: the places are writable, the descriptors just made. Plans are kept as long as the process runs.
        unsafe {
            for (descriptor, [b, h, w, c]) in [(&mut x, problem.x), (&mut y, problem.y)] {
                self.check(
                    "cudnnCreateTensorDescriptor",
                    (f.cudnnCreateTensorDescriptor)(descriptor),
                )?;
                let status = (f.cudnnSetTensor4dDescriptor)(
                    *descriptor,
                    NHWC,
                    dtype,
                    i(b),
                    i(c),
                    i(h),
                    i(w),
                );
                self.check("cudnnSetTensor4dDescriptor", status)?;
            }
            self.check(
                "cudnnCreateFilterDescriptor",
                (f.cudnnCreateFilterDescriptor)(&mut w),
            )?;
            let (outer, inner) = (i(problem.y[3]), i(problem.x[3] / groups));
            let status = (f.cudnnSetFilter4dDescriptor)(
                w,
                dtype,
                NHWC,
                outer,
                inner,
                i(kernel.0),
                i(kernel.1),
            );
            self.check("cudnnSetFilter4dDescriptor", status)?;
            let status = (f.cudnnCreateConvolutionDescriptor)(&mut convolution);
            self.check("cudnnCreateConvolutionDescriptor", status)?;
            let status = (f.cudnnSetConvolution2dDescriptor)(
                convolution,
                i(padding.0),
                i(padding.1),
                i(stride),
                i(stride),
                i(dilation),
                i(dilation),
                CROSS_CORRELATION,
                FLOAT,
            );
            self.check("cudnnSetConvolution2dDescriptor", status)?;
            let status = (f.cudnnSetConvolutionGroupCount)(convolution, i(groups));
            self.check("cudnnSetConvolutionGroupCount", status)?;
            let status = (f.cudnnSetConvolutionMathType)(convolution, math);
            self.check("cudnnSetConvolutionMathType", status)?;
        }
        Ok(Plan {
            x,
            y,
            w,
            convolution,
            math,
            algorithm: 0,
            memory: 0,
        })
    }

    /// Working memory of an algorithm; none if it cannot solve the problem.
    fn memory(&self, problem: &Problem, plan: &Plan, algorithm: c_int) -> Option<usize> {
        let [first, second, result] = plan.descriptors(problem.direction);
        let mut bytes = 0;
        // SAFETY: the descriptors are the problem's, the place is writable. The filter's direction has its descriptor last.
        let status = unsafe {
            (self.functions.room(problem.direction))(
                self.handle,
                first,
                second,
                plan.convolution,
                result,
                algorithm,
                &mut bytes,
            )
        };
        (status == 0).then_some(bytes)
    }

    /// The plan of a problem, whose operands and result lie at these addresses.
    fn plan(&mut self, gpu: &Gpu, problem: &Problem, [a, b, to]: [u64; 3]) -> Result<Arc<Plan>> {
        if let Some(plan) = self.plans.get(problem) {
            return Ok(plan.clone());
        }
        gpu.must_be_done_now("looking for an algorithm")?;
        let mut plan = self.describe(problem)?;
        let text = problem.text();
        let known = self.algorithms.get(&text);
        let known = known.and_then(|algorithm| match algorithm {
            OWN => Some((OWN, 0)),
            _ => {
                let memory = self.memory(problem, &plan, algorithm)?;
                // A run on a GPU of more memory may have found it.
                (memory <= self.most_memory).then_some((algorithm, memory))
            }
        });
        let (algorithm, memory) = match known {
            Some(known) => known,
            None => {
                let found = self.find(gpu, problem, &plan, [a, b, to])?;
                self.algorithms.add(text, found.0);
                found
            }
        };
        if algorithm == OWN {
            tracing::warn!(
                "cuDNN has no deterministic algorithm within {} MB for {}: a slow kernel computes it",
                self.most_memory / 1_000_000,
                problem.text()
            );
        }
        (plan.algorithm, plan.memory) = (algorithm, memory);
        let plan = Arc::new(plan);
        self.plans.insert(*problem, plan.clone());
        Ok(plan)
    }

    /// Solves a problem by one algorithm, with so much working memory.
    fn run(
        &self,
        gpu: &Gpu,
        problem: &Problem,
        plan: &Plan,
        (algorithm, memory): (c_int, usize),
        [a, b, to]: [u64; 3],
    ) -> Result<()> {
        let work = match memory {
            0 => None,
            bytes => Some(gpu.empty(&[bytes], DType::U8)?),
        };
        let room = work.as_ref().map(|work| gpu.address(work)).transpose()?;
        let [first, second, result] = plan.descriptors(problem.direction);
        let (one, zero) = (1.0f32, 0.0f32);
        let (call, run) = self.functions.run(problem.direction);
        // SAFETY: operands and result are as large as their descriptors say (checked by who asks), the working memory is
        // what the algorithm wants; freed memory is given out again in the stream's order only.
        let status = unsafe {
            run(
                self.handle,
                &one,
                first,
                a as Place,
                second,
                b as Place,
                plan.convolution,
                algorithm,
                room.unwrap_or(0) as Pointer,
                memory,
                &zero,
                result,
                to as Pointer,
            )
        };
        self.check(call, status)
    }
}

impl Gpu {
    /// Solves a problem: `to` of `a` and `b`, in the order of [`Direction`].
    pub(super) fn convolve(
        &self,
        problem: &Problem,
        a: &Tensor,
        b: &Tensor,
        to: &Tensor,
    ) -> Result<()> {
        let places = [self.address(a)?, self.address(b)?, self.address(to)?];
        self.bind()?;
        let mut cudnn = self.cudnn.lock().unwrap_or_else(PoisonError::into_inner);
        let plan = cudnn.plan(self, problem, places)?;
        if plan.algorithm == OWN {
            return plain::convolve(self, problem, a, b, to);
        }
        let way = (plan.algorithm, plan.memory);
        cudnn.run(self, problem, &plan, way, places)
    }
}
