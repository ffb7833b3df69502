//! A warm-core vortex in gradient-wind balance.
//!
//! Letters: r distance from the centre, V tangential wind, f Coriolis parameter, ρ density.
//!
//! # Source
//! Holland 1980 (MWR 108, 1212): p(r) = p_c + Δp exp(−(R/r)^B), here multiplied by a window that limits its radius.

use super::catalogue::{State, TropicalCyclone};

/// Near-surface air density in the tropics, kg m-3.
const DENSITY: f64 = 1.15;
/// The Earth's rotation, rad/s.
pub(super) const ROTATION: f64 = 7.292e-5;

/// A tropical cyclone at one time, on one grid.
#[derive(Debug)]
pub(super) struct Vortex {
    pub state: State,
    rmw_km: f64,
    outer_km: f64,
    b: f64,
    coriolis: f64,
}

impl Vortex {
    /// The vortex of a storm, widened if the grid cannot resolve it. If its maximum wind would then lie outside of its
    /// radius of influence, it has none there and is not in the truth.
    pub(super) fn new(storm: &TropicalCyclone, state: State, spacing_km: f64) -> Self {
        Self {
            rmw_km: storm.rmw_km.max(1.15 * spacing_km),
            outer_km: storm.outer_km,
            b: storm.holland_b,
            coriolis: 2.0 * ROTATION * state.lat.to_radians().sin(),
            state,
        }
    }

    /// 1 in the core, 0 beyond the outer radius.
    fn window(&self, r_km: f64) -> f64 {
        let x = r_km / self.outer_km;
        if x >= 1.0 { 0.0 } else { (1.0 - x * x).powi(2) }
    }

    /// Pressure below the surroundings, Pa.
    pub(super) fn deficit(&self, r_km: f64) -> f64 {
        let r = r_km.max(0.05 * self.rmw_km);
        self.state.deficit_pa * (1.0 - (-(self.rmw_km / r).powf(self.b)).exp()) * self.window(r)
    }

    /// Tangential wind above the boundary layer, m/s: V²/r + |f| V = (1/ρ) dp/dr.
    pub(super) fn wind(&self, r_km: f64) -> f64 {
        let step = 0.01 * self.rmw_km;
        let r = r_km.max(2.0 * step);
        let slope = (self.deficit(r - step) - self.deficit(r + step)) / (2000.0 * step);
        let (r, half) = (1000.0 * r, 0.5 * self.coriolis.abs() * 1000.0 * r);
        -half + (half * half + r * slope.max(0.0) / DENSITY).sqrt()
    }

    /// Radius, outside the radius of maximum wind, at which the wind falls below a speed, km; 0 if it never reaches it.
    pub(super) fn radius_of_wind_km(&self, speed_m_s: f64) -> f64 {
        let above = |r_km: &f64| self.wind(*r_km) >= speed_m_s;
        let steps = (0..).map(|k| self.rmw_km + 5.0 * f64::from(k));
        let outward = steps.take_while(|r_km| *r_km <= self.outer_km);
        outward.take_while(above).last().unwrap_or(0.0)
    }

    /// Radius of maximum wind on this grid, km.
    pub(super) fn rmw_km(&self) -> f64 {
        self.rmw_km
    }

    /// Radius of influence, km.
    pub(super) fn outer_km(&self) -> f64 {
        self.outer_km
    }

    /// Warm core at 500 and 200 hPa, K: 0.9 and 1.5 K per 10 hPa of deficit, at least twice as wide as the eyewall.
    pub(super) fn warm_core(&self, r_km: f64) -> (f64, f64) {
        let width = (2.2 * self.rmw_km).max(180.0);
        let warm = self.state.deficit_pa / 1000.0 * (-(r_km / width).powi(2)).exp();
        (0.9 * warm, 1.5 * warm)
    }

    /// Column water anomaly, kg m-2.
    pub(super) fn moisture(&self, r_km: f64) -> f64 {
        let strength = (self.state.deficit_pa / 2500.0).min(1.2);
        17.0 * strength * (-(r_km / 330.0).powi(2)).exp()
    }

    /// Rain rate, m/s: eyewall plus shield.
    pub(super) fn rain(&self, r_km: f64) -> f64 {
        let wall = (-((r_km - self.rmw_km) / (0.9 * self.rmw_km)).powi(2)).exp();
        let shield = (-(r_km / 300.0).powi(2)).exp();
        self.state.deficit_pa / 3000.0 * (1.6e-6 * wall + 0.7e-6 * shield)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(lat: f64) -> State {
        State {
            lat,
            lon: 150.0,
            deficit_pa: 4000.0,
            motion: (0.0, 0.0),
            age: 0.5,
        }
    }

    fn storm(lat: f64) -> TropicalCyclone {
        TropicalCyclone {
            id: 1,
            basin: "WP",
            birth_hours: 0.0,
            track: vec![(lat, 150.0); 2],
            deficit_pa: vec![4000.0; 2],
            rmw_km: 45.0,
            outer_km: 900.0,
            holland_b: 1.5,
        }
    }

    fn vortex(lat: f64) -> Vortex {
        Vortex::new(&storm(lat), state(lat), 28.0)
    }

    #[test]
    fn wind_balances_pressure() {
        for lat in [-20.0, 15.0] {
            let vortex = vortex(lat);
            for r in [20.0, 45.0, 120.0, 400.0] {
                let v = vortex.wind(r);
                let slope = (vortex.deficit(r - 0.1) - vortex.deficit(r + 0.1)) / 200.0;
                let f = 2.0 * ROTATION * lat.to_radians().sin().abs();
                let balance = v * v / (1000.0 * r) + f * v;
                assert!(
                    (balance - slope / DENSITY).abs() < 0.02 * balance,
                    "r {r}: {balance} {}",
                    slope / DENSITY
                );
            }
        }
    }

    /// The help of `squall simulate --grid` says so: 32 latitudes are 5.8 degrees apart, 20 are 9.5.
    #[test]
    fn a_very_coarse_grid_has_no_strong_wind() {
        let storm = storm(15.0);
        let wind = |rows: u32| {
            let spacing_km = crate::grid::KM_PER_DEGREE * 180.0 / f64::from(rows - 1);
            let vortex = Vortex::new(&storm, state(15.0), spacing_km);
            vortex.wind(vortex.rmw_km())
        };
        assert!(wind(32) > 25.0, "{}", wind(32));
        assert!(wind(20) < 10.0, "{}", wind(20));
    }

    #[test]
    fn strongest_at_the_radius_of_maximum_wind_and_gone_outside() {
        let vortex = vortex(15.0);
        let strongest = (1..900).max_by(|a, b| {
            vortex
                .wind(f64::from(*a))
                .total_cmp(&vortex.wind(f64::from(*b)))
        });
        assert!((40..52).contains(&strongest.unwrap()), "{strongest:?}");
        assert!(
            (35.0..55.0).contains(&vortex.wind(45.0)),
            "{}",
            vortex.wind(45.0)
        );
        assert_eq!(vortex.deficit(901.0), 0.0);
        assert!(vortex.wind(905.0) < 1e-9);
    }
}
