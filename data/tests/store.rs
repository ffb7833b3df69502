//! A store gives back what was put in, says what is damaged, and survives its writer.

mod store_support;

use ndarray::{Array2, Array3};
use squall_data::channel_source::{ChannelSource, ChannelSources, How};
use squall_data::class_weights::ClassWeighting;
use squall_data::normalise::NormalisationMethod;
use squall_data::store::{Encoding, LocalCopy, Split, Store, StoreMeta, StoreWriter, View};
use squall_data::{Calendar, ClassMask, DataError, LatLonGrid, Snapshot, Variable};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use store_support::{CHANNELS, COLUMNS, ROWS, mask, meta, sample, split, write_store};

const PIXELS: usize = ROWS * COLUMNS;

/// `(lat, lon, channel)` of a sample in store order, straight from its snapshot.
fn expected(id: usize) -> Vec<f32> {
    let snapshot = sample(id);
    let mut values = Vec::new();
    for j in 0..ROWS {
        for i in 0..COLUMNS {
            values.extend(CHANNELS.map(|v| snapshot.field(v).unwrap()[[j, i]]));
        }
    }
    values
}

/// All fields of a sample, its labels, and how many values are missing.
fn read(store: &Arc<Store>, id: usize) -> Result<(Vec<f32>, Vec<u8>, usize), DataError> {
    let reader = store.reader(store.channels(), None)?;
    let (mut x, mut labels) = (vec![0.0; PIXELS * CHANNELS.len()], vec![0; PIXELS]);
    let missing = reader.read_into(id, View::default(), &mut x, &mut labels)?;
    Ok((x, labels, missing))
}

#[test]
fn what_was_pushed_is_read_back_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(write_store(folder.path(), Encoding::F32, 7));
    assert_eq!(store.len(), 7);
    assert_eq!(store.channels(), CHANNELS);
    for id in 0..7 {
        let (x, labels, missing) = read(&store, id).unwrap();
        let expected = expected(id);
        assert_eq!(missing, expected.iter().filter(|v| v.is_nan()).count());
        for (k, (found, expected)) in x.iter().zip(&expected).enumerate() {
            if expected.is_nan() {
                let mean = store.statistics().channels[k % CHANNELS.len()].mean as f32;
                assert_eq!(*found, mean);
            } else {
                assert_eq!(found.to_bits(), expected.to_bits());
            }
        }
        assert!(labels.iter().eq(mask(id).codes.iter()));
        assert_eq!(store.read_mask(id).unwrap(), mask(id));
        assert_eq!(store.times()[id], sample(id).time);
        assert_eq!(store.samples()[id].class_counts, mask(id).pixel_counts());
        assert_eq!(store.samples()[id].missing, missing as u64);
    }
    let ids: Vec<Vec<usize>> = Split::ALL.iter().map(|&s| store.ids(s)).collect();
    assert_eq!(ids.concat().len(), 7);
    assert!(ids[1].iter().all(|&id| split(id) == Split::Validation));
}

