//! The smallest p-value that a test with few years can reach, and the resulting detection limits.

use crate::compare::levels::MAX_FITTED_DRAWS;
use crate::compare::{
    ChangeRow, Comparison, DRAWS, Design, DrawOptions, Group, MapSummary, Unit, false_rate,
    in_percent,
};

/// The rows of each family, by [`Group::family`].
const FAMILIES: [&str; Group::FAMILIES] = [
    "rows of the whole",
    "rows of hemispheres and basins",
    "rows of seasons",
    "rows of seasons of hemispheres and basins",
];

/// The smallest p of a test that permutes this many blocks between two sides, or within pairs: the probability of the
/// actual assignment, and of its mirror image if both sides have the same size, but at least that of one of the
/// permutations made.
pub(crate) fn least_p(unit: Unit, (a, b): (usize, usize), draws: usize) -> f64 {
    let deals: f64 = match unit {
        Unit::Pair => 2f64.powi(a as i32),
        Unit::Year | Unit::Member => (1..=a).map(|k| (b + k) as f64 / k as f64).product(),
    };
    let as_far = if a == b { 2.0 } else { 1.0 };
    (as_far / deals).max(1.0 / (draws as f64 + 1.0))
}

/// How many of these tests must have the smallest p for them to be significant after correction; `None` if even all are
/// too few.
fn needed(least: f64, tests: usize, rate: f64) -> Option<usize> {
    // As in Benjamini and Hochberg: the rank of equal p-values is that of the last of them.
    (1..=tests).find(|&rank| least * tests as f64 / (rank as f64) < rate)
}

impl Comparison {
    /// The smallest p that any row can have.
    pub(crate) fn least_p(&self) -> f64 {
        least_p(self.unit, (self.a.blocks, self.b.blocks), self.draws.draws)
    }

    /// Whether no change can be significant, however large.
    pub(crate) fn has_no_power(&self) -> bool {
        self.least_p() >= false_rate(self.draws.confidence)
    }

    /// What is too scarce if no change can be significant: units, such as `years`, or `resamples`.
    pub(crate) fn too_few(&self) -> &'static str {
        let with_all = least_p(self.unit, (self.a.blocks, self.b.blocks), usize::MAX);
        if with_all < false_rate(self.draws.confidence) {
            "resamples"
        } else {
            self.unit.plural()
        }
    }
}

/// The caveat if a change in a single row cannot be significant.
pub(super) fn note(
    unit: Unit,
    blocks: (usize, usize),
    draws: &DrawOptions,
    rows: &[ChangeRow],
    maps: &[MapSummary],
) -> Option<String> {
    let least = least_p(unit, blocks, draws.draws);
    let of_rows = FAMILIES.iter().enumerate().map(|(family, name)| {
        let tested = |row: &&ChangeRow| row.change.p.is_some() && row.group().family() == family;
        (rows.iter().filter(tested).count(), *name)
    });
    let cells = maps.iter().map(|map| map.tested).max().unwrap_or(0);
    let tests: Vec<(usize, &str)> = of_rows
        .chain([(cells, "cells of a map")])
        .filter(|(tests, _)| *tests > 0)
        .collect();
    if tests.is_empty() {
        return None;
    }
    let (a, b) = blocks;
    let units = match unit {
        Unit::Year => format!("{a} against {b} years or blocks of years"),
        Unit::Member => format!("{a} against {b} members"),
        Unit::Pair => format!("{a} pairs of members"),
    };
    let why = format!(
        "With {units} and {} resamples no p can be below {least:.2e}",
        draws.draws
    );
    let rate = false_rate(draws.confidence);
    let needed = |tests: usize| needed(least, tests, rate);
    let hard: Vec<String> = (tests.iter())
        .filter_map(|&(tests, name)| Some((needed(tests)?, tests, name)))
        .filter(|(needed, ..)| *needed > 1)
        .map(|(needed, tests, name)| format!("{needed} of the {tests} {name}"))
        .collect();
    if tests.iter().all(|(tests, _)| needed(*tests).is_none()) {
        return Some(format!("{why}: nothing can be significant."));
    }
    (!hard.is_empty()).then(|| {
        format!(
            "{why}. Corrected for their number, at least {} must change as clearly as can be before any of them is significant: one alone cannot be.",
            hard.join(", ")
        )
    })
}

