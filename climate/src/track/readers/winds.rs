//! Chooses one source of wind per track in files with several.

use super::imported::ImportedTrack;
use crate::error::{ClimateError, Result};
use crate::table::lines::plain_name;
use std::path::Path;

/// The winds of all columns of a file, until its tracks are complete.
///
/// Agencies average over one, three or ten minutes, so mixing columns within a track would change winds by about a
/// tenth between points. A track uses the column with winds at most of its points (on ties the first), which leaves the
/// fewest points without wind. Alternatively all tracks use the column chosen by the user.
pub(super) struct Winds {
    columns: Vec<String>,
    /// Whether the user chose the only column.
    is_chosen: bool,
    /// For each track, the winds of all columns, point by point.
    tracks: Vec<Vec<Option<f64>>>,
}

/// Messages about the choice of winds.
#[derive(Default)]
pub(super) struct WindMessages {
    /// The number of tracks per column, if there was a choice.
    pub fact: Option<String>,
    /// A caveat on mixed columns, or on tracks without wind.
    pub warning: Option<String>,
}

/// The wind column with a name requested in any case, as spelled in the file.
///
/// # Errors
/// [`ClimateError::WindColumn`] with the available wind columns.
pub(super) fn named(path: &Path, names: &[String], asked: &str) -> Result<String> {
    let is_wind = |name: &&String| {
        let name = plain_name(name);
        name == "wind" || name.ends_with("_wind")
    };
    let winds: Vec<&String> = names.iter().filter(is_wind).collect();
    let wanted = plain_name(asked);
    let found = winds.iter().find(|name| plain_name(name) == wanted);
    found.map(|name| name.to_string()).ok_or_else(|| {
        let names: Vec<&str> = winds.iter().map(|name| name.as_str()).collect();
        ClimateError::WindColumn {
            path: path.into(),
            column: asked.into(),
            expected: "one of its columns of winds",
            found: match names.as_slice() {
                [] => "none".into(),
                names => names.join(", "),
            },
        }
    })
}

impl Winds {
    /// Starts without winds; the column names are used in messages.
    pub fn from_columns(
        columns: impl IntoIterator<Item = impl Into<String>>,
        is_chosen: bool,
    ) -> Self {
        Self {
            columns: columns.into_iter().map(Into::into).collect(),
            is_chosen,
            tracks: Vec::new(),
        }
    }

    /// Adds the winds of the next point of a track, m/s.
    pub fn add(&mut self, track: usize, winds: impl IntoIterator<Item = Option<f64>>) {
        if self.tracks.len() <= track {
            self.tracks.resize_with(track + 1, Vec::new);
        }
        self.tracks[track].extend(winds);
    }

    /// Sets the wind of every point from the column chosen for its track; points must be in insertion order. Returns
    /// messages if there was a choice. Winds that do not belong to a tropical cyclone are only flagged.
    pub fn settle(self, tracks: &mut [ImportedTrack]) -> WindMessages {
        let count = self.columns.len();
        if count == 0 {
            // Without any winds, no point can have a non-tropical one.
            let points = tracks.iter_mut().flat_map(|track| &mut track.points);
            points.for_each(|point| point.other_wind = false);
            return WindMessages::default();
        }
        let mut taken = vec![0usize; count];
        for (track, winds) in tracks.iter_mut().zip(&self.tracks) {
            let known = |column: usize| {
                let of_column = winds.iter().skip(column).step_by(count);
                of_column.filter(|wind| wind.is_some()).count()
            };
            let counts: Vec<usize> = (0..count).map(known).collect();
            // `max_by_key` returns the last maximum; reversed, so that the first column wins.
            let Some(best) = (0..count).rev().max_by_key(|&column| counts[column]) else {
                continue;
            };
            taken[best] += usize::from(counts[best] > 0);
            for (point, winds) in track.points.iter_mut().zip(winds.chunks_exact(count)) {
                let is_cyclone = !point.other_wind;
                point.max_wind_m_s = winds[best].filter(|_| is_cyclone);
                point.other_wind = winds[best].is_some() && !is_cyclone;
            }
        }
        if count > 1 || self.is_chosen {
            self.messages(&taken, tracks.len())
        } else {
            WindMessages::default()
        }
    }

    /// Composes the messages from the number of tracks per column.
    fn messages(&self, taken: &[usize], tracks: usize) -> WindMessages {
        let each = self.columns.iter().zip(taken).filter(|(_, n)| **n > 0);
        let each: Vec<String> = each.map(|(name, n)| format!("{n} from `{name}`")).collect();
        let without = tracks.saturating_sub(taken.iter().sum());
        let warning = if each.len() > 1 {
            Some(format!(
                "winds of tracks are of several columns ({}), which may be means of one minute and of ten and so differ \
                 by about a tenth: --wind-column takes one for all",
                each.join(", ")
            ))
        } else if self.is_chosen && without > 0 {
            let column = &self.columns[0];
            Some(format!(
                "{without} of {tracks} tracks have no wind in `{column}`, and so no category and no energy"
            ))
        } else {
            None
        };
        let nothing = (without > 0).then(|| format!("{without} without a wind"));
        let each: Vec<String> = each.into_iter().chain(nothing).collect();
        WindMessages {
            fact: Some(format!(
                "tracks by their column of winds: {}",
                each.join(", ")
            )),
            warning,
        }
    }
}
