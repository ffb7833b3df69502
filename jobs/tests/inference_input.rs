//! What inference reads and how it asks: sample stores, ensembles, and input that is not as it should be.

mod common;

use common::fields::{contents, history, masks, prepared};
use common::{CHANNELS, COLUMNS, ROWS, grid, recipe, sample, store, time};
use ndarray::{Array2, Axis};
use squall_data::archive::Archive;
use squall_data::boxes::table::read_table;
use squall_data::mask_file::MaskArchive;
use squall_data::store::{Encoding, Split, StoreMeta, StoreWriter};
use squall_data::{Calendar, Class, DataError, Store};
use squall_jobs::comm::Solo;
use squall_jobs::infer::{
    BadInput, Ensemble, FilePer, InferOptions, InferReport, Inference, Input, Model, Strips, infer,
    is_unfinished, searched_times,
};
use squall_jobs::recipe::Task;
use squall_jobs::{Contract, InferEvent, JobError, Recipe, train};
use squall_model::{Backend, ModelFile, Network, NetworkConfig, Precision};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

fn run(
    input: Input<'_>,
    ensemble: Ensemble<'_>,
    (out, options): (&Path, &InferOptions),
) -> Result<InferReport, JobError> {
    let inference = Inference {
        input,
        ensemble,
        out,
        options,
    };
    inference.run(&mut Solo::new(), &mut |_| {}, &AtomicBool::new(false))
}

#[test]
fn a_store_gives_the_masks_of_the_files_it_was_made_from() {
    let folder = tempfile::tempdir().unwrap();
    let (model, files) = prepared(folder.path());
    let archive = Archive::open(&files).unwrap();
    let meta = StoreMeta::new(grid(), Calendar::NoLeap, CHANNELS.to_vec());
    let mut writer = StoreWriter::create(folder.path().join("all"), meta.clone()).unwrap();
    // Not in the order of time.
    for index in (0..20).map(|k| k * 7 % 20) {
        let (snapshot, mask) = sample(index);
        let split = if index < 12 {
            Split::Train
        } else {
            Split::Test
        };
        writer.push(&snapshot, &mask, split).unwrap();
    }
    let store = Arc::new(writer.finish().unwrap());
    let options = InferOptions {
        probabilities: true,
        ..InferOptions::default()
    };
    let at = |name: &str| folder.path().join(name);
    let from = |input, out: &Path| run(input, Ensemble::of(&model), (out, &options)).unwrap();
    from(Input::archive(&archive), &at("of-files"));
    let report = from(
        Input::store(Arc::clone(&store), None).unwrap(),
        &at("of-store"),
    );
    assert_eq!(report.masks, 20);
    assert_eq!(masks(&at("of-store")), masks(&at("of-files")));
    let test = Input::store(Arc::clone(&store), Some(Split::Test)).unwrap();
    assert_eq!(from(test, &at("of-test")).masks, 8);
    assert_eq!(masks(&at("of-test"))[..], masks(&at("of-files"))[12..]);
    let written = MaskArchive::open(&at("of-store/masks.*.nc").to_string_lossy()).unwrap();
    assert!(
        written
            .probability(3, Class::AtmosphericRiver)
            .unwrap()
            .is_some()
    );
    // A time that stands twice has no place on a time axis.
    let mut twice = StoreWriter::create(at("twice"), meta).unwrap();
    for index in [3, 5, 3] {
        let (snapshot, mask) = sample(index);
        twice.push(&snapshot, &mask, Split::Train).unwrap();
    }
    let twice: Arc<Store> = Arc::new(twice.finish().unwrap());
    let error = Input::store(twice, None).unwrap_err().to_string();
    assert!(
        error.contains("samples 0 and 2") && error.contains("are both of 2000-01-01T09:00:00"),
        "{error}"
    );
    let error = Input::store(store, Some(Split::Validation)).unwrap_err();
    let told = "the store has no sample of that split";
    assert!(error.to_string().contains(told), "{error}");
}

