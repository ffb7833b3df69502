//! Chooses one source of wind for each track, where a file has several.

use super::imported::ImportedTrack;

/// The winds of all columns of a file, until its tracks are whole.
///
/// Agencies average over one, three or ten minutes: winds of two columns in one track would rise and fall by a tenth
/// from point to point. A track takes the column that has a wind at most of its points, of equal ones the first: any
/// other choice would leave more of the track without a wind.
pub(super) struct Winds {
    columns: Vec<String>,
    /// By place of the track among all, then point after point the wind of each column.
    tracks: Vec<Vec<Option<f64>>>,
}

impl Winds {
    /// No winds yet, of columns that a note will call by these names.
    pub fn of(columns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            columns: columns.into_iter().map(Into::into).collect(),
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

    /// Gives the points, which stand as they were added, the winds of the column of their track; gives a note on how
    /// many tracks took which, where there was a choice. Winds that are not a tropical cyclone's are only marked.
    pub fn settle(self, tracks: &mut [ImportedTrack]) -> Option<String> {
        let count = self.columns.len();
        if count == 0 {
            // Without any wind no point has one of another kind, for which its time would be kept.
            let points = tracks.iter_mut().flat_map(|track| &mut track.points);
            points.for_each(|point| point.other_wind = false);
            return None;
        }
        let mut taken = vec![0usize; count];
        let mut had = vec![false; count];
        for (track, winds) in tracks.iter_mut().zip(&self.tracks) {
            let known = |column: usize| {
                let of_column = winds.iter().skip(column).step_by(count);
                of_column.filter(|wind| wind.is_some()).count()
            };
            let counts: Vec<usize> = (0..count).map(known).collect();
            (had.iter_mut().zip(&counts)).for_each(|(had, known)| *had |= *known > 0);
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
        let several = had.iter().filter(|had| **had).count() > 1;
        several.then(|| {
            let each = self.columns.iter().zip(&taken).filter(|(_, n)| **n > 0);
            let each: Vec<String> = each.map(|(name, n)| format!("{n} from `{name}`")).collect();
            format!(
                "winds of a track come from the column that has most of them, as averaging times differ: {}",
                each.join(", ")
            )
        })
    }
}
