//! Which years and times of two records are compared.

use super::*;

#[test]
fn chance_levels_of_tracks_are_those_of_other_years() {
    // Four years from August 2001 on, in the first two of which a storm is at one place on the first day.
    let year = |k: i64| storm("a", 365 * 24 * k, 150.0, 10.0, 2);
    let reference = TrackTable {
        covers: Some((time(0), time(24 * 1460))),
        ..table(vec![year(0), year(1)])
    };
    let scores = |predicted: Vec<ImportedTrack>| {
        let predicted = TrackTable {
            covers: reference.covers,
            ..table(predicted)
        };
        score_against_world(&reference, &predicted, &WorldRules::default(), &quick()).unwrap()
    };
    let perfect = scores(reference.tracks.clone());
    assert!(perfect.chance.whole_years);
    assert_eq!(perfect.chance.shifts, 3);
    // A year later the second storm is found, two years later none, three years later, around the end, the first.
    let third = Some(2.0 / 6.0);
    for group in [&perfect.total, &perfect.years[0], &perfect.years[1]] {
        assert_eq!(
            (group.pod, group.chance_pod, group.skill),
            (Some(1.0), third, Some(1.0))
        );
    }
    assert_eq!(perfect.total.chance_far, Some(4.0 / 6.0));
    let told = &legend(std::slice::from_ref(&perfect))[0];
    assert!(told.contains("whole years"), "{told}");
    // Of a prediction that has one of them half is found, and by chance a sixth.
    let half = scores(vec![year(0)]).total;
    assert_eq!((half.pod, half.chance_pod), (Some(0.5), Some(1.0 / 6.0)));
    assert_relative_eq!(half.skill.unwrap(), 0.4, max_relative = 1e-12);
    // A storm of another season is not found in any year.
    let winter = scores(vec![storm("x", 24 * 150, 150.0, 10.0, 2)]).total;
    assert_eq!(
        (winter.pod, winter.chance_pod, winter.skill),
        (Some(0.0), Some(0.0), Some(0.0))
    );
}

/// Half of the shifts had come to years that the reference does not have.
#[test]
fn chance_levels_are_those_of_the_years_that_both_sides_have() {
    // On the first of August of each year from 2001 on; the reference has the odd ones.
    let days = [0, 365, 730, 1096, 1461, 1826, 2191, 2557, 2922];
    let storms = days.map(|day| storm("a", 24 * day, 150.0, 10.0, 2));
    let odd = storms.iter().step_by(2).cloned().collect();
    let (reference, predicted) = (table(odd), table(storms.to_vec()));
    let rules = WorldRules::default();
    let scores = score_against_world(&reference, &predicted, &rules, &quick()).unwrap();
    assert_eq!((scores.chance.whole_years, scores.chance.shifts), (true, 3));
    let total = &scores.total;
    assert_eq!((total.pod, total.chance_pod), (Some(1.0), Some(1.0)));
    let note =
        "chance levels leave years out in which no track of a side begins: 2002, 2004, 2006, 2008";
    assert_eq!(scores.notes, [note]);
}

#[test]
fn a_track_after_the_end_of_the_reference_is_not_false() {
    let reference = table(vec![storm("a", 0, 50.0, 10.0, 5)]);
    let later = storm("later", 480, 60.0, 10.0, 5);
    let predicted = table(vec![reference.tracks[0].clone(), later]);
    let rules = WorldRules::default();
    let scores = score_against_world(&reference, &predicted, &rules, &quick()).unwrap();
    assert_eq!(
        (scores.total.far, scores.predicted_left_out),
        (Some(0.0), 1)
    );
}