/// As of files: what is missing counts by channel.
#[test]
fn a_sample_without_most_of_a_channel_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let (model, _) = prepared(folder.path());
    for encoding in [Encoding::F32, Encoding::F16] {
        let at = |name: &str| folder.path().join(format!("{name}, {encoding:?}"));
        let meta = StoreMeta {
            encoding,
            ..StoreMeta::new(grid(), Calendar::NoLeap, CHANNELS.to_vec())
        };
        let mut writer = StoreWriter::create(at("store"), meta).unwrap();
        for index in 0..3 {
            let (mut snapshot, mask) = sample(index);
            // Half of the second channel: a sixth of all values.
            if index == 1 {
                let mut wind = snapshot.fields.index_axis_mut(Axis(0), 1);
                let half = wind.iter_mut().take(ROWS * COLUMNS / 2);
                half.for_each(|value| *value = f32::NAN);
            }
            writer.push(&snapshot, &mask, Split::Train).unwrap();
        }
        let store = Arc::new(writer.finish().unwrap());
        let from_store = |out: &Path, bad_input| {
            let options = InferOptions {
                bad_input,
                ..InferOptions::default()
            };
            let input = Input::store(Arc::clone(&store), None).unwrap();
            run(input, Ensemble::of(&model), (out, &options))
        };
        let error = from_store(&at("strict"), BadInput::Fail).unwrap_err();
        let told = "50.0 % of the values of U850 at 2000-01-01T03:00:00 are missing";
        assert!(error.to_string().contains(told), "{error}");
        let report = from_store(&at("patient"), BadInput::Skip).unwrap();
        assert_eq!((report.masks, report.skipped.len()), (2, 1));
    }
}

fn planes(
    out: &Path,
    get: impl Fn(&MaskArchive, usize) -> Option<Array2<f32>>,
) -> Vec<Array2<f32>> {
    let archive = MaskArchive::open(&out.join("masks.*.nc").to_string_lossy()).unwrap();
    (0..archive.times().len())
        .map(|index| get(&archive, index).expect("it is kept"))
        .collect()
}

fn river_spread(out: &Path) -> f32 {
    let spread = planes(out, |a, k| a.spread(k, Class::AtmosphericRiver).unwrap());
    spread.iter().flatten().fold(0.0, |a: f32, b| a.max(*b))
}

/// A convolutional network with an output stride of s does not know by how many multiples of s columns a field is
/// rolled.
#[test]
fn members_agree_where_they_must_and_differ_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let (model, files) = prepared(folder.path());
    let archive = Archive::open(&files).unwrap();
    let stride = model.contract().network.output_stride;
    assert!(model.contract().network.periodic_longitude && COLUMNS.is_multiple_of(stride));
    let options = InferOptions {
        probabilities: true,
        ..InferOptions::default()
    };
    let members = |name: &str, ensemble: Ensemble<'_>| {
        let out = folder.path().join(name);
        let report = run(Input::archive(&archive), ensemble, (&out, &options)).unwrap();
        (out, report.members)
    };
    let one = vec![&model];
    let (alone, count) = members("alone", Ensemble::of(&model));
    assert_eq!(count, 1);
    let rolls = [stride, 2 * stride];
    let (rolled, count) = members("rolled", Ensemble::new(one.clone(), &rolls, false).unwrap());
    assert_eq!((count, river_spread(&rolled)), (3, 0.0));
    assert_eq!(masks(&rolled), masks(&alone));
    let probability = |out: &Path| {
        planes(out, |a, k| {
            a.probability(k, Class::AtmosphericRiver).unwrap()
        })
    };
    for (a, b) in probability(&rolled).iter().zip(&probability(&alone)) {
        // One step of packing, where rounding falls the other way.
        assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 0.0041));
    }
    let (again, count) = members(
        "again",
        Ensemble::new(vec![&model, &model], &[], false).unwrap(),
    );
    assert_eq!((count, river_spread(&again)), (2, 0.0));
    assert_eq!(masks(&again), masks(&alone));
    // Other rolls and the mirrored field are other opinions.
    let (apart, _) = members(
        "apart",
        Ensemble::new(one.clone(), &[stride / 2], false).unwrap(),
    );
    assert!(river_spread(&apart) > 0.0);
    let (mirrored, count) = members("mirrored", Ensemble::new(one, &rolls, true).unwrap());
    assert_eq!(count, 6);
    assert!(river_spread(&mirrored) > 0.0);
    let manifest = std::fs::read_to_string(mirrored.join("manifest.json")).unwrap();
    assert!(manifest.contains("\"views\""), "{manifest}");
}

