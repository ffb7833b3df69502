//! Puts scanned files together to one archive: one time axis, the channels that all its times have, and the problems to
//! report.

use super::read::How;
use super::scan::{FileInfo, Layout};
use super::{Archive, BadFiles, Place, nc, refused_channel};
use crate::error::{DataError, Result};
use crate::facts::FileFacts;
use crate::{Calendar, Time, Variable};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};

/// An archive being put together.
#[derive(Default)]
pub(super) struct Build {
    files: Vec<(PathBuf, usize)>,
    facts: Vec<FileFacts>,
    layouts: Vec<Layout>,
    calendar: Option<Calendar>,
    /// By seconds since the first time of the first file.
    axis: BTreeMap<i64, (Time, Vec<Place>)>,
    origin: Option<Time>,
    skipped: Vec<String>,
    translated: bool,
}

impl Build {
    /// The archive of files in their order.
    pub(super) fn of(
        input: &str,
        candidates: usize,
        found: impl Iterator<Item = Result<FileInfo>>,
        bad_files: BadFiles,
    ) -> Result<Archive> {
        let mut build = Self::default();
        for file in found {
            match file.and_then(|info| build.add(info)) {
                Ok(()) => {}
                Err(error) if bad_files == BadFiles::Skip => {
                    build.skipped.push(format!("skipped: {error}"));
                }
                Err(error) => return Err(error),
            }
        }
        build.finish(input, candidates)
    }

    fn add(&mut self, info: FileInfo) -> Result<()> {
        let differs = |what, expected: String, found: String| {
            Err(DataError::mismatch(what, &info.path, expected, found))
        };
        let first = self.layouts.first().map(|layout| &layout.grid);
        if let Some(grid) = first.filter(|grid| !grid.same_as(&info.layout.grid)) {
            return differs("grid", grid.describe(), info.layout.grid.describe());
        }
        let calendar = *self.calendar.get_or_insert(info.calendar);
        let times = info.times.iter().map(|time| time.instant_in(calendar));
        let Some(times) = times.collect::<Option<Vec<Time>>>() else {
            let (expected, found) = (calendar.cf_name(), info.calendar.cf_name());
            return differs("calendar", expected.into(), found.into());
        };
        self.translated |= info.calendar != calendar;
        let origin = *self.origin.get_or_insert(times[0]);
        let file = self.files.len();
        for (at, time) in times.into_iter().enumerate() {
            let entry = self.axis.entry(time.seconds_since(origin));
            let (_, places) = entry.or_insert_with(|| (time, Vec::new()));
            places.push(Place { file, at });
        }
        let layout = info.layout.place_in(&mut self.layouts);
        self.files.push((info.path, layout));
        self.facts.push(info.facts);
        Ok(())
    }

    fn finish(self, input: &str, candidates: usize) -> Result<Archive> {
        let (Some(first), Some(calendar)) = (self.layouts.first(), self.calendar) else {
            let why = self.skipped.first().map_or("", String::as_str);
            return Err(DataError::no_input(
                input,
                format!("none of {candidates} files can be used; first {why}"),
            ));
        };
        let grid = first.grid.clone();
        let skipped_files = self.skipped.len();
        let mut problems = self.skipped;
        if self.translated {
            problems.push(format!(
                "files use standard and proleptic_gregorian calendars: all times are read as {calendar}"
            ));
        }
        let (times, places): (_, Vec<Vec<Place>>) = self.axis.into_values().unzip();
        let of_a_time = places.iter().map(Vec::len).max().unwrap_or(1);
        let mut archive = Archive {
            files: self.files,
            facts: Mutex::new(self.facts),
            layouts: self.layouts,
            grid,
            calendar,
            times,
            places,
            times_of_files: OnceLock::new(),
            available: Vec::new(),
            problems,
            skipped_files,
            open: nc::FileCache::new(of_a_time),
        };
        let repeated = archive.repeated();
        archive.problems.extend(repeated);
        let (served, told) = archive.find_channels();
        let said = archive.said_by_files(&served);
        archive.problems.extend(said.into_iter().chain(told));
        Ok(archive)
    }
}

impl Archive {
    /// Fills `available`; gives the channels that are read as such at all times, with column water that is summed, and
    /// says what is computed and what only some times have.
    fn find_channels(&mut self) -> (Vec<Variable>, Vec<String>) {
        let (mut served, mut told) = (Vec::new(), Vec::new());
        // Times that come from files of the same makes have the same channels.
        let mut makes: BTreeMap<Vec<usize>, (usize, usize)> = BTreeMap::new();
        for (index, places) in self.places.iter().enumerate() {
            let make = places.iter().map(|place| self.files[place.file].1);
            let make = make.collect();
            makes.entry(make).or_insert((index, 0)).1 += 1;
        }
        for variable in Variable::CHANNELS {
            let (mut without, mut first, mut computed) = (0, usize::MAX, None);
            for &(index, count) in makes.values() {
                match self.how(index, variable) {
                    None => {
                        without += count;
                        first = first.min(index);
                    }
                    Some(How::Computed(derivation)) => {
                        let has_ps = self.how(index, Variable::Ps).is_some();
                        computed = Some(derivation.sentence(has_ps));
                    }
                    Some(How::Direct(..)) => {}
                }
            }
            if without == 0 {
                self.available.push(variable);
                if computed.is_none() || variable == Variable::Tmq {
                    served.push(variable);
                }
                told.extend(computed.map(str::to_string));
            } else if without < self.times.len() {
                told.push(format!(
                    "{variable} is missing at {without} of {} times, first in `{}`",
                    self.times.len(),
                    self.source_of(first).0.display()
                ));
            }
        }
        (served, told)
    }

    /// A sentence for the user if two files hold a channel of the same time, of which the first by name is read.
    fn repeated(&self) -> Option<String> {
        let twice = |places: &&Vec<Place>| {
            let serves = |v| move |place: &&Place| self.layout(**place).channel(v).is_some();
            let repeats = |&v: &Variable| places.iter().filter(serves(v)).count() > 1;
            places.len() > 1 && Variable::CHANNELS.iter().any(repeats)
        };
        let first = self.places.iter().position(|places| twice(&places))?;
        let count = self.places.iter().filter(twice).count();
        let names = self.files_at(first).map(|path| path.display().to_string());
        let names = names.collect::<Vec<_>>().join("`, `");
        Some(format!(
            "{count} times stand in more than one file, first {} in `{names}`: the first file is read",
            self.times[first]
        ))
    }

    /// The problems of all files, each once. Left out is why a variable was refused for a channel that is in `served`:
    /// another file provides it.
    fn said_by_files(&self, served: &[Variable]) -> Vec<String> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for &(_, layout) in &self.files {
            for problem in &self.layouts[layout].problems {
                *counts.entry(problem).or_default() += 1;
            }
        }
        counts.retain(|problem, _| {
            let refused = refused_channel(problem);
            refused.is_none_or(|channel| !served.contains(&channel))
        });
        let all = self.files.len();
        let say = |(problem, count): (&str, usize)| {
            if count == all {
                problem.to_string()
            } else {
                format!("{problem} ({count} of {all} files)")
            }
        };
        counts.into_iter().map(say).collect()
    }
}
