//! Events: connected components of one class, or boxes, at one time.

mod boxes;
mod centre;
pub(crate) mod components;
pub(crate) mod cyclone_wind;
mod details;
pub(crate) mod extract;
mod gale_radius;
pub(crate) mod shape;

pub use boxes::from_boxes;
pub use components::{Region, Run, regions};
pub use cyclone_wind::{CYCLONE_WIND_DEG, EXTRATROPICAL_WIND_DEG, cyclone_wind_deg};
pub(crate) use details::is_pole;
pub use details::{EventDetails, RiverOnLand};
pub use extract::{
    CellTransport, DetectedEvent, EventFields, ExtractOptions, extract, extract_counting,
};
pub use gale_radius::{GALE_M_S, gale_radius_km};

use serde::{Deserialize, Serialize};
use squall_data::{BoxClass, Class, GeoBox, Time};

/// A connected component or box of one class at one time, and the properties of the fields inside it.
///
/// For a box ([`from_boxes`]), area and edges are those of the box; length, width and orientation are unknown (NaN).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Class of the event; never background.
    pub class: Class,
    /// Time of the event.
    pub time: Time,
    /// The track it belongs to, once tracked.
    pub track_id: Option<u64>,
    /// Longitude of the centre, [0, 360): of the pressure minimum for cyclones if PSL is known, otherwise of the
    /// centroid.
    pub lon_deg: f64,
    /// Latitude of the centre.
    pub lat_deg: f64,
    /// Area on the sphere, km².
    pub area_km2: f64,
    /// Western edge of the bounding box, [0, 360); the box extends eastward from here, across the seam if necessary.
    pub west_deg: f64,
    /// Southern edge.
    pub south_deg: f64,
    /// Eastern edge, [0, 360).
    pub east_deg: f64,
    /// Northern edge.
    pub north_deg: f64,
    /// Length of the major axis, km.
    pub length_km: f64,
    /// Area divided by length, km.
    pub width_km: f64,
    /// Orientation of the major axis, degrees anticlockwise from east, in [0, 180).
    pub orientation_deg: f64,
    /// Lowest sea-level pressure, Pa. Cyclones: pressure of the centre, or the lowest within [`cyclone_wind_deg()`] if
    /// the centre is the middle of a box. Other events: the lowest inside.
    pub min_psl_pa: Option<f64>,
    /// Highest wind of the lowest level inside, m/s; at 850 hPa if that is unknown. Tropical cyclones in masks: the
    /// highest inside or within [`cyclone_wind_deg()`] of the centre. Cyclones in boxes: the highest within that
    /// distance only.
    pub max_wind_m_s: Option<f64>,
    /// Highest precipitable water inside, kg m-2.
    pub max_tmq_kg_m2: Option<f64>,
    /// Area-mean precipitation inside, m/s of liquid water.
    pub mean_prect_m_s: Option<f64>,
    /// Mean class probability inside, if the mask came with probabilities.
    pub mean_probability: Option<f64>,
    /// Impact, and properties that depend on earlier times.
    pub details: EventDetails,
}

impl Event {
    /// The bounding box. Background becomes tropical depression. The box is empty if the extent of the event is
    /// unknown.
    pub fn bounding_box(&self) -> GeoBox {
        GeoBox {
            class: box_class(self.class),
            west_deg: self.west_deg,
            south_deg: self.south_deg,
            east_deg: self.east_deg,
            north_deg: self.north_deg,
            confidence: self.mean_probability.map(|p| p as f32),
        }
    }
}

/// The box class of a class; tropical depression for background, which has no events.
pub(crate) fn box_class(class: Class) -> BoxClass {
    match class {
        Class::TropicalCyclone => BoxClass::TropicalCyclone,
        Class::AtmosphericRiver => BoxClass::AtmosphericRiver,
        Class::ExtratropicalCyclone => BoxClass::ExtratropicalCyclone,
        Class::Background | Class::TropicalDepression => BoxClass::TropicalDepression,
    }
}
