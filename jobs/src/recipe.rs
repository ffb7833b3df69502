//! A training run as one TOML file.

pub mod built_in;
mod check;
mod detection;
mod distributed;
pub(crate) mod explain;

pub use built_in::BUILT_IN;
pub use detection::Detection;
pub use distributed::{Algorithm, Distributed, Momentum, MomentumRule, Order, RateScaling};

use crate::clips::ClipShape;
use crate::error::{JobError, Result};
use serde::{Deserialize, Serialize};
use squall_data::class_weights::ClassWeighting;
use squall_data::loader::Augmentation;
use squall_data::normalise::NormalisationMethod;
use squall_data::{DataError, Variable};
use squall_model::ops::loss::{Criterion, Focal, Normalisation};
use squall_model::optim::{OptimizerConfig, Schedule};
use squall_model::{Backend, NetworkConfig, PrecisionPolicy, Recompute, SavedActivations};
use std::path::{Path, PathBuf};

/// What a network learns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Task {
    /// The class of every pixel.
    #[default]
    Segment,
    /// Boxes around storms.
    Detect,
}

/// Everything that a training run's result depends on, besides the data.
///
/// Keys that are left out have the defaults written at the fields; unknown keys are errors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Recipe {
    /// Of the run, in reports. Default `"run"`.
    pub name: String,
    /// What the network learns. Default `"segment"`.
    pub task: Task,
    /// Of initial values, order of samples, augmentation and dropout. Default 1.
    pub seed: u64,
    /// How activations are stored and computed, which layers stay in f32, how the loss is scaled. Default `"auto"`.
    pub precision: PrecisionPolicy,
    /// How long, in which portions, and what is saved when.
    pub training: Training,
    /// How several ranks train one network.
    pub distributed: Distributed,
    /// What is read.
    pub data: DataSection,
    /// How far off a prediction is, and how much classes count in it.
    pub loss: Loss,
    /// How a detector learns.
    pub detection: Detection,
    /// How gradients change parameters. Default AdamW.
    pub optimiser: OptimizerConfig,
    /// Learning rate over the run. Default a cosine from 1e-3 to 0.
    pub schedule: Schedule,
    /// Which network. Its `channels_in` and `classes` follow from the data and the task: other numbers are refused.
    pub network: NetworkConfig,
}

impl Default for Recipe {
    fn default() -> Self {
        Self {
            name: "run".to_string(),
            task: Task::default(),
            seed: 1,
            precision: PrecisionPolicy::default(),
            training: Training::default(),
            distributed: Distributed::default(),
            data: DataSection::default(),
            loss: Loss::default(),
            detection: Detection::default(),
            optimiser: OptimizerConfig::default(),
            schedule: Schedule::default(),
            network: NetworkConfig::default(),
        }
    }
}

/// How long, in which portions, and what is saved when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Training {
    /// Samples per step and rank. Default 2.
    pub batch: usize,
    /// Passes over the training samples; give this or `steps`.
    pub epochs: Option<f64>,
    /// Steps; give this or `epochs`. Default, if neither is given: 20 epochs.
    pub steps: Option<u64>,
    /// Steps between validations. Default: one validation per epoch. There is always one at the end.
    pub validate_every_steps: Option<u64>,
    /// At most so many validation samples, evenly spaced. Default: all.
    pub validation_samples: Option<usize>,
    /// Steps between checkpoints. Default: one per epoch. There is always one at the end and when the run is stopped.
    pub checkpoint_every_steps: Option<u64>,
    /// Also a checkpoint after so many seconds without one, by the clock of the first rank. Default 600.
    pub checkpoint_every_seconds: f64,
    /// Stop with a checkpoint after so many seconds, as if interrupted. Default: no limit. The result is then that of a
    /// part of the run, and how large a part depends on the machine.
    pub max_seconds: Option<f64>,
    /// In half precision, this many steps in a row may be skipped because something was no number. Default 5. In f32
    /// the first one ends the run. Before the first good step overflows that lower a dynamic loss scale do not count:
    /// they are how it is found.
    pub max_skipped_steps: u32,
    /// A model file of the same network and channels whose weights are the initial values: of an earlier run, or of
    /// `squall model import`. Default: initial values follow from `seed`.
    pub start_from: Option<PathBuf>,
    /// What the backward pass computes again instead of keeping it, with the same bits: `"none"`, `"norms"` (what
    /// follows a batch normalisation, a tenth slower) or `"blocks"` (the inside of residual, dense and decoder blocks,
    /// a fifth slower). Default `"none"`.
    pub recompute: Recompute,
    /// What activations are kept as for the backward pass: `"same"`, or `"bf16"`, half the memory of f32, with
    /// gradients off by some thousandths. Default `"same"`.
    pub saved_activations: SavedActivations,
    /// On a GPU the forward and the backward pass are launched as two CUDA graphs instead of one operation after the
    /// other: less work for the processor, which counts where kernels are short (small batches, small fields), but up
    /// to a third more memory. For masks, by one rank; where that is asked for and a step cannot be launched so, it is
    /// told why. Default: where it can be and there is room for it.
    pub cuda_graphs: Option<bool>,
    /// The first so many steps are written down as a Chrome trace, `trace.rankN.json` in the run's folder. Default 0.
    pub trace_steps: usize,
    /// Go on though the machine seems to have too little memory. Default false.
    pub ignore_memory: bool,
}

