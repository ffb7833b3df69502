//! Values that tables lack, or that differ in definition between the runs, are left out and reported.

use super::*;

/// Blanks the cells in the column `cell` in all rows for which `is_blank` returns true.
fn blank(file: &Path, cell: usize, is_blank: impl Fn(&[&str]) -> bool) {
    let table = fs::read_to_string(file).unwrap();
    let rows = table.lines().map(|row| {
        let mut cells: Vec<&str> = row.split(',').collect();
        if is_blank(&cells) {
            cells[cell] = "";
        }
        cells.join(",") + "\n"
    });
    let rows: String = rows.collect();
    fs::write(file, rows).unwrap();
}

/// In best tracks, early storms mostly have no wind: these years have an unknown number of hurricanes, not fewer.
#[test]
fn years_whose_storms_have_no_wind_are_unknown_and_not_calm() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["a", "b"] {
        Run::default().write(&path(name));
    }
    // Before 2007, one in three storms has a wind.
    let early = |time: &str| time < "2007";
    let third = |id: &str| id.parse::<u32>().is_ok_and(|id| id % 3 == 0);
    blank(&path("b").join("tracks.csv"), 7, |row| {
        early(row[2]) && !third(row[0])
    });
    blank(&path("b").join("events.csv"), 6, |row| {
        early(row[1]) && !third(row[5])
    });
    let found = compare_with(side(&path("a"), "a"), side(&path("b"), "b"), &options()).unwrap();
    let late = SideInput {
        years: Some((2007, 2012)),
        ..side(&path("a"), "late")
    };
    let known = compare_with(late, side(&path("b"), "b"), &options()).unwrap();
    for quantity in [
        Quantity::Hurricanes,
        Quantity::MajorHurricanes,
        Quantity::CycloneEnergy,
    ] {
        let [found, known] = [&found, &known].map(|c| row(c, quantity, Group::ALL).change);
        let off = found.b.unwrap() - known.a.unwrap();
        assert!(off.abs() < 1e-9, "{quantity:?} {off}");
        let zero = known.interval.unwrap();
        assert!(zero.holds(0.0), "{quantity:?} {zero:?}");
    }
    let tracks = row(&found, Quantity::CycloneTracks, Group::ALL).change;
    assert_eq!(tracks.difference, Some(0.0));
    let note = "Of b 6 of 12 years are not counted for tropical_cyclone hurricanes, tropical_cyclone major_hurricanes, \
                tropical_cyclone energy, tropical_cyclone max_wind, tropical_cyclone max_wind_p90, tropical_cyclone \
                latitude_of_max, because more than half of their tracks or events have no value: 2001 to 2006. Return levels \
                and distributions of these leave the years out, too.";
    assert!(found.notes.iter().any(|n| n == note), "{:?}", found.notes);
    // Regression: the strongest wind of a year was that of the few storms with one.
    let strongest = |found: &Comparison| {
        let levels = found.return_levels.iter();
        let mut levels = levels.filter(|levels| levels.name == "annual_max_wind");
        levels.next().map(|levels| {
            let [a, b] = levels.fits.each_ref().map(|fit| fit.extremes.len());
            [a, b, levels.fits[1].years]
        })
    };
    assert_eq!(strongest(&found), Some([12, 6, 6]));
    // Regression: sentences counted all years.
    let hurricanes = row(&found, Quantity::Hurricanes, Group::ALL);
    assert_eq!(hurricanes.years, Some([12, 6]));
    let is_said = |said: &String| {
        said.contains("hurricane strength") && said.ends_with("; 12 years against 6.")
    };
    assert!(
        found.statements.iter().any(is_said),
        "{:?}",
        found.statements
    );
    // The bins of strength use the same years.
    let bins = |found: &Comparison, of: fn(&compare::Change) -> Option<f64>| -> f64 {
        let winds = found.distributions.iter().find(|d| d.name == "max_wind");
        let bins = winds.unwrap().bins.iter();
        bins.filter_map(|bin| of(&bin.change)).sum()
    };
    assert!((bins(&found, |c| c.b) - bins(&known, |c| c.a)).abs() < 1e-9);
    // Without any known year there is nothing to compare. The header stays unchanged.
    let few = |id: &str| id.parse::<u32>().map_or(true, |id| id % 9 == 0);
    blank(&path("b").join("tracks.csv"), 7, |row| !few(row[0]));
    blank(&path("b").join("events.csv"), 6, |row| !few(row[5]));
    let found = compare_with(side(&path("a"), "a"), side(&path("b"), "b"), &options()).unwrap();
    let is_there = |quantity| found.changes.iter().any(|row| row.quantity == quantity);
    assert!(!is_there(Quantity::Hurricanes) && !is_there(Quantity::CycloneWind));
    assert_eq!(strongest(&found), None);
}

