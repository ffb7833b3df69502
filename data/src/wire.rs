//! Binary serialisation of values for other processes of the same program, running now or after a restart.
//!
//! CBOR rather than JSON, because numbers may be infinite or NaN, and must be restored bit for bit.

use crate::atomic::Pending;
use crate::error::{DataError, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

/// Serialises a value.
///
/// # Errors
/// [`DataError::Invalid`] if the value cannot be serialised, which would be a bug.
///
/// # Example
/// ```
/// use squall_data::wire;
/// let bytes = wire::to_bytes(&(f64::INFINITY, "none")).unwrap();
/// let back: (f64, String) = wire::from_bytes(&bytes).unwrap();
/// assert_eq!(back, (f64::INFINITY, "none".to_string()));
/// ```
pub fn to_bytes<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    ciborium::into_writer(value, &mut bytes)
        .map_err(|error| DataError::Invalid(format!("cannot send to another process: {error}")))?;
    Ok(bytes)
}

/// Deserialises a value that another process serialised with [`to_bytes`].
///
/// # Errors
/// [`DataError::Invalid`] if the bytes are invalid, because the processes run different programs.
pub fn from_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    ciborium::from_reader(bytes)
        .map_err(|error| DataError::Invalid(format!("cannot understand another process: {error}")))
}

/// A hash of a value, 16 hexadecimal digits.
///
/// # Errors
/// [`DataError::Invalid`] as [`to_bytes`].
///
/// # Example
/// ```
/// use squall_data::wire;
/// let hash = |values: [f64; 2]| wire::hash(&values).unwrap();
/// assert_eq!(hash([1.0, 2.0]), hash([1.0, 2.0]));
/// assert_ne!(hash([1.0, 2.0]), hash([2.0, 1.0]));
/// ```
pub fn hash<T: Serialize>(value: &T) -> Result<String> {
    Ok(format!("{:016x}", xxh3_64(&to_bytes(value)?)))
}

/// Serialises a value to a file atomically, without holding all bytes in memory.
///
/// # Errors
/// [`DataError::Io`] if the file cannot be written; [`DataError::Invalid`] as [`to_bytes`].
pub fn write_file<T: Serialize>(path: impl Into<PathBuf>, value: &T) -> Result<()> {
    let pending = Pending::new(path)?;
    let file = pending.create()?;
    let mut file = BufWriter::new(file);
    ciborium::into_writer(value, &mut file).map_err(|error| match error {
        ciborium::ser::Error::Io(error) => DataError::io("write", pending.path())(error),
        ciborium::ser::Error::Value(text) => DataError::Invalid(text),
    })?;
    (file.flush()).map_err(DataError::io("write", pending.path()))?;
    pending.commit()
}

/// Reads a value written by [`write_file`].
///
/// # Errors
/// [`DataError::Io`] if there is no such file; [`DataError::Invalid`] if it was written by another version of the
/// program, or is truncated.
pub fn read_file<T: DeserializeOwned>(path: impl AsRef<Path>) -> Result<T> {
    let path = path.as_ref();
    let file = File::open(path).map_err(DataError::io("open", path))?;
    ciborium::from_reader(BufReader::new(file)).map_err(|error| {
        DataError::Invalid(format!("cannot understand {}: {error}", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_holds_the_bits_of_a_value_or_none_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.cbor");
        let value: Vec<f64> = (0..10_000).map(|i| f64::from(i) / 7.0).collect();
        write_file(&path, &value).unwrap();
        assert_eq!(read_file::<Vec<f64>>(&path).unwrap(), value);
        assert_eq!(std::fs::read(&path).unwrap(), to_bytes(&value).unwrap());
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        let cut = read_file::<Vec<f64>>(&path).unwrap_err().to_string();
        assert!(cut.contains("state.cbor"), "{cut}");
        assert!(read_file::<Vec<f64>>(folder.path().join("none")).is_err());
    }
}
