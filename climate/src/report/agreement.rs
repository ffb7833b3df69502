//! Agreement in area between masks of the same times.

use crate::report::{FrequencyMap, SourceKind};
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
    /// Per source: the number of times, and for each event class the number of times per cell.
    counts: BTreeMap<SourceKind, (u32, [Array2<u32>; 2])>,
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

    /// Counts the masks of one time; they must have the grid's shape.
    pub(crate) fn add(&mut self, time: Time, masks: &[(SourceKind, ArrayView2<'_, u8>)]) {
        for (kind, mask) in masks {
            let shape = self.shape;
            let none = || (0, [(); 2].map(|()| Array2::zeros(shape)));
            let (times, counts) = self.counts.entry(*kind).or_insert_with(none);
            *times += 1;
            for (count, class) in counts.iter_mut().zip(Class::EVENTS) {
                ndarray::Zip::from(count)
                    .and(mask)
                    .for_each(|n, &code| *n += u32::from(code == class.code()));
            }
        }
        for (k, (first, a)) in masks.iter().enumerate() {
            for (second, b) in &masks[k + 1..] {
                let blind =
                    |kind: &SourceKind, class| self.not_looked_for.contains(&(*kind, class));
                let now = Class::EVENTS.map(|class| {
                    if blind(first, class) || blind(second, class) {
                        PairAgreement::default()
                    } else {
                        self.compare(a, b, class)
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

    fn compare(
        &self,
        a: &ArrayView2<'_, u8>,
        b: &ArrayView2<'_, u8>,
        class: Class,
    ) -> PairAgreement {
        let mut result = PairAgreement::default();
        for ((x, y), area) in a.rows().into_iter().zip(b.rows()).zip(&self.row_area_km2) {
            let (mut both, mut first, mut second) = (0u32, 0u32, 0u32);
            for (&p, &q) in x.iter().zip(y) {
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
        self.counts.values().map(|c| c.0).max().unwrap_or(0)
    }

    /// The share of times in which each cell has each class, for every source.
    pub(crate) fn frequencies(&self) -> Vec<FrequencyMap> {
        let mut maps = Vec::new();
        for (index, class) in Class::EVENTS.into_iter().enumerate() {
            for (source, (times, counts)) in &self.counts {
                let share = counts[index].mapv(|n| n as f32 / *times as f32);
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
        let masks = [
            (SourceKind::Heuristic, a.view()),
            (SourceKind::Network, b.view()),
        ];
        counter.add(time, &masks);
        counter.add(time.add_seconds(3600), &masks);
        let pair = &counter.pairs()[0];
        let expected = grid.cell_area_km2(9) / (grid.cell_area_km2(9) + grid.cell_area_km2(17));
        assert!((pair.total[1].iou().unwrap() - expected).abs() < 1e-12);
        assert!(expected > 0.9);
        assert_eq!(pair.total[0].iou(), None);
        assert_eq!(pair.series.len(), 2);
        let maps = counter.frequencies();
        assert_eq!(maps.len(), 4);
        assert_eq!(maps[2].share[[17, 3]], 1.0);
    }
}
