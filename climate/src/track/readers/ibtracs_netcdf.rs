//! IBTrACS best tracks as netCDF.

use super::KNOT_M_S;
use super::imported::{ImportedPoint, Rows, TrackFormat, TrackTable};
use crate::error::{ClimateError, Result};
use crate::statistics::Basin;
use netcdf::{File, Variable};
use squall_data::archive::on_library_thread;
use squall_data::{Calendar, Class, DataError, Time};
use std::path::Path;

/// The tracks of an IBTrACS netCDF file: dimensions `storm` and `date_time`, `numobs(storm)` points each, texts as characters.
///
/// The wind and pressure of the responsible agency (WMO) come first, then those of the US agencies.
///
/// # Source
/// Knapp et al. 2010, doi:10.1175/2009BAMS2755.1; technical documentation of IBTrACS v04r00.
///
/// # Errors
/// [`ClimateError::Data`] naming the variable that is missing or has another shape; [`ClimateError::Table`] naming storm and
/// point of a date or place that is none.
pub fn read(path: &Path) -> Result<TrackTable> {
    on_library_thread(|| {
        let file = netcdf::open(path).map_err(|error| DataError::Unreadable {
            path: path.into(),
            reason: format!("netCDF: {error}"),
        })?;
        Storms { path, file: &file }.read()
    })
}

struct Storms<'a> {
    path: &'a Path,
    file: &'a File,
}

impl<'a> Storms<'a> {
    fn read(&self) -> Result<TrackTable> {
        let shape = self.shape(&self.variable("lat")?);
        let &[storms, times] = shape.as_slice() else {
            return Err(self.bad("lat", "(storm, date_time)", format!("{shape:?}")));
        };
        let counts = self.numbers("numobs", storms)?;
        let (lat, lon) = (
            self.numbers("lat", storms * times)?,
            self.numbers("lon", storms * times)?,
        );
        let season = self.optional("season", storms)?;
        let winds = self.first_known(["wmo_wind", "usa_wind"], storms * times)?;
        let pressures = self.first_known(["wmo_pres", "usa_pres"], storms * times)?;
        let (names, dates) = (
            self.texts("sid", storms)?,
            self.texts("iso_time", storms * times)?,
        );
        let basins = match self.file.variable("basin") {
            Some(_) => self.texts("basin", storms * times)?,
            None => Vec::new(),
        };
        let known = |value: f64, unit: f64| value.is_finite().then_some(value * unit);
        let mut rows = Rows::default();
        for storm in 0..storms {
            let points = (counts[storm].max(0.0) as usize).min(times);
            for k in 0..points {
                let at = storm * times + k;
                let fault = |expected: &str, found: String| ClimateError::Table {
                    path: self.path.into(),
                    reason: format!(
                        "storm {} (`{}`), point {}: expected {expected}, found {found}",
                        storm + 1,
                        names[storm],
                        k + 1
                    ),
                };
                let time = Time::parse(&dates[at], Calendar::Standard)
                    .map_err(|_| fault("a date in `iso_time`", format!("`{}`", dates[at])))?;
                let (lat_deg, lon_deg) = (lat[at], lon[at]);
                if lat_deg.is_nan() || lat_deg.abs() > 90.0 || lon_deg.is_nan() {
                    return Err(fault(
                        "a place on the globe",
                        format!("{lat_deg}, {lon_deg}"),
                    ));
                }
                let turned = lon_deg.rem_euclid(360.0);
                let point = ImportedPoint {
                    time,
                    lon_deg: if turned < 360.0 { turned } else { 0.0 },
                    lat_deg,
                    max_wind_m_s: known(winds[at], KNOT_M_S),
                    min_psl_pa: known(pressures[at], 100.0),
                };
                rows.add(&names[storm], point, || {
                    (
                        Class::TropicalCyclone,
                        season
                            .get(storm)
                            .filter(|v| v.is_finite())
                            .map(|&v| v as i64),
                        basins.get(at).and_then(|code| Basin::from_code(code)),
                    )
                });
            }
        }
        Ok(rows.finish(TrackFormat::IbtracsNetcdf))
    }

    fn variable(&self, name: &str) -> Result<Variable<'a>> {
        self.file.variable(name).ok_or_else(|| {
            let found = self.file.variables().map(|v| v.name()).take(30).collect();
            ClimateError::Data(DataError::MissingVariable {
                path: self.path.into(),
                variable: name.into(),
                found,
            })
        })
    }

    fn shape(&self, variable: &Variable<'_>) -> Vec<usize> {
        variable.dimensions().iter().map(|d| d.len()).collect()
    }

    /// Values of a variable of so many cells; NaN where missing.
    fn numbers(&self, name: &str, cells: usize) -> Result<Vec<f64>> {
        let variable = self.variable(name)?;
        let values = variable
            .get_values::<f64, _>(..)
            .map_err(|error| self.bad(name, "numbers", error.to_string()))?;
        if values.len() != cells {
            return Err(self.bad(name, &format!("{cells} values"), values.len().to_string()));
        }
        // IBTrACS marks what is missing with -9999 or -99; nothing it holds here comes near.
        let known = |value: f64| {
            if value > -900.0 && value < 1e30 {
                value
            } else {
                f64::NAN
            }
        };
        Ok(values.into_iter().map(known).collect())
    }

    /// The same; empty if there is no such variable.
    fn optional(&self, name: &str, cells: usize) -> Result<Vec<f64>> {
        match self.file.variable(name) {
            Some(_) => self.numbers(name, cells),
            None => Ok(Vec::new()),
        }
    }

    /// For each cell the first of two variables that has a value there; NaN where neither has.
    fn first_known(&self, names: [&str; 2], cells: usize) -> Result<Vec<f64>> {
        let mut values = vec![f64::NAN; cells];
        for name in names {
            for (value, other) in values.iter_mut().zip(self.optional(name, cells)?) {
                if value.is_nan() {
                    *value = other;
                }
            }
        }
        Ok(values)
    }

    /// So many texts, whose characters are the last dimension.
    fn texts(&self, name: &str, count: usize) -> Result<Vec<String>> {
        let variable = self.variable(name)?;
        let shape = self.shape(&variable);
        let length = shape.last().copied().unwrap_or(0);
        let bytes = variable.get_raw_values(..);
        let bytes = bytes.map_err(|error| self.bad(name, "characters", error.to_string()))?;
        if length == 0 || bytes.len() != count * length {
            return Err(self.bad(name, &format!("{count} texts"), format!("{shape:?}")));
        }
        let text = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            text.trim_matches(['\0', ' ']).to_string()
        };
        Ok(bytes.chunks(length).map(text).collect())
    }

    fn bad(&self, variable: &str, expected: &str, found: String) -> ClimateError {
        ClimateError::Data(DataError::BadVariable {
            path: self.path.into(),
            variable: variable.into(),
            expected: expected.into(),
            found,
        })
    }
}
