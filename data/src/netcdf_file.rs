//! Atomic writes of netCDF files, with the file system's reason for failures.

use crate::archive::on_library_thread;
use crate::atomic::Pending;
use crate::error::{DataError, Result};
use netcdf::{FileMut, VariableMut};
use std::fs::OpenOptions;
use std::io::{Error, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the library may still hold a file that it failed to write.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);

/// Block size for probing why netCDF could not write a file.
const BLOCK_BYTES: usize = 1 << 20;
/// Number of probe blocks: together more than a chunk of any variable, which netCDF may have tried to write after a
/// hole.
const BLOCKS: usize = 16;

/// Whether this process failed to write a netCDF file.
///
/// If so, the process must not end through `exit`: HDF5 keeps a file that it could not close, tries again during exit,
/// and crashes with a segmentation fault. Use `_exit` instead, which runs no library code.
pub fn has_failed() -> bool {
    HAS_FAILED.load(Ordering::Relaxed)
}

/// A netCDF file under a temporary name. [`NetcdfFile::finish`] renames it to its final name; dropping it removes it.
#[derive(Debug)]
pub struct NetcdfFile {
    // Before `pending`: fields are dropped in this order, and a file should be closed before it is removed.
    open: Open,
    pending: Pending,
    path: PathBuf,
}

impl NetcdfFile {
    /// Creates a file and lets `begin` define its contents.
    ///
    /// # Errors
    /// [`DataError::Io`] with the file system's reason, or netCDF's if the file system has none.
    pub fn create(
        path: &Path,
        begin: impl FnOnce(&mut FileMut) -> netcdf::Result<()> + Send,
    ) -> Result<Self> {
        let pending = Pending::new(path)?;
        let made = on_library_thread(|| netcdf::create(pending.path()));
        let made = made.map_err(|error| refused(path, pending.path(), &error))?;
        let mut file = Self {
            open: Open(Some(made)),
            pending,
            path: path.into(),
        };
        file.with(begin)?;
        Ok(file)
    }

    /// Runs `act` with the open file, on the library's thread.
    ///
    /// # Errors
    /// As [`NetcdfFile::create`].
    pub fn with(
        &mut self,
        act: impl FnOnce(&mut FileMut) -> netcdf::Result<()> + Send,
    ) -> Result<()> {
        let file = self.open.0.as_mut().expect("open until it is finished");
        let done = on_library_thread(|| act(file));
        done.map_err(|error| refused(&self.path, self.pending.path(), &error))
    }

    /// Closes the file and renames it to its final name.
    ///
    /// # Errors
    /// As [`NetcdfFile::create`], or if it cannot be synced or renamed.
    pub fn finish(mut self) -> Result<()> {
        let closed = self.open.close();
        closed.map_err(|error| refused(&self.path, self.pending.path(), &error))?;
        self.pending.commit()
    }
}

/// Adds the coordinate variable of a dimension, with the dimension's name.
///
/// # Errors
/// The library's errors, for [`NetcdfFile::with`] to explain.
pub fn put_axis(
    file: &mut FileMut,
    name: &str,
    values: &[f64],
    attributes: &[(&str, &str)],
) -> netcdf::Result<()> {
    let mut axis = file.add_variable::<f64>(name, &[name])?;
    for &(attribute, text) in attributes {
        axis.put_attribute(attribute, text)?;
    }
    axis.put_values(values, ..)
}

/// A variable that was defined when the file was created.
///
/// # Errors
/// The library's errors, for [`NetcdfFile::with`] to explain.
pub fn variable_mut<'f>(file: &'f mut FileMut, name: &str) -> netcdf::Result<VariableMut<'f>> {
    file.variable_mut(name)
        .ok_or_else(|| netcdf::Error::Str(format!("`{name}` is not in the file")))
}

/// The library's file; closed on the library's thread, because any other would print HDF5's tracebacks.
#[derive(Debug)]
struct Open(Option<FileMut>);

impl Open {
    fn close(&mut self) -> netcdf::Result<()> {
        match self.0.take() {
            Some(file) => on_library_thread(|| file.close()),
            None => Ok(()),
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // The file is no longer needed, but the library may still hold it.
        if self.close().is_err() {
            HAS_FAILED.store(true, Ordering::Relaxed);
        }
    }
}

/// The error for a file that could not be written under its temporary name, `lost`.
fn refused(path: &Path, lost: &Path, error: &netcdf::Error) -> DataError {
    HAS_FAILED.store(true, Ordering::Relaxed);
    let of_library = || Error::other(format!("netCDF: {error}"));
    let source = match error {
        netcdf::Error::Netcdf(_) => add_to(lost).err().unwrap_or_else(of_library),
        // Errors of the Rust wrapper, not of the C library: the file system was not involved.
        _ => of_library(),
    };
    DataError::io("write", path)(source)
}

/// Appends some bytes to a file that netCDF could not write, and removes them again.
///
/// netCDF reports a full disk as "HDF error", or as "Permission denied" if the file could not be created; the file
/// system gives the actual reason. The probe uses the failed file itself because a size limit only applies from some
/// length on, and the file is lost anyway.
fn add_to(lost: &Path) -> std::io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(lost)?;
    let length = file.metadata()?.len();
    let block = vec![1u8; BLOCK_BYTES];
    let mut added = (0..BLOCKS).try_for_each(|_| file.write_all(&block));
    if added.is_ok() {
        // Some file systems only allocate space now.
        added = file.sync_all();
    }
    // The library may hold the file until the process ends, and others need the space.
    let shortened = file.set_len(length);
    added.and(shortened)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unfinished_file_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/file.nc");
        let begin = |file: &mut FileMut| file.add_dimension("time", 1).map(|_| ());
        let file = NetcdfFile::create(&path, begin).unwrap();
        drop(file);
        let left = || std::fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(left(), 0);
        NetcdfFile::create(&path, begin).unwrap().finish().unwrap();
        assert_eq!(left(), 1);
    }

    #[test]
    fn a_failure_says_what_the_file_system_says() {
        let folder = tempfile::tempdir().unwrap();
        let lost = folder.path().join("lost");
        std::fs::write(&lost, b"half").unwrap();
        let of_library = netcdf::Error::Netcdf(-101);
        let text = refused(Path::new("a.nc"), &lost, &of_library).to_string();
        // There is room: only the library knows.
        assert!(text.contains("cannot write `a.nc`: netCDF: "), "{text}");
        assert_eq!(std::fs::read(&lost).unwrap(), b"half");
        let error = refused(Path::new("a.nc"), &lost.join("below"), &of_library);
        let of_system = |source: &Error| source.kind() == std::io::ErrorKind::NotADirectory;
        assert!(
            matches!(&error, DataError::Io { source, .. } if of_system(source)),
            "{error}"
        );
        assert!(has_failed());
    }
}
