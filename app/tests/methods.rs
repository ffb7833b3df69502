//! Labels by other methods than the usual one, and of other runs, through the program.

mod common;

use common::{
    add_heights_up_to, add_level_heights, path, refuses, run, score, simulate, squall, stage, text,
};
use squall_climate::compare::Coverage;
use squall_data::Class;
use squall_data::mask_file::{About, MaskArchive};
use std::path::Path;

#[test]
fn an_ensemble_of_thresholds_keeps_how_sure_it_is() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fields = simulate(folder.path(), 3, 1);
    let labels = folder.path().join("bard");
    let label = ["label", path(&fields), "--method", "bard", "--out"];
    run(&[&label[..], &[path(&labels), "-q"]].concat());
    let masks = MaskArchive::open(path(&labels)).expect("masks");
    let (mut rivers, mut unsure) = (0, 0);
    for index in 0..masks.times().len() {
        let mask = masks.read(index).expect("a mask");
        let of = |class| masks.probability(index, class).expect("a probability");
        assert!(of(Class::TropicalCyclone).is_none(), "it knows no cyclones");
        let sure = of(Class::AtmosphericRiver).expect("that of rivers");
        for (&code, &p) in mask.codes.iter().zip(&sure) {
            // Two thirds, in steps of 1/250.
            let is_river = code == Class::AtmosphericRiver.code();
            assert!(if is_river { p > 0.66 } else { p < 0.671 }, "{code}: {p}");
            rivers += usize::from(is_river);
            unsure += usize::from(p > 0.1 && p < 0.6);
        }
    }
    assert!(rivers > 0 && unsure > 0, "{rivers} {unsure}");
}

/// Rules for rivers alone do not say that there are no cyclones: nobody counts, compares or scores what they lack.
#[test]
fn rules_for_rivers_say_nothing_of_cyclones() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 3, 1);
    let (rivers, both, events) = (at("bard"), at("deepcam"), at("events"));
    let label = |method: &str, more: &[&str], out: &Path| {
        let call = [
            "label",
            path(&fields),
            "--method",
            method,
            "--out",
            path(out),
        ];
        run(&[&call[..], more].concat())
    };
    label("bard", &[], &rivers);
    let masks = MaskArchive::open(path(&rivers)).expect("masks");
    assert_eq!(masks.classes(), [Class::AtmosphericRiver]);
    let file = masks.paths().next().expect("a file");
    let moved = &About::read(file).expect("readable").attributes["moisture_transport"];
    assert!(moved.contains("wind at 850 hPa instead of"), "{moved}");

    label("deepcam", &["--against", path(&rivers)], &both);
    let agreement = std::fs::read_to_string(both.join("agreement.csv")).expect("a table");
    assert!(!agreement.contains("tropical_cyclone"), "{agreement}");
    assert!(agreement.contains("atmospheric_river"), "{agreement}");

    run(&[
        "events",
        path(&rivers),
        "--fields",
        path(&fields),
        "--out",
        path(&events),
    ]);
    let counts = std::fs::read_to_string(events.join("yearly.csv")).expect("a table");
    let cyclones = counts
        .lines()
        .filter(|line| line.contains("tropical_cyclone"));
    for line in cyclones {
        assert!(line.contains(",,"), "blank, not nought: {line}");
    }
    let scores = score(&rivers, &both, &[]);
    let text = scores.to_string();
    assert!(text.contains("atmospheric_river"), "{text}");
    let page = at("page.html");
    let shown = format!("{}:{}", path(&rivers), path(&events));
    run(&["report", &shown, "--out", path(&page)]);
    let html = std::fs::read_to_string(&page).expect("a page");
    assert!(html.contains("did not look for tropical cyclones"));
    assert!(!html.contains("0 tropical cyclone"));
}

