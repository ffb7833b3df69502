//! Metadata of a mask file.

use super::scan::text;
use crate::archive::coordinates::{GridAxes, time_axis};
use crate::archive::nc::{self, on_library_thread};
use crate::error::Result;
use crate::{Calendar, LatLonGrid};
use std::collections::BTreeMap;
use std::path::Path;

/// A mask file's grid, calendar and provenance attributes, without its masks.
#[derive(Debug, Clone, PartialEq)]
pub struct About {
    /// The grid.
    pub grid: LatLonGrid,
    /// The calendar of its times.
    pub calendar: Calendar,
    /// Text attributes of the file.
    pub attributes: BTreeMap<String, String>,
}

impl About {
    /// Reads the metadata of a file.
    ///
    /// # Errors
    /// [`crate::DataError`] if it cannot be opened, or has no grid or times.
    pub fn read(path: &Path) -> Result<Self> {
        on_library_thread(|| {
            let file = nc::open(path)?;
            let names = file
                .attributes()
                .map(|attribute| attribute.name().to_string());
            let named = names.filter_map(|name| Some((name.clone(), text(&file, &name)?)));
            Ok(Self {
                attributes: named.collect(),
                grid: GridAxes::of(path, &file)?.grid,
                calendar: time_axis(path, &file)?.calendar,
            })
        })
    }
}
