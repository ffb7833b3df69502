//! The rules by which events are joined to tracks, and which tracks are listed; the defaults with their reasons.

use crate::error::{ClimateError, Result};
use crate::label::{EtcThresholds, TdThresholds};
use serde::{Deserialize, Serialize};
use squall_data::Class;
use squall_data::grid::KM_PER_DEGREE;

/// Why nothing is asked of the background.
const NO_EVENTS: &str = "the background has no events";

/// How the events of one class are joined.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Linking {
    /// Fastest motion of a centre, km per day.
    pub max_speed_km_per_day: f64,
    /// Uncertainty of a centre, km: added to what the speed allows, so that short steps are not broken by the jitter of
    /// a mask's centre.
    pub centre_tolerance_km: f64,
    /// Farthest from where the motion so far would have brought the centre, km per day, once there is one: a storm that
    /// forms where another one ended is a new one. What the tolerance makes of the three centres is added
    /// ([`Self::deviation_km`]).
    pub max_deviation_km_per_day: f64,
    /// Longest time without being seen, hours, that does not end a track. One step of the data is always bridged, up
    /// to [`TrackerOptions::max_step_hours`].
    pub max_gap_hours: f64,
    /// Smallest overlap that makes a merge or a split, as a share of the smaller area.
    pub min_overlap: f64,
    /// Whether an overlap of that share joins two events though their centres are farther apart than the reach.
    pub join_by_overlap: bool,
    /// How much of the larger of two areas must be common to both where an overlap joins them, and how large the smaller
    /// one must be where centres in reach do, as a share of the larger; 0: any. Of a river that takes in another, or that
    /// falls apart, a track then goes on only with what is mostly the same river. Where it is not 0 a track ends in any
    /// event that it overlaps and does not go on with, and what overlaps the last cells of a track has split from it.
    pub min_common: f64,
    /// Fastest motion of a centre, km per day, where an overlap joins; 0: any. A centre that goes farther has not moved:
    /// the area has changed its shape.
    pub max_joined_speed_km_per_day: f64,
    /// Shortest track to be listed, hours from the first to the last point. Tracks that the ends of the data cut off
    /// are listed however short, because nobody knows how long they are.
    pub min_duration_hours: f64,
    /// Wind that a track must reach once to be listed, m/s; 0: any. Tracks that the ends of the data cut off are listed
    /// all the same.
    pub min_peak_wind_m_s: f64,
    /// Distance from its first centre that a track must come to once to be listed, km; 0: any. Tracks that the ends of
    /// the data cut off are listed all the same. `StitchNodes --min_endpoint_dist` asks it of the last centre, which is
    /// not known before a track ends.
    pub min_displacement_km: f64,
}

impl Linking {
    /// Farthest that a centre may move in some hours, km.
    pub fn reach_km(&self, hours: f64) -> f64 {
        self.max_speed_km_per_day * hours / 24.0 + self.centre_tolerance_km
    }

    /// Farthest that a centre may go in some hours where an overlap joins, km.
    pub fn joined_reach_km(&self, hours: f64) -> f64 {
        if self.max_joined_speed_km_per_day == 0.0 {
            return f64::INFINITY;
        }
        self.max_joined_speed_km_per_day * hours / 24.0 + self.centre_tolerance_km
    }

    /// Farthest from its predicted centre so many hours ahead, km, by a motion over the hours behind: the prediction is
    /// off by the tolerance of the last centre, and by that of both times `ahead / behind`; the new centre by its own.
    pub fn deviation_km(&self, ahead_hours: f64, behind_hours: f64) -> f64 {
        let centres = 2.0 + 2.0 * ahead_hours / behind_hours.max(1e-6);
        self.max_deviation_km_per_day * ahead_hours / 24.0 + self.centre_tolerance_km * centres
    }

    /// All numbers by their keys.
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
    /// For extratropical cyclones, which only boxes tell apart.
    pub extratropical_cyclone: Linking,
    /// For tropical depressions, which only boxes tell apart.
    pub tropical_depression: Linking,
    /// Longest step of the time axis, hours, across which things are followed. A longer one (and longer than
    /// `max_gap_hours`) is a hole in the data: all tracks end before it (`end_of_data`), new ones begin after it
    /// (`start_of_data`).
    pub max_step_hours: f64,
}

