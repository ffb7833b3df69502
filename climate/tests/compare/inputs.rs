//! What two runs must have in common, and which differences are refused or leave quantities out.

use super::*;
use squall_data::{Class, DataError};
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn other_grids_are_refused_unless_wanted() {
    let b = Run {
        grid: (25, 48),
        ..Run::default()
    };
    let error = compare(&Run::default(), &b, &options()).unwrap_err();
    assert!(
        matches!(&error, ClimateError::GridsDiffer { .. })
            && error.to_string().starts_with("grid of"),
        "{error}"
    );
    assert!(
        error.to_string().contains("19 x 36") && error.to_string().contains("25 x 48"),
        "{error}"
    );
    let any = CompareOptions {
        any_grid: true,
        ..options()
    };
    let found = compare(&Run::default(), &b, &any).unwrap();
    assert!(
        found
            .notes
            .iter()
            .any(|note| note.starts_with("The grids differ")),
        "{:?}",
        found.notes
    );
    let (of_a, of_b) = (found.a.grid.clone().unwrap(), found.b.grid.clone().unwrap());
    let page = changes_page(&found, "Grids", "").unwrap();
    let grids = format!("<li>grids {of_a} against {of_b}</li>");
    assert!(page.contains(&grids), "{grids}");
}

#[test]
fn masks_of_rivers_alone_say_nothing_of_cyclones() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["a", "b"] {
        Run::default().write(&path(name));
    }
    let head = |table: &str| {
        let text = fs::read_to_string(path("b").join(table)).unwrap();
        fs::write(path("b").join(table), text.lines().next().unwrap()).unwrap();
    };
    let again = || compare_with(side(&path("a"), "a"), side(&path("b"), "b"), &options()).unwrap();
    head("events.csv");
    head("tracks.csv");
    assert!(row(&again(), Quantity::CycloneTracks, Group::ALL).significant);
    let grid = LatLonGrid::global(19, 36).unwrap();
    let mut rivers = Statistics::new(&grid).of_classes(&[Class::AtmosphericRiver]);
    for year in 2001..=2012 {
        for day in 0..365 {
            let time = Time::new(Calendar::NoLeap, year, 1, 1, 0, 0, 0).unwrap();
            let mask =
                ClassMask::new(time.add_seconds(day * 86_400), Array2::zeros((19, 36))).unwrap();
            rivers.add_time(mask.time, Some(&mask), 24.0, []).unwrap();
        }
    }
    (rivers.write_netcdf(path("b/statistics.nc"), &grid, Calendar::NoLeap)).unwrap();
    let found = again();
    assert!(
        found
            .changes
            .iter()
            .all(|row| row.class == "atmospheric_river")
    );
    assert!(found.maps.iter().all(|map| map.class != "tropical_cyclone"));
    assert!(
        (found.notes.iter())
            .any(|n| n.starts_with("Tropical cyclones are not compared: the tables of b")),
        "{:?}",
        found.notes
    );
}

/// Vapour transport and its proxy are two quantities.
#[test]
fn transport_is_compared_with_transport_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let write = |name: &str, column: &str| {
        Run::default().write(&path(name));
        let table = fs::read_to_string(path(name).join("events.csv")).unwrap();
        let mut ends = std::iter::once(column).chain(std::iter::repeat(""));
        let mut table: String = (table.lines())
            .map(|row| format!("{row},{}\n", ends.next().unwrap()))
            .collect();
        for year in 2001..=2012 {
            writeln!(
                table,
                "atmospheric_river,{year}-03-03T00:00:00,200.0,40.0,500000,9001,,2e-7,700"
            )
            .unwrap();
        }
        fs::write(path(name).join("events.csv"), table).unwrap();
    };
    write("a", "max_ivt_kg_m_s");
    // The more exact quantity is compared if both runs have it.
    for (column, compared) in [("max_ivt_kg_m_s", true), ("max_ivt_proxy_kg_m_s", false)] {
        write("b", column);
        let found = compare_with(side(&path("a"), "a"), side(&path("b"), "b"), &options()).unwrap();
        let has = |quantity| found.changes.iter().any(|row| row.quantity == quantity);
        assert_eq!(has(Quantity::RiverTransport), compared, "{column}");
        let noted = found.notes.iter().any(|note| note.contains("stand-in"));
        assert_eq!(noted, !compared, "{:?}", found.notes);
    }
    // Both runs have only the proxy.
    let is_proxy = |note: &String| note.contains("(max_ivt) is a proxy");
    write("a", "max_ivt_proxy_kg_m_s");
    let found = compare_with(side(&path("a"), "a"), side(&path("b"), "b"), &options()).unwrap();
    assert!(found.notes.iter().any(is_proxy), "{:?}", found.notes);
    write("a", "max_ivt_kg_m_s");
    // If the rivers of only one run have a transport, the quantity is left out.
    write("b", "max_ivt_kg_m_s");
    let found = compare_with(side(&path("a"), "a"), side(&path("b"), "b"), &options()).unwrap();
    assert!(!found.notes.iter().any(is_proxy), "{:?}", found.notes);
    let change = |name: &str, change: &dyn Fn(&str) -> String| {
        let file = path("b").join(name);
        let table = fs::read_to_string(&file).unwrap();
        fs::write(&file, change(&table)).unwrap();
    };
    change("events.csv", &|table| table.replace(",700\n", ",\n"));
    let river = "9001,atmospheric_river,2001-03-03T00:00:00,2001-03-04T00:00:00,200.0,40.0,,\n";
    change("tracks.csv", &|table| format!("{table}{river}"));
    for (first, second) in [("a", "b"), ("b", "a")] {
        let sides = [first, second].map(|name| side(&path(name), name));
        let [first, second] = sides;
        let found = compare_with(first, second, &options()).unwrap();
        let lacks = |note: &String| {
            note.starts_with("Left out, because the tables of b lack")
                && note.contains("atmospheric_river max_ivt")
        };
        assert!(found.notes.iter().any(lacks), "{:?}", found.notes);
    }
}

