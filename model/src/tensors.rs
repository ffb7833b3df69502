//! A source of named tensors, in memory or in a file, that are read one by one into their destination.

use crate::error::{ModelError, Result};
use crate::ops::host;
use crate::parameters::NamedTensors;
use std::path::Path;

/// A source of named f32 tensors: a map in memory, [`crate::FileContents`] or a [`crate::StoredFile`].
pub trait Tensors {
    /// All names, in order.
    fn names(&self) -> impl Iterator<Item = &str>;

    /// The shape of a tensor; `None` if there is no tensor of this name.
    fn shape(&self, name: &str) -> Option<&[usize]>;

    /// Reads a tensor into `values`, which must have its length.
    ///
    /// # Errors
    /// [`ModelError::Shape`] if the length differs or there is no tensor of this name; [`ModelError::Io`] if its file
    /// cannot be read, in which case `values` may be partly overwritten.
    fn read_into(&self, name: &str, values: &mut [f32]) -> Result<()>;

    /// A copy of a tensor's values; `None` if there is no tensor of this name.
    ///
    /// # Errors
    /// [`ModelError::Io`] if its file cannot be read.
    fn values_of(&self, name: &str) -> Result<Option<Vec<f32>>> {
        let Some(shape) = self.shape(name) else {
            return Ok(None);
        };
        let mut values = vec![0.0; shape.iter().product()];
        self.read_into(name, &mut values)?;
        Ok(Some(values))
    }
}

impl Tensors for NamedTensors {
    fn names(&self) -> impl Iterator<Item = &str> {
        self.keys().map(String::as_str)
    }

    fn shape(&self, name: &str) -> Option<&[usize]> {
        self.get(name).map(|(shape, _)| &shape[..])
    }

    fn read_into(&self, name: &str, values: &mut [f32]) -> Result<()> {
        let found: &[f32] = match self.get(name) {
            Some((_, found)) => found,
            None => &[],
        };
        expect_count(values.len(), found.len())?;
        values.copy_from_slice(found);
        Ok(())
    }
}

/// Checks that a buffer has as many values as its tensor.
pub(crate) fn expect_count(expected: usize, found: usize) -> Result<()> {
    host::expect("reading a tensor", "values", expected, found)
}

/// Checks that the tensors read from `path` have every expected name and shape.
///
/// # Errors
/// [`ModelError::MissingWeight`], [`ModelError::WeightShape`].
pub(crate) fn expect_shape(
    path: &Path,
    tensors: &impl Tensors,
    name: &str,
    expected: &[usize],
) -> Result<()> {
    match tensors.shape(name) {
        None => Err(ModelError::MissingWeight {
            path: path.into(),
            name: name.into(),
            expected: expected.into(),
        }),
        Some(found) if found != expected => Err(ModelError::WeightShape {
            path: path.into(),
            name: name.into(),
            expected: expected.into(),
            found: found.into(),
        }),
        Some(_) => Ok(()),
    }
}
