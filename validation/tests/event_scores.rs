//! Event and track scores against hand-made cases.

use approx::assert_relative_eq;
use rand::Rng;
use squall_climate::Event;
use squall_data::grid::KM_PER_DEGREE;
use squall_data::random::stream;
use squall_data::{Calendar, Class, Time};
use squall_validation::bootstrap::Bootstrap;
use squall_validation::event_scores::match_events;
use squall_validation::{
    MatchingRules, Record, TrackRules, score_events, score_listed_tracks, score_tracks,
};

fn time(step: i64) -> Time {
    Time::new(Calendar::NoLeap, 2001, 8, 1, 0, 0, 0)
        .unwrap()
        .add_seconds(step * 10_800)
}

/// An event at (lat, lon) with a box of 2 degrees around it.
fn event(class: Class, step: i64, lat_deg: f64, lon_deg: f64) -> Event {
    Event {
        class,
        time: time(step),
        track_id: None,
        lon_deg,
        lat_deg,
        area_km2: 1e5,
        west_deg: (lon_deg - 1.0).rem_euclid(360.0),
        south_deg: lat_deg - 1.0,
        east_deg: (lon_deg + 1.0).rem_euclid(360.0),
        north_deg: lat_deg + 1.0,
        length_km: 300.0,
        width_km: 300.0,
        orientation_deg: 0.0,
        min_psl_pa: None,
        max_wind_m_s: None,
        max_tmq_kg_m2: None,
        mean_prect_m_s: None,
        mean_probability: None,
        details: Default::default(),
    }
}

fn cyclone(step: i64, lat_deg: f64, lon_deg: f64) -> Event {
    event(Class::TropicalCyclone, step, lat_deg, lon_deg)
}

fn on_track(id: u64, mut event: Event) -> Event {
    event.track_id = Some(id);
    event
}

fn no_draws() -> Bootstrap {
    Bootstrap {
        draws: 0,
        ..Bootstrap::default()
    }
}

#[test]
fn hits_misses_and_false_alarms_by_hand() {
    // One hit across the seam (2 degrees at the equator), one miss, one false alarm; at another time a false alarm
    // alone.
    let truth = [cyclone(0, 0.0, 359.0), cyclone(0, 20.0, 100.0)];
    let predicted = [
        cyclone(0, 0.0, 1.0),
        cyclone(0, -20.0, 100.0),
        cyclone(1, 20.0, 100.0),
    ];
    let scores = score_events(&truth, &predicted, &MatchingRules::default(), &no_draws());
    let score = scores.classes[0];
    assert_eq!((score.hits, score.misses, score.false_alarms), (1, 1, 2));
    assert_eq!(
        (score.pod, score.far, score.csi),
        (Some(0.5), Some(2.0 / 3.0), Some(0.25))
    );
    assert_relative_eq!(
        score.mean_distance_km.unwrap(),
        2.0 * KM_PER_DEGREE,
        max_relative = 1e-9
    );
    assert_eq!(score.pod_interval, None);
    let rivers = scores.classes[1];
    assert_eq!((rivers.pod, rivers.far, rivers.csi), (None, None, None));
    let text = scores.to_string();
    assert!(
        text.contains("1 hits, 1 misses, 2 false alarms") && text.contains("FAR  66.7 %"),
        "{text}"
    );
}

#[test]
fn matching_is_one_to_one_and_nearest_first() {
    // Prediction 0 is nearer to truth 1 than to truth 0, but truth 1 goes to prediction 2, which is nearer still.
    let truth = [cyclone(0, 0.0, 100.0), cyclone(0, 0.0, 103.0)];
    let predicted = [
        cyclone(0, 0.0, 102.0),
        cyclone(0, 0.0, 97.0),
        cyclone(0, 0.0, 103.5),
    ];
    let truth: Vec<&Event> = truth.iter().collect();
    let predicted: Vec<&Event> = predicted.iter().collect();
    let pairs = match_events(&truth, &predicted, &MatchingRules::default());
    let pairs: Vec<(usize, usize)> = pairs.iter().map(|pair| (pair.0, pair.1)).collect();
    assert_eq!(pairs, [(1, 2), (0, 0)]);
}

