//! The choice of the device, and GPU errors.

#[cfg(feature = "cuda")]
use crate::error::ModelError;
use crate::error::Result;
use crate::ops::Backend;
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether f32 convolutions may round their operands to TF32.
static TF32: AtomicBool = AtomicBool::new(false);

/// Sets, for the whole process, whether f32 convolutions on a GPU may round their operands to TF32 (eleven significant
/// bits). Not allowed by default: f32 is f32.
pub fn allow_tf32(allowed: bool) {
    TF32.store(allowed, Ordering::Relaxed);
}

/// Whether f32 operands may be rounded to TF32.
pub fn tf32_is_allowed() -> bool {
    TF32.load(Ordering::Relaxed)
}

/// The oldest driver API that the program's bindings support, in CUDA's numbering: 12.0, driver 525.
pub const OLDEST_DRIVER: i32 = 12_000;

/// The lowest compute capability that has all instructions of the kernels, as (major, minor); rounding to bf16 needs
/// it.
pub const LOWEST_CAPABILITY: (i32, i32) = (8, 0);

/// The device, in the user's notation: `auto`, `cpu`, `cuda` or `cuda:N`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeviceChoice {
    /// A GPU, if this build supports GPUs and the machine has one with the required capabilities; otherwise the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The GPU of this index; `None` for the one assigned to this rank.
    Cuda(Option<usize>),
}

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let wrong = || format!("expected `auto`, `cpu`, `cuda` or `cuda:N`, found `{text}`");
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(None)),
            _ => {
                let number = text.strip_prefix("cuda:").ok_or_else(wrong)?;
                number
                    .parse()
                    .map(|n| Self::Cuda(Some(n)))
                    .map_err(|_| wrong())
            }
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(None) => f.write_str("cuda"),
            Self::Cuda(Some(number)) => write!(f, "cuda:{number}"),
        }
    }
}

impl DeviceChoice {
    /// Opens the device for all later computation of this process ([`Backend::best`]) and returns its backend.
    ///
    /// `local_rank` is the index of this process among those on its node; each gets a GPU of its own.
    ///
    /// # Errors
    /// [`GpuError`] if a GPU was requested and is not available. With [`Self::Auto`], only if there is a GPU that
    /// should work but does not.
    pub fn open(self, local_rank: usize) -> Result<Backend> {
        match self {
            Self::Cpu => {}
            #[cfg(not(feature = "cuda"))]
            Self::Cuda(_) => return Err(GpuError::NotBuilt.into()),
            #[cfg(not(feature = "cuda"))]
            Self::Auto => {
                let _ = local_rank;
            }
            #[cfg(feature = "cuda")]
            Self::Cuda(number) => crate::ops::cuda::choose(number, local_rank)?,
            #[cfg(feature = "cuda")]
            Self::Auto => match crate::ops::cuda::choose(None, local_rank) {
                // The machine has no GPU.
                Err(ModelError::Gpu(
                    why @ (GpuError::Library {
                        name: "libcuda.so.1",
                        ..
                    }
                    | GpuError::NoDevice),
                )) => {
                    if local_rank == 0 {
                        tracing::info!("the CPU computes: no GPU: {why}");
                    }
                }
                // There is a GPU, and its owner may wonder why nothing is fast. Every rank warns about its own.
                Err(ModelError::Gpu(why @ GpuError::OldCard { .. })) => {
                    tracing::warn!("the CPU computes: {why}");
                }
                other => other?,
            },
        }
        Ok(Backend::best())
    }
}

