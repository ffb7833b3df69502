//! The fields of one time, built up storm by storm: first the balanced flow without storms, then rivers and vortices,
//! and last the channels derived from these.

use super::SyntheticRun;
use super::base_state::{Terrain, Zonal};
use super::cyclone::{ROTATION, Vortex};
use super::fields::{FRICTION, GAS, GRAVITY, LAPSE, Mass};
use super::river::Axis;
use crate::grid::{KM_PER_DEGREE, distance_km, lon_difference_deg};
use crate::{LatLonGrid, Time, Variable};
use ndarray::parallel::prelude::*;
use ndarray::{Array2, Array3, Axis as Dimension, Zip};
use rayon::slice::ParallelSliceMut;

/// Maximum wind of a run, m/s.
const FASTEST_M_S: f32 = 110.0;

/// Wind of a tropical cyclone that delimits its true extent, m/s (gale force is 17).
const TRUE_WIND: f64 = 15.0;
/// Minimum column water anomaly of a river, kg m-2.
const TRUE_MOISTURE: f64 = 18.0;

/// The fields of one time, except those derived from others ([`Planes::finish`] computes these).
pub(super) struct Planes {
    psl: Array2<f32>,
    u850: Array2<f32>,
    v850: Array2<f32>,
    ubot: Array2<f32>,
    vbot: Array2<f32>,
    tmq: Array2<f32>,
    rain: Array2<f32>,
    t200: Array2<f32>,
    t500: Array2<f32>,
    /// Near-surface temperature reduced to sea level, K.
    sea_level_k: Array2<f32>,
    diurnal: Vec<f32>,
}

/// The cells touched by a storm, each with the value that decides whether it belongs to the truth: the wind of a
/// cyclone there, m/s, or the ratio of a river's moisture to that on its axis.
pub(super) type Touched = Vec<((usize, usize), f64)>;

impl Planes {
    /// The fields before any storm is added, in balance with pressure and temperature.
    pub(super) fn new(run: &SyntheticRun, time: Time, climate: &[Zonal], mass: &Mass) -> Self {
        let grid = &*run.grid;
        let [u850, v850, ubot, vbot] = balanced_winds(grid, climate, mass);
        let tmq = column_water(run, climate, mass, &v850);
        let mut rain = Array2::<f32>::zeros(grid.shape());
        Zip::indexed(&mut rain)
            .and(&mass.moist)
            .par_for_each(|(j, _), rain, &moist| {
                *rain = (climate[j].rain * (f64::from(moist) * 1.6).exp()).min(2e-6) as f32;
            });
        let level = |base: &dyn Fn(&Zonal) -> f64, factor: f32| {
            Array2::from_shape_fn(grid.shape(), |(j, i)| {
                base(&climate[j]) as f32 + factor * mass.warm[[j, i]]
            })
        };
        let day = time.second_of_day() as f64 / 86_400.0;
        let diurnal =
            |&lon: &f64| ((day + lon / 360.0 - 14.0 / 24.0) * std::f64::consts::TAU).cos() as f32;
        Self {
            psl: mass.psl.clone(),
            t500: level(&|z| z.t500_k, 0.75),
            t200: level(&|z| z.t200_k, -0.35),
            sea_level_k: level(&|z| z.surface_k, 1.0),
            diurnal: grid.lon_deg().iter().map(diurnal).collect(),
            u850,
            v850,
            ubot,
            vbot,
            tmq,
            rain,
        }
    }

    pub(super) fn add_river(&mut self, axis: &Axis, grid: &LatLonGrid) -> Touched {
        let inside = |lat: f64| (axis.lat.0..=axis.lat.1).contains(&lat);
        let rows: Vec<usize> = (0..grid.shape().0)
            .filter(|&j| inside(grid.lat_deg()[j]))
            .collect();
        let effects: Vec<_> = rows
            .into_par_iter()
            .flat_map_iter(|j| {
                let lat = grid.lat_deg()[j];
                let at = move |(i, &lon): (usize, &f64)| {
                    axis.effect(lat, lon).map(|effect| ((j, i), effect))
                };
                grid.lon_deg().iter().enumerate().filter_map(at)
            })
            .collect();
        let mut touched = Touched::with_capacity(effects.len());
        for (at, effect) in effects {
            self.tmq[at] += effect.moisture as f32;
            self.u850[at] += effect.wind.0 as f32;
            self.v850[at] += effect.wind.1 as f32;
            self.ubot[at] += 0.55 * effect.wind.0 as f32;
            self.vbot[at] += 0.55 * effect.wind.1 as f32;
            self.rain[at] += (2.2e-7 * effect.share * effect.moisture / 20.0) as f32;
            if axis.peak_moisture() >= TRUE_MOISTURE {
                touched.push((at, effect.share));
            }
        }
        touched
    }

