//! Rivers that merge, split and jump: which tracks continue, and how those that end are related to others.

mod discs;

use discs::{Disc, at, events, follow, grid, keep_all};
use squall_climate::Track;
use squall_climate::events::RiverOnLand;
use squall_climate::track::{Fate, Origin, Tracker, TrackerOptions};

/// Identity, number of points, origin and fate of a track, its parent and the track that it merged into.
type Summary = (u64, usize, Origin, Fate, Option<u64>, Option<u64>);

fn summaries(tracks: &[Track]) -> Vec<Summary> {
    let one = |t: &Track| {
        let (parent, into) = (t.details.parent_track, t.details.merged_into);
        (t.track_id, t.points, t.origin, t.fate, parent, into)
    };
    tracks.iter().map(one).collect()
}

/// Every 6 hours: two rivers for two times, both connected by a bridge for two times, two again for two times.
fn two_then_one_then_two(pair: [Disc; 2], bridge: Disc) -> Vec<(i64, Vec<Disc>)> {
    let (two, one) = (pair.to_vec(), [&pair[..], &[bridge]].concat());
    let each = [two.clone(), two.clone(), one.clone(), one, two.clone(), two];
    (0..).step_by(6).zip(each).collect()
}

#[test]
fn of_two_like_rivers_that_become_one_neither_goes_on() {
    // The western river makes up 0.49 of the merged one, whose centre is 714 km away.
    let pair = [(2, 40.0, 190.0, 640.0), (2, 40.0, 208.0, 560.0)];
    let history = two_then_one_then_two(pair, (2, 40.0, 199.0, 300.0));
    let (ids, tracks) = follow(keep_all(), &history);
    assert_eq!(ids.concat(), [1, 2, 1, 2, 3, 3, 4, 5, 4, 5]);
    assert_eq!(
        summaries(&tracks),
        [
            (1, 2, Origin::StartOfData, Fate::Merge, None, Some(3)),
            (2, 2, Origin::StartOfData, Fate::Merge, None, Some(3)),
            (3, 2, Origin::Split, Fate::Merge, Some(1), Some(4)),
            (4, 2, Origin::Split, Fate::EndOfData, Some(3), None),
            (5, 2, Origin::Split, Fate::EndOfData, Some(3), None),
        ]
    );
    // Relatives are recorded on both sides, and no path contains the jump.
    let details = |id: usize| &tracks[id - 1].details;
    assert_eq!(details(1).split_tracks, [3]);
    assert_eq!(details(3).merged_tracks, [1, 2]);
    assert_eq!(details(3).split_tracks, [4, 5]);
    assert_eq!(details(4).merged_tracks, [3]);
    assert!(tracks.iter().all(|t| t.distance_km < 1.0), "{tracks:?}");
    // Without the rule one track continues throughout, with 1,500 km of jumps.
    let mut options = keep_all();
    options.atmospheric_river.min_common = 0.0;
    options.atmospheric_river.max_joined_speed_km_per_day = 0.0;
    let (_, tracks) = follow(options, &history);
    assert_eq!((tracks.len(), tracks[0].points), (3, 6));
    assert!(tracks[0].distance_km > 1400.0, "{tracks:?}");
}

/// Regression: landfalls of pieces that begin over land were lost, although the river they split from was at sea.
#[test]
fn a_piece_that_begins_over_land_makes_the_landfall_of_its_river() {
    let pair = [(2, 40.0, 190.0, 640.0), (2, 40.0, 208.0, 560.0)];
    let history = two_then_one_then_two(pair, (2, 40.0, 199.0, 300.0));
    // Landfalls of each track if what lies east of 200°E is over land from a time on.
    let landfalls = |from_hours: i64| {
        let mut tracker = Tracker::new(&grid(), keep_all()).unwrap();
        let mut tracks = Vec::new();
        for (hours, discs) in &history {
            let mut found = events(&grid(), *hours, discs);
            for detected in &mut found {
                let event = &mut detected.event;
                let is_on_land = *hours >= from_hours && event.lon_deg > 195.0;
                let place = is_on_land.then_some((event.lat_deg, event.lon_deg));
                event.details.land_share = Some(if is_on_land { 0.2 } else { 0.0 });
                (event.details.land_lat_deg, event.details.land_lon_deg) = place.unzip();
                detected.on_land = place.map(|(lat, lon)| RiverOnLand {
                    cell: (lat as u32, lon as u32),
                    ivt_kg_m_s: Some(700.0),
                    ivt_proxy_kg_m_s: None,
                });
            }
            tracks.extend(tracker.push(at(*hours), &mut found).unwrap().finished);
        }
        tracks.extend(tracker.finish().finished);
        tracks.sort_by_key(|track| track.track_id);
        let first = |t: &Track| t.details.landfall.map(|l| (l.time, l.ivt_kg_m_s));
        let counts: Vec<Option<u32>> = tracks.iter().map(|t| t.details.landfalls).collect();
        (counts, tracks.iter().map(first).collect::<Vec<_>>())
    };
    let (counts, firsts) = landfalls(24);
    assert_eq!(counts, [0, 0, 0, 0, 1].map(Some));
    // With the transport there, as at any other landfall.
    assert_eq!(firsts[4], Some((at(24), Some(700.0))));
    // The merged river makes the landfall and its pieces do not, also where only one of the two before was over land.
    assert_eq!(landfalls(18).0, [0, 0, 1, 0, 0].map(Some));
    assert_eq!(landfalls(6).0, [0, 1, 0, 0, 0].map(Some));
}

