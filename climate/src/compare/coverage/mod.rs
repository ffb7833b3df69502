//! The coverage of a run: its complete years, and the grid, calendar and rules with which it was made.

mod stored;

use super::silence::{Stretch, has_whole_year, months_of_stretch, silent_stretches};
use crate::error::{ClimateError, Result};
use crate::statistics::{Span, days_apart};
use crate::table::calendar_beside;
use crate::table::lines::Table;
use squall_data::archive::on_library_thread;
use squall_data::calendar::DAY_SECONDS;
use squall_data::{Calendar, Class, DataError, LatLonGrid, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use stored::StoredCoverage;

/// A month with less than this share of its times is incomplete.
const WHOLE_MONTH: f64 = 0.95;

/// The analysed times of a run.
#[derive(Debug, Clone)]
pub struct Coverage {
    /// The folder of the run.
    pub path: PathBuf,
    /// The calendar of the data.
    pub calendar: Calendar,
    /// The grid of the masks, if known.
    pub grid: Option<LatLonGrid>,
    /// Number of analysed times of each (year, month); number of days if only the first and last time are known.
    pub months: BTreeMap<(i64, i64), f64>,
    /// Times per complete day; 1 if days are counted.
    pub times_per_day: f64,
    /// Whether times were counted; otherwise only the first and last are known.
    pub counted: bool,
    /// Classes that were searched for; empty if not recorded.
    pub classes: Vec<Class>,
    /// Where the wind of cyclones is measured, if recorded.
    pub wind: Option<String>,
    /// The vapour transport of rivers, if recorded.
    pub transport: Option<String>,
    /// The thresholds that selected events and tracks, by name; empty in statistics of earlier versions.
    pub rules: BTreeMap<String, String>,
    /// The share of the cells of masks that were missing, 0 if not recorded.
    pub missing_share: f64,
    /// The first and last analysed time, if recorded.
    ends: Option<(Time, Time)>,
    /// Each (year, month) with a row in the tables, if the coverage is derived from tables only.
    with_rows: BTreeSet<(i64, i64)>,
}

/// The parts of years that are compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// Months, 1 to 12, ascending.
    pub months: Vec<i64>,
    /// The first month of a year.
    pub year_start: i64,
}

/// The used and unused years of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Years {
    /// Complete years, ascending.
    pub used: Vec<i64>,
    /// Unused years, with the reason.
    pub left_out: Vec<(i64, String)>,
}

impl Selection {
    /// The year to which a month belongs.
    pub fn year_of(&self, year: i64, month: i64) -> i64 {
        if month >= self.year_start {
            year
        } else {
            year - 1
        }
    }

    /// The calendar year of a month of a year: the inverse of [`Self::year_of`].
    fn calendar_year(&self, year: i64, month: i64) -> i64 {
        if month >= self.year_start {
            year
        } else {
            year + 1
        }
    }

    /// The first month of the compared season that crosses the boundary between years; `None` if there is none, or if
    /// all months are compared.
    pub(crate) fn split_season(&self) -> Option<i64> {
        let month = |back: i64| (self.year_start - back - 1).rem_euclid(12) + 1;
        let compared = |back: &i64| self.months.contains(&month(*back));
        if self.whole_year() || !compared(&0) {
            return None;
        }
        (1..12).take_while(compared).last().map(month)
    }

    /// Whether all months of the year are compared.
    pub fn whole_year(&self) -> bool {
        self.months.len() == 12
    }
}

impl Coverage {
    /// Determines when the run in a folder was analysed: from `statistics.nc`, otherwise from the first and last time
    /// of the tables. The calendar of tables is `otherwise` or, if `None`, that of other files in the folder.
    ///
    /// # Errors
    /// [`ClimateError::Data`] if a file cannot be read; [`ClimateError::Table`] if there is no table of events;
    /// [`ClimateError::Period`] if there is neither `statistics.nc` nor a row in the tables.
    pub fn read(folder: &Path, otherwise: Option<Calendar>) -> Result<Self> {
        let statistics = folder.join("statistics.nc");
        if statistics.is_file() {
            return Self::of_statistics(folder, &statistics);
        }
        let calendar = otherwise.or_else(|| calendar_beside(folder));
        Self::of_tables(folder, calendar.unwrap_or_default())
    }

