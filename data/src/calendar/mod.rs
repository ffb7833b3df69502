//! Model calendars, and instants in them ([`Time`]).
//!
//! Source: CF conventions 1.10, section 4.4.1 (calendars). Years are astronomical (year 0 exists).

mod text;
mod time;

pub use time::Time;
pub(crate) use time::are_date_numbers;

use serde::{Deserialize, Serialize};
use std::fmt;

/// A CF calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Calendar {
    /// Mixed Julian/Gregorian with the switch on 1582-10-15 (CF `standard`, `gregorian`).
    #[default]
    Standard,
    /// Gregorian rules for all years.
    ProlepticGregorian,
    /// 365 days every year.
    NoLeap,
    /// 366 days every year.
    AllLeap,
    /// Twelve months of 30 days.
    Day360,
    /// Julian rules for all years.
    Julian,
}

const MONTH_DAYS: [i64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
/// Range of years before and after year 0: beyond it, seconds may overflow.
const MOST_YEARS: i64 = 10_000_000;
/// Seconds in a day.
pub const DAY_SECONDS: i64 = 86_400;

impl Calendar {
    /// The calendar of a CF `calendar` attribute, in any letter case; `None` if the word is unknown.
    pub fn from_cf(name: &str) -> Option<Self> {
        Some(match name.trim().to_ascii_lowercase().as_str() {
            "standard" | "gregorian" | "" => Self::Standard,
            "proleptic_gregorian" => Self::ProlepticGregorian,
            "noleap" | "365_day" | "no_leap" => Self::NoLeap,
            "all_leap" | "366_day" => Self::AllLeap,
            "360_day" => Self::Day360,
            "julian" => Self::Julian,
            _ => return None,
        })
    }

    /// The word for a CF `calendar` attribute.
    pub fn cf_name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::ProlepticGregorian => "proleptic_gregorian",
            Self::NoLeap => "noleap",
            Self::AllLeap => "all_leap",
            Self::Day360 => "360_day",
            Self::Julian => "julian",
        }
    }

    /// Whether equal dates are the same day in both calendars, as in the two Gregorian ones since 1582-10-15.
    pub fn has_dates_of(self, other: Self) -> bool {
        let gregorian = |c: Self| matches!(c, Self::Standard | Self::ProlepticGregorian);
        self == other || gregorian(self) && gregorian(other)
    }

    /// Whether `year` has a 29 February.
    pub fn is_leap(self, year: i64) -> bool {
        let gregorian = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        match self {
            Self::NoLeap | Self::Day360 => false,
            Self::AllLeap => true,
            Self::Julian => year % 4 == 0,
            Self::ProlepticGregorian => gregorian,
            Self::Standard => {
                if year < 1583 {
                    year % 4 == 0
                } else {
                    gregorian
                }
            }
        }
    }

    /// Days in a month; 0 if `month` is not 1..=12.
    pub fn days_in_month(self, year: i64, month: i64) -> i64 {
        match (self, month) {
            (_, m) if !(1..=12).contains(&m) => 0,
            (Self::Day360, _) => 30,
            (_, 2) if self.is_leap(year) => 29,
            (_, m) => MONTH_DAYS[(m - 1) as usize],
        }
    }

    /// Mean length of a year in days.
    pub fn mean_year_days(self) -> f64 {
        match self {
            Self::Standard | Self::ProlepticGregorian => 365.2425,
            Self::NoLeap => 365.0,
            Self::AllLeap => 366.0,
            Self::Day360 => 360.0,
            Self::Julian => 365.25,
        }
    }

    /// Mean length of a month in days, over leap years and others; 0 if `month` is not 1..=12.
    pub fn mean_month_days(self, month: i64) -> f64 {
        if month == 2 && self != Self::Day360 {
            return self.mean_year_days() - 337.0; // which the other months have
        }
        self.days_in_month(1, month) as f64
    }

    /// Days from 0000-01-01 to the given date, in this calendar.
    fn day_number(self, year: i64, month: i64, day: i64) -> i64 {
        let leaps_julian = |y: i64| (y + 3).div_euclid(4);
        let leaps_gregorian =
            |y: i64| (y + 3).div_euclid(4) - (y + 99).div_euclid(100) + (y + 399).div_euclid(400);
        let in_year: i64 = (1..month).map(|m| self.days_in_month(year, m)).sum::<i64>() + day - 1;
        match self {
            Self::NoLeap => year * 365 + in_year,
            Self::AllLeap => year * 366 + in_year,
            Self::Day360 => year * 360 + in_year,
            Self::Julian => year * 365 + leaps_julian(year) + in_year,
            Self::ProlepticGregorian => year * 365 + leaps_gregorian(year) + in_year,
            Self::Standard => {
                // The Julian count continues through 1582-10-04, which is followed by 1582-10-15.
                if (year, month, day) < (1582, 10, 15) {
                    year * 365 + leaps_julian(year) + in_year
                } else {
                    let gregorian = Self::ProlepticGregorian;
                    let change = gregorian.day_number(1582, 10, 15);
                    let julian_change = Self::Julian.day_number(1582, 10, 5);
                    gregorian.day_number(year, month, day) - change + julian_change
                }
            }
        }
    }

    /// The date whose [`Self::day_number`] is `number`.
    fn date_of(self, number: i64) -> (i64, i64, i64) {
        let mut year = (number as f64 / self.mean_year_days()).floor() as i64 - 1;
        while self.day_number(year + 1, 1, 1) <= number {
            year += 1;
        }
        let mut month = 12;
        while month > 1 && self.day_number(year, month, 1) > number {
            month -= 1;
        }
        let mut day = number - self.day_number(year, month, 1) + 1;
        if self == Self::Standard && (year, month) == (1582, 10) && day > 4 {
            day += 10;
        }
        (year, month, day)
    }

    fn valid_date(self, year: i64, month: i64, day: i64) -> bool {
        let in_gap =
            self == Self::Standard && (year, month) == (1582, 10) && (5..15).contains(&day);
        let is_known = (-MOST_YEARS..=MOST_YEARS).contains(&year);
        is_known && day >= 1 && day <= self.days_in_month(year, month) && !in_gap
    }
}

impl fmt::Display for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.cf_name())
    }
}

#[cfg(test)]
mod tests;
