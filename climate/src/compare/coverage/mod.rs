//! Which years of a run are whole, and on which grid, in which calendar and by which rules it was made.

mod stored;

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

/// A month with less than this share of its times is not whole.
const WHOLE_MONTH: f64 = 0.95;

/// When a run was analysed.
#[derive(Debug, Clone)]
pub struct Coverage {
    /// The folder of the run.
    pub path: PathBuf,
    /// The calendar of the data.
    pub calendar: Calendar,
    /// The grid of the masks, if it is known.
    pub grid: Option<LatLonGrid>,
    /// Analysed times of each (year, month); days, if only the first and last time are known.
    pub months: BTreeMap<(i64, i64), f64>,
    /// Times (or days) that a whole day has.
    pub times_per_day: f64,
    /// Whether times were counted, or only the first and last are known.
    pub counted: bool,
    /// Classes that were looked for at these times; none where nothing says so.
    pub classes: Vec<Class>,
    /// Where the wind of cyclones is measured, where statistics say it.
    pub wind: Option<String>,
    /// What the transport of rivers is, where statistics say it.
    pub transport: Option<String>,
    /// The numbers by which events and tracks were chosen, by name; none in statistics of earlier versions.
    pub rules: BTreeMap<String, String>,
    /// The first and the last analysed time, where statistics say them.
    ends: Option<(Time, Time)>,
    /// Each (year, month) that a row of the tables is of, where the tables alone say when the run was analysed.
    with_rows: BTreeSet<(i64, i64)>,
}

/// Which parts of the years are compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// Months, 1 to 12, ascending.
    pub months: Vec<i64>,
    /// The month that years begin with.
    pub year_start: i64,
}

/// The years that are compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Years {
    /// Whole years, ascending.
    pub used: Vec<i64>,
    /// Others, with the reason.
    pub left_out: Vec<(i64, String)>,
}

impl Selection {
    /// The year that a month counts for.
    pub fn year_of(&self, year: i64, month: i64) -> i64 {
        if month >= self.year_start {
            year
        } else {
            year - 1
        }
    }

    /// The calendar year in which a month of a year lies: the other way round than [`Self::year_of`].
    fn calendar_year(&self, year: i64, month: i64) -> i64 {
        if month >= self.year_start {
            year
        } else {
            year + 1
        }
    }

    /// The month with which the compared months begin that go on from the end of one year into the next; nothing if none
    /// do, or if all months are compared.
    pub(crate) fn parted_season(&self) -> Option<i64> {
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
    /// When the run of a folder was analysed: from `statistics.nc`; without it, from the first to the last time of the
    /// tables, in the calendar `otherwise` or, if none is given, in that of what lies beside them.
    ///
    /// # Errors
    /// [`ClimateError::Data`] if a file cannot be read, [`ClimateError::Table`] if there is no table of events,
    /// [`ClimateError::Period`] if the tables are empty and nothing says which times were analysed.
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
        // Boxes may be of others than masks have.
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
            // The fullest month may lack some, too; it has more where the step became shorter.
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
                reason: "there are no events, and without statistics.nc nobody knows which times were analysed".into(),
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
            ends: None,
            with_rows,
        })
    }

    /// Those of some years that no row of the tables is of, where these alone say when the run was analysed: nobody
    /// knows whether there was nothing, or nobody looked.
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

    /// The first and the last analysed time.
    ///
    /// Where statistics do not say them (those of earlier versions) about when they are: of the first month its end is
    /// taken to be analysed, of the last its beginning. Nothing if all are in a part of one month, or if nothing says how
    /// many times a day has.
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

    /// Whether the data begin at a time; in its month, where statistics do not say their first time.
    pub fn begins_at(&self, time: Time) -> bool {
        let (year, month, _) = time.date();
        match self.ends {
            Some((first, _)) => time == first,
            None => self.months.keys().next() == Some(&(year, month)),
        }
    }

    /// Whether a month has nearly all of its times. Of data every five days a February has five or six, and 5.6 in the
    /// mean: with five it lacks none.
    fn is_whole(&self, year: i64, month: i64) -> bool {
        let (times, all) = (self.times_of(year, month), self.all_times(year, month));
        times >= WHOLE_MONTH * all || times > 0.0 && times + 1.0 > all
    }

    fn share(&self, year: i64, month: i64) -> f64 {
        self.times_of(year, month) / self.all_times(year, month)
    }

    fn times_of(&self, year: i64, month: i64) -> f64 {
        self.months.get(&(year, month)).copied().unwrap_or(0.0)
    }

    /// The times of a whole month, in the mean over such months.
    fn all_times(&self, year: i64, month: i64) -> f64 {
        let days = self.calendar.days_in_month(year, month).max(1) as f64;
        days * self.times_per_day
    }

    /// The months of the year that the run has: those that are whole in at least half of its years.
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

    /// The years of which all selected months are whole, within a range if one is given.
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
                    // Of a year from July on January is in the next calendar year.
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

    /// Analysed times of the selected months of a year, for all of them or one season.
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

/// `events.csv` or `objects.csv` of a folder.
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

/// Times of a whole day of data with a constant step, from the times of each month and a bit for each of its days that
/// has some: half months are half, however many there are of them. `None` where no month has two such days.
fn times_per_day_of_days(months: &[(f64, u32)]) -> Option<f64> {
    // Of daily data and finer each day has times; of coarser data one in so many.
    let apart = months.iter().filter_map(|(_, days)| days_apart(*days));
    let apart = f64::from(apart.min()?);
    let of_a_day = |(times, days): &(f64, u32)| times / f64::from(days.count_ones());
    // The first and the last day may be cut.
    let most = months.iter().map(of_a_day).fold(0.0, f64::max);
    Some(most / apart)
}

/// Times of a whole day: what the fullest months have, if two agree; else nothing says that a month is whole.
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
