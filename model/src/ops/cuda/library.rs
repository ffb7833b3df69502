//! Dynamic loading of NVIDIA's libraries.

use crate::gpu::GpuError;
use crate::lock::locked;
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::ffi::{CString, c_char};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

unsafe extern "C" {
    /// Sets the directories that `model/candle-kernels/link/forward.c` searches first.
    fn squall_cuda_folders(list: *const c_char);
}

/// Sets the directories to search first for libraries. Call it before any of them is loaded.
pub fn look_in(folders: &[PathBuf]) {
    let mut all = locked(&FOLDERS);
    let list: Vec<String> = (folders.iter())
        .map(|folder| folder.to_string_lossy().into_owned())
        .collect();
    if let Ok(list) = CString::new(list.join(":")) {
        // SAFETY: the function copies the text, and the lock keeps other calls away.
        unsafe { squall_cuda_folders(list.as_ptr()) };
    }
    *all = folders.to_vec();
}

/// Whether a library of this name can be loaded.
pub fn finds(name: &'static str) -> bool {
    Loaded::open("a library", &[name]).is_ok()
}

/// Preloads those of these libraries that lie in the search directories, for other libraries that load them by name.
pub(super) fn prepare(names: &[&str]) {
    let folders = locked(&FOLDERS).clone();
    for path in folders
        .iter()
        .flat_map(|folder| names.iter().map(|name| folder.join(name)))
    {
        // SAFETY: as in [`Loaded::open`].
        let loaded = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_GLOBAL) };
        if let Ok(library) = loaded {
            // Never unloaded.
            let _ = library.into_raw();
        }
    }
}

/// A library that stays loaded.
#[derive(Debug)]
pub(super) struct Loaded {
    library: Library,
    what: &'static str,
    name: &'static str,
}

impl Loaded {
    /// Loads the first of `names` that can be loaded.
    pub(super) fn open(what: &'static str, names: &[&'static str]) -> Result<Self, GpuError> {
        let folders = locked(&FOLDERS).clone();
        let mut reason = String::new();
        let load = |path: &Path| {
            // SAFETY: loading runs the library's own start; the names are NVIDIA's, and what has them is trusted as any
            // library that the program is linked with.
            unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) }
        };
        for &name in names {
            for folder in folders.iter().map(PathBuf::as_path).chain([Path::new("")]) {
                match load(&folder.join(name)) {
                    Ok(library) => {
                        return Ok(Self {
                            library,
                            what,
                            name,
                        });
                    }
                    Err(error) if reason.is_empty() => {
                        let said = words(&error);
                        // The loader's message begins with the name, which our message already contains.
                        let rest = said.strip_prefix(&format!("{name}: "));
                        reason = rest.unwrap_or(&said).to_string();
                    }
                    Err(_) => {}
                }
            }
        }
        Err(GpuError::Library {
            name: names.first().copied().unwrap_or(""),
            what,
            reason,
        })
    }

    /// The address of a function.
    ///
    /// # Safety
    /// `F` is the function's type.
    pub(super) unsafe fn function<F: Copy>(&self, symbol: &str) -> Result<F, GpuError> {
        // SAFETY: the caller vouches for the type; the library stays loaded as long as the table made of these lives.
        let found = unsafe { self.library.get::<F>(symbol) };
        found
            .map(|found| *found)
            .map_err(|error| GpuError::Library {
                name: self.name,
                what: self.what,
                reason: words(&error),
            })
    }
}

/// The loader's message, which is only in the error's source.
fn words(error: &libloading::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => source.to_string(),
        None => error.to_string(),
    }
}

/// Declares a struct of a library's functions, loaded by name.
macro_rules! functions {
    ($(#[$about:meta])* $table:ident of $what:literal in $names:expr; $($name:ident: fn($($argument:ty),*) -> $answer:ty,)*) => {
        $(#[$about])*
        #[allow(non_snake_case)]
        pub(super) struct $table {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> $answer,)*
            _library: $crate::ops::cuda::library::Loaded,
        }

        impl $table {
            /// Loads the library.
            pub(super) fn load() -> std::result::Result<Self, $crate::gpu::GpuError> {
                let library = $crate::ops::cuda::library::Loaded::open($what, $names)?;
                Ok(Self {
                    // SAFETY: the types are those of the library's header.
                    $($name: unsafe { library.function(stringify!($name)) }?,)*
                    _library: library,
                })
            }
        }
    };
}
pub(super) use functions;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_named_once() {
        let name = "libsquall-absent.so.1";
        let error = Loaded::open("a library", &[name]).err().unwrap();
        let said = error.to_string();
        assert_eq!(said.matches(name).count(), 1, "{said}");
    }
}
