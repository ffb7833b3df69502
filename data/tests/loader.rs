//! The loader delivers exactly the planned batches, in order, and never hangs.

#[allow(dead_code)]
mod store_support;

use squall_data::loader::{Augmentation, Loader, LoaderConfig};
use squall_data::normalise::NormalisationMethod;
use squall_data::sampler::{BatchPlan, Cursor, LastBatch, Sampler, SamplerConfig};
use squall_data::store::{Encoding, Split, Store};
use squall_data::{DataError, HostBatch, LatLonGrid, Variable};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use store_support::{COLUMNS, ROWS, write_store};

const CHANNELS: [Variable; 3] = [Variable::T500, Variable::Vbot, Variable::Tmq];
const VALUES: usize = ROWS * COLUMNS * CHANNELS.len();

fn sampler(store: &Store, rank: usize, ranks: usize, batch: usize) -> Sampler {
    let config = SamplerConfig {
        shuffle: Some(3),
        rank,
        ranks,
        batch,
        last: LastBatch::Drop,
    };
    Sampler::new(store.ids(Split::Train), config).unwrap()
}

fn config(store: &Store, threads: usize) -> LoaderConfig {
    LoaderConfig {
        channels: CHANNELS.to_vec(),
        normalisation: Some(store.normalisation(NormalisationMethod::MeanStd).unwrap()),
        augmentation: Augmentation {
            roll: true,
            mirror: true,
        },
        seed: 11,
        frames: 1,
        stored: false,
        threads,
        prefetch: 3,
    }
}

/// What the plan says, read one after the other.
fn direct(store: &Arc<Store>, plan: &BatchPlan, config: &LoaderConfig) -> HostBatch {
    let reader = store
        .reader(&config.channels, config.normalisation.as_ref())
        .unwrap();
    let batch = plan.ids.len();
    let (mut x, mut labels) = (vec![0.0; batch * VALUES], vec![0; batch * ROWS * COLUMNS]);
    for (k, (&id, &epoch)) in plan.ids.iter().zip(&plan.epochs).enumerate() {
        let view = config.augmentation.view(config.seed, epoch, id, COLUMNS);
        let x = &mut x[k * VALUES..(k + 1) * VALUES];
        let labels = &mut labels[k * ROWS * COLUMNS..(k + 1) * ROWS * COLUMNS];
        reader.read_into(id, view, x, labels).unwrap();
    }
    HostBatch {
        x,
        shape: [batch, ROWS, COLUMNS, CHANNELS.len()],
        labels,
        ids: plan.ids.clone(),
        ..HostBatch::default()
    }
}

#[test]
fn fields_as_they_are_stored_become_the_same_bits() {
    for encoding in [Encoding::F32, Encoding::F16] {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(write_store(folder.path(), encoding, 20));
        let sampler = sampler(&store, 0, 1, 3);
        let plans = || sampler.endless(Cursor::default()).take(9);
        let ready = config(&store, 2);
        let later = LoaderConfig {
            stored: true,
            ..ready.clone()
        };
        let mut at_once = Loader::new(&store, plans(), &ready).unwrap();
        let mut loader = Loader::new(&store, plans(), &later).unwrap();
        let (mut turned, mut missing) = (0, 0);
        for expected in at_once.by_ref() {
            let (expected, batch) = (expected.unwrap(), loader.next().unwrap().unwrap());
            assert_eq!(
                (&batch.labels, &batch.ids, batch.shape),
                (&expected.labels, &expected.ids, expected.shape)
            );
            let stored = batch.stored.as_ref().unwrap();
            assert_eq!(stored.mirrored.len(), 3);
            assert!(batch.x.is_empty());
            let wide = |word: &[u8]| match encoding {
                Encoding::F32 => f32::from_le_bytes(word.try_into().unwrap()),
                Encoding::F16 => half::f16::from_le_bytes(word.try_into().unwrap()).to_f32(),
            };
            let values = stored.bytes.chunks_exact(encoding.bytes()).map(wide);
            let normalised = values.enumerate().map(|(at, x)| {
                let mirrored = stored.mirrored[at / VALUES];
                turned += usize::from(mirrored);
                let (factors, c) = (loader.factors(mirrored), at % CHANNELS.len());
                let value = (x - factors.subtract[c]) * factors.factor[c];
                missing += u64::from(value.is_nan());
                if value.is_nan() {
                    factors.fill[c]
                } else {
                    value
                }
            });
            let bits = |x: &f32| x.to_bits();
            let normalised: Vec<u32> = normalised.map(|x| x.to_bits()).collect();
            let expected: Vec<u32> = expected.x.iter().map(bits).collect();
            assert!(normalised == expected, "{encoding:?}");
            loader.give_back(batch);
        }
        assert!(loader.next().is_none() && turned > 0);
        assert_eq!(loader.missing_values(), missing);
        assert_eq!(at_once.missing_values(), missing);
    }
}

