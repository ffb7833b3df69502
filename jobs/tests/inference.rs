//! Inference gives the masks of the network, the same after any interruption, and refuses what does not fit.

mod common;

use candle_core::DType;
use common::fields::{history, masks, prepared};
use common::{CHANNELS, COLUMNS, ROWS};
use squall_data::archive::{Archive, BadFiles};
use squall_data::mask_file::{About, MaskArchive};
use squall_data::{Class, Variable};
use squall_jobs::infer::{
    BadInput, FilePer, InferOptions, InferReport, Model, Strips, infer, is_unfinished,
};
use squall_jobs::{Contract, InferEvent, JobError, Outcome};
use squall_model::{ModelFile, Precision};
use std::ffi::OsStr;
use std::io::Write;
use std::num::NonZeroUsize;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

fn run(
    archive: &Archive,
    model: &Model,
    out: &Path,
    options: &InferOptions,
) -> Result<InferReport, JobError> {
    infer(
        archive,
        model,
        out,
        options,
        &mut |_| {},
        &AtomicBool::new(false),
    )
}

fn names(report: &InferReport) -> Vec<String> {
    let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    report.files.iter().map(name).collect()
}

#[test]
fn masks_are_those_of_the_network_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let (model, input) = prepared(folder.path());
    let archive = Archive::open(&input).unwrap();
    let out = folder.path().join("out");
    let options = InferOptions {
        probabilities: true,
        batch: NonZeroUsize::new(3),
        ..InferOptions::default()
    };
    let mut seen = 0;
    let mut count = |event: &InferEvent<'_>| {
        if let InferEvent::Mask { done, total, .. } = event {
            seen += 1;
            assert_eq!((*done, *total), (seen, 20));
        }
    };
    let never = AtomicBool::new(false);
    let report = infer(&archive, &model, &out, &options, &mut count, &never).unwrap();
    assert_eq!(
        (report.outcome, report.masks, seen),
        (Outcome::Finished, 20, 20)
    );
    assert_eq!(
        names(&report),
        [
            "masks.2000-01-01.nc",
            "masks.2000-01-02.nc",
            "masks.2000-01-03.nc"
        ]
    );
    let written = MaskArchive::open(&out.join("masks.*.nc").to_string_lossy()).unwrap();
    for (index, (time, codes)) in masks(&out).into_iter().enumerate() {
        let snapshot = archive.read(index, &CHANNELS).unwrap();
        let (pixels, missing) = model.pixels(&snapshot).unwrap();
        assert_eq!((time, missing), (snapshot.time.to_string(), 0));
        let shape = (ROWS, COLUMNS);
        let expected = model
            .predict(&pixels, &[snapshot.time], shape, true)
            .unwrap();
        assert_eq!(codes, expected.masks[0].codes, "time {index}");
        let river = written
            .probability(index, Class::AtmosphericRiver)
            .unwrap()
            .unwrap();
        let expected = expected.probabilities.unwrap();
        for ((j, i), &p) in river.indexed_iter() {
            assert!((p - expected[(0, j, i, 2)]).abs() <= 0.5 / 250.0 + 1e-5);
        }
    }
    assert!(
        masks(&out)
            .iter()
            .any(|(_, codes)| codes.iter().any(|&code| code > 0)),
        "all masks are empty"
    );
    let manifest = std::fs::read_to_string(out.join("manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    assert_eq!(manifest["files"][1]["masks"], 8);
    assert_eq!(manifest["model_hash"], model.hash());
}

#[test]
fn strips_give_the_same_files_and_can_be_changed_on_the_way() {
    let folder = tempfile::tempdir().unwrap();
    let (model, input) = prepared(folder.path());
    let archive = Archive::open(&input).unwrap();
    let of = |count| InferOptions {
        strips: Strips::Count(NonZeroUsize::new(count).unwrap()),
        batch: NonZeroUsize::new(2),
        ..InferOptions::default()
    };
    let (whole, cut) = (folder.path().join("whole"), folder.path().join("cut"));
    run(&archive, &model, &whole, &of(1)).unwrap();
    let mut plan = None;
    let mut keep = |event: &InferEvent<'_>| {
        if let InferEvent::Started(started) = event {
            plan = Some(started.clone());
        }
    };
    let never = AtomicBool::new(false);
    infer(&archive, &model, &cut, &of(3), &mut keep, &never).unwrap();
    // A strip has whole groups of four rows: of 16 rows there is no third of that kind.
    assert_eq!(plan.unwrap().strips.get(), 2);
    assert_eq!(masks(&cut), masks(&whole));
    let manifest = |out: &Path| std::fs::read(out.join("manifest.json")).unwrap();
    assert_eq!(manifest(&cut), manifest(&whole));
    std::fs::remove_file(cut.join("masks.2000-01-02.nc")).unwrap();
    let report = run(&archive, &model, &cut, &of(2)).unwrap();
    assert_eq!((report.masks, report.new_masks), (20, 8));
    assert_eq!(masks(&cut), masks(&whole));
    let little = InferOptions {
        strips: Strips::Auto(Some(1 << 20)),
        ..of(1)
    };
    match run(&archive, &model, &cut, &little) {
        Err(JobError::Strips {
            needed, available, ..
        }) => {
            assert!(needed > available && available == 1 << 20);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn killed_or_stopped_anywhere_it_ends_with_the_same_masks() {
    let folder = tempfile::tempdir().unwrap();
    let (model, input) = prepared(folder.path());
    let archive = Archive::open(&input).unwrap();
    let options = InferOptions {
        batch: NonZeroUsize::new(3),
        ..InferOptions::default()
    };
    let whole = folder.path().join("whole");
    run(&archive, &model, &whole, &options).unwrap();
    let manifest = |out: &Path| std::fs::read(out.join("manifest.json")).unwrap();
    std::panic::set_hook(Box::new(|_| {}));
    for at in [1, 8, 9, 17, 20] {
        for kill in [true, false] {
            let out = folder.path().join(format!("part{at}{kill}"));
            let stop = AtomicBool::new(false);
            let mut interrupt = |event: &InferEvent<'_>| {
                if let InferEvent::Mask { done, .. } = event
                    && *done == at
                {
                    stop.store(true, Ordering::Relaxed);
                    assert!(!kill, "killed");
                }
            };
            let first =
                AssertUnwindSafe(|| infer(&archive, &model, &out, &options, &mut interrupt, &stop));
            match catch_unwind(first) {
                Ok(report) => {
                    let report = report.unwrap();
                    assert!(!kill);
                    assert_eq!(report.outcome == Outcome::Finished, at == 20);
                }
                Err(_) => assert!(kill),
            }
            assert_eq!(is_unfinished(&out), kill || at < 20);
            // As a real kill leaves it.
            std::fs::write(out.join(".masks.2000-01-02.nc.1.tmp"), b"torn").unwrap();
            let report = run(&archive, &model, &out, &options).unwrap();
            assert_eq!((report.outcome, report.masks), (Outcome::Finished, 20));
            assert!(!is_unfinished(&out));
            assert!(
                at < 17 || report.new_masks <= 4,
                "{at}: {}",
                report.new_masks
            );
            assert_eq!(masks(&out), masks(&whole), "interrupted at {at}");
            assert_eq!(manifest(&out), manifest(&whole), "interrupted at {at}");
            assert!(!out.join(".masks.2000-01-02.nc.1.tmp").exists());
        }
    }
    let _ = std::panic::take_hook();
}

#[test]
fn finished_files_are_kept_and_damaged_ones_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let (model, input) = prepared(folder.path());
    let archive = Archive::open(&input).unwrap();
    let (out, options) = (folder.path().join("out"), InferOptions::default());
    run(&archive, &model, &out, &options).unwrap();
    let expected = masks(&out);
    assert_eq!(run(&archive, &model, &out, &options).unwrap().new_masks, 0);
    let damaged = out.join("masks.2000-01-02.nc");
    let bytes = std::fs::read(&damaged).unwrap();
    std::fs::write(&damaged, &bytes[..bytes.len() / 2]).unwrap();
    std::fs::remove_file(out.join("masks.2000-01-03.nc")).unwrap();
    assert_eq!(run(&archive, &model, &out, &options).unwrap().new_masks, 12);
    assert_eq!(masks(&out), expected);
    // The archive grows by a few hours: only the last day is made again.
    history(&Path::new(&input).join("h2.c.nc"), 20..22, None, None).unwrap();
    let grown = Archive::open(&input).unwrap();
    let report = run(&grown, &model, &out, &options).unwrap();
    assert_eq!((report.masks, report.new_masks), (22, 6));
    // Other options do not mix with what is there.
    let other = InferOptions {
        probabilities: true,
        ..options
    };
    let error = run(&grown, &model, &out, &other).unwrap_err().to_string();
    assert!(error.contains("--probabilities was off, is on"), "{error}");
    // Nor do some that nobody can compare.
    std::fs::remove_file(out.join("settings.json")).unwrap();
    let error = run(&grown, &model, &out, &other).unwrap_err().to_string();
    assert!(error.contains("settings.json is gone"), "{error}");
    assert!(!out.join("settings.json").exists());
}

/// As after a batch that was too large for the memory.
#[test]
fn settings_of_a_call_without_masks_do_not_bind_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let (model, input) = prepared(folder.path());
    let archive = Archive::open(&input).unwrap();
    let out = folder.path().join("out");
    let of = |batch| InferOptions {
        batch: NonZeroUsize::new(batch),
        ..InferOptions::default()
    };
    let batch = || {
        let text = std::fs::read_to_string(out.join("settings.json")).unwrap();
        let settings: serde_json::Value = serde_json::from_str(&text).unwrap();
        settings["batch"].as_u64()
    };
    let stop = AtomicBool::new(true);
    let report = infer(&archive, &model, &out, &of(4), &mut |_| {}, &stop).unwrap();
    assert_eq!((report.outcome, report.masks), (Outcome::Interrupted, 0));
    assert_eq!(batch(), Some(4));
    // A mask that a killed call did not come to note is one.
    let stray = out.join("masks.1999-12-31.nc");
    std::fs::write(&stray, b"").unwrap();
    let error = run(&archive, &model, &out, &of(2)).unwrap_err().to_string();
    assert!(error.contains("--batch was 4, is 2"), "{error}");
    std::fs::remove_file(stray).unwrap();
    // Fields of so few cells are computed eight at once.
    infer(&archive, &model, &out, &of(0), &mut |_| {}, &stop).unwrap();
    assert_eq!(batch(), Some(8));
    let report = run(&archive, &model, &out, &of(2)).unwrap();
    assert_eq!((report.outcome, report.masks), (Outcome::Finished, 20));
    assert_eq!(batch(), Some(2));
    let error = run(&archive, &model, &out, &of(4)).unwrap_err().to_string();
    assert!(error.contains("--batch was 2, is 4"), "{error}");
    run(&archive, &model, &out, &of(0)).unwrap();
    assert_eq!(batch(), Some(2));
}