    fn of_statistics(folder: &Path, path: &Path) -> Result<Self> {
        let unreadable = |reason: String| ClimateError::Data(DataError::unreadable(path, reason));
        let stored = on_library_thread(|| StoredCoverage::read(path))
            .map_err(|error| unreadable(error.to_string()))?;
        let calendar = &stored.calendar;
        let calendar = Calendar::from_cf(calendar)
            .ok_or_else(|| unreadable(format!("calendar `{calendar}` is not known")))?;
        let ends = (stored.ends).map(|end| Time::parse(&end?, calendar).ok());
        let rules = stored.rules.unwrap_or_default();
        let rules = (rules.lines().filter_map(|line| line.split_once(" = ")))
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect();
        let names = stored.classes;
        let named = |class: &Class| names.split(' ').any(|name| name == class.name());
        // Boxes may have classes that masks do not have.
        let classes = Class::TRACKED.into_iter().filter(named).collect();
        let grid = LatLonGrid::from_axes(stored.lat_deg, stored.lon_deg)?.0;
        let months = stored.years.iter().zip(&stored.months);
        let seen: Vec<((i64, i64), f64)> = (months.zip(&stored.times))
            .map(|((year, month), times)| ((*year as i64, *month as i64), *times))
            .collect();
        let days = (seen.iter().zip(&stored.days))
            .filter(|((_, times), days)| *times > 0.0 && **days > 0.0)
            .map(|((_, times), days)| (*times, *days as u32));
        let by_days = times_per_day_of_days(&days.collect::<Vec<_>>());
        let hours = stored.step_hours.filter(|hours| *hours > 0.0);
        let by_step = hours.map(|hours| 24.0 / hours);
        let months: BTreeMap<_, _> = seen.into_iter().filter(|(_, times)| *times > 0.0).collect();
        let times_per_day = match (by_step, by_days) {
            // Even the fullest month may miss times; conversely it has more times per day if the time step became
            // shorter.
            (Some(step), Some(days)) => step.max(days),
            (Some(rate), None) | (None, Some(rate)) => rate,
            (None, None) => times_per_day(&months, calendar),
        };
        Ok(Self {
            path: folder.into(),
            calendar,
            grid: Some(grid),
            times_per_day,
            months,
            counted: true,
            classes,
            wind: stored.wind,
            transport: stored.transport,
            rules,
            missing_share: stored.missing_share.unwrap_or(0.0),
            ends: ends[0].zip(ends[1]),
            with_rows: BTreeSet::new(),
        })
    }

    fn of_tables(folder: &Path, calendar: Calendar) -> Result<Self> {
        let path = events_table(folder)?;
        let mut table = Table::open(&path, &["time"])?;
        let (mut span, mut with_rows) = (Span::default(), BTreeSet::new());
        while let Some(line) = table.next()? {
            let time = line.time("time", calendar)?;
            let (year, month, _) = time.date();
            with_rows.insert((year, month));
            span.add(time);
        }
        let Some((first, last)) = span.ends() else {
            return Err(ClimateError::Period {
                path: folder.into(),
                reason: "there are no events, and without statistics.nc it is unknown which times were analysed".into(),
            });
        };
        let mut months = BTreeMap::new();
        let (mut year, mut month, _) = first.date();
        while (year, month) <= (last.date().0, last.date().1) {
            let mut days = calendar.days_in_month(year, month) as f64;
            if (year, month) == (first.date().0, first.date().1) {
                days -= first.date().2 as f64 - 1.0;
            }
            if (year, month) == (last.date().0, last.date().1) {
                days -= (calendar.days_in_month(year, month) - last.date().2) as f64;
            }
            months.insert((year, month), days);
            (year, month) = if month == 12 {
                (year + 1, 1)
            } else {
                (year, month + 1)
            };
        }
        Ok(Self {
            path: folder.into(),
            calendar,
            grid: None,
            months,
            times_per_day: 1.0,
            counted: false,
            classes: Vec::new(),
            wind: None,
            transport: None,
            rules: BTreeMap::new(),
            missing_share: 0.0,
            ends: None,
            with_rows,
        })
    }

