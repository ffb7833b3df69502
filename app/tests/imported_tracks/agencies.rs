//! Best tracks of agencies, whose winds and which identity they have.

use super::*;

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