#[test]
fn only_what_both_sides_cover_is_scored() {
    let reference = table(vec![
        storm("early", 0, 50.0, 10.0, 3),
        storm("late", 480, 60.0, 10.0, 5),
    ]);
    let predicted = table(vec![storm("x", 480, 60.0, 10.0, 5)]);
    let rules = WorldRules::default();
    let scores = score_against_world(&reference, &predicted, &rules, &quick()).unwrap();
    assert_eq!(
        (scores.reference_left_out, scores.total.pod),
        (1, Some(1.0))
    );
    assert_eq!(scores.first, time(480).to_string());
    // Looked at from the first day on: the early storm was missed.
    let covering = TrackTable {
        covers: Some((time(0), time(24 * 40))),
        ..predicted.clone()
    };
    let scores = score_against_world(&reference, &covering, &rules, &quick()).unwrap();
    assert_eq!(
        (scores.reference_left_out, scores.total.pod),
        (0, Some(0.5))
    );
    assert_eq!(scores.first, time(0).to_string());
    // In another calendar the dates are the same.
    let noleap = |time: Time| Time::parse(&time.to_string(), Calendar::NoLeap).unwrap();
    let mut of_run = covering.clone();
    of_run.covers = covering
        .covers
        .map(|(first, last)| (noleap(first), noleap(last)));
    for point in of_run.tracks.iter_mut().flat_map(|track| &mut track.points) {
        point.time = noleap(point.time);
    }
    let scores = score_against_world(&reference, &of_run, &rules, &quick()).unwrap();
    assert_eq!(
        (scores.reference_left_out, scores.total.pod),
        (0, Some(0.5))
    );
    let strong = WorldRules {
        min_reference_wind_m_s: Some(33.0),
        ..rules
    };
    let scores = score_against_world(&reference, &predicted, &strong, &quick()).unwrap();
    // What follows a storm that is too weak to be asked for is neither a hit nor false.
    assert_eq!((scores.total.pod, scores.total.far), (None, None));
    assert_eq!(
        (scores.reference_left_out, scores.predicted_left_out),
        (2, 1)
    );
    let never = table(vec![storm("x", 9000, 60.0, 10.0, 5)]);
    let message = score_against_world(&reference, &never, &rules, &quick());
    assert!(message.unwrap_err().to_string().contains("2001-08-01"));
    assert!(score_against_world(&reference, &table(Vec::new()), &rules, &quick()).is_err());

    // The same storm of a run without leap days is compared by date, and a note says so.
    let mut noleap = predicted.clone();
    for point in &mut noleap.tracks[0].points {
        point.time = Time::parse(&point.time.to_string(), Calendar::NoLeap).unwrap();
    }
    let scores = score_against_world(&reference, &noleap, &rules, &quick()).unwrap();
    assert_eq!((scores.total.pod, scores.notes.len()), (Some(1.0), 1));
    assert!(scores.notes[0].contains("noleap"));
}

/// The same tracks three hours later had a POD of 0 and a FAR of 1, without a word.
#[test]
fn tracks_that_are_never_at_one_time_are_refused_or_said() {
    let rules = WorldRules::default();
    let [one, three_later, other_day] = [0, 3, 24].map(|h| storm("a", h, 50.0, 10.0, 3));
    let over = |tracks: Vec<ImportedTrack>| TrackTable {
        covers: Some((time(0), time(96))),
        ..table(tracks)
    };
    let reference = over(vec![one]);
    let refused = score_against_world(&reference, &over(vec![three_later]), &rules, &quick());
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("no time of day in common"), "{refused}");
    // Storms of other days are missed and false, and it is said that none can be found.
    let scores = score_against_world(&reference, &over(vec![other_day]), &rules, &quick());
    let scores = scores.unwrap();
    assert_eq!((scores.total.pod, scores.total.far), (Some(0.0), Some(1.0)));
    assert!(scores.to_string().contains("\nnote: no point"), "{scores}");
}

#[test]
fn tracks_a_year_are_of_the_years_of_their_calendar() {
    // One storm in each of two ends of ten years.
    for (calendar, days) in [(Calendar::Day360, 360.0), (Calendar::NoLeap, 365.0)] {
        let start = Time::new(calendar, 2001, 1, 1, 0, 0, 0).unwrap();
        let mut storms = [storm("a", 0, 2.0, 1.0, 1), storm("b", 0, 92.0, 1.0, 1)];
        let ten_years = (10.0 * days * 86_400.0) as i64;
        for (storm, seconds) in storms.iter_mut().zip([0, ten_years]) {
            storm.points[0].time = start.add_seconds(seconds);
        }
        let table = table(storms.to_vec());
        let scores = score_against_world(&table, &table, &WorldRules::default(), &quick());
        let density = scores.unwrap().density.unwrap();
        assert_relative_eq!(density.years, 10.0);
        let total: f64 = density.reference.iter().flatten().sum();
        assert_relative_eq!(total, 0.2, max_relative = 1e-12);
    }
}

