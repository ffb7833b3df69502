//! Agreement of methods on small masks, with counts worked out by hand.

use super::*;
use ndarray::Array2;
use squall_data::{Calendar, Time};

fn source(name: &str, classes: &[Class]) -> AgreementSource {
    AgreementSource {
        name: name.into(),
        classes: classes.to_vec(),
    }
}

fn mask(hour: i64, boxes: &[(u8, usize, usize, usize, usize)]) -> ClassMask {
    let time = Time::new(Calendar::NoLeap, 1, 1, 1, 0, 0, 0).unwrap();
    let mut codes = Array2::zeros((90, 180));
    for &(code, south, north, west, east) in boxes {
        for (j, i) in (south..north).flat_map(|j| (west..east).map(move |i| (j, i))) {
            codes[[j, i]] = code;
        }
    }
    ClassMask {
        time: time.add_seconds(hour * 3600),
        codes,
    }
}

#[test]
fn cells_areas_and_events_are_counted_for_shared_classes_only() {
    let grid = LatLonGrid::global(90, 180).unwrap();
    let sources = vec![
        source("a", &Class::EVENTS),
        source("b", &Class::EVENTS),
        source("rivers", &[Class::AtmosphericRiver]),
    ];
    let mut whole = Agreement::new(sources);
    assert_eq!(whole.rows().len(), 4);
    // Two rivers in a; b has the first one shifted by half a width, and a cyclone near that of a.
    let a = mask(
        0,
        &[
            (2, 60, 66, 20, 40),
            (2, 20, 26, 100, 120),
            (1, 50, 52, 90, 92),
        ],
    );
    let b = mask(0, &[(2, 63, 69, 20, 40), (1, 51, 53, 90, 92)]);
    whole.add(&[Some(&a), Some(&b), None], &grid).unwrap();
    let row = |class: Class| {
        let found = whole
            .rows()
            .iter()
            .find(|r| r.class == class && r.second == "b");
        found.unwrap().clone()
    };
    let river = row(Class::AtmosphericRiver);
    assert_eq!(
        (
            river.both_cells,
            river.only_first_cells,
            river.only_second_cells
        ),
        (60, 180, 60)
    );
    assert_eq!(
        (
            river.first_events,
            river.second_events,
            river.matched_events
        ),
        (2, 1, 1)
    );
    assert_eq!(river.cell_iou(), Some(0.2));
    let areas = grid.row_areas_km2();
    let rows = |from: usize, to: usize| areas[from..to].iter().sum::<f64>();
    let expected = rows(63, 66) / (rows(60, 69) + rows(20, 26));
    assert!((river.area_iou().unwrap() - expected).abs() < 1e-12);
    assert!((expected - 0.2).abs() > 1e-3, "not what cells say");
    assert_eq!(river.event_f1(), Some(2.0 / 3.0));
    let cyclone = row(Class::TropicalCyclone);
    assert_eq!((cyclone.matched_events, cyclone.both_cells), (1, 2));
    let other = &whole.rows()[2];
    assert_eq!(
        (other.second.as_str(), other.times, other.cell_iou()),
        ("rivers", 0, None)
    );
    assert!(whole.add(&[Some(&a), Some(&b)], &grid).is_err());
    let later = mask(3, &[]);
    assert!(whole.add(&[Some(&a), Some(&later), None], &grid).is_err());
}

/// Columns are two degrees apart, 222 km near the equator; cyclones match up to 500 km, the nearest first.
#[test]
fn cyclones_match_by_distance_and_rivers_by_cells_one_to_one() {
    let grid = LatLonGrid::global(90, 180).unwrap();
    let matched = |class: Class, first: &ClassMask, second: &ClassMask| {
        let sources = vec![source("a", &[class]), source("b", &[class])];
        let mut agreement = Agreement::new(sources);
        agreement.add(&[Some(first), Some(second)], &grid).unwrap();
        agreement.rows()[0].matched_events
    };
    let cyclones = |columns: &[usize]| {
        let cells: Vec<_> = columns.iter().map(|i| (1, 45, 46, *i, i + 1)).collect();
        mask(0, &cells)
    };
    let cases: [(&[usize], &[usize], u64); 5] = [
        (&[90], &[92], 1),
        (&[90], &[93], 0),
        // Across the seam.
        (&[179], &[1], 1),
        // 93 matches 92, which leaves nothing for 90.
        (&[90, 93], &[92, 95], 1),
        (&[90, 92], &[91], 1),
    ];
    for (first, second, expected) in cases {
        let found = matched(Class::TropicalCyclone, &cyclones(first), &cyclones(second));
        assert_eq!(found, expected, "{first:?} {second:?}");
    }
    // Adjacent rivers share no cells.
    let river = |south: usize| mask(0, &[(2, south, south + 3, 20, 40)]);
    for (south, expected) in [(62, 1), (63, 0)] {
        let found = matched(Class::AtmosphericRiver, &river(60), &river(south));
        assert_eq!(found, expected, "{south}");
    }
}

#[test]
fn the_table_has_scores_and_blanks() {
    let grid = LatLonGrid::global(90, 180).unwrap();
    let mut agreement = Agreement::new(vec![
        source("a", &Class::EVENTS),
        source("network", &Class::EVENTS),
    ]);
    let a = mask(0, &[(2, 60, 66, 20, 40)]);
    agreement.add(&[Some(&a), Some(&a)], &grid).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agreement.csv");
    agreement.write_csv(&path).unwrap();
    let text = std::fs::read_to_string(path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[1].starts_with("a,network,tropical_cyclone,1,,,,0,0,0"),
        "{text}"
    );
    assert!(
        lines[2].starts_with("a,network,atmospheric_river,1,1.0000,1.0000,1.0000,1,1,1,120,0,0"),
        "{text}"
    );
    assert!(agreement.to_string().contains("1.000"));
}
