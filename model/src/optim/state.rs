//! The part of an optimiser that checkpoints save: its moments and step count.

use super::Optimizer;
use crate::error::Result;
use crate::file_contents::FileContents;
use crate::model_file::{ModelFile, bad, fact};
use crate::tensors::{Tensors, expect_shape};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

/// The metadata key of the step count.
const STEPS: &str = "optimizer.steps";
/// The metadata key of the update rule.
const RULE: &str = "optimizer.rule";
/// The prefixes of the names of saved moments.
static MOMENTS: [&str; 2] = ["optimizer.first.", "optimizer.second."];

impl Optimizer {
    /// The moments, in the order of [`crate::parameters::Parameter::range`]; the second is empty for SGD.
    ///
    /// # Errors
    /// [`crate::ModelError::Gpu`] if they cannot be read.
    pub fn state(&self) -> Result<[Cow<'_, [f32]>; 2]> {
        #[cfg(feature = "cuda")]
        if let Some(state) = &self.on_gpu {
            let [first, second] = state.read()?;
            return Ok([Cow::Owned(first), Cow::Owned(second)]);
        }
        Ok([Cow::Borrowed(&self.first), Cow::Borrowed(&self.second)])
    }

    /// The number of values in [`Self::state`].
    pub fn state_len(&self) -> usize {
        self.config.moments() * self.count()
    }

    /// The number of further values that exist only during a step.
    pub fn working_len(&self) -> usize {
        #[cfg(feature = "cuda")]
        let on_gpu = self.on_gpu.is_some();
        #[cfg(not(feature = "cuda"))]
        let on_gpu = false;
        (self.config.values_kept(on_gpu) - self.config.moments()) * self.count()
    }

    /// Lends the whole state to a model file, beside the parameters: one tensor per moment and parameter.
    ///
    /// # Errors
    /// As [`Self::state`].
    pub fn lend_to<'a>(&'a self, contents: &mut FileContents<'a>) -> Result<()> {
        for (prefix, values) in MOMENTS.iter().zip(self.state()?) {
            for place in self.places.iter().filter(|_| !values.is_empty()) {
                let range = place.range.clone();
                let values: Cow<'a, [f32]> = match values {
                    Cow::Borrowed(all) => Cow::Borrowed(&all[range]),
                    Cow::Owned(ref all) => Cow::Owned(all[range].to_vec()),
                };
                contents.lend(format!("{prefix}{}", place.name), &place.shape, values);
            }
        }
        let steps = self.step.to_string();
        contents.facts.insert(STEPS.to_string(), steps);
        let rule = self.config.rule.name().to_string();
        contents.facts.insert(RULE.to_string(), rule);
        Ok(())
    }

    /// Copies the whole state into a model file, in the form of [`Self::lend_to`].
    ///
    /// # Errors
    /// As [`Self::state`].
    pub fn save_into(&self, file: &mut ModelFile) -> Result<()> {
        let mut contents = FileContents::default();
        self.lend_to(&mut contents)?;
        contents.copy_into(file)
    }

    /// Restores what [`Self::lend_to`] or [`Self::save_into`] saved, from the metadata and tensors of the file at
    /// `path`. Moments are read in place; on a GPU those of one parameter at a time are staged in host memory.
    ///
    /// # Errors
    /// [`crate::ModelError::File`] if the file has the state of another rule; [`crate::ModelError::MissingWeight`] or
    /// [`crate::ModelError::WeightShape`] naming the first moment that is missing or differs in shape from its
    /// parameter; in these cases nothing changes. [`crate::ModelError::Io`] if a tensor cannot be read, in which case
    /// some are already replaced.
    pub fn load_from(
        &mut self,
        path: &Path,
        facts: &BTreeMap<String, String>,
        tensors: &impl Tensors,
    ) -> Result<()> {
        let steps = fact(path, facts, STEPS)?;
        let steps = (steps.parse()).map_err(|_| bad(path, format!("`{STEPS}` is `{steps}`")))?;
        let prefixes = self.prefixes(path, facts, tensors)?;
        for prefix in prefixes {
            for place in &self.places {
                let name = format!("{prefix}{}", place.name);
                expect_shape(path, tensors, &name, &place.shape)?;
            }
        }
        self.read_moments(prefixes, tensors)?;
        self.step = steps;
        Ok(())
    }

    /// The name prefixes of this rule's moments, after checking that the state is of this rule. Earlier versions saved
    /// no rule: of their files only the number of moments is known.
    fn prefixes(
        &self,
        path: &Path,
        facts: &BTreeMap<String, String>,
        tensors: &impl Tensors,
    ) -> Result<&'static [&'static str]> {
        let (own, moments) = (self.config.rule.name(), self.config.moments());
        let is_saved = |prefix: &&&str| tensors.names().any(|name| name.starts_with(**prefix));
        let reason = match facts.get(RULE) {
            Some(rule) if rule == own => return Ok(&MOMENTS[..moments]),
            Some(rule) => {
                format!("it holds the optimiser's state of `{rule}`, this run's rule is `{own}`")
            }
            None => match MOMENTS.iter().filter(is_saved).count() {
                saved if saved == moments => return Ok(&MOMENTS[..moments]),
                saved => format!(
                    "the optimiser's moments in it are {saved} per parameter, those of this run's rule `{own}` {moments}"
                ),
            },
        };
        Err(bad(path, reason))
    }

    /// Replaces the moments saved under these prefixes.
    fn read_moments(&mut self, prefixes: &[&str], tensors: &impl Tensors) -> Result<()> {
        #[cfg(feature = "cuda")]
        if let Some(state) = &mut self.on_gpu {
            let mut values = Vec::new();
            for (moment, prefix) in prefixes.iter().enumerate() {
                for place in &self.places {
                    values.resize(place.range.len(), 0.0);
                    tensors.read_into(&format!("{prefix}{}", place.name), &mut values)?;
                    state.write(moment, place.range.clone(), &values)?;
                }
            }
            return Ok(());
        }
        for (prefix, moment) in (prefixes.iter()).zip([&mut self.first, &mut self.second]) {
            for place in &self.places {
                let values = &mut moment[place.range.clone()];
                tensors.read_into(&format!("{prefix}{}", place.name), values)?;
            }
        }
        Ok(())
    }
}
