//! CAM history files: the layout written by CESM and supported by every CAM tool.

use crate::error::Result;
use crate::netcdf_file::{NetcdfFile, put_axis, variable_mut};
use crate::{LatLonGrid, Snapshot, Time, Variable};
use ndarray::Axis;
use netcdf::{Extent, FileMut};
use std::path::Path;

/// Writes snapshots into one history file, which is renamed into place when complete.
#[derive(Debug)]
pub(super) struct HistoryWriter {
    file: NetcdfFile,
    origin: Time,
    written: usize,
}

impl HistoryWriter {
    /// Creates a file of the sixteen channels; `origin` is the origin of the time axis in all files of a run.
    ///
    /// # Errors
    /// [`crate::DataError::Io`] if it cannot be created.
    pub(super) fn create(
        path: &Path,
        grid: &LatLonGrid,
        first: Time,
        origin: Time,
        source: &str,
    ) -> Result<Self> {
        let origin = origin.midnight();
        Ok(Self {
            file: NetcdfFile::create(path, |file| begin(file, grid, first, origin, source))?,
            origin,
            written: 0,
        })
    }

    /// Adds a time; `step_hours` is the length of the interval that ends there.
    ///
    /// # Errors
    /// [`crate::DataError::Io`] if it cannot be written.
    pub(super) fn write(&mut self, snapshot: &Snapshot, step_hours: f64) -> Result<()> {
        let (at, origin) = (self.written, self.origin);
        self.file
            .with(|file| put(file, at, snapshot, origin, step_hours))?;
        self.written += 1;
        Ok(())
    }

    /// Closes the file and renames it to its final name.
    ///
    /// # Errors
    /// [`crate::DataError::Io`] if it cannot be completed, synced or renamed.
    pub(super) fn finish(self) -> Result<()> {
        self.file.finish()
    }
}

fn begin(
    file: &mut FileMut,
    grid: &LatLonGrid,
    first: Time,
    origin: Time,
    source: &str,
) -> netcdf::Result<()> {
    let (rows, columns) = grid.shape();
    file.add_attribute("Conventions", "CF-1.0")?;
    file.add_attribute("source", source)?;
    file.add_attribute("title", format!("history file from {first}"))?;
    file.add_dimension("lat", rows)?;
    file.add_dimension("lon", columns)?;
    file.add_unlimited_dimension("time")?;
    file.add_dimension("nbnd", 2)?;
    for (name, values, long_name, units) in [
        ("lat", grid.lat_deg(), "latitude", "degrees_north"),
        ("lon", grid.lon_deg(), "longitude", "degrees_east"),
    ] {
        let attributes = [("long_name", long_name), ("units", units)];
        put_axis(file, name, values, &attributes)?;
    }
    // Row weights that sum to 2, like those of a Gaussian grid.
    let areas = grid.row_areas_km2();
    let total: f64 = areas.iter().sum();
    let weights: Vec<f64> = areas.iter().map(|area| 2.0 * area / total).collect();
    let mut gw = file.add_variable::<f64>("gw", &["lat"])?;
    gw.put_attribute("long_name", "latitude weights")?;
    gw.put_values(&weights, ..)?;
    let mut time = file.add_variable::<f64>("time", &["time"])?;
    time.put_attribute("long_name", "time")?;
    time.put_attribute("units", origin.cf_units())?;
    time.put_attribute("calendar", origin.calendar().cf_name())?;
    time.put_attribute("bounds", "time_bnds")?;
    file.add_variable::<f64>("time_bnds", &["time", "nbnd"])?
        .put_attribute("long_name", "time interval endpoints")?;
    file.add_variable::<i32>("date", &["time"])?
        .put_attribute("long_name", "current date (YYYYMMDD)")?;
    file.add_variable::<i32>("datesec", &["time"])?
        .put_attribute("long_name", "current seconds of current date")?;
    for variable in Variable::CHANNELS {
        let entry = variable.entry();
        let mut field = file.add_variable::<f32>(entry.name, &["time", "lat", "lon"])?;
        field.set_chunking(&[1, rows, columns])?;
        // CESM's own unit of PRECT is written m/s.
        field.put_attribute(
            "units",
            if variable == Variable::Prect {
                "m/s"
            } else {
                entry.unit
            },
        )?;
        field.put_attribute("long_name", entry.long_name)?;
    }
    Ok(())
}

fn put(
    file: &mut FileMut,
    at: usize,
    snapshot: &Snapshot,
    origin: Time,
    step_hours: f64,
) -> netcdf::Result<()> {
    let day = snapshot.time.days_since(origin);
    let (year, month, of_month) = snapshot.time.date();
    let date = (year * 10_000 + month * 100 + of_month) as i32;
    let second = snapshot.time.second_of_day() as i32;
    let one = || [Extent::from(at..at + 1)];
    variable_mut(file, "time")?.put_values(&[day], one())?;
    let bounds = [day - step_hours / 24.0, day];
    variable_mut(file, "time_bnds")?.put_values(&bounds, [Extent::from(at), Extent::from(0..2)])?;
    variable_mut(file, "date")?.put_values(&[date], one())?;
    variable_mut(file, "datesec")?.put_values(&[second], one())?;
    let (rows, columns) = snapshot.grid.shape();
    for (channel, plane) in snapshot
        .variables
        .iter()
        .zip(snapshot.fields.axis_iter(Axis(0)))
    {
        let extents = [
            Extent::from(at),
            Extent::from(0..rows),
            Extent::from(0..columns),
        ];
        let plane = plane.as_standard_layout();
        let values = plane.as_slice().unwrap_or(&[]);
        variable_mut(file, channel.name())?.put_values(values, extents)?;
    }
    Ok(())
}
