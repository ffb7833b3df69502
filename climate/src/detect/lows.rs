//! Extratropical cyclones by sea-level pressure alone: closed lows poleward of the tropics, followed in time.
//!
//! They are the lows of the boxes that [`crate::label`] gives, by the same numbers ([`EtcThresholds`]) and the same code,
//! but for two things. Where there are fields that tell warm cores, lows with one are left out: by temperature and
//! thickness as there, or where files have heights of 300 (or 250) and 500 hPa by these, as published and as
//! [`super::tempest`] does. Where there are none nothing tells a tropical cyclone poleward of the tropics, which is then
//! among them. And lows close to a tropical cyclone are not left out for that: nobody looked for any.
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
    /// What a warm core is by temperature and thickness ...
    cyclone: TcThresholds,
    /// ... and by heights.
    node: NodeThresholds,
    /// The step of the data, hours, where it is known.
    step_hours: Option<f64>,
}

impl LowsDetector {
    /// The recipe for a grid. What a warm core is say the numbers of the two methods that look for tropical cyclones,
    /// adapted to the grid if they say so.
    ///
    /// # Errors
    /// [`crate::ClimateError::Invalid`] if a threshold makes no sense.
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

    /// The same for a series of these times, of which tracks bridge one usual step
    /// ([`crate::label::Labeller::of_times`]).
    #[must_use]
    pub fn of_times(self, times: &[Time]) -> Self {
        Self {
            step_hours: usual_step_hours(times),
            ..self
        }
    }

    /// The numbers of lows and tracks.
    pub fn thresholds(&self) -> &EtcThresholds {
        &self.low
    }

    /// The numbers in use by which temperature and thickness tell a warm core.
    pub fn core_thresholds(&self) -> &TcThresholds {
        &self.cyclone
    }

    /// The numbers in use by which heights tell a warm core.
    pub fn upper_core_thresholds(&self) -> &NodeThresholds {
        &self.node
    }

    /// Whether these times are too far apart for any track, and the series so long that no low stands without one.
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

    /// The lows at one time, from south to north. Needs PSL; the thickness of the upper layer, or else T200, T500, Z200
    /// and Z1000, tell warm cores, if they are there.
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
        let core = CoreFields::of(snapshot);
        Ok(extratropical(psl, grid, &self.low, |_, centre| {
            core.as_ref()
                .is_some_and(|core| core.is_warm(&self.cyclone, centre))
        }))
    }

    /// The boxes and objects of one time, given its lows; masks have no such class, and this one is empty.
    ///
    /// # Errors
    /// [`crate::ClimateError::Data`] for a box without extent.
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
