//! `squall model show`: contract, tensors and norms of a weights file.

use crate::output;
use crate::plan::counted;
use clap::Args;
use serde::Serialize;
use squall_data::channel_source::in_words;
use squall_jobs::Contract;
use squall_jobs::contract::Channel;
use squall_model::exchange::Weights;
use std::fmt;
use std::path::PathBuf;

/// Show what a model file, a safetensors file or a PyTorch file holds.
#[derive(Debug, Args)]
#[command(after_help = "Example: squall model show model/best.safetensors")]
pub struct Show {
    /// Model file, or weights of another program.
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Also show every tensor: shape, norm, minimum and maximum.
    #[arg(long)]
    tensors: bool,
    /// Print JSON instead of text, with every tensor.
    #[arg(long)]
    json: bool,
}

/// One tensor.
#[derive(Debug, Serialize)]
struct Entry {
    name: String,
    shape: Vec<usize>,
    /// √Σ x².
    norm: f64,
    min: f32,
    max: f32,
    /// Number of infinite or NaN values.
    non_finite: usize,
}

#[derive(Debug, Serialize)]
struct Shown {
    path: String,
    contract: Option<Contract>,
    /// Why there is no contract.
    no_contract: Option<String>,
    /// Facts besides the contract, by name.
    facts: Vec<String>,
    notes: Vec<String>,
    values: usize,
    non_finite: usize,
    tensors: Vec<Entry>,
    #[serde(skip)]
    list: bool,
}

impl Show {
    /// Prints the contents of the file.
    pub fn run(self) -> anyhow::Result<()> {
        let weights = Weights::read(&self.model)?;
        let facts = weights.facts.clone().unwrap_or_default();
        let (contract, no_contract) = match Contract::of(&facts, &self.model) {
            Ok(contract) => (Some(contract), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let tensors: Vec<Entry> = weights
            .tensors
            .iter()
            .map(|(name, (shape, values))| entry(name, shape, values))
            .collect();
        let shown = Shown {
            path: self.model.display().to_string(),
            contract,
            no_contract,
            facts: (facts.into_keys())
                .filter(|name| name != "contract")
                .collect(),
            notes: weights.notes,
            values: weights.tensors.values().map(|(_, v)| v.len()).sum(),
            non_finite: tensors.iter().map(|tensor| tensor.non_finite).sum(),
            tensors,
            list: self.tensors,
        };
        output::result(&shown, self.json)
    }
}

fn entry(name: &str, shape: &[usize], values: &[f32]) -> Entry {
    let finite = || values.iter().copied().filter(|v| v.is_finite());
    Entry {
        name: name.to_string(),
        shape: shape.to_vec(),
        norm: finite().map(|v| f64::from(v).powi(2)).sum::<f64>().sqrt(),
        min: finite().reduce(f32::min).unwrap_or(f32::NAN),
        max: finite().reduce(f32::max).unwrap_or(f32::NAN),
        non_finite: values.len() - finite().count(),
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {}, {}",
            self.path,
            counted(self.tensors.len(), "tensor"),
            counted(self.values, "value")
        )?;
        match (&self.contract, &self.no_contract) {
            (Some(contract), _) => write_contract(f, contract)?,
            (None, reason) => {
                writeln!(f, "no contract: {}", reason.as_deref().unwrap_or("none"))?;
            }
        }
        if !self.facts.is_empty() {
            writeln!(f, "also      {}", self.facts.join(", "))?;
        }
        self.notes
            .iter()
            .try_for_each(|note| writeln!(f, "note      {note}"))?;
        if self.non_finite > 0 {
            writeln!(
                f,
                "warning   {} infinite or NaN",
                counted(self.non_finite, "value")
            )?;
        }
        if !self.list {
            return write!(f, "--tensors lists every tensor");
        }
        writeln!(
            f,
            "{:<48} {:>20} {:>11} {:>11} {:>11}",
            "", "shape", "norm", "min", "max"
        )?;
        for tensor in &self.tensors {
            let shape: Vec<String> = tensor.shape.iter().map(usize::to_string).collect();
            writeln!(
                f,
                "{:<48} {:>20} {:>11.4e} {:>11.3e} {:>11.3e}",
                tensor.name,
                shape.join(" x "),
                tensor.norm,
                tensor.min,
                tensor.max
            )?;
            if tensor.non_finite > 0 {
                writeln!(
                    f,
                    "    {} of its values are infinite or NaN",
                    tensor.non_finite
                )?;
            }
        }
        Ok(())
    }
}

fn write_contract(f: &mut fmt::Formatter<'_>, contract: &Contract) -> fmt::Result {
    let network = &contract.network;
    // The other keys do not apply to this network.
    let keys = network.name.own_keys();
    write!(
        f,
        "network   {}, width {}",
        network.name.as_str(),
        network.width
    )?;
    if keys.contains(&"blocks") {
        write!(f, ", blocks {:?}", network.blocks)?;
    }
    if keys.contains(&"output_stride") {
        write!(f, ", output stride {}", network.output_stride)?;
    }
    let normalises = if network.batch_norm { "" } else { "no " };
    writeln!(f, ", {normalises}batch normalisation")?;
    let (h, w) = contract.grid.shape;
    let latitude = match network.periodic_latitude {
        true => ", latitude padding periodic",
        false => "",
    };
    writeln!(
        f,
        "grid      {h} x {w}, longitude padding {}{latitude}",
        contract.longitude_padding
    )?;
    writeln!(f, "classes   {}", contract.classes.join(", "))?;
    if !contract.mask_classes.is_empty() {
        writeln!(f, "masks     {}", contract.mask_classes.join(", "))?;
    }
    let score = contract.score.map_or("not validated".to_string(), |score| {
        format!("{} {score:.3}", contract.score_name())
    });
    writeln!(f, "trained   {}, {score}", counted(contract.step, "step"))?;
    writeln!(f, "program   squall {}", contract.code_version)?;
    writeln!(f, "channels  (x - subtract) / divide")?;
    for (channel, scale) in contract
        .channels
        .iter()
        .zip(&contract.normalisation.channels)
    {
        let unit = &channel.unit;
        let name = channel.variable.name();
        let (subtract, divide) = (scale.subtract, scale.divide);
        writeln!(
            f,
            "  {name:<8} {unit:<10} {subtract:>14.6e} {divide:>14.6e}"
        )?;
    }
    write_sources(f, contract)
}

/// Lists what served in training as the channels that were not variables of their own names.
fn write_sources(f: &mut fmt::Formatter<'_>, contract: &Contract) -> fmt::Result {
    let is_other = |channel: &&Channel| {
        let mut sources = channel.sources.iter();
        sources.any(|source| !source.is_itself(channel.variable))
    };
    let mut others = contract.channels.iter().filter(is_other).peekable();
    if others.peek().is_some() {
        writeln!(f, "sources   what served as a channel in training")?;
    }
    others.try_for_each(|channel| {
        let name = channel.variable.name();
        writeln!(f, "  {name:<8} {}", in_words(&channel.sources))
    })
}
