//! Event files for TensorBoard, read back.

mod common;

use common::tensorboard::read_scalars;
use squall_jobs::tensorboard::EventWriter;

#[test]
fn what_is_written_is_read_and_damage_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = EventWriter::create(folder.path(), 1.7e9, 300).unwrap();
    let other = EventWriter::create(folder.path(), 1.7e9, 0).unwrap();
    assert_ne!(writer.path(), other.path());
    let values = [("train/loss", 0.25), ("train/learning_rate", 1e-4)];
    writer.scalars(1.7e9, 301, &values).unwrap();
    writer.scalars(1.7e9, 302, &values[..1]).unwrap();
    let scalars = read_scalars(writer.path()).unwrap();
    let found: Vec<_> = scalars
        .iter()
        .map(|s| (s.step, s.tag.as_str(), s.value))
        .collect();
    assert_eq!(
        found,
        [
            (301, "train/loss", 0.25),
            (301, "train/learning_rate", 1e-4),
            (302, "train/loss", 0.25)
        ]
    );
    let mut bytes = std::fs::read(writer.path()).unwrap();
    let cut = folder.path().join("cut");
    std::fs::write(&cut, &bytes[..bytes.len() - 3]).unwrap();
    assert_eq!(read_scalars(&cut).unwrap().len(), 2);
    let last = bytes.len() - 10;
    bytes[last] ^= 1;
    std::fs::write(&cut, &bytes).unwrap();
    let error = read_scalars(&cut).unwrap_err();
    assert!(error.contains("checksum differs"), "{error}");
}
