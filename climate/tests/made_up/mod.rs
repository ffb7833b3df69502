//! Smooth synthetic weather for the report's example and tests: no physics, but realistic positions, sizes and
//! lifetimes.

#![allow(dead_code)] // each test file uses its part

use ndarray::Array2;
use squall_climate::report::SourceKind;
use squall_climate::track::{Fate, Origin};
use squall_climate::{Event, Track};
use squall_data::grid::{distance_km, lon_difference_deg};
use squall_data::{Calendar, Class, LatLonGrid, Time};
use std::sync::Arc;

/// A pseudo-random generator of numbers in [0, 1) (SplitMix64).
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) as f64 / u64::MAX as f64
    }

    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.roll()
    }
}

/// One storm or river from genesis to lysis.
struct Storm {
    id: u64,
    class: Class,
    start_h: f64,
    life_h: f64,
    lat: f64,
    lon: f64,
    strength: f64,
    size_km: f64,
    bend: f64,
}

impl Storm {
    /// Latitude, longitude, and strength from 0 to 1 at an hour; `None` outside its lifetime.
    fn at(&self, hour: f64) -> Option<(f64, f64, f64)> {
        let age = (hour - self.start_h) / self.life_h;
        if !(0.0..=1.0).contains(&age) {
            return None;
        }
        let side = self.lat.signum();
        let (lat, lon) = if self.class == Class::TropicalCyclone {
            let days = age * self.life_h / 24.0;
            let turn = 1.0 / (1.0 + (-(days - 6.0) * 0.9).exp());
            (
                self.lat + side * (1.3 * days + 1.6 * turn * days),
                self.lon - 3.6 * days * (1.0 - turn) + 3.0 * (days - 5.0).max(0.0) * turn * 1.6,
            )
        } else {
            let days = age * self.life_h / 24.0;
            (self.lat + side * 2.0 * days, self.lon + 9.0 * days)
        };
        let bell = (std::f64::consts::PI * age).sin().powf(0.7);
        Some((lat, lon.rem_euclid(360.0), bell * self.strength))
    }
}

/// A synthetic world.
pub struct World {
    pub grid: Arc<LatLonGrid>,
    pub start: Time,
    pub times: usize,
    storms: Vec<Storm>,
}

/// The fields of one time.
pub struct Weather {
    pub time: Time,
    pub tmq: Array2<f32>,
    pub psl: Array2<f32>,
    pub u: Array2<f32>,
    pub v: Array2<f32>,
    pub truth: Array2<u8>,
}

impl World {
    /// Three-hourly weather from 5 August 1995 in the noleap calendar.
    pub fn new(rows: usize, columns: usize, times: usize) -> Self {
        let grid = Arc::new(LatLonGrid::global(rows, columns).unwrap());
        let start = Time::new(Calendar::NoLeap, 1995, 8, 5, 0, 0, 0).unwrap();
        let hours = 3.0 * times as f64;
        let mut dice = Dice(7);
        let mut storms = Vec::new();
        // Latitude, western and eastern bound of the regions of cyclone genesis, and number per 30 days.
        let births = [
            (14.0, 125.0, 165.0, 6.0),
            (12.5, 240.0, 262.0, 5.0),
            (14.0, 300.0, 340.0, 4.0),
            (13.0, 62.0, 92.0, 1.0),
            (-12.0, 60.0, 95.0, 1.0),
        ];
        for (lat, west, east, rate) in births {
            let count = (rate * hours / 720.0).ceil() as usize;
            for _ in 0..count {
                storms.push(Storm {
                    id: 0,
                    class: Class::TropicalCyclone,
                    start_h: dice.between(-120.0, hours - 12.0),
                    life_h: dice.between(60.0, 300.0),
                    lat: lat + dice.between(-3.0, 4.0),
                    lon: dice.between(west, east),
                    strength: 18.0 + 50.0 * dice.roll().powf(1.4),
                    size_km: dice.between(260.0, 480.0),
                    bend: 0.0,
                });
            }
        }
        let rivers = (60.0 * hours / 720.0).ceil() as usize + 6;
        for k in 0..rivers {
            let side = if k % 2 == 0 { 1.0 } else { -1.0 };
            storms.push(Storm {
                id: 0,
                class: Class::AtmosphericRiver,
                start_h: dice.between(-72.0, hours - 6.0),
                life_h: dice.between(30.0, 140.0),
                lat: side * dice.between(27.0, 42.0),
                lon: dice.between(0.0, 360.0),
                strength: dice.between(0.6, 1.0),
                size_km: dice.between(2000.0, 5200.0),
                bend: dice.between(-0.9e-4, 1.2e-4),
            });
        }
        storms.sort_by(|a, b| a.start_h.total_cmp(&b.start_h));
        (1..).zip(&mut storms).for_each(|(id, s)| s.id = id);
        Self {
            grid,
            start,
            times,
            storms,
        }
    }

