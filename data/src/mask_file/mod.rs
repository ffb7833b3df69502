//! Masks as CF netCDF: what ClimateNet, ARTMIP and TempestExtremes users can open.

mod reader;
mod writer;

pub use reader::MaskArchive;
pub use writer::{MaskFileOptions, MaskWriter};

use crate::Class;

/// Stored steps of a probability of 1.
const CERTAIN: f32 = 250.0;

/// The variable that keeps something of a class, such as `tropical_cyclone_probability`.
fn event_variable(class: Class, what: &str) -> String {
    format!("{}_{what}", class.name())
}

#[cfg(test)]
mod tests {
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
    fn masks_of_another_detector() {
        let Some(folder) = crate::testdata::real("ar-masks-merra2-teca-bard") else {
            return;
        };
        let archive =
            MaskArchive::open(folder.join("ar_tag_merra2_1981.nc").to_str().unwrap()).unwrap();
        assert_eq!(archive.grid().shape(), (361, 576));
        let mask = archive.read(0).unwrap();
        let share = mask.pixel_counts()[2] as f64 / mask.codes.len() as f64;
        assert!((0.02..0.06).contains(&share), "{share}");
    }
}
