//! The exponential moving average of a network's parameters and running statistics, which is often a better network
//! than any single step.

use crate::error::Result;
use crate::file_contents::FileContents;
use crate::model_file::{bad, fact};
use crate::ops::host::{Host, expect};
use crate::parameters::Parameters;
use crate::tensors::{Tensors, expect_shape};
#[cfg(feature = "cuda")]
use candle_core::Tensor;
use rayon::prelude::*;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

/// The metadata key of the number of averaged steps.
const STEPS: &str = "average.steps";
/// The prefix of the names of saved averages.
const PREFIX: &str = "average.";
/// Values per task.
const CHUNK: usize = 1 << 14;

/// The average of all parameters and running statistics of a network over the steps of an optimiser.
///
/// After a step that t others preceded, average += (1 - d) (value - average) with d = min(decay, (1 + t) / (10 + t)).
/// The average follows fast at first, so that a long run forgets its initial values.
///
/// TensorFlow's `ExponentialMovingAverage` with `num_updates`; running statistics of batch normalisation as in timm's
/// `ModelEmaV2`, which averages the whole state of a network.
#[derive(Debug)]
pub struct Average {
    decay: f64,
    /// Steps averaged so far.
    steps: u64,
    /// The number of parameter values.
    count: usize,
    /// The averages of the parameters in flat order, in host memory; empty if the parameters lie on a GPU.
    values: Vec<f32>,
    /// The averages of the running statistics, concatenated.
    statistics: Vec<f32>,
    /// The averages of the parameters on a GPU.
    #[cfg(feature = "cuda")]
    on_gpu: Option<Tensor>,
}

impl Average {
    /// Starts as a copy of these parameters and running statistics, on their device; `decay` is above 0 and below 1.
    ///
    /// # Errors
    /// [`crate::ModelError::Gpu`] if the GPU that holds the parameters is out of memory; otherwise as [`Self::update`].
    pub fn new(decay: f64, parameters: &Parameters) -> Result<Self> {
        let count = parameters.count();
        #[cfg(feature = "cuda")]
        let on_gpu = match parameters.is_on_gpu() {
            true => Some(crate::ops::cuda::zeros(&[count], candle_core::DType::F32)?),
            false => None,
        };
        let in_host_memory = if parameters.is_on_gpu() { 0 } else { count };
        let mut average = Self {
            decay,
            steps: 0,
            count,
            values: vec![0.0; in_host_memory],
            statistics: statistics_of(parameters),
            #[cfg(feature = "cuda")]
            on_gpu,
        };
        average.begin(parameters)?;
        Ok(average)
    }

    /// Restarts from a copy of these parameters and running statistics.
    ///
    /// # Errors
    /// As [`Self::update`].
    pub fn begin(&mut self, parameters: &Parameters) -> Result<()> {
        self.check(parameters)?;
        let flat = parameters.flat()?;
        self.steps = 0;
        self.statistics = statistics_of(parameters);
        #[cfg(feature = "cuda")]
        if let Some(average) = &self.on_gpu {
            return crate::ops::cuda::copy_into(&flat, average);
        }
        self.values.copy_from_slice(&Host::of("average", &flat)?);
        Ok(())
    }

    /// Updates the average with the parameters and running statistics after a step.
    ///
    /// The result is bit-identical for any number of threads.
    ///
    /// # Errors
    /// [`crate::ModelError::Shape`] if they belong to another network; [`crate::ModelError::Candle`],
    /// [`crate::ModelError::Gpu`].
    pub fn update(&mut self, parameters: &Parameters) -> Result<()> {
        self.check(parameters)?;
        let flat = parameters.flat()?;
        let share = share(self.decay, self.steps);
        self.steps += 1;
        approach(&mut self.statistics, &statistics_of(parameters), share);
        #[cfg(feature = "cuda")]
        if let Some(average) = &self.on_gpu {
            return crate::ops::cuda::optimizer::average(average, &flat, share);
        }
        let values = Host::of("average", &flat)?;
        let chunks = self.values.par_chunks_mut(CHUNK);
        let chunks = chunks.zip(values.par_chunks(CHUNK));
        chunks.for_each(|(average, values)| approach(average, values, share));
        Ok(())
    }

