//! Files of every layout, as written by their tools, and damaged ones.

use super::*;
use crate::statistics::category::KNOT_M_S;
use crate::track::readers::{ReadOptions, format_of, read as read_any};
use netcdf::FileMut;
use proptest::prelude::*;

type Written = std::result::Result<(), netcdf::Error>;

/// Writes a file with `write` and reads it with automatic detection.
fn parse(write: impl FnOnce(&mut FileMut) -> Written + Send) -> Result<TrackTable> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("anything");
    on_library_thread(|| write(&mut netcdf::create(&path)?)).unwrap();
    let options = ReadOptions {
        calendar: Calendar::NoLeap,
        ..ReadOptions::default()
    };
    read_any(&path, &options)
}

fn numbers(
    file: &mut FileMut,
    name: &str,
    along: &[&str],
    values: &[f64],
    attributes: &[(&str, &str)],
) -> Written {
    let mut variable = file.add_variable::<f64>(name, along)?;
    for (attribute, text) in attributes {
        variable.put_attribute(attribute, *text)?;
    }
    variable.put_values(values, ..)
}

const HOURS: (&str, &str) = ("units", "hours since 1979-02-28 12:00:00");

/// Four points in the usual layouts.
fn points(file: &mut FileMut, along: &[&str]) -> Written {
    let lat = [10.0, 10.5, -20.0, -21.0];
    numbers(file, "lat", along, &lat, &[])?;
    numbers(file, "lon", along, &[-0.5, 0.5, 180.0, -179.5], &[])?;
    numbers(file, "time", along, &[0.0, 12.0, 6.0, 12.0], &[HOURS])?;
    let wind = [20.0, 22.5, 30.0, f64::NAN];
    numbers(
        file,
        "wind_speed_10m",
        along,
        &wind,
        &[("units", "m s**-1")],
    )?;
    let psl = [1005.0, 1000.0, 1e25, 995.0];
    numbers(file, "psl", along, &psl, &[("units", "hpa")])
}

/// The expected result for all layouts of these points.
fn check(table: &TrackTable, names: [&str; 2]) {
    assert_eq!(table.format, TrackFormat::TrajectoryNetcdf);
    let found: Vec<&str> = table.tracks.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(found, names);
    let [first, second] = table.tracks[0].points[..] else {
        panic!("{table:?}")
    };
    assert_eq!((first.lon_deg, second.lon_deg), (359.5, 0.5));
    // The file states no calendar, and the given one has no 29 February.
    assert_eq!(second.time.to_string(), "1979-03-01T00:00:00");
    assert_eq!(
        (second.max_wind_m_s, second.min_psl_pa),
        (Some(22.5), Some(100_000.0))
    );
    let [third, last] = table.tracks[1].points[..] else {
        panic!("{table:?}")
    };
    assert_eq!((third.lon_deg, last.lon_deg), (180.0, 180.5));
    assert_eq!((third.max_wind_m_s, third.min_psl_pa), (Some(30.0), None));
    assert_eq!((last.max_wind_m_s, last.min_psl_pa), (None, Some(99_500.0)));
    assert!(table.notes.is_empty(), "{:?}", table.notes);
}

fn source_ids(table: &TrackTable) -> Vec<Option<String>> {
    let tracks = table.tracks.iter();
    tracks
        .map(|track| track.identity.source_id.clone())
        .collect()
}

fn contiguous(file: &mut FileMut, sizes: [f64; 2]) -> Written {
    file.add_dimension("record", 4)?;
    file.add_dimension("trajectory", 2)?;
    points(file, &["record"])?;
    let sample = [("sample_dimension", "record")];
    numbers(file, "rowSize", &["trajectory"], &sizes, &sample)?;
    let mut identity = file.add_string_variable("track_id", &["trajectory"])?;
    identity.put_attribute("cf_role", "trajectory_id")?;
    identity.put_string("1900-12", [0])?;
    identity.put_string("1900-12", [1])
}