    /// The given years without any row, if the coverage is derived from tables only. In such years there were
    /// either no events or no analysis.
    pub(crate) fn years_without_rows(&self, selection: &Selection, years: &[i64]) -> Vec<i64> {
        let has_rows = |year: i64| {
            (1..=12).any(|month| {
                let of_year = selection.calendar_year(year, month);
                self.with_rows.contains(&(of_year, month))
            })
        };
        let years = years.iter().copied();
        years
            .filter(|year| !self.counted && !has_rows(*year))
            .collect()
    }

    /// The stretches of months without any row that are unusually long for these tables and cut into the given years, if
    /// the coverage is derived from tables only. Those of a whole year are left to [`Self::years_without_rows`].
    pub(crate) fn silent_stretches(&self, selection: &Selection, years: &[i64]) -> Vec<Stretch> {
        let is_used = |(year, month): (i64, i64)| {
            selection.months.contains(&month) && years.contains(&selection.year_of(year, month))
        };
        // With statistics there are no months with rows, and no stretch between them.
        let mut stretches = silent_stretches(&self.with_rows);
        stretches.retain(|stretch| {
            !has_whole_year(*stretch, selection.year_start)
                && months_of_stretch(*stretch).any(is_used)
        });
        stretches
    }

    /// The first and last analysed time.
    ///
    /// If not recorded (statistics of earlier versions), an estimate: the first month is assumed to be analysed up to
    /// its end, the last from its beginning. `None` if all times are in a part of one month, or if the number of times
    /// per day is unknown.
    pub fn span(&self) -> Option<(Time, Time)> {
        if self.ends.is_some() {
            return self.ends;
        }
        let (&(year, month), _) = self.months.first_key_value()?;
        let (&(last_year, last_month), _) = self.months.last_key_value()?;
        let seconds = |year, month| {
            let days = self.calendar.days_in_month(year, month) as f64;
            (DAY_SECONDS as f64 * days * self.share(year, month).min(1.0)) as i64
        };
        let midnight = |year, month| Time::new(self.calendar, year, month, 1, 0, 0, 0).ok();
        let (after, next_year) = match month {
            12 => (1, year + 1),
            month => (month + 1, year),
        };
        let first = midnight(next_year, after)?.add_seconds(-seconds(year, month));
        let last = midnight(last_year, last_month)?.add_seconds(seconds(last_year, last_month));
        (self.times_per_day.is_finite() && first < last).then_some((first, last))
    }

    /// Whether the data begin at a time; if the first time is not recorded, whether they begin in its month.
    pub fn begins_at(&self, time: Time) -> bool {
        let (year, month, _) = time.date();
        match self.ends {
            Some((first, _)) => time == first,
            None => self.months.keys().next() == Some(&(year, month)),
        }
    }

    /// Whether a month has nearly all of its times. Five-daily data have five or six times in a February, 5.6 on
    /// average: with five none is missing.
    fn is_whole(&self, year: i64, month: i64) -> bool {
        let (times, all) = (self.times_of(year, month), self.all_times(year, month));
        times >= WHOLE_MONTH * all || times > 0.0 && times + 1.0 > all
    }

    /// The (year, month) with the highest share of its times, and that share; `None` if no share is known.
    pub(crate) fn fullest_month(&self) -> Option<((i64, i64), f64)> {
        let shares = self.months.keys().map(|&at| (at, self.share(at.0, at.1)));
        let known = shares.filter(|(_, share)| *share > 0.0);
        known.max_by(|(_, a), (_, b)| a.total_cmp(b))
    }

    fn share(&self, year: i64, month: i64) -> f64 {
        self.times_of(year, month) / self.all_times(year, month)
    }

    fn times_of(&self, year: i64, month: i64) -> f64 {
        self.months.get(&(year, month)).copied().unwrap_or(0.0)
    }

    /// The mean number of times of such a month if complete.
    fn all_times(&self, year: i64, month: i64) -> f64 {
        let days = self.calendar.days_in_month(year, month).max(1) as f64;
        days * self.times_per_day
    }