#[test]
fn members_that_cannot_be_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (model, files) = prepared(folder.path());
    let archive = Archive::open(&files).unwrap();
    assert!(Ensemble::new(Vec::new(), &[], false).is_err());
    let out = folder.path().join("out");
    let options = InferOptions::default();
    let far = Ensemble::new(vec![&model], &[COLUMNS], false).unwrap();
    let error = run(Input::archive(&archive), far, (&out, &options)).unwrap_err();
    assert!(error.to_string().contains("goes once around"), "{error}");
    let (south, _) = squall_data::LatLonGrid::from_axes(
        grid().lat_deg()[..ROWS - 2].to_vec(),
        grid().lon_deg().to_vec(),
    )
    .unwrap();
    let mirrored = Ensemble::new(vec![&model], &[], true).unwrap();
    let error = mirrored.check(&south, &CHANNELS).unwrap_err().to_string();
    assert!(error.contains("not symmetric about the equator"), "{error}");
    // The recipe of the tests mirrors in training, so nothing is said of it; without, the opinion may be poor.
    assert!(mirrored.check(&grid(), &CHANNELS).unwrap().is_empty());
    let unmirrored = recipe(&["training.steps=2", "data.augmentation.mirror=false"]);
    let (data, at) = (
        store(&folder.path().join("data"), 4, 1),
        folder.path().join("plain"),
    );
    let trained = train(
        &unmirrored,
        &data,
        &at,
        &mut |_| {},
        &AtomicBool::new(false),
    )
    .unwrap();
    // What the machine chooses is no reason to warn.
    let chosen = Model::load(&trained.model, Some(Precision::Auto)).unwrap();
    assert!(chosen.notes().is_empty(), "{:?}", chosen.notes());
    let plain = Model::load(&trained.model, None).unwrap();
    let mirrored = Ensemble::new(vec![&plain], &[], true).unwrap();
    let notes = mirrored.check(&grid(), &CHANNELS).unwrap();
    assert!(notes[0].contains("never saw a mirrored field"), "{notes:?}");
    // Another model does not continue this one's work.
    run(
        Input::archive(&archive),
        Ensemble::of(&model),
        (&out, &options),
    )
    .unwrap();
    let error = run(
        Input::archive(&archive),
        Ensemble::of(&plain),
        (&out, &options),
    )
    .unwrap_err();
    assert!(matches!(error, JobError::Resume { .. }), "{error}");
    assert!(error.to_string().contains("--model (hash) was"), "{error}");
}

/// A model like this one, with other weights, in a file of this name.
fn changed(
    model: &Model,
    path: &Path,
    precision: Option<Precision>,
    change: impl Fn(&str, &[usize], &mut [f32]),
) -> Model {
    let mut file = ModelFile::read(model.path()).unwrap();
    for (name, (shape, values)) in &mut file.tensors {
        change(name, shape, values);
    }
    file.write(path).unwrap();
    Model::load(path, precision).unwrap()
}

