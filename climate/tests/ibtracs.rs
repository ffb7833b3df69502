//! Basins, categories, energy and seasons against IBTrACS best tracks (odd seasons 1981-2023).

use squall_climate::Track;
use squall_climate::statistics::{Basin, Category, Statistics, ace_of_point};
use squall_climate::track::{Fate, Origin};
use squall_data::{Calendar, Class, LatLonGrid, Time, testdata};

const KNOT_M_S: f64 = 1852.0 / 3600.0;

/// The rows of a file as maps from column to text, or `None` if the file is missing.
fn rows(name: &str) -> Option<Vec<std::collections::HashMap<String, String>>> {
    let path = testdata::real(&format!("ibtracs-6h/{name}"))?;
    let mut csv = csv::Reader::from_path(path).unwrap();
    Some(csv.deserialize().map(Result::unwrap).collect())
}

fn number(row: &std::collections::HashMap<String, String>, column: &str) -> Option<f64> {
    row[column].parse().ok()
}

#[test]
fn basins_are_those_of_ibtracs() {
    for name in ["ibtracs_wmo.csv", "ibtracs_jtwc.csv"] {
        let Some(rows) = rows(name) else { return };
        let right = rows
            .iter()
            .filter(|row| {
                let (lat, lon) = (number(row, "lat").unwrap(), number(row, "lon").unwrap());
                Basin::of(lat, lon).code() == row["basin"]
            })
            .count();
        let share = right as f64 / rows.len() as f64;
        assert!(rows.len() > 60_000 && share > 0.999, "{name}: {share}");
    }
}

#[test]
fn categories_are_those_of_ibtracs() {
    let Some(rows) = rows("ibtracs_jtwc.csv") else {
        return;
    };
    let mut compared = 0;
    for row in &rows {
        // Categories below -1 are not tropical or unknown.
        let (Some(wind), Some(category)) = (number(row, "wind"), number(row, "sshs_cat")) else {
            continue;
        };
        if category >= -1.0 {
            let expected = Category::ALL[(category + 1.0) as usize];
            assert_eq!(
                Category::saffir_simpson(wind * KNOT_M_S),
                Some(expected),
                "{row:?}"
            );
            compared += 1;
        }
    }
    assert!(compared > 30_000, "{compared}");
}

/// The tracks of the file with the fields that statistics need, and the basin and time of their first points in the
/// file.
fn tracks(rows: &[std::collections::HashMap<String, String>]) -> (Vec<Track>, Vec<(String, Time)>) {
    let mut first_points = Vec::new();
    let mut tracks: Vec<(String, Track)> = Vec::new();
    for row in rows {
        let time = Time::parse(&row["time"], Calendar::Standard).unwrap();
        let (lat, lon) = (
            number(row, "lat").unwrap(),
            number(row, "lon").unwrap().rem_euclid(360.0),
        );
        let wind = number(row, "wind").map(|knots| knots * KNOT_M_S);
        match tracks.last_mut() {
            Some((id, track)) if *id == row["track_id"] => {
                track.end = time;
                track.points += 1;
                track.max_wind_m_s = match (track.max_wind_m_s, wind) {
                    (Some(a), Some(b)) => Some(f64::max(a, b)),
                    (a, b) => a.or(b),
                };
            }
            _ => {
                let track = Track {
                    track_id: tracks.len() as u64,
                    class: Class::TropicalCyclone,
                    start: time,
                    end: time,
                    points: 1,
                    origin: Origin::Genesis,
                    fate: Fate::Lysis,
                    related_track: None,
                    genesis_lon_deg: lon,
                    genesis_lat_deg: lat,
                    end_lon_deg: lon,
                    end_lat_deg: lat,
                    distance_km: 0.0,
                    max_area_km2: f64::NAN,
                    mean_area_km2: f64::NAN,
                    min_psl_pa: None,
                    max_wind_m_s: wind,
                    max_tmq_kg_m2: None,
                    details: Default::default(),
                };
                first_points.push((row["basin"].clone(), time));
                tracks.push((row["track_id"].clone(), track));
            }
        }
    }
    (
        tracks.into_iter().map(|(_, track)| track).collect(),
        first_points,
    )
}

#[test]
fn climatology_has_the_known_seasons_and_shares() {
    let Some(rows) = rows("ibtracs_wmo.csv") else {
        return;
    };
    let (mut tracks, first_points) = tracks(&rows);
    assert_eq!(tracks.len(), 2322);
    // The file has odd seasons only; a southern season that began in an even year is the only part of that year.
    tracks.retain(|track| track.start.year() % 2 == 1);
    let grid = LatLonGrid::global(19, 36).unwrap();
    let mut whole = Statistics::new(&grid);
    for track in &tracks {
        whole.add_track(track);
    }

    let peak = |basin| {
        let cycle = whole.seasonal_cycle(Class::TropicalCyclone, basin);
        (0..12)
            .max_by(|&a, &b| cycle[a].total_cmp(&cycle[b]))
            .unwrap()
            + 1
    };
    assert_eq!(peak(Basin::NorthAtlantic), 9);
    assert!([7, 8].contains(&peak(Basin::EastPacific)));
    assert!([8, 9].contains(&peak(Basin::WestPacific)));
    assert!(
        [1, 2].contains(&peak(Basin::SouthIndian)) && [1, 2].contains(&peak(Basin::SouthPacific))
    );

    // The numbers of tracks per basin and year in the file itself.
    for year in whole.years() {
        for basin in Basin::ALL {
            let expected = first_points
                .iter()
                .filter(|(code, start)| *code == basin.code() && start.year() == year.year)
                .count() as i64;
            let found = year.tracks[0][basin as usize] as i64;
            assert!(
                (found - expected).abs() <= 1,
                "{basin:?} {}: {found}, {expected}",
                year.year
            );
        }
    }
    let lifetimes = &whole
        .histograms(Class::TropicalCyclone)
        .unwrap()
        .lifetime_hours;
    assert_eq!(lifetimes.total() as usize, tracks.len());
    // Atlantic hurricanes of category 5 in odd years: Hugo, Isabel, Emily, Katrina, Rita, Wilma, Dean, Felix, Irma,
    // Maria, Dorian, Lee. (Lorenzo of 2019 reached it at 03 UTC, between the six-hourly points.)
    assert_eq!(whole.categories(Basin::NorthAtlantic)[6], 12);
}

#[test]
fn energy_of_the_atlantic_season_2005_is_the_published_one() {
    let Some(path) = testdata::real("track-formats/noaa_atlantic_storms.csv") else {
        return;
    };
    let mut csv = csv::Reader::from_path(path).unwrap();
    let rows = csv
        .deserialize::<std::collections::HashMap<String, String>>()
        .map(Result::unwrap);
    // Only six-hourly points in tropical and subtropical stages count.
    let stages = ["tropical storm", "hurricane", "subtropical storm"];
    let energy: f64 = rows
        .filter(|row| row["year"] == "2005" && stages.contains(&row["status"].as_str()))
        .filter(|row| number(row, "hour").unwrap() % 6.0 == 0.0)
        .filter_map(|row| number(&row, "wind"))
        .map(|knots| ace_of_point(knots * KNOT_M_S, 6.0))
        .sum();
    // Published: 245 (NOAA, operational) to 250 (revised best tracks).
    assert!((244.0..251.0).contains(&energy), "{energy}");
}
