//! Box files of any kind: their boxes, and the grid of their pixels.

use super::BoxFrames;
use super::coco::{self, read_coco};
use super::extreme_weather::{self, read_extreme_weather};
use super::table::read_table;
use crate::error::{DataError, Result};
use crate::{Calendar, LatLonGrid};
use std::path::Path;

/// Rows and columns of the ExtremeWeather data set: CAM5's grid of 0.25 degrees.
const EXTREME_WEATHER_GRID: (usize, usize) = (768, 1152);

/// Upper limit of rows or columns: beyond it, cells of a global grid would be smaller than 40 m.
const TOO_MANY: usize = 1_000_000;

/// The format of a box file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A table: `.csv`.
    Table,
    /// HDF5 of the ExtremeWeather data set: `.h5`, `.hdf5`, `.he5`.
    ExtremeWeather,
    /// COCO's JSON: `.json`.
    Coco,
}

impl FileKind {
    /// Determines the kind by file name extension; `None` for `.nc`, which usually holds masks or tracks.
    pub fn by_extension(path: &Path) -> Option<Self> {
        let end = path.extension().unwrap_or_default().to_string_lossy();
        Some(match end.to_ascii_lowercase().as_str() {
            "csv" => Self::Table,
            "h5" | "hdf5" | "he5" => Self::ExtremeWeather,
            "json" => Self::Coco,
            _ => return None,
        })
    }

    /// Like [`Self::by_extension`], for a file known to hold boxes: `.nc` is then ExtremeWeather's.
    fn of_boxes(path: &Path) -> Option<Self> {
        let is_netcdf = path
            .extension()
            .is_some_and(|end| end.eq_ignore_ascii_case("nc"));
        Self::by_extension(path).or(is_netcdf.then_some(Self::ExtremeWeather))
    }
}

/// Reads the boxes of a file of any [`FileKind`], determined by its extension; `.nc` is ExtremeWeather's.
///
/// # Errors
/// [`DataError::NoInput`] for another extension; otherwise as the reader of its kind: [`super::table::read_table`],
/// [`super::extreme_weather::read_extreme_weather`], [`super::coco::read_coco`].
pub fn read(path: &Path, grid: &LatLonGrid, calendar: Calendar) -> Result<BoxFrames> {
    match FileKind::of_boxes(path) {
        Some(FileKind::Table) => read_table(path, calendar),
        Some(FileKind::ExtremeWeather) => read_extreme_weather(path, grid, calendar),
        Some(FileKind::Coco) => read_coco(path, grid, calendar),
        None => Err(DataError::no_input(
            path.display(),
            "boxes are read from .csv tables, ExtremeWeather's .h5, and COCO's .json",
        )),
    }
}

/// The grid that a file of pixel boxes declares.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum DeclaredGrid {
    /// Latitudes and longitudes, as in files written by this crate.
    Axes(LatLonGrid),
    /// Rows and columns.
    Size(usize, usize),
    /// Nothing.
    Nothing,
}

/// Returns the grid of the pixels in a box file. If the file has latitudes and longitudes, these define it. If it has
/// only an image size, the result is `fields` if that size matches, or else the global grid of that size. If it has no
/// size either, the result is `fields`, or else the grid of the ExtremeWeather data set; the same holds for tables,
/// whose boxes are in degrees.
///
/// # Errors
/// [`DataError::Unreadable`] or [`DataError::Io`] if the file cannot be read; [`DataError::Grid`] if its axes or size
/// do not form a grid.
pub fn pixel_grid(path: &Path, fields: Option<&LatLonGrid>) -> Result<LatLonGrid> {
    let said = match FileKind::of_boxes(path) {
        Some(FileKind::ExtremeWeather) => extreme_weather::declared_grid(path)?,
        Some(FileKind::Coco) => coco::declared_grid(path)?,
        Some(FileKind::Table) | None => DeclaredGrid::Nothing,
    };
    match (said, fields) {
        (DeclaredGrid::Axes(grid), _) => Ok(grid),
        (DeclaredGrid::Size(rows, columns), Some(fields)) if fields.shape() == (rows, columns) => {
            Ok(fields.clone())
        }
        (DeclaredGrid::Size(rows, columns), _) if rows.max(columns) >= TOO_MANY => {
            Err(DataError::Grid(format!(
                "`{}`: images of {rows} x {columns} pixels are of no global grid",
                path.display()
            )))
        }
        (DeclaredGrid::Size(rows, columns), _) => LatLonGrid::global(rows, columns),
        (DeclaredGrid::Nothing, Some(fields)) => Ok(fields.clone()),
        (DeclaredGrid::Nothing, None) => {
            LatLonGrid::global(EXTREME_WEATHER_GRID.0, EXTREME_WEATHER_GRID.1)
        }
    }
}

