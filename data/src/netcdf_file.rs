//! Writing netCDF so that a file is either whole under its name or not there, and a failure has the file system's
//! reason.

use crate::archive::on_library_thread;
use crate::atomic::Pending;
use crate::error::{DataError, Result};
use netcdf::{FileMut, VariableMut};
use std::fs::OpenOptions;
use std::io::{Error, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the library may hold a file that it could not write.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);

/// What is added to a file that netCDF could not write, to learn why: blocks of so many bytes.
const BLOCK_BYTES: usize = 1 << 20;
/// So many of them: more than a chunk of any variable, which netCDF may have wanted to write behind a gap.
const BLOCKS: usize = 16;

/// Whether this process failed to write a netCDF file.
///
/// It must not end through `exit` then: HDF5 keeps a file that it could not close, tries again when the process ends,
/// and dies of a segmentation fault. Whoever ends the process leaves by `_exit`, which asks no library.
pub fn has_failed() -> bool {
    HAS_FAILED.load(Ordering::Relaxed)
}

/// A netCDF file under a temporary name that takes its real name in [`NetcdfFile::finish`]; dropped without it, it is
/// removed.
#[derive(Debug)]
pub struct NetcdfFile {
    // Before `pending`: fields are dropped in this order, and what is removed should be closed.
    open: Open,
    pending: Pending,
    path: PathBuf,
}

impl NetcdfFile {
    /// Begins a file with what `begin` puts into it.
    ///
    /// # Errors
    /// [`DataError::Io`] with the file system's reason, or netCDF's where the file system has none.
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

    /// Closes the file and gives it its name.
    ///
    /// # Errors
    /// As [`NetcdfFile::create`], or if it cannot be synced or renamed.
    pub fn finish(mut self) -> Result<()> {
        let closed = self.open.close();
        closed.map_err(|error| refused(&self.path, self.pending.path(), &error))?;
        self.pending.commit()
    }
}

/// Adds the coordinate variable of a dimension, which has the dimension's name.
///
/// # Errors
/// The library's, for [`NetcdfFile::with`] to explain.
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

/// A variable that a file was begun with.
///
/// # Errors
/// The library's, for [`NetcdfFile::with`] to explain.
pub fn variable_mut<'f>(file: &'f mut FileMut, name: &str) -> netcdf::Result<VariableMut<'f>> {
    file.variable_mut(name)
        .ok_or_else(|| netcdf::Error::Str(format!("`{name}` is not in the file")))
}

/// The library's file, closed on the library's thread: any other would print HDF5's tracebacks.
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
        // Nobody wants the file any more, but the library may hold it.
        if self.close().is_err() {
            HAS_FAILED.store(true, Ordering::Relaxed);
        }
    }
}

/// The error of a file that could not be written under its temporary name, `lost`.
fn refused(path: &Path, lost: &Path, error: &netcdf::Error) -> DataError {
    HAS_FAILED.store(true, Ordering::Relaxed);
    let of_library = || Error::other(format!("netCDF: {error}"));
    let source = match error {
        netcdf::Error::Netcdf(_) => add_to(lost).err().unwrap_or_else(of_library),
        // Not one of the library's own: nothing was asked of the file system.
        _ => of_library(),
    };
    DataError::io("write", path)(source)
}

/// Adds some bytes to a file that netCDF could not write and takes them away again.
///
/// netCDF says "HDF error" of a full disk, or "Permission denied" where it could not even begin; the file system says
/// what it is. The file is asked itself because a limit on sizes holds only from some length on, and it is lost anyway.
fn add_to(lost: &Path) -> std::io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(lost)?;
    let length = file.metadata()?.len();
    let block = vec![1u8; BLOCK_BYTES];
    let mut added = (0..BLOCKS).try_for_each(|_| file.write_all(&block));
    if added.is_ok() {
        // Some file systems look for room only now.
        added = file.sync_all();
    }
    // The library may hold the file to the end of the process, and others need the room.
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
