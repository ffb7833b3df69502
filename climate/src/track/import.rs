//! Converts the tracks of other tools to events, and fills in durations and land, which their tables lack.

use super::readers::{ImportedPoint, TrackTable};
use super::{Identity, Track};
use crate::compare::silence::{has_whole_year, silent_stretches, stretches_in_words};
use crate::compare::words::years_in_words;
use crate::events::Event;
use crate::map::LandMask;
use squall_data::Time;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Maximum interval between two points that counts as lifetime, hours: longer intervals are gaps in the track.
const MAX_INTERVAL_HOURS: f64 = 24.0;

/// Usual interval of best tracks, hours.
const USUAL_HOURS: f64 = 6.0;

/// Returns the points of tracks as events, ordered by time and track.
///
/// Tracks are numbered from 1 by their first time, then from south to north. A point is over land if its position is.
/// Areas, shapes, moisture and rain are unknown. Each point represents the time half-way to its neighbours on the
/// track; if some points have a wind, only those count as neighbours. Best tracks contain extra points, such as
/// landfalls, some without wind, which must not change a storm's energy.
///
/// # Example
/// ```
/// use squall_climate::map::LandMask;
/// use squall_climate::track::{import, readers::TrackTable};
/// use squall_data::LatLonGrid;
/// let grid = LatLonGrid::global(181, 360).unwrap();
/// let none = TrackTable::of_events(&[]);
/// assert!(import::events(&none, &LandMask::natural_earth(&grid)).is_empty());
/// ```
pub fn events(table: &TrackTable, land: &LandMask) -> Vec<Event> {
    let ids = track_numbers(table);
    let mut events = table.events();
    let hours = table.tracks.iter().flat_map(|track| {
        let has_wind = |p: &ImportedPoint| p.max_wind_m_s.is_some() || p.other_wind;
        let points: Vec<_> = track.points.iter().map(|p| (p.time, has_wind(p))).collect();
        hours_of_points(&points)
    });
    for (event, hours) in events.iter_mut().zip(hours) {
        event.details.hours = hours;
    }
    for event in &mut events {
        let place = event.track_id.map(|place| place as usize);
        event.track_id = place.and_then(|place| ids[place]);
    }
    if let Some(zero) = events.first().map(|event| event.time) {
        events.sort_by_key(|event| (event.time.seconds_since(zero), event.track_id));
    }
    fill_land(&mut events, land);
    events
}

/// Copies the identities of a table to the tracks made from its [`events`].
pub fn identify(tracks: &mut [Track], table: &TrackTable) {
    let of_table = track_numbers(table).into_iter().zip(&table.tracks);
    let identities: BTreeMap<u64, &Identity> = of_table
        .filter_map(|(id, track)| Some((id?, &track.identity)))
        .collect();
    for track in tracks {
        if let Some(identity) = identities.get(&track.track_id) {
            track.details.identity = (*identity).clone();
        }
    }
}

/// The number of each track of a table: from 1 by first time, then from south to north; `None` for a track without
/// points.
fn track_numbers(table: &TrackTable) -> Vec<Option<u64>> {
    let first = |place: &usize| table.tracks[*place].points.first();
    let mut order: Vec<usize> = (0..table.tracks.len()).collect();
    order.retain(|place| first(place).is_some());
    order.sort_by(|a, b| {
        let (a, b) = (first(a), first(b));
        let keys = a.zip(b).map(|(a, b)| {
            let time = a.time.seconds_since(b.time).cmp(&0);
            time.then(a.lat_deg.total_cmp(&b.lat_deg))
                .then(a.lon_deg.total_cmp(&b.lon_deg))
        });
        keys.unwrap_or(std::cmp::Ordering::Equal)
    });
    let mut ids = vec![None; table.tracks.len()];
    for (id, place) in (1u64..).zip(order) {
        ids[place] = Some(id);
    }
    ids
}

