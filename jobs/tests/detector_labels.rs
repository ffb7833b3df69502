//! What a training does with samples without labels, and with labels that teach nothing.

mod common;

use common::alone::{run, run_for};
use common::boxes::{CELLS, CENTRES, Known, recipe, store};
use common::learnt::as_of_an_earlier_version;
use squall_data::Store;
use squall_data::boxes::LabelledShare;
use squall_data::store::Split;
use squall_jobs::train::{TrainPlan, samples_of_epoch};
use squall_jobs::tune::{Board, Ladder, Search, Values};
use squall_jobs::{JobError, Recipe, TrainEvent, TrainReport, train};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Trains in a folder of its own.
fn learn(recipe: &Recipe, store: &Arc<Store>) -> Result<(TrainReport, TrainPlan), String> {
    let out = tempfile::tempdir().unwrap();
    let mut plan = None;
    let mut tell = |event: &TrainEvent| {
        if let TrainEvent::Started(started) = event {
            plan = Some(started.clone());
        }
    };
    let stop = AtomicBool::new(false);
    let report = train(recipe, store, out.path(), &mut tell, &stop);
    report
        .map(|report| (report, plan.unwrap()))
        .map_err(|error| error.to_string())
}

fn refused(recipe: &Recipe, store: &Arc<Store>, words: &[&str]) {
    let error = learn(recipe, store).unwrap_err();
    for word in words {
        assert!(error.contains(word), "`{error}` lacks `{word}`");
    }
}

fn made(folder: &Path, training: &[Known], validation: &[Known]) -> Arc<Store> {
    store(&folder.join("store"), training, validation)
}

#[test]
fn a_store_without_boxes_teaches_no_detector() {
    let folder = tempfile::tempdir().unwrap();
    let store = made(folder.path(), &[Known::MaskOnly; 6], &[Known::Box]);
    let words = ["no training sample of the store has boxes", "--boxes"];
    refused(&recipe(CELLS, &[]), &store, &words);
}

#[test]
fn labels_without_any_box_are_refused_before_training() {
    let folder = tempfile::tempdir().unwrap();
    let empty = made(&folder.path().join("1"), &[Known::NoBox; 6], &[Known::Box]);
    let none = "no used training sample has a box";
    refused(
        &recipe(CELLS, &[]),
        &empty,
        &[none, "6 of 6", "check the labels"],
    );

    // One box among many samples: whether it is drawn depends on share and seed.
    let mut known = [Known::NoBox; 20];
    known[7] = Known::Box;
    let rare = made(&folder.path().join("2"), &known, &[Known::Box]);
    let drawn = |seed: usize| {
        let seed = format!("detection.labelled_seed={seed}");
        let changes = ["detection.labelled_share=0.3", "training.steps=1", &seed];
        learn(&recipe(CELLS, &changes), &rare)
    };
    let results: Vec<_> = (0..12).map(drawn).collect();
    let errors: Vec<&String> = results.iter().filter_map(|r| r.as_ref().err()).collect();
    assert!(!errors.is_empty() && errors.len() < 12, "{}", errors.len());
    for error in errors {
        for word in [
            none,
            "6 of 20",
            "raise `detection.labelled_share`",
            "labelled_seed",
        ] {
            assert!(error.contains(word), "{error}");
        }
    }
    learn(&recipe(CELLS, &["training.steps=1"]), &rare).unwrap();
}

#[test]
fn fields_without_labels_are_learnt_from_where_there_are_any() {
    let folder = tempfile::tempdir().unwrap();
    let semi = [
        "detection.unlabelled_per_batch=2",
        "detection.loss.reconstruction=10",
    ];
    let all = made(&folder.path().join("1"), &[Known::Box; 8], &[Known::Box]);
    let words = [
        "`detection.unlabelled_per_batch`",
        "all 8 training samples",
        "labelled_share",
        "--keep-unlabelled",
    ];
    refused(&recipe(CELLS, &semi), &all, &words);
    let part = [&semi[..], &["detection.labelled_share=0.5"]].concat();
    let (_, plan) = learn(&recipe(CELLS, &part), &all).unwrap();
    assert_eq!((plan.training_samples, plan.steps_per_epoch), (8, 2));
    // Two steps of the two that teach directly.
    let of_epoch =
        |changes: &[&str], store: &Store| samples_of_epoch(&recipe(CELLS, changes), store);
    assert_eq!(of_epoch(&part, &all).unwrap(), 4);

    // Truly unlabelled ones; half of the others have no masks either.
    let mut known = [Known::Nothing; 12];
    known[..4].fill(Known::Box);
    known[4..8].fill(Known::BoxOnly);
    let mixed = made(
        &folder.path().join("2"),
        &known,
        &[Known::BoxOnly, Known::Nothing],
    );
    let (report, plan) = learn(&recipe(CELLS, &semi), &mixed).unwrap();
    assert_eq!((plan.training_samples, plan.steps_per_epoch), (12, 4));
    assert_eq!(of_epoch(&semi, &mixed).unwrap(), 8);
    assert_eq!(
        (
            plan.validation_samples,
            report.best.unwrap().scores.samples()
        ),
        (1, 1)
    );
    let (_, plan) = learn(&recipe(CELLS, &[]), &mixed).unwrap();
    assert_eq!((plan.training_samples, plan.steps_per_epoch), (8, 2));
}

