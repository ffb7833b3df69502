//! Command-line parsers and checks shared by several commands.

use crate::failure::Advice;
use clap::Args;
use squall_data::Calendar;
use std::ffi::OsString;
use std::fmt;
use std::str::FromStr;

/// Maximum number of grid cells: each takes half a kB of memory, and a grid of 0.05 degrees has 26 million.
const MOST_CELLS: usize = 50_000_000;

/// Default minimum confidence of events: more likely than not.
pub const MIN_CONFIDENCE: f32 = 0.5;

/// Parses command-line words; missing arguments have their defaults.
///
/// # Errors
/// What is wrong with the arguments.
pub fn parsed<T: Args>(
    words: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> anyhow::Result<T> {
    let command = T::augment_args(clap::Command::new("squall").no_binary_name(true));
    let matches = command.try_get_matches_from(words)?;
    Ok(T::from_arg_matches(&matches)?)
}

/// Parses a number that `fits`; the error says what is `expected`.
pub fn number<T: FromStr>(
    text: &str,
    fits: impl FnOnce(&T) -> bool,
    expected: &str,
) -> Result<T, String> {
    let number = text.parse::<T>().ok().filter(fits);
    number.ok_or_else(|| format!("expected {expected}"))
}

/// Whether a number is finite and not negative.
pub fn is_not_negative(value: &f64) -> bool {
    value.is_finite() && *value >= 0.0
}

/// Parses a wind speed.
pub fn wind(text: &str) -> Result<f64, String> {
    let expected = "a speed in m/s that is not negative, such as 17";
    number(text, is_not_negative, expected)
}

/// Parses a grid size, latitudes x longitudes.
pub fn grid(text: &str) -> Result<(usize, usize), String> {
    let parse = || -> Option<(usize, usize)> {
        let (rows, columns) = text.split_once(['x', 'X', '×'])?;
        Some((rows.trim().parse().ok()?, columns.trim().parse().ok()?))
    };
    match parse() {
        Some((rows, columns)) if rows.saturating_mul(columns) > MOST_CELLS => Err(format!(
            "{rows} x {columns} are more than {MOST_CELLS} cells, more than a machine's memory holds"
        )),
        Some((rows, columns)) if rows >= 8 && columns >= 8 => Ok((rows, columns)),
        _ => Err("expected latitudes x longitudes, such as 192x288, each at least 8".to_string()),
    }
}

/// Parses a calendar name.
pub fn calendar(name: &str) -> Result<Calendar, String> {
    Calendar::from_cf(name).ok_or_else(|| {
        "expected standard, proleptic_gregorian, noleap, 360_day, all_leap or julian".into()
    })
}

/// Months of the year, in the given order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Months(pub Vec<i64>);

impl fmt::Display for Months {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let months: Vec<String> = self.0.iter().map(i64::to_string).collect();
        f.write_str(&months.join(","))
    }
}

/// Initials of the months of two years.
const INITIALS: &str = "JFMAMJJASONDJFMAMJJASOND";

/// The months that a season's initials name, such as JJA; those of a single month would not tell which.
fn season(name: &str) -> Option<impl Iterator<Item = i64>> {
    let name = name.to_ascii_uppercase();
    let first = INITIALS.find(&name)?;
    let months = first..first + name.len();
    (2..=12)
        .contains(&name.len())
        .then(|| months.map(|at| at as i64 % 12 + 1))
}

/// Parses `6-11`, `12-2`, `1,2,3`, `JJA`.
pub fn months(text: &str) -> Result<Months, String> {
    let bad = || {
        "expected months such as 6-11, 12-2 or 1,2,3, or their initials, such as JJA".to_string()
    };
    let one = |part: &str| -> Result<i64, String> {
        let month = part.trim().parse::<i64>().map_err(|_| bad())?;
        if (1..=12).contains(&month) {
            Ok(month)
        } else {
            Err(bad())
        }
    };
    let mut found = Vec::new();
    for part in text.split(',') {
        match (season(part.trim()), part.split_once('-')) {
            (Some(months), _) => found.extend(months),
            (None, None) => found.push(one(part)?),
            (None, Some((from, to))) => {
                let (mut month, to) = (one(from)?, one(to)?);
                found.push(month);
                while month != to {
                    month = month % 12 + 1;
                    found.push(month);
                }
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    Ok(Months(found))
}

/// Parses `1979-2008`.
pub fn years(text: &str) -> Result<(i64, i64), String> {
    let parse = || -> Option<(i64, i64)> {
        let (from, to) = text.split_once('-')?;
        Some((from.trim().parse().ok()?, to.trim().parse().ok()?))
    };
    match parse() {
        Some((from, to)) if from <= to => Ok((from, to)),
        _ => Err("expected first and last year, such as 1979-2008".to_string()),
    }
}

/// Rejects a confidence outside of 0 to 1.
pub fn check_confidence(min_confidence: f32) -> anyhow::Result<()> {
    if (0.0..=1.0).contains(&min_confidence) {
        return Ok(());
    }
    Err(Advice::usage(
        format!("--min-confidence is {min_confidence}"),
        "it is a share from 0 to 1",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::simulate::Simulate;

    #[test]
    fn options_not_given_have_their_defaults() {
        let simulate: Simulate = parsed(["--out", "run", "--days", "3"]).unwrap();
        assert_eq!((simulate.days, simulate.hours), (Some(3.0), 3));
        assert!(parsed::<Simulate>(["--days", "3"]).is_err());
    }

    #[test]
    fn a_grid_that_no_machine_holds_is_refused() {
        assert_eq!(grid("3600x7200"), Ok((3600, 7200)));
        for text in ["100000x100000", "9000000000000000000x8"] {
            let said = grid(text).unwrap_err();
            assert!(said.contains("more than 50000000 cells"), "{said}");
        }
    }
}
