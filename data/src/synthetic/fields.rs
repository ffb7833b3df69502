//! All fields of one time.
//!
//! Letters: j row, i column, φ latitude, f Coriolis parameter.

use super::SyntheticRun;
use super::base_state::{Zonal, season, zonal};
use super::catalogue::ExtratropicalCyclone;
use super::cyclone::Vortex;
use super::river::Axis;
use super::truth::{Truth, TruthBox, TruthObject};
use super::truth_boxes;
use super::waves::Noise;
use crate::grid::{KM_PER_DEGREE, distance_km, lon_difference_deg};
use crate::{Class, ClassMask, LatLonGrid, Snapshot, Time, Variable};
use ndarray::parallel::prelude::*;
use ndarray::{Array2, Array3, Axis as Dimension, Zip};
use rayon::slice::ParallelSliceMut;
use std::path::PathBuf;

const GRAVITY: f64 = 9.80665;
/// Gas constant of dry air, J kg-1 K-1.
const GAS: f64 = 287.05;
const ROTATION: f64 = 7.292e-5;
/// Lapse rate below the ground, K/m.
const LAPSE: f64 = 0.0065;
/// The wind of a tropical cyclone that marks its true extent, m/s (gale force is 17).
const TRUE_WIND: f64 = 15.0;
/// The share of its axis value that marks a river's true extent.
const TRUE_SHARE: f64 = 0.5;
/// Column water above the surroundings from which a river is one, kg m-2.
const TRUE_MOISTURE: f64 = 18.0;
/// Lowest-level wind from which a cyclone has a name and is one in the truth, m/s: that of the labels' criterion.
const NAMED_WIND: f64 = 17.0;
/// Lowest-level wind relative to that above the boundary layer.
const FRICTION: f64 = 0.78;

/// The planes that winds are computed from.
struct Mass {
    psl: Array2<f32>,
    /// Temperature anomaly of the lower troposphere, K.
    warm: Array2<f32>,
    /// Height of 850 hPa, m.
    z850: Array2<f32>,
    moist: Array2<f32>,
}

