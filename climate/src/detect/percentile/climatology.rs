//! The climatology: histograms of transport or column water per month and block of cells, in constant memory.

use super::thresholds::PercentileThresholds;
use crate::derived::check_extents;
use crate::error::{ClimateError, Result};
use ndarray::{Array2, ArrayView2};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use squall_data::LatLonGrid;
use std::ops::Range;

/// Bins above the floor: each 5.5 % wider than the one below, covering a factor of 30.
const BINS: usize = 64;
const RANGE: f64 = 30.0;
/// One slot below the floor, the bins, one slot above them.
const SLOTS: usize = BINS + 2;

/// Histograms of transport per month and block of cells.
///
/// One slot counts everything below the floor (where the percentile does not matter), 64 bins of equal ratio reach up
/// to 30 times the floor, one slot counts everything above. Percentiles are interpolated within their bin. The error is
/// less than the bin's 5.5 %, and less than half of it unless a block holds almost only a single value. The memory is
/// at most 12 · 264 bytes per block ([`Self::max_bytes`]): 206 MB for blocks of one degree. Between grid spacings of
/// half a degree and one degree, a block is a single cell; on MERRA-2's grid of 0.5 x 0.625 degrees it is two cells,
/// and the memory 330 MB.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TransportClimatology {
    /// Rows and columns of the grid.
    shape: (usize, usize),
    /// Rows and columns of a block, in cells.
    block: (usize, usize),
    floor: f64,
    /// Per month that has times: `[block row][block column][slot]`.
    counts: [Vec<u32>; 12],
    times: [u32; 12],
}

impl TransportClimatology {
    /// An empty climatology.
    pub fn new(thresholds: &PercentileThresholds, grid: &LatLonGrid) -> Self {
        let cells =
            |spacing: f64| ((thresholds.climatology_spacing_deg / spacing + 1e-6) as usize).max(1);
        let block = (
            cells(grid.lat_spacing_deg()),
            cells(grid.lon_spacing_deg()).min(grid.shape().1),
        );
        Self {
            shape: grid.shape(),
            block,
            floor: thresholds.floor(),
            counts: Default::default(),
            times: [0; 12],
        }
    }

    /// Number of block rows and block columns.
    fn blocks(&self) -> (usize, usize) {
        let (rows, columns) = self.shape;
        (rows.div_ceil(self.block.0), columns.div_ceil(self.block.1))
    }

    /// Memory once all months have times, bytes.
    pub fn max_bytes(&self) -> u64 {
        let (rows, columns) = self.blocks();
        let months = self.counts.len();
        (months * rows * columns * SLOTS * size_of::<u32>()) as u64
    }

    /// Rejects a number of times per month that could overflow the counts of a block.
    ///
    /// # Errors
    /// [`ClimateError::Invalid`].
    pub(super) fn check_room(&self, times: u32) -> Result<()> {
        let cells = (self.block.0.min(self.shape.0) * self.block.1) as u64;
        if u64::from(times).saturating_mul(cells) <= u64::from(u32::MAX) {
            return Ok(());
        }
        Err(ClimateError::Invalid(format!(
            "percentile thresholds: climatology_spacing_deg: expected blocks of at most {} cells for the {times} times \
             of a month, found {cells}",
            u32::MAX / times
        )))
    }

    /// Counts one time of a month (1 to 12). Missing values are skipped.
    ///
    /// # Errors
    /// [`ClimateError::Mismatch`] if the field does not have the grid's shape, [`ClimateError::Invalid`] if there is no
    /// such month, or its counts could overflow.
    pub fn add(&mut self, month: u8, moisture: ArrayView2<'_, f32>) -> Result<()> {
        check_extents("vapour transport or column water", &moisture, self.shape)?;
        let index = month_index(month)?;
        self.check_room(self.times[index].saturating_add(1))?;
        let (block_rows, block_columns) = self.blocks();
        let counts = &mut self.counts[index];
        counts.resize(block_rows * block_columns * SLOTS, 0);
        self.times[index] += 1;
        let (height, width) = self.block;
        let floor = self.floor as f32;
        let per_unit = (BINS as f64 / RANGE.ln()) as f32;
        counts
            .par_chunks_mut(block_columns * SLOTS)
            .enumerate()
            .for_each(|(block_row, counts)| {
                let last = ((block_row + 1) * height).min(moisture.nrows());
                for j in block_row * height..last {
                    for (i, &value) in moisture.row(j).iter().enumerate() {
                        if value.is_nan() {
                            continue;
                        }
                        let slot = if value < floor {
                            0
                        } else {
                            1 + (((value / floor).ln() * per_unit) as usize).min(BINS)
                        };
                        counts[i / width * SLOTS + slot] += 1;
                    }
                }
            });
        Ok(())
    }

