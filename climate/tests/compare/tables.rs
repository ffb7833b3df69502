//! What tables contain and what they leave unknown: columns, classes, ends of tracks, calendars.

use super::*;
use squall_data::Class;

#[test]
fn a_class_that_tables_without_statistics_lack_is_unknown_and_not_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    Run::default().write(&path("both"));
    Run::default().write(&path("tracks"));
    fs::remove_file(path("tracks/statistics.nc")).unwrap();
    // The run of masks has a river; the imported tracks have none.
    let river = "atmospheric_river,2001-03-03T00:00:00,200.0,40.0,500000,9001,,2e-7\n";
    let events = fs::read_to_string(path("both/events.csv")).unwrap();
    fs::write(path("both/events.csv"), events + river).unwrap();
    let noleap = CompareOptions {
        calendar: Some(Calendar::NoLeap),
        ..options()
    };
    let found = compare_with(
        side(&path("both"), "masks"),
        side(&path("tracks"), "imported"),
        &noleap,
    )
    .unwrap();
    let rivers = found
        .changes
        .iter()
        .filter(|row| row.class == "atmospheric_river");
    assert_eq!(rivers.count(), 0);
    assert!(
        found
            .changes
            .iter()
            .any(|row| row.class == "tropical_cyclone")
    );
    let note = "Atmospheric rivers are not compared: the tables of imported have none of them, and nothing says that they \
                were looked for.";
    assert!(found.notes.iter().any(|n| n == note), "{:?}", found.notes);
}

#[test]
fn missing_columns_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    Run::default().write(&path("a"));
    Run::default().write(&path("b"));
    let again = || compare_with(side(&path("a"), "a"), side(&path("b"), "b"), &options());
    // If one run lacks a column that a quantity needs, the quantity is left out with a note.
    let text = fs::read_to_string(path("b/tracks.csv")).unwrap();
    fs::write(
        path("b/tracks.csv"),
        text.replacen("min_psl_pa", "other", 1),
    )
    .unwrap();
    let found = again().unwrap();
    assert!(
        found
            .changes
            .iter()
            .all(|row| row.quantity != Quantity::CyclonePressure)
    );
    // Its bins are left out too: a run whose storms have no pressure is not a run without storms.
    let bins: Vec<&str> = found
        .distributions
        .iter()
        .map(|d| d.name.as_str())
        .collect();
    assert_eq!(bins, ["max_wind"]);
    let is_said = |run: &str, quantity: &str| {
        let begin = format!("Left out, because the tables of {run} ");
        let mut notes = found.notes.iter();
        notes.any(|note| note.starts_with(&begin) && note.contains(quantity))
    };
    let notes = &found.notes;
    let pressure = "tropical_cyclone min_pressure";
    assert!(is_said("b lack", pressure), "{notes:?}");
    let landfalls = "tropical_cyclone landfalls";
    assert!(is_said("a and b have no", landfalls), "{notes:?}");
    let left_out = |note: &&String| note.starts_with("Left out");
    let mut left_out = notes.iter().filter(left_out);
    assert!(!left_out.any(|note| note.contains("max_wind")), "{notes:?}");
    // A column that everything needs.
    fs::write(
        path("b/tracks.csv"),
        text.replacen("start_time", "other", 1),
    )
    .unwrap();
    let error = again().unwrap_err();
    assert!(
        error.to_string().contains("expected a column `start_time`"),
        "{error}"
    );
    // An invalid cell is reported with its line.
    let bad = text.replacen(",tropical_cyclone,", ",typhoon,", 1);
    fs::write(path("b/tracks.csv"), bad).unwrap();
    let error = again().unwrap_err();
    assert!(
        matches!(error, ClimateError::TableCell { line: 2, .. }),
        "{error}"
    );
    fs::remove_file(path("b/tracks.csv")).unwrap();
    let error = again().unwrap_err().to_string();
    assert!(
        error.contains("tracks.csv") && error.contains("`squall events` writes it"),
        "{error}"
    );
    fs::write(path("b/tracks.csv"), text).unwrap();
    fs::write(path("b/statistics.nc"), b"not netCDF").unwrap();
    assert!(again().unwrap_err().to_string().contains("statistics.nc"));
}

