//! Tracks in the formats of other tools: the exported files contain what the tables contain.

use ndarray::Array2;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use squall_climate::events::{EventFields, ExtractOptions, extract};
use squall_climate::stream::{EventStream, Moment, RunFolder};
use squall_climate::table::{read_events, read_tracks};
use squall_climate::track::TrackerOptions;
use squall_climate::track::formats::{Format, Setting, export};
use squall_climate::track::readers::{self, ReadOptions};
use squall_data::grid::distance_km;
use squall_data::{Calendar, Class, ClassMask, LatLonGrid, Time, testdata};
use std::fs::{self, File};
use std::path::Path;

fn time(step: usize) -> Time {
    Time::new(Calendar::NoLeap, 1998, 2, 28, 0, 0, 0)
        .unwrap()
        .add_seconds(21_600 * step as i64)
}

const STEPS: usize = 12;

fn times() -> Vec<Time> {
    (0..STEPS).map(time).collect()
}

/// Writes the tables of a cyclone across the antimeridian, a river, and a short cyclone without a track.
fn tables(out: &Path) -> LatLonGrid {
    let grid = LatLonGrid::global(91, 180).unwrap();
    let stream = EventStream::new(&grid, TrackerOptions::default()).unwrap();
    let (mut folder, mut stream, _) = RunFolder::open(out, "formats", stream, |_, _| true).unwrap();
    for step in 0..STEPS {
        let drift = step as f64;
        let mut discs = vec![
            (1u8, 15.0, 176.0 + drift, 400.0),
            (2, -40.0, 20.0 + 2.0 * drift, 900.0),
        ];
        if (4..7).contains(&step) {
            discs.push((1, -12.0, 60.0, 400.0));
        }
        let codes = Array2::from_shape_fn(grid.shape(), |(j, i)| {
            let (lat, lon) = (grid.lat_deg()[j], grid.lon_deg()[i]);
            let inside = |d: &&(u8, f64, f64, f64)| distance_km(d.1, d.2, lat, lon) < d.3;
            discs.iter().find(inside).map_or(0, |d| d.0)
        });
        let mask = ClassMask::new(time(step), codes).unwrap();
        let fields = EventFields::default();
        let mut found = extract(&mask, &grid, &fields, &ExtractOptions::default()).unwrap();
        for one in found
            .iter_mut()
            .filter(|o| o.event.class == Class::TropicalCyclone)
        {
            one.event.max_wind_m_s = Some(30.0 + drift);
            one.event.min_psl_pa = Some(98_000.0 - 50.0 * drift);
        }
        let moment = Moment {
            time: mask.time,
            mask: Some(&mask),
            hours: 6.0,
            fields_hours: 6.0,
            fields: &fields,
        };
        folder.write(&stream.add(&moment, found).unwrap()).unwrap();
    }
    folder.finish(stream).unwrap();
    grid
}

fn exported(out: &Path, formats: &[Format]) -> Vec<String> {
    let grid = tables(out);
    let times = times();
    let setting = Setting {
        grid: &grid,
        times: &times,
        calendar: Calendar::NoLeap,
        source: "a test",
    };
    let files = export(out, formats, &setting).unwrap();
    files
        .iter()
        .map(|file| file.file_name().unwrap().to_string_lossy().into_owned())
        .collect()
}

#[test]
fn every_format_has_its_files_and_leaves_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let files = exported(folder.path(), &Format::ALL);
    assert_eq!(
        files,
        [
            "events.geojson",
            "events.parquet",
            "tracks.atmospheric_river.gfdl.txt",
            "tracks.atmospheric_river.ibtracs.nc",
            "tracks.atmospheric_river.stitchnodes.csv",
            "tracks.atmospheric_river.teca.csv",
            "tracks.geojson",
            "tracks.parquet",
            "tracks.tropical_cyclone.gfdl.txt",
            "tracks.tropical_cyclone.ibtracs.nc",
            "tracks.tropical_cyclone.stitchnodes.csv",
            "tracks.tropical_cyclone.teca.csv",
        ]
    );
    for entry in fs::read_dir(folder.path()).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        assert!(!name.starts_with('.'), "{name} was left");
    }
}

/// An export of many events sorts them in files in this folder.
#[test]
fn what_a_killed_export_left_goes_also_without_formats() {
    let folder = tempfile::tempdir().unwrap();
    let sorting = folder.path().join(".events.sorting");
    fs::create_dir(&sorting).unwrap();
    fs::write(sorting.join("000001.jsonl"), "[[1,0,0],{").unwrap();
    assert!(exported(folder.path(), &[]).is_empty());
    assert!(!sorting.exists());
}

