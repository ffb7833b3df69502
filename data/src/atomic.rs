//! Atomic file writes: temporary name, sync, rename. A file is either complete under its name or absent. Also files
//! that grow by appending.

use crate::error::{DataError, Result};
use std::collections::hash_map::RandomState;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher};
use std::io::{BufWriter, Error, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// A file under a temporary name. [`Pending::commit`] renames it to its final name; dropping it removes it.
///
/// The temporary name is `.<name>.<number>.tmp` in the same folder, so that the rename stays on one file system. The
/// number identifies the process.
#[derive(Debug)]
pub struct Pending {
    temporary: PathBuf,
    target: PathBuf,
    committed: bool,
}

// `own_number` and `refuse_other_than_file` are duplicated in model/src/model_file.rs: model and data depend on no
// crate of ours.
/// A number unique to this process, even across hosts and containers, where process ids repeat.
fn own_number() -> u32 {
    static OWN: LazyLock<u32> = LazyLock::new(|| RandomState::new().build_hasher().finish() as u32);
    *OWN
}

impl Pending {
    /// Reserves a temporary name for `target`, creating its folder if needed. The file itself is not created.
    ///
    /// # Errors
    /// [`DataError::Io`] if the folder cannot be created, or `target` exists and is not a regular file.
    pub fn new(target: impl Into<PathBuf>) -> Result<Self> {
        let target = target.into();
        refuse_other_than_file(&target)?;
        let folder = target
            .parent()
            .filter(|p| !p.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(DataError::io("create folder", folder))?;
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        let temporary = folder.join(format!(".{name}.{}.tmp", own_number()));
        Ok(Self {
            temporary,
            target,
            committed: false,
        })
    }

    /// The temporary path to write to.
    pub fn path(&self) -> &Path {
        &self.temporary
    }

    /// Creates the empty file under its temporary name.
    ///
    /// # Errors
    /// [`DataError::Io`] if it cannot be created.
    pub fn create(&self) -> Result<File> {
        File::create(&self.temporary).map_err(DataError::io("create", &self.temporary))
    }

    /// Syncs the file and renames it to its final name.
    ///
    /// # Errors
    /// [`DataError::Io`] if the file cannot be synced or renamed.
    pub fn commit(mut self) -> Result<()> {
        let file = File::open(&self.temporary).map_err(DataError::io("sync", &self.temporary))?;
        file.sync_all()
            .map_err(DataError::io("sync", &self.temporary))?;
        fs::rename(&self.temporary, &self.target)
            .map_err(DataError::io("rename to", &self.target))?;
        self.committed = true;
        sync_name(&self.target);
        Ok(())
    }
}

/// Syncs a file's folder, so that its name survives a power failure. Errors are ignored: some file systems do not
/// support this.
fn sync_name(path: &Path) {
    if let Some(folder) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
    }
}

/// Rejects a device, pipe or folder as target: the rename would replace it for everybody.
fn refuse_other_than_file(target: &Path) -> Result<()> {
    let reason = match fs::metadata(target) {
        Ok(found) if found.is_dir() => Error::from(ErrorKind::IsADirectory),
        Ok(found) if !found.is_file() => Error::new(
            ErrorKind::InvalidInput,
            "a device, pipe or socket, where a file would take its place",
        ),
        // Other errors recur when the file is created.
        _ => return Ok(()),
    };
    Err(DataError::io("write", target)(reason))
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.committed {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// A text file, written piece by piece; [`TextFile::finish`] renames it into place.
#[derive(Debug)]
pub struct TextFile {
    file: BufWriter<File>,
    pending: Pending,
}

impl TextFile {
    /// Creates the file.
    ///
    /// # Errors
    /// [`DataError::Io`] if it cannot be created.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self> {
        let pending = Pending::new(path)?;
        let file = pending.create()?;
        Ok(Self {
            file: BufWriter::new(file),
            pending,
        })
    }

    /// Appends text.
    ///
    /// # Errors
    /// [`DataError::Io`] if writing fails.
    pub fn write(&mut self, text: &str) -> Result<()> {
        let written = self.file.write_all(text.as_bytes());
        written.map_err(DataError::io("write", self.pending.path()))
    }

    /// Completes the file and renames it to its final name.
    ///
    /// # Errors
    /// [`DataError::Io`] if writing, syncing or renaming fails.
    pub fn finish(mut self) -> Result<()> {
        let flushed = self.file.flush();
        flushed.map_err(DataError::io("write", self.pending.path()))?;
        drop(self.file);
        self.pending.commit()
    }
}

/// Writes `bytes` to `path` atomically.
///
/// # Errors
/// [`DataError::Io`] with the step that failed.
pub fn write(path: impl Into<PathBuf>, bytes: &[u8]) -> Result<()> {
    let pending = Pending::new(path)?;
    fs::write(pending.path(), bytes).map_err(DataError::io("write", pending.path()))?;
    pending.commit()
}

/// Appends `bytes` to a file, creating it if needed, and syncs both contents and name to disk. If the process is killed
/// meanwhile, the file may end with a part of `bytes`.
///
/// # Errors
/// [`DataError::Io`] if it cannot be opened, written or synced.
pub fn append(path: impl AsRef<Path>, bytes: &[u8]) -> Result<()> {
    let path = path.as_ref();
    let file = OpenOptions::new().create(true).append(true).open(path);
    let added = file.and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_data()
    });
    added.map_err(DataError::io("write", path))?;
    sync_name(path);
    Ok(())
}