/// In best tracks, depressions have no wind: hurricanes are counted in every year, and missing winds are reported.
#[test]
fn years_of_which_some_storms_have_no_wind_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["a", "b"] {
        Run::default().write(&path(name));
    }
    let fifth = |id: &str| id.parse::<u32>().is_ok_and(|id| id % 5 == 0);
    blank(&path("b").join("tracks.csv"), 7, |row| fifth(row[0]));
    blank(&path("b").join("events.csv"), 6, |row| fifth(row[5]));
    let found = compare_with(side(&path("a"), "a"), side(&path("b"), "b"), &options()).unwrap();
    let hurricanes = row(&found, Quantity::Hurricanes, Group::ALL).change;
    let (a, b) = (hurricanes.a.unwrap(), hurricanes.b.unwrap());
    assert!((0.6..1.0).contains(&(b / a)), "{a} {b}");
    let says = |note: &&String| note.starts_with("Of b 20 % of the tracks or events have no value");
    assert!(found.notes.iter().any(|n| says(&n)), "{:?}", found.notes);
    assert!(
        !found
            .notes
            .iter()
            .any(|n| n.contains("are not counted for")),
        "{:?}",
        found.notes
    );
}

/// Regression: the share of the only known year was said to be that of all, the sentence counted all years, and the
/// reason for the missing interval was that too few years had such events.
#[test]
fn a_single_known_year_is_said_to_be_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["a", "b"] {
        Run::default().write(&path(name));
    }
    let is_blank = |time: &str, id: &str| {
        id.parse::<u32>()
            .is_ok_and(|id| time < "2012" || id % 5 == 0)
    };
    blank(&path("b").join("tracks.csv"), 7, |row| {
        is_blank(row[2], row[0])
    });
    blank(&path("b").join("events.csv"), 6, |row| {
        is_blank(row[1], row[5])
    });
    let found = compare_with(side(&path("a"), "a"), side(&path("b"), "b"), &options()).unwrap();
    let is_said = |said: &String| {
        said.starts_with("The mean lifetime-maximum wind of tropical cyclones: ")
            && said
                .ends_with("; no interval, because only 1 year of b is known; 12 years against 1.")
    };
    assert!(
        found.statements.iter().any(is_said),
        "{:?}",
        found.statements
    );
    // A fifth of the tracks of one of the twelve years has no wind, and none of the others has one.
    let is_noted = |note: &String| {
        note.starts_with("Of b 9") && note.contains(", of those of the counted years ")
    };
    assert!(found.notes.iter().any(is_noted), "{:?}", found.notes);
}

/// Regression: a gap in the reporting of pressures was a significant change of their mean, because mostly weak storms
/// have none.
#[test]
fn means_of_tracks_without_the_weak_ones_have_no_significant_change() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["a", "b"] {
        Run::default().write(&path(name));
    }
    let weak = |wind: &str| wind.parse::<f64>().is_ok_and(|wind| wind < 36.0);
    blank(&path("b").join("tracks.csv"), 6, |row| weak(row[7]));
    let found = compare_with(side(&path("a"), "a"), side(&path("b"), "b"), &options()).unwrap();
    let pressure = row(&found, Quantity::CyclonePressure, Group::ALL);
    assert!(
        pressure.adjusted_p.is_some_and(|p| p < 0.05) && !pressure.significant,
        "{pressure:?}"
    );
    let says = |part: &str| found.notes.iter().any(|note| note.contains(part));
    assert!(
        says("Of a 0 % and of b ")
            && says(
                "no value for tropical_cyclone min_pressure, tropical_cyclone min_pressure_p10: no change of these"
            )
            && says(
                "no value for tropical_cyclone min_pressure, tropical_cyclone min_pressure_p10: they are left out."
            ),
        "{:?}",
        found.notes
    );
    let begin = "No significant change of the mean lifetime-minimum pressure";
    let said = found.statements.iter().find(|said| said.starts_with(begin));
    assert!(
        said.is_some_and(|said| said.contains(", but more tracks of one side have no value)")),
        "{:?}",
        found.statements
    );
}

