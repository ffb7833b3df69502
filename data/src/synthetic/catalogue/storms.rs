//! Storms: their properties, and their state at any time of their life.

use crate::grid::{KM_PER_DEGREE, eastern_longitude};
use crate::synthetic::river::River;
use std::f64::consts::PI;

/// Hours between points of a track.
pub(super) const TRACK_HOURS: f64 = 3.0;

/// A tropical cyclone from genesis to decay.
#[derive(Debug, Clone)]
pub struct TropicalCyclone {
    /// Its id in the run, from 1.
    pub id: u64,
    /// The basin of its genesis.
    pub basin: &'static str,
    /// Time of genesis, in hours after the start of the run.
    pub birth_hours: f64,
    /// Latitude and longitude, every three hours.
    pub track: Vec<(f64, f64)>,
    /// Central pressure deficit at every point, Pa.
    pub deficit_pa: Vec<f64>,
    /// Radius of maximum wind, km.
    pub rmw_km: f64,
    /// Radius of influence, km.
    pub outer_km: f64,
    /// Peakedness of the pressure profile (Holland's B).
    pub holland_b: f64,
}

/// An extratropical cyclone, with its atmospheric river if it has one.
#[derive(Debug, Clone)]
pub struct ExtratropicalCyclone {
    /// Its id in the run, following those of the tropical ones.
    pub id: u64,
    /// Time of genesis, in hours after the start of the run.
    pub birth_hours: f64,
    /// Lifetime in hours.
    pub life_hours: f64,
    /// Position at genesis, degrees.
    pub origin: (f64, f64),
    /// Eastward and poleward speed, degrees of latitude per hour.
    pub speed: (f64, f64),
    /// Maximum pressure deficit, Pa.
    pub deficit_pa: f64,
    /// Radius, km.
    pub radius_km: f64,
    /// The moisture filament along its warm sector.
    pub river: Option<River>,
}

/// The state of a storm at one time.
#[derive(Debug, Clone, Copy)]
pub struct State {
    /// Latitude of the centre, degrees.
    pub lat: f64,
    /// Longitude of the centre, [0, 360).
    pub lon: f64,
    /// Pressure deficit, Pa.
    pub deficit_pa: f64,
    /// Motion, m/s eastward and northward.
    pub motion: (f64, f64),
    /// Completed share of its life.
    pub age: f64,
}

impl TropicalCyclone {
    /// Lifetime in hours.
    pub fn life_hours(&self) -> f64 {
        (self.track.len() - 1) as f64 * TRACK_HOURS
    }

    /// Its state some hours after the start of the run, if it is alive.
    pub fn at(&self, hours: f64) -> Option<State> {
        let position = lived(self.birth_hours, self.life_hours(), hours)? / TRACK_HOURS;
        let before = (position.floor() as usize).min(self.track.len() - 2);
        let part = position - before as f64;
        let ((lat0, lon0), (lat1, lon1)) = (self.track[before], self.track[before + 1]);
        let east = crate::grid::lon_difference_deg(lon1, lon0);
        let metres = KM_PER_DEGREE * 1000.0 / (TRACK_HOURS * 3600.0);
        Some(State {
            lat: lat0 + part * (lat1 - lat0),
            lon: eastern_longitude(lon0 + part * east),
            deficit_pa: self.deficit_pa[before] * (1.0 - part) + self.deficit_pa[before + 1] * part,
            motion: (
                east * lat0.to_radians().cos() * metres,
                (lat1 - lat0) * metres,
            ),
            age: position / (self.track.len() - 1) as f64,
        })
    }
}

impl ExtratropicalCyclone {
    /// Its state some hours after the start of the run, if it is alive.
    pub fn at(&self, hours: f64) -> Option<State> {
        let lived = lived(self.birth_hours, self.life_hours, hours)?;
        let age = lived / self.life_hours;
        let (lat0, lon0) = self.origin;
        // Poleward drift slows as it matures.
        let lat = lat0 + lat0.signum() * self.speed.1 * lived * (1.0 - 0.4 * age);
        let lon = lon0 + self.speed.0 * lived / lat0.to_radians().cos();
        let metres = KM_PER_DEGREE * 1000.0 / 3600.0;
        Some(State {
            lat,
            lon: eastern_longitude(lon),
            deficit_pa: self.deficit_pa * (PI * age.powf(0.8)).sin().max(0.0).powf(0.8),
            motion: (self.speed.0 * metres, lat0.signum() * self.speed.1 * metres),
            age,
        })
    }
}

/// Age of a storm in hours at a time of the run; `None` when it is not alive.
///
/// The end of a life is the rounded sum of birth and lifetime, so a time less than a second later counts as the end.
fn lived(birth_hours: f64, life_hours: f64, hours: f64) -> Option<f64> {
    let lived = hours - birth_hours;
    (0.0..=life_hours + 1e-4)
        .contains(&lived)
        .then(|| lived.min(life_hours))
}
