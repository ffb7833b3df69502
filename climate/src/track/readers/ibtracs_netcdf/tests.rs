//! Small files with IBTrACS' variables: kinds of tracks, winds, calendars, and rejected files.

use super::*;
use crate::track::readers::{ReadOptions, read};

/// A file with strings and one storm, two of whose three `date_time` entries are used, without basin and pressure.
fn write(path: &Path, calendar: &str, date: &str) -> std::result::Result<(), netcdf::Error> {
    let mut file = netcdf::create(path)?;
    file.add_dimension("storm", 1)?;
    file.add_dimension("date_time", 3)?;
    file.add_string_variable("sid", &["storm"])?
        .put_string("17", [0])?;
    file.add_variable::<i32>("numobs", &["storm"])?
        .put_values(&[2], ..)?;
    let at = ["storm", "date_time"];
    let mut time = file.add_variable::<f64>("time", &at)?;
    time.put_attribute("calendar", calendar)?;
    let mut dates = file.add_string_variable("iso_time", &at)?;
    dates.put_string("2001-02-28 18:00:00", [0, 0])?;
    dates.put_string(date, [0, 1])?;
    for (name, values) in [
        ("lat", [10.0f32, 10.5, -9999.0]),
        ("lon", [-0.5, 0.5, -9999.0]),
        ("usa_wind", [50.0, -9999.0, -9999.0]),
        ("wmo_wind", [-99.0, -1.0, -9999.0]),
    ] {
        file.add_variable::<f32>(name, &at)?
            .put_values(&values, ..)?;
    }
    Ok(())
}

/// The same with NOAA's variables for types and natures.
fn write_kinds(path: &Path, kind: &str) -> std::result::Result<(), netcdf::Error> {
    write(path, "standard", "2001-03-01 00:00:00")?;
    let mut file = netcdf::append(path)?;
    file.add_string_variable("track_type", &["storm"])?
        .put_string(kind, [0])?;
    let mut natures = file.add_string_variable("nature", &["storm", "date_time"])?;
    natures.put_string("ET", [0, 0])?;
    natures.put_string("TS", [0, 1])
}

#[test]
fn spurs_are_left_out_and_winds_of_other_stages() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ibtracs.nc");
    on_library_thread(|| write_kinds(&path, "main")).unwrap();
    let table = super::read(&path, None).unwrap();
    let first = table.tracks[0].points[0];
    assert_eq!((first.max_wind_m_s, first.other_wind), (None, true));
    on_library_thread(|| write_kinds(&path, "PROVISIONAL_spur")).unwrap();
    let table = super::read(&path, None).unwrap();
    assert!(table.tracks.is_empty() && table.notes[0].contains("1 tracks are spurs"));
}

#[test]
fn storms_have_their_identity_and_their_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ibtracs.nc");
    let called = |name: Option<&str>| {
        let written = on_library_thread(|| -> std::result::Result<(), netcdf::Error> {
            write(&path, "standard", "2001-03-01 00:00:00")?;
            let Some(name) = name else { return Ok(()) };
            let mut file = netcdf::append(&path)?;
            file.add_string_variable("name", &["storm"])?
                .put_string(name, [0])
        });
        written.unwrap();
        let identity = super::read(&path, None).unwrap().tracks[0].identity.clone();
        assert_eq!(identity.source_id.as_deref(), Some("17"));
        identity.name
    };
    assert_eq!(called(Some("ALI")).as_deref(), Some("ALI"));
    assert_eq!((called(Some("UNNAMED")), called(None)), (None, None));
}

#[test]
fn winds_of_any_agency_can_be_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ibtracs.nc");
    let written = on_library_thread(|| -> std::result::Result<(), netcdf::Error> {
        write(&path, "standard", "2001-03-01 00:00:00")?;
        let mut file = netcdf::append(&path)?;
        file.add_variable::<f32>("tokyo_wind", &["storm", "date_time"])?
            .put_values(&[-9999.0f32, 45.0, -9999.0], ..)
    });
    written.unwrap();
    let take = |column: &str| super::read(&path, Some(column));
    let knots = |column: &str| {
        let table = take(column).unwrap();
        let points = table.tracks[0].points.iter();
        let winds = points.map(|p| p.max_wind_m_s.map(|v| (v / KNOT_M_S).round()));
        winds.collect::<Vec<_>>()
    };
    assert_eq!(knots("TOKYO_WIND"), [None, Some(45.0)]);
    assert_eq!(knots("usa_wind"), [Some(50.0), None]);
    let table = take("wmo_wind").unwrap();
    assert!(table.facts[0].ends_with(": 1 without a wind"));
    let message = take("cma_wind").unwrap_err().to_string();
    for part in ["`cma_wind`", "usa_wind", "wmo_wind", "tokyo_wind"] {
        assert!(message.contains(part), "{message} lacks {part}");
    }
}

