//! The result of a comparison: numbers, sentences, maps, and a summary of both sides.

use super::names::common_folder;
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
    /// The quantity compared.
    pub quantity: Quantity,
    /// Its name in tables.
    pub name: String,
    /// The class in tables.
    pub class: String,
    /// `all`, `NH` or `SH`, or the code of a basin.
    pub basin: String,
    /// `all`, or a season.
    pub season: String,
    /// The unit of a, b, difference and interval.
    pub unit: String,
    /// The values of both runs and their difference.
    #[serde(flatten)]
    pub change: Change,
    /// Number of years of each side in which it is known; absent in comparisons of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub years: Option<[usize; 2]>,
    /// p adjusted for the rows of the same family: the whole, hemispheres and basins, seasons, or seasons of
    /// hemispheres and basins.
    pub adjusted_p: Option<f64>,
    /// Whether the adjusted p is below 1 - confidence.
    pub significant: bool,
}

impl ChangeRow {
    /// The group of events that this row describes.
    pub fn group(&self) -> Group {
        let found = Group::all()
            .find(|group| group.columns() == (self.basin.as_str(), self.season.as_str()));
        found.unwrap_or(Group::ALL)
    }
}

/// Summary of a side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SideSummary {
    /// Its label.
    pub label: String,
    /// The folder; for several runs, the common parent folder.
    pub folder: PathBuf,
    /// Calendar of the data; all calendars if members differ.
    pub calendar: String,
    /// Grid of the masks, if known; all grids if members differ.
    pub grid: Option<String>,
    /// Years compared, member by member.
    pub years: Vec<i64>,
    /// Years not compared, with the reason.
    pub left_out: Vec<(i64, String)>,
    /// Number of resampled blocks: of years, or members if those are resampled.
    pub blocks: usize,
    /// The members, each summarised as a side; empty for a side of one run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<SideSummary>,
}

/// Number of changed cells of a map.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MapSummary {
    /// What the map shows.
    pub name: String,
    /// The class in tables.
    pub class: String,
    /// Cells in which a run has an event.
    pub tested: usize,
    /// Cells with a significant increase at the false discovery rate 1 - confidence.
    pub increases: usize,
    /// Cells with a significant decrease.
    pub decreases: usize,
}

/// The results of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The first run.
    pub a: SideSummary,
    /// The second run.
    pub b: SideSummary,
    /// Settings of the resampling.
    pub draws: DrawOptions,
    /// Months compared.
    pub months: Vec<i64>,
    /// The first month of a year. Omitted from the file if January, also in comparisons of earlier versions.
    #[serde(default = "january", skip_serializing_if = "is_january")]
    pub year_start: i64,
    /// The unit of resampling. Omitted from the file if it is the year, also in comparisons of earlier versions.
    #[serde(default, skip_serializing_if = "Unit::is_year")]
    pub unit: Unit,
    /// Caveats for the reader: years left out, months restricted, columns missing.
    pub notes: Vec<String>,
    /// Sentences, the most important first.
    pub statements: Vec<String>,
    /// All numbers.
    pub changes: Vec<ChangeRow>,
    /// Number of changed cells of each map.
    pub maps: Vec<MapSummary>,
    /// Return levels.
    pub return_levels: Vec<ReturnLevels>,
    /// Number of events per intensity bin; empty in comparisons of earlier versions.
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

/// Summarises a side whose runs have these names.
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
        folder: common_folder(&input.folders),
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

/// The distinct words, comma-separated; `None` if there are none.
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
    /// The runs of the side: its members, or itself.
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
    /// An empty comparison of two runs with these numbers of years.
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
