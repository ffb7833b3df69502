//! Reads events and tracks from tables, row by row.

use super::EVENT_COLUMNS;
use super::lines::{Line, Table};
use crate::error::Result;
use crate::events::{Event, EventDetails};
use crate::track::{Fate, Identity, Landfall, Origin, Track, TrackDetails};
use squall_data::Calendar;
use squall_data::cell::digits;
use std::path::Path;

/// Iterates over the rows of `events.csv` or `objects.csv`, so that memory does not depend on the size of the table.
pub struct EventReader {
    table: Table,
    calendar: Calendar,
}

impl EventReader {
    /// Opens a table as CSV, Parquet or GeoJSON; only class, time and position are required. Unknown areas and shapes
    /// are NaN; an unknown box is the centre. A calendar stated in the file takes precedence over `calendar`.
    ///
    /// # Errors
    /// Errors of [`read_events`].
    pub fn open(path: impl AsRef<Path>, calendar: Calendar) -> Result<Self> {
        let table = Table::open(path.as_ref(), &EVENT_COLUMNS[..4])?;
        let calendar = table.calendar().unwrap_or(calendar);
        Ok(Self { table, calendar })
    }
}

impl Iterator for EventReader {
    type Item = Result<Event>;

    fn next(&mut self) -> Option<Self::Item> {
        let line = self.table.next().transpose()?;
        Some(line.and_then(|line| event(&line, self.calendar)))
    }
}

/// Iterates over the rows of `tracks.csv`.
pub struct TrackReader {
    table: Table,
    calendar: Calendar,
}

impl TrackReader {
    /// Opens a table as CSV, Parquet or GeoJSON; identity, class, times and genesis are required. Derived columns
    /// (duration, speed, category, basin) are not read.
    ///
    /// # Errors
    /// Errors of [`read_events`].
    pub fn open(path: impl AsRef<Path>, calendar: Calendar) -> Result<Self> {
        let required = [
            "track_id",
            "class",
            "start_time",
            "end_time",
            "genesis_lon_deg",
            "genesis_lat_deg",
        ];
        let table = Table::open(path.as_ref(), &required)?;
        let calendar = table.calendar().unwrap_or(calendar);
        Ok(Self { table, calendar })
    }
}

impl Iterator for TrackReader {
    type Item = Result<Track>;

    fn next(&mut self) -> Option<Self::Item> {
        let line = self.table.next().transpose()?;
        Some(line.and_then(|line| track(&line, self.calendar)))
    }
}

/// Reads `events.csv` or `objects.csv` at once, like [`EventReader`].
///
/// # Errors
/// [`crate::ClimateError::Table`] if the file is not a table or lacks a column; [`crate::ClimateError::TableCell`] or
/// [`crate::ClimateError::TableDate`], with line and column, if a cell is invalid; [`crate::ClimateError::Data`] if the
/// file cannot be opened.
pub fn read_events(path: impl AsRef<Path>, calendar: Calendar) -> Result<Vec<Event>> {
    EventReader::open(path, calendar)?.collect()
}

/// Reads `tracks.csv` at once, like [`TrackReader`].
///
/// # Errors
/// Errors of [`read_events`].
pub fn read_tracks(path: impl AsRef<Path>, calendar: Calendar) -> Result<Vec<Track>> {
    TrackReader::open(path, calendar)?.collect()
}

fn event(line: &Line<'_>, calendar: Calendar) -> Result<Event> {
    let (lon_deg, lat_deg) = line.position("lon_deg", "lat_deg")?;
    let or = |value: Option<f64>, other: f64| value.unwrap_or(other);
    Ok(Event {
        class: line.class()?,
        time: line.time("time", calendar)?,
        track_id: line.whole("track_id")?,
        lon_deg,
        lat_deg,
        area_km2: or(line.number("area_km2")?, f64::NAN),
        west_deg: or(line.longitude("west_deg")?, lon_deg),
        south_deg: or(line.number("south_deg")?, lat_deg),
        east_deg: or(line.longitude("east_deg")?, lon_deg),
        north_deg: or(line.number("north_deg")?, lat_deg),
        length_km: or(line.number("length_km")?, f64::NAN),
        width_km: or(line.number("width_km")?, f64::NAN),
        orientation_deg: or(line.number("orientation_deg")?, f64::NAN),
        min_psl_pa: line.number("min_psl_pa")?,
        max_wind_m_s: line.number("max_wind_m_s")?,
        max_tmq_kg_m2: line.number("max_tmq_kg_m2")?,
        mean_prect_m_s: line.number("mean_prect_m_s")?,
        mean_probability: line.number("mean_probability")?,
        details: EventDetails {
            hours: line.number("hours")?,
            touches_edge: line.flag("touches_edge")?,
            max_ivt_proxy_kg_m_s: line.number("max_ivt_proxy_kg_m_s")?,
            river_scale: line.rank("ar_scale")?,
            precipitation_km3: line.number("precipitation_km3")?,
            land_share: line.number("land_share")?,
            land_lon_deg: line.longitude("land_lon_deg")?,
            land_lat_deg: line.number("land_lat_deg")?,
            max_ivt_kg_m_s: line.number("max_ivt_kg_m_s")?,
            gale_radius_km: line.number("gale_radius_km")?,
        },
    })
}

