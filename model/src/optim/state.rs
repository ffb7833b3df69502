//! What a checkpoint keeps of an optimiser: its moments and the number of steps taken.

use super::{Optimizer, Rule};
use crate::error::{ModelError, Result};
use crate::file_contents::FileContents;
use crate::model_file::ModelFile;
use std::borrow::Cow;
use std::path::Path;

/// The fact that keeps the number of steps taken.
const STEPS: &str = "optimizer.steps";
/// What the names of saved moments begin with.
const MOMENTS: [&str; 2] = ["optimizer.first.", "optimizer.second."];

impl Optimizer {
    /// The moments, in the order of [`crate::parameters::Parameter::range`]; the second is empty for SGD.
    ///
    /// # Errors
    /// [`ModelError::Gpu`] if they cannot be read.
    pub fn state(&self) -> Result<[Cow<'_, [f32]>; 2]> {
        #[cfg(feature = "cuda")]
        if let Some(state) = &self.on_gpu {
            let [first, second] = state.read()?;
            return Ok([Cow::Owned(first), Cow::Owned(second)]);
        }
        Ok([Cow::Borrowed(&self.first), Cow::Borrowed(&self.second)])
    }

    /// How many values [`Self::state`] has.
    pub fn state_len(&self) -> usize {
        let moments = if self.config.rule == Rule::Sgd { 1 } else { 2 };
        moments * self.count()
    }

    /// Lends the whole state to a model file, beside the parameters: a tensor of each moment for each of them.
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
        Ok(())
    }

    /// Puts a copy of the whole state into a model file, as [`Self::lend_to`] does.
    ///
    /// # Errors
    /// As [`Self::state`].
    pub fn save_into(&self, file: &mut ModelFile) -> Result<()> {
        let mut contents = FileContents::default();
        self.lend_to(&mut contents)?;
        contents.copy_into(file)
    }

    /// Takes up the state that [`Self::save_into`] put into `file`, which was read from `path`.
    ///
    /// # Errors
    /// [`ModelError::File`] if it is another rule's; [`ModelError::MissingWeight`] or [`ModelError::WeightShape`]
    /// naming the first moment that is missing or differs in shape from its parameter.
    pub fn load_from(&mut self, path: &Path, file: &ModelFile) -> Result<()> {
        let bad = |reason: String| ModelError::File {
            path: path.into(),
            reason,
        };
        let steps = file.fact(path, STEPS)?;
        let steps = (steps.parse()).map_err(|_| bad(format!("`{STEPS}` is `{steps}`")))?;
        let [first, second] = MOMENTS;
        let has_second = file.tensors.keys().any(|name| name.starts_with(second));
        let wants_second = self.config.rule != Rule::Sgd;
        if has_second != wants_second {
            let of = |second| if second { "Adam or LAMB" } else { "SGD" };
            return Err(bad(format!(
                "it holds the optimiser's state of {}, this run's rule is {}",
                of(has_second),
                of(!has_second)
            )));
        }
        let new_first = self.moment(path, file, first)?;
        let new_second = match wants_second {
            true => self.moment(path, file, second)?,
            false => Vec::new(),
        };
        #[cfg(feature = "cuda")]
        if let Some(state) = &mut self.on_gpu {
            state.write(&new_first, &new_second)?;
            self.step = steps;
            return Ok(());
        }
        (self.step, self.first, self.second) = (steps, new_first, new_second);
        Ok(())
    }

    /// The values of a moment, whose names in `file` begin with `prefix`.
    fn moment(&self, path: &Path, file: &ModelFile, prefix: &str) -> Result<Vec<f32>> {
        let mut values = vec![0.0; self.count()];
        for place in &self.places {
            let name = format!("{prefix}{}", place.name);
            match file.tensor(&name) {
                None => {
                    return Err(ModelError::MissingWeight {
                        path: path.into(),
                        name,
                        expected: place.shape.clone(),
                    });
                }
                Some((found, _)) if found != place.shape => {
                    return Err(ModelError::WeightShape {
                        path: path.into(),
                        name,
                        expected: place.shape.clone(),
                        found: found.into(),
                    });
                }
                Some((_, saved)) => values[place.range.clone()].copy_from_slice(saved),
            }
        }
        Ok(values)
    }
}
