//! Moves the centre of a cyclone to a minimum of sea-level pressure.

use super::details::is_pole;
use super::extract::{DetectedEvent, EventFields};
use ndarray::ArrayView2;
use squall_data::grid::{distance_km, eastern_longitude};
use squall_data::{LatLonGrid, Variable};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum distance of the pressure minimum from the region of a cyclone, km. Masks by wind exclude the calm eye, which
/// on coarse grids is the cell of lowest pressure.
const EYE_KM: f64 = 300.0;

/// A cell as row and column.
type Cell = (usize, usize);

/// Moves the centres of cyclones to their lowest pressure, in the region or in an eye next to it. If the lowest cell
/// lies on a slope towards a more distant low, the centre is the deepest minimum inside the region, if there is one. If
/// several regions share an eye, the one with the lowest pressure inside gets it.
pub(super) fn move_to_eyes(
    found: &mut [((f64, f64), DetectedEvent)],
    grid: &LatLonGrid,
    fields: &EventFields<'_>,
) {
    let Some(psl) = fields.plane(Variable::Psl) else {
        return;
    };
    let lows: Vec<Option<(Cell, Cell)>> = (found.iter())
        .map(|(_, detected)| {
            let lowest = lowest_cell(detected, psl)?;
            let eye = eye(psl, grid, lowest);
            // The lowest cell lies on a slope towards another low, so prefer the deepest minimum inside the region.
            let slopes = eye == lowest
                && grid
                    .neighbours8(lowest.0, lowest.1)
                    .any(|c| psl[c] < psl[lowest]);
            let inside = slopes
                .then(|| minima(detected, psl, grid).min_by(|&a, &b| psl[a].total_cmp(&psl[b])));
            Some(inside.flatten().map_or((lowest, eye), |low| (low, low)))
        })
        .collect();
    // On ties the first region wins.
    let mut owners: BTreeMap<Cell, usize> = BTreeMap::new();
    for (index, low) in lows.iter().enumerate() {
        let Some((lowest, eye)) = *low else { continue };
        let owner = owners.entry(eye).or_insert(index);
        if lows[*owner].is_some_and(|(other, _)| psl[lowest] < psl[other]) {
            *owner = index;
        }
    }
    for (index, ((_, detected), low)) in found.iter_mut().zip(lows).enumerate() {
        let Some((lowest, eye)) = low else { continue };
        let has_it = owners[&eye] == index;
        centre_at(detected, if has_it { eye } else { lowest }, grid, psl);
    }
}

/// Moves the centres of cyclones in boxes to pressure minima inside. Each minimum goes to at most one box per class:
/// the deepest minimum first, and among the boxes around it the one whose middle is nearest. A box without its own
/// minimum keeps its middle, because pressure may just fall towards another low at its edge. Returns which boxes got a
/// minimum.
pub(super) fn move_to_lows(
    found: &mut [DetectedEvent],
    grid: &LatLonGrid,
    fields: &EventFields<'_>,
) -> Vec<bool> {
    let mut placed = vec![false; found.len()];
    let Some(psl) = fields.plane(Variable::Psl) else {
        return placed;
    };
    let mut lows: Vec<(f32, f64, usize, Cell)> = Vec::new();
    for (index, detected) in found.iter().enumerate() {
        let event = &detected.event;
        for cell in minima(detected, psl, grid) {
            let (lat, lon) = (grid.lat_deg()[cell.0], grid.lon_deg()[cell.1]);
            let off_km = distance_km(event.lat_deg, event.lon_deg, lat, lon);
            lows.push((psl[cell], off_km, index, cell));
        }
    }
    lows.sort_by(|a, b| {
        (a.0.total_cmp(&b.0))
            .then(a.1.total_cmp(&b.1))
            .then(a.2.cmp(&b.2))
    });
    let mut taken = BTreeSet::new();
    for (_, _, index, cell) in lows {
        let class = found[index].event.class;
        if !placed[index] && taken.insert((class, low_cell(psl, grid, cell))) {
            placed[index] = true;
            centre_at(&mut found[index], cell, grid, psl);
        }
    }
    placed
}

/// The pressure minima in the region of a cyclone.
fn minima<'a>(
    detected: &'a DetectedEvent,
    psl: ArrayView2<'a, f32>,
    grid: &'a LatLonGrid,
) -> impl Iterator<Item = Cell> + 'a {
    let is_cyclone = detected.event.class.is_cyclone();
    let cells = detected.region.indices().filter(move |_| is_cyclone);
    cells.filter(move |&cell| is_minimum(psl, grid, cell))
}

/// The cell that represents the low of a minimum: in a row around a pole, cells of equal pressure are one low.
fn low_cell(psl: ArrayView2<'_, f32>, grid: &LatLonGrid, (j, i): Cell) -> Cell {
    if !is_around_pole(grid, j) {
        return (j, i);
    }
    let first = psl.row(j).iter().position(|v| *v == psl[[j, i]]);
    (j, first.unwrap_or(i))
}

/// Whether a row is on a pole or the last before it.
fn is_beside_pole(grid: &LatLonGrid, j: usize) -> bool {
    let (rows, bounds) = (grid.shape().0, grid.lat_bounds_deg());
    j == 0 && is_pole(bounds[0], grid) || j + 1 == rows && is_pole(bounds[rows], grid)
}

