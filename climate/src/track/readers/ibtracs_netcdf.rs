//! IBTrACS best tracks as netCDF.

use super::imported::{ImportedPoint, TrackBuilder, TrackFormat, TrackTable};
use super::kinds::{Spurs, is_other_nature};
use super::plausible::Plausible;
use super::trajectories::MOST_VALUES;
use super::winds::{self, Winds};
use crate::error::{ClimateError, Result};
use crate::statistics::Basin;
use crate::statistics::category::KNOT_M_S;
use netcdf::types::NcVariableType;
use netcdf::{AttributeValue, File, Variable};
use squall_data::archive::on_library_thread;
use squall_data::grid::eastern_longitude;
use squall_data::{Calendar, Class, DataError, Time};
use std::path::Path;

/// Reads an IBTrACS netCDF file with dimensions `storm` and `date_time`, and `numobs(storm)` points each. Texts may be
/// character arrays, as written by NOAA, or netCDF strings; `time` may state a calendar other than the standard one.
///
/// Winds, pressures, spurs and extratropical points are treated as in [`super::ibtracs`].
///
/// # Source
/// Knapp et al. 2010, doi:10.1175/2009BAMS2755.1; technical documentation of IBTrACS v04r00.
///
/// # Errors
/// [`ClimateError::Data`] naming a variable that is missing or has another shape; [`ClimateError::Table`] naming storm
/// and point of an invalid date or position.
pub(super) fn read(path: &Path, wind_column: Option<&str>) -> Result<TrackTable> {
    on_library_thread(|| {
        let file = netcdf::open(path)
            .map_err(|error| DataError::unreadable(path, format!("netCDF: {error}")))?;
        let storms = Storms {
            path,
            file: &file,
            wind_column,
        };
        storms.read()
    })
}

/// Longer than any name, date or code; limits the memory that a damaged length can request.
const MAX_TEXT_LENGTH: usize = 1 << 10;

/// The winds of the responsible agencies, then those of the US agencies.
const WINDS: [&str; 2] = ["wmo_wind", "usa_wind"];

struct Storms<'a> {
    path: &'a Path,
    file: &'a File,
    /// The winds to use, if the user chose.
    wind_column: Option<&'a str>,
}

/// The contents of the file: one entry per storm, or per point including missing ones.
struct Columns {
    /// Number of points per storm, including missing ones.
    times: usize,
    /// Number of points of each storm.
    counts: Vec<usize>,
    names: Vec<String>,
    /// Empty if absent; likewise for seasons, basins, types and natures.
    storms: Vec<String>,
    season: Vec<f64>,
    types: Vec<String>,
    calendar: Calendar,
    dates: Vec<String>,
    lat: Vec<f64>,
    lon: Vec<f64>,
    basins: Vec<String>,
    natures: Vec<String>,
    /// Knots, for each available source.
    winds: Vec<(String, Vec<f64>)>,
    /// hPa.
    pressures: Vec<f64>,
}

impl Columns {
    /// Point `k` of a storm, without its wind.
    fn point(
        &self,
        path: &Path,
        (storm, k): (usize, usize),
        plausible: &mut Plausible,
    ) -> Result<ImportedPoint> {
        let at = storm * self.times + k;
        let fault = |expected: &str, found: String| ClimateError::Table {
            path: path.into(),
            reason: format!(
                "storm {} (`{}`), point {}: expected {expected}, found {found}",
                storm + 1,
                self.names[storm],
                k + 1
            ),
        };
        let date = &self.dates[at];
        let time = Time::parse(date, self.calendar)
            .map_err(|_| fault("a date in `iso_time`", format!("`{date}`")))?;
        let (lat_deg, lon_deg) = (self.lat[at], self.lon[at]);
        if lat_deg.is_nan() || lat_deg.abs() > 90.0 || lon_deg.is_nan() || lon_deg.abs() > 720.0 {
            return Err(fault(
                "a place on the globe",
                format!("{lat_deg}, {lon_deg}"),
            ));
        }
        Ok(ImportedPoint {
            time,
            lon_deg: eastern_longitude(lon_deg),
            lat_deg,
            // Winds are chosen when the track is complete.
            max_wind_m_s: None,
            other_wind: self
                .natures
                .get(at)
                .is_some_and(|nature| is_other_nature(nature)),
            min_psl_pa: plausible.pressure(self.pressures[at] * 100.0),
        })
    }