#[test]
fn bad_times_are_named_and_fatal_or_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let (model, input) = prepared(folder.path());
    let path = Path::new(&input);
    history(&path.join("h2.c.nc"), 20..22, Some(Variable::Psl), None).unwrap();
    history(&path.join("h2.d.nc"), 22..26, None, Some(23)).unwrap();
    let archive = Archive::open_with(&input, BadFiles::Skip).unwrap();
    let out = folder.path().join("out");
    let options = InferOptions {
        file_per: FilePer::Month,
        ..InferOptions::default()
    };
    let error = run(&archive, &model, &out, &options).unwrap_err();
    assert!(matches!(error, JobError::Contract { .. }), "{error}");
    assert!(
        error.to_string().contains("channels PSL are missing"),
        "{error}"
    );
    let patient = InferOptions {
        bad_input: BadInput::Skip,
        ..options.clone()
    };
    let report = run(&archive, &model, &out, &patient).unwrap();
    assert_eq!((report.masks, report.skipped.len()), (23, 3));
    assert_eq!(report.skipped[0].time, "2000-01-03T12:00:00");
    assert!(report.skipped.iter().all(|time| !time.of_network));
    assert!(
        report.skipped[0].reason.contains("`PSL` is missing"),
        "{:?}",
        report.skipped
    );
    assert!(
        report.skipped[2]
            .reason
            .contains("of the values of TMQ at 2000-01-03T21:00:00 are missing, at most 20.0 %"),
        "{:?}",
        report.skipped
    );
    assert_eq!(names(&report), ["masks.2000-01.nc"]);
    assert_eq!(masks(&out).len(), 23);
    // Fatal when that time is reached, naming its file.
    std::fs::remove_file(path.join("h2.c.nc")).unwrap();
    let archive = Archive::open(&input).unwrap();
    let error = run(&archive, &model, &folder.path().join("fatal"), &options).unwrap_err();
    assert!(error.to_string().contains("h2.d.nc"), "{error}");
}

