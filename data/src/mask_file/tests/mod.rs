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
