//! Length and modification time of a file, by which one that has changed is noticed.

use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::SystemTime;

/// Length and modification time of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFacts {
    /// Bytes, if it is there.
    pub length: Option<u64>,
    /// Nanoseconds from 1970 to its last change, if the file system knows.
    pub modified: Option<i64>,
}

impl FileFacts {
    /// The length of a file and the time of its last change, as they are now.
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