    pub(super) fn add_vortex(&mut self, vortex: &Vortex, grid: &LatLonGrid, rain: f64) -> Touched {
        let (state, mut touched) = (&vortex.state, Touched::new());
        let reach = vortex.outer_km() / KM_PER_DEGREE;
        let side = state.lat.signum();
        let gale = vortex.wind(vortex.rmw_km()) >= TRUE_WIND;
        for (j, &lat) in grid.lat_deg().iter().enumerate() {
            if (lat - state.lat).abs() > reach {
                continue;
            }
            for (i, &lon) in grid.lon_deg().iter().enumerate() {
                let east = lon_difference_deg(lon, state.lon) * lat.to_radians().cos();
                if east.abs() > reach {
                    continue;
                }
                let r = distance_km(lat, lon, state.lat, state.lon);
                let deficit = vortex.deficit(r);
                if deficit <= 0.0 {
                    continue;
                }
                let (at, wind) = ((j, i), vortex.wind(r));
                // Cyclonic: anticlockwise in the north. A moving storm is stronger on one side.
                let distance = east.hypot(lat - state.lat).max(1e-9);
                let (x, y) = (east / distance, (lat - state.lat) / distance);
                let carried = deficit / state.deficit_pa.max(1.0) * 0.6;
                let turn = |speed: f64, inflow: f64| {
                    let (along, inward) = (speed * inflow.cos(), speed * inflow.sin());
                    (
                        -side * along * y - inward * x,
                        side * along * x - inward * y,
                    )
                };
                let (u, v) = turn(wind, 0.0);
                self.u850[at] += (u + carried * state.motion.0) as f32;
                self.v850[at] += (v + carried * state.motion.1) as f32;
                let (u, v) = turn(FRICTION * wind, 22f64.to_radians());
                self.ubot[at] += (u + 0.7 * carried * state.motion.0) as f32;
                self.vbot[at] += (v + 0.7 * carried * state.motion.1) as f32;
                self.psl[at] -= deficit as f32;
                let (warm500, warm200) = vortex.warm_core(r);
                self.t500[at] += warm500 as f32;
                self.t200[at] += warm200 as f32;
                self.tmq[at] += vortex.moisture(r) as f32;
                self.rain[at] += (rain * vortex.rain(r)) as f32;
                // The calm eye is part of the storm.
                if wind >= TRUE_WIND || gale && r <= vortex.rmw_km() {
                    touched.push((at, wind));
                }
            }
        }
        touched
    }

