//! The mean year, and its seasons.

use super::{MonthCounts, Statistics};
use crate::statistics::Basin;
use squall_data::{Class, Time};

/// The data of one calendar month, such as all Julys of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MonthOfYear {
    /// Number of whole months: those with times on 95 % of their days or more.
    pub whole: u64,
    /// Share of the days with times, in all months with any; `None` without such months.
    pub coverage: Option<f64>,
}

impl Statistics {
    /// Mean number of tracks that begin in each calendar month, January first, over whole months, with times on 95 % of
    /// their days or more; NaN without any. If there are tracks but no times, every month counts.
    pub fn seasonal_cycle(&self, class: Class, basin: Basin) -> [f64; 12] {
        let mut sums = [(0u64, 0u64); 12];
        for month in self.months() {
            if self.days_in(month).is_none_or(|days| month.covers(days)) {
                let sum = &mut sums[index_of(month)];
                let [tracks, _] = month.tracks_and_objects(class);
                sum.0 += tracks[basin as usize];
                sum.1 += 1;
            }
        }
        sums.map(|(tracks, months)| tracks as f64 / months as f64)
    }

    /// The data behind [`Self::seasonal_cycle`], January first.
    pub fn months_of_year(&self) -> [MonthOfYear; 12] {
        let mut found = [MonthOfYear::default(); 12];
        let mut sums = [(0, 0); 12];
        for month in self.months().iter().filter(|month| month.days != 0) {
            let Some(days) = self.days_in(month) else {
                continue;
            };
            let index = index_of(month);
            found[index].whole += u64::from(month.covers(days));
            sums[index].0 += month.days.count_ones();
            sums[index].1 += days;
        }
        for (month, (seen, all)) in found.iter_mut().zip(sums) {
            month.coverage = (all > 0).then(|| f64::from(seen) / all as f64);
        }
        found
    }

    /// Number of days of a month; `None` if no time was analysed, so that the calendar is unknown.
    fn days_in(&self, month: &MonthCounts) -> Option<i64> {
        let (first, _) = self.span().ends()?;
        Some(first.calendar().days_in_month(month.year, month.month))
    }
}

/// Index of the season of a time in [`crate::compare::SEASONS`]: December, January and February first.
pub(super) fn season_of(time: Time) -> usize {
    (time.month() % 12 / 3) as usize
}

/// Index of a month in its year, January first.
fn index_of(month: &MonthCounts) -> usize {
    (month.month - 1).clamp(0, 11) as usize
}
