//! Writes trends to files.

use super::{NoTrend, TrendRow, Trends, statement};
use crate::compare::files::{cell, ends, headlines_of, text_of, yes_or_no};
use crate::error::Result;
use crate::statistics::write_rows;
use squall_data::{DataError, atomic};
use std::fmt::Write as _;
use std::path::Path;

const TREND_COLUMNS: &str = "quantity,class,basin,season,unit,years,first_year,last_year,mean,sd,\
    slope,low,high,relative_slope,relative_low,relative_high,tau,persistence,p,adjusted_p,significant,no_trend";
const YEARLY_COLUMNS: &str = "quantity,class,basin,season,unit,year,value";

impl Trends {
    /// Writes `yearly.csv`, `trends.csv`, `trends.json` and `statements.txt` into a folder.
    ///
    /// - `yearly.csv`: one row per quantity, class, basin, season and year; unknown values are blank, and series
    ///   without any event are omitted
    /// - `trends.csv`: one row per quantity, class, basin and season; slope, low and high per decade, relative_slope
    ///   and its interval relative to the mean; unknown values are blank, and `no_trend` gives the reason
    ///
    /// # Errors
    /// [`crate::ClimateError::Data`] if writing fails; files already written stay.
    pub fn write(&self, folder: impl AsRef<Path>) -> Result<()> {
        let folder = folder.as_ref();
        atomic::write(folder.join("yearly.csv"), self.yearly().as_bytes())?;
        write_rows(&folder.join("trends.csv"), TREND_COLUMNS, &self.rows())?;
        let path = folder.join("trends.json");
        let json = serde_json::to_vec_pretty(self)
            .map_err(|error| DataError::io("write", &path)(error.into()))?;
        atomic::write(&path, &json)?;
        Ok(atomic::write(
            folder.join("statements.txt"),
            self.text().as_bytes(),
        )?)
    }

    /// The sentences and caveats, as text.
    pub fn text(&self) -> String {
        text_of(&self.statements, &self.notes)
    }

    /// A summary that fits on a screen: caveats, then sentences about whole-globe trends, significant ones first.
    pub fn headlines(&self) -> String {
        let whole = self.trends.iter().filter(|row| row.is_of_all());
        let (sure, others): (Vec<_>, Vec<_>) = whole.partition(|row| row.significant);
        let rows = sure.into_iter().chain(others);
        let sentences = rows.filter_map(|row| statement(row, self));
        headlines_of(sentences, self.statements.len(), &self.notes)
    }

    /// All values of all years. A long run has hundreds of thousands; none of the words needs quotes.
    fn yearly(&self) -> String {
        let mut table = format!("{YEARLY_COLUMNS}\n");
        let seen = |no_trend: Option<NoTrend>| no_trend != Some(NoTrend::NoEvents);
        for row in self.trends.iter().filter(|row| seen(row.trend.no_trend)) {
            let begin = [&row.name, &row.class, &row.basin, &row.season, &row.unit]
                .map(String::as_str)
                .join(",");
            for (year, value) in self.run.years.iter().zip(&row.values) {
                let _ = writeln!(table, "{begin},{year},{}", cell(*value));
            }
        }
        table
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let whole = |year: Option<i64>| year.map_or(String::new(), |year| year.to_string());
        let of_row = |row: &TrendRow| {
            let trend = &row.trend;
            let mut cells = vec![
                row.name.clone(),
                row.class.clone(),
                row.basin.clone(),
                row.season.clone(),
                row.unit.clone(),
                trend.years.to_string(),
                whole(trend.first_year),
                whole(trend.last_year),
                cell(trend.mean),
                cell(trend.sd),
                cell(trend.slope),
            ];
            cells.extend(ends(trend.interval));
            cells.push(cell(row.relative));
            cells.extend(ends(row.relative_interval));
            cells.extend([trend.tau, trend.persistence].map(cell));
            cells.extend([trend.p, row.adjusted_p].map(p_cell));
            cells.push(yes_or_no(row.adjusted_p, row.significant));
            cells.push(trend.no_trend.map_or("", NoTrend::word).into());
            cells
        };
        self.trends.iter().map(of_row).collect()
    }
}

/// Like [`cell`], but in scientific notation if all decimals of a p would be 0, as for trends over a century.
fn p_cell(p: Option<f64>) -> String {
    match p {
        Some(p) if p > 0.0 && p < 1e-7 => format!("{p:.5e}"),
        p => cell(p),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_column() {
        let page = include_str!("../../../docs/compare.md");
        for column in TREND_COLUMNS.split(',').chain(YEARLY_COLUMNS.split(',')) {
            assert!(page.contains(&format!("`{column}`")), "no `{column}`");
        }
    }

    #[test]
    fn a_small_p_is_not_written_as_zero() {
        for (p, text) in [
            (Some(1.5e-20), "1.50000e-20"),
            (Some(1.25e-7), "0.000000125000"),
            (Some(0.0123456), "0.0123456"),
            (None, ""),
        ] {
            assert_eq!(p_cell(p), text);
        }
    }
}