/// Records of several pieces, whose rows have more than one block of columns, as those of models have: no other test's do.
#[test]
fn large_records_are_written_and_read_in_pieces() {
    let (rows, columns, all) = (100, 120, Variable::CHANNELS);
    let grid = Arc::new(LatLonGrid::global(rows, columns).unwrap());
    // It tells its place.
    let value = |c: usize, j: usize, i: usize| (c * 100_000 + j * 1000 + i) as f32;
    let time = sample(0).time;
    let snapshot = Snapshot {
        time,
        grid: Arc::clone(&grid),
        variables: all.to_vec(),
        fields: Array3::from_shape_fn((16, rows, columns), |(c, j, i)| value(c, j, i)),
        source: ("large.nc".into(), 0),
    };
    let codes = Array2::from_shape_fn((rows, columns), |(j, i)| ((7 * j + i) % 3) as u8);
    let mask = ClassMask::new(time, codes.clone()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let meta = StoreMeta::new(grid, time.calendar(), all.to_vec());
    let mut writer = StoreWriter::create(folder.path(), meta).unwrap();
    writer.push(&snapshot, &mask, Split::Train).unwrap();
    let store = Arc::new(writer.finish().unwrap());
    assert!(store.verify().unwrap().problems.is_empty());
    for wanted in [(0..16).collect::<Vec<usize>>(), vec![14, 2, 7]] {
        let channels: Vec<Variable> = wanted.iter().map(|&c| all[c]).collect();
        let reader = store.reader(&channels, None).unwrap();
        let n = wanted.len();
        let (mut x, mut labels) = (vec![0.0; rows * columns * n], vec![0; rows * columns]);
        for (roll, mirror) in [(0, false), (7, false), (50, true)] {
            let view = View { roll, mirror };
            let missing = reader.read_into(0, view, &mut x, &mut labels).unwrap();
            assert_eq!(missing, 0);
            for (place, pixel) in x.chunks_exact(n).enumerate() {
                let (j, i) = (place / columns, place % columns);
                let j = if mirror { rows - 1 - j } else { j };
                let i = (i + columns - roll) % columns;
                assert_eq!(labels[place], codes[[j, i]], "{view:?}: ({j}, {i})");
                for (found, &c) in pixel.iter().zip(&wanted) {
                    let is_turned = mirror && all[c].is_meridional();
                    let sign = if is_turned { -1.0 } else { 1.0 };
                    assert_eq!(*found, sign * value(c, j, i), "{view:?}: {c} ({j}, {i})");
                }
            }
        }
    }
}

#[test]
fn half_precision_keeps_the_promised_error() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(write_store(folder.path(), Encoding::F16, 3));
    let (x, _, _) = read(&store, 1).unwrap();
    // Half the plausible range of each channel, or all of it on one side of 0, in 4096 parts; and the rounding of f32.
    let ranges = [12_500.0, 120.0, 2e-4, 120.0, 55.0];
    for (k, (found, expected)) in x.iter().zip(&expected(1)).enumerate() {
        let c = k % CHANNELS.len();
        if !expected.is_nan() {
            let error = f64::from((found - expected).abs());
            assert!(
                error <= 1.01 * ranges[c] / 4096.0,
                "{}: {found} instead of {expected}",
                CHANNELS[c]
            );
        }
    }
}

#[test]
fn statistics_are_those_of_training_samples_only() {
    let folder = tempfile::tempdir().unwrap();
    let store = write_store(folder.path(), Encoding::F32, 9);
    let training: Vec<usize> = (0..9).filter(|&id| split(id) == Split::Train).collect();
    assert_eq!(store.statistics().samples, training.len() as u64);
    for (c, variable) in CHANNELS.into_iter().enumerate() {
        let values: Vec<f64> = training
            .iter()
            .flat_map(|&id| expected(id).into_iter().skip(c).step_by(CHANNELS.len()))
            .filter(|v| !v.is_nan())
            .map(f64::from)
            .collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64;
        let found = store.statistics().channel(variable).unwrap();
        assert_eq!(found.count, values.len() as u64);
        assert!((found.mean - mean).abs() <= 1e-12 * mean.abs());
        assert!((found.std() - variance.sqrt()).abs() <= 1e-9 * variance.sqrt());
        assert_eq!(found.max, values.iter().copied().fold(f64::MIN, f64::max));
    }
    let mut counts = [0; 3];
    for &id in &training {
        let of_mask = mask(id).pixel_counts();
        (0..3).for_each(|k| counts[k] += of_mask[k]);
    }
    assert_eq!(store.class_counts(Split::Train), counts);
    let weighting = ClassWeighting::InverseSqrt;
    let weights = weighting.weights(&counts).unwrap();
    assert_eq!(store.class_weights(weighting).unwrap(), weights);
}

