//! Initial weights from a model file, and its normalisation: `training.start_from`, `data.normalisation`.

use super::checkpoint::kept_normalisation;
use super::step::Learner;
use super::team::Team;
use crate::contract::Contract;
use crate::error::{JobError, Result};
use crate::infer::check_finite;
use crate::metrics::to_json;
use crate::recipe::Recipe;
use crate::run_dir::RunDir;
use squall_data::Normalisation;
use squall_model::stored_file::facts_alone;
use squall_model::{NetworkConfig, StoredFile, Tensors};
use std::collections::HashSet;
use std::path::Path;

/// The normalisation that the run keeps from the model it starts from; `None` if its recipe takes that of the store.
///
/// Once there is a checkpoint it is the one kept there: the model file may be gone or replaced. The first rank, whose
/// run's folder is given, reads it for all: others may not see these files. All ranks of `team` call it.
pub(super) fn normalisation_of_start(
    recipe: &Recipe,
    run_dir: Option<&RunDir>,
    team: &mut Team,
) -> Result<Option<Normalisation>> {
    let Some(path) = recipe.normalised_as() else {
        return Ok(None);
    };
    let read = match team.is_first() {
        true => of_checkpoint_or_model(path, run_dir),
        false => Ok(String::new()),
    };
    let mut bytes = team.after_files(read)?.into_bytes();
    if team.size() > 1 {
        team.broadcast(&mut bytes)?;
    }
    let normalisation = serde_json::from_slice(&bytes);
    normalisation
        .map(Some)
        .map_err(|error| JobError::damaged(path, error))
}

/// That of the run's checkpoint, or else that of the model file, as JSON.
fn of_checkpoint_or_model(path: &Path, run_dir: Option<&RunDir>) -> Result<String> {
    let kept = run_dir.and_then(|run_dir| kept_normalisation(run_dir.folder()));
    let normalisation = match kept {
        Some(kept) => kept,
        None => Contract::of(&facts_alone(path)?, path)?.normalisation,
    };
    to_json(&normalisation, path)
}

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
        tracing::warn!(
            "the weights to start from were trained on fields normalised otherwise: `data.normalisation=start_from` would keep theirs"
        );
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