#[test]
fn a_pressure_of_zero_gives_way_to_that_of_the_us_agencies() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ibtracs.nc");
    let written = on_library_thread(|| -> std::result::Result<(), netcdf::Error> {
        write(&path, "standard", "2001-03-01 00:00:00")?;
        let mut file = netcdf::append(&path)?;
        for (name, values) in [
            ("wmo_pres", [0.0f32, 980.0, -9999.0]),
            ("usa_pres", [990.0, 985.0, -9999.0]),
        ] {
            file.add_variable::<f32>(name, &["storm", "date_time"])?
                .put_values(&values, ..)?;
        }
        Ok(())
    });
    written.unwrap();
    let table = super::read(&path, None).unwrap();
    let pressures = table.tracks[0].points.iter().map(|point| point.min_psl_pa);
    assert!(pressures.eq([Some(99_000.0), Some(98_000.0)]));
}

#[test]
fn numbers_of_points_and_places_that_are_none_are_located() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ibtracs.nc");
    let refused = |count: i32, lon_deg: f32| {
        let written = on_library_thread(|| -> std::result::Result<(), netcdf::Error> {
            write(&path, "standard", "2001-03-01 00:00:00")?;
            let mut file = netcdf::append(&path)?;
            let missing = || netcdf::Error::Str("no variable".into());
            let mut counts = file.variable_mut("numobs").ok_or_else(missing)?;
            counts.put_values(&[count], ..)?;
            let mut places = file.variable_mut("lon").ok_or_else(missing)?;
            places.put_values(&[-0.5, lon_deg, -9999.0], ..)
        });
        written.unwrap();
        super::read(&path, None).map_err(|error| error.to_string())
    };
    assert_eq!(refused(2, 0.5).unwrap().points(), 2);
    for (count, found) in [
        (4, "4 for storm 1"),
        (-1, "-1 for storm 1"),
        (-9999, "NaN for"),
    ] {
        let message = refused(count, 0.5).unwrap_err();
        for part in ["`numobs`", "from 0 to 3", found] {
            assert!(message.contains(part), "{message} lacks {part}");
        }
    }
    let message = refused(2, 1e20).unwrap_err();
    assert!(message.contains("`17`), point 2"), "{message}");
}

/// A large length alone does not allocate memory.
#[test]
fn more_storms_than_any_file_has_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ibtracs.nc");
    let written = on_library_thread(|| -> std::result::Result<(), netcdf::Error> {
        let mut file = netcdf::create(&path)?;
        file.add_unlimited_dimension("storm")?;
        file.add_dimension("date_time", 3)?;
        let mut lat = file.add_variable::<f32>("lat", &["storm", "date_time"])?;
        lat.set_chunking(&[1024, 3])?;
        lat.put_value(10.0f32, [50_000_000usize, 0])
    });
    written.unwrap();
    let message = super::read(&path, None).unwrap_err().to_string();
    for part in ["`lat`", "at most 134217728 points", "[50000001, 3]"] {
        assert!(message.contains(part), "{message} lacks {part}");
    }
}

#[test]
fn strings_and_the_calendar_of_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tracks.atmospheric_river.ibtracs.nc");
    on_library_thread(|| write(&path, "noleap", "2001-03-01 00:00:00")).unwrap();
    let table = read(&path, &ReadOptions::default()).unwrap();
    let track = &table.tracks[0];
    assert_eq!(
        (track.name.as_str(), track.class),
        ("17", Class::AtmosphericRiver)
    );
    assert_eq!(
        (track.season, track.basin, track.points.len()),
        (None, None, 2)
    );
    let [first, second] = [track.points[0], track.points[1]];
    assert_eq!(
        (first.lon_deg, second.time.seconds_since(first.time)),
        (359.5, 6 * 3600)
    );
    assert_eq!(first.time.calendar(), Calendar::NoLeap);
    assert!((first.max_wind_m_s.unwrap() - 50.0 * KNOT_M_S).abs() < 1e-9);
    assert_eq!((second.max_wind_m_s, second.min_psl_pa), (None, None));

    let path = folder.path().join("faults.nc");
    for (calendar, date, part) in [
        ("noleap", "2001-02-29 00:00:00", "point 2"),
        ("noleap", "", "iso_time"),
        ("lunar", "2001-03-01 00:00:00", "lunar"),
    ] {
        on_library_thread(|| write(&path, calendar, date)).unwrap();
        let message = super::read(&path, None).unwrap_err().to_string();
        assert!(message.contains(part), "{message} lacks {part}");
    }
}
