//! Labels by rule: tropical cyclones and atmospheric rivers as in the DeepCAM data set.
//!
//! Labelling takes two passes over a series of snapshots, because a candidate counts as a cyclone only if its track
//! lasts long enough:
//! 1. [`Labeller::candidates`] finds the candidates of every time, which are joined to tracks;
//! 2. [`Labeller::masks`] draws the masks of every time, given the candidates on accepted tracks.
//!
//! [`Labeller::label_series`] runs both, in parallel over time. It draws the masks of a time as soon as no later time
//! can change which of its candidates are accepted, so memory holds only the active storms. [`Labeller::label_on`]
//! continues an interrupted series.
//!
//! Boxes have two more classes, extratropical cyclones and tropical depressions. Both are closed lows ([`Lows`]),
//! tracked in the same way; masks do not have them.
//!
//! # Source
//! 1810.01993 section III-A2 and its code, ClimDeepLearn; TECA for the cyclones. Where the published programs deviate
//! from their documentation, this code follows the documentation; [`TcThresholds`] and the comments in this folder
//! point out the differences.

mod boxes;
mod candidates;
mod cyclone_mask;
mod folder;
mod low_thresholds;
mod low_tracks;
mod lows;
pub(crate) mod objects;
pub(crate) mod patches;
mod river_mask;
mod sampling;
mod scaling;
mod series;
pub(crate) mod settled;
mod thresholds;
mod tracks;
mod trajectory;
mod vortex_wind;

pub use candidates::CycloneCandidate;
pub use folder::LabelFolder;
pub use low_thresholds::{EtcThresholds, TdThresholds};
pub use lows::{LowCandidate, Lows};
pub use scaling::GridScaling;
pub(crate) use series::times_at_once;
pub use series::{LabelStream, SeriesSummary};
pub use thresholds::{ArThresholds, TcThresholds, Thresholds};

use crate::error::{ClimateError, Result};
use crate::events::{Event, Region};
pub(crate) use boxes::lows as boxes_of_lows;
use candidates::CycloneFields;
pub(crate) use candidates::{CoreFields, planes};
pub(crate) use low_tracks::{LowRules, LowTracks};
pub(crate) use lows::extratropical;
use ndarray::{Array2, Array3};
use squall_data::gaps::usual_step_hours;
use squall_data::{Class, ClassMask, LatLonGrid, Snapshot, Time, TrackedBox, Variable};
use std::sync::Arc;
pub(crate) use thresholds::{check_count, check_numbers, invalid_threshold};
pub(crate) use trajectory::Trajectories;

/// Track number of the first extratropical cyclone.
///
/// Tropical cyclones are numbered from 1, extratropical cyclones from this number, depressions from
/// [`FIRST_DEPRESSION`]. Numbers are therefore unique within a table, and do not depend on how many tracks of another
/// class there are.
pub const FIRST_EXTRATROPICAL: u64 = 10_000_001;
/// Track number of the first tropical depression; see [`FIRST_EXTRATROPICAL`].
pub const FIRST_DEPRESSION: u64 = 20_000_001;

/// The variables that the labels need, in model order.
pub const REQUIRED_CHANNELS: [Variable; 11] = {
    use Variable::{Prect, Psl, T200, T500, Tmq, U850, Ubot, V850, Vbot, Z200, Z1000};
    [
        Tmq, U850, V850, Ubot, Vbot, Psl, T200, T500, Prect, Z1000, Z200,
    ]
};

/// One of the two passes over a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pass {
    /// Finds storms, or builds the climatology.
    First,
    /// Draws masks, and measures the objects in them.
    Second,
}

impl Pass {
    /// The subset of [`REQUIRED_CHANNELS`] that this pass reads, in model order.
    pub fn channels(self) -> &'static [Variable] {
        use Variable::{Prect, Psl, T200, T500, Tmq, U850, Ubot, V850, Vbot, Z200, Z1000};
        match self {
            Self::First => &[U850, V850, Ubot, Vbot, Psl, T200, T500, Z1000, Z200],
            Self::Second => &[Tmq, U850, V850, Ubot, Vbot, Psl, Prect],
        }
    }
}

