//! Writes masks as compressed CF netCDF.

use super::{CERTAIN, event_variable};
use crate::error::{DataError, Result};
use crate::netcdf_file::{NetcdfFile, put_axis, variable_mut};
use crate::{Class, ClassMask, LatLonGrid, Time};
use ndarray::ArrayView3;
use netcdf::{Extent, FileMut};
use std::path::Path;

/// Quantisation steps for a standard deviation of 1; it is at most 0.5.
const SPREAD_STEPS: f32 = 500.0;
/// Stored value of 0: bytes are signed in netCDF's classic model, which is all that many tools support.
const BYTE_OF_ZERO: f32 = -125.0;
/// Stored value of missing cells.
const NOTHING: i8 = -128;

/// Contents and metadata of a mask file.
#[derive(Debug, Clone)]
pub struct MaskFileOptions {
    /// CF `title`.
    pub title: String,
    /// CF `source`: what made the masks.
    pub source: String,
    /// Further global attributes.
    pub attributes: Vec<(String, String)>,
    /// The classes that were searched for. Others are not in the CF flags of `LABELS`, because their absence would mean
    /// nothing. Default: all.
    pub classes: &'static [Class],
    /// Also store the probability of these classes, in steps of 1/250.
    pub probabilities: &'static [Class],
    /// Also store the standard deviation of these probabilities over the members of an ensemble, in steps of 1/500.
    pub spread: bool,
    /// Also store `ar_binary_tag`, rivers in ARTMIP's format. Default: yes.
    pub river_tag: bool,
}

impl Default for MaskFileOptions {
    fn default() -> Self {
        Self {
            title: String::new(),
            source: String::new(),
            attributes: Vec::new(),
            classes: &Class::EVENTS,
            probabilities: &[],
            spread: false,
            river_tag: true,
        }
    }
}

/// Writes masks of ascending times into one file, which is renamed into place when complete.
#[derive(Debug)]
pub struct MaskWriter {
    file: NetcdfFile,
    origin: Time,
    shape: (usize, usize),
    written: usize,
    probabilities: &'static [Class],
    spread: bool,
    river_tag: bool,
}

impl MaskWriter {
    /// Creates a file; `first` determines the calendar and the origin of the time axis.
    ///
    /// # Errors
    /// [`DataError::Io`] if the folder or the file cannot be written.
    pub fn create(
        path: &Path,
        grid: &LatLonGrid,
        first: Time,
        options: &MaskFileOptions,
    ) -> Result<Self> {
        Ok(Self {
            file: NetcdfFile::create(path, |file| begin(file, grid, first, options))?,
            origin: first.midnight(),
            shape: grid.shape(),
            written: 0,
            probabilities: options.probabilities,
            spread: options.spread,
            river_tag: options.river_tag,
        })
    }

    /// Adds a mask and, if the file stores them, its probabilities `(lat, lon, class)`.
    ///
    /// # Errors
    /// [`DataError::Invalid`] if the shape is not the grid's, [`DataError::Io`] if the file cannot be written.
    pub fn write(
        &mut self,
        mask: &ClassMask,
        probabilities: Option<ArrayView3<'_, f32>>,
    ) -> Result<()> {
        self.write_with_spread(mask, probabilities, None)
    }

    /// Like [`Self::write`], with the standard deviation of the probabilities, `(lat, lon, class)`, if the file stores
    /// it.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn write_with_spread(
        &mut self,
        mask: &ClassMask,
        probabilities: Option<ArrayView3<'_, f32>>,
        spread: Option<ArrayView3<'_, f32>>,
    ) -> Result<()> {
        if mask.codes.dim() != self.shape {
            let found = mask.codes.dim();
            return Err(DataError::Invalid(format!(
                "mask of {}: expected {:?} cells, found {found:?}",
                mask.time, self.shape
            )));
        }
        let codes: Vec<i8> = mask.codes.iter().map(|&code| code as i8).collect();
        let mut planes = vec![("LABELS".to_string(), codes)];
        if self.river_tag {
            let river = Class::AtmosphericRiver.code();
            let rivers = mask.codes.iter().map(|&code| i8::from(code == river));
            planes.push(("ar_binary_tag".to_string(), rivers.collect()));
        }
        let spread_of: &[Class] = if self.spread { &Class::EVENTS } else { &[] };
        let kept = [
            (self.probabilities, probabilities, "probability", CERTAIN),
            (spread_of, spread, "probability_spread", SPREAD_STEPS),
        ];
        for (classes, values, what, steps) in kept {
            let Some(values) = values else {
                continue;
            };
            for &class in classes {
                let of_class = values.index_axis(ndarray::Axis(2), usize::from(class.code()));
                let packed = of_class.iter().map(|&value| pack(value, steps)).collect();
                planes.push((event_variable(class, what), packed));
            }
        }
        let days = mask.time.days_since(self.origin);
        let (at, shape) = (self.written, self.shape);
        self.file.with(|file| put(file, at, days, &planes, shape))?;
        self.written += 1;
        Ok(())
    }

    /// Closes the file and renames it to its final name.
    ///
    /// # Errors
    /// [`DataError::Io`] if it cannot be completed, synced or renamed.
    pub fn finish(self) -> Result<()> {
        self.file.finish()
    }
}

/// Quantises a value to a byte, with this many steps per unit.
fn pack(value: f32, steps: f32) -> i8 {
    if value.is_nan() {
        return NOTHING;
    }
    let whole = (value * steps).round().clamp(0.0, CERTAIN);
    (whole + BYTE_OF_ZERO) as i8
}

