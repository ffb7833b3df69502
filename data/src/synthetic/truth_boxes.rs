//! The boxes of the truth, by physical size.
//!
//! | class | when | half side |
//! |---|---|---|
//! | tropical cyclone | as in the mask: lowest-level wind of 17 m/s or more | 6.6° and the radius of 17.5 m/s winds, in degrees of latitude and of longitude |
//! | tropical depression | the same storms while their wind is weaker, from 8 m/s on, within 35° of the equator | 2.75° of a great circle |
//! | extratropical cyclone | from a pressure deficit of 10 hPa on | its radius (at which the deficit has fallen to 1/e) |
//! | atmospheric river | as in the mask | that of its cells |
//!
//! # Source
//! Cyclones: ClimDeepLearn's box of wind radius + 6.6°, as in the labels of the climate crate. Depressions: weather
//! services count them from the range of Beaufort 5, and the closed contour of `squall label`'s rule lies within 5.5°.

use super::catalogue::State;
use super::truth::{TruthBox, TruthObject};
use crate::Class;
use crate::boxes::{BoxClass, GeoBox};
use crate::grid::KM_PER_DEGREE;

/// Wind speed that defines the radius of a cyclone, m/s: 63 km/h.
pub(super) const RADIUS_WIND_M_S: f64 = 63.0 / 3.6;
/// Maximum radius searched, degrees.
const RADIUS_SEARCH_DEG: f64 = 6.0;
/// Margin added to the radius.
const CYCLONE_MARGIN_DEG: f64 = 6.6;
/// Half side of a depression, degrees of a great circle.
const DEPRESSION_HALF_DEG: f64 = 2.75;
/// Minimum lowest-level wind of a depression, m/s.
const DEPRESSION_WIND_M_S: f64 = 8.0;
/// Maximum latitude of a depression, degrees.
const DEPRESSION_LATITUDE_DEG: f64 = 35.0;
/// Minimum pressure deficit of an extratropical cyclone, Pa. A weaker low is a ripple without a closed contour.
const LOW_DEFICIT_PA: f64 = 1000.0;

/// The box of a tropical cyclone.
pub(super) fn cyclone(track_id: u64, state: &State, radius_km: f64) -> TruthBox {
    let radius_deg = radius_km / KM_PER_DEGREE;
    // If the wind does not fall off within the search radius, there is no radius, as in TECA.
    let found_deg = if radius_deg < RADIUS_SEARCH_DEG {
        radius_deg
    } else {
        0.0
    };
    let half = found_deg + CYCLONE_MARGIN_DEG;
    let centre = (state.lat, state.lon);
    boxed(
        track_id,
        centre,
        GeoBox::around(BoxClass::TropicalCyclone, centre, (half, half)),
    )
}

/// The box of a storm before it becomes, or after it ceases to be, a tropical cyclone.
pub(super) fn depression(track_id: u64, state: &State, lowest_wind_m_s: f64) -> Option<TruthBox> {
    if lowest_wind_m_s < DEPRESSION_WIND_M_S || state.lat.abs() > DEPRESSION_LATITUDE_DEG {
        return None;
    }
    let centre = (state.lat, state.lon);
    let class = BoxClass::TropicalDepression;
    let geo = GeoBox::around_equal_sides(class, centre, DEPRESSION_HALF_DEG);
    Some(boxed(track_id, centre, geo))
}

/// The box of an extratropical cyclone.
pub(super) fn low(
    track_id: u64,
    centre: (f64, f64),
    deficit_pa: f64,
    radius_deg: f64,
) -> Option<TruthBox> {
    if deficit_pa < LOW_DEFICIT_PA {
        return None;
    }
    let geo = GeoBox::around_equal_sides(BoxClass::ExtratropicalCyclone, centre, radius_deg);
    Some(boxed(track_id, centre, geo))
}

/// The box of an object in the mask, if it is a river.
pub(super) fn river(object: &TruthObject) -> Option<TruthBox> {
    if object.class != Class::AtmosphericRiver {
        return None;
    }
    let geo = GeoBox {
        class: BoxClass::AtmosphericRiver,
        west_deg: object.west_deg,
        south_deg: object.south_deg,
        east_deg: object.east_deg,
        north_deg: object.north_deg,
        confidence: None,
    };
    Some(boxed(
        object.track_id,
        (object.lat_deg, object.lon_deg),
        geo,
    ))
}

fn boxed(track_id: u64, (lat_deg, lon_deg): (f64, f64), geo: GeoBox) -> TruthBox {
    TruthBox {
        geo,
        track_id,
        lat_deg,
        lon_deg,
    }
}
