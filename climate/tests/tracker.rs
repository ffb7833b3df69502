//! The tracker on hand-made histories with known results.

mod discs;

use discs::{Disc, at, events, follow, grid, keep_all};
use proptest::prelude::*;
use squall_climate::Track;
use squall_climate::events::DetectedEvent;
use squall_climate::stream::Ledger;
use squall_climate::track::{Fate, Origin, Step, Tracker, TrackerOptions};
use squall_data::grid::distance_km;
use squall_data::{Class, LatLonGrid};

#[test]
fn a_cyclone_over_the_seam_is_one_track() {
    // Westward across 0 degrees, 3 degrees of longitude in 12 h; successive masks barely overlap.
    let history: Vec<_> = (0..8)
        .map(|k| {
            (
                12 * k,
                vec![(1, 14.0 + k as f64, 12.0 - 3.0 * k as f64, 250.0)],
            )
        })
        .collect();
    let (ids, tracks) = follow(keep_all(), &history);
    assert!(ids.iter().all(|ids| ids == &[1]));
    let track = &tracks[0];
    assert_eq!((tracks.len(), track.points), (1, 8));
    assert_eq!(
        (track.origin, track.fate),
        (Origin::StartOfData, Fate::EndOfData)
    );
    // Seven steps of 3 degrees west and 1 north, about 339 km each; masks on a 2-degree grid are coarse.
    assert!((track.distance_km - 7.0 * 339.0).abs() < 350.0, "{track:?}");
    assert!(distance_km(14.0, 12.0, track.genesis_lat_deg, track.genesis_lon_deg) < 120.0);
    assert!(distance_km(21.0, -9.0, track.end_lat_deg, track.end_lon_deg) < 120.0);
    assert_eq!(track.duration_hours(), 84.0);
}

#[test]
fn tracks_that_never_reach_the_least_wind_are_not_listed() {
    // Two cyclones and a river from the second time on; one cyclone reaches 17 m/s at its fifth time, the other at most
    // 16.
    let grid = grid();
    let mut options = TrackerOptions::default();
    options.tropical_cyclone.min_peak_wind_m_s = 17.0;
    let mut tracker = Tracker::new(&grid, options).unwrap();
    tracker.push(at(0), &mut []).unwrap();
    let (mut finished, mut discarded) = (Vec::new(), Vec::new());
    for k in 1..9 {
        let discs = [
            (1, 15.0, 60.0, 300.0),
            (1, 15.0, 150.0, 300.0),
            (2, 40.0, 200.0, 900.0),
        ];
        let mut found = if k < 8 {
            events(&grid, 12 * k, &discs)
        } else {
            Vec::new()
        };
        for DetectedEvent { event, .. } in &mut found {
            let peak = if event.lon_deg < 100.0 { 17.0 } else { 16.0 };
            event.max_wind_m_s = Some(peak - f64::from((k as i32 - 5).abs()));
        }
        let step = tracker.push(at(12 * k), &mut found).unwrap();
        finished.extend(step.finished);
        discarded.extend(step.discarded);
        // Identities follow class and longitude. The strong cyclone becomes long enough and strong enough at its fifth
        // time.
        let undecided: Vec<u64> = tracker.undecided().collect();
        match k {
            1 => assert_eq!(undecided, [1, 2, 3]),
            5 | 6 => assert_eq!(undecided, [2]),
            _ => {}
        }
    }
    let step = tracker.finish();
    finished.extend(step.finished);
    discarded.extend(step.discarded);
    // The river's track finishes first: its allowed gap is shorter than a cyclone's.
    let listed: Vec<u64> = finished.iter().map(|track| track.track_id).collect();
    assert_eq!(listed, [3, 1]);
    assert_eq!(discarded, [2]);
}

#[test]
fn tracks_that_stay_where_they_began_are_not_listed() {
    // From the second to the eighth time one cyclone stays in place; the other moves 4 degrees north per step, then
    // half of the way back.
    let listed = |least_km: f64| {
        let mut options = TrackerOptions::default();
        options.tropical_cyclone.min_displacement_km = least_km;
        let history: Vec<(i64, Vec<Disc>)> = (0..10)
            .map(|k| {
                let discs = match k {
                    1..=7 => vec![
                        (1, 15.0, 60.0, 300.0),
                        (
                            1,
                            10.0 + 4.0 * [0, 1, 2, 3, 4, 5, 4, 3][k as usize] as f64,
                            150.0,
                            300.0,
                        ),
                    ],
                    _ => Vec::new(),
                };
                (12 * k, discs)
            })
            .collect();
        follow(options, &history).1.len()
    };
    assert_eq!((listed(0.0), listed(1500.0), listed(3000.0)), (2, 1, 0));
}