#[test]
fn fused_reading_equals_normalising_afterwards() {
    for encoding in [Encoding::F32, Encoding::F16] {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(write_store(folder.path(), encoding, 4));
        for method in [NormalisationMethod::MeanStd, NormalisationMethod::MinMax] {
            let normalisation = store.normalisation(method).unwrap();
            // A subset in another order, too.
            for channels in [&CHANNELS[..], &[Variable::Vbot, Variable::Tmq][..]] {
                let reader = store.reader(channels, Some(&normalisation)).unwrap();
                let raw = store.reader(channels, None).unwrap();
                let mut fused = vec![0.0; PIXELS * channels.len()];
                let (mut later, mut labels) = (fused.clone(), vec![0; PIXELS]);
                let view = View::default();
                reader.read_into(2, view, &mut fused, &mut labels).unwrap();
                raw.read_into(2, view, &mut later, &mut labels).unwrap();
                let chosen = normalisation.select(channels).unwrap();
                chosen.apply(&mut later).unwrap();
                for (fused, later) in fused.iter().zip(&later) {
                    assert!((fused - later).abs() < 2e-4, "{fused} and {later}");
                }
            }
        }
    }
}

#[test]
fn a_view_rolls_and_mirrors_fields_and_labels_alike() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(write_store(folder.path(), Encoding::F32, 2));
    let reader = store.reader(&CHANNELS, None).unwrap();
    let n = CHANNELS.len();
    let read = |view| {
        let (mut x, mut labels) = (vec![0.0; PIXELS * n], vec![0; PIXELS]);
        reader.read_into(1, view, &mut x, &mut labels).unwrap();
        (x, labels)
    };
    let (plain, plain_labels) = read(View::default());
    for (roll, mirror) in [(3, false), (0, true), (5, true), (COLUMNS, false)] {
        let (x, labels) = read(View { roll, mirror });
        for j in 0..ROWS {
            for i in 0..COLUMNS {
                let source_row = if mirror { ROWS - 1 - j } else { j };
                let source = source_row * COLUMNS + (i + COLUMNS - roll % COLUMNS) % COLUMNS;
                assert_eq!(labels[j * COLUMNS + i], plain_labels[source]);
                for (c, variable) in CHANNELS.into_iter().enumerate() {
                    let turned = mirror && matches!(variable, Variable::V850 | Variable::Vbot);
                    let sign = if turned { -1.0 } else { 1.0 };
                    let found = x[(j * COLUMNS + i) * n + c];
                    // Where it was missing stands the mean, which keeps its sign.
                    let was_missing =
                        sample(1).field(variable).unwrap().as_slice().unwrap()[source].is_nan();
                    let expected = if was_missing {
                        plain[source * n + c]
                    } else {
                        sign * plain[source * n + c]
                    };
                    assert_eq!(found, expected, "{variable} at ({j}, {i})");
                }
            }
        }
    }
}

/// Its finished shards had been overwritten, because it has no index yet.
#[test]
fn a_local_copy_takes_no_folder_in_which_another_store_is_being_staged() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let source = write_store(&at("store"), Encoding::F32, 7);
    let mut begun = StoreWriter::create(at("begun"), meta(Encoding::F32)).unwrap();
    for id in 10..13 {
        begun.push(&sample(id), &mask(id), split(id)).unwrap();
    }
    drop(begun);
    let shard = at("begun").join("shard-00000.bin");
    let before = fs::read(&shard).unwrap();
    let error = LocalCopy::begin(&source, &at("begun")).unwrap_err();
    assert!(error.to_string().contains("holds another store"), "{error}");
    assert_eq!(fs::read(&shard).unwrap(), before);
    // A copy whose writer was killed before its index was there goes on.
    let all: BTreeSet<usize> = (0..7).collect();
    let copy = LocalCopy::begin(&source, &at("copy")).unwrap();
    for &id in &all {
        copy.write(id, &copy.read(id).unwrap()).unwrap();
    }
    copy.finish(&all).unwrap();
    fs::remove_file(at("copy").join("store.json")).unwrap();
    let again = LocalCopy::begin(&source, &at("copy")).unwrap();
    assert_eq!(again.holds(&[0, 3, 6]).unwrap(), [true; 3]);
}