#[test]
fn masks_are_learnt_and_judged_where_there_are_any() {
    let folder = tempfile::tempdir().unwrap();
    let known = [Known::BoxOnly, Known::Nothing, Known::Box, Known::MaskOnly];
    let store = made(&folder.path().join("1"), &known.repeat(3), &known);
    let changes = ["training.steps=2", "training.validate_every_steps=2"];
    let segment = common::recipe(&changes);
    let (report, plan) = learn(&segment, &store).unwrap();
    assert_eq!((plan.training_samples, plan.validation_samples), (6, 2));
    assert_eq!(samples_of_epoch(&segment, &store).unwrap(), 6);
    assert_eq!(report.best.unwrap().scores.samples(), 2);
    let weighting = segment.loss.weighting;
    let pixels = (store.masked_ids(Split::Train).len() * 32 * 64) as u64;
    assert_eq!(
        plan.class_weights,
        weighting.weights(&[pixels, 0, 0]).unwrap()
    );

    let without = made(
        &folder.path().join("2"),
        &[Known::BoxOnly; 6],
        &[Known::BoxOnly],
    );
    refused(
        &segment,
        &without,
        &["no training sample of the store has a mask", "`detect`"],
    );
    let given = [&changes[..], &["loss.class_weights=[1, 1, 1]"]].concat();
    refused(
        &common::recipe(&given),
        &without,
        &["no training sample of the store has a mask", "--labels"],
    );
    // Boxes are learnt without any mask.
    let (report, _) = learn(&recipe(CELLS, &["training.steps=2"]), &without).unwrap();
    assert_eq!(report.best.unwrap().scores.samples(), 1);
}

/// Masks that are withheld teach nothing, also not how rare a class is.
#[test]
fn class_weights_are_of_masks_that_teach() {
    let folder = tempfile::tempdir().unwrap();
    let ids: Vec<usize> = (0..8).collect();
    let half = LabelledShare {
        share: 0.5,
        seed: 1,
    };
    // All that is withheld is river; of what is used, one is.
    let used = half.choose(&ids).unwrap();
    let mut known = [Known::BoxInRiver; 8];
    for &id in &used[1..] {
        known[id] = Known::Box;
    }
    let store = made(folder.path(), &known, &[Known::Box]);
    let with_masks = format!("{CENTRES}\nmask_classes = 3");
    let changes = ["detection.labelled_share=0.5", "training.steps=1"];
    let recipe = recipe(&with_masks, &changes);
    let (_, plan) = learn(&recipe, &store).unwrap();
    let pixels = 32 * 64;
    let weights = recipe.loss.weighting.weights(&[3 * pixels, 0, pixels]);
    assert_eq!(plan.class_weights, weights.unwrap());

    // A run of an earlier version, that began with the weights of all masks, is refused; one without withheld masks is
    // not.
    let older = |share: &str| {
        let recipe = common::boxes::recipe(&with_masks, &[share, "training.steps=2"]);
        let out = tempfile::tempdir().unwrap();
        run_for(1, &recipe, &store, out.path());
        as_of_an_earlier_version(out.path());
        run(&recipe, &store, out.path()).map_err(|error| error.to_string())
    };
    let error = older("detection.labelled_share=0.5").unwrap_err();
    let words = "also from those that `detection.labelled_share` leaves out";
    assert!(error.contains(words), "{error}");
    older("detection.labelled_share=1").unwrap();
}