/// Weights so large that what they give overflows.
#[test]
fn a_network_that_gives_no_numbers_gives_no_masks() {
    let folder = tempfile::tempdir().unwrap();
    let (model, files) = prepared(folder.path());
    let archive = Archive::open(&files).unwrap();
    // In f32 the classifier: before it oneDNN's ReLU makes 0 of NaN.
    let path = folder.path().join("last.overflows.safetensors");
    let last = changed(&model, &path, None, |name, _, values| {
        if name == "decoder.classify.weight" {
            let signs = [3e38, -3e38].into_iter().cycle();
            values.iter_mut().zip(signs).for_each(|(w, sign)| *w = sign);
        } else if name.starts_with("decoder.")
            && [".bias", ".shift"].iter().any(|end| name.ends_with(end))
        {
            values.fill(1e3);
        }
    });
    // In f16 any layer.
    let path = folder.path().join("inside.overflows.safetensors");
    let inside = changed(&model, &path, Some(Precision::F16), |_, shape, values| {
        if shape.len() == 4 {
            values.iter_mut().for_each(|weight| *weight *= 1e6);
        }
    });
    let is_empty = |out: &Path| contents(out).iter().all(|(name, _)| !name.ends_with(".nc"));
    for (name, models) in [
        ("alone", vec![&last]),
        ("together", vec![&model, &last]),
        ("inside", vec![&inside]),
        ("beside another", vec![&model, &inside]),
    ] {
        let ensemble = || Ensemble::new(models.clone(), &[], false).unwrap();
        let (out, options) = (folder.path().join(name), InferOptions::default());
        let input = || Input::archive(&archive);
        let error = run(input(), ensemble(), (&out, &options)).unwrap_err();
        assert!(matches!(error, JobError::NotFinite { .. }), "{error}");
        let text = error.to_string();
        for told in ["overflows.safetensors", "2000-01-01T00:00:00", "h2.a.nc"] {
            assert!(text.contains(told), "{text}");
        }
        assert!(is_empty(&out));
        let out = folder.path().join(format!("{name}, skipped"));
        let options = InferOptions {
            bad_input: BadInput::Skip,
            ..options
        };
        let report = run(input(), ensemble(), (&out, &options)).unwrap();
        assert_eq!((report.masks, report.skipped.len()), (0, 20));
        let last = &report.skipped[19];
        assert!(last.reason.contains("h2.b.nc"), "{}", last.reason);
        assert!(report.skipped.iter().all(|time| time.of_network));
        assert!(is_empty(&out));
    }
    let snapshot = archive.read(0, &CHANNELS).unwrap();
    for broken in [last, inside] {
        let (pixels, _) = broken.pixels(&snapshot).unwrap();
        let predicted = broken.predict(&pixels, &[snapshot.time], (ROWS, COLUMNS), false);
        assert!(matches!(predicted, Err(JobError::NotFinite { .. })));
    }
}

#[test]
fn a_detector_writes_a_table_of_boxes() {
    let folder = tempfile::tempdir().unwrap();
    let (model, files) = prepared(folder.path());
    let archive = Archive::open(&files).unwrap();
    let config = NetworkConfig {
        channels_in: CHANNELS.len(),
        width: 0.05,
        blocks: vec![2],
        ..NetworkConfig::of("detector-2d-half".parse().unwrap())
    };
    let detecting = Recipe {
        task: Task::Detect,
        network: config.clone(),
        ..recipe(&[])
    };
    let normalisation = &model.contract().normalisation;
    let contract = Contract::new(&detecting, &config, normalisation, &grid(), "none");
    let network = Network::build(&config, Backend::best(), 0).unwrap();
    let mut file = ModelFile {
        tensors: network.parameters().to_named().unwrap(),
        ..ModelFile::default()
    };
    contract.put(&mut file).unwrap();
    let path = folder.path().join("detector.safetensors");
    file.write(&path).unwrap();
    let detector = Model::load(&path, None).unwrap();
    let (out, options) = (folder.path().join("out"), InferOptions::default());
    let rolled = Ensemble::new(vec![&detector], &[3], false).unwrap();
    let refused = run(Input::archive(&archive), rolled, (&out, &options));
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("boxes have no mean"), "{error}");
    assert!(!out.exists());
    let ensemble = Ensemble::of(&detector);
    run(Input::archive(&archive), ensemble, (&out, &options)).unwrap();
    let times = archive.times();
    let table = read_table(&out.join("boxes.csv"), times[0].calendar()).unwrap();
    let listed: Vec<_> = table.frames().iter().map(|frame| frame.time).collect();
    assert_eq!(listed, times);
    let searched = searched_times(&out.join("boxes.csv"));
    assert_eq!(searched, Some(times.len() as u64));
    assert_eq!(searched_times(&out.join("manifest.json")), None);
    // A folder without the table of all boxes, which cannot be written here, is not finished.
    for name in ["manifest.json", "boxes.csv"] {
        std::fs::remove_file(out.join(name)).unwrap();
    }
    std::fs::create_dir(out.join("boxes.csv")).unwrap();
    let ensemble = Ensemble::of(&detector);
    let failed = run(Input::archive(&archive), ensemble, (&out, &options));
    let error = failed.unwrap_err().to_string();
    assert!(error.contains("boxes.csv"), "{error}");
    assert!(is_unfinished(&out));
    assert_eq!(searched_times(&out.join("boxes.csv")), None);
    // Nor is there a mean of boxes and masks.
    let error = Ensemble::new(vec![&model, &detector], &[], false).unwrap_err();
    assert!(matches!(error, JobError::Ensemble { .. }), "{error}");
    let error = error.to_string();
    for words in ["do not go together", "the second boxes of", "have no mean"] {
        assert!(error.contains(words), "{error}");
    }
    // Nor of the boxes of two.
    let two = Ensemble::new(vec![&detector, &detector], &[], false).unwrap();
    let refused = run(
        Input::archive(&archive),
        two,
        (&folder.path().join("two"), &options),
    );
    let error = refused.unwrap_err();
    assert!(matches!(error, JobError::Ensemble { .. }), "{error}");
}

