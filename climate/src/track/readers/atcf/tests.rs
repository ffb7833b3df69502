//! Decks as written by agencies and the GFDL vortex tracker, and damaged ones.

use super::*;
use crate::error::ClimateError;
use crate::statistics::Basin;
use crate::statistics::category::KNOT_M_S;
use crate::track::readers::imported::ImportedPoint;
use crate::track::readers::{ReadOptions, read as read_any};
use proptest::prelude::*;

fn parse(text: &str) -> Result<TrackTable> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deck.dat");
    std::fs::write(&path, text).unwrap();
    read_any(&path, &ReadOptions::default())
}

/// Three storms: two of one season in two basins, and an old southern one whose lines end after the wind. Synthetic
/// data in the original layout.
const BEST_TRACKS: &str = "\
AL, 12, 2005082812,   , BEST,   0, 257N,  877W, 145,  909, HU,  34, NEQ,  180,  180,  120,  160, 1006,  250,  20, 175,   0,   L,   0,    ,   0,   0,    KATRINA, D,
AL, 12, 2005082812,   , BEST,   0, 257N,  877W, 145,  909, HU,  50, NEQ,  120,  120,   75,  100, 1006,  250,  20, 175,   0,   L,   0,    ,   0,   0,    KATRINA, D,
AL, 12, 2005082812,   , BEST,   0, 257N,  877W, 145,  909, HU,  64, NEQ,   90,   90,   60,   75, 1006,  250,  20, 175,   0,   L,   0,    ,   0,   0,    KATRINA, D,
AL, 12, 2005082911, 10, BEST,   0, 293N,  896W, 110,    0, HU,  34, NEQ,    0,    0,    0,    0,
AL, 12, 2005083100,   , BEST,   0, 386N,  853W,  30,  994, EX,   0,    ,    0,    0,    0,    0,
WP, 14, 2005083100,   , BEST,   0, 198N, 1303E, 135,  898, TY,  34, NEQ,  150,  150,  150,  150
SH, 05, 1975122406,   , BEST,   0, 103S, 1355E,  30
SH, 05, 1975122412,   , BEST,   0, 110S, 1290E,   0
";

fn knots(points: &[ImportedPoint]) -> Vec<Option<f64>> {
    let wind = |point: &ImportedPoint| point.max_wind_m_s.map(|v| (v / KNOT_M_S).round());
    points.iter().map(wind).collect()
}

#[test]
fn lines_of_one_time_are_one_point() {
    let table = parse(BEST_TRACKS).unwrap();
    assert_eq!(table.format, TrackFormat::Atcf);
    assert!(table.notes.is_empty(), "{:?}", table.notes);
    let of = |track: &crate::track::readers::ImportedTrack| {
        (track.name.clone(), track.season, track.basin)
    };
    let storms: Vec<_> = table.tracks.iter().map(of).collect();
    let expected = [
        ("AL122005", 2005, Basin::NorthAtlantic),
        ("WP142005", 2005, Basin::WestPacific),
        ("SH051976", 1976, Basin::SouthPacific),
    ];
    let expected = expected.map(|(id, season, basin)| (id.to_string(), Some(season), Some(basin)));
    assert_eq!(storms, expected);
    let points = &table.tracks[0].points;
    assert_eq!(knots(points), [Some(145.0), Some(110.0), None]);
    assert_eq!(points[1].time.to_string(), "2005-08-29T11:10:00");
    assert_eq!((points[1].min_psl_pa, points[2].other_wind), (None, true));
    assert_eq!(points[0].min_psl_pa, Some(90_900.0));
    assert!((points[0].lon_deg - 272.3).abs() < 1e-9 && points[0].lat_deg == 25.7);
    let south = &table.tracks[2].points;
    assert_eq!(knots(south), [Some(30.0), None]);
    assert_eq!((south[0].lon_deg, south[0].lat_deg), (135.5, -10.3));
}

/// The name column contains a number for depressions, and other numbers in files of the tracker.
#[test]
fn storms_are_called_by_their_last_name() {
    let called = |text: &str| {
        let identity = parse(text).unwrap().tracks[0].identity.clone();
        (identity.source_id, identity.name)
    };
    let id = || Some("AL122005".to_string());
    let named = |name: &str| (id(), Some(name.to_string()));
    assert_eq!(called(BEST_TRACKS), named("KATRINA"));
    let line = |date: &str, name: &str| {
        let before = "34, NEQ, 0, 0, 0, 0, 1006, 250, 20, 175, 0, L, 0, , 0, 0";
        format!("AL, 12, {date},   , BEST,   0, 257N,  877W,  45,  990, TS, {before}, {name}, D,\n")
    };
    let of = |names: [&str; 3]| {
        let dates = ["2005082400", "2005082406", "2005082412"];
        let lines = dates
            .into_iter()
            .zip(names)
            .map(|(date, name)| line(date, name));
        called(&lines.collect::<String>())
    };
    assert_eq!(of(["TWELVE", "KATRINA", ""]), named("KATRINA"));
    assert_eq!(of(["INVEST", "TWELVE", "INVEST"]), named("TWELVE"));
    assert_eq!(of(["INVEST", "NONAME", ""]), (id(), None));
    let forecast = line("2005082400", "75").replace("BEST", "AVNO");
    assert_eq!(called(&forecast), (id(), None));
}

