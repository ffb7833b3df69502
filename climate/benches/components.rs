//! Components and events of one 768 x 1152 mask with the published shares of the classes.
//!
//! `cargo bench -p squall-climate --bench components`

#![allow(missing_docs)] // criterion's macros define public items

use criterion::{Criterion, criterion_group, criterion_main};
use ndarray::Array2;
use squall_climate::events::{EventFields, ExtractOptions, extract, regions};
use squall_data::{Calendar, ClassMask, LatLonGrid, Time};

/// Twelve tilted filaments of 4,500 x 500 km and six discs, some across the seam: 4 % of the globe.
fn mask(grid: &LatLonGrid) -> ClassMask {
    let codes = Array2::from_shape_fn(grid.shape(), |(j, i)| {
        let (lat, lon) = (grid.lat_deg()[j], grid.lon_deg()[i]);
        let storm = (0..6).any(|k| {
            let at = f64::from(k) * 60.0;
            let d = (lon - at + 180.0).rem_euclid(360.0) - 180.0;
            (lat.abs() - 16.0).hypot(d) < 3.0 && (lat > 0.0) == (k % 2 == 0)
        });
        let river = (0..6).any(|k| {
            let at = f64::from(k) * 60.0 + 30.0;
            let d = (lon - at + 180.0).rem_euclid(360.0) - 180.0;
            d.abs() < 22.0 && (lat.abs() - 42.0 - 0.5 * d).abs() < 2.5
        });
        if storm { 1 } else { u8::from(river) * 2 }
    });
    let time = Time::new(Calendar::NoLeap, 2000, 1, 1, 0, 0, 0).expect("a date");
    ClassMask::new(time, codes).expect("codes")
}

fn bench(c: &mut Criterion) {
    let grid = LatLonGrid::global(768, 1152).expect("grid");
    let mask = mask(&grid);
    c.bench_function("regions 768x1152", |b| {
        b.iter(|| regions(mask.codes.view(), &grid).expect("regions"));
    });
    c.bench_function("events 768x1152", |b| {
        b.iter(|| {
            extract(
                &mask,
                &grid,
                &EventFields::default(),
                &ExtractOptions::default(),
            )
            .expect("events")
        });
    });
    // The worst case of the run-based method: a checkerboard of single cells (one labyrinth).
    let board = Array2::from_shape_fn((768, 1152), |(j, i)| ((j + i) % 2) as u8);
    c.bench_function("regions checkerboard", |b| {
        b.iter(|| regions(board.view(), &grid).expect("regions"));
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = bench
}
criterion_main!(benches);
