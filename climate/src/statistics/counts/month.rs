//! Counts of one month.

use crate::statistics::Basin;
use serde::{Deserialize, Serialize};
use squall_data::Class;

/// A month with times on less than this share of its days is incomplete.
const WHOLE_MONTH: f64 = 0.95;
/// Number of basins.
pub(super) const BASINS: usize = Basin::ALL.len();
/// The classes that only boxes distinguish, with counts of their own.
pub(in crate::statistics) const BOXED: [Class; 2] =
    [Class::ExtratropicalCyclone, Class::TropicalDepression];

/// Counts of one month; arrays are by class (order of [`Class::EVENTS`]; those of boxes have names of their own) and
/// basin (order of [`Basin::ALL`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MonthCounts {
    /// Year of the data's calendar.
    pub year: i64,
    /// Month, 1 to 12; 0 for the sums of a year.
    pub month: i64,
    /// Number of analysed times.
    pub times: u64,
    /// The days of the month with analysed times as bits; the first day is the lowest bit. 0 for sums of months.
    #[serde(default)]
    pub days: u32,
    /// Tracks that began in this month and basin. A track cut by a gap in the data counts again where it continues.
    pub tracks: [[u64; BASINS]; 2],
    /// Objects: one per event and time.
    pub objects: [[u64; BASINS]; 2],
    /// Accumulated cyclone energy, 10⁴ kt², of objects with known wind.
    pub ace: [f64; BASINS],
    /// Cyclone objects with known wind.
    #[serde(default)]
    pub winds: [u64; BASINS],
    /// Tracks with their first landfall in this month and basin, if land is known.
    #[serde(default)]
    pub landfalls: [[u64; BASINS]; 2],
    /// Liquid water that fell inside events, km³, if precipitation is known.
    #[serde(default)]
    pub precipitation_km3: [[f64; BASINS]; 2],
    /// All liquid water that fell on the grid, km³.
    #[serde(default)]
    pub all_precipitation_km3: f64,
    /// Tracks of extratropical cyclones and tropical depressions that began in this month and basin.
    #[serde(default)]
    pub boxed_tracks: [[u64; BASINS]; 2],
    /// Objects of extratropical cyclones and tropical depressions.
    #[serde(default)]
    pub boxed_objects: [[u64; BASINS]; 2],
}

impl MonthCounts {
    pub(super) fn new(year: i64, month: i64) -> Self {
        Self {
            year,
            month,
            times: 0,
            days: 0,
            tracks: Default::default(),
            objects: Default::default(),
            ace: [0.0; BASINS],
            winds: [0; BASINS],
            landfalls: Default::default(),
            precipitation_km3: Default::default(),
            all_precipitation_km3: 0.0,
            boxed_tracks: Default::default(),
            boxed_objects: Default::default(),
        }
    }

    /// Whether nearly all of the month's days have times. With a time step of several days: whether at most one of the
    /// possible days is missing, because the first day may be any.
    pub(super) fn covers(&self, all_days: i64) -> bool {
        let Some(apart) = days_apart(self.days) else {
            return false;
        };
        let (seen, apart) = (f64::from(self.days.count_ones()), f64::from(apart));
        let all = all_days as f64;
        seen * apart >= WHOLE_MONTH * all || (apart > 1.0 && (seen + 1.0) * apart > all)
    }

    pub(super) fn add(&mut self, more: &Self) {
        self.times += more.times;
        if self.month == more.month {
            self.days |= more.days;
        }
        self.all_precipitation_km3 += more.all_precipitation_km3;
        for basin in 0..BASINS {
            for class in 0..2 {
                self.tracks[class][basin] += more.tracks[class][basin];
                self.objects[class][basin] += more.objects[class][basin];
                self.landfalls[class][basin] += more.landfalls[class][basin];
                self.precipitation_km3[class][basin] += more.precipitation_km3[class][basin];
                self.boxed_tracks[class][basin] += more.boxed_tracks[class][basin];
                self.boxed_objects[class][basin] += more.boxed_objects[class][basin];
            }
            self.ace[basin] += more.ace[basin];
            self.winds[basin] += more.winds[basin];
        }
    }

    /// The tracks and objects of a class in each basin; none of the background.
    pub(in crate::statistics) fn tracks_and_objects(&self, class: Class) -> [[u64; BASINS]; 2] {
        let of_mask = class_index(class).map(|c| [self.tracks[c], self.objects[c]]);
        let of_boxes = || boxed_index(class).map(|c| [self.boxed_tracks[c], self.boxed_objects[c]]);
        of_mask.or_else(of_boxes).unwrap_or_default()
    }

    /// The cyclone energy of each basin; `None` if there are cyclones but no known wind.
    pub(in crate::statistics) fn known_energy(&self) -> [Option<f64>; BASINS] {
        let cyclones = class_index(Class::TropicalCyclone).map(|class| self.objects[class]);
        let cyclones = cyclones.unwrap_or_default();
        std::array::from_fn(|basin| {
            let known = cyclones[basin] == 0 || self.winds[basin] > 0;
            known.then_some(self.ace[basin])
        })
    }
}

/// The smallest distance between two days with a bit: 1 for daily or finer data.
pub(crate) fn days_apart(days: u32) -> Option<u32> {
    (1..32).find(|&shift| days & (days >> shift) != 0)
}

/// Index of a class in [`BOXED`].
pub(super) fn boxed_index(class: Class) -> Option<usize> {
    BOXED.iter().position(|&c| c == class)
}

/// Index of a class in [`Class::EVENTS`].
pub(super) fn class_index(class: Class) -> Option<usize> {
    Class::EVENTS.iter().position(|&c| c == class)
}
