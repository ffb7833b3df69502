//! Maps of change as CF netCDF.

use crate::compare::{Comparison, MapChange, false_rate};
use crate::error::Result;
use crate::statistics::coarse::{COARSE_CELL_DEG, COARSE_COLUMNS, COARSE_ROWS, coarse_grid};
use netcdf::FileMut;
use squall_data::netcdf_file::{NetcdfFile, put_axis, variable_mut};
use squall_data::{Class, LatLonGrid};
use std::path::Path;

/// A part of a map: its suffix in the file, its meaning, and its values.
type Part = (&'static str, &'static str, fn(&MapChange) -> &Vec<f64>);

const PARTS: [Part; 7] = [
    ("a", "of the first run", |m| &m.a),
    ("b", "of the second run", |m| &m.b),
    ("difference", "second minus first run", |m| &m.difference),
    ("low", "lower end of the interval of the difference", |m| {
        &m.low
    }),
    ("high", "upper end of the interval of the difference", |m| {
        &m.high
    }),
    ("p", "p of the difference, each cell alone", |m| &m.p),
    ("adjusted_p", "p adjusted for the number of cells", |m| {
        &m.adjusted_p
    }),
];

impl Comparison {
    /// Writes the maps of change: for each map the variables `NAME_a`, `_b`, `_difference`, `_low`, `_high`, `_p`,
    /// `_adjusted_p` and the flag `_significant`, all `(class, lat, lon)`. Classes that are not compared have fill
    /// values.
    pub(crate) fn write_maps(&self, path: &Path) -> Result<()> {
        let grid = coarse_grid()?;
        let file = NetcdfFile::create(path, |file| self.fill(file, &grid))?;
        Ok(file.finish()?)
    }

    fn fill(&self, file: &mut FileMut, grid: &LatLonGrid) -> netcdf::Result<()> {
        self.put_attributes(file)?;
        put_axes(file, grid)?;
        for map in &self.map_changes {
            let class = Class::EVENTS.iter().position(|c| *c == map.class);
            let class = class.unwrap_or(0);
            for part in PARTS {
                put_part(file, map, class, part)?;
            }
            put_significant(file, map, class, false_rate(self.draws.confidence))?;
        }
        Ok(())
    }

    fn put_attributes(&self, file: &mut FileMut) -> netcdf::Result<()> {
        file.add_attribute("Conventions", "CF-1.8")?;
        let title = format!(
            "Changes of extreme weather, {} minus {}",
            self.b.label, self.a.label
        );
        file.add_attribute("title", title)?;
        file.add_attribute("confidence", self.draws.confidence)?;
        file.add_attribute("resamples", self.draws.draws as f64)?;
        file.add_attribute("seed", self.draws.seed as f64)?;
        file.add_attribute("years_a", self.a.years.len() as f64)?;
        file.add_attribute("years_b", self.b.years.len() as f64)?;
        for (name, side) in [("members_a", &self.a), ("members_b", &self.b)] {
            if !side.members.is_empty() {
                file.add_attribute(name, side.members.len() as f64)?;
            }
        }
        Ok(())
    }
}

/// Adds the dimensions and coordinate variables.
fn put_axes(file: &mut FileMut, grid: &LatLonGrid) -> netcdf::Result<()> {
    for (name, length) in [
        ("class", Class::EVENTS.len()),
        ("lat", COARSE_ROWS),
        ("lon", COARSE_COLUMNS),
        ("bounds", 2),
    ] {
        file.add_dimension(name, length)?;
    }
    for (name, values, standard, units) in [
        ("lat", grid.lat_deg(), "latitude", "degrees_north"),
        ("lon", grid.lon_deg(), "longitude", "degrees_east"),
    ] {
        let bounds_name = format!("{name}_bounds");
        let attributes = [
            ("standard_name", standard),
            ("units", units),
            ("bounds", bounds_name.as_str()),
        ];
        put_axis(file, name, values, &attributes)?;
        let half = COARSE_CELL_DEG / 2.0;
        let ends: Vec<f64> = values.iter().flat_map(|v| [v - half, v + half]).collect();
        file.add_variable::<f64>(&bounds_name, &[name, "bounds"])?
            .put_values(&ends, ..)?;
    }
    let mut class = file.add_variable::<i8>("class", &["class"])?;
    let codes = Class::EVENTS.map(|class| class.code() as i8);
    class.put_attribute("flag_values", codes.to_vec())?;
    class.put_attribute("flag_meanings", Class::EVENTS.map(Class::name).join(" "))?;
    class.put_values(&codes, ..)
}

/// Writes a part of a map for the class with index `class`; creates its variable if necessary.
fn put_part(
    file: &mut FileMut,
    map: &MapChange,
    class: usize,
    (ending, meaning, values): Part,
) -> netcdf::Result<()> {
    let name = map.quantity.name();
    let full = format!("{name}_{ending}");
    if file.variable(&full).is_none() {
        let mut variable = file.add_variable::<f64>(&full, &["class", "lat", "lon"])?;
        variable.set_compression(1, true)?;
        variable.set_fill_value(f64::NAN)?;
        variable.put_attribute(
            "long_name",
            format!("{}, {meaning}", name.replace('_', " ")),
        )?;
        let unit = if ending.ends_with('p') {
            "1"
        } else {
            map.quantity.unit()
        };
        variable.put_attribute("units", unit)?;
    }
    variable_mut(file, &full)?.put_values(values(map), (class, .., ..))
}

/// Writes the flag of significance at a false discovery rate, for the class with index `class`.
fn put_significant(
    file: &mut FileMut,
    map: &MapChange,
    class: usize,
    rate: f64,
) -> netcdf::Result<()> {
    let full = format!("{}_significant", map.quantity.name());
    if file.variable(&full).is_none() {
        let mut variable = file.add_variable::<i8>(&full, &["class", "lat", "lon"])?;
        variable.set_compression(1, true)?;
        // For classes that are not compared. Tools read the default fill value of a byte as a number.
        variable.set_fill_value(-1i8)?;
        variable.put_attribute(
            "long_name",
            "whether the change is significant at the false discovery rate 1 - confidence",
        )?;
        variable.put_attribute("flag_values", vec![0i8, 1])?;
        variable.put_attribute("flag_meanings", "not_significant significant")?;
    }
    let flags: Vec<i8> = map.significant(rate).map(i8::from).collect();
    variable_mut(file, &full)?.put_values(&flags, (class, .., ..))
}
