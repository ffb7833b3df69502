//! Runs both passes over a series. The masks of a time are drawn as soon as its tracks are decided.

use super::low_tracks::LowTracks;
use super::lows::Lows;
use super::trajectory::Trajectories;
use super::{CycloneCandidate, LabelledSnapshot, Labeller, Pass};
use crate::error::{ClimateError, Result};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use squall_data::{Class, Snapshot, Time};
use std::collections::BTreeSet;

/// The counts of a labelled series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SeriesSummary {
    /// Number of times with labels.
    pub times: usize,
    /// Vorticity maxima with a closed low, over all times.
    pub candidates: usize,
    /// Candidates accepted as cyclones, over all times.
    pub cyclones: usize,
    /// Cyclone tracks.
    pub tracks: usize,
    /// Rivers, over all times.
    pub rivers: usize,
    /// Boxes of each class over all times, in the order of [`squall_data::BoxClass::ALL`].
    pub boxes: [usize; 4],
    /// Whether the series is shorter than the minimum duration of a cyclone, so that storms are accepted without a
    /// track.
    pub untracked: bool,
}

/// The state of labelling a series.
///
/// It holds only what may still change: active tracks, and the points since the oldest of them began. It is serialised
/// to resume an interrupted run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LabelStream {
    cyclones: Trajectories,
    /// Extratropical cyclones and tropical depressions.
    lows: [LowTracks; 2],
    /// Number of times that the first pass has seen.
    seen: usize,
    /// Number of times that are labelled or left out.
    done: usize,
    left_out: BTreeSet<usize>,
    summary: SeriesSummary,
}

impl LabelStream {
    /// Number of times that are labelled or left out.
    pub fn done(&self) -> usize {
        self.done
    }

    /// Indices of the times so far that could not be read and have no labels.
    pub fn left_out(&self) -> &BTreeSet<usize> {
        &self.left_out
    }

    /// Number of times that can be labelled: all before the first undecided one.
    fn ready(&self) -> usize {
        let lows = self.lows.iter().map(LowTracks::undecided);
        lows.fold(self.cyclones.undecided(), usize::min)
            .min(self.seen)
    }

    /// Adds the candidates of the next time; `None` if that time is left out.
    fn see(&mut self, found: Option<Candidates>) -> Result<()> {
        let Some((time, candidates, lows)) = found else {
            self.left_out.insert(self.seen);
            self.seen += 1;
            return Ok(());
        };
        self.summary.candidates += candidates.len();
        self.cyclones.push(self.seen, time, &candidates)?;
        let [extratropical, depressions] = &mut self.lows;
        extratropical.push(self.seen, time, &lows.extratropical)?;
        depressions.push(self.seen, time, &lows.depressions)?;
        self.seen += 1;
        Ok(())
    }

    /// Decides all tracks at the end of the series.
    fn end(&mut self) {
        self.summary.untracked = self.cyclones.end();
        for lows in &mut self.lows {
            lows.end();
        }
    }

    /// Counts the labels of the next time, if it has any, and discards the points that are no longer needed.
    fn label(&mut self, labelled: Option<&LabelledSnapshot>) {
        if let Some(labelled) = labelled {
            self.summary.times += 1;
            self.summary.cyclones += labelled.count(Class::TropicalCyclone);
            self.summary.rivers += labelled.count(Class::AtmosphericRiver);
            for found in &labelled.boxes {
                self.summary.boxes[usize::from(found.geo.class.code())] += 1;
            }
        } else {
            self.left_out.insert(self.done);
        }
        self.done += 1;
        self.cyclones.forget_before(self.done);
        for lows in &mut self.lows {
            lows.forget_before(self.done);
        }
    }
}

/// The first pass's result for one time.
type Candidates = (Time, Vec<CycloneCandidate>, Lows);

impl Labeller {
    /// The initial state of a series.
    pub fn stream(&self) -> LabelStream {
        LabelStream {
            cyclones: self.trajectories(),
            lows: self.low_tracks(),
            seen: 0,
            done: 0,
            left_out: BTreeSet::new(),
            summary: SeriesSummary::default(),
        }
    }

