//! Removes mask files, and box tables without masks, of an earlier call whose times are now in files of other names.
//!
//! With `--file-per N` a file is named after the first of its N times. If the input is extended at its start, the
//! borders between files shift. The old files must be removed, because readers of the folder reject a time in two
//! files.

use super::Input;
use super::chunks::table_of;
use super::log::FinishedFile;
use super::output::remove;
use super::read_from::{ReadFrom, all_changed};
use super::settings::remove_manifest;
use super::sliding::Sliding;
use crate::error::{JobError, Result};
use squall_data::mask_file::MaskArchive;
use squall_data::{Time, Variable};
use std::ops::Range;
use std::path::Path;

/// Removes outdated files and their box tables. `foreign` are the files whose names this call does not use; outdated
/// are those whose masks this call makes again under other names. `is_known` says that other files of the folder are
/// already known to be of these fields, unchanged.
///
/// # Errors
/// [`JobError::Resume`] naming a file that also has masks of other times, which would be lost, or of other fields, or
/// if the fields of all files have changed. Nothing is removed then.
pub(super) fn remove_files(
    folder: &Path,
    (input, sliding, variables): (&Input<'_>, Option<&Sliding>, &[Variable]),
    foreign: &[FinishedFile],
    mut is_known: bool,
) -> Result<()> {
    let refused = |reason: String| {
        Err(JobError::Resume {
            folder: folder.to_path_buf(),
            reason,
        })
    };
    let own = input.read_from(0..1, variables).first;
    let mut again = Vec::new();
    for entry in foreign {
        let within = within(entry, input.times());
        let times = &input.times()[within.clone()];
        if is_table(entry) {
            // Readers of a folder use the table of all boxes, so a single table of other fields may stay without harm.
            if has_these_times(entry, times) {
                let now = ReadFrom::now(input, within, sliding, variables);
                if entry.read_from.as_ref() == Some(&now) {
                    is_known = true;
                    again.push((&entry.file, now.first));
                }
            }
            continue;
        }
        let (shared, all) = shared(&folder.join(&entry.file), times);
        if shared == 0 {
            continue;
        }
        let read_from = entry.read_from.as_ref().map(|from| from.first.as_str());
        let is_ours = read_from.is_some_and(|first| first == own || input.has_file(first));
        if shared < all || !is_ours {
            let others = match is_ours {
                true => "of times that are not in this input",
                false => "of other fields",
            };
            return refused(format!(
                "--file-per counts times from the first of the input: some times of `{}` would go to other files now, but it has masks {others}, too; use another folder",
                entry.file
            ));
        }
        let now = ReadFrom::now(input, within, sliding, variables);
        is_known |= entry.read_from.as_ref() == Some(&now);
        again.push((&entry.file, now.first));
    }
    // Another run may have files of the same names.
    if let ([(file, first), _, ..], false) = (&again[..], is_known) {
        return refused(all_changed(first, file));
    }
    if let Some((first, _)) = again.first() {
        tracing::warn!(
            "the times of {} finished files, such as `{first}`, go to files of other names, because --file-per counts times from the first of the input: what they hold is made again",
            again.len()
        );
        // First, so that a call killed in between does not leave a folder marked as finished.
        remove_manifest(folder)?;
    }
    for (file, _) in again {
        remove(&folder.join(file))?;
        remove(&folder.join(table_of(file)))?;
    }
    Ok(())
}

/// The indices of the times between the first and the last of a file.
fn within(entry: &FinishedFile, times: &[Time]) -> Range<usize> {
    let ends = || {
        let calendar = times.first()?.calendar();
        let end = |text: &str| Time::parse(text, calendar).ok();
        Some((end(&entry.first)?, end(&entry.last)?))
    };
    let Some((first, last)) = ends() else {
        return 0..0;
    };
    let from = times.partition_point(|time| *time < first);
    from..times.partition_point(|time| *time <= last)
}

/// Whether it is a box table without masks.
pub(super) fn is_table(entry: &FinishedFile) -> bool {
    entry.file.ends_with(".csv")
}

/// Whether a table, which omits times without boxes, covers exactly these, all the times between its first and its
/// last.
fn has_these_times(entry: &FinishedFile, times: &[Time]) -> bool {
    let ends = times.first().zip(times.last());
    let same = ends.is_some_and(|(first, last)| {
        (first.to_string(), last.to_string()) == (entry.first.clone(), entry.last.clone())
    });
    same && entry.masks > 0 && entry.times() == times.len()
}

/// How many masks of a file are of these times, all the times between its first and its last, and how many it has; 0
/// for a missing file.
fn shared(path: &Path, times: &[Time]) -> (usize, usize) {
    // Most files are of other days and need not be opened.
    if times.is_empty() {
        return (0, 0);
    }
    let Ok(masks) = MaskArchive::open_file(path) else {
        return (0, 0);
    };
    let shared = times.iter().filter(|time| masks.find(**time).is_some());
    (shared.count(), masks.times().len())
}
