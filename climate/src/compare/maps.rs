//! Maps of change: density of genesis and frequency on cells of 5 degrees, by year, and their significance tests.

use crate::compare::CancelCheck;
use crate::compare::coverage::{Coverage, Selection, Years};
use crate::compare::design::Design;
use crate::compare::discovery::adjusted_p;
use crate::compare::side::{Ensemble, Side};
use crate::error::Result;
use crate::statistics::coarse::{COARSE_CELLS, COARSE_COLUMNS, coarse_cell, coarse_grid, on_grid};
use rayon::prelude::*;
use squall_data::archive::on_library_thread;
use squall_data::{Class, DataError};

/// Annual counts on coarse cells, for each class of [`Class::EVENTS`].
#[derive(Debug, Clone)]
pub(crate) struct YearMaps {
    /// Tracks begun, by year and class.
    genesis: Vec<[Vec<f32>; 2]>,
    /// Marked grid cells, summed over all times, by year and class; empty if not recorded.
    marked: Vec<[Vec<f32>; 2]>,
    /// Analysed times of each year.
    times: Vec<f64>,
    /// Grid cells in each coarse cell.
    grid_cells: Vec<f64>,
}

/// The quantity of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapQuantity {
    /// Tracks begun, per year and million km².
    GenesisDensity,
    /// Share of the analysed times at which a cell has the class.
    Frequency,
}

impl MapQuantity {
    /// All maps, in the order of files and sentences.
    pub const ALL: [Self; 2] = [Self::GenesisDensity, Self::Frequency];

    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::GenesisDensity => "genesis_density",
            Self::Frequency => "frequency",
        }
    }

    /// The unit in files.
    pub fn unit(self) -> &'static str {
        match self {
            Self::GenesisDensity => "year-1 (1e6 km2)-1",
            Self::Frequency => "1",
        }
    }

    /// The name in a sentence.
    pub fn subject(self, class: Class) -> &'static str {
        match (self, class) {
            (Self::GenesisDensity, Class::TropicalCyclone) => "density of tropical cyclone genesis",
            (Self::GenesisDensity, _) => "density of atmospheric river genesis",
            (Self::Frequency, Class::TropicalCyclone) => "frequency of tropical cyclones",
            (Self::Frequency, _) => "frequency of atmospheric rivers",
        }
    }
}

/// The change of a map: values by coarse cell, south to north, eastward from 0°E; NaN where unknown.
#[derive(Debug, Clone, PartialEq)]
pub struct MapChange {
    /// The quantity shown.
    pub quantity: MapQuantity,
    /// The class of the events shown.
    pub class: Class,
    /// The values of the first run, a.
    pub a: Vec<f64>,
    /// The values of the second run, b.
    pub b: Vec<f64>,
    /// The difference b - a.
    pub difference: Vec<f64>,
    /// Lower end of the interval of the difference.
    pub low: Vec<f64>,
    /// Upper end of the interval of the difference.
    pub high: Vec<f64>,
    /// p of each cell on its own; NaN if neither run has an event there.
    pub p: Vec<f64>,
    /// p adjusted for the number of cells.
    pub adjusted_p: Vec<f64>,
}

impl MapChange {
    /// Number of tested cells.
    pub fn tested(&self) -> usize {
        self.p.iter().filter(|p| !p.is_nan()).count()
    }

    /// Whether each cell's change is significant at a false discovery rate.
    pub fn significant(&self, rate: f64) -> impl Iterator<Item = bool> + '_ {
        self.adjusted_p.iter().map(move |p| *p < rate)
    }
}

/// Empty maps for a number of years.
fn empty(years: usize) -> Vec<[Vec<f32>; 2]> {
    vec![[vec![0.0; COARSE_CELLS], vec![0.0; COARSE_CELLS]]; years]
}

impl YearMaps {
    pub(crate) fn new(years: usize) -> Self {
        Self {
            genesis: empty(years),
            marked: Vec::new(),
            times: Vec::new(),
            grid_cells: Vec::new(),
        }
    }

    pub(crate) fn add_genesis(&mut self, year: usize, class: Class, lat_deg: f64, lon_deg: f64) {
        if let Some(class) = Class::EVENTS.iter().position(|c| *c == class) {
            self.genesis[year][class][coarse_cell(lat_deg, lon_deg)] += 1.0;
        }
    }

