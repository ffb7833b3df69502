//! Agreement in area between masks of the same times.

use crate::compare::listed;
use crate::report::numbers::percent;
use crate::report::{Frame, FrequencyMap, SourceKind};
use ndarray::{Array2, ArrayView2};
use squall_data::{Class, LatLonGrid, Time};
use std::collections::BTreeMap;

/// Areas that two sources assign to one class, summed over times, km².
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PairAgreement {
    /// Area that both sources mark.
    pub both_km2: f64,
    /// Area that only the first source marks.
    pub only_first_km2: f64,
    /// Area that only the second source marks.
    pub only_second_km2: f64,
}

impl PairAgreement {
    /// Area that either source marks.
    pub(crate) fn union_km2(&self) -> f64 {
        self.both_km2 + self.only_first_km2 + self.only_second_km2
    }

    /// Intersection over union; `None` if neither source has the class.
    pub fn iou(&self) -> Option<f64> {
        let union = self.union_km2();
        (union > 0.0).then(|| self.both_km2 / union)
    }

    fn add(&mut self, other: &Self) {
        self.both_km2 += other.both_km2;
        self.only_first_km2 += other.only_first_km2;
        self.only_second_km2 += other.only_second_km2;
    }
}

/// The agreement of two sources.
#[derive(Debug, Clone)]
pub struct Agreement {
    /// The first source.
    pub first: SourceKind,
    /// The second source.
    pub second: SourceKind,
    /// Summed over all times, in the order of [`Class::EVENTS`].
    pub total: [PairAgreement; 2],
    /// IoU at each time, in the order of [`Class::EVENTS`]; `None` if neither source has the class.
    pub series: Vec<(Time, [Option<f64>; 2])>,
}

/// Counts the agreement of all pairs of sources, and how often each cell has each class.
#[derive(Debug)]
pub(crate) struct MaskCounter {
    row_area_km2: Vec<f64>,
    shape: (usize, usize),
    pairs: Vec<Agreement>,
    not_looked_for: Vec<(SourceKind, Class)>,
    counts: BTreeMap<SourceKind, SourceCount>,
}

/// How often each cell has each class in the masks of one source.
#[derive(Debug)]
struct SourceCount {
    times: u32,
    /// The number of times per cell, for each event class.
    marked: [Array2<u32>; 2],
    /// The number of times at which each cell is missing.
    missing: Array2<u32>,
}

impl SourceCount {
    fn new(shape: (usize, usize)) -> Self {
        Self {
            times: 0,
            marked: [(); 2].map(|()| Array2::zeros(shape)),
            missing: Array2::zeros(shape),
        }
    }

    /// Share of the cells of all masks that are missing.
    fn missing_share(&self) -> f64 {
        let missing: u64 = self.missing.iter().map(|n| u64::from(*n)).sum();
        let all = u64::from(self.times) * self.missing.len() as u64;
        missing as f64 / all.max(1) as f64
    }
}

impl MaskCounter {
    /// An empty counter. Classes in `not_looked_for` are excluded from the comparison of their source.
    pub(crate) fn new(grid: &LatLonGrid, not_looked_for: &[(SourceKind, Class)]) -> Self {
        Self {
            row_area_km2: grid.row_areas_km2(),
            shape: grid.shape(),
            pairs: Vec::new(),
            not_looked_for: not_looked_for.to_vec(),
            counts: BTreeMap::new(),
        }
    }

