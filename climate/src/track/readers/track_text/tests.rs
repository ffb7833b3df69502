//! Files as written by TRACK, and damaged ones.

use super::*;
use crate::track::readers::read as read_any;
use proptest::prelude::*;
use squall_data::Calendar;

fn parse(text: &str, columns: &[&str]) -> Result<TrackTable> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tr_trs_pos");
    std::fs::write(&path, text).unwrap();
    let options = ReadOptions {
        calendar: Calendar::Day360,
        columns: columns.iter().map(|name| name.to_string()).collect(),
        ..ReadOptions::default()
    };
    read_any(&path, &options)
}

/// Two tracks with the same name; a pressure with a position, a wind without.
const TWO: &str = "0\n0 0\nTRACK_NUM        2 ADD_FLD    2   4 &10\n\
    TRACK_ID  28 START_TIME 1979022918\nPOINT_NUM  2\n\
    1979022918 359.5 -10.5 4.3e+00 & 3.6e+02 & -1.1e+01 & 1.0045e+03 & 2.1e+01 & \n\
    1979023000 -0.25 -11.0 5.0e+00 & 1.0e+25 & 1.0e+25 & 1.0e+25 & 2.5e+01 & \n\
    TRACK_ID  28\nPOINT_NUM  1\n\
    1979030106 120.0 15.0 6.0e+00 & 1.2e+02 & 1.5e+01 & 9.91e+02 & 1.0e+25 & \n";

#[test]
fn added_fields_that_are_named() {
    let table = parse(TWO, &["MSLP", "wind10"]).unwrap();
    assert_eq!((table.format, table.points()), (TrackFormat::TrackText, 3));
    let names: Vec<&str> = table.tracks.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["28", "28#2"]);
    let [first, second] = table.tracks[0].points[..] else {
        panic!("{table:?}")
    };
    assert_eq!((first.lon_deg, second.lon_deg), (359.5, 359.75));
    assert_eq!(second.time.to_string(), "1979-02-30T00:00:00");
    assert_eq!(
        (first.max_wind_m_s, first.min_psl_pa),
        (Some(21.0), Some(100_450.0))
    );
    assert_eq!((second.max_wind_m_s, second.min_psl_pa), (Some(25.0), None));
    assert_eq!(table.tracks[1].points[0].max_wind_m_s, None);
    assert!(table.notes.is_empty(), "{:?}", table.notes);
    // An extra name is that of the tracked field.
    let named = parse(TWO, &["vorticity", "mslp", "wind10"]).unwrap();
    assert_eq!(named, table);
    let knots = parse(TWO, &["mslp", "wind_kt"]).unwrap().tracks[0].points[0];
    assert!((knots.max_wind_m_s.unwrap() - 21.0 * 1852.0 / 3600.0).abs() < 1e-9);
    // Without names only positions are known, which a note mentions.
    let plain = parse(TWO, &[]).unwrap();
    assert_eq!(plain.tracks[0].points[0].min_psl_pa, None);
    assert!(
        plain.notes[0].contains("2 added fields"),
        "{:?}",
        plain.notes
    );
    // Names that are neither winds nor pressures are reported.
    let aloft = parse(TWO, &["pres850", "wind850"]).unwrap();
    assert_eq!(aloft.tracks[0].points[0].max_wind_m_s, None);
    let [wind, pressure] = aloft.notes.as_slice() else {
        panic!("{:?}", aloft.notes)
    };
    assert!(
        wind.contains("`wind850`") && pressure.contains("`pres850`"),
        "{wind} {pressure}"
    );
    let error = parse(TWO, &["wind10"]).unwrap_err().to_string();
    assert!(
        error.contains("expected 2 names") && error.contains("found 1"),
        "{error}"
    );
}

#[test]
fn a_file_without_added_fields() {
    let text = "0\n0 0\nTRACK_NUM 1 ADD_FLD 0 0 &\nTRACK_ID 7\nPOINT_NUM 1\n2001010100 10 20 3.5\n";
    let table = parse(text, &[]).unwrap();
    assert_eq!((table.points(), table.tracks[0].name.as_str()), (1, "7"));
}

#[test]
fn time_steps_are_refused() {
    let text = TWO.replace("1979022918 359.5", "17 359.5");
    let error = parse(&text, &[]).unwrap_err();
    assert!(matches!(&error, ClimateError::TimeStep { line: 6, found, .. } if found == "17"));
    assert!(error.to_string().contains("time step"), "{error}");
}

#[test]
fn faults_are_located() {
    for (old, new, parts) in [
        ("&10", "&11", ["line 3", "2 flags", "4 values"]),
        ("&10", "&1x", ["line 3", "0 or 1", "&1x"]),
        (
            "ADD_FLD    2",
            "ADD_FLD    two",
            ["line 3", "TRACK_NUM tracks", "two"],
        ),
        (
            "TRACK_NUM        2",
            "TRACK_NUM        3",
            ["line 10", "3 tracks", "2 and the end"],
        ),
        (
            "TRACK_NUM        2",
            "TRACK_NUM        1",
            ["line 8", "no more than the 1", "TRACK_ID"],
        ),
        (
            "POINT_NUM  2",
            "POINT_NUM  3",
            ["line 8", "1 more points", "line 4"],
        ),
        (
            "POINT_NUM  2",
            "POINT_NUM  1",
            ["line 7", "TRACK_ID or POINT_NUM", "1979023000"],
        ),
        (
            "POINT_NUM  2",
            "POINT_NUM  -2",
            ["line 5", "POINT_NUM points", "-2"],
        ),
        ("POINT_NUM  2\n", "", ["line 5", "POINT_NUM", "1979022918"]),
        ("-10.5", "-90.5", ["line 6", "`lat`", "-90 to 90"]),
        ("359.5", "NaN", ["line 6", "`lon`", "`NaN`"]),
        (
            "1979023000",
            "1979023100",
            ["line 7", "calendar 360_day", "1979023100"],
        ),
        (
            "1979023000",
            "1979-02-30",
            ["line 7", "yyyymmddhh", "1979-02-30"],
        ),
        (" & 2.1e+01", "", ["line 6", "and 5 values", "1979022918"]),
        (
            "POINT_NUM  1\n",
            "POINT_NUM  1\nTRACK_ID 3\n",
            ["line 10", "1 more points", "line 8"],
        ),
    ] {
        let message = parse(&TWO.replacen(old, new, 1), &[])
            .unwrap_err()
            .to_string();
        for part in parts {
            assert!(message.contains(part), "{message} lacks {part}");
        }
    }
}

proptest! {
    /// A truncated file, or one with changed bytes, is read or rejected.
    #[test]
    fn no_damage_ends_the_program(
        at in 0usize..400,
        with in prop::collection::vec(any::<u8>(), 0..12),
        cut in any::<bool>(),
    ) {
        let mut bytes = TWO.as_bytes().to_vec();
        let at = at.min(bytes.len());
        let end = if cut { bytes.len() } else { (at + with.len()).min(bytes.len()) };
        drop(bytes.splice(at..end, with));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tracks");
        std::fs::write(&path, bytes).unwrap();
        if let Ok(table) = read_any(&path, &ReadOptions::default()) {
            prop_assert!(table.points() <= 3);
        }
    }
}
