//! Distributions of intensity: the number of events per bin and year in both runs.

use crate::compare::design::{Change, Design};
use crate::compare::discovery::{adjusted_p, false_rate};
use crate::compare::names::Names;
use crate::compare::quantity::Extreme;
use crate::compare::side::{Ensemble, Side, joined, unequal_shares};
use crate::compare::statistic::Statistic;
use serde::{Deserialize, Serialize};

/// With more bins a plot shows noise; the bins are widened instead.
const MAX_BINS: usize = 30;

/// The distribution of one quantity in both runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// The name in tables.
    pub name: String,
    /// The mask code of the class whose tracks have the quantity.
    pub class: u8,
    /// Its name in a sentence.
    pub subject: String,
    /// The unit of the edges.
    pub unit: String,
    /// Edges of the bins, ascending, one more than bins; a value at an edge belongs to the bin above it.
    pub edges: Vec<f64>,
    /// The bins.
    pub bins: Vec<Bin>,
}

/// The tracks whose value lies between two edges.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    /// Tracks per year.
    #[serde(flatten)]
    pub change: Change,
    /// p adjusted for the bins of the distribution.
    pub adjusted_p: Option<f64>,
    /// Whether the adjusted p is below 1 - confidence.
    pub significant: bool,
}

/// The distributions of lifetime-maximum wind and lifetime-minimum pressure of cyclones, and of lifetime-maximum
/// transport and area of rivers. A distribution is omitted if a run has tracks without any known value, because the
/// intensity is then unknown. If the sides lack the values of different shares of tracks, no bin is called significant,
/// which is noted.
pub(super) fn distributions(
    names: &Names,
    sides: [&Ensemble; 2],
    design: &Design,
    notes: &mut Vec<String>,
) -> Vec<Distribution> {
    // Bin widths: about ten knots for wind, round numbers otherwise.
    let all = [
        (
            Extreme::CycloneWind,
            "max_wind",
            "lifetime-maximum wind of tropical cyclones",
            5.0,
        ),
        (
            Extreme::CyclonePressure,
            "min_pressure",
            "lifetime-minimum pressure of tropical cyclones",
            5.0,
        ),
        (
            Extreme::RiverTransport,
            "max_ivt",
            "lifetime-maximum vapour transport of atmospheric rivers",
            100.0,
        ),
        (
            Extreme::RiverArea,
            "max_area",
            "lifetime-maximum area of atmospheric rivers",
            500_000.0,
        ),
    ];
    all.into_iter()
        .filter_map(|(of, name, subject, width)| {
            let tracks = of.tracks();
            let class = tracks.about().class;
            let known = sides.map(|side| known_of(side, of));
            let unknown = |(run, (values, _)): &(&Side, Known)| {
                !run.covers(class) || values.is_empty() && run.has_any(tracks)
            };
            if known.iter().flatten().any(unknown) {
                return None;
            }
            let values = known.iter().flatten().flat_map(|(_, (values, _))| values);
            let edges = edges(values.map(|(value, _)| *value), width)?;
            let [before, after] = known.each_ref().map(|side| counts(side, &edges));
            let changes: Vec<Change> = before
                .iter()
                .zip(&after)
                .map(|(before, after)| design.change(before, after))
                .collect();
            let mut bins = bins(changes, false_rate(design.options().confidence));
            if let Some(shares) = unequal_shares(sides.map(|side| side.total_and_valued_of(of))) {
                bins.iter_mut().for_each(|bin| bin.significant = false);
                notes.push(note_of_shares(names, shares, subject));
            }
            Some(Distribution {
                name: name.into(),
                class: class.code(),
                subject: subject.into(),
                unit: of.unit().into(),
                bins,
                edges,
            })
        })
        .collect()
}

/// The note on a distribution for which the sides lack the values of these shares of tracks.
fn note_of_shares(names: &Names, shares: [f64; 2], subject: &str) -> String {
    let [a, b] = names.labels();
    let [of_a, of_b] = shares.map(|share| format!("{:.0} %", 100.0 * share));
    format!(
        "Of {a} {of_a} and of {b} {of_b} of the tracks are in no bin of the distribution of the {subject}, because they have no value: no change of its bins is called significant."
    )
}

/// Edges of equal bins that cover all values; `None` if there are none.
fn edges(values: impl Iterator<Item = f64>, width: f64) -> Option<Vec<f64>> {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    if low > high {
        return None;
    }
    let mut width = width;
    loop {
        let first = (low / width).floor();
        let bins = (high / width).floor() - first + 1.0;
        if bins <= MAX_BINS as f64 {
            return Some(
                (0..=bins as usize)
                    .map(|k| (first + k as f64) * width)
                    .collect(),
            );
        }
        width *= 2.0;
    }
}

/// Values with their block, and for each block the number of years with known values.
type Known = (Vec<(f64, u32)>, Vec<f64>);

/// The known values of each run of a side.
fn known_of(side: &Ensemble, of: Extreme) -> Vec<(&Side, Known)> {
    let members = side.members().iter();
    members
        .map(|run| (run, run.extremes_of_tracks(of)))
        .collect()
}

/// Tracks per year in each bin, by the blocks of all runs.
fn counts(runs: &[(&Side, Known)], edges: &[f64]) -> Vec<Statistic> {
    let of_runs: Vec<Vec<Statistic>> = (runs.iter())
        .map(|(run, known)| counts_of(run, known, edges))
        .collect();
    (0..edges.len() - 1)
        .map(|bin| joined(of_runs.iter().map(|bins| bins[bin].clone())))
        .collect()
}

/// Tracks per year in each bin, for one run.
fn counts_of(run: &Side, (values, years): &Known, edges: &[f64]) -> Vec<Statistic> {
    let mut sums = vec![vec![0.0; years.len()]; edges.len() - 1];
    for (value, block) in values {
        let above = edges.partition_point(|edge| edge <= value);
        let bin = above.saturating_sub(1).min(sums.len() - 1);
        sums[bin][*block as usize] += run.scale(None);
    }
    sums.into_iter()
        .map(|sums| Statistic::ratio(sums, years.clone()))
        .collect()
}

fn bins(changes: Vec<Change>, rate: f64) -> Vec<Bin> {
    let p: Vec<f64> = changes
        .iter()
        .map(|change| change.p.unwrap_or(f64::NAN))
        .collect();
    let bin = |(change, adjusted): (Change, f64)| Bin {
        change,
        adjusted_p: (!adjusted.is_nan()).then_some(adjusted),
        significant: adjusted < rate,
    };
    changes.into_iter().zip(adjusted_p(&p)).map(bin).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_value_has_its_bin(values in proptest::collection::vec(-50.0..5000.0f64, 1..40), width in 0.5..200.0f64) {
            let edges = edges(values.iter().copied(), width).unwrap();
            prop_assert!(edges.len() <= MAX_BINS + 1 && edges.windows(2).all(|w| w[0] < w[1]));
            for value in values {
                prop_assert!(edges[0] <= value && value < edges[edges.len() - 1] + 1e-6 * width);
            }
        }
    }

    #[test]
    fn edges_are_round() {
        assert_eq!(
            edges([17.0, 25.0].into_iter(), 5.0).unwrap(),
            [15.0, 20.0, 25.0, 30.0]
        );
        assert_eq!(edges([20.0].into_iter(), 5.0).unwrap(), [20.0, 25.0]);
        assert_eq!(edges(std::iter::empty(), 5.0), None);
        // A fill value among the values must not hang or crash the program.
        assert!(edges([17.0, 9.96921e36].into_iter(), 5.0).unwrap().len() <= MAX_BINS + 1);
    }
}