/// Else all files that follow on a disk that has gone would be left out, one after the other, and stay so.
#[test]
fn a_file_that_has_gone_is_no_bad_time() {
    let folder = tempfile::tempdir().unwrap();
    let (model, input) = prepared(folder.path());
    let archive = Archive::open(&input).unwrap();
    let (file, away) = (Path::new(&input).join("h2.b.nc"), folder.path().join("b"));
    std::fs::rename(&file, &away).unwrap();
    let out = folder.path().join("out");
    let patient = InferOptions {
        bad_input: BadInput::Skip,
        ..InferOptions::default()
    };
    let error = run(&archive, &model, &out, &patient).unwrap_err();
    assert!(error.to_string().contains("h2.b.nc"), "{error}");
    std::fs::rename(&away, &file).unwrap();
    let report = run(&archive, &model, &out, &patient).unwrap();
    assert_eq!((report.masks, report.skipped.len()), (20, 0));
    assert_eq!(report.new_masks, 12);
}

#[test]
fn a_model_is_refused_where_it_does_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let (model, _) = prepared(folder.path());
    let finer = squall_data::LatLonGrid::global(64, 128).unwrap();
    let error = model.check(&finer, &CHANNELS).unwrap_err().to_string();
    assert!(
        error.contains("11.250 degrees between cells in longitude, the input has 2.812"),
        "{error}"
    );
    let checkpoint = folder.path().join("run/checkpoint.safetensors");
    let error = Model::load(&checkpoint, None).unwrap_err().to_string();
    assert!(error.contains("it has weights but no contract"), "{error}");
    std::fs::write(&checkpoint, b"no model").unwrap();
    let error = Model::load(&checkpoint, None).unwrap_err().to_string();
    assert!(error.contains("checkpoint.safetensors"), "{error}");
}

