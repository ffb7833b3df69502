//! The catalogue of storms: births, tracks and life cycles.

mod basins;
mod storms;

pub use storms::{ExtratropicalCyclone, State, TropicalCyclone};

use super::base_state::{land, season};
use super::river::River;
use super::scenario::Scenario;
use crate::calendar::DAY_SECONDS;
use crate::grid::{KM_PER_DEGREE, eastern_longitude};
use crate::{Time, random};
use basins::{BASINS, Basin};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use std::f64::consts::PI;
use storms::TRACK_HOURS;

/// Storms born up to this many days before the start may still be alive in the run.
const SPIN_UP_DAYS: f64 = 16.0;

/// All storms of a run, by day of birth.
#[derive(Debug)]
pub(super) struct Catalogue {
    pub tropical: Vec<TropicalCyclone>,
    pub extratropical: Vec<ExtratropicalCyclone>,
}

impl Catalogue {
    pub(super) fn draw(seed: u64, start: Time, days: f64, scenario: &Scenario) -> Self {
        let (mut tropical, mut extratropical) = (Vec::new(), Vec::new());
        let first = -SPIN_UP_DAYS.ceil() as i64;
        let year = start.calendar().mean_year_days();
        for day in first..days.ceil() as i64 {
            let date = start.add_seconds(day * DAY_SECONDS);
            // One random stream per day, so that a longer run begins with the same storms.
            let mut rng = random::stream(seed, "synthetic storms", &[day as u64]);
            let day_of_year = date.day_of_year();
            for basin in &BASINS {
                let births = basin.births(day_of_year, year);
                for _ in 0..count(&mut rng, births * scenario.cyclone_count) {
                    let hours = 24.0 * day as f64 + rng.random_range(0.0..24.0);
                    tropical.push(tropical_cyclone(&mut rng, basin, hours, scenario));
                }
            }
            let season = season(date);
            for hemisphere in [1.0, -1.0] {
                let winter = 1.0 - 0.3 * season * hemisphere;
                for _ in 0..count(&mut rng, 1.5 * winter) {
                    let hours = 24.0 * day as f64 + rng.random_range(0.0..24.0);
                    extratropical.push(extratropical_cyclone(
                        &mut rng, hemisphere, winter, hours, scenario,
                    ));
                }
            }
        }
        let mut ids = 1..;
        tropical
            .iter_mut()
            .for_each(|storm| storm.id = ids.next().unwrap_or(0));
        extratropical
            .iter_mut()
            .for_each(|storm| storm.id = ids.next().unwrap_or(0));
        Self {
            tropical,
            extratropical,
        }
    }

    /// The tropical cyclones that may be alive some hours after the start: in a run of centuries, a small subset.
    pub(super) fn tropical_near(&self, hours: f64) -> &[TropicalCyclone] {
        near(&self.tropical, |storm| storm.birth_hours, hours)
    }

    /// The extratropical cyclones that may be alive then.
    pub(super) fn extratropical_near(&self, hours: f64) -> &[ExtratropicalCyclone] {
        near(&self.extratropical, |storm| storm.birth_hours, hours)
    }
}

/// The storms, ordered by day of birth, that were born late enough to be alive at an hour, and not after it.
fn near<T>(storms: &[T], birth_hours: impl Fn(&T) -> f64, hours: f64) -> &[T] {
    let day = |hours: f64| (hours / 24.0).floor();
    // One extra day at both ends: an hour just before midnight may round to the next day.
    let (first, last) = (day(hours) - SPIN_UP_DAYS - 1.0, day(hours) + 1.0);
    let from = storms.partition_point(|storm| day(birth_hours(storm)) < first);
    let behind = storms.partition_point(|storm| day(birth_hours(storm)) <= last);
    &storms[from..behind]
}

/// A Poisson variate (Knuth's product method: the mean is below 3).
fn count(rng: &mut ChaCha8Rng, mean: f64) -> usize {
    let (limit, mut product, mut count) = ((-mean).exp(), rng.random::<f64>(), 0);
    while product > limit {
        product *= rng.random::<f64>();
        count += 1;
    }
    count
}

/// A normal variate (Box-Muller).
fn normal(rng: &mut ChaCha8Rng) -> f64 {
    let radius = (-2.0 * rng.random_range(f64::MIN_POSITIVE..1.0).ln()).sqrt();
    radius * (2.0 * PI * rng.random::<f64>()).cos()
}

