//! Boxes around storms: in degrees on the globe, and in pixels of a grid.
//!
//! A box file is read as [`BoxFrames`] by [`read`], or time by time as [`BoxSeries`], in any format: a table
//! ([`table`]), ExtremeWeather's HDF5 ([`extreme_weather`]) or COCO's JSON ([`coco`]). Each of these, and [`geojson`],
//! is written time by time through a [`BoxSink`].
//!
//! Letters: y row (latitude, south to north), x column (longitude, eastward).

pub mod coco;
pub mod extreme_weather;
mod fault;
mod file;
mod frame;
pub mod geojson;
mod labelled_share;
mod pixels;
mod place;
pub mod precision;
mod series;
pub mod suppress;
pub mod table;

pub use fault::BoxFault;
pub use file::{FileKind, pixel_grid, read};
pub use frame::{BoxFrame, BoxFrames, BoxSink, SinkSummary, TrackedBox};
pub use labelled_share::LabelledShare;
pub use series::BoxSeries;

use crate::Class;
use crate::error::{DataError, Result};
use crate::grid::eastern_longitude;
use serde::{Deserialize, Serialize};

/// The class of a box; the discriminant is the stored code.
///
/// # Source
/// ExtremeWeather, arXiv:1612.02095: the order of its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum BoxClass {
    /// A tropical depression.
    TropicalDepression = 0,
    /// A tropical cyclone.
    TropicalCyclone = 1,
    /// An extratropical cyclone.
    ExtratropicalCyclone = 2,
    /// An atmospheric river.
    AtmosphericRiver = 3,
}

impl BoxClass {
    /// All classes, in code order.
    pub const ALL: [Self; 4] = [
        Self::TropicalDepression,
        Self::TropicalCyclone,
        Self::ExtratropicalCyclone,
        Self::AtmosphericRiver,
    ];

    /// The code in box files.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The class of a code.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::TropicalDepression => "tropical_depression",
            Self::TropicalCyclone => "tropical_cyclone",
            Self::ExtratropicalCyclone => "extratropical_cyclone",
            Self::AtmosphericRiver => "atmospheric_river",
        }
    }

    /// The class of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }
}

impl From<BoxClass> for Class {
    /// The class in tables of events.
    fn from(class: BoxClass) -> Self {
        match class {
            BoxClass::TropicalCyclone => Self::TropicalCyclone,
            BoxClass::AtmosphericRiver => Self::AtmosphericRiver,
            BoxClass::TropicalDepression => Self::TropicalDepression,
            BoxClass::ExtratropicalCyclone => Self::ExtratropicalCyclone,
        }
    }
}

/// A box on the globe.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GeoBox {
    /// Its class.
    pub class: BoxClass,
    /// Western edge, [0, 360); greater than `east_deg` where the box crosses 0°E.
    pub west_deg: f64,
    /// Southern edge.
    pub south_deg: f64,
    /// Eastern edge, [0, 360].
    pub east_deg: f64,
    /// Northern edge.
    pub north_deg: f64,
    /// Confidence of the detection, 0 to 1; `None` for labels.
    pub confidence: Option<f32>,
}

/// A box on a grid, in pixels: cell (j, i) covers y from j to j + 1 and x from i to i + 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PixelBox {
    /// Its class.
    pub class: BoxClass,
    /// Southern edge, 0 to rows.
    pub y_min: f64,
    /// Western edge, [0, columns).
    pub x_min: f64,
    /// Northern edge.
    pub y_max: f64,
    /// Eastern edge; greater than the number of columns where the box crosses the seam of a global grid.
    pub x_max: f64,
    /// Confidence of the detection, 0 to 1; `None` for labels.
    pub confidence: Option<f32>,
}

impl GeoBox {
    /// Width in degrees of longitude.
    pub fn width_deg(&self) -> f64 {
        let width = self.east_deg - self.west_deg;
        if width < 0.0 { width + 360.0 } else { width }
    }

    /// Area on the sphere, km².
    pub fn area_km2(&self) -> f64 {
        let height = self.north_deg.to_radians().sin() - self.south_deg.to_radians().sin();
        crate::grid::EARTH_RADIUS_KM.powi(2) * self.width_deg().to_radians() * height
    }

