//! Tests of which tracks and months count.

use super::*;
use crate::track::{Landfall, Origin, testdata};
use squall_data::Calendar;

fn at(month: i64, day: i64, hour: i64) -> Time {
    Time::new(Calendar::NoLeap, 2001, month, day, hour, 0, 0).unwrap()
}

fn statistics() -> Statistics {
    Statistics::new(&LatLonGrid::global(8, 12).unwrap())
}

/// A two-day cyclone of hurricane force in the West Pacific.
fn cyclone(start: Time, origin: Origin) -> Track {
    Track {
        origin,
        max_wind_m_s: Some(40.0),
        ..testdata::cyclone(start)
    }
}

#[test]
fn tracks_that_begin_after_a_gap_count() {
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
    // All of July and August, and ten days of the following July.
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
    let data = run.months_of_year();
    assert_eq!(data[6].coverage, Some(41.0 / 62.0));
    assert_eq!([0, 6, 7].map(|month| data[month].whole), [0, 1, 1]);
    assert_eq!(data[0].coverage, None);
    // Nor are the storms of one day those of a July.
    let mut part = statistics();
    part.add_time(start, None, 24.0, []).unwrap();
    part.add_track(&cyclone(start, Origin::Genesis));
    let cycle = part.seasonal_cycle(Class::TropicalCyclone, Basin::WestPacific);
    assert!(cycle[6].is_nan());
    // Tracks alone say nothing of the times.
    let mut tracks = statistics();
    tracks.add_track(&cyclone(start, Origin::Genesis));
    let cycle = tracks.seasonal_cycle(Class::TropicalCyclone, Basin::WestPacific);
    assert_eq!(cycle[6], 1.0);
}

/// A cyclone in the West Pacific with an optional wind.
fn seen(time: Time, max_wind_m_s: Option<f64>) -> Event {
    Event {
        class: Class::TropicalCyclone,
        time,
        track_id: None,
        lon_deg: 140.0,
        lat_deg: 15.0,
        area_km2: 9e4,
        west_deg: 139.0,
        south_deg: 14.0,
        east_deg: 141.0,
        north_deg: 16.0,
        length_km: 300.0,
        width_km: 300.0,
        orientation_deg: 0.0,
        min_psl_pa: None,
        max_wind_m_s,
        max_tmq_kg_m2: None,
        mean_prect_m_s: None,
        mean_probability: None,
        details: Default::default(),
    }
}

/// Regression: the energy was 0, as if all winds were below storm strength.
#[test]
fn the_energy_of_cyclones_without_winds_is_not_known() {
    let mut run = statistics();
    let calm = seen(at(7, 1, 0), None);
    run.add_time(at(7, 1, 0), None, 6.0, [&calm]).unwrap();
    let energy = |counts: &MonthCounts, basin: Basin| counts.known_energy()[basin as usize];
    let month = &run.months()[0];
    assert_eq!(energy(month, Basin::WestPacific), None);
    // Without cyclones the energy is known to be 0.
    assert_eq!(energy(month, Basin::EastPacific), Some(0.0));
    // 100 kt for six hours give 1; a depression gives a known 0.
    let storm = seen(at(8, 1, 0), Some(100.0 * 1852.0 / 3600.0));
    run.add_time(at(8, 1, 0), None, 6.0, [&storm]).unwrap();
    let weak = seen(at(9, 1, 0), Some(12.0));
    run.add_time(at(9, 1, 0), None, 6.0, [&weak]).unwrap();
    let months: Vec<Option<f64>> = (run.months().iter())
        .map(|month| energy(month, Basin::WestPacific))
        .collect();
    assert!(months[0].is_none() && months[2] == Some(0.0), "{months:?}");
    assert!((months[1].unwrap() - 1.0).abs() < 1e-9);
    let year = energy(&run.years()[0], Basin::WestPacific).unwrap();
    assert!((year - 1.0).abs() < 1e-9);
    // Removing and restoring parts of months does not change the result.
    let parts = run.take_months_before(at(10, 1, 0));
    assert!(run.months().is_empty());
    parts.iter().for_each(|part| run.put_back(part));
    assert_eq!(energy(&run.months()[0], Basin::WestPacific), None);
    assert_eq!(energy(&run.months()[2], Basin::WestPacific), Some(0.0));
}

