//! What a score is worth: the same score of predictions that were moved in time, and so know nothing of the truth.
//!
//! What moves keeps its place, its time of day and whatever lies beside it, and goes around the end of the record. In a
//! record of three years or more it moves by whole years, so that it stays in its season.

use crate::confusion::ratio;
use serde::{Deserialize, Serialize};
use squall_data::Time;
use squall_data::calendar::DAY_SECONDS;
use std::collections::{BTreeMap, BTreeSet};

/// Predictions are moved so often, where the record allows.
const MOST_SHIFTS: usize = 10;
/// A record of fewer days tells no chance level.
const LEAST_DAYS: usize = 30;
/// So long after itself hardly any weather is still there.
const LEAST_SHIFT_DAYS: usize = 10;
/// From so many years on predictions are moved by whole years: fewer would leave one shift.
const LEAST_YEARS: usize = 3;
/// Part of a year that whole years may lack: those of a record may have fewer leap days than its mean year.
const ROUNDING: f64 = 0.01;

/// How chance levels were found, or why there are none; the default where nobody asked for them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chance {
    /// How often the predictions were moved.
    pub shifts: u64,
    /// Whether by whole years, so that they stayed in their season.
    pub whole_years: bool,
    /// Why there are no chance levels.
    pub missing: Option<String>,
}

impl Chance {
    /// A sentence for people; `None` where nobody asked.
    pub fn describe(&self) -> Option<String> {
        let by = if self.whole_years {
            "whole years"
        } else {
            "days, through all seasons of the record"
        };
        match &self.missing {
            Some(reason) => Some(format!("chance: not known, {reason}")),
            None if self.shifts == 0 => None,
            None => Some(format!(
                "chance: the POD of the same predictions moved in time, the mean of {} shifts by {by}; skill: (POD - chance) / (1 - chance)",
                self.shifts
            )),
        }
    }
}

/// The times at which both sides were looked at, over which predictions are moved.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Beginnings of the parts that change places, ascending: single times, or days.
    parts: Vec<Time>,
    part_seconds: i64,
    /// By how many parts the predictions are moved.
    shifts: Vec<usize>,
    chance: Chance,
}

impl Record {
    /// A record of some times, in any order. What moves comes to another of these times.
    pub fn of_times(times: impl IntoIterator<Item = Time>) -> Self {
        let mut times: Vec<Time> = times.into_iter().collect();
        if let Some(&zero) = times.first() {
            times.sort_by_key(|time| time.seconds_since(zero));
            times.dedup();
        }
        Self::of_parts(times, 1)
    }

    /// A record of all days from one time to another, but those of years that nobody looked at. What moves comes to the
    /// same time of another day.
    pub fn of_days(first: Time, last: Time, unseen_years: &BTreeSet<i64>) -> Self {
        let zero = first.midnight();
        let days = last.seconds_since(zero).div_euclid(DAY_SECONDS);
        let days = (0..=days).map(|day| zero.add_seconds(day * DAY_SECONDS));
        let days = days.filter(|day| !unseen_years.contains(&day.year()));
        Self::of_parts(days.collect(), DAY_SECONDS)
    }

    fn of_parts(mut parts: Vec<Time>, part_seconds: i64) -> Self {
        let has_holes = has_hole_of_a_year(&parts);
        let years = if has_holes {
            leave_whole_years(&mut parts)
        } else {
            whole_years(&parts)
        };
        let whole_years = years >= LEAST_YEARS;
        if whole_years && !has_holes {
            let zero = parts[0];
            let end_days = (years as f64 * zero.calendar().mean_year_days()).round();
            parts.retain(|part| part.days_since(zero) < end_days);
        }
        let mut dates: Vec<Time> = parts.iter().map(|part| part.midnight()).collect();
        dates.dedup();
        let per_day = parts.len() as f64 / dates.len().max(1) as f64;
        let per_day = (per_day.round() as usize).max(1);
        let days = parts.len() / per_day;
        let mut shifts = match (days < LEAST_DAYS, whole_years) {
            (true, _) => Vec::new(),
            (false, true) => {
                let of_years = spread(1, years - 1).into_iter();
                of_years.map(|k| (k * days + years / 2) / years).collect()
            }
            (false, false) => spread(LEAST_SHIFT_DAYS, days - LEAST_SHIFT_DAYS),
        };
        // Times may lie so thinly over many years that a year has but a few.
        shifts.retain(|shift| (LEAST_SHIFT_DAYS..=days - LEAST_SHIFT_DAYS).contains(shift));
        let missing = shifts.is_empty().then(|| {
            format!("which takes {LEAST_DAYS} days that both sides cover, and these have {days}")
        });
        Self {
            parts,
            part_seconds,
            chance: Chance {
                shifts: shifts.len() as u64,
                whole_years,
                missing,
            },
            shifts: shifts.into_iter().map(|days| days * per_day).collect(),
        }
    }

    /// How chance levels come from this record.
    pub fn chance(&self) -> &Chance {
        &self.chance
    }

