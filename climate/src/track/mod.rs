//! Tracks: one event followed through time.
//!
//! [`Tracker`] takes the events of consecutive times. It numbers them immediately, returns tracks as they end, and
//! keeps only open tracks in memory.

mod assign;
mod details;
pub mod formats;
mod from_events;
mod identity;
pub mod import;
mod links;
mod matching;
mod open_track;
mod options;
mod pieces;
pub mod readers;
#[cfg(test)]
pub(crate) mod testdata;
mod tracker;

pub use details::{Landfall, MOST_RELATIVES, TrackDetails};
pub use from_events::from_events;
pub use identity::Identity;
pub(crate) use options::LANDFALLS_OF_PIECES;
pub use options::{Linking, TrackerOptions, rule_of_landfalls};
pub(crate) use pieces::{Pieces, is_piece, note_of_pieces};
pub use tracker::{Step, Tracker};

use crate::events::Event;
use details::Shore;
use serde::{Deserialize, Serialize};
use squall_data::grid::distance_km;
use squall_data::{Class, Time};

/// How a track began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// It formed.
    Genesis,
    /// It split from another track.
    Split,
    /// It existed at the first time of the data.
    StartOfData,
}

/// How a track ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It dissolved.
    Lysis,
    /// It merged into another track.
    Merge,
    /// It existed at the last time of the data.
    EndOfData,
}

/// The summary of one event followed through time: one row of `tracks.csv`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Track {
    /// Unique within a run, ascending with the time and place of genesis.
    pub track_id: u64,
    /// Class of the events; never background.
    pub class: Class,
    /// First time.
    pub start: Time,
    /// Last time.
    pub end: Time,
    /// Number of times at which it was detected.
    pub points: usize,
    /// How it began.
    pub origin: Origin,
    /// How it ended.
    pub fate: Fate,
    /// The track it split from or merged into, if any.
    pub related_track: Option<u64>,
    /// Longitude of the first centre.
    pub genesis_lon_deg: f64,
    /// Latitude of the first centre.
    pub genesis_lat_deg: f64,
    /// Longitude of the last centre.
    pub end_lon_deg: f64,
    /// Latitude of the last centre.
    pub end_lat_deg: f64,
    /// Length of the path of the centres, km.
    pub distance_km: f64,
    /// Largest area, km².
    pub max_area_km2: f64,
    /// Mean area over the points with a known area, km²; NaN if there are none.
    pub mean_area_km2: f64,
    /// Lowest sea-level pressure, Pa.
    pub min_psl_pa: Option<f64>,
    /// Highest wind, m/s.
    pub max_wind_m_s: Option<f64>,
    /// Highest precipitable water, kg m-2.
    pub max_tmq_kg_m2: Option<f64>,
    /// Related tracks, impact, landfall, identity in another tool.
    pub details: TrackDetails,
}

/// Start of a step along the path.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct PathPoint {
    time: Time,
    lat_deg: f64,
    lon_deg: f64,
}

impl PathPoint {
    fn of(event: &Event) -> Self {
        Self {
            time: event.time,
            lat_deg: event.lat_deg,
            lon_deg: event.lon_deg,
        }
    }
}

impl Track {
    /// Starts a track at an event. The fate is provisional.
    fn begin(id: u64, event: &Event, origin: Origin, parent: Option<u64>) -> Self {
        Self {
            track_id: id,
            class: event.class,
            start: event.time,
            end: event.time,
            points: 1,
            origin,
            fate: Fate::EndOfData,
            related_track: parent,
            genesis_lon_deg: event.lon_deg,
            genesis_lat_deg: event.lat_deg,
            end_lon_deg: event.lon_deg,
            end_lat_deg: event.lat_deg,
            distance_km: 0.0,
            max_area_km2: event.area_km2,
            mean_area_km2: event.area_km2,
            min_psl_pa: event.min_psl_pa,
            max_wind_m_s: event.max_wind_m_s,
            max_tmq_kg_m2: event.max_tmq_kg_m2,
            details: TrackDetails::begin(event, parent),
        }
    }

    /// Adds the next event; `shore` holds the state of the previous event.
    fn extend(&mut self, event: &Event, shore: &mut Shore) {
        self.extend_from(Some(self.last_point()), event, shore);
    }

    /// The last centre.
    fn last_point(&self) -> PathPoint {
        PathPoint {
            time: self.end,
            lat_deg: self.end_lat_deg,
            lon_deg: self.end_lon_deg,
        }
    }

    /// Adds the next event, whose step starts at `from`; `shore` holds the state of the previous event. Without `from`
    /// the step is not measured yet: the step of a later event will start at an earlier point.
    fn extend_from(&mut self, from: Option<PathPoint>, event: &Event, shore: &mut Shore) {
        let speed_m_s = from.map(|from| {
            let step_km = distance_km(from.lat_deg, from.lon_deg, event.lat_deg, event.lon_deg);
            self.distance_km += step_km;
            step_km * 1000.0 / event.time.seconds_since(from.time) as f64
        });
        self.details.extend(event, speed_m_s);
        self.details.landfall(event, shore);
        self.end = event.time;
        self.end_lat_deg = event.lat_deg;
        self.end_lon_deg = event.lon_deg;
        self.points += 1;
        self.mean_area_km2 += (event.area_km2 - self.mean_area_km2) / self.points as f64;
        self.max_area_km2 = self.max_area_km2.max(event.area_km2);
        self.min_psl_pa = pick(self.min_psl_pa, event.min_psl_pa, f64::min);
        self.max_wind_m_s = pick(self.max_wind_m_s, event.max_wind_m_s, f64::max);
        self.max_tmq_kg_m2 = pick(self.max_tmq_kg_m2, event.max_tmq_kg_m2, f64::max);
    }

    /// Adds the last step of a path, for a track that ends at a point that [`Self::extend_from`] did not measure.
    ///
    /// The speed of this step is between two kinds of centre and not used. The highest speed is only raised to the
    /// mean.
    fn end_path(&mut self, from: PathPoint) {
        self.distance_km += distance_km(
            from.lat_deg,
            from.lon_deg,
            self.end_lat_deg,
            self.end_lon_deg,
        );
        let highest = pick(self.details.max_speed_m_s, self.mean_speed_m_s(), f64::max);
        self.details.max_speed_m_s = highest;
    }

    /// Time from the first to the last point, hours.
    pub fn duration_hours(&self) -> f64 {
        self.end.hours_since(self.start)
    }

    /// Mean speed along the path, m/s; `None` for a track of one point.
    pub fn mean_speed_m_s(&self) -> Option<f64> {
        let seconds = self.end.seconds_since(self.start) as f64;
        (seconds > 0.0).then(|| self.distance_km * 1000.0 / seconds)
    }
}

fn pick(a: Option<f64>, b: Option<f64>, better: fn(f64, f64) -> f64) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(better(a, b)),
        (a, b) => a.or(b),
    }
}

impl Origin {
    /// All origins, in the order of tables.
    pub const ALL: [Self; 3] = [Self::Genesis, Self::Split, Self::StartOfData];

    /// The word used in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Genesis => "genesis",
            Self::Split => "split",
            Self::StartOfData => "start_of_data",
        }
    }
}

impl Fate {
    /// All fates, in the order of tables.
    pub const ALL: [Self; 3] = [Self::Lysis, Self::Merge, Self::EndOfData];

    /// The word used in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lysis => "lysis",
            Self::Merge => "merge",
            Self::EndOfData => "end_of_data",
        }
    }
}