#[test]
fn layouts_and_attributes_are_as_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let (model, files) = prepared(folder.path());
    let archive = Archive::open(&files).unwrap();
    let names = |per: FilePer| -> Vec<String> {
        let out = folder.path().join(format!("{per:?}"));
        let options = InferOptions {
            file_per: per,
            artmip: per == FilePer::Month,
            attributes: vec![("institution".into(), "a test".into())],
            ..InferOptions::default()
        };
        infer(
            &archive,
            &model,
            &out,
            &options,
            &mut |_| {},
            &AtomicBool::new(false),
        )
        .unwrap();
        let files = contents(&out).into_iter().map(|(name, _)| name);
        files.filter(|name| name.ends_with(".nc")).collect()
    };
    let times = FilePer::Times(NonZeroUsize::new(8).unwrap());
    assert_eq!(names(FilePer::Month), ["masks.2000-01.nc"]);
    assert_eq!(names(FilePer::Year), ["masks.2000.nc"]);
    assert_eq!(names(FilePer::Day).len(), 3);
    assert_eq!(names(times)[1], "masks.2000-01-02-00000.nc");
    let file = netcdf::open(folder.path().join("Month/masks.2000-01.nc")).unwrap();
    let text = |name: &str| -> String {
        let value = file.attribute(name).unwrap_or_else(|| panic!("no {name}"));
        value.value().unwrap().try_into().unwrap()
    };
    assert_eq!(text("Conventions"), "CF-1.8");
    assert_eq!(text("institution"), "a test");
    assert_eq!(text("squall_model_hash"), model.hash());
    assert_eq!(text("squall_data_hash"), model.contract().data_hash);
    assert_eq!(text("squall_input"), "h2.a.nc, h2.b.nc");
    assert_eq!(text("squall_channels"), "TMQ U850 PSL");
    assert_eq!(text("squall_recipe"), model.contract().recipe);
    assert!(text("history").contains("infer h2.a.nc, h2.b.nc --model"));
    let tag = file.variable("ar_binary_tag").unwrap();
    assert_eq!(
        tag.vartype(),
        netcdf::types::NcVariableType::Int(netcdf::types::IntType::I8)
    );
    let day = netcdf::open(folder.path().join("Year/masks.2000.nc")).unwrap();
    assert!(day.variable("ar_binary_tag").is_none() && day.variable("LABELS").is_some());
}

