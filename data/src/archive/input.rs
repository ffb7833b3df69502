//! Expands an input argument to a list of files.

use crate::error::{DataError, FileFault, InputFault, Result};
use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Endings of possible netCDF files.
const ENDINGS: [&str; 6] = ["nc", "nc4", "cdf", "h5", "hdf5", "netcdf"];

/// How many characters of an invalid line messages show.
const SHOWN: usize = 60;

/// Characters that make an argument a glob.
const WILD: [char; 3] = ['*', '?', '['];

/// What the lines of a list file name.
#[derive(Clone, Copy)]
struct ListKind {
    is_one: fn(&Path) -> bool,
    name: &'static str,
    /// Describes other texts.
    other: &'static str,
}

const FILES: ListKind = ListKind {
    is_one: Path::is_file,
    name: "file",
    other: "neither netCDF nor a list of paths",
};

const FOLDERS: ListKind = ListKind {
    is_one: Path::is_dir,
    name: "folder",
    other: "no list of folders",
};

/// The files of a path, folder, glob or list file, sorted by name.
///
/// # Errors
/// [`DataError::NoInput`] or [`DataError::Io`] saying what was looked for.
pub fn files_of(input: &str) -> Result<Vec<PathBuf>> {
    let none = |reason: &str| DataError::no_input(input, reason);
    let path = Path::new(input);
    let mut files = if path.is_dir() {
        match in_folder(path)? {
            found if !found.is_empty() => found,
            _ => without_ending(path),
        }
    } else if path.is_file() {
        if looks_like_data(path) || has_magic(path)? {
            vec![path.to_path_buf()]
        } else if let Some(what) = other_format(path) {
            return Err(DataError::fault(path, what));
        } else {
            listed_in(path, FILES)?
        }
    } else if input.contains(WILD) {
        let mut found = matching(input)?;
        found.retain(|path| !path.is_dir());
        found
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
        return Err(DataError::NoInput {
            input: input.into(),
            reason: match is_zarr(path) {
                true => InputFault::Zarr,
                false => InputFault::NoNetcdf { has_folders },
            },
        });
    }
    files.sort();
    files.dedup();
    Ok(files)
}

/// The folders named by an input: a folder itself, those matching a glob sorted by name, or those listed in a text
/// file, one per line, in its order.
///
/// # Errors
/// [`DataError::NoInput`] or [`DataError::Io`] saying what was looked for.
pub fn folders_of(input: &Path) -> Result<Vec<PathBuf>> {
    if input.is_dir() {
        return Ok(vec![input.into()]);
    }
    let text = input.to_string_lossy();
    let none = |reason: &str| DataError::no_input(&text, reason);
    if input.is_file() {
        if looks_like_data(input) || has_magic(input)? {
            return Err(none("it is a file of data; expected a folder"));
        }
        let folders = listed_in(input, FOLDERS)?;
        if folders.is_empty() {
            return Err(none("it lists no folder"));
        }
        return Ok(folders);
    }
    if !text.contains(WILD) {
        return Err(none("there is no such folder"));
    }
    let mut folders = matching(&text)?;
    folders.retain(|path| path.is_dir());
    if folders.is_empty() {
        return Err(none("there are no such folders"));
    }
    folders.sort();
    Ok(folders)
}

/// Expands a glob as shells do: hidden names, such as those of files being written, only match an explicit dot.
fn matching(pattern: &str) -> Result<Vec<PathBuf>> {
    let bad =
        |error: glob::PatternError| DataError::no_input(pattern, format!("bad pattern: {error}"));
    let found = glob::glob(pattern).map_err(bad)?;
    let dotted = pattern.split('/').filter(|part| part.starts_with('.'));
    let dotted: std::result::Result<Vec<_>, _> = dotted.map(glob::Pattern::new).collect();
    let dotted = dotted.map_err(bad)?;
    let found = found.filter_map(|found| match found {
        Ok(path) => (!is_hidden(&path, &dotted)).then_some(path),
        Err(error) => {
            // Not fatal: a pattern may match `lost+found`.
            let (path, why) = (error.path().display(), error.error());
            tracing::warn!("`{path}` cannot be looked into, so nothing of it is read: {why}");
            None
        }
    });
    Ok(found.collect())
}

/// Whether a path has a hidden name that no part of the glob with an explicit dot matches. The `glob` crate's own
/// option does not match `.*` either, and panics on names that are not UTF-8.
fn is_hidden(path: &Path, dotted: &[glob::Pattern]) -> bool {
    path.iter().any(|name| {
        let name = name.to_string_lossy();
        let hides = name.starts_with('.') && ![".", ".."].contains(&&*name);
        hides && !dotted.iter().any(|part| part.matches(&name))
    })
}

