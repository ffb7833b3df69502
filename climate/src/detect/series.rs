//! Runs several methods over a series together: all first passes in one reading, all masks in a second.

use super::detector::{Conclusion, Detector, FirstPassState, MethodLabels, Observation};
use super::percentile::MonthlyThresholds;
use super::transport::DetectFields;
use crate::error::{ClimateError, Result};
use crate::label::{Pass, SeriesSummary, times_at_once};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use squall_data::{BoxClass, Class, Time};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// The state of the first pass of all methods over a series. It is serialised to resume an interrupted run.
///
/// It holds cyclones that are or may still be accepted, and the histograms of the climatology.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FirstPass {
    // Saved files of interrupted runs have this name.
    #[serde(rename = "surveys")]
    states: Vec<FirstPassState>,
    /// Number of candidates per method.
    candidates: Vec<usize>,
    seen: usize,
    /// Indices of times that could not be read.
    left_out: BTreeSet<usize>,
}

/// The results of the first pass, for the second.
pub struct Conclusions {
    known: Vec<Conclusion>,
    candidates: Vec<usize>,
    left_out: BTreeSet<usize>,
}

/// The state of the second pass of all methods over a series. It is serialised to resume an interrupted run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SecondPass {
    /// Number of rivers so far, per method.
    rivers: Vec<usize>,
    done: usize,
    /// Indices of times that could not be read in either pass and have no masks.
    left_out: BTreeSet<usize>,
}

/// One time and what each method extracted from it.
type TimedObservations = (Time, Vec<Observation>);

impl FirstPass {
    /// The initial state.
    pub fn new(detectors: &[Detector]) -> Self {
        Self {
            states: detectors.iter().map(Detector::begin).collect(),
            candidates: vec![0; detectors.len()],
            seen: 0,
            left_out: BTreeSet::new(),
        }
    }

    /// Number of times that it has processed.
    pub fn seen(&self) -> usize {
        self.seen
    }

    /// Indices of the processed times that could not be read.
    pub fn left_out(&self) -> &BTreeSet<usize> {
        &self.left_out
    }

    /// Whether any method needs a first pass.
    pub fn is_needed(&self) -> bool {
        self.states
            .iter()
            .any(|s| !matches!(s, FirstPassState::Nothing))
    }

    /// Continues over the series. Each time is read once, in parallel, with at least [`super::FieldRequest::by`] these
    /// methods in this pass; `on_progress` receives the state after each block. The result depends neither on the
    /// number of threads nor on where the series was interrupted. A time for which `read` returns `None` is left out,
    /// like a gap in the series.
    ///
    /// # Errors
    /// The first error, in order of time, from reading, detecting or `on_progress`; [`ClimateError::Invalid`] if times
    /// do not ascend.
    pub fn run<E>(
        &mut self,
        detectors: &[Detector],
        count: usize,
        read: &(impl Fn(usize, Pass) -> std::result::Result<Option<DetectFields>, E> + Sync),
        mut on_progress: impl FnMut(&Self) -> Result<()>,
    ) -> Result<()>
    where
        ClimateError: From<E>,
    {
        if !self.is_needed() {
            return Ok(());
        }
        for block in blocks(self.seen..count) {
            let seen: Vec<Result<Option<TimedObservations>>> = block
                .clone()
                .into_par_iter()
                .map(|index| {
                    let Some(fields) = read(index, Pass::First)? else {
                        return Ok(None);
                    };
                    let observations = detectors.iter().map(|detector| detector.observe(&fields));
                    Ok(Some((
                        fields.snapshot.time,
                        observations.collect::<Result<_>>()?,
                    )))
                })
                .collect();
            for (index, seen) in block.zip(seen) {
                match seen? {
                    Some((time, seen)) => self.see(index, time, seen)?,
                    None => _ = self.left_out.insert(index),
                }
                self.seen = index + 1;
            }
            on_progress(self)?;
        }
        Ok(())
    }

    /// Adds what the methods extracted from one time.
    fn see(&mut self, index: usize, time: Time, seen: Vec<Observation>) -> Result<()> {
        let each = self.states.iter_mut().zip(seen);
        for ((state, seen), candidates) in each.zip(&mut self.candidates) {
            *candidates += state.push(index, time, seen)?;
        }
        Ok(())
    }

