//! Networks built from a configuration.
//!
//! Callers use [`Network`], which runs an `Architecture`: a struct of layers (`crate::layers`) that computes logits
//! (`forward`), adds gradients (`backward`) and derives its costs from shapes alone (`trace`). Each architecture has a
//! file here; `deeplab_v3_plus` is a good first one to read. Detectors also implement `Detector`, for boxes.
//!
//! To add a network: a variant of [`NetworkName`] before the last one, with its keys, its defaults in `config` and
//! their limits in `config::check`, its file here, and its line in `architecture::build`. The compiler finds the other
//! places, the lists of names among them, and tests run over all of [`NetworkName::ALL`]. Its published number of
//! parameters goes into `tests/published_networks.rs`.

mod architecture;
mod cgnet;
pub(crate) mod cgnet_block;
mod config;
mod decoder;
mod deepcam;
mod deeplab_v3_plus;
mod detector;
mod join;
mod keys;
mod latitude;
mod name;
mod parts;
mod prediction;
pub(crate) mod resnet;
mod size;
pub(crate) mod strips;
mod tiramisu;
pub(crate) mod xception;

pub use config::NetworkConfig;
pub use keys::FOREIGN_KEY;
pub use name::NetworkName;
pub use prediction::Prediction;

use crate::error::{ModelError, Result};
use crate::gradients::Gradients;
use crate::ops::Backend;
use crate::parameters::{ParameterId, Parameters};
use crate::pass::{BatchStatistics, Pass};
use crate::storage::Storage;
use crate::summary::Summary;
use crate::trace::Trace;
use architecture::Architecture;
use candle_core::{DType, Tensor};
use latitude::Latitudes;
use std::num::NonZeroUsize;

/// A network that maps fields to the logits of every class at every pixel (segmentation) or finds boxes
/// ([`Network::detect`], [`crate::detection`]).
///
/// # Shapes
/// `(b, h, w, c)` → `(b, h, w, k)`
///
/// # Example
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use squall_model::{Backend, Gradients, Network, NetworkConfig, Pass};
///
/// let config = NetworkConfig { width: 0.05, blocks: vec![1, 1], channels_in: 4, ..NetworkConfig::default() };
/// let mut network = Network::build(&config, Backend::best(), 1)?;
/// let x = Tensor::ones((1, 16, 32, 4), DType::F32, &Device::Cpu)?;
/// let mut pass = Pass::train(network.backend(), DType::F32, 0);
/// let logits = network.forward(&x, &mut pass)?;
/// assert_eq!(logits.dims(), [1, 16, 32, 3]);
/// let labels = vec![0; 16 * 32];
/// let loss = network.backend().softmax_cross_entropy(&logits, &labels, &[1.0; 3], 1.0)?;
/// let mut gradients = Gradients::new(network.parameters());
/// network.backward(&loss.gradient, pass, &mut gradients)?;
/// assert!(gradients.norm() > 0.0);
/// # Ok::<(), squall_model::ModelError>(())
/// ```
#[derive(Debug)]
pub struct Network {
    config: NetworkConfig,
    backend: Backend,
    parameters: Parameters,
    layers: Box<dyn Architecture>,
    latitudes: Latitudes,
}

impl Network {
    /// A network with initial values derived from `seed` and the parameters' names.
    ///
    /// # Errors
    /// [`crate::ModelError::Config`] naming the key whose value is invalid.
    pub fn build(config: &NetworkConfig, backend: Backend, seed: u64) -> Result<Self> {
        let mut network = Self::outline(config, backend, seed)?;
        network.fill()?;
        Ok(network)
    }

    /// A network without values: names, shapes and costs are known, and nothing large is allocated. Call [`Self::fill`]
    /// before any computation.
    ///
    /// # Errors
    /// As [`Self::build`]; also if the network has more parameters than any machine can hold.
    pub fn outline(config: &NetworkConfig, backend: Backend, seed: u64) -> Result<Self> {
        config.check()?;
        let mut parameters = Parameters::without_values(seed);
        let layers = architecture::build(&mut parameters, config)?;
        size::check_count(config, parameters.count())?;
        Ok(Self {
            config: config.clone(),
            backend,
            parameters,
            layers,
            latitudes: Latitudes::default(),
        })
    }