    /// The months of the year that the run covers: those that are complete in at least half of its years.
    pub fn seasons(&self) -> Vec<i64> {
        let whole: BTreeSet<(i64, i64)> = (self.months.keys().copied())
            .filter(|&(year, month)| self.is_whole(year, month))
            .collect();
        let years: BTreeSet<i64> = whole.iter().map(|(year, _)| *year).collect();
        let count = |month: i64| whole.iter().filter(|(_, m)| *m == month).count();
        (1..=12)
            .filter(|&month| count(month) > 0 && 2 * count(month) >= years.len())
            .collect()
    }

    /// The years in which all selected months are complete, optionally within a range.
    pub fn years(&self, selection: &Selection, range: Option<(i64, i64)>) -> Years {
        let inside = |year: &i64| range.is_none_or(|(from, to)| (from..=to).contains(year));
        let all: BTreeSet<i64> = (self.months.keys())
            .filter(|(_, month)| selection.months.contains(month))
            .map(|&(year, month)| selection.year_of(year, month))
            .filter(inside)
            .collect();
        let (Some(&first), Some(&last)) = (all.first(), all.last()) else {
            return Years::default();
        };
        let mut years = Years::default();
        for year in first..=last {
            let lacking = (selection.months.iter())
                .map(|&month| (selection.calendar_year(year, month), month))
                .find(|&(calendar_year, month)| !self.is_whole(calendar_year, month));
            match lacking {
                None => years.used.push(year),
                Some((calendar_year, month)) => {
                    let share = 100.0 * self.share(calendar_year, month);
                    // With years starting in July, for example, January is in the next calendar year.
                    let of = if calendar_year == year {
                        String::new()
                    } else {
                        format!(" of {calendar_year}")
                    };
                    let reason = format!("month {month}{of} has {share:.0} % of its times");
                    years.left_out.push((year, reason));
                }
            }
        }
        years
    }

    /// Number of analysed times of a year, in the selected months that are `wanted`.
    pub fn times(&self, selection: &Selection, year: i64, wanted: impl Fn(i64) -> bool) -> f64 {
        let of_month = |&month: &i64| {
            let found = self
                .months
                .get(&(selection.calendar_year(year, month), month));
            found.copied().unwrap_or(0.0)
        };
        (selection.months.iter())
            .filter(|m| wanted(**m))
            .map(of_month)
            .sum()
    }
}

/// The path of `events.csv` or `objects.csv` in a folder.
pub(crate) fn events_table(folder: &Path) -> Result<PathBuf> {
    ["events.csv", "objects.csv"]
        .map(|name| folder.join(name))
        .into_iter()
        .find(|path| path.is_file())
        .ok_or_else(|| ClimateError::Table {
            path: folder.join("events.csv"),
            reason: "there is no such file; `squall events` writes it".into(),
        })
}

/// Times per day of data with a constant time step, from pairs of a month's number of times and a bit for each of its
/// days with times. Incomplete months do not bias the result. `None` if no month has two days with times.
fn times_per_day_of_days(months: &[(f64, u32)]) -> Option<f64> {
    // In daily or finer data each day has times, in coarser data one day in `apart`.
    let apart = months.iter().filter_map(|(_, days)| days_apart(*days));
    let apart = f64::from(apart.min()?);
    let of_a_day = |(times, days): &(f64, u32)| times / f64::from(days.count_ones());
    // The first and the last day may be incomplete.
    let most = months.iter().map(of_a_day).fold(0.0, f64::max);
    Some(most / apart)
}

/// Times per day of the fullest months, if at least two agree; otherwise infinite, because then no month is known to be
/// complete.
fn times_per_day(months: &BTreeMap<(i64, i64), f64>, calendar: Calendar) -> f64 {
    let rates: Vec<f64> = (months.iter())
        .map(|(&(year, month), times)| times / calendar.days_in_month(year, month).max(1) as f64)
        .collect();
    let most = rates.iter().copied().fold(0.0, f64::max);
    let agreeing = rates.iter().filter(|rate| **rate > 0.98 * most).count();
    if agreeing > 1 { most } else { f64::INFINITY }
}

#[cfg(test)]
mod tests;