#[test]
fn uneven_steps_of_24_12_and_12_hours_are_followed() {
    // Two storms 20 degrees apart that move 5 degrees a day: only the right partner is within reach.
    let history: Vec<_> = [0, 24, 36, 48, 72, 84, 96]
        .map(|h| {
            let west = f64::from(h as i32) * 5.0 / 24.0;
            (
                h,
                vec![
                    (1, 15.0, 200.0 - west, 250.0),
                    (1, 15.0, 220.0 - west, 250.0),
                ],
            )
        })
        .to_vec();
    let (ids, tracks) = follow(keep_all(), &history);
    assert!(ids.iter().all(|ids| ids == &[1, 2]), "{ids:?}");
    assert!(tracks.iter().all(|track| track.points == 7));
}

#[test]
fn crossing_paths_are_told_apart_by_their_motion() {
    // One moves east and one west along neighbouring latitudes; they pass each other between two times.
    let history: Vec<_> = (0..8)
        .map(|k| {
            let x = 4.0 * f64::from(k);
            (
                12 * i64::from(k),
                vec![(1, 10.0, 166.0 + x, 180.0), (1, 15.0, 194.0 - x, 180.0)],
            )
        })
        .collect();
    let (_, tracks) = follow(keep_all(), &history);
    assert_eq!(tracks.len(), 2);
    for track in &tracks {
        assert_eq!(track.points, 8);
        assert!(
            (track.genesis_lat_deg - track.end_lat_deg).abs() < 1.5,
            "{track:?}"
        );
    }
}

/// A cyclone that moves 300 km west every 12 hours, for six times, followed by the discs `after`.
fn westward_then(after: &[Disc]) -> Vec<(i64, Vec<Disc>)> {
    let west = |k: i64| (1, 15.0, 200.0 - 2.8 * k as f64, 350.0);
    let first = (0..6).map(|k| (12 * k, vec![west(k)]));
    let then = (6..).zip(after).map(|(k, &disc)| (12 * k, vec![disc]));
    first.chain(then).collect()
}

#[test]
fn a_cyclone_that_turns_goes_on() {
    // Poleward by 300 km instead of westward, 424 km from the predicted position.
    let (_, tracks) = follow(
        keep_all(),
        &westward_then(&[(1, 17.7, 186.0, 350.0), (1, 20.4, 186.0, 350.0)]),
    );
    assert_eq!((tracks.len(), tracks[0].points), (1, 8));
}

#[test]
fn jitter_of_centres_does_not_break_a_track_of_3_hourly_data() {
    // Moves west at 5 m/s. Its centres are alternately off by 100 km to the east and west, and some times miss it.
    let grid = grid();
    let mut tracker = Tracker::new(&grid, keep_all()).unwrap();
    for k in 0..80 {
        let seen = u8::from(k % 9 != 4);
        let disc = (seen, 15.0, 250.0 - 0.5 * k as f64, 300.0);
        let mut found = events(&grid, 3 * k, &[disc]);
        let off = if k % 2 == 0 { 0.9 } else { -0.9 };
        for one in &mut found {
            (one.event.lat_deg, one.event.lon_deg) = (disc.1, disc.2 + off);
        }
        tracker.push(at(3 * k), &mut found).unwrap();
    }
    let tracks = tracker.finish().finished;
    assert_eq!((tracks.len(), tracks[0].points), (1, 71));
}

#[test]
fn what_is_calm_for_a_month_is_given_up_and_keeps_no_rows() {
    let grid = grid();
    let mut options = TrackerOptions::default();
    options.tropical_cyclone.min_peak_wind_m_s = 17.0;
    let mut tracker = Tracker::new(&grid, options).unwrap();
    let (mut ledger, mut rows) = (Ledger::default(), Vec::new());
    let mut most = 0;
    for day in 0..60 {
        // A cyclone that is present from the second day on, with storm winds on day 40 only.
        let mut found = match day {
            0 => Vec::new(),
            _ => events(&grid, 24 * day, &[(1, 15.0, 100.0, 400.0)]),
        };
        for one in &mut found {
            one.event.max_wind_m_s = Some(if day == 40 { 30.0 } else { 5.0 });
        }
        let step = tracker.push(at(24 * day), &mut found).unwrap();
        assert!(step.finished.is_empty());
        let events = found.into_iter().map(|one| one.event).collect();
        rows.extend(ledger.add(events, &tracker, &step.discarded));
        most = most.max(ledger.len());
    }
    assert!((25..=32).contains(&most), "{most} rows waited");
    let last = tracker.finish();
    rows.extend(ledger.finish(&last.discarded));
    assert_eq!(rows.len(), 59);
    let days = |k: usize| last.finished[0].start == at(24 * k as i64);
    assert!(last.finished.len() == 1 && days(33), "{:?}", last.finished);
    // Rows 1 to 32 belong to the abandoned track.
    let of_storm = rows.iter().map(|event| event.track_id.is_some());
    assert!(of_storm.eq((1..60).map(|day| day > 32)), "{rows:?}");
}