    pub fn time(&self, index: usize) -> Time {
        self.start.add_seconds(3 * 3600 * index as i64)
    }

    pub fn weather(&self, index: usize) -> Weather {
        let hour = 3.0 * index as f64;
        let shape = self.grid.shape();
        let mut out = Weather {
            time: self.time(index),
            tmq: Array2::zeros(shape),
            psl: Array2::zeros(shape),
            u: Array2::zeros(shape),
            v: Array2::zeros(shape),
            truth: Array2::zeros(shape),
        };
        let storms: Vec<_> = self
            .storms
            .iter()
            .filter_map(|s| Some((s, s.at(hour)?)))
            .collect();
        for (j, &lat) in self.grid.lat_deg().iter().enumerate() {
            let near: Vec<_> = storms
                .iter()
                .filter(|(_, (y, ..))| (y - lat).abs() < 32.0)
                .collect();
            for (i, &lon) in self.grid.lon_deg().iter().enumerate() {
                let cell = cell(lat, lon, hour, &near);
                out.tmq[[j, i]] = cell.0 as f32;
                out.psl[[j, i]] = cell.1 as f32;
                out.u[[j, i]] = cell.2 as f32;
                out.v[[j, i]] = cell.3 as f32;
                out.truth[[j, i]] = cell.4;
            }
        }
        out
    }

    /// The mask of a source other than the truth: shifted and thresholded slightly differently.
    pub fn seen_by(&self, truth: &Array2<u8>, kind: SourceKind) -> Array2<u8> {
        let (rows, columns) = truth.dim();
        let reach: isize = match kind {
            SourceKind::Truth => return truth.clone(),
            SourceKind::Heuristic => 0,
            SourceKind::Network | SourceKind::Other(_) => 1,
        };
        Array2::from_shape_fn((rows, columns), |(j, i)| {
            let at = |dj: isize, di: isize| {
                let row = (j as isize + dj).clamp(0, rows as isize - 1) as usize;
                truth[[row, (i as isize + di).rem_euclid(columns as isize) as usize]]
            };
            if reach == 0 {
                // Eroded on one side.
                if at(1, 1) == at(0, 0) { at(0, 0) } else { 0 }
            } else {
                at(0, 0).max(at(0, -1)).max(at(-1, 0))
            }
        })
    }

    /// Events and tracks of a source; every source except the truth misses some.
    pub fn found_by(&self, kind: SourceKind) -> (Vec<Event>, Vec<Track>) {
        let number = match kind {
            SourceKind::Heuristic => 0,
            SourceKind::Other(number) => 1 + 4 * number as u64,
            SourceKind::Network => 2,
            SourceKind::Truth => 3,
        };
        let mut dice = Dice(number + 11);
        let mut events = Vec::new();
        let mut tracks = Vec::new();
        for storm in &self.storms {
            let missed = kind != SourceKind::Truth && dice.roll() < 0.12;
            let own: Vec<Event> = (0..self.times)
                .filter_map(|k| self.event(storm, k))
                .collect();
            if missed || own.len() < self.times.min(4) {
                continue;
            }
            if self.times > 1 {
                tracks.push(track(storm, &own, self.time(self.times - 1), self.start));
            }
            events.extend(own);
        }
        (events, tracks)
    }

    fn event(&self, storm: &Storm, index: usize) -> Option<Event> {
        let (lat, lon, strength) = storm.at(3.0 * index as f64)?;
        let cyclone = storm.class == Class::TropicalCyclone;
        let length = storm.size_km * if cyclone { 1.6 } else { 1.0 };
        let width = if cyclone {
            length
        } else {
            420.0 * strength + 160.0
        };
        Some(Event {
            class: storm.class,
            time: self.time(index),
            track_id: (self.times > 1).then_some(storm.id),
            lon_deg: lon,
            lat_deg: lat,
            area_km2: 0.78 * length * width,
            west_deg: (lon - 3.0).rem_euclid(360.0),
            south_deg: lat - 3.0,
            east_deg: (lon + 3.0).rem_euclid(360.0),
            north_deg: lat + 3.0,
            length_km: length,
            width_km: width,
            orientation_deg: 30.0,
            min_psl_pa: cyclone.then_some(101_000.0 - 130.0 * strength),
            max_wind_m_s: cyclone.then_some(strength),
            max_tmq_kg_m2: Some(if cyclone {
                62.0
            } else {
                25.0 + 25.0 * strength
            }),
            mean_prect_m_s: None,
            mean_probability: None,
            details: Default::default(),
        })
    }
}

