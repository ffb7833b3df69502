//! The rules for joining events to tracks and for listing tracks; the defaults and their justification.

use crate::error::{ClimateError, Result};
use crate::label::{EtcThresholds, TdThresholds};
use serde::{Deserialize, Serialize};
use squall_data::Class;
use squall_data::grid::KM_PER_DEGREE;

/// The name of the rule that rivers that split over land keep the landfall of their parent, which cannot be chosen.
/// Statistics of earlier versions lack it.
pub(crate) const LANDFALLS_OF_PIECES: &str = "atmospheric_river.landfalls_of_pieces";

/// The rule by which landfalls of pieces of rivers are counted, to be recorded beside [`TrackerOptions::rules`].
pub fn rule_of_landfalls() -> (String, String) {
    (LANDFALLS_OF_PIECES.into(), true.to_string())
}

/// How the events of one class are joined to tracks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Linking {
    /// Maximum speed of a centre, km per day.
    pub max_speed_km_per_day: f64,
    /// Uncertainty of a centre, km. It is added to the distance that the speed allows, so that the jitter of a mask's
    /// centre does not break tracks at short time steps.
    pub centre_tolerance_km: f64,
    /// Maximum distance from the position extrapolated from the track's motion, km per day, if there is a motion. It
    /// distinguishes a continuing storm from one that forms where another ended. The tolerance of the centres involved
    /// is added ([`Self::deviation_km`]).
    pub max_deviation_km_per_day: f64,
    /// Maximum time without detection before a track ends, hours. A single time step of the data is always bridged, up
    /// to [`TrackerOptions::max_step_hours`].
    pub max_gap_hours: f64,
    /// Minimum overlap for a merge or a split, as a share of the smaller area.
    pub min_overlap: f64,
    /// Whether an overlap of at least that share joins two events whose centres are farther apart than the reach.
    pub join_by_overlap: bool,
    /// Minimum common area as a share of the larger of two areas, for joining by overlap. For joining by centres within
    /// reach, the minimum size of the smaller area as a share of the larger. 0 disables both. With a positive value a
    /// track continues only in what is mostly the same river when rivers merge or fall apart. A track then ends in any
    /// event that it overlaps without continuing in it, and a new track splits from any track whose last cells it
    /// overlaps.
    pub min_common: f64,
    /// Maximum speed of a centre when joined by overlap, km per day; 0: no limit. A faster centre did not move; the
    /// area changed its shape.
    pub max_joined_speed_km_per_day: f64,
    /// Minimum duration of a listed track, hours from the first to the last point. Tracks cut off by the start or end
    /// of the data are always listed, because their true duration is unknown.
    pub min_duration_hours: f64,
    /// Wind that a listed track must reach at some time, m/s; 0: any. Tracks cut off by the start or end of the data
    /// are always listed.
    pub min_peak_wind_m_s: f64,
    /// Distance from its first centre that a listed track must reach at some time, km; 0: any. Tracks cut off by the
    /// start or end of the data are always listed. `StitchNodes --min_endpoint_dist` tests the last centre instead,
    /// which is unknown until a track ends.
    pub min_displacement_km: f64,
}

impl Linking {
    /// Maximum distance that a centre may move in some hours, km.
    pub fn reach_km(&self, hours: f64) -> f64 {
        self.max_speed_km_per_day * hours / 24.0 + self.centre_tolerance_km
    }

    /// Maximum distance that a centre may move in some hours when joined by overlap, km.
    pub fn joined_reach_km(&self, hours: f64) -> f64 {
        if self.max_joined_speed_km_per_day == 0.0 {
            return f64::INFINITY;
        }
        self.max_joined_speed_km_per_day * hours / 24.0 + self.centre_tolerance_km
    }

    /// Maximum distance from the predicted centre, km, for a prediction `ahead_hours` from a motion over
    /// `behind_hours`. The prediction contains the tolerance of the last centre once, and that of both ends of the
    /// motion times `ahead / behind`. The new centre contributes its own tolerance.
    pub fn deviation_km(&self, ahead_hours: f64, behind_hours: f64) -> f64 {
        let centres = 2.0 + 2.0 * ahead_hours / behind_hours.max(1e-6);
        self.max_deviation_km_per_day * ahead_hours / 24.0 + self.centre_tolerance_km * centres
    }