/// The caveat if intervals at this confidence end beyond the outermost resample, so that their coverage is too low.
/// `has_drawn_levels` says whether bands of return levels use resampled blocks.
pub(super) fn note_ends(design: &Design, has_drawn_levels: bool) -> Option<String> {
    let options = design.options();
    let all = ("intervals", options.draws);
    let levels = (
        "intervals and bands of return levels",
        options.draws.min(MAX_FITTED_DRAWS),
    );
    let candidates = [Some(all), has_drawn_levels.then_some(levels)];
    let short = |(_, draws): &(&str, usize)| design.has_draws() && !design.reaches_ends(*draws);
    let (what, draws) = candidates.into_iter().flatten().find(short)?;
    let enough = (0.5 / design.tail()).ceil();
    let advice = if draws == options.draws && enough <= *DRAWS.end() as f64 {
        format!("`--resamples {enough}` and more reach them, and so does a lower `--confidence`")
    } else {
        "those of a lower `--confidence` can be reached".into()
    };
    Some(format!(
        "The {what} of {} % should end beyond all {draws} resamples, the outermost of which stand for their ends: they are too narrow; {advice}.",
        in_percent(options.confidence)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Change, Quantity, adjusted_p};

    #[test]
    fn the_smallest_p_is_that_of_the_deal_itself() {
        // 252 ways to split ten years into two fives, 462 to split eleven.
        let of_years = |blocks| least_p(Unit::Year, blocks, 10_000);
        assert!((of_years((5, 5)) - 2.0 / 252.0).abs() < 1e-15);
        assert!((of_years((5, 6)) - 1.0 / 462.0).abs() < 1e-15);
        assert!((of_years((6, 5)) - 1.0 / 462.0).abs() < 1e-15);
        assert_eq!(of_years((30, 30)), 1.0 / 10_001.0);
        // Each of six pairs can be swapped or not.
        assert_eq!(least_p(Unit::Pair, (6, 6), 10_000), 2.0 / 64.0);
        assert_eq!(least_p(Unit::Pair, (30, 30), 10_000), 1.0 / 10_001.0);
    }

    #[test]
    fn as_many_as_needed_are_significant_and_one_fewer_is_not() {
        for (least, tests) in [(2.0 / 252.0, 15), (1.0 / 462.0, 60), (1e-4, 1000)] {
            let needed = needed(least, tests, 0.05).unwrap();
            let found = |strong: usize| {
                let p: Vec<f64> = (0..tests)
                    .map(|k| if k < strong { least } else { 1.0 })
                    .collect();
                adjusted_p(&p).iter().filter(|p| **p < 0.05).count()
            };
            assert_eq!((found(needed), found(needed - 1)), (needed, 0));
        }
        assert_eq!(needed(1.0 / 101.0, 7, 0.005), None);
        assert_eq!(needed(1e-4, 10, 0.05), Some(1));
    }

    #[test]
    fn a_note_tells_which_intervals_draws_do_not_reach() {
        let say = |blocks, draws, confidence, has_levels| {
            let options = DrawOptions {
                draws,
                confidence,
                ..DrawOptions::default()
            };
            note_ends(&Design::new(blocks, options).unwrap(), has_levels)
        };
        // 0.05 % of the resamples are below an interval of 99.9 %.
        let said = say((30, 30), 1000, 0.999, true).unwrap();
        let begin = "The intervals of 99.9 % should end beyond all 1000 resamples";
        assert!(
            said.starts_with(begin) && said.contains("`--resamples 2"),
            "{said}"
        );
        assert_eq!(say((30, 30), 10_000, 0.999, false), None);
        let said = say((30, 30), 10_000, 0.999, true).unwrap();
        assert!(said.contains("levels of 99.9 % should end beyond all 2000"));
        assert!(!said.contains("--resamples"), "{said}");
        // With five years no number of resamples is enough.
        let said = say((5, 5), 10_000, 0.9999, false).unwrap();
        assert!(!said.contains("--resamples"), "{said}");
        assert_eq!(say((5, 5), 10_000, 0.95, true), None);
        assert_eq!(say((3, 30), 100, 0.999, true), None);
    }

    #[test]
    fn a_note_tells_what_a_lone_row_cannot() {
        let mut change = Change::of_values(Some(1.0), Some(2.0));
        change.p = Some(0.5);
        let row = ChangeRow {
            quantity: Quantity::CycloneTracks,
            name: "tracks".into(),
            class: "tropical_cyclone".into(),
            basin: "all".into(),
            season: "all".into(),
            unit: "a year".into(),
            change,
            years: None,
            adjusted_p: Some(0.5),
            significant: false,
        };
        let rows = vec![row; 15];
        let of = |blocks, confidence| {
            let draws = DrawOptions {
                confidence,
                ..DrawOptions::default()
            };
            note(Unit::Year, blocks, &draws, &rows, &[])
        };
        let said = of((5, 5), 0.95).unwrap();
        assert!(
            said.contains("below 7.94e-3") && said.contains("3 of the 15 rows of the whole"),
            "{said}"
        );
        assert!(of((5, 5), 0.995).unwrap().contains("nothing can be"));
        // With 249 resamples the smallest p is 0.004, which is not below 0.004.
        let few = DrawOptions {
            draws: 249,
            confidence: 0.996,
            ..DrawOptions::default()
        };
        let said = note(Unit::Year, (30, 30), &few, &rows, &[]).unwrap();
        assert!(said.contains("nothing can be"), "{said}");
        assert_eq!(of((30, 30), 0.95), None);
    }
}
