//! Annual series and trends within one run, such as a historical run continued by a scenario, or a reanalysis.
//!
//! The run is read once into annual sums ([`Side`]), like each run of a comparison. Every quantity has a value for each
//! complete year, globally and for each region and season, and a trend of these values ([`Trend`]): Sen's slope with
//! its interval, and the p of a Mann-Kendall test that accounts for serial correlation.
//!
//! # Not done
//! Maps of trends; trends of annual extremes; several runs at once.

mod files;
mod found;
mod kendall;
mod notes;
mod persistence;
mod words;
mod yearly;

pub use found::{RunSummary, TrendRow, Trends};
pub use kendall::{MIN_YEARS, NoTrend, Trend};
pub use words::statement;
pub(crate) use words::{in_short, note_untested};

use crate::compare::period::{months_of, note_year};
use crate::compare::{
    Coverage, Group, Quantity, Selection, Side, SideOptions, adjusted_by_family, false_rate,
    words_of_months,
};
use crate::error::{ClimateError, Result};
use rayon::prelude::*;
use squall_data::Calendar;
use std::path::PathBuf;

/// A run and the range of years to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrendInput {
    /// Folder written by `squall events`.
    pub folder: PathBuf,
    /// Its label.
    pub label: String,
    /// First and last year; `None` for all.
    pub years: Option<(i64, i64)>,
}

/// Settings of a trend analysis.
#[derive(Debug, Clone, PartialEq)]
pub struct TrendOptions {
    /// Months, 1 to 12; if empty, those that the run has.
    pub months: Vec<i64>,
    /// The first month of a year.
    pub year_start: i64,
    /// Coverage probability of intervals; a trend is significant if its adjusted p is below 1 - confidence.
    pub confidence: f64,
    /// Calendar of tables without `statistics.nc`. The default is the calendar of files in the same folder
    /// ([`crate::table::calendar_beside`]), otherwise the standard calendar.
    pub calendar: Option<Calendar>,
}

impl Default for TrendOptions {
    fn default() -> Self {
        Self {
            months: Vec::new(),
            year_start: 1,
            confidence: 0.95,
            calendar: None,
        }
    }
}

/// A trend analysis before its tables are read: the months and years to use.
#[derive(Debug, Clone)]
pub struct Plan {
    input: TrendInput,
    coverage: Coverage,
    options: SideOptions,
    confidence: f64,
    notes: Vec<String>,
}

/// Determines which months and years of a run can be used.
///
/// # Errors
/// [`ClimateError::Period`] if the run lacks requested months or has no whole year; [`ClimateError::Invalid`] for
/// invalid options; errors of [`Coverage::read`].
pub fn plan(input: TrendInput, options: &TrendOptions) -> Result<Plan> {
    check(options)?;
    let coverage = Coverage::read(&input.folder, options.calendar)?;
    let selection = Selection {
        months: months_of(&coverage, &options.months)?,
        year_start: options.year_start,
    };
    let mut notes = Vec::new();
    note_year(&selection, &mut notes);
    let options_of_side = SideOptions {
        selection,
        range: input.years,
        block_years: 1,
        calendar: None,
        transport: Some(Side::transport_column(&input.folder, &mut notes)?),
        wind: true,
    };
    notes::of_years(&coverage, &options_of_side, &mut notes)?;
    Ok(Plan {
        input,
        coverage,
        options: options_of_side,
        confidence: options.confidence,
        notes,
    })
}

fn check(options: &TrendOptions) -> Result<()> {
    let valid = |month: &i64| (1..=12).contains(month);
    let months = valid(&options.year_start) && options.months.iter().all(valid);
    if months && options.confidence > 0.5 && options.confidence < 1.0 {
        return Ok(());
    }
    Err(ClimateError::Invalid(format!(
        "expected months from 1 to 12 and a confidence between 0.5 and 1, found months {:?}, years from month {}, {}",
        options.months, options.year_start, options.confidence
    )))
}

/// A callback, called from any thread at intervals; its error cancels the work.
type CancelCheck<'a> = &'a (dyn Fn() -> Result<()> + Sync);

