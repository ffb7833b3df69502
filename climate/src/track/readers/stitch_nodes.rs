//! Text of TempestExtremes' `StitchNodes` in the format `gfdl`.

use super::ReadOptions;
use super::imported::{ImportedPoint, TrackBuilder, TrackFormat, TrackTable};
use super::plausible::{PRESSURE_PA, WIND_M_S};
use super::stitch_nodes_csv::{COMPONENTS_ONLY_NOTE, PRESSURES, winds};
use super::units;
use crate::error::{ClimateError, Result};
use squall_data::grid::eastern_longitude;
use squall_data::{Class, DataError, Time};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Default values after the grid indices: the `--in_fmt` of TempestExtremes' own examples.
const COLUMNS: [&str; 5] = ["lon", "lat", "slp", "wind", "zs"];

/// Reads lines `start N year month day hour`, each followed by N lines `i [j] lon lat ... year month day hour`; seconds
/// of the day may replace the hour. The number of leading integers distinguishes grids with one and with two indices.
///
/// The file states neither its columns nor its calendar; [`ReadOptions`] does. The number of column names must match
/// the number of values of a point. The default columns are a guess, which a note mentions. An impossible pressure or
/// wind counts as unknown and is noted, even if negative, because the guess may be wrong.
///
/// # Source
/// TempestExtremes `src/nodes/StitchNodes.cpp`; Ullrich et al. 2021, doi:10.5194/gmd-14-5023-2021.
///
/// # Errors
/// Errors of [`super::read`].
pub(super) fn read(path: &Path, options: &ReadOptions) -> Result<TrackTable> {
    let file = File::open(path).map_err(DataError::io("open", path))?;
    let mut reader = Reader::new(path, options)?;
    for (k, line) in BufReader::new(file).lines().enumerate() {
        let line = line.map_err(DataError::io("read", path))?;
        reader.line(k as u64 + 1, &line)?;
    }
    reader.finish()
}

struct Reader<'a> {
    path: &'a Path,
    options: &'a ReadOptions,
    /// Indices of longitude, latitude, pressure and wind among the values.
    places: [Option<usize>; 4],
    /// The unit of the wind in m/s: 1, unless the column name ends with another unit.
    wind_m_s: f64,
    /// Number of columns, if named by the user.
    named: Option<usize>,
    rows: TrackBuilder,
    tracks: usize,
    /// Number of missing points of the track, and the line of its start.
    open: (usize, u64),
    /// Number of impossible pressures and winds dropped.
    implausible: [usize; 2],
    /// Notes on columns that look like winds or pressures but are not read.
    unread: Vec<String>,
    lines: u64,
}

impl<'a> Reader<'a> {
    fn new(path: &'a Path, options: &'a ReadOptions) -> Result<Self> {
        let names: Vec<String> = if options.columns.is_empty() {
            COLUMNS.map(str::to_string).to_vec()
        } else {
            let lower = options.columns.iter().map(|name| name.to_ascii_lowercase());
            lower.collect()
        };
        // The first of several names counts, whatever the order in the file, as in the same tool's CSV.
        let find = |wanted: &[&str]| {
            wanted
                .iter()
                .find_map(|name| names.iter().position(|known| known == name))
        };
        let (speeds, only_components) = winds(&names);
        let places = [
            find(&["lon"]),
            find(&["lat"]),
            find(&PRESSURES),
            find(speeds),
        ];
        if places[0].is_none() || places[1].is_none() {
            return Err(ClimateError::Invalid(format!(
                "columns of StitchNodes: expected `lon` and `lat` among them, found {}",
                names.join(",")
            )));
        }
        let wind_name = places[3].and_then(|place| names.get(place));
        let unit_m_s = wind_name.and_then(|name| units::wind_of_name(name));
        let mut unread = Vec::new();
        if only_components {
            unread.push(COMPONENTS_ONLY_NOTE.to_string());
        }
        let all = || names.iter().map(String::as_str);
        if places[3].is_none() {
            unread.extend(units::unread_wind(all()));
        }
        if places[2].is_none() {
            unread.extend(units::unread_pressure(all()));
        }
        Ok(Self {
            path,
            options,
            places,
            wind_m_s: unit_m_s.unwrap_or(1.0),
            named: (!options.columns.is_empty()).then_some(names.len()),
            rows: TrackBuilder::default(),
            tracks: 0,
            open: (0, 0),
            implausible: [0, 0],
            unread,
            lines: 0,
        })
    }

    fn line(&mut self, number: u64, text: &str) -> Result<()> {
        self.lines = number;
        let fields: Vec<&str> = text.split_whitespace().collect();
        match fields.first() {
            None => Ok(()),
            Some(&"start") => self.start(number, &fields),
            Some(_) => self.node(number, &fields),
        }
    }

    fn start(&mut self, number: u64, fields: &[&str]) -> Result<()> {
        if self.open.0 > 0 {
            let (left, began) = self.open;
            let found = "start";
            return Err(self.structure(
                number,
                &format!("{left} more points of the track of line {began}"),
                found,
            ));
        }
        if fields.len() != 6 {
            return Err(self.structure(number, "start N year month day hour", &fields.join(" ")));
        }
        let points = fields[1].parse();
        let points =
            points.map_err(|_| self.cell(number, "start", "a number of points", fields[1]))?;
        self.open = (points, number);
        self.tracks += 1;
        Ok(())
    }