    /// Swaps the averages with the network's own values. Call it before using the averaged network, and again before
    /// the next step. On a GPU all buffers keep their addresses, because captured passes refer to them.
    ///
    /// # Errors
    /// As [`Self::update`].
    pub fn exchange(&mut self, parameters: &mut Parameters) -> Result<()> {
        self.check(parameters)?;
        let theirs = statistics_of(parameters);
        parameters.set_buffers(&self.statistics)?;
        self.statistics = theirs;
        #[cfg(feature = "cuda")]
        if let Some(average) = &self.on_gpu {
            return parameters
                .update_on_gpu(|values| crate::ops::cuda::optimizer::exchange(values, average));
        }
        parameters.update_all(|values| values.swap_with_slice(&mut self.values))
    }

    /// The number of values kept.
    pub fn state_len(&self) -> usize {
        self.count + self.statistics.len()
    }

    /// Lends the average to a model file, beside the parameters: one tensor per parameter and per running statistic.
    ///
    /// # Errors
    /// As [`Self::update`].
    pub fn lend_to<'a>(
        &'a self,
        parameters: &Parameters,
        contents: &mut FileContents<'a>,
    ) -> Result<()> {
        self.check(parameters)?;
        let all = self.values()?;
        for parameter in parameters.iter() {
            let range = parameter.range.clone();
            let values: Cow<'a, [f32]> = match all {
                Cow::Borrowed(all) => Cow::Borrowed(&all[range]),
                Cow::Owned(ref all) => Cow::Owned(all[range].to_vec()),
            };
            contents.lend(saved(&parameter.name), parameter.tensor().dims(), values);
        }
        let mut left = &self.statistics[..];
        for buffer in parameters.buffers() {
            let (values, others) = left.split_at(buffer.values.len());
            contents.lend(saved(&buffer.name), &[values.len()], values);
            left = others;
        }
        let steps = self.steps.to_string();
        contents.facts.insert(STEPS.to_string(), steps);
        Ok(())
    }

    /// Restores what [`Self::lend_to`] saved, from the metadata and tensors of the file at `path`.
    ///
    /// # Errors
    /// [`crate::ModelError::File`] if the file holds no average; [`crate::ModelError::MissingWeight`] or
    /// [`crate::ModelError::WeightShape`] naming the first tensor that is missing or has another shape; in these cases
    /// nothing changes. [`crate::ModelError::Io`] if a tensor cannot be read, in which case some are already replaced.
    pub fn load_from(
        &mut self,
        parameters: &Parameters,
        path: &Path,
        facts: &BTreeMap<String, String>,
        tensors: &impl Tensors,
    ) -> Result<()> {
        self.check(parameters)?;
        let steps = fact(path, facts, STEPS)?;
        let steps = (steps.parse()).map_err(|_| bad(path, format!("`{STEPS}` is `{steps}`")))?;
        for parameter in parameters.iter() {
            let shape = parameter.tensor().dims();
            expect_shape(path, tensors, &saved(&parameter.name), shape)?;
        }
        for buffer in parameters.buffers() {
            let shape = [buffer.values.len()];
            expect_shape(path, tensors, &saved(&buffer.name), &shape)?;
        }
        let mut left = &mut self.statistics[..];
        for buffer in parameters.buffers() {
            let (values, others) = left.split_at_mut(buffer.values.len());
            tensors.read_into(&saved(&buffer.name), values)?;
            left = others;
        }
        self.read_values(parameters, tensors)?;
        self.steps = steps;
        Ok(())
    }

    /// Replaces the averages of parameters; on a GPU one at a time is staged in host memory.
    fn read_values(&mut self, parameters: &Parameters, tensors: &impl Tensors) -> Result<()> {
        #[cfg(feature = "cuda")]
        if let Some(average) = &self.on_gpu {
            let mut values = Vec::new();
            for parameter in parameters.iter() {
                let range = &parameter.range;
                values.resize(range.len(), 0.0);
                tensors.read_into(&saved(&parameter.name), &mut values)?;
                let place = average.narrow(0, range.start, range.len())?;
                crate::ops::cuda::write(&place, &values)?;
            }
            return Ok(());
        }
        for parameter in parameters.iter() {
            let values = &mut self.values[parameter.range.clone()];
            tensors.read_into(&saved(&parameter.name), values)?;
        }
        Ok(())
    }

    /// The averages of the parameters, in the order of [`crate::parameters::Parameter::range`].
    fn values(&self) -> Result<Cow<'_, [f32]>> {
        #[cfg(feature = "cuda")]
        if let Some(average) = &self.on_gpu {
            return Ok(Cow::Owned(crate::ops::cuda::read(average)?));
        }
        Ok(Cow::Borrowed(&self.values))
    }

    /// Checks that the parameters belong to the same network.
    fn check(&self, parameters: &Parameters) -> Result<()> {
        let statistics: usize = parameters.buffers().iter().map(|b| b.values.len()).sum();
        let what = "running statistics";
        expect("average", "parameters", self.count, parameters.count())?;
        expect("average", what, self.statistics.len(), statistics)
    }
}

