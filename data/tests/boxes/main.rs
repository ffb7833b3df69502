//! Files of boxes: what is written comes back, and what is wrong is named.

mod extreme_weather;

use squall_data::boxes::coco::CocoWriter;
use squall_data::boxes::extreme_weather::{ExtremeWeatherWriter, SLOTS};
use squall_data::boxes::geojson::GeoJsonWriter;
use squall_data::boxes::table::BoxTableWriter;
use squall_data::boxes::{self, BoxFault, BoxSink, SinkSummary};
use squall_data::grid::lon_difference_deg;
use squall_data::{BoxClass, BoxFrames, Calendar, DataError, GeoBox, LatLonGrid, Time, TrackedBox};
use std::fs;
use std::path::Path;
use std::sync::Arc;

fn grid() -> Arc<LatLonGrid> {
    Arc::new(LatLonGrid::global(96, 144).unwrap())
}

fn time(hours: i64) -> Time {
    let start = Time::new(Calendar::NoLeap, 1996, 2, 28, 18, 0, 0).unwrap();
    start.add_seconds(3600 * hours)
}

fn found(class: BoxClass, west: f64, south: f64, east: f64, north: f64) -> TrackedBox {
    TrackedBox::from(GeoBox {
        class,
        west_deg: west,
        south_deg: south,
        east_deg: east,
        north_deg: north,
        confidence: None,
    })
}

/// Three times: four boxes, one of them over 0°E and one over the antimeridian; nothing; one box.
fn frames() -> Vec<(Time, Vec<TrackedBox>)> {
    let mut sure = found(BoxClass::TropicalCyclone, 350.0, 10.0, 5.0, 22.5);
    sure.geo.confidence = Some(0.8125);
    let mut followed = found(BoxClass::ExtratropicalCyclone, 170.0, -60.0, 195.0, -45.0);
    followed.track_id = Some(u64::MAX);
    let first = vec![
        sure,
        followed,
        found(BoxClass::TropicalDepression, 100.0, -15.0, 106.25, -9.5),
        found(BoxClass::AtmosphericRiver, 200.0, 20.0, 242.5, 48.0),
    ];
    let last = vec![found(BoxClass::TropicalDepression, 0.0, 5.0, 7.5, 12.0)];
    vec![(time(0), first), (time(6), vec![]), (time(15), last)]
}

fn write(mut sink: Box<dyn BoxSink>, frames: &[(Time, Vec<TrackedBox>)]) -> SinkSummary {
    for (time, boxes) in frames {
        sink.write(*time, boxes).unwrap();
    }
    sink.finish().unwrap()
}

/// Compares with a tolerance in degrees; tracks and confidences too where the format has them.
fn check(read: &BoxFrames, tolerance_deg: f64, everything: bool) {
    let expected = frames();
    assert_eq!(read.frames().len(), expected.len());
    for (frame, (time, boxes)) in read.frames().iter().zip(&expected) {
        assert_eq!((frame.time, frame.boxes.len()), (*time, boxes.len()));
        for wanted in boxes {
            let back = frame.boxes.iter().find(|b| b.geo.class == wanted.geo.class);
            let back = back.unwrap();
            let (a, b) = (&back.geo, &wanted.geo);
            for (lon_a, lon_b) in [(a.west_deg, b.west_deg), (a.east_deg, b.east_deg)] {
                let apart = lon_difference_deg(lon_a, lon_b).abs();
                assert!(apart <= tolerance_deg, "{a:?} {b:?}");
            }
            assert!((a.south_deg - b.south_deg).abs() <= tolerance_deg, "{a:?}");
            assert!((a.north_deg - b.north_deg).abs() <= tolerance_deg, "{a:?}");
            if everything {
                assert_eq!(back.track_id, wanted.track_id);
                assert_eq!(a.confidence, b.confidence);
            }
        }
    }
}