    /// By how many parts of the record predictions are moved, each time anew.
    pub(crate) fn shifts(&self) -> &[usize] {
        &self.shifts
    }

    /// Whether a time is of this record.
    pub(crate) fn holds(&self, time: Time) -> bool {
        self.moved(time, 0).is_some()
    }

    /// Where a time comes to when the predictions are moved by a shift; `None` if it is not of this record.
    pub(crate) fn moved(&self, time: Time, shift: usize) -> Option<Time> {
        let place = self.parts.partition_point(|part| *part <= time);
        let place = place.checked_sub(1)?;
        let within = time.seconds_since(self.parts[place]);
        let to = self.parts[(place + shift) % self.parts.len()];
        (within < self.part_seconds).then(|| to.add_seconds(within))
    }

    /// Where a time comes from when the predictions are moved by a shift.
    pub(crate) fn origin(&self, time: Time, shift: usize) -> Option<Time> {
        self.moved(time, self.parts.len().checked_sub(shift)?)
    }
}

/// Years that a record spans, without what is left over.
fn whole_years(parts: &[Time]) -> usize {
    let [first, .., last] = parts else {
        return 0;
    };
    // To the end of the last day; and years without a leap day are shorter than the mean year.
    let days = last.days_since(*first) + 3.0;
    (days / first.calendar().mean_year_days()) as usize
}

/// Whether a part is a year or more after the one before, so that the record has fewer years than it spans.
fn has_hole_of_a_year(parts: &[Time]) -> bool {
    parts.windows(2).any(|pair| {
        let year_days = pair[0].calendar().mean_year_days();
        pair[1].days_since(pair[0]) >= year_days
    })
}

/// The whole years that a record with holes has, by what it usually has of each month; what is left over is left out,
/// so that what goes around the end stays in its season.
fn leave_whole_years(parts: &mut Vec<Time>) -> usize {
    let mut months: BTreeMap<(i64, i64), f64> = BTreeMap::new();
    for part in parts.iter() {
        let (year, month, _) = part.date();
        *months.entry((year, month)).or_default() += 1.0;
    }
    // The first and the last month may be cut.
    let is_end = |key: &(i64, i64)| {
        let ends = [months.first_key_value(), months.last_key_value()];
        ends.into_iter().flatten().any(|(end, _)| end == key)
    };
    let usual = |month: i64| {
        let of_month = months.iter().filter(|((_, of), _)| *of == month);
        let inner: Vec<f64> = of_month
            .clone()
            .filter(|&(key, _)| !is_end(key))
            .map(|(_, count)| *count)
            .collect();
        let counts: Vec<f64> = if inner.is_empty() {
            of_month.map(|(_, count)| *count).collect()
        } else {
            inner
        };
        counts.iter().sum::<f64>() / counts.len().max(1) as f64
    };
    let of_year: f64 = (1..=12).map(usual).sum();
    let years = (parts.len() as f64 / of_year + ROUNDING) as usize;
    if years >= LEAST_YEARS {
        parts.truncate((years as f64 * of_year).round() as usize);
    }
    years
}

/// Up to [`MOST_SHIFTS`] whole numbers, evenly from the least to the most.
fn spread(least: usize, most: usize) -> Vec<usize> {
    let count = (most - least + 1).min(MOST_SHIFTS);
    let at = |k: usize| least + k * (most - least) / (count - 1).max(1);
    (0..count).map(at).collect()
}

/// How much of what chance leaves to be found was found: 1 if all, 0 if no more than by chance. `None` where either is
/// not known, or chance finds all.
pub(crate) fn skill(pod: Option<f64>, chance: Option<f64>) -> Option<f64> {
    let (pod, chance) = (pod?, chance?);
    ratio(pod - chance, 1.0 - chance)
}

