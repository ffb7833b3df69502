//! A comparison read back from the files that it wrote.

use crate::compare::{Comparison, MapChange, MapQuantity};
use crate::error::{ClimateError, Result};
use crate::statistics::coarse::COARSE_CELLS;
use squall_data::archive::on_library_thread;
use squall_data::{Class, DataError};
use std::path::Path;

/// The file that says that a folder is a comparison: removed before the others are written, and written after them.
pub(super) const NUMBERS: &str = "changes.json";

impl Comparison {
    /// Whether a folder was written by [`Self::write`].
    pub fn is_in(folder: impl AsRef<Path>) -> bool {
        folder.as_ref().join(NUMBERS).is_file()
    }

    /// The comparison that [`Self::write`] wrote into a folder, with its maps.
    ///
    /// # Errors
    /// [`ClimateError::Data`] if `changes.json` or `maps.nc` cannot be read; [`ClimateError::Invalid`], naming the
    /// file, if it is not what this version writes.
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

/// The maps of a file, in the order in which they were written; a class of a map without any value was never there.
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
