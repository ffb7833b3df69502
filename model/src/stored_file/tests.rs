//! Files as they should be, changed ones and hostile ones.

use super::*;
use std::io::Write;
use std::os::fd::AsRawFd;

/// A file of two tensors, one of them of several pieces.
fn made() -> ModelFile {
    let mut file = ModelFile::default();
    let many = 2 * PIECE / size_of::<f32>() + 3;
    let values = (0..many).map(|i| i as f32 / 3.0).collect();
    file.tensors.insert("a".into(), (vec![many], values));
    file.tensors
        .insert("b".into(), (vec![2, 1], vec![-0.0, 1e-40]));
    file.facts.insert("step".into(), "3".into());
    file
}

/// The bytes of a file with this header, followed by `values` bytes.
fn bytes_of(header: &str, values: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.resize(bytes.len() + values, 0);
    bytes
}

#[test]
fn tensors_are_read_where_they_belong() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    let file = made();
    file.write(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let on_disk = StoredFile::open(&path).unwrap();
    // What has taken its place is another file.
    let mut other = made();
    other.facts.insert("step".into(), "4".into());
    other.write(&path).unwrap();
    for stored in [on_disk, StoredFile::of_bytes(&path, &bytes).unwrap()] {
        assert_eq!(stored.names().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(stored.fact("step").unwrap(), "3");
        assert_eq!(stored.shape("b"), Some(&[2, 1][..]));
        assert_eq!(stored.shape("c"), None);
        assert_eq!(stored.values_of("c").unwrap(), None);
        let mut place = [7.0; 4];
        stored.read_into("b", &mut place[1..3]).unwrap();
        let bits = place.map(f32::to_bits);
        assert_eq!(bits, [7.0, -0.0, 1e-40, 7.0].map(f32::to_bits));
        for (name, count) in [("b", 3), ("b", 1), ("c", 1)] {
            let error = stored.read_into(name, &mut place[..count]).unwrap_err();
            assert!(matches!(error, ModelError::Shape { .. }), "{error}");
        }
        assert_eq!(place.map(f32::to_bits), bits, "a refusal changes nothing");
        assert_eq!(stored.to_memory().unwrap().tensors, file.tensors);
    }
}

/// Masks keep the hash of their model: it must not depend on how the file was read.
#[test]
fn the_hash_is_that_of_the_bytes_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    let whole = made().encode(&path).unwrap();
    // Of another program, which wrote the tensors in another order.
    let tensor = |range: &str| format!(r#"{{"dtype":"F32","shape":[2],"data_offsets":{range}}}"#);
    let (first, then) = (tensor("[8,16]"), tensor("[0,8]"));
    let header = format!(r#"{{"__metadata__":{{"squall":"{{}}"}},"a":{first},"b":{then}}}"#);
    let mut turned = bytes_of(&header, 0);
    turned.extend([1.0f32, 2.0, 3.0, f32::NAN].map(f32::to_le_bytes).concat());
    for bytes in [&whole, &turned] {
        let expected = format!("{:032x}", xxhash_rust::xxh3::xxh3_128(bytes));
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(StoredFile::open(&path).unwrap().hash(), expected);
        let in_memory = StoredFile::of_bytes(&path, bytes).unwrap();
        assert_eq!(in_memory.hash(), expected);
    }
    let stored = StoredFile::of_bytes(&path, &turned).unwrap();
    assert_eq!(stored.values_of("b").unwrap(), Some(vec![1.0, 2.0]));
    assert_eq!(stored.first_not_finite(), Some(("a", 1)));
}

#[test]
fn every_changed_value_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    made().write(&path).unwrap();
    let whole = std::fs::read(&path).unwrap();
    for from_end in [1, 8, 9, PIECE, 2 * PIECE + 20] {
        let mut changed = whole.clone();
        changed[whole.len() - from_end] ^= 1;
        std::fs::write(&path, &changed).unwrap();
        let error = StoredFile::open(&path).unwrap_err().to_string();
        assert!(error.contains("checksum"), "{from_end}: {error}");
    }
}

/// What values mean is as much a part of the model as the values.
#[test]
fn every_changed_fact_name_and_shape_is_found() {
    let path = Path::new("m.safetensors");
    let whole = made().encode(path).unwrap();
    StoredFile::of_bytes(path, &whole).unwrap();
    for (written, changed) in [
        (r#"step\":\"3"#, r#"step\":\"4"#),
        (r#"step\":\"3"#, r#"stop\":\"3"#),
        (r#""b":{"#, r#""c":{"#),
        (r#""shape":[2,1]"#, r#""shape":[1,2]"#),
    ] {
        let found = |bytes: &[u8]| bytes == written.as_bytes();
        let at = whole.windows(written.len()).position(found).unwrap();
        let mut bytes = whole.clone();
        bytes[at..at + written.len()].copy_from_slice(changed.as_bytes());
        let error = StoredFile::of_bytes(path, &bytes).unwrap_err().to_string();
        assert!(error.contains("checksum"), "{changed}: {error}");
    }
}

/// Nothing beyond the file's length is read or allocated; error messages equal those of safetensors, which parses the
/// whole file in memory.
#[test]
fn what_a_header_must_not_say_is_refused_in_the_words_of_safetensors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    let tensor = |range: &str, shape: &str| {
        format!(r#"{{"w":{{"dtype":"F32","shape":{shape},"data_offsets":{range}}}}}"#)
    };
    let two = |first: &str, second: &str| {
        let [a, b] = [("a", first), ("b", second)].map(|(name, range)| {
            format!(r#""{name}":{{"dtype":"F32","shape":[2],"data_offsets":{range}}}"#)
        });
        format!("{{{a},{b}}}")
    };
    let prefix = |length: u64| [&length.to_le_bytes()[..], b"{}"].concat();
    for bytes in [
        Vec::new(),
        vec![1; 7],
        prefix(0),
        prefix(3),
        prefix(100_000_001),
        prefix(u64::MAX),
        prefix(u64::MAX - 7),
        bytes_of("no JSON", 0),
        bytes_of("{}", 1),
        bytes_of(&tensor("[0,16]", "[4]"), 12),
        bytes_of(&tensor("[0,16]", "[4]"), 20),
        bytes_of(&tensor("[0,1000000000000]", "[250000000000]"), 16),
        bytes_of(&tensor("[0,16]", "[5]"), 16),
        bytes_of(&tensor("[4,20]", "[4]"), 20),
        bytes_of(&tensor("[16,0]", "[4]"), 16),
        bytes_of(&tensor("[0,16]", "[4611686018427387904,4]"), 16),
        bytes_of(&two("[0,8]", "[4,12]"), 12),
        bytes_of(&two("[0,8]", "[0,4]"), 8),
        bytes_of(&two("[0,8]", "[12,20]"), 20),
    ] {
        std::fs::write(&path, &bytes).unwrap();
        let found = StoredFile::open(&path).unwrap_err();
        assert!(matches!(found, ModelError::File { .. }), "{found:?}");
        let of_safetensors = SafeTensors::read_metadata(&bytes).unwrap_err();
        let expected = format!("no valid safetensors file ({of_safetensors})");
        assert!(found.to_string().contains(&expected), "{found}: {expected}");
        let in_memory = StoredFile::of_bytes(&path, &bytes).unwrap_err();
        assert_eq!(in_memory.to_string(), found.to_string());
    }
    let typed =
        r#"{"__metadata__":{"squall":"{}"},"w":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}}"#;
    std::fs::write(&path, bytes_of(typed, 4)).unwrap();
    let error = StoredFile::open(&path).unwrap_err().to_string();
    assert!(
        error.contains("tensor `w`: expected F32, found F16"),
        "{error}"
    );
    std::fs::write(&path, bytes_of(&tensor("[0,16]", "[4]"), 16)).unwrap();
    let error = StoredFile::open(&path).unwrap_err().to_string();
    assert!(error.contains("no Squall facts"), "{error}");
}

#[test]
fn a_pipe_is_read_once_and_what_is_no_file_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let error = StoredFile::open(folder.path()).unwrap_err();
    assert!(matches!(error, ModelError::Io { .. }), "{error:?}");
    let absent = StoredFile::open(&folder.path().join("absent")).unwrap_err();
    assert!(matches!(absent, ModelError::Io { .. }), "{absent:?}");
    let error = StoredFile::open(Path::new("/dev/null")).unwrap_err();
    assert!(matches!(error, ModelError::File { .. }), "{error:?}");
    let bytes = made().encode(Path::new("pipe")).unwrap();
    let (reader, mut writer) = std::io::pipe().unwrap();
    let writing = std::thread::spawn(move || writer.write_all(&bytes));
    let pipe = format!("/dev/fd/{}", reader.as_raw_fd());
    let stored = StoredFile::open(Path::new(&pipe)).unwrap();
    writing.join().unwrap().unwrap();
    assert_eq!(stored.to_memory().unwrap().tensors, made().tensors);
}

#[test]
fn the_first_tensor_that_is_not_finite_is_named_and_its_values_counted() {
    let mut file = made();
    let find = |file: &ModelFile| {
        let bytes = file.encode(Path::new("here")).unwrap();
        let stored = StoredFile::of_bytes(Path::new("here"), &bytes).unwrap();
        let found = stored.first_not_finite();
        found.map(|(name, count)| (name.to_string(), count))
    };
    assert_eq!(find(&file), None);
    let mut put = |name: &str, at: usize, value| {
        let (_, values) = file.tensors.get_mut(name).unwrap();
        values[at] = value;
        find(&file)
    };
    assert_eq!(put("b", 1, f32::NAN), Some(("b".into(), 1)));
    assert_eq!(put("a", 0, f32::INFINITY), Some(("a".into(), 1)));
    let last = 2 * PIECE / size_of::<f32>() + 2;
    assert_eq!(put("a", last, f32::NAN), Some(("a".into(), 2)));
}

/// A supervisor asks many large files for a number in their facts.
#[test]
fn facts_are_read_without_a_look_at_values() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    let mut bytes = made().encode(&path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    assert!(StoredFile::open(&path).is_err());
    let facts = facts_alone(&path).unwrap();
    assert_eq!(facts.get("step").map(String::as_str), Some("3"));
    std::fs::write(&path, &bytes[..last]).unwrap();
    assert!(facts_alone(&path).is_err());
    assert!(facts_alone(folder.path()).is_err());
}