/// Regression: the counts were 0 in every category and bin, as if there were no cyclones.
#[test]
fn categories_of_cyclones_without_winds_are_not_known() {
    let mut run = statistics();
    run.add_time(at(8, 1, 0), None, 6.0, []).unwrap();
    let calm = Track {
        max_wind_m_s: None,
        ..cyclone(at(8, 1, 0), Origin::Genesis)
    };
    run.add_track(&calm);
    let folder = tempfile::tempdir().unwrap();
    let counts = |run: &Statistics, table: &str, begin: &str| -> Vec<String> {
        run.write_csv(folder.path()).unwrap();
        let text = std::fs::read_to_string(folder.path().join(table)).unwrap();
        let rows = text.lines().filter(|row| row.starts_with(begin));
        rows.map(|row| row.rsplit(',').next().unwrap().to_string())
            .collect()
    };
    assert_eq!(counts(&run, "categories.csv", "WP,"), [""; 7]);
    // Without cyclones all categories are known to be 0.
    assert_eq!(counts(&run, "categories.csv", "NA,"), ["0"; 7]);
    let of_wind = "tropical_cyclone,max_wind,";
    assert_eq!(counts(&run, "histograms.csv", of_wind), [""; 22]);
    let lifetimes = counts(&run, "histograms.csv", "tropical_cyclone,lifetime,");
    assert!(lifetimes.iter().any(|count| count == "1") && !lifetimes.contains(&String::new()));
    // 40 m/s is a hurricane of category 1.
    run.add_track(&cyclone(at(8, 1, 0), Origin::Genesis));
    let known = ["0", "0", "1", "0", "0", "0", "0"];
    assert_eq!(counts(&run, "categories.csv", "WP,"), known);
    let winds = counts(&run, "histograms.csv", of_wind);
    assert_eq!(winds.iter().filter(|count| *count == "1").count(), 1);
}

/// Adds times every `step_hours` on a range of days after 1 July 2001, and a cyclone on each of the days in `storms`.
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
    // Daily, a year later six-hourly, then an incomplete July.
    let mut run = statistics();
    add_days(&mut run, 0..31, 24, &[1, 2, 3, 4]);
    add_days(&mut run, 365..396, 6, &[370, 371]);
    add_days(&mut run, 730..740, 6, &[731]);
    assert_eq!(july(&run), 3.0);
    // Every second day (16 days, then 15), then every day.
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

/// Their mean had been told as that of a July: of masks on a few days of each June, 20 tracks a month.
#[test]
fn episodes_are_no_months_of_the_seasonal_cycle() {
    let mut run = statistics();
    add_days(&mut run, 0..5, 3, &[1, 2, 3]);
    add_days(&mut run, 370..372, 3, &[370]);
    let folder = tempfile::tempdir().unwrap();
    run.write_csv(folder.path()).unwrap();
    let table = std::fs::read_to_string(folder.path().join("seasonal_cycle.csv")).unwrap();
    let rows: Vec<&str> = (table.lines())
        .filter(|row| row.starts_with("tropical_cyclone,WP,"))
        .collect();
    // Seven of 62 days.
    assert_eq!(rows[6], "tropical_cyclone,WP,7,,0,0.113");
    assert_eq!(rows[7], "tropical_cyclone,WP,8,,0,");
}

/// A cyclone with a landfall in the Bay of Bengal.
fn landing(start: Time, landfall: Time) -> Track {
    let mut track = cyclone(start, Origin::Genesis);
    track.details.landfall = Some(Landfall {
        time: landfall,
        lon_deg: 92.0,
        lat_deg: 20.0,
        max_wind_m_s: None,
        min_psl_pa: None,
        ivt_kg_m_s: None,
        ivt_proxy_kg_m_s: None,
        river_scale: None,
    });
    track
}

#[test]
fn landfalls_count_where_and_when_they_are() {
    let mut run = statistics();
    run.add_track(&landing(at(8, 30, 0), at(9, 2, 0)));
    let months = run.months().iter();
    let counts: Vec<_> = months
        .map(|month| {
            let tracks = month.tracks[0][Basin::WestPacific as usize];
            let landfalls = month.landfalls[0][Basin::NorthIndian as usize];
            (month.month, tracks, landfalls)
        })
        .collect();
    assert_eq!(counts, [(8, 1, 0), (9, 0, 1)]);
}

