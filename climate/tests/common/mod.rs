//! Synthetic fields for the label tests: a calm background with one warm-core vortex and an optional moist filament.
//! Also runs all methods over a whole series.
#![allow(dead_code)] // each test file uses its part

use ndarray::{Array3, Axis};
use squall_climate::detect::{DetectFields, Detector, FirstPass, MethodLabels, SecondPass};
use squall_climate::error::{ClimateError, Result};
use squall_climate::label::{Pass, SeriesSummary};
use squall_data::grid::{distance_km, lon_difference_deg};
use squall_data::{Calendar, LatLonGrid, Snapshot, Time, Variable};
use std::sync::Arc;

/// A vortex: winds 2x/(1+x²), a Gaussian low, a warm core and a thickness maximum.
#[derive(Debug, Clone, Copy)]
pub struct Vortex {
    pub lat_deg: f64,
    pub lon_deg: f64,
    pub wind_m_s: f64,
    pub radius_km: f64,
    pub depth_pa: f64,
    pub warm_k: f64,
    pub thick_m: f64,
    /// Displacement of warm core and thickness maximum to the north, degrees.
    pub core_offset_deg: f64,
}

impl Default for Vortex {
    fn default() -> Self {
        Self {
            lat_deg: 15.1,
            lon_deg: 210.2,
            wind_m_s: 40.0,
            radius_km: 80.0,
            depth_pa: 4000.0,
            warm_k: 4.0,
            thick_m: 200.0,
            core_offset_deg: 0.0,
        }
    }
}

pub fn time(hours: i64) -> Time {
    let start = Time::new(Calendar::NoLeap, 2000, 9, 1, 0, 0, 0).unwrap();
    start.add_seconds(hours * 3600)
}

/// All channels of fields with the given vortices.
pub fn world(grid: &Arc<LatLonGrid>, vortices: &[Vortex], time: Time) -> Snapshot {
    let (rows, columns) = grid.shape();
    let mut fields = Array3::zeros((Variable::CHANNELS.len(), rows, columns));
    for j in 0..rows {
        for i in 0..columns {
            let cell = cell(grid.lat_deg()[j], grid.lon_deg()[i], vortices);
            for (k, variable) in Variable::CHANNELS.into_iter().enumerate() {
                fields[[k, j, i]] = cell(variable) as f32;
            }
        }
    }
    Snapshot {
        time,
        grid: grid.clone(),
        variables: Variable::CHANNELS.to_vec(),
        fields,
        source: ("analytic world".into(), 0),
    }
}

fn cell(lat: f64, lon: f64, vortices: &[Vortex]) -> impl Fn(Variable) -> f64 {
    let cold = (lat / 90.0).powi(2);
    let (mut u, mut v) = (0.0, 0.0);
    let (mut psl, mut warm, mut thick, mut wet) = (101_000.0, 0.0, 0.0, 0.0);
    for vortex in vortices {
        let near = |offset: f64| distance_km(vortex.lat_deg + offset, vortex.lon_deg, lat, lon);
        let r = near(0.0);
        let x = r / vortex.radius_km;
        let east = lon_difference_deg(lon, vortex.lon_deg) * lat.to_radians().cos();
        let north = lat - vortex.lat_deg;
        let far = east.hypot(north).max(1e-9);
        let speed = vortex.wind_m_s * 2.0 * x / (1.0 + x * x) * vortex.lat_deg.signum();
        u -= speed * north / far;
        v += speed * east / far;
        psl -= vortex.depth_pa * (-(r / 250.0).powi(2)).exp();
        let core = (-(near(vortex.core_offset_deg) / 300.0).powi(2)).exp();
        warm += vortex.warm_k * core;
        thick += vortex.thick_m * core;
        wet += (-(r / 200.0).powi(2)).exp();
    }
    move |variable| match variable {
        Variable::Tmq => 30.0 * (1.0 - cold) + 30.0 * wet,
        Variable::U850 => u,
        Variable::V850 => v,
        Variable::Ubot => 0.8 * u,
        Variable::Vbot => 0.8 * v,
        Variable::Psl | Variable::Ps => psl,
        Variable::T200 => 220.0 + warm,
        Variable::T500 => 268.0 - 30.0 * cold + warm,
        Variable::Prect => 1e-7 * wet,
        Variable::Z1000 => (psl - 100_000.0) / 12.0,
        Variable::Z200 => 12_300.0 - 800.0 * cold + (psl - 100_000.0) / 12.0 + thick,
        _ => 0.0,
    }
}

/// The snapshot restricted to these channels.
pub fn only(snapshot: &Snapshot, channels: &[Variable]) -> Snapshot {
    let has = |&k: &usize| channels.contains(&snapshot.variables[k]);
    let kept: Vec<usize> = (0..snapshot.variables.len()).filter(has).collect();
    Snapshot {
        variables: kept.iter().map(|&k| snapshot.variables[k]).collect(),
        fields: snapshot.fields.select(Axis(0), &kept),
        ..snapshot.clone()
    }
}

/// Runs both passes of several methods over a series; `each` receives the labels of all methods in order of time.
/// Returns one summary per method.
pub fn detect_series<E>(
    detectors: &[Detector],
    count: usize,
    read: impl Fn(usize, Pass) -> std::result::Result<DetectFields, E> + Sync,
    mut each: impl FnMut(usize, Vec<MethodLabels>) -> Result<()>,
) -> Result<Vec<SeriesSummary>>
where
    ClimateError: From<E>,
{
    let read = |index, pass| read(index, pass).map(Some);
    let mut first = FirstPass::new(detectors);
    first.run(detectors, count, &read, |_| Ok(()))?;
    let conclusions = first.conclude(detectors)?;
    let mut second = SecondPass::new(detectors);
    second.run(detectors, &conclusions, count, &read, |_, index, labels| {
        labels.map_or(Ok(()), |labels| each(index, labels))
    })?;
    Ok(second.summaries(&conclusions))
}
