//! Tables of boxes contain four classes, and each class is compared separately.

use super::*;

/// A run of four whole years whose tables contain tracks of each class in every year.
struct Boxes {
    /// Tracks per year and the days that each one lives.
    tracks: Vec<(&'static str, usize, i64)>,
}

impl Boxes {
    fn write(&self, folder: &Path) {
        let grid = LatLonGrid::global(19, 36).unwrap();
        let calendar = Calendar::NoLeap;
        let mut statistics = Statistics::new(&grid);
        let mut events = String::from("class,time,lon_deg,lat_deg,area_km2,track_id\n");
        let mut tracks = String::from(
            "track_id,class,start_time,end_time,genesis_lon_deg,genesis_lat_deg,min_psl_pa,max_wind_m_s\n",
        );
        let mut id = 0;
        for year in 2001..=2004 {
            for month in 1..=12 {
                for day in 1..=calendar.days_in_month(year, month) {
                    let time = Time::new(calendar, year, month, day, 0, 0, 0).unwrap();
                    statistics.add_time(time, None, 24.0, []).unwrap();
                }
            }
            for &(class, count, days) in &self.tracks {
                for k in 0..count {
                    id += 1;
                    let start = Time::new(calendar, year, 2 + k as i64, 3, 0, 0, 0).unwrap();
                    let end = start.add_seconds(days * 86_400);
                    writeln!(
                        tracks,
                        "{id},{class},{start},{end},200.0,40.0,{},{}",
                        97_000, 25
                    )
                    .unwrap();
                    for day in 0..=days {
                        let time = start.add_seconds(day * 86_400);
                        writeln!(events, "{class},{time},200.0,40.0,500000,{id}").unwrap();
                    }
                }
            }
        }
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("events.csv"), events).unwrap();
        fs::write(folder.join("tracks.csv"), tracks).unwrap();
        statistics
            .write_netcdf(folder.join("statistics.nc"), &grid, calendar)
            .unwrap();
    }
}

fn compared(a: &Boxes, b: &Boxes) -> (Comparison, String) {
    let folder = tempfile::tempdir().unwrap();
    let paths = [folder.path().join("a"), folder.path().join("b")];
    a.write(&paths[0]);
    b.write(&paths[1]);
    let found = compare_with(
        side(&paths[0], "first"),
        side(&paths[1], "second"),
        &options(),
    )
    .unwrap();
    let page = changes_page(&found, "boxes", "").unwrap();
    (found, page)
}

fn four() -> Boxes {
    Boxes {
        tracks: vec![
            ("tropical_cyclone", 2, 4),
            ("atmospheric_river", 3, 2),
            ("extratropical_cyclone", 7, 5),
            ("tropical_depression", 4, 1),
        ],
    }
}

#[test]
fn four_classes_of_boxes_are_counted_apart() {
    let mut b = four();
    b.tracks[2].1 = 5;
    let (found, page) = compared(&four(), &b);
    let of = |quantity| {
        let change = &row(&found, quantity, Group::ALL).change;
        (change.a.unwrap(), change.b.unwrap())
    };
    assert_eq!(of(Quantity::CycloneTracks), (2.0, 2.0));
    assert_eq!(of(Quantity::RiverTracks), (3.0, 3.0));
    assert_eq!(of(Quantity::ExtratropicalTracks), (7.0, 5.0));
    assert_eq!(of(Quantity::DepressionTracks), (4.0, 4.0));
    assert_eq!(of(Quantity::CycloneLifetime), (4.0, 4.0));
    assert_eq!(of(Quantity::RiverLifetime), (2.0, 2.0));
    assert_eq!(of(Quantity::ExtratropicalLifetime), (5.0, 5.0));
    assert_eq!(of(Quantity::DepressionLifetime), (1.0, 1.0));
    // One object on each day of a lifetime, the first and last included, with 365 times a year.
    let present = |quantity, objects: f64| {
        let (a, _) = of(quantity);
        assert!((a - objects / 365.0).abs() < 1e-12, "{quantity:?}: {a}");
    };
    present(Quantity::CyclonesPresent, 10.0);
    present(Quantity::RiversPresent, 9.0);
    present(Quantity::ExtratropicalsPresent, 42.0);
    present(Quantity::DepressionsPresent, 8.0);
    assert_eq!(of(Quantity::ExtratropicalPressure), (970.0, 970.0));
    assert_eq!(of(Quantity::ExtratropicalWind), (25.0, 25.0));
    assert!(
        (found.statements.iter())
            .any(|text| text.starts_with("Extratropical cyclones: 7.00 against 5.00")),
        "{:?}",
        found.statements
    );
    assert!(page.contains("<h3>Extratropical cyclones</h3>"));
    assert!(page.contains("<h3>Tropical depressions</h3>"));
    let note = "Maps and return levels are of tropical cyclones and atmospheric rivers only";
    assert!(found.notes.iter().any(|text| text.starts_with(note)));
}