/// Errors of a GPU or its libraries.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GpuError {
    /// This program was built without GPU support.
    #[error("this program was built without GPUs")]
    NotBuilt,
    /// One of NVIDIA's libraries cannot be loaded.
    #[error("{what} ({name}) cannot be loaded: {reason}")]
    Library {
        /// The library's file name.
        name: &'static str,
        /// What the library is.
        what: &'static str,
        /// The loader's message.
        reason: String,
    },
    /// The driver finds no GPU.
    #[error("NVIDIA's driver sees no GPU")]
    NoDevice,
    /// The driver is older than the program's bindings.
    #[error("NVIDIA's driver is too old: expected CUDA {}, found {}", version(*expected), version(*found))]
    OldDriver {
        /// The oldest supported API version, in CUDA's numbering.
        expected: i32,
        /// The newest API version that the driver supports, in the same numbering.
        found: i32,
    },
    /// The GPU lacks instructions that the kernels need.
    #[error(
        "GPU {ordinal} ({name}) is too old: expected compute capability {}.{} or later, found {}.{}",
        expected.0, expected.1, found.0, found.1
    )]
    OldCard {
        /// Its index.
        ordinal: usize,
        /// Its product name.
        name: String,
        /// The lowest supported compute capability, as (major, minor).
        expected: (i32, i32),
        /// Its compute capability.
        found: (i32, i32),
    },
    /// The version of a library is incompatible with the program or the driver.
    #[error("{what} {found} does not fit: expected {expected}")]
    LibraryVersion {
        /// The library.
        what: &'static str,
        /// The compatible versions.
        expected: String,
        /// The version found.
        found: String,
    },
    /// There is no GPU of this index.
    #[error("there is no GPU {asked}: this process sees {found} (0 to {})", found.saturating_sub(1))]
    Ordinal {
        /// The requested index.
        asked: usize,
        /// The number of GPUs.
        found: usize,
    },
    /// Two processes were assigned the same GPU.
    #[error("ranks {first} and {second} would both compute on GPU {ordinal} ({uuid})")]
    Shared {
        /// The first rank with this GPU.
        first: usize,
        /// The second rank with this GPU.
        second: usize,
        /// The GPU's index as seen by the second rank.
        ordinal: usize,
        /// The GPU's UUID.
        uuid: String,
    },
    /// The GPU is out of memory.
    #[error(
        "the GPU's memory is full: {asked_mb} MB more were asked for, {free_mb} of {total_mb} MB are free"
    )]
    OutOfMemory {
        /// The size of the failed allocation.
        asked_mb: u64,
        /// Free memory, considering other processes.
        free_mb: u64,
        /// The GPU's total memory.
        total_mb: u64,
    },
    /// A call of a library failed.
    #[error("{call}: {reason}")]
    Call {
        /// The function.
        call: &'static str,
        /// The library's error message.
        reason: String,
    },
    /// An operation cannot be part of a captured graph.
    #[error("{what} cannot be part of a CUDA graph")]
    NotCaptured {
        /// The operation.
        what: &'static str,
    },
    /// A kernel did not compile.
    #[error("NVRTC cannot compile `{file}` for {architecture}: {log}")]
    Compile {
        /// The source file.
        file: &'static str,
        /// The GPU's architecture, such as `sm_90`.
        architecture: String,
        /// NVRTC's log.
        log: String,
    },
}

/// A version in CUDA's numbering, as text: 12040 is 12.4.
fn version(number: i32) -> String {
    format!("{}.{}", number / 1000, number % 1000 / 10)
}

/// Whether an error says that the GPU's memory is full, in the words of the driver or of cuDNN: of their status candle
/// keeps no more than these.
pub fn tells_of_full_memory(words: &str) -> bool {
    words.contains("OUT_OF_MEMORY") || words.contains("ALLOCATION_FAILED")
}

