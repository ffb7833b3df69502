//! An atmospheric river: a filament of moisture along the warm sector of an extratropical cyclone, with its jet.

use super::catalogue::State;
use super::range_of;
use super::scenario::Scenario;
use crate::grid::{KM_PER_DEGREE, lon_difference_deg};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use std::f64::consts::PI;

/// Number of points of an axis.
const POINTS: usize = 36;

/// The shape of a river, relative to its cyclone.
#[derive(Debug, Clone)]
pub struct River {
    /// Column water anomaly at the axis, kg m-2.
    pub moisture: f64,
    /// Wind of the jet at the axis, m/s.
    pub jet: f64,
    /// Distance at which the anomaly falls to 1/e, km.
    pub width_km: f64,
    /// Position of its tail, degrees west and equatorward of the cyclone.
    tail: (f64, f64),
    /// Extent of its head, degrees east and equatorward of the cyclone.
    head: (f64, f64),
    /// Bend of the axis, degrees.
    bend: f64,
}

/// A river at one time: points along its axis.
#[derive(Debug)]
pub(super) struct Axis {
    points: Vec<AxisPoint>,
    /// Range of latitudes that it touches.
    pub lat: (f64, f64),
    width_km: f64,
    moisture: f64,
    jet: f64,
}

#[derive(Debug)]
struct AxisPoint {
    lat: f64,
    lon: f64,
    /// Direction, east and north.
    along: (f64, f64),
    /// Taper: 0 at the ends, 1 in between.
    taper: f64,
}

/// The effect of a river on a cell.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effect {
    /// Ratio to the axis value, 0 to 1.
    pub share: f64,
    pub moisture: f64,
    pub wind: (f64, f64),
}

impl River {
    pub(super) fn draw(rng: &mut ChaCha8Rng, hemisphere: f64, scenario: &Scenario) -> Self {
        Self {
            moisture: rng.random_range(30.0..44.0) * scenario.moisture,
            jet: rng.random_range(13.0..22.0),
            width_km: rng.random_range(205.0..285.0),
            tail: (
                rng.random_range(22.0..38.0),
                -hemisphere * rng.random_range(11.0..18.0),
            ),
            head: (
                rng.random_range(3.0..8.0),
                -hemisphere * rng.random_range(0.5..3.0),
            ),
            bend: -hemisphere * rng.random_range(1.0..4.0),
        }
    }

    /// The axis when its cyclone is in `state`; `None` if that is too young or too old.
    pub(super) fn axis(&self, state: &State) -> Option<Axis> {
        let cycle = (PI * ((state.age - 0.08) / 0.84).clamp(0.0, 1.0))
            .sin()
            .powf(0.5);
        if cycle < 0.25 {
            return None;
        }
        let stretch = 1.0 / state.lat.to_radians().cos().max(0.4) * 0.75;
        let at = |t: f64| {
            // From the tail (t = 0) to the head, bulging equatorward.
            let east = -self.tail.0 * (1.0 - t) + self.head.0 * t;
            let north = self.tail.1 * (1.0 - t).max(0.0).powf(1.25)
                + self.head.1 * t
                + self.bend * (PI * t).sin();
            (state.lat + north, state.lon + east * stretch)
        };
        let points: Vec<AxisPoint> = (0..POINTS)
            .map(|index| {
                let t = index as f64 / (POINTS - 1) as f64;
                let ((lat, lon), (lat1, lon1)) = (at(t), at(t + 0.01));
                let (east, north) = ((lon1 - lon) * lat.to_radians().cos(), lat1 - lat);
                let length = east.hypot(north).max(1e-9);
                let taper = (t / 0.16).min((1.0 - t) / 0.12).clamp(0.0, 1.0);
                AxisPoint {
                    lat,
                    lon,
                    along: (east / length, north / length),
                    taper: taper.sqrt(),
                }
            })
            .collect();
        let reach = 2.6 * self.width_km / KM_PER_DEGREE;
        let (low, high) = range_of(points.iter().map(|point| point.lat));
        Some(Axis {
            points,
            lat: (low - reach, high + reach),
            width_km: self.width_km,
            moisture: self.moisture * cycle,
            jet: self.jet * cycle,
        })
    }
}

impl Axis {
    /// The effect on a cell; `None` far away.
    pub(super) fn effect(&self, lat: f64, lon: f64) -> Option<Effect> {
        let cos = lat.to_radians().cos();
        // Finds the nearest point of the axis, then the nearest position on the line through it.
        let mut nearest = (f64::INFINITY, 0);
        for (index, point) in self.points.iter().enumerate() {
            let (dx, dy) = (lon_difference_deg(lon, point.lon) * cos, lat - point.lat);
            let square = dx * dx + dy * dy;
            if square < nearest.0 {
                nearest = (square, index);
            }
        }
        let point = &self.points[nearest.1];
        let (dx, dy) = (lon_difference_deg(lon, point.lon) * cos, lat - point.lat);
        let inside = nearest.1 > 0 && nearest.1 + 1 < self.points.len();
        let across = if inside {
            dx * point.along.1 - dy * point.along.0
        } else {
            nearest.0.sqrt()
        };
        let scaled = across * KM_PER_DEGREE / self.width_km;
        if scaled.abs() > 2.6 {
            return None;
        }
        let share = (-scaled * scaled).exp() * point.taper;
        Some(Effect {
            share,
            moisture: self.moisture * share,
            wind: (
                self.jet * share * point.along.0,
                self.jet * share * point.along.1,
            ),
        })
    }

    /// Column water anomaly at the axis.
    pub(super) fn peak_moisture(&self) -> f64 {
        self.moisture
    }
}