#[test]
fn a_class_that_only_one_run_tells_is_not_compared_and_named() {
    let masks = Boxes {
        tracks: four().tracks[..2].to_vec(),
    };
    let (found, page) = compared(&four(), &masks);
    assert_eq!(
        row(&found, Quantity::CycloneTracks, Group::ALL).change.a,
        Some(2.0)
    );
    let other = |row: &&compare::ChangeRow| {
        !["tropical_cyclone", "atmospheric_river"].contains(&row.class.as_str())
    };
    assert!(!found.changes.iter().any(|row| other(&row)));
    let note = "Extratropical cyclones are not compared: the tables of second have none of them (tables made of masks never have).";
    assert!(found.notes.iter().any(|n| n == note), "{:?}", found.notes);
    assert!(page.contains(note));
    assert!(page.contains("<h3>Atmospheric rivers</h3>"));
    // Masks never contain these classes, so comparing two runs of masks needs no note.
    let (found, _) = compared(&masks, &masks);
    assert!(
        !found.notes.iter().any(|n| n.contains("xtratropical")),
        "{:?}",
        found.notes
    );
}

/// Tracks of other tools contain cyclones only: a heading with nothing below it would look like "none found".
#[test]
fn a_class_that_neither_run_tells_has_no_part_on_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let paths = [folder.path().join("a"), folder.path().join("b")];
    let cyclones = Boxes {
        tracks: vec![("tropical_cyclone", 2, 4)],
    };
    for path in &paths {
        cyclones.write(path);
        fs::remove_file(path.join("statistics.nc")).unwrap();
    }
    let [a, b] = &paths;
    let found = compare_with(side(a, "first"), side(b, "second"), &options()).unwrap();
    let page = changes_page(&found, "best tracks", "").unwrap();
    assert!(page.contains("<h3>Tropical cyclones</h3>"));
    assert!(!page.contains("<h3>Atmospheric rivers</h3>"));
    found.write(folder.path().join("changes")).unwrap();
    let file = netcdf::open(folder.path().join("changes/maps.nc")).unwrap();
    let flags = file.variable("genesis_density_significant").unwrap();
    assert!(flags.attribute("_FillValue").is_some());
    let of_class = |class: usize| -> Vec<i8> { flags.get_values((class, .., ..)).unwrap() };
    assert!(of_class(0).iter().all(|flag| *flag == 0));
    assert!(of_class(1).iter().all(|flag| *flag == -1));
}

/// This used to be a heading with an empty list.
#[test]
fn of_a_class_that_has_no_event_the_page_says_so() {
    // The rivers in these masks are too small to become events.
    let found = compare(&Run::default(), &years(2013..=2024, 2), &options()).unwrap();
    let page = changes_page(&found, "cyclones alone", "").unwrap();
    let rivers = page.split("<h3>Atmospheric rivers</h3>\n").nth(1).unwrap();
    assert!(rivers.starts_with("<p>Neither side has any such event.</p>\n"));
    assert!(!page.contains("<ul class=\"said\">\n</ul>"));
}

/// Appends columns, with the same values in every row.
fn extend(file: &Path, names: &str, values: &str) {
    let table = fs::read_to_string(file).unwrap();
    let rows = table.lines().enumerate();
    let rows = rows.map(|(k, row)| format!("{row},{}\n", if k == 0 { names } else { values }));
    fs::write(file, rows.collect::<String>()).unwrap();
}

/// A quantity that has a row in the list of quantities, but to which no reader of tables adds, would be 0 or left out
/// in every comparison.
#[test]
fn every_quantity_is_read_from_the_tables() {
    let folder = tempfile::tempdir().unwrap();
    let paths = [folder.path().join("a"), folder.path().join("b")];
    for path in &paths {
        four().write(path);
        let tracks = path.join("tracks.csv");
        let text = fs::read_to_string(&tracks).unwrap();
        fs::write(&tracks, text.replace(",97000,25", ",97000,55")).unwrap();
        extend(&tracks, "landfalls", "1");
        extend(
            &path.join("events.csv"),
            "max_wind_m_s,mean_prect_m_s,precipitation_km3,length_km,max_tmq_kg_m2,max_ivt_kg_m_s",
            "55,2e-7,3,4000,50,700",
        );
    }
    let [a, b] = &paths;
    let found = compare_with(side(a, "first"), side(b, "second"), &options()).unwrap();
    for quantity in Quantity::all() {
        let value = row(&found, quantity, Group::ALL).change.a;
        assert!(
            value.is_some_and(|value| value > 0.0),
            "{quantity:?}: {value:?}"
        );
    }
    let of = |quantity| row(&found, quantity, Group::ALL).change.a;
    // Quantiles are those of their own values.
    assert_eq!(of(Quantity::CycloneWindHigh), Some(55.0));
    assert_eq!(of(Quantity::CyclonePressureLow), Some(970.0));
}
