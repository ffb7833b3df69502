//! `squall bench step|infer`: a network's training step and inference, beside a peer if one is given.

use super::peer::Peer;
use super::{Row, median, row};
use crate::commands::simulate::grid;
use crate::commands::train::RECIPES;
use crate::plan::{bytes, peak_memory};
use candle_core::{DType, Device, Tensor};
use clap::{Args, ValueEnum};
use squall_jobs::Recipe;
use squall_model::detection::{BoxTarget, DetectionLossConfig, DetectionTargets, MaskTargets};
use squall_model::ops::loss::Criterion;
use squall_model::optim::{Optimizer, OptimizerConfig};
use squall_model::{
    Backend, Gradients, Network, NetworkConfig, Pass, Recompute, SavedActivations, Storage, profile,
};
use std::num::NonZeroUsize;
use std::time::Instant;

/// Which network, and beside what.
#[derive(Debug, Args)]
pub struct NetworkOptions {
    /// A built-in recipe (its network and batch) or the name of a network.
    #[arg(long, default_value = "small")]
    network: String,
    /// Latitudes x longitudes of a network's input.
    #[arg(long, default_value = "192x288", value_parser = grid)]
    size: (usize, usize),
    /// Samples of a step; as the recipe has it, else 1.
    #[arg(long)]
    batch: Option<usize>,
    /// How activations are stored and computed.
    #[arg(long, value_enum, default_value = "f32")]
    precision: Stored,
    /// What the backward pass computes again: none, norms or blocks.
    #[arg(long, default_value = "none", value_parser = recompute)]
    recompute: Recompute,
    /// Keep f32 activations as bf16 for the backward pass.
    #[arg(long)]
    saved_bf16: bool,
    /// Strips of latitude of inference.
    #[arg(long, default_value = "1")]
    strips: NonZeroUsize,
    /// A program that runs the same network in alternation (`validation/peers/step.py`); of several the fastest counts.
    #[arg(long, value_name = "COMMAND")]
    peer: Vec<String>,
    /// Print where the time of one more step (or inference) goes, by operation and shape.
    #[arg(long)]
    profile: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
enum Stored {
    F32,
    Bf16,
    F16,
}

impl Stored {
    fn dtype(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::Bf16 => DType::BF16,
            Self::F16 => DType::F16,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
        }
    }
}

impl NetworkOptions {
    /// How activations are stored.
    fn storage(&self) -> Storage {
        let saved = if self.saved_bf16 {
            SavedActivations::Bf16
        } else {
            SavedActivations::Same
        };
        Storage::from(self.precision.dtype()).keeping(self.recompute, saved)
    }

    /// The configuration, the optimiser's, and the batch.
    fn resolve(&self) -> anyhow::Result<(NetworkConfig, OptimizerConfig, usize)> {
        if let Some((_, text)) = RECIPES.iter().find(|(name, _)| *name == self.network) {
            let recipe = Recipe::parse(text, &[])?;
            let batch = self.batch.unwrap_or(recipe.training.batch);
            return Ok((recipe.network, recipe.optimiser, batch));
        }
        let config = NetworkConfig::of(self.network.parse()?);
        Ok((config, OptimizerConfig::default(), self.batch.unwrap_or(1)))
    }
}

/// What a network is timed at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// A training step.
    Step,
    /// Inference.
    Infer,
}

impl Work {
    /// As peers know it.
    fn name(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Infer => "infer",
        }
    }
}

/// The time of one kind of work, beside that of the fastest peer.
pub(super) fn measure(options: &NetworkOptions, repeat: usize, work: Work) -> anyhow::Result<Row> {
    let (config, optimiser, batch) = options.resolve()?;
    let (rows, columns) = options.size;
    let mut ours = Ours::new(
        &config,
        (work == Work::Step).then_some(&optimiser),
        (batch, rows, columns),
        options.storage(),
    )?;
    ours.strips = options.strips;
    let mut peers = start_peers(options, &config, batch)?;
    let summary = ours.network.summary(rows, columns)?;
    let predicted = match &ours.learning {
        Some((optimizer, _)) => {
            let state = optimizer.state_len();
            summary.training_bytes(ours.backend, batch, &ours.storage, state)
        }
        None => summary.inference_bytes(ours.backend, batch, &ours.storage, options.strips)?,
    };
    tracing::info!("{} should be needed", bytes(predicted));
    let (mut our_times, mut rates) = (Vec::new(), Vec::new());
    let mut their_times = vec![Vec::new(); peers.len()];
    let mut peak = 0;
    // The first turn builds what is kept.
    for turn in 0..=repeat.max(1) {
        let started = Instant::now();
        ours.work()?;
        let seconds = started.elapsed().as_secs_f64();
        if turn == 1 {
            // Before the products of the ceiling take memory, too.
            peak = peak_memory();
        }
        if turn > 0 {
            our_times.push(seconds / batch as f64);
            rates.push(ours.backend.matrix_rate(ours.storage.dtype)?);
        }
        for (peer, times) in peers.iter_mut().zip(&mut their_times) {
            let answer = peer.time(work.name())?;
            tracing::info!(
                "{} {turn}: {seconds:.3} s; PyTorch {} {} {:.3} s, peak {:.0} MB",
                work.name(),
                answer.torch,
                answer.mode,
                answer.seconds,
                answer.peak_rss_mb
            );
            if turn > 0 {
                times.push(answer.seconds / batch as f64);
            }
        }
    }
    let (verb, flops) = match work {
        Work::Step => ("train", summary.training_flops),
        Work::Infer => ("infer", summary.forward_flops),
    };
    let (network, precision) = (&options.network, options.precision.name());
    let ceiling = flops as f64 / median(&mut rates);
    let mut line = row(
        format!("{verb} a sample, {network} {rows} x {columns}, {precision}"),
        median(&mut our_times),
        Some(ceiling),
        "its operations at the rate of matrix products of that type",
    );
    line.peak_mb = peak as f64 / 1e6;
    line.predicted_mb = Some(predicted as f64 / 1e6);
    let medians = their_times.iter_mut().map(|times| median(times));
    if let Some(theirs) = medians.min_by(f64::total_cmp) {
        line.peer = Some(theirs);
        line.ratio = Some(theirs / line.ours);
    }
    if options.profile {
        print_profile(&mut ours, work)?;
    }
    Ok(line)
}

