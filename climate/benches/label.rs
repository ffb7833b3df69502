//! `cargo bench -p squall-climate --bench label`: labels one time on CAM5's quarter-degree grid.
//!
//! The fields resemble weather as far as run time is concerned: small vortices throughout the tropics and the storm
//! tracks let thousands of cells pass the vorticity threshold, and moist bands form long and ragged pieces.

use criterion::{Criterion, criterion_group, criterion_main};
use ndarray::Array3;
use squall_climate::derived::relative_vorticity;
use squall_climate::label::{CycloneCandidate, Labeller, REQUIRED_CHANNELS, Thresholds};
use squall_data::{Calendar, LatLonGrid, Snapshot, Time, Variable};
use std::f64::consts::TAU;
use std::hint::black_box;
use std::sync::Arc;

fn world() -> Snapshot {
    let grid = Arc::new(LatLonGrid::global(768, 1152).unwrap());
    let channels = REQUIRED_CHANNELS;
    let mut fields = Array3::zeros((channels.len(), 768, 1152));
    let wave = |lat: f64, lon: f64, m: f64, n: f64, phase: f64| {
        (m * lon * TAU / 360.0 + phase).sin() * (n * lat * TAU / 360.0 + 2.0 * phase).cos()
    };
    for ((k, j, i), value) in fields.indexed_iter_mut() {
        let (lat, lon) = (grid.lat_deg()[j], grid.lon_deg()[i]);
        let weather: f64 = [(7.0, 9.0), (23.0, 31.0), (60.0, 60.0), (97.0, 88.0)]
            .iter()
            .map(|&(m, n)| wave(lat, lon, m, n, k as f64 + m) / f64::sqrt(m))
            .sum();
        let warm = 1.0 - (lat / 90.0).powi(2);
        *value = match channels[k] {
            Variable::Tmq => 45.0 * warm + 30.0 * weather,
            Variable::Psl => 101_000.0 + 2000.0 * weather,
            Variable::T200 => 220.0 + 3.0 * weather,
            Variable::T500 => 240.0 + 28.0 * warm + 3.0 * weather,
            Variable::Z200 => 11_500.0 + 900.0 * warm + 100.0 * weather,
            Variable::Z1000 => 100.0 + 150.0 * weather,
            Variable::Prect => 1e-7 * weather.max(0.0),
            _ => 60.0 * weather,
        } as f32;
    }
    Snapshot {
        time: Time::new(Calendar::NoLeap, 2000, 9, 1, 0, 0, 0).unwrap(),
        grid,
        variables: channels.to_vec(),
        fields,
        source: ("bench".into(), 0),
    }
}

/// Twenty cyclones: more than there ever are on the globe at the same time.
fn cyclones() -> Vec<CycloneCandidate> {
    (0..20)
        .map(|k| CycloneCandidate {
            lat_deg: if k % 2 == 0 { 15.0 } else { -15.0 },
            lon_deg: 18.0 * f64::from(k),
            min_psl_pa: 97_000.0,
            vorticity_per_s: 3e-4,
            max_wind_m_s: 40.0,
            warm_core: true,
            thick_core: true,
            core_temperature_k: None,
            core_thickness_m: None,
            track_id: None,
        })
        .collect()
}

fn labels(c: &mut Criterion) {
    let snapshot = world();
    let labeller = Labeller::new(&Thresholds::default(), snapshot.grid.clone()).unwrap();
    let relaxed = Thresholds {
        cyclone: squall_climate::label::TcThresholds::super_relaxed(),
        ..Thresholds::default()
    };
    let relaxed = Labeller::new(&relaxed, snapshot.grid.clone()).unwrap();
    let storms = cyclones();
    let mut group = c.benchmark_group("label 768x1152");
    group.sample_size(20);
    let (u, v) = (
        snapshot.field(Variable::U850).unwrap(),
        snapshot.field(Variable::V850).unwrap(),
    );
    group.bench_function("vorticity", |b| {
        b.iter(|| black_box(relative_vorticity(u, v, &snapshot.grid).unwrap()));
    });
    group.bench_function("candidates", |b| {
        b.iter(|| black_box(labeller.candidates(&snapshot).unwrap()));
    });
    group.bench_function("candidates, super_relaxed", |b| {
        b.iter(|| black_box(relaxed.candidates(&snapshot).unwrap()));
    });
    group.bench_function("masks, 20 cyclones", |b| {
        b.iter(|| black_box(labeller.masks(&snapshot, &storms).unwrap()));
    });
    group.finish();
}

criterion_group!(benches, labels);
criterion_main!(benches);
