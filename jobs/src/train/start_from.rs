//! Initial weights from a model file: `training.start_from`.

use super::step::Learner;
use crate::contract::Contract;
use crate::error::{JobError, Result};
use crate::infer::check_finite;
use crate::recipe::Recipe;
use squall_model::{NetworkConfig, StoredFile, Tensors};
use std::collections::HashSet;
use std::path::Path;

/// Loads the weights of a model file as initial values.
pub(super) fn start_from(path: &Path, learner: &mut Learner, contract: &Contract) -> Result<()> {
    let file = StoredFile::open(path)?;
    // Checked here because training would diverge at once, with an error that does not name the file.
    check_finite(path, &file)?;
    let theirs = Contract::of(&file.facts, path)?;
    let names = |contract: &Contract| {
        let variables = contract.variables();
        let names: Vec<&str> = variables.iter().map(|v| v.name()).collect();
        names.join(", ")
    };
    if theirs.variables() != contract.variables() {
        let (found, expected) = (names(&theirs), names(contract));
        return Err(JobError::StartFrom {
            model: path.to_path_buf(),
            reason: format!("its channels are {found}, those of this run are {expected}"),
        });
    }
    if theirs.normalisation_hash != contract.normalisation_hash {
        tracing::warn!("the weights to start from were trained on fields normalised otherwise");
    }
    let mine = &contract.network;
    let leftover = leftover(&file, learner);
    if !leftover.is_empty() {
        let shown: Vec<&str> = leftover.iter().take(NAMED).map(String::as_str).collect();
        let more = match leftover.len() - shown.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        return Err(JobError::StartFrom {
            model: path.to_path_buf(),
            reason: format!(
                "the network of this run, `{}`, has no place for its weights {}{more}: give the network that it was trained with, `{}`",
                mine.name.as_str(),
                shown.join(", "),
                theirs.network.name.as_str()
            ),
        });
    }
    let of_network = |network: &NetworkConfig| Recipe {
        network: network.clone(),
        ..Recipe::default()
    };
    let changed = of_network(mine).changes_of_result(&of_network(&theirs.network));
    if !changed.is_empty() {
        tracing::warn!(
            "the weights to start from fit, but their network was another: {}",
            changed.join(", ")
        );
    }
    learner.network.parameters_mut().load(path, &file)?;
    learner.begin_average()?;
    tracing::info!(path = %path.display(), "starting from the weights of a model file");
    Ok(())
}

/// Leftover weights that an error names; the rest is counted.
const NAMED: usize = 3;

/// The tensors of a model file that do not exist in the network.
fn leftover(file: &StoredFile<'_>, learner: &Learner) -> Vec<String> {
    let parameters = learner.network.parameters();
    let places: HashSet<&str> = (parameters.iter().map(|p| p.name.as_str()))
        .chain(parameters.buffers().iter().map(|b| b.name.as_str()))
        .collect();
    let names = file.names().filter(|name| !places.contains(name));
    names.map(str::to_string).collect()
}
