//! Which times become samples of a store, with which masks and boxes, on a global and on a regional grid.

use ndarray::{Array2, Array3};
use squall_data::loader::{Loader, LoaderConfig};
use squall_data::sampler::{LastBatch, Sampler, SamplerConfig};
use squall_data::store::{Selected, Selection, Split, Store, StoreMeta, StoreWriter};
use squall_data::{
    BoxFrames, Calendar, ClassMask, DataError, HostBatch, LatLonGrid, Snapshot, Time, Variable,
    boxes,
};
use std::path::Path;
use std::sync::Arc;

const CHANNELS: [Variable; 1] = [Variable::Psl];

/// Rows of a degree with edges from 10 N to 30 N, columns with edges from 350 E across 0 E to 20 E.
fn region() -> Arc<LatLonGrid> {
    let lat = (0..20).map(|j| 10.5 + f64::from(j)).collect();
    let lon = (0..30).map(|i| 350.5 + f64::from(i)).collect();
    Arc::new(LatLonGrid::from_axes(lat, lon).unwrap().0)
}

fn time(id: usize) -> Time {
    let start = Time::new(Calendar::NoLeap, 2001, 1, 1, 0, 0, 0).unwrap();
    start.add_seconds(6 * 3600 * id as i64)
}

/// Boxes of the first three times; at the second nothing was found, at the third nothing on the grid. Nobody looked at
/// the others.
fn frames(folder: &Path) -> BoxFrames {
    let path = folder.join("boxes.csv");
    let text = format!(
        "class,time,west_deg,south_deg,east_deg,north_deg,confidence,track_id\n\
         tropical_cyclone,{0},355,15,5,25,,\n\
         tropical_cyclone,{0},340,15,355,25,,\n\
         atmospheric_river,{0},15,5,60,20,,\n\
         tropical_cyclone,{0},100,15,110,25,,\n\
         ,{1},,,,,,\n\
         tropical_cyclone,{2},355,-25,5,-15,,\n",
        time(0),
        time(1),
        time(2)
    );
    std::fs::write(&path, text).unwrap();
    boxes::read(&path, &region(), Calendar::NoLeap).unwrap()
}

fn select(frames: &BoxFrames, keep_unlabelled: bool) -> Selection {
    let times: Vec<Time> = (0..6).map(time).collect();
    let mask_at = |wanted: Time| (wanted == time(0) || wanted == time(4)).then_some(7);
    Selection::new(&times, &region(), mask_at, Some(frames), keep_unlabelled).unwrap()
}

/// The fields of a sample: they hold its place among the times.
fn snapshot(chosen: &Selected) -> Snapshot {
    let (rows, columns) = region().shape();
    Snapshot {
        time: chosen.time,
        grid: region(),
        variables: CHANNELS.to_vec(),
        fields: Array3::from_elem((1, rows, columns), chosen.index as f32),
        source: ("fields".into(), chosen.index),
    }
}

/// A mask with one pixel of a cyclone.
fn mask(time: Time) -> ClassMask {
    let mut codes = Array2::zeros(region().shape());
    codes[(3, 4)] = 1;
    ClassMask::new(time, codes).unwrap()
}

/// A store of a selection.
fn write(folder: &Path, selection: &Selection) -> Result<Store, DataError> {
    let meta = StoreMeta::new(region(), Calendar::NoLeap, CHANNELS.to_vec());
    let mut writer = StoreWriter::create(folder, meta)?;
    selection.check_begun(folder, writer.samples(), &[])?;
    for chosen in &selection.samples[writer.len()..] {
        let snapshot = snapshot(chosen);
        match chosen.mask {
            Some(code) => {
                assert_eq!(code, 7);
                writer.push(&snapshot, &mask(chosen.time), Split::Train)?;
            }
            None => writer.push_without_mask(&snapshot, Split::Train)?,
        }
    }
    writer.finish_with_boxes(Some(&selection.boxes()))
}