#[test]
fn tables_alone_are_enough_for_counts() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    Run::default().write(&path("a"));
    Run::default().write(&path("b"));
    fs::remove_file(path("b/statistics.nc")).unwrap();
    fs::rename(path("b/events.csv"), path("b/objects.csv")).unwrap();
    let noleap = CompareOptions {
        calendar: Some(Calendar::NoLeap),
        ..options()
    };
    let found = compare_with(side(&path("a"), "a"), side(&path("b"), "b"), &noleap).unwrap();
    assert!(
        found
            .notes
            .iter()
            .any(|n| n.starts_with("b has no statistics.nc")),
        "{:?}",
        found.notes
    );
    let winds = "Without statistics.nc on both sides it is not known at what level winds are";
    assert!(
        found.notes.iter().any(|n| n.starts_with(winds)),
        "{:?}",
        found.notes
    );
    let frequency = "There is no map of the change of frequency: b has no statistics.nc, which `squall events` writes of masks.";
    assert!(
        found.notes.iter().any(|n| n == frequency),
        "{:?}",
        found.notes
    );
    assert!(
        found
            .changes
            .iter()
            .all(|row| row.quantity != Quantity::CyclonesPresent)
    );
    // The first and the last year begin and end with their storms and are therefore incomplete.
    assert_eq!(found.b.years, (2002..=2011).collect::<Vec<i64>>());
    fs::write(path("b/objects.csv"), "class,time,lon_deg,lat_deg\n").unwrap();
    let error = compare_with(side(&path("a"), "a"), side(&path("b"), "b"), &noleap).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("it is unknown which times were analysed"),
        "{error}"
    );
}

/// Tracks cut off by the ends of the data are counted, but their lifetimes are unknown. So is the place of genesis of
/// tracks that exist at the start of the data or split off.
#[test]
fn cut_tracks_have_no_lifetime_and_no_place_of_genesis() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    Run::default().write(&path("a"));
    Run::default().write(&path("b"));
    let table = fs::read_to_string(path("b/tracks.csv")).unwrap();
    let mut rows: Vec<String> = vec![table.lines().next().unwrap().to_string() + ",origin,fate"];
    for row in table.lines().skip(1) {
        let cells: Vec<&str> = row.split(',').collect();
        // The same track and three more, two of which have zero duration.
        rows.push(format!("{row},genesis,lysis"));
        for (more, ends) in ["start_of_data,lysis", "genesis,end_of_data", "split,merge"]
            .iter()
            .enumerate()
        {
            let mut cells: Vec<String> = cells.iter().map(|cell| cell.to_string()).collect();
            cells[0] = format!("{}{}", cells[0], 90_000 + more);
            if *ends != "split,merge" {
                cells[3] = cells[2].clone();
            }
            rows.push(cells.join(",") + "," + ends);
        }
    }
    fs::write(path("b/tracks.csv"), rows.join("\n") + "\n").unwrap();
    let found = compare_with(side(&path("a"), "a"), side(&path("b"), "b"), &options()).unwrap();
    let means = |quantity| {
        let change = &row(&found, quantity, Group::ALL).change;
        (change.a.unwrap(), change.b.unwrap())
    };
    let (a, b) = means(Quantity::CycloneTracks);
    assert!((b - 4.0 * a).abs() < 1e-9, "{a} {b}");
    let (a, b) = means(Quantity::CycloneLifetime);
    assert!((b - a).abs() < 1e-9, "{a} {b}");
    let genesis = (found.map_changes.iter())
        .find(|map| {
            map.quantity == MapQuantity::GenesisDensity && map.class == Class::TropicalCyclone
        })
        .unwrap();
    // Tracks that reach the end of the data began inside it.
    let sum = |density: &[f64]| density.iter().filter(|v| v.is_finite()).sum::<f64>();
    assert!((sum(&genesis.b) - 2.0 * sum(&genesis.a)).abs() < 1e-9 * sum(&genesis.b));
}

/// Rivers that merge or split are several tracks; the mean lifetime used to be that of the pieces.
#[test]
fn pieces_of_rivers_count_and_have_no_lifetime() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let both = ["split,lysis", "genesis,merge"];
    for (name, pieces) in [("a", &both[..0]), ("b", &both[..])] {
        Run::default().write(&path(name));
        let file = path(name).join("tracks.csv");
        let table = fs::read_to_string(&file).unwrap();
        let mut rows = vec![table.lines().next().unwrap().to_string() + ",origin,fate"];
        for row in table.lines().skip(1) {
            rows.push(format!("{row},genesis,lysis"));
            // A river that lives as long as the cyclone, and pieces of zero duration.
            let cells: Vec<&str> = row.split(',').collect();
            let river = |ends: &str, end: &str, id: usize| {
                let (storm, start, place) = (cells[0], cells[2], cells[4..6].join(","));
                format!("{storm}900{id},atmospheric_river,{start},{end},{place},,,{ends}")
            };
            rows.push(river("genesis,lysis", cells[3], 0));
            for (&ends, id) in pieces.iter().zip(1..) {
                rows.push(river(ends, cells[2], id));
            }
        }
        fs::write(&file, rows.join("\n") + "\n").unwrap();
    }
    let found = compare_with(side(&path("a"), "a"), side(&path("b"), "b"), &options()).unwrap();
    let means = |quantity| {
        let change = &row(&found, quantity, Group::ALL).change;
        (change.a.unwrap(), change.b.unwrap())
    };
    let (a, b) = means(Quantity::RiverTracks);
    assert!((b - 3.0 * a).abs() < 1e-9, "{a} {b}");
    let (a, b) = means(Quantity::RiverLifetime);
    assert!((a - 3.0).abs() < 1e-9 && (b - 3.0).abs() < 1e-9, "{a} {b}");
    let note = "Numbers of atmospheric rivers are of pieces between mergers: 0 % of the tracks of a and 67 % of those \
                of b split from another river or ended in one. Lifetimes leave them out.";
    assert!(found.notes.iter().any(|n| n == note), "{:?}", found.notes);
}

