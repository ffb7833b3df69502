//! Tracks with the columns of TECA's `teca_tc_trajectory`, followed by those of `teca_table_calendar`.
//!
//! Names contain the code of their type, as in `"time(12)"`, and two comments state calendar and time units, as in
//! TECA's tables. `time` is in days since midnight of the first time of the data; `duration` and `wind_duration` (with
//! winds of at least 17 m/s) in days; `storm_speed` in km per day from the previous point, 0 at the first. Vorticity,
//! core temperature and thickness are unknown: `nan` and 0. `storm_id` counts the points of the file; `step` is the
//! index on the time axis of the data.
//!
//! # Source
//! TECA, `alg/teca_tc_trajectory.cxx`, `alg/teca_tc_candidates.cxx`, `alg/teca_table_calendar.cxx`; header and codes as in
//! `data/teca_table.cxx` (`from_stream`) and `core/teca_variant_array_impl.h`.

use super::{Setting, TextFile, TrackSink};
use crate::error::Result;
use crate::events::Event;
use crate::track::Track;
use squall_data::Time;
use squall_data::grid::distance_km;
use std::path::Path;

/// TECA's codes for the column types `int`, `long` and `double`, without which it cannot read a table.
const INT: u8 = 3;
const LONG: u8 = 7;
const DOUBLE: u8 = 12;

/// Each column with its type code.
const COLUMNS: [(&str, u8); 22] = [
    ("track_id", INT),
    ("storm_id", INT),
    ("step", LONG),
    ("time", DOUBLE),
    ("lon", DOUBLE),
    ("lat", DOUBLE),
    ("duration", DOUBLE),
    ("wind_duration", DOUBLE),
    ("surface_wind", DOUBLE),
    ("850mb_vorticity", DOUBLE),
    ("sea_level_pressure", DOUBLE),
    ("have_core_temp", INT),
    ("have_thickness", INT),
    ("core_temp", DOUBLE),
    ("thickness", DOUBLE),
    ("storm_speed", DOUBLE),
    ("year", INT),
    ("month", INT),
    ("day", INT),
    ("hour", INT),
    ("minute", INT),
    ("second", DOUBLE),
];
/// Minimum wind of a cyclone for `wind_duration`, m/s.
const LOW_WIND_M_S: f64 = 17.0;

pub(super) struct Table<'a> {
    file: TextFile,
    setting: Setting<'a>,
    points: usize,
}

impl<'a> Table<'a> {
    pub fn new(path: &Path, setting: Setting<'a>) -> Result<Self> {
        let mut file = TextFile::create(path)?;
        file.write(&format!("# calendar = \"{}\"\n", setting.calendar))?;
        if let Some(origin) = origin(&setting) {
            let date = origin.to_string().replace('T', " ");
            file.write(&format!("# time_units = \"days since {date}\"\n"))?;
        }
        let names = COLUMNS.map(|(name, code)| format!("\"{name}({code})\""));
        file.write(&format!("{}\n", names.join(", ")))?;
        Ok(Self {
            file,
            setting,
            points: 0,
        })
    }
}

/// Midnight of the first time.
fn origin(setting: &Setting<'_>) -> Option<Time> {
    let first = setting.times.first()?;
    Some(first.add_seconds(-first.second_of_day()))
}

impl TrackSink for Table<'_> {
    fn add(&mut self, track: &Track, points: &[Event]) -> Result<()> {
        let days = |from: &Event, to: &Event| to.time.seconds_since(from.time) as f64 / 86_400.0;
        let (Some(first), Some(last)) = (points.first(), points.last()) else {
            return Ok(());
        };
        let duration = days(first, last);
        let windy = |pair: &[Event]| pair[0].max_wind_m_s.is_some_and(|w| w >= LOW_WIND_M_S);
        let spells = points.windows(2).filter(|pair| windy(pair));
        // An empty sum is -0.
        let wind_duration = spells.map(|pair| days(&pair[0], &pair[1])).sum::<f64>() + 0.0;
        for (k, point) in points.iter().enumerate() {
            let before = k.checked_sub(1).map(|before| &points[before]);
            let speed = before.map_or(0.0, |before| {
                let km = distance_km(before.lat_deg, before.lon_deg, point.lat_deg, point.lon_deg);
                km / days(before, point)
            });
            let times = self.setting.times;
            let step = times.partition_point(|t| t.seconds_since(point.time) < 0);
            let origin = origin(&self.setting).unwrap_or(point.time);
            let known = |value: Option<f64>| value.map_or("nan".into(), |v| v.to_string());
            let (year, month, day) = point.time.date();
            let clock = point.time.second_of_day();
            self.file.write(&format!(
                "{}, {}, {step}, {}, {}, {}, {duration}, {wind_duration}, {}, nan, {}, 0, 0, nan, nan, {speed}, \
                 {year}, {month}, {day}, {}, {}, {}\n",
                track.track_id,
                self.points,
                point.time.days_since(origin),
                point.lon_deg,
                point.lat_deg,
                known(point.max_wind_m_s),
                known(point.min_psl_pa),
                clock / 3600,
                clock / 60 % 60,
                clock % 60
            ))?;
            self.points += 1;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<()> {
        Ok(self.file.finish()?)
    }
}