/// A validation without labels is none; one without boxes has a loss and no average precision.
#[test]
fn validations_without_boxes_have_no_precision() {
    let folder = tempfile::tempdir().unwrap();
    let training = [Known::Box; 4];
    let unknown = made(&folder.path().join("1"), &training, &[Known::Nothing]);
    let (report, plan) = learn(&recipe(CELLS, &["training.steps=2"]), &unknown).unwrap();
    assert!(report.best.is_none() && plan.validation_samples == 0);
    assert!(report.model.ends_with("best.safetensors"));
    let empty = made(&folder.path().join("2"), &training, &[Known::NoBox; 2]);
    let each = ["training.steps=3", "training.validate_every_steps=1"];
    let (report, _) = learn(&recipe(CELLS, &each), &empty).unwrap();
    let best = report.best.unwrap();
    assert_eq!(best.step, 3, "without a score the last model is the best");
    let best = best.scores;
    assert_eq!((best.samples(), best.score()), (2, 0.0));
    assert!(best.loss() > 0.0);
    // Those that are asked about are chosen among the labelled ones.
    let rare = [Known::Nothing, Known::Nothing, Known::BoxOnly];
    let rare = made(&folder.path().join("3"), &training, &rare);
    let one = ["training.steps=1", "training.validation_samples=1"];
    let (report, plan) = learn(&recipe(CELLS, &one), &rare).unwrap();
    let best = report.best.unwrap().scores;
    assert_eq!((plan.validation_samples, best.samples()), (1, 1));
}

#[test]
fn samples_that_would_teach_nothing_are_refused_by_the_recipe() {
    let parse = |network: &str, changes: &[&str]| {
        let text = recipe(network, &[]).to_toml();
        let changes = changes.iter().map(|c| c.to_string());
        let changes: Vec<String> = changes
            .chain(["detection.unlabelled_per_batch=2".into()])
            .collect();
        Recipe::parse(&text, &changes).map_err(|error| error.to_string())
    };
    for (network, changes, word) in [
        (CELLS, &[][..], "`detection.reconstruction_end`"),
        (
            CELLS,
            &["detection.reconstruction_end=0"],
            "`detection.loss.reconstruction`",
        ),
        (CENTRES, &[], "`detector-dense` has no decoder"),
        (CENTRES, &["detection.loss.reconstruction=10"], "no decoder"),
    ] {
        let error = parse(network, changes).unwrap_err();
        for word in [
            word,
            "`detection.unlabelled_per_batch`",
            "found 2",
            "teach nothing",
        ] {
            assert!(error.contains(word), "{error}");
        }
    }
    parse(CELLS, &["detection.loss.reconstruction=10"]).unwrap();
    parse(CELLS, &["detection.reconstruction_end=10"]).unwrap();
    // Masks teach without boxes.
    parse(CENTRES, &["network.mask_classes=3"]).unwrap();
}

/// Its output, and the boxes, would be the same for every field.
#[test]
fn a_code_of_one_pixel_is_not_normalised_over_one_sample() {
    let folder = tempfile::tempdir().unwrap();
    let store = made(folder.path(), &[Known::Box; 4], &[Known::Box]);
    // Six halvings of 32 x 64 cells.
    let with = |batch: &str| {
        let changes = ["training.steps=1", "network.blocks=[6]", batch];
        recipe(CELLS, &changes)
    };
    let words = ["`training.batch`", "32 x 64", "`code.norm`"];
    refused(&with("training.batch=1"), &store, &words);
    learn(&with("training.batch=2"), &store).unwrap();
    // Whatever `training.batch` is.
    let all_ranks = [
        "training.steps=1",
        "network.blocks=[6]",
        "distributed.global_batch=1",
    ];
    refused(
        &recipe(CELLS, &all_ranks),
        &store,
        &["`distributed.global_batch`"],
    );
}

/// What a plan says of a step: without reconstruction no decoder is run.
#[test]
fn plans_count_the_decoder_where_it_is_run() {
    let folder = tempfile::tempdir().unwrap();
    let store = made(folder.path(), &[Known::Box; 4], &[]);
    let plan = |changes: &[&str]| {
        let changes = [&["training.steps=1"], changes].concat();
        learn(&recipe(CELLS, &changes), &store).unwrap().1
    };
    let (without, with) = (plan(&[]), plan(&["detection.loss.reconstruction=10"]));
    let rising = plan(&["detection.reconstruction_end=1"]);
    // Kernels of 5 x 5 between these channels, on halves and quarters of 32 x 64; heads of 3 x 3 to ten values on
    // 8 x 16.
    let encoder = 50 * (3 * 8 * 16 * 32 + 8 * 16 * 8 * 16);
    let heads = 18 * 16 * 10 * 8 * 16;
    assert_eq!(without.step_flops, 4 * 3 * (encoder + heads));
    assert_eq!(with.step_flops, 4 * 3 * (2 * encoder + heads));
    assert_eq!(rising.step_flops, with.step_flops);
    assert_eq!(without.parameters, with.parameters);
    assert!(without.memory_bytes < with.memory_bytes);
}

