//! Agreement between methods, networks and truth: cells, areas and events, over any number of times.

use crate::error::{ClimateError, Result};
use crate::events::{DetectedEvent, EventFields, ExtractOptions, extract};
use crate::statistics::write_rows;
use serde::{Deserialize, Serialize};
use squall_data::grid::distance_km;
use squall_data::{Class, ClassMask, LatLonGrid};
use std::fmt;
use std::path::Path;

/// Maximum distance at which two cyclones of the same time are the same one, km; scores of events use the same.
pub const CYCLONE_RADIUS_KM: f64 = 500.0;

/// A source of masks and the classes it detects.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgreementSource {
    /// The name in the table, for instance `tempest` or `network`.
    pub name: String,
    /// The classes it detects; others are not compared.
    pub classes: Vec<Class>,
}

/// Counts for all pairs of sources, summed over times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    sources: Vec<AgreementSource>,
    rows: Vec<AgreementRow>,
}

/// Agreement of two sources on one class: one row of `agreement.csv`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgreementRow {
    /// Name of the first source.
    pub first: String,
    /// Name of the second source.
    pub second: String,
    /// The class compared.
    pub class: Class,
    /// Number of times.
    pub times: u64,
    /// Cells that both flag.
    pub both_cells: u64,
    /// Cells that only the first flags.
    pub only_first_cells: u64,
    /// Cells that only the second flags.
    pub only_second_cells: u64,
    /// Area that both flag, summed over times, km².
    pub both_km2: f64,
    /// Area that only the first flags, km².
    pub only_first_km2: f64,
    /// Area that only the second flags, km².
    pub only_second_km2: f64,
    /// Events of the first source over all times.
    pub first_events: u64,
    /// Events of the second source.
    pub second_events: u64,
    /// Matched pairs of events.
    pub matched_events: u64,
}

impl AgreementRow {
    /// Intersection over union by cells; `None` if neither has the class.
    pub fn cell_iou(&self) -> Option<f64> {
        let union = self.both_cells + self.only_first_cells + self.only_second_cells;
        (union > 0).then(|| self.both_cells as f64 / union as f64)
    }

    /// Intersection over union by area on the sphere; `None` if neither has the class.
    pub fn area_iou(&self) -> Option<f64> {
        let union = self.both_km2 + self.only_first_km2 + self.only_second_km2;
        (union > 0.0).then(|| self.both_km2 / union)
    }

    /// F1 score of the events, twice the matched over the total of both; `None` if neither has any.
    pub fn event_f1(&self) -> Option<f64> {
        let events = self.first_events + self.second_events;
        (events > 0).then(|| 2.0 * self.matched_events as f64 / events as f64)
    }
}

impl Agreement {
    /// Empty counts: a row for each pair of sources and each class that both detect.
    pub fn new(sources: Vec<AgreementSource>) -> Self {
        let mut rows = Vec::new();
        for (k, first) in sources.iter().enumerate() {
            for second in &sources[k + 1..] {
                let shared = Class::EVENTS.into_iter().filter(|class| {
                    first.classes.contains(class) && second.classes.contains(class)
                });
                rows.extend(shared.map(|class| AgreementRow {
                    first: first.name.clone(),
                    second: second.name.clone(),
                    class,
                    times: 0,
                    both_cells: 0,
                    only_first_cells: 0,
                    only_second_cells: 0,
                    both_km2: 0.0,
                    only_first_km2: 0.0,
                    only_second_km2: 0.0,
                    first_events: 0,
                    second_events: 0,
                    matched_events: 0,
                }));
            }
        }
        Self { sources, rows }
    }

    /// The sources, in the given order.
    pub fn sources(&self) -> &[AgreementSource] {
        &self.sources
    }

    /// All rows, ordered by pair and class.
    pub fn rows(&self) -> &[AgreementRow] {
        &self.rows
    }

    /// Counts one time, with a mask for each source, in their order; `None` for a source without that time.
    ///
    /// Events are the connected areas of a mask that are large enough ([`ExtractOptions`]; cyclones of any size).
    /// Cyclones match if their centres are within 500 km, rivers if they share cells. Matching is one to one, by
    /// increasing distance or decreasing shared area.
    ///
    /// # Errors
    /// [`ClimateError::Mismatch`] if masks differ in number, shape or time.
    pub fn add(&mut self, masks: &[Option<&ClassMask>], grid: &LatLonGrid) -> Result<()> {
        self.check(masks, grid)?;
        let options = ExtractOptions {
            min_tropical_cyclone_km2: 0.0,
            ..ExtractOptions::default()
        };
        let fields = EventFields::default();
        let events = masks
            .iter()
            .map(|mask| mask.map(|mask| extract(mask, grid, &fields, &options)))
            .map(Option::transpose)
            .collect::<Result<Vec<Option<Vec<DetectedEvent>>>>>()?;
        let areas = grid.row_areas_km2();
        let sources = &self.sources;
        let place = |name: &str| sources.iter().position(|source| source.name == name);
        for row in &mut self.rows {
            let (Some(a), Some(b)) = (place(&row.first), place(&row.second)) else {
                continue;
            };
            let (Some(first), Some(second)) = (masks[a], masks[b]) else {
                continue;
            };
            let (Some(of_first), Some(of_second)) = (&events[a], &events[b]) else {
                continue;
            };
            row.times += 1;
            compare_cells(row, first, second, &areas);
            let (x, y) = (
                of_class(of_first, row.class),
                of_class(of_second, row.class),
            );
            row.first_events += x.len() as u64;
            row.second_events += y.len() as u64;
            row.matched_events += matched(&x, &y, &areas);
        }
        Ok(())
    }

