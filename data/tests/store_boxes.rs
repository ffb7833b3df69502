//! Boxes in a sample store.

mod store_support;

use squall_data::loader::{Augmentation, Loader, LoaderConfig};
use squall_data::sampler::{BatchPlan, Cursor};
use squall_data::store::{BOXES_FILE, Encoding, LocalCopy, Store, StoreWriter};
use squall_data::{BoxClass, DataError, GeoBox};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use store_support::{mask, meta, sample, split, write_store};

fn boxes(count: usize) -> Vec<GeoBox> {
    (0..count)
        .map(|k| GeoBox {
            class: BoxClass::ALL[k % 4],
            west_deg: 355.0 + k as f64 / 3.0,
            south_deg: -10.0 / 3.0,
            east_deg: 10.0,
            north_deg: 20.0,
            confidence: (k % 2 == 1).then_some(0.1),
        })
        .collect()
}

/// Three samples: two boxes, unlabelled, nothing there.
fn write(folder: &Path) -> Store {
    let mut writer = StoreWriter::create(folder, meta(Encoding::F32)).unwrap();
    for id in writer.len()..3 {
        writer.push(&sample(id), &mask(id), split(id)).unwrap();
    }
    let all = [Some(boxes(2)), None, Some(vec![])];
    writer.finish_with_boxes(Some(&all)).unwrap()
}

#[test]
fn boxes_come_back_and_an_empty_sample_is_not_an_unlabelled_one() {
    let (with, without) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = write(with.path());
    assert_eq!(store.boxes(0), Some(&boxes(2)[..]));
    assert_eq!((store.boxes(1), store.boxes(2)), (None, Some(&[][..])));
    assert_eq!(store.boxes(3), None);
    assert!(store.has_boxes() && store.boxes_hash().is_some());
    // Nothing else differs from a store without boxes.
    let plain = write_store(without.path(), Encoding::F32, 3);
    assert!(!plain.has_boxes() && plain.boxes_hash().is_none() && plain.boxes(0).is_none());
    assert_eq!(plain.data_hash(), store.data_hash());
    for entry in fs::read_dir(without.path()).unwrap() {
        let path = entry.unwrap().path();
        let other = with.path().join(path.file_name().unwrap());
        assert_eq!(fs::read(&path).unwrap(), fs::read(other).unwrap());
    }
    assert_eq!(
        fs::read_dir(without.path()).unwrap().count() + 1,
        fs::read_dir(with.path()).unwrap().count()
    );
    // Staged anew without boxes, it has none.
    let again = write_store(with.path(), Encoding::F32, 3);
    assert!(!again.has_boxes() && !with.path().join(BOXES_FILE).exists());
}

#[test]
fn a_local_copy_has_them_too() {
    let (source, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = write(source.path());
    let local = LocalCopy::begin(&store, copy.path()).unwrap();
    let samples = BTreeSet::from([0, 2]);
    for &id in &samples {
        local.write(id, &local.read(id).unwrap()).unwrap();
    }
    let local = local.finish(&samples).unwrap();
    assert_eq!(local.boxes(0), store.boxes(0));
    assert_eq!(local.boxes_hash(), store.boxes_hash());
}

/// A network would learn boxes at places where the fields have nothing.
#[test]
fn boxes_are_turned_as_the_fields_around_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = StoreWriter::create(folder.path(), meta(Encoding::F32)).unwrap();
    for id in 0..12 {
        writer.push(&sample(id), &mask(id), split(id)).unwrap();
    }
    // Columns are 30 degrees wide and the first is about 0 E; rows are 20 degrees high, but for half ones at the poles.
    let found = GeoBox {
        west_deg: 15.0,
        south_deg: 20.0,
        east_deg: 75.0,
        north_deg: 60.0,
        ..boxes(1)[0]
    };
    let all = vec![Some(vec![found]); 12];
    let store = Arc::new(writer.finish_with_boxes(Some(&all)).unwrap());
    let augmentation = Augmentation {
        roll: true,
        mirror: true,
    };
    let config = LoaderConfig {
        augmentation,
        seed: 11,
        ..LoaderConfig::new(&store)
    };
    let plan = BatchPlan::new(Cursor { epoch: 2, step: 0 }, (0..12).collect());
    let mut loader = Loader::new(&store, std::iter::once(plan), &config).unwrap();
    let batch = loader.next().unwrap().unwrap();
    let (mut rolled, mut mirrored) = (0, 0);
    for (id, turned) in batch.boxes.iter().enumerate() {
        let view = augmentation.view(11, 2, id, 12);
        rolled += usize::from(view.roll > 0);
        mirrored += usize::from(view.mirror);
        // Columns 1 and 2 move eastward; rows 6 and 7 of 10 become 2 and 3 on the other side of the equator.
        let west = ((1 + view.roll) % 12) as f64;
        let south = if view.mirror { 2.0 } else { 6.0 };
        let turned = turned.as_ref().unwrap()[0];
        let edges = [turned.x_min, turned.x_max, turned.y_min, turned.y_max];
        for (edge, expected) in edges.iter().zip([west, west + 2.0, south, south + 2.0]) {
            assert!((edge - expected).abs() < 1e-9, "{id} {view:?}: {edges:?}");
        }
    }
    assert!(rolled > 0 && mirrored > 0);
}

#[test]
fn damage_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let path = folder.path().join(BOXES_FILE);
    let text = fs::read_to_string(&path).unwrap();
    for (damaged, words) in [
        (text.replacen("20.0", "21.0", 1), "checksum"),
        (
            text.replacen("squall-boxes 1", "squall-boxes 9", 1),
            "another store",
        ),
        (text[..text.len() - 4].to_string(), "checksum"),
        ("nonsense".to_string(), "line 1"),
    ] {
        fs::write(&path, damaged).unwrap();
        let error = Store::open(folder.path()).unwrap_err();
        assert!(matches!(error, DataError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    let mut writer = StoreWriter::create(folder.path(), meta(Encoding::F32)).unwrap();
    assert_eq!(writer.len(), 3);
    writer.push(&sample(3), &mask(3), split(3)).unwrap();
    let error = writer.finish_with_boxes(Some(&[None])).unwrap_err();
    assert!(error.to_string().contains("4 samples, found 1"), "{error}");
}
