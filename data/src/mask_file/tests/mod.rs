//! What is written comes back.

mod foreign;
mod series;

use super::*;
use crate::{Calendar, ClassMask, LatLonGrid, Time};
use ndarray::{Array2, Array3};

#[test]
fn masks_and_probabilities_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("masks.nc");
    let grid = LatLonGrid::global(8, 12).unwrap();
    let start = Time::new(Calendar::NoLeap, 2000, 2, 28, 21, 0, 0).unwrap();
    let options = MaskFileOptions {
        probabilities: &Class::EVENTS,
        spread: true,
        ..MaskFileOptions::default()
    };
    let mut writer = MaskWriter::create(&path, &grid, start, &options).unwrap();
    let mask = |step: usize| {
        let codes = Array2::from_shape_fn((8, 12), |(j, i)| ((j + i + step) % 3) as u8);
        ClassMask::new(start.add_seconds(10_800 * step as i64), codes).unwrap()
    };
    let probability =
        Array3::from_shape_fn((8, 12, 3), |(j, _, k)| if j % 3 == k { 0.8 } else { 0.1 });
    for step in 0..3 {
        let spread = &probability * 0.5;
        writer
            .write_with_spread(&mask(step), Some(probability.view()), Some(spread.view()))
            .unwrap();
    }
    assert!(!path.exists(), "the file appears whole");
    writer.finish().unwrap();
    let archive = MaskArchive::open(path.to_str().unwrap()).unwrap();
    assert_eq!(archive.times().len(), 3);
    assert_eq!(**archive.grid(), grid);
    for step in 0..3 {
        assert_eq!(archive.read(step).unwrap(), mask(step));
    }
    let back = archive
        .probability(1, Class::TropicalCyclone)
        .unwrap()
        .unwrap();
    assert!((back[[1, 5]] - 0.8).abs() < 0.0021 && (back[[0, 5]] - 0.1).abs() < 0.0021);
    let rest = archive.probability(1, Class::Background).unwrap().unwrap();
    assert!((rest[[0, 5]] - 0.8).abs() < 0.0041, "{}", rest[[0, 5]]);
    let spread = archive.spread(2, Class::TropicalCyclone).unwrap().unwrap();
    assert!((spread[[1, 5]] - 0.4).abs() < 0.0011 && (spread[[0, 5]] - 0.05).abs() < 0.0011);
    let without = MaskFileOptions {
        river_tag: false,
        ..MaskFileOptions::default()
    };
    let bare = folder.path().join("bare.nc");
    let mut writer = MaskWriter::create(&bare, &grid, start, &without).unwrap();
    writer.write(&mask(0), None).unwrap();
    writer.finish().unwrap();
    let bare = MaskArchive::open(bare.to_str().unwrap()).unwrap();
    assert_eq!(bare.read(0).unwrap(), mask(0));
    assert!(
        bare.probability(0, Class::TropicalCyclone)
            .unwrap()
            .is_none()
    );
    assert!(bare.probability(0, Class::Background).unwrap().is_none());
    assert!(bare.spread(0, Class::TropicalCyclone).unwrap().is_none());
    let wrong = ClassMask::new(start, Array2::zeros((4, 4))).unwrap();
    let mut writer = MaskWriter::create(&path, &grid, start, &options).unwrap();
    assert!(
        writer
            .write(&wrong, None)
            .unwrap_err()
            .to_string()
            .contains("(4, 4)")
    );
}

