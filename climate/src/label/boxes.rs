//! Boxes of all four classes.
//!
//! | class | half side |
//! |---|---|
//! | tropical cyclone | wind radius + 6.6°, in degrees of latitude and of longitude: the box in which its mask is looked for |
//! | tropical depression | 2.75° of a great circle: own choice |
//! | extratropical cyclone | 700 km: own choice within the published radii, see [`super::EtcThresholds`] |
//! | atmospheric river | that of its cells |
//!
//! # Source
//! ClimDeepLearn for cyclones, [`super::EtcThresholds`] and [`super::TdThresholds`] for the others. The boxes of
//! ExtremeWeather come from the same tools, but how they were sized is not published.

use super::candidates::CycloneCandidate;
use super::lows::LowCandidate;
use super::{EtcThresholds, TdThresholds};
use crate::events::Event;
use squall_data::grid::KM_PER_DEGREE;
use squall_data::{BoxClass, Class, GeoBox, TrackedBox};

/// The box of a cyclone of the masks: a depression's while its wind is below a storm's.
pub(super) fn cyclone(
    cyclone: &CycloneCandidate,
    half_deg: f64,
    wind_m_s: f64,
    depression: &TdThresholds,
) -> TrackedBox {
    let centre = (cyclone.lat_deg, cyclone.lon_deg);
    let weak =
        wind_m_s < depression.max_wind_m_s && cyclone.lat_deg.abs() <= depression.max_latitude_deg;
    let geo = if weak {
        GeoBox::around_equal_sides(
            BoxClass::TropicalDepression,
            centre,
            depression.box_half_deg,
        )
    } else {
        GeoBox::around(BoxClass::TropicalCyclone, centre, (half_deg, half_deg))
    };
    TrackedBox {
        geo,
        track_id: cyclone.track_id,
    }
}

/// The boxes of the rivers among the objects of a mask.
pub(super) fn rivers(objects: &[Event]) -> impl Iterator<Item = TrackedBox> {
    let rivers = objects
        .iter()
        .filter(|o| o.class == Class::AtmosphericRiver);
    rivers.map(of_cells)
}

/// The box of the cells of an object.
pub(super) fn of_cells(object: &Event) -> TrackedBox {
    TrackedBox {
        geo: GeoBox {
            confidence: None,
            ..object.bounding_box()
        },
        track_id: object.track_id,
    }
}

/// The boxes of the lows that are not part of a cyclone of the masks, and of depressions only while they are weak.
pub(super) fn lows(
    lows: &[LowCandidate],
    cyclones: &[CycloneCandidate],
    extratropical: &EtcThresholds,
    depression: &TdThresholds,
) -> Vec<TrackedBox> {
    let boxed = |low: &LowCandidate| {
        let (apart_deg, half_deg) = match low.class {
            BoxClass::TropicalDepression => (depression.merge_radius_deg, depression.box_half_deg),
            _ => (
                extratropical.merge_radius_deg,
                extratropical.box_half_km / KM_PER_DEGREE,
            ),
        };
        let strong = low
            .wind_m_s
            .is_some_and(|wind| wind >= depression.max_wind_m_s);
        let inside = cyclones
            .iter()
            .any(|storm| low.distance_km(storm.lat_deg, storm.lon_deg) < apart_deg * KM_PER_DEGREE);
        let centre = (low.lat_deg, low.lon_deg);
        (!strong && !inside).then(|| TrackedBox {
            geo: GeoBox::around_equal_sides(low.class, centre, half_deg),
            track_id: low.track_id,
        })
    };
    lows.iter().filter_map(boxed).collect()
}
