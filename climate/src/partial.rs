//! Files of an unfinished run, which labelling and tracking use to resume after a kill.

use crate::error::{ClimateError, Result};
use crate::events::Event;
use crate::stream::is_result;
use crate::table::Row;
use serde::Serialize;
use serde::de::DeserializeOwned;
use squall_data::boxes::table::{append_rows, header};
use squall_data::{DataError, Time, TrackedBox, atomic, wire};
use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The working folder of an unfinished run, inside its output folder: partial tables and saved states.
pub(crate) struct PartialFolder {
    path: PathBuf,
}

impl PartialFolder {
    /// Creates the folder if necessary, and removes temporary files of killed runs from it and from the output folder.
    pub fn open(out: &Path, name: &str) -> Result<Self> {
        let path = out.join(name);
        fs::create_dir_all(&path).map_err(DataError::io("create folder", &path))?;
        sweep(out, &path)?;
        Ok(Self { path })
    }

    /// The path of a file in the folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Whether a file exists and has at least `bytes` bytes.
    pub fn is_as_long(&self, name: &str, bytes: u64) -> bool {
        fs::metadata(self.file(name)).is_ok_and(|meta| meta.len() >= bytes)
    }

    /// Returns the state to resume from, if it exists, can be decoded and is `usable`. Any other state is removed. This
    /// must happen before tables are truncated: otherwise a later run could combine that state with rows of another
    /// run.
    pub fn state<S: DeserializeOwned>(
        &self,
        name: &str,
        usable: impl FnOnce(&S) -> bool,
    ) -> Result<Option<S>> {
        let path = self.file(name);
        let state: Option<S> = wire::read_file(&path).ok().filter(usable);
        if state.is_none() && atomic::remove(&path)? {
            tracing::warn!(
                "`{}` is of other input, other options or another version: the run begins anew",
                path.display()
            );
        }
        Ok(state)
    }

    /// Saves a state.
    pub fn save<S: Serialize>(&self, name: &str, state: &S) -> Result<()> {
        Ok(wire::write_file(self.file(name), state)?)
    }

    /// Removes the folder with its contents.
    pub fn remove(&self) -> Result<()> {
        let removed = fs::remove_dir_all(&self.path);
        Ok(removed.map_err(DataError::io("remove", &self.path))?)
    }
}

/// A table of events that grows until the run ends. The saved state determines how many of its bytes are valid.
pub(crate) struct EventPart {
    path: PathBuf,
    writer: csv::Writer<BufWriter<File>>,
}

impl EventPart {
    /// Opens the part and truncates it to its first `bytes` bytes; an empty part gets the header.
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

    /// Syncs all rows to disk and returns the length of the file.
    pub fn flush(&mut self) -> Result<u64> {
        let flushed = self.writer.flush();
        flushed.map_err(DataError::io("write", &self.path))?;
        length(&self.path, self.writer.get_ref().get_ref())
    }

    /// Renames the part, which must be flushed, to its final name.
    pub fn rename(&self, table: &Path) -> Result<()> {
        Ok(fs::rename(&self.path, table).map_err(DataError::io("rename to", table))?)
    }

    fn record<S: AsRef<[u8]>>(&mut self, cells: Vec<S>) -> Result<()> {
        self.writer
            .write_record(cells)
            .map_err(|error| ClimateError::Data(DataError::io("write", &self.path)(error.into())))
    }
}

/// A table of boxes that grows until the run ends, like [`EventPart`].
pub(crate) struct BoxPart {
    path: PathBuf,
    file: BufWriter<File>,
    /// Formatted rows not yet written.
    text: String,
}

impl BoxPart {
    /// Opens the part and truncates it to its first `bytes` bytes; an empty part gets the header.
    pub fn open(path: PathBuf, bytes: u64) -> Result<Self> {
        Ok(Self {
            file: BufWriter::new(cut(&path, bytes)?),
            path,
            text: match bytes {
                0 => header(),
                _ => String::new(),
            },
        })
    }

    /// Appends the rows of a time.
    pub fn write(&mut self, time: Time, boxes: &[TrackedBox]) -> Result<()> {
        for found in boxes {
            found.geo.check()?;
        }
        append_rows(time, boxes, &mut self.text);
        self.write_text()
    }

    /// Syncs all rows to disk and returns the length of the file.
    pub fn flush(&mut self) -> Result<u64> {
        self.write_text()?;
        let flushed = self.file.flush();
        flushed.map_err(DataError::io("write", &self.path))?;
        length(&self.path, self.file.get_ref())
    }

    /// The path of the part.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Renames the part, which must be flushed, to its final name.
    pub fn rename(&self, table: &Path) -> Result<()> {
        Ok(fs::rename(&self.path, table).map_err(DataError::io("rename to", table))?)
    }

    fn write_text(&mut self) -> Result<()> {
        let written = self.file.write_all(self.text.as_bytes());
        written.map_err(DataError::io("write", &self.path))?;
        self.text.clear();
        Ok(())
    }
}

/// Syncs a file to disk and returns its length.
pub(crate) fn length(path: &Path, file: &File) -> Result<u64> {
    let length = file.sync_all().and_then(|()| Ok(file.metadata()?.len()));
    Ok(length.map_err(DataError::io("write", path))?)
}

/// Opens a file for appending after truncating it to `bytes` bytes; creates it if necessary.
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

/// Syncs a folder so that renames in it are durable. This is best effort: correctness does not depend on it.
pub(crate) fn sync_folder(folder: &Path) {
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
}

/// Tables of labels, whose temporary files are removed like those of events. Other commands may be writing to the same
/// folder, so only exact names are swept.
const LABEL_TABLES: [&str; 3] = ["objects.csv", "boxes.csv", "agreement.csv"];

/// Removes temporary files of killed runs: all in the working folder, and in the output folder those of tables and
/// files derived from them.
fn sweep(out: &Path, partial: &Path) -> Result<()> {
    atomic::sweep(partial, |_| true)?;
    atomic::sweep(out, |name| {
        is_result(name)
            || LABEL_TABLES.contains(&name)
            || name.starts_with("events.")
            || name.starts_with("tracks.")
    })?;
    Ok(())
}
