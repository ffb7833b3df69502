//! Boxes in the format of the ExtremeWeather data set: `boxes` of (time, 15, 5) in HDF5.
//!
//! A row is `ymin, xmin, ymax, xmax, class` in whole pixels, y along the latitudes from south to north and x along the
//! longitudes from the first column; classes are 0 tropical depression, 1 tropical cyclone, 2 extratropical cyclone, 3
//! atmospheric river; unused rows are -1. Files made by the data set's own converter have rows of
//! `xmin, xmax, ymin, ymax, category` instead, call the latitudes x, and count categories from 1.
//! [`read_extreme_weather`] uses the first column order in which every row of a file is a box of the grid, trying the
//! documented one first, and reports its choice.
//!
//! Written files use the documented order, and also have the coordinates `time`, `lat` and `lon`. A box across the seam
//! extends past the last column: its xmax then exceeds the grid's width. If a time has more boxes than slots, the
//! largest are kept and the others counted.
//!
//! # Source
//! Racah et al. 2017, arXiv:1612.02095; github.com/eracah/hur-detect.

mod order;

use super::fault::BoxFault;
use super::file::{DeclaredGrid, of_axes};
use super::{BoxFrames, BoxSink, GeoBox, PixelBox, SinkSummary, TrackedBox};
use crate::archive::coordinates::time_axis;
use crate::archive::nc::{self, on_library_thread};
use crate::calendar::DAY_SECONDS;
use crate::error::{DataError, Result};
use crate::netcdf_file::{NetcdfFile, put_axis, variable_mut};
use crate::{Calendar, LatLonGrid, Time};
use netcdf::{Extent, FileMut};
use order::{COORDINATES, Reading, UNUSED};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum number of boxes per time in a file of the data set.
pub const SLOTS: usize = 15;
/// Times per day in a file of the data set.
const TIMES_A_DAY: usize = 4;

/// Writes an ExtremeWeather file.
#[derive(Debug)]
pub struct ExtremeWeatherWriter {
    grid: Arc<LatLonGrid>,
    /// Created with the first time, which is the origin of the time axis.
    open: Option<(NetcdfFile, Time)>,
    done: SinkSummary,
}

impl ExtremeWeatherWriter {
    /// A writer that creates its file at the first time.
    pub fn new(path: impl Into<PathBuf>, grid: Arc<LatLonGrid>) -> Self {
        Self {
            grid,
            open: None,
            done: SinkSummary::begun(path.into()),
        }
    }
}