#[test]
fn a_river_that_takes_in_a_small_one_and_loses_it_goes_on() {
    // The large river makes up 0.84 of the merged one.
    let pair = [(2, 40.0, 190.0, 1000.0), (2, 40.0, 208.0, 400.0)];
    let history = two_then_one_then_two(pair, (2, 40.0, 203.0, 250.0));
    let (ids, tracks) = follow(keep_all(), &history);
    assert_eq!(ids.concat(), [1, 2, 1, 2, 1, 1, 1, 3, 1, 3]);
    assert_eq!(
        summaries(&tracks),
        [
            (1, 6, Origin::StartOfData, Fate::EndOfData, None, None),
            (2, 2, Origin::StartOfData, Fate::Merge, None, Some(1)),
            (3, 2, Origin::Split, Fate::EndOfData, Some(1), None),
        ]
    );
    let details = &tracks[0].details;
    assert_eq!(details.merged_tracks, [2]);
    assert_eq!(details.split_tracks, [3]);
}

#[test]
fn a_chain_of_rivers_that_touch_by_their_ends_is_no_river() {
    // The western third of each river is the eastern third of the previous one: 1,700 km in 6 hours.
    let history: Vec<(i64, Vec<Disc>)> = (0..6)
        .map(|k: i32| {
            let third = |part: i32| (2, 40.0, f64::from(180 + 20 * k + 10 * part), 500.0);
            (6 * i64::from(k), (0..3).map(third).collect())
        })
        .collect();
    let (ids, tracks) = follow(keep_all(), &history);
    assert_eq!(ids.concat(), [1, 2, 3, 4, 5, 6]);
    for track in &tracks {
        let id = track.track_id;
        let next = (id < 6).then_some(id + 1);
        assert_eq!(track.details.parent_track, (id > 1).then(|| id - 1));
        assert_eq!(track.details.merged_into, next);
        assert_eq!(track.details.max_speed_m_s, None);
    }
    // With only the rule on a fifth of the smaller area it would be one track at 78 m/s.
    let mut options = keep_all();
    options.atmospheric_river.min_common = 0.0;
    options.atmospheric_river.max_joined_speed_km_per_day = 0.0;
    let (_, tracks) = follow(options, &history);
    assert_eq!((tracks.len(), tracks[0].points), (1, 6));
}

#[test]
fn a_river_whose_centre_jumps_is_not_the_same() {
    // The western river makes up 0.6 of the merged one, but the centre moves 1,040 km in 6 hours, which is 48 m/s.
    let pair = [(2, 40.0, 190.0, 1500.0), (2, 40.0, 225.0, 1000.0)];
    let history = two_then_one_then_two(pair, (2, 40.0, 210.0, 1000.0));
    let (ids, tracks) = follow(keep_all(), &history);
    assert_eq!(ids.concat(), [1, 2, 1, 2, 3, 3, 4, 5, 4, 5]);
    assert!(tracks.iter().all(|t| t.distance_km < 1.0), "{tracks:?}");
    let mut options = keep_all();
    options.atmospheric_river.max_joined_speed_km_per_day = 0.0;
    let (ids, _) = follow(options, &history);
    assert_eq!(ids.concat(), [1, 2, 1, 2, 1, 1, 1, 3, 1, 3]);
}

#[test]
fn only_rivers_need_a_common_half() {
    let options = TrackerOptions::default();
    let others = [
        options.tropical_cyclone,
        options.extratropical_cyclone,
        options.tropical_depression,
    ];
    for linking in others {
        let rules = (linking.min_common, linking.max_joined_speed_km_per_day);
        assert_eq!(rules, (0.0, 0.0));
        assert_eq!(linking.joined_reach_km(6.0), f64::INFINITY);
    }
    assert_eq!(options.atmospheric_river.joined_reach_km(6.0), 850.0);
    let mut options = keep_all();
    options.atmospheric_river.min_common = 1.5;
    let message = Tracker::new(&grid(), options).unwrap_err().to_string();
    assert!(message.contains("min_common = 1.5"), "{message}");
}
