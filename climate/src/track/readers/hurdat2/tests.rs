//! Texts as published by NHC, and damaged ones.

use super::*;
use crate::statistics::Basin;
use crate::statistics::category::KNOT_M_S;
use crate::track::readers::imported::ImportedPoint;
use crate::track::readers::{ReadOptions, read as read_any};
use proptest::prelude::*;

fn parse(text: &str) -> Result<TrackTable> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("best.txt");
    std::fs::write(&path, text).unwrap();
    read_any(&path, &ReadOptions::default())
}

/// Two storms, one in the Pacific across the date line with the columns of newer files. Synthetic data in the original
/// layout.
const TWO: &str = "\
AL122005,            KATRINA,      4,
20050828, 1800,  , HU, 26.3N,  88.6W, 150,  902,  200,  200,  150,  150,  120,  120,   75,  120,   90,   90,   60,   90,
20050829, 1110, L, HU, 29.3N,  89.6W, 110,  920, -999, -999, -999, -999, -999, -999, -999, -999, -999, -999, -999, -999,
20050830, 1200,  , TD, 35.6N,  88.0W, -99, -999,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,
20050831, 0000,  , EX, 38.6N, 358.5W,  30,  994,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,
CP012021,            UNNAMED,      1,
20210826, 1200, S, LO,  9.5N, 179.5E,  25, 1006,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0, -999
";

#[test]
fn storms_have_their_season_basin_and_tropical_winds() {
    let table = parse(TWO).unwrap();
    assert_eq!(table.format, TrackFormat::Hurdat2);
    assert!(table.notes.is_empty(), "{:?}", table.notes);
    let [first, second] = &table.tracks[..] else {
        panic!("{table:?}")
    };
    assert_eq!(
        (first.name.as_str(), first.season, first.basin),
        ("AL122005", Some(2005), Some(Basin::NorthAtlantic))
    );
    assert_eq!(
        (second.name.as_str(), second.season, second.basin),
        ("CP012021", Some(2021), Some(Basin::EastPacific))
    );
    let called = [first, second].map(|track| {
        let identity = &track.identity;
        (identity.source_id.as_deref(), identity.name.as_deref())
    });
    let expected = [
        (Some("AL122005"), Some("KATRINA")),
        (Some("CP012021"), None),
    ];
    assert_eq!(called, expected);
    let points: Vec<ImportedPoint> = first.points.iter().chain(&second.points).copied().collect();
    let knots = |point: &ImportedPoint| point.max_wind_m_s.map(|v| (v / KNOT_M_S).round());
    let winds: Vec<_> = points.iter().map(knots).collect();
    assert_eq!(winds, [Some(150.0), Some(110.0), None, None, None]);
    let others: Vec<bool> = points.iter().map(|point| point.other_wind).collect();
    assert_eq!(others, [false, false, false, true, true]);
    let pressures: Vec<_> = points.iter().map(|point| point.min_psl_pa).collect();
    let hpa = |value: f64| Some(value * 100.0);
    let expected = [hpa(902.0), hpa(920.0), None, hpa(994.0), hpa(1006.0)];
    assert_eq!(pressures, expected);
    assert_eq!(points[1].time.to_string(), "2005-08-29T11:10:00");
    let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
    assert!(near(points[0].lon_deg, 271.4) && near(points[0].lat_deg, 26.3));
    assert!(near(points[3].lon_deg, 1.5) && near(points[4].lon_deg, 179.5));
}

/// All winds are of one agency, so there is no choice.
#[test]
fn no_column_of_winds_is_chosen_where_there_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("best.txt");
    std::fs::write(&path, TWO).unwrap();
    let options = ReadOptions {
        wind_column: Some("usa_wind".into()),
        ..ReadOptions::default()
    };
    let message = read_any(&path, &options).unwrap_err().to_string();
    for part in ["`usa_wind`", "best.txt", "IBTrACS", "found HURDAT2"] {
        assert!(message.contains(part), "{message} lacks {part}");
    }
}

#[test]
fn what_is_no_wind_or_pressure_is_left_out_with_a_note() {
    let text = TWO.replacen(" 150,  902,", " 300,   90,", 1);
    let table = parse(&text).unwrap();
    let point = table.tracks[0].points[0];
    assert_eq!((point.max_wind_m_s, point.min_psl_pa), (None, None));
    assert_eq!(table.notes.len(), 2, "{:?}", table.notes);
    assert!(table.notes[1].contains("HURDAT2"), "{:?}", table.notes);
}

