//! Mask files whose times go to files of other names now: where so many times share a file, it is named after the first
//! of them, and an input that grew before its end deals them anew. Who reads the folder refuses a time in two files.

use super::Input;
use super::chunks::table_of;
use super::log::FinishedFile;
use super::output::remove;
use crate::error::{JobError, Result};
use squall_data::mask_file::MaskArchive;
use squall_data::{Time, Variable};
use std::path::Path;

/// Removes those of the `foreign` files, whose names this call gives to none, of which it makes all masks again, and the
/// tables of boxes beside them.
///
/// # Errors
/// [`JobError::Resume`] naming a file that has other masks too, or masks of other fields: they would be lost, or lie
/// beside those of this input. Nothing is removed then.
pub(super) fn remove_files(
    folder: &Path,
    (input, variables): (&Input<'_>, &[Variable]),
    foreign: &[FinishedFile],
) -> Result<()> {
    let own = input.read_from(0..1, variables).first;
    let mut again = Vec::new();
    for entry in foreign {
        let (shared, all) = shared(&folder.join(&entry.file), entry, input.times());
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
            return Err(JobError::Resume {
                folder: folder.to_path_buf(),
                reason: format!(
                    "--file-per counts times from the first of the input: some times of `{}` would go to other files now, but it has masks {others}, too; use another folder",
                    entry.file
                ),
            });
        }
        again.push(&entry.file);
    }
    if let Some(first) = again.first() {
        tracing::warn!(
            "the times of {} finished files, such as `{first}`, go to files of other names, because --file-per counts times from the first of the input: their masks are made again",
            again.len()
        );
    }
    for file in again {
        remove(&folder.join(file))?;
        remove(&folder.join(table_of(file)))?;
    }
    Ok(())
}

/// How many masks of a file are of these times, and how many it has; none of a file that is gone. Tables of boxes alone
/// count for nothing: who reads a folder reads that of all boxes.
fn shared(path: &Path, entry: &FinishedFile, times: &[Time]) -> (usize, usize) {
    let within = || {
        let calendar = times.first()?.calendar();
        let end = |text: &str| Time::parse(text, calendar).ok();
        let (first, last) = (end(&entry.first)?, end(&entry.last)?);
        let from = times.partition_point(|time| *time < first);
        let to = times.partition_point(|time| *time <= last);
        times.get(from..to)
    };
    let within = within().unwrap_or_default();
    // Most files are of other days, and need not be opened.
    if within.is_empty() || entry.file.ends_with(".csv") {
        return (0, 0);
    }
    let Ok(masks) = MaskArchive::open(&path.to_string_lossy()) else {
        return (0, 0);
    };
    let shared = within.iter().filter(|time| masks.find(**time).is_some());
    (shared.count(), masks.times().len())
}
