//! What a comparison gives: numbers, sentences, maps, and who was compared.

use super::names::folder_of_all;
use super::side::Ensemble;
use super::{
    Change, Distribution, DrawOptions, Group, MapChange, Quantity, ReturnLevels, Side, SideInput,
    Unit,
};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The change of one quantity in one hemisphere, basin or season.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangeRow {
    /// What is compared.
    pub quantity: Quantity,
    /// Its word in tables.
    pub name: String,
    /// The class in tables.
    pub class: String,
    /// `all`, `NH` or `SH`, or the code of a basin.
    pub basin: String,
    /// `all`, or a season.
    pub season: String,
    /// The unit of a, b, difference and interval.
    pub unit: String,
    /// The numbers of both runs and how they differ.
    #[serde(flatten)]
    pub change: Change,
    /// p adjusted for the rows of the same family: all rows of the whole, of hemispheres and basins, of seasons, or of
    /// seasons of hemispheres and basins.
    pub adjusted_p: Option<f64>,
    /// Whether the adjusted p is below 1 - confidence.
    pub significant: bool,
}

impl ChangeRow {
    /// Which part of the events it is about.
    pub fn group(&self) -> Group {
        let found = Group::all()
            .find(|group| group.columns() == (self.basin.as_str(), self.season.as_str()));
        found.unwrap_or(Group::ALL)
    }
}

/// What is said about a side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SideSummary {
    /// What it is called.
    pub label: String,
    /// The folder; that which holds all of them where there are several.
    pub folder: PathBuf,
    /// Calendar of the data; all where members have several.
    pub calendar: String,
    /// Grid of the masks, if known; all where members have several.
    pub grid: Option<String>,
    /// Years that are compared, those of one member after those of the other.
    pub years: Vec<i64>,
    /// Years that are not, with the reason.
    pub left_out: Vec<(i64, String)>,
    /// Blocks of years that are drawn; members, where those are.
    pub blocks: usize,
    /// The members, each as a side of its own; none for a side of one run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<SideSummary>,
}

/// How many cells of a map changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MapSummary {
    /// What the map shows.
    pub name: String,
    /// The class in tables.
    pub class: String,
    /// Cells where a run has an event.
    pub tested: usize,
    /// Cells with a significant increase at the false discovery rate 1 - confidence.
    pub increases: usize,
    /// Cells with a significant decrease.
    pub decreases: usize,
}

/// Everything that a comparison found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The first run.
    pub a: SideSummary,
    /// The second run.
    pub b: SideSummary,
    /// How draws were made.
    pub draws: DrawOptions,
    /// Months that are compared.
    pub months: Vec<i64>,
    /// The month that years begin with; where it is January, and in comparisons of earlier versions, not in the file.
    #[serde(default = "january", skip_serializing_if = "is_january")]
    pub year_start: i64,
    /// What is drawn and dealt; where it is the year, and in comparisons of earlier versions, not in the file.
    #[serde(default, skip_serializing_if = "Unit::is_year")]
    pub unit: Unit,
    /// What a reader must know: years left out, months restricted, columns that are not there.
    pub notes: Vec<String>,
    /// Sentences, the most important first.
    pub statements: Vec<String>,
    /// All numbers.
    pub changes: Vec<ChangeRow>,
    /// How many cells of each map changed.
    pub maps: Vec<MapSummary>,
    /// Return levels.
    pub return_levels: Vec<ReturnLevels>,
    /// How many events of each strength; absent in comparisons of earlier versions.
    #[serde(default)]
    pub distributions: Vec<Distribution>,
    /// The maps themselves.
    #[serde(skip)]
    pub map_changes: Vec<MapChange>,
}

fn january() -> i64 {
    1
}

fn is_january(month: &i64) -> bool {
    *month == january()
}

/// The summary of a side whose runs have these names.
pub(super) fn summary(input: &SideInput, names: &[String], side: &Ensemble) -> SideSummary {
    if let ([folder], [run]) = (&input.folders[..], side.members()) {
        return of_run(&input.label, folder, run);
    }
    let runs = names.iter().zip(&input.folders).zip(side.members());
    let members: Vec<SideSummary> = runs
        .map(|((name, folder), run)| of_run(name, folder, run))
        .collect();
    let left_out = members.iter().flat_map(|run| {
        let years = run.left_out.iter();
        years.map(move |(year, reason)| (*year, format!("{}: {reason}", run.label)))
    });
    let grids = members.iter().filter_map(|run| run.grid.as_deref());
    SideSummary {
        label: input.label.clone(),
        folder: folder_of_all(&input.folders),
        calendar: different(members.iter().map(|run| run.calendar.as_str())).unwrap_or_default(),
        grid: different(grids),
        years: members.iter().flat_map(|run| run.years.clone()).collect(),
        left_out: left_out.collect(),
        blocks: side.blocks(),
        members,
    }
}

fn of_run(label: &str, folder: &Path, run: &Side) -> SideSummary {
    SideSummary {
        label: label.into(),
        folder: folder.into(),
        calendar: run.coverage.calendar.cf_name().into(),
        grid: run.coverage.grid.as_ref().map(|grid| grid.describe()),
        years: run.years.used.clone(),
        left_out: run.years.left_out.clone(),
        blocks: run.blocks(),
        members: Vec::new(),
    }
}

/// Words that differ, each once; `None` without any.
fn different<'w>(words: impl Iterator<Item = &'w str>) -> Option<String> {
    let mut found: Vec<&str> = Vec::new();
    for word in words {
        if !found.contains(&word) {
            found.push(word);
        }
    }
    (!found.is_empty()).then(|| found.join(", "))
}

impl SideSummary {
    /// Its runs: the members, or itself.
    pub(crate) fn runs(&self) -> &[Self] {
        if self.members.is_empty() {
            std::slice::from_ref(self)
        } else {
            &self.members
        }
    }
}

pub(super) fn map_summary(map: &MapChange, rate: f64) -> MapSummary {
    let significant = || {
        map.significant(rate)
            .zip(&map.difference)
            .filter(|(yes, _)| *yes)
    };
    MapSummary {
        name: map.quantity.name().into(),
        class: map.class.name().into(),
        tested: map.tested(),
        increases: significant().filter(|(_, d)| **d > 0.0).count(),
        decreases: significant().filter(|(_, d)| **d < 0.0).count(),
    }
}

#[cfg(test)]
impl Comparison {
    /// A comparison of two runs of so many years, in which nothing is compared yet.
    pub(crate) fn of_runs(runs: [(&str, usize); 2]) -> Self {
        let [a, b] = runs.map(|(label, years)| SideSummary {
            label: label.into(),
            folder: label.into(),
            calendar: "noleap".into(),
            grid: None,
            years: (1..).take(years).collect(),
            left_out: Vec::new(),
            blocks: years,
            members: Vec::new(),
        });
        Self {
            a,
            b,
            draws: DrawOptions::default(),
            months: (1..=12).collect(),
            year_start: january(),
            unit: Unit::Year,
            notes: Vec::new(),
            statements: Vec::new(),
            changes: Vec::new(),
            maps: Vec::new(),
            return_levels: Vec::new(),
            distributions: Vec::new(),
            map_changes: Vec::new(),
        }
    }
}