/// Removes temporary files in `folder` that killed writers left for targets accepted by `ours`; returns their number.
///
/// No other process may be writing those targets: the caller must hold the folder's lock, or own the names.
///
/// # Errors
/// [`DataError::Io`] if the folder cannot be listed or a file in it cannot be removed.
pub fn sweep(folder: impl AsRef<Path>, ours: impl Fn(&str) -> bool) -> Result<usize> {
    let folder = folder.as_ref();
    let mut removed = 0;
    for entry in fs::read_dir(folder).map_err(DataError::io("list", folder))? {
        let path = entry.map_err(DataError::io("list", folder))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // Removal may find nothing: the file was renamed, or another process removed it.
        if target_of(&name).is_some_and(&ours) && remove(&path)? {
            removed += 1;
        }
    }
    Ok(removed)
}

/// Removes a file; returns whether it existed.
///
/// # Errors
/// [`DataError::Io`] if it exists and cannot be removed.
pub fn remove(path: impl AsRef<Path>) -> Result<bool> {
    let path = path.as_ref();
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(DataError::io("remove", path)(error)),
    }
}

/// The final name that belongs to the temporary name `name`.
fn target_of(name: &str) -> Option<&str> {
    let (target, number) = name
        .strip_prefix('.')?
        .strip_suffix(".tmp")?
        .rsplit_once('.')?;
    number.parse::<u32>().ok().map(|_| target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_uncommitted_file_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("deep/result.csv");
        let pending = Pending::new(&target).unwrap();
        fs::write(pending.path(), b"half").unwrap();
        drop(pending);
        assert_eq!(fs::read_dir(target.parent().unwrap()).unwrap().count(), 0);
        write(&target, b"whole").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"whole");
    }

    #[test]
    fn what_is_appended_stands_behind_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("left_out.txt");
        append(&file, b"first\n").unwrap();
        append(&file, b"second\n").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"first\nsecond\n");
        let error = append(folder.path().join("absent/a.txt"), b"text").unwrap_err();
        assert!(error.to_string().contains("absent/a.txt"), "{error}");
        assert!(append(folder.path(), b"text").is_err());
    }

    #[test]
    fn what_is_no_file_stays_what_it_is() {
        use std::os::unix::fs::FileTypeExt;
        let folder = tempfile::tempdir().unwrap();
        let here = |name: &str| folder.path().join(name);
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, here("pipe"), mode).unwrap();
        fs::create_dir(here("folder")).unwrap();
        std::os::unix::fs::symlink("pipe", here("link")).unwrap();
        for (name, word) in [
            ("pipe", "a device, pipe or socket"),
            ("link", "a device, pipe or socket"),
            ("folder", "is a directory"),
        ] {
            let error = write(here(name), b"whole").unwrap_err();
            assert!(matches!(error, DataError::Io { .. }), "{name}: {error:?}");
            assert!(error.to_string().contains(word), "{name}: {error}");
        }
        assert!(fs::metadata(here("pipe")).unwrap().file_type().is_fifo());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
        // A link to a file, and one to nothing, become files as before.
        write(here("a.csv"), b"other").unwrap();
        for (name, to) in [("b.csv", "a.csv"), ("c.csv", "absent.csv")] {
            std::os::unix::fs::symlink(to, here(name)).unwrap();
            write(here(name), b"whole").unwrap();
            assert_eq!(fs::read(here(name)).unwrap(), b"whole");
        }
        assert_eq!(fs::read(here("a.csv")).unwrap(), b"other");
    }

    #[test]
    fn what_the_killed_left_is_swept_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let here = |name: &str| folder.path().join(name);
        let left = [".labels.nc.17.tmp", "..labels.run.17.tmp"];
        let stays = [
            "labels.nc",
            ".labels.run",
            ".other.nc.17.tmp",
            ".labels.nc.tmp",
            ".labels.nc.of-somebody.tmp",
        ];
        for name in left.iter().chain(&stays) {
            fs::write(here(name), b"half").unwrap();
        }
        let ours = |target: &str| target.trim_start_matches('.').starts_with("labels.");
        assert_eq!(sweep(folder.path(), ours).unwrap(), left.len());
        assert!(left.iter().all(|name| !here(name).exists()));
        assert!(stays.iter().all(|name| here(name).exists()));
        assert_eq!(sweep(folder.path(), |_| true).unwrap(), 1);
        assert!(sweep(here("absent"), ours).is_err());
    }
}