#[test]
fn every_format_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let grid = grid();
    let sinks: [(&str, Box<dyn BoxSink>, f64, bool); 3] = [
        (
            "boxes.csv",
            Box::new(BoxTableWriter::create(at("boxes.csv")).unwrap()),
            1e-4,
            true,
        ),
        (
            "coco.json",
            Box::new(CocoWriter::create(at("coco.json"), grid.clone()).unwrap()),
            1e-6,
            true,
        ),
        // Whole pixels of 1.9 and 2.5 degrees.
        (
            "boxes.h5",
            Box::new(ExtremeWeatherWriter::new(at("boxes.h5"), grid.clone())),
            1.26,
            false,
        ),
    ];
    for (name, sink, tolerance, everything) in sinks {
        assert!(!at(name).exists(), "{name} before it is whole");
        let summary = write(sink, &frames());
        assert_eq!(
            (summary.times, summary.boxes, summary.left_out, summary.path),
            (3, 5, 0, at(name)),
        );
        let back = boxes::read(&at(name), &grid, Calendar::NoLeap).unwrap();
        check(&back, tolerance, everything);
    }
    // What was read from a table is written as it stood.
    let back = boxes::read(&at("boxes.csv"), &grid, Calendar::NoLeap).unwrap();
    let again: Vec<_> = (back.frames().iter())
        .map(|frame| (frame.time, frame.boxes.clone()))
        .collect();
    write(
        Box::new(BoxTableWriter::create(at("again.csv")).unwrap()),
        &again,
    );
    assert_eq!(
        fs::read(at("boxes.csv")).unwrap(),
        fs::read(at("again.csv")).unwrap()
    );
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        4,
        "no leftovers"
    );
}

#[test]
fn slivers_keep_an_extent_in_tables() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("boxes.csv");
    let class = BoxClass::TropicalCyclone;
    let slivers = vec![
        found(class, 210.476_19, 5.0, 210.476_2, 44.0),
        found(class, 359.999_97, 10.0, 359.999_99, 20.0),
        found(class, 0.0, 10.0, 1e-6, 20.0),
        found(class, 10.0, 20.0, 30.0, 20.000_01),
        found(class, 10.0, 89.999_97, 30.0, 90.0),
    ];
    let mut writer: Box<dyn BoxSink> = Box::new(BoxTableWriter::create(&path).unwrap());
    writer.write(time(0), &slivers).unwrap();
    writer.finish().unwrap();
    let back = boxes::read(&path, &grid(), Calendar::NoLeap).unwrap();
    for (was, is) in slivers.iter().zip(&back.frames()[0].boxes) {
        let (was, is) = (was.geo, is.geo);
        let wider = is.width_deg() - was.width_deg();
        let higher = (is.north_deg - is.south_deg) - (was.north_deg - was.south_deg);
        assert!(wider.abs() < 2e-4 && higher.abs() < 2e-4, "{was:?} {is:?}");
    }
    assert_eq!(back.boxes(), slivers.len());
}

/// pandas writes the whole numbers of a column with gaps as reals, R writes NA for what is missing.
#[test]
fn tables_that_data_frames_have_saved_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("boxes.csv");
    let read = |rows: &str| {
        let header = "class,time,west_deg,south_deg,east_deg,north_deg,confidence,track_id";
        fs::write(&path, format!("{header}\n{rows}\n")).unwrap();
        boxes::read(&path, &grid(), Calendar::NoLeap)
    };
    for (cells, expected) in [
        ("0.25,7.0", (Some(0.25), Some(7))),
        ("NA,NA", (None, None)),
        ("nan,120.00", (None, Some(120))),
        (",NaN", (None, None)),
    ] {
        let row = format!("tropical_cyclone,1996-02-28,10.0,20.0,30.0,40.0,{cells}");
        let back = read(&row).unwrap();
        let found = back.frames()[0].boxes[0];
        assert_eq!((found.geo.confidence, found.track_id), expected, "{cells}");
    }
    // A time at which nothing was found.
    for empty in ["NA,1996-02-28,NA,NA,NA,NA,NA,NA", ",1996-02-28,,NaN,,,,"] {
        let back = read(empty).unwrap();
        assert_eq!((back.frames().len(), back.boxes()), (1, 0), "{empty}");
    }
    for (row, fault) in [
        (
            "tropical_cyclone,1996-02-28,10,20,30,40,,7.5",
            BoxFault::NoNumber,
        ),
        (
            "tropical_cyclone,1996-02-28,10,20,30,NA,,7",
            BoxFault::NoNumber,
        ),
        ("NA,1996-02-28,10,20,30,40,,7", BoxFault::UnknownClass),
    ] {
        let error = read(row).unwrap_err();
        assert!(
            matches!(error, DataError::BadBox { fault: found, .. } if found == fault),
            "{row}: {error}"
        );
    }
}