    /// The thresholds of every month that has times, in the unit of the moisture: the percentile over the surrounding
    /// months, but at least the floor.
    ///
    /// # Errors
    /// [`ClimateError::FewTimes`] if a season has too few times.
    pub fn thresholds(&self, thresholds: &PercentileThresholds) -> Result<MonthlyThresholds> {
        let mut planes: [Option<Array2<f32>>; 12] = Default::default();
        for (month, plane) in planes.iter_mut().enumerate() {
            if self.times[month] == 0 {
                continue;
            }
            check_season(&self.times, month, thresholds)?;
            let season: Vec<usize> = season(month, thresholds)
                .filter(|&m| !self.counts[m].is_empty())
                .collect();
            let (block_rows, block_columns) = self.blocks();
            let share = thresholds.percentile / 100.0;
            let values: Vec<f32> = (0..block_rows * block_columns)
                .into_par_iter()
                .with_min_len(1024)
                .map(|block| self.percentile(&season, block * SLOTS..(block + 1) * SLOTS, share))
                .collect();
            *plane = Array2::from_shape_vec((block_rows, block_columns), values).ok();
        }
        Ok(MonthlyThresholds {
            planes,
            block: self.block,
            times: self.times,
        })
    }

    fn percentile(&self, season: &[usize], slots: Range<usize>, share: f64) -> f32 {
        let mut counts = [0u64; SLOTS];
        for &month in season {
            for (sum, &count) in counts.iter_mut().zip(&self.counts[month][slots.clone()]) {
                *sum += u64::from(count);
            }
        }
        let wanted = counts.iter().sum::<u64>() as f64 * share;
        let mut below = 0.0;
        for (slot, &count) in counts.iter().enumerate() {
            let count = count as f64;
            if below + count >= wanted && count > 0.0 {
                if slot == 0 {
                    return self.floor as f32;
                }
                // Geometric interpolation within the bin; the last slot has no upper bound.
                let part = if slot > BINS {
                    0.0
                } else {
                    (wanted - below) / count
                };
                let place = (slot - 1) as f64 + part;
                return (self.floor * RANGE.powf(place / BINS as f64)) as f32;
            }
            below += count;
        }
        // All values are missing.
        f32::INFINITY
    }
}

/// The number of times per month, given the months of all times (1 to 12). Rejects a series in which a season has too
/// few times.
///
/// # Errors
/// [`ClimateError::FewTimes`], and [`ClimateError::Invalid`] if there is no such month.
pub(super) fn check_months(
    months: impl Iterator<Item = u8>,
    thresholds: &PercentileThresholds,
) -> Result<[u32; 12]> {
    let mut times = [0; 12];
    for month in months {
        times[month_index(month)?] += 1;
    }
    (0..12)
        .filter(|&month| times[month] > 0)
        .try_for_each(|month| check_season(&times, month, thresholds))?;
    Ok(times)
}

/// Rejects the season around a month (0 to 11) if it has too few times.
fn check_season(times: &[u32; 12], month: usize, thresholds: &PercentileThresholds) -> Result<()> {
    let found: u32 = season(month, thresholds).map(|m| times[m]).sum();
    if found >= thresholds.min_times {
        return Ok(());
    }
    Err(ClimateError::FewTimes {
        month: month + 1,
        found,
        least: thresholds.min_times,
        reach: thresholds.window_months,
    })
}

