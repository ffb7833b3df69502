//! All fields of one time.
//!
//! Letters: j row, i column, φ latitude, f Coriolis parameter.

use super::SyntheticRun;
use super::base_state::{Zonal, season, zonal};
use super::catalogue::ExtratropicalCyclone;
use super::cyclone::Vortex;
use super::planes::Planes;
use super::river::Axis;
use super::truth::{Truth, TruthBox};
use super::truth_boxes;
use super::truth_masks::TruthBuilder;
use super::waves::Noise;
use crate::grid::{KM_PER_DEGREE, lon_difference_deg};
use crate::{ClassMask, Snapshot, Time, Variable};
use ndarray::parallel::prelude::*;
use ndarray::{Array2, Axis as Dimension};
use std::path::PathBuf;

pub(super) const GRAVITY: f64 = 9.80665;
/// Gas constant of dry air, J kg-1 K-1.
pub(super) const GAS: f64 = 287.05;
/// Lapse rate below the ground, K/m.
pub(super) const LAPSE: f64 = 0.0065;
/// Lowest-level wind, m/s, from which a cyclone is named and part of the truth: the labels' criterion.
const NAMED_WIND: f64 = 17.0;
/// Ratio of the lowest-level wind to the wind above the boundary layer.
pub(super) const FRICTION: f64 = 0.78;

/// The planes from which winds are computed.
pub(super) struct Mass {
    pub(super) psl: Array2<f32>,
    /// Temperature anomaly of the lower troposphere, K.
    pub(super) warm: Array2<f32>,
    /// Height of 850 hPa, m.
    pub(super) z850: Array2<f32>,
    pub(super) moist: Array2<f32>,
}

pub(super) fn compute(run: &SyntheticRun, time: Time) -> (Snapshot, Truth) {
    let hours = time.hours_since(run.config.start);
    let season = season(time);
    let scenario = &run.config.scenario;
    let climate: Vec<Zonal> = run
        .grid
        .lat_deg()
        .iter()
        .map(|&lat| zonal(lat, season, scenario.warming_k, scenario.moisture))
        .collect();
    let lows = run.catalogue.extratropical_near(hours).iter();
    let lows: Vec<Low> = lows.filter_map(|storm| Low::new(storm, hours)).collect();
    let mut boxes = Vec::new();
    let mass = mass(run, hours, &climate, &lows);
    let mut planes = Planes::new(run, time, &climate, &mass);
    let mut truth = TruthBuilder::new(run);
    for low in &lows {
        if let Some(axis) = &low.river {
            truth.river(low.id, &planes.add_river(axis, &run.grid));
        }
        boxes.extend(low.truth_box());
    }
    for storm in run.catalogue.tropical_near(hours) {
        let Some(state) = storm.at(hours).filter(|state| state.deficit_pa > 100.0) else {
            continue;
        };
        let vortex = Vortex::new(storm, state, run.grid.spacing_km());
        let seen = planes.add_vortex(&vortex, &run.grid, scenario.rain_of_a_deficit());
        let lowest_wind = FRICTION * vortex.wind(vortex.rmw_km());
        if lowest_wind >= NAMED_WIND {
            truth.cyclone(storm.id, &vortex, &seen);
            let radius_km = vortex.radius_of_wind_km(truth_boxes::RADIUS_WIND_M_S / FRICTION);
            boxes.push(truth_boxes::cyclone(storm.id, &state, radius_km));
        } else {
            boxes.extend(truth_boxes::depression(storm.id, &state, lowest_wind));
        }
    }
    boxes.extend(truth.objects.iter().filter_map(truth_boxes::river));
    let fields = planes.finish(run);
    let snapshot = Snapshot {
        time,
        grid: run.grid.clone(),
        variables: Variable::CHANNELS.to_vec(),
        fields,
        source: (PathBuf::from("synthetic"), 0),
    };
    let mask = ClassMask {
        time,
        codes: truth.codes,
    };
    (
        snapshot,
        Truth {
            mask,
            objects: truth.objects,
            boxes,
        },
    )
}

/// An extratropical cyclone at this time.
struct Low {
    id: u64,
    lat: f64,
    lon: f64,
    deficit: f64,
    radius_deg: f64,
    river: Option<Axis>,
}

impl Low {
    fn new(storm: &ExtratropicalCyclone, hours: f64) -> Option<Self> {
        let state = storm.at(hours)?;
        Some(Self {
            id: storm.id,
            lat: state.lat,
            lon: state.lon,
            deficit: state.deficit_pa,
            radius_deg: storm.radius_km / KM_PER_DEGREE,
            river: storm.river.as_ref().and_then(|river| river.axis(&state)),
        })
    }

    fn truth_box(&self) -> Option<TruthBox> {
        let centre = (self.lat, self.lon);
        truth_boxes::low(self.id, centre, self.deficit, self.radius_deg)
    }
}

/// Pressure, temperature and moisture except for tropical cyclones and rivers, and the height of 850 hPa.
fn mass(run: &SyntheticRun, hours: f64, climate: &[Zonal], lows: &[Low]) -> Mass {
    let grid = &*run.grid;
    let (_, columns) = grid.shape();
    let plane = || Array2::<f32>::zeros(grid.shape());
    let (mut psl, mut warm, mut z850, mut moist) = (plane(), plane(), plane(), plane());
    let rows = (
        psl.axis_iter_mut(Dimension(0)),
        warm.axis_iter_mut(Dimension(0)),
        z850.axis_iter_mut(Dimension(0)),
        moist.axis_iter_mut(Dimension(0)),
    );
    rows.into_par_iter()
        .enumerate()
        .for_each(|(j, (mut psl, mut warm, mut z850, mut moist))| {
            let lat = grid.lat_deg()[j];
            let noise: Noise = run.waves.row(lat, hours, columns);
            let zonal = &climate[j];
            // Waves belong to middle latitudes: weak at the equator and the poles.
            let strength = (2.0 * lat.to_radians()).sin().abs().powf(0.7);
            for i in 0..columns {
                psl[i] = (zonal.psl_pa + 760.0 * strength * f64::from(noise.pressure[i])) as f32;
                warm[i] = (3.6 * strength * f64::from(noise.temperature[i])) as f32;
                moist[i] = noise.moisture[i];
            }
            for low in lows {
                let dy = (lat - low.lat) / low.radius_deg;
                if dy.abs() > 3.0 {
                    continue;
                }
                let cos = lat.to_radians().cos().max(0.05);
                for (i, &lon) in grid.lon_deg().iter().enumerate() {
                    let dx = lon_difference_deg(lon, low.lon) * cos / low.radius_deg;
                    let square = dx * dx + dy * dy;
                    if square > 9.0 {
                        continue;
                    }
                    let bell = (-square).exp();
                    psl[i] -= (low.deficit * bell) as f32;
                    // Cold core, warm sector ahead, cold air behind.
                    warm[i] += (low.deficit / 1000.0 * bell * (2.6 * dx - 1.3)) as f32;
                    moist[i] += (0.5 * bell * dx) as f32;
                }
            }
            for i in 0..columns {
                let surface = zonal.surface_k + f64::from(warm[i]);
                let mean = surface - LAPSE * 700.0;
                z850[i] = (GAS * mean / GRAVITY * (f64::from(psl[i]) / 85_000.0).ln()) as f32;
            }
        });
    Mass {
        psl,
        warm,
        z850,
        moist,
    }
}