fn names(text: &str) -> Vec<String> {
    let table = parse(text).unwrap();
    table.tracks.into_iter().map(|track| track.name).collect()
}

#[test]
fn a_storm_keeps_its_season_and_the_next_with_its_number_is_another() {
    fn line(code: &str, date: &str) -> String {
        let letter = if code.starts_with('S') { 'S' } else { 'N' };
        format!("{code}, {date},   , BEST,   0, 150{letter},  900E,  40,  990, TS\n")
    }
    let of = |lines: &[(&str, &str)]| {
        let text: String = lines.iter().map(|(code, date)| line(code, date)).collect();
        names(&text)
    };
    // Across New Year, and across the end of June in the south.
    assert_eq!(
        of(&[("AL, 30", "2005123118"), ("AL, 30", "2006010100")]),
        ["AL302005"]
    );
    assert_eq!(
        of(&[("SH, 24", "2005063018"), ("SH, 24", "2005070100")]),
        ["SH242005"]
    );
    assert_eq!(of(&[("SH, 01", "2005070100")]), ["SH012006"]);
    // Consecutive years in either order; interleaved storms.
    let years = [("IO, 01", "2005050100"), ("IO, 01", "2006050100")];
    assert_eq!(of(&years), ["IO012005", "IO012006"]);
    assert_eq!(of(&[years[1], years[0]]), ["IO012006", "IO012005"]);
    let beside = [
        ("EP, 01", "2005060100"),
        ("EP, 02", "2005060100"),
        ("EP, 01", "2005060106"),
    ];
    assert_eq!(of(&beside), ["EP012005", "EP022005"]);
}

/// A forecast as written by the GFDL tracker; the storm is lost at the third time.
const FORECAST: &str = "\
AL, 13, 2000092512, 03, GFSO, 000, 243N,  675W,  42,  995, XX,  34, NEQ, 0242, 0163, 0124, 0208
AL, 13, 2000092512, 03, GFSO, 012, 250N,  680W,  52,  990, XX,  34, NEQ, 0242, 0163, 0124, 0208
AL, 13, 2000092512, 03, GFSO, 012, 250N,  680W,  52,  990, XX,  50, NEQ, 0100, 0000, 0000, 0000
AL, 13, 2000092512, 03, GFSO, 024,   0 ,    0 ,   0,    0, XX,  34, NEQ, 0000, 0000, 0000, 0000
";

#[test]
fn one_forecast_is_a_track_at_the_times_that_it_is_for() {
    let table = parse(FORECAST).unwrap();
    let [track] = &table.tracks[..] else {
        panic!("{table:?}")
    };
    let times: Vec<String> = track
        .points
        .iter()
        .map(|point| point.time.to_string())
        .collect();
    assert_eq!(times, ["2000-09-25T12:00:00", "2000-09-26T00:00:00"]);
    assert_eq!(track.name, "AL132000");
    assert_eq!(knots(&track.points), [Some(42.0), Some(52.0)]);
    assert!(
        table.notes[0].contains("1 lines have no position"),
        "{:?}",
        table.notes
    );
    // The tracker's file with quarter hours.
    let minutes = FORECAST.replace(", 012,", ", 01225,");
    let point = parse(&minutes).unwrap().tracks[0].points[1];
    assert_eq!(point.time.to_string(), "2000-09-26T00:15:00");
    let message = parse(&FORECAST.replace(", 012,", ", 0.5,"))
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("line 2") && message.contains("`lead time`"),
        "{message}"
    );
}