#[test]
fn classes_are_never_matched_with_each_other() {
    let truth = [cyclone(0, 10.0, 50.0)];
    let predicted = [event(Class::AtmosphericRiver, 0, 10.0, 50.0)];
    let scores = score_events(&truth, &predicted, &MatchingRules::default(), &no_draws());
    assert_eq!((scores.classes[0].misses, scores.classes[0].hits), (1, 0));
    assert_eq!(scores.classes[1].false_alarms, 1);
}

#[test]
fn boxes_overlap_over_the_seam() {
    let mut a = event(Class::AtmosphericRiver, 0, 0.0, 0.0);
    (a.west_deg, a.east_deg) = (350.0, 10.0);
    let mut b = a.clone();
    (b.west_deg, b.east_deg) = (0.0, 20.0);
    let box_iou = |a: &Event, b: &Event| a.bounding_box().overlap(&b.bounding_box());
    assert_relative_eq!(box_iou(&a, &a), 1.0);
    assert_relative_eq!(box_iou(&a, &b), 10.0 / 30.0, max_relative = 1e-12);
    assert_relative_eq!(box_iou(&b, &a), 10.0 / 30.0, max_relative = 1e-12);
    (b.west_deg, b.east_deg) = (20.0, 30.0);
    assert_eq!(box_iou(&a, &b), 0.0);
    (b.south_deg, b.north_deg) = (10.0, 20.0);
    (b.west_deg, b.east_deg) = (350.0, 10.0);
    assert_eq!(box_iou(&a, &b), 0.0);
}

#[test]
fn long_rivers_match_by_their_boxes() {
    // Centres 20 degrees (2224 km) apart, but the boxes share 20 of 60 degrees.
    let mut truth = event(Class::AtmosphericRiver, 0, 0.0, 200.0);
    (truth.west_deg, truth.east_deg) = (180.0, 220.0);
    let mut predicted = event(Class::AtmosphericRiver, 0, 0.0, 220.0);
    (predicted.west_deg, predicted.east_deg) = (200.0, 240.0);
    let score = |rules| {
        score_events(
            std::slice::from_ref(&truth),
            std::slice::from_ref(&predicted),
            &rules,
            &no_draws(),
        )
    };
    let rules = MatchingRules::default();
    assert_eq!(score(rules).classes[1].hits, 1);
    let strict = MatchingRules {
        ar_box_iou: 0.5,
        ..rules
    };
    assert_eq!(score(strict).classes[1].hits, 0);
}

#[test]
fn intervals_hold_the_value_and_shrink_with_data() {
    let run = |days: i64| {
        let (mut truth, mut predicted) = (Vec::new(), Vec::new());
        for step in 0..days * 8 {
            truth.push(cyclone(step, 10.0, 50.0));
            // Found on three days of four, in an irregular order.
            if (step / 8 * 7919) % 4 != 0 {
                predicted.push(cyclone(step, 10.0, 51.0));
            }
        }
        let daily = Bootstrap {
            block_days: 1.0,
            ..Bootstrap::default()
        };
        score_events(&truth, &predicted, &MatchingRules::default(), &daily).classes[0]
    };
    let (short, long) = (run(20), run(320));
    for score in [short, long] {
        let (pod, interval) = (score.pod.unwrap(), score.pod_interval.unwrap());
        assert!(interval.low <= pod && pod <= interval.high, "{score:?}");
    }
    let width = |score: squall_validation::event_scores::EventScore| {
        score.pod_interval.map(|i| i.high - i.low).unwrap()
    };
    // sqrt(16) times narrower, within the noise of 1000 draws.
    assert_relative_eq!(width(short) / width(long), 4.0, max_relative = 0.25);
}

#[test]
fn scores_of_tracks_by_hand() {
    let mut truth = Vec::new();
    let mut predicted = Vec::new();
    for step in 0..10 {
        let lon = 100.0 + step as f64;
        // Track 1 is followed by two pieces (6 and 4 points), 1 degree off; track 2 only at 4 of 10 times.
        truth.push(on_track(1, cyclone(step, 0.0, lon)));
        predicted.push(on_track(
            if step < 6 { 7 } else { 8 },
            cyclone(step, 1.0, lon),
        ));
        truth.push(on_track(2, cyclone(step, 30.0, lon)));
        let off = if step < 4 { 0.0 } else { 10.0 };
        predicted.push(on_track(9, cyclone(step, 30.0 + off, lon)));
        // Untracked events do not count.
        predicted.push(cyclone(step, -40.0, lon));
    }
    let score = score_tracks(&truth, &predicted, &TrackRules::default()).classes[0];
    assert_eq!((score.true_tracks, score.hits), (2, 1));
    // Track 9 is near truth at 4 of its own 10 times only.
    assert_eq!((score.predicted_tracks, score.false_alarms), (3, 1));
    assert_eq!((score.pod, score.far), (Some(0.5), Some(1.0 / 3.0)));
    assert_relative_eq!(
        score.mean_distance_km.unwrap(),
        KM_PER_DEGREE,
        max_relative = 1e-9
    );
    assert_eq!(score.pieces_per_track, Some(2.0));
    let lenient = TrackRules {
        min_share: 0.4,
        ..TrackRules::default()
    };
    let score = score_tracks(&truth, &predicted, &lenient).classes[0];
    assert_eq!((score.hits, score.false_alarms), (2, 0));
}

