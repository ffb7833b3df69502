//! Values as bytes for another process of the same program.
//!
//! CBOR and not JSON, because numbers may be infinite or none at all, and must come back bit for bit.

use crate::error::{DataError, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A value as bytes.
///
/// # Errors
/// [`DataError::Invalid`] if the value has no such form, which would be a bug.
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

/// The value that another process made bytes of.
///
/// # Errors
/// [`DataError::Invalid`] if they are no such value: the processes are of different programs.
pub fn from_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    ciborium::from_reader(bytes)
        .map_err(|error| DataError::Invalid(format!("cannot understand another process: {error}")))
}
