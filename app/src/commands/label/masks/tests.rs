//! Folders of masks: their files, and labels of other work in them.

use super::*;
use crate::arguments::parsed;
use crate::commands::label::Label;
use crate::commands::label::ownership::Ownership;
use crate::made_by::THRESHOLDS_APPLIED;
use squall_data::synthetic::{Scenario, SyntheticConfig, write_run};
use squall_data::{Calendar, Variable, mask_file::MaskArchive};

/// Labels as the command line does.
fn label(input: &str, out: &Path, more: &[&str]) -> anyhow::Result<()> {
    let words = [input, "--out", out.to_str().unwrap()];
    parsed::<Label>(words.iter().chain(more)).unwrap().run()
}

/// Three days in six files.
fn simulate(folder: &Path, rows: usize, seed: u64) -> String {
    let config = SyntheticConfig {
        rows,
        columns: 36,
        start: Time::new(Calendar::NoLeap, 2000, 8, 1, 0, 0, 0).unwrap(),
        step_hours: 6,
        steps: 12,
        scenario: Scenario::PRESENT,
        seed,
    };
    write_run(&config, folder, 2, |_| Ok(())).unwrap();
    folder.to_str().unwrap().to_string()
}

/// Name and bytes of every file.
fn contents(out: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(out).unwrap().map(|e| e.unwrap().path());
    let files = entries.filter(|path| path.is_file());
    files
        .map(|path| (name_of(&path), std::fs::read(&path).unwrap()))
        .collect()
}

/// A simulation may be one file: a killed run must not begin it anew.
#[test]
fn a_long_file_of_fields_has_several_of_masks() {
    let folder = tempfile::tempdir().unwrap();
    let config = SyntheticConfig {
        start: Time::new(Calendar::NoLeap, 2000, 8, 1, 0, 0, 0).unwrap(),
        rows: 24,
        columns: 36,
        step_hours: 6,
        steps: 13,
        scenario: Scenario::PRESENT,
        seed: 3,
    };
    write_run(&config, folder.path(), 8, |_| Ok(())).unwrap();
    let input = folder.path().to_str().unwrap();
    let archive = crate::input::open_for(input, false, &Variable::CHANNELS).unwrap();
    let mut masks = Masks::new(folder.path().into(), &archive, Method::Deepcam, "{}".into());
    let firsts = |masks: &Masks<'_>| masks.firsts(13).collect::<Vec<_>>();
    assert_eq!(firsts(&masks), [0, 8]);
    masks.most_times = 3;
    assert_eq!(firsts(&masks), [0, 3, 6, 8, 11]);
    assert!(masks.ends_at(2) && !masks.ends_at(8) && masks.ends_at(12));
}

/// A saved state is judged by who was the last to write masks, which a claim changes.
#[test]
fn folders_are_claimed_once_the_state_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("labels");
    let input = simulate(&folder.path().join("run"), 24, 1);
    let archive = crate::input::open_for(&input, false, &Variable::CHANNELS).unwrap();
    let masks = [Masks::new(
        out.clone(),
        &archive,
        Method::Deepcam,
        "{}".into(),
    )];
    let failing = || -> anyhow::Result<((), bool)> { anyhow::bail!("no state") };
    assert!(Ownership::take(&out, "this", &masks, failing).is_err());
    assert!(!is_unfinished(&out));
    let open = || Ok((is_unfinished(&out), false));
    let (owned, was_claimed) = Ownership::take(&out, "this", &masks, open).unwrap();
    assert!(!was_claimed && is_unfinished(&out));
    owned.release();
    assert!(!is_unfinished(&out));
}

#[test]
fn fields_that_are_moved_are_the_same_work() {
    let folder = tempfile::tempdir().unwrap();
    let (run, moved) = (folder.path().join("run"), folder.path().join("moved"));
    simulate(&run, 24, 1);
    // A problem that names its file.
    std::fs::write(run.join("broken.nc"), "text").unwrap();
    let name_of_work = |fields: &Path| {
        let input = fields.to_str().unwrap();
        let archive = crate::input::open_for(input, true, &Variable::CHANNELS).unwrap();
        assert_eq!(archive.skipped_files(), 1);
        super::super::fingerprint(&archive, "{}").unwrap()
    };
    let before = name_of_work(&run);
    assert_eq!(name_of_work(&run.join("..").join("run")), before);
    std::fs::rename(&run, &moved).unwrap();
    assert_eq!(name_of_work(&moved), before);
}

