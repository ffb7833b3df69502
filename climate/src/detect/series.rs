//! Any methods over a series: all first passes in one reading, all masks in another.

use super::Method;
use super::bard::{BardDetector, BardThresholds};
use super::percentile::{
    MonthlyThresholds, PercentileDetector, PercentileThresholds, TransportClimatology, month_of,
};
use super::tempest::{AcceptedNodes, Node, Stitcher, TempestDetector, TempestThresholds};
use super::transport::DetectFields;
use crate::error::{ClimateError, Result};
use crate::label::{
    AcceptedCyclones, CycloneCandidate, LabelledSnapshot, Labeller, SeriesSummary, Thresholds,
    Trajectories,
};
use ndarray::Array2;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use squall_data::{Class, LatLonGrid, Time};
use std::ops::Range;
use std::sync::Arc;

/// The numbers of all methods; one file for a command.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DetectorThresholds {
    /// Of [`Method::Deepcam`].
    pub deepcam: Thresholds,
    /// Of [`Method::Tempest`].
    pub tempest: TempestThresholds,
    /// Of [`Method::Percentile`].
    pub percentile: PercentileThresholds,
    /// Of [`Method::Bard`].
    pub bard: BardThresholds,
}

/// A method ready for a grid.
#[derive(Debug, Clone)]
pub enum Detector {
    /// The labels of the DeepCAM data set.
    Deepcam(Box<Labeller>),
    /// TempestExtremes.
    Tempest(Box<TempestDetector>),
    /// Percentiles and geometry.
    Percentile(PercentileDetector),
    /// TECA-BARD.
    Bard(BardDetector),
}

/// What one method made of one time.
#[derive(Debug, Clone, PartialEq)]
pub struct MethodLabels {
    /// The method.
    pub method: Method,
    /// Its mask and objects.
    pub labelled: LabelledSnapshot,
}

impl Detector {
    /// A method for a grid.
    ///
    /// # Errors
    /// [`ClimateError::Invalid`] if a threshold makes no sense.
    pub fn new(
        method: Method,
        thresholds: &DetectorThresholds,
        grid: &Arc<LatLonGrid>,
    ) -> Result<Self> {
        let grid = grid.clone();
        Ok(match method {
            Method::Deepcam => Self::Deepcam(Box::new(Labeller::new(&thresholds.deepcam, grid)?)),
            Method::Tempest => {
                Self::Tempest(Box::new(TempestDetector::new(&thresholds.tempest, grid)?))
            }
            Method::Percentile => {
                Self::Percentile(PercentileDetector::new(&thresholds.percentile, grid)?)
            }
            Method::Bard => Self::Bard(BardDetector::new(&thresholds.bard, grid)?),
        })
    }

    /// Which it is.
    pub fn method(&self) -> Method {
        match self {
            Self::Deepcam(_) => Method::Deepcam,
            Self::Tempest(_) => Method::Tempest,
            Self::Percentile(_) => Method::Percentile,
            Self::Bard(_) => Method::Bard,
        }
    }

    fn begin(&self) -> Survey {
        match self {
            Self::Deepcam(labeller) => Survey::Deepcam(labeller.trajectories()),
            Self::Tempest(detector) => Survey::Tempest(detector.stitcher()),
            Self::Percentile(detector) => Survey::Percentile(detector.climatology()),
            Self::Bard(_) => Survey::Nothing,
        }
    }

    /// What the first pass takes from one time.
    fn look(&self, fields: &DetectFields) -> Result<Seen> {
        Ok(match self {
            Self::Deepcam(labeller) => Seen::Candidates(labeller.candidates(&fields.snapshot)?),
            Self::Tempest(detector) => Seen::Nodes(detector.nodes(fields)?),
            Self::Percentile(detector) => Seen::Moisture(detector.moisture(fields)?.into_owned()),
            Self::Bard(_) => Seen::Nothing,
        })
    }

    fn conclude(&self, survey: Survey) -> Result<Conclusion> {
        Ok(match (self, survey) {
            (_, Survey::Deepcam(tracks)) => Conclusion::Cyclones(tracks.finish()),
            (_, Survey::Tempest(tracks)) => Conclusion::Nodes(tracks.finish()),
            (Self::Percentile(detector), Survey::Percentile(climatology)) => {
                Conclusion::Usual(Box::new(climatology.thresholds(detector.thresholds())?))
            }
            _ => Conclusion::Nothing,
        })
    }

    fn masks(
        &self,
        index: usize,
        fields: &DetectFields,
        known: &Conclusion,
    ) -> Result<LabelledSnapshot> {
        match (self, known) {
            (Self::Deepcam(labeller), Conclusion::Cyclones(accepted)) => {
                labeller.masks(&fields.snapshot, accepted.at(index))
            }
            (Self::Tempest(detector), Conclusion::Nodes(accepted)) => {
                detector.masks(fields, accepted.at(index))
            }
            (Self::Percentile(detector), Conclusion::Usual(usual)) => detector.masks(fields, usual),
            (Self::Bard(detector), _) => detector.masks(fields),
            _ => Err(ClimateError::Invalid(format!(
                "{}: the masks need its own first pass",
                self.method()
            ))),
        }
    }
}

/// The state of a first pass.
enum Survey {
    Nothing,
    Deepcam(Trajectories),
    Tempest(Stitcher),
    Percentile(TransportClimatology),
}

