//! Masks as CF netCDF: what ClimateNet, ARTMIP and TempestExtremes users can open.

use crate::archive::coordinates::{axes, time_axis};
use crate::archive::files_of;
use crate::archive::nc::{self, on_library_thread};
use crate::atomic::Pending;
use crate::error::{DataError, Result};
use crate::grid::AxisOrder;
use crate::snapshot::shape_text;
use crate::{Calendar, Class, ClassMask, LatLonGrid, Time};
use ndarray::{Array2, ArrayView3};
use netcdf::{Extent, FileMut};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a mask file says about itself.
#[derive(Debug, Clone, Default)]
pub struct MaskFileOptions {
    /// CF `title`.
    pub title: String,
    /// CF `source`: what made the masks.
    pub source: String,
    /// Further global attributes.
    pub attributes: Vec<(String, String)>,
    /// Also keep the probability of every class, in steps of 1/250.
    pub probabilities: bool,
}

/// Writes masks of rising times into one file, which appears whole when it is finished.
#[derive(Debug)]
pub struct MaskWriter {
    pending: Pending,
    file: FileMut,
    path: PathBuf,
    origin: Time,
    shape: (usize, usize),
    written: usize,
    probabilities: bool,
}

/// Stored probability of 1.
const CERTAIN: f32 = 250.0;

impl MaskWriter {
    /// Starts a file; `first` gives the calendar and the origin of the time axis.
    ///
    /// # Errors
    /// [`DataError::Io`] if the folder cannot be written, [`DataError::Unreadable`] if netCDF refuses.
    pub fn create(
        path: &Path,
        grid: &LatLonGrid,
        first: Time,
        options: &MaskFileOptions,
    ) -> Result<Self> {
        let pending = Pending::new(path)?;
        let file = on_library_thread(|| create(pending.path(), grid, first, options))
            .map_err(|error| refused(path, &error))?;
        Ok(Self {
            pending,
            file,
            path: path.into(),
            origin: midnight(first),
            shape: grid.shape(),
            written: 0,
            probabilities: options.probabilities,
        })
    }

    /// Adds a mask and, if the file keeps them, the probabilities `(lat, lon, class)`.
    ///
    /// # Errors
    /// [`DataError::Invalid`] if the shape is not the grid's.
    pub fn write(
        &mut self,
        mask: &ClassMask,
        probabilities: Option<ArrayView3<'_, f32>>,
    ) -> Result<()> {
        let (rows, columns) = self.shape;
        if mask.codes.dim() != self.shape {
            let found = mask.codes.dim();
            return Err(DataError::Invalid(format!(
                "mask of {}: expected {:?} cells, found {found:?}",
                mask.time, self.shape
            )));
        }
        let codes: Vec<i8> = mask.codes.iter().map(|&code| code as i8).collect();
        let rivers: Vec<i8> = codes
            .iter()
            .map(|&code| i8::from(code == Class::AtmosphericRiver.code() as i8))
            .collect();
        let time = mask.time.days_since(self.origin);
        let at = self.written;
        let put = || -> std::result::Result<(), netcdf::Error> {
            let plane = [
                Extent::from(at),
                Extent::from(0..rows),
                Extent::from(0..columns),
            ];
            variable(&mut self.file, "time")?.put_values(&[time], [Extent::from(at..at + 1)])?;
            variable(&mut self.file, "LABELS")?.put_values(&codes, plane)?;
            variable(&mut self.file, "ar_binary_tag")?.put_values(&rivers, plane)?;
            if let (true, Some(values)) = (self.probabilities, probabilities) {
                let packed: Vec<u8> = values
                    .iter()
                    .map(|p| (p * CERTAIN).round().clamp(0.0, CERTAIN) as u8)
                    .collect();
                let extents = [
                    Extent::from(at),
                    Extent::from(0..rows),
                    Extent::from(0..columns),
                    Extent::from(0..3),
                ];
                variable(&mut self.file, "probability")?.put_values(&packed, extents)?;
            }
            Ok(())
        };
        on_library_thread(put).map_err(|error| refused(&self.path, &error))?;
        self.written += 1;
        Ok(())
    }

