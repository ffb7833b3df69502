//! Assigns mask files to ranks: each rank claims the next free file until none is left.
//!
//! A claim is an empty file in a folder of this call, created exclusively (`O_EXCL`, which local and parallel file
//! systems keep atomic). The outputs need a shared folder anyway. No rank has to serve the others while it computes,
//! fast ranks make more files than slow ones, and a rank accesses the folder once per mask file. Claims of a killed
//! call are ignored by the next one, whatever its number of ranks: only finished files count, and those are in the log.
//!
//! Files are claimed in order, so all claimed files precede all free ones, and an exponential plus binary search finds
//! the border. A stale answer from a network file system's cache can only be too low: the claim itself then fails.

use super::heartbeat;
use super::stop_signal::StopSignal;
use crate::comm::Communicator;
use crate::comm::collectives::tree;
use crate::error::{JobError, Result, all_or_none};
use squall_data::DataError;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Prefix of the names of claim folders.
const FOLDER: &str = ".claims-";
/// Time within which a folder created by one rank must be visible to the others: a network file system may cache its
/// absence for a while.
const SEEN_WITHIN: Duration = Duration::from_secs(10);
/// Interval between attempts to write into such a folder.
const RETRY: Duration = Duration::from_millis(100);

/// The claims of one call, seen from one of its ranks.
#[derive(Debug)]
pub(super) struct Claims {
    /// `None` for a single rank, which takes everything.
    folder: Option<PathBuf>,
    count: usize,
    /// All files below this index are claimed.
    border: usize,
}

impl Claims {
    /// Sets up claims on `count` mask files for all ranks of a communicator. All of them call it.
    ///
    /// # Errors
    /// [`JobError::NotShared`] on a rank that cannot write into the folder that the first rank created.
    pub fn begin(out: &Path, count: usize, comm: &mut dyn Communicator) -> Result<Self> {
        Self::begin_within(SEEN_WITHIN, out, count, comm)
    }

    fn begin_within(
        patience: Duration,
        out: &Path,
        count: usize,
        comm: &mut dyn Communicator,
    ) -> Result<Self> {
        let mut folder = None;
        if comm.size() > 1 {
            let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            let nanoseconds = since.map_or(0, |time| time.as_nanos() as u64);
            let mut token = [nanoseconds, u64::from(std::process::id())];
            tree::broadcast(comm, bytemuck::cast_slice_mut(&mut token), 0)?;
            let path = out.join(format!("{FOLDER}{:x}-{:x}", token[0], token[1]));
            let made = match comm.rank() {
                0 => std::fs::create_dir_all(&path).map_err(DataError::io("create folder", &path)),
                _ => Ok(()),
            };
            // Nobody may use the folder before it exists.
            all_or_none(comm, made.map_err(JobError::from))?;
            // A rank that cannot write there could neither claim files nor report its failure to the others.
            let rank = comm.rank();
            let written = first_sign(&path, rank, patience);
            let written = written.map_err(|source| JobError::NotShared {
                rank,
                folder: out.to_path_buf(),
                source,
            });
            all_or_none(comm, written)?;
            folder = Some(path);
        }
        Ok(Self {
            folder,
            count,
            border: 0,
        })
    }

    /// Claims the next free file for this rank; `None` if all are taken.
    ///
    /// # Errors
    /// As [`refuse_taken`]; [`JobError::Data`].
    pub fn next(&mut self) -> Result<Option<usize>> {
        loop {
            self.border = self.first_free();
            if self.border >= self.count {
                return Ok(None);
            }
            let mine = self.border;
            self.border += 1;
            let Some(path) = self.path(mine) else {
                return Ok(Some(mine));
            };
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(_) => return Ok(Some(mine)),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    refuse_taken(self.folder())?;
                    return Err(DataError::io("claim", path)(error).into());
                }
            }
        }
    }

    /// The first free file, or an earlier one.
    fn first_free(&self) -> usize {
        let claimed =
            |at: usize| at < self.count && self.path(at).is_some_and(|path| path.exists());
        if !claimed(self.border) {
            return self.border;
        }
        let (mut taken, mut step) = (self.border, 1);
        while claimed(taken + step) {
            taken += step;
            step *= 2;
        }
        // Invariant: `taken` is claimed, `taken + step` is free.
        let mut free = taken + step;
        while free - taken > 1 {
            let middle = taken + (free - taken) / 2;
            if claimed(middle) {
                taken = middle;
            } else {
                free = middle;
            }
        }
        free
    }

    fn path(&self, index: usize) -> Option<PathBuf> {
        let folder = self.folder.as_ref()?;
        Some(folder.join(format!("{index:06}")))
    }

    /// The folder through which ranks communicate; `None` for a single rank.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The signal that tells other ranks to stop.
    pub fn stop_signal(&self) -> StopSignal {
        StopSignal::within(self.folder())
    }

    /// Removes this call's folder. No rank may use it any more.
    pub fn end(&self) -> Result<()> {
        match &self.folder {
            Some(folder) => remove_folder(folder),
            None => Ok(()),
        }
    }
}