#[test]
fn our_own_readers_give_the_points_back() {
    let folder = tempfile::tempdir().unwrap();
    exported(folder.path(), &Format::ALL);
    let events = read_events(folder.path().join("events.csv"), Calendar::NoLeap).unwrap();
    for name in ["gfdl.txt", "stitchnodes.csv", "teca.csv", "ibtracs.nc"] {
        for (class, id) in [(Class::TropicalCyclone, 1), (Class::AtmosphericRiver, 2)] {
            let path = folder
                .path()
                .join(format!("tracks.{}.{name}", class.name()));
            let options = ReadOptions {
                calendar: Calendar::NoLeap,
                columns: ["lon", "lat", "slp", "wind"].map(String::from).to_vec(),
                ..ReadOptions::default()
            };
            let table = readers::read(&path, &options).unwrap();
            assert_eq!(table.tracks.len(), 1, "{name}");
            let points = &table.tracks[0].points;
            let expected: Vec<_> = events.iter().filter(|e| e.track_id == Some(id)).collect();
            assert_eq!(points.len(), expected.len(), "{name}");
            for (point, event) in points.iter().zip(expected) {
                assert_eq!(point.time.to_string(), event.time.to_string(), "{name}");
                let miss = distance_km(point.lat_deg, point.lon_deg, event.lat_deg, event.lon_deg);
                assert!(miss < 0.02, "{name}: {miss} km");
                let near = |a: Option<f64>, b: Option<f64>| match (a, b) {
                    (Some(a), Some(b)) => (a / b - 1.0).abs() < 1e-6,
                    (a, b) => a.is_none() && b.is_none(),
                };
                assert!(
                    near(point.max_wind_m_s, event.max_wind_m_s),
                    "{name}: {point:?}"
                );
                assert!(
                    near(point.min_psl_pa, event.min_psl_pa),
                    "{name}: {point:?}"
                );
            }
        }
    }
}

#[test]
fn stitch_nodes_text_and_csv_are_in_its_form() {
    let folder = tempfile::tempdir().unwrap();
    exported(folder.path(), &[Format::Gfdl, Format::StitchNodesCsv]);
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let text = read("tracks.tropical_cyclone.gfdl.txt");
    let lines: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split('\t').collect())
        .collect();
    assert_eq!(
        lines.len(),
        1 + STEPS,
        "one track: the short one is not listed"
    );
    assert_eq!(lines[0], ["start", "12", "1998", "2", "28", "0"]);
    // The tab at the start of a line makes an empty cell before i.
    assert_eq!((lines[1].len(), lines[1][0]), (11, ""));
    let events = read_events(folder.path().join("events.csv"), Calendar::NoLeap).unwrap();
    let first = events.iter().find(|e| e.track_id == Some(1)).unwrap();
    assert!((lines[1][3].parse::<f64>().unwrap() - first.lon_deg).abs() < 1e-4);
    assert_eq!(
        lines[1][5..],
        ["9.800000e+04", "3.000000e+01", "1998", "2", "28", "0"]
    );
    assert_eq!(
        lines[5][7..],
        ["1998", "3", "1", "0"],
        "noleap has no 29 February 1998 either"
    );
    let i: usize = lines[1][1].parse().unwrap();
    assert!((2.0 * i as f64 - first.lon_deg).abs() <= 1.0);
    // Rows are numbered from the South Pole.
    let j: usize = lines[1][2].parse().unwrap();
    assert!((2.0 * j as f64 - 90.0 - first.lat_deg).abs() <= 1.0);
    let csv = read("tracks.tropical_cyclone.stitchnodes.csv");
    assert!(csv.starts_with(
        "track_id, year, month, day, hour, i, j, lon, lat, slp, wind\n1, 1998, 2, 28, 0, "
    ));
    // The columns of a real file before those chosen with --in_fmt.
    if let Some(real) = testdata::real("track-formats/sample.csv") {
        let real = fs::read_to_string(real).unwrap();
        let columns = |text: &str| -> Vec<String> {
            let header = text.lines().next().unwrap();
            header
                .split(',')
                .take(9)
                .map(|name| name.trim().into())
                .collect()
        };
        assert_eq!(columns(&csv), columns(&real));
    }
    if let Some(real) = testdata::real("track-formats/TempestExtremes-sample.txt") {
        let real = fs::read_to_string(real).unwrap();
        for (ours, theirs) in text.lines().zip(real.lines()).take(3) {
            assert_eq!(ours.split('\t').count(), theirs.split('\t').count());
        }
    }
}

