//! Whether the times of two sides meet: tracks are compared at equal times, and those between are never near; and which
//! years are those of both sides.

use crate::error::{Result, ValidationError};
use squall_climate::statistics::Span;
use squall_climate::track::readers::{ImportedTrack, TrackTable};
use squall_data::Time;
use std::collections::{BTreeSet, HashSet};
use std::ops::RangeInclusive;

/// Where a smaller share of the points of both sides is at a time of day of the other, it is said.
const FEW: f64 = 0.05;
/// Times of day, or years, that are named.
const MOST: usize = 8;

/// A note where hardly any points of the two sides, or none, can be compared; `None` where many can, or where a side has
/// no points.
///
/// # Errors
/// [`ValidationError::Invalid`] if no point is at a time of day of the other side: nothing could be found, wherever the
/// tracks are.
pub(super) fn check_times(
    reference: &[ImportedTrack],
    predicted: &[ImportedTrack],
) -> Result<Option<String>> {
    let [real, found] = [reference, predicted].map(times_of);
    if real.is_empty() || found.is_empty() {
        return Ok(None);
    }
    let [of_real, of_found] = [&real, &found].map(|times| times_of_day(times));
    let shares = [share(&real, &of_found), share(&found, &of_real)];
    if shares == [0.0; 2] {
        return Err(ValidationError::Invalid(format!(
            "tracks are compared at equal times, and these have no time of day in common: those of the reference are at {}, those of the prediction at {}",
            clock(&of_real),
            clock(&of_found)
        )));
    }
    let all: HashSet<Time> = real.into_iter().collect();
    if !found.iter().any(|time| all.contains(time)) {
        return Ok(Some(
            "no point of the prediction is at the time of one of the reference, so that nothing can be found".into(),
        ));
    }
    let [real, found] = shares.map(|share| 100.0 * share);
    let is_few = shares.iter().all(|share| *share < FEW);
    Ok(is_few.then(|| {
        format!(
            "tracks are compared at equal times, and only {real:.1} % of the points of the reference and {found:.1} % of those of the prediction are at a time of day that the other side has"
        )
    }))
}

/// The years of which nobody knows whether both sides looked at them: between the first and the last point of a table
/// that is of no longer time, those in which none of its tracks begins.
pub(super) fn unseen_years(tables: [&TrackTable; 2]) -> BTreeSet<i64> {
    let of_table = |table: &TrackTable| {
        let mut span = Span::default();
        let times = times_of(&table.tracks);
        times.iter().for_each(|time| span.add(*time));
        let (first, last) = span.ends()?;
        let is_longer = |(from, to): (Time, Time)| from < first || to > last;
        let begun = table.tracks.iter().filter_map(|track| track.points.first());
        let begun: BTreeSet<i64> = begun.map(|point| point.time.year()).collect();
        let is_unseen = |year: &i64| !begun.contains(year);
        let years = (first.year()..=last.year()).filter(is_unseen);
        (!table.covers.is_some_and(is_longer)).then(|| years.collect::<BTreeSet<i64>>())
    };
    tables.into_iter().filter_map(of_table).flatten().collect()
}

/// Says which of some years are no part of the record of chance levels; `None` if all are.
pub(super) fn note_unseen(unseen: &BTreeSet<i64>, of: RangeInclusive<i64>) -> Option<String> {
    let years: Vec<String> = unseen.range(of).map(i64::to_string).collect();
    let more = match years.len().saturating_sub(MOST) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named = years[..years.len().min(MOST)].join(", ");
    (!years.is_empty()).then(|| {
        format!("chance levels leave years out in which no track of a side begins: {named}{more}")
    })
}

fn times_of(tracks: &[ImportedTrack]) -> Vec<Time> {
    let points = tracks.iter().flat_map(|track| &track.points);
    points.map(|point| point.time).collect()
}

/// In seconds since midnight.
fn times_of_day(times: &[Time]) -> BTreeSet<i64> {
    times.iter().map(|time| time.second_of_day()).collect()
}

/// The share of some times that are at one of some times of day.
fn share(times: &[Time], of_day: &BTreeSet<i64>) -> f64 {
    let is_there = |time: &&Time| of_day.contains(&time.second_of_day());
    times.iter().filter(is_there).count() as f64 / times.len() as f64
}

/// `00:00, 06:00, 12:00, 18:00`.
fn clock(of_day: &BTreeSet<i64>) -> String {
    let named = of_day.iter().take(MOST);
    let named: Vec<String> = named
        .map(|second| format!("{:02}:{:02}", second / 3600, second / 60 % 60))
        .collect();
    let more = match of_day.len().saturating_sub(MOST) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    named.join(", ") + &more
}

#[cfg(test)]
mod tests {
    use super::*;
    use squall_climate::track::readers::ImportedPoint;
    use squall_data::{Calendar, Class};

    /// A track with a point at each of these minutes of a month.
    fn track(minutes: impl IntoIterator<Item = i64>) -> [ImportedTrack; 1] {
        let zero = Time::new(Calendar::Standard, 2001, 8, 1, 0, 0, 0).unwrap();
        let point = |minute: i64| ImportedPoint {
            time: zero.add_seconds(60 * minute),
            lon_deg: 150.0,
            lat_deg: 10.0,
            max_wind_m_s: None,
            other_wind: false,
            min_psl_pa: None,
        };
        [ImportedTrack {
            name: "a".into(),
            identity: Default::default(),
            class: Class::TropicalCyclone,
            season: None,
            basin: None,
            points: minutes.into_iter().map(point).collect(),
        }]
    }

    /// So many points every six hours, the first at a minute.
    fn from(minute: i64, points: i64) -> impl Iterator<Item = i64> {
        (0..points).map(move |k| minute + 360 * k)
    }

    #[test]
    fn points_that_are_never_at_one_time_are_refused_and_few_are_said() {
        let check = |real: Vec<i64>, found: Vec<i64>| check_times(&track(real), &track(found));
        let refused = check(Vec::from_iter(from(0, 9)), Vec::from_iter(from(180, 7)));
        let said = "those of the reference are at 00:00, 06:00, 12:00, 18:00, those of the prediction at 03:00, 09:00, 15:00, 21:00";
        assert!(refused.unwrap_err().to_string().ends_with(said));
        // Hourly against daily: all of the second are at times of the first.
        let hourly = Vec::from_iter((0..100).map(|k| 60 * k));
        let daily = Vec::from_iter((0..4).map(|k| 1440 * k));
        assert_eq!(check(hourly, daily).unwrap(), None);
        // Midnight of the first day alone is a time of both.
        let [mut real, mut found] = [1, 181].map(|minute| Vec::from_iter(from(minute, 44)));
        (real[0], found[0]) = (0, 0);
        let note = check(real.clone(), found.clone()).unwrap().unwrap();
        let said = "only 2.3 % of the points of the reference and 2.3 % of those of the prediction";
        assert!(note.contains(said), "{note}");
        // Not even that of one day.
        found[0] = 1440;
        let note = check(real, found).unwrap().unwrap();
        assert!(note.starts_with("no point of the prediction"), "{note}");
        assert_eq!(check(Vec::new(), vec![0]).unwrap(), None);
    }
}
