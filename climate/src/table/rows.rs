//! The columns of the tables: names and cells.

use super::{EVENT_COLUMNS, Row, TRACK_COLUMNS};
use crate::events::Event;
use crate::statistics::{Basin, Category};
use crate::track::{Landfall, Track};
use squall_data::Class;

/// A column: its name, and the function that formats its cell.
type Column<T> = (&'static str, fn(&T) -> String);

/// The columns of `events.csv` and `objects.csv`, in their order.
pub(super) const EVENT: [Column<Event>; 28] = [
    ("class", |e| e.class.name().into()),
    ("time", |e| e.time.to_string()),
    ("lon_deg", |e| longitude(e.lon_deg)),
    ("lat_deg", |e| fixed(e.lat_deg, 4)),
    ("area_km2", |e| fixed(e.area_km2, 1)),
    ("track_id", |e| whole(e.track_id)),
    ("west_deg", |e| longitude(e.west_deg)),
    ("south_deg", |e| fixed(e.south_deg, 4)),
    ("east_deg", |e| longitude(e.east_deg)),
    ("north_deg", |e| fixed(e.north_deg, 4)),
    ("length_km", |e| fixed(e.length_km, 1)),
    ("width_km", |e| fixed(e.width_km, 1)),
    ("orientation_deg", |e| {
        format_angle(e.orientation_deg, 2, 180.0)
    }),
    ("min_psl_pa", |e| optional(e.min_psl_pa, 1)),
    ("max_wind_m_s", |e| optional(e.max_wind_m_s, 3)),
    ("max_tmq_kg_m2", |e| optional(e.max_tmq_kg_m2, 3)),
    ("mean_prect_m_s", |e| scientific(e.mean_prect_m_s)),
    ("mean_probability", |e| optional(e.mean_probability, 5)),
    ("hours", |e| optional(e.details.hours, 2)),
    ("touches_edge", |e| flag(e.details.touches_edge)),
    ("max_ivt_proxy_kg_m_s", |e| {
        optional(e.details.max_ivt_proxy_kg_m_s, 1)
    }),
    ("ar_scale", |e| whole(e.details.river_scale)),
    ("precipitation_km3", |e| {
        optional(e.details.precipitation_km3, 6)
    }),
    ("land_share", |e| optional(e.details.land_share, 5)),
    ("land_lon_deg", |e| {
        e.details.land_lon_deg.map_or_else(String::new, longitude)
    }),
    ("land_lat_deg", |e| optional(e.details.land_lat_deg, 4)),
    ("max_ivt_kg_m_s", |e| optional(e.details.max_ivt_kg_m_s, 1)),
    ("gale_radius_km", |e| optional(e.details.gale_radius_km, 1)),
];

/// The columns of `tracks.csv`, in their order.
pub(super) const TRACK: [Column<Track>; 45] = [
    ("track_id", |t| t.track_id.to_string()),
    ("class", |t| t.class.name().into()),
    ("start_time", |t| t.start.to_string()),
    ("end_time", |t| t.end.to_string()),
    ("duration_hours", |t| fixed(t.duration_hours(), 2)),
    ("points", |t| t.points.to_string()),
    ("origin", |t| t.origin.name().into()),
    ("fate", |t| t.fate.name().into()),
    ("related_track", |t| whole(t.related_track)),
    ("genesis_lon_deg", |t| longitude(t.genesis_lon_deg)),
    ("genesis_lat_deg", |t| fixed(t.genesis_lat_deg, 4)),
    ("end_lon_deg", |t| longitude(t.end_lon_deg)),
    ("end_lat_deg", |t| fixed(t.end_lat_deg, 4)),
    ("distance_km", |t| fixed(t.distance_km, 1)),
    ("mean_speed_m_s", |t| optional(t.mean_speed_m_s(), 3)),
    ("max_area_km2", |t| fixed(t.max_area_km2, 1)),
    ("mean_area_km2", |t| fixed(t.mean_area_km2, 1)),
    ("min_psl_pa", |t| optional(t.min_psl_pa, 1)),
    ("max_wind_m_s", |t| optional(t.max_wind_m_s, 3)),
    ("max_tmq_kg_m2", |t| optional(t.max_tmq_kg_m2, 3)),
    ("category", |t| category(t).into()),
    ("basin", |t| {
        let basin = Basin::of(t.genesis_lat_deg, t.genesis_lon_deg);
        basin.code().into()
    }),
    ("parent_track", |t| whole(t.details.parent_track)),
    ("merged_into", |t| whole(t.details.merged_into)),
    ("split_tracks", |t| list(&t.details.split_tracks)),
    ("merged_tracks", |t| list(&t.details.merged_tracks)),
    ("max_speed_m_s", |t| optional(t.details.max_speed_m_s, 3)),
    ("ace_1e4_kt2", |t| optional(t.details.ace_1e4_kt2, 4)),
    ("pdi_m3_s2", |t| scientific(t.details.pdi_m3_s2)),
    ("max_ivt_proxy_kg_m_s", |t| {
        optional(t.details.max_ivt_proxy_kg_m_s, 1)
    }),
    ("ar_scale", |t| whole(t.details.river_scale)),
    ("precipitation_km3", |t| {
        optional(t.details.precipitation_km3, 6)
    }),
    ("landfalls", |t| whole(t.details.landfalls)),
    ("landfall_time", |t| {
        at_landfall(t, |at| at.time.to_string())
    }),
    ("landfall_lon_deg", |t| {
        at_landfall(t, |at| longitude(at.lon_deg))
    }),
    ("landfall_lat_deg", |t| {
        at_landfall(t, |at| fixed(at.lat_deg, 4))
    }),
    ("landfall_wind_m_s", |t| {
        at_landfall(t, |at| optional(at.max_wind_m_s, 3))
    }),
    ("landfall_psl_pa", |t| {
        at_landfall(t, |at| optional(at.min_psl_pa, 1))
    }),
    ("touches_edge", |t| flag(t.details.touches_edge)),
    ("max_ivt_kg_m_s", |t| optional(t.details.max_ivt_kg_m_s, 1)),
    ("source_id", |t| text(&t.details.identity.source_id)),
    ("name", |t| text(&t.details.identity.name)),
    ("landfall_ivt_kg_m_s", |t| {
        at_landfall(t, |at| optional(at.ivt_kg_m_s, 1))
    }),
    ("landfall_ivt_proxy_kg_m_s", |t| {
        at_landfall(t, |at| optional(at.ivt_proxy_kg_m_s, 1))
    }),
    ("landfall_ar_scale", |t| {
        at_landfall(t, |at| whole(at.river_scale))
    }),
];

/// The names of columns.
pub(super) const fn names<T, const N: usize>(columns: &[Column<T>; N]) -> [&'static str; N] {
    let mut names = [""; N];
    let mut place = 0;
    while place < N {
        names[place] = columns[place].0;
        place += 1;
    }
    names
}

impl Row for Event {
    fn columns() -> Vec<&'static str> {
        EVENT_COLUMNS.to_vec()
    }

    fn cells(&self) -> Vec<String> {
        EVENT.iter().map(|(_, cell)| cell(self)).collect()
    }
}