/// A history file whose axis is not the usual one.
fn odd(path: &Path, samples: std::ops::Range<usize>, calendar: &str) {
    history(path, samples, None, None).unwrap();
    let mut file = netcdf::append(path).unwrap();
    let mut axis = file.variable_mut("time").unwrap();
    axis.put_attribute("calendar", calendar).unwrap();
}

#[test]
fn time_axes_that_are_not_as_they_should_be() {
    let folder = tempfile::tempdir().unwrap();
    let (model, files) = prepared(folder.path());
    let at = |name: &str| Path::new(&files).join(name);
    let whole = folder.path().join("whole");
    let options = InferOptions::default();
    let never = AtomicBool::new(false);
    let archive = Archive::open(&files).unwrap();
    infer(&archive, &model, &whole, &options, &mut |_| {}, &never).unwrap();
    // Twice and out of order: the same masks, and it is said.
    history(&at("h1.first-by-name.nc"), 14..18, None, None).unwrap();
    let archive = Archive::open(&files).unwrap();
    assert!(
        archive
            .problems()
            .iter()
            .any(|p| p.contains("4 times stand in more than one file"))
    );
    let twice = folder.path().join("twice");
    infer(&archive, &model, &twice, &options, &mut |_| {}, &never).unwrap();
    assert_eq!(masks(&twice), masks(&whole));
    // A gap of a day: said, and no masks there.
    history(&at("h3.later.nc"), 28..31, None, None).unwrap();
    let archive = Archive::open(&files).unwrap();
    let out = folder.path().join("gap");
    let mut notes = Vec::new();
    let mut keep = |event: &InferEvent<'_>| {
        if let InferEvent::Started(plan) = event {
            notes.extend(plan.notes.clone());
        }
    };
    let report = infer(&archive, &model, &out, &options, &mut keep, &never).unwrap();
    assert_eq!(report.masks, 23);
    let gap = format!("a gap: no time between {} and {}", time(19), time(28));
    assert!(notes.iter().any(|note| note.contains(&gap)), "{notes:?}");
    // Another calendar or grid among the files is no time axis.
    odd(&at("h4.other.nc"), 40..42, "360_day");
    let error = Archive::open(&files).unwrap_err();
    assert!(
        matches!(
            error,
            DataError::Mismatch {
                what: "calendar",
                ..
            }
        ),
        "{error}"
    );
    std::fs::remove_file(at("h4.other.nc")).unwrap();
    let mut other = netcdf::create(at("h5.grid.nc")).unwrap();
    for (name, count, units) in [
        ("lat", 8usize, "degrees_north"),
        ("lon", 16, "degrees_east"),
    ] {
        other.add_dimension(name, count).unwrap();
        let mut axis = other.add_variable::<f64>(name, &[name]).unwrap();
        axis.put_attribute("units", units).unwrap();
        let step = if name == "lat" { 20.0 } else { 22.5 };
        let first = if name == "lat" { -70.0 } else { 0.0 };
        let values: Vec<f64> = (0..count).map(|k| first + step * k as f64).collect();
        axis.put_values(&values, ..).unwrap();
    }
    other.add_dimension("time", 1).unwrap();
    let mut axis = other.add_variable::<f64>("time", &["time"]).unwrap();
    axis.put_attribute("units", "days since 2000-02-01")
        .unwrap();
    axis.put_attribute("calendar", "noleap").unwrap();
    axis.put_values(&[0.0], ..).unwrap();
    other.close().unwrap();
    let error = Archive::open(&files).unwrap_err();
    assert!(
        matches!(error, DataError::Mismatch { what: "grid", .. }),
        "{error}"
    );
}

