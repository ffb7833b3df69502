//! Tracks and masks against references: made-up storms, IBTrACS and ARTMIP's rivers against themselves.

use approx::assert_relative_eq;
use squall_climate::statistics::Occurrence;
use squall_climate::track::readers::{
    ImportedPoint, ImportedTrack, ReadOptions, TrackFormat, TrackTable, read,
};
use squall_data::grid::KM_PER_DEGREE;
use squall_data::mask_file::MaskArchive;
use squall_data::{Calendar, Class, ClassMask, LatLonGrid, Time, testdata};
use squall_validation::bootstrap::Bootstrap;
use squall_validation::world_scores::{
    Criterion, NearestCells, compare_density, match_tracks, track_density,
};
use squall_validation::{Confusion, MaskAgreement, WorldRules, score_against_world};

fn quick() -> Bootstrap {
    Bootstrap {
        draws: 0,
        ..Bootstrap::default()
    }
}

fn time(hours: i64) -> Time {
    let start = Time::new(Calendar::Standard, 2001, 8, 1, 0, 0, 0).unwrap();
    start.add_seconds(hours * 3600)
}

/// A storm that moves west along the equator by one degree every six hours, from `hours` on.
fn storm(name: &str, hours: i64, lon_deg: f64, lat_deg: f64, points: i64) -> ImportedTrack {
    let point = |k: i64| ImportedPoint {
        time: time(hours + 6 * k),
        lon_deg: (lon_deg - k as f64).rem_euclid(360.0),
        lat_deg,
        max_wind_m_s: Some(20.0 + k as f64),
        other_wind: false,
        min_psl_pa: Some(99_000.0 - 100.0 * k as f64),
    };
    ImportedTrack {
        name: name.into(),
        identity: Default::default(),
        class: Class::TropicalCyclone,
        season: None,
        basin: None,
        points: (0..points).map(point).collect(),
    }
}

fn table(tracks: Vec<ImportedTrack>) -> TrackTable {
    TrackTable {
        format: TrackFormat::SquallEvents,
        tracks,
        facts: Vec::new(),
        notes: Vec::new(),
        covers: None,
    }
}

/// Moved north by so many degrees.
fn moved(track: &ImportedTrack, lat_deg: f64) -> ImportedTrack {
    let mut track = track.clone();
    track.points.iter_mut().for_each(|p| p.lat_deg += lat_deg);
    track
}