/// Two times; three objects and five tracks of cyclones, with a quarter of all rain; four tracks of rivers with
/// landfall.
#[test]
fn each_count_has_its_column_and_variable() {
    let mut run = statistics();
    // 100 kt for six hours give 1.
    let mut storm = seen(at(8, 2, 0), Some(100.0 * 1852.0 / 3600.0));
    storm.details.precipitation_km3 = Some(2.0);
    let storms = [&storm; 3];
    run.add_time(at(8, 2, 0), None, 6.0, storms).unwrap();
    run.add_time(at(8, 2, 6), None, 6.0, []).unwrap();
    run.add_precipitation(at(8, 2, 0), 24.0);
    for day in 1..=5 {
        let mut track = cyclone(at(8, day, 0), Origin::Genesis);
        track.details.landfalls = Some(0);
        run.add_track(&track);
    }
    for day in 6..=9 {
        let mut track = landing(at(8, day, 0), at(8, day, 6));
        track.class = Class::AtmosphericRiver;
        run.add_track(&track);
    }
    let folder = tempfile::tempdir().unwrap();
    run.write_csv(folder.path()).unwrap();
    let counts = "times,tracks,objects,ace_1e4_kt2,landfalls,precipitation_km3,precipitation_share";
    let cyclones = "2,5,3,3.0000,0,6.000,0.250000";
    // The landfalls are in another basin than the genesis.
    let (rivers, landed) = ("2,4,0,,0,0.000,0.000000", "2,0,0,,4,0.000,0.000000");
    for (table, date) in [("monthly.csv", "2001,8"), ("yearly.csv", "2001")] {
        let text = std::fs::read_to_string(folder.path().join(table)).unwrap();
        let header = text.lines().next().unwrap();
        assert!(
            header.ends_with(&format!("class,basin,{counts}")),
            "{header}"
        );
        for row in [
            format!("{date},tropical_cyclone,WP,{cyclones}"),
            format!("{date},atmospheric_river,WP,{rivers}"),
            format!("{date},atmospheric_river,NI,{landed}"),
        ] {
            assert!(
                text.lines().any(|line| line == row),
                "{row} is not in\n{text}"
            );
        }
    }
    let (path, grid) = (
        folder.path().join("statistics.nc"),
        LatLonGrid::global(8, 12).unwrap(),
    );
    run.write_netcdf(&path, &grid, Calendar::NoLeap).unwrap();
    let file = netcdf::open(&path).unwrap();
    let values = |name: &str| -> Vec<f64> { file.variable(name).unwrap().get_values(..).unwrap() };
    let of_month = [
        "year",
        "month_of_year",
        "times",
        "days",
        "all_precipitation",
    ]
    .map(values);
    // The second day of the month is the second bit.
    assert_eq!(of_month.concat(), [2001.0, 8.0, 2.0, 2.0, 24.0]);
    // August, by its middle and its ends.
    assert_eq!(values("time"), [15.5]);
    assert_eq!(values("time_bounds"), [0.0, 31.0]);
    // By class, then by basin.
    let (pacific, indian) = (Basin::WestPacific as usize, Basin::NorthIndian as usize);
    let of_rivers = Basin::ALL.len();
    for (name, place, expected) in [
        ("tracks", pacific, 5.0),
        ("tracks", of_rivers + pacific, 4.0),
        ("objects", pacific, 3.0),
        ("landfalls", of_rivers + indian, 4.0),
        ("precipitation", pacific, 6.0),
        ("ace", pacific, 3.0),
    ] {
        let found = values(name);
        assert!((found[place] - expected).abs() < 1e-9, "{name}: {found:?}");
        let sum: f64 = found.iter().sum();
        let all = if name == "tracks" { 9.0 } else { expected };
        assert!((sum - all).abs() < 1e-9, "{name}: {found:?}");
    }
}