/// If points contain their hours, cyclone energy does not need statistics.
#[test]
fn points_with_hours_have_an_energy_without_statistics() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let energy = |hours: Option<&str>| {
        for name in ["a", "b"] {
            Run::default().write(&path(name));
            fs::remove_file(path(name).join("statistics.nc")).unwrap();
            let file = path(name).join("events.csv");
            let table = fs::read_to_string(&file).unwrap();
            let mut lines = table.lines();
            let cell = |text: &str| hours.map_or(String::new(), |_| format!(",{text}"));
            let mut rows = vec![lines.next().unwrap().to_string() + &cell("hours")];
            rows.extend(lines.map(|line| line.to_string() + &cell(hours.unwrap_or(""))));
            fs::write(&file, rows.join("\n") + "\n").unwrap();
        }
        let noleap = CompareOptions {
            calendar: Some(Calendar::NoLeap),
            ..options()
        };
        let found = compare_with(side(&path("a"), "a"), side(&path("b"), "b"), &noleap).unwrap();
        let row = (found.changes.iter())
            .find(|row| row.quantity == Quantity::CycloneEnergy && row.group() == Group::ALL);
        row.and_then(|row| row.change.a)
    };
    assert_eq!(energy(None), None);
    // An empty column counts as no column.
    assert_eq!(energy(Some("")), None);
    // Winds of 0.6, 0.8, 1 and 0.7 times about 40 m/s for twelve hours each, sixty storms a year.
    let found = energy(Some("12")).unwrap();
    assert!((50.0..300.0).contains(&found), "{found}");
}

#[test]
fn masks_beside_a_table_tell_its_calendar() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["a", "b"] {
        Run::default().write(&path(name));
        fs::remove_file(path(name).join("statistics.nc")).unwrap();
    }
    let masks = || -> Result<(), netcdf::Error> {
        let mut file = netcdf::create(path("b").join("masks.nc"))?;
        file.add_dimension("time", 1)?;
        let mut time = file.add_variable::<f64>("time", &["time"])?;
        time.put_attribute("calendar", "noleap")?;
        Ok(())
    };
    squall_data::archive::on_library_thread(masks).unwrap();
    let sides = || (side(&path("a"), "a"), side(&path("b"), "b"));
    let calendars = |options: &CompareOptions| {
        let (a, b) = sides();
        let found = compare_with(a, b, options).unwrap();
        [found.a.calendar, found.b.calendar]
    };
    assert_eq!(calendars(&options()), ["standard", "noleap"]);
    let asked = CompareOptions {
        calendar: Some(Calendar::ProlepticGregorian),
        ..options()
    };
    assert_eq!(calendars(&asked), ["proleptic_gregorian"; 2]);
}

/// There are no tracks outside a limited area, but genesis there is unknown, not zero.
#[test]
fn outside_of_a_region_genesis_is_not_known() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let axis = |from: f64| -> Vec<f64> { (0..20).map(|k| from + 2.0 * f64::from(k)).collect() };
    // Cell edges reach from 1°S to 39°N and from 124°E to 164°E.
    let (grid, _) = LatLonGrid::from_axes(axis(0.0), axis(125.0)).unwrap();
    for (name, run) in [("a", Run::default()), ("b", years(2013..=2024, 2))] {
        run.write(&path(name));
        let mut statistics = Statistics::new(&grid);
        for year in run.years.clone() {
            for month in 1..=12 {
                for day in 1..=run.calendar.days_in_month(year, month) {
                    let time = run.time(year, month, day);
                    statistics.add_time(time, None, 24.0, []).unwrap();
                }
            }
        }
        let file = path(name).join("statistics.nc");
        (statistics.write_netcdf(file, &grid, run.calendar)).unwrap();
    }
    let found = compare_with(side(&path("a"), "a"), side(&path("b"), "b"), &options()).unwrap();
    let genesis = (found.map_changes.iter())
        .find(|map| map.class == Class::TropicalCyclone)
        .unwrap();
    assert_eq!(genesis.quantity, MapQuantity::GenesisDensity);
    let known = genesis.a.iter().filter(|density| density.is_finite());
    assert_eq!(known.clone().count(), 9 * 9);
    assert!(known.sum::<f64>() > 0.0 && genesis.tested() > 3);
}
