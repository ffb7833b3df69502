//! Recipes: a training run as one TOML file.

mod built_in;
mod check;
mod data;
mod detection;
mod distributed;
pub(crate) mod explain;
mod local_batch;
mod loss;
mod overrides;
mod suggestions;
mod training;
mod without_effect;

pub use built_in::BUILT_IN;
pub use data::{DataSection, NormalisationChoice};
pub use detection::Detection;
pub(crate) use distributed::ranks_per_group;
pub use distributed::{Algorithm, Distributed, Momentum, MomentumRule, Order, RateScaling};
pub use local_batch::LocalBatch;
pub use loss::Loss;
pub use training::{BestBy, Training};

use crate::clips::ClipShape;
use crate::error::{JobError, Result};
use serde::{Deserialize, Serialize};
use squall_data::DataError;
use squall_model::networks::FOREIGN_KEY;
use squall_model::optim::{OptimizerConfig, Schedule};
use squall_model::{NetworkConfig, PrecisionPolicy, Recompute, SavedActivations};
use std::path::Path;

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

/// Everything that determines the result of a training run, besides the data.
///
/// Keys that are left out have the defaults written at the fields; unknown keys are errors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Recipe {
    /// Name of the run, in reports. Default `"run"`.
    pub name: String,
    /// What the network learns. Default `"segment"`.
    pub task: Task,
    /// Seed of initial values, order of samples, augmentation and dropout. Default 1.
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

