//! Tracks as netCDF with IBTrACS' dimensions, names and units.
//!
//! By `storm` and `date_time`: `lat`, `lon` (in [-180, 180)), `time` (days since 1858-11-17 in the calendar of the
//! data), `iso_time`, `basin`, `usa_wind` (knots), `usa_pres` (mb) and `usa_sshs` (-1 depression, 0 storm, 1 to 5;
//! tropical cyclones only). By `storm`: `sid`, `name`, `season` and `numobs`. The wind is that of the model's lowest
//! level and time step, not a one-minute mean at 10 m. Texts are netCDF strings, whereas IBTrACS has character arrays.
//!
//! # Source
//! Knapp et al. 2010, doi:10.1175/2009BAMS2755.1; column documentation of IBTrACS v04r00.

use super::{Setting, TrackSink};
use crate::error::Result;
use crate::events::Event;
use crate::map::projection::signed_longitude;
use crate::statistics::category::KNOT_M_S;
use crate::statistics::{Basin, Category, is_southern};
use crate::track::Track;
use netcdf::FileMut;
use squall_data::netcdf_file::{NetcdfFile, variable_mut};
use squall_data::{Calendar, Class, Time};
use std::path::Path;

/// Fill value, as in IBTrACS.
const MISSING: f32 = -9999.0;
/// The name of an unnamed storm, as in IBTrACS.
const UNNAMED: &str = "UNNAMED";
/// Value for an unknown category.
const NO_CATEGORY: i16 = -15;

pub(super) struct Storms {
    file: NetcdfFile,
    origin: Time,
    storms: usize,
}

impl Storms {
    /// `most_points` is the length of `date_time`.
    pub fn new(path: &Path, setting: Setting<'_>, most_points: usize) -> Result<Self> {
        Ok(Self {
            file: NetcdfFile::create(path, |file| begin(file, setting, most_points))?,
            origin: origin(setting.calendar)?,
            storms: 0,
        })
    }
}

fn origin(calendar: Calendar) -> Result<Time> {
    Ok(Time::new(calendar, 1858, 11, 17, 0, 0, 0)?)
}

/// Name, long name and unit of the numbers at each point.
const POINTS: [(&str, &str, &str); 4] = [
    ("lat", "latitude", "degrees_north"),
    ("lon", "longitude", "degrees_east"),
    ("usa_wind", "Highest wind of the lowest model level", "kts"),
    ("usa_pres", "Lowest sea-level pressure", "mb"),
];

fn begin(file: &mut FileMut, setting: Setting<'_>, most_points: usize) -> netcdf::Result<()> {
    file.add_attribute("Conventions", "CF-1.8")?;
    file.add_attribute("title", "Tracks in the layout of IBTrACS")?;
    file.add_attribute("source", setting.source)?;
    file.add_unlimited_dimension("storm")?;
    // netCDF treats length 0 as unlimited.
    file.add_dimension("date_time", most_points.max(1))?;
    file.add_string_variable("sid", &["storm"])?.put_attribute(
        "long_name",
        "Storm identifier: source_id of tracks.csv, else track_id",
    )?;
    file.add_string_variable("name", &["storm"])?
        .put_attribute("long_name", "Name of the storm")?;
    let mut season = file.add_variable::<i32>("season", &["storm"])?;
    season.put_attribute(
        "long_name",
        "Year of the season, in the southern hemisphere from July of the year before",
    )?;
    season.put_attribute("units", "Year")?;
    let mut count = file.add_variable::<i32>("numobs", &["storm"])?;
    count.put_attribute("long_name", "Number of points")?;
    count.put_attribute("units", "1")?;
    let at = ["storm", "date_time"];
    let mut time = file.add_variable::<f64>("time", &at)?;
    time.set_fill_value(f64::from(MISSING))?;
    time.put_attribute("standard_name", "time")?;
    time.put_attribute("units", "days since 1858-11-17")?;
    time.put_attribute("calendar", setting.calendar.cf_name())?;
    file.add_string_variable("iso_time", &at)?
        .put_attribute("long_name", "Date and time of the calendar of `time`")?;
    file.add_string_variable("basin", &at)?
        .put_attribute("long_name", "Basin of the point")?;
    for (name, long_name, units) in POINTS {
        let mut variable = file.add_variable::<f32>(name, &at)?;
        variable.set_fill_value(MISSING)?;
        variable.put_attribute("long_name", long_name)?;
        variable.put_attribute("units", units)?;
    }
    let mut category = file.add_variable::<i16>("usa_sshs", &at)?;
    category.set_fill_value(NO_CATEGORY)?;
    category.put_attribute("units", "1")?;
    category.put_attribute(
        "long_name",
        "Saffir-Simpson category, -1 below storm strength",
    )?;
    Ok(())
}