#[test]
fn rain_counts_where_and_when_it_falls() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["a", "b"] {
        Run {
            storms: 0,
            ..Run::default()
        }
        .write(&path(name));
        // A river that crosses from the Pacific in February to the Atlantic in March, and one without a track.
        let events = "class,time,lon_deg,lat_deg,area_km2,track_id,precipitation_km3\n\
            atmospheric_river,2001-02-28T00:00:00,220.0,40.0,500000,1,10\n\
            atmospheric_river,2001-03-01T00:00:00,320.0,40.0,500000,1,30\n\
            atmospheric_river,2001-03-09T00:00:00,320.0,40.0,500000,,5\n";
        fs::write(path(name).join("events.csv"), events).unwrap();
        let tracks = "track_id,class,start_time,end_time,genesis_lon_deg,genesis_lat_deg,precipitation_km3\n\
            1,atmospheric_river,2001-02-28T00:00:00,2001-03-01T00:00:00,220.0,40.0,40\n";
        fs::write(path(name).join("tracks.csv"), tracks).unwrap();
    }
    let found = compare_with(side(&path("a"), "a"), side(&path("b"), "b"), &options()).unwrap();
    let water = |group| row(&found, Quantity::RiverWater, group).change.a.unwrap() * 12.0;
    assert!((water(Group::ALL) - 45.0).abs() < 1e-9);
    let of = |lon| water(Group::of_basin(Basin::of(40.0, lon)));
    assert!((of(220.0) - 10.0).abs() < 1e-9 && (of(320.0) - 35.0).abs() < 1e-9);
}

#[test]
fn a_run_without_events_is_zero_and_not_unknown() {
    let none = Run {
        storms: 0,
        river_chance: 0.0,
        ..Run::default()
    };
    let found = compare(&Run::default(), &none, &options()).unwrap();
    let tracks = row(&found, Quantity::CycloneTracks, Group::ALL);
    assert_eq!(
        (tracks.change.b, tracks.change.relative),
        (Some(0.0), Some(-1.0))
    );
    assert!(tracks.significant);
    let wind = row(&found, Quantity::CycloneWind, Group::ALL);
    assert_eq!(
        (wind.change.b, wind.change.no_interval),
        (None, Some(NoInterval::TooFewEvents))
    );
    assert!(
        found.text().contains("cannot be compared: "),
        "{}",
        found.text()
    );
    let back = compare(&none, &Run::default(), &options()).unwrap();
    let tracks = row(&back, Quantity::CycloneTracks, Group::ALL);
    assert!(tracks.change.relative.is_none() && tracks.significant);
    let both = compare(&none, &none, &options()).unwrap();
    assert!(both.changes.iter().all(|row| !row.significant));
    assert!(changes_page(&both, "nothing", "").is_ok());
}

#[test]
fn options_without_meaning_are_refused_before_reading() {
    let nowhere = Path::new("/nonexistent");
    let mut message = String::new();
    for wrong in [
        CompareOptions {
            months: vec![13],
            ..options()
        },
        CompareOptions {
            block_years: 0,
            ..options()
        },
        CompareOptions {
            draws: DrawOptions {
                confidence: 95.0,
                ..DrawOptions::default()
            },
            ..options()
        },
    ] {
        let error = compare::plan(side(nowhere, "a"), side(nowhere, "b"), &wrong).unwrap_err();
        assert!(matches!(error, ClimateError::Invalid(_)), "{error}");
        let _ = writeln!(message, "{error}");
    }
    assert!(
        message.contains("months [13]") && message.contains("found 95"),
        "{message}"
    );
    let error = compare::plan(side(nowhere, "a"), side(nowhere, "b"), &options()).unwrap_err();
    assert!(matches!(error, ClimateError::Table { .. }), "{error}");
}

/// With many draws a single step takes long: cancelling must not wait for its end.
#[test]
fn a_comparison_stops_inside_of_a_step() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["a", "b"].map(|name| folder.path().join(name));
    paths.iter().for_each(|path| Run::default().write(path));
    let [a, b] = [side(&paths[0], "first"), side(&paths[1], "second")];
    let plan = compare::plan(a, b, &options()).unwrap();
    let asked = AtomicUsize::new(0);
    let goes_on = || -> Result<(), ClimateError> {
        match asked.fetch_add(1, Ordering::Relaxed) {
            0..=4 => Ok(()),
            _ => Err(DataError::Interrupted.into()),
        }
    };
    let mut steps = Vec::new();
    let note = |step| {
        steps.push(step);
        Ok(())
    };
    let error = plan.run(options().draws, &goes_on, note).unwrap_err();
    assert!(
        matches!(error, ClimateError::Data(DataError::Interrupted)),
        "{error}"
    );
    // Both sides were read, but no quantity was finished.
    assert_eq!(steps, [1, 2]);
}