/// Our reader takes classes from `LABELS` and knows the packing: others read rivers by their tag, edges of cells, and values
/// by CF's scale and offset.
#[test]
fn other_tools_find_in_the_file_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("masks.nc");
    let grid = LatLonGrid::global(10, 12).unwrap();
    let start = Time::new(Calendar::NoLeap, 2000, 2, 28, 21, 0, 0).unwrap();
    let options = MaskFileOptions {
        classes: &[Class::AtmosphericRiver],
        probabilities: &[Class::AtmosphericRiver],
        spread: true,
        ..MaskFileOptions::default()
    };
    let mut writer = MaskWriter::create(&path, &grid, start, &options).unwrap();
    // By class.
    let probability = Array3::from_shape_fn((10, 12, 3), |(_, _, k)| [0.1, 0.3, 0.6][k]);
    let spread = Array3::from_shape_fn((10, 12, 3), |(_, _, k)| [0.01, 0.03, 0.06][k]);
    for hours in [0, 3] {
        let codes = Array2::from_shape_fn((10, 12), |(j, i)| ((j + i) % 3) as u8);
        let mask = ClassMask::new(start.add_seconds(3600 * hours), codes).unwrap();
        writer
            .write_with_spread(&mask, Some(probability.view()), Some(spread.view()))
            .unwrap();
    }
    writer.finish().unwrap();
    let read = |name: &str| -> (Vec<f64>, [Vec<f64>; 3]) {
        crate::archive::nc::on_library_thread(|| {
            let file = netcdf::open(&path).unwrap();
            let variable = file.variable(name).unwrap();
            let numbers = ["scale_factor", "add_offset", "flag_values"]
                .map(|key| crate::archive::nc::numbers(&variable, key));
            (variable.get_values(..).unwrap(), numbers)
        })
    };
    assert_eq!(read("time").0, [0.875, 1.0]);
    let (labels, [.., values]) = read("LABELS");
    assert_eq!(values, [0.0, 2.0]);
    let (rivers, _) = read("ar_binary_tag");
    assert!(labels.contains(&1.0) && rivers.len() == labels.len());
    let is_river = |(label, tag): (&f64, &f64)| *tag == f64::from(u8::from(*label == 2.0));
    assert!(labels.iter().zip(&rivers).all(is_river), "{rivers:?}");
    for (name, expected) in [("probability", 0.6), ("probability_spread", 0.06)] {
        let name = format!("atmospheric_river_{name}");
        let (stored, [scale, offset, _]) = read(&name);
        let off = |value: &f64| (value * scale[0] + offset[0] - expected).abs();
        assert!(stored.iter().all(|value| off(value) < 1e-6), "{name}");
    }
    // Rows reach half way to the next, and to the poles; columns 15 degrees to either side.
    for (name, first, last) in [
        ("lat_bnds", [-90.0, -80.0], [80.0, 90.0]),
        ("lon_bnds", [-15.0, 15.0], [315.0, 345.0]),
    ] {
        let (edges, _) = read(name);
        assert_eq!(edges[..2], first, "{name}");
        assert_eq!(edges[edges.len() - 2..], last, "{name}");
    }
}

/// Files of earlier versions keep the probabilities of all classes side by side.
#[test]
fn probabilities_of_earlier_versions_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("masks.nc");
    let grid = LatLonGrid::global(4, 6).unwrap();
    let start = Time::new(Calendar::NoLeap, 2000, 7, 1, 0, 0, 0).unwrap();
    let mut writer = MaskWriter::create(&path, &grid, start, &MaskFileOptions::default()).unwrap();
    let mask = ClassMask::new(start, Array2::zeros(grid.shape())).unwrap();
    writer.write(&mask, None).unwrap();
    writer.finish().unwrap();
    crate::archive::nc::on_library_thread(|| {
        let mut file = netcdf::append(&path).unwrap();
        file.add_dimension("class", 3).unwrap();
        let dimensions = ["time", "lat", "lon", "class"];
        let mut all = file.add_variable::<u8>("probability", &dimensions).unwrap();
        // In steps of 1/250, more in every row.
        let stored: Vec<u8> = (0..4u8)
            .flat_map(|row| [200 - 10 * row, 50, 10 * row].repeat(6))
            .collect();
        all.put_values(&stored, ..).unwrap();
        file.close().unwrap();
    });
    let archive = MaskArchive::open(path.to_str().unwrap()).unwrap();
    for (class, expected) in [
        (Class::Background, [0.8, 0.76, 0.72, 0.68]),
        (Class::TropicalCyclone, [0.2; 4]),
        (Class::AtmosphericRiver, [0.0, 0.04, 0.08, 0.12]),
    ] {
        let found = archive.probability(0, class).unwrap().unwrap();
        for ((row, _), found) in found.indexed_iter() {
            assert!((found - expected[row]).abs() < 1e-6, "{class:?} {row}");
        }
    }
}