/// It had been taken for another store.
#[test]
fn a_local_copy_that_lost_shards_is_made_whole() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let source = write_store(&at("store"), Encoding::F32, 7);
    let all: BTreeSet<usize> = (0..7).collect();
    let copy = LocalCopy::begin(&source, &at("copy")).unwrap();
    for &id in &all {
        copy.write(id, &copy.read(id).unwrap()).unwrap();
    }
    copy.finish(&all).unwrap();
    // Samples 0 to 2 are cut behind the first, 3 to 5 are gone.
    let cut = fs::File::options()
        .write(true)
        .open(at("copy/shard-00000.bin"));
    cut.unwrap().set_len(source.meta().record_bytes()).unwrap();
    fs::remove_file(at("copy/shard-00001.bin")).unwrap();
    let copy = LocalCopy::begin(&source, &at("copy")).unwrap();
    let ids = [0, 1, 2, 3, 4, 5, 6];
    let held = copy.holds(&ids).unwrap();
    assert_eq!(held, [true, false, false, false, false, false, true]);
    for id in (0..7).filter(|&id| !held[id]) {
        copy.write(id, &copy.read(id).unwrap()).unwrap();
    }
    let whole = copy.finish(&all).unwrap().verify().unwrap();
    assert_eq!((whole.samples, whole.problems.len()), (7, 0));
}

/// A local copy of such a store had enlarged or cut what lies there.
#[test]
fn shards_lie_in_the_folder_of_their_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    write_store(&store, Encoding::F32, 5);
    let index = store.join("store.json");
    let text = fs::read_to_string(&index).unwrap();
    fs::copy(
        store.join("shard-00001.bin"),
        folder.path().join("outside.bin"),
    )
    .unwrap();
    let outside = folder.path().join("outside.bin");
    for name in [
        "../outside.bin",
        outside.to_str().unwrap(),
        "shard-00000.bin",
    ] {
        fs::write(&index, text.replace("shard-00001.bin", name)).unwrap();
        let error = Store::open(&store).unwrap_err();
        assert!(matches!(error, DataError::Damaged { .. }), "{error}");
        let said = error.to_string();
        assert!(
            said.contains(name) && said.contains("shard-00001.bin"),
            "{said}"
        );
    }
}

