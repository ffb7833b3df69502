//! Tables round-trip, also after data frame libraries saved them; errors state their location.

use super::*;
use crate::events::EventDetails;
use crate::track::{Fate, Identity, Landfall, Origin, TrackDetails};
use proptest::prelude::*;
use squall_data::{Calendar, Class, Time};
use std::fs;

fn time(hours: i64) -> Time {
    let start = Time::new(Calendar::NoLeap, 1996, 2, 28, 21, 0, 0).unwrap();
    start.add_seconds(3600 * hours)
}

fn some_event() -> impl Strategy<Value = Event> {
    let place = (0.0..359.9999f64, -90.0..90.0f64);
    let fields = proptest::collection::vec(proptest::option::of(0.01..1000.0f64), 5);
    (
        place,
        0..9000i64,
        any::<bool>(),
        fields,
        proptest::option::of(any::<u64>()),
    )
        .prop_map(|((lon, lat), hours, river, f, track_id)| Event {
            class: Class::EVENTS[usize::from(river)],
            time: time(hours),
            track_id,
            lon_deg: lon,
            lat_deg: lat,
            area_km2: 1e6 + lon,
            west_deg: lon,
            south_deg: lat,
            east_deg: (lon + 20.0).rem_euclid(360.0),
            north_deg: lat,
            length_km: 2000.0 + lat,
            width_km: 400.0,
            orientation_deg: lon / 2.0,
            min_psl_pa: f[0].map(|v| 95_000.0 + v),
            max_wind_m_s: f[1],
            max_tmq_kg_m2: f[2],
            mean_prect_m_s: f[3].map(|v| v * 1e-9),
            mean_probability: f[4].map(|v| v / 1000.0),
            details: EventDetails {
                hours: f[0].map(|_| 3.0),
                touches_edge: f[1].map(|v| v > 500.0),
                max_ivt_proxy_kg_m_s: f[2],
                river_scale: f[2].map(|v| (v / 200.0) as u8),
                precipitation_km3: f[3],
                land_share: f[4].map(|v| v / 1000.0),
                land_lon_deg: f[4].map(|_| lon),
                land_lat_deg: f[4].map(|_| lat),
                max_ivt_kg_m_s: f[0],
                gale_radius_km: f[1],
            },
        })
}

fn near(a: Option<f64>, b: Option<f64>, tolerance: f64) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => (a - b).abs() <= tolerance,
        (a, b) => a == b,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]
    #[test]
    fn events_come_back(events in proptest::collection::vec(some_event(), 0..6)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.csv");
        write_events(&path, &events).unwrap();
        let back = read_events(&path, Calendar::NoLeap).unwrap();
        prop_assert_eq!(back.len(), events.len());
        for (a, b) in events.iter().zip(&back) {
            prop_assert_eq!((a.class, a.time, a.track_id), (b.class, b.time, b.track_id));
            prop_assert!((a.lon_deg - b.lon_deg).abs() < 1e-4 && (a.lat_deg - b.lat_deg).abs() < 1e-4);
            prop_assert!((a.east_deg - b.east_deg).abs() < 1e-4 && (a.area_km2 - b.area_km2).abs() < 0.06);
            prop_assert!(near(a.min_psl_pa, b.min_psl_pa, 0.06) && near(a.max_wind_m_s, b.max_wind_m_s, 6e-4));
            prop_assert!(near(a.max_tmq_kg_m2, b.max_tmq_kg_m2, 6e-4));
            prop_assert!(near(a.mean_prect_m_s, b.mean_prect_m_s, 1e-11));
            prop_assert!(near(a.mean_probability, b.mean_probability, 6e-6));
            let (a, b) = (a.details, b.details);
            prop_assert_eq!((a.hours, a.touches_edge, a.river_scale), (b.hours, b.touches_edge, b.river_scale));
            prop_assert!(near(a.max_ivt_proxy_kg_m_s, b.max_ivt_proxy_kg_m_s, 0.06));
            prop_assert!(near(a.max_ivt_kg_m_s, b.max_ivt_kg_m_s, 0.06));
            prop_assert!(near(a.gale_radius_km, b.gale_radius_km, 0.06));
            prop_assert!(near(a.precipitation_km3, b.precipitation_km3, 6e-7) && near(a.land_share, b.land_share, 6e-6));
            prop_assert!(near(a.land_lat_deg, b.land_lat_deg, 1e-4));
        }
        // Writing what was read gives the same bytes.
        let again = folder.path().join("again.csv");
        write_events(&again, &back).unwrap();
        prop_assert_eq!(fs::read(&path).unwrap(), fs::read(&again).unwrap());
    }
}

