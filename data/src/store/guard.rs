//! A time gap between splits: drops training samples that are close to validation or test samples.

use super::Split;
use crate::Time;
use std::collections::BTreeSet;

/// Indices of the samples to drop so that any two splits are at least `hours` apart: training samples closer to a
/// validation or test sample, and validation samples closer to a test sample.
///
/// The test split is unchanged; the dropped samples are close enough to it to show the same weather.
pub fn too_near(times: &[Time], splits: &[Split], hours: f64) -> BTreeSet<usize> {
    let Some(&first) = times.first() else {
        return BTreeSet::new();
    };
    let at = |time: &Time| time.seconds_since(first);
    let sorted = |split: Split| -> Vec<i64> {
        let samples = times.iter().zip(splits);
        let mut found: Vec<i64> = (samples.filter(|(_, of)| **of == split))
            .map(|(time, _)| at(time))
            .collect();
        found.sort_unstable();
        found
    };
    let (validation, test) = (sorted(Split::Validation), sorted(Split::Test));
    let seconds = hours * 3600.0;
    let near = |others: &[i64], at: i64| {
        let next = others.partition_point(|&other| other < at);
        let beside = &others[next.saturating_sub(1)..(next + 1).min(others.len())];
        beside
            .iter()
            .any(|&other| ((other - at).abs() as f64) < seconds)
    };
    let samples = times.iter().zip(splits).enumerate();
    let found = samples.filter(|(_, (time, split))| match split {
        Split::Train => near(&validation, at(time)) || near(&test, at(time)),
        Split::Validation => near(&test, at(time)),
        Split::Test => false,
    });
    found.map(|(place, _)| place).collect()
}

#[cfg(test)]
mod tests {
    use super::super::SplitRule;
    use super::*;
    use crate::Calendar;

    fn times(n: i64) -> Vec<Time> {
        let start = Time::new(Calendar::NoLeap, 1996, 1, 1, 0, 0, 0).unwrap();
        (0..n).map(|i| start.add_seconds(i * 10_800)).collect()
    }

    #[test]
    fn training_times_near_validation_and_test_are_dropped() {
        use Split::{Test, Train, Validation};
        let splits = [
            Train, Train, Validation, Train, Train, Train, Validation, Test, Train,
        ];
        let places = |hours| -> Vec<usize> {
            let found = too_near(&times(9), &splits, hours);
            found.into_iter().collect()
        };
        assert!(places(0.0).is_empty());
        // The next time is as far as it may be.
        assert!(places(3.0).is_empty());
        assert_eq!(places(6.0), [1, 3, 5, 6, 8]);
        assert_eq!(places(9.0), [0, 1, 3, 4, 5, 6, 8]);
        assert!(too_near(&[], &[], 6.0).is_empty());
    }

    /// Times in any order, and blocks of five days: no two splits come closer.
    #[test]
    fn splits_are_apart() {
        let mut times = times(8 * 200);
        times.reverse();
        times.rotate_left(371);
        let rule = SplitRule::Blocks {
            seed: 3,
            train: 0.8,
            validation: 0.1,
            days: 5.0,
        };
        let splits = rule.assign(&times).unwrap();
        let closest_hours = |left_out: &BTreeSet<usize>| {
            let kept = (0..times.len()).filter(|place| !left_out.contains(place));
            let mut kept: Vec<usize> = kept.collect();
            kept.sort_by_key(|&place| times[place].seconds_since(times[0]));
            let pairs = kept
                .windows(2)
                .filter(|pair| splits[pair[0]] != splits[pair[1]]);
            let apart = pairs.map(|pair| times[pair[1]].seconds_since(times[pair[0]]) / 3600);
            apart.min().unwrap()
        };
        assert_eq!(closest_hours(&BTreeSet::new()), 3);
        let near = too_near(&times, &splits, 24.0);
        assert_eq!(closest_hours(&near), 24);
        assert!(near.iter().all(|&place| splits[place] != Split::Test));
    }
}
