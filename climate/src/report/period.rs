//! The time span of a page.

use crate::report::ReportInput;
use crate::report::numbers::{duration, years};
use crate::report::summary::by_time;
use crate::statistics::Span;
use squall_data::Time;
use squall_data::calendar::DAY_SECONDS;
use squall_data::gaps::median_step_seconds;

/// The span from the first analysed time to the last one, plus the step that the last one represents.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Period {
    /// The first analysed time.
    pub(crate) first: Time,
    /// The last analysed time.
    pub(crate) last: Time,
    /// Seconds that the last time represents; 0 for a single time.
    step_seconds: i64,
    /// Days with data in each calendar month: first and last day inclusive, excluding months without data.
    pub(crate) days_per_month: [f64; 12],
}

impl Period {
    /// The period set in the input, or else the span of the `seen` times, events and tracks.
    pub(crate) fn covering(input: &ReportInput, seen: &[Time]) -> Option<Self> {
        let events = input.sources.iter().flat_map(|s| &s.events);
        let mut times: Vec<Time> = seen.iter().copied().chain(events.map(|e| e.time)).collect();
        times.sort_by(|a, b| by_time(*a, *b));
        let tracks = input.sources.iter().flat_map(|s| &s.tracks);
        let ends = tracks.flat_map(|t| [t.start, t.end]);
        let known = times.first().into_iter().chain(times.last()).copied();
        let mut span = Span::default();
        known.chain(ends).for_each(|time| span.add(time));
        let (first, last) = input.period.or(span.ends())?;
        let step_seconds = if first == last {
            0
        } else {
            // Events represent at most a day.
            median_step_seconds(&times).unwrap_or(0).min(DAY_SECONDS)
        };
        let mut months: Vec<_> = seen.iter().map(|time| month(*time)).collect();
        months.sort_unstable();
        // Without masks it is unknown which times were analysed.
        let is_seen = |month| months.is_empty() || months.binary_search(&month).is_ok();
        Some(Self {
            first,
            last,
            step_seconds,
            days_per_month: days_per_month(first, last, is_seen),
        })
    }

    /// Whether it is a single time, so that nothing has a duration.
    pub(crate) fn is_moment(&self) -> bool {
        self.first == self.last
    }

    /// The end of the period: the time that would have followed the last.
    fn end(&self) -> Time {
        self.last.add_seconds(self.step_seconds)
    }

    /// Its length in hours.
    pub(crate) fn hours(&self) -> f64 {
        self.end().hours_since(self.first)
    }

    /// Its length in calendar years; a whole number from a date to the same date, whether or not there are leap days.
    pub(crate) fn years(&self) -> f64 {
        let (end, (year, month, day)) = (self.end(), self.first.date());
        let midnight = |year| Time::new(end.calendar(), year, month, day, 0, 0, 0).ok();
        let seconds = self.first.second_of_day();
        let same_date = |year| Some(midnight(year)?.add_seconds(seconds));
        // The last anniversary is in the final year or in the one before.
        let whole = [end.date().0, end.date().0 - 1]
            .into_iter()
            .filter_map(|year| Some((year, same_date(year)?)))
            .find(|(_, time)| *time <= end);
        let (before, from) = whole.unwrap_or((year, self.first));
        (before - year) as f64 + end.days_since(from) / end.calendar().mean_year_days()
    }

    /// Its length, formatted.
    pub(crate) fn words(&self) -> String {
        match self.years() {
            long if long >= 2.0 => years(long),
            _ => duration(self.hours()),
        }
    }
}

/// Year and month.
fn month(time: Time) -> (i64, i64) {
    let (year, month, _) = time.date();
    (year, month)
}

/// Days of each calendar month from the first to the last day inclusive, restricted to months that are `is_asked`.
fn days_per_month(first: Time, last: Time, is_asked: impl Fn((i64, i64)) -> bool) -> [f64; 12] {
    let mut days = [0.0; 12];
    for year in first.date().0..=last.date().0 {
        for (at, sum) in (1..=12).zip(&mut days) {
            let at = (year, at);
            if at < month(first) || at > month(last) || !is_asked(at) {
                continue;
            }
            let from = if at == month(first) {
                first.date().2
            } else {
                1
            };
            let to = if at == month(last) {
                last.date().2
            } else {
                first.calendar().days_in_month(at.0, at.1)
            };
            *sum += (to - from + 1) as f64;
        }
    }
    days
}