impl Row for Track {
    fn columns() -> Vec<&'static str> {
        TRACK_COLUMNS.to_vec()
    }

    fn cells(&self) -> Vec<String> {
        TRACK.iter().map(|(_, cell)| cell(self)).collect()
    }
}

/// The category of a tropical cyclone with known wind; otherwise empty.
fn category(track: &Track) -> &'static str {
    let wind_m_s = (track.max_wind_m_s).filter(|_| track.class == Class::TropicalCyclone);
    let category = wind_m_s.and_then(Category::saffir_simpson);
    category.map_or("", Category::name)
}

fn at_landfall(track: &Track, cell: fn(&Landfall) -> String) -> String {
    let landfall = track.details.landfall.as_ref();
    landfall.map_or_else(String::new, cell)
}

fn fixed(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return String::new();
    }
    let text = format!("{value:.decimals$}");
    match text.strip_prefix('-') {
        // A value rounded to 0 has no sign.
        Some(size) if size.bytes().all(|byte| matches!(byte, b'0' | b'.')) => size.into(),
        _ => text,
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

fn text(value: &Option<String>) -> String {
    value.clone().unwrap_or_default()
}

fn flag(value: Option<bool>) -> String {
    whole(value.map(u8::from))
}

fn list(ids: &[u64]) -> String {
    let ids: Vec<String> = ids.iter().map(u64::to_string).collect();
    ids.join(" ")
}

fn longitude(value: f64) -> String {
    format_angle(value, 4, 360.0)
}

/// Formats an angle in [0, end) and prevents rounding up to `end`.
fn format_angle(value: f64, decimals: usize, end: f64) -> String {
    match fixed(value, decimals) {
        text if text == fixed(end, decimals) => fixed(0.0, decimals),
        text => text,
    }
}