/// Edges that four decimals cannot tell apart, of boxes that reach round nearly the whole globe.
#[test]
fn boxes_round_the_globe_stay_so_in_tables() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("boxes.csv");
    let class = BoxClass::AtmosphericRiver;
    let wide = vec![
        found(class, 0.0, 20.0, 360.0, 40.0),
        found(class, 210.476_2, 20.0, 210.476_19, 40.0),
        found(class, 359.999_99, 20.0, 359.999_97, 40.0),
        found(class, 1e-5, 20.0, 0.0, 40.0),
        found(class, 1e-5, 20.0, 359.999_99, 40.0),
    ];
    let mut writer: Box<dyn BoxSink> = Box::new(BoxTableWriter::create(&path).unwrap());
    writer.write(time(0), &wide).unwrap();
    writer.finish().unwrap();
    let back = boxes::read(&path, &grid(), Calendar::NoLeap).unwrap();
    let widths: Vec<f64> = (back.frames()[0].boxes.iter())
        .map(|found| found.geo.width_deg())
        .collect();
    assert_eq!(widths, [360.0; 5]);
}

#[test]
fn coco_has_y_down_and_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("coco.json");
    // 94 rows of equal height but the polar ones, which are half as high: row edges at -90 + 180/95 (k - 1/2).
    let grid = grid();
    let north = grid.lat_bounds_deg()[90];
    let south = grid.lat_bounds_deg()[86];
    let west = grid.lon_deg()[10] - 1.25;
    let one = found(
        BoxClass::ExtratropicalCyclone,
        west,
        south,
        west + 10.0,
        north,
    );
    write(
        Box::new(CocoWriter::create(&path, grid).unwrap()),
        &[(time(0), vec![one])],
    );
    let coco: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let bbox: Vec<f64> = serde_json::from_value(coco["annotations"][0]["bbox"].clone()).unwrap();
    for (value, expected) in bbox.iter().zip([10.0, 96.0 - 90.0, 4.0, 4.0]) {
        assert!((value - expected).abs() < 1e-9, "{bbox:?}");
    }
    assert_eq!(coco["annotations"][0]["category_id"], 3);
    assert_eq!(coco["categories"][2]["name"], "extratropical_cyclone");
    assert_eq!(coco["images"][0]["height"], 96);
}

#[test]
fn geojson_cuts_at_the_antimeridian_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("boxes.geojson");
    let summary = write(Box::new(GeoJsonWriter::create(&path).unwrap()), &frames());
    assert_eq!((summary.times, summary.boxes), (3, 5));
    let json: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let features = json["features"].as_array().unwrap();
    assert_eq!(features.len(), 5);
    let over_greenwich = &features[0];
    assert_eq!(over_greenwich["geometry"]["type"], "Polygon");
    // Anticlockwise: south-west, south-east, north-east, north-west.
    let ring = serde_json::json!([[
        [-10.0, 10.0],
        [5.0, 10.0],
        [5.0, 22.5],
        [-10.0, 22.5],
        [-10.0, 10.0]
    ]]);
    assert_eq!(over_greenwich["geometry"]["coordinates"], ring);
    assert_eq!(over_greenwich["properties"]["class"], "tropical_cyclone");
    let cut = &features[1];
    assert_eq!(cut["geometry"]["type"], "MultiPolygon");
    let parts = cut["geometry"]["coordinates"].as_array().unwrap();
    assert_eq!(parts.len(), 2);
    assert_eq!(parts[0][0][1], serde_json::json!([180.0, -60.0]));
    assert_eq!(parts[1][0][0], serde_json::json!([-180.0, -60.0]));
    assert_eq!(
        cut["bbox"],
        serde_json::json!([170.0, -60.0, -165.0, -45.0])
    );
}

