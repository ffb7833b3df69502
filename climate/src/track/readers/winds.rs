//! Chooses one source of wind for each track, where a file has several.

use super::imported::ImportedTrack;
use crate::error::{ClimateError, Result};
use crate::table::lines::plain_name;
use std::path::Path;

/// The winds of all columns of a file, until its tracks are whole.
///
/// Agencies average over one, three or ten minutes: winds of two columns in one track would rise and fall by a tenth
/// from point to point. A track takes the column that has a wind at most of its points, of equal ones the first: any
/// other choice would leave more of the track without a wind. Or all tracks take the one that the user chose.
pub(super) struct Winds {
    columns: Vec<String>,
    /// Whether the user chose the only column.
    is_chosen: bool,
    /// By place of the track among all, then point after point the wind of each column.
    tracks: Vec<Vec<Option<f64>>>,
}

/// What people are told about the winds of a file.
#[derive(Default)]
pub(super) struct Told {
    /// How many tracks took which column, where there was a choice.
    pub fact: Option<String>,
    /// What the winds of two tracks, or the lack of them, must not be taken for.
    pub warning: Option<String>,
}

/// A column of winds as the file spells it, by the name that a user gives in any case.
///
/// # Errors
/// [`ClimateError::WindColumn`] with the columns of winds that there are.
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
    /// No winds yet, of columns that people will be told of by these names.
    pub fn of(columns: impl IntoIterator<Item = impl Into<String>>, is_chosen: bool) -> Self {
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

    /// Gives the points, which stand as they were added, the winds of the column of their track, and tells how many
    /// tracks took which, where there was a choice. Winds that are not a tropical cyclone's are only marked.
    pub fn settle(self, tracks: &mut [ImportedTrack]) -> Told {
        let count = self.columns.len();
        if count == 0 {
            // Without any wind no point has one of another kind, for which its time would be kept.
            let points = tracks.iter_mut().flat_map(|track| &mut track.points);
            points.for_each(|point| point.other_wind = false);
            return Told::default();
        }
        let mut taken = vec![0usize; count];
        for (track, winds) in tracks.iter_mut().zip(&self.tracks) {
            let known = |column: usize| {
                let of_column = winds.iter().skip(column).step_by(count);
                of_column.filter(|wind| wind.is_some()).count()
            };
            let counts: Vec<usize> = (0..count).map(known).collect();
            // The last of equal ones is the largest: the first column is to be.
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
            self.told(&taken, tracks.len())
        } else {
            Told::default()
        }
    }

    /// What people are told, where so many of all tracks took each column.
    fn told(&self, taken: &[usize], tracks: usize) -> Told {
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
        Told {
            fact: Some(format!(
                "tracks by their column of winds: {}",
                each.join(", ")
            )),
            warning,
        }
    }
}