/// TempestExtremes reads five digits as the second of the day, even if other lines have hours.
#[test]
fn stitch_nodes_text_has_times_between_hours() {
    let folder = tempfile::tempdir().unwrap();
    let grid = tables(folder.path());
    for name in ["events.csv", "tracks.csv"] {
        let path = folder.path().join(name);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("28T00:00:00", "28T00:20:30")).unwrap();
    }
    let setting = Setting {
        grid: &grid,
        times: &[],
        calendar: Calendar::NoLeap,
        source: "",
    };
    export(folder.path(), &[Format::Gfdl], &setting).unwrap();
    let path = folder.path().join("tracks.tropical_cyclone.gfdl.txt");
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().take(3).collect();
    assert_eq!(lines[0], "start\t12\t1998\t2\t28\t01230");
    assert!(
        lines[1].ends_with("\t28\t01230") && lines[2].ends_with("\t28\t6"),
        "{lines:?}"
    );
    let table = readers::read(&path, &ReadOptions::default()).unwrap();
    let points = table.tracks[0].points.iter().take(2);
    let times: Vec<String> = points.map(|point| point.time.to_string()).collect();
    assert_eq!(times, ["1998-02-28T00:20:30", "1998-02-28T06:00:00"]);
}

#[test]
fn teca_has_its_columns_and_days() {
    let folder = tempfile::tempdir().unwrap();
    exported(folder.path(), &[Format::Teca]);
    let path = folder.path().join("tracks.tropical_cyclone.teca.csv");
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("# calendar = \"noleap\""));
    assert_eq!(
        lines.next(),
        Some("# time_units = \"days since 1998-02-28 00:00:00\"")
    );
    // TECA's reader takes the type of a column from its code: int 3, long 7, double 12.
    let header = lines.next().unwrap();
    assert!(
        header.starts_with("\"track_id(3)\", \"storm_id(3)\","),
        "{header}"
    );
    assert_eq!(
        header.replace('"', ""),
        "track_id(3), storm_id(3), step(7), time(12), lon(12), lat(12), duration(12), wind_duration(12), \
         surface_wind(12), 850mb_vorticity(12), sea_level_pressure(12), have_core_temp(3), have_thickness(3), \
         core_temp(12), thickness(12), storm_speed(12), year(3), month(3), day(3), hour(3), minute(3), second(12)"
    );
    let rows: Vec<Vec<f64>> = lines
        .map(|line| line.split(", ").map(|cell| cell.parse().unwrap()).collect())
        .collect();
    assert_eq!((rows.len(), rows[0].len()), (STEPS, 22));
    // track, point, step, time; eleven steps of six hours; windy from the first point on.
    assert_eq!(rows[3][..4], [1.0, 3.0, 3.0, 0.75]);
    assert_eq!(rows[3][6..8], [2.75, 2.75]);
    // The speed is measured from the previous point.
    assert_eq!(rows[0][15], 0.0);
    let km = distance_km(rows[2][5], rows[2][4], rows[3][5], rows[3][4]);
    assert!(
        (rows[3][15] - 4.0 * km).abs() < 1e-6,
        "{} {km}",
        rows[3][15]
    );
    assert_eq!(rows[3][16..], [1998.0, 2.0, 28.0, 18.0, 0.0, 0.0]);
    // Without any wind, the duration of wind is 0 days.
    let rivers = fs::read_to_string(folder.path().join("tracks.atmospheric_river.teca.csv"));
    let rivers = rivers.unwrap();
    assert!(
        rivers.contains(", 0, nan,") && !rivers.contains("-0,"),
        "{rivers}"
    );
}

