//! Texts with one and with two grid indices, named columns, and errors.

use super::*;
use squall_data::Calendar;

fn parse(text: &str, options: &ReadOptions) -> Result<TrackTable> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tracks.txt");
    std::fs::write(&path, text).unwrap();
    super::super::read(&path, options)
}

const TWO: &str = "start\t2\t1999\t9\t10\t0\n\t605\t36\t302.5\t18.0\t1.003906e+05\t1.9e+01\t1999\t9\t10\t0\n\
                   \t604\t37\t-58.0\t18.5\t1.002e+05\t2.4e+01\t1999\t9\t10\t6\nstart\t1\t1999\t9\t11\t6\n\
                   \t1\t2\t10.0\t-20.0\t9.9e+04\t3.0e+01\t1999\t9\t11\t6\n";

#[test]
fn tracks_of_both_kinds_of_grid() {
    let table = parse(TWO, &ReadOptions::default()).unwrap();
    // The format has no identities.
    let mut identities = table.tracks.iter().map(|track| &track.identity);
    assert!(identities.all(|identity| identity.source_id.is_none()));
    assert_eq!((table.tracks.len(), table.points()), (2, 3));
    let second = table.tracks[0].points[1];
    assert_eq!((second.lon_deg, second.max_wind_m_s), (302.0, Some(24.0)));
    assert_eq!(second.time.to_string(), "1999-09-10T06:00:00");
    let [note] = table.notes.as_slice() else {
        panic!("{:?}", table.notes)
    };
    assert!(note.contains("taken as lon,lat,slp,wind,zs"), "{note}");
    // One index, other columns.
    let options = ReadOptions {
        calendar: Calendar::NoLeap,
        columns: ["lon", "lat", "wind", "msl"].map(str::to_string).to_vec(),
        ..ReadOptions::default()
    };
    let text = "start 1 1999 9 10 0\n 17003 302.5 18.0 19.5 100390 1999 9 10 0\n";
    let table = parse(text, &options).unwrap();
    let point = table.tracks[0].points[0];
    assert_eq!(
        (point.max_wind_m_s, point.min_psl_pa),
        (Some(19.5), Some(100_390.0))
    );
    assert!(table.notes.is_empty(), "{:?}", table.notes);
    assert_eq!(point.time.calendar(), Calendar::NoLeap);
    // The same columns, but not named: an impossible pressure is dropped.
    let table = parse(text, &ReadOptions::default()).unwrap();
    assert_eq!(table.tracks[0].points[0].min_psl_pa, None);
    assert_eq!(table.notes.len(), 3);
}

/// As written by `StitchNodes --out_seconds`.
#[test]
fn a_time_may_be_in_seconds_of_the_day() {
    let text = "start\t2\t1999\t9\t10\t00000\n\t1\t2\t3.0\t4.0\t1999\t9\t10\t00000\n\
                \t1\t2\t3.0\t4.0\t1999\t9\t10\t05430\n";
    let table = parse(text, &ReadOptions::default()).unwrap();
    let points = table.tracks[0].points.iter();
    let times: Vec<String> = points.map(|point| point.time.to_string()).collect();
    assert_eq!(times, ["1999-09-10T00:00:00", "1999-09-10T01:30:30"]);
    for clock in ["86400", "-0030", "5430"] {
        let error = parse(&text.replace("05430", clock), &ReadOptions::default()).unwrap_err();
        let message = error.to_string();
        assert!(
            message.contains("line 3") && message.contains(clock),
            "{message}"
        );
    }
}

