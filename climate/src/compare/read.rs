//! Reads a comparison from its files.

use crate::compare::{Comparison, MapChange, MapQuantity};
use crate::error::{ClimateError, Result};
use crate::statistics::coarse::COARSE_CELLS;
use squall_data::archive::on_library_thread;
use squall_data::{Class, DataError};
use std::path::Path;

/// The file that marks a folder as a comparison. It is removed before the others are written, and written after them.
pub(super) const NUMBERS: &str = "changes.json";

impl Comparison {
    /// Whether a folder contains a comparison written by [`Self::write`].
    pub fn is_in(folder: impl AsRef<Path>) -> bool {
        folder.as_ref().join(NUMBERS).is_file()
    }

    /// Reads a comparison written by [`Self::write`], with its maps.
    ///
    /// # Errors
    /// [`ClimateError::Data`] if `changes.json` or `maps.nc` cannot be read; [`ClimateError::Invalid`], naming the
    /// file, if its format is not that of this version.
    pub fn read(folder: impl AsRef<Path>) -> Result<Self> {
        let folder = folder.as_ref();
        let path = folder.join(NUMBERS);
        let text = std::fs::read(&path).map_err(DataError::io("read", &path))?;
        let mut comparison: Self = serde_json::from_slice(&text).map_err(|error| {
            ClimateError::Invalid(format!(
                "`{}` is not a comparison of this version: {error}",
                path.display()
            ))
        })?;
        let path = folder.join("maps.nc");
        comparison.map_changes = on_library_thread(|| maps(&path)).map_err(|error| {
            ClimateError::Data(DataError::Io {
                action: "read",
                path: path.clone(),
                source: std::io::Error::other(error.to_string()),
            })
        })?;
        Ok(comparison)
    }
}

/// The maps of a file, in the order in which they were written. A class without any value was not compared.
fn maps(path: &Path) -> std::result::Result<Vec<MapChange>, netcdf::Error> {
    let file = netcdf::open(path)?;
    let mut found = Vec::new();
    for quantity in MapQuantity::ALL {
        let name = quantity.name();
        for (index, class) in Class::EVENTS.into_iter().enumerate() {
            let part = |ending: &str| -> std::result::Result<Vec<f64>, netcdf::Error> {
                match file.variable(&format!("{name}_{ending}")) {
                    Some(variable) => variable.get_values((index, .., ..)),
                    None => Ok(Vec::new()),
                }
            };
            let map = MapChange {
                quantity,
                class,
                a: part("a")?,
                b: part("b")?,
                difference: part("difference")?,
                low: part("low")?,
                high: part("high")?,
                p: part("p")?,
                adjusted_p: part("adjusted_p")?,
            };
            let whole =
                map.difference.len() == COARSE_CELLS && map.adjusted_p.len() == COARSE_CELLS;
            if whole && map.difference.iter().any(|d| !d.is_nan()) {
                found.push(map);
            }
        }
    }
    Ok(found)
}