    /// All numbers with their keys.
    fn numbers(&self) -> [(&'static str, f64); 10] {
        [
            ("max_speed_km_per_day", self.max_speed_km_per_day),
            ("centre_tolerance_km", self.centre_tolerance_km),
            ("max_deviation_km_per_day", self.max_deviation_km_per_day),
            ("max_gap_hours", self.max_gap_hours),
            ("min_overlap", self.min_overlap),
            ("min_common", self.min_common),
            (
                "max_joined_speed_km_per_day",
                self.max_joined_speed_km_per_day,
            ),
            ("min_duration_hours", self.min_duration_hours),
            ("min_peak_wind_m_s", self.min_peak_wind_m_s),
            ("min_displacement_km", self.min_displacement_km),
        ]
    }

    fn check(&self, class: Class) -> Result<()> {
        for (name, share) in [
            ("min_overlap", self.min_overlap),
            ("min_common", self.min_common),
        ] {
            if share > 1.0 {
                return Err(ClimateError::Invalid(format!(
                    "tracking of {}: {name} = {share}, expected a share of 0 to 1",
                    class.name()
                )));
            }
        }
        for (name, value) in self.numbers() {
            if !(value >= 0.0 && value.is_finite()) {
                return Err(ClimateError::Invalid(format!(
                    "tracking of {}: {name} = {value}, expected a finite number that is not negative",
                    class.name()
                )));
            }
        }
        Ok(())
    }
}

/// How events are joined to tracks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrackerOptions {
    /// For tropical cyclones.
    pub tropical_cyclone: Linking,
    /// For atmospheric rivers.
    pub atmospheric_river: Linking,
    /// For extratropical cyclones, a class of boxes only.
    pub extratropical_cyclone: Linking,
    /// For tropical depressions, a class of boxes only.
    pub tropical_depression: Linking,
    /// Maximum time step across which events are tracked, hours. A longer step (also longer than `max_gap_hours`) is a
    /// gap in the data: all tracks end before it (`end_of_data`), and new ones start after it (`start_of_data`).
    pub max_step_hours: f64,
}

impl Default for TrackerOptions {
    /// - *Tropical cyclones*: 1,600 km/day is TECA's `max_daily_distance` (about four times the mean motion). The gap
    ///   of 24 h and the duration of 48 h are close to published trackers (TempestExtremes 54 h with gaps of 24 h, TECA
    ///   2 days without gaps). A deviation of 500 km/day is a right-angle turn at 4 m/s; with the tolerance, a
    ///   right-angle turn at 10 m/s within 12 hours. Without this limit, and with joining by overlap, every sixth
    ///   cyclone of a crowded synthetic run continued as another one that formed near its end.
    /// - *Atmospheric rivers*: joined by overlap, as in ClimateNet and StitchBlobs, or by a centroid that moves no
    ///   faster than 1,600 km/day. Half of the larger river must be common: when two rivers merge, at most one of them
    ///   covers more than half of the result, and when a river falls apart, at most one part covers more than half of
    ///   it. With a fifth of the smaller area alone, tracks passed from river to river for up to 57 days and twice
    ///   around the globe, in a synthetic year whose longest river lasts 6.5 days. 2,600 km/day (30 m/s) is the speed
    ///   of the extratropical cyclones that rivers follow. More than a sixth of the rivers in masks of MERRA-2 exceeded
    ///   it on average, because their centroids jump where masks merge. The gap bridges one missing time of 6-hourly
    ///   data. 18 h is the minimum duration of Guan and Waliser (2019, doi:10.1029/2019JD031205) and ClimateNet (5
    ///   steps of 3 h), rounded to 6-hourly data.
    /// - *Extratropical cyclones and depressions*: gap, duration and displacement of their label rules
    ///   ([`EtcThresholds`], 18 h, 60 h, 12 degrees; [`TdThresholds`], 6 h, 24 h), and approximately their reach (6 and
    ///   4 degrees in 6 hours).
    fn default() -> Self {
        let (extratropical, depression) = (EtcThresholds::default(), TdThresholds::default());
        Self {
            tropical_cyclone: Linking {
                max_speed_km_per_day: 1600.0,
                centre_tolerance_km: 100.0,
                max_deviation_km_per_day: 500.0,
                max_gap_hours: 24.0,
                min_overlap: 0.2,
                join_by_overlap: false,
                min_common: 0.0,
                max_joined_speed_km_per_day: 0.0,
                min_duration_hours: 48.0,
                min_peak_wind_m_s: 0.0,
                min_displacement_km: 0.0,
            },
            atmospheric_river: Linking {
                max_speed_km_per_day: 1600.0,
                centre_tolerance_km: 200.0,
                max_deviation_km_per_day: 3200.0,
                max_gap_hours: 12.0,
                min_overlap: 0.2,
                join_by_overlap: true,
                min_common: 0.5,
                max_joined_speed_km_per_day: 2600.0,
                min_duration_hours: 18.0,
                min_peak_wind_m_s: 0.0,
                min_displacement_km: 0.0,
            },
            extratropical_cyclone: Linking {
                max_speed_km_per_day: 2600.0,
                centre_tolerance_km: 100.0,
                max_deviation_km_per_day: 5200.0,
                max_gap_hours: extratropical.max_gap_hours,
                min_overlap: 0.2,
                join_by_overlap: true,
                min_common: 0.0,
                max_joined_speed_km_per_day: 0.0,
                min_duration_hours: extratropical.min_hours,
                min_peak_wind_m_s: 0.0,
                min_displacement_km: extratropical.min_endpoint_deg * KM_PER_DEGREE,
            },
            tropical_depression: Linking {
                max_speed_km_per_day: 1600.0,
                centre_tolerance_km: 100.0,
                max_deviation_km_per_day: 3200.0,
                max_gap_hours: depression.max_gap_hours,
                min_overlap: 0.2,
                join_by_overlap: true,
                min_common: 0.0,
                max_joined_speed_km_per_day: 0.0,
                min_duration_hours: depression.min_hours,
                min_peak_wind_m_s: 0.0,
                min_displacement_km: 0.0,
            },
            max_step_hours: 24.0,
        }
    }
}