impl Plan {
    /// A description of the planned analysis: years, folder, months.
    pub fn words(&self) -> String {
        let years = self.years();
        let ending = if years == 1 { "" } else { "s" };
        format!(
            "trends of {years} year{ending} of {}, {}",
            self.input.label,
            words_of_months(&self.options.selection.months)
        )
    }

    /// Number of whole years.
    pub fn years(&self) -> usize {
        let options = &self.options;
        let years = self.coverage.years(&options.selection, options.range);
        years.used.len()
    }

    /// Reads the run and computes its trends. `progress` receives the number of finished steps, of [`Plan::STEPS`], and
    /// can cancel the work with an error. So can `check_cancelled`, which is called from any thread before every trend.
    ///
    /// # Errors
    /// Errors of [`Side::read`], `check_cancelled` and `progress`.
    pub fn run(
        self,
        check_cancelled: &(dyn Fn() -> Result<()> + Sync),
        mut progress: impl FnMut(usize) -> Result<()>,
    ) -> Result<Trends> {
        let side = Side::read(self.coverage, &self.options)?;
        progress(1)?;
        let mut notes = self.notes;
        notes::add(&self.input.label, &side, &mut notes);
        let selection = self.options.selection;
        let mut trends = rows(
            &side,
            selection.whole_year(),
            self.confidence,
            check_cancelled,
        )?;
        adjust(&mut trends, self.confidence);
        notes::withhold(&side, &mut trends, &mut notes);
        notes::withhold_where_missing(&side, &mut trends, &mut notes);
        let mut found = Trends {
            run: RunSummary::of(&self.input, &side),
            confidence: self.confidence,
            months: selection.months,
            year_start: selection.year_start,
            notes,
            statements: Vec::new(),
            trends,
        };
        // The first of the notes, because the sentences leave it out.
        if let Some(note) = note_untested(&found) {
            found.notes.insert(0, note);
        }
        found.statements = words::statements(&found);
        progress(Self::STEPS)?;
        Ok(found)
    }

    /// Number of steps that [`Plan::run`] reports.
    pub const STEPS: usize = 2;
}

/// The trend of every quantity known to the run, in every group.
fn rows(
    side: &Side,
    whole_year: bool,
    confidence: f64,
    check_cancelled: CancelCheck<'_>,
) -> Result<Vec<TrendRow>> {
    let wanted: Vec<(Quantity, Group)> = notes::covered_quantities(side)
        .filter(|quantity| side.knows(*quantity))
        .flat_map(|quantity| Group::all().map(move |group| (quantity, group)))
        // Partial seasons would carry the names of full ones.
        .filter(|(_, group)| whole_year || group.season.is_none())
        .collect();
    wanted
        .par_iter()
        .map(|&(quantity, group)| {
            check_cancelled()?;
            let values = yearly::by_year(&side.statistic(quantity, group));
            Ok::<_, ClimateError>(TrendRow::of(
                (quantity, group),
                &side.years.used,
                values,
                confidence,
            ))
        })
        .collect()
}

/// Adjusts p for the rows of the same family, as in a comparison.
fn adjust(rows: &mut [TrendRow], confidence: f64) {
    let p: Vec<_> = rows.iter().map(|row| (row.group, row.trend.p)).collect();
    let rate = false_rate(confidence);
    for (row, adjusted) in rows.iter_mut().zip(adjusted_by_family(&p)) {
        row.adjusted_p = adjusted;
        row.significant = adjusted.is_some_and(|p| p < rate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_p_of_just_the_rate_is_not_significant() {
        let of = Trends::of_years(20);
        let values = (0..20).map(|k| Some(f64::from(k % 3)));
        let mut rows = [of.row(Quantity::CycloneTracks, Group::ALL, values)];
        for (p, significant) in [(0.05, false), (0.0499, true)] {
            rows[0].trend.p = Some(p);
            adjust(&mut rows, 0.95);
            let found = (rows[0].adjusted_p, rows[0].significant);
            assert_eq!(found, (Some(p), significant));
        }
    }
}
