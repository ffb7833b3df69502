//! Pass one: the candidates of tropical cyclones at one time.

use super::sampling::{Low, lowest_near, rises_all_around};
use super::thresholds::TcThresholds;
use super::vortex_wind::vortex_wind_m_s;
use crate::derived::relative_vorticity;
use crate::error::{ClimateError, Result};
use ndarray::{Array2, ArrayView2};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use squall_data::{LatLonGrid, Snapshot, Variable};
use std::cmp::Ordering;
use std::ops::Range;

/// A vorticity maximum with a closed low of sea-level pressure at one time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CycloneCandidate {
    /// Latitude of the pressure minimum, to a fraction of a cell.
    pub lat_deg: f64,
    /// Longitude of the pressure minimum, [0, 360).
    pub lon_deg: f64,
    /// The pressure there, Pa.
    pub min_psl_pa: f64,
    /// Vorticity at 850 hPa, positive if cyclonic, s-1.
    pub vorticity_per_s: f64,
    /// Highest lowest-level wind in the window around the vorticity maximum, m s-1.
    pub max_wind_m_s: f64,
    /// Whether it has a warm core.
    pub warm_core: bool,
    /// Whether the thickness has a maximum there.
    pub thick_core: bool,
    /// Highest temperature near the centre (mean of 200 and 500 hPa), K.
    pub core_temperature_k: Option<f64>,
    /// Greatest thickness from 1000 to 200 hPa near the centre, m.
    pub core_thickness_m: Option<f64>,
    /// Its track; `None` before tracking, and where the input is too short to track.
    pub track_id: Option<u64>,
}

impl CycloneCandidate {
    /// Whether it meets the criteria of a storm at this time: wind, warm core and thickness.
    pub fn is_storm(&self, min_wind_m_s: f64) -> bool {
        self.max_wind_m_s >= min_wind_m_s && self.warm_core && self.thick_core
    }
}

/// The fields of the cyclone criteria.
pub(super) struct CycloneFields<'a> {
    grid: &'a LatLonGrid,
    vorticity: Array2<f32>,
    psl: ArrayView2<'a, f32>,
    wind: [ArrayView2<'a, f32>; 2],
    core: CoreFields<'a>,
}

/// The fields that describe the core of a cyclone.
pub(crate) struct CoreFields<'a> {
    grid: &'a LatLonGrid,
    /// T200 and T500.
    temperature: [ArrayView2<'a, f32>; 2],
    /// Z200 and Z1000.
    height: [ArrayView2<'a, f32>; 2],
}

/// The fields of these variables in a snapshot; `algorithm` names the caller in the error.
///
/// # Errors
/// [`ClimateError::MissingField`] with all missing variables.
pub(crate) fn planes<'a, const N: usize>(
    snapshot: &'a Snapshot,
    algorithm: &'static str,
    variables: [Variable; N],
) -> Result<[ArrayView2<'a, f32>; N]> {
    let found = variables.map(|v| snapshot.field(v).ok_or(v));
    let missing: Vec<Variable> = found
        .iter()
        .filter_map(|f| f.as_ref().err().copied())
        .collect();
    if missing.is_empty() {
        let found: Vec<ArrayView2<'a, f32>> = found.into_iter().flatten().collect();
        if let Ok(planes) = found.try_into() {
            return Ok(planes);
        }
    }
    let (path, index) = &snapshot.source;
    Err(ClimateError::MissingField {
        algorithm,
        missing,
        place: format!("`{}`, time {index} ({})", path.display(), snapshot.time),
    })
}

impl<'a> CycloneFields<'a> {
    /// # Errors
    /// [`ClimateError::MissingField`] if the snapshot lacks a field.
    pub(super) fn from_snapshot(snapshot: &'a Snapshot) -> Result<Self> {
        use Variable::{Psl, T200, T500, U850, Ubot, V850, Vbot, Z200, Z1000};
        let needed = [U850, V850, Psl, Ubot, Vbot, T200, T500, Z200, Z1000];
        let [u850, v850, psl, u, v, t200, t500, z200, z1000] =
            planes(snapshot, "the tropical cyclone labels", needed)?;
        Ok(Self {
            grid: &snapshot.grid,
            vorticity: relative_vorticity(u850, v850, &snapshot.grid)?,
            psl,
            wind: [u, v],
            core: CoreFields {
                grid: &snapshot.grid,
                temperature: [t200, t500],
                height: [z200, z1000],
            },
        })
    }

