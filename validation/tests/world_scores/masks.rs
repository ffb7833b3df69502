//! Masks against masks, and the maps of tracks.

use super::*;

#[test]
fn scores_of_masks_by_hand() {
    let grid = LatLonGrid::global(5, 8).unwrap();
    let mask = |hours: i64, code: fn(usize, usize) -> u8| {
        ClassMask::new(
            time(hours),
            ndarray::Array2::from_shape_fn((5, 8), |(j, i)| code(j, i)),
        )
        .unwrap()
    };
    // On the equator four cells against two of them; then a row of 45° in the truth alone; then nothing at all.
    let pairs = [
        (
            mask(0, |j, i| 2 * u8::from(j == 2 && i < 4)),
            mask(0, |j, i| 2 * u8::from(j == 2 && i < 2)),
        ),
        (mask(3, |j, _| 2 * u8::from(j == 3)), mask(3, |_, _| 0)),
        (mask(6, |_, _| 0), mask(6, |_, _| 0)),
    ];
    let mut whole = MaskAgreement::new(&grid);
    for (truth, predicted) in &pairs {
        let confusion = Confusion::of_masks(truth, predicted, &grid).unwrap();
        whole.add(truth, predicted, &confusion).unwrap();
    }
    let score = whole.score(Class::AtmosphericRiver, &quick()).unwrap();
    assert_eq!((score.times, score.times_with_class), (3, 2));
    let iou = score.iou_per_time.unwrap();
    assert_eq!((iou.mean, iou.least, iou.greatest), (0.25, 0.0, 0.5));
    // The upper one of two.
    assert_eq!(iou.median, 0.5);
    // Cells reach halfway to the next row: the equator's have sin 22.5° of the sphere, those of 45° half of the rest up to
    // 67.5°. Over three times the truth has half of the equator once and 45° once, the prediction a quarter of the equator.
    let [low, high] = [22.5f64, 67.5].map(|deg| deg.to_radians().sin());
    let (equator, north) = (low, 0.5 * (high - low));
    let of_truth = (0.5 * equator + north) / 3.0;
    assert_relative_eq!(
        score.frequency.reference_mean,
        of_truth,
        max_relative = 1e-9
    );
    assert_relative_eq!(
        score.frequency.bias,
        0.25 * equator / 3.0 - of_truth,
        max_relative = 1e-9
    );
    let cyclones = whole.score(Class::TropicalCyclone, &quick()).unwrap();
    assert_eq!(
        (cyclones.iou_per_time, cyclones.frequency.correlation),
        (None, None)
    );
    assert!(whole.score(Class::Background, &quick()).is_none());
    assert!(score.to_string().contains("0.250"), "{score}");
}

/// Regression: cells that are never known had frequency 0 on both sides, and so agreed.
#[test]
fn missing_cells_do_not_count_in_maps_of_frequency() {
    let grid = LatLonGrid::global(5, 8).unwrap();
    let mut rivers = MaskAgreement::new(&grid);
    for hours in [0, 6] {
        // The truth has a river in the first column, the prediction in two; the eastern half is never known, and of the
        // second column nothing at the second time.
        let [truth, predicted] = [1, 2].map(|columns| {
            let codes = ndarray::Array2::from_shape_fn((5, 8), |(_, i)| {
                2 * u8::from(i < columns && (i == 0 || hours == 0))
            });
            ClassMask::new(time(hours), codes).unwrap()
        });
        let confusion = Confusion::of_masks(&truth, &predicted, &grid).unwrap();
        rivers.add(&truth, &predicted, &confusion).unwrap();
        let missing = ndarray::Array2::from_shape_fn((5, 8), |(_, i)| i > 3 || i == 1 && hours > 0);
        rivers.leave_out(missing.view()).unwrap();
        assert!(rivers.leave_out(missing.t()).is_err());
    }
    let score = rivers.score(Class::AtmosphericRiver, &quick()).unwrap();
    assert_eq!(score.frequency.cells, 4 * 5);
    assert_relative_eq!(score.frequency.reference_mean, 0.25, max_relative = 1e-12);
    assert_relative_eq!(score.frequency.bias, 0.25, max_relative = 1e-12);
}