    /// Closes the file and gives it its name.
    ///
    /// # Errors
    /// [`DataError::Io`] if it cannot be synced or renamed.
    pub fn finish(self) -> Result<()> {
        let closed = on_library_thread(|| self.file.close());
        closed.map_err(|error| refused(&self.path, &error))?;
        self.pending.commit()
    }
}

fn refused(path: &Path, error: &netcdf::Error) -> DataError {
    let text = error.to_string();
    // netCDF hides a full disk behind "HDF error"; the file system does not.
    DataError::Io {
        action: "write",
        path: path.into(),
        source: std::io::Error::other(format!("netCDF: {text}")),
    }
}

fn variable<'f>(
    file: &'f mut FileMut,
    name: &'static str,
) -> std::result::Result<netcdf::VariableMut<'f>, netcdf::Error> {
    file.variable_mut(name)
        .ok_or_else(|| netcdf::Error::Str(format!("`{name}` is not in the file")))
}

fn midnight(time: Time) -> Time {
    time.add_seconds(-time.second_of_day())
}

fn create(
    path: &Path,
    grid: &LatLonGrid,
    first: Time,
    options: &MaskFileOptions,
) -> std::result::Result<FileMut, netcdf::Error> {
    let (rows, columns) = grid.shape();
    let mut file = netcdf::create(path)?;
    file.add_attribute("Conventions", "CF-1.8")?;
    file.add_attribute("title", options.title.as_str())?;
    file.add_attribute("source", options.source.as_str())?;
    for (name, value) in &options.attributes {
        file.add_attribute(name, value.as_str())?;
    }
    file.add_unlimited_dimension("time")?;
    file.add_dimension("lat", rows)?;
    file.add_dimension("lon", columns)?;
    let axes = [
        ("lat", grid.lat_deg(), "latitude", "degrees_north", "Y"),
        ("lon", grid.lon_deg(), "longitude", "degrees_east", "X"),
    ];
    for (name, values, standard, units, axis) in axes {
        let mut variable = file.add_variable::<f64>(name, &[name])?;
        variable.put_attribute("standard_name", standard)?;
        variable.put_attribute("units", units)?;
        variable.put_attribute("axis", axis)?;
        variable.put_values(values, ..)?;
    }
    let mut time = file.add_variable::<f64>("time", &["time"])?;
    let (year, month, day) = first.date();
    time.put_attribute("standard_name", "time")?;
    time.put_attribute(
        "units",
        format!("days since {year:04}-{month:02}-{day:02} 00:00:00"),
    )?;
    time.put_attribute("calendar", first.calendar().cf_name())?;
    time.put_attribute("axis", "T")?;
    let mut labels = file.add_variable::<i8>("LABELS", &["time", "lat", "lon"])?;
    labels.set_chunking(&[1, rows, columns])?;
    labels.set_compression(1, true)?;
    labels.put_attribute("long_name", "class of extreme weather")?;
    labels.put_attribute("flag_values", vec![0i8, 1, 2])?;
    labels.put_attribute(
        "flag_meanings",
        "background tropical_cyclone atmospheric_river",
    )?;
    let mut rivers = file.add_variable::<i8>("ar_binary_tag", &["time", "lat", "lon"])?;
    rivers.set_chunking(&[1, rows, columns])?;
    rivers.set_compression(1, true)?;
    rivers.put_attribute("long_name", "atmospheric river (ARTMIP convention)")?;
    rivers.put_attribute("flag_values", vec![0i8, 1])?;
    rivers.put_attribute("flag_meanings", "no_river atmospheric_river")?;
    if options.probabilities {
        file.add_dimension("class", 3)?;
        let mut class = file.add_variable::<i8>("class", &["class"])?;
        class.put_attribute("flag_values", vec![0i8, 1, 2])?;
        class.put_attribute(
            "flag_meanings",
            "background tropical_cyclone atmospheric_river",
        )?;
        class.put_values(&[0i8, 1, 2], ..)?;
        let mut probability =
            file.add_variable::<u8>("probability", &["time", "lat", "lon", "class"])?;
        probability.set_chunking(&[1, rows, columns, 3])?;
        probability.set_compression(1, true)?;
        probability.put_attribute("long_name", "probability of the class")?;
        probability.put_attribute("scale_factor", 1.0 / f64::from(CERTAIN))?;
        probability.put_attribute("units", "1")?;
    }
    Ok(file)
}