    /// Candidates from south to north, then by longitude.
    ///
    /// Each low appears once, with the strongest of the vorticity maxima near it. (TECA lists it with each of them: its
    /// window is slightly narrower than twice the maximum distance of a low, and holds few cells on coarse grids.)
    ///
    /// Vorticity includes the term of the converging meridians, u tan(lat) / R, which `teca_vorticity` leaves out: it
    /// adds 6e-6 s-1 to a westerly wind of 40 m/s at 45 degrees.
    pub(super) fn candidates(&self, thresholds: &TcThresholds) -> Vec<CycloneCandidate> {
        // As in TECA: the same number of cells on either side of the middle one, in both directions.
        let window = thresholds.vorticity_window_deg / self.grid.lat_spacing_deg();
        let window = (((window - 1.0) / 2.0 + 1e-6) as isize).max(1);
        let mut found: Vec<CycloneCandidate> = (0..self.grid.shape().0)
            .into_par_iter()
            .flat_map_iter(|j| self.vorticity_peaks(thresholds, j, window))
            .filter_map(|(j, i)| {
                let peak = (self.grid.lat_deg()[j], self.grid.lon_deg()[i]);
                let low = self.closed_low(thresholds, peak)?;
                Some(self.describe(thresholds, (j, i), window, low))
            })
            .collect();
        found.sort_by(|a, b| {
            let north = a.lat_deg.total_cmp(&b.lat_deg);
            north.then(a.lon_deg.total_cmp(&b.lon_deg))
        });
        found.dedup_by(|next, kept| {
            let is_same = (next.lat_deg, next.lon_deg) == (kept.lat_deg, kept.lon_deg);
            if is_same && next.vorticity_per_s > kept.vorticity_per_s {
                *kept = *next;
            }
            is_same
        });
        found
    }

    /// The sign of cyclonic vorticity in the hemisphere of row `j`.
    fn sign(&self, j: usize) -> f32 {
        if self.grid.lat_deg()[j] < 0.0 {
            -1.0
        } else {
            1.0
        }
    }

    /// The cells of a row that reach the threshold and that no cell of their window exceeds. Ties go to the
    /// south-westernmost.
    fn vorticity_peaks(
        &self,
        thresholds: &TcThresholds,
        j: usize,
        window: isize,
    ) -> Vec<(usize, usize)> {
        if self.grid.lat_deg()[j].abs() > thresholds.max_latitude_deg {
            return Vec::new();
        }
        let (sign, low) = (self.sign(j), thresholds.min_vorticity_per_s as f32);
        let row = self.vorticity.row(j);
        let above = row
            .iter()
            .enumerate()
            .filter(|(_, value)| sign * **value >= low);
        // The neighbours alone rule out most cells, so they are checked before the whole window.
        let peaks = above.filter(|(i, _)| {
            self.is_peak(j, *i, 1) && (window == 1 || self.is_peak(j, *i, window))
        });
        peaks.map(|(i, _)| (j, i)).collect()
    }

    fn is_peak(&self, j: usize, i: usize, half: isize) -> bool {
        let here = self.sign(j) * self.vorticity[[j, i]];
        let rows = self.grid.shape().0 as isize;
        let (middle, i) = (j as isize, i as isize);
        let wide = self.half_width(half);
        ((middle - half).max(0)..=(middle + half).min(rows - 1)).all(|row| {
            let row_index = row as usize;
            match row.cmp(&middle) {
                Ordering::Less => !self.rival(row_index, i - wide..i + wide + 1, here, true),
                Ordering::Greater => !self.rival(row_index, i - wide..i + wide + 1, here, false),
                Ordering::Equal => {
                    !self.rival(row_index, i - wide..i, here, true)
                        && !self.rival(row_index, i + 1..i + wide + 1, here, false)
                }
            }
        })
    }

