//! Reads masks of all supported layouts as one time axis.

use super::flags::described;
use super::scan::{MADE_BY, MaskFile, MaskKind, Scan};
use super::{CERTAIN, KnownMask, event_variable};
use crate::archive::nc::{self, on_library_thread};
use crate::archive::{BadFiles, Place, files_of};
use crate::error::{DataError, Result};
use crate::{Calendar, Class, ClassMask, LatLonGrid, Time};
use ndarray::Array2;
use netcdf::Extent;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Many mask files seen as one time axis.
pub struct MaskArchive {
    files: Vec<MaskFile>,
    grid: Arc<LatLonGrid>,
    calendar: Calendar,
    times: Vec<Time>,
    /// Location of the mask of each time.
    places: Vec<Place>,
    source: String,
    notes: Vec<String>,
    has_unnamed: bool,
    skipped: Vec<String>,
    mixed: Option<String>,
    made_by: Vec<(&'static str, String)>,
    is_by_rules: bool,
    /// The result of [`Self::names_background`], once it is asked for.
    names_background: OnceLock<bool>,
    open: nc::FileCache,
}

impl MaskArchive {
    /// Opens the mask files of a path, folder, glob or list: ours, ClimateNet's `LABELS`, ARTMIP's `ar_binary_tag`,
    /// TempestExtremes' `binary_tag` and `object_id` (both read as rivers, as [`Self::notes`] reports). The CF
    /// `flag_values` and `flag_meanings` of `LABELS` define its codes.
    ///
    /// # Errors
    /// [`DataError::MissingVariable`] if a file has no mask; [`DataError::BadVariable`] if its codes have other
    /// meanings; [`DataError::Mismatch`] if files differ in grid or calendar (since 1582 both Gregorian ones count as
    /// that of the first file).
    pub fn open(input: &str) -> Result<Self> {
        Self::open_with(input, None, BadFiles::Fail)
    }

    /// Like [`Self::open`], with a class for variables that do not name one, such as a `binary_tag` of cyclones, and a
    /// choice of how to handle files that are unreadable or do not match the earlier ones ([`Self::skipped`]).
    ///
    /// # Errors
    /// As [`Self::open`]; [`DataError::NoInput`] if no usable file remains.
    pub fn open_with(input: &str, tagged: Option<Class>, bad_files: BadFiles) -> Result<Self> {
        let paths = files_of(input)?;
        on_library_thread(|| Self::of(Scan::of(input, paths, tagged, bad_files)?, input))
    }

    /// Like [`Self::open`] for a single file, whose path may not be valid UTF-8.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_file(path: &Path) -> Result<Self> {
        let (input, paths) = (path.display().to_string(), vec![path.to_path_buf()]);
        on_library_thread(|| Self::of(Scan::of(&input, paths, None, BadFiles::Fail)?, &input))
    }

    fn of(scan: Scan, input: &str) -> Result<Self> {
        let Scan {
            files,
            mut all,
            common,
            source,
            notes,
            has_unnamed,
            skipped,
            mixed,
            made_by,
            has_unruled,
            ..
        } = scan;
        let (Some((grid, calendar)), Some(&(origin, _))) = (common, all.first()) else {
            return Err(DataError::no_input(input, "no mask files"));
        };
        all.sort_by_key(|(time, place)| (time.seconds_since(origin), place.file));
        let (times, places) = all.into_iter().unzip();
        let said = MADE_BY.into_iter().zip(made_by.unwrap_or_default());
        Ok(Self {
            files,
            grid: Arc::new(grid),
            calendar,
            times,
            places,
            source,
            notes,
            has_unnamed,
            skipped,
            mixed,
            made_by: said
                .filter_map(|(name, text)| Some((name, text?)))
                .collect(),
            is_by_rules: !has_unruled,
            names_background: OnceLock::new(),
            open: nc::FileCache::new(1),
        })
    }

    /// The grid of every mask.
    pub fn grid(&self) -> &Arc<LatLonGrid> {
        &self.grid
    }