/// Rivers of boxes do not tell where they lie: their tracks had blank cells, and the counts of months 0.
#[test]
fn landfalls_are_unknown_where_no_track_tells() {
    let landfalls = |told: &[Option<u32>]| {
        let mut run = statistics();
        run.add_time(at(8, 2, 0), None, 6.0, []).unwrap();
        for landfalls in told {
            let mut track = cyclone(at(8, 2, 0), Origin::Genesis);
            track.details.landfalls = *landfalls;
            run.add_track(&track);
        }
        let folder = tempfile::tempdir().unwrap();
        run.write_csv(folder.path()).unwrap();
        let table = std::fs::read_to_string(folder.path().join("monthly.csv")).unwrap();
        let mut rows = table.lines();
        let row = rows.find(|row| row.starts_with("2001,8,tropical_cyclone,WP,"));
        let cell = row.unwrap().split(',').nth(8).unwrap().to_string();
        let path = folder.path().join("statistics.nc");
        let grid = LatLonGrid::global(8, 12).unwrap();
        run.write_netcdf(&path, &grid, Calendar::NoLeap).unwrap();
        let file = netcdf::open(&path).unwrap();
        let variable = file.variable("landfalls").unwrap();
        let values: Vec<f64> = variable.get_values(..).unwrap();
        let is_known = values[Basin::WestPacific as usize] == 0.0;
        assert_eq!(is_known, !cell.is_empty(), "{cell}");
        // Of rivers there are no tracks, and so no landfalls.
        assert_eq!(values[Basin::ALL.len()], 0.0);
        cell
    };
    assert_eq!(landfalls(&[]), "0");
    assert_eq!(landfalls(&[None, None]), "");
    assert_eq!(landfalls(&[None, Some(0)]), "0");
}

/// Tables are blank there, but these had 0.
#[test]
fn variables_are_missing_for_classes_not_looked_for() {
    let mut run = statistics();
    let codes = ndarray::Array2::zeros((8, 12));
    let mask = ClassMask::new(at(8, 2, 0), codes).unwrap();
    run.add_time(mask.time, Some(&mask), 6.0, []).unwrap();
    run.add_precipitation(mask.time, 24.0);
    let run = run.of_classes(&[Class::AtmosphericRiver]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("statistics.nc");
    let grid = LatLonGrid::global(8, 12).unwrap();
    run.write_netcdf(&path, &grid, Calendar::NoLeap).unwrap();
    let file = netcdf::open(&path).unwrap();
    let values = |name: &str| -> Vec<f64> { file.variable(name).unwrap().get_values(..).unwrap() };
    for name in [
        "frequency",
        "tracks",
        "objects",
        "landfalls",
        "precipitation",
    ] {
        let found = values(name);
        let (cyclones, rivers) = found.split_at(found.len() / 2);
        assert!(cyclones.iter().all(|value| value.is_nan()), "{name}");
        assert!(rivers.iter().all(|value| *value == 0.0), "{name}");
    }
    assert!(values("ace").iter().all(|value| value.is_nan()));
    assert_eq!(values("all_precipitation"), [24.0]);
}

/// Months of a calendar that has 29 February, one of them missing, over the turn of a year.
#[test]
fn months_are_a_time_coordinate() {
    let mut run = Statistics::new(&LatLonGrid::global(8, 12).unwrap());
    for (year, month) in [(1999, 12), (2000, 2)] {
        let time = Time::new(Calendar::Standard, year, month, 3, 6, 0, 0).unwrap();
        run.add_time(time, None, 6.0, []).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("statistics.nc");
    let grid = LatLonGrid::global(8, 12).unwrap();
    run.write_netcdf(&path, &grid, Calendar::Standard).unwrap();
    let file = netcdf::open(&path).unwrap();
    let time = file.variable("time").unwrap();
    let text = |name: &str| match time.attribute_value(name).unwrap().unwrap() {
        netcdf::AttributeValue::Str(text) => text,
        other => panic!("{other:?}"),
    };
    assert_eq!(text("units"), "days since 1999-12-01 00:00:00");
    assert_eq!(text("calendar"), Calendar::Standard.cf_name());
    let bounds = file.variable(&text("bounds")).unwrap();
    let middles: Vec<f64> = time.get_values(..).unwrap();
    assert_eq!(middles, [15.5, 76.5]);
    let ends: Vec<f64> = bounds.get_values(..).unwrap();
    assert_eq!(ends, [0.0, 31.0, 62.0, 91.0]);
}

#[test]
fn statistics_name_the_program_that_made_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("statistics.nc");
    let grid = LatLonGrid::global(8, 12).unwrap();
    let mut run = statistics().made_by("a build".into());
    run.add_time(at(8, 2, 0), None, 6.0, []).unwrap();
    run.write_netcdf(&path, &grid, Calendar::NoLeap).unwrap();
    let file = netcdf::open(&path).unwrap();
    let said = file.attribute("squall_version").unwrap().value().unwrap();
    assert_eq!(said, netcdf::AttributeValue::Str("a build".into()));
}