#[test]
fn contiguous_ragged_arrays() {
    // Two tracks with the same name remain separate.
    let table = parse(|file| contiguous(file, [2.0, 2.0])).unwrap();
    check(&table, ["1900-12", "1900-12#2"]);
    let expected = ["1900-12", "1900-12#2"].map(|name| Some(name.to_string()));
    assert_eq!(source_ids(&table), expected);
    let table = parse(|file| contiguous(file, [2.0, 0.0])).unwrap();
    assert_eq!((table.tracks.len(), table.points()), (1, 2));
    assert!(
        table.notes[0].contains("2 points belong to no track"),
        "{:?}",
        table.notes
    );
}

#[test]
fn indexed_ragged_arrays() {
    let index = |file: &mut FileMut, index: [f64; 4], instances: &str| -> Written {
        file.add_dimension("obs", 4)?;
        file.add_dimension("storms", 3)?;
        points(file, &["obs"])?;
        let of = [("instance_dimension", instances)];
        numbers(file, "parent", &["obs"], &index, &of)
    };
    let table = parse(|file| index(file, [0.0, 0.0, 2.0, 2.0], "storms")).unwrap();
    check(&table, ["1", "3"]);
    // The track numbers are made up by the reader.
    assert!(source_ids(&table).iter().all(Option::is_none));
    for (values, instances, parts) in [
        (
            [0.0, 0.0, 3.0, 2.0],
            "storms",
            ["`parent`", "below 3", "3 at point 2"],
        ),
        (
            [0.0, -1.0, 2.0, 2.0],
            "storms",
            ["`parent`", "from 0", "-1 at point 1"],
        ),
        (
            [0.0, 0.5, 2.0, 2.0],
            "storms",
            ["`parent`", "whole numbers", "0.5 at point 1"],
        ),
        (
            [0.0, 0.0, 2.0, 2.0],
            "ships",
            ["`parent`", "instance_dimension", "`ships`"],
        ),
    ] {
        let error = parse(|file| index(file, values, instances)).unwrap_err();
        contains(&error, &parts);
    }
    let table = parse(|file| index(file, [0.0, 0.0, 2.0, f64::NAN], "storms")).unwrap();
    assert_eq!(table.points(), 3);
}

fn contains(error: &ClimateError, parts: &[&str]) {
    let message = error.to_string();
    for part in parts.iter().chain(&["anything"]) {
        assert!(message.contains(part), "{message} lacks {part}");
    }
}

#[test]
fn points_that_name_their_track() {
    let table = parse(|file| {
        file.add_dimension("record", 4)?;
        points(file, &["record"])?;
        numbers(file, "Track_ID", &["record"], &[7.0, 7.0, 8.0, 8.0], &[])
    });
    check(&table.unwrap(), ["7", "8"]);
    let error = parse(|file| {
        file.add_dimension("record", 4)?;
        points(file, &["record"])?;
        numbers(
            file,
            "track_id",
            &["record"],
            &[7.0, f64::NAN, 8.0, 8.0],
            &[],
        )
    });
    contains(
        &error.unwrap_err(),
        &["`track_id`", "name of a track", "point 1"],
    );
}

/// Both orders of the dimensions, times per track or shared; with and without track names.
#[test]
fn padded_rows() {
    const PAD: f64 = f64::NAN;
    let table = parse(|file| {
        file.add_dimension("trajectory", 2)?;
        file.add_dimension("observation", 3)?;
        let along = ["trajectory", "observation"];
        let lat = [10.0, 10.5, PAD, -20.0, -21.0, PAD];
        numbers(file, "latitude", &along, &lat, &[])?;
        let lon = [-0.5, 0.5, PAD, 180.0, -179.5, PAD];
        numbers(file, "longitude", &along, &lon, &[])?;
        let time = [0.0, 12.0, PAD, 6.0, 12.0, PAD];
        numbers(file, "time", &along, &time, &[HOURS])?;
        let wind = [20.0, 22.5, PAD, 30.0, PAD, PAD];
        numbers(file, "vmax", &along, &wind, &[("units", "m/s")])?;
        let psl = [100_500.0, 100_000.0, PAD, PAD, 99_500.0, PAD];
        numbers(file, "slp", &along, &psl, &[])?;
        let mut names = file.add_variable::<u8>("trajectory", &["trajectory"])?;
        names.put_values(&[3u8, 9], ..)
    });
    check(&table.unwrap(), ["3", "9"]);
    let table = parse(|file| {
        file.add_attribute("featureType", "trajectory")?;
        file.add_dimension("step", 3)?;
        file.add_dimension("storm", 2)?;
        let along = ["step", "storm"];
        let lat = [10.0, -99.0, -99.0, -20.0, 10.5, -21.0];
        let mut variable = file.add_variable::<f64>("lat", &along)?;
        variable.put_attribute("missing_value", -99.0)?;
        variable.put_values(&lat, ..)?;
        let lon = [-0.5, PAD, PAD, 180.0, 0.5, -179.5];
        numbers(file, "lon", &along, &lon, &[])?;
        numbers(file, "time", &["step"], &[0.0, 6.0, 12.0], &[HOURS])?;
        let wind = [20.0, PAD, PAD, 30.0, 22.5, PAD].map(|m_s: f64| m_s / KNOT_M_S);
        numbers(file, "wind_kt", &along, &wind, &[])?;
        let psl = [1005.0, PAD, PAD, PAD, 1000.0, 995.0];
        numbers(file, "mslp", &along, &psl, &[("units", "mb")])
    });
    let mut table = table.unwrap();
    for point in table.tracks.iter_mut().flat_map(|track| &mut track.points) {
        point.max_wind_m_s = point.max_wind_m_s.map(|wind| (wind * 1e6).round() / 1e6);
    }
    check(&table, ["1", "2"]);
}