pub(super) fn compute(run: &SyntheticRun, time: Time) -> (Snapshot, Truth) {
    let hours = time.seconds_since(run.config.start) as f64 / 3600.0;
    let season = season(time);
    let scenario = &run.config.scenario;
    let climate: Vec<Zonal> = run
        .grid
        .lat_deg()
        .iter()
        .map(|&lat| zonal(lat, season, scenario.warming_k, scenario.moisture))
        .collect();
    let lows: Vec<Low> = run
        .catalogue
        .extratropical
        .iter()
        .filter_map(|storm| Low::new(storm, hours))
        .collect();
    let mut boxes = Vec::new();
    let mass = mass(run, hours, &climate, &lows);
    let mut planes = Planes::new(run, time, &climate, &mass);
    let mut truth = TruthBuilder::new(run);
    for low in &lows {
        if let Some(axis) = &low.river {
            truth.river(low, &planes.add_river(axis, &run.grid));
        }
        boxes.extend(low.truth_box());
    }
    for storm in &run.catalogue.tropical {
        let Some(state) = storm.at(hours).filter(|state| state.deficit_pa > 100.0) else {
            continue;
        };
        let vortex = Vortex::new(storm, state, run.grid.spacing_km());
        let seen = planes.add_vortex(&vortex, &run.grid, scenario.cyclone_rain);
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

/// Pressure, temperature and moisture of everything but tropical cyclones and rivers, and the height of 850 hPa.
fn mass(run: &SyntheticRun, hours: f64, climate: &[Zonal], lows: &[Low]) -> Mass {
    let grid = &*run.grid;
    let (_, columns) = grid.shape();
    let plane = || Array2::<f32>::zeros(grid.shape());
    let (mut psl, mut warm, mut z850, mut moist) = (plane(), plane(), plane(), plane());
    let rows = psl
        .axis_iter_mut(Dimension(0))
        .into_par_iter()
        .zip(warm.axis_iter_mut(Dimension(0)))
        .zip(z850.axis_iter_mut(Dimension(0)))
        .zip(moist.axis_iter_mut(Dimension(0)));
    rows.enumerate()
        .for_each(|(j, (((mut psl, mut warm), mut z850), mut moist))| {
            let lat = grid.lat_deg()[j];
            let noise: Noise = run.waves.row(lat, hours, columns);
            let zonal = &climate[j];
            // Waves are a matter of the middle latitudes: weak at the equator and at the poles.
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

/// Every field but those that follow from others at the end.
struct Planes {
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

/// Cells that a storm touches, with what decides the truth there.
type Touched = Vec<((usize, usize), f64)>;

impl Planes {
    fn new(run: &SyntheticRun, time: Time, climate: &[Zonal], mass: &Mass) -> Self {
        let grid = &*run.grid;
        let (rows, columns) = grid.shape();
        let plane = || Array2::<f32>::zeros((rows, columns));
        let (mut u850, mut v850, mut ubot, mut vbot) = (plane(), plane(), plane(), plane());
        let dlat = grid.lat_spacing_deg() * KM_PER_DEGREE * 1000.0;
        let dlon = grid.lon_spacing_deg() * KM_PER_DEGREE * 1000.0;
        let moisture = run.config.scenario.moisture;
        let winds = u850
            .axis_iter_mut(Dimension(0))
            .into_par_iter()
            .zip(v850.axis_iter_mut(Dimension(0)))
            .zip(ubot.axis_iter_mut(Dimension(0)))
            .zip(vbot.axis_iter_mut(Dimension(0)));
        winds
            .enumerate()
            .for_each(|(j, (((mut u850, mut v850), mut ubot), mut vbot))| {
                let lat = grid.lat_deg()[j];
                // Geostrophy fails at the equator: f is held at its value of 12 degrees and the balance fades out.
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
                    // Friction turns the lowest wind 20 degrees towards low pressure and slows it down.
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
        let mut tmq = plane();
        Zip::indexed(&mut tmq)
            .and(&mass.moist)
            .and(&mass.warm)
            .par_for_each(|(j, i), tmq, &moist, &warm| {
                let lat = grid.lat_deg()[j];
                // Warm and moist go together, and moisture comes from the tropics with poleward wind.
                let poleward = f64::from(v850[[j, i]]) * lat.signum() * (lat.abs() / 30.0).min(1.0);
                let swing = 0.2 * f64::from(moist) + 0.02 * f64::from(warm) + 0.012 * poleward;
                let ceiling = moisture * (6.0 + 52.0 * (-(lat / 38.0).powi(2)).exp());
                *tmq =
                    (climate[j].tmq * (1.0 + swing.clamp(-0.55, 0.7))).clamp(0.4, ceiling) as f32;
            });
        let mut rain = plane();
        Zip::indexed(&mut rain)
            .and(&mass.moist)
            .par_for_each(|(j, _), rain, &moist| {
                *rain = (climate[j].rain * (f64::from(moist) * 1.6).exp()).min(2e-6) as f32;
            });
        let level = |base: &dyn Fn(&Zonal) -> f64, factor: f32| {
            Array2::from_shape_fn((rows, columns), |(j, i)| {
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

    fn add_river(&mut self, axis: &Axis, grid: &LatLonGrid) -> Touched {
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

    fn add_vortex(&mut self, vortex: &Vortex, grid: &LatLonGrid, rain: f64) -> Touched {
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
                // Cyclonic: anticlockwise in the north. Moving storms are stronger on one side.
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
                // The calm eye belongs to the storm.
                if wind >= TRUE_WIND || gale && r <= vortex.rmw_km() {
                    touched.push((at, wind));
                }
            }
        }
        touched
    }

    /// Fields that follow from the others, and all of them in channel order.
    fn finish(self, run: &SyntheticRun) -> Array3<f32> {
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
        let mut take = |variable: Variable| std::mem::take(&mut channels[plane(variable)]);
        let outputs = (
            take(Variable::Ps),
            take(Variable::Qrefht),
            take(Variable::Ts),
            take(Variable::Trefht),
        );
        let heights = (
            take(Variable::Z1000),
            take(Variable::Z200),
            take(Variable::Zbot),
        );
        let rows_of = (outputs.0.par_chunks_mut(columns))
            .zip(outputs.1.par_chunks_mut(columns))
            .zip(outputs.2.par_chunks_mut(columns))
            .zip(outputs.3.par_chunks_mut(columns))
            .zip(heights.0.par_chunks_mut(columns))
            .zip(heights.1.par_chunks_mut(columns))
            .zip(heights.2.par_chunks_mut(columns));
        rows_of
            .enumerate()
            .for_each(|(j, ((((((ps, q), ts), tref), z1000), z200), zbot))| {
                for i in 0..columns {
                    let at = [j, i];
                    let (height, land) =
                        (f64::from(terrain.height[at]), f64::from(terrain.land[at]));
                    let psl = f64::from(self.psl[at]);
                    let sea_level = f64::from(self.sea_level_k[at]);
                    let sun = f64::from(self.diurnal[i]) * lat[j].to_radians().cos();
                    let air = sea_level - LAPSE * height + sun * (0.4 + 3.6 * land);
                    let pressure =
                        psl * (1.0 - LAPSE * height / sea_level).powf(GRAVITY / (GAS * LAPSE));
                    // Bolton 1980: saturation vapour pressure over water.
                    let celsius = air - 273.15;
                    let saturation = 611.2 * (17.67 * celsius / (celsius + 243.5)).exp();
                    let dry = ((lat[j].abs() - 25.0) / 12.0).powi(2);
                    let humidity =
                        (0.82 - 0.16 * (-dry).exp() - 0.2 * land * (-dry).exp()).min(0.95);
                    ps[i] = pressure as f32;
                    q[i] = (0.622 * humidity * saturation
                        / (pressure - 0.378 * humidity * saturation))
                        as f32;
                    tref[i] = air as f32;
                    ts[i] = (air + 0.6 + sun * 2.5 * land) as f32;
                    // Hydrostatic: below and above sea level alike.
                    let low = GAS * sea_level / GRAVITY * (psl / 100_000.0).ln();
                    let mean = 0.30 * sea_level
                        + 0.45 * f64::from(self.t500[at])
                        + 0.25 * f64::from(self.t200[at]);
                    z1000[i] = low as f32;
                    z200[i] = (low + GAS * mean / GRAVITY * 5f64.ln()) as f32;
                    zbot[i] = (62.0 * air / 288.0) as f32;
                }
            });
        fields
    }
}

struct TruthBuilder<'a> {
    run: &'a SyntheticRun,
    codes: Array2<u8>,
    objects: Vec<TruthObject>,
}

impl<'a> TruthBuilder<'a> {
    fn new(run: &'a SyntheticRun) -> Self {
        Self {
            run,
            codes: Array2::zeros(run.grid.shape()),
            objects: Vec::new(),
        }
    }

    fn river(&mut self, low: &Low, touched: &Touched) {
        let cells: Vec<(usize, usize)> = touched
            .iter()
            .filter(|(_, share)| *share >= TRUE_SHARE)
            .map(|(at, _)| *at)
            .collect();
        let centre = touched
            .iter()
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .map(|(at, _)| *at);
        if let Some((j, i)) = centre {
            let place = (self.run.grid.lat_deg()[j], self.run.grid.lon_deg()[i]);
            self.object(Class::AtmosphericRiver, low.id, place, &cells, None);
        }
    }

    fn cyclone(&mut self, id: u64, vortex: &Vortex, touched: &Touched) {
        let cells: Vec<(usize, usize)> = touched.iter().map(|(at, _)| *at).collect();
        let wind = touched.iter().map(|(_, wind)| *wind).fold(0.0, f64::max);
        let place = (vortex.state.lat, vortex.state.lon);
        self.object(Class::TropicalCyclone, id, place, &cells, Some(wind));
    }

    /// Marks the cells and lists the object. Cyclones come after rivers and stand above them.
    fn object(
        &mut self,
        class: Class,
        track_id: u64,
        (lat, lon): (f64, f64),
        cells: &[(usize, usize)],
        wind: Option<f64>,
    ) {
        if cells.is_empty() {
            return;
        }
        let grid = &self.run.grid;
        let area_km2 = cells.iter().map(|&(j, _)| grid.cell_area_km2(j)).sum();
        cells.iter().for_each(|&at| self.codes[at] = class.code());
        let rows = cells.iter().map(|&(j, _)| grid.lat_deg()[j]);
        let east = |&(_, i): &(usize, usize)| lon_difference_deg(grid.lon_deg()[i], lon);
        let half = (grid.lat_spacing_deg() / 2.0, grid.lon_spacing_deg() / 2.0);
        let fold = |values: &mut dyn Iterator<Item = f64>| {
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| {
                (low.min(v), high.max(v))
            })
        };
        let (south, north) = fold(&mut rows.into_iter());
        let (west, east) = fold(&mut cells.iter().map(east));
        self.objects.push(TruthObject {
            class,
            track_id,
            lat_deg: lat,
            lon_deg: lon,
            area_km2,
            west_deg: (lon + west - half.1).rem_euclid(360.0),
            east_deg: (lon + east + half.1).rem_euclid(360.0),
            south_deg: (south - half.0).max(-90.0),
            north_deg: (north + half.0).min(90.0),
            max_wind_m_s: wind,
        });
    }
}
