//! Predicts whether a training run fits into memory, and which settings would fit.

mod available;
mod values;

pub use available::available_memory;
pub use values::{build_network, free_memory};
pub(crate) use values::{check_values, kept_values};

use crate::error::{JobError, Result};
use crate::recipe::Recipe;
use squall_model::summary::Summary;
use squall_model::{Backend, Recompute, SavedActivations, Storage};
use std::ops::Range;

/// How ranks share a step and memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sharing {
    /// Samples per batch on this rank.
    pub batch: usize,
    /// Batches per step, over all its ranks.
    pub step_batches: usize,
    /// Ranks that share this memory: those of the node, or one per GPU.
    pub memory_ranks: u64,
}

/// The quantities from which a training step's memory is predicted.
#[derive(Debug)]
pub(crate) struct Demand {
    pub summary: Summary,
    pub backend: Backend,
    pub storage: Storage,
    /// Number of values in the optimiser state and the average.
    pub state: usize,
    /// Number of values in rounded kernels and the optimiser's workspace, counted as f32; they are not sent to other
    /// ranks.
    pub beside: usize,
    /// Bytes per sample in all prefetched batches.
    pub loaded: u64,
    /// Whether the first rank broadcasts its state before the first step.
    pub spreads: bool,
}

impl Demand {
    /// Peak bytes: of a step of `batch` samples or, if larger, of broadcasting the first rank's state.
    pub fn bytes(&self, batch: usize) -> u64 {
        self.bytes_with(batch, &self.storage)
    }

    fn bytes_with(&self, batch: usize, storage: &Storage) -> u64 {
        let held = self.state + self.beside;
        let step = (self.summary).training_bytes(self.backend, batch, storage, held);
        // With a GPU the message is in host memory.
        let spreading = match self.spreads && !self.backend.is_gpu() {
            true => self.summary.spreading_bytes(self.state) + 4 * self.beside as u64,
            false => 0,
        };
        step.max(spreading) + batch as u64 * self.loaded
    }

    /// Rejects a run if this rank needs more than `available` bytes, unless the recipe overrides the check.
    ///
    /// # Errors
    /// [`JobError::Memory`] with the settings that would fit.
    pub fn check(&self, recipe: &Recipe, sharing: Sharing, available: Option<u64>) -> Result<()> {
        let needed = self.bytes(sharing.batch);
        match available {
            Some(available) if needed > available => {}
            _ => return Ok(()),
        }
        let available = available.unwrap_or(0);
        let too_little = |fits| JobError::Memory {
            needed,
            available,
            ranks: sharing.memory_ranks,
            fits,
        };
        if recipe.training.ignore_memory {
            tracing::warn!("{}", too_little(Vec::new()));
            return Ok(());
        }
        // Ranks that share a global batch get equal parts of it, of both kinds of samples.
        let (key, batches) = match recipe.distributed.global_batch {
            None => ("training.batch", 1),
            Some(_) => ("distributed.global_batch", sharing.step_batches),
        };
        let detection = &recipe.detection;
        let unlabelled = detection.unlabelled_per_batch / batches.max(1);
        let smaller = |batch: usize| {
            let mut words = format!("--set {key}={}", batch * batches);
            // At least one labelled sample must remain.
            if unlabelled >= batch {
                let beside = (batch - 1) * batches;
                words += &format!(" --set detection.unlabelled_per_batch={beside}");
            }
            words
        };
        // Pseudo-labels apply to unlabelled samples, so at least one of these must remain.
        let least = match unlabelled > 0 && detection.pseudo_labels.is_some() {
            true => 2,
            false => 1,
        };
        let mut fits = self.fits(least..sharing.batch, available, &smaller);
        fits.extend(self.in_parts(recipe, sharing.batch, available));
        Err(too_little(fits))
    }

    /// The setting that splits the same step into several batches, each the largest divisor of this one that fits.
    fn in_parts(&self, recipe: &Recipe, batch: usize, available: u64) -> Option<String> {
        // Groups take one batch per step, and every batch needs its share of the unlabelled samples.
        if recipe.distributed.groups.is_some() || recipe.detection.unlabelled_per_batch > 0 {
            return None;
        }
        let fits = |part: &usize| batch.is_multiple_of(*part) && self.bytes(*part) <= available;
        let part = (1..batch).rev().find(fits)?;
        let accumulate = recipe.training.accumulate * (batch / part);
        let batches = format!("--set training.accumulate={accumulate}");
        Some(match recipe.distributed.global_batch {
            None => format!("--set training.batch={part} {batches}"),
            Some(_) => batches,
        })
    }