    /// Computes the derived fields; returns all fields in channel order.
    pub(super) fn finish(mut self, run: &SyntheticRun) -> Array3<f32> {
        limit(&mut self.u850, &mut self.v850);
        limit(&mut self.ubot, &mut self.vbot);
        let (rows, columns) = self.psl.dim();
        let (terrain, lat) = (&run.terrain, run.grid.lat_deg());
        let mut fields = Array3::zeros((Variable::CHANNELS.len(), rows, columns));
        let plane = |variable: Variable| variable as usize;
        for (variable, from) in [
            (Variable::Tmq, &self.tmq),
            (Variable::U850, &self.u850),
            (Variable::V850, &self.v850),
            (Variable::Ubot, &self.ubot),
            (Variable::Vbot, &self.vbot),
            (Variable::Psl, &self.psl),
            (Variable::T200, &self.t200),
            (Variable::T500, &self.t500),
            (Variable::Prect, &self.rain),
        ] {
            fields
                .index_axis_mut(Dimension(0), plane(variable))
                .assign(from);
        }
        let values = fields.as_slice_mut().expect("a fresh array is contiguous");
        let mut channels: Vec<&mut [f32]> = values.chunks_exact_mut(rows * columns).collect();
        let mut rows_of = |variable: Variable| {
            std::mem::take(&mut channels[plane(variable)]).par_chunks_mut(columns)
        };
        let outputs = (
            rows_of(Variable::Ps),
            rows_of(Variable::Qrefht),
            rows_of(Variable::Ts),
            rows_of(Variable::Trefht),
            rows_of(Variable::Z1000),
            rows_of(Variable::Z200),
            rows_of(Variable::Zbot),
        );
        outputs.into_par_iter().enumerate().for_each(
            |(j, (ps, q, ts, tref, z1000, z200, zbot))| {
                for i in 0..columns {
                    [ps[i], q[i], ts[i], tref[i], z1000[i], z200[i], zbot[i]] =
                        self.computed([j, i], lat[j], terrain);
                }
            },
        );
        fields
    }

    /// Derives PS, QREFHT, TS, TREFHT, Z1000, Z200 and ZBOT of a cell from its other fields and the terrain.
    fn computed(&self, at: [usize; 2], lat_deg: f64, terrain: &Terrain) -> [f32; 7] {
        let (height, land) = (f64::from(terrain.height[at]), f64::from(terrain.land[at]));
        let psl = f64::from(self.psl[at]);
        let sea_level = f64::from(self.sea_level_k[at]);
        let sun = f64::from(self.diurnal[at[1]]) * lat_deg.to_radians().cos();
        let air = sea_level - LAPSE * height + sun * (0.4 + 3.6 * land);
        let pressure = psl * (1.0 - LAPSE * height / sea_level).powf(GRAVITY / (GAS * LAPSE));
        // Bolton 1980: saturation vapour pressure over water.
        let celsius = air - 273.15;
        let saturation = 611.2 * (17.67 * celsius / (celsius + 243.5)).exp();
        let dry = ((lat_deg.abs() - 25.0) / 12.0).powi(2);
        let humidity = (0.82 - 0.16 * (-dry).exp() - 0.2 * land * (-dry).exp()).min(0.95);
        // Hydrostatic, below and above sea level alike.
        let low = GAS * sea_level / GRAVITY * (psl / 100_000.0).ln();
        let mean =
            0.30 * sea_level + 0.45 * f64::from(self.t500[at]) + 0.25 * f64::from(self.t200[at]);
        [
            pressure,
            0.622 * humidity * saturation / (pressure - 0.378 * humidity * saturation),
            air + 0.6 + sun * 2.5 * land,
            air,
            low,
            low + GAS * mean / GRAVITY * 5f64.ln(),
            62.0 * air / 288.0,
        ]
        .map(|value| value as f32)
    }
}