/// TRACK's format: the start of each track, pressures in hPa labelled Pa, a calendar attribute of its own, positions of
/// added fields.
fn track(file: &mut FileMut, firsts: [f64; 2], sizes: [f64; 2], units: &str) -> Written {
    file.add_dimension("tracks", 2)?;
    file.add_dimension("record", 4)?;
    let of_tracks = ["tracks"];
    numbers(file, "TRACK_ID", &of_tracks, &[840.0, 1601.0], &[])?;
    numbers(file, "FIRST_PT", &of_tracks, &firsts, &[])?;
    numbers(file, "NUM_PTS", &of_tracks, &sizes, &[])?;
    let along = ["record"];
    let time = [("units", units), ("time_calendar", " noleap")];
    numbers(file, "time", &along, &[6.0, 12.0, 0.0, 12.0], &time)?;
    let standard = |name: &'static str| [("standard_name", name)];
    let lon = [180.0, 180.5, 359.5, 0.5];
    numbers(
        file,
        "longitude_1",
        &along,
        &[1.0; 4],
        &standard("longitude"),
    )?;
    numbers(file, "longitude", &along, &lon, &standard("longitude"))?;
    let lat = [-20.0, -21.0, 10.0, 10.5];
    numbers(file, "latitude", &along, &lat, &standard("latitude"))?;
    numbers(file, "latitude_1", &along, &[1.0; 4], &standard("latitude"))?;
    let mut psl = file.add_variable::<f32>("psl", &along)?;
    psl.put_attribute("units", "pa")?;
    psl.put_attribute("scale_factor", 0.01)?;
    psl.set_fill_value(1e25_f32)?;
    psl.put_values(&[1e25_f32, 995.0, 1005.0, 1000.0], ..)?;
    let wind = [30.0, 1e25, 20.0, 22.5];
    numbers(file, "wind_speed_925", &along, &[90.0; 4], &[])?;
    numbers(
        file,
        "wind_speed_10m",
        &along,
        &wind,
        &[("units", "m s**-1")],
    )
}

const TRACK_HOURS: &str = "hours since 1979-02-28 12";

#[test]
fn netcdf_of_track() {
    let table = parse(|file| track(file, [2.0, 0.0], [2.0, 2.0], TRACK_HOURS));
    let mut table = table.unwrap();
    let note = table.notes.pop().unwrap();
    assert!(note.contains("`psl` is taken as hPa"), "{note}");
    check(&table, ["840", "1601"]);
    for (firsts, sizes, units, parts) in [
        (
            [2.0, 1.0],
            [2.0, 2.0],
            TRACK_HOURS,
            ["`FIRST_PT`", "of its own", "points 1 to 3"],
        ),
        (
            [3.0, 0.0],
            [2.0, 2.0],
            TRACK_HOURS,
            ["`NUM_PTS`", "4 points of the file", "points 3 to 5"],
        ),
        (
            [-1.0, 0.0],
            [2.0, 2.0],
            TRACK_HOURS,
            ["`FIRST_PT`", "first point", "-1"],
        ),
        (
            [2.0, 0.0],
            [2.0, -2.0],
            TRACK_HOURS,
            ["`NUM_PTS`", "number of points", "-2"],
        ),
        (
            [2.0, 0.0],
            [1e18, 2.0],
            TRACK_HOURS,
            ["`NUM_PTS`", "4 points", "1000000000000000002"],
        ),
        (
            [2.0, 0.0],
            [f64::NAN, 2.0],
            TRACK_HOURS,
            ["`NUM_PTS`", "number of points", "NaN"],
        ),
        (
            [2.0, 0.0],
            [2.0, 2.0],
            "steps",
            ["`time`", "hours since", "`steps`"],
        ),
    ] {
        let error = parse(|file| track(file, firsts, sizes, units)).unwrap_err();
        contains(&error, &parts);
    }
}

