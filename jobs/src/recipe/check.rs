//! What a recipe may not ask for.

use super::{Recipe, Task};
use crate::error::{JobError, Result};
use squall_data::{BoxClass, Class};
use squall_model::optim::LossScale;
use squall_model::{KernelRounding, Precision};

impl Recipe {
    /// Refuses what makes no sense whatever the data.
    ///
    /// # Errors
    /// [`JobError::Recipe`] naming the key, what was expected and found.
    pub fn check(&self) -> Result<()> {
        let bad = |reason: String| Err(JobError::Recipe { path: None, reason });
        let training = &self.training;
        let counts = [
            ("training.batch", Some(training.batch as u64)),
            ("training.steps", training.steps),
            (
                "training.validate_every_steps",
                training.validate_every_steps,
            ),
            (
                "training.validation_samples",
                training.validation_samples.map(|n| n as u64),
            ),
            (
                "training.checkpoint_every_steps",
                training.checkpoint_every_steps,
            ),
            ("data.clip_stride", Some(self.data.clip_stride as u64)),
            ("data.threads", self.data.threads.map(|n| n as u64)),
            ("data.prefetch", self.data.prefetch.map(|n| n as u64)),
        ];
        if let Some((key, _)) = counts.iter().find(|(_, count)| *count == Some(0)) {
            return bad(format!("`{key}`: expected 1 or more, found 0"));
        }
        if training.epochs.is_some() && training.steps.is_some() {
            return bad("`training.epochs` and `training.steps` are both given: keep one".into());
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
            if value.is_some_and(|value| value.is_nan() || value <= 0.0) {
                return bad(format!(
                    "`{key}`: expected above 0, found {}",
                    value.unwrap_or(0.0)
                ));
            }
        }
        if let Err(reason) = self.distributed.check() {
            return bad(reason);
        }
        if let Some(channels) = &self.data.channels {
            let mut once = channels.clone();
            once.sort();
            once.dedup();
            if channels.is_empty() || once.len() != channels.len() {
                return bad("`data.channels`: expected one or more, each once".into());
            }
        }
        if let Some(weights) = &self.loss.class_weights {
            let usable = weights.iter().all(|w| *w >= 0.0 && w.is_finite());
            if weights.len() != 3 || !usable || weights.iter().all(|w| *w == 0.0) {
                return bad(format!(
                    "`loss.class_weights`: expected 3 numbers (background, tropical cyclone, atmospheric river), 0 or more, found {weights:?}"
                ));
            }
        }
        let section =
            |name: &str, error: squall_model::ModelError| bad(format!("[{name}] {error}"));
        if let Err(error) = self.loss.criterion(Vec::new()).check() {
            return section("loss", error);
        }
        if let Some(Err(error)) = self.precision.loss_scale.map(LossScale::new) {
            return section("precision", error);
        }
        if self.precision.kernels == KernelRounding::Stochastic {
            let compute = self.precision.compute;
            if matches!(compute, Precision::F32 | Precision::F16) {
                return bad(format!(
                    "`precision.kernels`: \"stochastic\" rounds to bf16, and `precision.compute` is {compute:?}"
                ));
            }
            if self.distributed.groups.is_some() {
                return bad(
                    "`precision.kernels`: with `distributed.groups` servers change the parameters, which round nothing: expected \"nearest\""
                        .into(),
                );
            }
        }
        if let Err(error) = self.optimiser.check() {
            return section("optimiser", error);
        }
        if let Err(error) = self.schedule.check() {
            return section("schedule", error);
        }
        if let Err(error) = self.network.check() {
            return section("network", error);
        }
        if let Err(reason) = self.detection.check() {
            return bad(reason);
        }
        self.check_task()
    }

    /// Refuses a network that does another task, and what a task cannot.
    fn check_task(&self) -> Result<()> {
        let bad = |reason: String| Err(JobError::Recipe { path: None, reason });
        let name = self.network.name;
        let task = match name.is_detector() {
            true => Task::Detect,
            false => Task::Segment,
        };
        if task != self.task {
            let expected = if task == Task::Detect {
                "detect"
            } else {
                "segment"
            };
            return bad(format!(
                "`task`: the network `{}` needs \"{expected}\"",
                name.as_str()
            ));
        }
        let (classes, what) = match self.task {
            Task::Segment => (Class::ALL.len(), "masks"),
            Task::Detect => (BoxClass::ALL.len(), "boxes"),
        };
        if self.network.classes != classes {
            return bad(format!(
                "`network.classes`: expected {classes}, the classes of {what}, found {}",
                self.network.classes
            ));
        }
        let masks = Class::ALL.len();
        if ![0, masks].contains(&self.network.mask_classes) {
            return bad(format!(
                "`network.mask_classes`: expected 0, or {masks} for masks of background, tropical cyclones and atmospheric rivers, found {}",
                self.network.mask_classes
            ));
        }
        let beside = self.detection.unlabelled_per_batch;
        if beside > 0 && beside >= self.training.batch {
            return bad(format!(
                "`detection.unlabelled_per_batch`: expected less than `training.batch`, {}, found {beside}",
                self.training.batch
            ));
        }
        // Masks, where a network gives them too, teach whatever is known of boxes.
        let network = &self.network;
        if beside > 0 && network.mask_classes == 0 && self.detection.pseudo_labels.is_none() {
            let why = if !name.reconstructs() {
                format!("the network `{}` has no decoder", name.as_str())
            } else if !self.detection.reconstructs() {
                "`detection.loss.reconstruction` and `detection.reconstruction_end` are 0".into()
            } else {
                return Ok(());
            };
            return bad(format!(
                "`detection.unlabelled_per_batch`: expected 0, found {beside}: {why}, so samples without labels would teach nothing"
            ));
        }
        Ok(())
    }
}