/// The labels of one time.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelledSnapshot {
    /// Class codes.
    pub mask: ClassMask,
    /// One event per cyclone and per river. Cyclones come first, in the order of their tracks or, if untracked, from
    /// south to north; then rivers from south to north. A cyclone's position and pressure are those of its pressure
    /// minimum. Cyclones have the number of their track; rivers have none.
    pub objects: Vec<Event>,
    /// A box around each object; [`Labeller::label_series`] adds the boxes of extratropical cyclones and tropical
    /// depressions.
    pub boxes: Vec<TrackedBox>,
    /// The ensemble's probability that a cell belongs to a river, `(lat, lon)`; `None` for methods that are not
    /// ensembles.
    pub river_probability: Option<Array2<f32>>,
}

impl LabelledSnapshot {
    /// The labels of a method without an ensemble; boxes are the bounding boxes of each object's cells.
    pub(crate) fn from_codes(time: Time, codes: Array2<u8>, objects: Vec<Event>) -> Self {
        Self {
            mask: ClassMask { time, codes },
            boxes: objects.iter().map(boxes::bounding_box).collect(),
            objects,
            river_probability: None,
        }
    }

    /// The probability of every class of masks, as mask files hold them: what is no river by the ensemble's probability
    /// is background. `None` without an ensemble.
    ///
    /// # Shapes
    /// returns `(lat, lon, class)`, classes in the order of [`Class::ALL`]
    pub fn probabilities(&self) -> Option<Array3<f32>> {
        let rivers = self.river_probability.as_ref()?;
        let (rows, columns) = rivers.dim();
        let of_class = |(j, i, class): (usize, usize, usize)| match Class::ALL[class] {
            Class::AtmosphericRiver => rivers[[j, i]],
            Class::Background => 1.0 - rivers[[j, i]],
            _ => 0.0,
        };
        let shape = (rows, columns, Class::ALL.len());
        Some(Array3::from_shape_fn(shape, of_class))
    }

    /// Number of objects of a class.
    pub(crate) fn count(&self, class: Class) -> usize {
        let objects = self.objects.iter();
        objects.filter(|event| event.class == class).count()
    }
}

/// Labels snapshots of one grid with one set of thresholds.
#[derive(Debug, Clone)]
pub struct Labeller {
    grid: Arc<LatLonGrid>,
    cyclone: TcThresholds,
    river: ArThresholds,
    extratropical: EtcThresholds,
    depression: TdThresholds,
    /// Thresholds of the search for depression candidates.
    weak: TcThresholds,
    /// Time step of the data in hours, if known.
    step_hours: Option<f64>,
    /// Whether the thresholds are adapted to the grid.
    is_adapted: bool,
}

impl Labeller {
    /// Creates a labeller for a grid. The thresholds are adapted to the grid if `adapt_to_grid` is set.
    ///
    /// # Errors
    /// [`ClimateError::Invalid`] if a threshold is out of range.
    pub fn new(thresholds: &Thresholds, grid: Arc<LatLonGrid>) -> Result<Self> {
        thresholds.cyclone.check()?;
        thresholds.river.check()?;
        thresholds.extratropical.check()?;
        thresholds.depression.check()?;
        let Thresholds {
            cyclone,
            river,
            extratropical,
            depression,
            adapt_to_grid,
        } = thresholds;
        let weak = depression.candidates();
        let (cyclone, river, weak) = if *adapt_to_grid {
            (
                cyclone.adapted_to(&grid),
                river.adapted_to(&grid),
                weak.adapted_to(&grid),
            )
        } else {
            (cyclone.clone(), river.clone(), weak)
        };
        let depression = TdThresholds {
            max_wind_m_s: weak.min_wind_m_s,
            ..depression.clone()
        };
        Ok(Self {
            grid,
            cyclone,
            river,
            extratropical: extratropical.clone(),
            depression,
            weak,
            step_hours: None,
            is_adapted: *adapt_to_grid,
        })
    }

    /// Sets the time step to the usual step of these times: tracks of extratropical cyclones and depressions then
    /// bridge one step of up to 24 h, even if it is longer than their maximum gap. Otherwise no track in daily data
    /// would be joined.
    ///
    /// The usual step of the whole series counts, not each single step: a hole in 6-hourly data that exceeds the gap
    /// still ends tracks.
    #[must_use]
    pub fn of_times(mut self, times: &[Time]) -> Self {
        self.step_hours = usual_step_hours(times);
        self
    }

