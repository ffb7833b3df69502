//! What the runs of a side must have in common, and which differences are refused or leave quantities out.

use super::*;
use squall_data::Class;

#[test]
fn other_grids_of_members_are_refused_unless_wanted() {
    let folder = tempfile::tempdir().unwrap();
    // Four cells of this grid make a cell of 5 degrees, where the other grid has one.
    let fine = Run {
        grid: (73, 144),
        ..years(2001..=2003, 5)
    };
    let a = ensemble(folder.path(), "a", &[years(2001..=2003, 1), fine]);
    let b = ensemble(folder.path(), "b", &[years(2001..=2006, 2)]);
    let error = compare_with(a.clone(), b.clone(), &options()).unwrap_err();
    let refused = matches!(&error, ClimateError::GridsDiffer { path, .. } if *path == a.folders[1]);
    assert!(refused, "{error}");
    let any = CompareOptions {
        any_grid: true,
        ..options()
    };
    let found = compare_with(a, b, &any).unwrap();
    let names_grids = |note: &&String| {
        note.starts_with("The grids differ (19 x 36")
            && note.contains(" in m1 of a and b against 73 x 144")
            && note.contains(" in m2 of a): part")
    };
    assert!(
        found.notes.iter().any(|n| names_grids(&n)),
        "{:?}",
        found.notes
    );
    // Each member counts its own cells: a river present a fifth of the time gives 1/5 on the coarse grid, 1/20 on the
    // fine one.
    let is_of_rivers =
        |map: &&compare::MapChange| map.quantity == MapQuantity::Frequency && map.class.code() == 2;
    let rivers = found.map_changes.iter().find(is_of_rivers).unwrap();
    let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    assert_eq!(rivers.tested(), 1);
    // Standard errors are 0.006 and 0.009.
    assert!(
        (most(&rivers.a) - 0.125).abs() < 0.03,
        "{}",
        most(&rivers.a)
    );
    assert!((most(&rivers.b) - 0.2).abs() < 0.04, "{}", most(&rivers.b));
}

#[test]
fn a_run_counts_once_on_a_side_and_its_years_on_one_side() {
    let folder = tempfile::tempdir().unwrap();
    let a = ensemble(
        folder.path(),
        "a",
        &[years(2001..=2006, 1), years(2001..=2006, 5)],
    );
    let b = ensemble(folder.path(), "b", &[years(2001..=2006, 2)]);
    let mut twice = a.clone();
    twice.folders.push(folder.path().join("a/m2/../m1/events"));
    let error = compare_with(twice, b.clone(), &options()).unwrap_err();
    assert!(
        matches!(&error, ClimateError::MemberTwice { side, .. } if side == "a"),
        "{error}"
    );
    let mut shared = b.clone();
    shared.folders.push(a.folders[1].clone());
    let between = |from_a, from_b| {
        let (mut a, mut b) = (a.clone(), shared.clone());
        (a.years, b.years) = (Some(from_a), Some(from_b));
        compare_with(a, b, &options())
    };
    let error = between((2001, 2004), (2003, 2006)).unwrap_err();
    assert!(
        matches!(
            &error,
            ClimateError::SharedYears { path, first: 2003, last: 2004 } if *path == a.folders[1]
        ),
        "{error}"
    );
    assert!(between((2001, 2003), (2004, 2006)).is_ok());
    let mut nobody = b.clone();
    nobody.folders.clear();
    let error = compare_with(nobody, a, &options()).unwrap_err();
    assert!(matches!(error, ClimateError::Invalid(_)), "{error}");
}