    fn season(&self, storm: usize) -> Option<i64> {
        let season = self.season.get(storm).filter(|v| v.is_finite());
        season.map(|&v| v as i64)
    }
}

impl<'a> Storms<'a> {
    fn read(&self) -> Result<TrackTable> {
        let columns = self.columns()?;
        let mut rows = TrackBuilder::default();
        let mut plausible = Plausible::default();
        let sources = columns.winds.iter().map(|(source, _)| source.as_str());
        let mut winds = Winds::from_columns(sources, self.wind_column.is_some());
        let mut spurs = Spurs::default();
        for (storm, &count) in columns.counts.iter().enumerate() {
            let name = &columns.names[storm];
            let kind = columns.types.get(storm);
            if kind.is_some_and(|kind| spurs.is_spur(name, kind)) {
                continue;
            }
            for k in 0..count {
                let at = storm * columns.times + k;
                let point = columns.point(self.path, (storm, k), &mut plausible)?;
                let track = rows.add(name, point, || {
                    let basin = columns.basins.get(at);
                    (
                        Class::TropicalCyclone,
                        columns.season(storm),
                        basin.and_then(|code| Basin::from_code(code)),
                    )
                });
                rows.call(track, columns.storms.get(storm).map_or("", String::as_str));
                let of_point = columns.winds.iter();
                let of_point = of_point.map(|(_, knots)| knots[at] * KNOT_M_S);
                winds.add(track, of_point.map(|wind| plausible.wind(wind)));
            }
        }
        let mut table = rows.finish_with(TrackFormat::IbtracsNetcdf, winds);
        table.notes.extend(spurs.note());
        table
            .notes
            .extend(plausible.notes(TrackFormat::IbtracsNetcdf));
        Ok(table)
    }

    fn columns(&self) -> Result<Columns> {
        let shape = self.shape(&self.variable("lat")?);
        let &[storms, times] = shape.as_slice() else {
            return Err(self.bad("lat", "(storm, date_time)", format!("{shape:?}")));
        };
        let cells = storms.saturating_mul(times);
        if storms.max(cells) > MOST_VALUES {
            let expected = format!("at most {MOST_VALUES} points");
            return Err(self.bad("lat", &expected, format!("{shape:?}")));
        }
        let counts = self.counts(storms, times)?;
        let (lat, lon) = (self.numbers("lat", cells)?, self.numbers("lon", cells)?);
        let season = self.optional("season", storms)?;
        let winds = (self.sources()?.into_iter())
            .map(|name| {
                let knots = self.numbers(&name, cells)?;
                Ok((name, knots))
            })
            .collect::<Result<Vec<_>>>()?;
        let pressures = self.first_known(["wmo_pres", "usa_pres"], cells)?;
        let once = vec![1; storms];
        Ok(Columns {
            names: self.texts("sid", (1, &once))?,
            storms: self.optional_texts("name", (1, &once))?,
            dates: self.texts("iso_time", (times, &counts))?,
            basins: self.optional_texts("basin", (times, &counts))?,
            types: self.optional_texts("track_type", (1, &once))?,
            natures: self.optional_texts("nature", (times, &counts))?,
            calendar: self.calendar()?,
            times,
            counts,
            season,
            lat,
            lon,
            winds,
            pressures,
        })
    }