fn tropical_cyclone(
    rng: &mut ChaCha8Rng,
    basin: &Basin,
    birth_hours: f64,
    scenario: &Scenario,
) -> TropicalCyclone {
    let mut lat = rng.random_range(basin.lat.0..basin.lat.1);
    let mut lon = rng.random_range(basin.lon.0..basin.lon.1);
    let side = lat.signum();
    let life = (8.0 * (0.35 * normal(rng)).exp()).clamp(3.0, 15.0);
    let points = (life * 24.0 / TRACK_HOURS) as usize + 1;
    let deficit =
        (4200.0 * (0.42 * normal(rng)).exp()).clamp(1500.0, 8500.0) * scenario.cyclone_deficit;
    let (mut wander, nudge) = ((0.0, 0.0), (0.8 * normal(rng), 0.5 * normal(rng)));
    let (mut track, mut strength) = (Vec::with_capacity(points), Vec::with_capacity(points));
    let mut kept = 1.0;
    for point in 0..points {
        let age = point as f64 / (points - 1) as f64;
        // Rapid growth, a plateau, slower decay.
        let cycle =
            (age / 0.25).min(1.0).powf(0.7) * ((1.0 - age) / 0.25).clamp(0.0, 1.0).powf(0.6);
        // Land halves the intensity in about twelve hours, cold water poleward of 35 degrees in about two days.
        kept *= 1.0 - 0.16 * land(lat, lon) - 0.05 * ((lat.abs() - 34.0) / 6.0).clamp(0.0, 1.0);
        track.push((lat, eastern_longitude(lon)));
        strength.push(deficit * cycle * kept);
        // Easterlies equatorward of the ridge, westerlies poleward of it; beta drift everywhere.
        let ridge = 24.0;
        let west_east = -5.0 + 13.0 / (1.0 + (-(lat.abs() - ridge) / 4.0).exp());
        let poleward = 1.3 + 2.6 * (-((lat.abs() - ridge - 3.0) / 8.0).powi(2)).exp();
        wander = (
            0.92 * wander.0 + 0.35 * normal(rng),
            0.92 * wander.1 + 0.25 * normal(rng),
        );
        let degrees = TRACK_HOURS * 3.6 / KM_PER_DEGREE;
        lon += degrees * (west_east + nudge.0 + wander.0) / lat.to_radians().cos();
        lat += degrees * side * (poleward + nudge.1 + wander.1).max(-1.0);
        if lat.abs() > 47.0 || kept < 0.15 {
            break;
        }
    }
    TropicalCyclone {
        id: 0,
        // Tables use the seven basins of IBTrACS, with a border in the seas north of Australia.
        basin: match basin.name {
            "AU" if track[0].1 < 135.0 => "SI",
            "AU" => "SP",
            name => name,
        },
        birth_hours,
        rmw_km: (45.0 * (0.3 * normal(rng)).exp()).clamp(20.0, 110.0),
        outer_km: (900.0 * (0.22 * normal(rng)).exp()).clamp(550.0, 1400.0),
        holland_b: rng.random_range(1.2..1.7),
        deficit_pa: strength,
        track,
    }
}

