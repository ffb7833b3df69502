//! Channels derived from others: column water, near-surface humidity, heights of the lowest model level and of 1000
//! hPa.

use super::units::GRAVITY;
use ndarray::{Array2, ArrayView2, ArrayView3, ArrayViewMut2};

/// ∫ q dp / g in kg m-2: trapezoids between the levels above ground, plus the layer between the lowest of them and the
/// surface.
///
/// Levels below ground (pressure above `ps`) hold extrapolated values and are ignored. The bottom of the surface layer
/// has the near-surface humidity `qref` if given, otherwise that of the lowest level. The result is NaN where `ps` is
/// missing, which is needed to find the levels below ground, or where `q` is missing at any level above ground. Without
/// `ps`, at least two levels need a value.
///
/// # Shapes
/// `levels_pa` l, `q` (l, lat, lon) in kg kg-1, `ps` (lat, lon) in Pa.
pub fn precipitable_water(
    levels_pa: &[f64],
    q: ArrayView3<'_, f32>,
    ps: Option<ArrayView2<'_, f32>>,
    qref: Option<ArrayView2<'_, f32>>,
) -> Array2<f32> {
    let mut order: Vec<usize> = (0..levels_pa.len()).collect();
    order.sort_by(|&a, &b| levels_pa[a].total_cmp(&levels_pa[b])); // from the top down
    let (_, rows, columns) = q.dim();
    Array2::from_shape_fn((rows, columns), |(j, i)| {
        let surface = ps.map_or(f64::INFINITY, |ps| f64::from(ps[[j, i]]));
        if surface.is_nan() {
            return f32::NAN;
        }
        let mut above: Option<(f64, f64)> = None;
        let (mut sum, mut layers) = (0.0, 0);
        for &level in &order {
            let (p, humidity) = (levels_pa[level], f64::from(q[[level, j, i]]));
            if p >= surface {
                break;
            }
            if humidity.is_nan() {
                continue; // masked in the file, mostly below ground
            }
            if let Some((p_above, q_above)) = above {
                sum += 0.5 * (humidity + q_above) * (p - p_above);
                layers += 1;
            }
            above = Some((p, humidity));
        }
        match above {
            Some((p, humidity)) if surface.is_finite() => {
                let bottom = qref.map(|q| f64::from(q[[j, i]])).filter(|q| !q.is_nan());
                let bottom = bottom.unwrap_or(humidity);
                ((sum + 0.5 * (humidity + bottom) * (surface - p)) / GRAVITY) as f32
            }
            Some(_) if layers > 0 => (sum / GRAVITY) as f32,
            // A single level has no depth.
            _ => f32::NAN,
        }
    })
}

/// Specific humidity, kg kg-1, of air with dew point `dewpoint_k` (K) at pressure `pa` (Pa).
///
/// Source: ECMWF IFS documentation CY41R2, part IV, eqs. 7.4 and 7.5 (Tetens over water), as ECMWF recommends for ERA5.
pub(super) fn humidity_of_dewpoint(dewpoint_k: f32, pa: f32) -> f32 {
    const RATIO: f64 = 287.0597 / 461.5250; // gas constants of dry air and of vapour
    let dewpoint = f64::from(dewpoint_k);
    let vapour = 611.21 * (17.502 * (dewpoint - 273.16) / (dewpoint - 32.19)).exp();
    (RATIO * vapour / (f64::from(pa) - (1.0 - RATIO) * vapour)) as f32
}

/// Pressure at the middle of CAM5's lowest layer (30 levels) over surface pressure: its `hybm`.
const LOWEST_SIGMA: f64 = 0.992_556_1;

/// Gas constant of dry air (J kg-1 K-1) over gravity (m s-2), both as in CAM5: the scale height of the atmosphere per
/// kelvin, m K-1.
const DRY_AIR_OVER_GRAVITY: f64 = 287.04 / 9.80616;