    /// Allocates the initial values of an outline, derived from its seed and the parameters' names.
    ///
    /// # Errors
    /// [`crate::ModelError::Gpu`] if the GPU is out of memory.
    pub fn fill(&mut self) -> Result<()> {
        self.parameters.fill(self.backend)
    }

    /// The configuration from which the network was built.
    pub fn config(&self) -> &NetworkConfig {
        &self.config
    }

    /// The backend that runs its operations.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Its parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The kernels of its output layers.
    pub(crate) fn outputs(&self) -> Vec<ParameterId> {
        self.layers.outputs()
    }

    /// Its parameters, for the optimiser and for loading weights.
    pub fn parameters_mut(&mut self) -> &mut Parameters {
        &mut self.parameters
    }

    /// The logits, f32.
    ///
    /// # Shapes
    /// x `(b, h, w, channels_in)` → `(b, h, w, classes)`; `mask_classes` for a detector that also outputs masks. Clips
    /// are for detectors only: [`Self::detect`].
    /// # Errors
    /// [`crate::ModelError::Shape`] if x does not fit.
    pub fn forward(&self, x: &Tensor, pass: &mut Pass) -> Result<Tensor> {
        if let Some((captured, _)) = pass.captured().cloned() {
            return captured.forward(x, pass);
        }
        let logits = (self.layers).forward(&self.parameters, pass, &self.inputs(x)?)?;
        self.backend.convert(&logits, DType::F32)
    }

    /// Adds to x the channels that the network derives itself.
    fn inputs(&self, x: &Tensor) -> Result<Tensor> {
        if !self.config.latitude_input {
            return Ok(x.clone());
        }
        let latitudes = self.latitudes.channels_for(x, self.backend)?;
        self.backend.concat(&[x, &latitudes])
    }

    /// Adds the gradient of every parameter to `gradients`, freeing the tape as it goes.
    ///
    /// # Shapes
    /// dlogits has the shape of the logits that [`Self::forward`] returned.
    /// # Errors
    /// [`crate::ModelError::Shape`] if the gradient does not have the shape of the logits.
    pub fn backward(
        &self,
        dlogits: &Tensor,
        mut pass: Pass,
        gradients: &mut Gradients,
    ) -> Result<()> {
        if let Some((captured, launch)) = pass.captured() {
            captured.backward(dlogits, *launch, gradients)?;
            gradients.complete();
            return Ok(());
        }
        pass.end_forward();
        let dlogits = dlogits.clone();
        self.layers
            .backward(&self.parameters, &mut pass, dlogits, gradients)?;
        gradients.complete();
        assert!(pass.is_tape_empty(), "a layer left something on the tape");
        Ok(())
    }

    /// Updates the running statistics of batch normalisation from a training pass.
    ///
    /// # Errors
    /// [`crate::ModelError::Gpu`] if they cannot be read.
    pub fn update_running_statistics(&mut self, pass: &mut Pass) -> Result<()> {
        self.blend_statistics(&pass.batch_statistics()?);
        Ok(())
    }

    /// Batch statistics of this network from [`BatchStatistics::values`], after passes and ranks have averaged them.
    pub fn statistics_of(&self, values: Vec<f32>) -> BatchStatistics {
        let buffers = self.parameters.buffer_ids();
        BatchStatistics { values, buffers }
    }

    /// Updates the running statistics of batch normalisation from batch statistics.
    pub fn blend_statistics(&mut self, statistics: &BatchStatistics) {
        let keep = self.config.batch_norm_decay;
        let mut fresh = statistics.values.iter();
        for &buffer in &statistics.buffers {
            let running = self.parameters.running_mut(buffer).iter_mut();
            for (running, fresh) in running.zip(fresh.by_ref()) {
                *running = keep * *running + (1.0 - keep) * fresh;
            }
        }
    }

    /// The logits of an inference pass, with running statistics folded into the kernels and no tape.
    ///
    /// # Shapes
    /// As [`Self::forward`].
    /// # Errors
    /// [`crate::ModelError::Shape`] if x does not fit.
    pub fn infer(&self, x: &Tensor, storage: impl Into<Storage>) -> Result<Tensor> {
        self.forward(x, &mut Pass::infer(self.backend, storage))
    }