/// Members must have in common what two sides must, and the ones that differ are named.
#[test]
fn members_that_differ_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let usual = || Run {
        wind: Some("850 hPa"),
        ..years(2001..=2003, 1)
    };
    let b = ensemble(folder.path(), "b", &[usual()]);
    let with = |other: Run| {
        let a = ensemble(folder.path(), "a", &[usual(), other]);
        compare_with(a, b.clone(), &options()).unwrap().notes
    };
    let has = |notes: &[String], wanted: &str| {
        assert!(notes.iter().any(|n| n.starts_with(wanted)), "{notes:?}");
    };
    let notes = with(Run {
        wind: Some("lowest model level"),
        ..usual()
    });
    has(
        &notes,
        "Winds are not compared, nor what follows from them (hurricanes, cyclone energy, the latitude when strongest), \
         because they are of different levels (m1 of a and b: 850 hPa; m2 of a: lowest model level).",
    );
    let notes = with(Run {
        min_wind: 17.0,
        ..usual()
    });
    has(
        &notes,
        "Events and tracks were chosen by different rules, so that part of every change may be theirs: \
         tropical_cyclone.min_peak_wind_m_s (0 in m1 of a and b against 17 in m2 of a).",
    );
    let notes = with(Run {
        gap: Some((2002, 9)),
        ..usual()
    });
    has(
        &notes,
        "Years of m2 of a that are not whole are left out: 2002 (month 9 has 0 % of its times).",
    );
    let notes = with(Run {
        times_per_day: 2,
        ..usual()
    });
    has(
        &notes,
        "There are 1 times a day in m1 of a and b against 2 in m2 of a: shorter steps",
    );
    let notes = with(Run {
        months: vec![6, 7, 8],
        ..usual()
    });
    has(
        &notes,
        "m1 of a and b have all months, m2 of a has June to August: only June to August are compared.",
    );
    let mut late = ensemble(folder.path(), "a", &[usual(), years(2010..=2012, 1)]);
    late.years = Some((2001, 2003));
    let error = compare_with(late, b.clone(), &options()).unwrap_err();
    let named =
        matches!(&error, ClimateError::Period { path, .. } if path.ends_with("a/m2/events"));
    assert!(named, "{error}");
}

#[test]
fn what_the_tables_of_a_member_lack_is_not_compared() {
    let folder = tempfile::tempdir().unwrap();
    let runs = [1, 5].map(|seed| years(2001..=2006, seed));
    let (a, b) = (
        ensemble(folder.path(), "a", &runs),
        ensemble(folder.path(), "b", &runs[..1]),
    );
    let tracks = a.folders[1].join("tracks.csv");
    let table = fs::read_to_string(&tracks).unwrap();
    fs::write(&tracks, table.replacen("min_psl_pa", "other", 1)).unwrap();
    let found = compare_with(a.clone(), b.clone(), &options()).unwrap();
    let is_there = |quantity| found.changes.iter().any(|row| row.quantity == quantity);
    assert!(is_there(Quantity::CycloneWind) && !is_there(Quantity::CyclonePressure));
    let lacks = "Left out, because the tables of m2 of a lack their columns or values: tropical_cyclone min_pressure, ";
    assert!(
        found.notes.iter().any(|n| n.starts_with(lacks)),
        "{:?}",
        found.notes
    );
    let levels: Vec<&str> = found
        .return_levels
        .iter()
        .map(|l| l.name.as_str())
        .collect();
    let bins: Vec<&str> = found
        .distributions
        .iter()
        .map(|d| d.name.as_str())
        .collect();
    assert_eq!((levels, bins), (vec!["annual_max_wind"], vec!["max_wind"]));
    // Years whose storms have no wind are unknown only in the member that they belong to.
    let blank = table.lines().map(|row| {
        let mut cells: Vec<&str> = row.split(',').collect();
        if cells[2].starts_with("2003") {
            cells[7] = "";
        }
        cells.join(",") + "\n"
    });
    let blank: String = blank.collect();
    fs::write(&tracks, blank).unwrap();
    let found = compare_with(a, b, &options()).unwrap();
    let note = "Of a 1 of 12 years are not counted for tropical_cyclone hurricanes, tropical_cyclone major_hurricanes, \
                tropical_cyclone max_wind, tropical_cyclone max_wind_p90, because more than half of their tracks or events have no value: 2003 of m2. \
                Return levels and distributions of these leave the years out, too.";
    assert!(found.notes.iter().any(|n| n == note), "{:?}", found.notes);
}