fn looks_like_data(path: &Path) -> bool {
    let ending = path
        .extension()
        .map(|e| e.to_string_lossy().to_ascii_lowercase());
    ending.is_some_and(|ending| ENDINGS.contains(&ending.as_str()))
}

/// Whether the file starts like netCDF classic or HDF5.
fn has_magic(path: &Path) -> Result<bool> {
    let start = start_of(path)?;
    Ok(start.starts_with(b"CDF") || start.starts_with(b"\x89HDF"))
}

/// The first bytes of a file.
fn start_of(path: &Path) -> Result<Vec<u8>> {
    let mut start = Vec::new();
    let file = fs::File::open(path).map_err(DataError::io("open", path))?;
    file.take(16)
        .read_to_end(&mut start)
        .map_err(DataError::io("read", path))?;
    Ok(start)
}

/// The format of a file that is often mistaken for netCDF, from its first bytes; `None` if they do not tell.
pub(crate) fn other_format(path: &Path) -> Option<FileFault> {
    let start = start_of(path).ok()?;
    let small = start.to_ascii_lowercase();
    // The eighth byte of GRIB is its edition: text may also begin with these letters.
    if start.starts_with(b"GRIB") && matches!(start.get(7), Some(1 | 2)) {
        Some(FileFault::Grib)
    } else if start.starts_with(b"PK\x03\x04") {
        Some(FileFault::Zip)
    } else if start.starts_with(b"\x1f\x8b") {
        Some(FileFault::Gzip)
    } else if small.starts_with(b"<html") || small.starts_with(b"<!doctype html") {
        Some(FileFault::WebPage)
    } else {
        None
    }
}