/// Sorts the events of a table by time and fills in what tables of other programs lack: the hours that a row
/// represents, and land, each only if no row has it. Also returns the number of rows dropped because they repeat a time
/// of their track.
pub fn complete(mut events: Vec<Event>, land: &LandMask) -> (Vec<Event>, usize) {
    let Some(zero) = events.first().map(|event| event.time) else {
        return (events, 0);
    };
    events.sort_by_key(|event| event.time.seconds_since(zero));
    let before = events.len();
    let mut there = HashSet::new();
    events.retain(|event| {
        event
            .track_id
            .is_none_or(|id| there.insert((id, event.time.seconds_since(zero))))
    });
    let repeated = before - events.len();
    if events.iter().all(|event| event.details.hours.is_none()) {
        fill_hours(&mut events);
    }
    if events
        .iter()
        .all(|event| event.details.land_share.is_none())
    {
        fill_land(&mut events, land);
    }
    (events, repeated)
}

/// A note on years without any time, between the first and the last of the given times; `None` if there are none.
pub fn note_of_empty_years(times: &[Time]) -> Option<String> {
    let years: BTreeSet<i64> = times.iter().map(|time| time.year()).collect();
    let all = *years.first()?..=*years.last()?;
    let empty: Vec<i64> = all.filter(|year| !years.contains(year)).collect();
    (!empty.is_empty()).then(|| {
        format!(
            "there are no points in {}: storms may have been absent, or the data missing; `squall compare` and `squall trends` count these as years without a storm",
            years_in_words(&empty)
        )
    })
}

/// A note on unusually long stretches of months without any time, other than those of whole years; `None` if there are
/// none.
pub fn note_of_silence(times: &[Time]) -> Option<String> {
    let month = |time: &Time| {
        let (year, month, _) = time.date();
        (year, month)
    };
    let mut stretches = silent_stretches(&times.iter().map(month).collect());
    stretches.retain(|stretch| !has_whole_year(*stretch, 1));
    (!stretches.is_empty()).then(|| {
        format!(
            "there are no points in {}: storms may have been absent, or the data missing; `squall compare` and `squall trends` count these as months without a storm",
            stretches_in_words(&stretches)
        )
    })
}

fn fill_hours(events: &mut [Event]) {
    let mut tracks: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (place, event) in events.iter().enumerate() {
        if let Some(id) = event.track_id {
            tracks.entry(id).or_default().push(place);
        }
    }
    for places in tracks.values() {
        let points: Vec<(Time, bool)> = places
            .iter()
            .map(|&place| (events[place].time, events[place].max_wind_m_s.is_some()))
            .collect();
        for (&place, hours) in places.iter().zip(hours_of_points(&points)) {
            events[place].details.hours = hours;
        }
    }
}

fn fill_land(events: &mut [Event], land: &LandMask) {
    for event in events {
        let on_land = land.is_land_at(event.lat_deg, event.lon_deg);
        let details = &mut event.details;
        details.land_share = Some(f64::from(u8::from(on_land)));
        if on_land {
            details.land_lat_deg = Some(event.lat_deg);
            details.land_lon_deg = Some(event.lon_deg);
        }
    }
}

