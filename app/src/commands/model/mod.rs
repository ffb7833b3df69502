//! `squall model`: imports and exports weights, and shows the contents of model files.

mod export;
mod import;
mod normalisation;
mod show;

use clap::{Args, Subcommand};

/// Show a model file, import weights from PyTorch or safetensors, or export them to safetensors or ONNX.
#[derive(Debug, Args)]
pub struct Model {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Import(import::Import),
    Export(export::Export),
    Show(show::Show),
}

impl Model {
    /// Whether the action only prints.
    pub fn only_prints(&self) -> bool {
        matches!(self.action, Action::Show(_))
    }

    /// Runs the chosen action.
    pub fn run(self) -> anyhow::Result<()> {
        match self.action {
            Action::Import(action) => action.run(),
            Action::Export(action) => action.run(),
            Action::Show(action) => action.run(),
        }
    }
}