/// Regression: hurricanes, their energy and bins of winds were significantly fewer where a third of the tracks had no
/// wind, at random, while means of the same winds were not called significant.
#[test]
fn numbers_of_tracks_with_a_value_have_no_significant_change_either() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["a", "b"] {
        Run::default().write(&path(name));
    }
    let third = |id: &str| id.parse::<u32>().is_ok_and(|id| id % 3 == 0);
    blank(&path("b").join("tracks.csv"), 7, |row| third(row[0]));
    blank(&path("b").join("events.csv"), 6, |row| third(row[5]));
    let found = compare_with(side(&path("a"), "a"), side(&path("b"), "b"), &options()).unwrap();
    for quantity in [Quantity::Hurricanes, Quantity::CycloneEnergy] {
        let row = row(&found, quantity, Group::ALL);
        assert!(
            row.adjusted_p.is_some_and(|p| p < 0.05) && !row.significant,
            "{row:?}"
        );
    }
    let winds = found.distributions.iter().find(|d| d.name == "max_wind");
    let bins = &winds.unwrap().bins;
    assert!(
        bins.iter()
            .any(|bin| bin.adjusted_p.is_some_and(|p| p < 0.05))
            && !bins.iter().any(|bin| bin.significant),
        "{bins:?}"
    );
    let says = |part: &str| found.notes.iter().any(|note| note.contains(part));
    assert!(
        says(
            "tropical_cyclone hurricanes, tropical_cyclone major_hurricanes, tropical_cyclone energy: no change of these"
        ) && says("in no bin of the distribution of the lifetime-maximum wind"),
        "{:?}",
        found.notes
    );
}

/// Missing rain is unknown, not zero.
#[test]
fn years_whose_events_have_no_rain_are_unknown_and_not_dry() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["a", "b"] {
        Run {
            storms: 0,
            times_per_day: 2,
            ..Run::default()
        }
        .write(&path(name));
        let mut events =
            String::from("class,time,lon_deg,lat_deg,area_km2,track_id,hours,precipitation_km3\n");
        for year in 2001..=2012 {
            for step in 0..40 {
                // In b every second time has fields and stands for two times; before 2004 none has.
                let (hours, km3) = match (name, step % 2, year) {
                    ("a", _, _) => (12, "5"),
                    ("b", 0, 2004..) => (24, "10"),
                    _ => (12, ""),
                };
                let (day, hour) = (1 + step / 2, 12 * (step % 2));
                let time = format!("{year}-03-{day:02}T{hour:02}:00:00");
                writeln!(
                    events,
                    "atmospheric_river,{time},220.0,40.0,500000,,{hours},{km3}"
                )
                .unwrap();
            }
        }
        fs::write(path(name).join("events.csv"), events).unwrap();
    }
    let found = compare_with(side(&path("a"), "a"), side(&path("b"), "b"), &options()).unwrap();
    let water = row(&found, Quantity::RiverWater, Group::ALL).change;
    assert_eq!((water.a, water.b), (Some(200.0), Some(200.0)));
    let note = "Of b 3 of 12 years are not counted for atmospheric_river precipitation, ";
    assert!(
        found.notes.iter().any(|n| n.starts_with(note)),
        "{:?}",
        found.notes
    );
}

/// The wind at 850 hPa is higher than at the lowest level: the difference is not a change of climate.
#[test]
fn winds_of_other_levels_are_not_compared() {
    let of = |level| Run {
        wind: level,
        ..Run::default()
    };
    let compared = |a, b| compare(&of(a), &of(b), &options()).unwrap();
    let winds = [
        Quantity::CycloneWind,
        Quantity::CycloneWindHigh,
        Quantity::Hurricanes,
        Quantity::MajorHurricanes,
        Quantity::CycloneEnergy,
        Quantity::CycloneLatitude,
    ];
    let found = compared(Some("lowest model level"), Some("850 hPa"));
    let is_wind = |row: &compare::ChangeRow| winds.contains(&row.quantity);
    assert!(!found.changes.iter().any(is_wind));
    assert!(!found.distributions.iter().any(|d| d.name == "max_wind"));
    assert!(!(found.return_levels.iter()).any(|l| l.name == "annual_max_wind"));
    let note = "Winds are not compared, nor what follows from them (hurricanes, cyclone energy, the latitude when strongest), \
                because they are of different levels (first: lowest model level; second: 850 hPa).";
    assert!(found.notes.iter().any(|n| n == note), "{:?}", found.notes);
    // Pressures are still compared.
    row(&found, Quantity::CyclonePressure, Group::ALL);
    for (a, b) in [(Some("850 hPa"), Some("850 hPa")), (Some("850 hPa"), None)] {
        let found = compared(a, b);
        row(&found, Quantity::Hurricanes, Group::ALL);
        assert!(!found.notes.iter().any(|n| n.starts_with("Winds are not")));
    }
}