impl Default for Training {
    fn default() -> Self {
        Self {
            batch: 2,
            epochs: None,
            steps: None,
            validate_every_steps: None,
            validation_samples: None,
            checkpoint_every_steps: None,
            checkpoint_every_seconds: 600.0,
            max_seconds: None,
            max_skipped_steps: 5,
            start_from: None,
            recompute: Recompute::default(),
            saved_activations: SavedActivations::default(),
            cuda_graphs: None,
            trace_steps: 0,
            ignore_memory: false,
        }
    }
}

impl Training {
    /// Steps of the run, if an epoch has so many.
    pub fn total_steps(&self, steps_per_epoch: usize) -> u64 {
        self.steps
            .unwrap_or_else(|| (self.passes() * steps_per_epoch as f64).ceil() as u64)
    }

    /// Passes over the training samples, of a training whose length is not in steps.
    pub fn passes(&self) -> f64 {
        self.epochs.unwrap_or(20.0)
    }
}

/// What is read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DataSection {
    /// Channels, in the network's order. Default: all that the store has.
    pub channels: Option<Vec<Variable>>,
    /// How values are normalised. Default `"mean-std"`.
    pub normalisation: NormalisationMethod,
    /// Random changes of training samples that keep them true. Default none.
    pub augmentation: Augmentation,
    /// Networks over time: steps of the data from one frame of a clip to the next. Default 1; hur-detect has 2 of three
    /// hours. How many frames a clip has is `network.time_steps`.
    pub clip_stride: usize,
    /// Reading threads. Default 2; for a GPU, which takes samples faster than two threads read them and leaves cores
    /// free, a quarter of the cores where that is more, at most 6.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// Batches read ahead. Default: as many as there are reading threads, but 2 at least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefetch: Option<usize>,
}

impl Default for DataSection {
    fn default() -> Self {
        Self {
            channels: None,
            normalisation: NormalisationMethod::default(),
            augmentation: Augmentation::default(),
            clip_stride: 1,
            threads: None,
            prefetch: None,
        }
    }
}

impl DataSection {
    /// Reading threads and batches read ahead, for a network that computes on this backend.
    pub fn readers(&self, backend: Backend) -> (usize, usize) {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let usual = match backend.is_gpu() {
            true => (cores / 4).clamp(2, 6),
            false => 2,
        };
        let threads = self.threads.unwrap_or(usual);
        (threads, self.prefetch.unwrap_or(threads.max(2)))
    }
}

/// How far off a prediction is: softmax cross entropy or focal loss, with weights of classes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Loss {
    /// From class frequencies to class weights. Default `"inverse-sqrt"`.
    pub weighting: ClassWeighting,
    /// The weights themselves, in class order; instead of `weighting`.
    pub class_weights: Option<Vec<f32>>,
    /// Focal loss, `{ alpha = 1.0, gamma = 2.0 }`, instead of cross entropy. Default none.
    pub focal: Option<Focal>,
    /// What the sum over pixels is divided by: `"weights"`, `"pixels"` (MLPerf) or `{ sum = FACTOR }`, which
    /// multiplies. Default `"weights"`.
    pub normalisation: Normalisation,
}

impl Loss {
    /// The loss with these weights of classes.
    pub fn criterion(&self, class_weights: Vec<f32>) -> Criterion {
        Criterion {
            class_weights,
            focal: self.focal,
            normalisation: self.normalisation,
        }
    }
}

