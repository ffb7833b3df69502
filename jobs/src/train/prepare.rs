//! From recipe, store and folder to a run that can go.

use super::evaluate::Evaluator;
use super::recorder::Recorder;
use super::step::Learner;
use super::{Run, checkpoint};
use crate::contract::Contract;
use crate::error::{JobError, Result};
use crate::recipe::Recipe;
use crate::run_dir::RunDir;
use squall_data::loader::{Augmentation, LoaderConfig};
use squall_data::sampler::{LastBatch, Sampler, SamplerConfig};
use squall_data::store::Split;
use squall_data::{Normalisation, Store, Variable};
use squall_model::{ModelFile, NetworkConfig};
use std::path::Path;
use std::sync::Arc;

impl<'a> Run<'a> {
    /// A run at its first step, or at that of its checkpoint.
    pub(super) fn prepare(recipe: &'a Recipe, store: &'a Arc<Store>, run: RunDir) -> Result<Self> {
        let (channels, normalisation) = inputs(recipe, store)?;
        let network = NetworkConfig {
            channels_in: channels.len(),
            classes: 3,
            ..recipe.network.clone()
        };
        let class_weights = match &recipe.loss.class_weights {
            Some(weights) => weights.clone(),
            None => store.class_weights(recipe.loss.weighting)?,
        };
        let sampler = Sampler::new(
            store.ids(Split::Train),
            SamplerConfig {
                shuffle: Some(recipe.seed),
                rank: 0,
                ranks: 1,
                batch: recipe.training.batch,
                last: LastBatch::Drop,
            },
        )?;
        let per_epoch = sampler.steps_per_epoch();
        let total_steps = recipe.training.total_steps(per_epoch);
        let criterion = recipe.loss.criterion(class_weights.clone());
        let mut learner = Learner::new(recipe, &network, criterion.clone(), total_steps)?;
        let contract = Contract::new(
            recipe,
            &network,
            &normalisation,
            store.grid(),
            store.data_hash(),
        );
        if let Some(path) = &recipe.training.start_from
            && !run.checkpoint().exists()
        {
            start_from(path, &mut learner, &contract)?;
        }
        let (best, validation_due) = checkpoint::resume(&run, &mut learner, store)?;
        let loader = LoaderConfig {
            channels,
            normalisation: Some(normalisation),
            augmentation: recipe.data.augmentation,
            seed: recipe.seed,
            threads: recipe.data.threads,
            prefetch: recipe.data.prefetch,
        };
        let ids = thinned(
            store.ids(Split::Validation),
            recipe.training.validation_samples,
        );
        let validation_samples = ids.len();
        let evaluator = if ids.is_empty() {
            tracing::warn!("the store has no validation samples: the last model will be the best");
            None
        } else {
            let loader = LoaderConfig {
                augmentation: Augmentation::default(),
                ..loader.clone()
            };
            let batch = recipe.training.batch;
            Some(Evaluator::new(
                store,
                ids,
                batch,
                loader,
                criterion,
                learner.storage.clone(),
            )?)
        };
        let recorder = Recorder::open(&run, learner.progress.step)?;
        let training = &recipe.training;
        Ok(Self {
            validate_every: training.validate_every_steps.unwrap_or(per_epoch as u64),
            checkpoint_every: training.checkpoint_every_steps.unwrap_or(per_epoch as u64),
            recipe,
            store,
            run,
            sampler,
            loader,
            learner,
            evaluator,
            contract,
            recorder,
            best,
            total_steps,
            class_weights,
            validation_samples,
            validation_due,
        })
    }
}

/// Channels of the batches and their normalisation.
fn inputs(recipe: &Recipe, store: &Store) -> Result<(Vec<Variable>, Normalisation)> {
    let channels = recipe
        .data
        .channels
        .clone()
        .unwrap_or_else(|| store.channels().to_vec());
    let all = store.normalisation(recipe.data.normalisation)?;
    let normalisation = all.select(&channels).map_err(|error| JobError::Recipe {
        path: None,
        reason: format!("`data.channels`: the store does not hold them all: {error}"),
    })?;
    Ok((channels, normalisation))
}

/// Takes the weights of a model file as initial values.
fn start_from(path: &Path, learner: &mut Learner, contract: &Contract) -> Result<()> {
    let file = ModelFile::read(path)?;
    let theirs = Contract::of(&file, path)?;
    let names = |contract: &Contract| {
        let variables = contract.variables();
        let names: Vec<&str> = variables.iter().map(|v| v.name()).collect();
        names.join(", ")
    };
    if theirs.variables() != contract.variables() {
        let (found, expected) = (names(&theirs), names(contract));
        return Err(JobError::Contract {
            model: path.to_path_buf(),
            reasons: vec![format!(
                "its channels are {found}, those of this run are {expected}"
            )],
        });
    }
    if theirs.normalisation_hash != contract.normalisation_hash {
        tracing::warn!("the weights to start from were trained on fields normalised otherwise");
    }
    let parameters = learner.network.parameters_mut();
    parameters.load(path, |name| file.tensor(name))?;
    tracing::info!(path = %path.display(), "starting from the weights of a model file");
    Ok(())
}

/// At most `limit` of the ids, evenly spaced.
fn thinned(ids: Vec<usize>, limit: Option<usize>) -> Vec<usize> {
    let count = limit.unwrap_or(ids.len()).min(ids.len());
    (0..count).map(|k| ids[k * ids.len() / count]).collect()
}
