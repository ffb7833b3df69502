//! The times that a store lacks because they could not be read.

use crate::plan::counted;
use squall_data::{DataError, Time, atomic};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The times that could not be read, one a line in a file of the store: who goes on with it and `--skip-bad` leaves them
/// out, too.
pub(super) struct Unread {
    path: PathBuf,
    /// As they are written.
    pub times: BTreeSet<String>,
}

impl Unread {
    /// The times that a store which was begun left out; none if it is new.
    pub(super) fn of(store: &Path) -> Result<Self, DataError> {
        let path = store.join("left_out.txt");
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