impl Recipe {
    /// Reads a recipe and applies `key.path=value` overrides; checks everything that needs no data.
    ///
    /// # Errors
    /// [`JobError::Recipe`] naming line and key, with the nearest key that exists.
    pub fn read(path: &Path, overrides: &[String]) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(DataError::io("read", path))?;
        Self::parse(&text, overrides).map_err(|error| match error {
            JobError::Recipe { reason, .. } => JobError::Recipe {
                path: Some(path.to_path_buf()),
                reason,
            },
            other => other,
        })
    }

    /// As [`Recipe::read`], of a text.
    ///
    /// # Errors
    /// As [`Recipe::read`].
    ///
    /// # Example
    /// ```
    /// use squall_jobs::Recipe;
    /// let recipe = Recipe::parse("[training]\nbatch = 4", &["training.steps=100".into()])?;
    /// assert_eq!((recipe.training.batch, recipe.training.steps), (4, Some(100)));
    /// let shorter = Recipe::parse("[training]\nepochs = 2.0", &["training.steps=100".into()])?;
    /// assert_eq!((shorter.training.epochs, shorter.training.steps), (None, Some(100)));
    /// let error = Recipe::parse("[trainng]\nbatch = 4", &[]).unwrap_err().to_string();
    /// assert!(error.contains("did you mean `training`?"), "{error}");
    /// # Ok::<(), squall_jobs::JobError>(())
    /// ```
    pub fn parse(text: &str, overrides: &[String]) -> Result<Self> {
        let bad = |reason: String| JobError::Recipe { path: None, reason };
        let parsed: std::result::Result<Self, _> = toml::from_str(text);
        let recipe = parsed.map_err(|error| bad(explain::explain(text, &error)))?;
        let recipe = if overrides.is_empty() {
            recipe
        } else {
            let mut table: toml::Table =
                toml::from_str(text).map_err(|error| bad(explain::explain(text, &error)))?;
            for change in overrides {
                set(&mut table, change).map_err(&bad)?;
            }
            drop_other_length(&mut table, overrides);
            drop_noted_channels(&mut table, overrides);
            let changed = toml::to_string(&table).map_err(|error| bad(error.to_string()))?;
            toml::from_str(&changed).map_err(|error| {
                let reason = explain::explain_without_line(&error);
                bad(format!("after {}: {reason}", overrides.join(", ")))
            })?
        };
        recipe.check()?;
        Ok(recipe)
    }

    /// The whole recipe: every key with its value, but for those that have neither a value nor a default.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("numbers, words and lists always fit into TOML")
    }

    /// The value of a key such as `schedule.rate`, as `--set` takes it; none if it has neither a value nor a default.
    pub(crate) fn value_of(&self, key: &str) -> Option<String> {
        let table = toml::Table::try_from(self).ok()?;
        let mut keys = key.split('.').map(str::trim);
        let first = table.get(keys.next()?)?;
        let value = keys.try_fold(first, |value, key| value.get(key))?;
        Some(match value {
            toml::Value::String(word) => word.clone(),
            value => short(value).to_string(),
        })
    }

    /// Every key with its value, a line each.
    pub(crate) fn lines(&self) -> String {
        match toml::Table::try_from(self) {
            Ok(table) => (flat(&table).into_iter())
                .map(|(key, value)| format!("{key} = {value}\n"))
                .collect(),
            Err(_) => self.to_toml(),
        }
    }

    /// The same with as many channels of its network's input as the data have.
    ///
    /// # Errors
    /// [`JobError::Recipe`] if it asks for another number.
    pub(crate) fn with_channels(&self, channels: usize) -> Result<Self> {
        let bad = |reason| JobError::Recipe { path: None, reason };
        self.check_channels_in(channels).map_err(bad)?;
        let mut recipe = self.clone();
        recipe.network.channels_in = channels;
        Ok(recipe)
    }

    /// The clips that its network learns from; none of a network that sees single fields.
    pub fn clips(&self) -> Option<ClipShape> {
        ClipShape::of(&self.network, self.data.clip_stride)
    }

    /// The keys whose values differ from another recipe's and change results: all but the seconds that a part of a run may
    /// take, savings, threads and how long ranks wait for each other.
    pub fn changes_of_result(&self, other: &Self) -> Vec<String> {
        let neutral = |recipe: &Self| {
            let mut recipe = recipe.clone();
            let kept = recipe.training.clone();
            recipe.training = Training {
                batch: kept.batch,
                validate_every_steps: kept.validate_every_steps,
                validation_samples: kept.validation_samples,
                // Every schedule but a constant one depends on the length of the run.
                epochs: kept.epochs,
                steps: kept.steps,
                max_skipped_steps: kept.max_skipped_steps,
                saved_activations: kept.saved_activations,
                // What is computed again from rounded values is not what was computed.
                recompute: match kept.saved_activations {
                    SavedActivations::Same => Recompute::None,
                    SavedActivations::Bf16 => kept.recompute,
                },
                ..Training::default()
            };
            recipe.data.threads = None;
            recipe.data.prefetch = None;
            // When a run is checked and given up changes nothing that it learns.
            let usual = Distributed::default();
            recipe.distributed.stall_seconds = usual.stall_seconds;
            recipe.distributed.check_every_steps = usual.check_every_steps;
            // It follows from the data, which are compared by their hash.
            recipe.network.channels_in = NetworkConfig::of(recipe.network.name).channels_in;
            flat(&toml::Table::try_from(&recipe).unwrap_or_default())
        };
        let (new, old) = (neutral(self), neutral(other));
        let keys: std::collections::BTreeSet<&String> = new.keys().chain(old.keys()).collect();
        let text = |value: Option<&toml::Value>| {
            value.map_or("nothing".to_string(), |value| short(value).to_string())
        };
        keys.into_iter()
            .filter(|key| new.get(*key) != old.get(*key))
            .map(|key| {
                format!(
                    "`{key}` was {}, is {}",
                    text(old.get(key)),
                    text(new.get(key))
                )
            })
            .collect()
    }
}