fn extratropical_cyclone(
    rng: &mut ChaCha8Rng,
    hemisphere: f64,
    winter: f64,
    birth_hours: f64,
    scenario: &Scenario,
) -> ExtratropicalCyclone {
    // The southern storm track runs around the pole; the northern one begins over the western oceans.
    let lon = match (hemisphere > 0.0, rng.random::<f64>()) {
        (true, p) if p < 0.42 => rng.random_range(130.0..190.0),
        (true, p) if p < 0.84 => rng.random_range(278.0..330.0),
        _ => rng.random_range(0.0..360.0),
    };
    let lat = hemisphere * (37.0 + 5.0 * rng.random::<f64>() + 4.0 * normal(rng).clamp(-1.5, 1.5));
    let deficit_pa = (2300.0 * (0.35 * normal(rng)).exp() * winter.sqrt()).clamp(800.0, 5000.0);
    let life_hours = 24.0 * rng.random_range(3.5..6.5);
    let degrees = 3.6 / KM_PER_DEGREE;
    let speed = (
        rng.random_range(8.0..14.0) * degrees,
        rng.random_range(1.0..3.2) * degrees,
    );
    let has_river = rng.random::<f64>() < 0.6 * scenario.river_count;
    let river = River::draw(rng, hemisphere, scenario);
    ExtratropicalCyclone {
        id: 0,
        birth_hours,
        life_hours,
        origin: (lat, lon),
        speed,
        deficit_pa,
        radius_km: rng.random_range(520.0..850.0),
        river: has_river.then_some(river),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Calendar;

    fn catalogue(scenario: &Scenario, years: f64) -> Catalogue {
        let start = Time::new(Calendar::NoLeap, 2000, 1, 1, 0, 0, 0).unwrap();
        Catalogue::draw(3, start, 365.0 * years, scenario)
    }

    fn born_inside(catalogue: &Catalogue) -> Vec<&TropicalCyclone> {
        catalogue
            .tropical
            .iter()
            .filter(|storm| storm.birth_hours >= 0.0)
            .collect()
    }

    #[test]
    fn numbers_basins_and_seasons() {
        let all = catalogue(&Scenario::PRESENT, 20.0);
        let storms = born_inside(&all);
        let per_year = storms.len() as f64 / 20.0;
        let expected: f64 = BASINS.iter().map(|basin| basin.per_year).sum();
        // 20 years: the standard error of a Poisson mean of 87 is 2.1.
        assert!(
            (per_year - expected).abs() < 6.5,
            "{per_year} a year, expected {expected}"
        );
        for storm in &storms {
            let (lat, _) = storm.track[0];
            assert_eq!(
                lat > 0.0,
                ["NA", "EP", "WP", "NI"].contains(&storm.basin),
                "{}",
                storm.basin
            );
            assert!(lat.abs() > 6.0, "born at {lat}");
        }
        let northern_autumn = |storm: &&&TropicalCyclone| {
            let day = (storm.birth_hours / 24.0).rem_euclid(365.0);
            storm.track[0].0 > 0.0 && (180.0..330.0).contains(&day)
        };
        let north = storms.iter().filter(|s| s.track[0].0 > 0.0).count();
        assert!(storms.iter().filter(northern_autumn).count() * 10 > north * 7);
        let southern_summer = |storm: &&&TropicalCyclone| {
            let day = (storm.birth_hours / 24.0).rem_euclid(365.0);
            storm.track[0].0 < 0.0 && !(135.0..300.0).contains(&day)
        };
        let south = storms.len() - north;
        assert!(storms.iter().filter(southern_summer).count() * 10 > south * 8);
    }

    /// Of 1.5 a day in each hemisphere 30 % more are born in midwinter than on average, and as many less in summer.
    #[test]
    fn lows_are_storms_of_the_winter() {
        let all = catalogue(&Scenario::PRESENT, 20.0);
        let born = |north: bool, days: std::ops::Range<f64>| {
            let is_one = |low: &&ExtratropicalCyclone| {
                let day = (low.birth_hours / 24.0).rem_euclid(365.0);
                (low.origin.0 > 0.0) == north && days.contains(&day)
            };
            all.extratropical.iter().filter(is_one).count() as f64
        };
        for north in [true, false] {
            let (january, july) = (born(north, 0.0..60.0), born(north, 180.0..240.0));
            let (winter, summer) = if north {
                (january, july)
            } else {
                (july, january)
            };
            assert!(winter > 1.5 * summer, "{winter} {summer}");
            let a_day = born(north, 0.0..365.0) / (20.0 * 365.0);
            assert!((a_day - 1.5).abs() < 0.1, "{a_day}");
        }
    }

    #[test]
    fn warming_changes_what_it_says() {
        let (present, warm) = (
            catalogue(&Scenario::PRESENT, 40.0),
            catalogue(&Scenario::PLUS_2K, 40.0),
        );
        let (a, b) = (born_inside(&present), born_inside(&warm));
        let ratio = b.len() as f64 / a.len() as f64;
        assert!((ratio - 0.9).abs() < 0.05, "{ratio}");
        let strength = |storms: &[&TropicalCyclone]| {
            let peak =
                |s: &&TropicalCyclone| s.deficit_pa.iter().copied().fold(0.0, f64::max).sqrt();
            storms.iter().map(peak).sum::<f64>() / storms.len() as f64
        };
        let wind = strength(&b) / strength(&a);
        assert!((wind - 1.05).abs() < 0.02, "{wind}");
        let rivers =
            |c: &Catalogue| c.extratropical.iter().filter(|s| s.river.is_some()).count() as f64;
        assert!((rivers(&warm) / rivers(&present) - 1.2).abs() < 0.04);
    }

    #[test]
    fn a_longer_run_begins_as_a_shorter_one() {
        let (short, long) = (
            catalogue(&Scenario::PRESENT, 0.1),
            catalogue(&Scenario::PRESENT, 0.3),
        );
        assert!(!short.extratropical.is_empty());
        for (a, b) in short.extratropical.iter().zip(&long.extratropical) {
            assert_eq!((a.birth_hours, a.origin), (b.birth_hours, b.origin));
        }
    }

    /// Times of a century had been computed the slower the longer the run was.
    #[test]
    fn few_storms_are_looked_at_and_none_that_lives_is_missed() {
        let all = catalogue(&Scenario::PRESENT, 10.0);
        assert!(all.tropical.len() > 700 && all.extratropical.len() > 9000);
        for hours in (0..87_600).step_by(1001).map(f64::from).chain([87_600.0]) {
            let lives = |storm: &&TropicalCyclone| storm.at(hours).is_some();
            let (near, every) = (all.tropical_near(hours), &all.tropical);
            let found: Vec<u64> = near.iter().filter(lives).map(|s| s.id).collect();
            let expected: Vec<u64> = every.iter().filter(lives).map(|s| s.id).collect();
            assert_eq!(found, expected, "{hours}");
            assert!(near.len() < 60, "{}", near.len());
            let lives = |storm: &&ExtratropicalCyclone| storm.at(hours).is_some();
            let (near, every) = (all.extratropical_near(hours), &all.extratropical);
            let found: Vec<u64> = near.iter().filter(lives).map(|s| s.id).collect();
            let expected: Vec<u64> = every.iter().filter(lives).map(|s| s.id).collect();
            assert_eq!(found, expected, "{hours}");
            assert!(near.len() < 120, "{}", near.len());
        }
    }

    #[test]
    fn tracks_move_at_storm_speed() {
        for storm in &catalogue(&Scenario::PRESENT, 2.0).tropical {
            for pair in storm.track.windows(2) {
                let km = crate::grid::distance_km(pair[0].0, pair[0].1, pair[1].0, pair[1].1);
                assert!(km < 3.0 * 3.6 * 25.0, "{km} km in 3 h");
            }
        }
    }
}
