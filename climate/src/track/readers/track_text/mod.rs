//! Text of Hodges' TRACK.

#[cfg(test)]
mod tests;

use super::ReadOptions;
use super::imported::{ImportedPoint, TrackBuilder, TrackFormat, TrackTable, UniqueNames};
use super::plausible::Plausible;
use super::units::{self, PRESSURES, WINDS};
use crate::error::{ClimateError, Result};
use squall_data::grid::eastern_longitude;
use squall_data::{Class, DataError, Time};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// TRACK's missing-value code for added fields is 1e25.
const HUGE: f64 = 1e20;

/// Reads a text that begins with `TRACK_NUM tracks ADD_FLD fields values &flags`, possibly after a description. Each
/// track has lines `TRACK_ID name` and `POINT_NUM points`, and one line per point: `time lon lat value & ...`. With a
/// flag of 1, an added field has a position before its value.
///
/// The file names neither its added fields nor their units. [`ReadOptions::columns`] names the fields in order,
/// optionally preceded by the tracked field. Winds are in m/s unless a name ends with another unit; pressures are in
/// hPa or Pa depending on their magnitude.
///
/// # Source
/// Hodges 1995, Monthly Weather Review 123, page 3458; the format as in its files.
///
/// # Errors
/// Errors of [`super::read`]; [`ClimateError::TimeStep`] if a point has a time step instead of a date.
pub(super) fn read(path: &Path, options: &ReadOptions) -> Result<TrackTable> {
    let file = File::open(path).map_err(DataError::io("open", path))?;
    let mut reader = Reader {
        path,
        options,
        line: 0,
        header: None,
        track: None,
        tracks: 0,
        names: UniqueNames::default(),
        points: Vec::new(),
    };
    for line in BufReader::new(file).lines() {
        let line = line.map_err(DataError::io("read", path))?;
        reader.line += 1;
        reader.read_line(&line)?;
    }
    reader.finish()
}

/// The facts above all tracks.
struct Header {
    tracks: usize,
    /// Number of values of a point after time and position; the tracked field is the first.
    values: usize,
    fields: usize,
    /// Indices among those values.
    wind: Option<usize>,
    pressure: Option<usize>,
    /// The unit of the wind in m/s.
    wind_m_s: f64,
}

/// A track being read.
struct Open {
    name: String,
    /// Its first line.
    line: u64,
    /// Number of missing points; `None` before `POINT_NUM`.
    left: Option<u64>,
}

/// A point with its values as in the file.
struct Point {
    track: String,
    at: ImportedPoint,
    wind: f64,
    pressure: f64,
}

struct Reader<'a> {
    path: &'a Path,
    options: &'a ReadOptions,
    line: u64,
    header: Option<Header>,
    track: Option<Open>,
    tracks: usize,
    names: UniqueNames,
    points: Vec<Point>,
}