    fn node(&mut self, number: u64, fields: &[&str]) -> Result<()> {
        if self.open.0 == 0 {
            return Err(self.structure(number, "a line `start N ...`", &fields.join(" ")));
        }
        let indices = fields
            .iter()
            .take(2)
            .take_while(|f| f.parse::<i64>().is_ok());
        let indices = indices.count();
        // At least two values and the date.
        if indices == 0 || fields.len() < indices + 6 {
            return Err(self.structure(
                number,
                "i [j] lon lat ... year month day hour",
                &fields.join(" "),
            ));
        }
        let (values, date) = fields[indices..].split_at(fields.len() - indices - 4);
        if let Some(named) = self.named.filter(|named| *named != values.len()) {
            let expected = format!("{named} values before the date, as columns are named");
            return Err(self.structure(number, &expected, &values.join(" ")));
        }
        let value = |place: Option<usize>, name: &'static str| -> Result<Option<f64>> {
            let Some(text) = place.and_then(|k| values.get(k)) else {
                return Ok(None);
            };
            let value: f64 = text
                .parse()
                .map_err(|_| self.cell(number, name, "a number", text))?;
            Ok(Some(value).filter(|v| v.is_finite()))
        };
        let [lon, lat, psl, wind] = self.places;
        let (lon, lat) = (value(lon, "lon")?, value(lat, "lat")?);
        let (psl, wind) = (value(psl, "slp")?, value(wind, "wind")?);
        let lon_deg = lon
            .filter(|v| v.abs() <= 720.0)
            .ok_or_else(|| self.cell(number, "lon", "a longitude in degrees", &fields.join(" ")))?;
        let lat_deg = lat.filter(|v| v.abs() <= 90.0).ok_or_else(|| {
            self.cell(
                number,
                "lat",
                "a latitude from -90 to 90",
                &fields.join(" "),
            )
        })?;
        let time = self.time(number, date)?;
        let wind = wind.map(|wind| wind * self.wind_m_s);
        let [min_psl_pa, max_wind_m_s] = self.plausible([psl, wind]);
        let point = ImportedPoint {
            time,
            lon_deg: eastern_longitude(lon_deg),
            lat_deg,
            max_wind_m_s,
            other_wind: false,
            min_psl_pa,
        };
        self.open.0 -= 1;
        let name = (self.tracks - 1).to_string();
        let track = self
            .rows
            .add(&name, point, || (Class::TropicalCyclone, None, None));
        self.rows.unidentified(track);
        Ok(())
    }

    /// The pressure (Pa) and the wind (m/s) of a line; impossible values are dropped and counted.
    ///
    /// Unlike [`super::plausible::Plausible`], this counts negative values, too, because the column may be another
    /// quantity.
    fn plausible(&mut self, [psl, wind]: [Option<f64>; 2]) -> [Option<f64>; 2] {
        let plausible_psl = psl.filter(|pa| PRESSURE_PA.contains(pa));
        let plausible_wind = wind.filter(|m_s| WIND_M_S.contains(m_s));
        self.implausible[0] += usize::from(psl.is_some() && plausible_psl.is_none());
        self.implausible[1] += usize::from(wind.is_some() && plausible_wind.is_none());
        [plausible_psl, plausible_wind]
    }

    /// The time from a line's last four numbers. The last is the hour or, with five digits, the second of the day
    /// (`--out_seconds`).
    fn time(&self, number: u64, date: &[&str]) -> Result<Time> {
        let mut parts = [0i64; 4];
        for (slot, text) in parts.iter_mut().zip(date) {
            *slot = text
                .parse()
                .map_err(|_| self.cell(number, "date", "year month day hour", &date.join(" ")))?;
        }
        let [year, month, day, clock] = parts;
        let (hour, minute, second) = match date.last() {
            Some(text) if text.len() == 5 => (clock / 3600, clock / 60 % 60, clock % 60),
            _ => (clock, 0, 0),
        };
        let calendar = self.options.calendar;
        let time = Time::new(calendar, year, month, day, hour, minute, second);
        time.map_err(|_| ClimateError::TableDate {
            path: self.path.into(),
            unit: "line",
            line: number,
            column: "date".into(),
            expected: "a date of the calendar".into(),
            found: date.join(" "),
        })
    }

    fn finish(self) -> Result<TrackTable> {
        if self.open.0 > 0 {
            let (left, began) = self.open;
            let expected = format!("{left} more points of the track of line {began}");
            return Err(self.structure(self.lines, &expected, "the end of the file"));
        }
        let [pressures, winds] = self.implausible;
        let mut table = self.rows.finish(TrackFormat::StitchNodesGfdl);
        if self.named.is_none() && !table.tracks.is_empty() {
            let guess = COLUMNS.join(",");
            table.notes.push(format!(
                "the file does not name its values, which are taken as {guess}: name the columns if they are others"
            ));
        }
        table.notes.extend(self.unread);
        for (count, name, range) in [
            (pressures, "sea-level pressure", "800 to 1100 hPa"),
            (winds, "wind", "0 to 150 m/s"),
        ] {
            if count > 0 {
                table.notes.push(format!(
                    "{count} values of the column taken as {name} lie outside {range} and are left out: name the columns"
                ));
            }
        }
        Ok(table)
    }

    fn structure(&self, line: u64, expected: &str, found: &str) -> ClimateError {
        ClimateError::Table {
            path: self.path.into(),
            reason: format!("line {line}: expected {expected}, found `{found}`"),
        }
    }

    fn cell(&self, line: u64, column: &str, expected: &'static str, found: &str) -> ClimateError {
        ClimateError::TableCell {
            path: self.path.into(),
            unit: "line",
            line,
            column: column.into(),
            expected,
            found: found.into(),
        }
    }
}

#[cfg(test)]
mod tests;
