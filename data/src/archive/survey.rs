//! Examines files in parallel: each of several processes scans a share of them.
//!
//! Opening 7,300 files takes minutes on a slow file system, and a thousand processes that all do so slow each other
//! down. So each scans a share, and sends the results to the others as bytes.

use super::scan::{self, FileInfo, Layout};
use super::{Archive, BadFiles, Build, on_library_thread};
use crate::error::{DataError, Result};
use crate::facts::FileFacts;
use crate::{Calendar, Time};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The contents of every n-th file of an archive; serialised for other processes by [`crate::wire`].
///
/// # Example
/// ```
/// use squall_data::archive::{BadFiles, Survey};
/// use std::path::PathBuf;
/// let paths = [PathBuf::from("not-there.nc"), PathBuf::from("nor-this.nc")];
/// let survey = Survey::of_share(&paths, (1, 2), BadFiles::Skip);
/// assert_eq!(survey.len(), 1);
/// let bytes = squall_data::wire::to_bytes(&survey).unwrap();
/// let elsewhere: Survey = squall_data::wire::from_bytes(&bytes).unwrap();
/// assert_eq!(elsewhere.len(), 1);
/// ```
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Survey {
    /// The distinct layouts; a century of files shares one.
    layouts: Vec<Layout>,
    files: Vec<Found>,
}

/// The contents of one file.
#[derive(Debug, Serialize, Deserialize)]
enum Found {
    File {
        layout: usize,
        facts: FileFacts,
        calendar: Calendar,
        /// Seconds since the start of the year 2000 of the calendar.
        times: Vec<i64>,
    },
    Bad {
        reason: String,
        /// Not serialised: it stays in the process where it occurred.
        #[serde(skip)]
        error: Option<DataError>,
    },
}

impl Survey {
    /// Scans the files number `part`, `part + parts`, `part + 2 parts`, ...
    ///
    /// With [`BadFiles::Fail`] it stops at the first unusable file, which [`Archive::from_surveys`] then reports.
    pub fn of_share(paths: &[PathBuf], (part, parts): (usize, usize), bad_files: BadFiles) -> Self {
        let mut survey = Self::default();
        for path in paths.iter().skip(part).step_by(parts.max(1)) {
            let found = on_library_thread(|| scan::scan(path)).and_then(|info| survey.keep(info));
            if let Err(error) = found {
                survey.files.push(Found::Bad {
                    reason: error.to_string(),
                    error: Some(error),
                });
                if bad_files == BadFiles::Fail {
                    break;
                }
            }
        }
        survey
    }

    /// Number of scanned files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether no file was scanned.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    fn keep(&mut self, info: FileInfo) -> Result<()> {
        let origin = origin(info.calendar)?;
        let layout = info.layout.place_in(&mut self.layouts);
        let times = info.times.iter().map(|time| time.seconds_since(origin));
        self.files.push(Found::File {
            layout,
            facts: info.facts,
            calendar: info.calendar,
            times: times.collect(),
        });
        Ok(())
    }
}

impl Archive {
    /// Builds an archive of the files that [`super::files_of`] returns for an input, from the surveys of all parts in
    /// order; the result equals that of [`Self::open_with`].
    ///
    /// # Errors
    /// As [`Self::open_with`]; [`DataError::Elsewhere`] with the reason for a file that another process found unusable.
    pub fn from_surveys(
        input: &str,
        paths: &[PathBuf],
        surveys: Vec<Survey>,
        bad_files: BadFiles,
    ) -> Result<Self> {
        let parts = surveys.len().max(1);
        let mut shares: Vec<_> = (surveys.into_iter())
            .map(|survey| (survey.layouts, survey.files.into_iter()))
            .collect();
        let found = paths.iter().enumerate().map(|(number, path)| {
            let share = shares.get_mut(number % parts);
            let next = share.and_then(|(layouts, files)| Some((layouts, files.next()?)));
            let (layouts, found) = next.ok_or_else(|| missing(path))?;
            put_together(path, layouts, found)
        });
        Build::of(input, paths.len(), found, bad_files)
    }
}

/// A file that no survey covers.
fn missing(path: &Path) -> DataError {
    DataError::Invalid(format!("no survey tells what `{}` holds", path.display()))
}

fn put_together(path: &Path, layouts: &[Layout], found: Found) -> Result<FileInfo> {
    match found {
        Found::Bad {
            error: Some(error), ..
        } => Err(error),
        Found::Bad { reason, .. } => Err(DataError::Elsewhere(reason)),
        Found::File {
            layout,
            facts,
            calendar,
            times,
        } => {
            let origin = origin(calendar)?;
            let layout = layouts.get(layout).ok_or_else(|| missing(path))?;
            Ok(FileInfo {
                path: path.into(),
                facts,
                layout: layout.clone(),
                times: times.iter().map(|&t| origin.add_seconds(t)).collect(),
                calendar,
            })
        }
    }
}

fn origin(calendar: Calendar) -> Result<Time> {
    Time::new(calendar, 2000, 1, 1, 0, 0, 0)
}