/// Whether a row is on a pole or the last before it, and all its cells lie within [`EYE_KM`] of each other. On coarse
/// grids that row may contain several lows.
fn is_around_pole(grid: &LatLonGrid, j: usize) -> bool {
    let lat = grid.lat_deg()[j];
    is_beside_pole(grid, j) && distance_km(lat, 0.0, lat, 180.0) <= EYE_KM
}

/// Whether all neighbours are known and no cell within [`EYE_KM`] has lower pressure; on fine grids, pressure dips
/// between neighbouring cells even on slopes. Among cells of equal pressure only the first counts. In a row around a
/// pole all of them count, because a box need not contain the first.
fn is_minimum(psl: ArrayView2<'_, f32>, grid: &LatLonGrid, (j, i): Cell) -> bool {
    let (rows, columns) = grid.shape();
    let middle = psl[[j, i]];
    let around = || grid.neighbours8(j, i).map(|cell| psl[cell]);
    let is_lowest = around().all(|v| v >= middle) && around().any(|v| v > middle);
    // Beyond the edge of a regional grid pressure may be lower.
    let is_whole = || around().count() == 8 || is_beside_pole(grid, j) && grid.is_periodic();
    if !(middle.is_finite() && is_lowest && is_whole()) {
        return false;
    }
    let (lat, lon) = (grid.lat_deg()[j], grid.lon_deg()[i]);
    let near = |row: usize| distance_km(lat, lon, grid.lat_deg()[row], lon) <= EYE_KM;
    let first = (0..j)
        .rev()
        .take_while(|&row| near(row))
        .last()
        .unwrap_or(j);
    let end = (j..rows).take_while(|&row| near(row)).last().unwrap_or(j);
    let around_pole = is_around_pole(grid, j);
    (first..=end).all(|row| {
        [-1, 1].into_iter().all(|side| {
            let steps = (0..=columns as isize / 2).map_while(|step| grid.column(i, side * step));
            let mut cells = steps
                .take_while(|&column| {
                    distance_km(lat, lon, grid.lat_deg()[row], grid.lon_deg()[column]) <= EYE_KM
                })
                .map(|column| (row, column));
            cells.all(|cell| {
                let v = psl[cell];
                v.is_nan()
                    || v > middle
                    || v == middle && (cell >= (j, i) || around_pole && row == j)
            })
        })
    })
}

/// The cell of lowest pressure in the region of a cyclone.
fn lowest_cell(detected: &DetectedEvent, psl: ArrayView2<'_, f32>) -> Option<Cell> {
    if !detected.event.class.is_cyclone() {
        return None;
    }
    let cells = detected.region.indices().filter(|&c| psl[c].is_finite());
    cells.min_by(|&a, &b| psl[a].total_cmp(&psl[b]))
}

/// Follows pressure downhill to the next minimum. Returns it if it is a neighbour or within [`EYE_KM`], otherwise the
/// start.
fn eye(psl: ArrayView2<'_, f32>, grid: &LatLonGrid, from: Cell) -> Cell {
    let place = |(j, i): Cell| (grid.lat_deg()[j], grid.lon_deg()[i]);
    let (lat, lon) = place(from);
    let mut at = from;
    loop {
        let around = grid.neighbours8(at.0, at.1);
        let lower = around.filter(|&cell| psl[cell] < psl[at]);
        let Some(next) = lower.min_by(|&a, &b| psl[a].total_cmp(&psl[b])) else {
            return at;
        };
        let (next_lat, next_lon) = place(next);
        // Pressure still falls beyond the reach of an eye, so the slope belongs to another low.
        if at != from && distance_km(lat, lon, next_lat, next_lon) > EYE_KM {
            return from;
        }
        at = next;
    }
}

/// Sets the centre to a cell, with sub-cell precision.
fn centre_at(
    detected: &mut DetectedEvent,
    (j, i): Cell,
    grid: &LatLonGrid,
    psl: ArrayView2<'_, f32>,
) {
    detected.event.min_psl_pa = Some(f64::from(psl[[j, i]]));
    let at = |row: Option<usize>, column: Option<usize>| {
        let cell = [row?, column?];
        psl.get(cell).map(|&v| f64::from(v))
    };
    let centre = f64::from(psl[[j, i]]);
    let north = parabola_shift(
        at(j.checked_sub(1), Some(i)),
        centre,
        at(Some(j + 1), Some(i)),
    );
    let east = parabola_shift(
        at(Some(j), grid.column(i, -1)),
        centre,
        at(Some(j), grid.column(i, 1)),
    );
    let lat = grid.lat_deg()[j] + north * grid.lat_spacing_deg();
    detected.event.lat_deg = lat.clamp(-90.0, 90.0);
    detected.event.lon_deg = eastern_longitude(grid.lon_deg()[i] + east * grid.lon_spacing_deg());
}

/// The minimum of the parabola through three evenly spaced values, in steps from the middle one; 0 if the middle value
/// is not the lowest or a neighbour is missing.
fn parabola_shift(before: Option<f64>, middle: f64, after: Option<f64>) -> f64 {
    let (Some(a), Some(c)) = (before, after) else {
        return 0.0;
    };
    let curvature = a - 2.0 * middle + c;
    if !curvature.is_finite() || curvature <= 0.0 || a < middle || c < middle {
        return 0.0;
    }
    ((a - c) / (2.0 * curvature)).clamp(-0.5, 0.5)
}
