//! The gale radius of a cyclone.

use ndarray::ArrayView2;
use squall_data::LatLonGrid;
use squall_data::grid::{EARTH_RADIUS_KM, KM_PER_DEGREE, lon_difference_deg};

/// Gale-force wind, m/s: 34 knots.
pub const GALE_M_S: f64 = 17.5;
/// Maximum search distance, km; the largest radius on record is 1,100.
const SEARCH_KM: f64 = 1500.0;
/// Minimum width of a ring, km.
const NARROWEST_RING_KM: f64 = 25.0;

/// Returns the distance from a centre, outside the wind maximum, at which the mean wind speed on a ring falls below
/// [`GALE_M_S`], km. `None` if the ring mean never reaches gale force, or still does at the maximum search distance.
///
/// Rings are as wide as the grid's cells, but at least 25 km; the distance is interpolated between ring middles. This
/// is the mean over all directions, whereas best tracks report the largest of four quadrants.
///
/// # Shapes
/// u and v of the wind near the ground, m/s, `(lat, lon)`.
/// # Source
/// Like TECA's `teca_tc_wind_radii` with the profile `avg`, but by distance on the sphere instead of degrees.
pub fn gale_radius_km(
    grid: &LatLonGrid,
    [u, v]: [ArrayView2<'_, f32>; 2],
    (lat_deg, lon_deg): (f64, f64),
) -> Option<f64> {
    let width_km = grid.spacing_km().max(NARROWEST_RING_KM);
    let mut rings = vec![(0.0f64, 0u32); (SEARCH_KM / width_km).ceil() as usize];
    // For each column in reach, the cosine of its longitude difference.
    let (sin, cos) = lat_deg.to_radians().sin_cos();
    let half_deg = half_width_deg(lat_deg);
    let columns: Vec<(usize, f64)> = (grid.lon_deg().iter().enumerate())
        .map(|(i, lon)| (i, lon_difference_deg(*lon, lon_deg)))
        .filter(|(_, east)| east.abs() <= half_deg)
        .map(|(i, east)| (i, east.to_radians().cos()))
        .collect();
    let near = |lat: f64| (lat - lat_deg).abs() * KM_PER_DEGREE <= SEARCH_KM;
    let rows = grid.lat_deg().iter().enumerate();
    for (j, lat) in rows.filter(|(_, lat)| near(**lat)) {
        let (row_sin, row_cos) = lat.to_radians().sin_cos();
        for &(i, east) in &columns {
            let angle = (sin * row_sin + cos * row_cos * east).min(1.0).acos();
            let (u, v) = (f64::from(u[[j, i]]), f64::from(v[[j, i]]));
            let speed = (u * u + v * v).sqrt();
            if let Some(ring) = rings.get_mut((EARTH_RADIUS_KM * angle / width_km) as usize)
                && speed.is_finite()
            {
                *ring = (ring.0 + speed, ring.1 + 1);
            }
        }
    }
    let known = rings.iter().enumerate().filter(|(_, ring)| ring.1 > 0);
    let profile: Vec<(f64, f64)> = known
        .map(|(k, (sum, cells))| ((k as f64 + 0.5) * width_km, sum / f64::from(*cells)))
        .collect();
    let peak = (0..profile.len()).reduce(|a, b| if profile[b].1 > profile[a].1 { b } else { a })?;
    let outward = profile[peak..].windows(2);
    outward.into_iter().find_map(|pair| match pair {
        [(near, gale), (far, calm)] if *gale >= GALE_M_S && *calm < GALE_M_S => {
            Some(near + (gale - GALE_M_S) / (gale - calm) * (far - near))
        }
        _ => None,
    })
}

/// Maximum longitude difference within the search distance of a point at some latitude, degrees; 180 near a pole.
fn half_width_deg(lat_deg: f64) -> f64 {
    let angle = SEARCH_KM / EARTH_RADIUS_KM;
    let ratio = angle.sin() / lat_deg.to_radians().cos().max(1e-9);
    if ratio < 1.0 && lat_deg.abs() + angle.to_degrees() < 90.0 {
        ratio.asin().to_degrees()
    } else {
        180.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::Array2;
    use squall_data::grid::distance_km;

    /// A vortex whose speed decreases outside its eyewall.
    fn wind(
        grid: &LatLonGrid,
        centre: (f64, f64),
        strongest: f64,
        reach_km: f64,
    ) -> [Array2<f32>; 2] {
        let speed = |(j, i): (usize, usize)| {
            let km = distance_km(centre.0, centre.1, grid.lat_deg()[j], grid.lon_deg()[i]);
            match km {
                km if km < 50.0 => strongest * km / 50.0,
                km => strongest * (1.0 - (km - 50.0) / reach_km).max(0.1),
            }
        };
        let u = Array2::from_shape_fn(grid.shape(), |cell| 0.6 * speed(cell) as f32);
        let v = Array2::from_shape_fn(grid.shape(), |cell| -0.8 * speed(cell) as f32);
        [u, v]
    }

    #[test]
    fn gales_reach_as_far_as_they_blow() {
        let grid = LatLonGrid::global(721, 1440).unwrap();
        // 35 m/s falls to half of that at half of the reach. Also across the seam, and far north, where degrees are
        // short.
        for centre in [(15.0, 200.0), (-20.0, 0.1), (60.0, 359.9)] {
            let [u, v] = wind(&grid, centre, 35.0, 600.0);
            let found = gale_radius_km(&grid, [u.view(), v.view()], centre).unwrap();
            assert!((found - 350.0).abs() < 6.0, "{centre:?}: {found}");
        }
        let centre = (15.0, 200.0);
        let [u, v] = wind(&grid, centre, 17.0, 600.0);
        assert_eq!(gale_radius_km(&grid, [u.view(), v.view()], centre), None);
        // A wind without a decrease has no gale radius.
        let everywhere = Array2::from_elem(grid.shape(), 20f32);
        assert_eq!(
            gale_radius_km(&grid, [everywhere.view(), everywhere.view()], centre),
            None
        );
    }

    #[test]
    fn missing_winds_do_not_count() {
        let grid = LatLonGrid::global(361, 720).unwrap();
        let centre = (15.0, 200.0);
        let [mut u, v] = wind(&grid, centre, 35.0, 600.0);
        let whole = gale_radius_km(&grid, [u.view(), v.view()], centre).unwrap();
        let east = grid.nearest(15.0, 200.0).1;
        for ((_, i), value) in u.indexed_iter_mut() {
            if i >= east {
                *value = f32::NAN;
            }
        }
        let half = gale_radius_km(&grid, [u.view(), v.view()], centre).unwrap();
        assert!((whole - half).abs() < 10.0, "{whole} {half}");
        u.fill(f32::NAN);
        assert_eq!(gale_radius_km(&grid, [u.view(), v.view()], centre), None);
    }
}