/// All samples of a store as one batch.
fn batch(store: Store) -> HostBatch {
    let store = Arc::new(store);
    let config = SamplerConfig {
        shuffle: None,
        rank: 0,
        ranks: 1,
        batch: store.len(),
        last: LastBatch::Keep,
    };
    let sampler = Sampler::new((0..store.len()).collect(), config).unwrap();
    let plans: Vec<_> = sampler.epoch(Default::default()).collect();
    let config = LoaderConfig::new(&store);
    let mut loader = Loader::new(&store, plans.into_iter(), &config).unwrap();
    loader.next().unwrap().unwrap()
}

#[test]
fn boxes_are_cut_at_the_edges_of_a_region_and_left_out_beyond() {
    let folder = tempfile::tempdir().unwrap();
    let selection = select(&frames(folder.path()), false);
    assert_eq!((selection.cut, selection.outside), (2, 2));
    let store = write(&folder.path().join("store"), &selection).unwrap();
    let first = store.boxes(0).unwrap();
    let edges: Vec<[f64; 4]> = (first.iter())
        .map(|b| [b.west_deg, b.south_deg, b.east_deg, b.north_deg])
        .collect();
    let expected = [
        [355.0, 15.0, 5.0, 25.0],
        [350.0, 15.0, 355.0, 25.0],
        [15.0, 10.0, 20.0, 20.0],
    ];
    for (edges, expected) in edges.iter().flatten().zip(expected.as_flattened()) {
        assert!((edges - expected).abs() < 1e-9, "{edges} {expected}");
    }
    assert_eq!((edges.len(), edges[0]), (3, expected[0]));
    // Looked at, and nothing there: that is a label, too.
    assert_eq!(
        (store.boxes(1), store.boxes(2)),
        (Some(&[][..]), Some(&[][..]))
    );
    let read = batch(store).boxes;
    let pixels: Vec<[f64; 4]> = (read[0].as_ref().unwrap().iter())
        .map(|b| [b.x_min, b.x_max, b.y_min, b.y_max])
        .collect();
    let expected = [
        [5.0, 15.0, 5.0, 15.0],
        [0.0, 5.0, 5.0, 15.0],
        [25.0, 30.0, 0.0, 10.0],
    ];
    for (pixel, expected) in pixels.iter().flatten().zip(expected.as_flattened()) {
        assert!((pixel - expected).abs() < 1e-9, "{pixels:?}");
    }
}

#[test]
fn times_without_masks_become_samples_that_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let frames = frames(folder.path());
    for (keep, indices) in [(false, &[0, 1, 2, 4][..]), (true, &[0, 1, 2, 3, 4, 5])] {
        let selection = select(&frames, keep);
        let found: Vec<usize> = selection.samples.iter().map(|s| s.index).collect();
        assert_eq!((&found[..], selection.unlabelled), (indices, 2));
        assert_eq!(selection.masked(), 2);
        let store = write(&folder.path().join(format!("store{keep}")), &selection).unwrap();
        let masked: Vec<usize> = (0..store.len())
            .filter(|&id| [0, 4].contains(&indices[id]))
            .collect();
        assert_eq!(store.masked_ids(Split::Train), masked);
        assert!(store.masked_ids(Split::Test).is_empty());
        // Pixels of the two masks, and of nothing else.
        assert_eq!(store.class_counts(Split::Train), [2 * 599, 2, 0]);
        assert_eq!(store.statistics().samples, indices.len() as u64);
        for (id, index) in indices.iter().enumerate() {
            assert_eq!(store.boxes(id).is_some(), *index < 3, "{index}");
            match (store.read_mask(id), masked.contains(&id)) {
                (Ok(mask), true) => assert_eq!(mask.pixel_counts(), [599, 1, 0]),
                (Err(error), false) => {
                    assert!(error.to_string().contains("has no mask"), "{error}");
                }
                (read, _) => panic!("sample {id}: {read:?}"),
            }
        }
        assert!(store.verify().unwrap().problems.is_empty());
        let batch = batch(store);
        for (id, labels) in batch.labels.chunks_exact(600).enumerate() {
            let unknown = labels.iter().filter(|&&code| code == 255).count();
            assert_eq!(unknown, if masked.contains(&id) { 0 } else { 600 });
            assert_eq!(batch.x[600 * id], indices[id] as f32);
        }
    }
}

