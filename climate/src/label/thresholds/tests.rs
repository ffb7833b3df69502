//! Tests of presets, rejected numbers, and thresholds adapted to coarse grids.

use super::*;

#[test]
fn presets_are_ordered_and_named() {
    let presets = TcThresholds::PRESETS.map(|name| TcThresholds::preset(name).unwrap());
    for pair in presets.windows(2) {
        assert!(pair[0].min_vorticity_per_s > pair[1].min_vorticity_per_s);
        assert!(pair[0].warm_core_fall_k > pair[1].warm_core_fall_k);
        assert!(pair[0].pressure_rise_pa > pair[1].pressure_rise_pa);
        assert_eq!(pair[0].thickness_fall_m, pair[1].thickness_fall_m);
    }
    let error = TcThresholds::preset("lax").unwrap_err().to_string();
    assert!(error.contains("super_relaxed"), "{error}");
}

#[test]
fn numbers_that_find_nothing_for_want_of_sense_are_refused() {
    let cyclones: [fn(&mut TcThresholds) -> &mut f64; 8] = [
        |t| &mut t.min_credible_pressure_pa,
        |t| &mut t.pressure_rise_pa,
        |t| &mut t.warm_core_fall_k,
        |t| &mut t.thickness_fall_m,
        |t| &mut t.min_wind_m_s,
        |t| &mut t.min_storm_days,
        |t| &mut t.radius_wind_m_s,
        |t| &mut t.mask_percentile,
    ];
    for number in cyclones {
        for wrong in [f64::NAN, f64::INFINITY, -1.0] {
            let mut thresholds = TcThresholds::default();
            *number(&mut thresholds) = wrong;
            assert!(thresholds.check().is_err(), "{thresholds:?}");
        }
    }
    let rivers: [fn(&mut ArThresholds) -> &mut f64; 2] =
        [|t| &mut t.min_length_km, |t| &mut t.box_margin_deg];
    for number in rivers {
        for wrong in [f64::NAN, f64::INFINITY, -1.0] {
            let mut thresholds = ArThresholds::default();
            *number(&mut thresholds) = wrong;
            assert!(thresholds.check().is_err(), "{thresholds:?}");
        }
    }
}

/// The first value used to run for hours, the second to abort the program for lack of memory.
#[test]
fn numbers_that_would_take_all_time_or_memory_are_refused_by_name() {
    let with = |change: fn(&mut TcThresholds)| {
        let mut thresholds = TcThresholds::default();
        change(&mut thresholds);
        thresholds.check().unwrap_err().to_string()
    };
    let error = with(|t| t.pressure_radius_deg = 1e9);
    assert!(
        error.contains("pressure_radius_deg: expected at most 360 degrees"),
        "{error}"
    );
    let error = with(|t| t.radius_bins = 1 << 50);
    assert!(error.contains("radius_bins: expected 1 to 1000"), "{error}");
    assert!(with(|t| t.radius_bins = 0).contains("radius_bins"));
    let thresholds = TcThresholds {
        radius_search_deg: 360.0,
        radius_bins: 1000,
        ..TcThresholds::default()
    };
    assert!(thresholds.check().is_ok());
}

#[test]
fn the_published_grid_gets_the_published_numbers_and_coarser_ones_less() {
    let published = TcThresholds::default();
    let cam5 = LatLonGrid::global(768, 1152).unwrap();
    assert_eq!(published.adapted_to(&cam5), published);
    let coarse = published.adapted_to(&LatLonGrid::global(73, 144).unwrap());
    assert!(coarse.min_vorticity_per_s < published.min_vorticity_per_s / 3.0);
    assert_eq!(coarse.max_core_radius_deg, 3.75);
    assert_eq!(
        (coarse.pressure_radius_deg, coarse.thickness_radius_deg),
        (5.0, 5.0)
    );
    assert_eq!(coarse.mask_percentile, published.mask_percentile);
    let published = ArThresholds::default();
    assert_eq!(published.adapted_to(&cam5), published);
    let coarse = published.adapted_to(&LatLonGrid::global(73, 144).unwrap());
    assert_eq!(coarse.box_margin_deg, 2.25);
    // Half of 2.25 degrees of 111.195 km.
    assert!((coarse.max_width_km - 1125.094).abs() < 0.01, "{coarse:?}");
    assert_eq!(coarse.min_damped_tmq_kg_m2, published.min_damped_tmq_kg_m2);
}