    /// The files, in the order of the input.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|file| file.path.as_path())
    }

    /// The origin of the masks according to the first file (CF `source`); empty if it does not say.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Assumptions made when the files were opened.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Whether a file has masks whose variable names no class, such as `binary_tag`, so that the caller may choose it.
    pub fn has_unnamed(&self) -> bool {
        self.has_unnamed
    }

    /// The classes that the masks can contain: those with a code, or that of the tags.
    pub fn classes(&self) -> Vec<Class> {
        let tells = |class: &Class| {
            let mut files = self.files.iter();
            files.any(|file| match file.layout {
                MaskKind::Labels => file.codes.iter().any(|(_, told)| told == class),
                MaskKind::Tag => file.tagged == *class,
            })
        };
        Class::EVENTS.into_iter().filter(tells).collect()
    }

    /// Why files were skipped, one sentence each ([`Self::open_with`]).
    pub fn skipped(&self) -> &[String] {
        &self.skipped
    }

    /// A warning if the files were made by different rules or networks, as far as they say.
    pub fn mixed(&self) -> Option<&str> {
        self.mixed.as_deref()
    }

    /// The rules or network that made the masks, from the first file: names and values of its attributes; empty for
    /// masks that are not ours.
    pub fn made_by(&self) -> &[(&'static str, String)] {
        &self.made_by
    }

    /// Whether all files name the rules that made them, as those of `squall label` do, and none a network: then every
    /// object in them was selected, whatever its size.
    pub fn is_by_rules(&self) -> bool {
        self.is_by_rules
    }

    /// The file of a time.
    pub fn source_of(&self, index: usize) -> &Path {
        &self.file(index).path
    }

    fn file(&self, index: usize) -> &MaskFile {
        &self.files[self.places[index].file]
    }

    /// The calendar of the time axis.
    pub fn calendar(&self) -> Calendar {
        self.calendar
    }

    /// All times, strictly ascending over all files.
    pub fn times(&self) -> &[Time] {
        &self.times
    }

    /// The index of a time, which may be one of the other Gregorian calendar ([`Time::instant_in`]).
    pub fn find(&self, time: Time) -> Option<usize> {
        time.find_in(&self.times)
    }

    /// Reads the mask of one time, with background where it is missing.
    ///
    /// # Errors
    /// [`DataError::Unreadable`] if the file is damaged or has been replaced since it was scanned;
    /// [`DataError::BadVariable`] if it contains codes other than 0, 1, 2 or its `flag_values`, or its mask was never
    /// written or is missing everywhere.
    pub fn read(&self, index: usize) -> Result<ClassMask> {
        let known = self.read_known(index)?;
        let known = known.ok_or_else(|| self.only_missing(index))?;
        Ok(known.mask)
    }

    /// The error of a time at which the mask is missing everywhere.
    pub fn only_missing(&self, index: usize) -> DataError {
        let file = self.file(index);
        let expected = format!("a mask of {}", self.times[index]);
        DataError::bad_variable(&file.path, file.name, expected, "only missing values")
    }

    /// Like [`Self::read`], with the cells in which the mask is missing; `None` if it is missing everywhere.
    ///
    /// # Errors
    /// As [`Self::read`], except for masks that are missing everywhere.
    pub fn read_known(&self, index: usize) -> Result<Option<KnownMask>> {
        let file = self.file(index);
        let stored: Vec<f64> = self.stored(index, file.name, &[])?;
        if (file.unwritten).is_some_and(|fill| stored.iter().all(|value| *value == fill)) {
            return Err(DataError::bad_variable(
                &file.path,
                file.name,
                format!("a mask of {}", self.times[index]),
                "one that was never written",
            ));
        }
        let missing = self.missing_in(file, &stored);
        let is_everywhere = |cells: &Vec<bool>| !cells.contains(&false);
        if missing.as_ref().is_some_and(is_everywhere) {
            return Ok(None);
        }
        let near = file.near();
        let code = |stored: &f64| {
            let value = file.meant(*stored);
            match file.layout {
                MaskKind::Labels => {
                    let is_same = |(code, _): &&(f64, Class)| (code - value).abs() <= near;
                    let known = file.codes.iter().find(is_same);
                    known.map(|(_, class)| class.code()).ok_or_else(|| {
                        let expected = described(&file.codes);
                        DataError::bad_variable(&file.path, file.name, expected, value)
                    })
                }
                MaskKind::Tag if value > near && !file.is_missing(*stored) => {
                    Ok(file.tagged.code())
                }
                MaskKind::Tag => Ok(0),
            }
        };
        let codes = stored.iter().map(code).collect::<Result<Vec<u8>>>()?;
        let missing = missing.map(|cells| self.in_order(file, cells));
        Ok(Some(KnownMask {
            mask: ClassMask::new(self.times[index], self.in_order(file, codes)?)?,
            missing: missing.transpose()?,
        }))
    }

    /// The cells in which a mask with these stored values is missing; `None` if there are none. (Labels have no
    /// missing values: any value without a class is refused.)
    fn missing_in(&self, file: &MaskFile, stored: &[f64]) -> Option<Vec<bool>> {
        if file.layout == MaskKind::Labels || !stored.iter().any(|value| file.is_missing(*value)) {
            return None;
        }
        let is_told = file.has_background(stored) || self.names_background();
        is_told.then(|| stored.iter().map(|value| file.is_missing(*value)).collect())
    }

    /// Whether any mask has a number for the background. In masks of objects and missing values alone, a missing value
    /// means the background. Usually the first mask decides; at worst all are read once.
    fn names_background(&self) -> bool {
        *self.names_background.get_or_init(|| {
            (0..self.times.len()).any(|index| {
                let file = self.file(index);
                let stored = self.stored(index, file.name, &[]);
                stored.is_ok_and(|stored| file.has_background(&stored))
            })
        })
    }

    /// The probability of a class at one time, NaN where unknown; `None` if the file does not have it.
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
        // Missing values stay NaN.
        Ok(left.map(|left| left.mapv_into(|p| p.clamp(0.0, 1.0))))
    }

    /// The standard deviation of a class's probability over the members of an ensemble; `None` if the file does not
    /// have it.
    ///
    /// # Errors
    /// [`DataError::Unreadable`] if the file is damaged.
    pub fn spread(&self, index: usize, class: Class) -> Result<Option<Array2<f32>>> {
        self.unpacked(index, &event_variable(class, "probability_spread"))
    }

    /// Runs `act` with the open file of a time, on the library's thread.
    fn with_file<T: Send>(
        &self,
        index: usize,
        act: impl FnOnce(&netcdf::File) -> Result<T> + Send,
    ) -> Result<T> {
        let number = self.places[index].file;
        let file = &self.files[number];
        let check = || {
            let all = self.times.iter().zip(&self.places);
            let own = all.filter(|(_, place)| place.file == number);
            file.check_unchanged(&self.grid, own.map(|(time, place)| (place.at, *time)))
        };
        self.open.with(number, &file.path, check, act)
    }

    /// Unpacks a variable with its scale and offset; NaN where values are missing.
    fn unpacked(&self, index: usize, name: &str) -> Result<Option<Array2<f32>>> {
        let packing = |netcdf: &netcdf::File| {
            let Some(variable) = netcdf.variable(name) else {
                return Ok(None);
            };
            let numbers = |key: &str| nc::numbers(&variable, key);
            let number = |key: &str, without: f64| numbers(key).first().copied().unwrap_or(without);
            let missing = ["_FillValue", "missing_value"].map(numbers).concat();
            let (scale, offset) = (number("scale_factor", 1.0), number("add_offset", 0.0));
            Ok(Some((scale, offset, missing)))
        };
        let Some((scale, offset, missing)) = self.with_file(index, packing)? else {
            return Ok(None);
        };
        let stored = self.stored(index, name, &[])?.into_iter();
        let values = stored
            .map(|value| {
                if missing.contains(&value) {
                    f32::NAN
                } else {
                    (value * scale + offset) as f32
                }
            })
            .collect();
        self.in_order(self.file(index), values).map(Some)
    }

    /// For files of earlier versions, which stored all classes in one variable.
    fn joint_probability(&self, index: usize, class: Class) -> Result<Option<Array2<f32>>> {
        let has = |netcdf: &netcdf::File| Ok(netcdf.variable("probability").is_some());
        if !self.with_file(index, has)? {
            return Ok(None);
        }
        let stored = self.stored(index, "probability", &[usize::from(class.code())])?;
        let values = stored.into_iter().map(|value| value as f32 / CERTAIN);
        self.in_order(self.file(index), values.collect()).map(Some)
    }

    fn stored(&self, index: usize, name: &str, last: &[usize]) -> Result<Vec<f64>> {
        let file = self.file(index);
        let (slow, fast) = file.stored_shape();
        let mut extents: Vec<Extent> = if file.has_time {
            vec![self.places[index].at.into()]
        } else {
            Vec::new()
        };
        extents.extend([Extent::from(0..slow), Extent::from(0..fast)]);
        extents.extend(last.iter().map(|&at| Extent::from(at)));
        self.with_file(index, |netcdf| {
            let unreadable = |reason: String| DataError::unreadable(&file.path, reason);
            let variable = netcdf
                .variable(name)
                .ok_or_else(|| unreadable(format!("`{name}` has gone")))?;
            variable
                .get_values(extents)
                .map_err(|error| unreadable(format!("variable `{name}`: {error}")))
        })
    }

    fn in_order<T: Copy + Default>(&self, file: &MaskFile, values: Vec<T>) -> Result<Array2<T>> {
        let plane = Array2::from_shape_vec(file.stored_shape(), values)
            .map_err(|error| DataError::unreadable(&file.path, error))?;
        let plane = if file.transposed {
            plane.reversed_axes()
        } else {
            plane
        };
        let mut ordered = Array2::default(self.grid.shape());
        file.order.copy_plane(plane.view(), ordered.view_mut());
        Ok(ordered)
    }
}
