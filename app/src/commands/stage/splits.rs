//! Describes the splits of a store and what they lack.

use crate::failure::Advice;
use crate::plan::counted;
use squall_data::store::{Split, too_near};
use squall_data::{Class, Time};
use std::collections::BTreeSet;

/// Indices of the samples to drop because one of another split is less than `hours` away; fails if a split would lose
/// all its samples.
pub fn guard(times: &[Time], splits: &[Split], hours: f64) -> anyhow::Result<BTreeSet<usize>> {
    let near = too_near(times, splits, hours);
    if near.is_empty() {
        return Ok(near);
    }
    for (split, name) in Split::ALL.into_iter().zip(NAMES) {
        let samples = splits.iter().enumerate();
        let mut own = samples.filter(|(_, of)| **of == split).peekable();
        if own.peek().is_some() && own.all(|(place, _)| near.contains(&place)) {
            let others = match split {
                Split::Train => "all of the other splits",
                _ => "the test",
            };
            return Err(Advice::usage(
                format!("no {name} sample is {hours} hours away from {others}"),
                "give fewer --guard-hours, or longer blocks (--block-days)",
            ));
        }
    }
    tracing::info!(
        "left out: {} less than {hours} hours from another split",
        counted(near.len(), "sample")
    );
    Ok(near)
}

/// The names of the splits.
const NAMES: [&str; 3] = ["training", "validation", "test"];

/// Share of background, cyclone and river pixels in each split; `None` for one without masks.
pub fn shares(counts: [[u64; 3]; 3]) -> [Option<[f64; 3]>; 3] {
    counts.map(|counts| {
        let all = counts.iter().sum::<u64>();
        (all > 0).then(|| counts.map(|count| count as f64 / all as f64))
    })
}

/// Describes the shares of cyclones and rivers.
pub fn in_words(shares: &[Option<[f64; 3]>; 3]) -> String {
    let one = |(name, share): (&str, &Option<[f64; 3]>)| {
        let [_, cyclone, river] = (*share)?.map(|share| 100.0 * share);
        Some(format!(
            "{cyclone:.2} % cyclone and {river:.2} % river pixels in {name}"
        ))
    };
    let parts: Vec<String> = NAMES.into_iter().zip(shares).filter_map(one).collect();
    parts.join(", ")
}

/// What splits lack for training or scoring, one sentence each: samples, or pixels of a class.
pub fn lacks(samples: [usize; 3], counts: [[u64; 3]; 3], block_days: f64) -> Vec<String> {
    let mut lacks = Vec::new();
    let [_, validation, test] = samples;
    if samples.iter().sum::<usize>() > 0 && (validation == 0 || test == 0) {
        let remedy = match block_days {
            days if days > 0.0 => format!(
                "the times are too few blocks of {days} days (--block-days), or --train-share leaves none: give fewer days or a smaller share"
            ),
            _ => "--train-share leaves none: give a smaller one".to_string(),
        };
        let which = match (validation, test) {
            (0, 0) => "validation, by which a training is judged, or for the test",
            (0, _) => "validation, by which a training is judged",
            _ => "the test, which `squall infer --split test` reads",
        };
        lacks.push(format!("no sample is for {which}: {remedy}"));
    }
    let masked = counts.map(|counts| counts.iter().any(|&count| count > 0));
    for (split, name) in NAMES.into_iter().enumerate() {
        if samples[split] == 0 || !masked.contains(&true) {
            continue;
        }
        if !masked[split] {
            lacks.push(format!("no {name} sample has a mask"));
            continue;
        }
        for (code, class) in Class::ALL.into_iter().enumerate() {
            let having = (NAMES.into_iter().zip(counts)).filter(|(_, counts)| counts[code] > 0);
            let having: Vec<&str> = having.map(|(name, _)| name).collect();
            if counts[split][code] == 0 && !having.is_empty() {
                lacks.push(format!(
                    "no {name} sample has a pixel of {}, which there is in {}",
                    class.name().replace('_', " "),
                    having.join(" and ")
                ));
            }
        }
    }
    lacks
}

#[cfg(test)]
mod tests {
    use super::super::Stage;
    use super::*;
    use crate::arguments::parsed;
    use squall_data::Calendar;
    use squall_data::store::SplitRule;