/// It is read once, so that its hash, which masks keep, is that of the weights that were taken up.
#[test]
fn a_model_may_come_through_a_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let (model, _) = prepared(folder.path());
    let bytes = std::fs::read(model.path()).unwrap();
    let (reader, mut writer) = std::io::pipe().unwrap();
    let writing = std::thread::spawn(move || writer.write_all(&bytes));
    let pipe = format!("/dev/fd/{}", reader.as_raw_fd());
    let piped = Model::load(Path::new(&pipe), None).unwrap();
    writing.join().unwrap().unwrap();
    assert_eq!(piped.hash(), model.hash());
}

#[test]
fn a_model_whose_weights_are_no_numbers_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (model, _) = prepared(folder.path());
    for odd in [f32::NAN, f32::INFINITY] {
        let mut file = ModelFile::read(model.path()).unwrap();
        let (_, values) = file.tensors.get_mut("encoder.stem.weight").unwrap();
        (values[0], values[1]) = (odd, odd);
        let path = folder.path().join("odd.safetensors");
        file.write(&path).unwrap();
        let error = Model::load(&path, None).unwrap_err().to_string();
        assert!(error.contains("odd.safetensors"), "{error}");
        let expected = "2 values of `encoder.stem.weight` are NaN or infinite";
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_model_infers_in_the_types_of_its_training() {
    let folder = tempfile::tempdir().unwrap();
    let (model, _) = prepared(folder.path());
    let mut file = ModelFile::read(model.path()).unwrap();
    let mut contract = Contract::of(&file.facts, model.path()).unwrap();
    contract.all_layers = true;
    contract.put(&mut file).unwrap();
    let path = folder.path().join("all.safetensors");
    file.write(&path).unwrap();
    let storage = |path: &Path| {
        let model = Model::load(path, Some(Precision::Bf16)).unwrap();
        model.storage().clone()
    };
    assert_eq!(storage(&path), DType::BF16.into());
    assert_ne!(storage(model.path()), DType::BF16.into());
}

/// Copies the files of a folder; `shift` is added to the values of TMQ.
fn copied(from: &str, to: &Path, shift: f32) {
    std::fs::create_dir_all(to).unwrap();
    for file in std::fs::read_dir(from).unwrap() {
        let path = file.unwrap().path();
        let copy = to.join(path.file_name().unwrap());
        std::fs::copy(&path, &copy).unwrap();
        let mut file = netcdf::append(&copy).unwrap();
        let mut water = file.variable_mut("TMQ").unwrap();
        let values: Vec<f32> = water.get_values(..).unwrap();
        let values: Vec<f32> = values.iter().map(|value| value + shift).collect();
        water.put_values(&values, ..).unwrap();
    }
}

#[test]
fn masks_of_other_fields_are_not_taken_for_those_of_these() {
    let folder = tempfile::tempdir().unwrap();
    let (model, input) = prepared(folder.path());
    let out = folder.path().join("out");
    let options = InferOptions::default();
    let archive = Archive::open(&input).unwrap();
    assert_eq!(run(&archive, &model, &out, &options).unwrap().new_masks, 20);
    assert!(out.join("manifest.json").exists());
    // The same names, other fields.
    let other = folder.path().join("other");
    copied(&input, &other, 3.0);
    let archive = Archive::open(&other.to_string_lossy()).unwrap();
    let error = run(&archive, &model, &out, &options).unwrap_err();
    assert!(error.to_string().contains("have changed since"), "{error}");
    assert!(out.join("manifest.json").exists());
    // One file is put right: its masks alone are made again.
    let files: Vec<PathBuf> = archive.paths().map(Path::to_path_buf).collect();
    let archive = Archive::open(&input).unwrap();
    let last = archive.paths().last().unwrap().to_path_buf();
    std::fs::copy(files.last().unwrap(), &last).unwrap();
    let archive = Archive::open(&input).unwrap();
    let report = run(&archive, &model, &out, &options).unwrap();
    assert!((1..20).contains(&report.new_masks), "{}", report.new_masks);
    assert_eq!(report.masks, 20);
    // Other names.
    for path in &files {
        let name = path.file_name().unwrap().to_string_lossy();
        std::fs::rename(path, other.join(format!("warm.{name}"))).unwrap();
    }
    let archive = Archive::open(&other.to_string_lossy()).unwrap();
    let error = run(&archive, &model, &out, &options)
        .unwrap_err()
        .to_string();
    assert!(error.contains("not of `warm."), "{error}");
}

#[test]
fn an_input_that_grows_at_its_beginning_changes_the_first_file_of_masks() {
    let folder = tempfile::tempdir().unwrap();
    let (model, input) = prepared(folder.path());
    let out = folder.path().join("out");
    let options = InferOptions {
        file_per: FilePer::Month,
        ..InferOptions::default()
    };
    let late = Archive::open(&format!("{input}/h2.b.nc")).unwrap();
    assert_eq!(run(&late, &model, &out, &options).unwrap().masks, 9);
    let all = Archive::open(&input).unwrap();
    let report = run(&all, &model, &out, &options).unwrap();
    assert_eq!((report.masks, report.new_masks), (20, 20));
    let at_once = folder.path().join("at_once");
    run(&all, &model, &at_once, &options).unwrap();
    assert_eq!(masks(&out), masks(&at_once));
}

/// All of it was made again by every call, which did not find the files in which it had written.
#[test]
fn a_folder_whose_name_is_no_text_is_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let (model, input) = prepared(folder.path());
    let archive = Archive::open(&input).unwrap();
    let out = folder.path().join(OsStr::from_bytes(b"out\xff"));
    for new in [20, 0] {
        let report = run(&archive, &model, &out, &InferOptions::default()).unwrap();
        assert_eq!((report.masks, report.new_masks), (20, new));
        // As `--json` prints it.
        let told = serde_json::to_string(&report).unwrap();
        assert!(told.contains("out\u{fffd}/masks.2000-01-01.nc"), "{told}");
    }
}