#[test]
fn a_class_that_a_side_did_not_follow_has_no_score_of_tracks() {
    let rules = TrackRules::default();
    let river = |step| event(Class::AtmosphericRiver, step, 40.0, 200.0);
    let storm = |step| on_track(1, cyclone(step, 10.0, 50.0));
    // As `squall events` writes them, and as labels do: rivers without a track.
    let followed: Vec<Event> = (0..4)
        .flat_map(|step| [storm(step), on_track(2, river(step))])
        .collect();
    let labels: Vec<Event> = (0..4).flat_map(|step| [storm(step), river(step)]).collect();
    for (truth, predicted, objects) in [
        (&labels, &followed, (Some(4), None)),
        (&followed, &labels, (None, Some(4))),
        (&labels, &labels, (Some(4), Some(4))),
    ] {
        let scores = score_listed_tracks(truth, predicted, &rules);
        let [storms] = scores.classes[..] else {
            panic!("{scores:?}");
        };
        assert_eq!(
            (storms.class, storms.hits),
            (Class::TropicalCyclone, 1),
            "{scores}"
        );
        let [rivers] = scores.unfollowed[..] else {
            panic!("{scores:?}");
        };
        assert_eq!(rivers.class, Class::AtmosphericRiver);
        assert_eq!((rivers.true_objects, rivers.predicted_objects), objects);
        assert!(
            scores
                .to_string()
                .contains("\natmospheric_river tracks: not scored, none of the 4 "),
            "{scores}"
        );
    }
    // Who really saw no river has missed or invented none.
    let quiet: Vec<Event> = (0..4).map(storm).collect();
    let missed = score_listed_tracks(&followed, &quiet, &rules).classes[1];
    assert_eq!((missed.pod, missed.far), (Some(0.0), None));
    let invented = score_listed_tracks(&quiet, &followed, &rules).classes[1];
    assert_eq!((invented.pod, invented.far), (None, Some(1.0)));
    // Where both sides followed all classes, an object without a track was seen too shortly.
    let short = score_tracks(&followed, &labels, &rules).classes[1];
    assert_eq!((short.true_tracks, short.predicted_tracks), (1, 0));
}

#[test]
fn events_of_each_class_have_a_reach_of_their_own() {
    // A degree of latitude is 111.2 km: 500 km are 4.5 degrees, 1500 km 13.5. Boxes of two degrees do not meet.
    for (class, degrees, is_hit) in [
        (Class::TropicalCyclone, 4.0, true),
        (Class::TropicalCyclone, 5.0, false),
        (Class::ExtratropicalCyclone, 4.0, true),
        (Class::ExtratropicalCyclone, 5.0, false),
        (Class::AtmosphericRiver, 13.0, true),
        (Class::AtmosphericRiver, 14.0, false),
    ] {
        let truth = event(class, 0, 10.0, 200.0);
        let predicted = event(class, 0, 10.0 + degrees, 200.0);
        let rules = MatchingRules::default();
        let scores = score_events(&[truth], &[predicted], &rules, &no_draws());
        let score = scores.classes.iter().find(|score| score.class == class);
        assert_eq!(score.unwrap().hits == 1, is_hit, "{class:?} {degrees}");
    }
}

