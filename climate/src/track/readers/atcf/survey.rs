//! Determines whether a deck contains best tracks or one forecast, and rejects several forecasts.

use super::{BEST, DATE, TECHNIQUE};
use crate::error::{ClimateError, Result};
use crate::track::readers::agency_text::{Cells, each_line};
use std::collections::BTreeSet;
use std::path::Path;

/// Maximum number of techniques named in an error.
const MAX_NAMED_TECHNIQUES: usize = 12;

/// The kind of lines in a deck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// Best tracks: post-storm analyses of agencies.
    BestTracks,
    /// The forecast of one technique from one start time.
    Forecast,
}

/// Determines the kind of a deck from its first line and from the techniques and start times of all lines.
///
/// # Errors
/// [`ClimateError::ManyForecasts`] if there are several techniques or start times; [`ClimateError::Data`] if the deck
/// cannot be read.
pub(super) fn survey(path: &Path) -> Result<Content> {
    let mut is_best = None;
    let (mut techniques, mut starts) = (BTreeSet::new(), BTreeSet::new());
    each_line(path, |line, text| {
        let cells = Cells::split(path, line, text);
        let technique = cells.get(TECHNIQUE);
        // Any other line in a deck of best tracks is damaged; the reader reports it with its line number.
        if !*is_best.get_or_insert(technique == BEST) {
            techniques.insert(technique.to_string());
            starts.insert(cells.get(DATE).to_string());
        }
        Ok(())
    })?;
    if is_best == Some(true) {
        return Ok(Content::BestTracks);
    }
    if techniques.len() <= 1 && starts.len() <= 1 {
        return Ok(Content::Forecast);
    }
    Err(ClimateError::ManyForecasts {
        path: path.into(),
        found: format!("{} from {}", named(&techniques), named(&starts)),
    })
}

/// Lists the first names, and the number of the others.
fn named(all: &BTreeSet<String>) -> String {
    let first: Vec<&str> = all
        .iter()
        .take(MAX_NAMED_TECHNIQUES)
        .map(String::as_str)
        .collect();
    let first = first.join(", ");
    match all.len().saturating_sub(MAX_NAMED_TECHNIQUES) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}
