//! The unit of resampling for bootstrap and permutation test: a year, a member of an ensemble, or a pair of members.

use super::names::Names;
use serde::{Deserialize, Serialize};

/// Maximum number of pairs listed individually.
const MAX_LISTED: usize = 5;

/// The unit assumed independent of all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A year of a run, or a block of years: for runs that differ only in their weather.
    #[default]
    Year,
    /// A run with all its years: for members that differ in more, such as different models on each side.
    Member,
    /// A run of each side with all their years, paired in order: for the same models on both sides.
    Pair,
}

impl Unit {
    /// Whether it is the year, which files omit.
    pub(super) fn is_year(&self) -> bool {
        *self == Self::Year
    }

    /// The plural of the unit.
    pub(super) fn plural(self) -> &'static str {
        match self {
            Self::Year => "years",
            Self::Member => "members",
            Self::Pair => "pairs of members",
        }
    }

    /// The caveat for sides with several runs; `years` are the numbers of used years of each run.
    pub(super) fn note(self, names: &Names, years: [Vec<usize>; 2]) -> Option<String> {
        if !names.has_members() {
            return None;
        }
        let sides = names.labels().into_iter().zip(&years);
        let sides: Vec<String> = sides.map(|(label, years)| of_side(label, years)).collect();
        let sides = sides.join(", ");
        Some(match self {
            Self::Year => format!(
                "{sides}: years of all members count as independent of each other, as they are where members differ in their weather alone. Members under the same prescribed sea surface temperatures have these in common year by year: their years carry less information than as many independent ones. Where members differ in more, as several models do, `squall compare --unit member` resamples members as a whole, and --unit pair does with the same models on both sides."
            ),
            Self::Member => format!(
                "{sides}: members are resampled and permuted as a whole, so that intervals and p include the differences between them."
            ),
            Self::Pair if are_uneven(&years) => format!(
                "{sides}. {} Some members have a larger share of the years of one side than of the other: part of every change may be that of members, not that of climates. --years-a and --years-b can give all the same years.",
                pairs(names)
            ),
            Self::Pair => format!("{sides}. {}", pairs(names)),
        })
    }
}

/// Describes the members of a side and their numbers of years.
fn of_side(label: &str, years: &[usize]) -> String {
    let (least, most) = (years.iter().min(), years.iter().max());
    let (least, most) = (least.copied().unwrap_or(0), most.copied().unwrap_or(0));
    let s = if most == 1 { "" } else { "s" };
    let span = if least == most {
        format!("{least} whole year{s}")
    } else {
        format!("{least} to {most} whole year{s}")
    };
    match years.len() {
        1 => format!("{label} is one run with {span}"),
        count => format!("{label} has {count} members with {span} each"),
    }
}

/// Whether the members of any pair have different shares of the years of their sides. What the pair has in common then
/// does not cancel.
fn are_uneven([a, b]: &[Vec<usize>; 2]) -> bool {
    let (of_a, of_b): (usize, usize) = (a.iter().sum(), b.iter().sum());
    a.iter().zip(b).any(|(a, b)| a * of_b != b * of_a)
}

/// Lists the pairs of members.
fn pairs(names: &Names) -> String {
    let [a, b] = names.members();
    let pairs: Vec<String> = (a.iter().zip(b).take(MAX_LISTED))
        .map(|(a, b)| format!("{a} with {b}"))
        .collect();
    let more = match a.len().saturating_sub(MAX_LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "Members of both sides are resampled and permuted in pairs, in this order: {}{more}.",
        pairs.join(", ")
    )
}
