//! The mask files of a labelling: which there are, whose they are, and writing them. A method whose events have boxes
//! alone writes none, and what they would say of themselves beside its boxes.

#[cfg(test)]
mod tests;

use super::climate::{CLIMATE, OWN, WHOSE};
use super::differences::{changed_numbers, listed};
use super::warm_core::WARM_CORE;
use crate::failure::Advice;
use crate::input::{ORIGIN, name_of};
use crate::made_by::{self, BESIDE_BOXES, CLASSES};
use ndarray::Array3;
use squall_climate::ClimateError;
use squall_climate::detect::Method;
use squall_climate::label::LabelledSnapshot;
use squall_data::mask_file::{About, MaskFileOptions, MaskWriter};
use squall_data::{Archive, Class, DataError, Time, atomic};
use squall_jobs::JobError;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Whose masks a folder is receiving; names of mask files tell their times only.
const RUN: &str = ".labels.run";

/// Attributes of mask files: the numbers of the rules, and the call.
pub const THRESHOLDS: &str = "thresholds";
const HISTORY: &str = "history";

/// What is said beside boxes of their grid and calendar, which masks have.
const GRID: &str = "grid";
const CALENDAR: &str = "calendar";

/// Before the method's name in a file's history.
const CALL: &str = "label --method ";

/// Most times of a mask file: where it ends is where a killed run goes on from, and a simulation may be one file.
const MOST_TIMES: usize = 400;

/// Mask files: one for every input file, or for every [`MOST_TIMES`] of its times, named after its first time.
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
    /// These masks, in files that also have this attribute.
    #[must_use]
    pub fn saying(mut self, name: &str, value: &str) -> Self {
        self.say(name, value);
        self
    }

    /// Files that are begun from now on have this attribute, too, or with this value.
    pub fn say(&mut self, name: &str, value: &str) {
        let attributes = &mut self.options.attributes;
        attributes.retain(|(said, _)| said != name);
        attributes.push((name.into(), value.into()));
    }

    /// What files will have in an attribute, as far as it is known.
    fn said(&self, name: &str) -> Option<&str> {
        let mut attributes = self.options.attributes.iter();
        let found = attributes.find(|(said, _)| said == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Where the files are.
    pub fn folder(&self) -> &Path {
        &self.out
    }

    /// The method that makes them.
    pub fn method(&self) -> Method {
        self.method
    }

    /// Masks of which no file is written yet; `thresholds` go to the files' attributes.
    pub fn new(out: PathBuf, archive: &'a Archive, method: Method, thresholds: String) -> Self {
        let version = env!("CARGO_PKG_VERSION");
        let options = MaskFileOptions {
            classes: method.classes(),
            probabilities: match method {
                Method::Bard => &[Class::AtmosphericRiver],
                _ => &[],
            },
            title: method.title().into(),
            source: format!("squall {version} label"),
            attributes: vec![
                (
                    HISTORY.to_string(),
                    format!("squall {version}: {}{}", CALL, method.name()),
                ),
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

    /// Writes the mask of the next time; none of one that is left out.
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
                // A file of an earlier run for these times goes; the first of them with a mask begins a new one.
                atomic::remove(self.path(self.archive.times()[index]))?;
            }
            return Ok(());
        };
        let mask = &labelled.mask;
        let probabilities = labelled.river_probability.as_ref().map(|rivers| {
            let (rows, columns) = rivers.dim();
            Array3::from_shape_fn((rows, columns, Class::ALL.len()), |(j, i, class)| {
                match Class::ALL[class] {
                    Class::AtmosphericRiver => rivers[[j, i]],
                    Class::Background => 1.0 - rivers[[j, i]],
                    _ => 0.0,
                }
            })
        });
        let source = self.archive.source_of(index).0;
        if self.open.is_none() {
            // Its name does not tell which times are left out.
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

    /// The file of masks that begins with this time.
    fn path(&self, first: Time) -> PathBuf {
        self.out.join(format!("labels.{}.nc", first.stamp()))
    }

    /// Those of the first `times` times with which a file begins, by index; none if no masks are drawn.
    fn firsts(&self, times: usize) -> impl Iterator<Item = usize> {
        let draws = self.method.draws_masks();
        (0..times).filter(move |index| draws && self.begins_at(*index))
    }

    /// Whether the run of this fingerprint was the last to write into the folder.
    fn are_receiving(&self, fingerprint: &str) -> bool {
        let last = std::fs::read(self.out.join(RUN));
        last.is_ok_and(|last| last == fingerprint.as_bytes())
    }

    /// Whether the files of the first `times` times, except those left out, are there, and the run of this fingerprint
    /// was the last to write into their folder.
    pub fn are_of(&self, fingerprint: &str, times: usize, left_out: &BTreeSet<usize>) -> bool {
        let is_there = |first: usize| {
            let mut of_file = (first..times).take_while(|at| *at == first || !self.begins_at(*at));
            of_file.all(|index| left_out.contains(&index))
                || self.path(self.archive.times()[first]).is_file()
        };
        self.are_receiving(fingerprint) && self.firsts(times).all(is_there)
    }

    /// Refuses a folder with labels of other work: whoever reads it takes all of its masks for those of one run.
    ///
    /// Labels that this run makes again under the same names, with the same rules, from files of the same names, may be
    /// there.
    pub fn check_folder(&self, fingerprint: &str) -> anyhow::Result<()> {
        // This run has checked the folder before, when it began.
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
            // A file that cannot be read is no reason to refuse; it is made again if it has a name of this run.
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
        // Earlier versions did not say it.
        if let (Some(input), Some(index)) = (attribute(ORIGIN), index) {
            compare("input", input, &name_of(self.archive.source_of(index).0));
        }
        // Thresholds of two methods have nothing to do with each other.
        if method == Some(self.method.name()) {
            // Percentiles of earlier versions are of the run itself.
            for (name, without) in [(WHOSE, OWN), (CLIMATE, "unknown")] {
                if let Some(is) = self.said(name) {
                    compare(name, attribute(name).unwrap_or(without), is);
                }
            }
            let numbers = attribute(THRESHOLDS).unwrap_or_default();
            changes.extend(changed_numbers(numbers, &self.thresholds));
        }
        changes
    }

    /// From now on this run writes here: no state of another one is gone on from with these masks, and what killed ones
    /// have begun is cleared away.
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

    /// Whether the time is the first of its file of masks.
    fn begins_at(&self, index: usize) -> bool {
        index == 0 || self.ends_at(index - 1)
    }

    /// Whether the time is the last of its file of masks.
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

/// The method that a file of masks says that it was made by.
pub fn method_of(about: &About) -> Option<&str> {
    method_among(&about.attributes)
}

fn method_among(attributes: &BTreeMap<String, String>) -> Option<&str> {
    let (_, method) = attributes.get(HISTORY)?.split_once(CALL)?;
    Some(method)
}

/// Whether the masks of a folder are of a labelling that was stopped, or is still at work.
pub fn is_unfinished(folder: &Path) -> bool {
    folder.join(RUN).is_file()
}

/// Marks a folder of masks as finished: no run writes into it any more.
pub fn release(out: &Path) {
    // If this fails the file stays, and the folder counts as one of a run that was stopped and cannot be continued.
    let _ = std::fs::remove_file(out.join(RUN));
}

/// The mask files of labels in a folder, in the order of their names; none in one that is not there.
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