/// The grid of two axes as stored in a file.
///
/// # Errors
/// [`DataError::Grid`] if they do not form a grid, or are not in the order of pixel coordinates.
pub(super) fn of_axes(path: &Path, lat_deg: Vec<f64>, lon_deg: Vec<f64>) -> Result<DeclaredGrid> {
    let refused = |reason: String| DataError::Grid(format!("`{}`: {reason}", path.display()));
    let (grid, order) =
        LatLonGrid::from_axes(lat_deg, lon_deg).map_err(|error| refused(error.to_string()))?;
    // Pixel coordinates follow the file's axes: in another order every box would be misplaced.
    if order != Default::default() {
        return Err(refused(
            "expected latitudes from south to north and longitudes eastward from within [0, 360), along which pixels are counted"
                .into(),
        ));
    }
    Ok(DeclaredGrid::Axes(grid))
}

#[cfg(test)]
mod tests {
    use super::super::coco::CocoWriter;
    use super::super::extreme_weather::ExtremeWeatherWriter;
    use super::super::{BoxSink, TrackedBox, tests::geo};
    use super::*;
    use crate::Time;
    use std::sync::Arc;

    fn same(a: &LatLonGrid, b: &LatLonGrid) -> bool {
        let close = |a: &[f64], b: &[f64]| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9)
        };
        close(a.lat_deg(), b.lat_deg()) && close(a.lon_deg(), b.lon_deg())
    }

    #[test]
    fn our_files_say_their_grid_and_are_read_back_with_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let region = LatLonGrid::from_axes(
            (0..40).map(|j| 10.0 + 0.5 * f64::from(j)).collect(),
            (0..60).map(|i| 100.0 + 0.5 * f64::from(i)).collect(),
        );
        let time = Time::new(Calendar::NoLeap, 2000, 1, 1, 0, 0, 0).unwrap();
        for grid in [LatLonGrid::global(192, 288).unwrap(), region.unwrap().0] {
            let grid = Arc::new(grid);
            let sinks: [(&str, Box<dyn BoxSink>); 2] = [
                (
                    "c.json",
                    Box::new(CocoWriter::create(at("c.json"), grid.clone()).unwrap()),
                ),
                (
                    "e.h5",
                    Box::new(ExtremeWeatherWriter::new(at("e.h5"), grid.clone())),
                ),
            ];
            // Fields of another grid do not mislead.
            let fields = LatLonGrid::global(96, 144).unwrap();
            for (name, mut sink) in sinks {
                let found = geo(110.0, 12.0, 116.0, 19.0);
                sink.write(time, &[TrackedBox::from(found)]).unwrap();
                sink.finish().unwrap();
                for fields in [None, Some(&fields)] {
                    let said = pixel_grid(&at(name), fields).unwrap();
                    assert!(same(&said, &grid), "{name}: {}", said.describe());
                    let back = read(&at(name), &said, Calendar::NoLeap).unwrap();
                    let overlap = back.frames()[0].boxes[0].geo.overlap(&found);
                    assert!(overlap > 0.7, "{name}: {overlap}");
                }
            }
        }
    }

    #[test]
    fn files_without_axes_are_of_the_fields_or_of_their_size() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("other.json");
        let coco = |text: &str| std::fs::write(&path, text).unwrap();
        let shape = |fields: Option<&LatLonGrid>| pixel_grid(&path, fields).map(|g| g.shape());
        let fields = LatLonGrid::global(24, 36).unwrap();
        coco(r#"{"images":[{"id":1,"width":72,"height":48}],"annotations":[],"categories":[]}"#);
        assert_eq!(shape(None).unwrap(), (48, 72));
        assert_eq!(shape(Some(&fields)).unwrap(), (48, 72));
        // Whose axes no memory holds.
        coco(r#"{"images":[{"id":1,"width":72,"height":4611686018427387904}]}"#);
        let error = shape(None).unwrap_err().to_string();
        assert!(
            error.contains("other.json") && error.contains("no global grid"),
            "{error}"
        );
        coco(r#"{"images":[],"annotations":[],"categories":[]}"#);
        assert_eq!(shape(None).unwrap(), EXTREME_WEATHER_GRID);
        assert_eq!(shape(Some(&fields)).unwrap(), (24, 36));
        // A table is in degrees: nobody opens it.
        let table = folder.path().join("absent.csv");
        assert_eq!(pixel_grid(&table, Some(&fields)).unwrap(), fields);
        coco(r#"{"info":{"grid":{"lat_deg":[10,0],"lon_deg":[0,1]}},"images":[]}"#);
        let error = shape(None).unwrap_err();
        assert!(matches!(error, DataError::Grid(_)), "{error}");
        assert!(error.to_string().contains("other.json"), "{error}");
        coco("no json");
        assert!(matches!(
            shape(None).unwrap_err(),
            DataError::Unreadable { .. }
        ));
    }
}