fn track(line: &Line<'_>, calendar: Calendar) -> Result<Track> {
    let (genesis_lon_deg, genesis_lat_deg) = line.position("genesis_lon_deg", "genesis_lat_deg")?;
    let (start, end) = (
        line.time("start_time", calendar)?,
        line.time("end_time", calendar)?,
    );
    if end.seconds_since(start) < 0 {
        return Err(line.bad("end_time", "a time not before start_time"));
    }
    let track_id = line.whole("track_id")?;
    Ok(Track {
        track_id: track_id.ok_or_else(|| line.bad("track_id", "a whole number"))?,
        class: line.class()?,
        start,
        end,
        points: line.whole("points")?.unwrap_or(0) as usize,
        origin: line
            .word("origin", &Origin::ALL, Origin::name)?
            .unwrap_or(Origin::Genesis),
        fate: line
            .word("fate", &Fate::ALL, Fate::name)?
            .unwrap_or(Fate::Lysis),
        related_track: line.whole("related_track")?,
        genesis_lon_deg,
        genesis_lat_deg,
        end_lon_deg: line.longitude("end_lon_deg")?.unwrap_or(genesis_lon_deg),
        end_lat_deg: line.number("end_lat_deg")?.unwrap_or(genesis_lat_deg),
        distance_km: path_km(line, end.seconds_since(start) as f64)?,
        max_area_km2: line.number("max_area_km2")?.unwrap_or(f64::NAN),
        mean_area_km2: line.number("mean_area_km2")?.unwrap_or(f64::NAN),
        min_psl_pa: line.number("min_psl_pa")?,
        max_wind_m_s: line.number("max_wind_m_s")?,
        max_tmq_kg_m2: line.number("max_tmq_kg_m2")?,
        details: details(line, calendar)?,
    })
}

/// The length of a path, from a rounded length and a rounded mean speed: a value that reproduces both cells. If they
/// are inconsistent, the length as it is.
fn path_km(line: &Line<'_>, seconds: f64) -> Result<f64> {
    // Half a unit of the last decimal of each cell.
    const HALF_KM: f64 = 0.05;
    const HALF_M_S: f64 = 0.000_499_999_9;
    let length = line.number("distance_km")?.unwrap_or(f64::NAN);
    let Some(speed) = line.number("mean_speed_m_s")? else {
        return Ok(length);
    };
    let km = |speed: f64| speed * seconds / 1000.0;
    let by_speed = length.max(km(speed - HALF_M_S)).min(km(speed + HALF_M_S));
    Ok(if (by_speed - length).abs() < HALF_KM {
        by_speed
    } else {
        length
    })
}

fn details(line: &Line<'_>, calendar: Calendar) -> Result<TrackDetails> {
    let landfall = if line.is_blank("landfall_time") {
        None
    } else {
        let (lon_deg, lat_deg) = line.position("landfall_lon_deg", "landfall_lat_deg")?;
        Some(Landfall {
            time: line.time("landfall_time", calendar)?,
            lon_deg,
            lat_deg,
            max_wind_m_s: line.number("landfall_wind_m_s")?,
            min_psl_pa: line.number("landfall_psl_pa")?,
            ivt_kg_m_s: line.number("landfall_ivt_kg_m_s")?,
            ivt_proxy_kg_m_s: line.number("landfall_ivt_proxy_kg_m_s")?,
            river_scale: line.rank("landfall_ar_scale")?,
        })
    };
    Ok(TrackDetails {
        parent_track: line.whole("parent_track")?,
        merged_into: line.whole("merged_into")?,
        split_tracks: line.list("split_tracks")?,
        merged_tracks: line.list("merged_tracks")?,
        max_speed_m_s: line.number("max_speed_m_s")?,
        ace_1e4_kt2: line.number("ace_1e4_kt2")?,
        pdi_m3_s2: line.number("pdi_m3_s2")?,
        max_ivt_proxy_kg_m_s: line.number("max_ivt_proxy_kg_m_s")?,
        max_ivt_kg_m_s: line.number("max_ivt_kg_m_s")?,
        river_scale: line.rank("ar_scale")?,
        precipitation_km3: line.number("precipitation_km3")?,
        landfalls: line
            .whole("landfalls")?
            .map(|n| n.min(u64::from(u32::MAX)) as u32),
        landfall,
        touches_edge: line.flag("touches_edge")?,
        identity: Identity {
            source_id: line.text("source_id").map(|id| digits(&id).to_string()),
            name: line.text("name"),
        },
    })
}
