//! Instants of a calendar, to the second.

use super::text::{before_utc, clock_and_zone};
use super::{Calendar, DAY_SECONDS};
use crate::error::{DataError, Result};
use std::fmt;

/// An instant of a calendar, to the second.
///
/// # Example
/// ```
/// use squall_data::{Calendar, Time};
/// let t = Time::new(Calendar::NoLeap, 1996, 2, 28, 21, 0, 0).unwrap();
/// assert_eq!(t.add_seconds(3 * 3600).to_string(), "1996-03-01T00:00:00");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Time {
    calendar: Calendar,
    seconds: i64,
}

impl Time {
    /// The instant of a date and a time of day.
    ///
    /// # Errors
    /// [`DataError::Time`] if the calendar has no such date.
    pub fn new(
        calendar: Calendar,
        year: i64,
        month: i64,
        day: i64,
        hour: i64,
        minute: i64,
        second: i64,
    ) -> Result<Self> {
        let clock =
            (0..24).contains(&hour) && (0..60).contains(&minute) && (0..60).contains(&second);
        if !clock || !calendar.valid_date(year, month, day) {
            return Err(DataError::Time(format!(
                "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} does not exist in calendar {calendar}"
            )));
        }
        let seconds = calendar.day_number(year, month, day) * DAY_SECONDS
            + hour * 3600
            + minute * 60
            + second;
        Ok(Self { calendar, seconds })
    }

    /// The calendar this instant belongs to.
    pub fn calendar(self) -> Calendar {
        self.calendar
    }

    /// (year, month, day).
    pub fn date(self) -> (i64, i64, i64) {
        self.calendar.date_of(self.seconds.div_euclid(DAY_SECONDS))
    }

    /// Year of the calendar.
    pub fn year(self) -> i64 {
        self.date().0
    }

    /// Month, 1..=12.
    pub fn month(self) -> i64 {
        self.date().1
    }

    /// Seconds since midnight.
    pub fn second_of_day(self) -> i64 {
        self.seconds.rem_euclid(DAY_SECONDS)
    }

    /// The instant at which its day began.
    #[must_use]
    pub fn midnight(self) -> Self {
        self.add_seconds(-self.second_of_day())
    }

    /// Date and second of the day as in CESM's file names: `1996-08-26-10800`.
    pub fn stamp(self) -> String {
        let (year, month, day) = self.date();
        format!("{year:04}-{month:02}-{day:02}-{:05}", self.second_of_day())
    }

    /// Units of a CF time axis whose origin is [`Self::midnight`]: `days since 1996-08-26 00:00:00`.
    pub fn cf_units(self) -> String {
        let (year, month, day) = self.date();
        format!("days since {year:04}-{month:02}-{day:02} 00:00:00")
    }

    /// Days since 1 January of the same year, with the time of day as fraction.
    pub fn day_of_year(self) -> f64 {
        let start = self.calendar.day_number(self.year(), 1, 1) * DAY_SECONDS;
        (self.seconds - start) as f64 / DAY_SECONDS as f64
    }

    /// Seconds from `earlier` to this instant; both must be of one calendar.
    pub fn seconds_since(self, earlier: Self) -> i64 {
        debug_assert_eq!(
            self.calendar, earlier.calendar,
            "instants of two calendars have no difference"
        );
        self.seconds - earlier.seconds
    }

    /// Hours from `earlier` to this instant, negative if it is before; both must be of one calendar.
    ///
    /// # Example
    /// ```
    /// use squall_data::{Calendar, Time};
    /// let noon = Time::new(Calendar::NoLeap, 1996, 2, 28, 12, 0, 0).unwrap();
    /// let later = Time::new(Calendar::NoLeap, 1996, 3, 1, 1, 30, 0).unwrap();
    /// assert_eq!(later.hours_since(noon), 13.5);
    /// ```
    pub fn hours_since(self, earlier: Self) -> f64 {
        self.seconds_since(earlier) as f64 / 3600.0
    }