#[test]
fn a_killed_writer_loses_only_its_unfinished_shard() {
    let (whole, killed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let reference = write_store(whole.path(), Encoding::F32, 8);
    let mut writer = StoreWriter::create(killed.path(), meta(Encoding::F32)).unwrap();
    (0..5).for_each(|id| writer.push(&sample(id), &mask(id), split(id)).unwrap());
    // As after kill -9: no destructor runs, the temporary file stays.
    std::mem::forget(writer);
    let unfinished = || {
        let names = fs::read_dir(killed.path()).unwrap();
        names
            .filter(|f| {
                f.as_ref()
                    .unwrap()
                    .file_name()
                    .to_string_lossy()
                    .ends_with(".tmp")
            })
            .count()
    };
    assert_eq!(unfinished(), 1);
    assert!(matches!(
        Store::open(killed.path()),
        Err(DataError::NoStore {
            unfinished: true,
            ..
        })
    ));
    let mut writer = StoreWriter::create(killed.path(), meta(Encoding::F32)).unwrap();
    assert_eq!(unfinished(), 0);
    // Shards hold 3 samples.
    assert_eq!(writer.len(), 3);
    assert_eq!(writer.samples()[2].time, sample(2).time.to_string());
    (writer.len()..8).for_each(|id| writer.push(&sample(id), &mask(id), split(id)).unwrap());
    let resumed = writer.finish().unwrap();
    assert_eq!(resumed.data_hash(), reference.data_hash());
    for name in [
        "store.json",
        "shard-00000.bin",
        "shard-00001.bin",
        "shard-00002.bin",
    ] {
        let read = |folder: &std::path::Path| fs::read(folder.join(name)).unwrap();
        assert_eq!(read(killed.path()), read(whole.path()), "{name}");
    }
}

#[test]
fn every_flipped_byte_is_noticed_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let store = write_store(folder.path(), Encoding::F32, 5);
    assert!(store.verify().unwrap().problems.is_empty());
    let path = folder.path().join("shard-00001.bin");
    let file = fs::File::options()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    let record = store.meta().record_bytes();
    let label_start = (PIXELS * CHANNELS.len() * 4) as u64;
    // Sample 4 is the second of the second shard: in its fields, its last field byte, its labels.
    for offset in [17, label_start - 1, label_start + 5] {
        let at = record + offset;
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
        let fresh = Arc::new(Store::open(folder.path()).unwrap());
        read(&fresh, 3).unwrap();
        fresh.read_mask(3).unwrap();
        let error = fresh.read_mask(4).unwrap_err();
        assert!(matches!(error, DataError::Damaged { .. }), "{error}");
        let error = read(&fresh, 4).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, DataError::Damaged { .. }), "{text}");
        assert!(
            text.contains("shard-00001.bin") && text.contains("sample 4"),
            "{text}"
        );
        assert_eq!(fresh.verify().unwrap().problems.len(), 1);
        file.write_all_at(&byte, at).unwrap();
    }
}

#[test]
fn broken_stores_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    write_store(folder.path(), Encoding::F32, 5);
    let index = folder.path().join("store.json");
    let text = fs::read_to_string(&index).unwrap();
    let open = || Store::open(folder.path()).unwrap_err();

    fs::write(&index, text.replace("\"version\":1", "\"version\":9")).unwrap();
    let error = open();
    assert!(
        matches!(
            error,
            DataError::Mismatch {
                what: "store version",
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("squall-store 9"));
    for broken in [
        &text[..text.len() / 2],
        "[]",
        &text.replacen("validation", "train", 1),
    ] {
        fs::write(&index, broken).unwrap();
        assert!(matches!(open(), DataError::Damaged { .. }), "{}", open());
    }
    fs::write(&index, &text).unwrap();

    let shard = folder.path().join("shard-00001.bin");
    let bytes = fs::read(&shard).unwrap();
    fs::write(&shard, &bytes[..bytes.len() - 1]).unwrap();
    let error = open();
    assert!(matches!(error, DataError::Damaged { .. }));
    assert!(
        error.to_string().contains("shard-00001.bin") && error.to_string().contains("truncated")
    );
    assert!(StoreWriter::create(folder.path(), meta(Encoding::F32)).is_err());
    fs::write(&shard, &bytes).unwrap();
    // Another layout cannot continue it.
    let changes: [fn(&mut StoreMeta); 5] = [
        |other| other.encoding = Encoding::F16,
        |other| other.calendar = Calendar::Standard,
        |other| other.channels.swap(0, 1),
        |other| other.shard_bytes *= 2,
        |other| other.grid = moved_grid(),
    ];
    for (which, change) in changes.iter().enumerate() {
        let mut other = meta(Encoding::F32);
        change(&mut other);
        let error = StoreWriter::create(folder.path(), other).err();
        assert!(
            matches!(error, Some(DataError::Mismatch { .. })),
            "{which}: {error:?}"
        );
    }
    assert!(StoreWriter::create(folder.path(), meta(Encoding::F32)).is_ok());
}

/// As many rows and columns as the samples have, elsewhere.
fn moved_grid() -> Arc<LatLonGrid> {
    let grid = sample(0).grid;
    let lon = grid.lon_deg().iter().map(|lon| lon + 10.0).collect();
    Arc::new(
        LatLonGrid::from_axes(grid.lat_deg().to_vec(), lon)
            .unwrap()
            .0,
    )
}

#[test]
fn wrong_samples_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = StoreWriter::create(folder.path(), meta(Encoding::F32)).unwrap();
    assert!(writer.push(&sample(0), &mask(1), Split::Train).is_err());
    let mut lacking = sample(0);
    lacking.variables[1] = Variable::Zbot;
    let error = writer.push(&lacking, &mask(0), Split::Train).unwrap_err();
    assert!(
        matches!(error, DataError::MissingVariable { .. }),
        "{error}"
    );
    let mut wrong = mask(0);
    wrong.codes[[1, 1]] = 7;
    assert!(writer.push(&sample(0), &wrong, Split::Train).is_err());
    let mut elsewhere = sample(0);
    elsewhere.grid = moved_grid();
    let mut leap = sample(0);
    leap.time = leap.time.in_calendar(Calendar::Standard).unwrap();
    let mut turned = mask(0);
    turned.codes = turned.codes.reversed_axes();
    for (sample, mask, wrong) in [
        (&elsewhere, &mask(0), "grid"),
        (&leap, &mask(0), "calendar"),
        (&sample(0), &turned, "shape of the mask"),
        (&sample(0), &mask(1), "time of the mask"),
    ] {
        let error = writer.push(sample, mask, Split::Train).unwrap_err();
        assert!(
            matches!(&error, DataError::Mismatch { what, .. } if *what == wrong),
            "{wrong}: {error}"
        );
    }
    assert!(writer.is_empty());
    assert!(writer.finish().is_err());
}

