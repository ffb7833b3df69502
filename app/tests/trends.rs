//! Trends of a run through the program, from tables to files and statements.

mod common;

use common::{path, run, squall, text};
use std::fs;
use std::path::Path;

/// Tables of twelve years with 5, 7, 9, … cyclones, as of imported tracks.
fn tables(folder: &Path) {
    let mut events = vec!["class,time,lon_deg,lat_deg,track_id,max_wind_m_s".to_string()];
    let mut tracks = vec![
        "track_id,class,start_time,end_time,genesis_lon_deg,genesis_lat_deg,max_wind_m_s"
            .to_string(),
    ];
    let mut id = 0;
    for (year, count) in (2001..=2012).zip((5..).step_by(2)) {
        for k in 0..count {
            id += 1;
            // The first and the last day of a year have one.
            let day = match k {
                0 => format!("{year}-01-01"),
                1 => format!("{year}-12-31"),
                _ => format!("{year}-08-{:02}", 1 + k % 28),
            };
            events.push(format!("tropical_cyclone,{day}T00:00:00,140,12,{id},40"));
            tracks.push(format!(
                "{id},tropical_cyclone,{day}T00:00:00,{day}T18:00:00,140,12,40"
            ));
        }
    }
    fs::create_dir_all(folder).expect("a folder");
    fs::write(folder.join("events.csv"), events.join("\n") + "\n").expect("written");
    fs::write(folder.join("tracks.csv"), tracks.join("\n") + "\n").expect("written");
}

#[test]
fn a_run_has_its_series_trends_words_and_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let (events, out) = (folder.path().join("events"), folder.path().join("trends"));
    tables(&events);
    let call = [
        "trends",
        path(&events),
        "--calendar",
        "noleap",
        "--label",
        "best tracks",
    ];
    let call = [&call[..], &["-q", "--out", path(&out)]].concat();
    let said = run(&call);
    // 20 a decade of 16 in the mean.
    let first = "Tropical cyclones become 125 % more frequent per decade (95 % interval +125 to +125 %, p < 0.001); 12 years, 2001 to 2012.";
    // On the screen the notes come before the sentences, in the file after them.
    assert!(
        said.starts_with("To know:\nThere is no statistics.nc"),
        "{said}"
    );
    assert!(said.contains(&format!("\n\n{first}\n")), "{said}");
    let statements = fs::read_to_string(out.join("statements.txt")).expect("statements");
    assert!(statements.starts_with(first), "{statements}");
    for line in said.lines().filter(|line| !line.contains(" more in ")) {
        assert!(statements.contains(line), "{line}");
    }
    let yearly = fs::read_to_string(out.join("yearly.csv")).expect("series");
    assert!(
        yearly.contains("\ntracks,tropical_cyclone,all,all,a year,2012,27.0000\n"),
        "{yearly}"
    );
    let page = fs::read_to_string(out.join("trends.html")).expect("a page");
    assert!(page.contains("squall trends ") && page.contains("--label &#39;best tracks&#39;"));
    // The same for programs, into the same folder, in which a call was killed.
    let torn = out.join(".trends.html.17.tmp");
    fs::write(&torn, "<!doctype").expect("written");
    let json = run(&[&call[..], &["--json"]].concat());
    let found: serde_json::Value = serde_json::from_str(&json).expect("one document");
    assert_eq!(found["trends"][0]["slope"], 20.0);
    assert_eq!(found["trends"][0]["significant"], true);
    assert_eq!(found["run"]["years"].as_array().map(Vec::len), Some(12));
    let file = fs::read_to_string(out.join("trends.json")).expect("numbers");
    assert_eq!(file.trim_end(), json.trim_end());
    assert!(!torn.exists());

    // Without the first and the last day of a year there are two fewer in each: 20 a decade of 14.
    let august = run(&[&call[..], &["--months", "8"]].concat());
    let words = "become 143 % more frequent per decade (95 % interval +143 to +143 %, p < 0.001); 12 years, 2001 to 2012, August only.";
    assert!(august.contains(words), "{august}");
    // From July to June there are eleven whole years, with 5, 7, 9, ... 25 cyclones.
    let shifted = [&call[..], &["--year-start", "7", "--confidence", "0.9"]].concat();
    let shifted = run(&[&shifted[..], &["--title", "From winter on"]].concat());
    let words = "become 133 % more frequent per decade (90 % interval +133 to +133 %, p < 0.001); 11 years, 2001 to 2011.";
    assert!(shifted.contains(words), "{shifted}");
    let page = fs::read_to_string(out.join("trends.html")).expect("a page");
    assert!(page.contains("<title>From winter on</title>"));

    // Of few years nothing is claimed.
    let few = run(&[&call[..], &["--years", "2001-2009"]].concat());
    assert!(
        few.contains("no trend, because only 9 whole years are known"),
        "{few}"
    );

    // Whatever ends the writing, no page of older trends lies beside newer tables.
    fs::remove_file(out.join("statements.txt")).expect("removed");
    fs::create_dir(out.join("statements.txt")).expect("what cannot be replaced");
    let failed = squall().args(&call).output().expect("starts");
    assert!(!failed.status.success(), "{}", text(&failed));
    assert!(!out.join("trends.html").exists());
}

#[test]
fn what_cannot_be_used_is_refused_and_nothing_is_overwritten() {
    let folder = tempfile::tempdir().expect("a folder");
    let (events, out) = (folder.path().join("events"), folder.path().join("trends"));
    tables(&events);
    let fails = |words: &[&str], code: i32| -> String {
        let call = ["trends", path(&events), "--calendar", "noleap", "-q"];
        let output = squall().args(call).args(words).output().expect("starts");
        assert_eq!(output.status.code(), Some(code), "{}", text(&output));
        text(&output)
    };
    // Tables of events would be taken for the run's, and trends for those of events.
    let said = fails(&["--out", path(&events)], 2);
    assert!(said.contains("holds tables of `squall events`"), "{said}");
    let said = fails(&["--out", path(&out), "--years", "1900-1910"], 3);
    assert!(
        said.contains("it has no year from 1900 to 1910") && said.contains("at least 10 years"),
        "{said}"
    );
    fails(&["--out", path(&out), "--years", "2010-2001"], 2);
    fails(&["--out", path(&out), "--confidence", "0.2"], 2);
    assert!(!out.join("trends.json").exists());
    // One process writes there.
    let held = squall_jobs::lock::FolderLock::take(&out).expect("free");
    let said = fails(&["--out", path(&out)], 5);
    drop(held);
    assert!(said.contains("in use by another process"), "{said}");
    assert!(!out.join("trends.json").exists());
}

#[test]
fn one_run_may_be_a_pattern_or_a_list_and_several_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let runs = ["m1", "m2"].map(|member| folder.path().join("present").join(member));
    runs.iter().for_each(|run| tables(run));
    let out = folder.path().join("trends");
    let call = |input: &Path| {
        let call = ["trends", path(input), "--calendar", "noleap", "-q"];
        let output = squall().args(call).args(["--out", path(&out)]).output();
        output.expect("starts")
    };
    let list = folder.path().join("one.txt");
    fs::write(&list, format!("# of two\n\n{}/\n", path(&runs[1]))).expect("written");
    for input in [folder.path().join("present/*1"), list] {
        let output = call(&input);
        assert!(output.status.success(), "{}", text(&output));
        assert!(text(&output).contains("Tropical cyclones become 125 %"));
    }
    let output = call(&folder.path().join("present/m*"));
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    let said = text(&output);
    assert!(
        said.contains("names 2 runs") && said.contains("trends are of one run"),
        "{said}"
    );
}