/// The hours that each point of a track represents. The flag says whether the point has a wind. `None` for points
/// without wind if other points have one.
fn hours_of_points(points: &[(Time, bool)]) -> Vec<Option<f64>> {
    let windy = points.iter().any(|(_, has_wind)| *has_wind);
    let counts = |has_wind: bool| !windy || has_wind;
    let counted = points.iter().filter(|(_, has_wind)| counts(*has_wind));
    let times: Vec<Time> = counted.map(|(time, _)| *time).collect();
    let gap = |at: usize| {
        let next = times.get(at + 1)?;
        Some(next.hours_since(times[at]).min(MAX_INTERVAL_HOURS))
    };
    let mut of_counted = (0..times.len()).map(|at| {
        let before = at.checked_sub(1).and_then(gap);
        let (before, after) = (before.or(gap(at)), gap(at).or(before));
        // A single point represents the usual interval.
        before
            .zip(after)
            .map_or(USUAL_HOURS, |(a, b)| (a + b) / 2.0)
    });
    let of = |(_, has_wind): &(Time, bool)| counts(*has_wind).then(|| of_counted.next()).flatten();
    points.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::track::from_events;
    use crate::track::readers::{ImportedTrack, TrackFormat};
    use squall_data::{Calendar, Class, LatLonGrid};

    fn track(name: &str, points: &[(i64, f64, f64)]) -> ImportedTrack {
        let start = Time::new(Calendar::Standard, 2005, 8, 24, 0, 0, 0).unwrap();
        let point = |&(hours, lat_deg, lon_deg): &(i64, f64, f64)| ImportedPoint {
            time: start.add_seconds(3600 * hours),
            lon_deg,
            lat_deg,
            max_wind_m_s: Some(40.0),
            other_wind: false,
            min_psl_pa: None,
        };
        ImportedTrack {
            name: name.into(),
            identity: Identity {
                source_id: Some(name.into()),
                name: None,
            },
            class: Class::TropicalCyclone,
            season: None,
            basin: None,
            points: points.iter().map(point).collect(),
        }
    }

    #[test]
    fn tracks_are_numbered_as_they_begin_and_come_to_land() {
        let grid = LatLonGrid::global(361, 720).unwrap();
        let land = LandMask::natural_earth(&grid);
        let table = TrackTable {
            format: TrackFormat::TecaCsv,
            tracks: vec![
                // From the Gulf of Mexico into Mississippi, with an extra point at landfall.
                track(
                    "late",
                    &[
                        (6, 27.0, 270.5),
                        (12, 29.0, 270.4),
                        (15, 31.5, 270.4),
                        (18, 33.0, 271.0),
                    ],
                ),
                track("empty", &[]),
                track("early", &[(0, 15.0, 320.0), (6, 15.0, 318.0)]),
            ],
            facts: Vec::new(),
            notes: Vec::new(),
            covers: None,
        };
        let events = events(&table, &land);
        let ids: Vec<Option<u64>> = events.iter().map(|event| event.track_id).collect();
        assert_eq!(ids, [1, 1, 2, 2, 2, 2].map(Some));
        let hours: Vec<f64> = events
            .iter()
            .filter_map(|event| event.details.hours)
            .collect();
        assert_eq!(hours, [6.0, 6.0, 6.0, 4.5, 3.0, 3.0]);
        let mut tracks = from_events(&events);
        assert_eq!((tracks.len(), tracks[0].points), (2, 2));
        identify(&mut tracks, &table);
        let called = tracks.iter().map(|track| &track.details.identity);
        let called: Vec<_> = called
            .map(|identity| identity.source_id.as_deref())
            .collect();
        assert_eq!(called, [Some("early"), Some("late")]);
        let landfall = tracks[1].details.landfall.unwrap();
        assert_eq!(
            (landfall.lat_deg, tracks[1].details.landfalls),
            (31.5, Some(1))
        );
        assert_eq!(tracks[0].details.landfalls, Some(0));
        assert!(tracks[0].details.ace_1e4_kt2.unwrap() > 0.0);
    }

    /// Regression: seasons missing from a file silently counted as years without a storm.
    #[test]
    fn years_without_a_point_are_said() {
        let of = |years: &[i64]| {
            let time = |year: &i64| Time::new(Calendar::Standard, *year, 8, 1, 0, 0, 0).unwrap();
            note_of_empty_years(&years.iter().map(time).collect::<Vec<_>>())
        };
        let note = of(&[1983, 1985, 1985, 1989]).unwrap();
        let begin = "there are no points in 1984, 1986 to 1988: ";
        assert!(note.starts_with(begin), "{note}");
        assert_eq!((of(&[1983, 1984]), of(&[])), (None, None));
    }

    /// Regression: of odd seasons, even years had only the southern storms of November, and nothing was said.
    #[test]
    fn stretches_without_a_point_are_said() {
        let months = (1981..=1986).flat_map(|year| (1..=12).map(move |month| (year, month)));
        let of = |has: fn(&(i64, i64)) -> bool| {
            let time =
                |(year, month)| Time::new(Calendar::Standard, year, month, 9, 0, 0, 0).unwrap();
            let times: Vec<Time> = months.clone().filter(has).map(time).collect();
            note_of_silence(&times)
        };
        let note = of(|(year, month)| year % 2 == 1 || *month > 10).unwrap();
        let begin = "there are no points in January to October 1982, January to October 1984, ";
        assert!(note.starts_with(begin), "{note}");
        assert_eq!(of(|_| true), None);
        // Years without any are in the other note.
        assert_eq!(of(|(year, _)| year % 2 == 1), None);
    }

    /// Extra points without wind do not change the energy.
    #[test]
    fn energy_is_that_of_the_points_with_wind() {
        let grid = LatLonGrid::global(181, 360).unwrap();
        let land = LandMask::natural_earth(&grid);
        let energy = |points: &[(i64, f64, f64)], without: &[usize]| {
            let mut one = track("storm", points);
            for at in without {
                one.points[*at].max_wind_m_s = None;
            }
            let table = TrackTable {
                format: TrackFormat::IbtracsCsv,
                tracks: vec![one],
                facts: Vec::new(),
                notes: Vec::new(),
                covers: None,
            };
            let tracks = from_events(&events(&table, &land));
            tracks[0].details.ace_1e4_kt2.unwrap()
        };
        let at = |hours: i64| (hours, 15.0, 320.0);
        let plain = energy(&[at(0), at(6), at(12)], &[]);
        let between = energy(&[at(0), at(3), at(6), at(9), at(12)], &[1, 3]);
        let alike = |a: f64, b: f64| (a - b).abs() < 1e-9 * b;
        let alone = energy(&[at(0)], &[]);
        assert!(alike(between, plain) && alike(plain, 3.0 * alone));
        let hole = energy(&[at(0), at(6), at(240), at(246)], &[]);
        assert!(alike(hole, alone * (6.0 + 15.0 + 15.0 + 6.0) / 6.0));
    }
    /// Rows of another program give the same events as the same storms read as tracks.
    #[test]
    fn rows_of_others_are_completed_and_those_of_ours_stay() {
        let grid = LatLonGrid::global(361, 720).unwrap();
        let land = LandMask::natural_earth(&grid);
        let coming_ashore = [(0, 27.0, 270.5), (6, 29.0, 270.4), (12, 31.5, 270.4)];
        let table = TrackTable {
            format: TrackFormat::TecaCsv,
            tracks: vec![
                track("early", &coming_ashore),
                track("late", &[(6, 15.0, 320.0), (12, 15.0, 318.0)]),
            ],
            facts: Vec::new(),
            notes: Vec::new(),
            covers: None,
        };
        let expected = events(&table, &land);
        let mut rows = table.events();
        rows.iter_mut()
            .for_each(|row| row.track_id = row.track_id.map(|id| id + 1));
        rows.push(rows[1].clone());
        let (found, repeated) = complete(rows, &land);
        // Debug text, because unknown shapes are NaN, which is unequal to itself.
        assert_eq!(
            (format!("{found:?}"), repeated),
            (format!("{expected:?}"), 1)
        );
        // Completing a second time changes nothing, even with other hours.
        let mut ours = found;
        ours.iter_mut()
            .for_each(|row| row.details.hours = Some(3.0));
        let (again, repeated) = complete(ours.clone(), &land);
        assert_eq!((format!("{again:?}"), repeated), (format!("{ours:?}"), 0));
    }
}