/// The tracker has more basins than agencies; codes that span several basins are resolved by the first point.
#[test]
fn a_forecast_has_a_basin_by_its_code_or_its_place() {
    for (code, place, season, basin) in [
        ("SC", "150N, 1150E", 2000, Some(Basin::WestPacific)),
        ("EC", "300N, 1250E", 2000, Some(Basin::WestPacific)),
        ("BB", "150N,  900E", 2000, Some(Basin::NorthIndian)),
        ("NA", "150N,  650E", 2000, Some(Basin::NorthIndian)),
        ("NA", "  2S,  300W", 2000, Some(Basin::NorthAtlantic)),
        ("SI", "150S, 1400E", 2001, Some(Basin::SouthIndian)),
        ("SP", "150S, 1300E", 2001, Some(Basin::SouthPacific)),
        ("AU", "150S, 1300E", 2001, Some(Basin::SouthIndian)),
        ("AU", "  2N, 1400E", 2001, Some(Basin::SouthPacific)),
        ("HC", "150S, 1400E", 2000, None),
    ] {
        let start = "2000092512, 03, GFSO, 000";
        let line = format!("{code}, 13, {start}, {place},  42,  995, XX,  34, NEQ, 0242\n");
        let track = &parse(&line).unwrap().tracks[0];
        assert_eq!((track.season, track.basin), (Some(season), basin), "{line}");
    }
}

#[test]
fn several_techniques_or_starts_are_refused_by_name() {
    let other = FORECAST.replace("GFSO", "OFCL");
    for (text, found) in [
        (format!("{FORECAST}{other}"), "GFSO, OFCL from 2000092512"),
        (
            format!("{FORECAST}{}", FORECAST.replace("2512", "2518")),
            "GFSO from 2000092512, 2000092518",
        ),
    ] {
        let error = parse(&text).unwrap_err();
        assert!(
            matches!(error, ClimateError::ManyForecasts { .. }),
            "{error}"
        );
        assert!(error.to_string().contains(found), "{error}");
    }
    let many: String = (10..30)
        .map(|k| FORECAST.replace("GFSO", &format!("AP{k}")))
        .collect();
    let message = parse(&many).unwrap_err().to_string();
    assert!(
        message.contains("AP21 and 8 more from 2000092512"),
        "{message}"
    );
}

#[test]
fn faults_are_located() {
    for (old, new, parts) in [
        ("WP, 14", "QQ, 14", ["line 6", "`basin`", "`QQ`"]),
        ("WP, 14", "WP, 4x", ["line 6", "`number`", "`4x`"]),
        (
            "2005082911, 10",
            "2005082911, 60",
            ["line 4", "`minutes`", "`60`"],
        ),
        (
            "2005082911, 10",
            "2005082924, 10",
            ["line 4", "`date`", "`2005082924`"],
        ),
        (
            "2005082911, 10",
            "200508291110,   ",
            ["line 4", "`date`", "`200508291110`"],
        ),
        (
            "2005083100,",
            "2005082700,",
            ["line 5", "`date`", "not before that of the line above"],
        ),
        ("10, BEST", "10, OFCL", ["line 4", "`technique`", "`OFCL`"]),
        (
            "10, BEST,   0",
            "10, BEST,  12",
            ["line 4", "`lead time`", "`12`"],
        ),
        ("293N", "993N", ["line 4", "`lat`", "`993N`"]),
        ("293N", "29.3N", ["line 4", "`lat`", "`29.3N`"]),
        ("293N", "293W", ["line 4", "`lat`", "`293W`"]),
        ("103S", "103N", ["line 7", "hemisphere", "`103N`"]),
        (
            "293N,  896W",
            "  0N,    0W",
            ["line 4", "0N 0E is not", "`0N`"],
        ),
        ("896W", "896S", ["line 4", "`lon`", "`896S`"]),
        ("1303E", "3603E", ["line 6", "`lon`", "`3603E`"]),
        (" 110,", " 11O,", ["line 4", "`wind`", "`11O`"]),
        ("  994,", "  -94,", ["line 5", "`pressure`", "`-94`"]),
        ("EX", "QQ", ["line 5", "`status`", "`QQ`"]),
        ("HU,  50", "QQ,  50", ["line 2", "`status`", "`QQ`"]),
        (
            "0, 257N,  877W, 145,  909, HU,  50",
            "0, 258N,  877W, 145,  909, HU,  50",
            ["line 2", "position and wind of line 1", "258N"],
        ),
        (
            "1355E,  30",
            "1355E",
            ["line 7", "from the basin to the wind", "SH, 05"],
        ),
    ] {
        let damaged = BEST_TRACKS.replacen(old, new, 1);
        assert_ne!(damaged, BEST_TRACKS, "{old}");
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
        at in 0usize..900,
        with in prop::collection::vec(any::<u8>(), 0..12),
        cut in any::<bool>(),
        forecast in any::<bool>(),
    ) {
        let text = if forecast { FORECAST } else { BEST_TRACKS };
        let mut bytes = text.as_bytes().to_vec();
        let at = at.min(bytes.len());
        let end = if cut { bytes.len() } else { (at + with.len()).min(bytes.len()) };
        drop(bytes.splice(at..end, with));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deck.dat");
        std::fs::write(&path, bytes).unwrap();
        if let Ok(table) = read_any(&path, &ReadOptions::default()) {
            prop_assert!(table.points() <= 8);
        }
    }
}
