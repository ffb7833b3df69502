//! TECA's tables of tracks.

use super::delimited::{self, Dialect, TableSource};
use super::imported::{TrackFormat, TrackTable};
use crate::error::{ClimateError, Result};
use squall_data::{Calendar, DataError};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

const DIALECT: Dialect = Dialect {
    format: TrackFormat::TecaCsv,
    identity: &["track_id"],
    name: &[],
    time: &["time"],
    date_parts: true,
    lon: &["lon"],
    lat: &["lat"],
    wind: &["surface_wind"],
    wind_m_s: 1.0,
    pressure: &["sea_level_pressure"],
    pressure_pa: 1.0,
    season: &[],
    basin: &[],
    track_type: &[],
    nature: &[],
    status: &[],
};

/// Reads the CSV output of `teca_tc_trajectory`.
///
/// Comment lines with `#` state calendar and time units; columns may have type codes, as in `"time(12)"`. If
/// `teca_table_calendar` added `year` etc., these determine the time.
///
/// # Source
/// TECA `data/teca_table.cxx` (`to_stream`) and `alg/teca_tc_trajectory.cxx` (columns).
///
/// # Errors
/// Errors of [`super::read`]; also if the file has neither the date nor the units of `time`.
pub(super) fn read(path: &Path, calendar: Calendar) -> Result<TrackTable> {
    let comments = Comments::of(path)?;
    let calendar = match &comments.calendar {
        None => calendar,
        Some(name) => Calendar::from_cf(name).ok_or_else(|| ClimateError::Table {
            path: path.into(),
            reason: format!("expected the calendar of CF, found `{name}`"),
        })?,
    };
    let source = TableSource {
        path,
        calendar,
        time_units: comments.time_units,
        wind_column: None,
    };
    delimited::read(&source, &DIALECT)
}

/// The facts stated in the comments of a file.
#[derive(Default)]
struct Comments {
    calendar: Option<String>,
    time_units: Option<String>,
}

impl Comments {
    fn of(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(DataError::io("open", path))?;
        let mut comments = Self::default();
        for line in BufReader::new(file).lines() {
            let line = line.map_err(DataError::io("read", path))?;
            let Some(comment) = line.strip_prefix('#') else {
                break;
            };
            if let Some((name, value)) = comment.split_once('=') {
                let value = Some(value.trim().trim_matches('"').to_string());
                match name.trim() {
                    "calendar" => comments.calendar = value,
                    "time_units" => comments.time_units = value,
                    _ => {}
                }
            }
        }
        Ok(comments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::track::readers::ReadOptions;

    const HEADER: &str = "\"track_id(6)\", \"storm_id(6)\", \"step(8)\", \"time(12)\", \"lon(12)\", \"lat(12)\", \"duration(12)\", \
                          \"surface_wind(11)\", \"sea_level_pressure(11)\"";

    #[test]
    fn comments_tell_calendar_and_units() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tracks.csv");
        let comments = "# teca_table v1 \n# TECA 5.0.0\n# calendar = \"noleap\"\n# time_units = \"days since 1979-01-01 00:00:00\"\n";
        let rows = "0, 3, 0, 5.8e+01, 3.599e+02, 1.2e+01, 0.0e+00, 3.5e+01, 9.8e+04\n0, 4, 1, 5.9e+01, 3.0e-01, 1.25e+01, 1.0e+00, 3.6e+01, 9.7e+04\n";
        std::fs::write(&path, format!("{comments}{HEADER}\n{rows}")).unwrap();
        let table = super::super::read(&path, &ReadOptions::default()).unwrap();
        assert_eq!(
            (table.format, table.tracks.len()),
            (TrackFormat::TecaCsv, 1)
        );
        let points = &table.tracks[0].points;
        assert_eq!(points[0].time.to_string(), "1979-02-28T00:00:00");
        assert_eq!(points[1].time.to_string(), "1979-03-01T00:00:00");
        assert_eq!(
            (points[1].lon_deg, points[1].min_psl_pa),
            (0.3, Some(97_000.0))
        );

        // Without units the number has no meaning; line numbers include comments.
        std::fs::write(&path, format!("# teca_table v1\n{HEADER}\n{rows}")).unwrap();
        let message = read(&path, Calendar::NoLeap).unwrap_err().to_string();
        assert!(
            message.contains("line 3") && message.contains("time") && message.contains("units"),
            "{message}"
        );
    }

    #[test]
    fn the_columns_of_the_table_of_calendars_come_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tracks.csv");
        let text = "\"track_id\", \"storm_id\", \"step\", \"time\", \"year\", \"month\", \"day\", \"hour\", \"minute\", \"second\", \"lon\", \"lat\", \"surface_wind\", \"sea_level_pressure\"\n\
                    0, 3, 0, 4015.125, 1990, 1, 1, 3, 0, 0.0e+00, 277.37, 14.99, 35.4, 98448.2\n";
        std::fs::write(&path, text).unwrap();
        let table = read(&path, Calendar::NoLeap).unwrap();
        assert_eq!(
            table.tracks[0].points[0].time.to_string(),
            "1990-01-01T03:00:00"
        );
        // An hour, in days.
        let hourly = text.replace("3, 0, 0.0e+00", "3, 59, 5.99999998e+01");
        std::fs::write(&path, hourly).unwrap();
        let table = read(&path, Calendar::NoLeap).unwrap();
        assert_eq!(
            table.tracks[0].points[0].time.to_string(),
            "1990-01-01T04:00:00"
        );
        std::fs::write(&path, text.replace("0.0e+00", "6.0e+01")).unwrap();
        let message = read(&path, Calendar::NoLeap).unwrap_err().to_string();
        assert!(
            message.contains("second") && message.contains("6.0e+01"),
            "{message}"
        );
    }
}
