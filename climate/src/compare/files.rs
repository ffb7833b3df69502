//! A comparison as files.

use crate::compare::read::NUMBERS;
use crate::compare::{Comparison, Group, Interval, NoInterval, RETURN_YEARS, statement};
use crate::error::Result;
use crate::statistics::write_rows;
use squall_data::{DataError, atomic};
use std::path::Path;

const CHANGE_COLUMNS: &str = "quantity,class,basin,season,unit,a,b,difference,low,high,\
    relative_change,relative_low,relative_high,p,adjusted_p,significant,no_interval,years_a,years_b";
const LEVEL_COLUMNS: &str = "quantity,class,unit,return_years,a,a_low,a_high,b,b_low,b_high,\
    difference,low,high,no_interval";
const BIN_COLUMNS: &str =
    "quantity,class,unit,from,to,a,b,difference,low,high,p,adjusted_p,significant";

impl Comparison {
    /// Writes `changes.csv`, `changes.json`, `return_levels.csv`, `distributions.csv`, `statements.txt` and `maps.nc`
    /// into a folder.
    ///
    /// - `changes.csv`: one row per quantity, class, basin and season; low and high refer to the difference,
    ///   relative_low and relative_high to the relative change (b / a - 1); unknown values are blank, and `no_interval`
    ///   gives the reason; years_a and years_b count the years in which the number is known
    /// - `return_levels.csv`: quantity, class, unit, return_years, a, a_low, a_high, b, b_low, b_high, difference, low,
    ///   high, no_interval
    /// - `distributions.csv`: one row per bin: quantity, class, unit, from, to, then tracks per year as in
    ///   `changes.csv`
    ///
    /// # Errors
    /// [`crate::ClimateError::Data`] if writing fails. Files already written remain, but without `changes.json`, so
    /// that an incomplete or mixed folder does not count as a comparison.
    pub fn write(&self, folder: impl AsRef<Path>) -> Result<()> {
        let folder = folder.as_ref();
        let path = folder.join(NUMBERS);
        let json = serde_json::to_vec_pretty(self)
            .map_err(|error| DataError::io("write", &path)(error.into()))?;
        atomic::remove(&path)?;
        for (name, header, rows) in [
            ("changes.csv", CHANGE_COLUMNS, self.change_rows()),
            ("return_levels.csv", LEVEL_COLUMNS, self.level_rows()),
            ("distributions.csv", BIN_COLUMNS, self.bin_rows()),
        ] {
            write_rows(&folder.join(name), header, &rows)?;
        }
        atomic::write(folder.join("statements.txt"), self.text().as_bytes())?;
        self.write_maps(&folder.join("maps.nc"))?;
        Ok(atomic::write(&path, &json)?)
    }

    /// The sentences and caveats, as text.
    pub fn text(&self) -> String {
        text_of(&self.statements, &self.notes)
    }

    /// A summary that fits on a screen: caveats, then sentences about whole-globe changes, significant ones first.
    pub fn headlines(&self) -> String {
        let whole = self.changes.iter().filter(|row| row.group() == Group::ALL);
        let (sure, others): (Vec<_>, Vec<_>) = whole.partition(|row| row.significant);
        let rows = sure.into_iter().chain(others);
        let sentences = rows.filter_map(|row| statement(row, self));
        headlines_of(sentences, self.statements.len(), &self.notes)
    }

    fn change_rows(&self) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        for row in &self.changes {
            let change = &row.change;
            let [low, high] = ends(change.interval);
            let [relative_low, relative_high] = ends(change.relative_interval);
            let [years_a, years_b] = [0, 1].map(|side| {
                let years = row.years.map(|years| years[side].to_string());
                years.unwrap_or_default()
            });
            rows.push(vec![
                row.name.clone(),
                row.class.clone(),
                row.basin.clone(),
                row.season.clone(),
                row.unit.clone(),
                cell(change.a),
                cell(change.b),
                cell(change.difference),
                low,
                high,
                cell(change.relative),
                relative_low,
                relative_high,
                cell(change.p),
                cell(row.adjusted_p),
                yes_or_no(row.adjusted_p, row.significant),
                word_for(change.no_interval),
                years_a,
                years_b,
            ]);
        }
        rows
    }

    fn bin_rows(&self) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        for found in &self.distributions {
            let class = squall_data::Class::from_code(found.class);
            for (ends_of_bin, bin) in found.edges.windows(2).zip(&found.bins) {
                let change = &bin.change;
                let mut row = vec![
                    found.name.clone(),
                    class.map_or("", |class| class.name()).into(),
                    found.unit.clone(),
                    cell(Some(ends_of_bin[0])),
                    cell(Some(ends_of_bin[1])),
                    cell(change.a),
                    cell(change.b),
                    cell(change.difference),
                ];
                row.extend(ends(change.interval));
                row.extend([cell(change.p), cell(bin.adjusted_p)]);
                row.push(yes_or_no(bin.adjusted_p, bin.significant));
                rows.push(row);
            }
        }
        rows
    }

    fn level_rows(&self) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        for levels in &self.return_levels {
            let class = squall_data::Class::from_code(levels.class);
            for (index, years) in RETURN_YEARS.iter().enumerate() {
                let mut row = vec![
                    levels.name.clone(),
                    class.map_or("", |class| class.name()).into(),
                    levels.unit.clone(),
                    years.to_string(),
                ];
                for fit in &levels.fits {
                    row.push(cell(fit.levels.get(index).copied().flatten()));
                    row.extend(ends(fit.bands.get(index).copied().flatten()));
                }
                let change = levels.changes.get(index);
                row.push(cell(change.and_then(|c| c.difference)));
                row.extend(ends(change.and_then(|c| c.interval)));
                row.push(word_for(levels.no_interval(index)));
                rows.push(row);
            }
        }
        rows
    }
}