    #[test]
    fn a_gap_leaves_samples_of_every_split() {
        use Split::{Test, Train, Validation};
        let start = Time::new(Calendar::NoLeap, 2000, 1, 1, 0, 0, 0).unwrap();
        let times: Vec<Time> = (0..6).map(|k| start.add_seconds(6 * 3600 * k)).collect();
        let places = |splits: [Split; 6], hours| {
            let found = guard(&times, &splits, hours).map_err(|error| error.to_string());
            found.map(|places| places.into_iter().collect::<Vec<_>>())
        };
        let two = [Train, Train, Train, Validation, Validation, Test];
        assert_eq!(places(two, 6.0), Ok(vec![]));
        assert_eq!(places(two, 12.0), Ok(vec![2, 4]));
        // One that lies beside the test would leave nothing to choose the best model by.
        let one = [Train, Train, Train, Validation, Test, Test];
        let said = "no validation sample is 12 hours away from the test";
        assert_eq!(places(one, 12.0), Err(said.into()));
        let said = "no training sample is 36 hours away from all of the other splits";
        assert_eq!(places(two, 36.0), Err(said.into()));
    }

    /// What validation leaves is the test: half of the rest is for each.
    #[test]
    fn samples_are_dealt_as_asked() {
        let rule = |words: &str| {
            let words = ["run", "--labels", "labels", "--out", "store"]
                .into_iter()
                .chain(words.split_whitespace());
            parsed::<Stage>(words).unwrap().rule()
        };
        let blocks = SplitRule::Blocks {
            seed: 7,
            train: 0.5,
            validation: 0.25,
            days: 2.5,
        };
        let asked = "--train-share 0.5 --seed 7 --block-days";
        assert_eq!(rule(&format!("{asked} 2.5")), blocks);
        let single = SplitRule::Shuffled {
            seed: 7,
            train: 0.5,
            validation: 0.25,
        };
        assert_eq!(rule(&format!("{asked} 0")), single);
        let SplitRule::Blocks { train, days, .. } = rule("") else {
            panic!("blocks are usual");
        };
        assert_eq!((train, days), (0.8, 5.0));
    }

    #[test]
    fn what_a_split_lacks_is_said() {
        let full = [90, 5, 5];
        assert!(lacks([8, 1, 1], [full; 3], 5.0).is_empty());
        // Nobody has a river: the labels are of cyclones alone.
        assert!(lacks([8, 1, 1], [[90, 5, 0]; 3], 5.0).is_empty());
        let said = lacks([8, 1, 1], [full, [90, 0, 5], [0; 3]], 5.0);
        assert_eq!(
            said,
            [
                "no validation sample has a pixel of tropical cyclone, which there is in training",
                "no test sample has a mask"
            ]
        );
        // Boxes alone, one block.
        let said = lacks([8, 0, 0], [[0; 3]; 3], 5.0);
        assert!(
            said.len() == 1 && said[0].contains("--block-days"),
            "{said:?}"
        );
        let said = lacks([8, 0, 0], [[0; 3]; 3], 0.0);
        assert!(!said[0].contains("--block-days"), "{said:?}");
        assert!(said[0].contains("or for the test"), "{said:?}");
        // A month: `squall infer --split test` found nothing, and staging had not said so.
        let said = lacks([6, 1, 0], [full, full, [0; 3]], 5.0);
        assert!(
            said.len() == 1 && said[0].starts_with("no sample is for the test,"),
            "{said:?}"
        );
        assert!(lacks([0; 3], [[0; 3]; 3], 5.0).is_empty());
    }

    #[test]
    fn shares_are_those_of_each_split() {
        let shares = shares([[3, 1, 0], [0; 3], [1, 0, 1]]);
        assert_eq!(
            shares,
            [Some([0.75, 0.25, 0.0]), None, Some([0.5, 0.0, 0.5])]
        );
        let told = in_words(&shares);
        assert!(told.contains("25.00 % cyclone and 0.00 % river pixels in training"));
        assert!(told.contains("50.00 % river pixels in test") && !told.contains("validation"));
    }
}