    /// Settings that fit, smallest change first: first another way to keep activations at the same batch size, then the
    /// largest batch that fits without changing that, then the largest batch overall.
    fn fits(
        &self,
        smaller: Range<usize>,
        available: u64,
        smaller_batch: &dyn Fn(usize) -> String,
    ) -> Vec<String> {
        let mut found = Vec::new();
        let now = (self.storage.recompute, self.storage.saved);
        let ways = [SavedActivations::Same, SavedActivations::Bf16].into_iter();
        let ways = ways.flat_map(|saved| Recompute::ALL.map(|recompute| (recompute, saved)));
        let with = |(recompute, saved)| self.storage.clone().keeping(recompute, saved);
        let same_batch = ways.clone().filter(|way| *way != now);
        if let Some(way) = (same_batch.into_iter())
            .find(|way| self.bytes_with(smaller.end, &with(*way)) <= available)
        {
            found.push(settings(None, way, now));
        }
        let largest = |storage: &Storage| {
            (smaller.clone())
                .rev()
                .find(|&batch| self.bytes_with(batch, storage) <= available)
        };
        if let Some(batch) = largest(&self.storage) {
            found.push(settings(Some(smaller_batch(batch)), now, now));
        }
        if found.is_empty() {
            let best = ways.filter_map(|way| Some((largest(&with(way))?, way)));
            // The first of equal batches: it costs the least time and precision.
            let best = best.reduce(|a, b| if b.0 > a.0 { b } else { a });
            found.extend(best.map(|(batch, way)| settings(Some(smaller_batch(batch)), way, now)));
        }
        found
    }
}

