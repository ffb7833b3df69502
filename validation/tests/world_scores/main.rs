//! Tracks and masks against references: made-up storms, IBTrACS and ARTMIP's rivers against themselves.

mod best_tracks;
mod masks;
mod records;

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
    Criterion, NearestCells, compare_density, legend, match_tracks, track_density,
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
    let below = legend(std::slice::from_ref(&scores)).join("\n");
    let text = format!("{scores}\n{below}");
    for part in [
        "   storms   hits",
        "50.0 %",
        "33.3 %",
        "JJA",
        "300 km",
        "predicted tracks per storm found: 2.00",
        "tracks per year",
        "chance: not known",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(!text.contains("distances are 0"), "{text}");
}

/// Rivers were storms, distances of 0 km were not explained, and what tables have in common stood below each.
#[test]
fn tables_name_their_class_and_share_one_legend() {
    let cyclones = table(vec![storm("a", 0, 150.0, 10.0, 5)]);
    let mut rivers = cyclones.clone();
    rivers.tracks[0].class = Class::AtmosphericRiver;
    let of_class = |table: &TrackTable, class| {
        let rules = WorldRules {
            class,
            ..WorldRules::default()
        };
        score_against_world(table, table, &rules, &quick()).unwrap()
    };
    let scores = [
        of_class(&cyclones, Class::TropicalCyclone),
        of_class(&rivers, Class::AtmosphericRiver),
    ];
    let text = scores[1].to_string();
    for part in [
        "   rivers   hits",
        "predicted tracks per river found: 1.00",
        "\ndistances are 0: both sides have the same centres",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(!text.contains("storm"), "{text}");
    let chances = |scores: &[_]| {
        let lines = legend(scores).into_iter();
        lines.filter(|line| line.contains("chance: ")).count()
    };
    assert_eq!(chances(&scores), 1);
    // Of spans of unlike lengths there are two.
    let mut unlike = scores;
    unlike[1].chance.missing = None;
    unlike[1].chance.shifts = 3;
    assert_eq!(chances(&unlike), 2);
    let lines = legend(&unlike);
    assert!(
        lines[1].starts_with("atmospheric_river: chance: the POD of"),
        "{lines:?}"
    );
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
