//! Selects the compute device.

use crate::failure::Advice;
use crate::{ranks, threads};
use rustix::process::{Resource, getrlimit};
use squall_model::{Backend, DeviceChoice};
use std::ffi::OsStr;

/// The option of commands that compute networks.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct Options {
    /// Device to compute on: cpu, cuda (each rank takes its own GPU), cuda:N, or auto (a GPU if there is one).
    #[arg(long, value_name = "DEVICE", default_value = "auto", global = true)]
    #[arg(env = "SQUALL_DEVICE", hide_env_values = true)]
    pub device: DeviceChoice,
}

impl Options {
    /// Opens the device for all computation of this process.
    ///
    /// # Errors
    /// Errors of the driver and its libraries.
    pub fn open(self) -> anyhow::Result<Backend> {
        threads::warn_of_too_many();
        warn_of_address_space();
        Ok(self.device.open(ranks::local_number())?)
    }
}

/// Warns of a limit of the address space, of which threads and libraries reserve much more than they use: what they do not
/// get may end the process without a message. Of several ranks only the first one does.
fn warn_of_address_space() {
    if ranks::number() > 0 {
        return;
    }
    if let Some(bytes) = getrlimit(Resource::As).current {
        tracing::warn!(
            "this process may reserve {:.1} GB of addresses (`ulimit -v`), more of which is needed than memory: it may end without a message; `ulimit -v unlimited` lifts the limit",
            bytes as f64 / 1e9
        );
    }
}

/// Rejects invalid values of `SQUALL_BACKEND`: a user who asks for plain loops must not silently get other operations.
///
/// # Errors
/// Wrong usage.
pub fn check_environment() -> anyhow::Result<()> {
    check_backend(std::env::var_os("SQUALL_BACKEND").as_deref())
}

fn check_backend(asked: Option<&OsStr>) -> anyhow::Result<()> {
    let asked = asked.unwrap_or_default().to_string_lossy();
    match &*asked {
        "" | "reference" => Ok(()),
        _ => Err(Advice::usage(
            format!("SQUALL_BACKEND: expected `reference`, found `{asked}`"),
            "leave it out for the fast operations; `--device` chooses between GPUs and the CPU",
        )),
    }
}

/// Locates NVIDIA's libraries, and enables the cache of compiled GPU code.
pub fn prepare() {
    #[cfg(feature = "cuda")]
    {
        use squall_model::ops::cuda;
        use std::path::PathBuf;
        if let Some(folders) = std::env::var_os("SQUALL_CUDA_LIBRARIES") {
            cuda::look_in(&std::env::split_paths(&folders).collect::<Vec<_>>());
        }
        let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.filter(|folder| folder.is_absolute()).or_else(home);
        if let Some(folder) = cache {
            cuda::cache_in(folder.join("squall"));
        }
    }
}

/// The GPU part of `--version`; empty in builds without GPU support.
pub fn version() -> String {
    #[cfg(feature = "cuda")]
    {
        prepare();
        format!("; {}", squall_model::ops::cuda::describe())
    }
    #[cfg(not(feature = "cuda"))]
    String::new()
}