/// Single values per point, and axes.
#[test]
fn faults_are_located() {
    let with =
        |name: &'static str, values: [f64; 4], attributes: &[(&'static str, &'static str)]| {
            let attributes = attributes.to_vec();
            parse(move |file| {
                file.add_dimension("record", 4)?;
                let along = ["record"];
                let none: &[_] = &[];
                let usual = [
                    ("lat", [10.0, 10.5, -20.0, -21.0], none),
                    ("lon", [1.0, 2.0, 3.0, 4.0], none),
                    ("time", [12.0, 0.0, 6.0, 12.0], &[HOURS]),
                    ("track_id", [1.0, 1.0, 2.0, 2.0], none),
                ];
                for (other, values, attributes) in usual {
                    if other != name {
                        numbers(file, other, &along, &values, attributes)?;
                    }
                }
                numbers(file, name, &along, &values, &attributes)
            })
        };
    let nan = f64::NAN;
    let four = [1.0, 2.0, 3.0, 4.0];
    for (name, values, attributes, parts) in [
        (
            "lat",
            [1.0, 91.0, 1.0, 1.0],
            vec![],
            ["`lat`", "-90 to 90", "91 at point 1, of track `1`"],
        ),
        (
            "lat",
            [1.0, nan, 1.0, 1.0],
            vec![],
            ["`lat`", "-90 to 90", "NaN at point 1"],
        ),
        (
            "lon",
            [1.0, 1.0, 1.0, 1e6],
            vec![],
            ["`lon`", "degrees", "1000000 at point 3, of track `2`"],
        ),
        (
            "time",
            [0.0, nan, 1.0, 1.0],
            vec![HOURS],
            ["`time`", "position", "NaN at point 1"],
        ),
        ("time", four, vec![], ["`time`", "hours since", "none"]),
        (
            "time",
            four,
            vec![HOURS, ("calendar", "lunar")],
            ["`time`", "calendar", "`lunar`"],
        ),
        (
            "time",
            four,
            vec![("units", "days since 1979-02-29")],
            ["`time`", "units", "noleap"],
        ),
        (
            "vmax",
            [10.0, 20.0, 30.0, 33.0],
            vec![],
            ["`vmax`", "m/s or knots", "from 10 to 33"],
        ),
        (
            "vmax",
            four,
            vec![("units", "K")],
            ["`vmax`", "m/s or knots", "`K`"],
        ),
        (
            "slp",
            four,
            vec![("units", "m")],
            ["`slp`", "Pa or hPa", "`m`"],
        ),
    ] {
        contains(&with(name, values, &attributes).unwrap_err(), &parts);
    }
    // Descending times are sorted, and a repeated time is dropped.
    let table = with("time", [12.0, 0.0, 6.0, 6.0], &[HOURS]).unwrap();
    assert_eq!(table.tracks[0].points[0].lat_deg, 10.5);
    assert_eq!(table.points(), 3);
    assert!(
        table.notes[0].contains("1 points repeat"),
        "{:?}",
        table.notes
    );
    // A point without a position is dropped.
    let table = with("vmax", [10.0, 20.0, 30.0, 40.0], &[]).unwrap();
    let wind = table.tracks[1].points[1].max_wind_m_s.unwrap();
    assert!((wind - 40.0 * KNOT_M_S).abs() < 1e-9 && table.notes.len() == 1);
}

