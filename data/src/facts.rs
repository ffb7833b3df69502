//! Length and modification time of a file, to detect changes.

use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::SystemTime;

/// Length and modification time of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFacts {
    /// Length in bytes, if the file exists.
    pub length: Option<u64>,
    /// Nanoseconds since 1970 of its last modification, if the file system reports it.
    pub modified: Option<i64>,
}

impl FileFacts {
    /// The current length and modification time of a file.
    pub fn of(path: &Path) -> Self {
        let meta = std::fs::metadata(path).ok();
        let since_1970 = |time: SystemTime| match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => after.as_nanos() as i64,
            Err(before) => -(before.duration().as_nanos() as i64),
        };
        Self {
            length: meta.as_ref().map(std::fs::Metadata::len),
            modified: meta.and_then(|meta| meta.modified().ok()).map(since_1970),
        }
    }
}