/// Such files are named after their first time. What is left of the old ones would hold times that new ones hold, too, and
/// nobody could read the folder.
#[test]
fn an_input_that_grows_before_its_end_deals_files_of_so_many_times_anew() {
    let folder = tempfile::tempdir().unwrap();
    let (model, input) = prepared(folder.path());
    let out = folder.path().join("out");
    let options = InferOptions {
        file_per: FilePer::Times(NonZeroUsize::new(3).unwrap()),
        ..InferOptions::default()
    };
    let late = Archive::open(&format!("{input}/h2.b.nc")).unwrap();
    assert_eq!(run(&late, &model, &out, &options).unwrap().masks, 9);
    let all = Archive::open(&input).unwrap();
    let report = run(&all, &model, &out, &options).unwrap();
    assert_eq!((report.masks, report.new_masks), (20, 20));
    let at_once = folder.path().join("at_once");
    run(&all, &model, &at_once, &options).unwrap();
    assert_eq!(masks(&out), masks(&at_once));
    // A file has masks from before and behind the beginning of this input: the former would be lost.
    let error = run(&late, &model, &out, &options).unwrap_err().to_string();
    let told = "of `masks.2000-01-02-10800.nc` would go to other files now";
    assert!(error.contains(told), "{error}");
    // Other fields of the same times, dealt to files of other names; from files of the same names first, whose masks
    // would be removed.
    let other = folder.path().join("other");
    copied(&input, &other, 3.0);
    let begun = folder.path().join("begun");
    let first = names(&run(&late, &model, &begun, &options).unwrap()).remove(0);
    let warm = Archive::open(&other.to_string_lossy()).unwrap();
    let error = run(&warm, &model, &begun, &options).unwrap_err();
    assert!(error.to_string().contains("have changed since"), "{error}");
    assert_eq!(masks(&begun).len(), 9);
    assert!(begun.join("manifest.json").exists());
    // Where they cannot be removed one after the other, the folder is not finished.
    let table = begun.join(first.replace("masks", "boxes").replace(".nc", ".csv"));
    std::fs::create_dir(&table).unwrap();
    assert!(run(&all, &model, &begun, &options).is_err());
    assert!(!begun.join("manifest.json").exists());
    std::fs::remove_dir(&table).unwrap();
    assert_eq!(run(&all, &model, &begun, &options).unwrap().new_masks, 20);
    assert_eq!(masks(&begun), masks(&at_once));
    std::fs::rename(other.join("h2.b.nc"), other.join("warm.nc")).unwrap();
    let warm = Archive::open(&other.join("warm.nc").to_string_lossy()).unwrap();
    let error = run(&warm, &model, &out, &options).unwrap_err().to_string();
    assert!(error.contains("of other fields"), "{error}");
    assert_eq!(masks(&out), masks(&at_once));
}