#[test]
fn masks_come_to_another_grid_by_nearest_cells() {
    let (fine, coarse) = (
        LatLonGrid::global(19, 36).unwrap(),
        LatLonGrid::global(10, 18).unwrap(),
    );
    let code = |j: usize, i: usize| u8::from(j.is_multiple_of(4) && i.is_multiple_of(4));
    let mask = ClassMask::new(
        time(0),
        ndarray::Array2::from_shape_fn((19, 36), |(j, i)| code(j, i)),
    )
    .unwrap();
    let cells = NearestCells::new(&fine, &coarse).unwrap();
    let brought = cells.bring(&mask).unwrap();
    // Every second row and column lie on each other.
    assert!(
        brought
            .codes
            .indexed_iter()
            .all(|((j, i), &found)| found == code(2 * j, 2 * i))
    );
    assert!(cells.bring(&brought).is_err());
    let (region, _) = LatLonGrid::from_axes(
        (0..10).map(|j| f64::from(j) * 2.0).collect(),
        (0..20).map(|i| f64::from(i) * 2.0).collect(),
    )
    .unwrap();
    let message = NearestCells::new(&region, &coarse).unwrap_err().to_string();
    assert!(message.contains("global"), "{message}");
    assert!(NearestCells::new(&coarse, &region).is_ok());
}

#[test]
fn the_river_masks_of_merra2_against_themselves() {
    let Some(folder) = testdata::real("ar-masks-merra2-teca-bard") else {
        return;
    };
    let archive = MaskArchive::open(&format!("{}/*.nc", folder.display())).unwrap();
    assert_eq!(archive.times().len(), 407);
    let grid = archive.grid();
    let mut same = MaskAgreement::new(grid);
    let mut turned = MaskAgreement::new(grid);
    let mut rivers = Occurrence::new(grid);
    for index in 0..archive.times().len() {
        let mask = archive.read(index).unwrap();
        rivers.add(&mask).unwrap();
        same.add(
            &mask,
            &mask,
            &Confusion::of_masks(&mask, &mask, grid).unwrap(),
        )
        .unwrap();
        // Two columns (1.25 degrees) to the east.
        let (rows, columns) = grid.shape();
        let codes = ndarray::Array2::from_shape_fn((rows, columns), |(j, i)| {
            mask.codes[[j, (i + columns - 2) % columns]]
        });
        let other = ClassMask::new(mask.time, codes).unwrap();
        turned
            .add(
                &mask,
                &other,
                &Confusion::of_masks(&mask, &other, grid).unwrap(),
            )
            .unwrap();
    }
    let score = same.score(Class::AtmosphericRiver, &quick()).unwrap();
    let iou = score.iou_per_time.unwrap();
    assert_eq!(
        (iou.least, iou.greatest, score.times_with_class),
        (1.0, 1.0, 407)
    );
    assert_relative_eq!(
        score.frequency.correlation.unwrap(),
        1.0,
        max_relative = 1e-12
    );
    assert_eq!(
        (score.frequency.rms, score.frequency.deviation_ratio),
        (0.0, Some(1.0))
    );
    // "About 3 to 4 % of the globe is tagged."
    assert!(
        (0.03..0.041).contains(&score.frequency.reference_mean),
        "{score:?}"
    );
    // Turning keeps mean and deviation, and lowers the rest.
    let score = turned
        .score(Class::AtmosphericRiver, &Bootstrap::default())
        .unwrap();
    assert!(score.frequency.bias.abs() < 1e-12);
    assert_relative_eq!(
        score.frequency.deviation_ratio.unwrap(),
        1.0,
        max_relative = 1e-9
    );
    let correlation = score.frequency.correlation.unwrap();
    assert!(correlation > 0.9 && correlation < 0.999, "{correlation}");
    let (mean, interval) = (
        score.iou_per_time.unwrap().mean,
        score.iou_interval.unwrap(),
    );
    assert!(
        mean > 0.5 && mean < 0.95 && interval.low < mean && mean < interval.high,
        "{score:?}"
    );
}
