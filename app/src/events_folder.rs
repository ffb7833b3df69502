//! Folders that `squall events` wrote, as `squall compare` and `squall trends` read them.

use squall_data::DataError;
use std::path::{Component, Path, PathBuf};

/// What a side or run is called if nobody says it: its folder, the last folder of a pattern before a wildcard, or the
/// list.
pub fn own_name(input: &Path) -> String {
    let is_fixed = |part: &Component<'_>| {
        let part = part.as_os_str().to_string_lossy();
        !part.contains(['*', '?', '['])
    };
    let fixed: PathBuf = if input.is_dir() {
        input.into()
    } else {
        input.components().take_while(is_fixed).collect()
    };
    let name = if input.is_file() {
        fixed.file_stem()
    } else {
        fixed.file_name()
    };
    // `.` and `..` have a name where they are.
    let whole = input.canonicalize().ok();
    let there = || whole.as_deref().and_then(Path::file_name);
    match name.or_else(there) {
        Some(name) => name.to_string_lossy().into_owned(),
        None => input.display().to_string(),
    }
}

/// What one run is called if nobody says it: as [`own_name`] says, but where its folder is called `events`, as that of
/// most runs is, after the folder around it, also where the path does not name that one.
pub fn run_name(input: &Path) -> String {
    let name = own_name(input);
    if name != "events" {
        return name;
    }
    let around = |path: &Path| {
        let around = path.parent()?.file_name()?;
        let is_there = path.ends_with("events");
        is_there.then(|| around.to_string_lossy().into_owned())
    };
    let whole = || around(&input.canonicalize().ok()?);
    around(input).or_else(whole).unwrap_or(name)
}

/// Bytes of the tables of a folder.
pub fn table_bytes(folder: &Path) -> anyhow::Result<u64> {
    let entries = std::fs::read_dir(folder).map_err(DataError::io("read", folder))?;
    let sizes = entries.flatten().filter(|entry| {
        let path = entry.path();
        path.extension().is_some_and(|e| e == "csv") || path.ends_with("statistics.nc")
    });
    Ok(sizes
        .filter_map(|entry| Some(entry.metadata().ok()?.len()))
        .sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_where_one_is_has_its_name() {
        let here = std::env::current_dir().unwrap();
        let name = |folder: &Path| folder.file_name().unwrap().to_str().unwrap().to_string();
        assert_eq!(own_name(Path::new(".")), name(&here));
        assert_eq!(own_name(Path::new("..")), name(here.parent().unwrap()));
        assert_eq!(own_name(Path::new("*/events")), "*/events");
    }

    /// As `squall trends events` is called in the folder of a run: its page was about "events".
    #[test]
    fn a_run_is_called_after_a_folder_that_its_path_does_not_name() {
        let folder = tempfile::tempdir().unwrap();
        let events = folder.path().join("present/events");
        std::fs::create_dir_all(&events).unwrap();
        assert_eq!(run_name(&events), "present");
        assert_eq!(run_name(&events.join("../events")), "present");
        assert_eq!(run_name(&folder.path().join("absent/../events")), "events");
    }
}
