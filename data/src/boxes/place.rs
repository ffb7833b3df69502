//! Boxes around centres, and conversions between longitude conventions.

use super::{BoxClass, GeoBox};
use crate::grid::{eastern_longitude, lon_difference_deg};

impl GeoBox {
    /// The box around a centre with these half widths. It is clipped at the poles, and a box as wide as the globe
    /// becomes the full circle.
    pub fn around(class: BoxClass, (lat_deg, lon_deg): (f64, f64), half_deg: (f64, f64)) -> Self {
        let (half_lat, half_lon) = half_deg;
        let (west_deg, east_deg) = if half_lon >= 180.0 {
            (0.0, 360.0)
        } else {
            (
                eastern_longitude(lon_deg - half_lon),
                eastern_longitude(lon_deg + half_lon),
            )
        };
        Self {
            class,
            west_deg,
            south_deg: (lat_deg - half_lat).max(-90.0),
            east_deg,
            north_deg: (lat_deg + half_lat).min(90.0),
            confidence: None,
        }
    }

    /// The box around a centre with equal half widths in distance: northward and, at the centre's latitude, eastward.
    pub fn around_equal_sides(class: BoxClass, centre: (f64, f64), half_deg: f64) -> Self {
        let east_deg = half_deg / centre.0.to_radians().cos().max(0.05);
        Self::around(class, centre, (half_deg, east_deg))
    }

    /// Whether a point lies in the box or on its edge.
    pub fn contains(&self, lat_deg: f64, lon_deg: f64) -> bool {
        let from_west = eastern_longitude(lon_deg - self.west_deg);
        (self.south_deg..=self.north_deg).contains(&lat_deg) && from_west <= self.width_deg()
    }

    /// Its centre: latitude, and longitude in [0, 360).
    pub fn centre(&self) -> (f64, f64) {
        let lon = eastern_longitude(self.west_deg + self.width_deg() / 2.0);
        ((self.south_deg + self.north_deg) / 2.0, lon)
    }

    /// Its western and eastern edge in [-180, 180], as in GeoJSON and on maps; west exceeds east across the
    /// antimeridian.
    pub fn signed_longitudes_deg(&self) -> (f64, f64) {
        if self.width_deg() >= 360.0 {
            return (-180.0, 180.0);
        }
        let west = lon_difference_deg(self.west_deg, 0.0);
        let east = lon_difference_deg(self.east_deg, 0.0);
        // An edge on the antimeridian belongs to the side that the box lies on.
        (west, if east <= -180.0 { 180.0 } else { east })
    }

    /// Converts longitudes of -180 to 180 or 0 to 360 to a box's convention; others are unchanged.
    pub(super) fn turned_deg(west_deg: f64, east_deg: f64) -> (f64, f64) {
        let known = |lon: f64| (-180.0..=360.0).contains(&lon);
        if !known(west_deg) || !known(east_deg) {
            return (west_deg, east_deg);
        }
        if (east_deg - west_deg - 360.0).abs() < 1e-9 {
            return (0.0, 360.0);
        }
        let turn = |lon: f64| if lon < 0.0 { lon + 360.0 } else { lon };
        let west = if west_deg == 360.0 {
            0.0
        } else {
            turn(west_deg)
        };
        (west, turn(east_deg))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_about_centres_hold_them_and_end_at_the_poles() {
        for (lat, lon) in [(0.0, 0.0), (12.0, 359.9), (-88.0, 180.0), (45.0, 2.0)] {
            let made = GeoBox::around(BoxClass::TropicalCyclone, (lat, lon), (5.0, 7.0));
            made.check().unwrap();
            assert!(made.contains(lat, lon), "{made:?}");
            assert!((made.width_deg() - 14.0).abs() < 1e-9);
            assert!(!made.contains(lat, lon + 8.0) && !made.contains(lat, lon - 8.0));
            if lat > -80.0 {
                let (centre_lat, centre_lon) = made.centre();
                assert!((centre_lat - lat).abs() < 1e-9);
                assert!(lon_difference_deg(centre_lon, lon).abs() < 1e-9);
            }
        }
        let cap = GeoBox::around(BoxClass::ExtratropicalCyclone, (85.0, 10.0), (6.0, 200.0));
        assert_eq!((cap.north_deg, cap.width_deg()), (90.0, 360.0));
    }

    #[test]
    fn sides_of_the_same_length_are_more_degrees_of_longitude() {
        for (lat, width_deg) in [(0.0, 6.0), (60.0, 12.0), (-60.0, 12.0)] {
            let made = GeoBox::around_equal_sides(BoxClass::TropicalDepression, (lat, 1.0), 3.0);
            assert_eq!((made.south_deg, made.north_deg), (lat - 3.0, lat + 3.0));
            assert!((made.width_deg() - width_deg).abs() < 1e-9, "{made:?}");
            assert!(lon_difference_deg(made.centre().1, 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn both_conventions_of_longitude_are_one() {
        assert_eq!(GeoBox::turned_deg(-10.0, 10.0), (350.0, 10.0));
        assert_eq!(GeoBox::turned_deg(350.0, 360.0), (350.0, 360.0));
        assert_eq!(GeoBox::turned_deg(-180.0, 180.0), (0.0, 360.0));
        assert_eq!(GeoBox::turned_deg(170.0, -170.0), (170.0, 190.0));
        assert_eq!(GeoBox::turned_deg(400.0, 410.0), (400.0, 410.0));
    }
}
