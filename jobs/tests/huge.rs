//! Networks that no machine holds are refused before anything of them is allocated.

mod common;

use common::alone::run;
use common::{CHANNELS, recipe, store};
use squall_data::Store;
use squall_data::normalise::NormalisationMethod;
use squall_jobs::infer::Model;
use squall_jobs::tune::{Ladder, Search, Values};
use squall_jobs::{Contract, JobError, Recipe, Team, train_together};
use squall_model::{ModelError, ModelFile, NetworkConfig};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// 900 units of 2.85e8 values, 16384 to 4096 channels and back by way of 3 x 3 kernels: 1.03 TB of weights, 4.1 TB with
/// gradients and moments.
const WIDE: &str = "
    [training]
    batch = 1
    steps = 2
    [network]
    name = 'deeplabv3plus'
    width = 8.0
    blocks = [1, 1, 1, 900]";

/// Dense layers of 1.2e14 values in one block alone: 470 TB of weights.
const ABSURD: &str = "
    [training]
    batch = 1
    steps = 2
    [network]
    name = 'tiramisu'
    blocks = [1000, 1000]
    growth = 1024
    kernel = 15";

fn read(text: &str) -> Recipe {
    Recipe::parse(text, &[]).unwrap()
}

#[test]
fn training_says_what_fits_instead() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 4, 1);
    let out = folder.path().join("run");
    match run(&read(WIDE), &store, &out) {
        Err(JobError::Memory { needed, fits, .. }) => {
            assert!(needed > 3_000_000_000_000, "{needed}");
            assert!(fits[0].starts_with("--set network.width="), "{fits:?}");
        }
        other => panic!("{other:?}"),
    }
    let error = run(&read(ABSURD), &store, &out).unwrap_err();
    assert!(is_config_of_blocks(&error), "{error:?}");
    assert!(!out.join("metrics.jsonl").exists());
}

fn is_config_of_blocks(error: &JobError) -> bool {
    matches!(
        error,
        JobError::Model(ModelError::Config { key: "blocks", .. })
    )
}

/// What a search shares among its processes holds for the values of a network, too.
#[test]
fn the_limit_of_a_team_is_that_of_its_network() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 4, 1);
    let mut team = Team::solo().within(Some(1000));
    let trained = train_together(
        &recipe(&[]),
        &store,
        &folder.path().join("run"),
        &mut |_| {},
        &AtomicBool::new(false),
        &mut team,
    );
    match trained {
        Err(JobError::Memory { available, .. }) => assert_eq!(available, 1000),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_search_leaves_out_trials_that_do_not_fit_and_refuses_absurd_ones() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 4, 1);
    let path = folder.path().join("recipe.toml");
    std::fs::write(&path, WIDE).unwrap();
    let rates = |values: &[&str]| -> Vec<Values> {
        let rate = |value: &&str| vec![("schedule.rate".to_string(), value.to_string())];
        values.iter().map(rate).collect()
    };
    let trials = rates(&["1e-3", "2e-3"]);
    let search =
        |recipe: &Path, out: &str| search(recipe, &store, &folder.path().join(out), &trials);
    let board = search(&path, "wide").unwrap().unwrap();
    for trial in &board.trials {
        let failed = trial.failed.as_deref().unwrap_or_default();
        assert!(failed.contains("GB of memory"), "{failed}");
    }
    std::fs::write(&path, ABSURD).unwrap();
    let error = search(&path, "absurd").unwrap_err();
    assert!(is_config_of_blocks(&error), "{error:?}");
    assert!(!folder.path().join("absurd/search.json").exists());
}

fn search(
    recipe: &Path,
    store: &Arc<Store>,
    folder: &Path,
    trials: &[Values],
) -> Result<Option<squall_jobs::tune::Board>, JobError> {
    let search = Search {
        recipe,
        overrides: &[],
        trials,
        ladder: Ladder::new(trials.len(), 1, 2).unwrap(),
        store,
        folder,
        memory_bytes: None,
        stalled_after: Duration::MAX,
    };
    search.run(&AtomicBool::new(false), &mut |_| {})
}

/// A model file names its network, and need not hold the weights that it would have.
#[test]
fn a_model_file_of_a_network_that_does_not_fit_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 4, 1);
    for (text, is_config) in [(WIDE, false), (ABSURD, true)] {
        let recipe = read(text);
        let network = NetworkConfig {
            channels_in: CHANNELS.len(),
            ..recipe.network.clone()
        };
        let normalisation = store.normalisation(NormalisationMethod::MeanStd).unwrap();
        let contract = Contract::new(&recipe, &network, &normalisation, store.grid(), "none");
        let mut file = ModelFile::default();
        contract.put(&mut file).unwrap();
        let path = folder.path().join("model.safetensors");
        file.write(&path).unwrap();
        let error = Model::load(&path, None).unwrap_err();
        match error {
            JobError::Model(ModelError::Memory { needed, fits, .. }) if !is_config => {
                assert!(needed > 900_000_000_000, "{needed}");
                // Whoever has the file cannot make another network of it.
                assert!(fits.is_empty(), "{fits:?}");
            }
            error => assert!(is_config && is_config_of_blocks(&error), "{error:?}"),
        }
    }
}