#[test]
fn more_boxes_than_slots_leave_the_smallest_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("boxes.h5");
    let class = BoxClass::TropicalCyclone;
    let many: Vec<TrackedBox> = (0..SLOTS + 3)
        .map(|k| {
            found(
                class,
                20.0 * k as f64,
                0.0,
                20.0 * k as f64 + 3.0 + k as f64 / 2.0,
                10.0,
            )
        })
        .filter(|b| b.geo.west_deg < 340.0)
        .collect();
    let extra = many.len() - SLOTS;
    let sink = Box::new(ExtremeWeatherWriter::new(&path, grid()));
    let summary = write(sink, &[(time(0), many.clone())]);
    assert!(extra > 0);
    assert_eq!((summary.boxes, summary.left_out), (SLOTS, extra));
    let back = boxes::read(&path, &grid(), Calendar::NoLeap).unwrap();
    let left = &back.frames()[0].boxes;
    assert_eq!(left.len(), SLOTS);
    // The narrowest are the first.
    let narrowest = left.iter().map(|b| b.geo.west_deg).fold(360.0, f64::min);
    assert!(narrowest > 20.0 * extra as f64 - 2.0, "{narrowest}");
}

/// Its columns are 2.5 degrees, of which one ends at 358.75; those of the other grid are 10 degrees, one to 3.
#[test]
fn edges_beside_the_seam_are_the_nearest_in_whole_pixels() {
    let folder = tempfile::tempdir().unwrap();
    let lat = (0..36).map(|j| -87.5 + 5.0 * f64::from(j)).collect();
    let lon = (0..36).map(|i| 8.0 + 10.0 * f64::from(i)).collect();
    let (turned, _) = LatLonGrid::from_axes(lat, lon).unwrap();
    for (grid, [west, east], expected) in [
        (grid(), [358.0, 11.0], [358.75, 11.25]),
        (grid(), [357.0, 11.0], [356.25, 11.25]),
        (Arc::new(turned.clone()), [359.0, 29.0], [3.0, 33.0]),
        (Arc::new(turned), [0.0, 360.0], [0.0, 360.0]),
    ] {
        let path = folder.path().join("boxes.h5");
        let sink = Box::new(ExtremeWeatherWriter::new(&path, grid.clone()));
        let river = found(BoxClass::AtmosphericRiver, west, 20.0, east, 45.0);
        write(sink, &[(time(0), vec![river])]);
        let back = boxes::read(&path, &grid, Calendar::NoLeap).unwrap();
        let geo = back.frames()[0].boxes[0].geo;
        let apart = [geo.west_deg - expected[0], geo.east_deg - expected[1]];
        assert!(apart.iter().all(|apart| apart.abs() < 1e-9), "{geo:?}");
    }
}