#[test]
fn each_rate_has_its_own_interval_and_blocks_begin_with_the_first_time() {
    // Every day one of two storms is found and two of three predicted ones are false: all draws say the same.
    let run = |days: i64| {
        let (mut truth, mut predicted) = (Vec::new(), Vec::new());
        // Tables need not be in the order of time.
        for day in (0..days).map(|day| (day + 7) % days) {
            truth.extend([50.0, 150.0].map(|lon| cyclone(8 * day, 10.0, lon)));
            predicted.extend([50.0, 250.0, 300.0].map(|lon| cyclone(8 * day, 10.0, lon)));
        }
        let rules = MatchingRules::default();
        score_events(&truth, &predicted, &rules, &Bootstrap::default()).classes[0]
    };
    let score = run(25);
    for (interval, rate) in [
        (score.pod_interval, 0.5),
        (score.far_interval, 2.0 / 3.0),
        (score.csi_interval, 0.25),
    ] {
        let interval = interval.unwrap();
        assert_eq!((interval.low, interval.high), (rate, rate));
    }
    // Twenty days are four blocks of five, which are too few; of a day more there is a fifth.
    assert_eq!(run(20).pod_interval, None);
    assert!(run(21).pod_interval.is_some());
}

#[test]
fn tracks_of_each_class_have_a_reach_of_their_own() {
    // 300 km are 2.7 degrees of latitude, 1000 km 9.
    for (class, degrees, hits) in [
        (Class::TropicalCyclone, 2.5, 1),
        (Class::TropicalCyclone, 3.0, 0),
        (Class::AtmosphericRiver, 8.5, 1),
        (Class::AtmosphericRiver, 9.5, 0),
    ] {
        let at = |lat_deg: f64| -> Vec<Event> {
            let points = (0..4).map(|step| event(class, step, lat_deg, 100.0));
            points.map(|point| on_track(1, point)).collect()
        };
        let scores = score_tracks(&at(10.0), &at(10.0 + degrees), &TrackRules::default());
        let score = scores.classes.iter().find(|score| score.class == class);
        let score = score.unwrap();
        let found = (score.hits, score.false_alarms);
        assert_eq!(found, (hits, 1 - hits), "{class:?} {degrees}");
    }
}

#[test]
fn the_nearest_of_tracks_that_follow_a_storm_tells_its_distance() {
    // The first storm has tracks 1 and 2 degrees off at its four times, the second one 2 degrees off at its twelve.
    let (mut truth, mut predicted) = (Vec::new(), Vec::new());
    for step in 0..12 {
        if step < 4 {
            truth.push(on_track(1, cyclone(step, 0.0, 100.0)));
            predicted.push(on_track(6, cyclone(step, 1.0, 100.0)));
            predicted.push(on_track(7, cyclone(step, 2.0, 100.0)));
        }
        truth.push(on_track(2, cyclone(step, 0.0, 200.0)));
        predicted.push(on_track(8, cyclone(step, 2.0, 200.0)));
    }
    let score = score_tracks(&truth, &predicted, &TrackRules::default()).classes[0];
    assert_eq!((score.hits, score.false_alarms), (2, 0));
    // The mean of points, not of storms: (4 · 1 + 12 · 2) / 16 degrees.
    assert_relative_eq!(
        score.mean_distance_km.unwrap(),
        1.75 * KM_PER_DEGREE,
        max_relative = 1e-9
    );
    assert_eq!(score.pieces_per_track, Some(1.5));
}

#[test]
fn chance_levels_by_hand_and_the_skill_of_perfect_predictions() {
    // One storm stands still in the first half of forty days and is found at all of them.
    let storm = |id| -> Vec<Event> {
        let at = |day: i64| on_track(id, cyclone(8 * day, 15.0, 150.0));
        (0..20).map(at).collect()
    };
    let (truth, predicted) = (storm(1), storm(9));
    let record = Record::of_times((0..40).map(|day| time(8 * day)));
    let events = score_events(&truth, &predicted, &MatchingRules::default(), &no_draws());
    let events = events.with_chance(&truth, &predicted, &record);
    // Moved by 10, 12, 14, 16, 18, 21, 23, 25, 27 and 30 days, around the end, they share 10, 8, 6, 4, 2, 1, 3, 5, 7 and
    // 10 days: 56 of 200.
    let score = events.classes[0];
    assert_eq!((score.pod, score.chance_pod), (Some(1.0), Some(0.28)));
    assert_eq!((score.chance_far, score.skill), (Some(0.72), Some(1.0)));
    assert_eq!(score.chance_csi, Some(56.0 / 344.0));
    assert_eq!(events.chance.shifts, 10);
    let rivers = events.classes[1];
    assert_eq!((rivers.chance_pod, rivers.skill), (None, None));
    let text = events.to_string();
    let line =
        "100.0 %  share of the true events that were found\n  chance finds 28.0 %: skill 1.00\n";
    assert!(text.contains(line), "{text}");
    // Half of the points are near in the first and the last shift alone.
    let tracks = score_tracks(&truth, &predicted, &TrackRules::default());
    let tracks = tracks.with_chance(&truth, &predicted, &record);
    let score = tracks.classes[0];
    assert_eq!((score.chance_pod, score.chance_far), (Some(0.2), Some(0.8)));
    assert_eq!((score.pod, score.skill), (Some(1.0), Some(1.0)));
    let told = tracks.to_string();
    assert!(told.contains("chance finds 20.0 %"), "{told}");
    // How chance was found stands below the events, and not twice.
    assert!(text.contains("\nchance: the POD of the same predictions"));
    assert!(!told.contains("chance: "), "{told}");
}

