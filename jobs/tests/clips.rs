//! A network over time: what it learns from clips, and what it finds in a series with holes.

mod common;

use common::fields::{history, prepared};
use common::{CHANNELS, COLUMNS, ROWS, grid, time};
use ndarray::{Array2, Array3};
use squall_data::archive::{Archive, BadFiles};
use squall_data::boxes::table::read_table;
use squall_data::store::{Split, StoreMeta, StoreWriter};
use squall_data::{
    BoxClass, Calendar, ClassMask, GeoBox, Normalisation, PixelBox, Snapshot, Store, Time, Variable,
};
use squall_jobs::comm::Solo;
use squall_jobs::infer::{BadInput, Ensemble, FilePer, Input};
use squall_jobs::train::TrainPlan;
use squall_jobs::train::evaluate::{BoxScores, Scores};
use squall_jobs::{
    Contract, InferEvent, InferOptions, InferReport, Inference, Model, Outcome, Recipe, TrainEvent,
    train,
};
use squall_model::{Backend, ModelFile, Network, NetworkConfig};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// One low of always the same shape; it goes east in one run and west in the other, which no single field tells.
fn sample(at: Time, column: f64, eastward: bool) -> (Snapshot, ClassMask, GeoBox) {
    let row = 8.0;
    let fields = Array3::from_shape_fn((3, ROWS, COLUMNS), |(k, j, i)| {
        let wide = COLUMNS as f64;
        let across = (i as f64 + 0.5 - column + 1.5 * wide).rem_euclid(wide) - wide / 2.0;
        let distance2 = (j as f64 + 0.5 - row).powi(2) + across.powi(2);
        let low = (-distance2 / 5.0).exp();
        match k {
            0 => 20.0 + 30.0 * low as f32,
            1 => 10.0 * (j as f32 / 3.0).sin(),
            _ => 101_000.0 - 4000.0 * low as f32,
        }
    });
    let snapshot = Snapshot {
        time: at,
        grid: grid(),
        variables: CHANNELS.to_vec(),
        fields,
        source: ("low".into(), 0),
    };
    let class = match eastward {
        true => BoxClass::ExtratropicalCyclone,
        false => BoxClass::TropicalCyclone,
    };
    let found = PixelBox {
        class,
        y_min: row - 3.0,
        y_max: row + 3.0,
        x_min: (column - 3.0).rem_euclid(COLUMNS as f64),
        x_max: (column - 3.0).rem_euclid(COLUMNS as f64) + 6.0,
        confidence: None,
    };
    let mask = ClassMask::new(at, Array2::zeros((ROWS, COLUMNS))).unwrap();
    (snapshot, mask, found.to_degrees(&grid()))
}

/// Two runs for training and two for validation, with a hole of time between each.
fn store(folder: &Path, training: usize, validation: usize) -> Arc<Store> {
    let meta = StoreMeta::new(grid(), Calendar::NoLeap, CHANNELS.to_vec());
    let mut writer = StoreWriter::create(folder, meta).unwrap();
    let mut boxes = Vec::new();
    let mut begin = 0;
    for (split, length) in [(Split::Train, training), (Split::Validation, validation)] {
        for eastward in [true, false] {
            for step in 0..length {
                let way = if eastward { 2.0 } else { -2.0 };
                let column = (5.0 * begin as f64 + way * step as f64).rem_euclid(COLUMNS as f64);
                let (snapshot, mask, found) = sample(time(begin + step), column + 0.5, eastward);
                writer.push(&snapshot, &mask, split).unwrap();
                boxes.push(Some(vec![found]));
            }
            begin += length + 5;
        }
    }
    Arc::new(writer.finish_with_boxes(Some(&boxes)).unwrap())
}

fn recipe(changes: &[&str]) -> Recipe {
    let text = "
        name = 'clips'
        task = 'detect'
        precision = 'f32'
        [training]
        batch = 4
        steps = 60
        validate_every_steps = 60
        [data.augmentation]
        roll = true
        [detection]
        loss = { reconstruction = 0.0 }
        [optimiser]
        rule = 'adamw'
        [schedule]
        rate = 4e-3
        warmup_steps = 10
        [network]
        name = 'detector-3d'
        time_steps = 4
        width = 0.15
        blocks = [2]
        batch_norm_decay = 0.9";
    let changes: Vec<String> = changes.iter().map(|c| c.to_string()).collect();
    Recipe::parse(text, &changes).unwrap()
}

