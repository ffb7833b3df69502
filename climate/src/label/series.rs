//! Both passes over a series.

use super::low_tracks::StandingLows;
use super::lows::Lows;
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
    /// Boxes of each class over all times, in the order of [`squall_data::BoxClass::ALL`].
    pub boxes: [usize; 4],
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
        let (accepted, lows) = self.first_pass(count, &read, &mut summary)?;
        for block in blocks(count) {
            let labelled: Vec<Result<LabelledSnapshot>> = block
                .clone()
                .into_par_iter()
                .map(|index| {
                    let cyclones = accepted.at(index);
                    let mut labelled = self.masks(&read(index)?, cyclones)?;
                    for kind in &lows {
                        labelled
                            .boxes
                            .extend(self.low_boxes(kind.at(index), cyclones));
                    }
                    Ok(labelled)
                })
                .collect();
            for (index, labelled) in block.zip(labelled) {
                let labelled = labelled?;
                summary.rivers += labelled.objects.len() - accepted.at(index).len();
                for found in &labelled.boxes {
                    summary.boxes[usize::from(found.geo.class.code())] += 1;
                }
                each(index, labelled)?;
            }
        }
        Ok(summary)
    }

    /// The first pass.
    fn first_pass<E>(
        &self,
        count: usize,
        read: &(impl Fn(usize) -> std::result::Result<Snapshot, E> + Sync),
        summary: &mut SeriesSummary,
    ) -> Result<(AcceptedCyclones, [StandingLows; 2])>
    where
        ClimateError: From<E>,
    {
        let mut tracks = self.trajectories();
        let [mut extratropical, mut depressions] = self.low_tracks();
        for block in blocks(count) {
            let found: Vec<Result<(Time, Vec<CycloneCandidate>, Lows)>> = block
                .clone()
                .into_par_iter()
                .map(|index| {
                    let snapshot = read(index)?;
                    let (candidates, lows) = self.centres(&snapshot)?;
                    Ok((snapshot.time, candidates, lows))
                })
                .collect();
            for (index, found) in block.zip(found) {
                let (time, candidates, lows) = found?;
                summary.candidates += candidates.len();
                tracks.push(index, time, candidates)?;
                extratropical.push(index, time, &lows.extratropical);
                depressions.push(index, time, &lows.depressions);
            }
        }
        let accepted = tracks.finish();
        summary.cyclones = accepted.points();
        summary.tracks = accepted.tracks;
        summary.untracked = accepted.untracked;
        // No number twice in a table of boxes.
        let extratropical = extratropical.finish(accepted.tracks as u64 + 1);
        let first = accepted.tracks as u64 + extratropical.tracks + 1;
        let depressions = depressions.finish(first);
        Ok((accepted, [extratropical, depressions]))
    }
}

/// Stretches of the series that are worked on at once.
fn blocks(count: usize) -> impl Iterator<Item = Range<usize>> {
    let size = 2 * rayon::current_num_threads().max(1);
    (0..count)
        .step_by(size)
        .map(move |start| start..(start + size).min(count))
}