impl Recipe {
    /// Reads a recipe, applies `key.path=value` overrides, and validates everything that does not depend on data.
    ///
    /// # Errors
    /// [`JobError::Recipe`] naming line and key, with the nearest existing key.
    pub fn read(path: &Path, overrides: &[String]) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(DataError::io("read", path))?;
        Self::parse(&text, overrides).map_err(|error| match error {
            JobError::Recipe {
                reason,
                keeps_foreign_key,
                ..
            } => JobError::Recipe {
                path: Some(path.to_path_buf()),
                reason,
                keeps_foreign_key,
            },
            other => other,
        })
    }

    /// Like [`Recipe::read`], for a text.
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
        let bad = JobError::recipe;
        let parsed: std::result::Result<Self, _> = toml::from_str(text);
        let explained = |error| bad(explain::explain(text, &error, suggestions::keys));
        let recipe = parsed.map_err(explained)?;
        // A number that fits the recipe but not TOML could not be written back.
        let mut table: toml::Table = toml::from_str(text).map_err(explained)?;
        let recipe = if overrides.is_empty() {
            recipe
        } else {
            overrides::apply(&mut table, overrides).map_err(bad)?;
            let changed = toml::to_string(&table).map_err(|error| bad(error.to_string()))?;
            toml::from_str(&changed).map_err(|error| {
                let reason = explain::explain_without_line(&error, suggestions::keys);
                JobError::Recipe {
                    path: None,
                    keeps_foreign_key: reason.contains(FOREIGN_KEY),
                    reason: format!("after {}: {reason}", overrides.join(", ")),
                }
            })?
        };
        recipe.check()?;
        Ok(recipe)
    }

    /// Serialises the whole recipe: every key with its value, except keys with neither a value nor a default.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("numbers, words and lists always fit into TOML")
    }

    /// The value of a key such as `schedule.rate`, as `--set` takes it; `None` if it has neither a value nor a default.
    pub(crate) fn value_of(&self, key: &str) -> Option<String> {
        let table = self.table();
        let mut keys = key.split('.').map(str::trim);
        let first = table.get(keys.next()?)?;
        let value = keys.try_fold(first, |value, key| value.get(key))?;
        Some(match value {
            toml::Value::String(word) => word.clone(),
            value => short(value).to_string(),
        })
    }

    /// Every key with its value, one per line.
    pub(crate) fn lines(&self) -> String {
        (flat(&self.table()).into_iter())
            .map(|(key, value)| format!("{key} = {value}\n"))
            .collect()
    }

    /// Every key with its value, except keys with neither a value nor a default. A recipe file omits keys that were added
    /// after the first runs while they have their default; they are added here. A test fails if one is missing.
    fn table(&self) -> toml::Table {
        let (training, precision) = (&self.training, &self.precision);
        let young = [
            (
                "training",
                "accumulate",
                toml::Value::try_from(training.accumulate),
            ),
            (
                "training",
                "best_by",
                toml::Value::try_from(training.best_by),
            ),
            (
                "precision",
                "all_layers",
                toml::Value::try_from(precision.all_layers),
            ),
            ("precision", "tf32", toml::Value::try_from(precision.tf32)),
        ];
        let mut table = toml::Table::try_from(self).unwrap_or_default();
        for (section, key, value) in young {
            if let (Some(toml::Value::Table(keys)), Ok(value)) = (table.get_mut(section), value) {
                keys.insert(key.to_string(), value);
            }
        }
        table
    }

    /// The same recipe with the network's input channels set to those of the data.
    ///
    /// # Errors
    /// [`JobError::Recipe`] if it asks for a different number.
    pub(crate) fn with_channels(&self, channels: usize) -> Result<Self> {
        self.check_channels_in(channels).map_err(JobError::recipe)?;
        let mut recipe = self.clone();
        recipe.network.channels_in = channels;
        Ok(recipe)
    }

    /// Whether its network predicts boxes and no masks.
    pub(crate) fn outputs_boxes_alone(&self) -> bool {
        self.network.name.is_detector() && self.network.mask_classes == 0
    }

    /// The model whose normalisation its runs keep; `None` if they take that of their store.
    pub(crate) fn normalised_as(&self) -> Option<&Path> {
        match self.data.normalisation {
            NormalisationChoice::StartFrom => self.training.start_from.as_deref(),
            NormalisationChoice::MeanStd | NormalisationChoice::MinMax => None,
        }
    }

    /// The clips that its network trains on; `None` for a network that sees single fields.
    pub fn clips(&self) -> Option<ClipShape> {
        ClipShape::for_network(&self.network, self.data.clip_stride)
    }

    /// The schedule of steps on `ranks` ranks, at the rate that `distributed.rate_scaling` gives for their samples.
    pub(crate) fn scaled_schedule(&self, ranks: usize) -> Schedule {
        let batches = ranks.saturating_mul(self.training.accumulate);
        let batches = self.distributed.batches(self.training.batch, batches);
        let mut schedule = self.schedule.clone();
        schedule.rate *= self.distributed.rate_scaling.factor(batches);
        schedule
    }

    /// The keys that differ from another recipe's and affect results: all but time limits, saving intervals, threads
    /// and timeouts between ranks.
    pub(crate) fn changes_of_result(&self, other: &Self) -> Vec<String> {
        let neutral = |recipe: &Self| {
            let mut recipe = recipe.clone();
            let kept = recipe.training.clone();
            recipe.training = Training {
                batch: kept.batch,
                // With a global batch, the samples of a step may be split into any number of batches.
                accumulate: match recipe.distributed.global_batch {
                    Some(_) => 1,
                    None => kept.accumulate,
                },
                validate_every_steps: kept.validate_every_steps,
                validation_samples: kept.validation_samples,
                average: kept.average,
                best_by: kept.best_by,
                // Every schedule except a constant one depends on the length of the run.
                epochs: kept.epochs,
                steps: kept.steps,
                max_skipped_steps: kept.max_skipped_steps,
                saved_activations: kept.saved_activations,
                // Activations recomputed from rounded ones differ from the original ones.
                recompute: match kept.saved_activations {
                    SavedActivations::Same => Recompute::None,
                    SavedActivations::Bf16 => kept.recompute,
                },
                ..Training::default()
            };
            recipe.data.threads = None;
            recipe.data.prefetch = None;
            // Consistency checks and timeouts do not affect training.
            let usual = Distributed::default();
            recipe.distributed.stall_seconds = usual.stall_seconds;
            recipe.distributed.check_every_steps = usual.check_every_steps;
            if recipe.detection.pseudo_labels.is_none() {
                // Not read without them; its default was 0.5 once.
                let usual = Detection::default();
                recipe.detection.pseudo_min_confidence = usual.pseudo_min_confidence;
            }
            // It follows from the data, which is compared by hash.
            recipe.network.channels_in = NetworkConfig::of(recipe.network.name).channels_in;
            flat(&recipe.table())
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

/// Maps `a.b.c` to its value.
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

/// A value as a user would write it: f32 values get no more digits than they need.
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

#[cfg(test)]
mod tests;
