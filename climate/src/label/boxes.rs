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

/// The box of a cyclone of the masks. Its class is tropical depression while its wind is below that of a storm.
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
    rivers.map(bounding_box)
}

/// The bounding box of an object's cells.
pub(super) fn bounding_box(object: &Event) -> TrackedBox {
    TrackedBox {
        geo: GeoBox {
            confidence: None,
            ..object.bounding_box()
        },
        track_id: object.track_id,
    }
}

/// The boxes of lows that are not part of a cyclone of the masks. Depressions have a box only while they are weaker
/// than a storm.
pub(crate) fn lows(
    lows: &[LowCandidate],
    cyclones: &[CycloneCandidate],
    extratropical: &EtcThresholds,
    depression: &TdThresholds,
) -> Vec<TrackedBox> {
    let boxed = |low: &LowCandidate| {
        let (merge_deg, half_deg) = match low.class {
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
            .any(|storm| low.distance_km(storm.lat_deg, storm.lon_deg) < merge_deg * KM_PER_DEGREE);
        let centre = (low.lat_deg, low.lon_deg);
        (!strong && !inside).then(|| TrackedBox {
            geo: GeoBox::around_equal_sides(low.class, centre, half_deg),
            track_id: low.track_id,
        })
    };
    lows.iter().filter_map(boxed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn storm(lat_deg: f64, lon_deg: f64) -> CycloneCandidate {
        CycloneCandidate {
            lat_deg,
            lon_deg,
            min_psl_pa: 98_000.0,
            vorticity_per_s: 2e-4,
            max_wind_m_s: 25.0,
            warm_core: true,
            thick_core: true,
            core_temperature_k: None,
            core_thickness_m: None,
            track_id: Some(5),
        }
    }

    fn low(class: BoxClass, lat_deg: f64, wind_m_s: Option<f64>) -> LowCandidate {
        LowCandidate {
            class,
            lat_deg,
            lon_deg: 2.0,
            min_psl_pa: 99_000.0,
            wind_m_s,
            track_id: Some(9),
        }
    }

    /// Whether a box is centred on this position with these half sides, degrees.
    fn is_about(geo: &GeoBox, (lat, lon): (f64, f64), (half_lat, half_lon): (f64, f64)) -> bool {
        let (centre_lat, centre_lon) = geo.centre();
        let off = [
            centre_lat - lat,
            centre_lon - lon,
            geo.north_deg - geo.south_deg - 2.0 * half_lat,
            geo.width_deg() - 2.0 * half_lon,
        ];
        off.iter().all(|off| off.abs() < 1e-9)
    }

    #[test]
    fn a_cyclone_of_the_masks_is_a_depression_while_it_is_weak_in_the_tropics() {
        let depression = TdThresholds::default();
        for (lat, wind_m_s, weak) in [
            (20.0, 16.9, true),
            (20.0, 17.0, false),
            (35.0, 16.9, true),
            (36.0, 16.9, false),
            (-35.0, 16.9, true),
            (-36.0, 16.9, false),
        ] {
            let found = cyclone(&storm(lat, 300.0), 8.0, wind_m_s, &depression);
            // A depression's box is 5.5 degrees of a great circle across in both directions.
            let (class, sides) = if weak {
                let east = 2.75 / f64::to_radians(lat).cos();
                (BoxClass::TropicalDepression, (2.75, east))
            } else {
                (BoxClass::TropicalCyclone, (8.0, 8.0))
            };
            assert_eq!((found.geo.class, found.track_id), (class, Some(5)), "{lat}");
            assert!(is_about(&found.geo, (lat, 300.0), sides), "{found:?}");
        }
    }

    #[test]
    fn lows_beside_a_cyclone_or_as_strong_as_one_have_no_box() {
        use BoxClass::{ExtratropicalCyclone as Etc, TropicalDepression as Td};
        // Different distances, so that a mix-up of the two would show.
        let extratropical = EtcThresholds {
            merge_radius_deg: 4.0,
            ..EtcThresholds::default()
        };
        let depression = TdThresholds {
            merge_radius_deg: 8.0,
            ..TdThresholds::default()
        };
        for (class, lat, wind_m_s, storm_lat, boxed) in [
            (Etc, 50.0, None, 45.9, true),
            (Etc, 50.0, None, 46.1, false),
            (Td, 20.0, Some(16.9), 11.9, true),
            (Td, 20.0, Some(16.9), 12.1, false),
            (Td, 20.0, Some(17.0), -60.0, false),
        ] {
            let found = lows(
                &[low(class, lat, wind_m_s)],
                &[storm(-70.0, 100.0), storm(storm_lat, 2.0)],
                &extratropical,
                &depression,
            );
            assert_eq!(found.len(), usize::from(boxed), "{class:?} {storm_lat}");
            for TrackedBox { geo, track_id } in found {
                assert_eq!((geo.class, track_id), (class, Some(9)));
                // 700 km are 6.2953 degrees of 111.195 km.
                let half = if class == Td {
                    2.75
                } else {
                    700.0 / 111.195_080
                };
                let east = half / f64::to_radians(lat).cos();
                let (height, width) = (geo.north_deg - geo.south_deg, geo.width_deg());
                assert!((height / (2.0 * half) - 1.0).abs() < 1e-6, "{geo:?}");
                assert!((width / (2.0 * east) - 1.0).abs() < 1e-6, "{geo:?}");
                assert!(geo.contains(lat, 2.0));
            }
        }
    }
}