/// The months that contribute to a month's percentiles, all 0 to 11.
fn season(month: usize, thresholds: &PercentileThresholds) -> impl Iterator<Item = usize> + use<> {
    let reach = thresholds.window_months;
    (12 + month - reach..=12 + month + reach).map(|m| m % 12)
}

/// Thresholds of moisture per month and block of cells.
#[derive(Debug, Clone, PartialEq)]
pub struct MonthlyThresholds {
    pub(super) planes: [Option<Array2<f32>>; 12],
    /// Rows and columns of a block, in cells.
    pub(super) block: (usize, usize),
    /// Number of times per month.
    pub(super) times: [u32; 12],
}

impl MonthlyThresholds {
    /// The months with times (1 to 12) and the thresholds of their blocks.
    pub(super) fn months(&self) -> impl Iterator<Item = (u8, &Array2<f32>)> {
        (1..=12)
            .zip(&self.planes)
            .filter_map(|(month, plane)| Some((month, plane.as_ref()?)))
    }

    /// The threshold of a cell in a month (1 to 12), in the unit of the moisture; `None` for a month without times.
    pub fn at(&self, month: u8, (j, i): (usize, usize)) -> Option<f32> {
        let plane = self.planes[month_index(month).ok()?].as_ref()?;
        plane.get([j / self.block.0, i / self.block.1]).copied()
    }

    /// The thresholds of a row of cells, as a function of the column.
    pub(super) fn row(&self, month: u8, j: usize) -> Option<impl Fn(usize) -> f32 + '_> {
        let plane = self.planes[month_index(month).ok()?].as_ref()?;
        let width = self.block.1;
        let line = plane.row(j / self.block.0);
        Some(move |i: usize| line[i / width])
    }
}