    /// Ends the series and returns the results.
    ///
    /// # Errors
    /// [`ClimateError`] if a climatology has no times.
    pub fn conclude(self, detectors: &[Detector]) -> Result<Conclusions> {
        let pairs = detectors.iter().zip(self.states);
        let known = pairs.map(|(detector, state)| detector.conclude(state));
        Ok(Conclusions {
            known: known.collect::<Result<_>>()?,
            candidates: self.candidates,
            left_out: self.left_out,
        })
    }
}

impl Conclusions {
    /// The thresholds of moisture of [`super::Method::Percentile`], if it is among the methods.
    pub fn percentiles(&self) -> Option<&Arc<MonthlyThresholds>> {
        self.known.iter().find_map(|known| match known {
            Conclusion::Percentile(usual) => Some(usual),
            _ => None,
        })
    }
}

impl SecondPass {
    /// The initial state.
    pub fn new(detectors: &[Detector]) -> Self {
        Self {
            rivers: vec![0; detectors.len()],
            done: 0,
            left_out: BTreeSet::new(),
        }
    }

    /// Number of times that have masks or are left out.
    pub fn done(&self) -> usize {
        self.done
    }

    /// Indices of the times so far that could not be read and have no masks.
    pub fn left_out(&self) -> &BTreeSet<usize> {
        &self.left_out
    }

    /// Continues over the series. Each time is read once, in parallel, with at least [`super::FieldRequest::by`] these
    /// methods in this pass. `each` receives the labels of all methods in order of time, with the state after them, or
    /// `None` for a time that either pass could not read.
    ///
    /// # Errors
    /// The first error, in order of time, from reading, detecting or `each`.
    pub fn run<E>(
        &mut self,
        detectors: &[Detector],
        conclusions: &Conclusions,
        count: usize,
        read: &(impl Fn(usize, Pass) -> std::result::Result<Option<DetectFields>, E> + Sync),
        mut each: impl FnMut(&Self, usize, Option<Vec<MethodLabels>>) -> Result<()>,
    ) -> Result<()>
    where
        ClimateError: From<E>,
    {
        for block in blocks(self.done..count) {
            let labelled: Vec<Result<Option<Vec<MethodLabels>>>> = block
                .clone()
                .into_par_iter()
                .map(|index| {
                    if conclusions.left_out.contains(&index) {
                        return Ok(None);
                    }
                    let Some(fields) = read(index, Pass::Second)? else {
                        return Ok(None);
                    };
                    let one = |(detector, known): (&Detector, &Conclusion)| {
                        Ok(MethodLabels {
                            method: detector.method(),
                            labelled: detector.masks(index, &fields, known)?,
                        })
                    };
                    let labels = detectors.iter().zip(&conclusions.known).map(one);
                    labels.collect::<Result<_>>().map(Some)
                })
                .collect();
            for (index, labelled) in block.zip(labelled) {
                let labelled = labelled?;
                if labelled.is_none() {
                    self.left_out.insert(index);
                }
                for (rivers, labels) in self.rivers.iter_mut().zip(labelled.iter().flatten()) {
                    *rivers += labels.labelled.count(Class::AtmosphericRiver);
                }
                self.done = index + 1;
                each(self, index, labelled)?;
            }
        }
        Ok(())
    }

    /// The counts of each method.
    pub fn summaries(&self, conclusions: &Conclusions) -> Vec<SeriesSummary> {
        let each = conclusions.known.iter().zip(&conclusions.candidates);
        each.zip(&self.rivers)
            .map(|((known, &candidates), &rivers)| {
                let (cyclones, tracks, untracked) = match known {
                    Conclusion::Deepcam(found) => (found.points(), found.tracks, found.untracked),
                    Conclusion::Tempest(found) => (found.points(), found.tracks, found.untracked),
                    Conclusion::Lows(found) => (0, found.tracks, found.untracked),
                    Conclusion::Nothing | Conclusion::Percentile(_) => (0, 0, false),
                };
                let mut boxes = [0; 4];
                if let Conclusion::Lows(found) = known {
                    let class = BoxClass::ExtratropicalCyclone;
                    boxes[usize::from(class.code())] = found.points();
                }
                SeriesSummary {
                    times: self.done - self.left_out.len(),
                    candidates,
                    cyclones,
                    tracks,
                    rivers,
                    boxes,
                    untracked,
                }
            })
            .collect()
    }
}

/// Splits the series into blocks that are processed in parallel.
fn blocks(times: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let size = times_at_once();
    let end = times.end;
    times
        .step_by(size)
        .map(move |start| start..(start + size).min(end))
}