#[test]
fn labels_of_other_work_are_refused_and_stay_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(&at("fields"), 24, 7);
    let (other, fine) = (simulate(&at("other"), 24, 8), simulate(&at("fine"), 30, 7));
    let first_day = format!("{fields}/*08-01*.nc");
    let out = at("labels");
    label(&first_day, &out, &[]).unwrap();
    // The input has grown, and the finished command again.
    label(&fields, &out, &[]).unwrap();
    label(&fields, &out, &[]).unwrap();
    assert_eq!(labels_in(&out).unwrap().len(), 6);
    let before = contents(&out);
    let methods = "deepcam,tempest";
    let strict = at("strict.toml");
    std::fs::write(&strict, "[cyclone]\nmin_wind_m_s = 20.0\n").unwrap();
    let strict = strict.to_str().unwrap();
    for (input, more, said) in [
        (
            &fields,
            &["--rivers", "relaxed"][..],
            "river.min_damped_tmq_kg_m2 was 24.0, is 21.0",
        ),
        (&first_day, &["--rivers", "relaxed"], "is 21.0"),
        (
            &fields,
            &["--thresholds", strict],
            "cyclone.min_wind_m_s was 17.0, is 20.0",
        ),
        (
            &fields,
            &["--no-grid-scaling"],
            "adapt_to_grid was true, is false",
        ),
        (
            &fields,
            &["--method", "tempest"],
            "method was deepcam, is tempest",
        ),
        (&first_day, &[], "labels of times that this run has not"),
        (&other, &[], "input was squall_present_seed7"),
        (&fine, &[], "grid was 24 x 36"),
    ] {
        let error = label(input, &out, more).unwrap_err();
        assert!(error.to_string().contains(said), "{said}: {error}");
        let (code, hint) = crate::failure::classify(&error);
        assert_eq!(code, crate::failure::USAGE, "{said}");
        assert!(hint.is_some_and(|hint| hint.contains("--out")), "{said}");
        assert!(contents(&out) == before, "{said}: the folder has changed");
        assert!(!out.join(".label.partial").exists() && !out.join(".methods.partial").exists());
    }
    // Several methods have folders of their own, each of which is looked at.
    label(&fields, &out, &["--method", methods]).unwrap();
    let error = label(&fields, &out, &["--method", methods, "--no-grid-scaling"]).unwrap_err();
    assert!(error.to_string().contains("deepcam"), "{error}");
    assert!(
        contents(&out)
            .keys()
            .all(|name| before.contains_key(name) || name == "agreement.csv")
    );
}

#[test]
fn what_an_interrupted_run_left_is_no_other_work() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(&at("fields"), 24, 7);
    let (whole, out) = (at("whole"), at("labels"));
    label(&fields, &whole, &[]).unwrap();
    label(&fields, &out, &[]).unwrap();
    let last = labels_in(&out).unwrap().pop_last().unwrap();
    std::fs::remove_file(&last).unwrap();
    std::fs::remove_file(out.join("objects.csv")).unwrap();
    // Files that are cut short are made again.
    let first = labels_in(&out).unwrap().pop_first().unwrap();
    std::fs::write(&first, "cut short").unwrap();
    std::fs::write(out.join(RUN), "another version").unwrap();
    assert!(is_unfinished(&out) && !is_unfinished(&whole));
    label(&fields, &out, &[]).unwrap();
    assert!(!is_unfinished(&out));
    assert!(contents(&whole).keys().eq(contents(&out).keys()));
    let [whole, out] =
        [&whole, &out].map(|folder| MaskArchive::open(folder.to_str().unwrap()).unwrap());
    assert_eq!(whole.times(), out.times());
    assert!((0..12).all(|index| whole.read(index).unwrap() == out.read(index).unwrap()));
}

/// As the version before this attribute wrote it: no other work, and not left among files that say more.
#[test]
fn masks_that_do_not_say_what_was_applied_are_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (fields, out) = (simulate(&at("fields"), 24, 7), at("labels"));
    label(&fields, &out, &[]).unwrap();
    let first = labels_in(&out).unwrap().pop_first().unwrap();
    let attributes = || About::read(&first).unwrap().attributes;
    let applied = attributes()[THRESHOLDS_APPLIED].clone();
    assert_eq!(attributes()[code::VERSION], code::version());
    // Rows are more than seven degrees apart.
    assert!(applied.contains("at_quarter_degree"), "{applied}");
    let archive = MaskArchive::open_file(&first).unwrap();
    let masks: Vec<_> = (0..archive.times().len())
        .map(|index| archive.read(index).unwrap())
        .collect();
    let before = [HISTORY, THRESHOLDS, ORIGIN];
    let options = MaskFileOptions {
        attributes: (attributes().into_iter())
            .filter(|(name, _)| before.contains(&name.as_str()))
            .collect(),
        ..MaskFileOptions::default()
    };
    let mut writer = MaskWriter::create(&first, archive.grid(), masks[0].time, &options).unwrap();
    masks
        .iter()
        .for_each(|mask| writer.write(mask, None).unwrap());
    writer.finish().unwrap();
    assert!(!attributes().contains_key(THRESHOLDS_APPLIED));
    std::fs::write(out.join(RUN), "another version").unwrap();
    label(&fields, &out, &[]).unwrap();
    assert_eq!(attributes()[THRESHOLDS_APPLIED], applied);
}

/// --cyclones had been in no test: cyclones could have been found by the usual numbers.
#[test]
fn each_preset_is_for_its_class() {
    let numbers = |more: &[&str]| {
        let words = ["run", "--out", "labels"];
        let label: Label = parsed(words.iter().chain(more)).unwrap();
        let found = label.deepcam_thresholds().unwrap();
        (
            found.cyclone.warm_core_fall_k,
            found.river.min_damped_tmq_kg_m2,
            found.adapt_to_grid,
        )
    };
    // The core's warmth of the DeepCAM labels: 0.8 K, relaxed 0.6 K; column water 24 and 21 kg m-2.
    assert_eq!(numbers(&[]), (0.8, 24.0, true));
    assert_eq!(numbers(&["--cyclones", "relaxed"]), (0.6, 24.0, true));
    assert_eq!(numbers(&["--rivers", "relaxed"]), (0.8, 21.0, true));
    assert_eq!(numbers(&["--no-grid-scaling"]), (0.8, 24.0, false));
    let words = ["run", "--out", "labels", "--cyclones", "lax"];
    let error = parsed::<Label>(words).unwrap().deepcam_thresholds();
    assert!(error.unwrap_err().to_string().contains("lax"));
}
