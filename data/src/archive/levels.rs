//! Reads whole fields on pressure levels.

use super::scan::Levels;
use super::{Archive, Place, alias};
use crate::Variable;
use crate::error::{DataError, Result};
use ndarray::{Array3, Axis};

impl Archive {
    /// Reads a field on pressure levels, `(level, lat, lon)`, from the top of the atmosphere down, with its pressures
    /// in Pa.
    ///
    /// The name is the file's own, or any alias of the field (`U`, `ua` and `u_component_of_wind` are the same); winds,
    /// temperature, height and humidity are converted to SI units, other fields are unchanged.
    ///
    /// # Errors
    /// [`DataError::MissingVariable`] listing the fields on levels that exist; otherwise as [`Self::read`].
    pub fn read_levels(&self, index: usize, name: &str) -> Result<(Vec<f64>, Array3<f32>)> {
        self.check(index)?;
        let Some((place, levels)) = self.levels_named(index, name) else {
            return Err(DataError::MissingVariable {
                path: self.source_of(index).0.into(),
                variable: format!("{name} on pressure levels"),
                found: self
                    .level_fields(index)
                    .into_iter()
                    .map(String::from)
                    .collect(),
            });
        };
        let (pressure_pa, field) = self.read_all_levels(place, levels)?;
        let source = (self.path(place), levels.source.name.as_str());
        self.check_known(index, source, field.iter())?;
        Ok((pressure_pa, field))
    }

    /// The place of a field on pressure levels at a time, as [`Self::read_levels`] finds it.
    pub(super) fn levels_named(&self, index: usize, name: &str) -> Option<(Place, &Levels)> {
        let family = alias::family(name);
        let of_name = |l: &&Levels| l.source.name.eq_ignore_ascii_case(name);
        let of_family = |l: &&Levels| family.is_some() && l.family == family;
        let own = self.first_with(index, |layout| layout.levels.iter().find(of_name));
        own.or_else(|| self.first_with(index, |layout| layout.levels.iter().find(of_family)))
    }

    /// Describes the level fields in a time's files that contain some channels, such as "`ta`, `zg` at 850, 500, 250
    /// hPa; `U` on model levels"; `None` if there are none.
    pub fn levels_instead(&self, index: usize, channels: &[Variable]) -> Option<String> {
        let mut told: Vec<(String, Vec<&str>)> = Vec::new();
        for family in channels.iter().filter_map(|v| alias::family_of(*v)) {
            for layout in self.places[index].iter().map(|&place| self.layout(place)) {
                let at_pressures = layout.levels.iter().filter(|l| l.family == Some(family));
                let at_pressures = at_pressures.map(|l| (l.source.name.as_str(), at_hpa(l)));
                let is_of = |name: &&String| alias::family(name) == Some(family);
                let on_model_levels = layout.on_model_levels.iter().filter(is_of);
                let on_model_levels =
                    on_model_levels.map(|name| (name.as_str(), "on model levels".to_string()));
                for (name, place) in at_pressures.chain(on_model_levels) {
                    match told.iter_mut().find(|(known, _)| *known == place) {
                        Some((_, names)) if names.contains(&name) => {}
                        Some((_, names)) => names.push(name),
                        None => told.push((place, vec![name])),
                    }
                }
            }
        }
        let each = (told.iter()).map(|(place, names)| format!("`{}` {place}", names.join("`, `")));
        let each: Vec<String> = each.collect();
        (!each.is_empty()).then(|| each.join("; "))
    }

    /// All levels of a field, from the top of the atmosphere down, with their pressures in Pa.
    pub(super) fn read_all_levels(
        &self,
        place: Place,
        levels: &Levels,
    ) -> Result<(Vec<f64>, Array3<f32>)> {
        let (rows, columns) = self.layout(place).file_shape;
        self.read_levels_by(levels.source.levels_at_once(rows * columns), place, levels)
    }

