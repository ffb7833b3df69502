//! A track for tests.

use super::{Fate, Origin, Track};
use squall_data::{Class, Time};

/// A two-day cyclone in the West Pacific with only times and positions.
pub(crate) fn cyclone(start: Time) -> Track {
    Track {
        track_id: 1,
        class: Class::TropicalCyclone,
        start,
        end: start.add_seconds(2 * 86_400),
        points: 9,
        origin: Origin::Genesis,
        fate: Fate::Lysis,
        related_track: None,
        genesis_lon_deg: 140.0,
        genesis_lat_deg: 15.0,
        end_lon_deg: 135.0,
        end_lat_deg: 18.0,
        distance_km: 800.0,
        max_area_km2: 9e4,
        mean_area_km2: 8e4,
        min_psl_pa: None,
        max_wind_m_s: None,
        max_tmq_kg_m2: None,
        details: Default::default(),
    }
}
