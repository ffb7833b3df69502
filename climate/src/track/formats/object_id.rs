//! Masks with the track of every cell, like those of TempestExtremes' StitchBlobs.

use crate::error::{ClimateError, Result};
use crate::events::{EventFields, ExtractOptions, extract};
use crate::statistics::{LATITUDE, LONGITUDE};
use crate::table::EventReader;
use ndarray::Array2;
use netcdf::{Extent, FileMut};
use squall_data::Time;
use squall_data::mask_file::MaskArchive;
use squall_data::netcdf_file::{NetcdfFile, put_axis, variable_mut};
use std::path::{Path, PathBuf};

/// Writes `object_id.nc` to a run's folder: `object_id(time, lat, lon)` is the `track_id` of `events.csv` in the cells
/// of each event, and 0 elsewhere and for events without a listed track.
///
/// The masks are read again, one at a time; `masks` and `options` must be those of the run.
///
/// # Errors
/// [`ClimateError::Mismatch`] if `events.csv` does not match the events of the masks; errors of reading and writing.
pub fn write_object_ids(
    folder: &Path,
    masks: &MaskArchive,
    options: &ExtractOptions,
) -> Result<PathBuf> {
    let path = folder.join("object_id.nc");
    let table = folder.join("events.csv");
    let origin = masks.times().first().map(|first| first.midnight());
    let origin = origin.unwrap_or(Time::new(masks.calendar(), 2000, 1, 1, 0, 0, 0)?);
    let mut file = NetcdfFile::create(&path, |file| begin(file, masks, origin))?;
    let mut rows = EventReader::open(&table, masks.calendar())?;
    for (index, &time) in masks.times().iter().enumerate() {
        let mask = masks.read(index)?;
        let mut plane = Array2::<i32>::zeros(masks.grid().shape());
        // Without fields, events have the same order as with fields.
        for detected in extract(&mask, masks.grid(), &EventFields::default(), options)? {
            let row = rows.next().transpose()?;
            let row = row.filter(|r| r.time == time && r.class == detected.event.class);
            let row = row.ok_or_else(|| ClimateError::Mismatch {
                what: format!("events of `{}` and of the masks", table.display()),
                expected: format!("a {} at {time}", detected.event.class.name()),
                found: "another row or none".into(),
            })?;
            let id = row.track_id.and_then(|id| i32::try_from(id).ok());
            for cell in detected.region.indices() {
                plane[cell] = id.unwrap_or(0);
            }
        }
        let cells: Vec<i32> = plane.into_iter().collect();
        file.with(|file| put(file, index, time.days_since(origin), &cells))?;
    }
    file.finish()?;
    Ok(path)
}

fn begin(file: &mut FileMut, masks: &MaskArchive, origin: Time) -> netcdf::Result<()> {
    let grid = masks.grid();
    let (rows, columns) = grid.shape();
    file.add_attribute("Conventions", "CF-1.8")?;
    file.add_attribute("title", "Tracks of the cells of masks")?;
    let version = env!("CARGO_PKG_VERSION");
    file.add_attribute("history", format!("squall {version}: events --object-id"))?;
    file.add_attribute("source", masks.source())?;
    file.add_unlimited_dimension("time")?;
    let mut time = file.add_variable::<f64>("time", &["time"])?;
    time.put_attribute("standard_name", "time")?;
    time.put_attribute("units", origin.cf_units())?;
    time.put_attribute("calendar", origin.calendar().cf_name())?;
    file.add_dimension("lat", rows)?;
    put_axis(file, "lat", grid.lat_deg(), &LATITUDE)?;
    file.add_dimension("lon", columns)?;
    put_axis(file, "lon", grid.lon_deg(), &LONGITUDE)?;
    let mut ids = file.add_variable::<i32>("object_id", &["time", "lat", "lon"])?;
    ids.set_chunking(&[1, rows, columns])?;
    ids.set_compression(1, true)?;
    ids.put_attribute("units", "1")?;
    ids.put_attribute("long_name", "track_id of tracks.csv; 0 where there is none")?;
    Ok(())
}

fn put(file: &mut FileMut, index: usize, days: f64, cells: &[i32]) -> netcdf::Result<()> {
    variable_mut(file, "time")?.put_value(days, [index])?;
    let places = [Extent::from(index), (..).into(), (..).into()];
    variable_mut(file, "object_id")?.put_values(cells, places)
}