    /// Adds seconds.
    #[must_use]
    pub fn add_seconds(self, seconds: i64) -> Self {
        Self {
            calendar: self.calendar,
            seconds: self.seconds + seconds,
        }
    }

    /// Whether a text has the form of time units: `days since ...`, or dates as numbers.
    pub(crate) fn are_units(units: &str) -> bool {
        are_date_numbers(units) || units.to_ascii_lowercase().contains(" since ")
    }

    /// The instant `value` on a CF time axis with units such as `days since 1995-02-01 00:00:00`, or with dates as
    /// numbers, `day as %Y%m%d.%f`, as written by CDO and ECHAM: 20000701.25 is 6 o'clock.
    ///
    /// # Errors
    /// [`DataError::Time`] if the units cannot be parsed, or the value is not finite or not a date.
    pub fn from_cf(value: f64, units: &str, calendar: Calendar) -> Result<Self> {
        if are_date_numbers(units) {
            return Self::from_date_number(value, calendar);
        }
        let (unit_seconds, reference) = parse_units(units, calendar)?;
        if !value.is_finite() || value.abs() * unit_seconds > 1e15 {
            return Err(DataError::Time(format!(
                "time value {value} ({units}) is not a date"
            )));
        }
        Ok(reference.add_seconds((value * unit_seconds).round() as i64))
    }

    /// The instant of a date as a number: the digits of year, month and day, and the fraction of the day.
    fn from_date_number(value: f64, calendar: Calendar) -> Result<Self> {
        if !(0.0..1e12).contains(&value) {
            return Err(DataError::Time(format!(
                "time value {value} is not a date such as 20000701.25"
            )));
        }
        let date = value.floor() as i64;
        let (year, month, day) = (date / 10_000, date / 100 % 100, date % 100);
        let midnight = Self::new(calendar, year, month, day, 0, 0, 0)?;
        Ok(midnight.add_seconds((value.fract() * DAY_SECONDS as f64).round() as i64))
    }

    /// The instant of the same date and time of day in another calendar.
    ///
    /// # Errors
    /// [`DataError::Time`] if that calendar has no such date.
    pub fn in_calendar(self, calendar: Calendar) -> Result<Self> {
        if calendar == self.calendar {
            return Ok(self);
        }
        let (year, month, day) = self.date();
        let midnight = Self::new(calendar, year, month, day, 0, 0, 0)?;
        Ok(midnight.add_seconds(self.second_of_day()))
    }

    /// The same instant in another calendar; `None` unless the calendars share instants, which only the two Gregorian
    /// ones do, since 1582-10-15.
    ///
    /// # Example
    /// ```
    /// use squall_data::{Calendar, Time};
    /// let time = Time::new(Calendar::ProlepticGregorian, 2000, 7, 1, 6, 0, 0).unwrap();
    /// let same = time.instant_in(Calendar::Standard).unwrap();
    /// assert_eq!(same.to_string(), time.to_string());
    /// assert_eq!(time.instant_in(Calendar::NoLeap), None);
    /// ```
    pub fn instant_in(self, calendar: Calendar) -> Option<Self> {
        if calendar == self.calendar {
            return Some(self);
        }
        if calendar.has_dates_of(self.calendar) && self.date() >= (1582, 10, 15) {
            self.in_calendar(calendar).ok()
        } else {
            None
        }
    }

    /// Index of this instant in ascending times of one calendar, which may be the other Gregorian one
    /// ([`Self::instant_in`]).
    pub(crate) fn find_in(self, times: &[Self]) -> Option<usize> {
        let first = *times.first()?;
        let wanted = self.instant_in(first.calendar)?.seconds_since(first);
        let found = times.binary_search_by_key(&wanted, |time| time.seconds_since(first));
        found.ok()
    }

    /// Days since `reference` (the value of a CF axis with units `days since reference`).
    pub fn days_since(self, reference: Self) -> f64 {
        self.seconds_since(reference) as f64 / DAY_SECONDS as f64
    }

