//! Finds out whether a deck holds best tracks or one forecast, and refuses several forecasts.

use super::{BEST, DATE, TECHNIQUE};
use crate::error::{ClimateError, Result};
use crate::track::readers::agency_text::{Cells, each_line};
use std::collections::BTreeSet;
use std::path::Path;

/// So many techniques of a deck are named.
const MOST_NAMED: usize = 12;

/// What the lines of a deck are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// Best tracks: where storms were, as agencies analysed it afterwards.
    BestTracks,
    /// The forecast of one technique from one start.
    Forecast,
}

/// What a deck is, by its first line and the techniques and starts of all.
///
/// # Errors
/// [`ClimateError::ManyForecasts`] if there are several techniques or starts; [`ClimateError::Data`] if it cannot be
/// read.
pub(super) fn survey(path: &Path) -> Result<Content> {
    let mut is_best = None;
    let (mut techniques, mut starts) = (BTreeSet::new(), BTreeSet::new());
    each_line(path, |line, text| {
        let cells = Cells::of(path, line, text);
        let technique = cells.get(TECHNIQUE);
        // What else stands in a deck of best tracks is damage, of which the reader tells the line.
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

/// The first of some names, and how many more there are.
fn named(all: &BTreeSet<String>) -> String {
    let first: Vec<&str> = all.iter().take(MOST_NAMED).map(String::as_str).collect();
    let first = first.join(", ");
    match all.len().saturating_sub(MOST_NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}