#[test]
fn hits_false_alarms_and_distances_by_hand() {
    // Two storms; the first (over 0°E) is found in two pieces 1 degree off, the second missed, one track is false.
    let reference = table(vec![
        storm("a", 0, 2.0, 0.0, 9),
        storm("b", 0, 200.0, 20.0, 9),
    ]);
    let whole = moved(&reference.tracks[0], 1.0);
    let (mut one, mut two) = (whole.clone(), whole);
    one.points.truncate(4);
    two.points.drain(..5);
    let predicted = table(vec![one, two, storm("false", 0, 100.0, -30.0, 5)]);
    let scores =
        score_against_world(&reference, &predicted, &WorldRules::default(), &quick()).unwrap();
    let total = &scores.total;
    assert_eq!((total.reference_tracks, total.hits), (2, 1));
    assert_eq!((total.predicted_tracks, total.false_alarms), (3, 1));
    assert_eq!((total.pod, total.far), (Some(0.5), Some(1.0 / 3.0)));
    assert_eq!(total.pieces_per_hit, Some(2.0));
    let distance = total.distance.unwrap();
    assert_eq!(distance.points, 8);
    for km in [distance.mean_km, distance.median_km, distance.p90_km] {
        assert_relative_eq!(km, KM_PER_DEGREE, max_relative = 1e-9);
    }
    // The pieces end at 23 and 28 m/s where the storm has 28; lowest pressures are 5 hPa too high and right.
    assert_relative_eq!(total.wind_difference_m_s.unwrap(), -2.5);
    assert_relative_eq!(total.pressure_difference_pa.unwrap(), 250.0);
    // The southern track of August belongs to the cyclone year that ends in the next June.
    let names: Vec<&str> = scores.years.iter().map(|g| g.name.as_str()).collect();
    assert_eq!(names, ["2001", "2002"]);
    assert_eq!(
        (scores.years[1].false_alarms, scores.years[1].pod),
        (1, None)
    );
    let basin = |name: &str| scores.basins.iter().find(|g| g.name == name).unwrap();
    assert_eq!(basin("East Pacific").hits, 0);
    assert_eq!(
        (basin("North Atlantic").hits, basin("South Indian").far),
        (1, Some(1.0))
    );
    assert_eq!(scores.quarters.len(), 1);
    let [found, missed] = &scores.storms[..] else {
        panic!("{:?}", scores.storms);
    };
    assert_eq!(
        (found.id.as_str(), &found.found_by[..]),
        ("a", &["a".to_string(), "a".to_string()][..])
    );
    assert_eq!(
        (found.max_wind_m_s, found.first.as_str()),
        (Some(28.0), "2001-08-01T00:00:00")
    );
    assert_relative_eq!(
        found.mean_distance_km.unwrap(),
        KM_PER_DEGREE,
        max_relative = 1e-9
    );
    assert_eq!((missed.id.as_str(), missed.mean_distance_km), ("b", None));
    assert!(missed.found_by.is_empty());
    // Two days tell no chance level.
    assert_eq!((total.chance_pod, total.skill), (None, None));
    assert!(scores.chance.missing.is_some());
    let text = scores.to_string();
    for part in [
        "50.0 %",
        "33.3 %",
        "JJA",
        "300 km",
        "tracks per year",
        "chance: not known",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

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
    assert!(perfect.to_string().contains("whole years"), "{perfect}");
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
fn the_two_criteria_choose_differently() {
    // A track that starts beside storm b and then stays with storm a, 2 degrees off; b crosses its way at one time.
    let a = storm("a", 0, 50.0, 0.0, 10);
    let mut b = storm("b", 0, 50.0, 12.0, 10);
    b.points[0].lat_deg = 2.0;
    b.points.truncate(1);
    let track = moved(&a, 2.0);
    let reference = [a, b];
    let near = match_tracks(&reference, std::slice::from_ref(&track), &Criterion::NEAR);
    assert_eq!((near[0].reference, near[0].distances_km.len()), (0, 10));
    // By mean distance b (0 km at one time, a tenth of the points) is nearer than a (222 km).
    let mean = match_tracks(
        &reference,
        std::slice::from_ref(&track),
        &Criterion::MEAN_DISTANCE,
    );
    assert_eq!((mean[0].reference, mean[0].distances_km.len()), (1, 1));
    let strict = Criterion::MeanDistance {
        max_mean_km: 500.0,
        min_share: 0.5,
    };
    assert_eq!(
        match_tracks(&reference, std::slice::from_ref(&track), &strict)[0].reference,
        0
    );
    let often = Criterion::Near {
        max_distance_km: 300.0,
        min_times: 11,
    };
    assert!(match_tracks(&reference, &[track], &often).is_empty());
}

#[test]
fn a_track_is_a_storm_within_five_degrees_on_average() {
    let storms = [storm("a", 0, 50.0, 0.0, 10)];
    for (off, pairs) in [(4.5, 1), (5.5, 0)] {
        let track = moved(&storms[0], off);
        let found = match_tracks(&storms, &[track], &Criterion::MEAN_DISTANCE);
        assert_eq!(found.len(), pairs, "{off}");
    }
}

#[test]
fn distances_are_summed_up_as_by_numpy() {
    // 0, 1, 2 and 9 degrees: 90 % of the way from the first to the last of four is at 2 + 0.7 · 7.
    let reference = table(vec![storm("a", 0, 50.0, 0.0, 4)]);
    let mut predicted = reference.clone();
    let points = predicted.tracks[0].points.iter_mut();
    for (point, off) in points.zip([2.0, 0.0, 9.0, 1.0]) {
        point.lat_deg += off;
    }
    let scores = score_against_world(&reference, &predicted, &WorldRules::default(), &quick());
    let distance = scores.unwrap().total.distance.unwrap();
    for (km, degrees) in [
        (distance.mean_km, 3.0),
        (distance.median_km, 1.5),
        (distance.p90_km, 6.9),
    ] {
        assert_relative_eq!(km, degrees * KM_PER_DEGREE, max_relative = 1e-9);
    }
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
fn a_table_against_itself_is_perfect_whatever_wind_is_asked_for() {
    // 20 m/s and one more with each point: the second alone reaches 30.
    let storms = table(vec![
        storm("weak", 0, 50.0, 10.0, 5),
        storm("strong", 0, 150.0, 10.0, 15),
        storm("weak too", 24, 250.0, 10.0, 9),
    ]);
    let rules = WorldRules {
        min_reference_wind_m_s: Some(30.0),
        ..WorldRules::default()
    };
    let scores = score_against_world(&storms, &storms, &rules, &quick()).unwrap();
    let total = &scores.total;
    assert_eq!((total.reference_tracks, total.predicted_tracks), (1, 1));
    assert_eq!((total.pod, total.far), (Some(1.0), Some(0.0)));
    // A track where no storm is stays false.
    let invented = table(vec![
        storms.tracks[1].clone(),
        storm("x", 0, 200.0, -40.0, 5),
    ]);
    let scores = score_against_world(&storms, &invented, &rules, &quick()).unwrap();
    assert_eq!(
        (scores.total.far, scores.predicted_left_out),
        (Some(0.5), 0)
    );
}

#[test]
fn a_track_counts_once_in_a_cell() {
    let (grid, _) = LatLonGrid::from_axes(
        (0..36).map(|j| -87.5 + 5.0 * f64::from(j)).collect(),
        (0..72).map(|i| 2.5 + 5.0 * f64::from(i)).collect(),
    )
    .unwrap();
    // Ten points from 2°E to 353°E: 2, 1, 0 | 359 to 355 | 354, 353, so cells 0, 71 and 70.
    let density = track_density(&[storm("a", 0, 2.0, 1.0, 10)], &grid, 2.0);
    let row = density.row(18);
    assert_eq!((row[0], row[71], row[70]), (0.5, 0.5, 0.5));
    assert_relative_eq!(density.sum(), 1.5);
}

#[test]
fn maps_of_tracks_keep_their_sides() {
    // In ten years two storms at 2°N of the reference, one of the prediction in the cell north of it.
    let at = |lat_deg: f64| storm("a", 0, 152.0, lat_deg, 1);
    let found = compare_density(&[at(2.0), at(2.0)], &[at(7.0)], 5.0, 10.0);
    let found = found.unwrap().unwrap();
    assert_relative_eq!(found.lat_deg[18], 2.5);
    assert_relative_eq!(found.lon_deg[30], 152.5);
    let of_cells = |map: &[Vec<f64>]| (map[18][30], map[19][30]);
    assert_eq!(of_cells(&found.reference), (0.2, 0.0));
    assert_eq!(of_cells(&found.predicted), (0.0, 0.1));
    // Over the two cells alone, by their areas: sin 5° and sin 10° - sin 5°.
    let [five, ten] = [5.0f64, 10.0].map(|deg| deg.to_radians().sin());
    let taylor = found.taylor.unwrap();
    assert_eq!(taylor.cells, 2);
    let mean = 0.2 * five / ten;
    assert_relative_eq!(taylor.reference_mean, mean, max_relative = 1e-9);
    let bias = 0.1 * (ten - five) / ten - mean;
    assert_relative_eq!(taylor.bias, bias, max_relative = 1e-9);
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
fn ibtracs_against_itself_is_perfect_and_moved_is_as_far_as_moved() {
    let Some(path) = testdata::real("ibtracs-6h/ibtracs_wmo.csv") else {
        return;
    };
    let best = read(path, &ReadOptions::default()).unwrap();
    let bootstrap = Bootstrap {
        draws: 100,
        ..Bootstrap::default()
    };
    let rules = WorldRules::default();
    let same = score_against_world(&best, &best, &rules, &bootstrap).unwrap();
    let groups = [&same.basins, &same.quarters, &same.years]
        .into_iter()
        .flatten();
    let mut storms = 0;
    for group in groups.chain([&same.total]) {
        assert_eq!(
            (group.hits, group.false_alarms),
            (group.reference_tracks, 0),
            "{group:?}"
        );
        let distance = group.distance.unwrap();
        assert_eq!(
            (distance.mean_km, distance.p90_km, group.pieces_per_hit),
            (0.0, 0.0, Some(1.0))
        );
        storms += group.reference_tracks;
    }
    // Each grouping has every storm once.
    assert_eq!(storms, 4 * 2322);
    assert_eq!(
        (
            same.total.pod_interval.unwrap().low,
            same.total.wind_difference_m_s
        ),
        (1.0, Some(0.0))
    );
    let taylor = same.density.unwrap().taylor.unwrap();
    assert_relative_eq!(taylor.correlation.unwrap(), 1.0, max_relative = 1e-12);
    assert_eq!((taylor.rms, taylor.deviation_ratio), (0.0, Some(1.0)));

    // Every point one degree farther north, and every third track not found.
    let mut perturbed = best.clone();
    perturbed.tracks = best.tracks.iter().map(|track| moved(track, 1.0)).collect();
    let mut k = 0;
    perturbed.tracks.retain(|_| {
        k += 1;
        k % 3 != 0
    });
    let strict = WorldRules {
        criterion: Criterion::MEAN_DISTANCE,
        ..rules
    };
    for rules in [rules, strict] {
        let scores = score_against_world(&best, &perturbed, &rules, &bootstrap).unwrap();
        let total = &scores.total;
        assert_eq!(total.predicted_tracks, 1548);
        // Two best tracks of one storm, or of two that turn around each other, may find each other.
        let (pod, far) = (total.pod.unwrap(), total.far.unwrap());
        assert!((pod - 2.0 / 3.0).abs() < 0.01 && far == 0.0, "{pod} {far}");
        let distance = total.distance.unwrap();
        assert!(
            (distance.median_km - KM_PER_DEGREE).abs() < 0.01,
            "{distance:?}"
        );
        assert!(
            (distance.mean_km - KM_PER_DEGREE).abs() < 1.5,
            "{distance:?}"
        );
        assert!(
            (distance.p90_km - KM_PER_DEGREE).abs() < 0.01,
            "{distance:?}"
        );
    }
}

/// The Atlantic storms of HURDAT2 (`name,year,month,day,hour,lat,long,status,category,wind,pressure,...`) in columns
/// that a reader knows.
fn hurdat(path: &std::path::Path, folder: &std::path::Path) -> TrackTable {
    let text = std::fs::read_to_string(path).unwrap();
    let mut table = String::from("track_id,season,basin,time,lon,lat,wind,slp\n");
    for row in text.lines().skip(1) {
        let cells: Vec<&str> = row.split(',').map(|c| c.trim_matches('"')).collect();
        let [name, year, month, day, hour, lat, lon] = cells[..7] else {
            panic!("{row}")
        };
        let whole = |text: &str| text.parse::<f64>().unwrap() as i64;
        let (month, day, hour) = (whole(month), whole(day), whole(hour));
        let (wind, slp) = (cells[9].replace("NA", ""), cells[10].replace("NA", ""));
        table += &format!(
            "{name} {year},{year},NA,{year}-{month:02}-{day:02} {hour:02}:00:00,{lon},{lat},{wind},{slp}\n"
        );
    }
    let path = folder.join("hurdat.csv");
    std::fs::write(&path, table).unwrap();
    read(path, &ReadOptions::default()).unwrap()
}

#[test]
fn hurdat_and_ibtracs_tell_of_the_same_storms() {
    let (Some(best), Some(storms)) = (
        testdata::real("ibtracs-6h/ibtracs_wmo.csv"),
        testdata::real("track-formats/noaa_atlantic_storms.csv"),
    ) else {
        return;
    };
    let best = read(best, &ReadOptions::default()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let storms = hurdat(&storms, folder.path());
    let atlantic = |rules: WorldRules| {
        let scores = score_against_world(&best, &storms, &rules, &quick()).unwrap();
        let mut basins = scores.basins.into_iter();
        (
            basins.find(|g| g.name == "North Atlantic").unwrap(),
            scores.total,
        )
    };
    let (all, total) = atlantic(WorldRules::default());
    // IBTrACS has these storms from HURDAT2: each is found, where it was.
    assert_eq!(
        (all.hits, all.predicted_tracks, total.false_alarms),
        (325, 325, 0)
    );
    let distance = all.distance.unwrap();
    assert!(distance.p90_km < 1.0 && distance.points > 9000, "{all:?}");
    assert!(all.wind_difference_m_s.unwrap().abs() < 0.2, "{all:?}");
    // What the table lacks are depressions: 42 of 367 in all, few of those with the wind of a tropical storm.
    let strong = WorldRules {
        min_reference_wind_m_s: Some(17.4),
        ..WorldRules::default()
    };
    let (strong, _) = atlantic(strong);
    assert_eq!(all.reference_tracks, 367);
    assert!(
        strong.reference_tracks > 280 && strong.pod.unwrap() > 0.95,
        "{strong:?}"
    );
}

#[test]
fn scores_of_masks_by_hand() {
    let grid = LatLonGrid::global(5, 8).unwrap();
    let mask = |hours: i64, code: fn(usize, usize) -> u8| {
        ClassMask::new(
            time(hours),
            ndarray::Array2::from_shape_fn((5, 8), |(j, i)| code(j, i)),
        )
        .unwrap()
    };
    // On the equator four cells against two of them; then a row of 45° in the truth alone; then nothing at all.
    let pairs = [
        (
            mask(0, |j, i| 2 * u8::from(j == 2 && i < 4)),
            mask(0, |j, i| 2 * u8::from(j == 2 && i < 2)),
        ),
        (mask(3, |j, _| 2 * u8::from(j == 3)), mask(3, |_, _| 0)),
        (mask(6, |_, _| 0), mask(6, |_, _| 0)),
    ];
    let mut whole = MaskAgreement::new(&grid);
    for (truth, predicted) in &pairs {
        let confusion = Confusion::of_masks(truth, predicted, &grid).unwrap();
        whole.add(truth, predicted, &confusion).unwrap();
    }
    let score = whole.score(Class::AtmosphericRiver, &quick()).unwrap();
    assert_eq!((score.times, score.times_with_class), (3, 2));
    let iou = score.iou_per_time.unwrap();
    assert_eq!((iou.mean, iou.least, iou.greatest), (0.25, 0.0, 0.5));
    // The upper one of two.
    assert_eq!(iou.median, 0.5);
    // Cells reach halfway to the next row: the equator's have sin 22.5° of the sphere, those of 45° half of the rest up to
    // 67.5°. Over three times the truth has half of the equator once and 45° once, the prediction a quarter of the equator.
    let [low, high] = [22.5f64, 67.5].map(|deg| deg.to_radians().sin());
    let (equator, north) = (low, 0.5 * (high - low));
    let of_truth = (0.5 * equator + north) / 3.0;
    assert_relative_eq!(
        score.frequency.reference_mean,
        of_truth,
        max_relative = 1e-9
    );
    assert_relative_eq!(
        score.frequency.bias,
        0.25 * equator / 3.0 - of_truth,
        max_relative = 1e-9
    );
    let cyclones = whole.score(Class::TropicalCyclone, &quick()).unwrap();
    assert_eq!(
        (cyclones.iou_per_time, cyclones.frequency.correlation),
        (None, None)
    );
    assert!(whole.score(Class::Background, &quick()).is_none());
    assert!(score.to_string().contains("0.250"), "{score}");
}

#[test]
fn masks_come_to_another_grid_by_nearest_cells() {
    let (fine, coarse) = (
        LatLonGrid::global(19, 36).unwrap(),
        LatLonGrid::global(10, 18).unwrap(),
    );
    let code = |j: usize, i: usize| u8::from(j.is_multiple_of(4) && i.is_multiple_of(4));
    let mask = ClassMask::new(
        time(0),
        ndarray::Array2::from_shape_fn((19, 36), |(j, i)| code(j, i)),
    )
    .unwrap();
    let cells = NearestCells::new(&fine, &coarse).unwrap();
    let brought = cells.bring(&mask).unwrap();
    // Every second row and column lie on each other.
    assert!(
        brought
            .codes
            .indexed_iter()
            .all(|((j, i), &found)| found == code(2 * j, 2 * i))
    );
    assert!(cells.bring(&brought).is_err());
    let (region, _) = LatLonGrid::from_axes(
        (0..10).map(|j| f64::from(j) * 2.0).collect(),
        (0..20).map(|i| f64::from(i) * 2.0).collect(),
    )
    .unwrap();
    let message = NearestCells::new(&region, &coarse).unwrap_err().to_string();
    assert!(message.contains("global"), "{message}");
    assert!(NearestCells::new(&coarse, &region).is_ok());
}

#[test]
fn the_river_masks_of_merra2_against_themselves() {
    let Some(folder) = testdata::real("ar-masks-merra2-teca-bard") else {
        return;
    };
    let archive = MaskArchive::open(&format!("{}/*.nc", folder.display())).unwrap();
    assert_eq!(archive.times().len(), 407);
    let grid = archive.grid();
    let mut same = MaskAgreement::new(grid);
    let mut turned = MaskAgreement::new(grid);
    let mut rivers = Occurrence::new(grid);
    for index in 0..archive.times().len() {
        let mask = archive.read(index).unwrap();
        rivers.add(&mask).unwrap();
        same.add(
            &mask,
            &mask,
            &Confusion::of_masks(&mask, &mask, grid).unwrap(),
        )
        .unwrap();
        // Two columns (1.25 degrees) to the east.
        let (rows, columns) = grid.shape();
        let codes = ndarray::Array2::from_shape_fn((rows, columns), |(j, i)| {
            mask.codes[[j, (i + columns - 2) % columns]]
        });
        let other = ClassMask::new(mask.time, codes).unwrap();
        turned
            .add(
                &mask,
                &other,
                &Confusion::of_masks(&mask, &other, grid).unwrap(),
            )
            .unwrap();
    }
    let score = same.score(Class::AtmosphericRiver, &quick()).unwrap();
    let iou = score.iou_per_time.unwrap();
    assert_eq!(
        (iou.least, iou.greatest, score.times_with_class),
        (1.0, 1.0, 407)
    );
    assert_relative_eq!(
        score.frequency.correlation.unwrap(),
        1.0,
        max_relative = 1e-12
    );
    assert_eq!(
        (score.frequency.rms, score.frequency.deviation_ratio),
        (0.0, Some(1.0))
    );
    // "About 3 to 4 % of the globe is tagged."
    assert!(
        (0.03..0.041).contains(&score.frequency.reference_mean),
        "{score:?}"
    );
    // Turning keeps mean and deviation, and lowers the rest.
    let score = turned
        .score(Class::AtmosphericRiver, &Bootstrap::default())
        .unwrap();
    assert!(score.frequency.bias.abs() < 1e-12);
    assert_relative_eq!(
        score.frequency.deviation_ratio.unwrap(),
        1.0,
        max_relative = 1e-9
    );
    let correlation = score.frequency.correlation.unwrap();
    assert!(correlation > 0.9 && correlation < 0.999, "{correlation}");
    let (mean, interval) = (
        score.iou_per_time.unwrap().mean,
        score.iou_interval.unwrap(),
    );
    assert!(
        mean > 0.5 && mean < 0.95 && interval.low < mean && mean < interval.high,
        "{score:?}"
    );
}