enum Seen {
    Nothing,
    Candidates(Vec<CycloneCandidate>),
    Nodes(Vec<Node>),
    Moisture(Array2<f32>),
}

/// What the first pass came to.
enum Conclusion {
    Nothing,
    Cyclones(AcceptedCyclones),
    Nodes(AcceptedNodes),
    Usual(Box<MonthlyThresholds>),
}

impl Survey {
    /// Takes one time; the number of candidates.
    fn push(&mut self, index: usize, time: Time, seen: Seen) -> Result<usize> {
        match (self, seen) {
            (Self::Deepcam(tracks), Seen::Candidates(candidates)) => {
                let count = candidates.len();
                tracks.push(index, time, candidates).map(|()| count)
            }
            (Self::Tempest(tracks), Seen::Nodes(nodes)) => {
                let count = nodes.len();
                tracks.push(index, time, nodes).map(|()| count)
            }
            (Self::Percentile(climatology), Seen::Moisture(plane)) => {
                climatology.add(month_of(time), plane.view()).map(|()| 0)
            }
            _ => Ok(0),
        }
    }
}

/// Runs methods over a series: every time is read twice (once if only TECA-BARD is asked for), in parallel; `each` receives the
/// labels of all methods in order of time, and before that `looked` the number of times that the first pass has seen.
///
/// At any time twice as many snapshots as there are threads are in memory, besides what the first passes keep (cyclones that
/// stand or may stand; the histograms of the climatology). The result does not depend on the number of threads. One summary per method.
///
/// # Errors
/// The first error in order of time, of reading, detecting or `each`; [`ClimateError::Invalid`] if times do not ascend.
pub fn detect_series<E>(
    detectors: &[Detector],
    count: usize,
    read: impl Fn(usize) -> std::result::Result<DetectFields, E> + Sync,
    looked: impl FnMut(usize),
    mut each: impl FnMut(usize, Vec<MethodLabels>) -> Result<()>,
) -> Result<Vec<SeriesSummary>>
where
    ClimateError: From<E>,
{
    let mut summaries = vec![SeriesSummary::default(); detectors.len()];
    let known = first_pass(detectors, count, &read, looked, &mut summaries)?;
    for (summary, known) in summaries.iter_mut().zip(&known) {
        summary.times = count;
        match known {
            Conclusion::Cyclones(accepted) => {
                summary.cyclones = accepted.points();
                summary.tracks = accepted.tracks;
                summary.untracked = accepted.untracked;
            }
            Conclusion::Nodes(accepted) => {
                summary.cyclones = accepted.points();
                summary.tracks = accepted.tracks;
                summary.untracked = accepted.untracked;
            }
            Conclusion::Nothing | Conclusion::Usual(_) => {}
        }
    }
    for block in blocks(count) {
        let labelled: Vec<Result<Vec<MethodLabels>>> = block
            .clone()
            .into_par_iter()
            .map(|index| {
                let fields = read(index)?;
                let one = |(detector, known): (&Detector, &Conclusion)| {
                    Ok(MethodLabels {
                        method: detector.method(),
                        labelled: detector.masks(index, &fields, known)?,
                    })
                };
                detectors.iter().zip(&known).map(one).collect()
            })
            .collect();
        for (index, labelled) in block.zip(labelled) {
            let labelled = labelled?;
            for (summary, labels) in summaries.iter_mut().zip(&labelled) {
                let objects = labels.labelled.objects.iter();
                summary.rivers += objects
                    .filter(|event| event.class == Class::AtmosphericRiver)
                    .count();
            }
            each(index, labelled)?;
        }
    }
    Ok(summaries)
}

fn first_pass<E>(
    detectors: &[Detector],
    count: usize,
    read: &(impl Fn(usize) -> std::result::Result<DetectFields, E> + Sync),
    mut looked: impl FnMut(usize),
    summaries: &mut [SeriesSummary],
) -> Result<Vec<Conclusion>>
where
    ClimateError: From<E>,
{
    let mut surveys: Vec<Survey> = detectors.iter().map(Detector::begin).collect();
    let needed = surveys.iter().any(|s| !matches!(s, Survey::Nothing));
    for block in blocks(if needed { count } else { 0 }) {
        let seen: Vec<Result<(Time, Vec<Seen>)>> = block
            .clone()
            .into_par_iter()
            .map(|index| {
                let fields = read(index)?;
                let looks = detectors.iter().map(|detector| detector.look(&fields));
                Ok((fields.snapshot.time, looks.collect::<Result<_>>()?))
            })
            .collect();
        for (index, seen) in block.zip(seen) {
            let (time, seen) = seen?;
            for ((survey, seen), summary) in surveys.iter_mut().zip(seen).zip(&mut *summaries) {
                summary.candidates += survey.push(index, time, seen)?;
            }
            looked(index + 1);
        }
    }
    let pairs = detectors.iter().zip(surveys);
    pairs
        .map(|(detector, survey)| detector.conclude(survey))
        .collect()
}

/// Stretches of the series that are worked on at once.
fn blocks(count: usize) -> impl Iterator<Item = Range<usize>> {
    let size = 2 * rayon::current_num_threads().max(1);
    (0..count)
        .step_by(size)
        .map(move |start| start..(start + size).min(count))
}
