//! A run that starts from a model normalises its fields as it is told to: by its own store, or as for that model.

use super::common::alone::{run, run_for};
use super::common::learnt::losses;
use super::common::{CHANNELS, recipe, store, store_of};
use super::{assert_same, result};
use squall_data::Normalisation;
use squall_jobs::{Contract, JobError, Outcome};
use squall_model::ModelFile;
use std::path::Path;

const KEEP: &str = "data.normalisation=start_from";

fn normalisation(run: &Path) -> Normalisation {
    let path = run.join("last.safetensors");
    let file = ModelFile::read(&path).unwrap();
    Contract::of(&file.facts, &path).unwrap().normalisation
}

/// A store of few samples replaced the values that the weights were trained with, and no key could keep them.
#[test]
fn fine_tuning_can_keep_the_normalisation_of_its_model() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let [large, small] = [8, 4].map(|samples| store(&at(&format!("of {samples}")), samples, 1));
    let first = recipe(&["training.steps=1", "data.normalisation=min-max"]);
    run(&first, &large, &at("first")).unwrap();
    let model = at("first").join("last.safetensors");
    let start = format!("training.start_from='{}'", model.display());
    let expected = normalisation(&at("first"));

    run(&recipe(&[&start]), &small, &at("own")).unwrap();
    assert_ne!(normalisation(&at("own")), expected);
    let keeping = recipe(&[KEEP, &start]);
    run(&keeping, &small, &at("kept")).unwrap();
    assert_eq!(normalisation(&at("kept")), expected);
    // It is what the network sees, not only what the file says.
    assert_ne!(losses(&at("kept")), losses(&at("own")));

    // A run that goes on needs the model file no more.
    let part = run_for(5, &keeping, &small, &at("part"));
    assert_eq!(part.outcome, Outcome::Interrupted);
    std::fs::remove_file(&model).unwrap();
    run(&keeping, &small, &at("part")).unwrap();
    assert_same(&at("part"), &result(&at("kept")), "its model file is gone");
    assert!(run(&keeping, &small, &at("new")).is_err());
}

#[test]
fn a_model_of_other_channels_has_no_normalisation_to_keep() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let two = store_of(&CHANNELS[..2], &at("two"), 4, 1);
    let three = store(&at("three"), 4, 1);
    run(&recipe(&["training.steps=1"]), &two, &at("first")).unwrap();
    let model = at("first").join("last.safetensors");
    let start = format!("training.start_from='{}'", model.display());
    let error = run(&recipe(&[KEEP, &start]), &three, &at("second")).unwrap_err();
    assert!(matches!(error, JobError::StartFrom { .. }), "{error}");
    assert!(error.to_string().contains("no channel PSL"), "{error}");
}
