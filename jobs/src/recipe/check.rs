//! Validation of recipes.

use super::local_batch::check_unlabelled;
use super::{NormalisationChoice, Recipe, Task};
use crate::error::{JobError, Result};
use candle_core::DType;
use squall_data::{BoxClass, Class};
use squall_model::optim::LossScale;
use squall_model::{KernelRounding, ModelError, NetworkConfig};

/// `Err` holds the key, what was expected and what was found.
type Checked = std::result::Result<(), String>;

/// Upper limit of samples per step, steps, epochs and prefetched batches: more than any run has, and small enough that
/// sizes and times do not overflow.
const MOST_SAMPLES: u64 = 1 << 24;
const MOST_STEPS: u64 = 1 << 40;
const MOST_PASSES: f64 = 1e6;
const MOST_AHEAD: u64 = 4096;

/// Runs the check of a section and prefixes its error with the section's name.
fn in_section<T>(
    name: &str,
    checked: std::result::Result<T, ModelError>,
) -> std::result::Result<T, String> {
    checked.map_err(|error| format!("[{name}] {error}"))
}

impl Recipe {
    /// Rejects what is invalid whatever the data.
    ///
    /// # Errors
    /// [`JobError::Recipe`] naming the key, what was expected and what was found.
    pub fn check(&self) -> Result<()> {
        self.check_all().map_err(JobError::recipe)
    }

    fn check_all(&self) -> Checked {
        self.check_counts()?;
        self.check_lengths()?;
        self.check_accumulation()?;
        self.check_average()?;
        self.distributed.check()?;
        self.check_channels()?;
        self.check_normalisation()?;
        self.check_class_weights()?;
        in_section("loss", self.loss.criterion(Vec::new()).check())?;
        let scale = self.precision.loss_scale.map(LossScale::new);
        in_section("precision", scale.transpose())?;
        self.check_rounding()?;
        in_section("optimiser", self.optimiser.check())?;
        in_section("schedule", self.schedule.check())?;
        in_section("network", self.network.check())?;
        self.detection.check()?;
        self.check_task()?;
        self.check_classes()?;
        self.check_unlabelled()
    }

    fn check_counts(&self) -> Checked {
        let (training, data) = (&self.training, &self.data);
        let count = |number: Option<usize>| number.map(|number| number as u64);
        let counts = [
            ("training.batch", Some(training.batch as u64)),
            ("training.accumulate", Some(training.accumulate as u64)),
            ("training.steps", training.steps),
            (
                "training.validate_every_steps",
                training.validate_every_steps,
            ),
            (
                "training.validation_samples",
                count(training.validation_samples),
            ),
            (
                "training.checkpoint_every_steps",
                training.checkpoint_every_steps,
            ),
            ("training.patience", training.patience),
            ("data.clip_stride", Some(data.clip_stride as u64)),
            ("data.threads", count(data.threads)),
            ("data.prefetch", count(data.prefetch)),
        ];
        if let Some((key, _)) = counts.iter().find(|(_, count)| *count == Some(0)) {
            return Err(format!("`{key}`: expected 1 or more, found 0"));
        }
        let global_batch = count(self.distributed.global_batch);
        let most = [
            ("training.batch", Some(training.batch as u64), MOST_SAMPLES),
            (
                "training.accumulate",
                Some(training.accumulate as u64),
                MOST_SAMPLES,
            ),
            ("distributed.global_batch", global_batch, MOST_SAMPLES),
            ("training.steps", training.steps, MOST_STEPS),
            ("data.threads", count(data.threads), MOST_AHEAD),
            ("data.prefetch", count(data.prefetch), MOST_AHEAD),
        ];
        for (key, found, most) in most {
            if let Some(found) = found.filter(|found| *found > most) {
                return Err(format!("`{key}`: expected at most {most}, found {found}"));
            }
        }
        Ok(())
    }

    /// Checks the length of a training and its intervals in seconds.
    fn check_lengths(&self) -> Checked {
        let training = &self.training;
        if training.epochs.is_some() && training.steps.is_some() {
            return Err("`training.epochs` and `training.steps` are both given: keep one".into());
        }
        let positive = [
            ("training.epochs", training.epochs),
            (
                "training.checkpoint_every_seconds",
                Some(training.checkpoint_every_seconds),
            ),
            ("training.max_seconds", training.max_seconds),
        ];
        for (key, value) in positive {
            if let Some(value) = value
                && (value.is_nan() || value <= 0.0)
            {
                return Err(format!("`{key}`: expected above 0, found {value}"));
            }
        }
        self.check_early_end()?;
        match training.epochs.filter(|passes| *passes > MOST_PASSES) {
            Some(found) => Err(format!(
                "`training.epochs`: expected at most {MOST_PASSES}, found {found}"
            )),
            None => Ok(()),
        }
    }

    /// Rejects impossible target scores. Also rejects early stopping with groups: their servers receive scores after
    /// the ranks have moved on.
    fn check_early_end(&self) -> Checked {
        let training = &self.training;
        let possible = |score: f64| score > 0.0 && score <= 1.0;
        if let Some(found) = training.target_score.filter(|score| !possible(*score)) {
            return Err(format!(
                "`training.target_score`: expected above 0, up to 1, found {found}"
            ));
        }
        for (key, given) in [
            ("target_score", training.target_score.is_some()),
            ("patience", training.patience.is_some()),
        ] {
            if given && self.distributed.groups.is_some() {
                return Err(format!(
                    "`training.{key}`: with `distributed.groups` a run ends with its last step: leave it out"
                ));
            }
        }
        Ok(())
    }

