//! Cells of the tables.

use super::{EVENT_COLUMNS, Row, TRACK_COLUMNS};
use crate::events::Event;
use crate::statistics::{Basin, Category};
use crate::track::{Landfall, Track};
use squall_data::Class;

impl Row for Event {
    fn columns() -> Vec<&'static str> {
        EVENT_COLUMNS.to_vec()
    }

    fn cells(&self) -> Vec<String> {
        let details = &self.details;
        vec![
            self.class.name().into(),
            self.time.to_string(),
            longitude(self.lon_deg),
            fixed(self.lat_deg, 4),
            fixed(self.area_km2, 1),
            whole(self.track_id),
            longitude(self.west_deg),
            fixed(self.south_deg, 4),
            longitude(self.east_deg),
            fixed(self.north_deg, 4),
            fixed(self.length_km, 1),
            fixed(self.width_km, 1),
            fixed(self.orientation_deg, 2),
            optional(self.min_psl_pa, 1),
            optional(self.max_wind_m_s, 3),
            optional(self.max_tmq_kg_m2, 3),
            scientific(self.mean_prect_m_s),
            optional(self.mean_probability, 5),
            optional(details.hours, 2),
            flag(details.touches_edge),
            optional(details.max_ivt_proxy_kg_m_s, 1),
            whole(details.river_scale),
            optional(details.precipitation_km3, 6),
            optional(details.land_share, 5),
            details.land_lon_deg.map_or_else(String::new, longitude),
            optional(details.land_lat_deg, 4),
            optional(details.max_ivt_kg_m_s, 1),
            optional(details.gale_radius_km, 1),
        ]
    }
}

impl Row for Track {
    fn columns() -> Vec<&'static str> {
        TRACK_COLUMNS.to_vec()
    }

    fn cells(&self) -> Vec<String> {
        let category = (self.class == Class::TropicalCyclone)
            .then_some(self.max_wind_m_s)
            .flatten()
            .and_then(Category::saffir_simpson);
        let details = &self.details;
        let landfall = details.landfall.as_ref();
        let at_landfall = |of: fn(&Landfall) -> String| landfall.map_or_else(String::new, of);
        vec![
            self.track_id.to_string(),
            self.class.name().into(),
            self.start.to_string(),
            self.end.to_string(),
            fixed(self.duration_hours(), 2),
            self.points.to_string(),
            self.origin.name().into(),
            self.fate.name().into(),
            whole(self.related_track),
            longitude(self.genesis_lon_deg),
            fixed(self.genesis_lat_deg, 4),
            longitude(self.end_lon_deg),
            fixed(self.end_lat_deg, 4),
            fixed(self.distance_km, 1),
            optional(self.mean_speed_m_s(), 3),
            fixed(self.max_area_km2, 1),
            fixed(self.mean_area_km2, 1),
            optional(self.min_psl_pa, 1),
            optional(self.max_wind_m_s, 3),
            optional(self.max_tmq_kg_m2, 3),
            category.map_or("", Category::name).into(),
            Basin::of(self.genesis_lat_deg, self.genesis_lon_deg)
                .code()
                .into(),
            whole(details.parent_track),
            whole(details.merged_into),
            list(&details.split_tracks),
            list(&details.merged_tracks),
            optional(details.max_speed_m_s, 3),
            optional(details.ace_1e4_kt2, 4),
            scientific(details.pdi_m3_s2),
            optional(details.max_ivt_proxy_kg_m_s, 1),
            whole(details.river_scale),
            optional(details.precipitation_km3, 6),
            whole(details.landfalls),
            at_landfall(|at| at.time.to_string()),
            at_landfall(|at| longitude(at.lon_deg)),
            at_landfall(|at| fixed(at.lat_deg, 4)),
            at_landfall(|at| optional(at.max_wind_m_s, 3)),
            at_landfall(|at| optional(at.min_psl_pa, 1)),
            flag(details.touches_edge),
            optional(details.max_ivt_kg_m_s, 1),
        ]
    }
}

fn fixed(value: f64, decimals: usize) -> String {
    if value.is_finite() {
        format!("{value:.decimals$}")
    } else {
        String::new()
    }
}

fn optional(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(String::new, |v| fixed(v, decimals))
}

fn scientific(value: Option<f64>) -> String {
    let finite = value.filter(|v| v.is_finite());
    finite.map_or_else(String::new, |v| format!("{v:.5e}"))
}

fn whole<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |v| v.to_string())
}

fn flag(value: Option<bool>) -> String {
    whole(value.map(u8::from))
}

fn list(ids: &[u64]) -> String {
    let ids: Vec<String> = ids.iter().map(u64::to_string).collect();
    ids.join(" ")
}

/// A longitude of [0, 360) must not be rounded to 360.
fn longitude(value: f64) -> String {
    match fixed(value, 4) {
        text if text == "360.0000" => "0.0000".into(),
        text => text,
    }
}
