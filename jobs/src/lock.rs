//! Folder locks: one writer per folder.

use crate::error::{JobError, Result};
use squall_data::DataError;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::sync::OnceLock;

/// The batch job that this process belongs to.
static JOB: OnceLock<String> = OnceLock::new();

/// Sets the number of the batch job that this process belongs to, which its locks then name. Only the first call has an
/// effect.
pub fn name_job(number: String) {
    let _ = JOB.set(number);
}

/// Holds a folder until dropped. The system releases the lock when the process is killed, so it is never stale.
#[derive(Debug)]
pub struct FolderLock {
    _file: File,
}

impl FolderLock {
    /// Locks a folder, creating it if needed.
    ///
    /// On a file system without locks it only warns, because refusing to work there would help nobody.
    ///
    /// # Errors
    /// [`JobError::Locked`] naming the process that holds it; [`JobError::Data`].
    pub fn take(folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder).map_err(DataError::io("create folder", folder))?;
        let path = folder.join(".lock");
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(DataError::io("create", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(locked(folder, file)),
            Err(TryLockError::Error(error)) => {
                tracing::warn!(folder = %folder.display(), %error, "this file system has no locks: make sure that only one process writes here");
            }
        }
        let described = file
            .rewind()
            .and_then(|()| file.set_len(0))
            .and_then(|()| writeln!(file, "{}", this_process()));
        described.map_err(DataError::io("write", &path))?;
        Ok(Self { _file: file })
    }

    /// Fails if a process holds the folder; leaves no trace in it. Counts as free where locks cannot be queried.
    ///
    /// # Errors
    /// [`JobError::Locked`] naming the process that holds it.
    pub fn check_free(folder: &Path) -> Result<()> {
        let Ok(file) = File::open(folder.join(".lock")) else {
            return Ok(());
        };
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => Err(locked(folder, file)),
            // The lock is released with the file.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
        }
    }
}

/// This process for users of other machines, who see the same folder.
fn this_process() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    in_words(std::process::id(), host.trim(), JOB.get())
}

fn in_words(process: u32, host: &str, job: Option<&String>) -> String {
    let mut words = format!("process {process}");
    if !host.is_empty() {
        words += &format!(" on {host}");
    }
    if let Some(job) = job {
        words += &format!(", job {job}");
    }
    words
}

/// The error that names the holder of a folder, as recorded in its lock file.
fn locked(folder: &Path, mut file: File) -> JobError {
    let mut holder = String::new();
    let _ = file.read_to_string(&mut holder);
    JobError::Locked {
        folder: folder.to_path_buf(),
        holder: Some(holder.trim().to_string()).filter(|h| !h.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_writer_is_told_who_the_first_is() {
        let folder = tempfile::tempdir().unwrap();
        let first = FolderLock::take(folder.path()).unwrap();
        let error = FolderLock::take(folder.path()).unwrap_err().to_string();
        let expected = format!("in use by another process ({})", this_process());
        assert!(error.contains(&expected), "{error}");
        let error = FolderLock::check_free(folder.path()).unwrap_err();
        assert!(error.to_string().contains(&expected), "{error}");
        drop(first);
        FolderLock::check_free(folder.path()).unwrap();
        FolderLock::take(folder.path()).unwrap();
    }

    /// On a cluster the number of a process is not enough to find it.
    #[test]
    fn a_holder_is_named_with_its_machine_and_job() {
        let job = "4711.pbs".to_string();
        let named = in_words(7, "nid001", Some(&job));
        assert_eq!(named, "process 7 on nid001, job 4711.pbs");
        assert_eq!(in_words(7, "nid001", None), "process 7 on nid001");
        assert_eq!(in_words(7, "", None), "process 7");
    }

    #[test]
    fn a_folder_that_is_not_there_is_free_and_stays_away() {
        let folder = tempfile::tempdir().unwrap();
        let absent = folder.path().join("absent");
        FolderLock::check_free(&absent).unwrap();
        assert!(!absent.exists());
    }
}