    /// The wind variables to read.
    fn sources(&self) -> Result<Vec<String>> {
        if let Some(asked) = self.wind_column {
            let names: Vec<String> = self.file.variables().map(|v| v.name()).collect();
            return Ok(vec![winds::named(self.path, &names, asked)?]);
        }
        let there = WINDS
            .into_iter()
            .filter(|name| self.file.variable(name).is_some());
        Ok(there.map(String::from).collect())
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

    /// The number of points of each storm.
    fn counts(&self, storms: usize, times: usize) -> Result<Vec<usize>> {
        let counts = self.numbers("numobs", storms)?;
        let whole = |(storm, n): (usize, f64)| {
            let is_one = (0.0..=times as f64).contains(&n) && n.fract() == 0.0;
            is_one.then_some(n as usize).ok_or_else(|| {
                let expected = format!("a whole number of points from 0 to {times} for each storm");
                let found = format!("{n} for storm {}", storm + 1);
                self.bad("numobs", &expected, found)
            })
        };
        counts.into_iter().enumerate().map(whole).collect()
    }

    /// Values of a variable with this many cells; NaN if missing.
    fn numbers(&self, name: &str, cells: usize) -> Result<Vec<f64>> {
        let variable = self.variable(name)?;
        if variable.len() != cells {
            let found = variable.len().to_string();
            return Err(self.bad(name, &format!("{cells} values"), found));
        }
        if cells == 0 {
            return Ok(Vec::new());
        }
        let values = variable
            .get_values::<f64, _>(..)
            .map_err(|error| self.bad(name, "numbers", error.to_string()))?;
        // IBTrACS marks missing values with -9999, or with -99, which is a valid longitude.
        let known = |value: f64| {
            if value > -900.0 && value < 1e30 {
                value
            } else {
                f64::NAN
            }
        };
        Ok(values.into_iter().map(known).collect())
    }

    /// The texts of an optional variable, like [`Self::texts`]; `None` if it is absent.
    fn optional_texts(&self, name: &str, shape: (usize, &[usize])) -> Result<Vec<String>> {
        match self.file.variable(name) {
            Some(_) => self.texts(name, shape),
            None => Ok(Vec::new()),
        }
    }

    /// The texts of an optional variable; empty if it is absent.
    fn optional(&self, name: &str, cells: usize) -> Result<Vec<f64>> {
        match self.file.variable(name) {
            Some(_) => self.numbers(name, cells),
            None => Ok(Vec::new()),
        }
    }

    /// For each cell the first of two variables with a value; NaN if neither has one. Pressures of 0 or less are
    /// missing-value codes.
    fn first_known(&self, names: [&str; 2], cells: usize) -> Result<Vec<f64>> {
        let mut values = vec![f64::NAN; cells];
        for name in names {
            for (value, other) in values.iter_mut().zip(self.optional(name, cells)?) {
                if value.is_nan() && other > 0.0 {
                    *value = other;
                }
            }
        }
        Ok(values)
    }

    /// Texts of a variable (storm, `per_storm`): characters along the last dimension, or strings. Only the first
    /// `counts` of each storm are read; the others may be blank.
    fn texts(&self, name: &str, (per_storm, counts): (usize, &[usize])) -> Result<Vec<String>> {
        let variable = self.variable(name)?;
        let (shape, cells) = (self.shape(&variable), counts.len() * per_storm);
        let refused = |error: netcdf::Error| self.bad(name, "texts", error.to_string());
        if variable.vartype() == NcVariableType::String {
            if shape.iter().product::<usize>() != cells {
                return Err(self.bad(name, &format!("{cells} texts"), format!("{shape:?}")));
            }
            let mut texts = vec![String::new(); cells];
            for (storm, &count) in counts.iter().enumerate() {
                for k in 0..count {
                    let at = [storm, k];
                    let text = variable.get_string(&at[..shape.len().min(2)]);
                    texts[storm * per_storm + k] = text.map_err(refused)?;
                }
            }
            return Ok(texts);
        }
        let length = shape.last().copied().unwrap_or(0);
        if !(1..=MAX_TEXT_LENGTH).contains(&length) || variable.len() != cells * length {
            return Err(self.bad(name, &format!("{cells} texts"), format!("{shape:?}")));
        }
        if cells == 0 {
            return Ok(Vec::new());
        }
        let bytes = variable.get_raw_values(..).map_err(refused)?;
        let text = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            text.trim_matches(['\0', ' ']).to_string()
        };
        Ok(bytes.chunks(length).map(text).collect())
    }

    /// The calendar of `time`; the standard calendar if the file states none.
    fn calendar(&self) -> Result<Calendar> {
        let time = self.file.variable("time");
        match time.and_then(|time| time.attribute_value("calendar")?.ok()) {
            Some(AttributeValue::Str(name)) => Calendar::from_cf(&name)
                .ok_or_else(|| self.bad("time", "a calendar of CF", format!("`{name}`"))),
            _ => Ok(Calendar::Standard),
        }
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

#[cfg(test)]
mod tests;
