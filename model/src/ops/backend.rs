//! The implementations of the operations: which one to take, what it is, and the memory of its device.

#[cfg(feature = "onednn")]
use super::asked;
#[cfg(feature = "cuda")]
use super::cuda;
#[cfg(feature = "onednn")]
use super::onednn;
use super::{Cpu, on_gpu};
use crate::error::Result;
use candle_core::{DType, Tensor};

/// Which implementation runs the operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    /// Plain loops.
    Reference,
    /// oneDNN for convolutions, own parallel loops for what memory limits.
    #[cfg(feature = "onednn")]
    OneDnn,
    /// The GPU of this process: own kernels, cuDNN for convolutions. Tensors in host memory are copied to it.
    #[cfg(feature = "cuda")]
    Cuda,
}

impl Backend {
    /// The GPU if one was chosen ([`crate::DeviceChoice::open`]), else the fastest of the CPU's.
    pub fn best() -> Self {
        #[cfg(feature = "cuda")]
        if cuda::is_chosen() {
            return Self::Cuda;
        }
        Self::best_of_cpu()
    }

    /// The fastest that needs no GPU; plain loops where the environment says `SQUALL_BACKEND=reference`, as in builds
    /// without oneDNN.
    pub fn best_of_cpu() -> Self {
        #[cfg(feature = "onednn")]
        if !asked::for_plain_loops() {
            return Self::OneDnn;
        }
        Self::Reference
    }

    /// Which loops run an operation that `on_gpu!` has left to the CPU.
    pub(super) fn on_cpu(self) -> Cpu {
        assert!(!self.is_gpu(), "`on_gpu!` comes first");
        match self.is_onednn() {
            true => Cpu::Fast,
            false => Cpu::Reference,
        }
    }

    /// Every backend of this build that runs here, but for oneDNN where [`Self::best_of_cpu`] is plain loops.
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

    /// Bytes that this process may use where tensors lie, if that is a GPU: what is free, and what it has taken
    /// already.
    pub fn available_memory(self) -> Option<u64> {
        on_gpu!(self, cuda::available_memory());
        None
    }

    /// Bytes that tensors took at most since [`Self::forget_peak`], if they lie on a GPU.
    pub fn peak_memory(self) -> Option<u64> {
        on_gpu!(self, cuda::peak_memory());
        None
    }

    /// Counts [`Self::peak_memory`] from what is used now.
    pub fn forget_peak(self) {
        #[cfg(feature = "cuda")]
        if self == Self::Cuda {
            cuda::forget_peak();
        }
    }

    /// Gives memory that nothing uses back to the GPU, whose graphs and single operations do not share what they have
    /// taken; waits for them.
    ///
    /// # Errors
    /// [`crate::ModelError::Gpu`] of what went wrong since the last time.
    pub fn give_back_memory(self) -> Result<()> {
        on_gpu!(self, cuda::give_back_memory());
        Ok(())
    }

    /// Waits until everything that was begun is computed.
    ///
    /// # Errors
    /// [`crate::ModelError::Gpu`] of what went wrong since the last time.
    pub fn wait(self) -> Result<()> {
        on_gpu!(self, cuda::wait());
        Ok(())
    }

    /// The tensor where this backend computes.
    ///
    /// # Errors
    /// [`crate::ModelError::Gpu`] if there is no room for it.
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

    /// Whether tensors of this backend lie on a GPU.
    pub fn is_gpu(self) -> bool {
        #[cfg(feature = "cuda")]
        return self == Self::Cuda;
        #[cfg(not(feature = "cuda"))]
        false
    }

    /// Whether it is [`Self::OneDnn`], which not every build has.
    pub(crate) fn is_onednn(self) -> bool {
        #[cfg(feature = "onednn")]
        return self == Self::OneDnn;
        #[cfg(not(feature = "onednn"))]
        false
    }

    /// Whether it multiplies tiles of bf16, many times as fast as vectors of f32.
    pub(super) fn multiplies_tiles(self) -> bool {
        #[cfg(feature = "onednn")]
        return self == Self::OneDnn && onednn::multiplies_tiles();
        #[cfg(not(feature = "onednn"))]
        false
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

    /// One line for all that decides the bits of its results: [`Self::describe`] without what differs between equal
    /// machines.
    pub fn kind(self) -> String {
        match self {
            Self::Reference => self.describe(),
            #[cfg(feature = "onednn")]
            Self::OneDnn => onednn::kind(),
            #[cfg(feature = "cuda")]
            Self::Cuda => {
                let text = cuda::describe();
                // The GPU's number on its node comes before it.
                let kind = text.split_once(": ").map(|(_, kind)| kind.to_string());
                kind.unwrap_or(text)
            }
        }
    }

    /// Whether computing in `dtype` is faster here than in f32.
    pub fn is_fast(self, dtype: DType) -> bool {
        match (self, dtype) {
            (_, DType::F32) => true,
            #[cfg(feature = "onednn")]
            (Self::OneDnn, DType::BF16) => onednn::computes_bf16(),
            // A GPU that does not multiply bf16 is not opened.
            #[cfg(feature = "cuda")]
            (Self::Cuda, DType::BF16 | DType::F16) => true,
            _ => false,
        }
    }
}