/// It had been refused for want of tables by method, which the rules of one method alone do not have.
#[test]
fn a_file_of_thresholds_for_deepcam_serves_where_its_masks_are_compared() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 1, 1);
    let (rules, truth) = (at("rules.toml"), fields.join("truth"));
    std::fs::write(&rules, "[river]\nmin_damped_tmq_kg_m2 = 22.5\n").expect("written");
    let used = |name: &str, more: &[&str]| {
        let out = at(name);
        let call = ["label", path(&fields), "--thresholds", path(&rules), "-q"];
        run(&[&call[..], &["--out", path(&out)], more].concat());
        let masks = MaskArchive::open(path(&out)).expect("masks");
        let file = masks.paths().next().expect("a file");
        About::read(file).expect("readable").attributes["thresholds"].clone()
    };
    let alone = used("alone", &[]);
    assert!(alone.contains("\"min_damped_tmq_kg_m2\":22.5"), "{alone}");
    assert_eq!(used("compared", &["--against", path(&truth)]), alone);
}

/// Rivers of one rule are counted twice, by the rule and by the mask, and need not be as many.
#[test]
fn whose_rivers_touch_at_edges_alone_is_said() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fields = simulate(folder.path(), 3, 1);
    for (method, is_said) in [("tempest", true), ("bard", false)] {
        let out = folder.path().join(method);
        let label = ["label", path(&fields), "--method", method, "--out"];
        let output = squall().args(label).arg(&out).output().expect("starts");
        let said = text(&output);
        assert!(output.status.success(), "{said}");
        assert_eq!(said.contains("touch at edges"), is_said, "{said}");
        assert_eq!(said.contains("cyclones on 1 track, "), is_said, "{said}");
        // It counted twice the times that there are; the rule for rivers alone reads them once.
        for pass in ["0 s left, pass 1 of 2", "0 s left, pass 2 of 2"] {
            assert_eq!(said.contains(pass), is_said, "{said}");
        }
    }
}

/// The cyclones of the other files had been found by limits of their own, or lost.
#[test]
fn heights_that_some_files_have_tell_no_warm_core() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fields = simulate(folder.path(), 3, 1);
    let cyclones = |out: &str| {
        let out = folder.path().join(out);
        let label = ["label", path(&fields), "--method", "tempest", "--out"];
        run(&[&label[..], &[path(&out), "-q"]].concat());
        let masks = MaskArchive::open(path(&out)).expect("masks");
        (0..masks.times().len())
            .map(|index| masks.read(index).expect("a mask").pixel_counts()[1])
            .collect::<Vec<u64>>()
    };
    let without = cyclones("without");
    assert!(without.iter().sum::<u64>() > 0, "{without:?}");
    let entries = std::fs::read_dir(&fields).expect("fields").flatten();
    let mut files: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|file| file.extension().is_some_and(|kind| kind == "nc"))
        .collect();
    files.sort();
    assert!(files.len() > 1, "{files:?}");
    let (first, others) = files.split_first().expect("files");
    others.iter().for_each(|file| add_level_heights(file));
    assert_eq!(cyclones("in some"), without);
    // Where all have them they tell.
    add_level_heights(first);
    assert_eq!(cyclones("in all").iter().sum::<u64>(), 0);
}

/// As many archives of CMIP have them, whose cyclones could not be found by this method. What told the warm cores is said
/// by masks and by the statistics of their events.
#[test]
fn heights_of_250_hpa_tell_a_warm_core_where_300_is_lacking() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 1, 1);
    let told = |name: &str| {
        let (labels, events) = (at(name), at(&format!("{name}-events")));
        let label = ["label", path(&fields), "--method", "tempest", "--out"];
        let output = squall().args(label).arg(&labels).output().expect("starts");
        let said = text(&output);
        assert!(output.status.success(), "{said}");
        run(&["events", path(&labels), "--out", path(&events), "-q"]);
        let masks = MaskArchive::open(path(&labels)).expect("masks");
        let file = masks.paths().next().expect("a file");
        let core = About::read(file).expect("readable").attributes["warm_core"].clone();
        assert!(
            said.contains(&format!("warm cores are told by {core}")),
            "{said}"
        );
        let rules = Coverage::read(&events, None).expect("statistics").rules;
        assert_eq!(rules["masks.warm_core"], core);
        core
    };
    assert!(told("stand-in").starts_with("T200, T500"));
    let entries = std::fs::read_dir(&fields).expect("fields").flatten();
    let files = entries.map(|entry| entry.path());
    files
        .filter(|file| file.extension().is_some_and(|kind| kind == "nc"))
        .for_each(|file| add_heights_up_to(25_000.0, &file));
    let core = told("of-250");
    assert!(
        core.contains("(Z250, Z500) instead of to 300 hPa"),
        "{core}"
    );
}