    /// The classes that cannot be found at these times: the steps are too long to join any track, and the series is so
    /// long that candidates are not accepted without one.
    pub fn untrackable(&self, times: &[Time]) -> Vec<Class> {
        let (low, weak) = (&self.extratropical, &self.depression);
        let bridged = |gap_hours: f64| self.gap_hours(gap_hours).max(low_tracks::RANGE_HOURS);
        let cyclone_hours = 24.0 * self.cyclone.min_storm_days;
        let rules = [
            (
                Class::TropicalCyclone,
                self.cyclone.max_step_hours,
                cyclone_hours,
            ),
            (
                Class::ExtratropicalCyclone,
                bridged(low.max_gap_hours),
                low.min_hours,
            ),
            (
                Class::TropicalDepression,
                bridged(weak.max_gap_hours),
                weak.min_hours,
            ),
        ];
        rules
            .into_iter()
            .filter(|(_, longest, least)| never_joined(times, *longest, *least))
            .map(|(class, _, _)| class)
            .collect()
    }

    /// The longest gap that tracks of lows bridge: `gap_hours`, or one step of the data if that is longer.
    fn gap_hours(&self, gap_hours: f64) -> f64 {
        low_tracks::gap_hours(gap_hours, self.step_hours)
    }

    /// The thresholds for cyclones in use on this grid.
    pub fn cyclone_thresholds(&self) -> &TcThresholds {
        &self.cyclone
    }

    /// All thresholds in use on this grid.
    pub fn thresholds(&self) -> Thresholds {
        Thresholds {
            cyclone: self.cyclone.clone(),
            river: self.river.clone(),
            extratropical: self.extratropical.clone(),
            depression: TdThresholds {
                min_vorticity_per_s: self.weak.min_vorticity_per_s,
                pressure_rise_pa: self.weak.pressure_rise_pa,
                warm_core_fall_k: self.weak.warm_core_fall_k,
                ..self.depression.clone()
            },
            adapt_to_grid: self.is_adapted,
        }
    }

    /// An empty set of cyclone tracks with this labeller's thresholds.
    pub(crate) fn trajectories(&self) -> Trajectories {
        Trajectories::new(self.cyclone.clone(), 1)
    }

    /// The candidates of tropical cyclones at one time, from south to north: vorticity maxima with a closed low. Needs
    /// U850, V850, PSL, UBOT, VBOT, T200, T500, Z200 and Z1000.
    ///
    /// # Errors
    /// [`ClimateError::MissingField`] or [`ClimateError::Mismatch`] if the snapshot lacks a field or is on another
    /// grid.
    pub fn candidates(&self, snapshot: &Snapshot) -> Result<Vec<CycloneCandidate>> {
        check_grid(&self.grid, snapshot)?;
        Ok(CycloneFields::from_snapshot(snapshot)?.candidates(&self.cyclone))
    }

    /// The candidates of extratropical cyclones and tropical depressions at one time: closed lows. Needs the same
    /// channels as [`Labeller::candidates`].
    ///
    /// # Errors
    /// As [`Labeller::candidates`].
    pub fn lows(&self, snapshot: &Snapshot) -> Result<Lows> {
        check_grid(&self.grid, snapshot)?;
        Ok(self.lows_from(&CycloneFields::from_snapshot(snapshot)?))
    }

    /// The boxes of lows that are not part of one of the cyclones. Depressions have a box only while they are weaker
    /// than a storm.
    pub fn low_boxes(
        &self,
        lows: &[LowCandidate],
        cyclones: &[CycloneCandidate],
    ) -> Vec<TrackedBox> {
        boxes::lows(lows, cyclones, &self.extratropical, &self.depression)
    }

    /// The candidates of cyclones and of lows; both share the derived fields.
    fn candidates_and_lows(&self, snapshot: &Snapshot) -> Result<(Vec<CycloneCandidate>, Lows)> {
        check_grid(&self.grid, snapshot)?;
        let fields = CycloneFields::from_snapshot(snapshot)?;
        Ok((fields.candidates(&self.cyclone), self.lows_from(&fields)))
    }

    fn lows_from(&self, fields: &CycloneFields<'_>) -> Lows {
        let (psl, grid) = (fields.sea_level_pressure(), fields.grid());
        Lows {
            extratropical: extratropical(psl, grid, &self.extratropical, |_, centre| {
                fields.core().is_warm(&self.cyclone, centre)
            }),
            depressions: lows::depressions(fields, &self.weak, self.depression.min_wind_m_s),
        }
    }