    /// Labels a series. Every snapshot is read twice, in parallel, each time with at least [`Pass::channels`]; `each`
    /// receives the labels in order of time.
    ///
    /// # Errors
    /// As [`Labeller::label_on`].
    pub fn label_series<E>(
        &self,
        count: usize,
        read: impl Fn(usize, Pass) -> std::result::Result<Snapshot, E> + Sync,
        mut each: impl FnMut(usize, LabelledSnapshot) -> Result<()>,
    ) -> Result<SeriesSummary>
    where
        ClimateError: From<E>,
    {
        let read = |index, pass| read(index, pass).map(Some);
        self.label_on(self.stream(), count, read, |_, index, labelled| {
            labelled.map_or(Ok(()), |labelled| each(index, labelled))
        })
    }

    /// Continues labelling a series. Every snapshot is read twice, in parallel, each time with at least
    /// [`Pass::channels`]; the second time once its storms are accepted or rejected. `each` receives the labels in
    /// order of time, with the state of the series after them.
    ///
    /// A time for which `read` returns `None` is left out, like a gap in the series: `each` receives `None` for it. If
    /// only the second read fails, the storms found in the first remain part of their tracks.
    ///
    /// Memory holds at most twice as many snapshots as there are threads, the active storms, and the points since the
    /// oldest of them began. The result depends neither on the number of threads nor on where the series was
    /// interrupted.
    ///
    /// # Errors
    /// The first error, in order of time, from reading, labelling or `each`; [`ClimateError::Invalid`] if times do not
    /// ascend.
    pub fn label_on<E>(
        &self,
        mut stream: LabelStream,
        count: usize,
        read: impl Fn(usize, Pass) -> std::result::Result<Option<Snapshot>, E> + Sync,
        mut each: impl FnMut(&LabelStream, usize, Option<LabelledSnapshot>) -> Result<()>,
    ) -> Result<SeriesSummary>
    where
        ClimateError: From<E>,
    {
        let block = times_at_once();
        let mut ended = false;
        while stream.done < count {
            while stream.ready() < (stream.done + block).min(count) && stream.seen < count {
                let next = stream.seen..(stream.seen + block).min(count);
                let found: Vec<Result<Option<Candidates>>> = next
                    .into_par_iter()
                    .map(|index| {
                        let Some(snapshot) = read(index, Pass::First)? else {
                            return Ok(None);
                        };
                        let (candidates, lows) = self.candidates_and_lows(&snapshot)?;
                        Ok(Some((snapshot.time, candidates, lows)))
                    })
                    .collect();
                for found in found {
                    stream.see(found?)?;
                }
            }
            if stream.seen == count && !ended {
                stream.end();
                ended = true;
            }
            let ready = if ended { count } else { stream.ready() };
            let next = stream.done..ready.min(stream.done + block);
            let known = &stream;
            let labelled: Vec<Result<Option<LabelledSnapshot>>> = next
                .clone()
                .into_par_iter()
                .map(|index| {
                    if known.left_out.contains(&index) {
                        return Ok(None);
                    }
                    let Some(snapshot) = read(index, Pass::Second)? else {
                        return Ok(None);
                    };
                    let cyclones = known.cyclones.at(index);
                    let mut labelled = self.masks(&snapshot, cyclones)?;
                    for kind in &known.lows {
                        let boxes = self.low_boxes(kind.at(index), cyclones);
                        labelled.boxes.extend(boxes);
                    }
                    Ok(Some(labelled))
                })
                .collect();
            for (index, labelled) in next.zip(labelled) {
                let labelled = labelled?;
                stream.label(labelled.as_ref());
                each(&stream, index, labelled)?;
            }
        }
        Ok(SeriesSummary {
            tracks: stream.cyclones.finish().tracks,
            ..stream.summary
        })
    }
}

/// Number of times of a series to process in parallel, for any method.
pub(crate) fn times_at_once() -> usize {
    2 * rayon::current_num_threads().max(1)
}
