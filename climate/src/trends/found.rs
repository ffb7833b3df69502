//! The results: a run, its annual values and their trends.

use super::{Trend, TrendInput};
use crate::compare::{Group, Interval, Quantity, Side};
use serde::Serialize;
use std::path::PathBuf;

/// Summary of the run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunSummary {
    /// Its label.
    pub label: String,
    /// The folder.
    pub folder: PathBuf,
    /// Calendar of the data.
    pub calendar: String,
    /// Grid of the masks, if known.
    pub grid: Option<String>,
    /// Years used.
    pub years: Vec<i64>,
    /// Years not used, with the reason.
    pub left_out: Vec<(i64, String)>,
}

impl RunSummary {
    pub(super) fn of(input: &TrendInput, side: &Side) -> Self {
        Self {
            label: input.label.clone(),
            folder: input.folder.clone(),
            calendar: side.coverage.calendar.cf_name().into(),
            grid: side.coverage.grid.as_ref().map(|grid| grid.describe()),
            years: side.years.used.clone(),
            left_out: side.years.left_out.clone(),
        }
    }
}

/// The values and the trend of one quantity in one hemisphere, basin or season.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrendRow {
    /// The quantity.
    pub quantity: Quantity,
    /// Its name in tables.
    pub name: String,
    /// The class in tables.
    pub class: String,
    /// `all`, or the code of a hemisphere or basin.
    pub basin: String,
    /// `all`, or a season.
    pub season: String,
    /// The unit of values and mean; slope and interval are in this unit per decade.
    pub unit: String,
    /// Slope, interval and p.
    #[serde(flatten)]
    pub trend: Trend,
    /// The slope divided by the mean of the values, per decade, if percentages are meaningful.
    pub relative: Option<f64>,
    /// Confidence interval of the relative slope.
    pub relative_interval: Option<Interval>,
    /// p adjusted for the rows of the same family, as in a comparison.
    pub adjusted_p: Option<f64>,
    /// Whether the adjusted p is below 1 - confidence.
    pub significant: bool,
    /// The group of events that this row describes.
    #[serde(skip)]
    pub group: Group,
    /// The value of each used year, if known.
    #[serde(skip)]
    pub values: Vec<Option<f64>>,
}

impl TrendRow {
    /// Computes the trend of annual values; p is not adjusted yet.
    pub(super) fn of(
        (quantity, group): (Quantity, Group),
        years: &[i64],
        values: Vec<Option<f64>>,
        confidence: f64,
    ) -> Self {
        let about = quantity.about();
        let (basin, season) = group.columns();
        let known: Vec<(i64, f64)> = (years.iter().zip(&values))
            .filter_map(|(year, value)| Some((*year, (*value)?)))
            .collect();
        let trend = Trend::of(&known, confidence);
        let mean = trend.mean.filter(|mean| about.relative && *mean > 0.0);
        Self {
            quantity,
            name: about.name.into(),
            class: about.class.name().into(),
            basin: basin.into(),
            season: season.into(),
            unit: about.unit.into(),
            relative: (trend.slope.zip(mean)).map(|(slope, mean)| slope / mean),
            relative_interval: (trend.interval.zip(mean)).map(|(interval, mean)| Interval {
                low: interval.low / mean,
                high: interval.high / mean,
            }),
            trend,
            adjusted_p: None,
            significant: false,
            group,
            values,
        }
    }

    /// Whether the row is about the whole Earth and all months.
    pub(crate) fn is_of_all(&self) -> bool {
        self.group == Group::ALL
    }

    /// Whether the row is about one region or one season, but not about one season of one region.
    pub(crate) fn is_of_part(&self) -> bool {
        self.group.is_region_or_season()
    }
}

/// The results for a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trends {
    /// The run.
    pub run: RunSummary,
    /// Coverage probability of intervals.
    pub confidence: f64,
    /// Months used.
    pub months: Vec<i64>,
    /// The first month of a year.
    pub year_start: i64,
    /// Caveats for the reader: years left out, columns missing.
    pub notes: Vec<String>,
    /// Sentences, the most important first.
    pub statements: Vec<String>,
    /// All trends; their annual values are in `yearly.csv`.
    pub trends: Vec<TrendRow>,
}

#[cfg(test)]
impl Trends {
    /// An empty result for a run of some years from 1951.
    pub(crate) fn of_years(years: usize) -> Self {
        Self {
            run: RunSummary {
                label: "run".into(),
                folder: "run".into(),
                calendar: "noleap".into(),
                grid: None,
                years: (1951..).take(years).collect(),
                left_out: Vec::new(),
            },
            confidence: 0.95,
            months: (1..=12).collect(),
            year_start: 1,
            notes: Vec::new(),
            statements: Vec::new(),
            trends: Vec::new(),
        }
    }

    /// A row of the run's first years, whose p is not adjusted for others.
    pub(crate) fn row(
        &self,
        quantity: Quantity,
        group: Group,
        values: impl IntoIterator<Item = Option<f64>>,
    ) -> TrendRow {
        let values = values.into_iter().collect();
        let mut row = TrendRow::of((quantity, group), &self.run.years, values, self.confidence);
        row.adjusted_p = row.trend.p;
        let rate = crate::compare::false_rate(self.confidence);
        row.significant = row.trend.p.is_some_and(|p| p < rate);
        row
    }
}