    /// Reads `marked_cells` of `statistics.nc` month by month. If it is absent, frequency stays unknown.
    pub(crate) fn read_occurrence(
        &mut self,
        run: &Coverage,
        years: &Years,
        selection: &Selection,
    ) -> Result<()> {
        let path = run.path.join("statistics.nc");
        if !run.counted {
            return Ok(());
        }
        let whole_year = |year: &i64| run.times(selection, *year, |_| true);
        let times: Vec<f64> = years.used.iter().map(whole_year).collect();
        type Counts = Option<(Vec<f64>, Vec<[Vec<f32>; 2]>)>;
        let read = || -> std::result::Result<Counts, netcdf::Error> {
            let file = netcdf::open(&path)?;
            let (Some(marked), Some(cells)) =
                (file.variable("marked_cells"), file.variable("grid_cells"))
            else {
                return Ok(None);
            };
            let column = |name: &str| match file.variable(name) {
                Some(variable) => variable.get_values::<f64, _>(..),
                None => Ok(Vec::new()),
            };
            let dates = column("year")?.into_iter().zip(column("month_of_year")?);
            let mut sums = empty(years.used.len());
            for (index, (year, month)) in dates.enumerate() {
                let (year, month) = (year as i64, month as i64);
                let found = (years.used).binary_search(&selection.year_of(year, month));
                let (Ok(place), true) = (found, selection.months.contains(&month)) else {
                    continue;
                };
                let counts: Vec<f32> = marked.get_values((index, .., .., ..))?;
                for (sum, part) in sums[place].iter_mut().zip(counts.chunks(COARSE_CELLS)) {
                    sum.iter_mut().zip(part).for_each(|(a, b)| *a += b);
                }
            }
            Ok(Some((cells.get_values(..)?, sums)))
        };
        let found = on_library_thread(read).map_err(|error| DataError::unreadable(&path, error))?;
        if let Some((cells, sums)) = found.filter(|(cells, _)| cells.len() == COARSE_CELLS) {
            (self.grid_cells, self.marked, self.times) = (cells, sums, times);
        }
        Ok(())
    }

    fn knows(&self, quantity: MapQuantity) -> bool {
        match quantity {
            MapQuantity::GenesisDensity => true,
            MapQuantity::Frequency => !self.grid_cells.is_empty(),
        }
    }
}

/// One side of a map: sums by cell and block, and their denominators.
struct SideMap<'a> {
    runs: Vec<RunMap<'a>>,
    /// Exposure of each block of all runs.
    exposure: Vec<f64>,
}

/// The contribution of a run.
struct RunMap<'a> {
    years: Vec<&'a [f32]>,
    blocks: &'a [usize],
    /// Exposure of each block.
    exposure: Vec<f64>,
    /// Factor from counts to the unit, by cell; 0 where unknown.
    factor: Vec<f64>,
}

impl<'a> RunMap<'a> {
    fn new(side: &'a Side, quantity: MapQuantity, class: usize, areas_km2: &[f64]) -> Self {
        let maps = &side.maps;
        // Outside a regional grid no tracks were searched for.
        let looked_at = side.coverage.grid.as_ref().map(on_grid);
        let is_known = |cell: usize| looked_at.as_ref().is_none_or(|on| on[cell]);
        let density = |(cell, km2): (usize, &f64)| {
            if is_known(cell) {
                1e6 / km2 * side.scale(None)
            } else {
                0.0
            }
        };
        let (years, factor): (&Vec<[Vec<f32>; 2]>, Vec<f64>) = match quantity {
            MapQuantity::GenesisDensity => (
                &maps.genesis,
                areas_km2.iter().enumerate().map(density).collect(),
            ),
            MapQuantity::Frequency => (
                &maps.marked,
                (maps.grid_cells.iter())
                    .map(|n| if *n > 0.0 { 1.0 / n } else { 0.0 })
                    .collect(),
            ),
        };
        let mut exposure = vec![0.0; side.blocks()];
        for (year, &block) in side.block_of_year().iter().enumerate() {
            exposure[block] += match quantity {
                MapQuantity::GenesisDensity => 1.0,
                MapQuantity::Frequency => maps.times[year],
            };
        }
        Self {
            years: years.iter().map(|year| year[class].as_slice()).collect(),
            blocks: side.block_of_year(),
            exposure,
            factor,
        }
    }
}

impl<'a> SideMap<'a> {
    fn new(side: &'a Ensemble, quantity: MapQuantity, class: usize, areas_km2: &[f64]) -> Self {
        let members = side.members().iter();
        let runs: Vec<RunMap<'a>> = members
            .map(|run| RunMap::new(run, quantity, class, areas_km2))
            .collect();
        let exposure = runs.iter().flat_map(|run| run.exposure.iter().copied());
        Self {
            exposure: exposure.collect(),
            runs,
        }
    }

    /// Whether all runs have a known value in a cell.
    fn knows(&self, cell: usize) -> bool {
        self.runs.iter().all(|run| run.factor[cell] > 0.0)
    }