#[test]
fn a_cyclone_that_forms_behind_one_that_ended_is_a_new_one() {
    // Within reach (900 km in 12 hours), but not where a westward-moving cyclone would go.
    let behind = [(1, 16.0, 190.5, 350.0), (1, 16.0, 193.3, 350.0)];
    let (ids, tracks) = follow(keep_all(), &westward_then(&behind));
    assert_eq!(ids.concat(), [1, 1, 1, 1, 1, 1, 2, 2]);
    assert_eq!(tracks[1].origin, Origin::Genesis);
    // At the predicted position it is the same cyclone, even after a time without it.
    let (ids, _) = follow(
        keep_all(),
        &westward_then(&[(0, 0.0, 0.0, 1.0), (1, 15.0, 180.4, 350.0)]),
    );
    assert_eq!(ids.concat(), [1; 7]);
}

#[test]
fn rivers_merge_and_split() {
    let (left, right) = ((2, 40.0, 190.0, 900.0), (2, 40.0, 214.0, 700.0));
    let both = vec![left, right, (2, 40.0, 203.0, 500.0)];
    let history = [
        (0, vec![left, right]),
        (6, vec![left, right]),
        (12, both.clone()),
        (18, both),
        (24, vec![left, right]),
        (30, vec![left, right]),
        (36, vec![]),
        (42, vec![]),
        (48, vec![]),
    ];
    let (ids, tracks) = follow(keep_all(), &history);
    assert_eq!(
        ids[..6],
        [
            vec![1, 2],
            vec![1, 2],
            vec![1],
            vec![1],
            vec![1, 3],
            vec![1, 3]
        ]
    );
    let summaries: Vec<_> = tracks
        .iter()
        .map(|t| (t.track_id, t.points, t.origin, t.fate, t.related_track))
        .collect();
    assert_eq!(
        summaries,
        [
            (1, 6, Origin::StartOfData, Fate::Lysis, None),
            (2, 2, Origin::StartOfData, Fate::Merge, Some(1)),
            (3, 2, Origin::Split, Fate::Lysis, Some(1)),
        ]
    );
}

#[test]
fn gaps_are_bridged_up_to_their_limit() {
    let storm = |k: i64| vec![(1, 15.0, 150.0 - 0.2 * k as f64, 250.0)];
    let history = |silent: std::ops::Range<i64>| -> Vec<_> {
        (0..20)
            .map(|k| {
                (
                    6 * k,
                    if silent.contains(&k) {
                        vec![]
                    } else {
                        storm(6 * k)
                    },
                )
            })
            .collect()
    };
    // Unseen between 18 h and 42 h: 24 h between detections, the limit for cyclones.
    let (_, tracks) = follow(keep_all(), &history(4..7));
    assert_eq!((tracks.len(), tracks[0].points), (1, 17));
    let (_, tracks) = follow(keep_all(), &history(4..8));
    let summaries: Vec<_> = tracks
        .iter()
        .map(|t| (t.points, t.origin, t.fate))
        .collect();
    assert_eq!(
        summaries,
        [
            (4, Origin::StartOfData, Fate::Lysis),
            (12, Origin::Genesis, Fate::EndOfData)
        ]
    );
    assert_eq!(tracks[0].end, at(18));
}

#[test]
fn one_step_of_daily_data_is_bridged_and_a_day_without_is_not() {
    // A river may be missing for 12 hours, or for one step of the data.
    let river = |day: i64| (2u8, 40.0, 150.0 + 5.0 * day as f64, 900.0);
    let history: Vec<(i64, Vec<Disc>)> = (0..6)
        .map(|day| {
            (
                24 * day,
                (day != 3).then(|| river(day)).into_iter().collect(),
            )
        })
        .collect();
    let (ids, tracks) = follow(keep_all(), &history);
    assert_eq!(ids, [vec![1], vec![1], vec![1], vec![], vec![2], vec![2]]);
    let summaries: Vec<_> = tracks.iter().map(|t| (t.origin, t.fate)).collect();
    assert_eq!(
        summaries,
        [
            (Origin::StartOfData, Fate::Lysis),
            (Origin::Genesis, Fate::EndOfData)
        ]
    );
}

