//! A line of MLPerf's logs: `:::MLLOG` and a JSON object.
//!
//! # Source
//! mlcommons/logging `mlperf_logging/mllog/mllog.py`: the keys of the object and their order.

use crate::error::Result;
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use serde_json::{Value, from_str};
use squall_data::DataError;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

const PREFIX: &str = ":::MLLOG ";

/// What a line marks: a point in time, or the start or end of an interval.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum EventType {
    PointInTime,
    IntervalStart,
    IntervalEnd,
}

/// One line of a log.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    namespace: &'static str,
    time_ms: u64,
    event_type: EventType,
    key: &'static str,
    value: Value,
    metadata: BTreeMap<&'static str, Value>,
}

impl Line {
    /// A value at the current time.
    #[track_caller]
    pub fn point(key: &'static str, value: impl Into<Value>) -> Self {
        Self::new(EventType::PointInTime, key, value.into())
    }

    /// An interval that starts now.
    #[track_caller]
    pub fn start(key: &'static str) -> Self {
        Self::new(EventType::IntervalStart, key, Value::Null)
    }

    /// An interval that ends now.
    #[track_caller]
    pub fn end(key: &'static str) -> Self {
        Self::new(EventType::IntervalEnd, key, Value::Null)
    }

    #[track_caller]
    fn new(event_type: EventType, key: &'static str, value: Value) -> Self {
        let place = Location::caller();
        let metadata: [(&'static str, Value); 2] = [
            ("file", place.file().into()),
            ("lineno", place.line().into()),
        ];
        Self {
            namespace: "",
            time_ms: now_ms(),
            event_type,
            key,
            value,
            metadata: metadata.into(),
        }
    }

    /// Replaces the line's time.
    pub fn at(self, time_ms: u64) -> Self {
        Self { time_ms, ..self }
    }

    /// Adds a metadata field.
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.metadata.insert(name, value.into());
        self
    }

    /// Adds the epoch, which MLPerf counts from 1, and the step count.
    pub fn at_step(self, epoch: u64, step: u64) -> Self {
        self.with("epoch_num", epoch + 1).with("step_num", step)
    }

    fn bytes(&self) -> io::Result<Vec<u8>> {
        let mut bytes = PREFIX.as_bytes().to_vec();
        self.serialize(&mut Serializer::with_formatter(&mut bytes, Spaced))?;
        bytes.push(b'\n');
        Ok(bytes)
    }
}

/// Formats JSON as Python's library does, with a space after commas and colons: users search logs for `"key":
/// "run_stop"`.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + Write>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        separate(to, first)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        separate(to, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        to.write_all(b": ")
    }
}

fn separate<W: ?Sized + Write>(to: &mut W, first: bool) -> io::Result<()> {
    match first {
        true => Ok(()),
        false => to.write_all(b", "),
    }
}

/// A file that lines are appended to, one write per line.
#[derive(Debug)]
pub(super) struct Lines {
    path: PathBuf,
    file: File,
    /// Offset of the line that ended an interrupted part of the run; the next line overwrites it.
    stopped: Option<u64>,
    /// Whether the logged run has succeeded.
    succeeded: bool,
    /// The step of the last line, and whether the line ends an epoch; `None` if the line has no step.
    left_after: Option<(u64, bool)>,
    /// Whether the file ends with an incomplete line of foreign text.
    unended: bool,
}

impl Lines {
    /// Opens a file, creating it and its folder if needed. Also returns whether a run has already begun in it.
    ///
    /// # Errors
    /// [`crate::JobError::Data`].
    pub fn open(path: &Path) -> Result<(Self, bool)> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(DataError::io("create", folder))?;
        }
        // Pipes and terminals also accept lines, but cannot be read back.
        let text = match path.is_file() {
            true => fs::read_to_string(path),
            false => Ok(String::new()),
        };
        let text = text.map_err(DataError::io("read", path))?;
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = file.map_err(DataError::io("append to", path))?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let mut left = text.as_str();
        let rest = &text[whole..];
        // In a file that is not a log, the last line is foreign text, even if it is only a colon.
        let is_log = whole == 0 || text.lines().any(|line| line.starts_with(PREFIX));
        let begins = !rest.is_empty() && PREFIX.starts_with(rest) && is_log;
        let is_torn = rest.starts_with(PREFIX) || begins;
        if is_torn {
            // The previous process died while writing, or the disk was full.
            left = &text[..whole];
            let cut = file.set_len(whole as u64);
            cut.map_err(DataError::io("shorten", path))?;
        }
        let begun = left.lines().any(|line| is_of(line, "run_start").is_some());
        let path = path.to_path_buf();
        let end = last_end(left);
        let of_status = |status: &str| end.as_ref().filter(|(_, told)| told == status);
        let lines = Self {
            path,
            file,
            stopped: of_status("aborted").map(|(place, _)| *place as u64),
            succeeded: of_status("success").is_some(),
            left_after: last_step(left),
            unended: !rest.is_empty() && !is_torn,
        };
        Ok((lines, begun))
    }

    /// Rejects a new run in the log of a run that has succeeded.
    ///
    /// # Errors
    /// [`crate::JobError::Data`].
    pub fn check_new_run(&self) -> Result<()> {
        if !self.succeeded {
            return Ok(());
        }
        let reason = "it is the log of a run that has ended, and every run needs a file of its own";
        let refused = io::Error::new(io::ErrorKind::AlreadyExists, reason);
        Err(DataError::io("append to", &self.path)(refused).into())
    }

    /// If the last line was written after this many steps, returns whether it ends an epoch. A run killed between its
    /// last step and its end leaves such a line.
    pub fn left_after(&self, steps: u64) -> Option<bool> {
        let left = self.left_after.filter(|(step, _)| *step == steps);
        left.map(|(_, ends_epoch)| ends_epoch)
    }

    /// Appends a line.
    ///
    /// # Errors
    /// [`crate::JobError::Data`].
    pub fn push(&mut self, line: &Line) -> Result<()> {
        if let Some(place) = self.stopped.take() {
            let cut = self.file.set_len(place);
            cut.map_err(DataError::io("shorten", &self.path))?;
        }
        let written = line.bytes().and_then(|mut bytes| {
            if std::mem::take(&mut self.unended) {
                bytes.insert(0, b'\n');
            }
            self.file.write_all(&bytes)
        });
        Ok(written.map_err(DataError::io("append to", &self.path))?)
    }
}

/// The value of a line if it has this key.
fn is_of(line: &str, key: &str) -> Option<Value> {
    let object: Value = from_str(line.strip_prefix(PREFIX)?).ok()?;
    (object["key"] == key).then_some(object)
}

/// Offset and status of the last line, if it ends a run or a part of one.
fn last_end(text: &str) -> Option<(usize, String)> {
    let lines = text.strip_suffix('\n')?;
    let place = lines.rfind('\n').map_or(0, |end| end + 1);
    let end = is_of(&lines[place..], "run_stop")?;
    let status = end["metadata"]["status"].as_str()?;
    Some((place, status.to_string()))
}

/// The step of the last line, and whether the line ends an epoch.
fn last_step(text: &str) -> Option<(u64, bool)> {
    let last: Value = from_str(text.lines().last()?.strip_prefix(PREFIX)?).ok()?;
    let step = last["metadata"]["step_num"].as_u64()?;
    Some((step, last["key"] == "epoch_stop"))
}

/// Milliseconds since 1970.
pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
