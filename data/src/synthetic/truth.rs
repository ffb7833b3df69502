//! What is really there: masks and objects of a synthetic run.

use crate::{Class, ClassMask, GeoBox, Time, TrackedBox};
use std::fmt::Write;

/// One storm at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct TruthObject {
    /// Tropical cyclone or river.
    pub class: Class,
    /// The storm's number in the run.
    pub track_id: u64,
    /// Centre, degrees.
    pub lat_deg: f64,
    /// Centre, [0, 360).
    pub lon_deg: f64,
    /// Area of its cells, km².
    pub area_km2: f64,
    /// Western edge of its box, which exceeds the eastern one where the box crosses 0°E.
    pub west_deg: f64,
    /// Eastern edge of its box.
    pub east_deg: f64,
    /// Southern edge of its box.
    pub south_deg: f64,
    /// Northern edge of its box.
    pub north_deg: f64,
    /// Strongest wind of a cyclone above the boundary layer, m/s: without friction, its surroundings and its motion,
    /// which the fields' lowest level has.
    pub max_wind_m_s: Option<f64>,
}

/// The box of one storm at one time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TruthBox {
    /// The box, with its class.
    pub geo: GeoBox,
    /// The storm's number in the run.
    pub track_id: u64,
    /// Centre of the storm, degrees.
    pub lat_deg: f64,
    /// Centre, [0, 360).
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
    /// Every storm of the mask.
    pub objects: Vec<TruthObject>,
    /// A box around every storm of the four classes of boxes.
    pub boxes: Vec<TruthBox>,
}

impl Truth {
    /// The boxes as they stand in files.
    pub fn tracked_boxes(&self) -> Vec<TrackedBox> {
        self.boxes.iter().copied().map(TrackedBox::from).collect()
    }
}

/// The header of a table of objects: the columns of `squall label` that the truth knows.
pub(super) const HEADER: &str = "class,time,lon_deg,lat_deg,area_km2,track_id,west_deg,south_deg,east_deg,north_deg,max_wind_m_s\n";

impl TruthObject {
    /// Adds its row to a table.
    pub(super) fn row(&self, time: Time, table: &mut String) {
        let wind = self
            .max_wind_m_s
            .map(|wind| format!("{wind:.2}"))
            .unwrap_or_default();
        // Writing into a string cannot fail.
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