#[test]
fn batches_come_in_order_whatever_the_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(write_store(folder.path(), Encoding::F32, 20));
    let sampler = sampler(&store, 0, 1, 2);
    for threads in [1, 3] {
        let config = config(&store, threads);
        let mut loader =
            Loader::new(&store, sampler.endless(Cursor::default()).take(25), &config).unwrap();
        for plan in sampler.endless(Cursor::default()).take(25) {
            let batch = loader.next().unwrap().unwrap();
            assert_eq!(batch, direct(&store, &plan, &config));
            loader.give_back(batch);
        }
        assert!(loader.next().is_none());
        assert!(loader.next().is_none());
        assert!(loader.missing_values() > 0);
    }
}

#[test]
fn two_ranks_see_what_one_rank_sees() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(write_store(folder.path(), Encoding::F32, 20));
    let read = |rank, ranks, batch| -> Vec<HostBatch> {
        let sampler = sampler(&store, rank, ranks, batch);
        let plans = sampler.endless(Cursor { epoch: 1, step: 1 }).take(4);
        let loader = Loader::new(&store, plans, &config(&store, 2)).unwrap();
        loader.map(|batch| batch.unwrap()).collect()
    };
    let (alone, first, second) = (read(0, 1, 4), read(0, 2, 2), read(1, 2, 2));
    for ((alone, first), second) in alone.iter().zip(&first).zip(&second) {
        assert_eq!(alone.x, [&first.x[..], &second.x[..]].concat());
        assert_eq!(
            alone.labels,
            [&first.labels[..], &second.labels[..]].concat()
        );
    }
}

#[test]
fn augmentation_changes_with_the_epoch_and_not_with_the_run() {
    let augmentation = Augmentation {
        roll: true,
        mirror: true,
    };
    let views = |epoch| {
        (0..50)
            .map(|id| augmentation.view(1, epoch, id, 1152))
            .collect::<Vec<_>>()
    };
    assert_eq!(views(0), views(0));
    assert_ne!(views(0), views(1));
    let mirrored = views(0).iter().filter(|view| view.mirror).count();
    assert!((10..40).contains(&mirrored), "{mirrored} of 50 mirrored");
    let only_roll = Augmentation {
        mirror: false,
        ..augmentation
    };
    assert_eq!(only_roll.view(1, 0, 7, 1152).roll, views(0)[7].roll);
}

/// A sample that comes twice in one batch's epoch is turned by its own.
#[test]
fn every_sample_is_turned_by_its_own_epoch() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(write_store(folder.path(), Encoding::F32, 6));
    let plan = BatchPlan {
        epochs: vec![0, 1, 5],
        ..BatchPlan::new(Cursor::default(), vec![2, 2, 2])
    };
    let config = config(&store, 1);
    let mut loader = Loader::new(&store, std::iter::once(plan.clone()), &config).unwrap();
    let batch = loader.next().unwrap().unwrap();
    assert_eq!(batch, direct(&store, &plan, &config));
    let samples: Vec<&[f32]> = batch.x.chunks_exact(VALUES).collect();
    assert!(samples[0] != samples[1] || samples[0] != samples[2]);
}

/// The frames of a clip are turned as the first of them is, those of the next clip in another way.
#[test]
fn samples_of_a_clip_are_turned_alike() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(write_store(folder.path(), Encoding::F32, 12));
    let plan = BatchPlan {
        epochs: (0..12).collect(),
        ..BatchPlan::new(Cursor::default(), (0..12).collect())
    };
    let clips = LoaderConfig {
        frames: 2,
        ..config(&store, 1)
    };
    let view = |id: usize| {
        let augmentation = clips.augmentation;
        augmentation.view(clips.seed, id as u64, id, COLUMNS)
    };
    assert!((0..11).any(|id| view(id) != view(id + 1)));
    let mut loader = Loader::new(&store, std::iter::once(plan), &clips).unwrap();
    let batch = loader.next().unwrap().unwrap();
    let reader = store
        .reader(&clips.channels, clips.normalisation.as_ref())
        .unwrap();
    let found = batch.x.chunks_exact(VALUES);
    let found = found.zip(batch.labels.chunks_exact(ROWS * COLUMNS));
    for (id, (found, found_labels)) in found.enumerate() {
        let (mut x, mut labels) = (vec![0.0; VALUES], vec![0; ROWS * COLUMNS]);
        let first = view(id / 2 * 2);
        reader.read_into(id, first, &mut x, &mut labels).unwrap();
        assert!(found == x && found_labels == labels, "{id}: {first:?}");
    }
}

