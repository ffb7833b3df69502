//! Small stores with boxes, and small detectors.

use super::CHANNELS;
use ndarray::{Array2, Array3};
use squall_data::store::{Split, StoreMeta, StoreWriter};
use squall_data::{
    BoxClass, Calendar, ClassMask, GeoBox, LatLonGrid, PixelBox, Snapshot, Store, Time,
};
use squall_jobs::Recipe;
use std::path::Path;
use std::sync::Arc;

/// Two cells of 32 pixels, the largest that a detector has.
pub const SHAPE: (usize, usize) = (32, 64);

fn grid() -> Arc<LatLonGrid> {
    Arc::new(LatLonGrid::global(SHAPE.0, SHAPE.1).unwrap())
}

fn time(index: usize) -> Time {
    let start = Time::new(Calendar::NoLeap, 2000, 1, 1, 0, 0, 0).unwrap();
    start.add_seconds(index as i64 * 6 * 3600)
}

/// The pixel at which a sample's low has its middle: row, column.
fn middle(index: usize) -> (f64, f64) {
    (
        (8 + 5 * index % 17) as f64,
        (11 * index % SHAPE.1) as f64 + 0.5,
    )
}

/// Waves, and one low.
fn fields(index: usize) -> Snapshot {
    let ((rows, columns), (row, column)) = (SHAPE, middle(index));
    let fields = Array3::from_shape_fn((3, rows, columns), |(k, j, i)| {
        let wide = columns as f64;
        let across = (i as f64 + 0.5 - column + 1.5 * wide).rem_euclid(wide) - wide / 2.0;
        let distance2 = (j as f64 + 0.5 - row).powi(2) + across.powi(2);
        let low = (-distance2 / 20.0).exp();
        let wave = (i as f64 / 5.0 + index as f64).sin();
        match k {
            0 => (20.0 + 5.0 * wave + 30.0 * low) as f32,
            1 => (10.0 * (j as f64 / 3.0 + index as f64).sin()) as f32,
            _ => (101_000.0 - 4000.0 * low) as f32,
        }
    });
    Snapshot {
        time: time(index),
        grid: grid(),
        variables: CHANNELS.to_vec(),
        fields,
        source: ("low".into(), index),
    }
}

/// The box about a sample's low.
pub fn low(index: usize) -> GeoBox {
    let (row, column) = middle(index);
    let x_min = (column - 5.0).rem_euclid(SHAPE.1 as f64);
    let found = PixelBox {
        class: BoxClass::TropicalCyclone,
        y_min: row - 5.0,
        x_min,
        y_max: row + 5.0,
        x_max: x_min + 10.0,
        confidence: None,
    };
    found.to_degrees(&grid())
}

/// What is known of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// A mask of background, and the box.
    Box,
    /// A mask of one river, and the box.
    BoxInRiver,
    /// A mask of background, and that there is no box.
    NoBox,
    /// A mask of background only.
    MaskOnly,
    /// The box only.
    BoxOnly,
    /// Nothing.
    Nothing,
}

/// A store of these samples for training, then these for validation.
pub fn store(folder: &Path, training: &[Known], validation: &[Known]) -> Arc<Store> {
    let meta = StoreMeta::new(grid(), Calendar::NoLeap, CHANNELS.to_vec());
    let mut writer = StoreWriter::create(folder, meta).unwrap();
    let mut boxes = Vec::new();
    for (index, known) in training.iter().chain(validation).enumerate() {
        let split = match index < training.len() {
            true => Split::Train,
            false => Split::Validation,
        };
        let code = u8::from(*known == Known::BoxInRiver) * 2;
        let mask = ClassMask::new(time(index), Array2::from_elem(SHAPE, code)).unwrap();
        match known {
            Known::Box | Known::BoxInRiver | Known::NoBox | Known::MaskOnly => {
                writer.push(&fields(index), &mask, split).unwrap();
            }
            Known::BoxOnly | Known::Nothing => {
                writer.push_without_mask(&fields(index), split).unwrap();
            }
        }
        boxes.push(match known {
            Known::Box | Known::BoxInRiver | Known::BoxOnly => Some(vec![low(index)]),
            Known::NoBox => Some(Vec::new()),
            Known::MaskOnly | Known::Nothing => None,
        });
    }
    Arc::new(writer.finish_with_boxes(Some(&boxes)).unwrap())
}

/// A recipe of a tiny detector, whose `[network]` is given.
pub fn recipe(network: &str, changes: &[&str]) -> Recipe {
    let text = format!(
        "
        name = 'boxes'
        task = 'detect'
        precision = 'f32'
        [training]
        batch = 4
        steps = 8
        validate_every_steps = 8
        checkpoint_every_steps = 3
        [data.augmentation]
        roll = true
        [detection.loss]
        reconstruction = 0.0
        [optimiser]
        rule = 'adamw'
        [schedule]
        rate = 3e-3
        warmup_steps = 2
        [network]
        batch_norm_decay = 0.8
        {network}"
    );
    let changes: Vec<String> = changes.iter().map(|c| c.to_string()).collect();
    Recipe::parse(&text, &changes).unwrap()
}

/// Cells of four pixels, and a decoder.
pub const CELLS: &str = "name = 'detector-2d'\nwidth = 0.05\nblocks = [2]";
/// Cells of 32 pixels, no batch normalisation, a decoder.
pub const CELLS_15PF: &str = "name = 'detector-15pf'\nwidth = 0.05";
/// Centres, no decoder.
pub const CENTRES: &str =
    "name = 'detector-dense'\nwidth = 0.1\nblocks = [1, 1]\natrous_rates = [2]";
