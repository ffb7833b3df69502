//! Writes a mask file with everything that one can hold, for the checkers of the CF conventions.
//!
//! usage: cargo run -p squall-data --example mask_file -- OUT.nc

use ndarray::{Array2, Array3};
use squall_data::mask_file::{MaskArchive, MaskFileOptions, MaskWriter};
use squall_data::{Calendar, Class, ClassMask, LatLonGrid, Time};
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let out = std::env::args().nth(1).ok_or("usage: mask_file OUT.nc")?;
    let grid = LatLonGrid::global(24, 36)?;
    let first = Time::new(Calendar::NoLeap, 2000, 2, 28, 18, 0, 0)?;
    let attribute = |name: &str, value: &str| (name.to_string(), value.to_string());
    let options = MaskFileOptions {
        title: "Tropical cyclones and atmospheric rivers".into(),
        source: format!("Squall {}, an example", env!("CARGO_PKG_VERSION")),
        attributes: vec![
            attribute("institution", "none: an example"),
            attribute("history", "squall: written by an example"),
            attribute("references", "none"),
            attribute("comment", "The masks mean nothing."),
        ],
        classes: &Class::EVENTS,
        probabilities: &Class::EVENTS,
        spread: true,
        river_tag: true,
    };
    let mut writer = MaskWriter::create(Path::new(&out), &grid, first, &options)?;
    let probability = |(j, i, k): (usize, usize, usize)| if (j + i) % 3 == k { 0.5 } else { 0.25 };
    let probabilities = Array3::from_shape_fn((24, 36, 3), probability);
    let spread = probabilities.mapv(|p| p / 4.0);
    for step in 0..4 {
        let codes = Array2::from_shape_fn((24, 36), |(j, i)| ((j / 4 + i / 6 + step) % 3) as u8);
        let mask = ClassMask::new(first.add_seconds(10_800 * step as i64), codes)?;
        writer.write_with_spread(&mask, Some(probabilities.view()), Some(spread.view()))?;
    }
    writer.finish()?;
    let back = MaskArchive::open(&out)?;
    assert_eq!(back.times().len(), 4);
    let river = back.probability(3, Class::AtmosphericRiver)?;
    assert_eq!(river.map(|p| p[[0, 2]]), Some(0.5));
    Ok(())
}
