//! Which mask files are finished, and what was left out of them.

use crate::error::{JobError, Result};
use crate::metrics::{JsonLines, to_json};
use serde::{Deserialize, Serialize};
use squall_data::mask_file::MaskArchive;
use std::collections::BTreeMap;
use std::path::Path;

/// Lines of finished files, in the output folder.
pub(super) const LOG: &str = "finished.jsonl";

/// A time without a mask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SkippedTime {
    /// Which.
    pub time: String,
    /// Why.
    pub reason: String,
}

/// A finished mask file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FinishedFile {
    /// Its name; there is no such file if it would hold no mask.
    pub file: String,
    /// First time asked for.
    pub first: String,
    /// Last time asked for.
    pub last: String,
    /// Masks in it.
    pub masks: usize,
    /// Missing input values that were replaced by the mean.
    pub missing_values: u64,
    /// Times left out.
    pub skipped: Vec<SkippedTime>,
}

impl FinishedFile {
    /// Whether the file is there and can be read to its end.
    fn verify(&self, folder: &Path) -> bool {
        if self.masks == 0 {
            return true;
        }
        let path = folder.join(&self.file);
        let opened = path
            .exists()
            .then(|| MaskArchive::open(&path.to_string_lossy()).ok());
        opened.flatten().is_some_and(|archive| {
            archive.times().len() == self.masks && archive.read(self.masks - 1).is_ok()
        })
    }
}

/// The finished files of a folder by name, each verified; a line that was cut off or whose file is gone is forgotten.
pub(super) fn read(folder: &Path) -> Result<BTreeMap<String, FinishedFile>> {
    let path = folder.join(LOG);
    if !path.exists() {
        return Ok(BTreeMap::new());
    }
    let text = std::fs::read_to_string(&path).map_err(JobError::io("read", &path))?;
    let mut finished = BTreeMap::new();
    for line in text.lines() {
        if let Ok(entry) = serde_json::from_str::<FinishedFile>(line) {
            finished.insert(entry.file.clone(), entry);
        }
    }
    finished.retain(|name, entry| {
        let whole = entry.verify(folder);
        if !whole {
            tracing::warn!(file = %name, "a finished mask file is gone or damaged: it is made again");
        }
        whole
    });
    Ok(finished)
}

/// Begins the log anew with these files, to be appended to.
pub(super) fn restart(
    folder: &Path,
    finished: &BTreeMap<String, FinishedFile>,
) -> Result<JsonLines> {
    let path = folder.join(LOG);
    let mut text = String::new();
    for entry in finished.values() {
        text.push_str(&to_json(entry, &path)?);
        text.push('\n');
    }
    squall_data::atomic::write(&path, text.as_bytes())?;
    JsonLines::open(&path)
}
