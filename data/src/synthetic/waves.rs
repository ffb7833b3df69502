//! Weather noise: travelling waves of varying amplitude, shared by all fields.

use crate::{LatLonGrid, random};
use rand::Rng;
use std::f64::consts::TAU;

/// Number of waves: enough that no two days look alike.
const COUNT: usize = 48;

#[derive(Debug)]
struct Wave {
    number: usize,
    /// rad per hour.
    frequency: f64,
    phase: f64,
    /// Latitude of maximum amplitude, and width, degrees.
    centre: f64,
    width: f64,
    /// Phase per degree of latitude: tilt.
    tilt: f64,
    /// Modulation: rad per hour and phase.
    pulse: (f64, f64),
    amplitude: f64,
    /// Strength of the moisture signal.
    moist: f64,
}

/// The waves of a run, with their cosines along longitude.
#[derive(Debug)]
pub(super) struct Waves {
    waves: Vec<Wave>,
    /// cos and sin of wavenumber times longitude, per wavenumber.
    harmonics: Vec<(Vec<f32>, Vec<f32>)>,
}

/// The noise of one row, each of order 1.
#[derive(Debug, Clone)]
pub(super) struct Noise {
    pub pressure: Vec<f32>,
    pub temperature: Vec<f32>,
    pub moisture: Vec<f32>,
}

impl Waves {
    pub(super) fn draw(seed: u64, grid: &LatLonGrid) -> Self {
        let mut rng = random::stream(seed, "synthetic waves", &[]);
        let waves: Vec<Wave> = (0..COUNT)
            .map(|index| {
                let side = if rng.random::<bool>() { 1.0 } else { -1.0 };
                let small = index % 3 == 2;
                let number = if small {
                    rng.random_range(11..26)
                } else {
                    rng.random_range(2..10)
                };
                // Long waves drift slowly, short ones with the flow: 4 to 12 m/s eastward at 45 degrees.
                let speed = rng.random_range(4.0..12.0) * if number < 4 { 0.2 } else { 1.0 };
                let degrees_per_hour: f64 = speed * 3.6 / 78.8;
                Wave {
                    number,
                    frequency: number as f64 * degrees_per_hour.to_radians(),
                    phase: rng.random_range(0.0..TAU),
                    // A quarter of the waves are in the tropics, the rest in the storm tracks.
                    centre: if index % 4 == 3 {
                        rng.random_range(-14.0..18.0)
                    } else {
                        side * rng.random_range(25.0..65.0)
                    },
                    width: rng.random_range(10.0..22.0),
                    tilt: rng.random_range(-0.16..0.16),
                    pulse: (
                        TAU / rng.random_range(80.0..260.0),
                        rng.random_range(0.0..TAU),
                    ),
                    amplitude: if small { 0.18 } else { 0.5 } * rng.random_range(0.6..1.2),
                    moist: rng.random_range(0.5..1.3),
                }
            })
            .collect();
        let most = waves.iter().map(|wave| wave.number).max().unwrap_or(0);
        let harmonics = (0..=most)
            .map(|number| {
                let row = |of: fn(f64) -> f64| -> Vec<f32> {
                    let angles = grid.lon_deg().iter();
                    let angles = angles.map(|lon| number as f64 * lon.to_radians());
                    angles.map(|angle| of(angle) as f32).collect()
                };
                (row(f64::cos), row(f64::sin))
            })
            .collect();
        Self { waves, harmonics }
    }

    /// The noise of a row `hours` after the start.
    pub(super) fn row(&self, lat_deg: f64, hours: f64, columns: usize) -> Noise {
        let zero = || vec![0.0f32; columns];
        let mut noise = Noise {
            pressure: zero(),
            temperature: zero(),
            moisture: zero(),
        };
        for wave in &self.waves {
            let shape = (-((lat_deg - wave.centre) / wave.width).powi(2)).exp();
            if shape < 0.01 {
                continue;
            }
            let pulse = 0.6 + 0.4 * (wave.pulse.0 * hours + wave.pulse.1).sin();
            let amplitude = wave.amplitude * shape * pulse;
            let angle = wave.phase - wave.frequency * hours + wave.tilt * lat_deg;
            let (cos, sin) = &self.harmonics[wave.number];
            // cos(kλ + a) = cos kλ cos a − sin kλ sin a. Warm, moist air lies ahead of a trough: a quarter wave east.
            let add = |out: &mut [f32], factor: f64, angle: f64| {
                let (a, b) = ((factor * angle.cos()) as f32, (factor * angle.sin()) as f32);
                out.iter_mut()
                    .zip(cos.iter().zip(sin))
                    .for_each(|(out, (cos, sin))| *out += a * cos - b * sin);
            };
            // Short waves show in moisture and cloud, hardly in pressure.
            let deep = if wave.number > 10 { 0.35 } else { 1.0 };
            add(&mut noise.pressure, deep * amplitude, angle);
            add(&mut noise.temperature, amplitude, angle + 0.35 * TAU);
            add(
                &mut noise.moisture,
                amplitude * wave.moist,
                angle + 0.3 * TAU,
            );
        }
        noise
    }
}