/// The programs that run the same network, ready.
fn start_peers(
    options: &NetworkOptions,
    config: &NetworkConfig,
    batch: usize,
) -> anyhow::Result<Vec<Peer>> {
    let (rows, columns) = options.size;
    let arguments = [
        ("--network", serde_json::to_string(config)?),
        ("--size", format!("{rows}x{columns}")),
        ("--batch", batch.to_string()),
        ("--precision", options.precision.name().to_string()),
        ("--threads", threads().to_string()),
    ];
    let mut words: Vec<String> = vec!["--serve".into(), "--warmup".into(), "1".into()];
    for (key, value) in arguments {
        words.extend([key.to_string(), value]);
    }
    let commands = options.peer.iter();
    commands
        .map(|command| Peer::start(command, &words))
        .collect()
}

/// Network, data and optimiser.
struct Ours {
    network: Network,
    backend: Backend,
    storage: Storage,
    /// Of a benchmark that trains.
    learning: Option<(Optimizer, Gradients)>,
    x: Tensor,
    labels: Vec<u8>,
    key: u64,
    strips: NonZeroUsize,
}

impl Ours {
    fn new(
        config: &NetworkConfig,
        optimiser: Option<&OptimizerConfig>,
        (batch, rows, columns): (usize, usize, usize),
        storage: Storage,
    ) -> anyhow::Result<Self> {
        let backend = Backend::best();
        let network = Network::build(config, backend, 1)?;
        let learning = |optimiser| -> anyhow::Result<_> {
            let optimizer = Optimizer::new(optimiser, network.parameters())?;
            Ok((optimizer, Gradients::new(network.parameters())))
        };
        let shape = (batch * config.frames(), rows, columns, config.channels_in);
        Ok(Self {
            backend,
            storage,
            learning: optimiser.map(learning).transpose()?,
            // Where the network computes: a step does not wait for its input, which is on its way before.
            x: backend.bring(&Tensor::randn(0f32, 1f32, shape, &Device::Cpu)?)?,
            labels: (0..batch * rows * columns)
                .map(|i| u8::from(i % 97 == 0))
                .collect(),
            network,
            key: 0,
            strips: NonZeroUsize::MIN,
        })
    }

    /// A training step, if there is an optimiser; else inference.
    fn work(&mut self) -> anyhow::Result<()> {
        let Some((optimizer, gradients)) = &mut self.learning else {
            if self.network.is_detector() {
                self.network.find_boxes(&self.x, &self.storage, 0.5)?;
                return Ok(());
            }
            let logits = (self.network).infer_in_strips(&self.x, &self.storage, self.strips)?;
            self.backend.argmax(&logits)?;
            return Ok(());
        };
        self.key += 1;
        let mut pass = Pass::train(self.backend, &self.storage, self.key);
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
}

/// What a detector learns in a benchmark: the place does not matter to the time.
const BOX: BoxTarget = BoxTarget {
    class: 1,
    y_min: 20.0,
    x_min: 30.0,
    y_max: 36.0,
    x_max: 46.0,
};

fn print_profile(ours: &mut Ours, work: Work) -> anyhow::Result<()> {
    profile::start();
    let started = Instant::now();
    ours.work()?;
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

/// Cores that this process may use.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A mode by its name.
fn recompute(name: &str) -> Result<Recompute, String> {
    let found = Recompute::ALL
        .into_iter()
        .find(|mode| mode.as_str() == name);
    found.ok_or_else(|| format!("expected none, norms or blocks, found {name}"))
}
