//! Which tracks and months count.

use super::*;
use crate::track::{Fate, Origin};
use squall_data::Calendar;

fn at(month: i64, day: i64, hour: i64) -> Time {
    Time::new(Calendar::NoLeap, 2001, month, day, hour, 0, 0).unwrap()
}

fn statistics() -> Statistics {
    Statistics::new(&LatLonGrid::global(8, 12).unwrap())
}

/// A cyclone of two days in the West Pacific.
fn cyclone(start: Time, origin: Origin) -> Track {
    Track {
        track_id: 1,
        class: Class::TropicalCyclone,
        start,
        end: start.add_seconds(2 * 86_400),
        points: 9,
        origin,
        fate: Fate::Lysis,
        related_track: None,
        genesis_lon_deg: 140.0,
        genesis_lat_deg: 15.0,
        end_lon_deg: 135.0,
        end_lat_deg: 18.0,
        distance_km: 800.0,
        max_area_km2: 9e4,
        mean_area_km2: 8e4,
        min_psl_pa: None,
        max_wind_m_s: Some(40.0),
        max_tmq_kg_m2: None,
        details: Default::default(),
    }
}

#[test]
fn what_is_there_after_a_hole_counts() {
    let mut run = statistics();
    for time in [at(8, 1, 0), at(8, 1, 6), at(8, 14, 18), at(8, 16, 6)] {
        run.add_time(time, None, 6.0, []).unwrap();
    }
    run.add_track(&cyclone(at(8, 1, 0), Origin::StartOfData));
    run.add_track(&cyclone(at(8, 1, 6), Origin::Genesis));
    run.add_track(&cyclone(at(8, 16, 6), Origin::StartOfData));
    let begun = |run: &Statistics| run.months()[0].tracks[0].iter().sum::<u64>();
    assert_eq!(begun(&run), 3);
    let categories: u64 = run.categories(Basin::WestPacific).iter().sum();
    assert_eq!(categories, 3);
}

#[test]
fn a_part_of_a_month_is_no_month_of_the_seasonal_cycle() {
    let mut run = statistics();
    // All of July and August; ten days of the next July.
    let start = at(7, 1, 0);
    for day in (0..62).chain(365..375) {
        let time = start.add_seconds(day * 86_400);
        run.add_time(time, None, 24.0, []).unwrap();
    }
    for day in [3, 9, 35] {
        let track = cyclone(start.add_seconds(day * 86_400), Origin::Genesis);
        run.add_track(&track);
    }
    let cycle = run.seasonal_cycle(Class::TropicalCyclone, Basin::WestPacific);
    assert_eq!((cycle[6], cycle[7]), (2.0, 1.0));
    assert!(cycle[0].is_nan());
    // Parts alone are better than nothing.
    let mut part = statistics();
    part.add_time(start, None, 24.0, []).unwrap();
    part.add_track(&cyclone(start, Origin::Genesis));
    let cycle = part.seasonal_cycle(Class::TropicalCyclone, Basin::WestPacific);
    assert_eq!(cycle[6], 1.0);
}

/// Counts times at so many hours' distance over days after 1 July 2001, and a cyclone at each of some days.
fn add_days(run: &mut Statistics, days: std::ops::Range<i64>, step_hours: i64, storms: &[i64]) {
    let start = at(7, 1, 0);
    let mut hours = days.start * 24;
    while hours < days.end * 24 {
        let time = start.add_seconds(hours * 3600);
        run.add_time(time, None, step_hours as f64, []).unwrap();
        hours += step_hours;
    }
    for day in storms {
        let track = cyclone(start.add_seconds(day * 86_400), Origin::Genesis);
        run.add_track(&track);
    }
}

#[test]
fn months_of_every_sampling_are_months_of_the_seasonal_cycle() {
    let july = |run: &Statistics| run.seasonal_cycle(Class::TropicalCyclone, Basin::WestPacific)[6];
    // Daily, later every six hours, then a part.
    let mut run = statistics();
    add_days(&mut run, 0..31, 24, &[1, 2, 3, 4]);
    add_days(&mut run, 365..396, 6, &[370, 371]);
    add_days(&mut run, 730..740, 6, &[731]);
    assert_eq!(july(&run), 3.0);
    // Every second day: 16 days and 15, and every day.
    let mut run = statistics();
    add_days(&mut run, 0..31, 48, &[1, 2, 3, 4]);
    add_days(&mut run, 366..396, 48, &[370, 371]);
    add_days(&mut run, 730..761, 24, &[731, 732, 733]);
    assert_eq!(july(&run), 3.0);
    // Every tenth day.
    let mut run = statistics();
    add_days(&mut run, 0..31, 240, &[1, 2]);
    add_days(&mut run, 370..396, 240, &[370, 371, 372, 373]);
    assert_eq!(july(&run), 3.0);
}

#[test]
fn episodes_are_all_in_the_seasonal_cycle() {
    // No July is whole: all count, however many times each has.
    let mut run = statistics();
    add_days(&mut run, 0..5, 3, &[1, 2, 3]);
    add_days(&mut run, 370..372, 3, &[370]);
    let cycle = run.seasonal_cycle(Class::TropicalCyclone, Basin::WestPacific);
    assert_eq!(cycle[6], 2.0);
}