/// The name under which the average of the tensor `name` is saved.
fn saved(name: &str) -> String {
    format!("{PREFIX}{name}")
}

/// All running statistics, concatenated.
fn statistics_of(parameters: &Parameters) -> Vec<f32> {
    let buffers = parameters.buffers().iter();
    buffers.flat_map(|buffer| &buffer.values).copied().collect()
}

/// The weight 1 - d of the new values in a step that `steps` others preceded.
fn share(decay: f64, steps: u64) -> f32 {
    let early = (1.0 + steps as f64) / (10.0 + steps as f64);
    (1.0 - decay.min(early)) as f32
}

/// Moves averages by this share of the distance to the values.
fn approach(average: &mut [f32], values: &[f32], share: f32) {
    for (average, value) in average.iter_mut().zip(values) {
        *average += share * (value - *average);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Backend;
    use crate::parameters::{BufferId, Kind};

    /// A bias of `length` ones, and a running statistic of 0.
    fn network(length: usize) -> (Parameters, BufferId) {
        let mut parameters = Parameters::new(1);
        (parameters.vector("bias".into(), Kind::Bias, length, 1.0)).unwrap();
        let running = parameters.buffer("running_mean".into(), 1, 0.0);
        parameters.settle(Backend::Reference).unwrap();
        (parameters, running)
    }

    fn first(average: &Average) -> [f32; 2] {
        [average.values().unwrap()[0], average.statistics[0]]
    }

    /// The effective decays are 1/10, 2/11 and 3/12 if the configured one is larger.
    #[test]
    fn three_steps_by_hand() {
        for (decay, expected) in [
            (
                0.999,
                [[1.9, 9.0], [3.618_181_8, 18.0], [6.904_545_5, 27.0]],
            ),
            (0.15, [[1.9, 9.0], [3.685, 18.35], [7.352_75, 28.2525]]),
        ] {
            let (mut parameters, running) = network(1);
            let mut average = Average::new(decay, &parameters).unwrap();
            assert_eq!(first(&average), [1.0, 0.0]);
            for (step, expected) in expected.into_iter().enumerate() {
                let value = [2.0, 4.0, 8.0][step];
                parameters.update_all(|values| values.fill(value)).unwrap();
                parameters
                    .running_mut(running)
                    .fill([10.0, 20.0, 30.0][step]);
                average.update(&parameters).unwrap();
                for (got, want) in first(&average).into_iter().zip(expected) {
                    let off = f64::from(got) / want - 1.0;
                    assert!(off.abs() < 1e-6, "{got} instead of {want}");
                }
            }
            // What begins anew is a copy, and the next step is the first one: nine tenths of the way.
            average.begin(&parameters).unwrap();
            assert_eq!(first(&average), [8.0, 30.0]);
            parameters.update_all(|values| values.fill(18.0)).unwrap();
            parameters.running_mut(running).fill(40.0);
            average.update(&parameters).unwrap();
            for (got, want) in first(&average).into_iter().zip([17.0, 39.0]) {
                assert!((got - want).abs() < 1e-4, "{got} instead of {want}");
            }
        }
        // After 8990 steps 0.999 is the smaller one.
        assert_eq!(share(0.999, 8_990), share(0.999, u64::MAX));
        assert!(share(0.999, 8_900) > share(0.999, 8_990));
    }

    #[test]
    fn bits_do_not_depend_on_the_number_of_threads() {
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
            pool.build().unwrap().install(|| {
                let (mut parameters, _) = network(3 * CHUNK + 5);
                let mut average = Average::new(0.9, &parameters).unwrap();
                for step in 1..4u16 {
                    let at = |i: usize| (i % 1013) as f32 / f32::from(step);
                    let fill = |values: &mut [f32]| {
                        (values.iter_mut().enumerate()).for_each(|(i, value)| *value = at(i));
                    };
                    parameters.update_all(fill).unwrap();
                    average.update(&parameters).unwrap();
                }
                average.values
            })
        };
        let one = run(1);
        assert!(one == run(2) && one == run(5));
    }

    #[test]
    fn an_exchange_there_and_back_changes_no_bit() {
        let (mut parameters, running) = network(3);
        let mut average = Average::new(0.9, &parameters).unwrap();
        parameters.update_all(|values| values.fill(3.0)).unwrap();
        parameters.running_mut(running).fill(7.0);
        let own = parameters.to_named().unwrap();
        let version = parameters.version();
        average.exchange(&mut parameters).unwrap();
        let named = parameters.to_named().unwrap();
        assert_eq!(named["bias"].1, [1.0; 3]);
        assert_eq!(named["running_mean"].1, [0.0]);
        assert_eq!(first(&average), [3.0, 7.0]);
        // What an optimiser knows of the values before holds no longer.
        assert_ne!(parameters.version(), version);
        average.exchange(&mut parameters).unwrap();
        assert_eq!(parameters.to_named().unwrap(), own);
        assert_eq!(first(&average), [1.0, 0.0]);
    }

    #[test]
    fn what_was_saved_goes_on_with_the_same_bits() {
        let path = Path::new("checkpoint.safetensors");
        let (mut parameters, running) = network(3);
        let mut average = Average::new(0.9, &parameters).unwrap();
        parameters.update_all(|values| values.fill(3.3)).unwrap();
        parameters.running_mut(running).fill(7.7);
        average.update(&parameters).unwrap();
        let mut contents = FileContents::default();
        average.lend_to(&parameters, &mut contents).unwrap();
        let facts = contents.facts.clone();
        let (mut other, _) = network(3);
        let mut restored = Average::new(0.9, &other).unwrap();
        (restored.load_from(&other, path, &facts, &contents)).unwrap();
        other.update_all(|values| values.fill(3.3)).unwrap();
        other.running_mut(running).fill(7.7);
        drop(contents);
        average.update(&parameters).unwrap();
        restored.update(&other).unwrap();
        assert_eq!(first(&restored), first(&average));
        assert_eq!(restored.steps, 2);

        // Another network's are refused, and so is a file without any.
        let mut contents = FileContents::default();
        average.lend_to(&parameters, &mut contents).unwrap();
        let (larger, _) = network(4);
        let mut other = Average::new(0.9, &larger).unwrap();
        let shape = other.load_from(&larger, path, &facts, &contents);
        let text = shape.unwrap_err().to_string();
        assert!(
            text.contains("`average.bias`") && text.contains("[4]"),
            "{text}"
        );
        assert!(other.update(&parameters).is_err());
        let none = other.load_from(&larger, path, &BTreeMap::new(), &contents);
        let text = none.unwrap_err().to_string();
        assert!(text.contains("`average.steps` is missing"), "{text}");
    }
}
