//! Annotations at and beyond the edges of their images: cut, turned across the seam, or refused by name.

use proptest::prelude::*;
use squall_data::boxes::{self, BoxFault};
use squall_data::{BoxFrames, Calendar, DataError, GeoBox, LatLonGrid};
use std::fs;

const ROWS: usize = 20;
const COLUMNS: usize = 30;

fn global() -> LatLonGrid {
    LatLonGrid::global(ROWS, COLUMNS).unwrap()
}

/// Rows with edges from 10 S to 10 N, columns with edges from 349.7 E across 0 E to 19.7 E.
fn region() -> LatLonGrid {
    let lat = (0..ROWS).map(|j| -9.5 + j as f64).collect();
    let lon = (0..COLUMNS).map(|i| 350.2 + i as f64).collect();
    LatLonGrid::from_axes(lat, lon).unwrap().0
}

/// A file of one image with one annotation.
fn read(grid: &LatLonGrid, bbox: [f64; 4]) -> Result<BoxFrames, DataError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("coco.json");
    let file = serde_json::json!({
        "images": [{"id": 1, "width": COLUMNS, "height": ROWS, "date_captured": "2001-02-03"}],
        "categories": [{"id": 1, "name": "tropical_cyclone"}],
        "annotations": [{"image_id": 1, "category_id": 1, "bbox": bbox}],
    });
    fs::write(&path, file.to_string()).unwrap();
    boxes::read(&path, grid, Calendar::Standard)
}

fn one(grid: &LatLonGrid, bbox: [f64; 4]) -> GeoBox {
    read(grid, bbox).unwrap().frames()[0].boxes[0].geo
}

/// y_min, y_max, x_min, x_max.
fn pixels(grid: &LatLonGrid, bbox: [f64; 4]) -> [f64; 4] {
    let found = one(grid, bbox).to_pixels(grid).unwrap();
    [found.y_min, found.y_max, found.x_min, found.x_max]
}

#[test]
fn boxes_partly_outside_are_cut() {
    let check = |grid: &LatLonGrid, bbox: [f64; 4], expected: [f64; 4]| {
        let found = pixels(grid, bbox);
        for (is, wanted) in found.iter().zip(expected) {
            assert!((is - wanted).abs() < 1e-6, "{bbox:?} is {found:?}");
        }
    };
    for grid in [global(), region()] {
        check(&grid, [4.0, 2.0, 5.0, 3.0], [15.0, 18.0, 4.0, 9.0]);
        check(&grid, [4.0, -1.5, 5.0, 3.0], [18.5, 20.0, 4.0, 9.0]);
        check(&grid, [4.0, 18.0, 5.0, 9.0], [0.0, 2.0, 4.0, 9.0]);
    }
    // Cut on a regional grid, not shifted; across the seam of a global one.
    check(&region(), [-2.0, 2.0, 5.0, 3.0], [15.0, 18.0, 0.0, 3.0]);
    check(&global(), [-2.0, 2.0, 5.0, 3.0], [15.0, 18.0, 28.0, 33.0]);
    check(&region(), [27.0, 2.0, 5.0, 3.0], [15.0, 18.0, 27.0, 30.0]);
    check(&global(), [27.0, 2.0, 5.0, 3.0], [15.0, 18.0, 27.0, 32.0]);
    check(&region(), [-9.0, -9.0, 90.0, 90.0], [0.0, 20.0, 0.0, 30.0]);
    let wide = one(&global(), [3.0, 2.0, 90.0, 3.0]);
    assert_eq!((wide.west_deg, wide.east_deg), (0.0, 360.0));
}

#[test]
fn boxes_wholly_outside_are_named() {
    for grid in [global(), region()] {
        for bbox in [
            [30.0, 2.0, 5.0, 3.0],
            [-5.0, 2.0, 5.0, 3.0],
            [4.0, -3.0, 5.0, 3.0],
            [4.0, 20.2, 5.0, 0.5],
            [4.0, 20.0, 5.0, 3.0],
        ] {
            let error = read(&grid, bbox).unwrap_err();
            let text = error.to_string();
            let DataError::BadBox { fault, .. } = error else {
                panic!("{bbox:?}: {text}")
            };
            assert_eq!(fault, BoxFault::OffTheGrid, "{text}");
            assert!(
                text.contains("coco.json") && text.contains("annotation 1"),
                "{text}"
            );
        }
    }
}

