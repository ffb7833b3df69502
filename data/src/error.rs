//! The errors of this crate.

use crate::boxes::BoxFault;
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// Result of this crate.
pub type Result<T> = std::result::Result<T, DataError>;

/// Every error that a file, a user or a device can cause; each names the place, what was expected and what was found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The operating system refused to read, write or rename something.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// What was attempted: "read", "write", "rename", ...
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A file could not be opened or decoded.
    #[error("cannot read `{}`: {}", path.display(), reason.words())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why: truncated, wrong magic, not netCDF, ...
        reason: FileFault,
    },
    /// Nothing usable was found where input was expected.
    #[error("no usable input in `{input}`: {}", reason.words())]
    NoInput {
        /// The path, glob or list as given.
        input: String,
        /// What was looked for.
        reason: InputFault,
    },
    /// The path is not a sample store.
    #[error("`{}` is no sample store: {}", folder.display(), lack_of_store(*unfinished))]
    NoStore {
        /// The path as given.
        folder: PathBuf,
        /// Whether it has parts of an unfinished store.
        unfinished: bool,
    },
    /// A variable is needed but not in the file.
    #[error("variable `{variable}` is missing from `{}` (found: {})", path.display(), found.join(", "))]
    MissingVariable {
        /// The file.
        path: PathBuf,
        /// What was needed.
        variable: String,
        /// What the file has instead.
        found: Vec<String>,
    },
    /// A variable is there but cannot be used as it is.
    #[error("cannot use variable `{variable}` from `{}`: expected {expected}, found {found}", path.display())]
    BadVariable {
        /// The file.
        path: PathBuf,
        /// The variable's name in the file.
        variable: String,
        /// What was expected.
        expected: String,
        /// What the file has.
        found: String,
    },
    /// Grid coordinates that are not a global or regional latitude-longitude grid.
    #[error("bad grid: {0}")]
    Grid(String),
    /// A date or time axis that is invalid in its calendar.
    #[error("bad time: {0}")]
    Time(String),
    /// Two things that must agree do not.
    #[error("{what} differs: expected {expected}, found {found} in `{}`", path.display())]
    Mismatch {
        /// What is compared: "grid", "calendar", "channels", ...
        what: &'static str,
        /// The file that differs.
        path: PathBuf,
        /// The value in the other files.
        expected: String,
        /// The value in this file.
        found: String,
    },
    /// A checksum or a stored size does not match the bytes.
    #[error("`{}` is damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Which check failed.
        reason: String,
    },
    /// A box in a file, or its representation there, is invalid.
    #[error("cannot use the boxes of `{}`, {place}: {fault}: expected {expected}, found {found}", path.display())]
    BadBox {
        /// The file.
        path: PathBuf,
        /// The line, image, annotation or time.
        place: String,
        /// What is wrong.
        fault: BoxFault,
        /// What was expected.
        expected: String,
        /// What was found.
        found: String,
    },
    /// This number of training samples per node exceeds the total, or leaves some samples on no node.
    #[error(
        "{per_node} training samples on each of {nodes} nodes, of {samples} in all: expected {} to {samples}, so that each is somewhere",
        samples.div_ceil((*nodes).max(1))
    )]
    NodeShare {
        /// Training samples per node.
        per_node: usize,
        /// Number of nodes of the job.
        nodes: usize,
        /// Number of training samples in the store.
        samples: usize,
    },
    /// The message of an error in another process of the job, which has the error itself.
    #[error("{0}")]
    Elsewhere(String),
    /// The caller interrupted the work.
    #[error("interrupted")]
    Interrupted,
    /// A request that no input could satisfy.
    #[error("{0}")]
    Invalid(String),
}

/// Why a file cannot be read; determines the advice to the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileFault {
    /// It is GRIB.
    Grib,
    /// It is a ZIP archive.
    Zip,
    /// It is compressed as a whole, by gzip.
    Gzip,
    /// It is a web page, as downloads that require a login are.
    WebPage,
    /// All its variables are in groups; holds the names of some.
    Groups(String),
    /// The netCDF library lacks the plugin that decompresses it; holds the library's message.
    Filter(String),
    /// Anything else.
    Other(String),
}

impl FileFault {
    /// The fault behind an error of the netCDF library; `words` describe the error.
    pub(crate) fn of_library(error: &netcdf::Error, words: String) -> Self {
        /// The library's NC_EFILTER and NC_ENOFILTER.
        const OF_FILTERS: [i32; 2] = [-132, -136];
        match error {
            netcdf::Error::Netcdf(status) if OF_FILTERS.contains(status) => Self::Filter(words),
            _ => Self::Other(words),
        }
    }

    /// The reason as part of a sentence.
    pub fn words(&self) -> Cow<'_, str> {
        match self {
            Self::Grib => "it is GRIB, not netCDF".into(),
            Self::Zip => "it is a ZIP archive, not netCDF".into(),
            Self::Gzip => "it is compressed by gzip, not netCDF".into(),
            Self::WebPage => "it is a web page, not netCDF".into(),
            Self::Groups(names) => {
                format!("its variables are in groups, which are not read: {names}").into()
            }
            Self::Filter(words) | Self::Other(words) => words.into(),
        }
    }
}

