//! Faults of boxes in files.

use super::GeoBox;
use crate::error::DataError;
use std::fmt;
use std::path::Path;

/// What is wrong with a box or its representation in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BoxFault {
    /// A name or a number that is not one of the four classes.
    UnknownClass,
    /// No or negative width or height.
    NoExtent,
    /// A latitude or longitude out of range.
    OffTheGlobe,
    /// A pixel that the grid does not have.
    OffTheGrid,
    /// A cell that is not a number.
    NoNumber,
    /// A missing or invalid time.
    NoTime,
    /// A confidence that is not between 0 and 1.
    NoConfidence,
    /// Numbers that form a box in none of the known column orders.
    NoOrder,
    /// A reference to an image that the file does not list.
    NoImage,
    /// An id used twice in a file.
    SameId,
    /// A time used by two images of a file.
    SameTime,
}

impl fmt::Display for BoxFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownClass => "unknown class",
            Self::NoExtent => "no extent",
            Self::OffTheGlobe => "off the globe",
            Self::OffTheGrid => "off the grid",
            Self::NoNumber => "no number",
            Self::NoTime => "no time",
            Self::NoConfidence => "no confidence",
            Self::NoOrder => "no order of the columns fits",
            Self::NoImage => "no such image",
            Self::SameId => "one id twice",
            Self::SameTime => "one time twice",
        })
    }
}

impl BoxFault {
    /// The error for this fault at a place in a file.
    pub(super) fn at(
        self,
        path: &Path,
        place: impl Into<String>,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> DataError {
        DataError::BadBox {
            path: path.into(),
            place: place.into(),
            fault: self,
            expected: expected.into(),
            found: found.into(),
        }
    }

    /// The fault of a box's edges on the globe, and what was expected; `None` if they are valid.
    pub(super) fn find(geo: &GeoBox) -> Option<(Self, &'static str)> {
        let latitudes = [geo.south_deg, geo.north_deg];
        let longitudes = [geo.west_deg, geo.east_deg];
        // Written so that NaN counts as off the globe, too.
        if !latitudes.iter().all(|lat| lat.abs() <= 90.0)
            || !longitudes.iter().all(|lon| (0.0..=360.0).contains(lon))
        {
            return Some((
                Self::OffTheGlobe,
                "latitudes within ±90 and longitudes within -180 to 360",
            ));
        }
        if geo.south_deg >= geo.north_deg || geo.width_deg() <= 0.0 {
            return Some((Self::NoExtent, "south below north and west apart from east"));
        }
        None
    }
}

/// The edges of a box as text.
pub(super) fn edges(geo: &GeoBox) -> String {
    let (west, south, east, north) = (geo.west_deg, geo.south_deg, geo.east_deg, geo.north_deg);
    format!("west {west}, south {south}, east {east}, north {north}")
}
