//! `squall model export`: a model file for PyTorch or ONNX Runtime.

use crate::arguments::grid;
use crate::failure::Advice;
use crate::input;
use clap::{Args, ValueEnum};
use squall_jobs::infer::check_finite;
use squall_jobs::{Contract, Recipe, build_network};
use squall_model::exchange::{Layout, PYTORCH, onnx, safetensors, sample};
use squall_model::{Backend, Network, StoredFile};
use std::path::{Path, PathBuf};

/// Write a model's weights for PyTorch (safetensors) or its network for any ONNX runtime.
///
/// Weights have PyTorch's layouts and names (norm.weight, norm.running_var): validation/peers/networks.py loads them.
/// An ONNX file takes normalised fields (batch, channel, latitude, longitude); the contract, with the normalisation, is
/// in its metadata.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  squall model export model/best.safetensors --out weights.safetensors\n  squall model export model/best.safetensors --out network.onnx"
)]
pub struct Export {
    /// Model file of `squall train`.
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Output file.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Format of the file [default: by the name of --out].
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Safetensors: naming and shapes of the weights, pytorch, squall (as in model files), deepcam (MLPerf HPC's
    /// network) or cgnet (ClimateNet's) [default: pytorch].
    #[arg(long, value_name = "NAME")]
    layout: Option<String>,
    /// ONNX and --sample: latitudes x longitudes [default: the grid of the training data].
    #[arg(long, value_parser = grid)]
    grid: Option<(usize, usize)>,
    /// ONNX: output only logits, not the class of each pixel.
    #[arg(long)]
    logits_only: bool,
    /// Masks: also write a made-up input and its logits, to check the exported copy. Its axes are (batch, latitude,
    /// longitude, channel); an ONNX graph has the channel second.
    #[arg(long, value_name = "FILE")]
    sample: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
enum Format {
    Safetensors,
    Onnx,
}

impl Export {
    /// Writes the file.
    pub fn run(self) -> anyhow::Result<()> {
        let format = self.format.map_or_else(|| format_of(&self.out), Ok)?;
        self.refuse_misfits(format)?;
        for out in std::iter::once(&self.out).chain(&self.sample) {
            input::keep_inputs(&[&self.model], out)?;
        }
        let (file, contract, network) = open(&self.model)?;
        check_finite(&self.model, &file)?;
        self.refuse_boxes(format, &contract)?;
        let grid = self.grid.unwrap_or(contract.grid.shape);
        match format {
            Format::Safetensors => {
                let layout = match &self.layout {
                    Some(name) => Layout::named(name)?,
                    None => PYTORCH,
                };
                let tensors = file.to_memory()?.tensors;
                safetensors::write(&self.out, &tensors, &layout, &file.facts)?;
            }
            Format::Onnx => {
                let options = onnx::OnnxOptions {
                    grid,
                    classes: !self.logits_only,
                };
                onnx::write(&self.out, &network, &options, &file.facts)?;
            }
        }
        tracing::info!("wrote {}", self.out.display());
        if let Some(path) = &self.sample {
            sample::sample(&network, grid, 1)?.write(path)?;
            tracing::info!("wrote {}", path.display());
        }
        Ok(())
    }

    /// Rejects options that have no effect on the output, and one name for two files.
    fn refuse_misfits(&self, format: Format) -> anyhow::Result<()> {
        let graph = format == Format::Onnx;
        let misfits = [
            (graph && self.layout.is_some(), "--layout", "safetensors"),
            (!graph && self.logits_only, "--logits-only", "ONNX files"),
            (
                !graph && self.grid.is_some() && self.sample.is_none(),
                "--grid",
                "ONNX files and --sample",
            ),
        ];
        let given = misfits.into_iter().find(|(misfit, ..)| *misfit);
        if let Some((_, option, of)) = given {
            return Err(Advice::usage(
                format!("{option} is for {of}, and has no effect here"),
                format!("leave {option} out"),
            ));
        }
        let whole = |path: &Path| std::path::absolute(path).ok();
        if let Some(sample) = &self.sample
            && whole(sample) == whole(&self.out)
        {
            return Err(Advice::usage(
                format!("--out and --sample are one file, `{}`", sample.display()),
                "choose another name for one of them",
            ));
        }
        Ok(())
    }

    /// Rejects a graph, or a sample, of a network that only outputs boxes: both end with the logits of masks.
    fn refuse_boxes(&self, format: Format, contract: &Contract) -> anyhow::Result<()> {
        let asked = match (format, &self.sample) {
            (Format::Onnx, _) => "an ONNX file",
            (_, Some(_)) => "--sample",
            _ => return Ok(()),
        };
        if !contract.network.name.is_detector() {
            return Ok(());
        }
        let recipe = Recipe::parse(&contract.recipe, &[]).map(|recipe| recipe.name);
        let of = recipe.map_or(String::new(), |name| format!(", of recipe `{name}`,"));
        let gives = match contract.network.mask_classes {
            0 => "boxes",
            _ => "boxes beside masks",
        };
        Err(Advice::usage(
            format!(
                "`{}`{of} gives {gives}, and {asked} is for models of masks alone",
                self.model.display()
            ),
            "its weights can be exported: with an --out that ends in .safetensors, and without --sample",
        ))
    }
}

fn format_of(path: &Path) -> anyhow::Result<Format> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("onnx") => Ok(Format::Onnx),
        Some("safetensors") => Ok(Format::Safetensors),
        _ => Err(Advice::usage(
            format!(
                "`{}` ends in neither .safetensors nor .onnx",
                path.display()
            ),
            "PyTorch reads safetensors with `safetensors.torch.load_file`; --format decides for other names",
        )),
    }
}

/// Opens a model file: its contract, and its network with the weights.
pub(super) fn open(path: &Path) -> anyhow::Result<(StoredFile<'static>, Contract, Network)> {
    let file = StoredFile::open(path)?;
    let contract = Contract::of(&file.facts, path)?;
    let mut network = build_network(&contract.network, Backend::best(), 0)?;
    network.parameters_mut().load(path, &file)?;
    Ok((file, contract, network))
}