#[test]
fn a_field_in_another_unit_than_it_says_or_mostly_missing_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let (model, input) = prepared(folder.path());
    for (shift, word) in [(-5000.0, "is its unit right?"), (f32::NAN, "TMQ")] {
        let other = folder.path().join(format!("other{shift}"));
        copied(&input, &other, shift);
        let archive = Archive::open(&other.to_string_lossy()).unwrap();
        let out = folder.path().join(format!("out{shift}"));
        let error = run(&archive, &model, &out, &InferOptions::default()).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("TMQ") && error.contains(word), "{error}");
    }
    // The file is the one that has the field, not the first of the time.
    for (gap, word) in [
        (None, "is its unit right?"),
        (Some(1), "PSL at 2000-01-01T03:00:00 are missing"),
    ] {
        let parts = folder.path().join(format!("parts{gap:?}"));
        std::fs::create_dir_all(&parts).unwrap();
        history(&parts.join("a.nc"), 0..2, Some(Variable::Psl), None).unwrap();
        let whole = parts.join("b.nc");
        history(&whole, 0..2, None, gap).unwrap();
        if gap.is_none() {
            let mut file = netcdf::append(&whole).unwrap();
            let mut pressure = file.variable_mut("PSL").unwrap();
            let values: Vec<f32> = pressure.get_values(..).unwrap();
            let values: Vec<f32> = values.iter().map(|value| value / 100.0).collect();
            pressure.put_values(&values, ..).unwrap();
        }
        let archive = Archive::open(&parts.to_string_lossy()).unwrap();
        let out = folder.path().join(format!("of_parts{gap:?}"));
        let error = run(&archive, &model, &out, &InferOptions::default()).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("b.nc") && error.contains(word), "{error}");
    }
}