/// Stores of earlier versions tell no sources, and are the same data.
#[test]
fn sources_of_channels_are_kept_and_change_no_data() {
    let folder = tempfile::tempdir().unwrap();
    let plain = write_store(&folder.path().join("plain"), Encoding::F32, 4);
    assert!(plain.sources().is_empty());
    let index = |store: &Store| fs::read_to_string(store.folder().join("store.json")).unwrap();
    assert!(!index(&plain).contains("\"sources\""));
    let total_water = ChannelSource {
        variable: Some("prw".into()),
        how: How::Read,
    };
    let of_water = BTreeSet::from([total_water]);
    let sources = ChannelSources::from([(Variable::Tmq, of_water)]);
    let at = folder.path().join("told");
    // Begun by a writer that ended after the first shard, of three samples.
    let mut writer = StoreWriter::create(&at, meta(Encoding::F32)).unwrap();
    for id in 0..3 {
        writer.push(&sample(id), &mask(id), split(id)).unwrap();
    }
    drop(writer);
    let mut writer = StoreWriter::create(&at, meta(Encoding::F32)).unwrap();
    assert_eq!(writer.len(), 3);
    writer.push(&sample(3), &mask(3), split(3)).unwrap();
    writer.set_sources(sources.clone());
    let told = writer.finish().unwrap();
    assert_eq!(told.sources(), &sources);
    assert_eq!(told.data_hash(), plain.data_hash());
    let part = r#""sources":{"TMQ":[{"variable":"prw","how":"read"}]},"#;
    assert_eq!(index(&told).replace(part, ""), index(&plain));
}

/// Of a column at 0°E that had been the last one, as f32 has it at 360.
#[test]
fn a_store_whose_axes_begin_elsewhere_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    drop(write_store(folder.path(), Encoding::F16, 2));
    let path = folder.path().join("store.json");
    let mut index: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let lon = index["lon_deg"].as_array_mut().unwrap();
    lon.rotate_left(1);
    lon[COLUMNS - 1] = 359.999_985_f64.into();
    fs::write(&path, index.to_string()).unwrap();
    let error = Store::open(folder.path()).err().unwrap().to_string();
    assert!(error.contains("not in the order of a grid"), "{error}");
}
