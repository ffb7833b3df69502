//! `squall model import`: creates a model file from the weights of another program.

use super::export::open;
use super::normalisation;
use crate::failure::Advice;
use crate::{input, output};
use clap::Args;
use serde::Serialize;
use squall_jobs::{Contract, build_network};
use squall_model::exchange::{ImportOptions, ImportReport, Layout, Weights, import};
use squall_model::{Backend, ModelFile, Network};
use std::path::PathBuf;

/// Name of the fact with the origin of imported weights.
const FACT: &str = "imported";

/// The note about means and deviations that were not given with the weights.
const LIKE_NORMALISED: &str = "fields are normalised as those of --like were: if these weights were trained on fields normalised otherwise, give \
     --normalisation";

/// Make a model file from weights of PyTorch (.pt, .pth) or safetensors.
///
/// A weight that is missing, unknown or of the wrong shape is an error that names it. The meaning of the weights
/// (channels, normalisation, network) comes from the file, if `squall model export` wrote it, or from another model
/// with --like.
///
/// With --encoder-only, torchvision's ResNet-50 and -101 initialise a DeepLabV3+ encoder of width 1 with batch
/// normalisation. Theirs is post-activated and ours is not, so outputs differ until it is trained (recipe key
/// training.start_from).
#[derive(Debug, Args)]
#[command(
    after_help = "Example: squall model import weights.pt --like model/best.safetensors --out imported.safetensors"
)]
pub struct Import {
    /// PyTorch or safetensors file.
    #[arg(value_name = "WEIGHTS")]
    weights: PathBuf,
    /// Output model file.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Model file that provides contract, network and the weights that are not imported.
    #[arg(long, value_name = "MODEL")]
    like: Option<PathBuf>,
    /// Naming of the weights: pytorch (as exported), squall, torchvision-resnet, deepcam (MLPerf HPC) or cgnet
    /// (ClimateNet) [default: recognised by the names].
    #[arg(long, value_name = "NAME")]
    layout: Option<String>,
    /// JSON file with the means and deviations of the fields that the weights were trained on, such as ClimateNet's
    /// config.json [default: those of --like].
    #[arg(long, value_name = "FILE", requires = "like")]
    normalisation: Option<PathBuf>,
    /// Import only the encoder; keep the rest of --like.
    #[arg(long, requires = "like")]
    encoder_only: bool,
    /// Weights that may be missing and are then taken from --like, such as 'decoder.*'; repeatable.
    #[arg(long, value_name = "PATTERN", requires = "like")]
    allow_missing: Vec<String>,
    /// Print a summary as one JSON document.
    #[arg(long)]
    json: bool,
}

/// The origin of imported weights.
#[derive(Debug, Serialize)]
struct Origin<'a> {
    file: String,
    layout: &'a str,
    kept: &'a [String],
}

impl Import {
    /// Writes the model file and reports what was imported.
    pub fn run(self) -> anyhow::Result<()> {
        let like = self.like.as_deref().unwrap_or(&self.weights);
        let scales = self.normalisation.as_deref().unwrap_or(like);
        input::keep_inputs(&[&self.weights, like, scales], &self.out)?;
        let weights = Weights::read(&self.weights)?;
        let layout = match &self.layout {
            Some(name) => Layout::named(name)?,
            None => Layout::guess(&weights),
        };
        let (mut file, mut network) = self.target(&weights)?;
        let options = ImportOptions {
            encoder_only: self.encoder_only,
            allow_missing: self.allow_missing.clone(),
        };
        let mut report = import(&mut network, &weights, &layout, &options)?;
        // An encoder alone is an initial value: the training that follows has its own normalisation.
        if self.like.is_some() && self.normalisation.is_none() && !self.encoder_only {
            report.notes.push(LIKE_NORMALISED.to_string());
        }
        file.tensors = network.parameters().to_named()?;
        file.facts.insert(FACT.to_string(), self.origin(&report)?);
        file.write(&self.out)?;
        tracing::info!("wrote {}", self.out.display());
        output::result(&report, self.json)
    }

    /// The new model file, still without weights, and its network.
    fn target(&self, weights: &Weights) -> anyhow::Result<(ModelFile, Network)> {
        if let Some(like) = &self.like {
            let (_, mut contract, network) = open(like)?;
            // Training steps and score do not apply to the new weights.
            (contract.step, contract.score) = (0, None);
            if let Some(path) = &self.normalisation {
                contract.normalisation = normalisation::read(path, &contract.variables())?;
                contract.normalisation_hash = contract.normalisation.hash();
            }
            let mut file = ModelFile::default();
            contract.put(&mut file)?;
            return Ok((file, network));
        }
        let Some(facts) = &weights.facts else {
            return Err(Advice::usage(
                format!(
                    "`{}` holds weights, but not what they mean (channels, normalisation, network)",
                    self.weights.display()
                ),
                "give a model file of the same network with --like: its contract is taken",
            ));
        };
        let mut file = ModelFile {
            facts: facts.clone(),
            ..ModelFile::default()
        };
        let mut contract = Contract::of(facts, &self.weights)?;
        if weights.edited {
            tracing::info!(
                "these are not the weights that were exported: their training and score are not known"
            );
            (contract.step, contract.score) = (0, None);
            contract.put(&mut file)?;
        }
        let network = build_network(&contract.network, Backend::best(), 0)?;
        Ok((file, network))
    }

    fn origin(&self, report: &ImportReport) -> anyhow::Result<String> {
        Ok(serde_json::to_string(&Origin {
            file: input::name_of(&self.weights),
            layout: &report.layout,
            kept: &report.kept,
        })?)
    }
}