impl BoxSink for ExtremeWeatherWriter {
    fn write(&mut self, time: Time, boxes: &[TrackedBox]) -> Result<()> {
        let mut largest: Vec<&GeoBox> = boxes.iter().map(|found| &found.geo).collect();
        // A stable sort keeps the order of equal boxes.
        largest.sort_by(|a, b| b.area_km2().total_cmp(&a.area_km2()));
        let kept = largest.len().min(SLOTS);
        let mut slots = [[UNUSED; COORDINATES]; SLOTS];
        for (slot, geo) in slots.iter_mut().zip(&largest) {
            *slot = row(&geo.to_pixels(&self.grid)?, &self.grid);
        }
        let (file, origin) = match &mut self.open {
            Some(open) => open,
            None => {
                let origin = time.midnight();
                let grid = &self.grid;
                let file = NetcdfFile::create(&self.done.path, |file| begin(file, grid, origin))?;
                self.open.insert((file, origin))
            }
        };
        let (days, at) = (time.days_since(*origin), self.done.times);
        file.with(|file| {
            variable_mut(file, "time")?.put_values(&[days], [Extent::from(at..at + 1)])?;
            let extents = [
                Extent::from(at..at + 1),
                Extent::from(0..SLOTS),
                Extent::from(0..COORDINATES),
            ];
            variable_mut(file, "boxes")?.put_values(slots.as_flattened(), extents)
        })?;
        self.done.times += 1;
        self.done.boxes += kept;
        self.done.left_out += largest.len() - kept;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<SinkSummary> {
        let Some((file, _)) = self.open else {
            return Err(DataError::Invalid(format!(
                "no time for the boxes of `{}`",
                self.done.path.display()
            )));
        };
        file.finish()?;
        Ok(self.done)
    }
}

/// A box in whole pixels: edges are rounded, with a size of at least one pixel.
fn row(pixels: &PixelBox, grid: &LatLonGrid) -> [i32; COORDINATES] {
    let (rows, columns) = grid.shape();
    let whole = |low: f64, high: f64, last: f64| {
        let low = low.round().clamp(0.0, last - 1.0);
        (low as i32, high.round().max(low + 1.0) as i32)
    };
    let (y_min, y_max) = whole(pixels.y_min, pixels.y_max.min(rows as f64), rows as f64);
    // A box whose western edge rounds to the seam starts at the first column.
    let across = grid.is_periodic() && pixels.x_min.round() >= columns as f64;
    let turn = if across { columns as f64 } else { 0.0 };
    let (x_min, x_max) = whole(pixels.x_min - turn, pixels.x_max - turn, columns as f64);
    [y_min, x_min, y_max, x_max, i32::from(pixels.class.code())]
}

fn begin(file: &mut FileMut, grid: &LatLonGrid, origin: Time) -> netcdf::Result<()> {
    let (rows, columns) = grid.shape();
    file.add_attribute(
        "title",
        "boxes in the layout of the ExtremeWeather data set",
    )?;
    file.add_unlimited_dimension("time")?;
    file.add_dimension("box", SLOTS)?;
    file.add_dimension("coordinate", COORDINATES)?;
    file.add_dimension("lat", rows)?;
    file.add_dimension("lon", columns)?;
    put_axis(file, "lat", grid.lat_deg(), &[("units", "degrees_north")])?;
    put_axis(file, "lon", grid.lon_deg(), &[("units", "degrees_east")])?;
    let mut time = file.add_variable::<f64>("time", &["time"])?;
    time.put_attribute("units", origin.cf_units())?;
    time.put_attribute("calendar", origin.calendar().cf_name())?;
    let mut boxes = file.add_variable::<i32>("boxes", &["time", "box", "coordinate"])?;
    boxes.set_fill_value(UNUSED)?;
    boxes.put_attribute("coordinate_order", "ymin xmin ymax xmax class")?;
    boxes.put_attribute(
        "classes",
        "0 tropical_depression 1 tropical_cyclone 2 extratropical_cyclone 3 atmospheric_river",
    )?;
    Ok(())
}

/// Reads an ExtremeWeather file on a grid. Times come from its `time`, which may use the other Gregorian calendar; a
/// file without it must be named `climo_YYYY.h5` and hold four times per day of a year of the calendar.
///
/// # Errors
/// [`DataError::BadBox`] naming the obstacle, if no column order or class numbering fits;
/// [`DataError::MissingVariable`] or [`DataError::BadVariable`] if there is no `boxes` of (time, slots, 5);
/// [`DataError::Mismatch`] for another grid or calendar; [`DataError::Time`] if the times are unknown;
/// [`DataError::Unreadable`]; [`DataError::Io`].
pub fn read_extreme_weather(
    path: &Path,
    grid: &LatLonGrid,
    calendar: Calendar,
) -> Result<BoxFrames> {
    let (values, slots, axis) = on_library_thread(|| -> Result<_> {
        let file = nc::open(path)?;
        let (values, slots) = boxes(path, &file)?;
        check_grid(path, &file, grid)?;
        // Only an explicit time axis counts: dates in names are handled below.
        let axis = file.variable("time").map(|_| time_axis(path, &file));
        Ok((values, slots, axis.transpose()?))
    })?;
    let count = values.len() / (slots * COORDINATES).max(1);
    let times = match axis {
        Some(axis) => {
            let times = axis.times.iter().map(|time| time.instant_in(calendar));
            let times: Option<Vec<Time>> = times.collect();
            let differs = || DataError::mismatch("calendar", path, calendar, axis.calendar);
            times.ok_or_else(differs)?
        }
        None => times_of_name(path, count, calendar)?,
    };
    if times.len() != count {
        return Err(DataError::bad_variable(
            path,
            "boxes",
            format!("{} times, as `time` has", times.len()),
            count,
        ));
    }
    let reading = Reading::of(path, &values, slots, grid)?;
    let mut rows = Vec::new();
    for (time, slots) in times.into_iter().zip(values.chunks(slots * COORDINATES)) {
        rows.push((time, None));
        let (used, _) = slots.as_chunks::<COORDINATES>();
        for row in used.iter().filter(|row| order::is_used(row)) {
            let geo = reading.pixels(row).to_degrees(grid);
            rows.push((time, Some(TrackedBox::from(geo))));
        }
    }
    let mut frames = BoxFrames::collect(rows);
    frames.notes.push(format!(
        "boxes of `{}`: {}",
        path.display(),
        reading.describe()
    ));
    Ok(frames)
}

/// The values of `boxes` and the number of slots.
fn boxes(path: &Path, file: &netcdf::File) -> Result<(Vec<i32>, usize)> {
    let Some(variable) = file.variable("boxes") else {
        return Err(nc::missing(path, file, "boxes"));
    };
    let bad =
        |expected: &str, found: String| DataError::bad_variable(path, "boxes", expected, found);
    let shape: Vec<usize> = variable.dimensions().iter().map(|d| d.len()).collect();
    let [_, slots, COORDINATES] = shape[..] else {
        return Err(bad("a shape of (time, slots, 5)", format!("{shape:?}")));
    };
    if !nc::is_numeric(&variable) {
        return Err(bad("whole numbers", "no numbers".into()));
    }
    let values = variable.get_values::<f64, _>(..);
    let values = values.map_err(|error| bad("readable numbers", error.to_string()))?;
    let whole = |&v: &f64| (v.fract() == 0.0 && v.abs() < 1e9).then_some(v as i32);
    let whole: Option<Vec<i32>> = values.iter().map(whole).collect();
    let whole = whole.ok_or_else(|| bad("whole numbers", "fractions or missing values".into()))?;
    Ok((whole, slots))
}

/// A file's grid: from `lat` and `lon`, or else the last two dimensions of the data set's `images`.
pub(super) fn declared_grid(path: &Path) -> Result<DeclaredGrid> {
    on_library_thread(|| -> Result<_> {
        let file = nc::open(path)?;
        let axis = |name: &str| {
            let variable = file.variable(name)?;
            let flat = variable.dimensions().len() == 1 && nc::is_numeric(&variable);
            flat.then(|| variable.get_values::<f64, _>(..))?.ok()
        };
        if let (Some(lat), Some(lon)) = (axis("lat"), axis("lon")) {
            return of_axes(path, lat, lon);
        }
        let images = file.variable("images");
        let shape: Vec<usize> = (images.iter())
            .flat_map(|images| images.dimensions().iter().map(|d| d.len()))
            .collect();
        Ok(match shape[..] {
            [_, _, rows, columns] => DeclaredGrid::Size(rows, columns),
            _ => DeclaredGrid::Nothing,
        })
    })
}

/// Rejects a file that declares another grid.
fn check_grid(path: &Path, file: &netcdf::File, grid: &LatLonGrid) -> Result<()> {
    let (rows, columns) = grid.shape();
    let differs =
        |found: String| DataError::mismatch("grid", path, format!("{rows} x {columns}"), found);
    if let Some(images) = file.variable("images") {
        let shape: Vec<usize> = images.dimensions().iter().map(|d| d.len()).collect();
        if shape.len() == 4 && shape[2..] != [rows, columns] {
            return Err(differs(format!("{} x {}", shape[2], shape[3])));
        }
    }
    let length = |name: &str| file.variable(name).map(|axis| axis.len());
    match (length("lat"), length("lon")) {
        (Some(lat), Some(lon)) if (lat, lon) != (rows, columns) => {
            Err(differs(format!("{lat} x {lon}")))
        }
        _ => Ok(()),
    }
}

/// The times of a file `climo_YYYY.h5`: every six hours from the first of January.
fn times_of_name(path: &Path, count: usize, calendar: Calendar) -> Result<Vec<Time>> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let year = stem
        .strip_prefix("climo_")
        .filter(|digits| digits.len() == 4)
        .and_then(|digits| digits.parse::<i64>().ok());
    let Some(year) = year else {
        return Err(DataError::Time(format!(
            "`{}` has no `time` and is not named as climo_1979.h5: nothing says when its {count} times are",
            path.display()
        )));
    };
    let first = Time::new(calendar, year, 1, 1, 0, 0, 0)?;
    let next = Time::new(calendar, year + 1, 1, 1, 0, 0, 0)?;
    let step = DAY_SECONDS / TIMES_A_DAY as i64;
    let expected = (next.seconds_since(first) / step) as usize;
    if count != expected {
        return Err(DataError::Time(format!(
            "`{}` has no `time`: expected {expected} times, four a day of {year} in the calendar {calendar}, found {count}",
            path.display()
        )));
    }
    Ok((0..count as i64)
        .map(|k| first.add_seconds(k * step))
        .collect())
}