#[test]
fn a_hole_in_the_data_ends_and_begins_tracks() {
    let storm = vec![(1, 15.0, 150.0, 250.0), (2, 40.0, 20.0, 900.0)];
    let history = [
        (0, storm.clone()),
        (3, storm.clone()),
        (72, storm.clone()),
        (75, storm),
    ];
    let (_, tracks) = follow(keep_all(), &history);
    assert_eq!(tracks.len(), 4);
    for track in &tracks {
        assert_eq!(
            (track.origin, track.fate),
            (Origin::StartOfData, Fate::EndOfData)
        );
        assert_eq!(track.points, 2);
    }
}

#[test]
fn short_tracks_are_discarded_unless_the_data_cut_them() {
    let storm = (1, 15.0, 150.0, 250.0);
    let blip = (1, -15.0, 50.0, 250.0);
    let grid = grid();
    let mut tracker = Tracker::new(&grid, TrackerOptions::default()).unwrap();
    let mut all = Step::default();
    for k in 0..12 {
        let discs = if (3..5).contains(&k) {
            vec![storm, blip]
        } else {
            vec![storm]
        };
        let step = tracker
            .push(at(6 * k), &mut events(&grid, 6 * k, &discs))
            .unwrap();
        all.finished.extend(step.finished);
        all.discarded.extend(step.discarded);
    }
    let last = tracker.finish();
    assert_eq!((all.finished.len(), all.discarded), (0, vec![2]));
    assert_eq!((last.finished.len(), last.finished[0].points), (1, 12));
}

#[test]
fn wrong_order_wrong_time_wrong_grid_and_wrong_options_are_refused() {
    let grid = grid();
    let mut tracker = Tracker::new(&grid, keep_all()).unwrap();
    tracker.push(at(6), &mut []).unwrap();
    let before = tracker.clone();
    let message = tracker.push(at(6), &mut []).unwrap_err().to_string();
    assert!(message.contains("1999-12-30T06"), "{message}");
    let mut late = events(&grid, 9, &[(1, 15.0, 150.0, 250.0)]);
    let message = tracker.push(at(12), &mut late).unwrap_err().to_string();
    assert!(
        message.contains("expected 1999-12-30T12") && message.contains("found 1999-12-30T09"),
        "{message}"
    );
    for (rows, columns) in [(181, 180), (91, 360)] {
        let finer = LatLonGrid::global(rows, columns).unwrap();
        let mut outside = events(&finer, 12, &[(1, 75.0, 350.0, 250.0)]);
        let message = tracker.push(at(12), &mut outside).unwrap_err().to_string();
        assert!(
            message.contains("expected rows below 91, columns below 180"),
            "{message}"
        );
    }
    let mut nothing = events(&grid, 12, &[(1, 15.0, 150.0, 250.0)]);
    nothing[0].event.class = Class::Background;
    let message = tracker.push(at(12), &mut nothing).unwrap_err().to_string();
    assert!(message.contains("of the background"), "{message}");
    assert_eq!(tracker, before);
    let mut options = keep_all();
    options.atmospheric_river.max_gap_hours = f64::NAN;
    let message = Tracker::new(&grid, options).unwrap_err().to_string();
    assert!(
        message.contains("max_gap_hours") && message.contains("atmospheric_river"),
        "{message}"
    );
}

#[test]
fn memory_holds_the_living_only() {
    // 400 storms in succession: only open tracks, including those within their gap, are kept.
    let grid = grid();
    let mut tracker = Tracker::new(&grid, keep_all()).unwrap();
    let (mut finished, mut most, mut largest) = (0, 0, 0);
    for k in 0..400i64 {
        let lon = (k * 70 % 360) as f64;
        let step = tracker
            .push(
                at(12 * k),
                &mut events(&grid, 12 * k, &[(1, 10.0, lon, 300.0)]),
            )
            .unwrap();
        finished += step.finished.len();
        most = most.max(tracker.open_tracks());
        largest = largest.max(serde_json::to_vec(&tracker).unwrap().len());
        if k == 40 {
            assert!(finished > 30);
        }
    }
    assert!(most <= 3, "{most}");
    assert!(largest < 12_000, "{largest} bytes of state");
    assert_eq!(finished + tracker.finish().finished.len(), 400);
}