#[test]
fn other_rules_are_said() {
    let strong = Run {
        min_wind: 17.0,
        ..Run::default()
    };
    let found = compare(&Run::default(), &strong, &options()).unwrap();
    let note = "Events and tracks were chosen by different rules, so that part of every change may be theirs: \
                tropical_cyclone.min_peak_wind_m_s (0 against 17).";
    assert!(found.notes.iter().any(|n| n == note), "{:?}", found.notes);
    let found = compare(&strong, &strong, &options()).unwrap();
    assert!(!found.notes.iter().any(|n| n.contains("different rules")));
    // Mask settings are compared too if both runs have them: earlier versions and other tools do not store them.
    let masks = |percentile| Run {
        masks: percentile,
        ..Run::default()
    };
    let said = |a, b| {
        let found = compare(&masks(a), &masks(b), &options()).unwrap();
        let mut notes = found.notes.into_iter();
        notes.find(|note| note.contains("different rules"))
    };
    let note = said(Some("85.0"), Some("90.0")).unwrap();
    assert!(
        note.ends_with("theirs: masks.percentile (85.0 against 90.0)."),
        "{note}"
    );
    assert_eq!(said(Some("85.0"), None), None);
}

/// These used to count as the same rules: warm cores by heights and by their substitute, thresholds adapted to two
/// grids, members of two ensembles.
#[test]
fn what_was_applied_is_said_where_it_differs() {
    type Settings = &'static [(&'static str, &'static str)];
    let said = |a: Settings, b: Settings| {
        let [a, b] = [a, b].map(|settings| Run {
            mask_settings: settings,
            ..Run::default()
        });
        let found = compare(&a, &b, &options()).unwrap();
        let mut notes = found.notes.into_iter();
        let note = notes.find(|note| note.contains("different rules"))?;
        let (_, rules) = note.split_once("may be theirs: ")?;
        Some(rules.to_string())
    };
    let heights: Settings = &[("rise_pa", "200.0"), ("warm_core", "Z300")];
    let stand_in: Settings = &[("rise_pa", "200.0"), ("warm_core", "T200")];
    let expected = "masks.warm_core (Z300 against T200).";
    assert_eq!(said(heights, stand_in).as_deref(), Some(expected));
    assert_eq!(said(heights, heights), None);
    // An earlier version did not store it.
    assert_eq!(said(heights, &[("rise_pa", "200.0")]), None);
    let drawn: Settings = &[("ensemble", "128 drawn"), ("member_count", "128")];
    let given: Settings = &[("ensemble", "1024 given")];
    let expected = "masks.ensemble (128 drawn against 1024 given).";
    assert_eq!(said(drawn, given).as_deref(), Some(expected));
    let drawn_before: Settings = &[("member_count", "128"), ("members", "[]")];
    assert_eq!(said(drawn_before, drawn), None);
    assert_eq!(said(drawn_before, given), None);
    let coarse: Settings = &[
        ("adapt_to_grid", "true"),
        ("adapted_to_spacing_km", "278.0"),
        (
            "rise_pa",
            "271.8 (400.0 at a quarter of a degree, times 0.6794)",
        ),
    ];
    let fine: Settings = &[
        ("adapt_to_grid", "true"),
        ("adapted_to_spacing_km", "27.8"),
        ("rise_pa", "400.0"),
    ];
    let expected = "masks.adapted_to_spacing_km (278.0 against 27.8), \
                    masks.rise_pa (271.8 (400.0 at a quarter of a degree, times 0.6794) against 400.0).";
    assert_eq!(said(coarse, fine).as_deref(), Some(expected));
    assert_eq!(said(coarse, coarse), None);
    // Statistics of an earlier version store the thresholds before adaptation.
    let before: Settings = &[("adapt_to_grid", "true"), ("rise_pa", "400.0")];
    assert_eq!(said(before, coarse), None);
    let lower: Settings = &[("adapt_to_grid", "true"), ("rise_pa", "300.0")];
    let expected = "masks.rise_pa (300.0 against 400.0).";
    assert_eq!(said(lower, coarse).as_deref(), Some(expected));
    let published: Settings = &[("adapt_to_grid", "false"), ("rise_pa", "400.0")];
    let expected = "masks.adapt_to_grid (true against false), \
                    masks.rise_pa (271.8 (400.0 at a quarter of a degree, times 0.6794) against 400.0).";
    assert_eq!(said(coarse, published).as_deref(), Some(expected));
}

