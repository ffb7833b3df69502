//! Records the origin of a sample store: staging into it again requires the same inputs.

use crate::commands::label::differences::{changed_numbers, listed};
use crate::commands::label::masks::{THRESHOLDS, method_of};
use crate::failure::Advice;
use crate::input;
use serde::{Deserialize, Serialize};
use squall_climate::detect::Method;
use squall_data::facts::FileFacts;
use squall_data::mask_file::{About, MaskArchive};
use squall_data::store::INDEX_FILE;
use squall_data::{Archive, Class, DataError, GeoBox, Store, atomic};
use squall_jobs::JobError;
use std::path::Path;

/// Name of the file in the store's folder.
const FILE: &str = "origin.json";
const FORMAT: &str = "squall-origin 1";

/// The fields and labels of a store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    format: String,
    fields: Files,
    /// `None` for a store without masks.
    labels: Option<Labels>,
}

/// The state of some files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Files {
    /// The argument as given, for human readers.
    input: String,
    /// A digest of names, lengths and modification times. Folders are ignored, so a moved run is the same.
    state: String,
}

/// Labels and their metadata.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Labels {
    files: Files,
    method: Option<String>,
    thresholds: Option<String>,
}

impl Files {
    /// The current state of these files; `choice` covers the settings that affect what is read.
    fn of<'a>(
        input: &str,
        paths: impl Iterator<Item = &'a Path>,
        choice: Option<&str>,
    ) -> anyhow::Result<Self> {
        let named = paths.map(|path| (input::name_of(path), FileFacts::of(path)));
        let mut files: Vec<(String, FileFacts)> = named.collect();
        files.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(Self {
            input: input.into(),
            state: input::fingerprint(&(files, choice))?,
        })
    }
}

impl Origin {
    /// The origin of fields and labels as given; `tagged` is the class of masks that do not name one.
    pub fn of(
        input: &str,
        fields: &Archive,
        labels: Option<(&str, &MaskArchive)>,
        tagged: Option<Class>,
    ) -> anyhow::Result<Self> {
        let labels = match labels {
            None => None,
            Some((input, masks)) => {
                let files = Files::of(input, masks.paths(), tagged.map(Class::name))?;
                let first = masks.paths().next();
                let about = first.and_then(|path| About::read(path).ok());
                let method = about.as_ref().and_then(method_of);
                Some(Labels {
                    files,
                    method: method.map(str::to_string),
                    thresholds: about.and_then(|mut about| about.attributes.remove(THRESHOLDS)),
                })
            }
        };
        Ok(Self {
            format: FORMAT.into(),
            fields: Files::of(input, fields.paths(), None)?,
            labels,
        })
    }

    /// The origin of a store, if recorded: earlier versions did not, and an unreadable file is ignored.
    pub fn read(store: &Path) -> Option<Self> {
        let text = std::fs::read(store.join(FILE)).ok()?;
        let origin: Self = serde_json::from_slice(&text).ok()?;
        (origin.format == FORMAT).then_some(origin)
    }

    /// The method that drew the masks, if they name one of ours.
    pub fn method(&self) -> Option<Method> {
        self.labels.as_ref()?.method.as_deref()?.parse().ok()
    }

    /// Writes it to its store, unless the same is already recorded.
    pub fn remember(&self, store: &Path) -> Result<(), DataError> {
        if Self::read(store).is_some_and(|was| was.has_files_of(self)) {
            return Ok(());
        }
        atomic::sweep(store, |name| name == FILE)?;
        let text = serde_json::to_vec_pretty(self)
            .map_err(|error| DataError::Invalid(format!("{FILE} of the store: {error}")))?;
        atomic::write(store.join(FILE), &text)
    }

    /// Whether all files are the same and unchanged.
    pub fn has_files_of(&self, other: &Self) -> bool {
        let state = |labels: &Option<Labels>| labels.as_ref().map(|l| l.files.state.clone());
        self.fields.state == other.fields.state && state(&self.labels) == state(&other.labels)
    }

    /// Differences in the labels' metadata, one clause each: with other rules their boxes may differ even if their
    /// masks do not.
    pub fn changes(&self, was: &Self) -> Vec<String> {
        let (Some(was), Some(is)) = (&was.labels, &self.labels) else {
            return Vec::new();
        };
        if let (Some(was), Some(is)) = (&was.method, &is.method)
            && was != is
        {
            return vec![format!("method was {was}, is {is}")];
        }
        match (&was.thresholds, &is.thresholds) {
            (Some(was), Some(is)) if was != is => changed_numbers(was, is),
            _ => Vec::new(),
        }
    }
}

/// The error for continuing a store with other fields or labels.
pub fn refusal(store: &Path, differences: &[String]) -> anyhow::Error {
    let reason = format!(
        "its samples are of other fields or labels ({}); use another folder",
        listed(differences)
    );
    JobError::Resume {
        folder: store.into(),
        reason,
    }
    .into()
}

/// Rejects replacing the boxes of a finished store unless boxes were named explicitly: neither dropping them nor taking
/// those among the labels.
pub fn keep_boxes(store: &Path, boxes: Option<&[Option<Vec<GeoBox>>]>) -> anyhow::Result<()> {
    if !store.join(INDEX_FILE).is_file() {
        return Ok(());
    }
    // A damaged store is repaired by staging again.
    let Ok(there) = Store::open(store) else {
        return Ok(());
    };
    // More samples may follow the existing ones.
    let same = match boxes.map(|boxes| boxes.get(..there.len()).unwrap_or(boxes)) {
        Some(boxes) => there.has_these_boxes(boxes)?,
        None => false,
    };
    if same || !there.has_boxes() {
        return Ok(());
    }
    Err(Advice::usage(
        format!("`{}` has other boxes than the labels have", store.display()),
        "give --boxes FILE with the boxes that it shall have, or another store with --out",
    ))
}
