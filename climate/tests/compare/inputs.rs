//! What two runs must have in common, and what is left out or refused.

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
}

#[test]
fn seasons_are_restricted_to_the_common_months_or_refused() {
    let summer = Run {
        months: vec![6, 7, 8],
        ..Run::default()
    };
    let found = compare(&Run::default(), &summer, &options()).unwrap();
    assert_eq!(found.months, [6, 7, 8]);
    let note = "first has all months, second has June to August: only June to August are compared.";
    assert!(found.notes.iter().any(|n| n == note), "{:?}", found.notes);
    assert!(found.changes.iter().all(|row| row.season == "all"));
    let tracks = row(&found, Quantity::CycloneTracks, Group::All);
    assert!(
        (12.0..18.0).contains(&tracks.change.a.unwrap()),
        "{tracks:?}"
    );
    let wanted = CompareOptions {
        months: vec![7, 12],
        ..options()
    };
    let error = compare(&Run::default(), &summer, &wanted).unwrap_err();
    assert!(
        matches!(&error, ClimateError::Period { reason, .. } if reason == "it has June to August, not December"),
        "{error}"
    );
    let winter = Run {
        months: vec![12, 1, 2],
        ..Run::default()
    };
    let error = compare(&winter, &summer, &options()).unwrap_err();
    assert!(error.to_string().starts_with("months of `"), "{error}");
    // Years from July on keep a winter together: one year fewer.
    let kept = CompareOptions {
        year_start: 7,
        ..options()
    };
    let found = compare(&winter, &winter, &kept).unwrap();
    assert_eq!(found.a.years.len(), 11);
}

#[test]
fn few_years_give_numbers_without_intervals() {
    let few = Run {
        years: 2001..=2003,
        ..Run::default()
    };
    let found = compare(&few, &Run::default(), &options()).unwrap();
    assert!(
        found
            .changes
            .iter()
            .all(|row| row.change.interval.is_none() && row.change.p.is_none() && !row.significant)
    );
    let text = found.text();
    assert!(
        text.contains(
            "no interval, because first has only 3 whole years and at least 5 are needed"
        ),
        "{text}"
    );
    assert!(
        text.contains("The map of the frequency of tropical cyclones is not tested"),
        "{text}"
    );
    assert!(changes_page(&found, "few", "").is_ok());
    // Blocks of three years make four of twelve years.
    let blocks = CompareOptions {
        block_years: 3,
        ..options()
    };
    let found = compare(&Run::default(), &Run::default(), &blocks).unwrap();
    assert_eq!((found.a.blocks, found.a.years.len()), (4, 12));
    assert!(found.text().contains("4 blocks of whole years"));
    // One whole month is one, with nothing to compare it to.
    let one = Run {
        years: 2001..=2001,
        months: vec![1],
        ..Run::default()
    };
    let found = compare(&one, &one, &options()).unwrap();
    assert_eq!(
        (found.months.as_slice(), found.a.years.len()),
        ([1].as_slice(), 1)
    );
    assert!((found.changes.iter()).all(|row| row.change.interval.is_none()));
}

#[test]
fn half_months_are_not_whole_however_many_there_are() {
    for times_per_day in [1, 2] {
        let half = Run {
            last_day: 15,
            times_per_day,
            ..Run::default()
        };
        let error = compare(&half, &Run::default(), &options()).unwrap_err();
        assert!(
            matches!(&error, ClimateError::Period { reason, .. } if reason.contains("no month of the year is whole")),
            "{error}"
        );
    }
    let twice = Run {
        times_per_day: 2,
        ..Run::default()
    };
    let found = compare(&Run::default(), &twice, &options()).unwrap();
    assert_eq!(found.months.len(), 12);
    assert!(
        (found.notes.iter()).any(|n| n.starts_with("There are 1 times a day against 2")),
        "{:?}",
        found.notes
    );
}

#[test]
fn years_are_not_compared_with_themselves() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    Run::default().write(&path);
    let period = |from, to| SideInput {
        years: Some((from, to)),
        ..side(&path, "run")
    };
    let between = |a, b| compare_with(a, b, &options());
    let error = between(period(2001, 2008), period(2005, 2012)).unwrap_err();
    assert!(
        matches!(
            error,
            ClimateError::SharedYears {
                first: 2005,
                last: 2008,
                ..
            }
        ),
        "{error}"
    );
    assert!(between(side(&path, "all"), side(&path, "all")).is_err());
    assert!(between(period(2001, 2006), period(2007, 2012)).is_ok());
}

#[test]
fn a_class_that_tables_without_statistics_lack_is_unknown_and_not_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    Run::default().write(&path("both"));
    Run::default().write(&path("tracks"));
    fs::remove_file(path("tracks/statistics.nc")).unwrap();
    // A river in the run of masks, none among the imported tracks.
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
    assert!(row(&again(), Quantity::CycloneTracks, Group::All).significant);
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

/// Transport and its stand-in are two quantities.
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
    // The more exact one of those that both have.
    for (column, compared) in [("max_ivt_kg_m_s", true), ("max_ivt_proxy_kg_m_s", false)] {
        write("b", column);
        let found = compare_with(side(&path("a"), "a"), side(&path("b"), "b"), &options()).unwrap();
        let has = |quantity| found.changes.iter().any(|row| row.quantity == quantity);
        assert_eq!(has(Quantity::RiverTransport), compared, "{column}");
        let noted = found.notes.iter().any(|note| note.contains("stand-in"));
        assert_eq!(noted, !compared, "{:?}", found.notes);
    }
    // Rivers of one run alone have any.
    write("b", "max_ivt_kg_m_s");
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
        // A river from the Pacific in February to the Atlantic in March; and one that is on no track.
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
    assert!((water(Group::All) - 45.0).abs() < 1e-9);
    let of = |lon| water(Group::Basin(Basin::of(40.0, lon)));
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
    let tracks = row(&found, Quantity::CycloneTracks, Group::All);
    assert_eq!(
        (tracks.change.b, tracks.change.relative),
        (Some(0.0), Some(-1.0))
    );
    assert!(tracks.significant);
    let wind = row(&found, Quantity::CycloneWind, Group::All);
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
    let tracks = row(&back, Quantity::CycloneTracks, Group::All);
    assert!(tracks.change.relative.is_none() && tracks.significant);
    let both = compare(&none, &none, &options()).unwrap();
    assert!(both.changes.iter().all(|row| !row.significant));
    assert!(changes_page(&both, "nothing", "").is_ok());
}