/// A standard name does not state the level, unlike a variable's own name.
#[test]
fn a_wind_aloft_is_none_of_a_track() {
    let with = |name: &'static str| {
        parse(move |file| {
            file.add_dimension("record", 2)?;
            let along = ["record"];
            numbers(file, "lat", &along, &[10.0, 10.5], &[])?;
            numbers(file, "lon", &along, &[1.0, 2.0], &[])?;
            numbers(file, "time", &along, &[0.0, 6.0], &[HOURS])?;
            numbers(file, "track_id", &along, &[1.0, 1.0], &[])?;
            let attributes = [("units", "m s-1"), ("standard_name", "wind_speed")];
            numbers(file, name, &along, &[20.0, 30.0], &attributes)
        })
        .unwrap()
    };
    let near = with("speed");
    assert_eq!(near.tracks[0].points[1].max_wind_m_s, Some(30.0));
    assert!(near.notes.is_empty(), "{:?}", near.notes);
    let aloft = with("wind925");
    assert_eq!(aloft.tracks[0].points[1].max_wind_m_s, None);
    let note = &aloft.notes[0];
    assert!(
        note.contains("no wind is read") && note.contains("`wind925`"),
        "{note}"
    );
}

/// A large length alone does not allocate memory.
#[test]
fn more_tracks_than_points_could_have_are_refused() {
    let error = parse(|file| {
        file.add_dimension("record", 4)?;
        file.add_dimension("trajectory", 100_000_000)?;
        points(file, &["record"])?;
        let of = [("instance_dimension", "trajectory")];
        numbers(file, "index", &["record"], &[0.0, 0.0, 1.0, 1.0], &of)
    });
    contains(
        &error.unwrap_err(),
        &["at most 1048576 tracks", "100000000"],
    );
}

#[test]
fn other_files_are_none_and_empty_ones_have_no_tracks() {
    let table = parse(|file| {
        file.add_unlimited_dimension("record")?;
        file.add_unlimited_dimension("trajectory")?;
        for name in ["lat", "lon", "time"] {
            let mut variable = file.add_variable::<f64>(name, &["record"])?;
            variable.put_attribute("units", "days since 2000-01-01")?;
        }
        let mut sizes = file.add_variable::<i32>("rowSize", &["trajectory"])?;
        sizes.put_attribute("sample_dimension", "record")?;
        Ok(())
    });
    assert!(table.unwrap().tracks.is_empty());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fields.nc");
    // Stations, and a grid with two-dimensional coordinates: neither has tracks.
    let write = |along: &'static [&'static str], time: &'static [&'static str]| {
        on_library_thread(|| -> Written {
            let mut file = netcdf::create(&path)?;
            for name in ["y", "x", "t"] {
                file.add_dimension(name, 2)?;
            }
            let values = vec![1.0; 1 << along.len()];
            numbers(&mut file, "lat", along, &values, &[])?;
            numbers(&mut file, "lon", along, &values, &[])?;
            numbers(&mut file, "time", time, &[0.0, 1.0], &[HOURS])
        })
    };
    let (row, plane) = (&["x"][..], &["y", "x"][..]);
    for (along, time) in [(row, &["t"][..]), (plane, &["t"][..]), (plane, &["y"][..])] {
        write(along, time).unwrap();
        assert_eq!(format_of(&path).unwrap(), None, "{along:?} {time:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// With arbitrary sizes and starts, no point is in two tracks, and none is dropped without a note.
    #[test]
    fn any_sizes_are_read_or_refused(
        firsts in prop::array::uniform2(-2i32..6),
        sizes in prop::array::uniform2(-2i32..6),
    ) {
        let [firsts, sizes] = [firsts, sizes].map(|pair| pair.map(f64::from));
        if let Ok(table) = parse(|file| track(file, firsts, sizes, TRACK_HOURS)) {
            let left_out = 4.0 - sizes[0] - sizes[1];
            prop_assert!(left_out >= 0.0);
            let notes = |part: &str| table.notes.iter().any(|note| note.contains(part));
            // Two of the points have the same time.
            let repeated = f64::from(u8::from(notes("1 points repeat")));
            prop_assert_eq!(table.points() as f64, 4.0 - left_out - repeated);
            prop_assert_eq!(notes("belong to no track"), left_out > 0.0);
        }
    }
}