/// Masks and statistics had told 1.6e-4 per second on every grid.
#[test]
fn masks_and_statistics_tell_the_thresholds_that_were_applied_on_their_grid() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 1, 1);
    for (method, more, name, is_adapted) in [
        ("deepcam", &["--no-grid-scaling"][..], "as-published", false),
        ("deepcam", &[], "alone", true),
        ("deepcam,bard", &[], "both/deepcam", true),
    ] {
        let (labels, events) = (at(name), at(&format!("events-{}", name.replace('/', "-"))));
        let out = at(name.split('/').next().expect("a name"));
        let label = ["label", path(&fields), "--method", method, "--out"];
        run(&[&label[..], &[path(&out), "-q"], more].concat());
        run(&["events", path(&labels), "--out", path(&events), "-q"]);
        let rules = Coverage::read(&events, None).expect("statistics").rules;
        let vorticity = &rules["masks.cyclone.min_vorticity_per_s"];
        let told = "(0.00016 at a quarter of a degree, times 0.";
        assert_eq!(vorticity.contains(told), is_adapted, "{name}: {vorticity}");
        let spacing = rules.get("masks.adapted_to_spacing_km");
        assert_eq!(spacing.is_some(), is_adapted, "{name}");
        // What was asked for stays known.
        let masks = MaskArchive::open(path(&labels)).expect("masks");
        let file = masks.paths().next().expect("a file");
        let asked = About::read(file).expect("readable").attributes["thresholds"].clone();
        assert!(asked.contains("\"min_vorticity_per_s\":0.00016"), "{asked}");
    }
    let masks = MaskArchive::open(path(&at("both/bard"))).expect("masks");
    let file = masks.paths().next().expect("a file");
    let ensemble = &About::read(file).expect("readable").attributes["ensemble"];
    assert!(
        ensemble.starts_with("128 members, drawn by seed 0"),
        "{ensemble}"
    );
}

/// Percentiles of a day would be no more than that day, which the times tell before anything is read.
#[test]
fn a_method_that_has_too_few_times_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fields = simulate(folder.path(), 1, 1);
    let out = folder.path().join("labels");
    let label = ["label", path(&fields), "--method", "deepcam,percentile"];
    let call = [&label[..], &["--out", path(&out)]].concat();
    let hint = "hint: give a longer series";
    refuses(&call, 2, &["at least 40 times", hint, "min_times"]);
    assert!(!out.exists());
}

/// Who learns from rivers alone is told so before it takes a day.
#[test]
fn a_training_says_which_classes_nobody_shows_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 3, 1);
    let (labels, store, model) = (at("bard"), at("store"), at("model"));
    let label = ["label", path(&fields), "--method", "bard", "--out"];
    run(&[&label[..], &[path(&labels), "-q"]].concat());
    stage(&fields, &labels, &store, &["--block-days", "1"]);
    let mut train = squall();
    train.args(["train", "--recipe", "small", "--data", path(&store)]);
    train.args(["--out", path(&model), "--set", "training.steps=1"]);
    let output = train.args(["--set", "network.width=0.1"]).output();
    let output = output.expect("starts");
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    for told in ["training", "validation"] {
        let told = format!("no {told} sample has a pixel of tropical cyclone");
        assert!(said.contains(&told), "{said}");
    }
    assert!(!said.contains("pixel of atmospheric river"), "{said}");
}