#[test]
fn calendars_of_other_lengths_are_scaled_to_one_year() {
    let b = Run {
        calendar: Calendar::Day360,
        ..Run::default()
    };
    let found = compare(&Run::default(), &b, &options()).unwrap();
    assert!(
        found
            .notes
            .iter()
            .any(|n| n.contains("noleap and 360_day") && n.contains("365.2425")),
        "{:?}",
        found.notes
    );
    let same = compare(&b, &b, &options()).unwrap();
    let (scaled, plain) = (
        row(&found, Quantity::CycloneTracks, Group::All),
        row(&same, Quantity::CycloneTracks, Group::All),
    );
    let ratio = scaled.change.b.unwrap() / plain.change.b.unwrap();
    assert!((ratio - 365.2425 / 360.0).abs() < 1e-9, "{ratio}");
}

#[test]
fn gaps_leave_their_year_out_by_name() {
    let b = Run {
        gap: Some((2005, 9)),
        ..Run::default()
    };
    let found = compare(&Run::default(), &b, &options()).unwrap();
    assert_eq!(found.b.years.len(), 11);
    let note =
        "Years of second that are not whole are left out: 2005 (month 9 has 0 % of its times).";
    assert!(found.notes.iter().any(|n| n == note), "{:?}", found.notes);
    assert!(found.statements[0].ends_with("12 years against 11."));
}

#[test]
fn missing_columns_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    Run::default().write(&path("a"));
    Run::default().write(&path("b"));
    let again = || compare_with(side(&path("a"), "a"), side(&path("b"), "b"), &options());
    // A column that a quantity needs: the quantity is left out with a note, on the word of one run.
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
    // Nor are there bins of it: a run whose storms have no pressure is no run without storms.
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
    // A cell that is no number, with its line.
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
    // The first and last year begin and end with their storms, so that they are not whole.
    assert_eq!(found.b.years, (2002..=2011).collect::<Vec<i64>>());
    fs::write(path("b/objects.csv"), "class,time,lon_deg,lat_deg\n").unwrap();
    let error = compare_with(side(&path("a"), "a"), side(&path("b"), "b"), &noleap).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("nobody knows which times were analysed"),
        "{error}"
    );
}

/// Tracks that the ends of the data cut count, but nobody knows how long they were, nor where those began that were there
/// at the start or split off.
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
        // The same track, and three more that last no time at all.
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
        let change = &row(&found, quantity, Group::All).change;
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
    // Those at the end of the data have begun in it.
    let sum = |density: &[f64]| density.iter().filter(|v| v.is_finite()).sum::<f64>();
    assert!((sum(&genesis.b) - 2.0 * sum(&genesis.a)).abs() < 1e-9 * sum(&genesis.b));
}

/// Points that tell their hours need no statistics to have an energy.
#[test]
fn points_with_hours_have_an_energy_without_statistics() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let energy = |with_hours: bool| {
        for name in ["a", "b"] {
            Run::default().write(&path(name));
            fs::remove_file(path(name).join("statistics.nc")).unwrap();
            let file = path(name).join("events.csv");
            let table = fs::read_to_string(&file).unwrap();
            let mut lines = table.lines();
            let mut rows =
                vec![lines.next().unwrap().to_string() + if with_hours { ",hours" } else { "" }];
            let hours = if with_hours { ",12" } else { "" };
            rows.extend(lines.map(|line| format!("{line}{hours}")));
            fs::write(&file, rows.join("\n") + "\n").unwrap();
        }
        let noleap = CompareOptions {
            calendar: Some(Calendar::NoLeap),
            ..options()
        };
        let found = compare_with(side(&path("a"), "a"), side(&path("b"), "b"), &noleap).unwrap();
        let row = (found.changes.iter())
            .find(|row| row.quantity == Quantity::CycloneEnergy && row.group() == Group::All);
        row.and_then(|row| row.change.a)
    };
    assert_eq!(energy(false), None);
    // Winds of 0.6, 0.8, 1 and 0.7 of about 40 m/s for twelve hours each, sixty storms a year.
    let found = energy(true).unwrap();
    assert!((50.0..300.0).contains(&found), "{found}");
}

#[test]
fn two_periods_of_one_run_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    Run::default().write(folder.path());
    let period = |from, to| SideInput {
        years: Some((from, to)),
        ..side(folder.path(), "period")
    };
    let found = compare_with(period(2001, 2006), period(2007, 2012), &options()).unwrap();
    assert_eq!((found.a.years.len(), found.b.years[0]), (6, 2007));
    let error = compare_with(period(1950, 1960), period(2007, 2012), &options()).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("it has no year from 1950 to 1960"),
        "{error}"
    );
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

/// Many draws make steps long: nobody waits for the end of one.
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
    let error = plan.run_while(options().draws, &goes_on, note).unwrap_err();
    assert!(
        matches!(error, ClimateError::Data(DataError::Interrupted)),
        "{error}"
    );
    // Both sides were read, and no quantity was done with.
    assert_eq!(steps, [1, 2]);
}
