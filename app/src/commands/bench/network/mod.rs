//! `squall bench step|infer`: times a network's training step and inference, optionally against a peer.

mod ours;
mod turns;

use super::peer::Peer;
use super::{Row, forget_peak};
use crate::arguments::grid;
use crate::failure::Advice;
use crate::plan::bytes;
use candle_core::DType;
use clap::Args;
use clap::builder::{PossibleValuesParser, RangedU64ValueParser, TypedValueParser};
use ours::Ours;
use squall_jobs::Recipe;
use squall_jobs::recipe::BUILT_IN;
use squall_model::networks::NetworkName;
use squall_model::optim::{Optimizer, OptimizerConfig};
use squall_model::{
    Backend, Gradients, ModelError, Network, NetworkConfig, PrecisionPolicy, Recompute,
    SavedActivations, Storage,
};
use std::num::NonZeroUsize;
use std::path::Path;
use turns::take_turns;

/// Maximum number of samples per step: more must be a typing error.
const MOST_SAMPLES: u64 = 1 << 24;

/// Which network, and beside what.
#[derive(Debug, Clone, Args)]
pub struct NetworkOptions {
    /// Network name, or a recipe (file or built-in) for its network and batch.
    #[arg(long, default_value = "small")]
    network: String,
    /// Input size, latitudes x longitudes.
    #[arg(long, default_value = "192x288", value_parser = grid)]
    size: (usize, usize),
    /// Samples per batch [default: the recipe's, else 1].
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=MOST_SAMPLES))]
    batch: Option<usize>,
    /// Precision of activations. As in training, the first convolution and the output layers stay in f32.
    #[arg(long, value_parser = dtype(), default_value = "f32")]
    precision: DType,
    /// Keep no layer in f32, like PyTorch's autocast (recipe key `precision.all_layers`).
    #[arg(long)]
    all_layers: bool,
    /// What the backward pass recomputes: none, norms or blocks.
    #[arg(long, default_value = "none", value_parser = recompute)]
    recompute: Recompute,
    /// Save f32 activations as bf16 for the backward pass.
    #[arg(long)]
    saved_bf16: bool,
    /// GPU: launch the passes of a step as CUDA graphs.
    #[arg(long)]
    graphs: bool,
    /// Latitude strips of inference.
    #[arg(long, value_name = "N", default_value = "1")]
    strips: NonZeroUsize,
    /// Program to run the same network alternately, such as `validation/peers/step.py`; repeatable, the fastest counts.
    #[arg(long, value_name = "COMMAND")]
    peer: Vec<String>,
    /// Also profile one more step (or inference) by operation and shape.
    #[arg(long)]
    profile: bool,
}

/// A type of activations by its name.
pub(super) fn dtype() -> impl TypedValueParser<Value = DType> {
    PossibleValuesParser::new(["f32", "bf16", "f16"]).try_map(|name| name.parse::<DType>())
}

impl NetworkOptions {
    /// How a network's activations are stored.
    fn storage(&self, network: &Network) -> anyhow::Result<Storage> {
        let saved = if self.saved_bf16 {
            SavedActivations::Bf16
        } else {
            SavedActivations::Same
        };
        let policy = PrecisionPolicy {
            all_layers: self.all_layers,
            ..PrecisionPolicy::default()
        };
        let storage = policy.storage(network, self.precision)?;
        Ok(storage.keeping(self.recompute, saved))
    }

    /// Drops options of other kinds of work: when everything is measured, an option applies where it is known.
    pub(super) fn for_work(&self, work: Work) -> Self {
        match work {
            Work::Step => Self {
                strips: NonZeroUsize::MIN,
                ..self.clone()
            },
            Work::Infer => Self {
                graphs: false,
                recompute: Recompute::None,
                saved_bf16: false,
                ..self.clone()
            },
        }
    }

    /// The network configuration, the optimiser's, and the batch size.
    pub(super) fn resolve(&self) -> anyhow::Result<(NetworkConfig, OptimizerConfig, usize)> {
        let file = Path::new(&self.network);
        let is_recipe = BUILT_IN.iter().any(|(name, _)| *name == self.network) || file.is_file();
        let recipe = is_recipe.then(|| Recipe::named(file, &[])).transpose()?;
        if let Some(recipe) = recipe {
            let batch = self.batch.unwrap_or(recipe.training.batch);
            return Ok((recipe.network, recipe.optimiser, batch));
        }
        let name: NetworkName = self.network.parse().map_err(|error: ModelError| {
            let recipes = Recipe::built_in_names();
            let hint = format!("it may be a recipe, too: a TOML file, or one of {recipes}");
            Advice::usage(error.to_string(), hint)
        })?;
        let config = NetworkConfig::of(name);
        Ok((config, OptimizerConfig::default(), self.batch.unwrap_or(1)))
    }
}

/// The kind of work to time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// A training step.
    Step,
    /// Inference.
    Infer,
}

impl Work {
    /// Its name in the protocol of peers.
    fn name(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Infer => "infer",
        }
    }
}

