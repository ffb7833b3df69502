//! From what a user types to a list of files.

use crate::error::{DataError, Result};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Endings of files that may be netCDF.
const ENDINGS: [&str; 6] = ["nc", "nc4", "cdf", "h5", "hdf5", "netcdf"];

/// Characters that are shown of a line that is no path.
const SHOWN: usize = 60;

/// The files of a path, a folder, a glob or a list file, sorted by name.
///
/// # Errors
/// [`DataError::NoInput`] or [`DataError::Io`] saying what was looked for.
pub fn files_of(input: &str) -> Result<Vec<PathBuf>> {
    let none = |reason: &str| DataError::no_input(input, reason);
    let path = Path::new(input);
    let mut files = if path.is_dir() {
        in_folder(path)?
    } else if path.is_file() {
        if looks_like_data(path) || has_magic(path)? {
            vec![path.to_path_buf()]
        } else {
            listed_in(path)?
        }
    } else if input.contains(['*', '?', '[']) {
        let pattern = glob::glob(input).map_err(|error| none(&format!("bad pattern: {error}")))?;
        let found = pattern.filter_map(|found| match found {
            Ok(path) => Some(path),
            Err(error) => {
                // No reason to stop: a pattern may meet `lost+found`.
                let (path, why) = (error.path().display(), error.error());
                tracing::warn!("`{path}` cannot be looked into, so nothing of it is read: {why}");
                None
            }
        });
        found.filter(|path| !path.is_dir()).collect()
    } else {
        return Err(match fs::metadata(path) {
            Ok(_) => {
                none("it is neither a file nor a folder: a pipe or device cannot be read twice")
            }
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                DataError::io("open", path)(error)
            }
            Err(_) => none("there is no such file or folder"),
        });
    };
    if files.is_empty() {
        let within = fs::read_dir(path).into_iter().flatten().flatten();
        let has_folders = within.into_iter().any(|entry| entry.path().is_dir());
        return Err(none(if has_folders {
            "no netCDF files (.nc, .nc4, .cdf, .h5) there; folders in it are not looked into"
        } else {
            "no netCDF files (.nc, .nc4, .cdf, .h5) there"
        }));
    }
    files.sort();
    files.dedup();
    Ok(files)
}

fn looks_like_data(path: &Path) -> bool {
    let ending = path
        .extension()
        .map(|e| e.to_string_lossy().to_ascii_lowercase());
    ending.is_some_and(|ending| ENDINGS.contains(&ending.as_str()))
}

/// Whether the file starts as netCDF classic or HDF5 do.
fn has_magic(path: &Path) -> Result<bool> {
    use std::io::Read;
    let mut start = Vec::new();
    let file = fs::File::open(path).map_err(DataError::io("open", path))?;
    file.take(8)
        .read_to_end(&mut start)
        .map_err(DataError::io("read", path))?;
    Ok(start.starts_with(b"CDF") || start.starts_with(b"\x89HDF"))
}

fn in_folder(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(DataError::io("read", folder))? {
        let path = entry.map_err(DataError::io("read", folder))?.path();
        let hidden = path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with('.'));
        // A link to a missing file is reported when it is opened.
        if !path.is_dir() && !hidden && looks_like_data(&path) {
            files.push(path);
        }
    }
    Ok(files)
}

fn listed_in(list: &Path) -> Result<Vec<PathBuf>> {
    let text = fs::read(list).map_err(DataError::io("read", list))?;
    let text = String::from_utf8(text)
        .map_err(|_| DataError::unreadable(list, "neither netCDF nor a list of paths"))?;
    let folder = list.parent().unwrap_or(Path::new("."));
    let lines = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let path_of = |line: &str| {
        // Paths count from the list's folder, or else from where the command runs.
        let (in_folder, as_it_is) = (folder.join(line), PathBuf::from(line));
        if in_folder.is_file() {
            return Ok(in_folder);
        }
        if as_it_is.is_file() {
            return Ok(as_it_is);
        }
        let reason = if line.contains(',') {
            // The header of a table may have hundreds of letters.
            format!(
                "it is a table or another text, neither netCDF nor a list of paths (`{}`)",
                beginning(line)
            )
        } else {
            format!(
                "neither netCDF nor a list of paths: there is no file `{}`",
                in_folder.display()
            )
        };
        Err(DataError::no_input(list.display(), reason))
    };
    lines.map(path_of).collect()
}

/// A line, cut short where it is long.
fn beginning(line: &str) -> String {
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_is_not_said_to_be_absent() {
        let said = |input: &str| files_of(input).unwrap_err().to_string();
        assert!(said("/dev/null").contains("neither a file nor a folder"));
        assert!(said("/dev/nothing").contains("no such file"));
    }

    #[test]
    #[cfg(unix)]
    fn links_to_what_is_not_there_stay_in_the_list() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("a.nc"), "").unwrap();
        fs::create_dir(at("b.nc")).unwrap();
        std::os::unix::fs::symlink(at("nothing"), at("c.nc")).unwrap();
        let expected = [at("a.nc"), at("c.nc")];
        assert_eq!(files_of(folder.path().to_str().unwrap()).unwrap(), expected);
        assert_eq!(files_of(at("*.nc").to_str().unwrap()).unwrap(), expected);
    }

    #[test]
    fn what_is_no_list_of_paths_is_told_in_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let said = |name: &str, text: &str| {
            let file = folder.path().join(name);
            fs::write(&file, text).unwrap();
            files_of(file.to_str().unwrap()).unwrap_err().to_string()
        };
        let header = format!("class,time,lon_deg,lat_deg{}", ",another_column".repeat(30));
        let table = said("events.csv", &format!("{header}\na,b,0,0\n"));
        assert!(table.contains("it is a table"), "{table}");
        let length = table.len() - folder.path().display().to_string().len();
        assert!(length < 200, "{length}: {table}");
        let list = said("list.txt", "# years\nmissing.nc\n");
        let missing = folder.path().join("missing.nc");
        assert!(list.contains(missing.to_str().unwrap()), "{list}");
    }
}