/// `a.b.c` to its value.
fn flat(table: &toml::Table) -> std::collections::BTreeMap<String, toml::Value> {
    let mut all = std::collections::BTreeMap::new();
    for (key, value) in table {
        match value {
            toml::Value::Table(inner) => {
                let inner = flat(inner).into_iter();
                all.extend(inner.map(|(rest, value)| (format!("{key}.{rest}"), value)));
            }
            value => drop(all.insert(key.clone(), value.clone())),
        }
    }
    all
}

/// A value as a person writes it: what was f32 has no more digits than that needs.
fn short(value: &toml::Value) -> toml::Value {
    match value {
        toml::Value::Float(wide) if f64::from(*wide as f32) == *wide => {
            let digits = (*wide as f32).to_string();
            toml::Value::Float(digits.parse().unwrap_or(*wide))
        }
        toml::Value::Array(values) => toml::Value::Array(values.iter().map(short).collect()),
        value => value.clone(),
    }
}

/// Whether a key is among the overrides.
fn is_given(overrides: &[String], key: &str) -> bool {
    let key_of = |change: &String| Some(change.split_once('=')?.0.trim() == key);
    overrides.iter().filter_map(key_of).any(|is| is)
}

/// The number of channels that a run's recipe.toml notes is that of its own channels, not of others that are given as an
/// override.
fn drop_noted_channels(table: &mut toml::Table, overrides: &[String]) {
    if is_given(overrides, "data.channels")
        && !is_given(overrides, "network.channels_in")
        && let Some(toml::Value::Table(network)) = table.get_mut("network")
    {
        network.remove("channels_in");
    }
}

/// A length of training that is given as an override stands in place of the recipe's own in the other unit.
fn drop_other_length(table: &mut toml::Table, overrides: &[String]) {
    let given = ["training.epochs", "training.steps"].map(|key| is_given(overrides, key));
    let Some(training) = table
        .get_mut("training")
        .and_then(toml::Value::as_table_mut)
    else {
        return;
    };
    match given {
        [true, false] => training.remove("steps"),
        [false, true] => training.remove("epochs"),
        _ => None,
    };
}

/// Applies one `key.path=value`; a value that is no TOML is taken as a word.
fn set(table: &mut toml::Table, change: &str) -> std::result::Result<(), String> {
    let (path, value) = change
        .split_once('=')
        .ok_or_else(|| format!("override `{change}`: expected key.path=value"))?;
    let value = value.trim();
    let parsed: std::result::Result<toml::Table, _> = toml::from_str(&format!("v = {value}"));
    let value = parsed
        .ok()
        .and_then(|mut table| table.remove("v"))
        .unwrap_or_else(|| toml::Value::String(value.to_string()));
    let mut keys: Vec<&str> = path.trim().split('.').map(str::trim).collect();
    let last = keys.pop().unwrap_or_default();
    let mut at = table;
    for key in keys {
        let next = at
            .entry(key)
            .or_insert_with(|| toml::Value::Table(toml::Table::new()));
        // A word for what may be a section, as a run's recipe.toml has it.
        if let ("precision", toml::Value::String(word)) = (key, &*next) {
            let compute = ("compute".to_string(), word.clone().into());
            *next = toml::Value::Table(toml::Table::from_iter([compute]));
        }
        at = next
            .as_table_mut()
            .ok_or_else(|| format!("override `{change}`: `{key}` is a value, not a section"))?;
    }
    at.insert(last.to_string(), value);
    Ok(())
}

#[cfg(test)]
mod tests;