impl TrackSink for Storms {
    fn add(&mut self, track: &Track, points: &[Event]) -> Result<()> {
        let storm = self.storms;
        let origin = self.origin;
        self.file
            .with(|file| put(file, storm, track, points, origin))?;
        self.storms += 1;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<()> {
        Ok(self.file.finish()?)
    }
}

/// The year of a storm's season. In the southern hemisphere the season begins in July and is named after the year in
/// which it ends.
fn season(start: Time, genesis_lat_deg: f64) -> i32 {
    let (year, month, _) = start.date();
    year as i32 + i32::from(is_southern(genesis_lat_deg) && month >= 7)
}

fn put(
    file: &mut FileMut,
    storm: usize,
    track: &Track,
    points: &[Event],
    origin: Time,
) -> netcdf::Result<()> {
    let count = points.len();
    let identity = &track.details.identity;
    let number = track.track_id.to_string();
    let sid = identity.source_id.as_deref().unwrap_or(&number);
    variable_mut(file, "sid")?.put_string(sid, [storm])?;
    let name = identity.name.as_deref().unwrap_or(UNNAMED);
    variable_mut(file, "name")?.put_string(name, [storm])?;
    for (name, value) in [
        ("season", season(track.start, track.genesis_lat_deg)),
        ("numobs", count as i32),
    ] {
        variable_mut(file, name)?.put_value(value, [storm])?;
    }
    let days: Vec<f64> = points.iter().map(|p| p.time.days_since(origin)).collect();
    variable_mut(file, "time")?.put_values(&days, (storm, 0..count))?;
    for (name, _, _) in POINTS {
        let values: Vec<f32> = points
            .iter()
            .map(|point| match name {
                "lat" => point.lat_deg as f32,
                "lon" => signed_longitude(point.lon_deg) as f32,
                "usa_wind" => point
                    .max_wind_m_s
                    .map_or(MISSING, |w| (w / KNOT_M_S) as f32),
                _ => point.min_psl_pa.map_or(MISSING, |p| (p / 100.0) as f32),
            })
            .collect();
        variable_mut(file, name)?.put_values(&values, (storm, 0..count))?;
    }
    let categories = points.iter().map(category);
    let categories: Vec<i16> = categories
        .map(|known| known.unwrap_or(NO_CATEGORY))
        .collect();
    variable_mut(file, "usa_sshs")?.put_values(&categories, (storm, 0..count))?;
    for (name, text) in [
        ("iso_time", iso_time as fn(&Event) -> String),
        ("basin", basin),
    ] {
        let mut texts = variable_mut(file, name)?;
        for (k, point) in points.iter().enumerate() {
            texts.put_string(&text(point), [storm, k])?;
        }
    }
    Ok(())
}

/// The category of a tropical cyclone with known wind; others have none, as in `tracks.csv`.
fn category(point: &Event) -> Option<i16> {
    let wind_m_s = (point.max_wind_m_s).filter(|_| point.class == Class::TropicalCyclone)?;
    let category = Category::saffir_simpson(wind_m_s)?;
    Some(category as i16 - 1)
}

fn iso_time(point: &Event) -> String {
    point.time.to_string().replace('T', " ")
}

fn basin(point: &Event) -> String {
    Basin::of(point.lat_deg, point.lon_deg).code().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::track::readers::{ImportedPoint, ImportedTrack, TrackFormat, TrackTable};

    #[test]
    fn only_tropical_cyclones_have_a_category() {
        let of = |class, max_wind_m_s| {
            let point = ImportedPoint {
                time: Time::new(Calendar::Standard, 1980, 8, 3, 0, 0, 0).unwrap(),
                lon_deg: 300.0,
                lat_deg: 15.0,
                max_wind_m_s,
                other_wind: false,
                min_psl_pa: None,
            };
            let track = ImportedTrack {
                name: "a".into(),
                identity: Default::default(),
                class,
                season: None,
                basin: None,
                points: vec![point],
            };
            let table = TrackTable {
                format: TrackFormat::PointsCsv,
                tracks: vec![track],
                facts: Vec::new(),
                notes: Vec::new(),
                covers: None,
            };
            category(&table.events()[0])
        };
        let winds = [Some(15.0), Some(20.0), Some(45.0), None];
        let cyclones = winds.map(|wind| of(Class::TropicalCyclone, wind));
        assert_eq!(cyclones, [Some(-1), Some(0), Some(2), None]);
        for class in [Class::AtmosphericRiver, Class::ExtratropicalCyclone] {
            assert_eq!(winds.map(|wind| of(class, wind)), [None; 4]);
        }
    }

    #[test]
    fn southern_seasons_begin_in_july() {
        let of = |month, lat_deg| {
            let start = Time::new(Calendar::Standard, 1980, month, 3, 0, 0, 0).unwrap();
            season(start, lat_deg)
        };
        // 1980308S05102 belongs to season 1981.
        assert_eq!((of(11, -5.0), of(6, -5.0), of(7, -5.0)), (1981, 1980, 1981));
        assert_eq!((of(11, 5.0), of(1, 5.0)), (1980, 1980));
        // On the equator, except for rounding.
        assert_eq!(of(11, -1e-17), 1980);
    }
}