#[test]
fn faults_are_located() {
    for (old, new, parts) in [
        // Headers.
        (
            "     4,",
            "     5,",
            ["line 6", "1 more rows of the storm of line 1", "CP012021"],
        ),
        (
            "     4,",
            "     3,",
            ["line 5", "a header such as", "20050831"],
        ),
        ("     4,", "     0,", ["line 1", "`rows`", "`0`"]),
        (
            "     1,",
            "     2,",
            ["line 7", "1 more rows", "end of the file"],
        ),
        (
            "CP012021",
            "AL122005",
            ["line 6", "not above", "`AL122005`"],
        ),
        ("CP012021", "QQ012021", ["line 6", "`storm`", "`QQ012021`"]),
        ("CP012021", "CP0120", ["line 6", "`storm`", "`CP0120`"]),
        (
            "UNNAMED,      1,",
            "UNNAMED",
            ["line 6", "a header such as", "CP012021"],
        ),
        // Rows.
        ("20050828,", "20050832,", ["line 2", "`date`", "`20050832`"]),
        (
            "20050828,",
            "2005-08-28,",
            ["line 2", "`date`", "`2005-08-28`"],
        ),
        (
            "20050828,",
            "20040828,",
            ["line 2", "year of the storm", "`20040828`"],
        ),
        ("1110,", "2460,", ["line 3", "`time`", "`2460`"]),
        (
            "20050829, 1110",
            "20050828, 1800",
            ["line 3", "`time`", "after that of the row above"],
        ),
        ("20050831,", "20050829,", ["line 5", "`date`", "`20050829`"]),
        (" L,", " X,", ["line 3", "`record`", "`X`"]),
        (" HU,", " QQ,", ["line 2", "`status`", "`QQ`"]),
        (" HU,", "   ,", ["line 2", "`status`", "``"]),
        ("26.3N", "96.3N", ["line 2", "`lat`", "`96.3N`"]),
        ("26.3N", "26.3E", ["line 2", "`lat`", "`26.3E`"]),
        ("26.3N", "26.3S", ["line 2", "hemisphere", "`26.3S`"]),
        ("26.3N", "263N", ["line 2", "`lat`", "`263N`"]),
        ("88.6W", "88.6N", ["line 2", "`lon`", "`88.6N`"]),
        ("358.5W", "368.5W", ["line 5", "`lon`", "`368.5W`"]),
        (" 150,  902,", " 15O,  902,", ["line 2", "`wind`", "`15O`"]),
        (" 150,  902,", " -45,  902,", ["line 2", "`wind`", "`-45`"]),
        (" 150,  902,", " 150,     ,", ["line 2", "`pressure`", "``"]),
        (
            "   75,",
            "  7.5,",
            ["line 2", "radius of 50 kt, SW", "`7.5`"],
        ),
        ("   75,", "", ["line 2", "20 or 21 values", "20050828"]),
        (
            "  60,   90,\n",
            "  60\n",
            ["line 2", "20 or 21 values", "20050828"],
        ),
    ] {
        let damaged = TWO.replacen(old, new, 1);
        assert_ne!(damaged, TWO, "{old}");
        let message = parse(&damaged).unwrap_err().to_string();
        for part in parts {
            assert!(message.contains(part), "{message} lacks {part}");
        }
    }
}

proptest! {
    /// A truncated file, or one with changed bytes, is read or rejected.
    #[test]
    fn no_damage_ends_the_program(
        at in 0usize..750,
        with in prop::collection::vec(any::<u8>(), 0..12),
        cut in any::<bool>(),
    ) {
        let mut bytes = TWO.as_bytes().to_vec();
        let at = at.min(bytes.len());
        let end = if cut { bytes.len() } else { (at + with.len()).min(bytes.len()) };
        drop(bytes.splice(at..end, with));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("best.txt");
        std::fs::write(&path, bytes).unwrap();
        if let Ok(table) = read_any(&path, &ReadOptions::default()) {
            prop_assert!(table.points() <= 5);
        }
    }

    /// Degrees, knots and hPa round-trip.
    #[test]
    fn what_is_written_is_read(
        rows in prop::collection::vec((0u32..900, 0u32..3600, any::<bool>(), 1u32..290, 800u32..1100), 1..20),
    ) {
        let mut text = format!("WP012001, UNNAMED, {},\n", rows.len());
        for (k, (lat, lon, east, knots, hpa)) in rows.iter().enumerate() {
            let letter = if *east { 'E' } else { 'W' };
            let (day, hour) = (1 + k / 4, k % 4 * 6);
            text += &format!("200101{day:02}, {hour:02}00,  , TS, {}.{}N, {}.{}{letter}, {knots}, {hpa}",
                lat / 10, lat % 10, lon / 10, lon % 10);
            text += &format!("{},\n", ", -999".repeat(12));
        }
        let table = parse(&text).unwrap();
        prop_assert_eq!(table.points(), rows.len());
        for (point, (lat, lon, east, knots, hpa)) in table.tracks[0].points.iter().zip(rows) {
            let lon = if east { lon } else { 3600 - lon };
            prop_assert!((point.lat_deg * 10.0 - f64::from(lat)).abs() < 1e-6);
            prop_assert!((point.lon_deg * 10.0 - f64::from(lon % 3600)).abs() < 1e-6);
            let wind = point.max_wind_m_s.unwrap() * 3600.0 / 1852.0;
            prop_assert!((wind - f64::from(knots)).abs() < 1e-9);
            prop_assert_eq!(point.min_psl_pa, Some(f64::from(hpa) * 100.0));
        }
    }
}
