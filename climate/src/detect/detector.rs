//! A detection method prepared for a grid, and its work on one time in each pass.

use super::Method;
use super::bard::{BardDetector, BardThresholds};
use super::lows::LowsDetector;
use super::percentile::{
    MonthlyThresholds, PercentileDetector, PercentileThresholds, SavedClimatology,
    TransportClimatology, month_of,
};
use super::tempest::{Node, Stitcher, TempestDetector, TempestThresholds};
use super::transport::DetectFields;
use crate::error::{ClimateError, Result};
use crate::label::settled::Accepted;
use crate::label::{
    CycloneCandidate, EtcThresholds, LabelledSnapshot, Labeller, LowCandidate, LowTracks,
    Thresholds, Trajectories,
};
use ndarray::Array2;
use serde::{Deserialize, Serialize};
use squall_data::{Class, LatLonGrid, Time};
use std::sync::Arc;

/// The thresholds of all methods, as in a thresholds file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DetectorThresholds {
    /// Thresholds of [`Method::Deepcam`].
    pub deepcam: Thresholds,
    /// Thresholds of [`Method::Tempest`].
    pub tempest: TempestThresholds,
    /// Thresholds of [`Method::Percentile`].
    pub percentile: PercentileThresholds,
    /// Thresholds of [`Method::Bard`].
    pub bard: BardThresholds,
    /// Thresholds of [`Method::Lows`]; those of [`Method::Deepcam`] and [`Method::Tempest`] define its warm cores.
    pub lows: EtcThresholds,
}

/// A method prepared for a grid.
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
    /// Extratropical cyclones.
    Lows(Box<LowsDetector>),
}

/// The labels of one method at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct MethodLabels {
    /// The method.
    pub method: Method,
    /// Its mask and objects.
    pub labelled: LabelledSnapshot,
}