    /// Counts the masks of one frame; they must have the grid's shape. Cells in which one of two masks is missing are
    /// not compared.
    pub(crate) fn add(&mut self, frame: &Frame<'_>) {
        let (time, masks) = (frame.time, &frame.masks);
        for (kind, mask) in masks {
            let shape = self.shape;
            let none = || SourceCount::new(shape);
            let counted = self.counts.entry(*kind).or_insert_with(none);
            counted.times += 1;
            if let Some(missing) = frame.missing_in(*kind) {
                ndarray::Zip::from(&mut counted.missing)
                    .and(missing)
                    .for_each(|n, &is_missing| *n += u32::from(is_missing));
            }
            for (count, class) in counted.marked.iter_mut().zip(Class::EVENTS) {
                ndarray::Zip::from(count)
                    .and(mask)
                    .for_each(|n, &code| *n += u32::from(code == class.code()));
            }
        }
        for (k, (first, a)) in masks.iter().enumerate() {
            for (second, b) in &masks[k + 1..] {
                let unknown: Vec<&ArrayView2<'_, bool>> = [*first, *second]
                    .into_iter()
                    .filter_map(|kind| frame.missing_in(kind))
                    .collect();
                let blind =
                    |kind: &SourceKind, class| self.not_looked_for.contains(&(*kind, class));
                let now = Class::EVENTS.map(|class| {
                    if blind(first, class) || blind(second, class) {
                        PairAgreement::default()
                    } else {
                        self.compare([a, b], &unknown, class)
                    }
                });
                let position = self
                    .pairs
                    .iter()
                    .position(|p| (p.first, p.second) == (*first, *second))
                    .unwrap_or_else(|| {
                        self.pairs.push(Agreement {
                            first: *first,
                            second: *second,
                            total: Default::default(),
                            series: Vec::new(),
                        });
                        self.pairs.len() - 1
                    });
                let pair = &mut self.pairs[position];
                pair.total.iter_mut().zip(&now).for_each(|(t, n)| t.add(n));
                pair.series.push((time, now.map(|n| n.iou())));
            }
        }
    }