/// A search of two trials of a step each.
fn search(folder: &Path, store: &Arc<Store>) -> Result<Option<Board>, JobError> {
    search_in(folder, store, "f32")
}

/// The same in this precision.
fn search_in(
    folder: &Path,
    store: &Arc<Store>,
    precision: &str,
) -> Result<Option<Board>, JobError> {
    let (path, out) = (folder.join("recipe.toml"), folder.join("tuned"));
    let precision = format!("precision={precision}");
    let recipe = recipe(CELLS, &["training.steps=1", &precision]);
    std::fs::write(&path, recipe.to_toml()).unwrap();
    let other = vec![("seed".to_string(), "2".to_string())];
    let search = Search {
        recipe: &path,
        overrides: &[],
        trials: &[Values::new(), other],
        ladder: Ladder::new(2, 1, 2).unwrap(),
        store,
        folder: &out,
        memory_bytes: None,
        stalled_after: Duration::MAX,
    };
    search.run(&AtomicBool::new(false), &mut |_| {})
}

#[test]
fn trials_that_nothing_compares_do_not_begin() {
    let folder = tempfile::tempdir().unwrap();
    let validation = [Known::Nothing, Known::MaskOnly];
    let store = made(folder.path(), &[Known::Box; 4], &validation);
    let error = search(folder.path(), &store).unwrap_err().to_string();
    let expected = "no validation sample of the store has boxes";
    assert!(error.contains(expected), "{error}");
    assert!(!folder.path().join("tuned/search.json").exists());
}

/// Average precision has no value there: every trial had a score of 0, and the first of them was told to be the best.
#[test]
fn trials_with_nothing_to_find_are_not_compared() {
    let folder = tempfile::tempdir().unwrap();
    let store = made(folder.path(), &[Known::Box; 4], &[Known::NoBox; 2]);
    let error = search(folder.path(), &store).unwrap_err().to_string();
    let expected = "no sample of a validation holds a box: stage it with another --seed";
    assert!(error.contains(expected), "{error}");
    assert!(!folder.path().join("tuned/search.json").exists());
    let one = made(
        &folder.path().join("one"),
        &[Known::Box; 4],
        &[Known::NoBox, Known::Box],
    );
    assert!(search(folder.path(), &one).unwrap().is_some());
}

/// The same fields and masks, whose boxes somebody looked at again.
#[test]
fn a_search_of_other_boxes_is_another_one() {
    let folder = tempfile::tempdir().unwrap();
    let of = |name: &str, last: Known| {
        let training = [Known::Box, Known::Box, Known::Box, last];
        made(&folder.path().join(name), &training, &[Known::Box])
    };
    let (first, again) = (of("1", Known::Box), of("2", Known::NoBox));
    assert_eq!(first.data_hash(), again.data_hash());
    let board = search(folder.path(), &first).unwrap().unwrap();
    assert!(board.trials.iter().all(|trial| trial.score().is_some()));
    search(folder.path(), &first).unwrap().unwrap();
    let error = search(folder.path(), &again).unwrap_err().to_string();
    assert!(error.contains("its boxes have the hash"), "{error}");
}

/// Trials that have not begun would be in f32, and those before them in bf16.
#[test]
fn a_search_does_not_go_on_where_auto_is_another_precision() {
    let folder = tempfile::tempdir().unwrap();
    let store = made(folder.path(), &[Known::Box; 4], &[Known::Box]);
    let go = || search_in(folder.path(), &store, "auto");
    go().unwrap().unwrap();
    go().unwrap().unwrap();
    let path = folder.path().join("tuned/search.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut described: serde_json::Value = serde_json::from_str(&text).unwrap();
    let other = match described["auto"].as_str() {
        Some("f32") => "bf16",
        _ => "f32",
    };
    described["auto"] = other.into();
    std::fs::write(&path, described.to_string()).unwrap();
    let error = go().unwrap_err().to_string();
    let expected = format!("`precision` is auto, which was {other} where it began");
    assert!(error.contains(&expected), "{error}");
}
