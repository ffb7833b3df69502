//! The GPU for one test at a time: what others put on the process's stream, or when the stand-in works, would change
//! what is seen.

use crate::stand_in_gpu;
use squall_model::Backend;
use squall_model::ops::cuda;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

static ALONE: Mutex<()> = Mutex::new(());

/// The GPU, and the stand-in's folder if it is none.
pub struct Device {
    pub backend: Backend,
    stand_in: Option<PathBuf>,
    _alone: MutexGuard<'static, ()>,
}

impl Device {
    /// A real one where there is a driver, else the stand-in; `None`, with a printed reason, where that cannot be
    /// built.
    pub fn open() -> Option<Self> {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = stand_in_gpu::folder()?;
        let real = cuda::finds("libcuda.so.1") && std::env::var_os("LD_LIBRARY_PATH").is_none();
        let mut kept = Path::new(env!("CARGO_TARGET_TMPDIR"));
        if !real {
            cuda::look_in(std::slice::from_ref(&folder));
            // What one stand-in compiled is not for another one.
            kept = folder.as_path();
        }
        cuda::cache_in(kept.join("gpu-cache"));
        let backend = Backend::all().into_iter().find(|backend| backend.is_gpu());
        assert!(backend.is_some(), "{}", cuda::describe());
        Some(Self {
            backend: backend?,
            stand_in: (!real).then_some(folder),
            _alone: alone,
        })
    }

    /// The stand-in's folder; what it alone can show is skipped on a GPU, and said.
    pub fn stand_in(&self) -> Option<&Path> {
        if self.stand_in.is_none() {
            stand_in_gpu::skipped("a GPU cannot be told to fail, to be late or to count");
        }
        self.stand_in.as_deref()
    }
}
