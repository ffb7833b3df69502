//! The mask files of a labelling: their names, their owner, and how they are written.

#[cfg(test)]
mod tests;

use super::climate::{CLIMATE, OWN, WHOSE};
use super::differences::{changed_numbers, listed};
use super::warm_core::WARM_CORE;
use crate::code;
use crate::failure::Advice;
use crate::input::{ORIGIN, name_of};
use crate::made_by::{self, BESIDE_BOXES, CALENDAR, CLASSES, GRID};
use squall_climate::ClimateError;
use squall_climate::detect::Method;
use squall_climate::label::LabelledSnapshot;
use squall_data::mask_file::{About, MaskFileOptions, MaskWriter};
use squall_data::{Archive, Class, DataError, Time, atomic};
use squall_jobs::JobError;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Name of the file that records which run is writing masks into a folder; names of mask files only contain their
/// times.
const RUN: &str = ".labels.run";

/// Attribute of mask files with the numbers of the rules.
pub const THRESHOLDS: &str = "thresholds";
const HISTORY: &str = "history";

/// Before the method's name in a file's history.
const CALL: &str = "label --method ";

/// Maximum number of times per mask file: a killed run resumes at the end of one, and a simulation may be a single
/// file.
const MOST_TIMES: usize = 400;

/// Mask files: one per input file, or per [`MOST_TIMES`] of its times, named after the first time.
pub struct Masks<'a> {
    out: PathBuf,
    archive: &'a Archive,
    method: Method,
    thresholds: String,
    options: MaskFileOptions,
    most_times: usize,
    open: Option<MaskWriter>,
}

impl<'a> Masks<'a> {
    /// Adds an attribute to all files.
    #[must_use]
    pub fn saying(mut self, name: &str, value: &str) -> Self {
        self.say(name, value);
        self
    }

    /// Sets an attribute of all files started from now on.
    pub fn say(&mut self, name: &str, value: &str) {
        let attributes = &mut self.options.attributes;
        attributes.retain(|(said, _)| said != name);
        attributes.push((name.into(), value.into()));
    }

