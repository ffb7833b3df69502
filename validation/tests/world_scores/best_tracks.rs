//! Best tracks of IBTrACS and HURDAT2, real files.

use super::*;

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
