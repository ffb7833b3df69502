//! The settings that must match for a call to continue another's work, and the metadata of a mask folder.

use super::differences::in_words;
use super::log::{self, FinishedFile};
use super::output::{JOINED, remove};
use super::plan::dtype_name;
use super::{BadInput, Ensemble, FilePer, Inference, Model};
use crate::code::{self, Builds};
use crate::error::{JobError, Result};
use crate::metrics::{to_json, to_pretty_json};
use serde::Serialize;
use squall_data::mask_file::MaskFileOptions;
use squall_data::{Class, DataError};
use std::io::ErrorKind;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::Path;

/// The settings that must match for a call to continue another's work. The number of ranks is not among them.
#[derive(Debug, Serialize)]
pub(super) struct Settings {
    model_hashes: Vec<String>,
    /// Columns by which each member rolls the field, and whether it mirrors it.
    views: Vec<(usize, bool)>,
    dtype: String,
    backend: String,
    probabilities: bool,
    artmip: bool,
    file_per: FilePer,
    batch: NonZeroUsize,
    max_missing_share: f64,
    bad_input: BadInput,
    attributes: Vec<(String, String)>,
    grid_hash: u64,
    calendar: String,
}

/// The contents of `settings.json`.
#[derive(Serialize)]
struct Kept<'a> {
    #[serde(flatten)]
    settings: &'a Settings,
    /// The builds that made the files of the folder.
    builds: Builds,
}

impl Settings {
    pub fn of(inference: &Inference<'_>, batch: NonZeroUsize) -> Self {
        let Inference {
            input,
            ensemble,
            options,
            ..
        } = inference;
        let views = ensemble.views().iter();
        Self {
            model_hashes: hashes(ensemble),
            views: views.map(|view| (view.roll, view.mirror)).collect(),
            dtype: dtype_name(ensemble),
            backend: format!("{:?}", ensemble.first().network().backend()),
            probabilities: options.probabilities,
            artmip: options.artmip,
            file_per: options.file_per,
            batch,
            max_missing_share: options.max_missing_share,
            bad_input: options.bad_input,
            attributes: options.attributes.clone(),
            grid_hash: input.grid().hash(),
            calendar: input.calendar().cf_name().to_string(),
        }
    }

    /// The batch size that a folder was started with, if it was started.
    pub fn batch_of(out: &Path) -> Option<NonZeroUsize> {
        let batch = usize::try_from(kept_in(out)?.get("batch")?.as_u64()?).ok()?;
        NonZeroUsize::new(batch)
    }

    /// The builds that made the files of a folder, as far as it records them.
    fn builds_of(out: &Path) -> Builds {
        Builds::of_json(&kept_in(out).unwrap_or_default(), BUILDS)
    }

    /// Records that this build makes files of the folder; warns if another one began it.
    ///
    /// # Errors
    /// [`JobError::Data`].
    pub fn record_build(&self, out: &Path) -> Result<()> {
        let builds = Self::builds_of(out).continued_by(&code::version(), out);
        self.write(out, builds)
    }

    fn write(&self, out: &Path, builds: Builds) -> Result<()> {
        let (settings, path) = (self, out.join(FILE));
        let json = to_json(&Kept { settings, builds }, &path)?;
        squall_data::atomic::write(path, json.as_bytes())?;
        Ok(())
    }

    /// Writes the settings; fails if the folder's masks were made with other or unknown settings.
    ///
    /// # Errors
    /// [`JobError::Resume`] with what differs; [`JobError::Data`].
    pub fn settle(&self, out: &Path) -> Result<()> {
        let path = out.join(FILE);
        let json = to_json(self, &path)?;
        let refused = |reason: String| JobError::Resume {
            folder: out.to_path_buf(),
            reason: format!("its masks were made with {reason}; use another folder"),
        };
        let old = match std::fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            text => Some(text.map_err(DataError::io("read", &path))?),
        };
        if let Some(text) = old {
            let old: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
            let new: serde_json::Value = serde_json::from_str(&json).unwrap_or_default();
            let changed: Vec<(&String, &serde_json::Value)> = new
                .as_object()
                .into_iter()
                .flatten()
                .filter(|(key, value)| old.get(key.as_str()) != Some(value))
                .collect();
            // Skipping of bad times may change: finished files stay valid.
            let only_patience = changed.iter().all(|(key, _)| *key == "bad_input");
            if !changed.is_empty() && !only_patience && has_some(out)? {
                let changed = changed.into_iter();
                let changed: Vec<String> = changed
                    .map(|(key, is)| in_words(key, old.get(key), is))
                    .collect();
                let changed = changed.join("; ");
                return Err(refused(format!("other settings ({changed})")));
            }
        } else if !log::read(out)?.is_empty() {
            // The files in the log would be kept, whatever their settings were.
            return Err(refused(format!(
                "settings that are not known: {FILE} is gone"
            )));
        }
        let builds = match has_some(out)? {
            true => Self::builds_of(out),
            false => Builds::default(),
        };
        self.write(out, builds)
    }
}