fn track(storm: &Storm, events: &[Event], end: Time, start: Time) -> Track {
    let best = |f: fn(&Event) -> Option<f64>| events.iter().filter_map(f).reduce(f64::max);
    let (first, last) = (&events[0], &events[events.len() - 1]);
    Track {
        track_id: storm.id,
        class: storm.class,
        start: first.time,
        end: last.time,
        points: events.len(),
        origin: if first.time == start {
            Origin::StartOfData
        } else {
            Origin::Genesis
        },
        fate: if last.time == end {
            Fate::EndOfData
        } else {
            Fate::Lysis
        },
        related_track: None,
        genesis_lon_deg: first.lon_deg,
        genesis_lat_deg: first.lat_deg,
        end_lon_deg: last.lon_deg,
        end_lat_deg: last.lat_deg,
        distance_km: events
            .windows(2)
            .map(|w| distance_km(w[0].lat_deg, w[0].lon_deg, w[1].lat_deg, w[1].lon_deg))
            .sum(),
        max_area_km2: best(|e| Some(e.area_km2)).unwrap_or(0.0),
        mean_area_km2: events.iter().map(|e| e.area_km2).sum::<f64>() / events.len() as f64,
        min_psl_pa: events.iter().filter_map(|e| e.min_psl_pa).reduce(f64::min),
        max_wind_m_s: best(|e| e.max_wind_m_s),
        max_tmq_kg_m2: best(|e| e.max_tmq_kg_m2),
        details: Default::default(),
    }
}

/// Precipitable water, sea-level pressure, wind and class of one cell.
fn cell(
    lat: f64,
    lon: f64,
    hour: f64,
    near: &[&(&Storm, (f64, f64, f64))],
) -> (f64, f64, f64, f64, u8) {
    let (phi, lam) = (lat.to_radians(), lon.to_radians());
    let wave = |n: f64, speed: f64, shift: f64| (n * lam - hour * speed + shift).sin();
    let tropics = (-((lat - 6.0 - 3.0 * wave(2.0, 0.004, 1.0)) / 19.0).powi(2)).exp();
    let dry = 1.0 - 0.22 * wave(3.0, 0.006, lat / 17.0).max(0.0);
    let mut tmq = 5.0 + 43.0 * tropics * dry + 7.0 * (2.0 * phi).cos().max(0.0);
    tmq += 2.5 * wave(7.0, 0.03, phi * 6.0) * phi.cos()
        + 1.6 * wave(13.0, 0.05, phi * 11.0) * phi.cos();
    let storm_belt = ((2.0 * phi).sin()).powi(2);
    let mut psl =
        101_300.0 - 900.0 * (4.0 * phi).cos() - 700.0 * (-((lat + 62.0) / 9.0).powi(2)).exp();
    psl += 1200.0 * storm_belt * wave(5.0, 0.028, phi * 2.0)
        + 500.0 * storm_belt * wave(8.0, 0.05, -phi * 5.0);
    let mut u = 12.0 * storm_belt - 6.0 * (3.0 * phi).cos().max(0.0);
    let mut v = 5.0 * storm_belt * wave(5.0, 0.028, phi * 2.0 + 1.6);
    let mut class = 0;
    for (storm, (y, x, strength)) in near {
        let (dx, dy) = (
            lon_difference_deg(lon, *x) * phi.cos() * 111.2,
            (lat - y) * 111.2,
        );
        let side = y.signum();
        if storm.class == Class::TropicalCyclone {
            let r = dx.hypot(dy);
            let core = storm.size_km * 0.35;
            if r < 6.0 * core {
                let spin = side * strength * (r / core) * (1.0 - r / core).exp();
                u += -spin * dy / r.max(1.0);
                v += spin * dx / r.max(1.0);
                psl -= 130.0 * strength * (-(r / (1.5 * core)).powi(2)).exp();
                tmq += 0.34 * strength * (-(r / (2.2 * core)).powi(2)).exp();
                let arm = (2.0 * dy.atan2(dx) - side * r / 140.0).cos();
                tmq += 3.0 * arm * (-(r / (3.0 * core)).powi(2)).exp();
                if r < storm.size_km * 0.8 && *strength > 10.0 {
                    class = 1;
                }
            }
        } else {
            let (sin, cos) = (side * 0.55f64.sin(), 0.55f64.cos());
            let (along, across) = (dx * cos + dy * sin, dy * cos - dx * sin);
            let across = across - side * storm.bend * along * along;
            let half = storm.size_km / 2.0;
            let taper = (1.0 - (along / half).powi(2)).max(0.0).sqrt();
            let width = (420.0 * strength + 160.0) / 2.0;
            let inside = (-(across / (1.25 * width)).powi(2)).exp() * taper;
            tmq += 24.0 * strength * inside;
            u += 14.0 * inside * strength;
            if across.abs() < width * taper && *strength > 0.2 && class == 0 {
                class = 2;
            }
        }
    }
    (tmq.clamp(1.0, 78.0), psl, u, v, class)
}