#[test]
fn rounding_leaves_neither_a_sign_nor_a_whole_turn() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.csv");
    let text = "class,time,lon_deg,lat_deg,south_deg,orientation_deg\n\
                atmospheric_river,1996-02-28,359.99999,-1e-17,-0.00004,179.996\n\
                atmospheric_river,1996-02-28,0,0,-0.00006,179.994\n";
    fs::write(&path, text).unwrap();
    let events = read_events(&path, Calendar::NoLeap).unwrap();
    let cell = |event: &Event, name: &str| {
        let place = EVENT_COLUMNS.iter().position(|known| *known == name);
        event.cells()[place.unwrap()].clone()
    };
    let names = ["lon_deg", "lat_deg", "south_deg", "orientation_deg"];
    let rows: Vec<_> = (events.iter())
        .map(|event| names.map(|name| cell(event, name)))
        .collect();
    assert_eq!(rows[0], ["0.0000", "0.0000", "0.0000", "0.00"]);
    assert_eq!(rows[1], ["0.0000", "0.0000", "-0.0001", "179.99"]);
}

fn track() -> Track {
    Track {
        track_id: 7,
        class: Class::TropicalCyclone,
        start: time(0),
        end: time(48),
        points: 17,
        origin: Origin::Genesis,
        fate: Fate::Merge,
        related_track: Some(3),
        genesis_lon_deg: 359.99999,
        genesis_lat_deg: 12.5,
        end_lon_deg: 340.25,
        end_lat_deg: 20.0,
        distance_km: 2304.0,
        max_area_km2: 500_000.0,
        mean_area_km2: 400_000.0,
        min_psl_pa: Some(96_000.0),
        max_wind_m_s: Some(45.0),
        max_tmq_kg_m2: None,
        details: TrackDetails {
            merged_into: Some(3),
            split_tracks: vec![8, 11],
            max_speed_m_s: Some(21.25),
            ace_1e4_kt2: Some(5.5),
            pdi_m3_s2: Some(1.25e10),
            precipitation_km3: Some(42.0),
            landfalls: Some(1),
            landfall: Some(Landfall {
                time: time(45),
                lon_deg: 340.5,
                lat_deg: 19.75,
                max_wind_m_s: Some(44.0),
                min_psl_pa: Some(96_250.0),
                ivt_kg_m_s: Some(812.5),
                ivt_proxy_kg_m_s: Some(640.0),
                river_scale: Some(4),
            }),
            touches_edge: Some(false),
            ..TrackDetails::default()
        },
    }
}

/// pandas converts numeric identities to reals if some tracks have none.
#[test]
fn what_a_track_is_called_elsewhere_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tracks.csv");
    for (source_id, name) in [
        (Some("2005236N23285"), Some("KATRINA")),
        (Some("28"), None),
        (None, Some("AGNES, \"the second\"")),
        (None, None),
    ] {
        let mut track = track();
        track.genesis_lon_deg = 0.0;
        track.details.identity = Identity {
            source_id: source_id.map(Into::into),
            name: name.map(Into::into),
        };
        write_tracks(&path, std::slice::from_ref(&track)).unwrap();
        let back = read_tracks(&path, Calendar::NoLeap).unwrap();
        assert_eq!(back, [track]);
    }
    let header =
        "track_id,class,start_time,end_time,genesis_lon_deg,genesis_lat_deg,source_id,name";
    let row = "1,tropical_cyclone,1996-02-28,1996-02-28,150,15,28.0,NaN";
    fs::write(&path, format!("{header}\n{row}\n")).unwrap();
    let back = read_tracks(&path, Calendar::NoLeap).unwrap();
    let identity = &back[0].details.identity;
    assert_eq!(
        (identity.source_id.as_deref(), identity.name.as_deref()),
        (Some("28"), None)
    );
}

