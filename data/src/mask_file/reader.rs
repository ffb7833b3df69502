//! Masks of any of the layouts in use, as one time axis.

use super::{CERTAIN, event_variable};
use crate::archive::coordinates::{axes, time_axis};
use crate::archive::files_of;
use crate::archive::nc::{self, on_library_thread};
use crate::error::{DataError, Result};
use crate::grid::AxisOrder;
use crate::snapshot::shape_text;
use crate::{Calendar, Class, ClassMask, LatLonGrid, Time};
use ndarray::Array2;
use netcdf::Extent;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
    /// What a tag means.
    tagged: Class,
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
    notes: Vec<String>,
    open: nc::FileCache,
}

impl MaskArchive {
    /// Opens the mask files of a path, folder, glob or list: ours, ClimateNet's `LABELS`, ARTMIP's `ar_binary_tag`,
    /// TempestExtremes' `binary_tag` and `object_id` (both read as rivers, which [`Self::notes`] tells).
    ///
    /// # Errors
    /// [`DataError::MissingVariable`] if a file has no mask; [`DataError::Mismatch`] if files differ in grid or
    /// calendar.
    pub fn open(input: &str) -> Result<Self> {
        Self::open_as(input, None)
    }

    /// As [`Self::open`], where a class is given for variables that name none, such as `binary_tag` of cyclones.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_as(input: &str, tagged: Option<Class>) -> Result<Self> {
        on_library_thread(|| Self::scan(input, tagged))
    }

    fn scan(input: &str, tagged: Option<Class>) -> Result<Self> {
        let mut notes = Vec::new();
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
            // Its name says what it is.
            let names_a_class = name == "ar_binary_tag";
            if layout == Layout::Tag && !names_a_class && tagged.is_none() && notes.is_empty() {
                notes.push(format!(
                    "`{name}` in `{}` names no class and is read as atmospheric rivers",
                    path.display()
                ));
            }
            let tagged = tagged.filter(|_| !names_a_class);
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
                tagged: tagged.unwrap_or(Class::AtmosphericRiver),
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
            notes,
            open: nc::FileCache::default(),
        })
    }

    /// The grid of every mask.
    pub fn grid(&self) -> &Arc<LatLonGrid> {
        &self.grid
    }

    /// The files, in the order in which the input named them.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|file| file.path.as_path())
    }

    /// What made the masks, as the first file says (CF `source`); empty if it does not.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// What was taken for granted when the files were opened.
    pub fn notes(&self) -> &[String] {
        &self.notes
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
    /// [`DataError::Unreadable`] if the file is damaged, [`DataError::BadVariable`] if it holds other codes than 0,
    /// 1, 2.
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
            Layout::Tag if *value > 0.0 => Ok(file.tagged.code()),
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
        if class != Class::Background {
            if let Some(found) = self.unpacked(index, &event_variable(class, "probability"))? {
                return Ok(Some(found));
            }
            return self.joint_probability(index, class);
        }
        let mut left: Option<Array2<f32>> = None;
        for event in Class::EVENTS {
            let Some(p) = self.unpacked(index, &event_variable(event, "probability"))? else {
                return self.joint_probability(index, class);
            };
            let shape = self.grid.shape();
            *left.get_or_insert_with(|| Array2::ones(shape)) -= &p;
        }
        Ok(left.map(|left| left.mapv_into(|p| p.max(0.0))))
    }

    /// The standard deviation of the probability of a class between the members of an ensemble; `None` if the file
    /// keeps none.
    ///
    /// # Errors
    /// [`DataError::Unreadable`] if the file is damaged.
    pub fn spread(&self, index: usize, class: Class) -> Result<Option<Array2<f32>>> {
        self.unpacked(index, &event_variable(class, "probability_spread"))
    }

    fn has(&self, index: usize, name: &str) -> Result<bool> {
        let (id, _) = self.places[index];
        let kept = |netcdf: &netcdf::File| Ok(netcdf.variable(name).is_some());
        self.open.with(id, &self.files[id].path, kept)
    }

    /// A packed variable by its own scale and offset.
    fn unpacked(&self, index: usize, name: &str) -> Result<Option<Array2<f32>>> {
        if !self.has(index, name)? {
            return Ok(None);
        }
        let (id, _) = self.places[index];
        let file = &self.files[id];
        let packing = |netcdf: &netcdf::File| {
            let number = |key: &str, without: f64| {
                let found = netcdf.variable(name).map(|v| nc::numbers(&v, key));
                found
                    .and_then(|all| all.first().copied())
                    .unwrap_or(without)
            };
            Ok((number("scale_factor", 1.0), number("add_offset", 0.0)))
        };
        let (scale, offset) = self.open.with(id, &file.path, packing)?;
        let stored = self.stored(index, name, &[])?.into_iter();
        let values = stored
            .map(|value| (value * scale + offset) as f32)
            .collect();
        self.in_order(file, values).map(Some)
    }

    /// From files of earlier versions, which kept all classes in one variable.
    fn joint_probability(&self, index: usize, class: Class) -> Result<Option<Array2<f32>>> {
        if !self.has(index, "probability")? {
            return Ok(None);
        }
        let file = &self.files[self.places[index].0];
        let stored = self.stored(index, "probability", &[usize::from(class.code())])?;
        let values = stored.into_iter().map(|value| value as f32 / CERTAIN);
        self.in_order(file, values.collect()).map(Some)
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