    /// Whether a range of columns in a row holds a value above `here`, or equal to it if `or_equal`. The range wraps on
    /// periodic grids; NaN never counts.
    fn rival(&self, j: usize, columns: Range<isize>, here: f32, or_equal: bool) -> bool {
        let count = self.grid.shape().1 as isize;
        let (sign, row) = (self.sign(j), self.vorticity.row(j));
        let Some(row) = row.as_slice() else {
            return false;
        };
        let exceeds = |from: isize, to: isize| {
            let part = &row[from.clamp(0, count) as usize..to.clamp(0, count) as usize];
            part.iter()
                .any(|&v| sign * v > here || (or_equal && sign * v == here))
        };
        exceeds(columns.start, columns.end)
            || (self.grid.is_periodic()
                && (columns.start < 0 && exceeds(columns.start + count, count)
                    || columns.end > count && exceeds(0, columns.end - count)))
    }

    /// Columns on either side of a window's middle: at most half the circle.
    fn half_width(&self, half: isize) -> isize {
        half.min((self.grid.shape().1 as isize - 1) / 2)
    }

    /// The cells of the window around a cell: cut off at the poles, wrapping in longitude if the grid does.
    fn window(&self, j: usize, i: usize, half: isize) -> impl Iterator<Item = (usize, usize)> + '_ {
        let rows = self.grid.shape().0;
        let (j, wide) = (j as isize, self.half_width(half));
        let south = (-half).max(-j);
        let north = half.min(rows as isize - 1 - j);
        (south..=north).flat_map(move |dj| {
            (-wide..=wide).filter_map(move |di| {
                let column = self.grid.column(i, di)?;
                Some(((j + dj) as usize, column))
            })
        })
    }

    fn closed_low(&self, thresholds: &TcThresholds, peak: (f64, f64)) -> Option<Low> {
        let psl = |j: usize, i: usize| f64::from(self.psl[[j, i]]);
        let low = lowest_near(self.grid, &psl, peak, thresholds.max_core_radius_deg)?;
        let closed = low.value >= thresholds.min_credible_pressure_pa
            && rises_all_around(
                self.grid,
                &psl,
                low,
                thresholds.pressure_rise_pa,
                thresholds.pressure_radius_deg,
            );
        closed.then_some(low)
    }

    fn describe(
        &self,
        thresholds: &TcThresholds,
        (j, i): (usize, usize),
        window: isize,
        low: Low,
    ) -> CycloneCandidate {
        let [u, v] = &self.wind;
        let max_wind_m_s = self
            .window(j, i, window)
            .map(|(a, b)| f64::from(u[[a, b]]).hypot(f64::from(v[[a, b]])))
            .filter(|speed| speed.is_finite())
            .fold(0.0, f64::max);
        let centre = (low.lat_deg, low.lon_deg);
        let [
            (core_temperature_k, warm_core),
            (core_thickness_m, thick_core),
        ] = self.core.cores(thresholds, centre);
        CycloneCandidate {
            lat_deg: low.lat_deg,
            lon_deg: low.lon_deg,
            min_psl_pa: low.value,
            vorticity_per_s: f64::from(self.sign(j) * self.vorticity[[j, i]]),
            max_wind_m_s,
            warm_core,
            thick_core,
            core_temperature_k,
            core_thickness_m,
            track_id: None,
        }
    }

    /// The fields of the core.
    pub(super) fn core(&self) -> &CoreFields<'a> {
        &self.core
    }

    /// Lowest-level wind of the vortex around a centre, m s-1.
    pub(super) fn vortex_wind_m_s(&self, centre: (f64, f64)) -> f64 {
        vortex_wind_m_s(self.grid, self.wind, centre)
    }

    /// The grid.
    pub(super) fn grid(&self) -> &'a LatLonGrid {
        self.grid
    }

    /// Sea-level pressure, Pa.
    pub(super) fn sea_level_pressure(&self) -> ArrayView2<'a, f32> {
        self.psl
    }
}