    /// [`Self::read_all_levels`], this many levels at once.
    fn read_levels_by(
        &self,
        at_once: usize,
        place: Place,
        levels: &Levels,
    ) -> Result<(Vec<f64>, Array3<f32>)> {
        let pressure = &levels.pressure_pa;
        let mut order: Vec<usize> = (0..pressure.len()).collect();
        order.sort_by(|&a, &b| pressure[a].total_cmp(&pressure[b]));
        let (rows, columns) = self.grid.shape();
        let mut fields = Array3::zeros((order.len(), rows, columns));
        for first in (0..order.len()).step_by(at_once) {
            let some = first..(first + at_once).min(order.len());
            let read = self.read_planes(place, &levels.source, &some)?;
            for (&level, plane) in order.iter().zip(fields.axis_iter_mut(Axis(0))) {
                if some.contains(&level) {
                    let read = read.index_axis(Axis(0), level - first);
                    self.layout(place).order.copy_plane(read, plane);
                }
            }
        }
        Ok((order.iter().map(|&level| pressure[level]).collect(), fields))
    }
}

/// Lists the levels of a field.
fn at_hpa(levels: &Levels) -> String {
    let hpa = levels.pressure_pa.iter().map(|pa| (pa / 100.0).to_string());
    format!("at {} hPa", hpa.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::on_library_thread;

    const AXES: [(&str, &str, &[f64]); 4] = [
        ("time", "hours since 2000-07-01", &[6.0]),
        ("lev", "hPa", &[500.0, 850.0, 200.0, 1000.0, 300.0]),
        ("lat", "degrees_north", &[60.0, 20.0, -20.0]),
        ("lon", "degrees_east", &[0.0, 90.0, 180.0, 270.0]),
    ];

    /// Writes a field whose values tell level, row and column of the file.
    fn write(path: &std::path::Path, order: [&str; 3]) {
        on_library_thread(|| {
            let mut file = netcdf::create(path).unwrap();
            for (name, unit, places) in AXES {
                file.add_dimension(name, places.len()).unwrap();
                let mut axis = file.add_variable::<f64>(name, &[name]).unwrap();
                axis.put_attribute("units", unit).unwrap();
                axis.put_values(places, ..).unwrap();
            }
            let [a, b, c] = order.map(|name| match name {
                "lev" => (5, 100),
                "lat" => (3, 10),
                _ => (4, 1),
            });
            let mut values = Vec::new();
            for i in 0..a.0 {
                for j in 0..b.0 {
                    for k in 0..c.0 {
                        values.push((i * a.1 + j * b.1 + k * c.1) as f32);
                    }
                }
            }
            let dimensions = ["time", order[0], order[1], order[2]];
            let mut field = file.add_variable::<f32>("T", &dimensions).unwrap();
            field.put_attribute("units", "K").unwrap();
            field.put_values(&values, ..).unwrap();
            file.close().unwrap();
        });
    }

    #[test]
    fn levels_are_the_same_however_many_are_read_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let expected = Array3::from_shape_fn((5, 3, 4), |(level, j, i)| {
            ([2, 4, 0, 1, 3][level] * 100 + (2 - j) * 10 + i) as f32
        });
        for (name, order, most) in [
            ("plain.nc", ["lev", "lat", "lon"], 6),
            ("turned.nc", ["lev", "lon", "lat"], 6),
            ("last.nc", ["lat", "lon", "lev"], 1),
        ] {
            let path = folder.path().join(name);
            write(&path, order);
            let archive = Archive::open(path.to_str().unwrap()).unwrap();
            let (place, levels) = archive.levels_named(0, "T").unwrap();
            assert_eq!(levels.source.levels_at_once(12).min(6), most, "{name}");
            for at_once in 1..=most {
                let (pressure_pa, field) = archive.read_levels_by(at_once, place, levels).unwrap();
                assert_eq!(pressure_pa, [2e4, 3e4, 5e4, 85e3, 1e5]);
                assert_eq!(field, expected, "{name}: {at_once}");
            }
            assert_eq!(archive.read_levels(0, "ta").unwrap().1, expected, "{name}");
        }
    }

    #[test]
    fn of_large_grids_a_few_levels_are_read_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.nc");
        write(&path, ["lev", "lat", "lon"]);
        let archive = Archive::open(path.to_str().unwrap()).unwrap();
        let (_, levels) = archive.levels_named(0, "T").unwrap();
        for (cells, at_once) in [(721 * 1440, 16), (1 << 24, 1), (1 << 30, 1)] {
            assert_eq!(levels.source.levels_at_once(cells), at_once);
        }
    }
}