impl GpuError {
    /// A suggestion for the user.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotBuilt => "build with `--features cuda`, or leave `--device` out",
            Self::Library {
                name: "libcuda.so.1",
                ..
            } => "install NVIDIA's driver, or compute with `--device cpu`",
            Self::Library { .. } => {
                "name the folders that hold NVIDIA's libraries (cuDNN 9, NVRTC 12 or 13) in SQUALL_CUDA_LIBRARIES, with colons between \
                 them; `pip install nvidia-cudnn-cu13 nvidia-cuda-nvrtc` brings both, for a driver of CUDA 12 `nvidia-cudnn-cu12 \
                 nvidia-cuda-nvrtc-cu12`"
            }
            Self::NoDevice => {
                "see `nvidia-smi` and CUDA_VISIBLE_DEVICES, or compute with `--device cpu`"
            }
            Self::OldDriver { .. } => "install driver 525 or later, or compute with `--device cpu`",
            Self::OldCard { .. } => {
                "name a GPU of the Ampere generation or later (A100, RTX 30, H100, ...) with `--device cuda:N`, or compute with \
                 `--device cpu`"
            }
            // cuDNN reports CUDNN_STATUS_NOT_INITIALIZED in both cases.
            Self::Call {
                call: "cudnnCreate",
                ..
            } => {
                "cuDNN may be for a later CUDA than the driver (for one of CUDA 12 `pip install nvidia-cudnn-cu12 nvidia-cuda-nvrtc-cu12`, \
                 and name their folders in SQUALL_CUDA_LIBRARIES), or other processes leave it no memory (`nvidia-smi` shows them)"
            }
            Self::LibraryVersion { .. } => {
                "for a driver of CUDA 12 `pip install nvidia-cudnn-cu12 nvidia-cuda-nvrtc-cu12`, for one of CUDA 13 `nvidia-cudnn-cu13 \
                 nvidia-cuda-nvrtc`, and name their folders in SQUALL_CUDA_LIBRARIES"
            }
            Self::Ordinal { .. } => {
                "name one of these, or start as many ranks on a node as it has GPUs; CUDA_VISIBLE_DEVICES says which a process sees"
            }
            Self::Shared { .. } => {
                "leave the number out so that every rank takes its own, or start as many ranks on a node as it has GPUs"
            }
            Self::OutOfMemory { .. } => {
                "use smaller batches, `training.recompute = \"blocks\"`, or bf16; `squall summary` tells what a batch needs"
            }
            Self::NotCaptured { .. } => {
                "leave `training.cuda_graphs` (`squall bench step --graphs`) out: operations are then started one by one"
            }
            Self::Call { reason, .. } if tells_of_full_memory(reason) => {
                "use smaller batches; CUDA graphs (`training.cuda_graphs`) take memory of their own beside that of single operations"
            }
            Self::Call { .. } => {
                "`nvidia-smi` and the system's log may say more; CUDA_LAUNCH_BLOCKING=1 shows which operation it was"
            }
            // NVRTC's message for an unknown architecture.
            Self::Compile { log, .. } if log.contains("--gpu-architecture") => {
                "the GPU is of a later generation than NVRTC: `pip install --upgrade` nvidia-cuda-nvrtc (for a driver of CUDA 12 \
                 nvidia-cuda-nvrtc-cu12), and name its folder in SQUALL_CUDA_LIBRARIES"
            }
            Self::Compile { .. } => "this is a fault of the program: please report it",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_words() {
        for text in ["auto", "cpu", "cuda", "cuda:3"] {
            assert_eq!(text.parse::<DeviceChoice>().unwrap().to_string(), text);
        }
        for text in ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "CPU"] {
            let error = text.parse::<DeviceChoice>().unwrap_err();
            assert!(error.contains(&format!("`{text}`")), "{error}");
        }
    }

    #[test]
    fn a_missing_library_is_installed_as_the_driver_needs_it() {
        let missing = GpuError::Library {
            name: "libcudnn.so.9",
            what: "cuDNN 9",
            reason: "no such file".into(),
        };
        for package in ["nvidia-cuda-nvrtc`", "nvidia-cuda-nvrtc-cu12`"] {
            assert!(missing.hint().contains(package), "{}", missing.hint());
        }
    }

    #[test]
    fn a_cudnn_for_another_driver_is_told_from_a_broken_gpu() {
        let hint = |call| {
            let reason = "CUDNN_STATUS_NOT_INITIALIZED".to_string();
            GpuError::Call { call, reason }.hint()
        };
        for word in ["nvidia-cudnn-cu12", "no memory"] {
            assert!(hint("cudnnCreate").contains(word), "{word}");
        }
        assert!(hint("cudnnBackendExecute").contains("nvidia-smi"));
        let full = GpuError::Call {
            call: "cudnnBackendExecute",
            reason: "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED".into(),
        };
        assert!(full.hint().contains("smaller batches"));
    }

    #[test]
    fn an_nvrtc_that_does_not_know_the_gpu_is_no_fault_of_the_program() {
        let hint = |log: &str| {
            let (file, architecture) = ("norm.cu", "sm_120".to_string());
            let log = log.to_string();
            let error = GpuError::Compile {
                file,
                architecture,
                log,
            };
            error.hint()
        };
        let old = hint("nvrtc: error: invalid value for --gpu-architecture (-arch)");
        assert!(old.contains("later generation than NVRTC"), "{old}");
        assert!(hint("norm.cu(3): error: expected a `;`").contains("please report it"));
    }

    #[test]
    fn errors_say_what_was_expected_and_found() {
        let old = GpuError::OldDriver {
            expected: OLDEST_DRIVER,
            found: 11_080,
        };
        assert_eq!(
            old.to_string(),
            "NVIDIA's driver is too old: expected CUDA 12.0, found 11.8"
        );
        let card = GpuError::OldCard {
            ordinal: 1,
            name: "Tesla V100".into(),
            expected: LOWEST_CAPABILITY,
            found: (7, 0),
        };
        assert_eq!(
            card.to_string(),
            "GPU 1 (Tesla V100) is too old: expected compute capability 8.0 or later, found 7.0"
        );
        let none = GpuError::Ordinal { asked: 2, found: 2 };
        assert_eq!(
            none.to_string(),
            "there is no GPU 2: this process sees 2 (0 to 1)"
        );
    }
}
