//! Measures each detection method on one time of CAM5's quarter-degree grid:
//! `cargo run --release -p squall-climate --example detector_times`.
//!
//! The fields resemble weather as far as run time is concerned: lows, ridges of moisture and noise on many scales.
#![allow(clippy::print_stdout)]

use ndarray::{Array2, Array3};
use squall_climate::detect::bard::{BardDetector, BardThresholds, sample_members};
use squall_climate::detect::percentile::{PercentileDetector, PercentileThresholds};
use squall_climate::detect::tempest::{TempestDetector, TempestThresholds};
use squall_climate::detect::{DetectFields, Method};
use squall_climate::events::{EventFields, ExtractOptions, extract};
use squall_climate::label::{Labeller, Thresholds};
use squall_data::{Calendar, LatLonGrid, Snapshot, Time, Variable};
use std::f64::consts::TAU;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

fn world() -> Snapshot {
    let grid = Arc::new(LatLonGrid::global(768, 1152).unwrap());
    let channels: Vec<Variable> = Method::Deepcam.channels().to_vec();
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
            Variable::Tmq => (45.0 * warm + 30.0 * weather).max(1.0),
            Variable::Psl => 101_000.0 + 2000.0 * weather,
            Variable::T200 => 220.0 + 3.0 * weather,
            Variable::T500 => 240.0 + 28.0 * warm + 3.0 * weather,
            Variable::Z200 => 11_500.0 + 900.0 * warm + 100.0 * weather,
            Variable::Z1000 => 100.0 + 150.0 * weather,
            Variable::Prect => 1e-7 * weather.max(0.0),
            _ => 30.0 * weather,
        } as f32;
    }
    Snapshot {
        time: Time::new(Calendar::NoLeap, 2000, 9, 1, 0, 0, 0).unwrap(),
        grid,
        variables: channels,
        fields,
        source: ("made up".into(), 0),
    }
}

/// Prints the minimum and the median of several runs.
fn time<T>(name: &str, runs: usize, mut act: impl FnMut() -> T) {
    let mut seconds: Vec<f64> = (0..runs)
        .map(|_| {
            let start = Instant::now();
            black_box(act());
            start.elapsed().as_secs_f64()
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    let (best, median) = (1e3 * seconds[0], 1e3 * seconds[runs / 2]);
    println!("{name:<44} best {best:8.2} ms   median {median:8.2} ms");
}

fn main() {
    let snapshot = world();
    let grid = snapshot.grid.clone();
    let fields = DetectFields::from_snapshot(snapshot.clone());
    println!(
        "{} threads, {}",
        rayon::current_num_threads(),
        grid.describe()
    );
    let deepcam = Labeller::new(&Thresholds::default(), grid.clone()).unwrap();
    time("deepcam, candidates", 5, || {
        deepcam.candidates(&snapshot).unwrap()
    });
    time("deepcam, masks without cyclones", 5, || {
        deepcam.masks(&snapshot, &[]).unwrap()
    });
    let lows = deepcam.lows(&snapshot).unwrap();
    let count = lows.extratropical.len();
    time(
        &format!("deepcam, lows for boxes ({count} found)"),
        5,
        || deepcam.lows(&snapshot).unwrap(),
    );
    time("deepcam, all of it and events", 7, || {
        let candidates = deepcam.candidates(&snapshot).unwrap();
        let mask = deepcam.masks(&snapshot, &candidates).unwrap().mask;
        let (fields, options) = (EventFields::default(), ExtractOptions::default());
        let events = extract(&mask, &grid, &fields, &options).unwrap();
        (deepcam.lows(&snapshot).unwrap(), events)
    });
    time("transport from channels", 7, || {
        fields.transport().unwrap().into_owned()
    });
    time("tempest, stencils (once)", 3, || {
        TempestDetector::new(&TempestThresholds::default(), grid.clone()).unwrap()
    });
    let tempest = TempestDetector::new(&TempestThresholds::default(), grid.clone()).unwrap();
    let nodes = tempest.nodes(&fields).unwrap();
    time(
        &format!("tempest, nodes ({} found)", nodes.len()),
        7,
        || tempest.nodes(&fields).unwrap(),
    );
    let transport = fields.transport().unwrap().into_owned();
    let rivers = tempest.rivers(transport.magnitude.view()).unwrap().len();
    time(&format!("tempest, rivers ({rivers} found)"), 7, || {
        tempest.rivers(transport.magnitude.view()).unwrap()
    });
    time("tempest, masks and objects", 7, || {
        tempest.masks(&fields, &nodes).unwrap()
    });
    let percentile =
        PercentileDetector::new(&PercentileThresholds::default(), grid.clone()).unwrap();
    let mut climatology = percentile.climatology();
    for k in 0..40 {
        let shifted = Array2::from_shape_fn(grid.shape(), |(j, i)| {
            transport.magnitude[[j, (i + 29 * k) % 1152]]
        });
        climatology.add(9, shifted.view()).unwrap();
    }
    time("percentile, climatology, one time", 7, || {
        climatology.add(9, transport.magnitude.view()).unwrap();
    });
    let usual = climatology.thresholds(percentile.thresholds()).unwrap();
    let rivers = percentile
        .rivers(transport.magnitude.view(), &transport, 9, &usual)
        .unwrap()
        .len();
    time(&format!("percentile, rivers ({rivers} found)"), 7, || {
        percentile
            .rivers(transport.magnitude.view(), &transport, 9, &usual)
            .unwrap()
    });
    time("percentile, masks and objects", 7, || {
        percentile.masks(&fields, &usual).unwrap()
    });
    for count in [64, 128, 1024] {
        let thresholds = BardThresholds {
            members: sample_members(count, 0),
            ..BardThresholds::default()
        };
        let bard = BardDetector::new(&thresholds, grid.clone()).unwrap();
        time(&format!("bard, probability, {count} members"), 3, || {
            bard.probability(transport.magnitude.view()).unwrap()
        });
        time(
            &format!("bard, masks and objects, {count} members"),
            3,
            || bard.masks(&fields).unwrap(),
        );
    }
}