    /// Parses `YYYY-MM-DD`, optionally followed by `T` or a space and `hh[:mm[:ss[.f]]]` and `Z`/`UTC`/`GMT` or a UTC
    /// offset such as `+02:00` or `-6:00`. Names of other zones and other words are rejected. Seconds are rounded: many
    /// programs convert hourly data to days and write 05:59:59.999999999.
    ///
    /// # Errors
    /// [`DataError::Time`] naming the text.
    pub fn parse(text: &str, calendar: Calendar) -> Result<Self> {
        let bad = || {
            DataError::Time(format!(
                "`{text}` is not a date such as 1996-08-26T03:00:00"
            ))
        };
        let told_utc = before_utc(text.trim());
        let trimmed = told_utc.unwrap_or(text.trim());
        let negative = trimmed.starts_with('-');
        let body = trimmed.trim_start_matches('-');
        let (date, clock) = body.split_once(['T', ' ']).unwrap_or((body, ""));
        let mut parts = date.splitn(3, '-').map(|p| p.trim().parse::<i64>());
        let mut next = || parts.next().ok_or_else(bad)?.map_err(|_| bad());
        let (year, month, day) = (next()?, next()?, next()?);
        let (clock, ahead_seconds) = clock_and_zone(clock).ok_or_else(bad)?;
        if told_utc.is_some() && ahead_seconds != 0 {
            return Err(bad());
        }
        let mut hms = [0i64; 3];
        let mut is_next = false;
        let parts = clock.splitn(3, ':').filter(|_| !clock.is_empty());
        for ((at, slot), part) in hms.iter_mut().enumerate().zip(parts) {
            // Only seconds may have a fraction.
            let (whole, fraction) = match part.split_once('.') {
                Some(parts) if at == 2 => parts,
                _ => (part, ""),
            };
            if !(whole.bytes().chain(fraction.bytes())).all(|b| b.is_ascii_digit()) {
                return Err(bad());
            }
            *slot = whole.parse().map_err(|_| bad())?;
            is_next = fraction.starts_with(|digit: char| digit >= '5');
        }
        let year = if negative { -year } else { year };
        let there = Self::new(calendar, year, month, day, hms[0], hms[1], hms[2])?;
        Ok(there.add_seconds(i64::from(is_next) - ahead_seconds))
    }
}

impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        (self.calendar == other.calendar).then(|| self.seconds.cmp(&other.seconds))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.date();
        let s = self.second_of_day();
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}",
            s / 3600,
            s / 60 % 60,
            s % 60
        )
    }
}

/// Units for dates as numbers, in lower case.
const DATE_NUMBERS: &str = "day as %y%m%d.%f";

/// Whether times in these units are dates as numbers.
pub(crate) fn are_date_numbers(units: &str) -> bool {
    units.trim().eq_ignore_ascii_case(DATE_NUMBERS)
}

/// Seconds per unit and the reference instant of CF time units.
fn parse_units(units: &str, calendar: Calendar) -> Result<(f64, Time)> {
    let bad = |why: &str| DataError::Time(format!("time units `{units}`: {why}"));
    let lower = units.to_ascii_lowercase();
    let (unit, reference) = lower
        .split_once(" since ")
        .map(|(unit, after)| (unit, &units[units.len() - after.len()..]))
        .ok_or_else(|| bad("expected `<unit> since <date>`"))?;
    let seconds = match unit.trim() {
        "seconds" | "second" | "secs" | "sec" | "s" => 1.0,
        "minutes" | "minute" | "mins" | "min" => 60.0,
        "hours" | "hour" | "hrs" | "hr" | "h" => 3600.0,
        "days" | "day" | "d" => 86_400.0,
        "milliseconds" | "msec" | "ms" => 1e-3,
        "microseconds" => 1e-6,
        "nanoseconds" => 1e-9,
        other => {
            return Err(bad(&format!(
                "unit `{other}` has no fixed length in seconds"
            )));
        }
    };
    // Climatologies refer to year 0. It is the year before year 1 in every calendar, including those that historically
    // lack it.
    let reference = Time::parse(reference, calendar).map_err(|error| bad(&error.to_string()))?;
    Ok((seconds, reference))
}
