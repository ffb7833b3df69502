//! Extratropical cyclones from sea-level pressure: closed lows poleward of the tropics, tracked in time.
//!
//! These are the lows whose boxes [`crate::label`] writes, found with the same thresholds ([`EtcThresholds`]) and code,
//! with two differences. First, lows with a warm core are excluded either by temperature and thickness, as there, or,
//! if files have heights of 300 (or 250) and 500 hPa, by these, as published and as in [`super::tempest`]. Without any
//! of these fields, tropical cyclones poleward of the tropics are included. Second, lows close to a tropical cyclone
//! are kept, because this method does not search for tropical cyclones.
//!
//! # Source
//! [`EtcThresholds`] names the commands of TempestExtremes.

use super::DetectorThresholds;
use super::tempest::{NodeThresholds, is_warm_above};
use super::transport::DetectFields;
use crate::closed_low::Walker;
use crate::derived::check_shape;
use crate::error::Result;
use crate::events::{Event, EventFields, from_boxes};
use crate::label::{
    CoreFields, EtcThresholds, FIRST_EXTRATROPICAL, LabelledSnapshot, LowCandidate, LowRules,
    LowTracks, TcThresholds, TdThresholds, boxes_of_lows, check_grid, extratropical, planes,
};
use ndarray::Array2;
use squall_data::gaps::usual_step_hours;
use squall_data::{ClassMask, LatLonGrid, Time, Variable};
use std::sync::Arc;

/// Finds extratropical cyclones on one grid.
#[derive(Debug, Clone)]
pub struct LowsDetector {
    grid: Arc<LatLonGrid>,
    low: EtcThresholds,
    /// Definition of a warm core by temperature and thickness ...
    cyclone: TcThresholds,
    /// ... and by heights.
    node: NodeThresholds,
    /// Time step of the data in hours, if known.
    step_hours: Option<f64>,
}

impl LowsDetector {
    /// Creates the detector for a grid. The thresholds of the two methods for tropical cyclones define warm cores,
    /// adapted to the grid if their `adapt_to_grid` is set.
    ///
    /// # Errors
    /// [`crate::ClimateError::Invalid`] if a threshold is out of range.
    pub fn new(thresholds: &DetectorThresholds, grid: Arc<LatLonGrid>) -> Result<Self> {
        let (deepcam, tempest) = (&thresholds.deepcam, &thresholds.tempest);
        thresholds.lows.check()?;
        deepcam.cyclone.check()?;
        tempest.check()?;
        let cyclone = if deepcam.adapt_to_grid {
            deepcam.cyclone.adapted_to(&grid)
        } else {
            deepcam.cyclone.clone()
        };
        let node = if tempest.adapt_to_grid {
            tempest.node.adapted_to(&grid)
        } else {
            tempest.node.clone()
        };
        Ok(Self {
            grid,
            low: thresholds.lows.clone(),
            cyclone,
            node,
            step_hours: None,
        })
    }

    /// The same detector for a series of these times: tracks bridge one usual step of it
    /// ([`crate::label::Labeller::of_times`]).
    #[must_use]
    pub fn of_times(self, times: &[Time]) -> Self {
        Self {
            step_hours: usual_step_hours(times),
            ..self
        }
    }

    /// The thresholds of lows and tracks.
    pub fn thresholds(&self) -> &EtcThresholds {
        &self.low
    }

    /// The thresholds in use for warm cores by temperature and thickness.
    pub fn core_thresholds(&self) -> &TcThresholds {
        &self.cyclone
    }

    /// The thresholds in use for warm cores by heights.
    pub fn upper_core_thresholds(&self) -> &NodeThresholds {
        &self.node
    }

    /// Whether these times are too far apart to join any track, and the series so long that no low is accepted without
    /// one.
    pub(super) fn never_joins(&self, times: &[Time]) -> bool {
        self.rules().never_join(times)
    }

    /// An empty set of tracks.
    pub(super) fn tracks(&self) -> LowTracks {
        LowTracks::new(self.rules(), FIRST_EXTRATROPICAL)
    }

    fn rules(&self) -> LowRules {
        LowRules::extratropical(&self.low, self.step_hours)
    }

    /// The lows at one time, from south to north. Needs PSL. Warm cores are detected by the thickness of the upper
    /// layer, or else by T200, T500, Z200 and Z1000, if present.
    ///
    /// # Errors
    /// [`crate::ClimateError::MissingField`] or [`crate::ClimateError::Mismatch`].
    pub fn lows(&self, fields: &DetectFields) -> Result<Vec<LowCandidate>> {
        let snapshot = &fields.snapshot;
        check_grid(&self.grid, snapshot)?;
        let grid = self.grid.as_ref();
        let [psl] = planes(snapshot, "extratropical cyclones", [Variable::Psl])?;
        if let Some(upper) = &fields.upper_thickness_m {
            check_shape("thickness of the upper layer", &upper.view(), grid)?;
            let mut walker = Walker::new(grid, self.node.domain_edge);
            return Ok(extratropical(psl, grid, &self.low, |cell, _| {
                is_warm_above(upper.view(), &mut walker, cell, &self.node)
            }));
        }
        let core = CoreFields::from_snapshot(snapshot);
        Ok(extratropical(psl, grid, &self.low, |_, centre| {
            core.as_ref()
                .is_some_and(|core| core.is_warm(&self.cyclone, centre))
        }))
    }

    /// The boxes and objects of one time, given its lows. The mask is empty, as masks lack this class.
    ///
    /// # Errors
    /// [`crate::ClimateError::Data`] if a box has no extent.
    pub(super) fn label(&self, time: Time, lows: &[LowCandidate]) -> Result<LabelledSnapshot> {
        let boxes = boxes_of_lows(lows, &[], &self.low, &TdThresholds::default());
        let mut objects = Vec::with_capacity(lows.len());
        for (low, found) in lows.iter().zip(&boxes) {
            let events = from_boxes(time, &[*found], &self.grid, &EventFields::default())?;
            objects.extend(events.into_iter().map(|detected| Event {
                lat_deg: low.lat_deg,
                lon_deg: low.lon_deg,
                min_psl_pa: Some(low.min_psl_pa),
                ..detected.event
            }));
        }
        let codes = Array2::zeros(self.grid.shape());
        Ok(LabelledSnapshot {
            mask: ClassMask { time, codes },
            objects,
            boxes,
            river_probability: None,
        })
    }
}

#[cfg(test)]
mod tests;