/// Writes time number `at`, this many days after the origin, and its planes of bytes by variable name.
fn put(
    file: &mut FileMut,
    at: usize,
    days: f64,
    planes: &[(String, Vec<i8>)],
    (rows, columns): (usize, usize),
) -> netcdf::Result<()> {
    variable_mut(file, "time")?.put_values(&[days], [Extent::from(at..at + 1)])?;
    for (name, values) in planes {
        let plane = [
            Extent::from(at),
            Extent::from(0..rows),
            Extent::from(0..columns),
        ];
        variable_mut(file, name)?.put_values(values, plane)?;
    }
    Ok(())
}

fn begin(
    file: &mut FileMut,
    grid: &LatLonGrid,
    first: Time,
    options: &MaskFileOptions,
) -> netcdf::Result<()> {
    file.add_attribute("Conventions", "CF-1.8")?;
    file.add_attribute("title", options.title.as_str())?;
    file.add_attribute("source", options.source.as_str())?;
    for (name, value) in &options.attributes {
        file.add_attribute(name, value.as_str())?;
    }
    add_axes(file, grid, first)?;
    let told: Vec<Class> = (Class::ALL.into_iter())
        .filter(|class| *class == Class::Background || options.classes.contains(class))
        .collect();
    let names: Vec<&str> = told.iter().map(|class| class.name()).collect();
    let mut flags = vec![(
        "LABELS",
        "class of extreme weather",
        told.iter().map(|class| class.code() as i8).collect(),
        names.join(" "),
    )];
    if options.river_tag {
        flags.push((
            "ar_binary_tag",
            "atmospheric river (ARTMIP convention)",
            vec![0, 1],
            "no_river atmospheric_river".to_string(),
        ));
    }
    for (name, long_name, values, meanings) in flags {
        let mut variable = add_plane(file, grid, name, long_name)?;
        variable.put_attribute("flag_values", values)?;
        variable.put_attribute("flag_meanings", meanings)?;
    }
    for class in Class::EVENTS {
        let words = class.name().replace('_', " ");
        if options.probabilities.contains(&class) {
            let name = event_variable(class, "probability");
            let long_name = format!("probability of {words}");
            add_packed(file, grid, &name, &long_name, CERTAIN)?;
        }
        if options.spread {
            let name = event_variable(class, "probability_spread");
            let long_name =
                format!("standard deviation over the ensemble of the probability of {words}");
            add_packed(file, grid, &name, &long_name, SPREAD_STEPS)?;
        }
    }
    Ok(())
}

/// Latitude and longitude with cell bounds, and time.
fn add_axes(file: &mut FileMut, grid: &LatLonGrid, first: Time) -> netcdf::Result<()> {
    let (rows, columns) = grid.shape();
    file.add_unlimited_dimension("time")?;
    file.add_dimension("lat", rows)?;
    file.add_dimension("lon", columns)?;
    file.add_dimension("bnds", 2)?;
    let edges = grid.lat_bounds_deg().windows(2);
    let lat_bounds: Vec<f64> = edges.flat_map(|edge| [edge[0], edge[1]]).collect();
    let half = grid.lon_spacing_deg() / 2.0;
    let lon_bounds: Vec<f64> = (grid.lon_deg().iter())
        .flat_map(|lon| [lon - half, lon + half])
        .collect();
    let axes = [
        (
            "lat",
            grid.lat_deg(),
            &lat_bounds,
            ["latitude", "degrees_north", "Y"],
        ),
        (
            "lon",
            grid.lon_deg(),
            &lon_bounds,
            ["longitude", "degrees_east", "X"],
        ),
    ];
    for (name, values, bounds, [standard_name, units, axis]) in axes {
        let bounds_name = format!("{name}_bnds");
        let attributes = [
            ("standard_name", standard_name),
            ("long_name", standard_name),
            ("units", units),
            ("axis", axis),
            ("bounds", bounds_name.as_str()),
        ];
        put_axis(file, name, values, &attributes)?;
        file.add_variable::<f64>(&bounds_name, &[name, "bnds"])?
            .put_values(bounds, ..)?;
    }
    let mut time = file.add_variable::<f64>("time", &["time"])?;
    time.put_attribute("standard_name", "time")?;
    time.put_attribute("long_name", "time")?;
    time.put_attribute("units", first.cf_units())?;
    time.put_attribute("calendar", first.calendar().cf_name())?;
    time.put_attribute("axis", "T")?;
    Ok(())
}

/// A compressed byte variable over time, lat, lon.
fn add_plane<'f>(
    file: &'f mut FileMut,
    grid: &LatLonGrid,
    name: &str,
    long_name: &str,
) -> netcdf::Result<netcdf::VariableMut<'f>> {
    let (rows, columns) = grid.shape();
    let mut variable = file.add_variable::<i8>(name, &["time", "lat", "lon"])?;
    variable.set_chunking(&[1, rows, columns])?;
    variable.set_compression(1, true)?;
    variable.put_attribute("long_name", long_name)?;
    variable.put_attribute("cell_methods", "time: point")?;
    Ok(variable)
}

/// Adds a variable for values from 0 up, with this many quantisation steps per unit.
fn add_packed(
    file: &mut FileMut,
    grid: &LatLonGrid,
    name: &str,
    long_name: &str,
    steps: f32,
) -> netcdf::Result<()> {
    let mut variable = add_plane(file, grid, name, long_name)?;
    variable.set_fill_value(NOTHING)?;
    variable.put_attribute("units", "1")?;
    variable.put_attribute("scale_factor", 1.0 / f64::from(steps))?;
    variable.put_attribute("add_offset", f64::from(-BYTE_OF_ZERO / steps))?;
    variable.put_attribute("valid_range", vec![BYTE_OF_ZERO as i8, -BYTE_OF_ZERO as i8])?;
    Ok(())
}