    /// The value of an attribute of future files, as far as known.
    fn attribute(&self, name: &str) -> Option<&str> {
        let mut attributes = self.options.attributes.iter();
        let found = attributes.find(|(said, _)| said == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Where the files are.
    pub fn folder(&self) -> &Path {
        &self.out
    }

    /// The method of the masks.
    pub fn method(&self) -> Method {
        self.method
    }

    /// Masks without any file written yet; `thresholds` are stored in the files' attributes.
    pub fn new(out: PathBuf, archive: &'a Archive, method: Method, thresholds: String) -> Self {
        let version = env!("CARGO_PKG_VERSION");
        let options = MaskFileOptions {
            classes: method.classes(),
            probabilities: match method {
                Method::Bard => &[Class::AtmosphericRiver],
                Method::Deepcam | Method::Tempest | Method::Percentile | Method::Lows => &[],
            },
            title: method.title().into(),
            source: format!("squall {version} label"),
            attributes: vec![
                (
                    HISTORY.to_string(),
                    format!("squall {version}: {}{}", CALL, method.name()),
                ),
                (code::VERSION.to_string(), code::version()),
                (THRESHOLDS.to_string(), thresholds.clone()),
            ],
            ..MaskFileOptions::default()
        };
        Self {
            out,
            archive,
            method,
            thresholds,
            options,
            most_times: MOST_TIMES,
            open: None,
        }
    }

    /// Writes the mask of the next time; `None` if that time is skipped.
    pub fn write(
        &mut self,
        index: usize,
        labelled: Option<&LabelledSnapshot>,
    ) -> Result<(), ClimateError> {
        if !self.method.draws_masks() {
            return Ok(());
        }
        if self.begins_at(index) {
            self.close()?;
        }
        let Some(labelled) = labelled else {
            if self.begins_at(index) {
                // Removes a file of an earlier run for these times; the first of them with a mask starts a new one.
                atomic::remove(self.path(self.archive.times()[index]))?;
            }
            return Ok(());
        };
        let mask = &labelled.mask;
        let probabilities = labelled.probabilities();
        let source = self.archive.source_of(index).0;
        if self.open.is_none() {
            // Skipped times are not visible in its name.
            let first = (0..=index).rev().find(|index| self.begins_at(*index));
            let path = self.path(self.archive.times()[first.unwrap_or(index)]);
            let mut options = self.options.clone();
            options.attributes.push((ORIGIN.into(), name_of(source)));
            let writer = MaskWriter::create(&path, self.archive.grid(), mask.time, &options)?;
            self.open = Some(writer);
        }
        match &mut self.open {
            Some(writer) => Ok(writer.write(mask, probabilities.as_ref().map(|p| p.view()))?),
            None => Ok(()),
        }
    }

    /// The mask file that starts at this time.
    fn path(&self, first: Time) -> PathBuf {
        self.out.join(format!("labels.{}.nc", first.stamp()))
    }

    /// The indices among the first `times` times at which a file starts.
    fn firsts(&self, times: usize) -> impl Iterator<Item = usize> {
        let draws = self.method.draws_masks();
        (0..times).filter(move |index| draws && self.begins_at(*index))
    }

    /// Whether the run with this fingerprint was the last to write into the folder.
    fn are_receiving(&self, fingerprint: &str) -> bool {
        let last = std::fs::read(self.out.join(RUN));
        last.is_ok_and(|last| last == fingerprint.as_bytes())
    }

    /// Whether the files of the first `times` times, except skipped ones, exist, and the run with this fingerprint was
    /// the last to write into their folder.
    pub fn are_of(&self, fingerprint: &str, times: usize, left_out: &BTreeSet<usize>) -> bool {
        let is_there = |first: usize| {
            let mut of_file = (first..times).take_while(|at| *at == first || !self.begins_at(*at));
            of_file.all(|index| left_out.contains(&index))
                || self.path(self.archive.times()[first]).is_file()
        };
        self.are_receiving(fingerprint) && self.firsts(times).all(is_there)
    }

    /// Rejects a folder with labels of other work: readers take all of its masks for those of one run.
    ///
    /// Allows labels that this run makes again under the same names, with the same rules, from files of the same names.
    pub fn check_folder(&self, fingerprint: &str) -> anyhow::Result<()> {
        // This run checked the folder when it started.
        if self.are_receiving(fingerprint) {
            return Ok(());
        }
        if let Some(said) = made_by::beside_boxes(&self.out) {
            self.refuse_changes(BESIDE_BOXES, &self.changes_of_boxes(&said))?;
        }
        let firsts = self.firsts(self.archive.times().len());
        let own: BTreeMap<PathBuf, usize> = firsts
            .map(|index| (self.path(self.archive.times()[index]), index))
            .collect();
        for path in labels_in(&self.out)? {
            let index = own.get(&path).copied();
            // An unreadable file is no reason for rejection; it is made again if its name is one of this run's.
            let about = About::read(&path).ok();
            let changed = about.map_or(Vec::new(), |about| self.changes(&about, index));
            self.refuse_changes(&name_of(&path), &changed)?;
            if index.is_none() {
                return Err(Advice::usage(
                    format!(
                        "`{}` holds labels of times that this run has not (`{}`)",
                        self.out.display(),
                        name_of(&path)
                    ),
                    "choose another output with --out, or remove the labels there: all masks of a folder count as those \
                     of one run",
                ));
            }
        }
        Ok(())
    }

    /// Refuses a folder in which a file would differ in this.
    fn refuse_changes(&self, file: &str, changed: &[String]) -> Result<(), JobError> {
        if changed.is_empty() {
            return Ok(());
        }
        Err(JobError::Resume {
            folder: self.out.clone(),
            reason: format!(
                "its labels are of other fields or settings (`{file}`: {}); use another folder",
                listed(changed)
            ),
        })
    }

    /// What would differ in boxes that are there without masks, one clause each.
    fn changes_of_boxes(&self, said: &BTreeMap<String, String>) -> Vec<String> {
        let text = |name: &str| said.get(name).map_or("unknown", String::as_str);
        let method = method_among(said).unwrap_or("unknown");
        if method != self.method.name() {
            return vec![format!("method was {method}, is {}", self.method.name())];
        }
        let own = self.beside_boxes();
        let compared = [GRID, CALENDAR, ORIGIN, WARM_CORE].into_iter();
        let told = compared.filter_map(|name| Some((name, own.get(name)?)));
        let apart = told.filter(|(name, is)| text(name) != is.as_str());
        let mut changes: Vec<String> = apart
            .map(|(name, is)| format!("{name} was {}, is {is}", text(name)))
            .collect();
        changes.extend(changed_numbers(text(THRESHOLDS), &self.thresholds));
        changes
    }

    /// What is said beside boxes that no masks accompany.
    fn beside_boxes(&self) -> BTreeMap<String, String> {
        let (grid, calendar) = (self.archive.grid(), self.archive.calendar());
        let classes: Vec<&str> = (self.method.classes().iter())
            .map(|class| class.name())
            .collect();
        let own = [
            ("title", self.options.title.clone()),
            ("source", self.options.source.clone()),
            (CLASSES, classes.join(" ")),
            (GRID, grid.describe()),
            (CALENDAR, calendar.cf_name().to_string()),
            (ORIGIN, name_of(self.archive.source_of(0).0)),
        ];
        let own = own.map(|(name, value)| (name.to_string(), value));
        let attributes = self.options.attributes.iter().cloned();
        attributes.chain(own).collect()
    }

    /// What would differ in a file that is there, one clause each; `index` is the time with which this run's begins.
    fn changes(&self, about: &About, index: Option<usize>) -> Vec<String> {
        let grid = self.archive.grid();
        let mut changes = Vec::new();
        let mut compare = |what: &str, was: &str, is: &str| {
            if was != is {
                changes.push(format!("{what} was {was}, is {is}"));
            }
        };
        if !about.grid.same_as(grid) {
            compare("grid", &about.grid.describe(), &grid.describe());
        }
        let calendars = (about.calendar.cf_name(), self.archive.calendar().cf_name());
        compare("calendar", calendars.0, calendars.1);
        let attribute = |name: &str| about.attributes.get(name).map(String::as_str);
        let method = method_of(about);
        compare("method", method.unwrap_or("unknown"), self.method.name());
        // Earlier versions did not record it.
        if let (Some(input), Some(index)) = (attribute(ORIGIN), index) {
            compare("input", input, &name_of(self.archive.source_of(index).0));
        }
        // Thresholds of two methods are not comparable.
        if method == Some(self.method.name()) {
            // Percentiles of earlier versions are of the run itself.
            for (name, without) in [(WHOSE, OWN), (CLIMATE, "unknown")] {
                if let Some(is) = self.attribute(name) {
                    compare(name, attribute(name).unwrap_or(without), is);
                }
            }
            let numbers = attribute(THRESHOLDS).unwrap_or_default();
            changes.extend(changed_numbers(numbers, &self.thresholds));
        }
        changes
    }

    /// Marks the folder as written by this run, so that no state of another run is resumed with these masks, and
    /// removes leftovers of killed runs.
    pub fn claim(&self, fingerprint: &str) -> anyhow::Result<()> {
        std::fs::create_dir_all(&self.out).map_err(DataError::io("create folder", &self.out))?;
        let ours = |name: &str| {
            name == RUN
                || name.starts_with("labels.")
                || ["objects.csv", "boxes.csv", "agreement.csv"].contains(&name)
        };
        atomic::sweep(&self.out, ours)?;
        Ok(atomic::write(self.out.join(RUN), fingerprint.as_bytes())?)
    }

    /// Whether a mask file starts at this time.
    fn begins_at(&self, index: usize) -> bool {
        index == 0 || self.ends_at(index - 1)
    }

    /// Whether a mask file ends at this time.
    pub fn ends_at(&self, index: usize) -> bool {
        let (source, at) = self.archive.source_of(index);
        index + 1 == self.archive.times().len()
            || source != self.archive.source_of(index + 1).0
            || (at + 1).is_multiple_of(self.most_times)
    }

    pub fn close(&mut self) -> Result<(), ClimateError> {
        match self.open.take() {
            Some(writer) => Ok(writer.finish()?),
            None => Ok(()),
        }
    }

    pub fn finish(mut self) -> anyhow::Result<()> {
        self.close()?;
        if !self.method.draws_masks() {
            let said = serde_json::to_vec_pretty(&self.beside_boxes())?;
            atomic::write(self.out.join(BESIDE_BOXES), &said)?;
        }
        Ok(())
    }
}

/// The method recorded in a mask file.
pub fn method_of(about: &About) -> Option<&str> {
    method_among(&about.attributes)
}

fn method_among(attributes: &BTreeMap<String, String>) -> Option<&str> {
    let (_, method) = attributes.get(HISTORY)?.split_once(CALL)?;
    Some(method)
}

/// Whether the masks of a folder belong to an interrupted or running labelling.
pub fn is_unfinished(folder: &Path) -> bool {
    folder.join(RUN).is_file()
}

/// Marks a folder of masks as finished: no run is writing into it any more.
pub fn release(out: &Path) {
    // If this fails, the folder counts as one of an interrupted run that cannot be resumed.
    let _ = std::fs::remove_file(out.join(RUN));
}

/// The mask files of labels in a folder, ordered by name; empty if the folder does not exist.
fn labels_in(folder: &Path) -> Result<BTreeSet<PathBuf>, DataError> {
    let mut found = BTreeSet::new();
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(found),
        entries => entries.map_err(DataError::io("list", folder))?,
    };
    for entry in entries {
        let path = entry.map_err(DataError::io("list", folder))?.path();
        let name = name_of(&path);
        if name.starts_with("labels.") && name.ends_with(".nc") {
            found.insert(path);
        }
    }
    Ok(found)
}
