//! The truth of a synthetic run: masks and objects.

use crate::{Class, ClassMask, GeoBox, Time, TrackedBox};
use std::fmt::Write;

/// One storm at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct TruthObject {
    /// Tropical cyclone or river.
    pub class: Class,
    /// The storm's id in the run.
    pub track_id: u64,
    /// Latitude of the centre, degrees.
    pub lat_deg: f64,
    /// Longitude of the centre, [0, 360).
    pub lon_deg: f64,
    /// Area of its cells, km².
    pub area_km2: f64,
    /// Western edge of its box; exceeds the eastern edge if the box crosses 0°E.
    pub west_deg: f64,
    /// Eastern edge of its box.
    pub east_deg: f64,
    /// Southern edge of its box.
    pub south_deg: f64,
    /// Northern edge of its box.
    pub north_deg: f64,
    /// Maximum wind of a cyclone above the boundary layer, m/s, excluding friction, environment and motion, which the
    /// fields' lowest level includes.
    pub max_wind_m_s: Option<f64>,
}

/// The box of one storm at one time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TruthBox {
    /// The box, with its class.
    pub geo: GeoBox,
    /// The storm's id in the run.
    pub track_id: u64,
    /// Latitude of the centre, degrees.
    pub lat_deg: f64,
    /// Longitude of the centre, [0, 360).
    pub lon_deg: f64,
}

impl From<TruthBox> for TrackedBox {
    fn from(truth: TruthBox) -> Self {
        Self {
            geo: truth.geo,
            track_id: Some(truth.track_id),
        }
    }
}

/// The truth of one time.
#[derive(Debug, Clone)]
pub struct Truth {
    /// Class of every cell.
    pub mask: ClassMask,
    /// Every storm in the mask.
    pub objects: Vec<TruthObject>,
    /// A box around every storm of the four classes of boxes.
    pub boxes: Vec<TruthBox>,
}

impl Truth {
    /// The boxes in the format of box files.
    pub fn tracked_boxes(&self) -> Vec<TrackedBox> {
        self.boxes.iter().copied().map(TrackedBox::from).collect()
    }
}

/// Header of an object table: the columns of `squall label` that the truth has.
pub(super) const HEADER: &str = "class,time,lon_deg,lat_deg,area_km2,track_id,west_deg,south_deg,east_deg,north_deg,max_wind_m_s\n";

impl TruthObject {
    /// Appends its row to a table.
    pub(super) fn row(&self, time: Time, table: &mut String) {
        let wind = self
            .max_wind_m_s
            .map(|wind| format!("{wind:.2}"))
            .unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = writeln!(
            table,
            "{},{time},{:.3},{:.3},{:.0},{},{:.3},{:.3},{:.3},{:.3},{wind}",
            self.class.name(),
            self.lon_deg,
            self.lat_deg,
            self.area_km2,
            self.track_id,
            self.west_deg,
            self.south_deg,
            self.east_deg,
            self.north_deg,
        );
    }
}
