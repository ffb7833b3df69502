//! Two scenarios through the program, from fields to statements.

mod common;

use common::{path, run, squall, text};
use squall_data::synthetic::{Scenario, SyntheticConfig, write_run};
use squall_data::{Calendar, Time};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

/// The fields and the truth of five years of a scenario. Files of 73 days instead of eight: opening files takes longer
/// than all else on a grid this coarse.
fn fields(folder: &Path, scenario: Scenario) -> PathBuf {
    let fields = folder.join(scenario.name);
    let config = SyntheticConfig {
        start: Time::new(Calendar::NoLeap, 2000, 1, 1, 0, 0, 0).expect("a date"),
        rows: 16,
        columns: 24,
        step_hours: 24,
        steps: 5 * 365,
        scenario,
        seed: 3,
    };
    write_run(&config, &fields, 73, |_| Ok(())).expect("written");
    fields
}

/// The events of the masks of a folder of fields that a pattern names.
fn events(fields: &Path, masks: &str, out: PathBuf) -> PathBuf {
    let masks = fields.join("truth").join(masks);
    let events = ["events", path(&masks), "--fields", path(fields), "-q"];
    run(&[&events[..], &["--out", path(&out)]].concat());
    out
}

/// A column of a quantity's row for all basins and seasons.
fn value<'t>(table: &'t str, quantity: &str, class: &str, column: &str) -> &'t str {
    let head: Vec<&str> = table
        .lines()
        .next()
        .unwrap_or_default()
        .split(',')
        .collect();
    let at = head.iter().position(|name| *name == column);
    let begin = format!("{quantity},{class},all,all,");
    let row = table.lines().find(|line| line.starts_with(&begin));
    let cells = row.map(|row| row.split(',').collect::<Vec<_>>());
    cells.zip(at).map_or("no such row", |(cells, at)| cells[at])
}

#[test]
fn a_warmer_world_is_told_apart_and_a_single_year_says_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let scenarios =
        [Scenario::PRESENT, Scenario::PLUS_2K].map(|scenario| fields(folder.path(), scenario));
    // The events of all years or of the first, in a folder with the name of the scenario.
    let events_of = |masks: &str, years: &str| {
        scenarios.each_ref().map(|fields| {
            let name = fields.file_name().and_then(|name| name.to_str());
            let name = format!("events-{}-{years}", name.expect("a name"));
            events(fields, masks, folder.path().join(name))
        })
    };
    let runs = events_of("*.nc", "5");
    let out = folder.path().join("changes");
    let compare = |a: &Path, b: &Path| {
        let words = ["compare", path(a), path(b), "--label-a", "present"];
        let said = run(&[
            &words[..],
            &["--label-b", "plus2k", "--out", path(&out), "-q"],
        ]
        .concat());
        let table = fs::read_to_string(out.join("changes.csv")).expect("changes.csv");
        (said, table)
    };
    let (said, table) = compare(&runs[0], &runs[1]);
    let number = |column: &str| -> f64 {
        let cell = value(&table, "tracks", "atmospheric_river", column);
        cell.parse().unwrap_or_else(|_| panic!("{column}: {cell}"))
    };
    // The scenario imposes a fifth more rivers; on so coarse a grid some of them touch and are one.
    assert!(
        number("relative_low") > 0.0 && number("p") < 0.05,
        "{table}"
    );
    assert!((0.05..0.25).contains(&number("relative_change")), "{table}");
    // The file has all sentences, the screen the notes and ten of them.
    let statements = fs::read_to_string(out.join("statements.txt")).expect("statements");
    assert!(
        statements.contains("Atmospheric rivers") && statements.contains('%'),
        "{statements}"
    );
    let (shown, rest) = said.trim_end().rsplit_once("\n\n").expect("two parts");
    assert!(rest.ends_with(" more in statements.txt"), "{said}");
    let sentences = shown.rsplit("\n\n").next().expect("sentences").lines();
    assert_eq!(sentences.count(), 10, "{said}");
    for file in ["changes.json", "changes.html", "maps.nc", "statements.txt"] {
        assert!(out.join(file).is_file(), "{file}");
    }

    // A signal is heard in the midst of many draws, and nothing is left to go on from.
    let stopped = folder.path().join("stopped");
    let child = squall()
        .args(["compare", path(&runs[0]), path(&runs[1]), "-q"])
        .args(["--resamples", "500000", "--out", path(&stopped)])
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    std::thread::sleep(Duration::from_millis(500));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("told");
    let output = child.wait_with_output().expect("ends");
    assert_eq!(output.status.code(), Some(75), "{}", text(&output));
    assert!(
        text(&output).contains("it begins anew"),
        "{}",
        text(&output)
    );
    assert!(!stopped.join("changes.json").exists());
    // One process writes there.
    let held = squall_jobs::lock::FolderLock::take(&stopped).expect("free");
    let second = squall()
        .args(["compare", path(&runs[0]), path(&runs[1]), "-q"])
        .args(["--out", path(&stopped)])
        .output()
        .expect("starts");
    drop(held);
    assert_eq!(second.status.code(), Some(5), "{}", text(&second));
    assert!(text(&second).contains("in use by another process"));

    // Of one year nothing is claimed. What a killed call had begun goes with the next one.
    let short = events_of("*.2000-*.nc", "1");
    let torn = out.join(".maps.nc.17.tmp");
    fs::write(&torn, "half").expect("written");
    let (said, table) = compare(&short[0], &short[1]);
    assert!(!torn.exists());
    // A pattern and a list of folders are ensembles: the years of all members count.
    let list = folder.path().join("warmer.txt");
    fs::write(&list, "events-plus2k-5\nevents-plus2k-1\n").expect("a list");
    let (several, _) = compare(&folder.path().join("events-present-*"), &list);
    assert!(
        several.contains("6 years of 2 members against 6 of 2 members"),
        "{several}"
    );
    let page = fs::read_to_string(out.join("changes.html")).expect("a page");
    let quoted = "/events-present-*&#39; ";
    assert!(page.contains(quoted) && page.contains("6 years (2 members, "));

    let rivers = |column| value(&table, "tracks", "atmospheric_river", column);
    assert_eq!((rivers("low"), rivers("p")), ("", ""), "{table}");
    assert_eq!(rivers("no_interval"), "too_few_years");
    assert!(
        said.contains("No change is tested or has an interval"),
        "{said}"
    );

    // Whatever ends the writing, no page of an older comparison lies beside newer tables.
    fs::remove_file(out.join("maps.nc")).expect("removed");
    fs::create_dir(out.join("maps.nc")).expect("what cannot be replaced");
    let failed = squall()
        .args(["compare", path(&short[0]), path(&short[1]), "-q"])
        .args(["--out", path(&out)])
        .output()
        .expect("starts");
    assert!(!failed.status.success(), "{}", text(&failed));
    assert!(!out.join("changes.html").exists());
}