/// How a tool writes masks.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Layout {
    /// Class codes (Squall, ClimateNet).
    Labels,
    /// Anything above 0 is tagged (ARTMIP, TempestExtremes).
    Tag,
}

/// Names of mask variables, the ones that say most first.
const LAYOUTS: [(&str, Layout); 5] = [
    ("LABELS", Layout::Labels),
    ("labels", Layout::Labels),
    ("ar_binary_tag", Layout::Tag),
    ("binary_tag", Layout::Tag),
    ("object_id", Layout::Tag),
];

struct MaskFile {
    path: PathBuf,
    name: &'static str,
    layout: Layout,
    order: AxisOrder,
    file_shape: (usize, usize),
    has_time: bool,
}

/// Many mask files seen as one time axis.
pub struct MaskArchive {
    files: Vec<MaskFile>,
    grid: Arc<LatLonGrid>,
    calendar: Calendar,
    times: Vec<Time>,
    places: Vec<(usize, usize)>,
    source: String,
    /// What tags without a class (`ar_binary_tag`, `binary_tag`, `object_id`) mean.
    tagged: Class,
    open: nc::FileCache,
}

impl MaskArchive {
    /// Opens the mask files of a path, folder, glob or list: ours, ClimateNet's `LABELS`, ARTMIP's `ar_binary_tag`,
    /// TempestExtremes' `binary_tag` and `object_id` (both read as rivers).
    ///
    /// # Errors
    /// [`DataError::MissingVariable`] if a file has no mask; [`DataError::Mismatch`] if files differ in grid or calendar.
    pub fn open(input: &str) -> Result<Self> {
        Self::open_as(input, Class::AtmosphericRiver)
    }