/// Writes a rank's file into a folder created by the first rank; waits until the folder is visible.
fn first_sign(folder: &Path, rank: usize, patience: Duration) -> std::io::Result<()> {
    let start = Instant::now();
    loop {
        match std::fs::write(heartbeat::file_of(folder, rank), b"") {
            Err(error)
                if error.kind() == std::io::ErrorKind::NotFound && start.elapsed() < patience =>
            {
                std::thread::sleep(RETRY);
            }
            written => return written,
        }
    }
}

/// Fails if a later call has taken over the output: it removed this folder of claims before it made a mask, perhaps
/// with other settings. This can only happen to ranks that outlive the first one, and with it the output's lock.
///
/// # Errors
/// [`JobError::Locked`].
pub(super) fn refuse_taken(claims: Option<&Path>) -> Result<()> {
    match claims {
        Some(folder) if matches!(folder.try_exists(), Ok(false)) => Err(JobError::Locked {
            folder: folder.parent().unwrap_or(folder).to_path_buf(),
            holder: None,
        }),
        _ => Ok(()),
    }
}

/// Removes the claims of killed calls; the caller must hold the output folder's lock.
pub(super) fn remove_old(out: &Path) -> Result<()> {
    for entry in std::fs::read_dir(out).map_err(DataError::io("list", out))? {
        let path = entry.map_err(DataError::io("list", out))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(FOLDER) {
            remove_folder(&path)?;
        }
    }
    Ok(())
}

fn remove_folder(path: &Path) -> Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(DataError::io("remove", path)(error).into())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::threads;

    #[test]
    fn each_is_claimed_once_by_somebody() {
        let folder = tempfile::tempdir().unwrap();
        for (ranks, count) in [(1, 7), (3, 100), (5, 2), (4, 0)] {
            let claimed = threads::run(threads::ranks(ranks), |mut comm| {
                let mut claims = Claims::begin(folder.path(), count, &mut comm).unwrap();
                let mut mine = Vec::new();
                while let Some(index) = claims.next().unwrap() {
                    mine.push(index);
                    std::thread::yield_now();
                }
                comm.barrier().unwrap();
                claims.end().unwrap();
                mine
            });
            let mut all = claimed.concat();
            all.sort_unstable();
            assert_eq!(all, (0..count).collect::<Vec<_>>(), "{ranks} ranks");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn ranks_that_see_another_folder_are_named_before_any_work() {
        let folder = tempfile::tempdir().unwrap();
        let errors = threads::run(threads::ranks(3), |mut comm| {
            let rank = comm.rank();
            // As where `--out` lies on a disk of each node.
            let out = folder.path().join(format!("node{}", rank / 2));
            let claims = Claims::begin_within(2 * RETRY, &out, 1, &mut comm);
            claims.unwrap_err()
        });
        assert!(matches!(errors[0], JobError::Elsewhere));
        assert!(matches!(errors[1], JobError::Elsewhere));
        let said = errors[2].to_string();
        let expected = format!(
            "rank 2 cannot write into `{}`, which the first rank made for all: ",
            folder.path().join("node1").display()
        );
        assert!(said.starts_with(&expected), "{said}");
    }

    #[test]
    fn the_border_is_found_wherever_it_lies() {
        let folder = tempfile::tempdir().unwrap();
        for border in [0, 1, 2, 3, 17, 63, 64, 65, 99, 100] {
            let path = folder.path().join(border.to_string());
            std::fs::create_dir(&path).unwrap();
            let mut claims = Claims {
                folder: Some(path),
                count: 100,
                border: 0,
            };
            for index in 0..border {
                std::fs::write(claims.path(index).unwrap(), b"").unwrap();
            }
            assert_eq!(claims.first_free(), border);
            assert_eq!(claims.next().unwrap(), (border < 100).then_some(border));
        }
    }

    #[test]
    fn claims_of_killed_calls_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        threads::run(threads::ranks(2), |mut comm| {
            Claims::begin(folder.path(), 1, &mut comm).unwrap();
        });
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        remove_old(folder.path()).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