#[test]
fn wrong_tables_are_named_with_their_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("boxes.csv");
    let header = "class,time,west_deg,south_deg,east_deg,north_deg,confidence,track_id\n";
    let good = "tropical_cyclone,1996-02-28,10,5,20,15,,\n";
    for (row, fault, words) in [
        (
            "tornado,1996-02-28,10,5,20,15,,",
            BoxFault::UnknownClass,
            "`tornado`",
        ),
        (
            ",1996-02-28,10,5,20,15,,",
            BoxFault::UnknownClass,
            "tropical_cyclone",
        ),
        (
            "tropical_cyclone,1996-02-28,10,15,20,5,,",
            BoxFault::NoExtent,
            "south 15",
        ),
        (
            "tropical_cyclone,1996-02-28,10,5,10,15,,",
            BoxFault::NoExtent,
            "west 10",
        ),
        (
            "tropical_cyclone,1996-02-28,10,5,20,95,,",
            BoxFault::OffTheGlobe,
            "95",
        ),
        (
            "tropical_cyclone,1996-02-28,-200,5,20,15,,",
            BoxFault::OffTheGlobe,
            "-200",
        ),
        (
            "tropical_cyclone,1996-02-28,10,,20,15,,",
            BoxFault::NoNumber,
            "south_deg",
        ),
        (
            "tropical_cyclone,1996-02-28,inf,5,20,15,,",
            BoxFault::NoNumber,
            "west_deg",
        ),
        (
            "tropical_cyclone,1996-02-29,10,5,20,15,,",
            BoxFault::NoTime,
            "1996-02-29",
        ),
        (
            "tropical_cyclone,1996-02-28,10,5,20,15,1.5,",
            BoxFault::NoConfidence,
            "1.5",
        ),
        (
            "tropical_cyclone,1996-02-28,10,5,20,15,,-3",
            BoxFault::NoNumber,
            "track_id",
        ),
    ] {
        fs::write(&path, format!("{header}{good}{row}\n")).unwrap();
        let error = boxes::read(&path, &grid(), Calendar::NoLeap).unwrap_err();
        let text = error.to_string();
        let DataError::BadBox { fault: got, .. } = error else {
            panic!("{row}: {text}")
        };
        assert_eq!(got, fault, "{row}");
        for part in [words, "line 3", "boxes.csv"] {
            assert!(text.contains(part), "{text} lacks {part}");
        }
    }
    fs::write(&path, "class,time,west_deg\n").unwrap();
    let error = boxes::read(&path, &grid(), Calendar::NoLeap).unwrap_err();
    assert!(error.to_string().contains("south_deg"), "{error}");
    fs::write(&path, format!("{header}tropical_cyclone,1996\n")).unwrap();
    let error = boxes::read(&path, &grid(), Calendar::NoLeap).unwrap_err();
    assert!(matches!(error, DataError::Unreadable { .. }), "{error}");
    let other = boxes::read(Path::new("boxes.xls"), &grid(), Calendar::NoLeap).unwrap_err();
    assert!(other.to_string().contains(".csv"), "{other}");
    // Other conventions are not errors: order of columns, longitudes from -180, further columns.
    let text = "note,time,class,east_deg,west_deg,north_deg,south_deg\nx,1996-02-28,tropical_cyclone,10,-10,15,5\n";
    fs::write(&path, text).unwrap();
    let back = boxes::read(&path, &grid(), Calendar::NoLeap).unwrap();
    let geo = back.frames()[0].boxes[0].geo;
    assert_eq!((geo.west_deg, geo.east_deg), (350.0, 10.0));
}