/// A roll was said to need no more memory than the model alone.
#[test]
fn the_mean_of_members_is_counted_in_the_memory() {
    let folder = tempfile::tempdir().unwrap();
    let (model, files) = prepared(folder.path());
    let archive = Archive::open(&files).unwrap();
    let options = InferOptions {
        batch: NonZeroUsize::new(2),
        ..InferOptions::default()
    };
    let plan = |name: &str, rolls: &[usize], options: &InferOptions| {
        let mut told = None;
        let mut keep = |event: &InferEvent<'_>| {
            if let InferEvent::Started(plan) = event {
                told = Some(plan.clone());
            }
        };
        let inference = Inference {
            input: Input::archive(&archive),
            ensemble: Ensemble::new(vec![&model], rolls, false).unwrap(),
            out: &folder.path().join(name),
            options,
        };
        let at_once = AtomicBool::new(true);
        inference
            .run(&mut Solo::new(), &mut keep, &at_once)
            .unwrap();
        told.unwrap()
    };
    // Of each sample that waits a spread and probabilities; of a batch of two its fields, and three times probabilities.
    let cells = ROWS * COLUMNS;
    let waiting = options.read_ahead * cells * 2 * 12;
    let averaged = 2 * cells * (4 * CHANNELS.len() + 3 * 12);
    let (alone, rolled) = (plan("alone", &[], &options), plan("rolled", &[4], &options));
    let more = rolled.memory_bytes - alone.memory_bytes;
    assert_eq!(more, (waiting + averaged) as u64);
    // Three channels of four bytes are read once, and computed for each member. A byte of each cell is written for masks,
    // and one for the spread of either class.
    let all = (20 * cells) as u64;
    assert_eq!((alone.times, alone.members, rolled.members), (20, 1, 2));
    assert_eq!((alone.read_bytes, alone.write_bytes), (12 * all, all));
    assert_eq!((rolled.read_bytes, rolled.write_bytes), (12 * all, 3 * all));
    assert_eq!(rolled.flops_per_mask, 2 * alone.flops_per_mask);
    // One for the tag of rivers, and one for the probabilities of either class.
    let kept = InferOptions {
        probabilities: true,
        artmip: true,
        ..options.clone()
    };
    assert_eq!(plan("kept", &[], &kept).write_bytes, 4 * all);
}

#[test]
fn too_little_memory_says_what_would_fit() {
    let folder = tempfile::tempdir().unwrap();
    let (model, files) = prepared(folder.path());
    let archive = Archive::open(&files).unwrap();
    let out = folder.path().join("out");
    let limited = |batch: Option<usize>, bytes: u64| InferOptions {
        batch: batch.and_then(NonZeroUsize::new),
        strips: Strips::Auto(Some(bytes)),
        ..InferOptions::default()
    };
    let plan = |options: &InferOptions| {
        let mut found = None;
        let mut keep = |event: &InferEvent<'_>| {
            if let InferEvent::Started(plan) = event {
                found = Some(plan.clone());
            }
        };
        let never = AtomicBool::new(true);
        let result = infer(&archive, &model, &out, options, &mut keep, &never);
        result.map(|_| found.unwrap())
    };
    // The rule: as many of these small fields as are allowed together.
    let free = plan(&limited(None, 1 << 40)).unwrap();
    assert_eq!((free.batch, free.strips.get()), (8, 1));
    std::fs::remove_dir_all(&out).unwrap();
    // Room for a batch of two in one strip is none for eight, however cut.
    let least = plan(&limited(Some(2), 1 << 40)).unwrap().memory_bytes;
    std::fs::remove_dir_all(&out).unwrap();
    let fitted = plan(&limited(None, least)).unwrap();
    assert!(
        fitted.batch >= 2 && fitted.memory_bytes <= least,
        "{fitted:?}"
    );
    std::fs::remove_dir_all(&out).unwrap();
    match plan(&limited(Some(64), least)) {
        Err(JobError::Strips {
            needed,
            available,
            batch: Some(batch),
        }) => {
            assert!(needed > available && batch.get() >= 2 && batch.get() < 64);
            let error = plan(&limited(Some(64), least)).unwrap_err().to_string();
            assert!(
                error.contains(&format!("a batch of {batch} would fit")),
                "{error}"
            );
        }
        other => panic!("{other:?}"),
    }
    match plan(&limited(Some(2), 1000)) {
        Err(JobError::Strips { batch: None, .. }) => {}
        other => panic!("{other:?}"),
    }
}