/// Sets of rules and what somebody says the truth is, on one page.
#[test]
fn a_page_shows_several_heuristics_and_what_is_said_to_be_the_truth() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 3, 1);
    for method in ["deepcam", "tempest", "bard"] {
        let label = ["label", path(&fields), "--method", method, "--out"];
        run(&[&label[..], &[path(&at(method)), "-q"]].concat());
    }
    let (page, expert) = (at("page.html"), format!("truth={}", path(&at("bard"))));
    let [deepcam, tempest] = ["deepcam", "tempest"].map(|method| path(&at(method)).to_string());
    let report = |folders: &[&str]| {
        let call = [&["report"], folders, &["--out", path(&page), "-q"]].concat();
        squall().args(call).output().expect("starts")
    };
    let output = report(&[&deepcam, &tempest, &expert]);
    assert!(output.status.success(), "{}", text(&output));
    let html = std::fs::read_to_string(&page).expect("a page");
    for told in [
        "tempest against deepcam",
        "deepcam against Truth",
        "tempest against Truth",
        "masks: tempest",
        "masks: Truth",
        // For who describes it in a paper.
        "rules of masks: tempest",
        "tropical cyclones and atmospheric rivers by the TempestExtremes rules: ",
        "node.contour_rise_pa = 200.0",
        "member_count = 128",
    ] {
        assert!(html.contains(told), "{told}");
    }
    // One more set of rules is one more source, judged by the first.
    let third = path(&at("bard")).to_string();
    let output = report(&[&deepcam, &tempest, &third]);
    assert!(output.status.success(), "{}", text(&output));
    let html = std::fs::read_to_string(&page).expect("a page");
    for told in [
        "tempest against deepcam",
        "bard against deepcam",
        "masks: bard",
        "Not looked for: tropical cyclones by bard.",
    ] {
        assert!(html.contains(told), "{told}");
    }
    assert!(!html.contains("bard against tempest"));
    // There is one truth.
    let second = format!("truth={tempest}");
    let output = report(&[&deepcam, &expert, &second]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("is a second truth"));
}

/// Masks of three days beside those of one: nobody may compare how many events each has.
#[test]
fn a_page_says_which_masks_are_of_other_times_than_its_maps() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let mut times = Vec::new();
    for (name, days) in [("long", 3), ("short", 1)] {
        let fields = simulate(&at(&format!("{name}-run")), days, 1);
        let label = ["label", path(&fields), "--method", "bard", "--out"];
        run(&[&label[..], &[path(&at(name)), "-q"]].concat());
        let masks = MaskArchive::open(path(&at(name))).expect("masks");
        times.push(masks.times().len());
    }
    let page = at("page.html");
    let said = |folders: [&str; 2]| {
        let [a, b] = folders.map(|name| path(&at(name)).to_string());
        run(&["report", &a, &b, "--out", path(&page), "-q"]);
        std::fs::read_to_string(&page).expect("a page")
    };
    let (long, short) = (times[0], times[1]);
    assert!(long > short);
    let html = said(["long", "short"]);
    let told = format!(
        "Maps and agreement are of the times of long ({long}). Of short there are {short}, {short} of them among those."
    );
    assert!(html.contains(&told), "{told}");
    let fields = at("short-run").join("run1");
    let label = ["label", path(&fields), "--method", "bard", "--out"];
    run(&[&label[..], &[path(&at("again")), "-q"]].concat());
    let html = said(["short", "again"]);
    assert!(!html.contains("Maps and agreement are of the times"));
}

#[test]
fn masks_of_another_run_at_the_same_times_are_asked_about() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let (one, other) = (simulate(&at("one"), 1, 4), simulate(&at("two"), 1, 5));
    let labels = at("labels");
    run(&["label", path(&one), "--out", path(&labels), "-q"]);
    let said = |fields: &Path, out: &str| {
        let (out, store) = (at(out), at(&format!("{out}-store")));
        let events = [
            "events",
            path(&labels),
            "--fields",
            path(fields),
            "--out",
            path(&out),
        ];
        let stage = [
            "stage",
            path(fields),
            "--labels",
            path(&labels),
            "--out",
            path(&store),
        ];
        [&events[..], &stage[..]].map(|call| text(&squall().args(call).output().expect("starts")))
    };
    for text in said(&other, "others") {
        assert!(
            text.contains("are they of the same run?") && text.contains("seed4"),
            "{text}"
        );
    }
    for text in said(&one, "own") {
        assert!(!text.contains("of the same run"), "{text}");
    }
    // So are masks that judge masks.
    let [others, again] = ["labels-of-others", "labels-again"].map(at);
    run(&["label", path(&other), "--out", path(&others), "-q"]);
    let again_call = ["label", path(&one), "--method", "tempest", "--out"];
    run(&[&again_call[..], &[path(&again), "-q"]].concat());
    for (truth, asked) in [(&others, true), (&again, false)] {
        let call = [
            "score",
            "--prediction",
            path(&labels),
            "--truth",
            path(truth),
        ];
        let said = text(&squall().args(call).output().expect("starts"));
        assert_eq!(said.contains("are they of the same run?"), asked, "{said}");
    }
}