#[test]
fn wrong_coco_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("coco.json");
    let read = |image: &str, annotation: &str| {
        let image = if image.is_empty() {
            r#""width": 144, "height": 96, "date_captured": "1996-02-28 06:00:00""#
        } else {
            image
        };
        let text = format!(
            r#"{{"images": [{{"id": 7, {image}}}],
                "categories": [{{"id": 1, "name": "tropical_cyclone"}}, {{"id": 2, "name": "tornado"}}],
                "annotations": [{{"image_id": 7, "category_id": 1, "bbox": [1, 2, 3, 4]}}, {{{annotation}}}]}}"#
        );
        fs::write(&path, text).unwrap();
        boxes::read(&path, &grid(), Calendar::NoLeap)
    };
    let good = r#""image_id": 7, "category_id": 1, "bbox": [140, 2, 10, 4], "score": 0.5"#;
    assert_eq!(read("", good).unwrap().boxes(), 2);
    for (annotation, fault) in [
        (
            r#""image_id": 8, "category_id": 1, "bbox": [1, 2, 3, 4]"#,
            BoxFault::NoImage,
        ),
        (
            r#""image_id": 7, "category_id": 2, "bbox": [1, 2, 3, 4]"#,
            BoxFault::UnknownClass,
        ),
        (
            r#""image_id": 7, "category_id": 3, "bbox": [1, 2, 3, 4]"#,
            BoxFault::UnknownClass,
        ),
        (
            r#""image_id": 7, "category_id": 1, "bbox": [1, 2, 0, 4]"#,
            BoxFault::NoExtent,
        ),
        (
            r#""image_id": 7, "category_id": 1, "bbox": [1, 2, 3, -4]"#,
            BoxFault::NoExtent,
        ),
        (
            r#""image_id": 7, "category_id": 1, "bbox": [150, 2, 3, 4]"#,
            BoxFault::OffTheGrid,
        ),
        (
            r#""image_id": 7, "category_id": 1, "bbox": [-5, 2, 3, 4]"#,
            BoxFault::OffTheGrid,
        ),
        (
            r#""image_id": 7, "category_id": 1, "bbox": [1, 96.2, 3, 0.5]"#,
            BoxFault::OffTheGrid,
        ),
        (
            r#""image_id": 7, "category_id": 1, "bbox": [1, -0.9, 3, 0.5]"#,
            BoxFault::OffTheGrid,
        ),
        (
            r#""image_id": 7, "category_id": 1, "bbox": [1, 95, 3, 1e-30]"#,
            BoxFault::NoExtent,
        ),
        (
            r#""image_id": 7, "category_id": 1, "bbox": [1, 2, 3]"#,
            BoxFault::NoNumber,
        ),
        (
            r#""image_id": 7, "category_id": 1, "bbox": [1, 2, 3, 4], "score": 2"#,
            BoxFault::NoConfidence,
        ),
    ] {
        let error = read("", annotation).unwrap_err();
        let text = error.to_string();
        let DataError::BadBox { fault: got, .. } = error else {
            panic!("{annotation}: {text}")
        };
        assert_eq!(got, fault, "{text}");
        assert!(
            text.contains("annotation 2") && text.contains("coco.json"),
            "{text}"
        );
    }
    // It had been the edges that were told.
    let unsure = r#""image_id": 7, "category_id": 1, "bbox": [1, 2, 3, 4], "score": 1.5"#;
    let error = read("", unsure).unwrap_err().to_string();
    assert!(error.contains("found 1.5"), "{error}");
    let error = read(
        r#""width": 144, "height": 96, "date_captured": "soon""#,
        good,
    )
    .unwrap_err();
    assert!(
        error.to_string().contains("image 7") && error.to_string().contains("soon"),
        "{error}"
    );
    let error = read(r#""width": 96, "height": 144"#, good).unwrap_err();
    assert!(matches!(error, DataError::Mismatch { .. }), "{error}");
    for (name, time) in [
        ("data-1996-08-26-03-1.png", "1996-08-26T09:00:00"),
        ("1996-08-26-10800.png", "1996-08-26T03:00:00"),
    ] {
        // As CVAT writes it, the date is 0.
        for dated in ["", r#", "date_captured": 0"#] {
            let named = format!(r#""width": 144, "height": 96, "file_name": "{name}"{dated}"#);
            let back = read(&named, good).unwrap();
            assert_eq!(back.frames()[0].time.to_string(), time);
        }
    }
    fs::write(&path, "{}").unwrap();
    let error = boxes::read(&path, &grid(), Calendar::NoLeap).unwrap_err();
    assert!(matches!(error, DataError::Unreadable { .. }), "{error}");
}

#[test]
fn an_unfinished_file_leaves_nothing_and_no_box_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let bad = found(BoxClass::TropicalCyclone, 10.0, 20.0, 30.0, 5.0);
    let at = |name: &str| folder.path().join(name);
    let sinks: [Box<dyn BoxSink>; 4] = [
        Box::new(BoxTableWriter::create(at("a.csv")).unwrap()),
        Box::new(CocoWriter::create(at("a.json"), grid()).unwrap()),
        Box::new(GeoJsonWriter::create(at("a.geojson")).unwrap()),
        Box::new(ExtremeWeatherWriter::new(at("a.h5"), grid())),
    ];
    for mut sink in sinks {
        sink.write(time(0), &frames()[0].1).unwrap();
        assert!(sink.write(time(3), &[bad]).is_err());
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