impl Detector {
    /// Creates the detector of a method for a grid.
    ///
    /// # Errors
    /// [`ClimateError::Invalid`] if a threshold is out of range.
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
            Method::Lows => Self::Lows(Box::new(LowsDetector::new(thresholds, grid)?)),
        })
    }

    /// The same detector for a series of these times: tracks of lows bridge its usual step.
    #[must_use]
    pub fn of_times(self, times: &[Time]) -> Self {
        match self {
            Self::Lows(detector) => Self::Lows(Box::new(detector.of_times(times))),
            Self::Deepcam(_) | Self::Tempest(_) | Self::Percentile(_) | Self::Bard(_) => self,
        }
    }

    /// The same detector with the percentiles of a saved climatology. Methods without percentiles are unchanged.
    #[must_use]
    pub fn of_climate(self, climatology: &SavedClimatology) -> Self {
        match self {
            Self::Percentile(detector) => {
                Self::Percentile(detector.of_climate(climatology.thresholds().clone()))
            }
            Self::Deepcam(_) | Self::Tempest(_) | Self::Bard(_) | Self::Lows(_) => self,
        }
    }

    /// Whether it must read all times before it can draw a mask.
    pub fn needs_first_pass(&self) -> bool {
        match self {
            Self::Deepcam(_) | Self::Tempest(_) | Self::Lows(_) => true,
            Self::Percentile(detector) => detector.known().is_none(),
            Self::Bard(_) => false,
        }
    }

    /// Maximum memory of the climatology that its first pass builds, bytes; 0 if it builds none.
    pub fn climatology_bytes(&self) -> u64 {
        match self {
            Self::Percentile(detector) if detector.known().is_none() => {
                detector.climatology().max_bytes()
            }
            Self::Deepcam(_)
            | Self::Tempest(_)
            | Self::Percentile(_)
            | Self::Bard(_)
            | Self::Lows(_) => 0,
        }
    }

    /// The method of this detector.
    pub fn method(&self) -> Method {
        match self {
            Self::Deepcam(_) => Method::Deepcam,
            Self::Tempest(_) => Method::Tempest,
            Self::Percentile(_) => Method::Percentile,
            Self::Bard(_) => Method::Bard,
            Self::Lows(_) => Method::Lows,
        }
    }

    /// Whether it cannot find cyclones at these times ([`Method::Lows`]: extratropical ones) because they are too far
    /// apart for any track.
    pub fn is_without_tracks(&self, times: &[Time]) -> bool {
        match self {
            Self::Deepcam(labeller) => labeller
                .untrackable(times)
                .contains(&Class::TropicalCyclone),
            Self::Tempest(detector) => detector.never_joins(times),
            Self::Lows(detector) => detector.never_joins(times),
            Self::Percentile(_) | Self::Bard(_) => false,
        }
    }

    /// Checks before reading that these times suffice for a result.
    ///
    /// # Errors
    /// [`ClimateError::FewTimes`], [`ClimateError::Invalid`].
    pub fn check_times(&self, times: &[Time]) -> Result<()> {
        match self {
            Self::Percentile(detector) => detector.check_times(times),
            Self::Deepcam(_) | Self::Tempest(_) | Self::Bard(_) | Self::Lows(_) => Ok(()),
        }
    }

    pub(super) fn begin(&self) -> FirstPassState {
        match self {
            Self::Deepcam(labeller) => FirstPassState::Deepcam(labeller.trajectories()),
            Self::Tempest(detector) => FirstPassState::Tempest(detector.stitcher()),
            Self::Lows(detector) => FirstPassState::Lows(detector.tracks()),
            Self::Percentile(detector) if detector.known().is_none() => {
                FirstPassState::Percentile(detector.climatology())
            }
            Self::Percentile(_) | Self::Bard(_) => FirstPassState::Nothing,
        }
    }

    /// Extracts from one time what the first pass needs.
    pub(super) fn observe(&self, fields: &DetectFields) -> Result<Observation> {
        Ok(match self {
            Self::Deepcam(labeller) => Observation::Deepcam(labeller.candidates(&fields.snapshot)?),
            Self::Tempest(detector) => Observation::Tempest(detector.nodes(fields)?),
            Self::Lows(detector) => Observation::Lows(detector.lows(fields)?),
            Self::Percentile(detector) if detector.known().is_none() => {
                Observation::Percentile(detector.moisture(fields)?.into_owned())
            }
            Self::Percentile(_) | Self::Bard(_) => Observation::Nothing,
        })
    }

    /// Ends the first pass.
    ///
    /// # Errors
    /// [`ClimateError::Invalid`] if the first pass was that of another method; as a climatology without times.
    pub(super) fn conclude(&self, state: FirstPassState) -> Result<Conclusion> {
        Ok(match (self, state) {
            (Self::Deepcam(_), FirstPassState::Deepcam(tracks)) => {
                Conclusion::Deepcam(tracks.finish())
            }
            (Self::Tempest(_), FirstPassState::Tempest(tracks)) => {
                Conclusion::Tempest(tracks.finish())
            }
            (Self::Lows(_), FirstPassState::Lows(tracks)) => Conclusion::Lows(tracks.finish()),
            (Self::Percentile(detector), FirstPassState::Percentile(climatology)) => {
                Conclusion::Percentile(Arc::new(climatology.thresholds(detector.thresholds())?))
            }
            (Self::Percentile(detector), FirstPassState::Nothing) => match detector.known() {
                Some(known) => Conclusion::Percentile(known.clone()),
                None => return Err(self.lacks_first_pass()),
            },
            (Self::Bard(_), FirstPassState::Nothing) => Conclusion::Nothing,
            // Methods by name, here and below: a new one has to say what it does in each pass.
            (
                Self::Deepcam(_)
                | Self::Tempest(_)
                | Self::Percentile(_)
                | Self::Bard(_)
                | Self::Lows(_),
                _,
            ) => return Err(self.lacks_first_pass()),
        })
    }

    pub(super) fn masks(
        &self,
        index: usize,
        fields: &DetectFields,
        known: &Conclusion,
    ) -> Result<LabelledSnapshot> {
        match (self, known) {
            (Self::Deepcam(labeller), Conclusion::Deepcam(accepted)) => {
                labeller.masks(&fields.snapshot, accepted.at(index))
            }
            (Self::Tempest(detector), Conclusion::Tempest(accepted)) => {
                detector.masks(fields, accepted.at(index))
            }
            (Self::Percentile(detector), Conclusion::Percentile(usual)) => {
                detector.masks(fields, usual)
            }
            (Self::Bard(detector), Conclusion::Nothing) => detector.masks(fields),
            (Self::Lows(detector), Conclusion::Lows(accepted)) => {
                detector.label(fields.snapshot.time, accepted.at(index))
            }
            (
                Self::Deepcam(_)
                | Self::Tempest(_)
                | Self::Percentile(_)
                | Self::Bard(_)
                | Self::Lows(_),
                _,
            ) => Err(self.lacks_first_pass()),
        }
    }

    fn lacks_first_pass(&self) -> ClimateError {
        ClimateError::Invalid(format!(
            "{}: the masks need its own first pass",
            self.method()
        ))
    }
}