    fn check(&self, masks: &[Option<&ClassMask>], grid: &LatLonGrid) -> Result<()> {
        let differs = |what: &str, expected: String, found: String| {
            Err(ClimateError::Mismatch {
                what: what.into(),
                expected,
                found,
            })
        };
        if masks.len() != self.sources.len() {
            let (expected, found) = (self.sources.len(), masks.len());
            return differs("masks to compare", expected.to_string(), found.to_string());
        }
        let mut time = None;
        for mask in masks.iter().flatten() {
            let first = *time.get_or_insert(mask.time);
            if mask.time != first {
                return differs(
                    "time of masks to compare",
                    first.to_string(),
                    mask.time.to_string(),
                );
            }
            if mask.codes.dim() != grid.shape() {
                let (expected, found) = (grid.shape(), mask.codes.dim());
                return differs(
                    "masks to compare",
                    format!("{expected:?}"),
                    format!("{found:?}"),
                );
            }
        }
        Ok(())
    }

    /// Writes the rows and their scores as a table.
    ///
    /// # Errors
    /// [`ClimateError::Data`] if the file cannot be written.
    pub fn write_csv(&self, path: impl AsRef<Path>) -> Result<()> {
        let header = "first,second,class,times,cell_iou,area_iou,event_f1,\
            first_events,second_events,matched_events,both_cells,only_first_cells,only_second_cells,\
            both_km2,only_first_km2,only_second_km2";
        let mut rows = Vec::new();
        let score = |value: Option<f64>| value.map_or(String::new(), |v| format!("{v:.4}"));
        for row in &self.rows {
            let counts = [
                row.first_events,
                row.second_events,
                row.matched_events,
                row.both_cells,
                row.only_first_cells,
                row.only_second_cells,
            ];
            let areas = [row.both_km2, row.only_first_km2, row.only_second_km2];
            let mut cells = vec![
                row.first.clone(),
                row.second.clone(),
                row.class.name().to_string(),
                row.times.to_string(),
                score(row.cell_iou()),
                score(row.area_iou()),
                score(row.event_f1()),
            ];
            cells.extend(counts.map(|n| n.to_string()));
            cells.extend(areas.map(|a| format!("{a:.0}")));
            rows.push(cells);
        }
        write_rows(path.as_ref(), header, &rows)
    }
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<12} {:<12} {:<18} {:>6} {:>9} {:>9} {:>9} {:>8} {:>8} {:>8}",
            "first",
            "second",
            "class",
            "times",
            "cell IoU",
            "area IoU",
            "event F1",
            "first",
            "second",
            "matched"
        )?;
        let score = |value: Option<f64>| value.map_or("-".to_string(), |v| format!("{v:.3}"));
        for row in &self.rows {
            writeln!(
                f,
                "{:<12} {:<12} {:<18} {:>6} {:>9} {:>9} {:>9} {:>8} {:>8} {:>8}",
                row.first,
                row.second,
                row.class.name(),
                row.times,
                score(row.cell_iou()),
                score(row.area_iou()),
                score(row.event_f1()),
                row.first_events,
                row.second_events,
                row.matched_events
            )?;
        }
        Ok(())
    }
}

fn compare_cells(row: &mut AgreementRow, first: &ClassMask, second: &ClassMask, areas: &[f64]) {
    let code = row.class.code();
    let lines = first.codes.rows().into_iter().zip(second.codes.rows());
    for ((x, y), area) in lines.zip(areas) {
        let mut counts = [0u64; 4];
        for (&a, &b) in x.iter().zip(y) {
            counts[usize::from(a == code) + 2 * usize::from(b == code)] += 1;
        }
        row.only_first_cells += counts[1];
        row.only_second_cells += counts[2];
        row.both_cells += counts[3];
        row.only_first_km2 += counts[1] as f64 * area;
        row.only_second_km2 += counts[2] as f64 * area;
        row.both_km2 += counts[3] as f64 * area;
    }
}

fn of_class(events: &[DetectedEvent], class: Class) -> Vec<&DetectedEvent> {
    let same = events.iter().filter(|found| found.event.class == class);
    same.collect()
}

/// Number of matched pairs of events, one to one.
fn matched(first: &[&DetectedEvent], second: &[&DetectedEvent], areas: &[f64]) -> u64 {
    // The sort key comes first: smaller is a better match.
    let mut pairs: Vec<(f64, usize, usize)> = Vec::new();
    for (k, a) in first.iter().enumerate() {
        for (n, b) in second.iter().enumerate() {
            let (x, y) = (&a.event, &b.event);
            let key = match x.class {
                Class::TropicalCyclone
                | Class::ExtratropicalCyclone
                | Class::TropicalDepression => {
                    let distance = distance_km(x.lat_deg, x.lon_deg, y.lat_deg, y.lon_deg);
                    (distance <= CYCLONE_RADIUS_KM).then_some(distance)
                }
                Class::AtmosphericRiver => {
                    let shared = a.region.overlap_km2(&b.region, areas);
                    (shared > 0.0).then_some(-shared)
                }
                Class::Background => None,
            };
            pairs.extend(key.map(|key| (key, k, n)));
        }
    }
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    let (mut free_first, mut free_second) = (vec![true; first.len()], vec![true; second.len()]);
    let mut count = 0;
    for (_, k, n) in pairs {
        if free_first[k] && free_second[n] {
            (free_first[k], free_second[n]) = (false, false);
            count += 1;
        }
    }
    count
}

#[cfg(test)]
mod tests;