#[test]
fn a_store_of_other_samples_is_not_continued() {
    let folder = tempfile::tempdir().unwrap();
    let frames = frames(folder.path());
    let out = folder.path().join("store");
    let hash = |store: Store| store.data_hash().to_string();
    let first = hash(write(&out, &select(&frames, false)).unwrap());
    assert_eq!(hash(write(&out, &select(&frames, false)).unwrap()), first);
    let error = write(&out, &select(&frames, true)).unwrap_err().to_string();
    for words in ["there already", "as sample 3", "without a mask", "store"] {
        assert!(error.contains(words), "{error}");
    }
}

/// Of a store whose boxes were written without looking at its grid.
#[test]
fn a_box_off_the_grid_names_its_sample() {
    let folder = tempfile::tempdir().unwrap();
    let mut selection = select(&frames(folder.path()), false);
    let off = boxes::GeoBox {
        west_deg: 100.0,
        east_deg: 110.0,
        ..selection.samples[0].boxes.as_ref().unwrap()[0]
    };
    selection.samples[1].boxes = Some(vec![off]);
    let store = Arc::new(write(&folder.path().join("store"), &selection).unwrap());
    let config = SamplerConfig {
        shuffle: None,
        rank: 0,
        ranks: 1,
        batch: 1,
        last: LastBatch::Keep,
    };
    let sampler = Sampler::new((0..3).collect(), config).unwrap();
    let plans: Vec<_> = sampler.epoch(Default::default()).collect();
    let config = LoaderConfig::new(&store);
    let read: Vec<_> = Loader::new(&store, plans.into_iter(), &config)
        .unwrap()
        .collect();
    let error = read[1].as_ref().unwrap_err().to_string();
    for words in ["2001-01-01T06:00:00", "outside the grid", "box 0", "store"] {
        assert!(error.contains(words), "{error}");
    }
    assert!(read[0].is_ok() && read[2].is_ok());
}

/// What is there was dealt once: other shares or another seed would silently keep it.
#[test]
fn a_store_is_not_gone_on_with_under_other_splits() {
    let folder = tempfile::tempdir().unwrap();
    let selection = select(&frames(folder.path()), false);
    let place = folder.path().join("store");
    write(&place, &selection).unwrap();
    let meta = StoreMeta::new(region(), Calendar::NoLeap, CHANNELS.to_vec());
    let writer = StoreWriter::create(&place, meta).unwrap();
    let same: Vec<Split> = writer.samples().iter().map(|entry| entry.split).collect();
    let check = |splits: &[Split]| selection.check_begun(&place, writer.samples(), splits);
    check(&same).unwrap();
    let mut other = same.clone();
    other[1] = Split::Test;
    assert_ne!(same, other);
    let said = check(&other).unwrap_err().to_string();
    assert!(
        said.contains("split") && said.contains("test") && said.contains("sample 1"),
        "{said}"
    );
}

#[test]
fn a_store_tells_whether_a_sample_or_boxes_are_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let selection = select(&frames(folder.path()), false);
    let place = folder.path().join("store");
    let store = write(&place, &selection).unwrap();
    let mut boxes = selection.boxes();
    assert!(store.has_these_boxes(&boxes).unwrap());
    boxes[1] = None;
    assert!(!store.has_these_boxes(&boxes).unwrap());

    let meta = StoreMeta::new(region(), Calendar::NoLeap, CHANNELS.to_vec());
    let mut writer = StoreWriter::create(&place, meta).unwrap();
    let there = writer.samples().to_vec();
    for (chosen, entry) in selection.samples.iter().zip(&there) {
        let own = chosen.mask.map(|_| mask(chosen.time));
        let mut read = snapshot(chosen);
        let found = writer.checksum_of(&read, own.as_ref()).unwrap();
        assert_eq!(found, entry.checksum);
        let other = own.is_none().then(|| mask(chosen.time));
        let found = writer.checksum_of(&read, other.as_ref()).unwrap();
        assert_ne!(found, entry.checksum);
        read.fields[(0, 0, 0)] += 1.0;
        let found = writer.checksum_of(&read, own.as_ref()).unwrap();
        assert_ne!(found, entry.checksum);
    }
    assert_eq!(writer.len(), there.len());
}