impl Default for TrackerOptions {
    /// Cyclones: 1,600 km/day is TECA's `max_daily_distance` (about four times the mean motion), 24 h the gap and 48 h
    /// about the duration of published tracks (TempestExtremes 54 h with gaps of 24 h, TECA 2 days without gaps). 500
    /// km/day off its course is a turn by a right angle at 4 m/s, and with the tolerance one at 10 m/s within 12 hours;
    /// without that bound and with cells that overlap every sixth cyclone of a synthetic run with many went on as one
    /// that formed near its end.
    /// Rivers: cells that overlap, as ClimateNet and StitchBlobs do, or a centroid that moves no faster than 1,600
    /// km/day. Half of the larger river must be common, since of two rivers that become one no more than one can hold
    /// more than half of it, and of two that one falls into no more than one more than half of that: with a fifth of the
    /// smaller alone tracks went on from river to river, for up to 57 days and twice around the globe in a synthetic year
    /// whose longest river lasts 6.5 days. 2,600 km/day (30 m/s) is as fast as the extratropical cyclones that draw
    /// rivers go; more than a sixth of the rivers in masks of MERRA-2 went faster on average, as their centroids jump
    /// where masks merge. One missed time of 6-hourly data is bridged; 18 h is the shortest life that Guan and Waliser (2019,
    /// doi:10.1029/2019JD031205) and ClimateNet (5 steps of 3 h) list, rounded to 6-hourly data. Extratropical cyclones
    /// and depressions: the gap, shortest life and distance by which they are labelled ([`EtcThresholds`], 18 h, 60 h,
    /// 12 degrees; [`TdThresholds`], 6 h, 24 h), and about the reach (6 and 4 degrees in 6 hours).
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
    /// The rules by which the events of a class are joined.
    ///
    /// # Panics
    /// For the background, of which there are no events.
    pub fn of(&self, class: Class) -> &Linking {
        match class {
            Class::Background => unreachable!("{NO_EVENTS}"),
            Class::AtmosphericRiver => &self.atmospheric_river,
            Class::TropicalCyclone => &self.tropical_cyclone,
            Class::ExtratropicalCyclone => &self.extratropical_cyclone,
            Class::TropicalDepression => &self.tropical_depression,
        }
    }

    fn of_mut(&mut self, class: Class) -> &mut Linking {
        match class {
            Class::Background => unreachable!("{NO_EVENTS}"),
            Class::AtmosphericRiver => &mut self.atmospheric_river,
            Class::TropicalCyclone => &mut self.tropical_cyclone,
            Class::ExtratropicalCyclone => &mut self.extratropical_cyclone,
            Class::TropicalDepression => &mut self.tropical_depression,
        }
    }

    /// The defaults for boxes: those of neighbours overlap where the storms in them do not, so that half of the smaller
    /// box must be shared for a merge or a split, and a cyclone goes on by the places of centres alone.
    pub fn for_boxes() -> Self {
        let mut options = Self::default();
        for class in Class::TRACKED {
            let linking = options.of_mut(class);
            linking.min_overlap = 0.5;
            linking.join_by_overlap = !class.is_cyclone();
        }
        options
    }

    /// All rules by their keys as `squall events --tracking` takes them, each with its value as text:
    /// `tropical_cyclone.min_duration_hours` is `48`.
    pub fn rules(&self) -> Vec<(String, String)> {
        let mut rules = vec![(
            "max_step_hours".to_string(),
            self.max_step_hours.to_string(),
        )];
        for class in Class::TRACKED {
            let linking = self.of(class);
            let numbers = linking
                .numbers()
                .map(|(key, value)| (key, value.to_string()));
            let joins = ("join_by_overlap", linking.join_by_overlap.to_string());
            let own = numbers.into_iter().chain([joins]);
            rules.extend(own.map(|(key, value)| (format!("{}.{key}", class.name()), value)));
        }
        rules
    }

    /// The same without a shortest duration, a least wind and a least distance: every track is listed.
    #[must_use]
    pub fn keep_all(mut self) -> Self {
        for class in Class::TRACKED {
            self.of_mut(class).min_duration_hours = 0.0;
            self.of_mut(class).min_peak_wind_m_s = 0.0;
            self.of_mut(class).min_displacement_km = 0.0;
        }
        self
    }

    /// Refuses numbers that mean nothing.
    ///
    /// # Errors
    /// [`ClimateError::Invalid`] naming the option.
    pub fn check(&self) -> Result<()> {
        for class in Class::TRACKED {
            self.of(class).check(class)?;
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