#[test]
fn ibtracs_has_its_dimensions_names_and_units() {
    let folder = tempfile::tempdir().unwrap();
    exported(folder.path(), &[Format::Ibtracs]);
    let file = netcdf::open(folder.path().join("tracks.tropical_cyclone.ibtracs.nc")).unwrap();
    let length = |name: &str| file.dimension(name).unwrap().len();
    assert_eq!((length("storm"), length("date_time")), (1, STEPS));
    let values = |name: &str| -> Vec<f64> { file.variable(name).unwrap().get_values(..).unwrap() };
    assert!(
        values("lon")
            .iter()
            .all(|lon| (-180.0..180.0).contains(lon))
    );
    assert!(values("lon")[11] < 0.0 && values("lon")[0] > 170.0);
    assert!((values("usa_wind")[0] - 30.0 * 3600.0 / 1852.0).abs() < 1e-3);
    assert!((values("usa_pres")[2] - 979.0).abs() < 1e-3);
    assert_eq!(values("usa_sshs")[0], 0.0);
    assert_eq!((values("numobs")[0], values("season")[0]), (12.0, 1998.0));
    let text_of = |name: &str| file.variable(name).unwrap().get_string([0]).unwrap();
    assert_eq!(
        (text_of("sid"), text_of("name")),
        ("1".into(), "UNNAMED".into())
    );
    let days = values("time");
    assert!((days[4] - days[0] - 1.0).abs() < 1e-9);
    let time = file.variable("time").unwrap();
    let text = |name: &str| -> String {
        time.attribute(name)
            .unwrap()
            .value()
            .unwrap()
            .try_into()
            .unwrap()
    };
    assert_eq!(text("calendar"), "noleap");
    let first = Time::from_cf(days[0], &text("units"), Calendar::NoLeap).unwrap();
    assert_eq!(first.to_string(), "1998-02-28T00:00:00");
    let iso = file
        .variable("iso_time")
        .unwrap()
        .get_string([0, 1])
        .unwrap();
    assert_eq!(iso, "1998-02-28 06:00:00");
    // The real file has all of these variables.
    if let Some(real) = testdata::real("track-formats/IBTrACS.last3years.v04r00_2_storms.nc") {
        let real = netcdf::open(real).unwrap();
        for variable in file.variables() {
            let theirs = real.variable(&variable.name());
            let theirs = theirs.unwrap_or_else(|| panic!("{} is not IBTrACS", variable.name()));
            let units = |v: &netcdf::Variable<'_>| -> Option<String> {
                v.attribute("units")?.value().ok()?.try_into().ok()
            };
            assert_eq!(units(&variable), units(&theirs), "{}", variable.name());
        }
    }
}

#[test]
fn geojson_has_a_line_in_two_parts_and_a_point_for_each_event() {
    let folder = tempfile::tempdir().unwrap();
    exported(folder.path(), &[Format::GeoJson]);
    let read = |name: &str| -> serde_json::Value {
        serde_json::from_str(&fs::read_to_string(folder.path().join(name)).unwrap()).unwrap()
    };
    let tracks = read("tracks.geojson");
    let features = tracks["features"].as_array().unwrap();
    assert_eq!(features.len(), 2);
    let cyclone = features
        .iter()
        .find(|f| f["properties"]["class"] == "tropical_cyclone")
        .unwrap();
    assert_eq!(cyclone["geometry"]["type"], "MultiLineString");
    assert_eq!(
        cyclone["geometry"]["coordinates"].as_array().unwrap().len(),
        2
    );
    assert_eq!(cyclone["properties"]["points"], 12);
    // A string, because `TS` is one: the type must not depend on how strong the storms of a run are.
    assert_eq!(cyclone["properties"]["category"], "1");
    let events = read("events.geojson");
    let table = read_events(folder.path().join("events.csv"), Calendar::NoLeap).unwrap();
    assert_eq!(events["features"].as_array().unwrap().len(), table.len());
    assert_eq!(table.iter().filter(|e| e.track_id.is_none()).count(), 3);
}

#[test]
fn parquet_has_the_tables() {
    let folder = tempfile::tempdir().unwrap();
    exported(folder.path(), &[Format::Parquet]);
    let open = |name: &str| {
        SerializedFileReader::new(File::open(folder.path().join(name)).unwrap()).unwrap()
    };
    let tracks = read_tracks(folder.path().join("tracks.csv"), Calendar::NoLeap).unwrap();
    let file = open("tracks.parquet");
    let schema = file.metadata().file_metadata().schema_descr();
    assert_eq!(
        schema.num_columns(),
        squall_climate::table::TRACK_COLUMNS.len()
    );
    let rows: Vec<_> = file
        .get_row_iter(None)
        .unwrap()
        .map(|row| row.unwrap())
        .collect();
    assert_eq!(rows.len(), tracks.len());
    for (row, track) in rows.iter().zip(&tracks) {
        assert_eq!(row.get_long(0).unwrap(), track.track_id as i64);
        assert_eq!(row.get_string(1).unwrap(), track.class.name());
        assert_eq!(row.get_string(2).unwrap(), &track.start.to_string());
        assert_eq!(row.get_double(13).unwrap(), track.distance_km);
        assert!(row.get_long(8).is_err(), "no related track: null");
    }
    let events = open("events.parquet");
    let count = events.metadata().file_metadata().num_rows();
    assert_eq!(count, 2 * STEPS as i64 + 3);
    let metadata = events
        .metadata()
        .file_metadata()
        .key_value_metadata()
        .unwrap();
    assert_eq!(metadata[0].value.as_deref(), Some("noleap"));
}