/// Balanced winds, m/s: u and v at 850 hPa, u and v at the lowest level.
fn balanced_winds(grid: &LatLonGrid, climate: &[Zonal], mass: &Mass) -> [Array2<f32>; 4] {
    let (rows, columns) = grid.shape();
    let plane = || Array2::<f32>::zeros((rows, columns));
    let (mut u850, mut v850, mut ubot, mut vbot) = (plane(), plane(), plane(), plane());
    let dlat = grid.lat_spacing_deg() * KM_PER_DEGREE * 1000.0;
    let dlon = grid.lon_spacing_deg() * KM_PER_DEGREE * 1000.0;
    let winds = (
        u850.axis_iter_mut(Dimension(0)),
        v850.axis_iter_mut(Dimension(0)),
        ubot.axis_iter_mut(Dimension(0)),
        vbot.axis_iter_mut(Dimension(0)),
    );
    winds
        .into_par_iter()
        .enumerate()
        .for_each(|(j, (mut u850, mut v850, mut ubot, mut vbot))| {
            let lat = grid.lat_deg()[j];
            // Geostrophy fails at the equator: below 12 degrees f is held constant and the balance fades out.
            let sign = if lat < 0.0 { -1.0 } else { 1.0 };
            let f = sign
                * (2.0 * ROTATION * lat.to_radians().sin())
                    .abs()
                    .max(2.0 * ROTATION * 12f64.to_radians().sin());
            let balanced = ((lat.abs() - 4.0) / 12.0).clamp(0.0, 1.0);
            let polar = ((90.0 - lat.abs()) / 6.0).min(1.0);
            let cos = lat.to_radians().cos().max(0.06);
            let (south, north) = (j.saturating_sub(1), (j + 1).min(rows - 1));
            let slope = |plane: &Array2<f32>, i: usize| {
                let (west, east) = ((i + columns - 1) % columns, (i + 1) % columns);
                let dy = f64::from(plane[[north, i]] - plane[[south, i]])
                    / (dlat * (north - south) as f64);
                (
                    f64::from(plane[[j, east]] - plane[[j, west]]) / (2.0 * dlon * cos),
                    dy,
                )
            };
            for i in 0..columns {
                let (zx, zy) = slope(&mass.z850, i);
                let (px, py) = slope(&mass.psl, i);
                let factor = polar * balanced;
                let (u, v) = (-factor * GRAVITY / f * zy, factor * GRAVITY / f * zx);
                // Friction turns the lowest-level wind by 20 degrees towards low pressure and slows it.
                let (us, vs) = (
                    -0.62 * factor * py / (1.2 * f),
                    0.62 * factor * px / (1.2 * f),
                );
                let (a, b) = (20f64.to_radians().cos(), 20f64.to_radians().sin() * sign);
                let trade = climate[j].trades;
                u850[i] = (u.clamp(-60.0, 60.0) + 1.15 * trade) as f32;
                v850[i] = v.clamp(-60.0, 60.0) as f32;
                ubot[i] = (us * a - vs * b + trade) as f32;
                vbot[i] = (us * b + vs * a) as f32;
            }
        });
    [u850, v850, ubot, vbot]
}

/// Column water, kg m-2.
fn column_water(
    run: &SyntheticRun,
    climate: &[Zonal],
    mass: &Mass,
    v850: &Array2<f32>,
) -> Array2<f32> {
    let (grid, moisture) = (&*run.grid, run.config.scenario.moisture);
    let mut tmq = Array2::<f32>::zeros(grid.shape());
    Zip::indexed(&mut tmq)
        .and(&mass.moist)
        .and(&mass.warm)
        .par_for_each(|(j, i), tmq, &moist, &warm| {
            let lat = grid.lat_deg()[j];
            // Warm air is moist, and poleward wind brings moisture from the tropics.
            let poleward = f64::from(v850[[j, i]]) * lat.signum() * (lat.abs() / 30.0).min(1.0);
            let swing = 0.2 * f64::from(moist) + 0.02 * f64::from(warm) + 0.012 * poleward;
            let ceiling = moisture * (6.0 + 52.0 * (-(lat / 38.0).powi(2)).exp());
            *tmq = (climate[j].tmq * (1.0 + swing.clamp(-0.55, 0.7))).clamp(0.4, ceiling) as f32;
        });
    tmq
}

/// Limits unrealistic winds: overlapping storms add up.
fn limit(u: &mut Array2<f32>, v: &mut Array2<f32>) {
    Zip::from(u).and(v).for_each(|u, v| {
        let square = *u * *u + *v * *v;
        if square > FASTEST_M_S * FASTEST_M_S {
            let slower = FASTEST_M_S / square.sqrt();
            (*u, *v) = (*u * slower, *v * slower);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storms_that_meet_do_not_blow_faster_than_any() {
        let mut u = Array2::from_shape_vec((1, 3), vec![60.0, -150.0, 90.0]).unwrap();
        let mut v = Array2::from_shape_vec((1, 3), vec![80.0, 200.0, 0.0]).unwrap();
        limit(&mut u, &mut v);
        let expected = [(60.0, 80.0), (-66.0, 88.0), (90.0, 0.0)];
        for ((u, v), expected) in u.iter().zip(&v).zip(expected) {
            assert!(
                (u - expected.0).abs() < 1e-4 && (v - expected.1).abs() < 1e-4,
                "{u} {v}"
            );
        }
    }
}