impl TrackerOptions {
    /// The rules for joining the events of a class; those of depressions for the background, which has no events and is
    /// refused by [`super::Tracker::push`].
    pub fn linking(&self, class: Class) -> &Linking {
        match class {
            Class::AtmosphericRiver => &self.atmospheric_river,
            Class::TropicalCyclone => &self.tropical_cyclone,
            Class::ExtratropicalCyclone => &self.extratropical_cyclone,
            Class::Background | Class::TropicalDepression => &self.tropical_depression,
        }
    }

    fn linking_mut(&mut self, class: Class) -> &mut Linking {
        match class {
            Class::AtmosphericRiver => &mut self.atmospheric_river,
            Class::TropicalCyclone => &mut self.tropical_cyclone,
            Class::ExtratropicalCyclone => &mut self.extratropical_cyclone,
            Class::Background | Class::TropicalDepression => &mut self.tropical_depression,
        }
    }

    /// The defaults for boxes. Boxes of neighbouring storms overlap even if the storms do not, so merges and splits
    /// need half of the smaller box in common, and cyclones are joined by their centres only.
    pub fn for_boxes() -> Self {
        let mut options = Self::default();
        for class in Class::TRACKED {
            let linking = options.linking_mut(class);
            linking.min_overlap = 0.5;
            linking.join_by_overlap = !class.is_cyclone();
        }
        options
    }

    /// All rules with their keys, as `squall events --tracking` accepts them, and their values as text, such as
    /// `tropical_cyclone.min_duration_hours` and `48`.
    pub fn rules(&self) -> Vec<(String, String)> {
        let mut rules = vec![(
            "max_step_hours".to_string(),
            self.max_step_hours.to_string(),
        )];
        for class in Class::TRACKED {
            let linking = self.linking(class);
            let numbers = linking
                .numbers()
                .map(|(key, value)| (key, value.to_string()));
            let joins = ("join_by_overlap", linking.join_by_overlap.to_string());
            let own = numbers.into_iter().chain([joins]);
            rules.extend(own.map(|(key, value)| (format!("{}.{key}", class.name()), value)));
        }
        rules
    }

    /// Returns the options without minimum duration, wind and displacement: every track is listed.
    #[must_use]
    pub fn keep_all(mut self) -> Self {
        for class in Class::TRACKED {
            self.linking_mut(class).min_duration_hours = 0.0;
            self.linking_mut(class).min_peak_wind_m_s = 0.0;
            self.linking_mut(class).min_displacement_km = 0.0;
        }
        self
    }

    /// Rejects invalid numbers.
    ///
    /// # Errors
    /// [`ClimateError::Invalid`] naming the option.
    pub fn check(&self) -> Result<()> {
        for class in Class::TRACKED {
            self.linking(class).check(class)?;
        }
        if self.max_step_hours.is_nan() || self.max_step_hours < 0.0 {
            return Err(ClimateError::Invalid(format!(
                "tracking: max_step_hours = {}, expected a number that is not negative",
                self.max_step_hours
            )));
        }
        Ok(())
    }
}
