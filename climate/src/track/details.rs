//! Relatives, impact and landfall of a track.

use super::Identity;
use crate::events::Event;
use crate::statistics::{ace_of_point, power_dissipation_of_point};
use serde::{Deserialize, Serialize};
use squall_data::{Class, Time};

/// Most relatives that a track lists of a kind; a track that never ends must not grow without end. All are found from
/// the other side (`parent_track`, `merged_into`).
pub const MOST_RELATIVES: usize = 32;
/// From this share of its area over land on, a river is taken to have reached it: it nearly always covers an island.
const RIVER_LAND_SHARE: f64 = 0.05;

/// What is known of a track beyond its path and extremes. What is not known is blank.
///
/// Relatives are identities; one without a row in `tracks.csv` was too short to be listed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TrackDetails {
    /// The track it split from.
    pub parent_track: Option<u64>,
    /// The track it ended in.
    pub merged_into: Option<u64>,
    /// The first [`MOST_RELATIVES`] tracks that split from it.
    pub split_tracks: Vec<u64>,
    /// The first [`MOST_RELATIVES`] tracks that ended in it.
    pub merged_tracks: Vec<u64>,
    /// Highest speed of the centre between two points, m/s. Masks' centres move with the shape of their area too, most
    /// where areas merge or split.
    pub max_speed_m_s: Option<f64>,
    /// Cyclones: accumulated cyclone energy, 10⁴ kt².
    pub ace_1e4_kt2: Option<f64>,
    /// Cyclones: power dissipation index, m³ s-2.
    pub pdi_m3_s2: Option<f64>,
    /// Highest vapour transport, kg m-1 s-1, by [`crate::derived::vapour_transport_proxy`].
    pub max_ivt_proxy_kg_m_s: Option<f64>,
    /// Highest vapour transport of those that the fields have, kg m-1 s-1.
    pub max_ivt_kg_m_s: Option<f64>,
    /// Rivers: highest rank at any place.
    pub river_scale: Option<u8>,
    /// Liquid water that fell inside over its life, km³.
    pub precipitation_km3: Option<f64>,
    /// How often it came from the sea to land; blank where land is not known.
    pub landfalls: Option<u32>,
    /// The first time that it did.
    pub landfall: Option<Landfall>,
    /// Whether it reached the edge of a regional domain at any time: genesis, end and size may be those of a part.
    pub touches_edge: Option<bool>,
    /// What it is called where it was read from.
    #[serde(default)]
    pub identity: Identity,
}

/// Where, when and how strong a track came to land.
///
/// Cyclones: the first point whose centre is over land after one over sea. Rivers: the first time at which a twentieth
/// of the area is over land after one at which less was. What was over land from the first point on made no landfall.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Landfall {
    /// When.
    pub time: Time,
    /// Longitude of the place ([`crate::events::EventDetails::land_lon_deg`]).
    pub lon_deg: f64,
    /// Latitude of the place.
    pub lat_deg: f64,
    /// Highest wind of the points before and at landfall, m/s.
    pub max_wind_m_s: Option<f64>,
    /// Lowest pressure of the points before and at landfall, Pa.
    pub min_psl_pa: Option<f64>,
}

/// The last point of a track as seen from land.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Shore {
    on_land: bool,
    max_wind_m_s: Option<f64>,
    min_psl_pa: Option<f64>,
}

impl Shore {
    /// What the next point needs to know of this one to tell a landfall.
    pub fn of(event: &Event) -> Self {
        Self {
            on_land: place_on_land(event).is_some(),
            max_wind_m_s: event.max_wind_m_s,
            min_psl_pa: event.min_psl_pa,
        }
    }
}

/// Latitude and longitude at which an event is over land, if it is.
fn place_on_land(event: &Event) -> Option<(f64, f64)> {
    let details = &event.details;
    let place = details.land_lat_deg.zip(details.land_lon_deg)?;
    let reached =
        event.class.is_cyclone() || details.land_share.is_some_and(|s| s >= RIVER_LAND_SHARE);
    reached.then_some(place)
}

impl TrackDetails {
    pub(super) fn begin(event: &Event, parent_track: Option<u64>) -> Self {
        let mut details = Self {
            parent_track,
            landfalls: event.details.land_share.map(|_| 0),
            ..Self::default()
        };
        details.add(event);
        details
    }

    /// Takes the next event in; its speed where it is known.
    pub(super) fn go_on(&mut self, event: &Event, speed_m_s: Option<f64>) {
        self.max_speed_m_s = super::pick(self.max_speed_m_s, speed_m_s, f64::max);
        self.add(event);
    }

    fn add(&mut self, event: &Event) {
        let point = &event.details;
        if event.class == Class::TropicalCyclone
            && let (Some(wind), Some(hours)) = (event.max_wind_m_s, point.hours)
        {
            sum(&mut self.ace_1e4_kt2, ace_of_point(wind, hours));
            sum(&mut self.pdi_m3_s2, power_dissipation_of_point(wind, hours));
        }
        if let Some(water_km3) = point.precipitation_km3 {
            sum(&mut self.precipitation_km3, water_km3);
        }
        self.max_ivt_proxy_kg_m_s = super::pick(
            self.max_ivt_proxy_kg_m_s,
            point.max_ivt_proxy_kg_m_s,
            f64::max,
        );
        self.max_ivt_kg_m_s = super::pick(self.max_ivt_kg_m_s, point.max_ivt_kg_m_s, f64::max);
        self.river_scale = self.river_scale.max(point.river_scale);
        self.touches_edge = self.touches_edge.max(point.touches_edge);
    }

    /// Notes a landfall between the point that `shore` knows and the next; `shore` moves on.
    pub(super) fn landfall(&mut self, event: &Event, shore: &mut Shore) {
        let before = std::mem::replace(shore, Shore::of(event));
        let Some((lat_deg, lon_deg)) = place_on_land(event).filter(|_| !before.on_land) else {
            return;
        };
        self.landfalls = Some(self.landfalls.unwrap_or(0) + 1);
        self.landfall.get_or_insert(Landfall {
            time: event.time,
            lon_deg,
            lat_deg,
            max_wind_m_s: super::pick(before.max_wind_m_s, event.max_wind_m_s, f64::max),
            min_psl_pa: super::pick(before.min_psl_pa, event.min_psl_pa, f64::min),
        });
    }

    pub(super) fn split_off(&mut self, track_id: u64) {
        list(&mut self.split_tracks, track_id);
    }

    pub(super) fn take_in(&mut self, track_id: u64) {
        list(&mut self.merged_tracks, track_id);
    }
}

fn sum(total: &mut Option<f64>, more: f64) {
    *total = Some(total.unwrap_or(0.0) + more);
}

fn list(relatives: &mut Vec<u64>, track_id: u64) {
    if relatives.len() < MOST_RELATIVES {
        relatives.push(track_id);
    }
}