    /// Sums of a cell by block, before division.
    fn cell(&self, cell: usize) -> Vec<f64> {
        let mut sums = vec![0.0; self.exposure.len()];
        let mut before = 0;
        for run in &self.runs {
            for (year, &block) in run.years.iter().zip(run.blocks) {
                sums[before + block] += f64::from(year[cell]) * run.factor[cell];
            }
            before += run.exposure.len();
        }
        sums
    }
}

/// Whether all runs of both sides have this map.
fn is_known([a, b]: [&Ensemble; 2], quantity: MapQuantity) -> bool {
    let mut runs = a.members().iter().chain(b.members());
    runs.all(|run| run.maps.knows(quantity))
}

/// Returns the changes of all maps known to both sides, tested cell by cell and adjusted for the number of cells per
/// map.
///
/// # Errors
/// Errors of `check_cancelled`, and if the coarse grid cannot be made.
pub(crate) fn map_changes(
    a: &Ensemble,
    b: &Ensemble,
    design: &Design,
    check_cancelled: CancelCheck<'_>,
) -> Result<Vec<MapChange>> {
    let grid = coarse_grid()?;
    let areas: Vec<f64> = (0..COARSE_CELLS)
        .map(|cell| grid.cell_area_km2(cell / COARSE_COLUMNS))
        .collect();
    let mut changes = Vec::new();
    for quantity in MapQuantity::ALL {
        if !is_known([a, b], quantity) {
            continue;
        }
        for (index, class) in Class::EVENTS.into_iter().enumerate() {
            if ![a, b].into_iter().all(|side| side.covers(class)) {
                continue;
            }
            let sides = [a, b].map(|side| SideMap::new(side, quantity, index, &areas));
            let cells: Vec<[f64; 5]> = change_of_cells(&sides, design, check_cancelled)?;
            let column = |k: usize| cells.iter().map(|cell| cell[k]).collect::<Vec<f64>>();
            let (map_a, map_b, p) = (column(0), column(1), column(4));
            changes.push(MapChange {
                quantity,
                class,
                difference: map_a.iter().zip(&map_b).map(|(a, b)| b - a).collect(),
                a: map_a,
                b: map_b,
                low: column(2),
                high: column(3),
                adjusted_p: adjusted_p(&p),
                p,
            });
        }
    }
    Ok(changes)
}

/// Values of both sides, ends of the interval, and p, for each cell.
fn change_of_cells(
    [a, b]: &[SideMap<'_>; 2],
    design: &Design,
    check_cancelled: CancelCheck<'_>,
) -> Result<Vec<[f64; 5]>> {
    let [draws_a, draws_b] = design.sides();
    let permuted = design.permuted();
    let below = |side: &SideMap<'_>| side.exposure.iter().sum::<f64>();
    let (drawn_a, drawn_b) = (draws_a.sums(&a.exposure), draws_b.sums(&b.exposure));
    let joined = [a.exposure.as_slice(), &b.exposure].concat();
    let [first, rest] = [0, 1].map(|k: usize| permuted[k].sums(&joined));
    let (total_a, total_b) = (below(a), below(b));
    let of_cell = |buffers: &mut [Vec<f64>; 3], cell: usize| {
        let known = a.knows(cell) && b.knows(cell) && total_a > 0.0 && total_b > 0.0;
        if !known {
            return [f64::NAN; 5];
        }
        let (of_a, of_b) = (a.cell(cell), b.cell(cell));
        let (sum_a, sum_b) = (of_a.iter().sum::<f64>(), of_b.iter().sum::<f64>());
        let (value_a, value_b) = (sum_a / total_a, sum_b / total_b);
        if !design.has_draws() || sum_a + sum_b == 0.0 {
            return [value_a, value_b, f64::NAN, f64::NAN, f64::NAN];
        }
        let [x, y, differences] = buffers;
        draws_a.sums_into(&of_a, x);
        draws_b.sums_into(&of_b, y);
        differences.clear();
        differences.extend((0..x.len()).map(|r| y[r] / drawn_b[r] - x[r] / drawn_a[r]));
        let interval = design.percentile_interval(differences);
        permuted[0].sums_into(&[of_a.as_slice(), &of_b].concat(), x);
        let all = sum_a + sum_b;
        let permuted = (0..x.len()).map(|r| (all - x[r]) / rest[r] - x[r] / first[r]);
        let p = design
            .p_value(value_b - value_a, permuted)
            .unwrap_or(f64::NAN);
        let (low, high) = interval.map_or((f64::NAN, f64::NAN), |i| (i.low, i.high));
        [value_a, value_b, low, high, p]
    };
    (0..COARSE_CELLS)
        .into_par_iter()
        .map_init(Default::default, |buffers: &mut [Vec<f64>; 3], cell| {
            check_cancelled()?;
            Ok(of_cell(buffers, cell))
        })
        .collect()
}
