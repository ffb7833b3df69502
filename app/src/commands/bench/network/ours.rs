//! Our side of the network benchmark.

use super::{NetworkOptions, Work};
use candle_core::{Device, Tensor};
use squall_model::detection::{BoxTarget, DetectionLossConfig, DetectionTargets, MaskTargets};
use squall_model::ops::loss::Criterion;
use squall_model::optim::Optimizer;
use squall_model::{Backend, Captured, Gradients, Network, Pass, Storage, profile};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

/// Network, data and optimiser.
pub(super) struct Ours {
    network: Network,
    pub(super) backend: Backend,
    pub(super) storage: Storage,
    /// Optimiser and gradients for training; `None` for inference.
    learning: Option<(Optimizer, Gradients)>,
    x: Tensor,
    labels: Vec<u8>,
    key: u64,
    strips: NonZeroUsize,
    pub(super) graphs: bool,
    captured: Option<Arc<Captured>>,
}

impl Ours {
    pub(super) fn new(
        network: Network,
        learning: Option<(Optimizer, Gradients)>,
        batch: usize,
        options: &NetworkOptions,
    ) -> anyhow::Result<Self> {
        let (rows, columns) = options.size;
        let backend = network.backend();
        let config = network.config();
        let shape = (batch * config.frames(), rows, columns, config.channels_in);
        Ok(Self {
            backend,
            storage: options.storage(&network)?,
            learning,
            // On the compute device: a step does not wait for its input, which is copied in advance.
            x: backend.bring(&Tensor::randn(0f32, 1f32, shape, &Device::Cpu)?)?,
            labels: (0..batch * rows * columns)
                .map(|i| u8::from(i % 97 == 0))
                .collect(),
            network,
            key: 0,
            strips: options.strips,
            graphs: options.graphs,
            captured: None,
        })
    }

    /// Runs a training step if there is an optimiser, otherwise inference; waits for a GPU to finish.
    pub(super) fn work(&mut self) -> anyhow::Result<()> {
        self.begin()?;
        Ok(self.backend.wait()?)
    }

    /// Launches the work; a GPU may still be running when this returns.
    fn begin(&mut self) -> anyhow::Result<()> {
        let Some((optimizer, gradients)) = &mut self.learning else {
            return self.infer();
        };
        self.key += 1;
        // The first step loads kernels and selects algorithms.
        if self.graphs && self.key > 1 && self.captured.is_none() {
            let captured =
                Captured::capture(&self.network, &self.x, &self.storage, gradients, true)?;
            self.captured = Some(Arc::new(captured));
        }
        let mut pass =
            Pass::train(self.backend, &self.storage, self.key).launching(self.captured.clone());
        if self.network.is_detector() {
            let output = self.network.detect(&self.x, &mut pass, true)?;
            let boxes = vec![Some(vec![BOX]); output.frames()];
            let weights = vec![1.0; self.network.config().mask_classes];
            let criterion = Criterion::cross_entropy(&weights);
            let frames = self.x.dim(0)?;
            let masks = self.labels.chunks_exact(self.labels.len() / frames);
            let masks: Vec<_> = masks.map(Some).collect();
            let targets = DetectionTargets {
                fields: &self.x,
                boxes: &boxes,
                masks: self.network.gives_masks().then_some(MaskTargets {
                    labels: &masks,
                    criterion: &criterion,
                }),
            };
            let loss = output.loss(&targets, &DetectionLossConfig::default(), 1.0)?;
            self.network.update_running_statistics(&mut pass)?;
            gradients.clear();
            (self.network).backward_detection(loss.gradient, pass, gradients)?;
            optimizer.step(self.network.parameters_mut(), gradients, 1e-4)?;
            return Ok(());
        }
        let logits = self.network.forward(&self.x, &mut pass)?;
        let weights = vec![1.0; self.network.config().classes];
        let loss = (self.backend).softmax_cross_entropy(&logits, &self.labels, &weights, 1.0)?;
        self.network.update_running_statistics(&mut pass)?;
        gradients.clear();
        self.network.backward(&loss.gradient, pass, gradients)?;
        optimizer.step(self.network.parameters_mut(), gradients, 1e-4)?;
        Ok(())
    }

    fn infer(&self) -> anyhow::Result<()> {
        if self.network.is_detector() {
            self.network.find_boxes(&self.x, &self.storage, 0.5)?;
            return Ok(());
        }
        let logits = (self.network).infer_in_strips(&self.x, &self.storage, self.strips)?;
        self.backend.argmax(&logits)?;
        Ok(())
    }

    /// Profiles one more step or inference and prints the result.
    pub(super) fn print_profile(&mut self, work: Work) -> anyhow::Result<()> {
        profile::start();
        let started = Instant::now();
        self.work()?;
        let total = started.elapsed().as_secs_f64();
        let entries = profile::finish();
        let known: f64 = entries.iter().map(|entry| entry.time.as_secs_f64()).sum();
        tracing::info!(
            "{:.1} % of one {} of {total:.3} s is in these operations:",
            100.0 * known / total,
            work.name()
        );
        for entry in entries {
            let seconds = entry.time.as_secs_f64();
            let (share, calls) = (100.0 * seconds / total, entry.calls);
            tracing::info!(
                "{share:5.1} %  {:9.2} ms  {calls:3} x  {}",
                seconds * 1e3,
                entry.operation
            );
        }
        Ok(())
    }
}

/// The target of a detector in a benchmark: its position does not affect the time.
const BOX: BoxTarget = BoxTarget {
    class: 1,
    y_min: 20.0,
    x_min: 30.0,
    y_max: 36.0,
    x_max: 46.0,
};
