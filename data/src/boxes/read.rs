//! A file of boxes, whichever it is.

use super::BoxFrames;
use super::coco::read_coco;
use super::extreme_weather::read_extreme_weather;
use super::table::read_table;
use crate::error::{DataError, Result};
use crate::{Calendar, LatLonGrid};
use std::path::Path;

/// The boxes of a table (`.csv`), an ExtremeWeather file (`.h5`, `.hdf5`, `.nc`) or a COCO file (`.json`), by the end
/// of its name.
///
/// # Errors
/// [`DataError::NoInput`] for another name; otherwise as the reader of its kind: [`super::table::read_table`],
/// [`super::extreme_weather::read_extreme_weather`], [`super::coco::read_coco`].
pub fn read(path: &Path, grid: &LatLonGrid, calendar: Calendar) -> Result<BoxFrames> {
    let end = path.extension().unwrap_or_default().to_string_lossy();
    match end.to_ascii_lowercase().as_str() {
        "csv" => read_table(path, calendar),
        "h5" | "hdf5" | "he5" | "nc" => read_extreme_weather(path, grid, calendar),
        "json" => read_coco(path, grid, calendar),
        _ => Err(DataError::no_input(
            path.display(),
            "boxes are read from .csv tables, ExtremeWeather's .h5, and COCO's .json",
        )),
    }
}