#[test]
fn rates_of_years_have_intervals_of_their_own() {
    // In each of six years one storm of two is found, and two of three tracks are none: all draws say the same.
    let (mut storms, mut tracks) = (Vec::new(), Vec::new());
    for year in 0..6 {
        let at = |lon_deg: f64| storm("a", 365 * 24 * year, lon_deg, 10.0, 3);
        storms.extend([150.0, 200.0].map(at));
        tracks.extend([150.0, 300.0, 60.0].map(at));
    }
    let bootstrap = Bootstrap {
        draws: 100,
        ..Bootstrap::default()
    };
    let rules = WorldRules::default();
    let scores = score_against_world(&table(storms), &table(tracks), &rules, &bootstrap);
    let total = scores.unwrap().total;
    for (interval, rate) in [(total.pod_interval, 0.5), (total.far_interval, 2.0 / 3.0)] {
        let interval = interval.unwrap();
        assert_eq!((interval.low, interval.high), (rate, rate));
    }
}

/// Its row had a hit, but not the track that made it; with tracks of other storms it read "1 hit, 2 predicted, 2 false".
#[test]
fn a_track_counts_in_the_rows_of_the_storm_that_it_found() {
    // From the first of September on; the predicted one, of the same way, from half a day before.
    let reference = table(vec![storm("a", 31 * 24, 150.0, 10.0, 5)]);
    let early = storm("a", 31 * 24 - 12, 152.0, 10.0, 7);
    let invented = storm("x", 31 * 24 - 12, 250.0, 10.0, 7);
    let predicted = table(vec![early, invented]);
    let rules = WorldRules::default();
    let scores = score_against_world(&reference, &predicted, &rules, &quick()).unwrap();
    let rows = scores.quarters.iter().map(|group| {
        let counts = [group.hits, group.predicted_tracks, group.false_alarms];
        (group.name.as_str(), counts)
    });
    let rows: Vec<(&str, [u64; 3])> = rows.collect();
    assert_eq!(rows, [("JJA", [0, 1, 1]), ("SON", [1, 1, 0])]);
}

#[test]
fn quarters_and_cyclone_years_are_those_of_the_first_point() {
    for (month, lat_deg, quarter, year) in [
        (1, 10.0, "DJF", "2001"),
        (2, 10.0, "DJF", "2001"),
        (3, 10.0, "MAM", "2001"),
        (6, -10.0, "JJA", "2001"),
        (7, -10.0, "JJA", "2002"),
        (11, 10.0, "SON", "2001"),
        (12, 10.0, "DJF", "2001"),
        (12, -10.0, "DJF", "2002"),
        // On the equator but for rounding, and so in a northern basin.
        (8, -1e-9, "JJA", "2001"),
    ] {
        // It lives on into the next month.
        let start = Time::new(Calendar::Standard, 2001, month, 26, 0, 0, 0).unwrap();
        let mut track = storm("a", 0, 150.0, lat_deg, 3);
        for (k, point) in (0..).zip(&mut track.points) {
            point.time = start.add_seconds(k * 5 * 86_400);
        }
        let one = table(vec![track]);
        let scores = score_against_world(&one, &one, &WorldRules::default(), &quick()).unwrap();
        let names = [&scores.quarters, &scores.years]
            .map(|groups| groups.iter().map(|g| g.name.as_str()).collect::<Vec<_>>());
        assert_eq!(names, [vec![quarter], vec![year]], "{month} {lat_deg}");
        // Rivers have no season: none is of the year after the data.
        let mut rivers = one.clone();
        (rivers.tracks.iter_mut()).for_each(|track| track.class = Class::AtmosphericRiver);
        let rules = WorldRules {
            class: Class::AtmosphericRiver,
            ..WorldRules::default()
        };
        let scores = score_against_world(&rivers, &rivers, &rules, &quick()).unwrap();
        assert_eq!(scores.years[0].name, "2001", "{month} {lat_deg}");
    }
}