/// Exports these events and returns the folder. The first event is also the start of a track, the last one its end and
/// landfall.
fn exported_events(times: &[&str], calendar: Calendar) -> Result<tempfile::TempDir, String> {
    let folder = tempfile::tempdir().unwrap();
    let mut events = String::from("class,time,lon_deg,lat_deg,track_id\n");
    for time in times {
        events += &format!("tropical_cyclone,{time},300.0000,15.5000,1\n");
    }
    fs::write(folder.path().join("events.csv"), events).unwrap();
    let (first, last) = (times[0], times[times.len() - 1]);
    let tracks = format!(
        "track_id,class,start_time,end_time,genesis_lon_deg,genesis_lat_deg,\
         landfall_time,landfall_lon_deg,landfall_lat_deg\n\
         1,tropical_cyclone,{first},{last},300.0,15.5,{last},301.0,16.5\n\
         2,tropical_cyclone,{first},{last},300.0,15.5,,,\n"
    );
    fs::write(folder.path().join("tracks.csv"), tracks).unwrap();
    let setting = Setting {
        grid: &LatLonGrid::global(91, 180).unwrap(),
        times: &[],
        calendar,
        source: "a test",
    };
    export(folder.path(), &[Format::Parquet], &setting).map_err(|error| error.to_string())?;
    Ok(folder)
}

fn rows_of(path: &Path) -> Vec<parquet::record::Row> {
    let file = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let rows = file.get_row_iter(None).unwrap();
    rows.map(|row| row.unwrap()).collect()
}

/// Timestamps that pandas, Polars and DuckDB recognise, and the way back through the readers.
#[test]
fn parquet_times_are_timestamps_in_gregorian_calendars() {
    // 15 October 1582; in the mixed calendar the day before is 4 October.
    let (reform, day): (i64, i64) = (-12_219_292_800, 86_400);
    for (calendar, julian) in [
        (Calendar::Standard, reform - day),
        (Calendar::ProlepticGregorian, reform - 11 * day),
    ] {
        let times = [
            ("1582-10-04T00:00:00", julian),
            ("1969-12-31T18:00:00", -21_600),
            ("2000-02-29T06:00:00", 951_804_000),
        ];
        let folder = exported_events(&times.map(|(text, _)| text), calendar).unwrap();
        let path = folder.path().join("events.parquet");
        let rows = rows_of(&path);
        assert_eq!(rows.len(), times.len());
        for (row, (text, seconds)) in rows.iter().zip(times) {
            let found = row.get_timestamp_micros(1).unwrap();
            assert_eq!(found, seconds * 1_000_000, "{calendar}: {text}");
        }
        let tracks = rows_of(&folder.path().join("tracks.parquet"));
        assert_eq!(
            tracks[0].get_timestamp_micros(2).unwrap(),
            julian * 1_000_000
        );
        for column in [3, 6] {
            let found = tracks[0].get_timestamp_micros(column).unwrap();
            assert_eq!(found, 951_804_000_000_000);
        }
        assert!(
            tracks[1].get_timestamp_micros(6).is_err(),
            "no landfall: null"
        );
        // The calendar of the file takes precedence over the requested one.
        let back = read_events(&path, Calendar::NoLeap).unwrap();
        for (event, (text, _)) in back.iter().zip(times) {
            assert_eq!(
                (event.time.calendar(), event.time.to_string()),
                (calendar, text.to_string())
            );
        }
        let tracks = folder.path().join("tracks.parquet");
        let back = read_tracks(&tracks, Calendar::NoLeap).unwrap();
        let landfall = back[0].details.landfall.as_ref().unwrap();
        assert_eq!(back[0].start.to_string(), times[0].0);
        assert_eq!(landfall.time.to_string(), times[2].0);
    }
}

