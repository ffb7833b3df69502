//! Small samples with missing values, and a store of them.

use ndarray::{Array2, Array3};
use rand::Rng;
use squall_data::random::stream;
use squall_data::store::{Encoding, Split, Store, StoreMeta, StoreWriter};
use squall_data::{Calendar, ClassMask, LatLonGrid, Snapshot, Time, Variable};
use std::path::Path;
use std::sync::{Arc, LazyLock};

pub const ROWS: usize = 10;
pub const COLUMNS: usize = 12;
/// Store order; snapshots have another.
pub const CHANNELS: [Variable; 5] = [
    Variable::Psl,
    Variable::Tmq,
    Variable::Prect,
    Variable::Vbot,
    Variable::T500,
];
static GRID: LazyLock<Arc<LatLonGrid>> =
    LazyLock::new(|| Arc::new(LatLonGrid::global(ROWS, COLUMNS).unwrap()));

pub fn time(id: usize) -> Time {
    let start = Time::new(Calendar::NoLeap, 1996, 2, 27, 0, 0, 0).unwrap();
    start.add_seconds(id as i64 * 10_800)
}

/// A snapshot of plausible noise; some values are missing.
pub fn sample(id: usize) -> Snapshot {
    let variables = vec![
        Variable::U850,
        Variable::Vbot,
        Variable::Tmq,
        Variable::T500,
        Variable::Psl,
        Variable::Prect,
    ];
    let mut random = stream(5, "sample", &[id as u64]);
    let fields = Array3::from_shape_fn((variables.len(), ROWS, COLUMNS), |(c, _, _)| {
        let (low, high) = variables[c].entry().plausible;
        match random.random_range(0..40) {
            0 => f32::NAN,
            _ => random.random_range(low..high),
        }
    });
    Snapshot {
        time: time(id),
        grid: Arc::clone(&GRID),
        variables,
        fields,
        source: ("run/h2.nc".into(), id),
    }
}

pub fn mask(id: usize) -> ClassMask {
    let mut random = stream(5, "mask", &[id as u64]);
    let codes = Array2::from_shape_fn((ROWS, COLUMNS), |_| random.random_range(0..3));
    ClassMask::new(time(id), codes).unwrap()
}

pub fn split(id: usize) -> Split {
    Split::ALL[[0, 0, 1, 0, 2][id % 5]]
}

/// Shards of three samples.
pub fn meta(encoding: Encoding) -> StoreMeta {
    let mut meta = StoreMeta::new(Arc::clone(&GRID), Calendar::NoLeap, CHANNELS.to_vec());
    meta.encoding = encoding;
    meta.shard_bytes = 3 * meta.record_bytes();
    meta
}

pub fn write_store(folder: &Path, encoding: Encoding, samples: usize) -> Store {
    let mut writer = StoreWriter::create(folder, meta(encoding)).unwrap();
    for id in 0..samples {
        writer.push(&sample(id), &mask(id), split(id)).unwrap();
    }
    writer.finish().unwrap()
}