impl<'a> CoreFields<'a> {
    /// The core fields of a snapshot; `None` if one is missing.
    pub(crate) fn from_snapshot(snapshot: &'a Snapshot) -> Option<Self> {
        use Variable::{T200, T500, Z200, Z1000};
        Some(Self {
            grid: &snapshot.grid,
            temperature: [snapshot.field(T200)?, snapshot.field(T500)?],
            height: [snapshot.field(Z200)?, snapshot.field(Z1000)?],
        })
    }

    /// Whether the core is warm: both temperature and thickness fall off on all sides of a maximum near the centre.
    pub(crate) fn is_warm(&self, thresholds: &TcThresholds, centre: (f64, f64)) -> bool {
        self.cores(thresholds, centre)
            .iter()
            .all(|(_, falls_off)| *falls_off)
    }

    /// The highest upper-level temperature and the greatest thickness near a centre, and whether each falls off on all
    /// sides. Both searches start at the centre; TECA starts the one for thickness at the temperature maximum.
    ///
    /// # Source
    /// GFDL TSTORMS / TECA `teca_tc_candidates`: "mean temperature between 200mb and 500mb for warm core layer". The
    /// thickness from 1000 to 200 hPa is proportional to the layer's mean virtual temperature.
    fn cores(&self, thresholds: &TcThresholds, centre: (f64, f64)) -> [(Option<f64>, bool); 2] {
        // A maximum is found as the minimum of the negated field.
        let [t200, t500] = &self.temperature;
        let cold = |j: usize, i: usize| -0.5 * (f64::from(t200[[j, i]]) + f64::from(t500[[j, i]]));
        let [z200, z1000] = &self.height;
        let thin = |j: usize, i: usize| f64::from(z1000[[j, i]]) - f64::from(z200[[j, i]]);
        let core = |field: &dyn Fn(usize, usize) -> f64, fall: f64, radius_deg: f64| {
            let top = lowest_near(self.grid, &field, centre, thresholds.max_core_radius_deg);
            let falls_off =
                top.is_some_and(|top| rises_all_around(self.grid, &field, top, fall, radius_deg));
            (top.map(|top| -top.value), falls_off)
        };
        [
            core(
                &cold,
                thresholds.warm_core_fall_k,
                thresholds.warm_core_radius_deg,
            ),
            core(
                &thin,
                thresholds.thickness_fall_m,
                thresholds.thickness_radius_deg,
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both maxima had a candidate there, and the storm two tracks.
    #[test]
    fn a_low_between_two_vorticity_maxima_is_one_candidate() {
        let grid = LatLonGrid::global(73, 144).unwrap();
        let thresholds = TcThresholds::default().adapted_to(&grid);
        // A low at 15N 200E, and the maxima in the cells west and east of it.
        let (row, column) = (42, 80);
        let psl = Array2::from_shape_fn(grid.shape(), |(j, i)| {
            let (north, east) = (grid.lat_deg()[j] - 15.0, grid.lon_deg()[i] - 200.0);
            let deficit = 3000.0 * (-(north.powi(2) + east.powi(2)) / 16.0).exp();
            (101_000.0 - deficit) as f32
        });
        let level = Array2::<f32>::zeros(grid.shape());
        let mut vorticity = level.clone();
        for (i, value) in [(column - 1, 2e-4), (column + 1, 3e-4)] {
            vorticity[[row, i]] = value;
        }
        let fields = CycloneFields {
            grid: &grid,
            vorticity,
            psl: psl.view(),
            wind: [level.view(), level.view()],
            core: CoreFields {
                grid: &grid,
                temperature: [level.view(), level.view()],
                height: [level.view(), level.view()],
            },
        };
        let found = fields.candidates(&thresholds);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            (found[0].lat_deg - 15.0).abs() < 0.1 && (found[0].lon_deg - 200.0).abs() < 0.1,
            "{found:?}"
        );
        assert!((found[0].vorticity_per_s - 3e-4).abs() < 1e-9, "{found:?}");
    }
}