    /// As [`Self::open`], for tags of another class, such as `binary_tag` of cyclones.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_as(input: &str, tagged: Class) -> Result<Self> {
        on_library_thread(|| Self::scan(input, tagged))
    }

    fn scan(input: &str, tagged: Class) -> Result<Self> {
        let mut source = String::new();
        let mut files = Vec::new();
        let mut all = Vec::new();
        let mut first: Option<(LatLonGrid, Calendar)> = None;
        for path in files_of(input)? {
            let file = nc::open(&path)?;
            let found = LAYOUTS
                .into_iter()
                .find(|(name, _)| file.variable(name).is_some());
            let Some((name, layout)) = found else {
                let found = file.variables().map(|v| v.name()).take(30).collect();
                return Err(DataError::MissingVariable {
                    path,
                    variable: "LABELS".into(),
                    found,
                });
            };
            let axes = axes(&path, &file)?;
            let file_shape = (axes.lat.1.len(), axes.lon.1.len());
            let (grid, order) = LatLonGrid::from_axes(axes.lat.1, axes.lon.1).map_err(|e| {
                DataError::Unreadable {
                    path: path.clone(),
                    reason: e.to_string(),
                }
            })?;
            let axis = time_axis(&path, &file)?;
            if source.is_empty() {
                let attribute = file.attribute("source").and_then(|a| a.value().ok());
                let text = attribute.and_then(|value| String::try_from(value).ok());
                source = text.unwrap_or_default();
            }
            let (known, calendar) = first.get_or_insert_with(|| (grid.clone(), axis.calendar));
            if known.hash() != grid.hash() || *calendar != axis.calendar {
                let (expected, found) = (
                    format!("{}, {calendar}", known.describe()),
                    format!("{}, {}", grid.describe(), axis.calendar),
                );
                return Err(DataError::Mismatch {
                    what: "grid or calendar",
                    path,
                    expected,
                    found,
                });
            }
            all.extend(
                axis.times
                    .iter()
                    .enumerate()
                    .map(|(at, &time)| (time, files.len(), at)),
            );
            let shape: Vec<usize> = file
                .variable(name)
                .map(|v| v.dimensions().iter().map(|d| d.len()).collect())
                .unwrap_or_default();
            let has_time = shape.len() == 3;
            if shape.len() < 2 || shape.len() > 3 || !shape.ends_with(&[file_shape.0, file_shape.1])
            {
                return Err(DataError::BadVariable {
                    path,
                    variable: name.into(),
                    expected: "a mask of (time, lat, lon) or (lat, lon)".into(),
                    found: shape_text(&shape),
                });
            }
            files.push(MaskFile {
                path,
                name,
                layout,
                order,
                file_shape,
                has_time,
            });
        }
        let Some((grid, calendar)) = first else {
            return Err(DataError::NoInput {
                input: input.into(),
                reason: "no mask files".into(),
            });
        };
        let origin = all[0].0;
        all.sort_by_key(|(time, file, _)| (time.seconds_since(origin), *file));
        if let Some(pair) = all.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let (path, expected) = (files[pair[1].1].path.clone(), "each time once".to_string());
            return Err(DataError::Mismatch {
                what: "time axis",
                path,
                expected,
                found: format!("{} again", pair[1].0),
            });
        }
        let (times, places) = all
            .into_iter()
            .map(|(time, file, at)| (time, (file, at)))
            .unzip();
        Ok(Self {
            files,
            grid: Arc::new(grid),
            calendar,
            times,
            places,
            source,
            tagged,
            open: nc::FileCache::default(),
        })
    }

    /// The grid of every mask.
    pub fn grid(&self) -> &Arc<LatLonGrid> {
        &self.grid
    }

    /// What made the masks, as the first file says (CF `source`); empty if it does not.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The calendar of the time axis.
    pub fn calendar(&self) -> Calendar {
        self.calendar
    }

    /// All times, strictly ascending over all files.
    pub fn times(&self) -> &[Time] {
        &self.times
    }

    /// The index of a time.
    pub fn find(&self, time: Time) -> Option<usize> {
        self.times
            .binary_search_by_key(&time.seconds_since(self.times[0]), |t| {
                t.seconds_since(self.times[0])
            })
            .ok()
    }

    /// The mask of one time.
    ///
    /// # Errors
    /// [`DataError::Unreadable`] if the file is damaged, [`DataError::BadVariable`] if it holds other codes than 0, 1, 2.
    pub fn read(&self, index: usize) -> Result<ClassMask> {
        let file = &self.files[self.places[index].0];
        let stored: Vec<f64> = self.stored(index, file.name, &[])?;
        let code = |value: &f64| match file.layout {
            Layout::Labels if [0.0, 1.0, 2.0].contains(value) => Ok(*value as u8),
            Layout::Labels => Err(DataError::BadVariable {
                path: file.path.clone(),
                variable: file.name.into(),
                expected: "0 (background), 1 (tropical cyclone), 2 (atmospheric river)".into(),
                found: value.to_string(),
            }),
            Layout::Tag if *value > 0.0 => Ok(self.tagged.code()),
            Layout::Tag => Ok(0),
        };
        let codes = stored.iter().map(code).collect::<Result<Vec<u8>>>()?;
        ClassMask::new(self.times[index], self.in_order(file, codes)?)
    }

    /// The probability of a class at one time; `None` if the file keeps none.
    ///
    /// # Errors
    /// [`DataError::Unreadable`] if the file is damaged.
    pub fn probability(&self, index: usize, class: Class) -> Result<Option<Array2<f32>>> {
        let file = &self.files[self.places[index].0];
        let kept = |netcdf: &netcdf::File| Ok(netcdf.variable("probability").is_some());
        if !self.open.with(self.places[index].0, &file.path, kept)? {
            return Ok(None);
        }
        let stored: Vec<f64> = self.stored(index, "probability", &[usize::from(class.code())])?;
        let values = stored
            .into_iter()
            .map(|value| value as f32 / CERTAIN)
            .collect();
        self.in_order(file, values).map(Some)
    }

    fn stored(&self, index: usize, name: &str, last: &[usize]) -> Result<Vec<f64>> {
        let (id, at) = self.places[index];
        let file = &self.files[id];
        let (rows, columns) = file.file_shape;
        let mut extents: Vec<Extent> = if file.has_time {
            vec![at.into()]
        } else {
            Vec::new()
        };
        extents.extend([Extent::from(0..rows), Extent::from(0..columns)]);
        extents.extend(last.iter().map(|&at| Extent::from(at)));
        self.open.with(id, &file.path, |netcdf| {
            let unreadable = |reason: String| DataError::Unreadable {
                path: file.path.clone(),
                reason,
            };
            let variable = netcdf
                .variable(name)
                .ok_or_else(|| unreadable(format!("`{name}` has gone")))?;
            variable
                .get_values(extents)
                .map_err(|error| unreadable(format!("variable `{name}`: {error}")))
        })
    }

    fn in_order<T: Copy + Default>(&self, file: &MaskFile, values: Vec<T>) -> Result<Array2<T>> {
        let unreadable = |reason: String| DataError::Unreadable {
            path: file.path.clone(),
            reason,
        };
        let plane = Array2::from_shape_vec(file.file_shape, values)
            .map_err(|e| unreadable(e.to_string()))?;
        let mut ordered = Array2::default(self.grid.shape());
        file.order.copy_plane(plane.view(), ordered.view_mut());
        Ok(ordered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::Array3;

    #[test]
    fn masks_and_probabilities_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("masks.nc");
        let grid = LatLonGrid::global(8, 12).unwrap();
        let start = Time::new(Calendar::NoLeap, 2000, 2, 28, 21, 0, 0).unwrap();
        let options = MaskFileOptions {
            probabilities: true,
            ..MaskFileOptions::default()
        };
        let mut writer = MaskWriter::create(&path, &grid, start, &options).unwrap();
        let mask = |step: usize| {
            let codes = Array2::from_shape_fn((8, 12), |(j, i)| ((j + i + step) % 3) as u8);
            ClassMask::new(start.add_seconds(10_800 * step as i64), codes).unwrap()
        };
        let probability =
            Array3::from_shape_fn((8, 12, 3), |(j, _, k)| if j % 3 == k { 0.8 } else { 0.1 });
        for step in 0..3 {
            writer.write(&mask(step), Some(probability.view())).unwrap();
        }
        assert!(!path.exists(), "the file appears whole");
        writer.finish().unwrap();
        let archive = MaskArchive::open(path.to_str().unwrap()).unwrap();
        assert_eq!(archive.times().len(), 3);
        assert_eq!(**archive.grid(), grid);
        for step in 0..3 {
            assert_eq!(archive.read(step).unwrap(), mask(step));
        }
        let back = archive
            .probability(1, Class::TropicalCyclone)
            .unwrap()
            .unwrap();
        assert!((back[[1, 5]] - 0.8).abs() < 0.003 && (back[[0, 5]] - 0.1).abs() < 0.003);
        let wrong = ClassMask::new(start, Array2::zeros((4, 4))).unwrap();
        let mut writer = MaskWriter::create(&path, &grid, start, &options).unwrap();
        assert!(
            writer
                .write(&wrong, None)
                .unwrap_err()
                .to_string()
                .contains("(4, 4)")
        );
    }

    #[test]
    fn masks_of_another_detector() {
        let Some(folder) = crate::testdata::real("ar-masks-merra2-teca-bard") else {
            return;
        };
        let archive =
            MaskArchive::open(folder.join("ar_tag_merra2_1981.nc").to_str().unwrap()).unwrap();
        assert_eq!(archive.grid().shape(), (361, 576));
        let mask = archive.read(0).unwrap();
        let share = mask.pixel_counts()[2] as f64 / mask.codes.len() as f64;
        assert!((0.02..0.06).contains(&share), "{share}");
    }
}