/// Height in m of the middle of CAM5's lowest layer, from near-surface temperature (K) and specific humidity.
///
/// The hypsometric equation with CAM5's constants; at 33,240 points of CAM5 it is too high by 0.13 m on average and 0.4
/// m at most.
pub(super) fn lowest_level_height(temperature_k: f32, humidity: f32) -> f32 {
    let virtual_k = f64::from(temperature_k) * (1.0 + 0.608 * f64::from(humidity));
    (DRY_AIR_OVER_GRAVITY * virtual_k * -LOWEST_SIGMA.ln()) as f32
}

/// Fills in missing 1000 hPa heights (m) from sea-level pressure (Pa) and near-surface temperature (K), using the
/// hypsometric equation for the layer between them.
///
/// Where the temperature is unknown, the standard atmosphere's is used. In a low of 950 hPa, whose 1000 hPa level is
/// 450 m below sea level, a temperature error of 10 K changes the height by 15 m.
pub(super) fn complete_heights(
    mut heights_m: ArrayViewMut2<'_, f32>,
    psl_pa: &Array2<f32>,
    temperature_k: Option<&Array2<f32>>,
) {
    const STANDARD_K: f32 = 288.15;
    for ((place, height), psl) in heights_m.indexed_iter_mut().zip(psl_pa) {
        if height.is_nan() {
            let temperature = temperature_k.map(|field| field[place]);
            let temperature = temperature.filter(|t| t.is_finite()).unwrap_or(STANDARD_K);
            let layer = (f64::from(*psl) / 100_000.0).ln();
            *height = (DRY_AIR_OVER_GRAVITY * f64::from(temperature) * layer) as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Array3, array};

    #[test]
    fn a_uniform_column_holds_q_times_mass() {
        let levels = [100_000.0, 50_000.0, 20_000.0, 70_000.0];
        let q = Array3::from_elem((4, 1, 2), 0.01);
        let ps = array![[90_000.0f32, 101_000.0]];
        let water = precipitable_water(&levels, q.view(), Some(ps.view()), None);
        for (found, surface) in water.iter().zip(ps) {
            let expected = 0.01 * (f64::from(surface) - 20_000.0) / 9.80665;
            assert!(
                (f64::from(*found) - expected).abs() < 1e-3,
                "{found} {expected}"
            );
        }
    }

    #[test]
    fn masked_and_unknown_levels_do_not_count() {
        let levels = [100_000.0, 85_000.0, 50_000.0];
        let q = array![[[f32::NAN]], [[0.01]], [[0.0]]];
        let ps = array![[92_000.0f32]];
        let expected = (0.005 * 35_000.0 + 0.01 * 7_000.0) / 9.80665;
        let water = precipitable_water(&levels, q.view(), Some(ps.view()), None);
        assert!((f64::from(water[[0, 0]]) - expected).abs() < 1e-3);
        // The surface layer is a trapezoid to the humidity near the ground.
        let qref = array![[0.02f32]];
        let water = precipitable_water(&levels, q.view(), Some(ps.view()), Some(qref.view()));
        let with_qref = (0.005 * 35_000.0 + 0.015 * 7_000.0) / 9.80665;
        assert!((f64::from(water[[0, 0]]) - with_qref).abs() < 1e-3);
        // Where that is missing it is the humidity of the lowest level again.
        let blank = array![[f32::NAN]];
        let water = precipitable_water(&levels, q.view(), Some(ps.view()), Some(blank.view()));
        assert!((f64::from(water[[0, 0]]) - expected).abs() < 1e-3);
        let none = Array3::from_elem((3, 1, 1), f32::NAN);
        assert!(precipitable_water(&levels, none.view(), None, None)[[0, 0]].is_nan());
    }

    /// Its levels below ground had counted.
    #[test]
    fn a_column_whose_surface_pressure_is_missing_is_missing() {
        let levels = [100_000.0, 60_000.0, 50_000.0];
        let q = Array3::from_elem((3, 1, 2), 0.01);
        let ps = array![[f32::NAN, 70_000.0]];
        let water = precipitable_water(&levels, q.view(), Some(ps.view()), None);
        assert!(water[[0, 0]].is_nan(), "{water}");
        assert!((f64::from(water[[0, 1]]) - 0.01 * 20_000.0 / 9.80665).abs() < 1e-3);
    }

    /// It had been 0, the driest air there is.
    #[test]
    fn a_level_alone_is_no_column_without_surface_pressure() {
        let levels = [85_000.0, 70_000.0, 50_000.0];
        let nan = f32::NAN;
        // A plateau, a mountain, the sea.
        let q = array![
            [[nan, nan, 0.008]],
            [[nan, 0.004, 0.004]],
            [[0.002, 0.002, 0.002]]
        ];
        let water = precipitable_water(&levels, q.view(), None, None);
        assert!(water[[0, 0]].is_nan(), "{water}");
        let upper = 0.003 * 20_000.0;
        for (i, expected) in [(1, upper), (2, upper + 0.006 * 15_000.0)] {
            assert!((f64::from(water[[0, i]]) - expected / 9.80665).abs() < 1e-3);
        }
        // It has the depth from there to the surface where that is known.
        let ps = array![[60_000.0f32, 60_000.0, 60_000.0]];
        let water = precipitable_water(&levels, q.view(), Some(ps.view()), None);
        assert!((f64::from(water[[0, 0]]) - 0.002 * 10_000.0 / 9.80665).abs() < 1e-3);
    }

    #[test]
    fn saturated_air_at_twenty_degrees() {
        // Saturation at 20 °C is 23.39 hPa (Smithsonian tables): 0.622 e / (p - 0.378 e).
        let expected = 0.62198 * 2339.0 / (101_325.0 - 0.378 * 2339.0);
        let found = f64::from(humidity_of_dewpoint(293.15, 101_325.0));
        assert!((found / expected - 1.0).abs() < 2e-3, "{found} {expected}");
        assert!(humidity_of_dewpoint(f32::NAN, 1e5).is_nan());
    }

    /// z = (R / g) Tv ln(ps / p), with R / g = 29.2714 m/K, ln(1 / 0.9925561) = 0.0074717 and Tv = T (1 + 0.608 q).
    #[test]
    fn the_lowest_level_is_as_high_as_the_layer_below_it_is_thick() {
        for (temperature, humidity, expected) in [
            (288.15, 0.0, 63.02),
            (288.15, 0.01, 63.40),
            (250.0, 0.0, 54.68),
        ] {
            let found = lowest_level_height(temperature, humidity);
            assert!((found - expected).abs() < 0.02, "{found} {expected}");
        }
    }

    #[test]
    fn lowest_level_of_cam5() {
        let Some(path) = crate::testdata::real("climatenet-cam5-points/climatenet_points.csv")
        else {
            return;
        };
        let text = std::fs::read_to_string(path).unwrap();
        let header: Vec<&str> = text.lines().next().unwrap().split(',').collect();
        let column = |name: &str| header.iter().position(|h| *h == name).unwrap();
        let (t, q, z) = (column("TREFHT"), column("QREFHT"), column("ZBOT"));
        let off: Vec<f32> = text
            .lines()
            .skip(1)
            .map(|line| {
                let cells: Vec<f32> = line.split(',').map(|c| c.parse().unwrap_or(0.0)).collect();
                lowest_level_height(cells[t], cells[q]) - cells[z]
            })
            .collect();
        let mean = off.iter().sum::<f32>() / off.len() as f32;
        assert!(off.len() > 30_000 && mean.abs() < 0.2, "mean {mean}");
        assert!(off.iter().all(|d| d.abs() < 0.5));
    }

    #[test]
    fn heights_below_the_ground_follow_from_pressure() {
        let nan = f32::NAN;
        let mut heights = array![[nan, nan, 120.0, nan, nan]];
        let psl = array![[95_000.0, 100_000.0, 90_000.0, 95_000.0, nan]];
        let temperature = array![[300.0, 300.0, 300.0, nan, 300.0]];
        complete_heights(heights.view_mut(), &psl, Some(&temperature));
        // 8 m a hPa near sea level.
        let expected = [-450.4, 0.0, 120.0, -432.6];
        for (height, expected) in heights.iter().zip(expected) {
            assert!((height - expected).abs() < 0.1, "{heights}");
        }
        assert!(heights[[0, 4]].is_nan());
    }
}