impl Reader<'_> {
    fn read_line(&mut self, text: &str) -> Result<()> {
        let is_between = |c: char| c.is_whitespace() || c == '&';
        let fields: Vec<&str> = text.split(is_between).filter(|f| !f.is_empty()).collect();
        let Some(first) = fields.first() else {
            return Ok(());
        };
        if self.header.is_none() {
            // Preceding lines describe the grid or are for people.
            if *first == "TRACK_NUM" {
                self.header = Some(self.header(&fields, text)?);
            }
            return Ok(());
        }
        match *first {
            "TRACK_ID" => self.begin(&fields, text),
            "POINT_NUM" => self.count(&fields, text),
            _ => self.point(&fields, text),
        }
    }

    fn header(&self, fields: &[&str], text: &str) -> Result<Header> {
        let expected = "TRACK_NUM tracks ADD_FLD fields values &flags";
        let number = |text: &str| text.parse::<usize>().ok();
        let numbers = match fields {
            ["TRACK_NUM", tracks] => Some((number(tracks), Some(0), Some(0), "")),
            ["TRACK_NUM", tracks, "ADD_FLD", fields, values] => {
                Some((number(tracks), number(fields), number(values), ""))
            }
            ["TRACK_NUM", tracks, "ADD_FLD", fields, values, flags] => {
                Some((number(tracks), number(fields), number(values), *flags))
            }
            _ => None,
        };
        let Some((Some(tracks), Some(fields), Some(values), flags)) = numbers else {
            return Err(self.structure(expected, text));
        };
        let of_flag = |flag: char| if flag == '1' { 3 } else { 1 };
        let is_flag = |flag: char| matches!(flag, '0' | '1');
        let room: usize = flags.chars().map(of_flag).sum();
        if !flags.chars().all(is_flag) || flags.len() != fields || room != values {
            let expected = format!("{fields} flags 0 or 1 that give room for {values} values");
            return Err(self.structure(&expected, text));
        }
        let mut header = Header {
            tracks,
            values: values + 1,
            fields,
            wind: None,
            pressure: None,
            wind_m_s: 1.0,
        };
        self.name_columns(&mut header, flags)?;
        Ok(header)
    }

    /// Finds wind and pressure among the names given by the user.
    fn name_columns(&self, header: &mut Header, flags: &str) -> Result<()> {
        let names = &self.options.columns;
        if names.is_empty() {
            return Ok(());
        }
        let fields = header.fields;
        // A field with a position has its value after it.
        let mut next = 1;
        let mut places = vec![0];
        for flag in flags.chars() {
            let width = if flag == '1' { 3 } else { 1 };
            places.push(next + width - 1);
            next += width;
        }
        let places = match names.len() {
            count if count == fields => &places[1..],
            count if count == fields + 1 => &places[..],
            count => {
                return Err(ClimateError::Invalid(format!(
                    "columns of TRACK: expected {fields} names of added fields as `{}` has, or one more in front for the tracked \
                     field, found {count}",
                    self.path.display()
                )));
            }
        };
        let find = |wanted: &[&str]| {
            let place = |wanted: &&str| names.iter().position(|n| n.eq_ignore_ascii_case(wanted));
            wanted.iter().find_map(place)
        };
        let wind = find(&WINDS);
        header.wind = wind.map(|place| places[place]);
        header.pressure = find(&PRESSURES).map(|place| places[place]);
        let unit_m_s = wind.and_then(|place| units::wind_of_name(&names[place]));
        header.wind_m_s = unit_m_s.unwrap_or(1.0);
        Ok(())
    }

    fn begin(&mut self, fields: &[&str], text: &str) -> Result<()> {
        self.end_track("TRACK_ID")?;
        let (["TRACK_ID", name] | ["TRACK_ID", name, "START_TIME", _]) = fields else {
            return Err(self.structure("TRACK_ID name, or TRACK_ID name START_TIME time", text));
        };
        let expected_tracks = self.header.as_ref().map_or(0, |header| header.tracks);
        if self.tracks == expected_tracks {
            let expected = format!("no more than the {expected_tracks} tracks of TRACK_NUM");
            return Err(self.structure(&expected, text));
        }
        self.tracks += 1;
        self.track = Some(Open {
            name: self.names.unique(name),
            line: self.line,
            left: None,
        });
        Ok(())
    }

    fn count(&mut self, fields: &[&str], text: &str) -> Result<()> {
        let count = match fields {
            ["POINT_NUM", count] => count.parse::<u64>().ok(),
            _ => None,
        };
        if let (Some(track), Some(count)) = (&mut self.track, count)
            && track.left.is_none()
        {
            track.left = Some(count);
            return Ok(());
        }
        Err(self.structure("POINT_NUM points after a line TRACK_ID", text))
    }

    fn point(&mut self, fields: &[&str], text: &str) -> Result<()> {
        let values = self.header.as_ref().map_or(0, |header| header.values);
        let left = self.track.as_ref().and_then(|track| track.left);
        if left.is_none_or(|left| left == 0) {
            return Err(self.structure("a line TRACK_ID or POINT_NUM", text));
        }
        if fields.len() != 3 + values {
            let expected = format!("time, longitude, latitude and {values} values");
            return Err(self.structure(&expected, text));
        }
        let time = self.time(fields[0])?;
        let lon_deg = self.number("lon", fields[1])?;
        if lon_deg.abs() > 720.0 {
            return Err(self.cell("lon", "a longitude in degrees", fields[1]));
        }
        let lat_deg = self.number("lat", fields[2])?;
        if lat_deg.abs() > 90.0 {
            return Err(self.cell("lat", "a latitude from -90 to 90", fields[2]));
        }
        let column = |place: Option<usize>, name: &str| match place {
            Some(place) => self.number(name, fields[3 + place]),
            None => Ok(f64::NAN),
        };
        let header = self.header.as_ref();
        let (wind, pressure) = header.map_or((None, None), |h| (h.wind, h.pressure));
        let (wind, pressure) = (column(wind, "wind")?, column(pressure, "pressure")?);
        let Some(track) = &mut self.track else {
            return Ok(());
        };
        track.left = track.left.map(|left| left - 1);
        self.points.push(Point {
            track: track.name.clone(),
            at: ImportedPoint {
                time,
                lon_deg: eastern_longitude(lon_deg),
                lat_deg,
                max_wind_m_s: None,
                other_wind: false,
                min_psl_pa: None,
            },
            wind,
            pressure,
        });
        Ok(())
    }

    /// The time of a point. Ten digits are a date; fewer are a time step, whose length the file does not state.
    fn time(&self, text: &str) -> Result<Time> {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number || text.len() > 10 {
            return Err(self.cell("time", "a date yyyymmddhh", text));
        }
        if text.len() < 10 {
            return Err(ClimateError::TimeStep {
                path: self.path.into(),
                line: self.line,
                found: text.into(),
            });
        }
        let part = |range: std::ops::Range<usize>| text[range].parse::<i64>().unwrap_or(0);
        let calendar = self.options.calendar;
        let (year, month, day) = (part(0..4), part(4..6), part(6..8));
        Time::new(calendar, year, month, day, part(8..10), 0, 0).map_err(|_| {
            ClimateError::TableDate {
                path: self.path.into(),
                unit: "line",
                line: self.line,
                column: "time".into(),
                expected: format!("a date yyyymmddhh of the calendar {calendar}"),
                found: text.into(),
            }
        })
    }

    fn number(&self, column: &str, text: &str) -> Result<f64> {
        let value = text.parse::<f64>().ok().filter(|value| value.is_finite());
        let value = value.ok_or_else(|| self.cell(column, "a finite number", text))?;
        Ok(
            if value.abs() < HUGE || column == "lon" || column == "lat" {
                value
            } else {
                f64::NAN
            },
        )
    }

    /// Fails if a track is incomplete.
    fn end_track(&self, found: &str) -> Result<()> {
        match &self.track {
            Some(Open { left: Some(0), .. }) | None => Ok(()),
            Some(Open { left: None, .. }) => Err(self.structure("POINT_NUM points", found)),
            Some(Open {
                left: Some(left),
                line,
                ..
            }) => {
                let expected = format!("{left} more points of the track of line {line}");
                Err(self.structure(&expected, found))
            }
        }
    }

    fn finish(self) -> Result<TrackTable> {
        self.end_track("the end of the file")?;
        let Some(header) = &self.header else {
            return Err(self.structure("a line TRACK_NUM", "the end of the file"));
        };
        if self.tracks < header.tracks {
            let expected = format!("{} tracks as TRACK_NUM says", header.tracks);
            return Err(self.structure(&expected, &format!("{} and the end", self.tracks)));
        }
        let pressures: Vec<f64> = self.points.iter().map(|point| point.pressure).collect();
        let pressure_pa = units::pressure_pa(None, &pressures).unwrap_or(1.0);
        let mut rows = TrackBuilder::default();
        let mut plausible = Plausible::default();
        for Point {
            track,
            mut at,
            wind,
            pressure,
        } in self.points
        {
            at.max_wind_m_s = plausible.wind(wind * header.wind_m_s);
            at.min_psl_pa = plausible.pressure(pressure * pressure_pa);
            rows.add(&track, at, || (Class::TropicalCyclone, None, None));
        }
        let mut table = rows.finish(TrackFormat::TrackText);
        table.notes.extend(plausible.notes(TrackFormat::TrackText));
        let columns = || self.options.columns.iter().map(String::as_str);
        if header.wind.is_none() {
            table.notes.extend(units::unread_wind(columns()));
        }
        if header.pressure.is_none() {
            table.notes.extend(units::unread_pressure(columns()));
        }
        if self.options.columns.is_empty() {
            table.notes.push(format!(
                "the file does not name its {} added fields, so that no wind and no pressure is known: name the columns",
                header.fields
            ));
        }
        Ok(table)
    }

    fn structure(&self, expected: &str, found: &str) -> ClimateError {
        let found: String = found.trim().chars().take(80).collect();
        ClimateError::Table {
            path: self.path.into(),
            reason: format!("line {}: expected {expected}, found `{found}`", self.line),
        }
    }

    fn cell(&self, column: &str, expected: &'static str, found: &str) -> ClimateError {
        ClimateError::TableCell {
            path: self.path.into(),
            unit: "line",
            line: self.line,
            column: column.into(),
            expected,
            found: found.into(),
        }
    }
}