    /// Intersection over union of two boxes, by area on the sphere.
    pub fn overlap(&self, other: &Self) -> f64 {
        let south = self.south_deg.max(other.south_deg);
        let north = self.north_deg.min(other.north_deg);
        if south >= north {
            return 0.0;
        }
        let shared_deg = shared_longitude_deg(self, other);
        let height = north.to_radians().sin() - south.to_radians().sin();
        let shared = crate::grid::EARTH_RADIUS_KM.powi(2) * shared_deg.to_radians() * height;
        let either = self.area_km2() + other.area_km2() - shared;
        if either > 0.0 { shared / either } else { 0.0 }
    }

    /// Whether its confidence is at least `least`; always true for labels, which have none.
    pub fn is_sure(&self, least: f32) -> bool {
        self.confidence.is_none_or(|confidence| confidence >= least)
    }

    /// # Errors
    /// [`DataError::Invalid`] if the box has no extent or is not on the globe.
    pub fn check(&self) -> Result<()> {
        let Some((fault, _)) = BoxFault::find(self) else {
            return Ok(());
        };
        let (class, edges) = (self.class.name(), fault::edges(self));
        Err(DataError::Invalid(format!(
            "the box of {class}, {edges}: {fault}"
        )))
    }
}

/// Degrees of longitude shared by two boxes; two wide boxes may overlap on both sides of the globe.
fn shared_longitude_deg(a: &GeoBox, b: &GeoBox) -> f64 {
    let offset = eastern_longitude(b.west_deg - a.west_deg);
    let (a_end, b_width) = (a.width_deg(), b.width_deg());
    let shared = |start: f64| (a_end.min(start + b_width) - start.max(0.0)).max(0.0);
    shared(offset) + shared(offset - 360.0)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(super) fn geo(west_deg: f64, south_deg: f64, east_deg: f64, north_deg: f64) -> GeoBox {
        GeoBox {
            class: BoxClass::TropicalCyclone,
            west_deg,
            south_deg,
            east_deg,
            north_deg,
            confidence: None,
        }
    }

    #[test]
    fn a_box_across_the_seam_overlaps_as_anywhere_else() {
        let here = geo(100.0, 10.0, 120.0, 20.0).overlap(&geo(110.0, 10.0, 130.0, 20.0));
        let seam = geo(350.0, 10.0, 10.0, 20.0).overlap(&geo(0.0, 10.0, 20.0, 20.0));
        assert!(
            (here - 1.0 / 3.0).abs() < 1e-12 && (here - seam).abs() < 1e-12,
            "{here} {seam}"
        );
    }

    #[test]
    fn the_globe_has_its_area() {
        let globe = geo(0.0, -90.0, 360.0, 90.0).area_km2();
        let expected = 4.0 * std::f64::consts::PI * crate::grid::EARTH_RADIUS_KM.powi(2);
        assert!((globe / expected - 1.0).abs() < 1e-12);
    }

    #[test]
    fn boxes_without_extent_or_off_the_globe_are_errors() {
        for bad in [
            geo(10.0, 5.0, 20.0, 5.0),
            geo(10.0, 5.0, 10.0, 6.0),
            geo(10.0, 80.0, 20.0, 95.0),
            geo(-5.0, 0.0, 5.0, 5.0),
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn overlap_is_symmetric_and_turns_with_the_globe(w in 0.0..360.0f64, a in 1.0..300.0f64, b in 1.0..300.0f64, shift in 0.0..360.0f64, turn in 0.0..360.0f64) {
            let at = |west: f64, width: f64, south| geo(west.rem_euclid(360.0), south, (west + width).rem_euclid(360.0), south + 20.0);
            let (one, two) = (at(w, a, 0.0), at(w + shift, b, 10.0));
            let (one_turned, two_turned) = (at(w + turn, a, 0.0), at(w + shift + turn, b, 10.0));
            let overlap = one.overlap(&two);
            prop_assert!((0.0..=1.0 + 1e-9).contains(&overlap));
            prop_assert!((overlap - two.overlap(&one)).abs() < 1e-9);
            prop_assert!((overlap - one_turned.overlap(&two_turned)).abs() < 1e-9);
        }
    }
}
