//! The errors of this crate.

use crate::exchange::WeightProblem;
use std::path::PathBuf;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, ModelError>;

/// Every error that a configuration, a file or a caller's shapes can cause.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// An operation was given a tensor of a shape that it does not take.
    #[error("{op}: {what}: expected {expected}, got {got}")]
    Shape {
        /// The operation.
        op: &'static str,
        /// The argument that has the wrong shape.
        what: &'static str,
        /// The expected shape.
        expected: String,
        /// The actual shape.
        got: String,
    },
    /// Ranks that share batch statistics failed to exchange them, with the error of their communicator.
    #[error("batch normalisation over ranks: {0}")]
    BatchNormRanks(Box<dyn std::error::Error + Send + Sync>),
    /// An operation was given a data type it does not take.
    #[error("{op}: data type {got:?} is not supported (use f32, bf16 or f16)")]
    DType {
        /// The operation.
        op: &'static str,
        /// The data type that it was given.
        got: candle_core::DType,
    },
    /// A network, optimiser or schedule cannot be built from its configuration.
    #[error("bad configuration: `{key}`: {reason}")]
    Config {
        /// The key of the configuration.
        key: &'static str,
        /// What was expected and what was found.
        reason: String,
    },
    /// The values kept per parameter of a network exceed the available memory.
    #[error("the network has {:.1} million parameters, which need at least {:.1} GB of memory, {:.1} GB are to be had{}", *parameters as f64 / 1e6, *needed as f64 / 1e9, *available as f64 / 1e9, what_fits(fits))]
    Memory {
        /// The network's number of parameters.
        parameters: usize,
        /// Bytes needed for the values kept per parameter.
        needed: u64,
        /// Bytes available to the process.
        available: u64,
        /// Recipe settings that would make the network fit, each on its own: a key with its value, or two separated by
        /// a space.
        fits: Vec<String>,
    },
    /// More than one strip was requested of a network that cannot be computed in strips.
    #[error(
        "network `{network}` is computed as a whole, not in {strips} strips: only the decoders of DeepLabV3+ and DeepCAM can be cut"
    )]
    Strips {
        /// The network's name.
        network: String,
        /// The requested number of strips.
        strips: usize,
    },
    /// A weight is not in the model file.
    #[error("`{}`: weight `{name}` is missing (shape {expected:?})", path.display())]
    MissingWeight {
        /// The model file.
        path: PathBuf,
        /// The weight's path in the network.
        name: String,
        /// Its shape.
        expected: Vec<usize>,
    },
    /// A weight has a different shape from the network's.
    #[error("`{}`: weight `{name}`: expected shape {expected:?}, found {found:?}", path.display())]
    WeightShape {
        /// The model file.
        path: PathBuf,
        /// The weight's path in the network.
        name: String,
        /// Shape in the network.
        expected: Vec<usize>,
        /// Shape in the file.
        found: Vec<usize>,
    },
    /// Weights of another program do not fit the network.
    #[error("cannot import `{}` by the layout {layout}:{}", path.display(), listed(problems))]
    Import {
        /// The foreign file.
        path: PathBuf,
        /// The name of the layout by which it was read.
        layout: &'static str,
        /// Every weight that is missing, has a different shape, has no counterpart in the network or is not finite.
        problems: Vec<WeightProblem>,
    },
    /// A model file cannot be read.
    #[error("cannot read model file `{}`: {reason}", path.display())]
    File {
        /// The model file.
        path: PathBuf,
        /// Why: truncated, no safetensors header, ...
        reason: String,
    },
    /// A file of weights to import cannot be read.
    #[error("cannot read weights from `{}`: {reason}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The reason: damaged, of another format, no tensors where weights are expected, ...
        reason: String,
    },
    /// The operating system refused to read, write or rename something.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// The attempted action.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A gradient is not finite; parameters and optimiser state are unchanged.
    #[error("step {step}: the gradient of `{parameter}` is {value} at value {index}")]
    NotFinite {
        /// The step that was not taken, counted from 1.
        step: u64,
        /// The first parameter with a non-finite gradient.
        parameter: String,
        /// The index of the value within that parameter.
        index: usize,
        /// The value: NaN or an infinity.
        value: f32,
    },
    /// A label is not a class.
    #[error(
        "{op}: label {value} of sample {sample} at row {row}, column {column} is no class: expected below {classes}, or 255 (ignored)"
    )]
    Label {
        /// The operation.
        op: &'static str,
        /// The label.
        value: u8,
        /// The index of the sample in the batch.
        sample: usize,
        /// The index of the latitude.
        row: usize,
        /// The index of the longitude.
        column: usize,
        /// The number of classes of the logits.
        classes: usize,
    },
    /// A label is not a box that the network can represent.
    #[error("frame {frame} of the batch: box {index}: {reason}")]
    Box {
        /// The index of the frame in the batch.
        frame: usize,
        /// The index of the box in the frame.
        index: usize,
        /// Why the label is not a box.
        reason: String,
    },
    /// A network was used for a task that it does not perform.
    #[error("network `{network}` gives {gives}, not {asked}")]
    Task {
        /// The network's name.
        network: String,
        /// What the network outputs.
        gives: &'static str,
        /// What was requested.
        asked: &'static str,
    },
    /// An error from candle.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
    /// An error from the GPU or its libraries.
    #[error(transparent)]
    Gpu(#[from] crate::gpu::GpuError),
    /// An error from oneDNN.
    #[error("oneDNN: {op}: status {status} ({detail})")]
    OneDnn {
        /// The primitive.
        op: &'static str,
        /// `dnnl_status_t`.
        status: i32,
        /// Shapes and data types.
        detail: String,
    },
}

/// Settings that would make a network fit, in brackets; empty if there are none.
pub(crate) fn what_fits(keys: &[String]) -> String {
    match keys.is_empty() {
        true => String::new(),
        false => format!(" (what fits in its recipe: {})", keys.join(", or ")),
    }
}

/// The first problems with our weights and with the file's, one per line, and the number of further ones.
fn listed(problems: &[WeightProblem]) -> String {
    const SHOWN: usize = 8;
    let unknown = |problem: &&WeightProblem| matches!(problem, WeightProblem::Unknown { .. });
    let (theirs, ours): (Vec<_>, Vec<_>) = problems.iter().partition(unknown);
    let mut text = String::new();
    for side in [ours, theirs] {
        (side.iter().take(SHOWN)).for_each(|problem| text += &format!("\n  {problem}"));
        if side.len() > SHOWN {
            text += &format!("\n  and {} more like it", side.len() - SHOWN);
        }
    }
    text
}