/// By the formulas of [`GridScaling`] at 2.5 degrees of 111.195 km, with a vortex of 100 km: the factors are 0.12343
/// for vorticity, 0.67940 for pressure, 0.78181 for the core and 0.79921 for wind.
#[test]
fn each_threshold_shrinks_by_the_factor_of_its_quantity() {
    // Columns are four degrees apart.
    let grid = LatLonGrid::global(73, 90).unwrap();
    let found = TcThresholds::default().adapted_to(&grid);
    for (value, expected) in [
        (found.min_vorticity_per_s, 1.97491e-5),
        (found.pressure_rise_pa, 271.758),
        (found.warm_core_fall_k, 0.625_450),
        (found.thickness_fall_m, 39.0906),
        (found.min_wind_m_s, 13.5865),
        (found.radius_wind_m_s, 13.9861),
        // One cell and a half, or two.
        (found.max_core_radius_deg, 6.0),
        (found.pressure_radius_deg, 8.0),
        (found.warm_core_radius_deg, 8.0),
        (found.thickness_radius_deg, 8.0),
    ] {
        assert!((value / expected - 1.0).abs() < 1e-5, "{value} {expected}");
    }
}

/// Factors as above. Masks record the thresholds that the labeller applied, also for depressions.
#[test]
fn a_labeller_tells_the_thresholds_that_it_goes_by() {
    let grid = std::sync::Arc::new(LatLonGrid::global(73, 90).unwrap());
    let of = |adapt_to_grid| {
        let asked = Thresholds {
            adapt_to_grid,
            ..Thresholds::default()
        };
        let labeller = crate::label::Labeller::new(&asked, grid.clone()).unwrap();
        (asked, labeller.thresholds())
    };
    let (asked, found) = of(true);
    assert_eq!(found.cyclone, asked.cyclone.adapted_to(&grid));
    assert_eq!(found.river, asked.river.adapted_to(&grid));
    assert_eq!(found.extratropical, asked.extratropical);
    for (value, expected) in [
        (found.depression.min_vorticity_per_s, 3.70296e-6),
        (found.depression.pressure_rise_pa, 67.9395),
        (found.depression.warm_core_fall_k, 0.078_181_25),
        (found.depression.max_wind_m_s, 13.5865),
        (found.depression.min_wind_m_s, 6.0),
    ] {
        assert!((value / expected - 1.0).abs() < 1e-5, "{value} {expected}");
    }
    let (asked, found) = of(false);
    assert_eq!(found, asked);
}

#[test]
fn recipes_are_read_strictly_and_checked() {
    let read: Thresholds =
        serde_json::from_str(r#"{"river": {"min_damped_tmq_kg_m2": 21.0}}"#).unwrap();
    assert_eq!(read.river, ArThresholds::labels_1());
    assert!(serde_json::from_str::<Thresholds>(r#"{"rivers": {}}"#).is_err());
    let bad = TcThresholds {
        mask_percentile: 100.0,
        ..TcThresholds::default()
    };
    assert!(
        bad.check()
            .unwrap_err()
            .to_string()
            .contains("mask_percentile")
    );
    let bad = ArThresholds {
        damping_sigma_deg: 0.0,
        ..ArThresholds::default()
    };
    assert!(
        bad.check()
            .unwrap_err()
            .to_string()
            .contains("damping_sigma_deg")
    );
}