fn month_index(month: u8) -> Result<usize> {
    if (1..=12).contains(&month) {
        return Ok(usize::from(month) - 1);
    }
    Err(ClimateError::Invalid(format!(
        "month: expected 1 to 12, found {month}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> LatLonGrid {
        LatLonGrid::global(37, 72).unwrap()
    }

    /// An exponential distribution of this mean, by its inverse.
    fn exponential(mean: f64, share: f64) -> f64 {
        -mean * (1.0 - share).ln()
    }

    #[test]
    fn percentiles_of_a_known_distribution_within_half_a_bin() {
        let grid = grid();
        let t = PercentileThresholds::default();
        let mut climatology = TransportClimatology::new(&t, &grid);
        let n = 400;
        for k in 0..n {
            // Every cell gets the whole distribution in another order; its mean grows from west to east.
            let plane = Array2::from_shape_fn(grid.shape(), |(j, i)| {
                let rank = (k * 37 + 11 * i + 5 * j) % n;
                exponential(20.0 + 5.0 * i as f64, (rank as f64 + 0.5) / n as f64) as f32
            });
            climatology.add(7, plane.view()).unwrap();
        }
        let found = climatology.thresholds(&t).unwrap();
        for i in 0..72 {
            let expected = exponential(20.0 + 5.0 * i as f64, 0.85).max(100.0);
            let value = f64::from(found.at(7, (18, i)).unwrap());
            assert!(
                (value / expected - 1.0).abs() < 0.027,
                "{i}: {value} for {expected}"
            );
        }
        assert_eq!(found.at(6, (18, 0)), None);
    }

    /// All values are equal, so their position within the bin is unknown.
    #[test]
    fn percentiles_of_one_value_are_off_by_less_than_a_bin() {
        let grid = grid();
        let t = PercentileThresholds {
            min_times: 1,
            ..PercentileThresholds::default()
        };
        let off = |k: i32| {
            let value = 105.0 * 1.013f64.powi(k);
            let mut climatology = TransportClimatology::new(&t, &grid);
            let plane = Array2::from_elem(grid.shape(), value as f32);
            climatology.add(7, plane.view()).unwrap();
            let found = climatology.thresholds(&t).unwrap().at(7, (18, 0)).unwrap();
            (f64::from(found) / value - 1.0).abs()
        };
        // From 105 to 2,686, about four values in each bin.
        let worst = (0..252).map(off).fold(0.0, f64::max);
        assert!(worst > 0.027 && worst < 0.0546, "{worst}");
    }

    #[test]
    fn seasons_are_five_months_and_the_year_is_round() {
        let grid = grid();
        let t = PercentileThresholds {
            min_times: 1,
            ..PercentileThresholds::default()
        };
        let mut climatology = TransportClimatology::new(&t, &grid);
        let uniform = |value: f32| Array2::from_elem(grid.shape(), value);
        // January calm, November wet: the 85th percentile of both together is wet.
        for _ in 0..10 {
            climatology.add(1, uniform(10.0).view()).unwrap();
            climatology.add(11, uniform(500.0).view()).unwrap();
            climatology.add(6, uniform(10.0).view()).unwrap();
        }
        let found = climatology.thresholds(&t).unwrap();
        let at = |month| f64::from(found.at(month, (3, 3)).unwrap());
        assert!((at(1) / 500.0 - 1.0).abs() < 0.06 && (at(11) / 500.0 - 1.0).abs() < 0.06);
        assert_eq!(at(6), 100.0);
        let strict = PercentileThresholds { min_times: 11, ..t };
        let error = climatology.thresholds(&strict).unwrap_err().to_string();
        assert!(
            error.contains("month 6") && error.contains("found 10"),
            "{error}"
        );
    }

    #[test]
    fn a_series_with_too_few_times_is_known_before_it_is_read() {
        let t = PercentileThresholds {
            min_times: 11,
            ..PercentileThresholds::default()
        };
        let check = |months: &[u8]| check_months(months.iter().copied(), &t);
        // November and January belong to one season; June is alone.
        assert!(check(&[1, 1, 1, 1, 11, 11, 11, 11, 12, 12, 12]).is_ok());
        let error = check(&[6]).unwrap_err().to_string();
        assert!(
            error.contains("month 6") && error.contains("found 1"),
            "{error}"
        );
        assert!(check(&[]).is_ok() && check(&[0]).is_err());
    }

    /// Counts used to overflow to 0, and percentiles with them.
    #[test]
    fn blocks_with_too_many_cells_to_count_are_refused() {
        let grid = grid();
        let t = PercentileThresholds {
            climatology_spacing_deg: 360.0,
            min_times: 1,
            ..PercentileThresholds::default()
        };
        let mut climatology = TransportClimatology::new(&t, &grid);
        assert_eq!(climatology.blocks(), (1, 1));
        // One block of 37 x 72 = 2,664 cells; a 32-bit count holds 1,612,224 times of it.
        assert!(climatology.check_room(1_612_224).is_ok());
        assert!(climatology.check_room(1_612_225).is_err());
        climatology.times[0] = 1_612_223;
        let plane = Array2::from_elem(grid.shape(), 10.0f32);
        climatology.add(1, plane.view()).unwrap();
        let error = climatology.add(1, plane.view()).unwrap_err().to_string();
        assert!(
            error.contains("at most 2663 cells") && error.contains("found 2664"),
            "{error}"
        );
        assert!(climatology.add(2, plane.view()).is_ok());
    }

    #[test]
    fn blocks_bound_memory() {
        let grid = LatLonGrid::global(181, 720).unwrap();
        let t = PercentileThresholds {
            min_times: 1,
            ..PercentileThresholds::default()
        };
        let plane = |k: usize| {
            Array2::from_shape_fn(grid.shape(), |(j, i)| {
                ((j * 7 + i * 3 + k * 131) % 900) as f32
            })
        };
        let mut whole = TransportClimatology::new(&t, &grid);
        whole.add(3, plane(0).view()).unwrap();
        assert_eq!((whole.block, whole.blocks()), ((1, 2), (181, 360)));
        assert_eq!(whole.counts[2].len(), 181 * 360 * SLOTS);
        assert_eq!(whole.max_bytes(), 181 * 360 * 12 * 264);
        // MERRA-2: two cells of half a degree, one of 0.625.
        let merra = TransportClimatology::new(&t, &LatLonGrid::global(361, 576).unwrap());
        assert_eq!((merra.block, merra.blocks()), ((2, 1), (181, 576)));
        assert_eq!(merra.max_bytes(), 330_283_008);
        assert!(whole.add(13, plane(0).view()).is_err());
    }
}