/// Two images with a box each, the second with this id and date; the categories have one id.
fn read_two(id: u32, date: &str, names: [&str; 2]) -> Result<BoxFrames, DataError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("coco.json");
    let image = |id: u32, date: &str| serde_json::json!({"id": id, "width": COLUMNS, "height": ROWS, "date_captured": date});
    let category = |name: &str| serde_json::json!({"id": 1, "name": name});
    let annotation =
        |id: u32| serde_json::json!({"image_id": id, "category_id": 1, "bbox": [4, 2, 5, 3]});
    let file = serde_json::json!({
        "images": [image(1, "2001-02-03"), image(id, date)],
        "categories": names.map(category),
        "annotations": [annotation(1), annotation(id)],
    });
    fs::write(&path, file.to_string()).unwrap();
    boxes::read(&path, &global(), Calendar::Standard)
}

/// Two years put together, each numbered from 1: all boxes had been those of the last image of their number, and the
/// first image had none. Two images of one time had been one with the boxes of both.
#[test]
fn ids_and_times_that_stand_for_two_things_are_named() {
    let (cyclone, river) = ("tropical_cyclone", "atmospheric_river");
    let frames = read_two(2, "2002-02-03", [cyclone; 2]).unwrap();
    let counts: Vec<usize> = frames.frames().iter().map(|f| f.boxes.len()).collect();
    assert_eq!(counts, [1, 1]);
    for (id, date, names, expected, words) in [
        (
            1,
            "2002-02-03",
            [cyclone; 2],
            BoxFault::SameId,
            "2001-02-03T00:00:00 and 2002-02-03T00:00:00",
        ),
        (
            2,
            "2002-02-03",
            [cyclone, river],
            BoxFault::SameId,
            "`tropical_cyclone` and `atmospheric_river`",
        ),
        (
            2,
            "2001-02-03 00:00",
            [cyclone; 2],
            BoxFault::SameTime,
            "2001-02-03T00:00:00, as image 1",
        ),
    ] {
        let error = read_two(id, date, names).unwrap_err();
        let text = error.to_string();
        let DataError::BadBox { fault, .. } = error else {
            panic!("{text}")
        };
        assert_eq!(fault, expected, "{text}");
        assert!(text.contains(words), "{text}");
    }
}

proptest! {
    /// Whatever is read is a box inside the field; whatever is not is named.
    #[test]
    fn what_is_read_is_a_box_inside_the_field(
        x in -40.0..70.0f64, y in -30.0..50.0f64, width in -1.0..70.0f64, height in -1.0..50.0f64, fine in 0u32..12, regional: bool,
    ) {
        let grid = if regional { region() } else { global() };
        // Slivers, too.
        let (width, height) = (width * 0.05f64.powi(fine as i32), height * 0.05f64.powi(11 - fine as i32));
        let (rows, columns) = (ROWS as f64, COLUMNS as f64);
        let misses = x >= columns || x + width <= 0.0 || y >= rows || y + height <= 0.0;
        match read(&grid, [x, y, width, height]) {
            Ok(frames) => {
                prop_assert!(!misses && width > 0.0 && height > 0.0);
                let geo = frames.frames()[0].boxes[0].geo;
                geo.check().unwrap();
                let found = geo.to_pixels(&grid).unwrap();
                prop_assert!(0.0 <= found.y_min && found.y_min < found.y_max && found.y_max <= rows);
                prop_assert!(0.0 <= found.x_min && found.x_min < found.x_max && found.x_min < columns);
                prop_assert!(found.x_max - found.x_min <= width + 1e-6);
                prop_assert!(!regional || found.x_max <= columns);
            }
            Err(DataError::BadBox { fault, place, .. }) => {
                prop_assert_eq!(place, "annotation 1");
                let no_extent = width <= 0.0 || height <= 0.0 || !misses;
                prop_assert_eq!(fault, if no_extent { BoxFault::NoExtent } else { BoxFault::OffTheGrid });
                // What is refused although it reaches in is narrower than numbers tell.
                prop_assert!(misses || width < 1e-6 || height < 1e-6 || x + width < 1e-6 || y + height < 1e-6
                    || columns - x < 1e-6 || rows - y < 1e-6);
            }
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}
