//! Files of a run that is under way: what labelling and tracking share to go on after a kill.

use crate::error::{ClimateError, Result};
use crate::events::Event;
use crate::stream::is_result;
use crate::table::Row;
use serde::de::DeserializeOwned;
use squall_data::{DataError, atomic, wire};
use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// A table of events that grows until the run ends; the run's state says how much of it counts.
pub(crate) struct EventPart {
    path: PathBuf,
    writer: csv::Writer<BufWriter<File>>,
}

impl EventPart {
    /// Opens the part to go on after its first bytes; without any it begins with the header.
    pub fn open(path: PathBuf, bytes: u64) -> Result<Self> {
        let writer = csv::Writer::from_writer(BufWriter::new(cut(&path, bytes)?));
        let mut part = Self { path, writer };
        if bytes == 0 {
            part.record(Event::columns())?;
        }
        Ok(part)
    }

    /// Appends a row.
    pub fn write(&mut self, event: &Event) -> Result<()> {
        self.record(event.cells())
    }

    /// Brings all rows to the disk and says how long the file is.
    pub fn flush(&mut self) -> Result<u64> {
        let flushed = self.writer.flush();
        flushed.map_err(DataError::io("write", &self.path))?;
        length(&self.path, self.writer.get_ref().get_ref())
    }

    /// Gives the part, which must be flushed, its name.
    pub fn rename(&self, table: &Path) -> Result<()> {
        Ok(fs::rename(&self.path, table).map_err(DataError::io("rename to", table))?)
    }

    fn record<S: AsRef<[u8]>>(&mut self, cells: Vec<S>) -> Result<()> {
        self.writer
            .write_record(cells)
            .map_err(|error| ClimateError::Data(DataError::io("write", &self.path)(error.into())))
    }
}

/// Brings a file to the disk and says how long it is.
pub(crate) fn length(path: &Path, file: &File) -> Result<u64> {
    let length = file.sync_all().and_then(|()| Ok(file.metadata()?.len()));
    Ok(length.map_err(DataError::io("write", path))?)
}

/// A file of some bytes, to be written on; created if it is not there.
pub(crate) fn cut(path: &Path, bytes: u64) -> Result<File> {
    let open = || {
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)?;
        file.set_len(bytes)?;
        file.seek(SeekFrom::End(0))?;
        Ok(file)
    };
    Ok(open().map_err(DataError::io("write", path))?)
}

/// Whether a file of a folder is there with so many bytes or more.
pub(crate) fn is_as_long(folder: &Path, name: &str, bytes: u64) -> bool {
    fs::metadata(folder.join(name)).is_ok_and(|meta| meta.len() >= bytes)
}

/// The state of a file, if it is there and can be understood.
pub(crate) fn read_state<T: DeserializeOwned>(path: &Path) -> Option<T> {
    wire::read_file(path).ok()
}

/// Removes a state that a run cannot go on from, if there is one, and says so.
pub(crate) fn forget(state: &Path) -> Result<()> {
    if remove_if_there(state)? {
        tracing::warn!(
            "`{}` is of other input, other options or another version: the run begins anew",
            state.display()
        );
    }
    Ok(())
}

/// Removes a file, if it is there; whether it was.
pub(crate) fn remove_if_there(path: &Path) -> Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(DataError::io("remove", path)(error).into()),
    }
}

/// Syncs a folder, so that names given in it stay; nothing depends on it where that is not possible.
pub(crate) fn sync_folder(folder: &Path) {
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
}

/// Tables of labels, whose folders are swept as those of events. Other commands may be writing into the same folder:
/// what is swept goes by exact names.
const OF_LABELS: [&str; 3] = ["objects.csv", "boxes.csv", "agreement.csv"];

/// Removes what killed runs have begun: all of the folder of parts, and among the results tables and what else follows
/// from them.
pub(crate) fn sweep(out: &Path, partial: &Path) -> Result<()> {
    atomic::sweep(partial, |_| true)?;
    atomic::sweep(out, |name| {
        is_result(name)
            || OF_LABELS.contains(&name)
            || name.starts_with("events.")
            || name.starts_with("tracks.")
    })?;
    Ok(())
}
