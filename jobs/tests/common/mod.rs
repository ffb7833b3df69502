//! A small store and a small recipe that train in a second.
#![allow(dead_code)] // each test binary uses its part

pub mod alone;
pub mod boxes;
pub mod fields;
pub mod learnt;
pub mod tensorboard;

use ndarray::{Array2, Array3};
use squall_data::store::{Split, StoreMeta, StoreWriter};
use squall_data::{Calendar, ClassMask, LatLonGrid, Snapshot, Store, Time, Variable};
use squall_jobs::Recipe;
use std::path::Path;
use std::sync::Arc;

pub const CHANNELS: [Variable; 3] = [Variable::Tmq, Variable::U850, Variable::Psl];
pub const ROWS: usize = 16;
pub const COLUMNS: usize = 32;

pub fn grid() -> Arc<LatLonGrid> {
    Arc::new(LatLonGrid::global(ROWS, COLUMNS).unwrap())
}

pub fn time(index: usize) -> Time {
    let start = Time::new(Calendar::NoLeap, 2000, 1, 1, 0, 0, 0).unwrap();
    start.add_seconds(index as i64 * 3 * 3600)
}

/// Smooth waves that drift, with a low (a cyclone) and a moist band (a river) where the labels say so.
pub fn sample(index: usize) -> (Snapshot, ClassMask) {
    let phase = index as f64 * 0.7;
    let (low_j, low_i) = (4.0 + (index % 5) as f64, (index * 5 % COLUMNS) as f64);
    let mut codes = Array2::<u8>::zeros((ROWS, COLUMNS));
    let mut fields = Array3::<f32>::zeros((3, ROWS, COLUMNS));
    for ((j, i), code) in codes.indexed_iter_mut() {
        let (y, x) = (j as f64, i as f64 / COLUMNS as f64 * std::f64::consts::TAU);
        let across = (i as f64 - low_i + 48.0).rem_euclid(32.0) - 16.0;
        let distance2 = (y - low_j).powi(2) + across.powi(2);
        let band = (y - 10.0 - 2.0 * (x + phase).sin()).abs();
        let along = (x + phase).cos();
        if band < 1.2 && along > -0.2 {
            *code = 2;
        }
        if distance2 < 6.0 {
            *code = 1;
        }
        let river = f64::from(u8::from(*code == 2));
        fields[(0, j, i)] = (20.0 + 5.0 * (x + phase).sin() + 25.0 * river) as f32;
        fields[(1, j, i)] = (10.0 * (2.0 * x + phase).cos() + across.signum()) as f32;
        fields[(2, j, i)] = (101_000.0 - 4000.0 * (-distance2 / 6.0).exp() + 100.0 * y) as f32;
    }
    let snapshot = Snapshot {
        time: time(index),
        grid: grid(),
        variables: CHANNELS.to_vec(),
        fields,
        source: ("sample".into(), index),
    };
    (snapshot, ClassMask::new(time(index), codes).unwrap())
}

pub fn store(folder: &Path, training: usize, validation: usize) -> Arc<Store> {
    store_of(&CHANNELS, folder, training, validation)
}

/// The same with some of the channels.
pub fn store_of(
    channels: &[Variable],
    folder: &Path,
    training: usize,
    validation: usize,
) -> Arc<Store> {
    let meta = StoreMeta::new(grid(), Calendar::NoLeap, channels.to_vec());
    let mut writer = StoreWriter::create(folder, meta).unwrap();
    for index in 0..training + validation {
        let (snapshot, mask) = sample(index);
        let split = if index < training {
            Split::Train
        } else {
            Split::Validation
        };
        writer.push(&snapshot, &mask, split).unwrap();
    }
    Arc::new(writer.finish().unwrap())
}

/// A tiny network; `changes` are appended to its sections as overrides.
pub fn recipe(changes: &[&str]) -> Recipe {
    let text = "
        name = 'tiny'
        precision = 'f32'
        [training]
        batch = 2
        steps = 12
        validate_every_steps = 4
        checkpoint_every_steps = 3
        [data.augmentation]
        roll = true
        mirror = true
        [schedule]
        rate = 3e-3
        warmup_steps = 2
        [network]
        name = 'deeplabv3plus-bilinear'
        width = 0.05
        blocks = [1, 1]
        atrous_rates = [1, 2]
        dropout = 0.1
        batch_norm_decay = 0.8";
    let changes: Vec<String> = changes.iter().map(|c| c.to_string()).collect();
    Recipe::parse(text, &changes).unwrap()
}