    /// Compares two masks in the cells that are not marked in any plane of `unknown`.
    fn compare(
        &self,
        [a, b]: [&ArrayView2<'_, u8>; 2],
        unknown: &[&ArrayView2<'_, bool>],
        class: Class,
    ) -> PairAgreement {
        let mut result = PairAgreement::default();
        let rows = a.rows().into_iter().zip(b.rows());
        for (j, ((x, y), area)) in rows.zip(&self.row_area_km2).enumerate() {
            let (mut both, mut first, mut second) = (0u32, 0u32, 0u32);
            for (i, (&p, &q)) in x.iter().zip(y).enumerate() {
                if unknown.iter().any(|missing| missing[[j, i]]) {
                    continue;
                }
                match (p == class.code(), q == class.code()) {
                    (true, true) => both += 1,
                    (true, false) => first += 1,
                    (false, true) => second += 1,
                    (false, false) => {}
                }
            }
            result.add(&PairAgreement {
                both_km2: f64::from(both) * area,
                only_first_km2: f64::from(first) * area,
                only_second_km2: f64::from(second) * area,
            });
        }
        result
    }

    pub(crate) fn pairs(&self) -> &[Agreement] {
        &self.pairs
    }

    /// The largest number of times among all sources.
    pub(crate) fn times(&self) -> u32 {
        self.counts.values().map(|c| c.times).max().unwrap_or(0)
    }

    /// What to know of shares and agreement where masks have missing cells; `name` tells a source in a sentence.
    pub(crate) fn missing_caveat(&self, name: impl Fn(SourceKind) -> String) -> Option<String> {
        let shares = self
            .counts
            .iter()
            .map(|(kind, c)| (*kind, c.missing_share()));
        let some: Vec<String> = shares
            .filter(|(_, share)| *share > 0.0)
            .map(|(kind, share)| format!("{} of {}", percent(share), name(kind)))
            .collect();
        (!some.is_empty()).then(|| {
            format!(
                "Cells of masks are missing: {}. Frequencies and agreement leave them out, so shares of the map's area may be of different parts of it. The map of single times draws them as without events.",
                listed(&some)
            )
        })
    }

    /// The share of times in which each cell has each class, for every source, among those at which the cell is not
    /// missing; NaN if it always is.
    pub(crate) fn frequencies(&self) -> Vec<FrequencyMap> {
        let mut maps = Vec::new();
        for (index, class) in Class::EVENTS.into_iter().enumerate() {
            for (source, counted) in &self.counts {
                let known = counted.missing.mapv(|n| (counted.times - n) as f32);
                let share = counted.marked[index].mapv(|n| n as f32) / known;
                maps.push(FrequencyMap {
                    source: *source,
                    class,
                    share,
                });
            }
        }
        maps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use squall_data::Calendar;

    #[test]
    fn areas_not_pixels_are_compared() {
        let grid = LatLonGrid::global(18, 36).unwrap();
        let time = Time::new(Calendar::NoLeap, 1, 1, 1, 0, 0, 0).unwrap();
        let mut a = Array2::<u8>::zeros((18, 36));
        let mut b = a.clone();
        // One common cell near the equator, and one cell near the pole that only the first marks.
        a[[9, 3]] = 2;
        b[[9, 3]] = 2;
        a[[17, 3]] = 2;
        let mut counter = MaskCounter::new(&grid, &[]);
        let mut frame = Frame::new(time);
        frame.masks = vec![
            (SourceKind::Heuristic, a.view()),
            (SourceKind::Network, b.view()),
        ];
        counter.add(&frame);
        frame.time = time.add_seconds(3600);
        counter.add(&frame);
        let pair = &counter.pairs()[0];
        let expected = grid.cell_area_km2(9) / (grid.cell_area_km2(9) + grid.cell_area_km2(17));
        assert!((pair.total[1].iou().unwrap() - expected).abs() < 1e-12);
        assert!(expected > 0.9);
        assert_eq!(pair.total[0].iou(), None);
        assert_eq!(pair.series.len(), 2);
        let maps = counter.frequencies();
        assert_eq!(maps.len(), 4);
        assert_eq!(maps[2].share[[17, 3]], 1.0);
        let name = |kind: SourceKind| kind.name().to_string();
        assert_eq!(counter.missing_caveat(name), None);
    }

    /// Before, a river in the missing cells of the other mask counted as marked by one source alone.
    #[test]
    fn missing_cells_are_not_compared() {
        let grid = LatLonGrid::global(18, 36).unwrap();
        let time = Time::new(Calendar::NoLeap, 1, 1, 1, 0, 0, 0).unwrap();
        let mut whole = Array2::<u8>::zeros((18, 36));
        for column in [3, 20, 21] {
            whole[[9, column]] = 2;
        }
        let missing = Array2::from_shape_fn((18, 36), |(_, i)| i == 20);
        let mut gaps = whole.clone();
        gaps[[9, 20]] = 0;
        let mut counter = MaskCounter::new(&grid, &[]);
        let mut frame = Frame::new(time);
        frame.masks = vec![
            (SourceKind::Heuristic, gaps.view()),
            (SourceKind::Network, whole.view()),
        ];
        frame.missing = vec![(SourceKind::Heuristic, missing.view())];
        counter.add(&frame);
        assert_eq!(counter.pairs()[0].total[1].iou(), Some(1.0));
        // At another time the cell is known, and has no river.
        frame.time = time.add_seconds(3600);
        frame.missing.clear();
        counter.add(&frame);
        let pair = &counter.pairs()[0];
        let later = pair.series[1].1[1].unwrap();
        assert!((later - 2.0 / 3.0).abs() < 1e-12, "{later}");
        let maps = counter.frequencies();
        let of_rivers = |source| {
            let map = maps
                .iter()
                .find(|map| map.source == source && map.class == Class::AtmosphericRiver);
            [20, 21].map(|column| map.unwrap().share[[9, column]])
        };
        assert_eq!(of_rivers(SourceKind::Heuristic), [0.0, 1.0]);
        assert_eq!(of_rivers(SourceKind::Network), [1.0, 1.0]);
        let name = |kind: SourceKind| kind.name().to_string();
        let said = counter.missing_caveat(name).unwrap();
        assert!(said.contains("1.4\u{a0}% of Heuristic."), "{said}");
    }
}
