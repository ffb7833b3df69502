//! The times that a store lacks because they could not be read.

use crate::plan::counted;
use squall_data::{DataError, Time, atomic};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The file's name, in the folder of the store.
const FILE: &str = "left_out.txt";

/// The times that could not be read, one a line in a file of the store: who goes on with it and `--skip-bad` leaves them
/// out, too.
pub(super) struct Unread {
    path: PathBuf,
    /// As they are written.
    pub times: BTreeSet<String>,
}

impl Unread {
    /// The times that a store which was begun left out; none if it is new. The store's lock must be held.
    pub(super) fn of(store: &Path) -> Result<Self, DataError> {
        atomic::sweep(store, |name| name == FILE)?;
        let path = store.join(FILE);
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            text => text.map_err(DataError::io("read", &path))?,
        };
        let times = text.lines().map(str::to_string).collect();
        Ok(Self { path, times })
    }

    pub(super) fn say(&self) {
        let count = self.times.len();
        if count > 0 {
            let times = counted(count, "time");
            tracing::info!("left out as before: {times} that could not be read");
        }
    }

    /// All times are to be read, those that could not be read before, too.
    pub(super) fn forget(&mut self) -> Result<(), DataError> {
        self.times.clear();
        atomic::remove(&self.path).map(drop)
    }

    /// One time more, before a later sample is written.
    pub(super) fn add(&mut self, time: Time) -> Result<(), DataError> {
        self.times.insert(time.to_string());
        let lines = self.times.iter().map(|time| format!("{time}\n"));
        atomic::write(&self.path, lines.collect::<String>().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_kept_and_what_a_killed_call_began_to_write_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let torn = folder.path().join(".left_out.txt.17.tmp");
        std::fs::write(folder.path().join(FILE), "2000-01-01T00:00:00\n").unwrap();
        std::fs::write(&torn, "2000-").unwrap();
        let unread = Unread::of(folder.path()).unwrap();
        assert_eq!(unread.times.len(), 1);
        assert!(!torn.exists());
    }
}