// The first pass turns each time into an `Observation`, collects these in a `FirstPassState`, and ends with a
// `Conclusion`, from which the second pass draws masks. Each type has a variant per method, and `Nothing` for methods
// without a first pass.

/// The state of a first pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum FirstPassState {
    Nothing,
    /// Tracks of cyclones.
    Deepcam(Trajectories),
    /// Tracks of nodes.
    Tempest(Stitcher),
    /// Histograms of moisture or of its transport.
    Percentile(TransportClimatology),
    /// Tracks of lows.
    Lows(LowTracks),
}

/// What the first pass extracts from one time.
pub(super) enum Observation {
    Nothing,
    Deepcam(Vec<CycloneCandidate>),
    Tempest(Vec<Node>),
    Percentile(Array2<f32>),
    Lows(Vec<LowCandidate>),
}

/// The result of the first pass, from which masks are drawn.
pub(super) enum Conclusion {
    Nothing,
    /// The candidates accepted as cyclones.
    Deepcam(Accepted<CycloneCandidate>),
    /// The nodes accepted as cyclones.
    Tempest(Accepted<Node>),
    /// Thresholds of moisture in rivers, by month and block of cells.
    Percentile(Arc<MonthlyThresholds>),
    /// The lows accepted as extratropical cyclones.
    Lows(Accepted<LowCandidate>),
}

impl FirstPassState {
    /// Adds one time; returns its number of candidates.
    ///
    /// # Errors
    /// [`ClimateError::Invalid`] if another method looked at the time, or if times do not ascend.
    pub(super) fn push(
        &mut self,
        index: usize,
        time: Time,
        observation: Observation,
    ) -> Result<usize> {
        match (self, observation) {
            (Self::Deepcam(tracks), Observation::Deepcam(candidates)) => {
                let count = candidates.len();
                tracks.push(index, time, &candidates).map(|()| count)
            }
            (Self::Tempest(tracks), Observation::Tempest(nodes)) => {
                let count = nodes.len();
                tracks.push(index, time, nodes).map(|()| count)
            }
            (Self::Lows(tracks), Observation::Lows(lows)) => {
                let count = lows.len();
                tracks.push(index, time, &lows).map(|()| count)
            }
            (Self::Percentile(climatology), Observation::Percentile(plane)) => {
                climatology.add(month_of(time), plane.view()).map(|()| 0)
            }
            (Self::Nothing, Observation::Nothing) => Ok(0),
            (
                Self::Nothing
                | Self::Deepcam(_)
                | Self::Tempest(_)
                | Self::Percentile(_)
                | Self::Lows(_),
                _,
            ) => Err(ClimateError::Invalid(
                "the state of the first pass is that of another method".into(),
            )),
        }
    }
}