/// Formats recipe overrides as command-line options.
fn settings(
    batch: Option<String>,
    (recompute, saved): (Recompute, SavedActivations),
    now: (Recompute, SavedActivations),
) -> String {
    let mut words: Vec<String> = batch.into_iter().collect();
    if recompute != now.0 {
        words.push(format!("--set training.recompute={}", recompute.as_str()));
    }
    if saved != now.1 {
        let saved = match saved {
            SavedActivations::Same => "same",
            SavedActivations::Bf16 => "bf16",
        };
        words.push(format!("--set training.saved_activations={saved}"));
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use squall_model::Network;

    fn demand(recipe: &Recipe) -> Demand {
        let network = Network::build(&recipe.network, Backend::best(), 1).unwrap();
        Demand {
            summary: network.summary(192, 288).unwrap(),
            backend: network.backend(),
            storage: candle_core::DType::F32.into(),
            state: 2 * network.parameters().count(),
            beside: 0,
            loaded: 0,
            spreads: false,
        }
    }

    /// Of a network that is large for its fields the state that all ranks get is the most, and no smaller batch helps.
    #[test]
    fn the_state_of_all_ranks_is_counted_where_it_needs_more_than_a_step() {
        let text = "[training]\nbatch = 2\n[network]\nname = 'tiramisu'";
        let recipe = Recipe::parse(text, &[]).unwrap();
        let network = Network::build(&recipe.network, Backend::Reference, 1).unwrap();
        let parameters = network.parameters().count();
        let mut demand = Demand {
            summary: network.summary(32, 32).unwrap(),
            backend: Backend::Reference,
            storage: candle_core::DType::F32.into(),
            state: 2 * parameters,
            beside: 0,
            loaded: 0,
            spreads: false,
        };
        // A rank alone reads a checkpoint to where it belongs, which a step needs too.
        let step = demand.bytes(1);
        let (of_step, state) = (&demand.summary, 2 * parameters);
        let of_step = of_step.training_bytes(Backend::Reference, 1, &demand.storage, state);
        assert_eq!(step, of_step);
        demand.spreads = true;
        let spreading = demand.bytes(1);
        // Values with Adam's moments twice: where they belong, and the message.
        assert!(spreading >= 4 * 6 * parameters as u64, "{spreading}");
        assert!(spreading > step, "{spreading} and {step}");
        // Rounded kernels are there, and are not sent.
        demand.beside = parameters;
        assert_eq!(demand.bytes(1), spreading + 4 * parameters as u64);
        demand.beside = 0;
        let two = Sharing {
            batch: 2,
            step_batches: 2,
            memory_ranks: 1,
        };
        match demand.check(&recipe, two, Some(spreading - 1)) {
            Err(JobError::Memory { needed, fits, .. }) => {
                assert!(needed >= spreading && fits.is_empty(), "{needed} {fits:?}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_with_what_would() {
        let recipe = Recipe::parse("[training]\nbatch = 4\n[network]\nwidth = 0.25", &[]).unwrap();
        let demand = demand(&recipe);
        let needs = |batch, recompute, saved| {
            demand.bytes_with(batch, &demand.storage.clone().keeping(recompute, saved))
        };
        let (same, bf16) = (SavedActivations::Same, SavedActivations::Bf16);
        let alone = Sharing {
            batch: 4,
            step_batches: 1,
            memory_ranks: 1,
        };
        let fits = |available: u64| match demand.check(&recipe, alone, Some(available)) {
            Err(JobError::Memory { fits, .. }) => fits,
            other => panic!("{other:?}"),
        };
        let all = needs(4, Recompute::None, same);
        demand.check(&recipe, alone, Some(all)).unwrap();
        demand.check(&recipe, alone, None).unwrap();
        assert_eq!(
            fits(all - 1),
            [
                "--set training.recompute=norms",
                "--set training.batch=3",
                "--set training.batch=2 --set training.accumulate=2"
            ]
        );
        let three = needs(3, Recompute::None, same);
        assert_eq!(
            fits(needs(4, Recompute::Blocks, same).max(three)),
            [
                if needs(4, Recompute::Norms, same) <= three {
                    "--set training.recompute=norms"
                } else {
                    "--set training.recompute=blocks"
                },
                "--set training.batch=3",
                "--set training.batch=2 --set training.accumulate=2"
            ]
        );
        let least = needs(1, Recompute::Blocks, bf16);
        let found = fits(least);
        assert!(
            found.len() == 1 && found[0].contains("training.batch=1"),
            "{found:?}"
        );
        assert!(fits(1000).is_empty());
        let mut anyway = recipe.clone();
        anyway.training.ignore_memory = true;
        demand.check(&anyway, alone, Some(1000)).unwrap();
    }

    /// Four ranks that share a batch of twelve hold three samples each, whatever `training.batch` says.
    #[test]
    fn ranks_are_checked_with_the_samples_that_they_take() {
        let text =
            "[training]\nbatch = 1\n[network]\nwidth = 0.25\n[distributed]\nglobal_batch = 12";
        let recipe = Recipe::parse(text, &[]).unwrap();
        let demand = demand(&recipe);
        let four = Sharing {
            batch: 3,
            step_batches: 4,
            memory_ranks: 2,
        };
        demand.check(&recipe, four, Some(demand.bytes(3))).unwrap();
        let available = demand.bytes(2);
        let error = demand.check(&recipe, four, Some(available)).unwrap_err();
        let told = error.to_string();
        assert!(
            told.contains("each of 2 ranks that share a memory"),
            "{told}"
        );
        let JobError::Memory { needed, fits, .. } = error else {
            panic!("{told}")
        };
        assert_eq!(needed, demand.bytes(3));
        for setting in ["distributed.global_batch=8", "training.accumulate=3"] {
            assert!(fits.contains(&format!("--set {setting}")), "{fits:?}");
        }
    }

    /// A batch that training would refuse, because samples without labels fill it, is no way out.
    #[test]
    fn suggested_batches_hold_a_labelled_sample() {
        let recipe = |text: &str| {
            let mut recipe = Recipe::parse(text, &[]).unwrap();
            recipe.detection.unlabelled_per_batch = 2;
            recipe
        };
        let fits = |recipe: &Recipe, sharing: Sharing, room: usize| {
            let demand = demand(recipe);
            match demand.check(recipe, sharing, Some(demand.bytes(room))) {
                Err(JobError::Memory { fits, .. }) => fits.join(", "),
                other => panic!("{other:?}"),
            }
        };
        let mut each = recipe("[training]\nbatch = 5\n[network]\nwidth = 0.25");
        let alone = Sharing {
            batch: 5,
            step_batches: 1,
            memory_ranks: 1,
        };
        let three = fits(&each, alone, 3);
        assert!(three.contains("--set training.batch=3"), "{three}");
        assert!(!three.contains("unlabelled"), "{three}");
        let two = fits(&each, alone, 2);
        let both = "--set training.batch=2 --set detection.unlabelled_per_batch=1";
        assert!(two.contains(both), "{two}");
        each.detection.pseudo_labels = Some("boxes.csv".into());
        let one = fits(&each, alone, 1);
        assert!(!one.contains("training.batch=1"), "{one}");

        let shared =
            "[training]\nbatch = 1\n[network]\nwidth = 0.25\n[distributed]\nglobal_batch = 6";
        let two_ranks = Sharing {
            batch: 3,
            step_batches: 2,
            memory_ranks: 1,
        };
        let both = "--set distributed.global_batch=2 --set detection.unlabelled_per_batch=0";
        let one = fits(&recipe(shared), two_ranks, 1);
        assert!(one.contains(both), "{one}");
    }
}