/// Sentences and caveats, as text.
pub(crate) fn text_of(statements: &[String], notes: &[String]) -> String {
    let mut text = statements.join("\n");
    if !notes.is_empty() {
        text.push_str("\n\nTo know:\n");
        text.push_str(&notes.join("\n"));
    }
    text.push('\n');
    text
}

/// Maximum number of sentences on a screen.
const HEADLINES: usize = 10;

/// The caveats, the first of the `sentences`, and how many more of `all` there are.
pub(crate) fn headlines_of(
    sentences: impl Iterator<Item = String>,
    all: usize,
    notes: &[String],
) -> String {
    let shown: Vec<String> = sentences.take(HEADLINES).collect();
    let mut parts = Vec::new();
    if !notes.is_empty() {
        parts.push(format!("To know:\n{}", notes.join("\n")));
    }
    if !shown.is_empty() {
        parts.push(shown.join("\n"));
    }
    let more = all.saturating_sub(shown.len());
    if more > 0 {
        parts.push(format!("{more} more in statements.txt"));
    }
    parts.join("\n\n")
}

/// The table entry for the reason of a missing interval; blank if there is an interval.
fn word_for(why: Option<NoInterval>) -> String {
    let word = why.and_then(|why| serde_json::to_value(why).ok());
    word.and_then(|word| Some(word.as_str()?.to_string()))
        .unwrap_or_default()
}

pub(crate) fn yes_or_no(adjusted_p: Option<f64>, significant: bool) -> String {
    let word = if significant { "yes" } else { "no" };
    adjusted_p.map_or("", |_| word).into()
}

/// Six significant digits, so that the summation order does not affect the text.
pub(crate) fn cell(value: Option<f64>) -> String {
    let Some(value) = value.filter(|v| v.is_finite()) else {
        return String::new();
    };
    if value == 0.0 {
        return "0".into();
    }
    let exponent = value.abs().log10().floor() as i32;
    format!("{value:.*}", (5 - exponent).clamp(0, 12) as usize)
}

pub(crate) fn ends(interval: Option<Interval>) -> [String; 2] {
    [
        cell(interval.map(|i| i.low)),
        cell(interval.map(|i| i.high)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_column() {
        let page = include_str!("../../../docs/compare.md");
        for column in [CHANGE_COLUMNS, LEVEL_COLUMNS, BIN_COLUMNS]
            .iter()
            .flat_map(|columns| columns.split(','))
        {
            assert!(page.contains(&format!("`{column}`")), "no `{column}`");
        }
    }
    /// Regression: nearly a hundred sentences scrolled the first ones off the screen, and the notes came last.
    #[test]
    fn a_screen_has_the_notes_first_and_ten_sentences() {
        let of = |count: usize, notes: &[&str]| {
            let sentences = (1..=count).map(|number| format!("Sentence {number}."));
            let notes: Vec<String> = notes.iter().map(|note| (*note).to_string()).collect();
            headlines_of(sentences, count + 3, &notes)
        };
        let many = of(12, &["One.", "Two."]);
        assert!(
            many.starts_with("To know:\nOne.\nTwo.\n\nSentence 1.\n"),
            "{many}"
        );
        assert!(
            many.ends_with("\nSentence 10.\n\n5 more in statements.txt"),
            "{many}"
        );
        assert_eq!(of(1, &[]), "Sentence 1.\n\n3 more in statements.txt");
        let none = std::iter::empty();
        assert_eq!(headlines_of(none, 0, &["One.".into()]), "To know:\nOne.");
    }
}
