//! A note for comparisons in which rivers are defined by a moisture limit: more water vapour alone creates more rivers.

use super::ChangeRow;
use super::names::Names;
use super::side::Ensemble;
use super::unequal::lacking;
use squall_data::Class;
use std::collections::BTreeMap;

/// The moisture limit by which masks of rivers are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    /// The same limit in every climate.
    Fixed,
    /// Percentiles of each time.
    OfEachTime,
    /// The limit of a network's training labels.
    Learnt,
}

impl Limit {
    const ALL: [Self; 3] = [Self::Fixed, Self::OfEachTime, Self::Learnt];

    /// The limit recorded in the rules of the masks; `None` for percentiles of a climate and for other tools.
    fn from_rules(rules: &BTreeMap<String, String>) -> Option<Self> {
        let has = |name: &str| rules.contains_key(name);
        // Column water of deepcam, the Laplacian of transport of tempest; the ensemble of bard.
        if has("masks.river.min_damped_tmq_kg_m2") || has("masks.ridge.max_laplacian") {
            Some(Self::Fixed)
        } else if has("masks.member_count") {
            Some(Self::OfEachTime)
        } else if has("masks.squall_model_hash") {
            Some(Self::Learnt)
        } else {
            None
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Fixed => "a fixed limit, which more water in the air exceeds more often",
            Self::OfEachTime => "percentiles of each time, which rise with the water in the air",
            Self::Learnt => "a network, by the limit of what it learnt from",
        }
    }
}

/// The note, if any runs use such limits; `drawn` names runs and limits.
fn sentence(drawn: &[String]) -> Option<String> {
    (!drawn.is_empty()).then(|| {
        format!(
            "Rivers are what exceeds a limit of moisture ({}), so that part of every change of rivers, however significant, may be the limit's: `squall label --method percentile --climatology` takes the limits of one run's climate for all.",
            drawn.join("; ")
        )
    })
}

/// The note for a comparison with these rows.
pub(super) fn note(names: &Names, sides: [&Ensemble; 2], changes: &[ChangeRow]) -> Option<String> {
    let river = Class::AtmosphericRiver.name();
    if !changes.iter().any(|row| row.class == river) {
        return None;
    }
    let drawn = Limit::ALL.into_iter().filter_map(|limit| {
        let runs = lacking(sides, |run| {
            Limit::from_rules(&run.coverage.rules) != Some(limit)
        });
        (!runs.is_empty()).then(|| format!("{}: {}", names.format_runs(&runs), limit.words()))
    });
    sentence(&drawn.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: deepcam's rivers covered 125 % more of a warmer run, significantly, while the truth was 29 % and
    /// bard found 2 %, without any note.
    #[test]
    fn limits_of_moisture_are_told_by_the_rules_of_the_masks() {
        let of = |name: &str| {
            let rules = [(name.to_string(), "1".to_string())];
            Limit::from_rules(&BTreeMap::from(rules))
        };
        for (name, expected) in [
            ("masks.river.min_damped_tmq_kg_m2", Some(Limit::Fixed)),
            ("masks.ridge.max_laplacian", Some(Limit::Fixed)),
            ("masks.member_count", Some(Limit::OfEachTime)),
            ("masks.squall_model_hash", Some(Limit::Learnt)),
            // A climatology is compared by its name; rules of lows have no moisture.
            ("masks.percentile_climatology", None),
            ("masks.node.contour_rise_pa", None),
        ] {
            assert_eq!(of(name), expected, "{name}");
        }
        let drawn = format!("a and b: {}", Limit::Fixed.words());
        let note = sentence(&[drawn]).unwrap();
        assert!(
            note.contains("(a and b: a fixed limit, ") && note.contains("percentile --climatology"),
            "{note}"
        );
        assert_eq!(sentence(&[]), None);
    }
}