    /// Rejects accumulation with groups, whose gradients go to the servers batch by batch.
    fn check_accumulation(&self) -> Checked {
        let found = self.training.accumulate;
        if found > 1 && self.distributed.groups.is_some() {
            return Err(format!(
                "`training.accumulate`: expected 1 with `distributed.groups`, found {found}: give a group more ranks, or `training.batch` \
                 more samples"
            ));
        }
        Ok(())
    }

    /// Rejects invalid decays, and averages with groups, whose servers keep none.
    fn check_average(&self) -> Checked {
        let Some(decay) = self.training.average else {
            return Ok(());
        };
        let possible = decay > 0.0 && decay < 1.0;
        if !possible {
            return Err(format!(
                "`training.average`: expected above 0 and below 1, such as 0.999, found {decay}"
            ));
        }
        if self.distributed.groups.is_some() {
            return Err(
                "`training.average`: with `distributed.groups` servers change the parameters, which keep no average: leave it out"
                    .into(),
            );
        }
        Ok(())
    }

    fn check_channels(&self) -> Checked {
        let Some(channels) = &self.data.channels else {
            return Ok(());
        };
        let mut once = channels.clone();
        once.sort();
        once.dedup();
        if channels.is_empty() || once.len() != channels.len() {
            return Err("`data.channels`: expected one or more, each once".into());
        }
        self.check_channels_in(channels.len())
    }

    /// Rejects a normalisation of a model where no model is named.
    fn check_normalisation(&self) -> Checked {
        let kept = self.data.normalisation == NormalisationChoice::StartFrom;
        if kept && self.training.start_from.is_none() {
            return Err(
                "`data.normalisation`: \"start_from\" is that of the model of `training.start_from`, which is not given"
                    .into(),
            );
        }
        Ok(())
    }

    /// Rejects a number of input channels that differs from the data's. The network's default does not count as a
    /// request: recipes that omit the key have it.
    pub(super) fn check_channels_in(&self, channels: usize) -> Checked {
        let found = self.network.channels_in;
        let default = NetworkConfig::of(self.network.name).channels_in;
        if ![channels, default].contains(&found) {
            return Err(format!(
                "`network.channels_in`: expected {channels}, the channels of the data, found {found}; leave it out, and choose channels with \
                 `data.channels`"
            ));
        }
        Ok(())
    }

    fn check_class_weights(&self) -> Checked {
        let Some(weights) = &self.loss.class_weights else {
            return Ok(());
        };
        let usable = weights.iter().all(|w| *w >= 0.0 && w.is_finite());
        if weights.len() != 3 || !usable || weights.iter().all(|w| *w == 0.0) {
            return Err(format!(
                "`loss.class_weights`: expected 3 numbers (background, tropical cyclone, atmospheric river), 0 or more, found {weights:?}"
            ));
        }
        Ok(())
    }

    /// Stochastic rounding requires bf16, and parameters that the ranks update themselves.
    fn check_rounding(&self) -> Checked {
        if self.precision.kernels != KernelRounding::Stochastic {
            return Ok(());
        }
        let compute = self.precision.compute;
        if compute.stored().is_some_and(|dtype| dtype != DType::BF16) {
            return Err(format!(
                "`precision.kernels`: \"stochastic\" rounds to bf16, and `precision.compute` is {compute:?}"
            ));
        }
        if self.distributed.groups.is_some() {
            return Err(
                "`precision.kernels`: with `distributed.groups` servers change the parameters, which round nothing: expected \"nearest\""
                    .into(),
            );
        }
        Ok(())
    }

    /// Rejects a network for another task.
    fn check_task(&self) -> Checked {
        let name = self.network.name;
        let (task, expected) = match name.is_detector() {
            true => (Task::Detect, "detect"),
            false => (Task::Segment, "segment"),
        };
        if task != self.task {
            return Err(format!(
                "`task`: the network `{}` needs \"{expected}\"",
                name.as_str()
            ));
        }
        Ok(())
    }

    /// Rejects a number of classes that differs from the task's.
    fn check_classes(&self) -> Checked {
        let (classes, what) = match self.task {
            Task::Segment => (Class::ALL.len(), "masks"),
            Task::Detect => (BoxClass::ALL.len(), "boxes"),
        };
        if self.network.classes != classes {
            return Err(format!(
                "`network.classes`: expected {classes}, the classes of {what}, found {}",
                self.network.classes
            ));
        }
        let masks = Class::ALL.len();
        if ![0, masks].contains(&self.network.mask_classes) {
            return Err(format!(
                "`network.mask_classes`: expected 0, or {masks} for masks of background, tropical cyclones and atmospheric rivers, found {}",
                self.network.mask_classes
            ));
        }
        Ok(())
    }

    /// Rejects unlabelled samples that fill the batch or teach nothing.
    fn check_unlabelled(&self) -> Checked {
        let beside = self.detection.unlabelled_per_batch;
        check_unlabelled(&self.distributed, self.training.batch, beside)?;
        // A network that outputs masks, too, trains on masks whatever is known of boxes.
        let network = &self.network;
        if beside > 0 && network.mask_classes == 0 && self.detection.pseudo_labels.is_none() {
            let name = network.name;
            let why = if !name.reconstructs() {
                format!("the network `{}` has no decoder", name.as_str())
            } else if !self.detection.reconstructs() {
                "`detection.loss.reconstruction` and `detection.reconstruction_end` are 0".into()
            } else {
                return Ok(());
            };
            return Err(format!(
                "`detection.unlabelled_per_batch`: expected 0, found {beside}: {why}, so samples without labels would teach nothing"
            ));
        }
        Ok(())
    }
}
