//! Relatives, impact and landfall of a track.

use super::Identity;
use crate::events::Event;
use crate::statistics::{ace_of_point, power_dissipation_of_point};
use serde::{Deserialize, Serialize};
use squall_data::{Class, Time};

/// Maximum number of related tracks that a track lists per kind, so that an endless track does not grow without bound.
/// The others can still be found through `parent_track` and `merged_into`.
pub const MOST_RELATIVES: usize = 32;
/// A river has reached land if at least this share of its area is over land; nearly every river covers some island.
const RIVER_LAND_SHARE: f64 = 0.05;

/// Properties of a track beyond its path and extremes. Unknown values are blank.
///
/// Related tracks are identities. One without a row in `tracks.csv` was too short to be listed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TrackDetails {
    /// The track it split from.
    pub parent_track: Option<u64>,
    /// The track that it merged into.
    pub merged_into: Option<u64>,
    /// The first [`MOST_RELATIVES`] tracks that split from it.
    pub split_tracks: Vec<u64>,
    /// The first [`MOST_RELATIVES`] tracks that merged into it.
    pub merged_tracks: Vec<u64>,
    /// Highest speed of the centre between two points, m/s. Centres of masks also move when the shape of the area
    /// changes, most when areas merge or split.
    pub max_speed_m_s: Option<f64>,
    /// Cyclones: accumulated cyclone energy, 10⁴ kt².
    pub ace_1e4_kt2: Option<f64>,
    /// Cyclones: power dissipation index, m³ s-2.
    pub pdi_m3_s2: Option<f64>,
    /// Highest vapour transport, kg m-1 s-1, by [`crate::derived::vapour_transport_proxy`].
    pub max_ivt_proxy_kg_m_s: Option<f64>,
    /// Highest vapour transport of the transport in the fields, kg m-1 s-1.
    pub max_ivt_kg_m_s: Option<f64>,
    /// Rivers: highest rank at any point.
    pub river_scale: Option<u8>,
    /// Liquid water that fell inside during its lifetime, km³.
    pub precipitation_km3: Option<f64>,
    /// Number of landfalls; blank if land is unknown.
    pub landfalls: Option<u32>,
    /// The first landfall.
    pub landfall: Option<Landfall>,
    /// Whether it touched the edge of a regional domain at any time, so that genesis, end and size may be those of the
    /// part inside.
    pub touches_edge: Option<bool>,
    /// Its identity in the file that it was read from.
    #[serde(default)]
    pub identity: Identity,
}

/// Location, time and intensity of a track's landfall.
///
/// Cyclones: the first point whose centre is over land after one over sea. Rivers: the first time with at least a
/// twentieth of the area over land after one with less. A track that starts over land makes no landfall there, except a
/// river that split from rivers over sea.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Landfall {
    /// When.
    pub time: Time,
    /// Longitude of the landfall ([`crate::events::EventDetails::land_lon_deg`]).
    pub lon_deg: f64,
    /// Latitude of the landfall.
    pub lat_deg: f64,
    /// Highest wind of the last point before and the first after landfall, m/s.
    pub max_wind_m_s: Option<f64>,
    /// Lowest pressure of the last point before and the first after landfall, Pa.
    pub min_psl_pa: Option<f64>,
    /// Rivers: vapour transport at that place and time of the transport in the fields, kg m-1 s-1.
    #[serde(default)]
    pub ivt_kg_m_s: Option<f64>,
    /// Rivers: vapour transport at that place and time by [`crate::derived::vapour_transport_proxy`], kg m-1 s-1.
    #[serde(default)]
    pub ivt_proxy_kg_m_s: Option<f64>,
    /// Rivers: rank of that place ([`crate::statistics::river_scale`]) by the stay of rivers there that the landfall is
    /// part of, until the stay or the track ends.
    #[serde(default)]
    pub river_scale: Option<u8>,
}

/// The state of a track's last point that the landfall test of the next point needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Shore {
    on_land: bool,
    max_wind_m_s: Option<f64>,
    min_psl_pa: Option<f64>,
}

impl Shore {
    /// The state of an event, for the landfall test of the next one.
    pub fn of(event: &Event) -> Self {
        Self {
            on_land: place_on_land(event).is_some(),
            max_wind_m_s: event.max_wind_m_s,
            min_psl_pa: event.min_psl_pa,
        }
    }

    /// The state of several tracks together, which is over land if one of them is.
    pub fn of_all(states: impl Iterator<Item = Self>) -> Self {
        states.fold(Self::default(), |all, one| Self {
            on_land: all.on_land || one.on_land,
            max_wind_m_s: super::pick(all.max_wind_m_s, one.max_wind_m_s, f64::max),
            min_psl_pa: super::pick(all.min_psl_pa, one.min_psl_pa, f64::min),
        })
    }
}

/// Latitude and longitude of the point where an event is over land, if it is.
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

    /// Adds the next event, with the speed towards it if that is known.
    pub(super) fn extend(&mut self, event: &Event, speed_m_s: Option<f64>) {
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

    /// Records a landfall if the track moved from sea, as stored in `shore`, to land; then updates `shore`.
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
            // Set by the open track, which knows the river's cells.
            ivt_kg_m_s: None,
            ivt_proxy_kg_m_s: None,
            river_scale: None,
        });
    }

    pub(super) fn add_split(&mut self, track_id: u64) {
        list(&mut self.split_tracks, track_id);
    }

    pub(super) fn add_merged(&mut self, track_id: u64) {
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
