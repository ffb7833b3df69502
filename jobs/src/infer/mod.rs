//! From a model and an archive to mask files.
//!
//! Three threads work at the same time: one reads and normalises, this one computes, one writes. A mask file appears
//! whole; a run that is killed makes only the missing files when it is called again, with the same masks, because batches
//! never cross files.
//!
//! # Not done
//! One process; ranks would each take a part of the files.

mod chunks;
mod log;
mod model;
mod pipeline;
mod strips;

pub use chunks::{Chunk, FilePer, chunks};
pub use log::{FinishedFile, SkippedTime};
pub use model::{Model, Prediction};
pub use strips::Strips;

use crate::error::{JobError, Result};
use crate::lock::{FolderLock, remove_unfinished};
use crate::train::Outcome;
use serde::{Deserialize, Serialize};
use squall_data::archive::Archive;
use squall_data::{ClassMask, Variable};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// What happens to a time whose fields cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BadInput {
    /// The inference ends with an error that names file and variable.
    #[default]
    Fail,
    /// The time gets no mask; manifest and report name it.
    Skip,
}

/// How to infer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct InferOptions {
    /// Also keep the probability of every class. Default no.
    pub probabilities: bool,
    /// How many times share a mask file. Default a day.
    pub file_per: FilePer,
    /// Samples computed at once. Default 1.
    pub batch: usize,
    /// What happens to a time whose fields cannot be used. Default: the inference ends.
    pub bad_input: BadInput,
    /// A time with a larger share of missing values cannot be used. Default 0.2.
    pub max_missing_share: f64,
    /// Samples read ahead, and masks waiting to be written. Default 4.
    pub read_ahead: usize,
    /// In how many strips of latitude the network is computed. Default one. Not in the manifest: masks are the same.
    #[serde(skip)]
    pub strips: Strips,
}

impl Default for InferOptions {
    fn default() -> Self {
        Self {
            probabilities: false,
            file_per: FilePer::default(),
            batch: 1,
            bad_input: BadInput::default(),
            max_missing_share: 0.2,
            read_ahead: 4,
            strips: Strips::default(),
        }
    }
}

/// What will be done, known before the first mask.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InferPlan {
    /// Times of the archive.
    pub times: usize,
    /// Mask files of the archive.
    pub files: usize,
    /// Times whose file an earlier call finished.
    pub done_times: usize,
    /// Floating-point operations of a mask.
    pub flops_per_mask: u64,
    /// Bytes of fields that will be read, uncompressed.
    pub read_bytes: u64,
    /// Bytes that will be written at most, uncompressed.
    pub write_bytes: u64,
    /// Bytes of weights, activations, and fields and masks under way.
    pub memory_bytes: u64,
    /// In how many strips of latitude the network is computed.
    pub strips: NonZeroUsize,
    /// Data type of activations.
    pub dtype: String,
    /// What computes.
    pub backend: String,
    /// What may surprise about model or input, one sentence each.
    pub notes: Vec<String>,
}

/// What happens during inference.
#[derive(Debug)]
#[non_exhaustive]
pub enum InferEvent<'a> {
    /// Before the first mask.
    Started(InferPlan),
    /// A mask is made, though not written yet. Masks of files that an earlier call finished do not come.
    Mask {
        /// Times done, those of earlier calls and those left out included.
        done: usize,
        /// Of so many.
        total: usize,
        /// The mask.
        mask: &'a ClassMask,
    },
    /// A time gets no mask.
    Skipped(&'a SkippedTime),
    /// A mask file is finished.
    FileFinished(&'a Path),
}

/// What came out of an inference; also `manifest.json` in the output folder, but for the times of the clock.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InferReport {
    /// How it ended.
    pub outcome: Outcome,
    /// Masks in the folder.
    pub masks: usize,
    /// Masks made by this call.
    pub new_masks: usize,
    /// Mask files in the folder, in order of time.
    pub files: Vec<PathBuf>,
    /// Times left out.
    pub skipped: Vec<SkippedTime>,
    /// Missing input values that were replaced by the mean.
    pub missing_values: u64,
    /// Seconds of this call.
    pub seconds: f64,
    /// Seconds of it in which the network waited for fields.
    pub wait_seconds: f64,
    /// Seconds of it in which the network computed.
    pub compute_seconds: f64,
}

/// What must stay the same for a call to continue another's work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Settings {
    model_hash: String,
    dtype: String,
    backend: String,
    probabilities: bool,
    file_per: FilePer,
    batch: usize,
    max_missing_share: f64,
    bad_input: BadInput,
    grid_hash: u64,
    calendar: String,
}