#[cfg(test)]
mod tests {
    use super::*;
    use squall_data::{Calendar, LatLonGrid};
    use std::sync::Arc;

    fn day(year: i64, month: i64, day: i64) -> Time {
        Time::new(Calendar::NoLeap, year, month, day, 0, 0, 0).unwrap()
    }

    /// Times from `start`, every `hours` hours.
    fn every(start: Time, hours: i64, count: i64) -> Vec<Time> {
        (0..count)
            .map(|k| start.add_seconds(k * hours * 3600))
            .collect()
    }

    fn of_times(times: &[Time]) -> Period {
        let grid = Arc::new(LatLonGrid::global(4, 8).unwrap());
        Period::covering(&ReportInput::new("", grid), times).unwrap()
    }

    #[test]
    fn a_period_ends_with_the_step_of_its_last_time() {
        let start = day(2000, 7, 1);
        let summer = of_times(&every(start, 6, 160));
        assert_eq!((summer.first, summer.last.date()), (start, (2000, 8, 9)));
        assert_eq!((summer.hours(), summer.words()), (960.0, "40 days".into()));
        // Neither a hole nor a duplicate time changes the step.
        let mut times = every(start, 6, 160);
        times.drain(20..100);
        times.extend([start; 200]);
        assert_eq!(of_times(&times), summer);
        // Times a week apart represent a day each.
        assert_eq!(of_times(&every(start, 168, 3)).hours(), 360.0);
        let moment = of_times(&[start]);
        assert!(moment.is_moment() && moment.hours() == 0.0);
    }

    #[test]
    fn whole_years_are_whole_in_every_calendar() {
        for (calendar, days) in [
            (Calendar::NoLeap, 6 * 365),
            (Calendar::Standard, 6 * 365 + 2),
            (Calendar::Day360, 6 * 360),
        ] {
            let start = Time::new(calendar, 2000, 1, 1, 0, 0, 0).unwrap();
            let period = of_times(&every(start, 6, 4 * days));
            assert_eq!(
                (period.years(), period.words()),
                (6.0, "6 years".into()),
                "{calendar}"
            );
            let (year, month, _) = period.last.date();
            assert_eq!((year, month), (2005, 12), "{calendar}");
        }
        let start = Time::new(Calendar::Standard, 2001, 3, 1, 12, 0, 0).unwrap();
        assert_eq!(of_times(&every(start, 24, 730)).words(), "2 years");
        assert_eq!(of_times(&every(start, 24, 729)).words(), "729 days");
        let part = of_times(&every(start, 24, 1000)).years();
        assert!((part - (2.0 + 270.0 / 365.2425)).abs() < 1e-12, "{part}");
        // 29 February does not exist in every year.
        let leap = Time::new(Calendar::Standard, 2000, 2, 29, 0, 0, 0).unwrap();
        let years = of_times(&every(leap, 24, 3 * 365)).years();
        assert!((years - 3.0).abs() < 0.01, "{years}");
    }

    #[test]
    fn days_of_short_and_long_periods() {
        let between = |first, last| days_per_month(first, last, |_| true);
        let short = between(day(1995, 8, 20), day(1995, 10, 3));
        assert_eq!(short[7..10], [12.0, 30.0, 3.0]);
        assert_eq!(short.iter().sum::<f64>(), 45.0);
        let long = between(day(1, 3, 1), day(100, 12, 31));
        assert_eq!(long[0], 99.0 * 31.0);
        assert_eq!(long[5], 100.0 * 30.0);
        let total = (day(100, 12, 31).days_since(day(1, 3, 1))) + 1.0;
        assert_eq!(long.iter().sum::<f64>(), total);
        let once = between(day(3, 5, 5), day(3, 5, 5));
        assert_eq!(once.iter().sum::<f64>(), 1.0);
    }

    #[test]
    fn months_in_which_nothing_was_seen_have_no_days() {
        let whole = every(day(2000, 1, 1), 6, 4 * 2 * 365);
        assert_eq!(of_times(&whole).days_per_month[6], 62.0);
        // The second July is missing, and so is all of August except for one day.
        let is_there = |time: &Time| time.date() < (2001, 7, 1) || time.date() > (2001, 8, 30);
        let holed: Vec<Time> = whole.iter().copied().filter(is_there).collect();
        let days = of_times(&holed).days_per_month;
        assert_eq!((days[6], days[7], days[8]), (31.0, 62.0, 60.0));
    }
}