const FILE: &str = "settings.json";
/// Its key with the list of builds.
const BUILDS: &str = "builds";

/// The contents of `settings.json`, if a folder has it.
fn kept_in(out: &Path) -> Option<serde_json::Value> {
    let text = std::fs::read_to_string(out.join(FILE)).ok()?;
    serde_json::from_str(&text).ok()
}

/// Describes the compute backend and data types.
pub(super) fn computing(ensemble: &Ensemble<'_>) -> String {
    let backend = ensemble.first().network().backend();
    format!("{backend:?}, {}", dtype_name(ensemble))
}

fn hashes(ensemble: &Ensemble<'_>) -> Vec<String> {
    let models = ensemble.models().iter();
    models.map(|model| model.hash().to_string()).collect()
}

fn file_name(model: &Model) -> String {
    let name = model.path().file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// The metadata of the mask file of some times: without clock and folders, so that the same work gives the same bytes.
pub(super) fn about(inference: &Inference<'_>, indices: Range<usize>) -> MaskFileOptions {
    let Inference {
        input,
        ensemble,
        options,
        ..
    } = inference;
    let networks = of_models(ensemble, |model| {
        let contract = model.contract();
        let name = contract.network.name.as_str();
        format!("{name}, {} training steps", contract.step)
    });
    let origin = input.origin_of(indices, &ensemble.variables());
    MaskFileOptions {
        classes: &Class::EVENTS,
        title: "Tropical cyclones and atmospheric rivers found by a neural network".to_string(),
        source: format!("Squall {VERSION}, {networks}"),
        attributes: attributes(inference, origin),
        probabilities: if options.probabilities {
            &Class::EVENTS
        } else {
            &[]
        },
        spread: ensemble.members() > 1,
        river_tag: options.artmip,
    }
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// One line with a text for each model; consecutive models with the same text share it.
fn of_models(ensemble: &Ensemble<'_>, get: impl Fn(&Model) -> String) -> String {
    let models = ensemble.models().iter();
    let mut all: Vec<String> = models.map(|&model| get(model)).collect();
    all.dedup();
    all.join(", ")
}

/// Attribute of mask files: how many of the times of all files the network was trained on.
pub const TRAINING_TIMES: &str = "squall_training_times";

/// Global attributes: those requested, and the origin of the masks.
fn attributes(inference: &Inference<'_>, origin: String) -> Vec<(String, String)> {
    let Inference {
        ensemble, options, ..
    } = inference;
    // Names are not deduplicated: two models may have the same name.
    let models: Vec<String> = ensemble.models().iter().map(|m| file_name(m)).collect();
    let models = models.join(", ");
    let mut attributes: Vec<(String, String)> = options.attributes.clone();
    let mut add = |name: &str, value: String| {
        if !value.is_empty() && !attributes.iter().any(|(known, _)| known == name) {
            attributes.push((name.to_string(), value));
        }
    };
    add(
        "history",
        format!("squall {VERSION}: infer {origin} --model {models}"),
    );
    add("squall_version", code::version());
    add("squall_input", origin);
    add("squall_model", models);
    add("squall_model_hash", hashes(ensemble).join(", "));
    add(
        "squall_data_hash",
        of_models(ensemble, |m| m.contract().data_hash.clone()),
    );
    add(
        "squall_normalisation_hash",
        of_models(ensemble, |m| m.contract().normalisation_hash.clone()),
    );
    let channels: Vec<&str> = ensemble.variables().iter().map(|v| v.name()).collect();
    let learnt = inference.training_times();
    if learnt > 0 {
        let all = inference.input.times().len();
        add(TRAINING_TIMES, format!("{learnt} of {all}"));
    }
    add("squall_channels", channels.join(" "));
    add("squall_precision", dtype_name(ensemble));
    if ensemble.members() > 1 {
        add("squall_ensemble", members_in_words(ensemble));
    }
    for (number, model) in ensemble.models().iter().enumerate() {
        let name = match number {
            0 => "squall_recipe".to_string(),
            _ => format!("squall_recipe_{}", number + 1),
        };
        add(&name, model.contract().recipe.clone());
    }
    attributes
}

fn members_in_words(ensemble: &Ensemble<'_>) -> String {
    let views = ensemble.views().iter();
    let views: Vec<String> = views
        .map(|view| match (view.roll, view.mirror) {
            (0, false) => "as it is".to_string(),
            (roll, false) => format!("rolled by {roll} columns"),
            (0, true) => "mirrored".to_string(),
            (roll, true) => format!("mirrored and rolled by {roll} columns"),
        })
        .collect();
    let (members, views) = (ensemble.members(), views.join("; "));
    format!("mean of {members} members: each model with the field {views}")
}

/// Whether a folder has masks or boxes, which bind a call to their settings; includes files that a killed call had not
/// yet logged.
///
/// # Errors
/// [`JobError::Data`].
pub(super) fn has_some(folder: &Path) -> Result<bool> {
    if !log::read(folder)?.is_empty() {
        return Ok(true);
    }
    for entry in std::fs::read_dir(folder).map_err(DataError::io("list", folder))? {
        let name = entry.map_err(DataError::io("list", folder))?.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("masks.") || name.starts_with("boxes.") {
            return Ok(true);
        }
    }
    Ok(false)
}

const MANIFEST: &str = "manifest.json";

/// Whether a folder has masks of an interrupted inference that has not been completed since.
pub fn is_unfinished(folder: &Path) -> bool {
    log::exists(folder).unwrap_or(false) && !folder.join(MANIFEST).exists()
}

/// Number of times that the finished inference searched which made this table of all boxes; `None` for another file.
/// The table lists all of them: a time that it lacks was not searched.
pub fn searched_times(table: &Path) -> Option<u64> {
    if table.file_name()? != JOINED {
        return None;
    }
    let manifest = std::fs::read(table.with_file_name(MANIFEST)).ok()?;
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).ok()?;
    let files = manifest["files"].as_array()?;
    files.iter().map(|file| file["masks"].as_u64()).sum()
}

/// Removes the manifest, which marks a folder as finished.
///
/// # Errors
/// [`JobError::Data`].
pub(super) fn remove_manifest(out: &Path) -> Result<()> {
    remove(&out.join(MANIFEST))
}

/// Writes the contents and the origin of the folder; the same bytes for any number of ranks, whether or not the work
/// was interrupted.
pub(super) fn write_manifest(inference: &Inference<'_>, files: &[&FinishedFile]) -> Result<()> {
    let Inference {
        input,
        ensemble,
        out,
        ..
    } = inference;
    let batch = Settings::batch_of(out).unwrap_or(NonZeroUsize::MIN);
    let settings = Settings::of(inference, batch);
    // Without the input's modification times, so that a copy of the input gives the same manifest.
    let without_change = |&entry: &&FinishedFile| FinishedFile {
        read_from: None,
        ..entry.clone()
    };
    let mut files: Vec<FinishedFile> = files.iter().map(without_change).collect();
    files.sort_by(|a, b| a.file.cmp(&b.file));
    let first = ensemble.first();
    let models: Vec<serde_json::Value> = (ensemble.models().iter())
        .map(|model| {
            let contract = model.contract();
            serde_json::json!({
                "file": file_name(model),
                "hash": model.hash(),
                "network": contract.network.name.as_str(),
                "step": contract.step,
                "data_hash": contract.data_hash,
                "normalisation_hash": contract.normalisation_hash,
            })
        })
        .collect();
    let manifest = serde_json::json!({
        "model": file_name(first),
        "model_hash": first.hash(),
        "models": models,
        "channels": ensemble.variables(),
        "classes": first.contract().classes,
        "code_version": code::version(),
        "builds": Settings::builds_of(out),
        "settings": settings,
        "grid": input.grid().describe(),
        "calendar": input.calendar().cf_name(),
        "times": input.times().len(),
        "problems": input.problems(),
        "files": files,
    });
    let path = out.join(MANIFEST);
    let text = to_pretty_json(&manifest, &path)?;
    squall_data::atomic::write(path, text.as_bytes())?;
    Ok(())
}
