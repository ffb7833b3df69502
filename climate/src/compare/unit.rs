//! The unit that bootstrap and permutation test resample: a year, a member of an ensemble, or a pair of members.

use super::names::Names;
use serde::{Deserialize, Serialize};

/// Pairs that are named one by one.
const MOST: usize = 5;

/// What counts as independent of all others of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A year of a run, or a block of them: runs that differ in their weather alone.
    #[default]
    Year,
    /// A run with all its years: members that differ in more, such as models of which each side has others.
    Member,
    /// A run of each side with all their years, the first with the first and so on: the same models on both sides.
    Pair,
}

impl Unit {
    /// Whether it is the year; then it is not in files.
    pub(super) fn is_year(&self) -> bool {
        *self == Self::Year
    }

    /// What there are many or few of.
    pub(super) fn plural(self) -> &'static str {
        match self {
            Self::Year => "years",
            Self::Member => "members",
            Self::Pair => "pairs of members",
        }
    }

    /// What a reader must know of sides with several runs, of each of which so many years are used.
    pub(super) fn note(self, names: &Names, years: [Vec<usize>; 2]) -> Option<String> {
        if !names.has_members() {
            return None;
        }
        let sides = names.labels().into_iter().zip(&years);
        let sides: Vec<String> = sides.map(|(label, years)| of_side(label, years)).collect();
        let sides = sides.join(", ");
        Some(match self {
            Self::Year => format!(
                "{sides}: years of all members count as independent of each other, as they are where members differ in their weather alone. Members under the same prescribed sea surface temperatures have these in common year by year: their years tell less than so many. Where members differ in more, as several models do, `squall compare --unit member` draws members as a whole, and --unit pair does with the same models on both sides."
            ),
            Self::Member => format!(
                "{sides}: members are drawn and dealt as a whole, so that intervals and p hold how much they differ from each other."
            ),
            Self::Pair if are_uneven(&years) => format!(
                "{sides}. {} Some members have a larger share of the years of one side than of the other: part of every change may be that of members, not that of climates. --years-a and --years-b can give all the same years.",
                pairs(names)
            ),
            Self::Pair => format!("{sides}. {}", pairs(names)),
        })
    }
}

/// How many members a side has, and how many years they have.
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

/// Whether the two of some pair have other shares of the years of their sides: then what they have in common does not
/// cancel.
fn are_uneven([a, b]: &[Vec<usize>; 2]) -> bool {
    let (of_a, of_b): (usize, usize) = (a.iter().sum(), b.iter().sum());
    a.iter().zip(b).any(|(a, b)| a * of_b != b * of_a)
}

/// Which members are pairs.
fn pairs(names: &Names) -> String {
    let [a, b] = names.members();
    let pairs: Vec<String> = (a.iter().zip(b).take(MOST))
        .map(|(a, b)| format!("{a} with {b}"))
        .collect();
    let more = match a.len().saturating_sub(MOST) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "Members of both sides are drawn and dealt in pairs, in this order: {}{more}.",
        pairs.join(", ")
    )
}