/// Histories of random discs that drift, appear and vanish.
fn some_history() -> impl Strategy<Value = Vec<(i64, Vec<Disc>)>> {
    let disc = (
        1u8..3,
        -60.0..60.0f64,
        0.0..360.0f64,
        250.0..900.0f64,
        -4.0..4.0f64,
        0usize..8,
        2usize..9,
    );
    let steps = proptest::collection::vec(
        prop_oneof![Just(3i64), Just(6), Just(12), Just(24), Just(60)],
        12,
    );
    (proptest::collection::vec(disc, 1..9), steps).prop_map(|(discs, steps)| {
        let mut hours = 0;
        steps
            .into_iter()
            .enumerate()
            .map(|(k, step)| {
                hours += step;
                let seen = discs
                    .iter()
                    .filter(|d| (d.5..d.5 + d.6).contains(&k))
                    .map(|d| (d.0, d.1, d.2 + d.4 * hours as f64 / 12.0, d.3))
                    .collect();
                (hours, seen)
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn saving_and_restoring_between_any_two_times_changes_nothing(history in some_history(), cut in 0usize..12) {
        let grid = grid();
        let whole = follow(TrackerOptions::default(), &history);
        let mut tracker = Tracker::new(&grid, TrackerOptions::default()).unwrap();
        let (mut ids, mut tracks) = (Vec::new(), Vec::new());
        for (k, (hours, discs)) in history.iter().enumerate() {
            if k == cut {
                let text = serde_json::to_string(&tracker).unwrap();
                let restored: Tracker = serde_json::from_str(&text).unwrap();
                prop_assert_eq!(&restored, &tracker);
                tracker = restored;
            }
            // The order of the events does not matter either.
            let mut found = events(&grid, *hours, discs);
            found.reverse();
            let mut step = tracker.push(at(*hours), &mut found).unwrap();
            step.ids.reverse();
            ids.push(step.ids);
            tracks.extend(step.finished);
        }
        tracks.extend(tracker.finish().finished);
        tracks.sort_by_key(|track| track.track_id);
        prop_assert_eq!((ids, tracks), whole);
    }

    #[test]
    fn every_event_is_in_one_track_and_points_add_up(history in some_history()) {
        let (ids, tracks) = follow(keep_all(), &history);
        for ids in &ids {
            let mut sorted = ids.clone();
            sorted.sort_unstable();
            sorted.dedup();
            prop_assert_eq!(sorted.len(), ids.len());
        }
        for track in &tracks {
            let seen = ids.iter().filter(|ids| ids.contains(&track.track_id)).count();
            prop_assert_eq!(seen, track.points);
            prop_assert_eq!(track.related_track.is_some(), track.fate == Fate::Merge || track.origin == Origin::Split);
            prop_assert!(track.mean_area_km2 <= track.max_area_km2 * (1.0 + 1e-12));
        }
        let total: usize = ids.iter().map(Vec::len).sum();
        prop_assert_eq!(total, tracks.iter().map(|t| t.points).sum::<usize>());
    }
}

#[test]
fn tracked_events_give_their_tracks_again() {
    let grid = grid();
    let mut tracker = Tracker::new(&grid, TrackerOptions::default()).unwrap();
    let (mut all, mut finished) = (Vec::new(), Vec::new());
    for step in 0..20 {
        let drift = step as f64 * 1.5;
        let mut discs = vec![
            (1, 15.0, 60.0 + drift, 500.0),
            (2, -40.0, 200.0 + drift, 900.0),
        ];
        if (3..17).contains(&step) {
            discs.push((1, -15.0, 300.0 - drift, 500.0));
        }
        let mut found = events(&grid, 6 * step, &discs);
        finished.extend(tracker.push(at(6 * step), &mut found).unwrap().finished);
        all.extend(found.into_iter().map(|one| one.event));
    }
    finished.extend(tracker.finish().finished);
    finished.sort_by_key(|track| track.track_id);
    assert_eq!(finished.len(), 3);
    assert_eq!(squall_climate::track::from_events(&all), finished);
}

/// Masks every 6 hours, pressure every 12: mask centres, 200 km from the eye, are not part of the path.
#[test]
fn paths_do_not_zigzag_between_two_kinds_of_centres() {
    let grid = grid();
    let follow = |has_pressure: &dyn Fn(i64) -> bool| {
        let mut tracker = Tracker::new(&grid, keep_all()).unwrap();
        for k in 0..9 {
            let east = 60.0 + k as f64;
            let mut found = events(&grid, 6 * k, &[(1, 15.0, east, 500.0)]);
            let event = &mut found[0].event;
            (event.lat_deg, event.lon_deg) = (16.5, east + 1.0);
            if has_pressure(k) {
                event.min_psl_pa = Some(98_000.0);
                (event.lat_deg, event.lon_deg) = (15.0, east);
            }
            tracker.push(at(6 * k), &mut found).unwrap();
        }
        let mut tracks = tracker.finish().finished;
        assert_eq!((tracks.len(), tracks[0].points), (1, 9));
        tracks.remove(0)
    };
    let degree_km = |lat: f64| distance_km(lat, 60.0, lat, 61.0);
    let all = follow(&|_| true);
    assert!((all.distance_km - 8.0 * degree_km(15.0)).abs() < 1e-6);
    let half = follow(&|k| k % 2 == 0);
    assert!((half.distance_km - all.distance_km).abs() < 1.0, "{half:?}");
    let speed = |track: &Track| track.details.max_speed_m_s.unwrap();
    assert!((speed(&half) - speed(&all)).abs() < 0.01, "{half:?}");
    // If pressure is missing for more than a day, the path uses the mask centres.
    let first = follow(&|k| k == 0);
    let expected = distance_km(15.0, 60.0, 16.5, 66.0) + 3.0 * degree_km(16.5);
    assert!((first.distance_km - expected).abs() < 1e-6, "{first:?}");
}

/// Daily pressure with masks every 6 hours: a landfall between two lows is counted once, and positions after the last
/// low are part of the path.
#[test]
fn landfalls_and_ends_beside_lows_are_kept() {
    let grid = grid();
    let mut tracker = Tracker::new(&grid, keep_all()).unwrap();
    for k in 0..8 {
        let east = 60.0 + k as f64;
        let mut found = events(&grid, 6 * k, &[(1, 15.0, east, 500.0)]);
        let event = &mut found[0].event;
        (event.lat_deg, event.lon_deg) = (16.5, east + 1.0);
        if k % 4 == 0 {
            event.min_psl_pa = Some(98_000.0);
            (event.lat_deg, event.lon_deg) = (15.0, east);
        }
        // On land after the first low, at sea again before the second; on land once more after it.
        let on_land = k == 2 || k == 6;
        event.details.land_share = Some(f64::from(u8::from(on_land)));
        event.details.land_lat_deg = on_land.then_some(16.5);
        event.details.land_lon_deg = on_land.then_some(east + 1.0);
        tracker.push(at(6 * k), &mut found).unwrap();
    }
    let tracks = tracker.finish().finished;
    let track = &tracks[0];
    assert_eq!((tracks.len(), track.points), (1, 8));
    assert_eq!(track.details.landfalls, Some(2));
    assert_eq!(track.details.landfall.unwrap().time, at(12));
    let between_km = distance_km(15.0, 60.0, 15.0, 64.0);
    let after_km = distance_km(15.0, 64.0, 16.5, 68.0);
    let path_km = between_km + after_km;
    assert!((track.distance_km - path_km).abs() < 1e-6, "{track:?}");
    let mean = track.mean_speed_m_s().unwrap();
    assert!((mean - path_km * 1000.0 / (42.0 * 3600.0)).abs() < 1e-9);
    let highest = track.details.max_speed_m_s.unwrap();
    let between = between_km * 1000.0 / (24.0 * 3600.0);
    assert!((highest - between.max(mean)).abs() < 1e-9, "{track:?}");
}

#[test]
fn a_path_with_one_low_has_a_length() {
    let grid = grid();
    let mut tracker = Tracker::new(&grid, keep_all()).unwrap();
    for k in 0..3 {
        let mut found = events(&grid, 6 * k, &[(1, 15.0, 60.0 + k as f64, 500.0)]);
        let event = &mut found[0].event;
        event.min_psl_pa = (k == 0).then_some(98_000.0);
        (event.lat_deg, event.lon_deg) = (15.0, 60.0 + k as f64);
        tracker.push(at(6 * k), &mut found).unwrap();
    }
    let track = tracker.finish().finished.remove(0);
    let path_km = distance_km(15.0, 60.0, 15.0, 62.0);
    assert!((track.distance_km - path_km).abs() < 1e-6, "{track:?}");
    assert_eq!(track.details.max_speed_m_s, track.mean_speed_m_s());
}