/// Whether a folder is a Zarr store, of version 2 or 3.
fn is_zarr(folder: &Path) -> bool {
    let names = [".zgroup", ".zmetadata", ".zarray", "zarr.json"];
    names.iter().any(|name| folder.join(name).is_file())
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

/// The netCDF files of a folder whose names have no ending, as WRF's `wrfout_d01_2005-08-28_00:00:00`, told by their first
/// bytes. Files that cannot be read are none of them.
fn without_ending(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let shown = entries.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'));
    let mut files: Vec<PathBuf> = shown.map(|entry| entry.path()).collect();
    // A pipe would be waited for.
    files.retain(|path| {
        path.extension().is_none() && path.is_file() && has_magic(path).unwrap_or(false)
    });
    files
}

fn listed_in(list: &Path, kind: ListKind) -> Result<Vec<PathBuf>> {
    let ListKind {
        is_one,
        name,
        other,
    } = kind;
    let text = fs::read(list).map_err(DataError::io("read", list))?;
    let text = String::from_utf8(text).map_err(|_| DataError::unreadable(list, other))?;
    let folder = list.parent().unwrap_or(Path::new("."));
    let lines = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let path_of = |line: &str| {
        // Paths are relative to the list's folder, or else to the working directory.
        let (in_folder, as_it_is) = (folder.join(line), PathBuf::from(line));
        if is_one(&in_folder) {
            return Ok(in_folder);
        }
        if is_one(&as_it_is) {
            return Ok(as_it_is);
        }
        let reason = if line.contains(',') {
            // The header of a table may be hundreds of characters long.
            format!(
                "it is a table or another text, {other} (`{}`)",
                beginning(line)
            )
        } else {
            format!("{other}: there is no {name} `{}`", in_folder.display())
        };
        Err(DataError::no_input(list.display(), reason))
    };
    lines.map(path_of).collect()
}

/// A line, truncated if it is long.
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
    fn folders_are_named_by_one_of_them_a_glob_or_a_list() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["m2/events", "m1/events", "m10/events"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        fs::write(at("m3"), "").unwrap();
        let named = |input: &str| folders_of(&at(input));
        assert_eq!(named("m1/events").unwrap(), [at("m1/events")]);
        let sorted = ["m1/events", "m10/events", "m2/events"].map(at);
        assert_eq!(named("m*/events").unwrap(), sorted);
        assert_eq!(named("m?").unwrap(), ["m1", "m2"].map(at));
        // In the order of the list, from its folder.
        let list = "# members\nm2/events\n\nm1/events\n";
        fs::write(at("list.txt"), list).unwrap();
        let listed = ["m2/events", "m1/events"].map(at);
        assert_eq!(named("list.txt").unwrap(), listed);
        fs::write(at("wrong.txt"), "m2/events\nm9/events\n").unwrap();
        fs::write(at("events.csv"), "class,time,lon_deg\n").unwrap();
        fs::write(at("fields.nc"), "").unwrap();
        for (input, word) in [
            ("m9", "no such folder"),
            ("x*", "no such folders"),
            ("m[", "bad pattern"),
            ("m3", "lists no folder"),
            ("wrong.txt", "m9/events"),
            ("events.csv", "it is a table"),
            ("fields.nc", "expected a folder"),
        ] {
            let said = named(input).unwrap_err().to_string();
            assert!(said.contains(word), "{input}: {said}");
        }
    }

    #[test]
    fn a_folder_is_its_netcdf_files_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let files = ["a10.nc", "a2.NC4", "b.cdf", "c.h5"];
        for name in files.iter().rev().chain(&["d.txt", "nc", ".e.nc"]) {
            fs::write(at(name), "").unwrap();
        }
        fs::create_dir(at("f.nc")).unwrap();
        let found = files_of(folder.path().to_str().unwrap()).unwrap();
        assert_eq!(found, files.map(at));
    }

    #[test]
    fn a_folder_without_endings_is_its_netcdf_files_by_their_first_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let input = folder.path().to_str().unwrap();
        let names = [
            "wrfout_d01_2005-08-28_00:00:00",
            "wrfout_d01_2005-08-28_06:00:00",
        ];
        fs::write(at("namelist"), "&time_control").unwrap();
        fs::write(at(names[1]), b"CDF\x01").unwrap();
        fs::write(at(names[0]), b"\x89HDF\r\n\x1a\n").unwrap();
        for name in [".hidden", "part.tmp"] {
            fs::write(at(name), b"CDF\x01").unwrap();
        }
        assert_eq!(files_of(input).unwrap(), names.map(at));
        // Where files have endings, those are meant.
        fs::write(at("a.nc"), "").unwrap();
        assert_eq!(files_of(input).unwrap(), [at("a.nc")]);
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
    fn globs_find_no_hidden_names_unless_they_have_the_dot() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["m1", ".m2"] {
            fs::create_dir(at(name)).unwrap();
        }
        for name in ["a.nc", ".b.nc", "m1/.c.nc", ".m2/d.nc"] {
            fs::write(at(name), "").unwrap();
        }
        let found = |glob: &str| files_of(at(glob).to_str().unwrap()).unwrap();
        assert_eq!(found("*"), [at("a.nc")]);
        assert_eq!(found("**/*"), [at("a.nc")]);
        assert_eq!(found(".*.nc"), [at(".b.nc")]);
        assert_eq!(found(".m*/*.nc"), [at(".m2/d.nc")]);
        let no_file = files_of(at("*/*.nc").to_str().unwrap());
        assert!(
            matches!(no_file, Err(DataError::NoInput { .. })),
            "{no_file:?}"
        );
        assert_eq!(folders_of(&at("*")).unwrap(), [at("m1")]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn names_that_are_no_text_stop_no_glob() {
        use std::os::unix::ffi::OsStrExt;
        let folder = tempfile::tempdir().unwrap();
        let odd = std::ffi::OsStr::from_bytes(b"odd\xff.nc");
        let at = |name: &str| folder.path().join(name);
        fs::write(folder.path().join(odd), "").unwrap();
        fs::write(at("a.nc"), "").unwrap();
        assert_eq!(
            files_of(at("*.nc").to_str().unwrap()).unwrap(),
            [at("a.nc")]
        );
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

    #[test]
    fn formats_that_are_not_read_are_told_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (start, word) in [
            (&b"GRIB\0\0\0\x02"[..], "it is GRIB"),
            (&b"PK\x03\x04\x14"[..], "it is a ZIP archive"),
            (&b"\x1f\x8b\x08"[..], "it is compressed by gzip"),
            (&b"<!DOCTYPE html>\n"[..], "it is a web page"),
            (&b"<HTML><head>"[..], "it is a web page"),
        ] {
            fs::write(at("era5.grb"), start).unwrap();
            let error = files_of(at("era5.grb").to_str().unwrap()).unwrap_err();
            assert!(matches!(error, DataError::Unreadable { .. }), "{error:?}");
            assert!(error.to_string().contains(word), "{error}");
            // Under the name of netCDF it is found out when it is opened.
            fs::write(at("era5.nc"), start).unwrap();
            let opened = crate::Archive::open(at("era5.nc").to_str().unwrap());
            let error = opened.err().unwrap().to_string();
            assert!(error.contains(word), "{error}");
        }
        // A list of paths that begin so.
        fs::write(at("list.txt"), "GRIB_as_netcdf/era5.nc\n").unwrap();
        assert_eq!(other_format(&at("list.txt")), None);
        assert_eq!(other_format(&at("absent.nc")), None);
    }

    #[test]
    fn a_zarr_store_is_told_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let said = || {
            let error = files_of(folder.path().to_str().unwrap()).unwrap_err();
            error.to_string()
        };
        fs::create_dir(folder.path().join("tmq")).unwrap();
        assert!(said().contains("no netCDF files"), "{}", said());
        fs::write(folder.path().join(".zgroup"), "{}").unwrap();
        assert!(said().contains("it is a Zarr store"), "{}", said());
    }
}