fn learn(recipe: &Recipe, store: &Arc<Store>, folder: &Path) -> (BoxScores, std::path::PathBuf) {
    let stop = AtomicBool::new(false);
    let report = train(recipe, store, folder, &mut |_| {}, &stop).unwrap();
    match report.best.unwrap().scores {
        Scores::Boxes(scores) => (scores, report.model),
        Scores::Masks(_) | Scores::Both(_) => panic!("a detector gives boxes"),
    }
}

#[test]
fn storms_are_told_apart_by_where_they_come_from() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 40, 13);
    let (scores, model) = learn(&recipe(&[]), &store, &folder.path().join("over time"));
    let model = Model::load(&model, None).unwrap();
    assert_eq!(model.contract().frame_seconds, Some(3 * 3600));
    // Every validation sample was asked about once.
    assert_eq!(scores.samples, 26);
    assert_eq!(scores.truths, [0, 13, 13, 0]);
    assert!(scores.mean_ap_50 > 0.9, "{scores}");
    let single = ["network.name=detector-2d-half", "training.batch=8"];
    let mut text = recipe(&[]).to_toml();
    text = text.replace("time_steps = 4\n", "");
    let single: Vec<String> = single.iter().map(|c| c.to_string()).collect();
    let single = Recipe::parse(&text, &single).unwrap();
    let (alone, _) = learn(&single, &store, &folder.path().join("alone"));
    assert!(alone.mean_ap_50 < 0.75, "{alone}");
}

/// What a training is told of before its first step.
fn planned(changes: &[&str], store: &Arc<Store>, folder: &Path) -> TrainPlan {
    let one_step = ["training.steps=1", "training.validate_every_steps=1"];
    let recipe = recipe(&[&one_step[..], changes].concat());
    let (mut plan, stop) = (None, AtomicBool::new(false));
    let mut look = |event: &TrainEvent| {
        if let TrainEvent::Started(told) = event {
            plan = Some(told.clone());
        }
    };
    train(&recipe, store, folder, &mut look, &stop).unwrap();
    plan.unwrap()
}

#[test]
fn plans_count_every_frame_of_a_clip() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 5, 4);
    let plan = |prefetch: &str| planned(&[prefetch], &store, &folder.path().join(prefetch));
    let (two, three) = (plan("data.prefetch=2"), plan("data.prefetch=3"));
    // A step of four clips of four frames; of each run of four times two clips are judged, which begin at its first and
    // its second time.
    assert_eq!(two.validation_samples, 8);
    assert_eq!(two.read_bytes, (4 + 4) * 4 * store.meta().record_bytes());
    if !Backend::best().is_gpu() {
        // One more batch is read ahead.
        let batch = 4 * 4 * ROWS * COLUMNS * CHANNELS.len() * 4;
        assert_eq!(three.memory_bytes - two.memory_bytes, batch as u64);
    }
}

/// A detector over time with its first weights.
fn detector(folder: &Path, normalisation: &Normalisation) -> Model {
    let config = NetworkConfig {
        channels_in: CHANNELS.len(),
        width: 0.05,
        blocks: vec![2],
        time_steps: 6,
        ..NetworkConfig::of("detector-3d".parse().unwrap())
    };
    let recipe = Recipe {
        network: config.clone(),
        ..recipe(&["detection.suppression.min_confidence=0"])
    };
    let contract = Contract::new(&recipe, &config, normalisation, &grid(), "none");
    let network = Network::build(&config, Backend::best(), 0).unwrap();
    let mut file = ModelFile {
        tensors: network.parameters().to_named().unwrap(),
        ..ModelFile::default()
    };
    contract.put(&mut file).unwrap();
    let path = folder.join("detector.safetensors");
    file.write(&path).unwrap();
    Model::load(&path, None).unwrap()
}

fn infer(
    archive: &Archive,
    model: &Model,
    out: &Path,
    file_per: FilePer,
    bad_input: BadInput,
) -> InferReport {
    let options = InferOptions {
        file_per,
        bad_input,
        ..InferOptions::default()
    };
    let inference = Inference {
        input: Input::archive(archive),
        ensemble: Ensemble::of(model),
        out,
        options: &options,
    };
    let mut heard = 0;
    let mut listen = |event: &InferEvent<'_>| {
        heard += usize::from(matches!(event, InferEvent::Boxes { .. }));
    };
    let report = inference.run(&mut Solo::new(), &mut listen, &AtomicBool::new(false));
    let report = report.unwrap();
    assert_eq!(heard, report.new_masks);
    report
}

