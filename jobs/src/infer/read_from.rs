//! The sources of a mask file's fields, so that masks of different fields are never confused.

use super::Input;
use super::log::FinishedFile;
use super::sliding::Sliding;
use crate::error::{JobError, Result};
use serde::{Deserialize, Serialize};
use squall_data::Variable;
use std::ops::Range;
use std::path::Path;

/// The sources of a mask file's fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadFrom {
    /// The name of the first file, or the sample store.
    pub first: String,
    /// Hash of all names, lengths and modification times.
    pub state: String,
}

impl ReadFrom {
    /// The current sources of some times and of the times that their clips see.
    pub(super) fn now(
        input: &Input<'_>,
        indices: Range<usize>,
        sliding: Option<&Sliding>,
        variables: &[Variable],
    ) -> Self {
        let seen = sliding.map_or_else(Vec::new, |sliding| sliding.within(indices.clone()));
        let frames = seen.iter().flat_map(|window| window.frames.iter().copied());
        let (first, last) = frames.fold((indices.start, indices.end), |(first, last), frame| {
            (first.min(frame), last.max(frame + 1))
        });
        input.read_from(first..last, variables)
    }
}

/// Rejects a folder whose masks are of other fields: of files that the input lacks, or that have all changed. Returns
/// the finished files whose fields are unchanged. The others will be made again, and so will those whose clips
/// `saw_others` than they would now: they read other files although none has changed.
///
/// # Errors
/// [`JobError::Resume`] naming a file.
pub(super) fn of_these_fields(
    folder: &Path,
    input: &Input<'_>,
    finished: Vec<(FinishedFile, ReadFrom)>,
    saw_others: impl Fn(&FinishedFile) -> bool,
) -> Result<Vec<FinishedFile>> {
    let refused = |reason: String| {
        Err(JobError::Resume {
            folder: folder.to_path_buf(),
            reason,
        })
    };
    let first = |entry: &FinishedFile| match &entry.read_from {
        Some(read_from) => read_from.first.clone(),
        None => "files of an earlier version, which did not write down which".to_string(),
    };
    // An input that was extended at its start has another first file for the masks at its edge.
    let other = |(entry, now): &&(FinishedFile, ReadFrom)| {
        first(entry) != now.first && !input.has_file(&first(entry))
    };
    if let Some((entry, now)) = finished.iter().find(other) {
        return refused(format!(
            "the masks of `{}` are of `{}`, not of `{}`; use another folder",
            entry.file,
            first(entry),
            now.first
        ));
    }
    let finished = finished.into_iter().filter(|(entry, _)| !saw_others(entry));
    let finished: Vec<(FinishedFile, ReadFrom)> = finished.collect();
    let all = finished.len();
    let (same, changed): (Vec<_>, Vec<_>) =
        (finished.into_iter()).partition(|(entry, now)| entry.read_from.as_ref() == Some(now));
    if let Some((entry, now)) = changed.first() {
        if changed.len() == all && all > 1 {
            return refused(all_changed(&now.first, &entry.file));
        }
        tracing::warn!(
            "the fields of {} of {all} finished files have changed since (first `{}`): their masks are made again",
            changed.len(),
            now.first
        );
    }
    Ok(same.into_iter().map(|(entry, _)| entry).collect())
}

/// Why masks are not made again if the fields of all of them have changed: they may belong to another run, whose files
/// have the same names.
pub(super) fn all_changed(first: &str, file: &str) -> String {
    format!(
        "all its masks are of files that have changed since (first `{first}`, read for `{file}`); use another folder, \
         or, if they were only copied, give them their time of change again (`cp -p`, `rsync -t`)"
    )
}