/// Years that were not searched for cyclones are not years without any: return levels over them would be far too low.
#[test]
fn a_member_that_was_not_asked_for_cyclones_leaves_no_levels_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let runs = [1, 5].map(|seed| years(2001..=2012, seed));
    let (a, b) = (
        ensemble(folder.path(), "a", &runs),
        ensemble(folder.path(), "b", &runs[..1]),
    );
    let levels = |a: &SideInput| -> Vec<String> {
        let found = compare_with(a.clone(), b.clone(), &options()).unwrap();
        let levels = found.return_levels.into_iter();
        levels.map(|levels| levels.name).collect()
    };
    assert_eq!(levels(&a), ["annual_max_wind", "annual_min_pressure"]);
    for table in ["events.csv", "tracks.csv"] {
        let path = a.folders[1].join(table);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.lines().next().unwrap()).unwrap();
    }
    // A run that was searched and has no cyclones has calm years.
    assert_eq!(levels(&a), ["annual_max_wind", "annual_min_pressure"]);
    let grid = LatLonGrid::global(19, 36).unwrap();
    let mut rivers = Statistics::new(&grid).of_classes(&[Class::AtmosphericRiver]);
    let first = Time::new(Calendar::NoLeap, 2001, 1, 1, 0, 0, 0).unwrap();
    for day in 0..12 * 365 {
        let time = first.add_seconds(day * 86_400);
        let mask = ClassMask::new(time, Array2::zeros((19, 36))).unwrap();
        rivers.add_time(time, Some(&mask), 24.0, []).unwrap();
    }
    let path = a.folders[1].join("statistics.nc");
    (rivers.write_netcdf(path, &grid, Calendar::NoLeap)).unwrap();
    assert_eq!(levels(&a), Vec::<String>::new());
}

#[test]
fn members_of_other_calendars_are_scaled_each_by_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let other = Run {
        calendar: Calendar::Day360,
        ..years(2001..=2006, 5)
    };
    let a = ensemble(folder.path(), "a", &[years(2001..=2006, 1), other]);
    let b = ensemble(folder.path(), "b", &[years(2001..=2006, 2)]);
    let alone = |k: usize| SideInput {
        folders: vec![a.folders[k].clone()],
        label: format!("m{k}"),
        years: None,
    };
    // Both are scaled because their calendars differ.
    let each = compare_with(alone(0), alone(1), &options()).unwrap();
    let found = compare_with(a.clone(), b, &options()).unwrap();
    let note = "The calendars are noleap in m1 of a and b and 360_day in m2 of a: numbers by year are scaled to the \
                lengths of Gregorian months (February has 28.2425 days).";
    assert!(found.notes.iter().any(|n| n == note), "{:?}", found.notes);
    let of = |found: &Comparison| row(found, Quantity::CycloneTracks, Group::ALL).change;
    let (each, pooled) = (of(&each), of(&found).a.unwrap());
    let mean = (each.a.unwrap() + each.b.unwrap()) / 2.0;
    assert!((pooled - mean).abs() < 1e-9, "{pooled} {mean}");
    // The bins and the genesis map are scaled too.
    let winds = found.distributions.iter().find(|d| d.name == "max_wind");
    let bins: f64 = winds
        .unwrap()
        .bins
        .iter()
        .filter_map(|bin| bin.change.a)
        .sum();
    assert!((bins - pooled).abs() < 1e-9, "{bins} {pooled}");
    assert_eq!(found.a.calendar, "noleap, 360_day");
}

#[test]
fn members_by_percentiles_of_other_climates_are_named_up_to_five() {
    let folder = tempfile::tempdir().unwrap();
    let of = |climate: Option<&'static str>| Run {
        masks: Some("85.0"),
        climate,
        ..years(2001..=2002, 1)
    };
    let climates = ["c1", "c2", "c3", "c4"].map(Some);
    let a = ensemble(folder.path(), "a", &climates.map(of));
    let climates = [Some("c1"), Some("c5"), Some("c6"), None];
    let b = ensemble(folder.path(), "b", &climates.map(of));
    let notes = compare_with(a, b, &options()).unwrap().notes;
    let said = "several climates (m1 of a and m1 of b: c1; m2 of a: c2; m3 of a: c3; m4 of a: c4; m2 of b: c5; and 2 more)";
    assert!(notes.iter().any(|note| note.contains(said)), "{notes:?}");
    // The difference is not reported a second time.
    let again = |note: &String| note.contains("different rules");
    assert!(!notes.iter().any(again), "{notes:?}");
}
