//! From snapshots to training batches: write a store, split it, and load one epoch of normalised batches.
//!
//! Run with `cargo run -p squall-data --example store_batches`.

use ndarray::{Array2, Array3};
use squall_data::class_weights::ClassWeighting;
use squall_data::loader::{Augmentation, Loader, LoaderConfig};
use squall_data::normalise::NormalisationMethod;
use squall_data::sampler::{Cursor, LastBatch, Sampler, SamplerConfig};
use squall_data::store::{Split, SplitRule, Store, StoreMeta, StoreWriter};
use squall_data::{Calendar, ClassMask, DataError, LatLonGrid, Snapshot, Time, Variable};
use std::sync::Arc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let grid = Arc::new(LatLonGrid::global(16, 24)?);
    let channels = vec![Variable::Tmq, Variable::Psl];
    let start = Time::new(Calendar::NoLeap, 1996, 1, 1, 0, 0, 0)?;
    let times: Vec<Time> = (0..40).map(|k| start.add_seconds(k * 10_800)).collect();

    // Whole days go to one split: only at midnight are two splits three hours apart.
    let rule = SplitRule::Blocks {
        seed: 1,
        train: 0.6,
        validation: 0.2,
        days: 1.0,
    };
    let splits = rule.assign(&times)?;
    let meta = StoreMeta::new(Arc::clone(&grid), Calendar::NoLeap, channels.clone());
    let mut writer = StoreWriter::create(folder.path(), meta)?;
    for (k, (&time, &split)) in times.iter().zip(&splits).enumerate() {
        let fields = Array3::from_shape_fn((2, 16, 24), |(c, j, i)| {
            [20.0, 101_000.0][c] + [1.0, 100.0][c] * ((7 * j + 3 * i + k) % 20) as f32
        });
        let snapshot = Snapshot {
            time,
            grid: Arc::clone(&grid),
            variables: channels.clone(),
            fields,
            source: ("made up".into(), k),
        };
        let codes = Array2::from_shape_fn((16, 24), |(j, i)| u8::from((i + k) % 8 == 0 && j > 8));
        writer.push(&snapshot, &ClassMask::new(time, codes)?, split)?;
    }
    writer.finish()?;

    let store = Arc::new(Store::open(folder.path())?);
    assert!(store.verify()?.problems.is_empty());
    let weights = store.class_weights(ClassWeighting::InverseSqrt)?;
    assert!(
        weights[1] > weights[0],
        "cyclones are rarer than background"
    );

    let config = SamplerConfig {
        shuffle: Some(12345),
        rank: 0,
        ranks: 1,
        batch: 4,
        last: LastBatch::Drop,
    };
    let sampler = Sampler::new(store.ids(Split::Train), config)?;
    assert_eq!(sampler.steps_per_epoch(), 6);
    let config = LoaderConfig {
        normalisation: Some(store.normalisation(NormalisationMethod::MeanStd)?),
        augmentation: Augmentation {
            roll: true,
            mirror: false,
        },
        ..LoaderConfig::new(&store)
    };
    let mut loader = Loader::new(&store, sampler.epoch(Cursor::default()), &config)?;
    let (mut seen, mut sum) = (Vec::new(), 0.0);
    while let Some(batch) = loader.next().transpose()? {
        assert_eq!(batch.shape, [4, 16, 24, 2]);
        seen.extend_from_slice(&batch.ids);
        sum += batch.x.iter().map(|&x| f64::from(x)).sum::<f64>();
        loader.give_back(batch);
    }
    seen.sort_unstable();
    assert_eq!(seen, store.ids(Split::Train));
    assert!(
        (sum / (24.0 * 16.0 * 24.0 * 2.0)).abs() < 1e-4,
        "normalised training data has mean 0"
    );

    // A sample that does not exist is an error with a sentence, not a crash.
    let error = store.read_mask(40).unwrap_err();
    assert!(matches!(error, DataError::Invalid(_)));
    Ok(())
}
