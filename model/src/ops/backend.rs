//! The implementations of the operations: selection, description, and device memory.

#[cfg(feature = "onednn")]
use super::asked;
#[cfg(feature = "cuda")]
use super::cuda;
#[cfg(feature = "onednn")]
use super::onednn;
use super::{Cpu, on_gpu};
use crate::error::Result;
use candle_core::{DType, Tensor};

/// The implementation of the operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    /// Plain loops.
    Reference,
    /// oneDNN for convolutions, and parallel loops of our own for memory-bound operations.
    #[cfg(feature = "onednn")]
    OneDnn,
    /// This process's GPU: our own kernels, and cuDNN for convolutions. Tensors in host memory are copied to it.
    #[cfg(feature = "cuda")]
    Cuda,
}

impl Backend {
    /// The GPU if one was chosen ([`crate::DeviceChoice::open`]), otherwise the fastest CPU backend.
    pub fn best() -> Self {
        #[cfg(feature = "cuda")]
        if cuda::is_chosen() {
            return Self::Cuda;
        }
        Self::best_of_cpu()
    }

    /// The fastest CPU backend. Plain loops if the environment sets `SQUALL_BACKEND=reference`, or in builds without
    /// oneDNN.
    pub fn best_of_cpu() -> Self {
        #[cfg(feature = "onednn")]
        if !asked::for_plain_loops() {
            return Self::OneDnn;
        }
        Self::Reference
    }

    /// The loops for an operation that `on_gpu!` has left to the CPU.
    pub(super) fn on_cpu(self) -> Cpu {
        assert!(!self.is_gpu(), "`on_gpu!` comes first");
        match self.is_onednn() {
            true => Cpu::Fast,
            false => Cpu::Reference,
        }
    }

    /// Every backend of this build that runs on this machine, except oneDNN where [`Self::best_of_cpu`] is plain loops.
    pub fn all() -> Vec<Self> {
        let mut all = vec![Self::Reference];
        if Self::best_of_cpu() != Self::Reference {
            all.push(Self::best_of_cpu());
        }
        #[cfg(feature = "cuda")]
        if cuda::is_there() {
            all.push(Self::Cuda);
        }
        all
    }

    /// On a GPU: the bytes that this process may use, which is free memory plus what it already holds.
    pub fn available_memory(self) -> Option<u64> {
        on_gpu!(self, cuda::available_memory());
        None
    }

    /// On a GPU: the peak bytes of tensors since [`Self::forget_peak`].
    pub fn peak_memory(self) -> Option<u64> {
        on_gpu!(self, cuda::peak_memory());
        None
    }

    /// Resets [`Self::peak_memory`] to the current use.
    pub fn forget_peak(self) {
        #[cfg(feature = "cuda")]
        if self == Self::Cuda {
            cuda::forget_peak();
        }
    }

    /// Waits for the GPU and returns its unused memory. CUDA graphs and single operations do not share their memory
    /// pools.
    ///
    /// # Errors
    /// [`crate::ModelError::Gpu`] with any error since the last check.
    pub fn give_back_memory(self) -> Result<()> {
        on_gpu!(self, cuda::give_back_memory());
        Ok(())
    }

    /// Waits until all operations issued so far have finished.
    ///
    /// # Errors
    /// [`crate::ModelError::Gpu`] with any error since the last check.
    pub fn wait(self) -> Result<()> {
        on_gpu!(self, cuda::wait());
        Ok(())
    }

    /// The tensor on this backend's device.
    ///
    /// # Errors
    /// [`crate::ModelError::Gpu`] if the device is out of memory.
    pub fn bring(self, tensor: &Tensor) -> Result<Tensor> {
        on_gpu!(self, cuda::bring(tensor));
        Ok(tensor.clone())
    }

    /// The tensor in host memory.
    ///
    /// # Errors
    /// [`crate::ModelError::Gpu`] if it cannot be read.
    pub fn to_host(self, tensor: &Tensor) -> Result<Tensor> {
        on_gpu!(self, cuda::to_host(tensor));
        Ok(tensor.clone())
    }

    /// Whether this backend's tensors lie on a GPU.
    pub fn is_gpu(self) -> bool {
        #[cfg(feature = "cuda")]
        return self == Self::Cuda;
        #[cfg(not(feature = "cuda"))]
        false
    }

    /// Whether this is [`Self::OneDnn`], which not every build has.
    pub(crate) fn is_onednn(self) -> bool {
        #[cfg(feature = "onednn")]
        return self == Self::OneDnn;
        #[cfg(not(feature = "onednn"))]
        false
    }

    /// Whether the processor multiplies bf16 in tiles, many times as fast as f32 vectors.
    pub(super) fn multiplies_tiles(self) -> bool {
        #[cfg(feature = "onednn")]
        return self == Self::OneDnn && onednn::multiplies_tiles();
        #[cfg(not(feature = "onednn"))]
        false
    }

    /// The number of threads that results may depend on in their last digits. With oneDNN it is that of OpenMP, which may be
    /// another than that of hardware threads (`OMP_NUM_THREADS`): our own loops beside it add up alike on any number.
    pub fn threads(self) -> usize {
        let there = || std::thread::available_parallelism().map_or(1, usize::from);
        match self {
            Self::Reference => there(),
            #[cfg(feature = "onednn")]
            Self::OneDnn => onednn::computing_threads(),
            #[cfg(feature = "cuda")]
            Self::Cuda => there(),
        }
    }

    /// One line for logs and `--version`: library, version, instruction set, threads.
    pub fn describe(self) -> String {
        match self {
            Self::Reference => "reference operations".to_string(),
            #[cfg(feature = "onednn")]
            Self::OneDnn => onednn::describe(),
            #[cfg(feature = "cuda")]
            Self::Cuda => cuda::describe(),
        }
    }

    /// One line with everything that determines the bits of its results: [`Self::describe`] without what differs
    /// between identical machines.
    pub fn kind(self) -> String {
        match self {
            Self::Reference => self.describe(),
            #[cfg(feature = "onednn")]
            Self::OneDnn => onednn::kind(),
            #[cfg(feature = "cuda")]
            Self::Cuda => cuda::kind(),
        }
    }

    /// Whether computing in `dtype` is faster here than in f32.
    pub fn is_fast(self, dtype: DType) -> bool {
        match (self, dtype) {
            (_, DType::F32) => true,
            #[cfg(feature = "onednn")]
            (Self::OneDnn, DType::BF16) => onednn::computes_bf16(),
            // A GPU without bf16 arithmetic is never opened.
            #[cfg(feature = "cuda")]
            (Self::Cuda, DType::BF16 | DType::F16) => true,
            _ => false,
        }
    }
}
