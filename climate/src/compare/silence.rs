//! Stretches of months without a row in tables that do not say which times were analysed, such as best tracks of which
//! only some seasons are in a file.

use super::words::month_name;
use std::collections::{BTreeMap, BTreeSet};

/// The fewest months without a row that are noted. All oceans together have a tropical cyclone in every season: the
/// months between two are rarely even one.
const MIN_MONTHS: i64 = 3;

/// How much longer than a usual pause, such as the quiet season of a single ocean, a stretch must be.
const TIMES_USUAL: i64 = 3;

/// Maximum number of stretches named.
const MAX_LISTED: usize = 5;

/// A stretch of months, from the first to the last, each as its year and number, 1 to 12.
pub(crate) type Stretch = [(i64, i64); 2];

fn index((year, month): (i64, i64)) -> i64 {
    12 * year + month - 1
}

fn month_of(index: i64) -> (i64, i64) {
    (index.div_euclid(12), index.rem_euclid(12) + 1)
}

/// The stretches without a row between the first and the last of the (year, month) with rows that are longer than a
/// usual pause of these tables.
pub(crate) fn silent_stretches(with_rows: &BTreeSet<(i64, i64)>) -> Vec<Stretch> {
    let months: Vec<i64> = with_rows.iter().copied().map(index).collect();
    let pauses: Vec<(i64, i64)> = (months.windows(2))
        .map(|pair| (pair[0] + 1, pair[1] - 1))
        .filter(|(first, last)| first <= last)
        .collect();
    // The longest pause that ends in each year with rows. The first year may begin at any month.
    let years = with_rows.iter().map(|(year, _)| *year);
    let mut longest: BTreeMap<i64, i64> = years.map(|year| (year, 0)).collect();
    for (first, last) in &pauses {
        let (year, _) = month_of(last + 1);
        let of_year = longest.entry(year).or_default();
        *of_year = (*of_year).max(last - first + 1);
    }
    longest.pop_first();
    let mut lengths: Vec<i64> = longest.into_values().collect();
    lengths.sort_unstable();
    // The lower quartile, because half of the seasons may be absent.
    let usual = lengths.get(lengths.len() / 4).copied().unwrap_or(0);
    let fewest = MIN_MONTHS.max(TIMES_USUAL * usual);
    (pauses.into_iter())
        .filter(|(first, last)| last - first + 1 >= fewest)
        .map(|(first, last)| [month_of(first), month_of(last)])
        .collect()
}

/// The months of a stretch.
pub(crate) fn months_of_stretch([first, last]: Stretch) -> impl Iterator<Item = (i64, i64)> {
    (index(first)..=index(last)).map(month_of)
}

/// Whether a stretch has all months of a year that begins with `year_start`; notes on years without a row name it.
pub(crate) fn has_whole_year([first, last]: Stretch, year_start: i64) -> bool {
    let back = (index(first) - (year_start - 1)).rem_euclid(12);
    let next_start = index(first) + (12 - back) % 12;
    next_start + 11 <= index(last)
}

/// Stretches in words: `January to June 1982, November 1983 to March 1984`; only the first few are named.
pub(crate) fn stretches_in_words(stretches: &[Stretch]) -> String {
    let words = |[first, last]: &Stretch| {
        let year = if first.0 == last.0 {
            String::new()
        } else {
            format!(" {}", first.0)
        };
        let [from, to] = [first, last].map(|month| month_name(month.1));
        format!("{from}{year} to {to} {}", last.0)
    };
    let said: Vec<String> = stretches.iter().take(MAX_LISTED).map(words).collect();
    match stretches.len().saturating_sub(MAX_LISTED) {
        0 => said.join(", "),
        more => format!("{} and {more} more", said.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretches(years: std::ops::RangeInclusive<i64>, has: impl Fn(i64, i64) -> bool) -> String {
        let months = years.flat_map(|year| (1..=12).map(move |month| (year, month)));
        let with_rows = months.filter(|(year, month)| has(*year, *month)).collect();
        stretches_in_words(&silent_stretches(&with_rows))
    }

    /// In the file of odd seasons, even years have only the southern storms of November and December.
    #[test]
    fn seasons_that_a_file_lacks_are_found_and_quiet_ones_are_not() {
        let odd = |year: i64, month: i64| year % 2 == 1 || month >= 11;
        assert_eq!(
            stretches(1981..=1986, odd),
            "January to October 1982, January to October 1984, January to October 1986"
        );
        let long = stretches(1951..=2000, odd);
        assert!(
            long.ends_with("January to October 1960 and 20 more"),
            "{long}"
        );
        // A single ocean is quiet for half of each year, and a calm year for longer.
        let atlantic =
            |year: i64, month: i64| (6..=11).contains(&month) && (year != 1983 || month > 8);
        assert_eq!(stretches(1981..=1990, atlantic), "");
        assert_eq!(stretches(2005..=2006, atlantic), "");
        assert_eq!(
            stretches(1981..=1990, |year, month| !matches!(
                (year, month),
                (1983, 11..) | (1984, ..3)
            )),
            "November 1983 to February 1984"
        );
        assert!(silent_stretches(&BTreeSet::new()).is_empty());
    }

    #[test]
    fn stretches_of_whole_years_are_left_to_the_note_on_years() {
        assert!(has_whole_year([(1982, 1), (1982, 12)], 1));
        assert!(!has_whole_year([(1982, 2), (1983, 11)], 1));
        assert!(!has_whole_year([(1982, 1), (1982, 12)], 7));
        assert!(has_whole_year([(1982, 1), (1983, 6)], 7));
        assert_eq!(months_of_stretch([(1982, 12), (1983, 1)]).count(), 2);
    }
}
