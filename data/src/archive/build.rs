//! Combines scanned files into an archive: one time axis, the channels that exist at all times, and the problems to
//! report.

use super::problem::{About, Problem};
use super::read::ChannelOrigin;
use super::scan::{FileInfo, Layout};
use super::{Archive, BadFiles, Place, nc};
use crate::error::{DataError, Result};
use crate::facts::FileFacts;
use crate::{Calendar, Time, Variable};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, OnceLock};

/// An archive under construction.
#[derive(Default)]
pub(super) struct Build {
    files: Vec<(PathBuf, usize)>,
    facts: Vec<FileFacts>,
    layouts: Vec<Layout>,
    calendar: Option<Calendar>,
    /// The time axis, keyed by seconds since the first time of the first file.
    axis: BTreeMap<i64, (Time, Vec<Place>)>,
    origin: Option<Time>,
    skipped: Vec<String>,
    translated: bool,
}

impl Build {
    /// Builds the archive of files, in their order.
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
            let [expected, found] = grid.describe_beside(&info.layout.grid);
            return differs("grid", expected, found);
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
        let mut problems: Vec<Problem> = (self.skipped.into_iter()).map(Problem::general).collect();
        if self.translated {
            problems.push(Problem::general(format!(
                "files use standard and proleptic_gregorian calendars: all times are read as {calendar}"
            )));
        }
        let (times, places): (_, Vec<Vec<Place>>) = self.axis.into_values().unzip();
        let of_a_time = places.iter().map(Vec::len).max().unwrap_or(1);
        let general_problems = problems.len();
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
            general_problems,
            told: Vec::new(),
            skipped_files,
            has_completed_heights: AtomicBool::new(false),
            open: nc::FileCache::new(of_a_time),
        };
        archive.find_problems();
        Ok(archive)
    }
}

/// The provenance of an archive's channels.
#[derive(Default)]
struct Channels {
    /// Channels read directly at all times, and column water if it is integrated.
    served: Vec<Variable>,
    /// Problems about the stand-ins that are read at some time.
    stand_ins: BTreeSet<Problem>,
    /// Problems about channels that are computed or exist only at some times.
    told: Vec<Problem>,
}

impl Archive {
    /// Fills `available` and, after the general ones, `problems` for the times that there are.
    pub(super) fn find_problems(&mut self) {
        self.problems.truncate(self.general_problems);
        self.available.clear();
        let repeated = self.repeated();
        self.problems.extend(repeated.map(Problem::general));
        let found = self.find_channels();
        let said = self.problems_of_files(&found);
        self.problems.extend(said.into_iter().chain(found.told));
        let texts = self.problems.iter().map(|problem| &problem.text);
        self.told = texts.cloned().collect();
    }

    /// Determines the provenance of channels; fills `available`.
    fn find_channels(&mut self) -> Channels {
        let mut channels = Channels::default();
        // Times from files with the same layouts have the same channels.
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
                    Some(ChannelOrigin::Computed(derivation)) => {
                        let has_ps = self.how(index, Variable::Ps).is_some();
                        computed = Some(derivation.sentence(has_ps));
                    }
                    Some(ChannelOrigin::Direct(_, source)) => {
                        channels.stand_ins.extend(source.stands_in_for(variable));
                    }
                }
            }
            if without == 0 {
                self.available.push(variable);
                if computed.is_none() || variable == Variable::Tmq {
                    channels.served.push(variable);
                }
                let told = computed.map(|sentence| Problem::of_channel(variable, sentence));
                channels.told.extend(told);
            } else if without < self.times.len() {
                let times = format!(
                    "{without} of {} times, first in `{}`",
                    self.times.len(),
                    self.source_of(first).0.display()
                );
                channels.told.push(Problem::missing(variable, times));
            }
        }
        channels
    }

    /// Warns if two files hold the same channel at the same time; the first by name is read.
    fn repeated(&self) -> Option<String> {
        let repeats = |places: &Vec<Place>| {
            let mut channels = Variable::CHANNELS.into_iter();
            places.len() > 1 && channels.any(|v| self.is_repeated(places, v))
        };
        let first = self.places.iter().position(repeats)?;
        let count = self.places.iter().filter(|places| repeats(places)).count();
        let places = &self.places[first];
        let channels = Variable::CHANNELS.into_iter();
        let channels: Vec<Variable> = channels.filter(|&v| self.is_repeated(places, v)).collect();
        let has_one = |place: &&Place| {
            let has = |&v: &Variable| self.layout(**place).channel(v).is_some();
            channels.iter().any(has)
        };
        let files = places.iter().filter(has_one);
        let files: Vec<String> = files
            .map(|&place| self.path(place).display().to_string())
            .collect();
        let channels: Vec<&str> = channels.iter().map(|v| v.name()).collect();
        let stand = if count == 1 {
            "time stands"
        } else {
            "times stand"
        };
        Some(format!(
            "{count} {stand} in more than one file, first {} in `{}`: the first file that has a channel is read ({})",
            self.times[first],
            files.join("`, `"),
            channels.join(", ")
        ))
    }

    /// Whether two files could provide a channel at a time. A stand-in next to the channel itself does not count.
    fn is_repeated(&self, places: &[Place], channel: Variable) -> bool {
        let mut serving = [0, 0];
        for source in (places.iter()).filter_map(|&place| self.layout(place).channel(channel)) {
            serving[usize::from(source.proxy.is_some())] += 1;
        }
        match serving {
            [0, stand_ins] => stand_ins > 1,
            [own, _] => own > 1,
        }
    }

    /// The problems of all files, without duplicates. Omits unusable variables if other files provide their channel,
    /// and stand-ins if other files have the channel itself.
    fn problems_of_files(&self, channels: &Channels) -> Vec<Problem> {
        // Ordered by sentence.
        let mut counts: BTreeMap<&Problem, usize> = BTreeMap::new();
        for &(_, layout) in &self.files {
            for problem in &self.layouts[layout].problems {
                *counts.entry(problem).or_default() += 1;
            }
        }
        let stand_ins = self.layouts.iter().flat_map(Layout::stand_ins);
        let unread: BTreeSet<Problem> = stand_ins
            .filter(|told| !channels.stand_ins.contains(told))
            .collect();
        counts.retain(|problem, _| {
            let is_served = match &problem.about {
                About::Refused(channel) => channels.served.contains(channel),
                About::All | About::Channel(_) | About::Missing { .. } => false,
            };
            !unread.contains(*problem) && !is_served
        });
        let all = self.files.len();
        let say = |(problem, count): (&Problem, usize)| {
            let mut problem = problem.clone();
            if count < all {
                problem.text += &format!(" ({count} of {all} files)");
            }
            problem
        };
        counts.into_iter().map(say).collect()
    }
}