/// Why nothing usable was found where input was expected; determines the advice to the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputFault {
    /// The folder is a Zarr store.
    Zarr,
    /// The folder holds no netCDF files.
    NoNetcdf {
        /// Whether it has subfolders, which may hold some.
        has_folders: bool,
    },
    /// A sample store has no sample of the split that was asked for.
    EmptySplit,
    /// Anything else.
    Other(String),
}

impl InputFault {
    /// The reason as part of a sentence.
    pub fn words(&self) -> &str {
        match self {
            Self::Zarr => "it is a Zarr store, which is not read",
            Self::NoNetcdf { has_folders: true } => {
                "no netCDF files (.nc, .nc4, .cdf, .h5) there; folders in it are not looked into"
            }
            Self::NoNetcdf { has_folders: false } => "no netCDF files (.nc, .nc4, .cdf, .h5) there",
            Self::EmptySplit => "the store has no sample of that split",
            Self::Other(words) => words,
        }
    }
}

/// Why a folder is not a sample store.
fn lack_of_store(unfinished: bool) -> &'static str {
    if unfinished {
        "it has shards but no store.json, so staging has not finished; run it again to continue"
    } else {
        "it has no store.json"
    }
}

impl DataError {
    /// Whether it concerns the content of a file, which may be damaged or physically impossible; not a refusal of the
    /// operating system, a full disk, or an invalid request.
    pub fn is_of_content(&self) -> bool {
        matches!(
            self,
            Self::Unreadable { .. }
                | Self::MissingVariable { .. }
                | Self::BadVariable { .. }
                | Self::Mismatch { .. }
                | Self::Damaged { .. }
                | Self::BadBox { .. }
        )
    }

    /// Whether it concerns a file's content. If the system can no longer read the file, the disk has probably failed,
    /// and with it all files that follow.
    pub fn is_damage(&self) -> bool {
        let is_there = |path: &Path| std::fs::File::open(path).is_ok();
        self.is_of_content() && self.path().is_none_or(is_there)
    }

    /// The file that it concerns, if any.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Io { path, .. }
            | Self::Unreadable { path, .. }
            | Self::MissingVariable { path, .. }
            | Self::BadVariable { path, .. }
            | Self::Mismatch { path, .. }
            | Self::Damaged { path, .. }
            | Self::BadBox { path, .. } => Some(path),
            Self::NoInput { .. }
            | Self::NoStore { .. }
            | Self::Grid(_)
            | Self::Time(_)
            | Self::NodeShare { .. }
            | Self::Elsewhere(_)
            | Self::Interrupted
            | Self::Invalid(_) => None,
        }
    }

    /// [`Self::Unreadable`] for a file, with a reason that needs no specific advice.
    pub fn unreadable(path: impl Into<PathBuf>, reason: impl ToString) -> Self {
        Self::fault(path, FileFault::Other(reason.to_string()))
    }

    /// [`Self::Unreadable`] for a file, with a fault.
    pub fn fault(path: impl Into<PathBuf>, reason: FileFault) -> Self {
        Self::Unreadable {
            path: path.into(),
            reason,
        }
    }

    /// [`Self::NoInput`] for a path, glob or list, with a reason that needs no specific advice.
    pub fn no_input(input: impl ToString, reason: impl ToString) -> Self {
        Self::NoInput {
            input: input.to_string(),
            reason: InputFault::Other(reason.to_string()),
        }
    }

    /// [`Self::BadVariable`] for a variable of a file, with what was expected and found.
    pub fn bad_variable(
        path: impl Into<PathBuf>,
        variable: impl ToString,
        expected: impl ToString,
        found: impl ToString,
    ) -> Self {
        Self::BadVariable {
            path: path.into(),
            variable: variable.to_string(),
            expected: expected.to_string(),
            found: found.to_string(),
        }
    }

    /// [`Self::Mismatch`] of a file with the others, with what was expected and found.
    pub fn mismatch(
        what: &'static str,
        path: impl Into<PathBuf>,
        expected: impl ToString,
        found: impl ToString,
    ) -> Self {
        Self::Mismatch {
            what,
            path: path.into(),
            expected: expected.to_string(),
            found: found.to_string(),
        }
    }

    /// [`Self::Damaged`] for a file, with the check that failed.
    pub fn damaged(path: impl Into<PathBuf>, reason: impl ToString) -> Self {
        Self::Damaged {
            path: path.into(),
            reason: reason.to_string(),
        }
    }

    /// Wraps an I/O error with the action and the path.
    pub fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_the_library_lacks_is_told_from_other_errors() {
        // NC_ENOFILTER, NC_EFILTER and NC_EHDFERR.
        for (status, of_filter) in [(-136, true), (-132, true), (-101, false)] {
            let error = netcdf::Error::Netcdf(status);
            let fault = FileFault::of_library(&error, format!("variable `U850`: {error}"));
            assert_eq!(matches!(fault, FileFault::Filter(_)), of_filter, "{error}");
            assert!(fault.words().starts_with("variable `U850`: "), "{error}");
        }
    }
}