#[test]
fn tracks_come_back_with_speed_category_and_basin() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tracks.csv");
    write_tracks(&path, &[track()]).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let row = text.lines().nth(1).unwrap();
    assert_eq!(
        row,
        "7,tropical_cyclone,1996-02-28T21:00:00,1996-03-02T21:00:00,48.00,17,genesis,merge,3,0.0000,12.5000,340.2500,\
         20.0000,2304.0,13.333,500000.0,400000.0,96000.0,45.000,,2,NA,,3,8 11,,21.250,5.5000,1.25000e10,,,42.000000,1,\
         1996-03-02T18:00:00,340.5000,19.7500,44.000,96250.0,0,,,,812.5,640.0,4"
    );
    let back = read_tracks(&path, Calendar::NoLeap).unwrap();
    let expected = Track {
        genesis_lon_deg: 0.0,
        ..track()
    };
    assert_eq!(back, [expected]);
    // Longitudes in the other convention.
    fs::write(&path, text.replace(",340.2500,", ",-19.75,")).unwrap();
    let back = read_tracks(&path, Calendar::NoLeap).unwrap();
    assert_eq!(back[0].end_lon_deg, 340.25);
    // Older tables, without the later columns.
    let short: String = text
        .lines()
        .map(|line| line.split(',').take(22).collect::<Vec<_>>().join(",") + "\n")
        .collect();
    fs::write(&path, short).unwrap();
    let back = read_tracks(&path, Calendar::NoLeap).unwrap();
    assert_eq!(back[0].details, TrackDetails::default());
    assert_eq!(back[0].max_wind_m_s, Some(45.0));
}

/// The speed is computed from a path that the table rounds to tenths of a kilometre.
#[test]
fn the_cells_of_a_track_are_those_that_were_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tracks.csv");
    for distance_km in [2304.04, 2303.96, 17.249, 0.0, f64::NAN] {
        let track = Track {
            genesis_lon_deg: 300.0,
            distance_km,
            ..track()
        };
        write_tracks(&path, std::slice::from_ref(&track)).unwrap();
        let back = read_tracks(&path, Calendar::NoLeap).unwrap();
        assert_eq!(back[0].cells(), track.cells(), "{distance_km} km");
    }
    // A speed that does not match the path.
    let text = fs::read_to_string(&path).unwrap();
    let text = text.replace(",20.0000,,,", ",20.0000,100.0,3.000,");
    fs::write(&path, text).unwrap();
    let back = read_tracks(&path, Calendar::NoLeap).unwrap();
    assert_eq!(back[0].distance_km, 100.0);
}

/// pandas writes integer columns with gaps as reals; R writes NA for missing values.
#[test]
fn tables_that_data_frames_have_saved_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("objects.csv");
    let header = "class,time,lon_deg,lat_deg,area_km2,track_id,touches_edge,ar_scale";
    let read = |cells: &str| {
        let row = format!("atmospheric_river,1996-02-28,10,40,{cells}");
        fs::write(&path, format!("{header}\n{row}\n")).unwrap();
        read_events(&path, Calendar::NoLeap)
    };
    for (cells, expected) in [
        ("5.5,7.0,1.0,3.0", (Some(7), Some(true), Some(3))),
        ("5.5,120,0,0.00", (Some(120), Some(false), Some(0))),
        ("5.5,NA,NA,NA", (None, None, None)),
        ("5.5,NaN,nan,", (None, None, None)),
    ] {
        let event = &read(cells).unwrap()[0];
        let details = &event.details;
        let found = (event.track_id, details.touches_edge, details.river_scale);
        assert_eq!(found, expected, "{cells}");
        assert_eq!(event.area_km2, 5.5);
    }
    for (cells, column) in [
        ("NA,7.5,,", "track_id"),
        ("NA,.0,,", "track_id"),
        ("NA,,2.0,", "touches_edge"),
        ("NA,,,6.0", "ar_scale"),
    ] {
        let message = read(cells).unwrap_err().to_string();
        assert!(message.contains(column), "{cells}: {message}");
    }
    let path = folder.path().join("tracks.csv");
    write_tracks(&path, &[track()]).unwrap();
    // Missing cells as R writes them, and single relatives as pandas writes them.
    let text = fs::read_to_string(&path).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let (header, row) = (lines.next().unwrap(), lines.next().unwrap());
    let saved = |name: &str, cell: &str| match name {
        "landfalls" | "landfall_time" | "landfall_lon_deg" | "landfall_lat_deg"
        | "landfall_wind_m_s" | "landfall_psl_pa" | "origin" => String::from("NA"),
        "merged_into" | "split_tracks" => String::from("8.0"),
        _ if cell.is_empty() => String::from("NA"),
        _ => cell.to_string(),
    };
    let cells = header.iter().copied().zip(row);
    let cells = cells.map(|(name, cell)| saved(name, cell));
    let cells: Vec<String> = cells.collect();
    fs::write(
        &path,
        format!("{}\n{}\n", header.join(","), cells.join(",")),
    )
    .unwrap();
    let back = read_tracks(&path, Calendar::NoLeap).unwrap();
    let expected = Track {
        genesis_lon_deg: 0.0,
        details: TrackDetails {
            merged_into: Some(8),
            split_tracks: vec![8],
            landfalls: None,
            landfall: None,
            ..track().details
        },
        ..track()
    };
    assert_eq!(back, [expected]);
}

