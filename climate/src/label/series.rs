//! Both passes over a series.

use super::trajectory::AcceptedCyclones;
use super::{CycloneCandidate, LabelledSnapshot, Labeller};
use crate::error::{ClimateError, Result};
use rayon::prelude::*;
use squall_data::{Snapshot, Time};
use std::ops::Range;

/// What labelling a series came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SeriesSummary {
    /// Number of times.
    pub times: usize,
    /// Vorticity maxima with a closed low, over all times.
    pub candidates: usize,
    /// Candidates that stand as cyclones, over all times.
    pub cyclones: usize,
    /// Cyclone tracks.
    pub tracks: usize,
    /// Rivers, over all times.
    pub rivers: usize,
    /// Whether the series is shorter than the least duration of a cyclone, so that storms stand untracked.
    pub untracked: bool,
}

impl Labeller {
    /// Labels a series: every snapshot is read twice, in parallel; `each` receives the labels in order of time.
    ///
    /// At any time twice as many snapshots as there are threads are in memory, besides the candidates of cyclones that
    /// stand or may stand. The result does not depend on the number of threads.
    ///
    /// # Errors
    /// The first error in order of time, of reading, labelling or `each`; [`ClimateError::Invalid`] if times do not ascend.
    pub fn label_series<E>(
        &self,
        count: usize,
        read: impl Fn(usize) -> std::result::Result<Snapshot, E> + Sync,
        mut each: impl FnMut(usize, LabelledSnapshot) -> Result<()>,
    ) -> Result<SeriesSummary>
    where
        ClimateError: From<E>,
    {
        let mut summary = SeriesSummary {
            times: count,
            ..SeriesSummary::default()
        };
        let accepted = self.accepted_cyclones(count, &read, &mut summary)?;
        for block in blocks(count) {
            let labelled: Vec<Result<LabelledSnapshot>> = block
                .clone()
                .into_par_iter()
                .map(|index| self.masks(&read(index)?, accepted.at(index)))
                .collect();
            for (index, labelled) in block.zip(labelled) {
                let labelled = labelled?;
                summary.rivers += labelled.objects.len() - accepted.at(index).len();
                each(index, labelled)?;
            }
        }
        Ok(summary)
    }

    /// The first pass.
    fn accepted_cyclones<E>(
        &self,
        count: usize,
        read: &(impl Fn(usize) -> std::result::Result<Snapshot, E> + Sync),
        summary: &mut SeriesSummary,
    ) -> Result<AcceptedCyclones>
    where
        ClimateError: From<E>,
    {
        let mut tracks = self.trajectories();
        for block in blocks(count) {
            let found: Vec<Result<(Time, Vec<CycloneCandidate>)>> = block
                .clone()
                .into_par_iter()
                .map(|index| {
                    let snapshot = read(index)?;
                    Ok((snapshot.time, self.candidates(&snapshot)?))
                })
                .collect();
            for (index, found) in block.zip(found) {
                let (time, candidates) = found?;
                summary.candidates += candidates.len();
                tracks.push(index, time, candidates)?;
            }
        }
        let accepted = tracks.finish();
        summary.cyclones = accepted.points();
        summary.tracks = accepted.tracks;
        summary.untracked = accepted.untracked;
        Ok(accepted)
    }
}

/// Stretches of the series that are worked on at once.
fn blocks(count: usize) -> impl Iterator<Item = Range<usize>> {
    let size = 2 * rayon::current_num_threads().max(1);
    (0..count)
        .step_by(size)
        .map(move |start| start..(start + size).min(count))
}