#[test]
fn every_time_of_an_archive_has_its_boxes_once_however_files_are_dealt() {
    let folder = tempfile::tempdir().unwrap();
    let (other, input) = prepared(folder.path());
    let model = detector(folder.path(), &other.contract().normalisation);
    let path = Path::new(&input);
    // A hole of four days, a time without a variable, and one of missing values.
    history(&path.join("h2.c.nc"), 52..53, Some(Variable::Psl), None).unwrap();
    history(&path.join("h2.d.nc"), 53..60, None, Some(55)).unwrap();
    let archive = Archive::open_with(&input, BadFiles::Skip).unwrap();
    let table = |per: FilePer| {
        let out = folder.path().join(format!("{per:?}"));
        let report = infer(&archive, &model, &out, per, BadInput::Skip);
        assert_eq!((report.masks, report.skipped.len()), (26, 2), "{per:?}");
        let text = std::fs::read_to_string(out.join("boxes.csv")).unwrap();
        let frames = read_table(&out.join("boxes.csv"), Calendar::NoLeap).unwrap();
        let listed: Vec<Time> = frames.frames().iter().map(|frame| frame.time).collect();
        let expected: Vec<Time> = (0..20).chain([53, 54]).chain(56..60).map(time).collect();
        assert_eq!(listed, expected, "{per:?}");
        assert!(frames.boxes() > 26, "a cell is a box at any confidence");
        (out, text)
    };
    let (out, by_day) = table(FilePer::Day);
    let (_, by_month) = table(FilePer::Month);
    let (_, by_three) = table(FilePer::Times(NonZeroUsize::new(3).unwrap()));
    assert!(by_day == by_month && by_day == by_three);

    // A file that is gone is made again as it was; what is there stays.
    let lost = out.join("boxes.2000-01-02.csv");
    let before = std::fs::read(&lost).unwrap();
    std::fs::remove_file(&lost).unwrap();
    let again = infer(&archive, &model, &out, FilePer::Day, BadInput::Skip);
    assert_eq!((again.masks, again.new_masks), (26, 8));
    assert_eq!(std::fs::read(&lost).unwrap(), before);

    // Where a part is to be made there is no table of all boxes: it would be taken for what it no longer is.
    std::fs::remove_file(&lost).unwrap();
    let options = InferOptions {
        bad_input: BadInput::Skip,
        ..InferOptions::default()
    };
    let inference = Inference {
        input: Input::archive(&archive),
        ensemble: Ensemble::of(&model),
        out: &out,
        options: &options,
    };
    let stopped = inference.run(&mut Solo::new(), &mut |_| {}, &AtomicBool::new(true));
    assert_eq!(stopped.unwrap().outcome, Outcome::Interrupted);
    assert!(!out.join("boxes.csv").exists());
    infer(&archive, &model, &out, FilePer::Day, BadInput::Skip);
    let again = std::fs::read_to_string(out.join("boxes.csv")).unwrap();
    assert!(again == by_day);

    // More times behind the end change what the last clips saw, and those files only.
    history(&path.join("h2.e.nc"), 60..64, None, None).unwrap();
    let longer = Archive::open_with(&input, BadFiles::Skip).unwrap();
    let grown = infer(&longer, &model, &out, FilePer::Day, BadInput::Skip);
    assert!(
        grown.new_masks > 4 && grown.new_masks < 16,
        "{}",
        grown.new_masks
    );
    let fresh = folder.path().join("fresh");
    infer(&longer, &model, &fresh, FilePer::Day, BadInput::Skip);
    let text = |out: &Path| std::fs::read_to_string(out.join("boxes.csv")).unwrap();
    assert_eq!(text(&out), text(&fresh));
}

/// Tables of which none had a name of the new ones lay beside these for ever, as if of times that the input does not have.
#[test]
fn tables_of_boxes_whose_times_go_to_others_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let (other, _) = prepared(folder.path());
    let model = detector(folder.path(), &other.contract().normalisation);
    let late = folder.path().join("late");
    std::fs::create_dir(&late).unwrap();
    history(&late.join("h2.b.nc"), 5..60, None, None).unwrap();
    let per_three = FilePer::Times(NonZeroUsize::new(3).unwrap());
    let of = |input: &str, out: &Path| {
        let archive = Archive::open(input).unwrap();
        infer(&archive, &model, out, per_three, BadInput::Fail).masks
    };
    let (out, fresh) = (folder.path().join("out"), folder.path().join("fresh"));
    let late = late.to_string_lossy().into_owned();
    assert_eq!(of(&late, &out), 55);
    history(&Path::new(&late).join("h2.a.nc"), 0..5, None, None).unwrap();
    assert_eq!((of(&late, &out), of(&late, &fresh)), (60, 60));
    let tables = |out: &Path| {
        let entries = std::fs::read_dir(out).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names
            .filter(|name| name.to_string_lossy().ends_with(".csv"))
            .collect();
        names.sort();
        names
    };
    // Those at the new border saw other times then: they are not certain to be of these fields.
    let left = tables(&out).len() - tables(&fresh).len();
    assert!(left < 5, "{left} of 19");
}

