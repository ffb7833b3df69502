//! Output folders of `squall events`, as inputs of `squall compare` and `squall trends`.

use squall_data::DataError;
use std::path::{Component, Path, PathBuf};

/// The default name of a side or run: its folder, the last folder of a pattern before a wildcard, or the list file.
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
    // Resolves `.` and `..` to their names.
    let whole = input.canonicalize().ok();
    let there = || whole.as_deref().and_then(Path::file_name);
    match name.or_else(there) {
        Some(name) => name.to_string_lossy().into_owned(),
        None => input.display().to_string(),
    }
}

/// The default name of a single run: as [`own_name`], but if its folder is called `events`, as for most runs, the name
/// of the parent folder, even if the path does not contain it.
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

/// Total size in bytes of the tables in a folder.
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