/// Masks by the deepcam rules grow with the search box. Their mean area and the rain inside used to be reported without
/// a note, as if they were those of storms.
#[test]
fn areas_of_masks_that_are_no_size_of_a_storm_are_said_to_be_none() {
    type Settings = &'static [(&'static str, &'static str)];
    let said = |a: Settings, b: Settings| {
        let [a, b] = [a, b].map(|settings| Run {
            mask_settings: settings,
            ..Run::default()
        });
        let found = compare(&a, &b, &options()).unwrap();
        let mut notes = found.notes.into_iter();
        notes.find(|note| note.starts_with("The area of tropical cyclones"))
    };
    let deepcam: Settings = &[("cyclone.mask_percentile", "93.0")];
    let network: Settings = &[("squall_model_hash", "3f2a")];
    let tempest: Settings = &[("node.contour_rise_pa", "200.0")];
    let note = said(deepcam, deepcam).unwrap();
    for part in [
        "(first and second: by the deepcam rules)",
        "27,000 and over 405,000 km² masks have 357,000 and 688,000 km²",
        "gale_radius_km",
    ] {
        assert!(note.contains(part), "{part}: {note}");
    }
    let note = said(tempest, deepcam).unwrap();
    assert!(note.contains("(second: by the deepcam rules)"), "{note}");
    let note = said(network, deepcam).unwrap();
    let expected =
        "(second: by the deepcam rules; first: by a network, if it learnt from the deepcam rules)";
    assert!(note.contains(expected), "{note}");
    assert_eq!(said(tempest, tempest), None);
    assert_eq!(said(&[], &[]), None);
}

/// Percentiles of each run's own climate hide a part of the change; those of a common climate hide nothing, whichever
/// it is.
#[test]
fn percentiles_of_two_climates_are_said() {
    let said = |a, b| {
        let [a, b] = [a, b].map(|climate| Run {
            masks: Some("85.0"),
            climate,
            ..Run::default()
        });
        compare(&a, &b, &options()).unwrap().notes
    };
    let notes = said(Some("3f2a: 2000 of a"), Some("77b1: 2090 of b"));
    let note = notes.iter().find(|note| note.contains("two climates"));
    let note = note.unwrap();
    assert!(
        note.contains("3f2a: 2000 of a; ")
            && note.contains("77b1: 2090 of b)")
            && note.contains("--climatology"),
        "{note}"
    );
    // The difference is not reported a second time.
    assert!(!notes.iter().any(|note| note.contains("different rules")));
    let is_of_climates =
        |note: &String| note.contains("two climates") || note.contains("different rules");
    let one = said(Some("3f2a: 2000 of a"), Some("3f2a: 2000 of a"));
    assert!(!one.iter().any(is_of_climates), "{one:?}");
    // A setting missing in one run may have had any value.
    let unknown = said(Some("3f2a: 2000 of a"), None);
    let note = unknown.iter().find(|note| note.contains("different rules"));
    assert!(
        note.is_some_and(|note| note.contains("(3f2a: 2000 of a against none)")),
        "{unknown:?}"
    );
}