/// Adds the time of one kind of work, compared with the fastest peer. If a peer fails, adds our time alone before
/// returning the error.
pub(super) fn measure(
    options: &NetworkOptions,
    repeat: usize,
    work: Work,
    rows_of_all: &mut Vec<Row>,
) -> anyhow::Result<()> {
    let (config, optimiser, batch) = options.resolve()?;
    let (rows, columns) = options.size;
    let backend = Backend::best();
    check_options(options, work, backend)?;
    // When everything is measured, other parts came before.
    forget_peak();
    // Checks the memory before any values are allocated.
    let mut network = Network::outline(&config, backend, 1)?;
    let of_optimiser = optimiser.values_kept(backend.is_gpu());
    let state = of_optimiser * network.parameters().count();
    let free = squall_jobs::free_memory(backend);
    // Parameters and, for a step, gradients and optimiser state.
    let kept = match work {
        Work::Step => 2 + of_optimiser,
        Work::Infer => 1,
    };
    network.check_memory(kept, free)?;
    let storage = options.storage(&network)?;
    let summary = network.summary(rows, columns)?;
    let needs = |batch| -> anyhow::Result<u64> {
        Ok(match work {
            Work::Step => summary.training_bytes(backend, batch, &storage, state),
            Work::Infer => summary.inference_bytes(backend, batch, &storage, options.strips)?,
        })
    };
    let predicted = needs(batch)?;
    tracing::info!("{} should be needed", bytes(predicted));
    let place = match backend.is_gpu() {
        true => "the GPU",
        false => "this process",
    };
    check_memory(options, batch, needs, place, free)?;
    network.fill()?;
    let learning = match work {
        Work::Step => Some((
            Optimizer::new(&optimiser, network.parameters())?,
            Gradients::new(network.parameters()),
        )),
        Work::Infer => None,
    };
    // On a GPU before the data are allocated, since the operands may not fit besides them.
    let before = if backend.is_gpu() {
        Some(backend.matrix_rate(storage.dtype)?)
    } else {
        None
    };
    let mut ours = Ours::new(network, learning, batch, options)?;
    let mut peers = start_peers(options, &config, batch)?;
    let mut turns = take_turns(&mut ours, &mut peers, work, repeat, before)?;
    let failed = turns.failed.take();
    let flops = match work {
        Work::Step => summary.training_flops,
        Work::Infer => summary.inference_flops,
    };
    let mut line = turns.row(options, work, batch, flops as f64);
    line.predicted_mb = Some(predicted as f64 / 1e6);
    rows_of_all.push(line);
    if options.profile {
        ours.print_profile(work)?;
    }
    failed.map_or(Ok(()), Err)
}

/// Rejects options of other work, and `--graphs` for work that cannot be captured, before anything is built: the row
/// would suggest that they took effect.
pub(super) fn check_options(
    options: &NetworkOptions,
    work: Work,
    backend: Backend,
) -> anyhow::Result<()> {
    let (option, obstacle) = match work {
        Work::Step if options.strips.get() > 1 => {
            ("--strips", "--strips is of inference: `squall bench infer`")
        }
        Work::Infer if options.recompute != Recompute::None => (
            "--recompute",
            "--recompute is of training steps: `squall bench step`",
        ),
        Work::Infer if options.saved_bf16 => (
            "--saved-bf16",
            "--saved-bf16 is of training steps: `squall bench step`",
        ),
        _ if !options.graphs => return Ok(()),
        Work::Infer => (
            "--graphs",
            "--graphs is of training steps: `squall bench step`",
        ),
        Work::Step if !backend.is_gpu() => {
            ("--graphs", "--graphs is of steps on a GPU: `--device cuda`")
        }
        Work::Step if options.profile => (
            "--graphs",
            "operations within graphs are not seen by --profile",
        ),
        Work::Step => return Ok(()),
    };
    Err(Advice::usage(obstacle, format!("leave {option} out")))
}

/// Rejects a batch that needs more than the free memory, and suggests one that fits.
fn check_memory(
    options: &NetworkOptions,
    batch: usize,
    needs: impl Fn(usize) -> anyhow::Result<u64>,
    place: &str,
    free: Option<u64>,
) -> anyhow::Result<()> {
    let (Some(free), needed) = (free, needs(batch)?) else {
        return Ok(());
    };
    if needed <= free {
        return Ok(());
    }
    let (mut least, mut most) = (0, batch);
    while least + 1 < most {
        let middle = least.midpoint(most);
        if needs(middle)? <= free {
            least = middle;
        } else {
            most = middle;
        }
    }
    let (network, (rows, columns)) = (&options.network, options.size);
    let (needed, free) = (bytes(needed), bytes(free));
    let hint = match least {
        0 => "give --precision bf16 or --recompute blocks".to_string(),
        fits => format!("--batch {fits} fits; --precision bf16 and --recompute blocks need less"),
    };
    Err(Advice::usage(
        format!(
            "a batch of {batch} of {network} at {rows} x {columns} needs {needed}, {place} may have {free}"
        ),
        hint,
    ))
}

/// Starts the programs that run the same network.
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
        ("--precision", options.precision.as_str().to_string()),
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

/// Number of cores available to this process.
pub(super) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Parses a recomputation mode.
fn recompute(name: &str) -> Result<Recompute, String> {
    let found = Recompute::ALL
        .into_iter()
        .find(|mode| mode.as_str() == name);
    found.ok_or_else(|| format!("expected none, norms or blocks, found {name}"))
}