#[test]
fn the_landfall_of_a_river_comes_back_from_other_formats() {
    let folder = tempfile::tempdir().unwrap();
    let event = "atmospheric_river,2001-12-05T00:00:00,230.0,45.0";
    let events = format!("class,time,lon_deg,lat_deg,track_id\n{event},1\n{event},2\n");
    fs::write(folder.path().join("events.csv"), events).unwrap();
    let track = "atmospheric_river,2001-12-05T00:00:00,2001-12-05T00:00:00,1,230.0,45.0";
    let tracks = format!(
        "track_id,class,start_time,end_time,points,genesis_lon_deg,genesis_lat_deg,\
         landfall_time,landfall_lon_deg,landfall_lat_deg,landfall_ivt_kg_m_s,landfall_ar_scale\n\
         1,{track},2001-12-05T00:00:00,240.0,46.0,812.5,4\n\
         2,{track},,,,,\n"
    );
    fs::write(folder.path().join("tracks.csv"), tracks).unwrap();
    let setting = Setting {
        grid: &LatLonGrid::global(91, 180).unwrap(),
        times: &[],
        calendar: Calendar::NoLeap,
        source: "a test",
    };
    export(folder.path(), &[Format::Parquet, Format::GeoJson], &setting).unwrap();
    for name in ["tracks.csv", "tracks.parquet", "tracks.geojson"] {
        let back = read_tracks(folder.path().join(name), Calendar::NoLeap).unwrap();
        let found = back.iter().map(|track| {
            let landfall = track.details.landfall?;
            Some((
                landfall.ivt_kg_m_s,
                landfall.ivt_proxy_kg_m_s,
                landfall.river_scale,
            ))
        });
        let found: Vec<_> = found.collect();
        assert_eq!(found, [Some((Some(812.5), None, Some(4))), None], "{name}");
    }
    let rows = rows_of(&folder.path().join("tracks.parquet"));
    assert_eq!(rows[0].get_long(11).unwrap(), 4);
    assert!(rows[1].get_long(11).is_err(), "no landfall: null");
}

#[test]
fn parquet_times_are_texts_where_a_timestamp_cannot_hold_them() {
    let times = ["1999-02-30T06:00:00", "1999-03-01T00:00:00"];
    let folder = exported_events(&times, Calendar::Day360).unwrap();
    let path = folder.path().join("events.parquet");
    for (row, time) in rows_of(&path).iter().zip(times) {
        assert_eq!(row.get_string(1).unwrap(), time);
    }
    let file = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    let metadata = file.metadata().file_metadata().key_value_metadata();
    let said = metadata.unwrap().iter().find(|pair| pair.key == "times");
    let said = said.unwrap().value.as_deref().unwrap();
    assert!(said.contains("texts") && said.contains("360_day"), "{said}");
    let back = read_events(&path, Calendar::Standard).unwrap();
    assert_eq!(back[0].time.to_string(), times[0]);
}

#[test]
fn a_cell_that_is_no_date_is_named_when_tables_become_parquet() {
    // The invalid date is not one of a track: the reader of tracks would reject it first.
    let message = exported_events(
        &["2001-02-28", "2001-02-30", "2001-03-01"],
        Calendar::Standard,
    );
    let message = message.unwrap_err();
    for part in [
        "events.csv",
        "line 3",
        "`time`",
        "a date such as",
        "2001-02-30",
    ] {
        assert!(message.contains(part), "{message} lacks {part}");
    }
}

#[test]
fn what_a_format_cannot_say_and_tables_that_do_not_agree_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let grid = tables(folder.path());
    let setting = Setting {
        grid: &grid,
        times: &[],
        calendar: Calendar::NoLeap,
        source: "",
    };
    let path = folder.path().join("events.csv");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("T06:00:00", "T06:30:00")).unwrap();
    let message = export(folder.path(), &[Format::StitchNodesCsv], &setting)
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("full hours") && message.contains("T06:30:00"),
        "{message}"
    );
    let short: String = text
        .lines()
        .take(9)
        .map(|line| format!("{line}\n"))
        .collect();
    fs::write(&path, short).unwrap();
    let message = export(folder.path(), &[Format::Teca], &setting)
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("track 1") && message.contains("expected 12, found"),
        "{message}"
    );
    let message = Format::from_name("shapefile").unwrap_err().to_string();
    assert!(
        message.contains("shapefile") && message.contains("geojson"),
        "{message}"
    );
}