    /// The number of strips that [`Self::infer_in_strips`] actually uses for a field of `height` rows when `strips` are
    /// requested.
    pub fn strips_of(height: usize, strips: NonZeroUsize) -> NonZeroUsize {
        let height = height.max(1);
        let count = height.div_ceil(strips::rows_of_strip(height, strips));
        NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN)
    }

    /// As [`Self::infer`], with the full-resolution part computed in this many strips of latitude, limited to one strip
    /// per four rows. It needs less memory and slightly more time, because strips overlap. With one strip it is
    /// [`Self::infer`].
    ///
    /// # Shapes
    /// As [`Self::forward`].
    /// # Errors
    /// [`crate::ModelError::Strips`] if the network does not support strips; [`crate::ModelError::Shape`] if x does not
    /// fit.
    pub fn infer_in_strips(
        &self,
        x: &Tensor,
        storage: impl Into<Storage>,
        strips: NonZeroUsize,
    ) -> Result<Tensor> {
        if strips.get() == 1 {
            return self.infer(x, storage);
        }
        let Some(layers) = self.layers.in_strips() else {
            return Err(ModelError::Strips {
                network: self.config.name.as_str().to_string(),
                strips: strips.get(),
            });
        };
        let mut pass = Pass::infer(self.backend, storage);
        strips::logits(
            layers,
            &self.parameters,
            &mut pass,
            &self.inputs(x)?,
            strips,
        )
    }

    /// The most probable class of every pixel, and on request the probabilities of all classes.
    ///
    /// # Shapes
    /// x as [`Self::forward`] takes it.
    /// # Errors
    /// [`crate::ModelError::Shape`] if x does not fit.
    pub fn predict(
        &self,
        x: &Tensor,
        storage: impl Into<Storage>,
        probabilities: bool,
    ) -> Result<Prediction> {
        self.predict_in_strips(x, storage, probabilities, NonZeroUsize::MIN)
    }

    /// As [`Self::predict`], by [`Self::infer_in_strips`].
    ///
    /// # Errors
    /// As [`Self::infer_in_strips`].
    pub fn predict_in_strips(
        &self,
        x: &Tensor,
        storage: impl Into<Storage>,
        probabilities: bool,
        strips: NonZeroUsize,
    ) -> Result<Prediction> {
        let logits = self.infer_in_strips(x, storage, strips)?;
        Prediction::from_logits(self.backend, &logits, probabilities)
    }

    /// Shapes and costs for one sample of (h, w); for a network over time a sample is a clip.
    ///
    /// # Errors
    /// [`crate::ModelError::Shape`] if the field is too small for the network; otherwise as [`Self::training_summary`].
    pub fn summary(&self, height: usize, width: usize) -> Result<Summary> {
        self.training_summary(height, width, true)
    }

    /// As [`Self::summary`], for training with or without a detector's decoder (the argument `reconstruct` of
    /// [`Self::detect`]). Without it the decoder's layers are not listed and cost neither operations nor activations,
    /// but its parameters still count.
    ///
    /// # Errors
    /// [`crate::ModelError::Shape`] if the field is too small for the network; [`crate::ModelError::Config`] if the
    /// number of operations overflows.
    pub fn training_summary(
        &self,
        height: usize,
        width: usize,
        reconstruct: bool,
    ) -> Result<Summary> {
        size::check_operations(&self.config, self.parameters.count(), height, width)?;
        let mut trace = match reconstruct {
            true => Trace::default(),
            false => Trace::without_training_only(),
        };
        let input = [height, width, self.config.channels_in];
        let frames = self.config.frames();
        let x = trace.input([frames, height, width, self.config.inputs()]);
        self.layers.trace(x, &mut trace)?;
        // A detector's mask decoder could run in strips, but its heads could not.
        if self.layers.in_strips().is_none() {
            trace.forbid_strips();
        }
        Ok(Summary::new(
            self.config.name.as_str(),
            frames,
            input,
            trace,
        ))
    }
}
