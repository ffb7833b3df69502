//! Exchange of weights with other programs: PyTorch, safetensors, ONNX.
//!
//! A foreign file is read as [`Weights`] (f32 tensors by their own names); a [`Layout`] maps every weight of ours to
//! the source of its values; [`import`] applies it to a [`crate::Network`]. A new layout consists of one function from
//! our name to a [`WeightSource`], and a line in [`Layout::ALL`].
//!
//! # Not done
//! Optimiser states, quantised tensors, PyTorch's file formats before version 1.6.

mod cgnet;
mod deepcam;
mod import;
mod layout;
pub mod onnx;
pub mod pickle;
mod report;
pub mod safetensors;
pub mod sample;
mod torchvision;
mod values;

pub use import::{ImportOptions, import};
pub use layout::{Layout, PYTORCH, SQUALL, WeightSource, pytorch_name};
pub use report::{ImportReport, WeightProblem};

use crate::error::{ModelError, Result};
use crate::parameters::NamedTensors;
use crate::stored_file::{PREFIX, unreadable};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

pub(crate) use crate::layers::batch_norm::EPS as EPSILON;

/// An upper limit on wrappers around one network; a damaged name may consist of megabytes of their prefixes.
const MOST_WRAPPERS: usize = 8;

/// The tensors of a foreign file.
#[derive(Debug, Clone, Default)]
pub struct Weights {
    /// The file.
    pub path: PathBuf,
    /// Shape and values, as f32, by the file's names.
    pub tensors: NamedTensors,
    /// Squall's facts, if Squall wrote the file.
    pub facts: Option<BTreeMap<String, String>>,
    /// Whether the weights differ from those that Squall exported with these facts.
    pub edited: bool,
    /// Other contents of the file, and changes made to names, one sentence each.
    pub notes: Vec<String>,
}

impl Weights {
    /// Reads a `.safetensors` file or a PyTorch file (`.pt`, `.pth`, `.cpt`, ...), identified by its content, not its
    /// name.
    ///
    /// # Errors
    /// [`ModelError::Io`] if it cannot be read; [`ModelError::Foreign`] if it has another format, is damaged, or holds
    /// no tensors.
    pub fn read(path: &Path) -> Result<Self> {
        let unreadable = |source| unreadable(path, source);
        let mut file = File::open(path).map_err(unreadable)?;
        let found = file.metadata().map_err(unreadable)?;
        let mut bytes = Vec::new();
        let begin = (&file).take(PREFIX as u64).read_to_end(&mut bytes);
        begin.map_err(unreadable)?;
        let zip = bytes.starts_with(b"PK\x03\x04");
        // A huge data file, given by mistake, is not read in full: its first bytes are enough to reject it.
        if zip || !found.is_file() || safetensors::may_be_of(&bytes, found.len()) {
            file.read_to_end(&mut bytes).map_err(unreadable)?;
        }
        let mut weights = if zip {
            pickle::parse(path, &bytes)?
        } else {
            safetensors::parse(path, &bytes)?
        };
        if weights.tensors.is_empty() {
            return Err(bad_file(path, "it holds no tensors"));
        }
        weights.strip_wrappers();
        Ok(weights)
    }

    /// Removes the prefixes that wrappers (data-parallel training, compilation) put before every name, in any order.
    fn strip_wrappers(&mut self) {
        for _ in 0..MOST_WRAPPERS {
            let Some(prefix) = self.wrapper() else { return };
            let tensors = std::mem::take(&mut self.tensors).into_iter();
            self.tensors = tensors
                .map(|(name, tensor)| (name[prefix.len()..].to_string(), tensor))
                .collect();
            let note = format!("the prefix `{prefix}` of every name was removed");
            self.notes.push(note);
        }
    }

    /// The wrapper prefix that all names have.
    fn wrapper(&self) -> Option<&'static str> {
        let all_have = |prefix: &&str| self.tensors.keys().all(|name| name.starts_with(*prefix));
        let prefixes = ["module.", "_orig_mod.", "model."].into_iter();
        prefixes.filter(|_| !self.tensors.is_empty()).find(all_have)
    }
}

fn bad_file(path: &Path, reason: impl Into<String>) -> ModelError {
    ModelError::Foreign {
        path: path.into(),
        reason: reason.into(),
    }
}
