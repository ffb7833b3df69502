//! The times that a store lacks because they were unreadable.

use crate::plan::counted;
use squall_data::{DataError, Time, atomic};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Name of the file in the store's folder.
const FILE: &str = "left_out.txt";

/// Unreadable times, one per line in a file of the store: continuing the store with `--skip-bad` skips them, too.
pub(super) struct Unread {
    path: PathBuf,
    /// Their formatted times.
    pub times: BTreeSet<String>,
}

impl Unread {
    /// The times skipped by an unfinished store; empty for a new one. The caller must hold the store's lock.
    pub(super) fn of(store: &Path) -> Result<Self, DataError> {
        atomic::sweep(store, |name| name == FILE)?;
        let path = store.join(FILE);
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            text => text.map_err(DataError::io("read", &path))?,
        };
        // A killed call may have left an incomplete line, to which nothing may be appended.
        let (whole, torn) = text.split_at(text.rfind('\n').map_or(0, |end| end + 1));
        if !torn.is_empty() {
            atomic::write(&path, whole.as_bytes())?;
        }
        let times = whole.lines().map(str::to_string).collect();
        Ok(Self { path, times })
    }

    pub(super) fn say(&self) {
        let count = self.times.len();
        if count > 0 {
            let times = counted(count, "time");
            tracing::info!("left out as before: {times} that could not be read");
        }
    }

    /// Clears the list, so that all times must be read, including these.
    pub(super) fn forget(&mut self) -> Result<(), DataError> {
        self.times.clear();
        atomic::remove(&self.path).map(drop)
    }

    /// Adds a time, before a later sample is written. Appending keeps this cheap: a century of fields may lack a
    /// channel at every other time.
    pub(super) fn add(&mut self, time: Time) -> Result<(), DataError> {
        let time = time.to_string();
        atomic::append(&self.path, format!("{time}\n").as_bytes())?;
        self.times.insert(time);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use squall_data::Calendar;

    #[test]
    fn times_are_kept_and_what_a_killed_call_began_to_write_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (file, torn) = (
            folder.path().join(FILE),
            folder.path().join(".left_out.txt.17.tmp"),
        );
        let time = |hour| Time::new(Calendar::NoLeap, 2000, 1, 1, hour, 0, 0).unwrap();
        let mut unread = Unread::of(folder.path()).unwrap();
        unread.add(time(6)).unwrap();
        unread.add(time(9)).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text + "2000-").unwrap();
        std::fs::write(&torn, "2000-").unwrap();
        let mut unread = Unread::of(folder.path()).unwrap();
        assert_eq!(unread.times.len(), 2);
        assert!(!torn.exists());
        unread.add(time(12)).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        let hours = ["06", "09", "12"].map(|hour| format!("2000-01-01T{hour}:00:00\n"));
        assert_eq!(text, hours.concat());
        assert_eq!(Unread::of(folder.path()).unwrap().times, unread.times);
        unread.forget().unwrap();
        assert!(unread.times.is_empty() && !file.exists());
    }
}