#[test]
fn short_headers_are_enough_and_faults_are_located() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("objects.csv");
    let read = |text: &str| {
        fs::write(&path, text).unwrap();
        read_events(&path, Calendar::NoLeap)
    };
    // Another column order, an unknown column, a byte order mark, and longitudes in the other convention.
    let found =
        read("\u{feff}time,note,lat_deg,lon_deg,class\n1996-02-28,x,10,-20.5,atmospheric_river\n")
            .unwrap();
    assert_eq!((found[0].lon_deg, found[0].lat_deg), (339.5, 10.0));
    assert!(found[0].area_km2.is_nan() && found[0].track_id.is_none());
    let found = read(
            "class,time,lon_deg,lat_deg,west_deg,east_deg,land_lon_deg\natmospheric_river,1996-02-28,-1,10,-20.5,5,-0.25\n",
        )
        .unwrap();
    let land_lon_deg = found[0].details.land_lon_deg;
    assert_eq!(
        (found[0].west_deg, found[0].east_deg, land_lon_deg),
        (339.5, 5.0, Some(359.75))
    );
    for (text, parts) in [
        ("class,time,lon_deg\n", vec!["lat_deg", "lon_deg"]),
        (
            "class,time,lon_deg,lat_deg\ntornado,1996-01-01,1,2\n",
            vec!["line 2", "`class`", "tropical_cyclone", "`tornado`"],
        ),
        (
            "class,time,lon_deg,lat_deg\natmospheric_river,1996-01-01,1,2\natmospheric_river,1996-02-29,1,2\n",
            vec!["line 3", "`time`", "1996-02-29"],
        ),
        (
            "class,time,lon_deg,lat_deg\natmospheric_river,1996-01-01,1,95\n",
            vec!["line 2", "`lat_deg`", "-90 to 90", "`95`"],
        ),
        (
            "class,time,lon_deg,lat_deg\natmospheric_river,1996-01-01,,5\n",
            vec!["line 2", "`lon_deg`", "``"],
        ),
        (
            "class,time,lon_deg,lat_deg,west_deg\natmospheric_river,1996-01-01,1,5,1e9\n",
            vec!["line 2", "`west_deg`", "degrees", "`1e9`"],
        ),
        (
            "class,time,lon_deg,lat_deg,track_id\natmospheric_river,1996-01-01,1,5,-4\n",
            vec!["`track_id`", "whole", "`-4`"],
        ),
        (
            "class,time,lon_deg,lat_deg\natmospheric_river,1996-01-01,1\n",
            vec!["objects.csv", "line 2"],
        ),
        ("", vec!["objects.csv", "empty"]),
    ] {
        let message = read(text).unwrap_err().to_string();
        for part in parts {
            assert!(message.contains(part), "{message} lacks {part}");
        }
    }
}
