//! Reading full-size samples (768 × 1152 × 16) from a store against plain positioned reads of the same bytes.
//!
//! The files are in the page cache, so the plain read is the ceiling; throughput is in bytes as stored.

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ndarray::{Array2, Array3};
use squall_data::loader::{Augmentation, Loader, LoaderConfig};
use squall_data::normalise::NormalisationMethod;
use squall_data::sampler::{BatchPlan, Cursor};
use squall_data::store::{Encoding, Split, Store, StoreMeta, StoreWriter, View};
use squall_data::{Calendar, ClassMask, LatLonGrid, Snapshot, Time, Variable};
use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

const ROWS: usize = 768;
const COLUMNS: usize = 1152;
const PIXELS: usize = ROWS * COLUMNS;
const SAMPLES: usize = 4;

fn meta(encoding: Encoding) -> StoreMeta {
    let grid = Arc::new(LatLonGrid::global(ROWS, COLUMNS).expect("a good grid"));
    let mut meta = StoreMeta::new(grid, Calendar::NoLeap, Variable::CHANNELS.to_vec());
    meta.encoding = encoding;
    meta
}

fn sample(meta: &StoreMeta, index: usize) -> (Snapshot, ClassMask) {
    let time = Time::new(Calendar::NoLeap, 2000, 1, 1 + index as i64, 0, 0, 0).expect("a date");
    let fields = Array3::from_shape_fn((meta.channels.len(), ROWS, COLUMNS), |(c, j, i)| {
        let (low, high) = meta.channels[c].entry().plausible;
        low + (high - low) * ((j * 31 + i * 17 + index) % 1000) as f32 / 1000.0
    });
    let snapshot = Snapshot {
        time,
        grid: Arc::clone(&meta.grid),
        variables: meta.channels.clone(),
        fields,
        source: ("bench".into(), index),
    };
    let mask = ClassMask::new(time, Array2::zeros((ROWS, COLUMNS))).expect("codes");
    (snapshot, mask)
}

fn write(folder: &Path, encoding: Encoding) -> Store {
    let meta = meta(encoding);
    let mut writer = StoreWriter::create(folder, meta.clone()).expect("a new store");
    for index in 0..SAMPLES {
        let (snapshot, mask) = sample(&meta, index);
        writer.push(&snapshot, &mask, Split::Train).expect("room");
    }
    writer.finish().expect("an index")
}

/// Statistics, interleaving, checksum and writing of one sample; the shard stays unfinished and is removed.
fn store_write(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("store_write");
    group.sample_size(10);
    group.throughput(Throughput::Bytes((PIXELS * 65) as u64));
    for encoding in [Encoding::F32, Encoding::F16] {
        let meta = meta(encoding);
        let (snapshot, mask) = sample(&meta, 0);
        group.bench_function(format!("{encoding:?}"), |b| {
            b.iter_batched(
                || {
                    let folder = tempfile::tempdir().expect("a temporary folder");
                    let writer = StoreWriter::create(folder.path(), meta.clone());
                    (folder, writer.expect("a new store"))
                },
                |(folder, mut writer)| {
                    writer.push(&snapshot, &mask, Split::Train).expect("room");
                    (folder, writer)
                },
                BatchSize::PerIteration,
            );
        });
    }
}

fn store_read(criterion: &mut Criterion) {
    for encoding in [Encoding::F32, Encoding::F16] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        write(folder.path(), encoding);
        let open = || Arc::new(Store::open(folder.path()).expect("a finished store"));
        let store = open();
        let normalisation = store.normalisation(NormalisationMethod::MeanStd);
        let normalisation = normalisation.expect("training samples");
        let bytes = PIXELS * (16 * encoding.bytes() + 1);
        let mut group = criterion.benchmark_group(format!("store_read/{encoding:?}"));
        group.sample_size(10);
        group.throughput(Throughput::Bytes(bytes as u64));
        let (mut x, mut labels) = (vec![0f32; PIXELS * 16], vec![0; PIXELS]);

        // One positioned read into memory that stays, as large as what is stored.
        let file = File::open(folder.path().join("shard-00000.bin")).expect("a shard");
        let mut raw = vec![0; bytes];
        let mut id = 0;
        group.bench_function("plain read", |b| {
            b.iter(|| {
                id = (id + 1) % SAMPLES;
                let at = id as u64 * store.meta().record_bytes();
                file.read_exact_at(&mut raw, at).expect("a record");
                black_box(raw[0])
            });
        });
        let reader = |store: &Arc<Store>| {
            let reader = store.reader(&Variable::CHANNELS, Some(&normalisation));
            reader.expect("all channels")
        };
        // Checksums are compared by the first read that a store does of a sample.
        group.bench_function("normalised, checked", |b| {
            b.iter_batched(
                || reader(&open()),
                |reader| {
                    reader
                        .read_into(0, View::default(), &mut x, &mut labels)
                        .expect("a sample")
                },
                BatchSize::PerIteration,
            );
        });
        let turned = View {
            roll: 100,
            mirror: true,
        };
        let reader = reader(&store);
        for (name, view) in [
            ("normalised", View::default()),
            ("normalised, turned", turned),
        ] {
            group.bench_function(name, |b| {
                b.iter(|| {
                    id = (id + 1) % SAMPLES;
                    reader
                        .read_into(id, view, &mut x, &mut labels)
                        .expect("a sample")
                });
            });
        }
        for threads in [1, 2] {
            let config = LoaderConfig {
                normalisation: Some(normalisation.clone()),
                augmentation: Augmentation::default(),
                threads,
                ..LoaderConfig::new(&store)
            };
            let plans =
                (0..).map(|step| BatchPlan::new(Cursor { epoch: 0, step }, vec![step % SAMPLES]));
            let mut loader = Loader::new(&store, plans, &config).expect("a loader");
            group.bench_function(BenchmarkId::new("loader threads", threads), |b| {
                b.iter(|| {
                    let batch = loader.next().expect("endless").expect("a batch");
                    loader.give_back(batch);
                });
            });
        }
    }
}

criterion_group!(benches, store_read, store_write);
criterion_main!(benches);
