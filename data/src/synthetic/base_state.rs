//! Zonal-mean climate with its season, and the terrain below it.

use crate::grid::lon_difference_deg;
use crate::{LatLonGrid, Time};
use ndarray::Array2;
use std::f64::consts::TAU;

/// The part of the climate that depends only on latitude and date.
#[derive(Debug, Clone, Copy)]
pub(super) struct Zonal {
    /// Near-surface temperature at sea level, K.
    pub surface_k: f64,
    /// At 500 hPa, K.
    pub t500_k: f64,
    /// At 200 hPa, K.
    pub t200_k: f64,
    /// Sea-level pressure, Pa.
    pub psl_pa: f64,
    /// Column water, kg m-2.
    pub tmq: f64,
    /// Rain rate, m s-1.
    pub rain: f64,
    /// Near-surface westerly wind in the tropics, where geostrophic balance does not apply, m s-1.
    pub trades: f64,
}

/// Phase of the year: +1 in northern midsummer, -1 in southern.
pub(super) fn season(time: Time) -> f64 {
    (TAU * (time.day_of_year() - 197.0) / time.calendar().mean_year_days()).cos()
}

/// The climate of a latitude.
pub(super) fn zonal(lat_deg: f64, season: f64, warming_k: f64, moisture: f64) -> Zonal {
    let bump = |centre: f64, width: f64| (-((lat_deg - centre) / width).powi(2)).exp();
    // The belts follow the sun; aloft the shift is smaller.
    let heat = |shift: f64| {
        ((lat_deg - shift * season) * 0.93)
            .to_radians()
            .sin()
            .powi(2)
    };
    let convergence = 2.5 + 7.5 * season;
    let (north, south) = (bump(62.0, 14.0), bump(-62.0, 13.0));
    let subtropics = bump(31.0 + 3.0 * season, 12.0) + bump(-31.0 + 3.0 * season, 12.0);
    let winter = |hemisphere: f64| 1.0 - 0.35 * season * hemisphere;
    Zonal {
        surface_k: 300.5 - 47.0 * heat(9.0) + warming_k,
        t500_k: 268.5 - 29.0 * heat(6.0) + 1.2 * warming_k,
        t200_k: 220.5 - 5.0 * bump(50.0, 20.0) - 5.0 * bump(-50.0, 20.0) + warming_k,
        psl_pa: 101_000.0 + 950.0 * subtropics
            - 1300.0 * north * winter(1.0)
            - 2500.0 * south * winter(-1.0)
            - 150.0 * bump(convergence, 10.0),
        tmq: moisture * (36.0 * bump(convergence, 15.0) + 11.0 * bump(0.0, 48.0) + 2.0),
        rain: moisture
            * (7e-8 * bump(convergence, 7.0)
                + 1.5e-8 * (bump(45.0, 15.0) + bump(-45.0, 15.0))
                + 2e-9),
        trades: -6.5 * (bump(convergence + 13.0, 9.0) + bump(convergence - 13.0, 9.0)),
    }
}

/// Height above sea level and land fraction: smooth sketches of the real continents.
#[derive(Debug)]
pub(super) struct Terrain {
    /// Height above sea level, m.
    pub height: Array2<f32>,
    /// Land fraction: 0 at sea, 1 on land.
    pub land: Array2<f32>,
}

/// Mountains: latitude, longitude, half widths in degrees, height in m.
const MOUNTAINS: [(f64, f64, f64, f64, f64); 7] = [
    (33.0, 88.0, 6.5, 14.0, 4600.0),   // Tibet
    (42.0, 250.0, 11.0, 7.0, 1900.0),  // Rockies
    (-20.0, 291.0, 18.0, 3.0, 3000.0), // Andes
    (-84.0, 70.0, 12.0, 90.0, 2900.0), // Antarctica
    (73.0, 320.0, 7.0, 12.0, 2400.0),  // Greenland
    (5.0, 37.0, 10.0, 5.0, 1300.0),    // East Africa
    (60.0, 115.0, 8.0, 15.0, 700.0),   // Siberia
];

/// Continents: latitude, longitude, half widths in degrees.
const CONTINENTS: [(f64, f64, f64, f64); 9] = [
    (52.0, 80.0, 22.0, 55.0),
    (12.0, 20.0, 22.0, 22.0),
    (-18.0, 25.0, 16.0, 11.0),
    (48.0, 260.0, 20.0, 25.0),
    (-12.0, 300.0, 22.0, 14.0),
    (-25.0, 134.0, 11.0, 17.0),
    (-84.0, 70.0, 15.0, 180.0),
    (74.0, 320.0, 9.0, 14.0),
    (22.0, 78.0, 10.0, 7.0),
];

impl Terrain {
    pub(super) fn new(grid: &LatLonGrid) -> Self {
        let (lat, lon) = (grid.lat_deg(), grid.lon_deg());
        let at = |f: &dyn Fn(f64, f64) -> f64| {
            Array2::from_shape_fn(grid.shape(), |(j, i)| f(lat[j], lon[i]) as f32)
        };
        Self {
            height: at(&height),
            land: at(&land),
        }
    }
}

fn height(lat: f64, lon: f64) -> f64 {
    let one = |&(lat0, lon0, dlat, dlon, height): &(f64, f64, f64, f64, f64)| {
        height
            * (-((lat - lat0) / dlat).powi(2) - (lon_difference_deg(lon, lon0) / dlon).powi(2))
                .exp()
    };
    let sum: f64 = MOUNTAINS.iter().map(one).sum();
    if sum < 30.0 { 0.0 } else { sum }
}

/// Land fraction at a point: 1 well inside a continent, 0 well outside.
pub(super) fn land(lat: f64, lon: f64) -> f64 {
    let one = |&(lat0, lon0, dlat, dlon): &(f64, f64, f64, f64)| {
        ((lat - lat0) / dlat).powi(2) + (lon_difference_deg(lon, lon0) / dlon).powi(2)
    };
    // The fraction falls with distance, so the nearest continent has the largest.
    let nearest = CONTINENTS.iter().map(one).fold(f64::INFINITY, f64::min);
    1.0 / (1.0 + (8.0 * (nearest - 1.0)).exp())
}
