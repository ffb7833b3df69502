//! A synthetic CAM5-like run: weather-like fields, and the truth about every storm in them.
//!
//! The storm catalogue (births, tracks, life cycles) depends only on the seed. The fields of any time are a pure
//! function of the catalogue, so that times can be computed in any order, in parallel, with the same bits.
//!
//! - `catalogue`: which tropical and extratropical cyclones live when and where;
//! - `base_state`: zonal-mean climate, season, terrain;
//! - `waves`: weather noise, the same travelling waves in pressure, temperature and moisture;
//! - `fields`: everything together, on `planes`: winds in geostrophic balance with pressure and temperature;
//! - `truth`, `truth_masks`, `truth_boxes`: what is there, as masks, objects and boxes;
//! - `cyclone`, `river`: a warm-core vortex in gradient-wind balance, a moist filament with its jet;
//! - `run`, `history`: all of it as files.

mod base_state;
mod catalogue;
mod cyclone;
mod fields;
mod history;
mod planes;
mod river;
mod run;
mod scenario;
mod truth;
mod truth_boxes;
mod truth_masks;
mod waves;

pub use catalogue::{ExtratropicalCyclone, TropicalCyclone};
pub use run::{RunSummary, STEPS_PER_FILE, times_there, write_run};
pub use scenario::Scenario;
pub use truth::{Truth, TruthBox, TruthObject};

use crate::error::{DataError, Result};
use crate::{LatLonGrid, Snapshot, Time};
use catalogue::Catalogue;
use std::sync::Arc;

/// Minimum and maximum of some numbers.
fn range_of(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    })
}

/// Settings of a synthetic run.
#[derive(Debug, Clone)]
pub struct SyntheticConfig {
    /// Number of latitudes.
    pub rows: usize,
    /// Number of longitudes.
    pub columns: usize,
    /// First time; its calendar applies to the run.
    pub start: Time,
    /// Hours between consecutive times.
    pub step_hours: u32,
    /// Number of times.
    pub steps: usize,
    /// The climate scenario.
    pub scenario: Scenario,
    /// Seed of all randomness.
    pub seed: u64,
}

/// A synthetic run, whose fields can be computed at any time.
#[derive(Debug)]
pub struct SyntheticRun {
    config: SyntheticConfig,
    grid: Arc<LatLonGrid>,
    catalogue: Catalogue,
    waves: waves::Waves,
    terrain: base_state::Terrain,
}

impl SyntheticRun {
    /// Draws the storms of a run.
    ///
    /// # Errors
    /// [`DataError::Invalid`] if there are no times, [`DataError::Grid`] if the grid is too small.
    pub fn new(config: SyntheticConfig) -> Result<Self> {
        if config.steps == 0 || !(1..=24).contains(&config.step_hours) {
            let reason = format!(
                "expected at least 1 time, 1 to 24 hours apart, found {} times, {} hours",
                config.steps, config.step_hours
            );
            return Err(DataError::Invalid(reason));
        }
        let grid = Arc::new(LatLonGrid::global(config.rows, config.columns)?);
        let days = f64::from(config.step_hours) * config.steps as f64 / 24.0;
        let catalogue = Catalogue::draw(config.seed, config.start, days, &config.scenario);
        let waves = waves::Waves::draw(config.seed, &grid);
        let terrain = base_state::Terrain::new(&grid);
        Ok(Self {
            config,
            grid,
            catalogue,
            waves,
            terrain,
        })
    }

    /// Its settings.
    pub fn config(&self) -> &SyntheticConfig {
        &self.config
    }

    /// The grid.
    pub fn grid(&self) -> &Arc<LatLonGrid> {
        &self.grid
    }

    /// Number of times.
    pub fn len(&self) -> usize {
        self.config.steps
    }

    /// Always false: a run has at least one time.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The time at an index.
    pub fn time(&self, index: usize) -> Time {
        self.config
            .start
            .add_seconds(index as i64 * i64::from(self.config.step_hours) * 3600)
    }

    /// Every tropical cyclone of the run.
    pub fn tropical_cyclones(&self) -> &[TropicalCyclone] {
        &self.catalogue.tropical
    }

    /// Every extratropical cyclone of the run, including their rivers.
    pub fn extratropical_cyclones(&self) -> &[ExtratropicalCyclone] {
        &self.catalogue.extratropical
    }

    /// The fields of a time and the truth about its storms.
    pub fn snapshot(&self, index: usize) -> (Snapshot, Truth) {
        fields::compute(self, self.time(index))
    }
}