#[test]
fn fields_are_turned_only_on_grids_that_allow_it() {
    let axis = |first: f64, count: i32| -> Vec<f64> {
        (0..count).map(|k| first + 10.0 * f64::from(k)).collect()
    };
    for (lat, lon, can_roll, can_mirror) in [
        (axis(-85.0, 18), axis(0.0, 36), true, true),
        // Without the northernmost row.
        (axis(-85.0, 17), axis(0.0, 36), true, false),
        (axis(-25.0, 6), axis(100.0, 9), false, true),
        (axis(5.0, 6), axis(100.0, 9), false, false),
    ] {
        let grid = LatLonGrid::from_axes(lat, lon).unwrap().0;
        for (roll, mirror) in [(false, false), (true, false), (false, true), (true, true)] {
            let checked = Augmentation { roll, mirror }.check(&grid);
            let is_allowed = (can_roll || !roll) && (can_mirror || !mirror);
            let case = format!("{}: {roll} {mirror}", grid.describe());
            assert_eq!(checked.is_ok(), is_allowed, "{case}");
        }
    }
}

#[test]
fn an_unreadable_sample_is_an_error_at_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(write_store(folder.path(), Encoding::F32, 6));
    let shard = folder.path().join("shard-00001.bin");
    let file = std::fs::File::options().write(true).open(shard).unwrap();
    file.write_all_at(&[0xff; 8], 40).unwrap();
    let plan = |step, ids: &[usize]| BatchPlan::new(Cursor { epoch: 0, step }, ids.to_vec());
    let plans = vec![
        plan(0, &[0, 1]),
        plan(1, &[2, 3]),
        plan(2, &[4, 5]),
        plan(3, &[99]),
        plan(4, &[]),
    ];
    let results: Vec<_> = Loader::new(&store, plans.into_iter(), &config(&store, 2))
        .unwrap()
        .collect();
    assert_eq!(results.len(), 5);
    assert_eq!(results[0].as_ref().unwrap().ids, [0, 1]);
    let error = results[1].as_ref().unwrap_err();
    assert!(
        matches!(error, DataError::Damaged { .. }) && error.to_string().contains("sample 3"),
        "{error}"
    );
    assert_eq!(results[2].as_ref().unwrap().ids, [4, 5]);
    assert!(results[3].is_err());
    assert!(results[4].as_ref().unwrap().is_empty());
}

#[test]
fn a_plan_that_panics_is_an_error_and_no_hang() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(write_store(folder.path(), Encoding::F32, 3));
    let plans = (0..6).map(|step| {
        assert!(step < 2, "a bug in the plan");
        BatchPlan::new(Cursor { epoch: 0, step }, vec![step])
    });
    let results: Vec<_> = Loader::new(&store, plans, &config(&store, 2))
        .unwrap()
        .collect();
    assert_eq!(results.len(), 3);
    assert!(results[0].is_ok() && results[1].is_ok() && results[2].is_err());
}

#[test]
fn dropping_a_loader_stops_its_threads() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(write_store(folder.path(), Encoding::F32, 6));
    for taken in [0, 1, 5] {
        let plans = sampler(&store, 0, 1, 1).endless(Cursor::default());
        let mut loader = Loader::new(&store, plans, &config(&store, 3)).unwrap();
        assert_eq!(
            loader.by_ref().take(taken).filter(Result::is_ok).count(),
            taken
        );
        drop(loader);
        // The threads held the store; they are gone.
        assert_eq!(Arc::strong_count(&store), 1);
    }
}

#[test]
fn impossible_configurations_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(write_store(folder.path(), Encoding::F32, 3));
    let mut unknown = config(&store, 1);
    unknown.channels.push(Variable::Z200);
    let plans = sampler(&store, 0, 1, 1).endless(Cursor::default());
    assert!(Loader::new(&store, plans, &unknown).is_err());
    unknown.normalisation = None;
    let plans = sampler(&store, 0, 1, 1).endless(Cursor::default());
    let error = Loader::new(&store, plans, &unknown).err().unwrap();
    assert!(error.to_string().contains("Z200"), "{error}");
}