/// Rivers of one run were found at a third of the times of another, and nothing said that this is chance.
#[test]
fn unrelated_predictions_have_no_skill() {
    let rivers = |name: &str| -> Vec<Event> {
        let mut random = stream(1, name, &[]);
        let steps = (0..60 * 4).flat_map(|step| [2 * step; 4]);
        let at = |step| {
            let lon_deg = random.random_range(0.0..360.0);
            event(Class::AtmosphericRiver, step, 40.0, lon_deg)
        };
        steps.map(at).collect()
    };
    let (truth, predicted) = (rivers("one"), rivers("other"));
    let record = Record::of_times((0..60 * 4).map(|step| time(2 * step)));
    let score = |predicted: &[Event]| {
        let scores = score_events(&truth, predicted, &MatchingRules::default(), &no_draws());
        scores.with_chance(&truth, predicted, &record).classes[1]
    };
    let unrelated = score(&predicted);
    let (chance, skill) = (unrelated.chance_pod.unwrap(), unrelated.skill.unwrap());
    assert!(
        (0.25..0.4).contains(&chance) && skill.abs() < 0.08,
        "{unrelated:?}"
    );
    assert_eq!(score(&truth).skill, Some(1.0));
    assert_eq!(score(&[]).skill, Some(0.0));
}

#[test]
fn a_short_record_has_no_chance_level_and_says_so() {
    let truth = [cyclone(0, 15.0, 150.0)];
    let record = Record::of_times((0..29 * 8).map(time));
    let scores = score_events(&truth, &truth, &MatchingRules::default(), &no_draws());
    let scores = scores.with_chance(&truth, &truth, &record);
    let score = scores.classes[0];
    assert_eq!(
        (score.pod, score.chance_pod, score.skill),
        (Some(1.0), None, None)
    );
    let text = scores.to_string();
    assert!(
        text.contains("chance: not known") && text.contains("30 days"),
        "{text}"
    );
}

#[test]
fn each_true_cyclone_is_listed_with_the_track_that_found_it() {
    let (mut truth, mut predicted) = (Vec::new(), Vec::new());
    // The table is not in the order of time.
    for step in [2, 0, 1, 3] {
        let mut found = on_track(1, cyclone(step, 10.0, 150.0));
        found.max_wind_m_s = Some(20.0 + step as f64);
        truth.push(found);
        truth.push(on_track(2, cyclone(step, 10.0, 250.0)));
        truth.push(on_track(
            3,
            event(Class::AtmosphericRiver, step, 40.0, 200.0),
        ));
        predicted.push(on_track(8, cyclone(step, 12.0, 150.0)));
        predicted.push(on_track(9, cyclone(step, 11.0, 150.0)));
    }
    let scores = score_tracks(&truth, &predicted, &TrackRules::default());
    let [found, missed] = &scores.storms[..] else {
        panic!("{scores:?}");
    };
    assert_eq!(
        (found.id.as_str(), found.first.as_str()),
        ("1", "2001-08-01T00:00:00")
    );
    assert_eq!(
        (&found.found_by[..], found.max_wind_m_s),
        (&["9".to_string()][..], Some(23.0))
    );
    assert_relative_eq!(
        found.mean_distance_km.unwrap(),
        KM_PER_DEGREE,
        max_relative = 1e-9
    );
    assert_eq!((missed.id.as_str(), missed.max_wind_m_s), ("2", None));
    assert!(missed.found_by.is_empty() && missed.mean_distance_km.is_none());
}