/// Makes a mask for every time of an archive, in files under `out`; continues what an earlier call there began.
///
/// Setting `stop` ends it after the sample under way with [`Outcome::Interrupted`].
///
/// # Errors
/// [`JobError::Contract`] if the model does not fit the archive; [`JobError::Strips`] if it does not fit the memory that
/// [`InferOptions::strips`] gives; [`JobError::Resume`] if the folder holds masks of another
/// model or other options; [`JobError::Locked`]; whatever reading, computing and writing may cause.
pub fn infer(
    archive: &Archive,
    model: &Model,
    out: &Path,
    options: &InferOptions,
    progress: &mut dyn FnMut(&InferEvent<'_>),
    stop: &AtomicBool,
) -> Result<InferReport> {
    let start = Instant::now();
    let mut notes = model.notes().to_vec();
    notes.extend(model.check(archive.grid(), &readable(archive, model, options))?);
    notes.extend(archive.problems().iter().cloned());
    let _lock = FolderLock::take(out)?;
    settle(archive, model, out, options)?;
    remove_unfinished(out)?;
    let all = chunks(archive.times(), options.file_per);
    let wanted = |entry: &FinishedFile| {
        // An archive that has grown, or shrunk, changes the file at its edge.
        all.iter().any(|chunk| {
            chunk.name == entry.file
                && archive.times()[chunk.indices.start].to_string() == entry.first
                && archive.times()[chunk.indices.end - 1].to_string() == entry.last
                && chunk.indices.len() == entry.masks + entry.skipped.len()
        })
    };
    let mut finished = log::read(out)?;
    // Who does not skip bad times wants to hear of those that an earlier call skipped.
    let complete =
        |entry: &FinishedFile| options.bad_input == BadInput::Skip || entry.skipped.is_empty();
    finished.retain(|_, entry| wanted(entry) && complete(entry));
    let lines = log::restart(out, &finished)?;
    let left: Vec<Chunk> = all
        .iter()
        .filter(|chunk| !finished.contains_key(&chunk.name))
        .cloned()
        .collect();
    let plan = plan(archive, model, options, &all, &left, notes)?;
    let (total, done, strips) = (plan.times, plan.done_times, plan.strips);
    progress(&InferEvent::Started(plan));
    let job = pipeline::Job {
        archive,
        model,
        out,
        options,
        chunks: &left,
        total,
        done,
        strips,
    };
    let ran = job.run(lines, progress, stop)?;
    let new_masks = ran.finished.iter().map(|entry| entry.masks).sum();
    finished.extend(
        ran.finished
            .into_iter()
            .map(|entry| (entry.file.clone(), entry)),
    );
    let in_order: Vec<&FinishedFile> = all
        .iter()
        .filter_map(|chunk| finished.get(&chunk.name))
        .collect();
    if ran.outcome == Outcome::Finished {
        write_manifest(archive, model, out, options, &in_order)?;
    }
    let with_masks = in_order.iter().filter(|entry| entry.masks > 0);
    Ok(InferReport {
        outcome: ran.outcome,
        masks: in_order.iter().map(|entry| entry.masks).sum(),
        new_masks,
        files: with_masks.map(|entry| out.join(&entry.file)).collect(),
        skipped: in_order
            .iter()
            .flat_map(|entry| entry.skipped.clone())
            .collect(),
        missing_values: in_order.iter().map(|entry| entry.missing_values).sum(),
        seconds: start.elapsed().as_secs_f64(),
        wait_seconds: ran.wait_seconds,
        compute_seconds: ran.compute_seconds,
    })
}

/// The channels that the archive has; where bad times may be skipped, a channel that only some times have counts too.
fn readable(archive: &Archive, model: &Model, options: &InferOptions) -> Vec<Variable> {
    let mut available = archive.available().to_vec();
    if options.bad_input == BadInput::Skip {
        for variable in model.contract().variables() {
            let anywhere =
                || (0..archive.times().len()).any(|index| archive.read(index, &[variable]).is_ok());
            if !available.contains(&variable) && anywhere() {
                available.push(variable);
            }
        }
    }
    available
}

fn dtype_name(model: &Model) -> String {
    format!("{:?}", model.dtype()).to_lowercase()
}

/// Writes the settings; refuses if the folder's masks were made with others.
fn settle(archive: &Archive, model: &Model, out: &Path, options: &InferOptions) -> Result<()> {
    let settings = Settings {
        model_hash: model.hash().to_string(),
        dtype: dtype_name(model),
        backend: format!("{:?}", model.network().backend()),
        probabilities: options.probabilities,
        file_per: options.file_per,
        batch: options.batch.max(1),
        max_missing_share: options.max_missing_share,
        bad_input: options.bad_input,
        grid_hash: archive.grid().hash(),
        calendar: archive.calendar().cf_name().to_string(),
    };
    let path = out.join("settings.json");
    let json = crate::metrics::to_json(&settings, &path)?;
    if let Ok(text) = std::fs::read_to_string(&path) {
        let old: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        let new: serde_json::Value = serde_json::from_str(&json).unwrap_or_default();
        let changed: Vec<String> = new
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(key, value)| old.get(key.as_str()) != Some(value))
            .map(|(key, value)| {
                format!(
                    "{key} was {}, is {value}",
                    old.get(key).unwrap_or(&serde_json::Value::Null)
                )
            })
            .collect();
        // A bad time may be met with more patience than before: what is finished stays right.
        let only_patience = changed.iter().all(|change| change.starts_with("bad_input"));
        if !changed.is_empty() && !only_patience && out.join(log::LOG).exists() {
            return Err(JobError::Resume {
                folder: out.to_path_buf(),
                reason: format!(
                    "its masks were made with other settings ({}); use another folder",
                    changed.join("; ")
                ),
            });
        }
    }
    squall_data::atomic::write(path, json.as_bytes())?;
    Ok(())
}