/// Masks of two builds in one folder can be told apart, and the folder says which builds made them.
#[test]
fn builds_that_made_masks_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let (model, input) = prepared(folder.path());
    let archive = Archive::open(&input).unwrap();
    let out = folder.path().join("out");
    let options = InferOptions::default();
    let read = |name: &str| -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(out.join(name)).unwrap()).unwrap()
    };
    run(&archive, &model, &out, &options).unwrap();
    let this = squall_jobs::code::version();
    assert_eq!(read("manifest.json")["builds"], serde_json::json!([this]));
    assert_eq!(read("manifest.json")["code_version"], this);
    let about = About::read(&out.join("masks.2000-01-02.nc")).unwrap();
    assert_eq!(about.attributes["squall_version"], this);
    let mut settings = read("settings.json");
    for (known, builds) in [
        (Some("another"), ["another", this.as_str()]),
        (None, ["unknown", this.as_str()]),
    ] {
        // As another build, or a version that recorded none, left it.
        let kept = settings.as_object_mut().unwrap();
        kept.remove("builds");
        if let Some(known) = known {
            kept.insert("builds".into(), serde_json::json!([known]));
        }
        std::fs::write(out.join("settings.json"), settings.to_string()).unwrap();
        // There is nothing to make: this build adds nothing.
        run(&archive, &model, &out, &options).unwrap();
        assert_eq!(
            read("manifest.json")["builds"],
            serde_json::json!([builds[0]])
        );
        std::fs::remove_file(out.join("masks.2000-01-02.nc")).unwrap();
        run(&archive, &model, &out, &options).unwrap();
        assert_eq!(read("manifest.json")["builds"], serde_json::json!(builds));
    }
}