/// All of its files see times that came since, in files that were not there: none has changed for that.
#[test]
fn an_input_shorter_than_a_clip_may_grow() {
    let folder = tempfile::tempdir().unwrap();
    let (other, input) = prepared(folder.path());
    let model = detector(folder.path(), &other.contract().normalisation);
    let (short, long) = (folder.path().join("short"), Path::new(&input));
    std::fs::create_dir(&short).unwrap();
    history(&short.join("h2.a.nc"), 0..5, None, None).unwrap();
    let per_two = FilePer::Times(NonZeroUsize::new(2).unwrap());
    let of = |input: &Path, out: &Path| {
        let archive = Archive::open(&input.to_string_lossy()).unwrap();
        infer(&archive, &model, out, per_two, BadInput::Fail).new_masks
    };
    let (out, fresh) = (folder.path().join("out"), folder.path().join("fresh"));
    assert_eq!(of(&short, &out), 5);
    history(&short.join("h2.b.nc"), 5..20, None, None).unwrap();
    assert_eq!(of(&short, &out), 20);
    assert_eq!(of(long, &fresh), 20);
    let text = |out: &Path| std::fs::read_to_string(out.join("boxes.csv")).unwrap();
    assert_eq!(text(&out), text(&fresh));
}

#[test]
fn frames_further_apart_than_those_learnt_from_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (other, input) = prepared(folder.path());
    let model = detector(folder.path(), &other.contract().normalisation);
    let archive = Archive::open(&input).unwrap();
    let out = folder.path().join("out");
    let run = |seconds: i64, input: Input<'_>| {
        let contract = Contract {
            frame_seconds: Some(seconds),
            ..model.contract().clone()
        };
        let mut file = ModelFile::read(model.path()).unwrap();
        contract.put(&mut file).unwrap();
        let path = folder.path().join(format!("{seconds}.safetensors"));
        file.write(&path).unwrap();
        let model = Model::load(&path, None).unwrap();
        let inference = Inference {
            input,
            ensemble: Ensemble::of(&model),
            out: &out,
            options: &InferOptions::default(),
        };
        inference.run(&mut Solo::new(), &mut |_| {}, &AtomicBool::new(false))
    };
    let error = run(6 * 3600, Input::archive(&archive)).unwrap_err();
    let expected = "clips with 6 hours from frame to frame, those of the input have 3";
    assert!(error.to_string().contains(expected), "{error}");
    assert!(!out.exists());
    assert_eq!(run(3 * 3600, Input::archive(&archive)).unwrap().masks, 20);

    // Every fourth sample is for validation: they are 12 hours apart, but frames are not.
    let meta = StoreMeta::new(grid(), Calendar::NoLeap, CHANNELS.to_vec());
    let mut writer = StoreWriter::create(folder.path().join("scattered"), meta).unwrap();
    for index in 0..12 {
        let (snapshot, mask, _) = sample(time(index), 5.0, true);
        let split = match index % 4 {
            0 => Split::Validation,
            _ => Split::Train,
        };
        writer.push(&snapshot, &mask, split).unwrap();
    }
    let store = Arc::new(writer.finish().unwrap());
    let scattered = || Input::store(Arc::clone(&store), Some(Split::Validation)).unwrap();
    std::fs::remove_dir_all(&out).unwrap();
    let error = run(12 * 3600, scattered()).unwrap_err();
    let expected = "clips with 12 hours from frame to frame, those of the input have 3";
    assert!(error.to_string().contains(expected), "{error}");
    assert_eq!(run(3 * 3600, scattered()).unwrap().masks, 3);
}

#[test]
fn too_few_consecutive_samples_are_said() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 3, 3);
    let (stop, out) = (AtomicBool::new(false), folder.path().join("run"));
    let error = train(&recipe(&[]), &store, &out, &mut |_| {}, &stop).unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("none of the 6 training samples has 3 followers"),
        "{error}"
    );
    let error = Recipe::parse("[data]\nclip_stride = 0", &[]).unwrap_err();
    assert!(error.to_string().contains("`data.clip_stride`"), "{error}");
}