/// Chance level and skill as a line below a POD; `None` where they are not known.
pub(crate) fn line(chance: Option<f64>, skill: Option<f64>) -> Option<String> {
    let chance = chance? * 100.0;
    let skill = skill.map_or_else(|| "-".into(), |skill| format!("{skill:.2}"));
    Some(format!("  chance finds {chance:.1} %: skill {skill}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use squall_data::Calendar;

    fn time(calendar: Calendar, hours: i64) -> Time {
        let zero = Time::new(calendar, 2001, 1, 1, 0, 0, 0).unwrap();
        zero.add_seconds(hours * 3600)
    }

    fn every(step_hours: i64, days: i64) -> Record {
        let times = (0..days * 24 / step_hours).rev();
        Record::of_times(times.map(|step| time(Calendar::NoLeap, step * step_hours)))
    }

    #[test]
    fn shifts_are_spread_over_a_short_record_and_keep_the_time_of_day() {
        let daily = every(24, 40);
        assert_eq!(daily.shifts(), [10, 12, 14, 16, 18, 21, 23, 25, 27, 30]);
        assert!(!daily.chance().whole_years);
        let of_day = every(6, 40);
        assert_eq!(of_day.shifts()[..2], [40, 48]);
        let six = time(Calendar::NoLeap, 6);
        let moved = of_day.moved(six, 40).unwrap();
        assert_eq!(moved, time(Calendar::NoLeap, 6 + 240));
        assert_eq!(of_day.origin(moved, 40), Some(six));
        // Around the end; and a time between those of the record is not of it.
        let late = time(Calendar::NoLeap, 39 * 24);
        assert_eq!(of_day.moved(late, 40), Some(time(Calendar::NoLeap, 9 * 24)));
        assert_eq!(of_day.moved(time(Calendar::NoLeap, 7), 40), None);
        assert!(!of_day.holds(time(Calendar::NoLeap, -6)));
        assert!(!of_day.holds(time(Calendar::NoLeap, 40 * 24)));
    }

    #[test]
    fn long_records_move_by_whole_years() {
        // Half a year is left over.
        let record = every(12, 365 * 4 + 180);
        assert!(record.chance().whole_years);
        assert_eq!(record.shifts(), [730, 1460, 2190]);
        let summer = time(Calendar::NoLeap, 200 * 24);
        let moved = record.moved(summer, 1460).unwrap();
        assert_eq!(moved.date(), (2003, 7, 20));
        assert!(!record.holds(time(Calendar::NoLeap, 365 * 4 * 24)));
        // Three years without a leap day are three years, and of a century there are ten shifts.
        let [end, century] = [3, 100].map(|years| {
            let next = Time::new(Calendar::Standard, 2001 + years, 1, 1, 0, 0, 0).unwrap();
            next.add_seconds(-6 * 3600)
        });
        let zero = time(Calendar::Standard, 0);
        let none = BTreeSet::new();
        let three = Record::of_days(zero, end, &none);
        assert_eq!(three.shifts(), [365, 730]);
        assert!(three.holds(end));
        let century = Record::of_days(zero, century, &none);
        let years = century.shifts().iter().map(|&days| days as f64 / 365.2425);
        let years: Vec<f64> = years.collect();
        assert_eq!(years.len(), 10);
        assert!(
            years.iter().all(|k| (k - k.round()).abs() < 0.002),
            "{years:?}"
        );
        assert!(years[0].round() == 1.0 && years[9].round() == 99.0);
    }

    /// Half of the shifts had come to years that nobody looked at, or masks to another season.
    #[test]
    fn records_of_some_years_move_from_one_of_them_to_another() {
        let at =
            |year: i64, month: i64| Time::new(Calendar::NoLeap, year, month, 9, 0, 0, 0).unwrap();
        let even: BTreeSet<i64> = (1982..2000).step_by(2).collect();
        let of_days = |first, last| Record::of_days(first, last, &even);
        // Eleven months, four years and eleven months; five months, four years and two months.
        for (record, years) in [
            (of_days(at(1983, 1), at(1993, 12)), 5),
            (of_days(at(1983, 8), at(1993, 3)), 4),
        ] {
            assert!(record.chance().whole_years);
            let shifts: Vec<usize> = (1..years).map(|k| 365 * k).collect();
            assert_eq!(record.shifts(), shifts);
            assert_eq!(record.moved(at(1983, 10), 365), Some(at(1985, 10)));
            // Around the end.
            let last = record.moved(at(1983, 10), 365 * (years - 1));
            assert_eq!(record.moved(last.unwrap(), 365), Some(at(1983, 10)));
            assert!(!record.holds(at(1984, 10)));
        }
        // Masks of a summer month of every third year.
        let times = (0..4).flat_map(|k| {
            let start = at(1980 + 3 * k, 7);
            (0..30).map(move |day| start.add_seconds(day * DAY_SECONDS))
        });
        let summers = Record::of_times(times);
        assert_eq!(summers.shifts(), [30, 60, 90]);
        // Two years are too few to move from one to the other alone.
        let two = of_days(at(1983, 1), at(1985, 12));
        assert!(!two.chance().whole_years && !two.shifts().is_empty());
    }

    #[test]
    fn short_records_say_why_there_is_no_chance_level() {
        let short = every(6, 29);
        assert!(short.shifts().is_empty());
        let said = short.chance().describe().unwrap();
        assert!(said.contains("30 days") && said.contains("29"), "{said}");
        assert_eq!(every(6, 30).shifts().len(), 10);
        assert!(Record::of_times([]).chance().missing.is_some());
        assert_eq!(Chance::default().describe(), None);
    }

    #[test]
    fn skill_is_what_chance_leaves() {
        assert_eq!(skill(Some(1.0), Some(0.25)), Some(1.0));
        assert_eq!(skill(Some(0.25), Some(0.25)), Some(0.0));
        assert_eq!(skill(Some(0.0), Some(0.5)), Some(-1.0));
        assert_eq!(skill(Some(1.0), Some(1.0)), None);
        assert_eq!(skill(None, Some(0.5)), None);
    }
}