#[test]
fn a_probability_that_is_not_known_comes_back_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("masks.nc");
    let grid = LatLonGrid::global(8, 12).unwrap();
    let start = Time::new(Calendar::NoLeap, 2000, 7, 1, 0, 0, 0).unwrap();
    let options = MaskFileOptions {
        probabilities: &Class::EVENTS,
        spread: true,
        ..MaskFileOptions::default()
    };
    let mut values = Array3::from_elem((8, 12, 3), 0.25f32);
    values[[2, 5, usize::from(Class::TropicalCyclone.code())]] = f32::NAN;
    let mask = ClassMask::new(start, Array2::zeros(grid.shape())).unwrap();
    let mut writer = MaskWriter::create(&path, &grid, start, &options).unwrap();
    writer
        .write_with_spread(&mask, Some(values.view()), Some(values.view()))
        .unwrap();
    writer.finish().unwrap();
    let archive = MaskArchive::open(path.to_str().unwrap()).unwrap();
    let of = |class| archive.probability(0, class).unwrap().unwrap();
    let cyclone = of(Class::TropicalCyclone);
    assert!(cyclone[[2, 5]].is_nan(), "{}", cyclone[[2, 5]]);
    assert!((cyclone[[2, 6]] - 0.25).abs() < 0.0021);
    assert!(of(Class::Background)[[2, 5]].is_nan());
    assert!((of(Class::AtmosphericRiver)[[2, 5]] - 0.25).abs() < 0.0021);
    let spread = archive.spread(0, Class::TropicalCyclone).unwrap().unwrap();
    assert!(spread[[2, 5]].is_nan() && (spread[[2, 6]] - 0.25).abs() < 0.0011);
}

/// Regridding needs the edges of cells, ARTMIP the tags, and both what the numbers mean. 30 degrees a cell.
#[test]
fn other_tools_find_edges_tags_and_meanings() {
    use crate::archive::nc;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("masks.nc");
    let grid = LatLonGrid::global(7, 12).unwrap();
    let start = Time::new(Calendar::NoLeap, 2000, 2, 28, 21, 0, 0).unwrap();
    let options = MaskFileOptions {
        classes: &[Class::AtmosphericRiver],
        ..MaskFileOptions::default()
    };
    let mut writer = MaskWriter::create(&path, &grid, start, &options).unwrap();
    let codes = Array2::from_shape_fn((7, 12), |(j, i)| ((j + i) % 3) as u8);
    let rivers: Vec<f64> = (codes.iter())
        .map(|code| f64::from(u8::from(*code == 2)))
        .collect();
    writer
        .write(&ClassMask::new(start, codes).unwrap(), None)
        .unwrap();
    writer.finish().unwrap();
    nc::on_library_thread(|| {
        let file = netcdf::open(&path).unwrap();
        let values = |name: &str| -> Vec<f64> {
            let variable = file.variable(name).unwrap();
            variable.get_values(..).unwrap()
        };
        let pairs = |edges: &[f64]| -> Vec<f64> {
            let pairs = edges.windows(2);
            pairs.flat_map(|pair| [pair[0], pair[1]]).collect()
        };
        let edges = [-90.0, -75.0, -45.0, -15.0, 15.0, 45.0, 75.0, 90.0];
        assert_eq!(values("lat_bnds"), pairs(&edges));
        let edges: Vec<f64> = (0..13).map(|i| -15.0 + 30.0 * f64::from(i)).collect();
        assert_eq!(values("lon_bnds"), pairs(&edges));
        assert_eq!(values("ar_binary_tag"), rivers);
        // 21 hours after the midnight before.
        assert_eq!(values("time"), [0.875]);
        let labels = file.variable("LABELS").unwrap();
        assert_eq!(nc::numbers(&labels, "flag_values"), [0.0, 2.0]);
        let meanings = nc::text(&labels, "flag_meanings").unwrap();
        assert_eq!(meanings, "background atmospheric_river");
    });
}