    /// Empty sets of tracks: extratropical cyclones, tropical depressions.
    fn low_tracks(&self) -> [LowTracks; 2] {
        let (low, weak) = (&self.extratropical, &self.depression);
        [
            LowTracks::new(
                LowRules::extratropical(low, self.step_hours),
                FIRST_EXTRATROPICAL,
            ),
            LowTracks::new(
                LowRules {
                    max_range_deg: weak.max_range_deg,
                    max_gap_hours: self.gap_hours(weak.max_gap_hours),
                    min_hours: weak.min_hours,
                    min_endpoint_deg: 0.0,
                },
                FIRST_DEPRESSION,
            ),
        ]
    }

    /// The mask and the objects of one time, given its cyclones. Cyclones override rivers. Needs TMQ, U850, V850, UBOT,
    /// VBOT and PRECT; PSL, if present, provides the objects' pressure.
    ///
    /// # Errors
    /// [`ClimateError::MissingField`] or [`ClimateError::Mismatch`] if the snapshot lacks a field or is on another
    /// grid.
    pub fn masks(
        &self,
        snapshot: &Snapshot,
        cyclones: &[CycloneCandidate],
    ) -> Result<LabelledSnapshot> {
        use Variable::{Prect, Tmq, U850, Ubot, V850, Vbot};
        check_grid(&self.grid, snapshot)?;
        let grid = self.grid.as_ref();
        let [tmq, u850, v850, prect] = planes(snapshot, "the labels", [Tmq, U850, V850, Prect])?;
        let wind = planes(snapshot, "the tropical cyclone labels", [Ubot, Vbot])?;
        let mut codes = Array2::<u8>::zeros(grid.shape());
        let rivers = river_mask::rivers(tmq, grid, &self.river)?;
        for (j, i) in rivers.iter().flatten().flat_map(|run| run.indices()) {
            codes[[j, i]] = Class::AtmosphericRiver.code();
        }
        let channels = [tmq, u850, v850, prect];
        let mut storms = Vec::with_capacity(cyclones.len());
        let mut boxes = Vec::with_capacity(cyclones.len());
        for cyclone in cyclones {
            let half = cyclone_mask::box_half_deg(grid, wind, cyclone, &self.cyclone);
            // The wind of the vortex alone. Grids too coarse for it use the wind of the cyclone rule.
            let speed = if vortex_wind::resolves_strength(grid) {
                vortex_wind::vortex_wind_m_s(grid, wind, (cyclone.lat_deg, cyclone.lon_deg))
            } else {
                cyclone.max_wind_m_s
            };
            boxes.push(boxes::cyclone(cyclone, half, speed, &self.depression));
            let runs = cyclone_mask::cyclone_cells(grid, &channels, half, cyclone, &self.cyclone);
            for (j, i) in runs.iter().flat_map(|run| run.indices()) {
                codes[[j, i]] = Class::TropicalCyclone.code();
            }
            let class = Class::TropicalCyclone;
            storms.push((cyclone, Region { class, runs }));
        }
        let rivers = objects::uncovered(rivers, &codes);
        let objects = objects::describe(snapshot, &storms, &rivers);
        boxes.extend(boxes::rivers(&objects));
        let mask = ClassMask {
            time: snapshot.time,
            codes,
        };
        Ok(LabelledSnapshot {
            mask,
            objects,
            boxes,
            river_probability: None,
        })
    }
}

/// Rejects fields on another grid than the rules were made for.
pub(crate) fn check_grid(grid: &LatLonGrid, snapshot: &Snapshot) -> Result<()> {
    if std::ptr::eq(snapshot.grid.as_ref(), grid) || snapshot.grid.same_as(grid) {
        return Ok(());
    }
    Err(ClimateError::Mismatch {
        what: format!("grid of the rules and of `{}`", snapshot.source.0.display()),
        expected: grid.describe(),
        found: snapshot.grid.describe(),
    })
}

/// Whether nothing can be found in a series of these times: it is so long (`least_hours`) that only tracks are
/// accepted, but its usual step exceeds the longest step that a track bridges (`longest_hours`).
pub(crate) fn never_joined(times: &[Time], longest_hours: f64, least_hours: f64) -> bool {
    let span_hours =
        (times.first().zip(times.last())).map_or(0.0, |(first, last)| last.hours_since(*first));
    usual_step_hours(times).is_some_and(|step| step > longest_hours + 1e-9)
        && span_hours >= least_hours
}