/// With a column missing, the height of the ground, 13.9 m here, would be taken for the wind.
#[test]
fn named_columns_are_all_of_a_file() {
    let text = "start 1 1999 9 10 0\n 1 2 302.5 18.0 100390 13.9 40.0 1999 9 10 0\n";
    let named = |columns: &str| {
        let options = ReadOptions {
            columns: columns.split(',').map(str::to_string).collect(),
            ..ReadOptions::default()
        };
        parse(text, &options).map(|table| table.tracks[0].points[0].max_wind_m_s)
    };
    assert_eq!(named("lon,lat,slp,zs,wind").unwrap(), Some(40.0));
    for columns in ["lon,lat,slp,wind", "lon,lat,slp,zs,vorticity,wind"] {
        let message = named(columns).unwrap_err().to_string();
        let count = format!("{} values", columns.split(',').count());
        for part in ["line 2", count.as_str(), "13.9 40.0"] {
            assert!(message.contains(part), "{message} lacks {part}");
        }
    }
}

#[test]
fn a_wind_speed_comes_before_a_component() {
    let options = ReadOptions {
        columns: ["lon", "lat", "u10", "v10", "wind10", "slp"]
            .map(str::to_string)
            .to_vec(),
        ..ReadOptions::default()
    };
    let text = "start 1 1999 9 10 0\n 17003 302.5 18.0 -12.0 15.0 19.5 100390 1999 9 10 0\n";
    let table = parse(text, &options).unwrap();
    assert_eq!(table.tracks[0].points[0].max_wind_m_s, Some(19.5));
    assert!(table.notes.is_empty(), "{:?}", table.notes);
    // Without the northward component, the eastward one is not a wind.
    let mut parts = options;
    parts.columns[4] = "zs".into();
    let table = parse(text, &parts).unwrap();
    assert_eq!(table.tracks[0].points[0].max_wind_m_s, None);
    assert_eq!(table.notes, [COMPONENTS_ONLY_NOTE]);
}

/// A name can state a unit; columns that look like winds or pressures but are not are reported.
#[test]
fn names_tell_units_and_what_is_not_read() {
    let text = "start 1 1999 9 10 0\n 1 2 302.5 18.0 60.0 100390 1999 9 10 0\n";
    let named = |wind: &str, pressure: &str| {
        let options = ReadOptions {
            columns: ["lon", "lat", wind, pressure].map(String::from).to_vec(),
            ..ReadOptions::default()
        };
        let table = parse(text, &options).unwrap();
        (table.tracks[0].points[0].max_wind_m_s, table.notes)
    };
    let (knots, notes) = named("wind_kt", "psl");
    assert!(
        (knots.unwrap() - 60.0 * 1852.0 / 3600.0).abs() < 1e-9,
        "{knots:?}"
    );
    assert!(notes.is_empty(), "{notes:?}");
    assert_eq!(named("sfcWind", "psl"), (Some(60.0), Vec::new()));
    let (none, notes) = named("wind850", "pres");
    assert_eq!(none, None);
    assert!(
        notes[0].contains("found `wind850`") && notes[1].contains("found `pres`"),
        "{notes:?}"
    );
}

#[test]
fn faults_are_located() {
    for (text, parts) in [
        (
            "start 2 1999 9 10 0\n 1 2 3.0 4.0 1999 9 10 0\n",
            ["line 2", "1 more", "end of the file"],
        ),
        (
            "start x 1999 9 10 0\n",
            ["line 1", "number of points", "`x`"],
        ),
        (
            "start 1 1999 9 10 0\n 1 2 3.0 94.0 1999 9 10 0\n",
            ["line 2", "`lat`", "-90 to 90"],
        ),
        (
            "start 1 1999 9 10 0\n 1 2 3.0 4.0 1999 9 31 0\n",
            ["line 2", "calendar", "1999 9 31 0"],
        ),
        (
            "start 1 1999 9 10 0\n 1 2 abc 4.0 1999 9 10 0\n",
            ["line 2", "`lon`", "`abc`"],
        ),
        (
            "start 1 1999 9 10 0\n 1 2 3.0 4.0 1999 9 10 0\n 1 2 3.0 4.0 1999 9 10 6\n",
            ["line 3", "start N", "1 2 3.0"],
        ),
    ] {
        let message = parse(text, &ReadOptions::default())
            .unwrap_err()
            .to_string();
        for part in parts {
            assert!(message.contains(part), "{message} lacks {part}");
        }
    }
}