fn plan(
    archive: &Archive,
    model: &Model,
    options: &InferOptions,
    all: &[Chunk],
    left: &[Chunk],
    notes: Vec<String>,
) -> Result<InferPlan> {
    let (rows, columns) = archive.grid().shape();
    let summary = model.network().summary(rows, columns)?;
    let count = |chunks: &[Chunk]| chunks.iter().map(|c| c.indices.len()).sum::<usize>();
    let (times, to_do) = (count(all), count(left));
    let cells = (rows * columns) as u64;
    let fields = 4 * cells * model.contract().channels.len() as u64;
    // LABELS, ar_binary_tag, three probabilities: a byte each.
    let mask = cells * if options.probabilities { 5 } else { 2 };
    let in_memory = cells * if options.probabilities { 13 } else { 1 };
    let (batch, ahead) = (options.batch.max(1), options.read_ahead.max(1) as u64);
    let memory = |strips| {
        let backend = model.network().backend();
        let network = summary.inference_bytes(backend, batch, model.storage(), strips)?;
        Ok(network + ahead * (fields + in_memory))
    };
    let strips = (options.strips).choose(rows, memory, crate::memory::available())?;
    Ok(InferPlan {
        times,
        files: all.len(),
        done_times: times - to_do,
        flops_per_mask: summary.forward_flops,
        read_bytes: to_do as u64 * fields,
        write_bytes: to_do as u64 * mask,
        memory_bytes: memory(strips)?,
        strips,
        dtype: dtype_name(model),
        backend: model.network().backend().describe(),
        notes,
    })
}

/// What the folder holds and what it was made from; the same bytes whether or not the work was interrupted.
fn write_manifest(
    archive: &Archive,
    model: &Model,
    out: &Path,
    options: &InferOptions,
    files: &[&FinishedFile],
) -> Result<()> {
    let contract = model.contract();
    let by_file: BTreeMap<&str, &&FinishedFile> = files
        .iter()
        .map(|entry| (entry.file.as_str(), entry))
        .collect();
    let manifest = serde_json::json!({
        "model": model.path().file_name().unwrap_or_default().to_string_lossy(),
        "model_hash": model.hash(),
        "model_step": contract.step,
        "data_hash": contract.data_hash,
        "normalisation_hash": contract.normalisation_hash,
        "channels": contract.variables(),
        "classes": contract.classes,
        "code_version": env!("CARGO_PKG_VERSION"),
        "dtype": dtype_name(model),
        "options": options,
        "grid": archive.grid().describe(),
        "calendar": archive.calendar().cf_name(),
        "times": archive.times().len(),
        "problems": archive.problems(),
        "files": by_file.values().collect::<Vec<_>>(),
    });
    let path = out.join("manifest.json");
    let text = serde_json::to_string_pretty(&manifest).map_err(|error| JobError::Damaged {
        path: path.clone(),
        reason: error.to_string(),
    })?;
    squall_data::atomic::write(path, text.as_bytes())?;
    Ok(())
}