/// A gap of a few times leaves its month whole but cuts tracks that span it in two. Both parts are counted, and a note
/// reports it.
#[test]
fn tracks_after_a_hole_count_and_are_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["a", "b"] {
        Run::default().write(&path(name));
    }
    let table = fs::read_to_string(path("b/tracks.csv")).unwrap();
    let mut rows = vec![table.lines().next().unwrap().to_string() + ",origin,fate"];
    let (mut cut, mut cyclones) = (0, 0u32);
    for row in table.lines().skip(1) {
        let cells: Vec<&str> = row.split(',').collect();
        if !cells[0].ends_with('7') || cells[2].starts_with("2001-01-01") {
            rows.push(format!("{row},genesis,lysis"));
            continue;
        }
        cut += 1;
        cyclones += u32::from(cells[1] == "tropical_cyclone");
        rows.push(format!("{row},genesis,end_of_data"));
        let rest = cells[1..].join(",");
        rows.push(format!("9{cut:05},{rest},start_of_data,lysis"));
    }
    fs::write(path("b/tracks.csv"), rows.join("\n") + "\n").unwrap();
    let found = compare_with(side(&path("a"), "a"), side(&path("b"), "b"), &options()).unwrap();
    // Coarse, seasonal or episodic data have many gaps: a storm after one is usually not a storm from before it.
    let change = &row(&found, Quantity::CycloneTracks, Group::ALL).change;
    let more = 12.0 * change.difference.unwrap();
    assert!(
        (more - f64::from(cyclones)).abs() < 1e-9,
        "{more} {cyclones}"
    );
    let winds = (found.distributions.iter()).find(|d| d.name == "max_wind");
    let differs = |bin: &compare::Bin| bin.change.difference != Some(0.0);
    assert!(winds.unwrap().bins.iter().any(differs));
    let note = format!(
        "In the compared years of b {cut} tracks begin after a gap in the data: a storm interrupted by a gap counts twice."
    );
    assert!(cut > 20 && found.notes.contains(&note), "{:?}", found.notes);
    assert!(
        !found
            .notes
            .iter()
            .any(|n| n.starts_with("In the compared years of a "))
    );
}

/// Best tracks may have only some seasons; the others used to count as years without a storm, without any note.
#[test]
fn years_that_no_table_has_a_row_of_are_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["a", "b"] {
        Run::default().write(&path(name));
    }
    fs::remove_file(path("b/statistics.nc")).unwrap();
    let file = path("b/events.csv");
    let table = fs::read_to_string(&file).unwrap();
    let is_odd = |row: &&str| {
        let year = row.split(',').nth(1).and_then(|cell| cell.get(..4));
        let year = year.and_then(|year| year.parse::<i64>().ok());
        year.is_none_or(|year| year % 2 == 1)
    };
    let rows: Vec<&str> = table.lines().filter(is_odd).collect();
    fs::write(&file, rows.join("\n") + "\n").unwrap();
    let noleap = CompareOptions {
        calendar: Some(Calendar::NoLeap),
        ..options()
    };
    let found = compare_with(side(&path("a"), "a"), side(&path("b"), "b"), &noleap).unwrap();
    let note = "In 5 of 9 years the tables of b have no rows: 2002, 2004, 2006, 2008, 2010. They count as years \
                without an event, although the data may be missing.";
    let empty: Vec<&String> = (found.notes.iter())
        .filter(|n| n.contains("no row"))
        .collect();
    assert_eq!(empty, [note]);
}

/// Regression: of a file of odd seasons, even years had the southern storms of their last months, so that no year was
/// without a row, and the other months counted as calm.
#[test]
fn stretches_that_no_table_has_a_row_of_are_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["a", "b"] {
        Run::default().write(&path(name));
    }
    fs::remove_file(path("b/statistics.nc")).unwrap();
    let file = path("b/events.csv");
    let table = fs::read_to_string(&file).unwrap();
    let is_there = |row: &&str| {
        let date = row.split(',').nth(1).unwrap();
        let number = |part: std::ops::Range<usize>| date.get(part)?.parse::<i64>().ok();
        let (year, month) = (number(0..4), number(5..7));
        year.is_none_or(|year| year % 2 == 1) || month > Some(10)
    };
    let rows: Vec<&str> = table.lines().filter(is_there).collect();
    fs::write(&file, rows.join("\n") + "\n").unwrap();
    let noleap = CompareOptions {
        calendar: Some(Calendar::NoLeap),
        ..options()
    };
    let found = compare_with(side(&path("a"), "a"), side(&path("b"), "b"), &noleap).unwrap();
    let begin = "In January to October 2002, January to October 2004, ";
    assert!(
        (found.notes.iter())
            .any(|n| n.starts_with(begin) && n.contains("the tables of b have no row")),
        "{:?}",
        found.notes
    );
}
