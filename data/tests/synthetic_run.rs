//! The synthetic run as a user meets it: files, truth, physics, restart.

use squall_data::archive::on_library_thread;
use squall_data::grid::lon_difference_deg;
use squall_data::mask_file::MaskArchive;
use squall_data::synthetic::{
    STEPS_PER_FILE, Scenario, SyntheticConfig, SyntheticRun, times_there, write_run,
};
use squall_data::{Archive, Calendar, Class, DataError, Snapshot, Time, Variable};
use std::fs;

fn config(rows: usize, columns: usize, steps: usize) -> SyntheticConfig {
    SyntheticConfig {
        rows,
        columns,
        start: Time::new(Calendar::NoLeap, 2000, 8, 1, 0, 0, 0).unwrap(),
        step_hours: 6,
        steps,
        scenario: Scenario::PRESENT,
        seed: 5,
    }
}

#[test]
fn every_value_is_plausible_at_every_season() {
    for month in [1, 4, 7, 10] {
        let start = Time::new(Calendar::NoLeap, 2000, month, 1, 0, 0, 0).unwrap();
        let run = SyntheticRun::new(SyntheticConfig {
            start,
            ..config(48, 72, 120)
        })
        .unwrap();
        for index in [3, 60, 119] {
            let (snapshot, _) = run.snapshot(index);
            for variable in Variable::CHANNELS {
                let (low, high) = variable.entry().plausible;
                let field = snapshot.field(variable).unwrap();
                let outside = field.iter().find(|v| !(low..=high).contains(*v));
                assert!(
                    outside.is_none(),
                    "{variable} in month {month}: {outside:?}"
                );
            }
        }
    }
}

/// A third of the storms had been missing: where birth and length of a life, added, round up.
#[test]
fn every_object_of_the_truth_is_of_a_track_and_the_summary_counts_tracks() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path();
    let summary = write_run(&config(36, 54, 240), out, STEPS_PER_FILE, |_| Ok(()));
    let ids = |name: &str, class: &str| -> std::collections::BTreeSet<String> {
        let table = fs::read_to_string(out.join("truth").join(name)).unwrap();
        let header: Vec<&str> = table.lines().next().unwrap().split(',').collect();
        let at = |name| header.iter().position(|column| *column == name).unwrap();
        let (id, of) = (at("track_id"), at("class"));
        let rows = table
            .lines()
            .map(|line| line.split(',').collect::<Vec<_>>());
        rows.filter(|row| row[of] == class)
            .map(|row| row[id].to_string())
            .collect()
    };
    let summary = summary.unwrap();
    for (class, count) in [
        ("tropical_cyclone", summary.tropical_cyclones),
        ("atmospheric_river", summary.rivers),
    ] {
        let (tracks, objects) = (ids("tracks.csv", class), ids("objects.csv", class));
        let lost: Vec<_> = objects.difference(&tracks).collect();
        assert!(lost.is_empty(), "{class}: {lost:?}");
        assert!(!objects.is_empty());
        assert_eq!(tracks.len(), count, "{class}");
    }
}

/// Births before the run and deaths after it are cut to its ends; where a storm is then is what the run says.
#[test]
fn the_table_of_tracks_has_the_lives_of_the_storms() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(36, 54, 40);
    write_run(&config, folder.path(), STEPS_PER_FILE, |_| Ok(())).unwrap();
    let run = SyntheticRun::new(config).unwrap();
    let table = fs::read_to_string(folder.path().join("truth/tracks.csv")).unwrap();
    let header: Vec<&str> = table.lines().next().unwrap().split(',').collect();
    let mut cyclones = 0;
    for line in table.lines().skip(1) {
        let row: Vec<&str> = line.split(',').collect();
        let cell = |name: &str| row[header.iter().position(|column| *column == name).unwrap()];
        let id = cell("track_id");
        let mut tropical = run.tropical_cyclones().iter();
        let tropical = tropical.find(|storm| storm.id.to_string() == id);
        let mut lows = run.extratropical_cyclones().iter();
        let low = lows.find(|storm| storm.id.to_string() == id);
        let (class, basin, birth, life) = match (tropical, low) {
            (Some(storm), None) => {
                cyclones += 1;
                let life = storm.life_hours();
                ("tropical_cyclone", storm.basin, storm.birth_hours, life)
            }
            (None, Some(low)) => ("atmospheric_river", "", low.birth_hours, low.life_hours),
            _ => panic!("no storm or two: {line}"),
        };
        assert_eq!([cell("class"), cell("basin")], [class, basin], "{line}");
        let (from, to) = (f64::max(birth, 0.0), f64::min(birth + life, 39.0 * 6.0));
        let at = |hours: f64| match (tropical, low) {
            (Some(storm), _) => storm.at(hours).unwrap(),
            _ => low.and_then(|low| low.at(hours)).unwrap(),
        };
        let hours = |name: &str| -> f64 {
            let time = Time::parse(cell(name), Calendar::NoLeap).unwrap();
            time.hours_since(run.time(0))
        };
        let number = |name: &str| -> f64 { cell(name).parse().unwrap() };
        let (first, last) = (at(from), at(to));
        for (found, expected, rounding) in [
            (hours("start_time"), from, 2e-4),
            (hours("end_time"), to, 2e-4),
            (number("duration_hours"), to - from, 0.051),
            (number("genesis_lon_deg"), first.lon, 6e-4),
            (number("genesis_lat_deg"), first.lat, 6e-4),
            (number("end_lon_deg"), last.lon, 6e-4),
            (number("end_lat_deg"), last.lat, 6e-4),
        ] {
            assert!((found - expected).abs() < rounding, "{expected}: {line}");
        }
    }
    assert!(cyclones > 0 && table.lines().count() > cyclones + 5);
}

/// Two degrees at the ground and 2.4 at 500 hPa; 7 % more vapour for each of the two.
#[test]
fn a_warmer_climate_is_as_warm_and_moist_as_is_said() {
    let means = |scenario: Scenario| {
        let run = SyntheticRun::new(SyntheticConfig {
            scenario,
            ..config(48, 72, 60)
        })
        .unwrap();
        let times = [0, 19, 38, 57].map(|index| run.snapshot(index).0);
        [Variable::Trefht, Variable::T500, Variable::Tmq].map(|variable| -> f64 {
            let of_time = |snapshot: &Snapshot| -> f64 {
                let field = snapshot.field(variable).unwrap();
                field.iter().map(|value| f64::from(*value)).sum()
            };
            times.iter().map(of_time).sum::<f64>() / (4.0 * 48.0 * 72.0)
        })
    };
    let (present, warm) = (means(Scenario::PRESENT), means(Scenario::PLUS_2K));
    let [ground, aloft] = [0, 1].map(|k| warm[k] - present[k]);
    assert!((ground - 2.0).abs() < 0.05, "{ground} K");
    assert!((aloft - 2.4).abs() < 0.05, "{aloft} K");
    let moister = warm[2] / present[2];
    assert!((moister - 1.14).abs() < 0.03, "{moister}");
}

/// Another run's files had become this one's.
#[test]
fn a_folder_whose_description_cannot_be_read_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let told = folder.path().join("truth/run.txt");
    fs::create_dir(told.parent().unwrap()).unwrap();
    fs::write(&told, b"\xff damaged").unwrap();
    let error = write_run(
        &config(24, 36, 2),
        folder.path(),
        STEPS_PER_FILE,
        |_| Ok(()),
    );
    let error = error.unwrap_err();
    assert!(matches!(error, DataError::Io { .. }), "{error}");
    assert!(error.to_string().contains("run.txt"), "{error}");
    assert_eq!(fs::read(&told).unwrap(), b"\xff damaged");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn any_order_gives_the_same_bits() {
    let (a, b) = (
        SyntheticRun::new(config(48, 72, 40)).unwrap(),
        SyntheticRun::new(config(48, 72, 80)).unwrap(),
    );
    let forward: Vec<_> = (0..4).map(|index| a.snapshot(index * 9).0.fields).collect();
    let backward: Vec<_> = (0..4)
        .rev()
        .map(|index| b.snapshot(index * 9).0.fields)
        .collect();
    assert!(
        forward.iter().eq(backward.iter().rev()),
        "a field depends on what was computed before"
    );
    let other = SyntheticRun::new(SyntheticConfig {
        seed: 6,
        ..config(48, 72, 40)
    })
    .unwrap();
    assert_ne!(other.snapshot(9).0.fields, forward[1]);
}

#[test]
fn cyclones_have_low_pressure_warm_cores_and_wind() {
    let run = SyntheticRun::new(config(192, 288, 240)).unwrap();
    let grid = run.grid().clone();
    let mut strong = 0;
    for index in (0..240).step_by(20) {
        let (snapshot, _) = run.snapshot(index);
        let hours = 6.0 * index as f64;
        for storm in run.tropical_cyclones() {
            let Some(state) = storm.at(hours).filter(|s| s.deficit_pa > 2500.0) else {
                continue;
            };
            strong += 1;
            let (j, i) = grid.nearest(state.lat, state.lon);
            let at = |variable: Variable, dj: isize| {
                snapshot.field(variable).unwrap()[[j.saturating_add_signed(dj), i]]
            };
            assert!(
                at(Variable::Psl, 5) - at(Variable::Psl, 0) > 800.0,
                "pressure rises by 8 hPa in 5 rows"
            );
            let core = at(Variable::T500, 0) + at(Variable::T200, 0)
                - at(Variable::T500, 5)
                - at(Variable::T200, 5);
            assert!(core > 1.6, "{core} K");
            let wind = (-4..=4)
                .flat_map(|dj: isize| (-4..=4).map(move |di: isize| (dj, di)))
                .filter_map(|(dj, di)| Some((j.checked_add_signed(dj)?, grid.column(i, di)?)))
                .map(|at| {
                    snapshot.field(Variable::Ubot).unwrap()[at]
                        .hypot(snapshot.field(Variable::Vbot).unwrap()[at])
                })
                .fold(0.0, f32::max);
            assert!(
                wind > 17.0,
                "{wind} m/s at a deficit of {} Pa",
                state.deficit_pa
            );
        }
    }
    assert!(strong > 5, "only {strong} strong storms");
}

/// It had been a quarter more, since deeper cyclones rain more by themselves. The same storms, without rain, with that of
/// the present and with that of a warmer climate.
#[test]
fn cyclones_of_a_warmer_climate_have_as_much_more_rain_as_is_said() {
    let warm = Scenario::PLUS_2K;
    let rain = |cyclone_rain: f64, cyclone_deficit: f64| -> f64 {
        let scenario = Scenario {
            cyclone_rain,
            cyclone_deficit,
            ..Scenario::PRESENT
        };
        let run = SyntheticRun::new(SyntheticConfig {
            scenario,
            ..config(72, 108, 120)
        })
        .unwrap();
        let of_time = |index: usize| -> f64 {
            let (snapshot, _) = run.snapshot(index);
            let field = snapshot.field(Variable::Prect).unwrap();
            field.iter().map(|value| f64::from(*value)).sum()
        };
        [20, 60, 100].map(of_time).iter().sum()
    };
    let dry = rain(0.0, 1.0);
    let present = rain(1.0, 1.0) - dry;
    let warmer = rain(warm.cyclone_rain, warm.cyclone_deficit) - dry;
    assert!(present > 0.05 * dry, "{present} {dry}");
    let ratio = warmer / present;
    assert!((ratio - 1.14).abs() < 0.02, "{ratio}");
}

#[test]
fn files_open_as_cam_history_and_truth_beside_them() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(48, 72, 10);
    let summary = write_run(&config, folder.path(), STEPS_PER_FILE, |_| Ok(())).unwrap();
    assert_eq!((summary.times, summary.files, summary.kept), (10, 2, 0));
    let archive = Archive::open(folder.path().to_str().unwrap()).unwrap();
    assert_eq!(
        (archive.times().len(), archive.calendar()),
        (10, Calendar::NoLeap)
    );
    assert_eq!(archive.available(), Variable::CHANNELS);
    let run = SyntheticRun::new(config.clone()).unwrap();
    assert_eq!(**archive.grid(), **run.grid());
    let (snapshot, truth) = run.snapshot(9);
    let read = archive.read(9, &Variable::CHANNELS).unwrap();
    assert_eq!((read.time, read.fields), (snapshot.time, snapshot.fields));
    let masks = MaskArchive::open(folder.path().join("truth").to_str().unwrap()).unwrap();
    assert_eq!(masks.read(9).unwrap(), truth.mask);
    let objects = fs::read_to_string(folder.path().join("truth/objects.csv")).unwrap();
    assert!(objects.starts_with("class,time,lon_deg,lat_deg,area_km2"));
    assert!(
        objects
            .lines()
            .filter(|line| line.contains(&read.time.to_string()))
            .count()
            == truth.objects.len()
    );
    // Each number of the table stands under its name.
    let header: Vec<&str> = objects.lines().next().unwrap().split(',').collect();
    let mut rows = objects.lines().skip(1);
    for object in (0..10).flat_map(|index| run.snapshot(index).1.objects) {
        let row: Vec<&str> = rows.next().unwrap().split(',').collect();
        let cell = |name: &str| row[header.iter().position(|column| *column == name).unwrap()];
        assert_eq!(cell("class"), object.class.name());
        assert_eq!(cell("track_id"), object.track_id.to_string());
        for (name, value, rounding) in [
            ("lon_deg", object.lon_deg, 6e-4),
            ("lat_deg", object.lat_deg, 6e-4),
            ("area_km2", object.area_km2, 0.6),
            ("west_deg", object.west_deg, 6e-4),
            ("south_deg", object.south_deg, 6e-4),
            ("east_deg", object.east_deg, 6e-4),
            ("north_deg", object.north_deg, 6e-4),
        ] {
            let found: f64 = cell(name).parse().unwrap();
            assert!((found - value).abs() < rounding, "{name}: {row:?}");
        }
    }
    assert!(rows.next().is_none());
}

/// What tools of CAM read besides the fields: the second file of a run that starts on 1 August, eight times a file.
#[test]
fn times_and_weights_of_files_are_those_of_cam() {
    let folder = tempfile::tempdir().unwrap();
    write_run(&config(48, 72, 10), folder.path(), 8, |_| Ok(())).unwrap();
    let name = "squall_present_seed5.cam.h2.2000-08-03-00000.nc";
    let path = folder.path().join(name);
    let stored = |name: &str| -> Vec<f64> {
        on_library_thread(|| {
            let file = netcdf::open(&path).unwrap();
            let variable = file.variable(name).unwrap();
            variable.get_values(..).unwrap()
        })
    };
    assert_eq!(stored("time"), [2.0, 2.25]);
    // The interval ends with its time.
    assert_eq!(stored("time_bnds"), [1.75, 2.0, 2.0, 2.25]);
    assert_eq!(stored("date"), [20_000_803.0, 20_000_803.0]);
    assert_eq!(stored("datesec"), [0.0, 21_600.0]);
    // sin φ2 - sin φ1 of each row: the first north of the equator reaches to 3.83 degrees, those at the poles are alike.
    let weights = stored("gw");
    let sum: f64 = weights.iter().sum();
    assert!((sum - 2.0).abs() < 1e-9, "{sum}");
    assert!((weights[24] - 0.066_79).abs() < 1e-5, "{}", weights[24]);
    assert!((weights[0] - weights[47]).abs() < 1e-9 && weights[0] < 0.001);
}

/// Anticlockwise in the north, clockwise in the south, and inward near the ground.
#[test]
fn cyclones_turn_as_their_hemisphere_has_it() {
    let (mut north, mut south) = ((0, 0.0), (0, 0.0));
    for month in [2, 8] {
        let start = Time::new(Calendar::NoLeap, 2000, month, 1, 0, 0, 0).unwrap();
        let run = SyntheticRun::new(SyntheticConfig {
            start,
            ..config(96, 144, 120)
        })
        .unwrap();
        let grid = run.grid().clone();
        for index in (0..120).step_by(8) {
            let storms = run.tropical_cyclones().iter();
            let states = storms.filter_map(|storm| storm.at(6.0 * index as f64));
            let strong: Vec<_> = states.filter(|state| state.deficit_pa > 2500.0).collect();
            if strong.is_empty() {
                continue;
            }
            let (snapshot, _) = run.snapshot(index);
            for state in strong {
                let at = |variable: Variable, north: f64, east: f64| {
                    let lon = (state.lon + east).rem_euclid(360.0);
                    let place = grid.nearest(state.lat + north, lon);
                    snapshot.field(variable).unwrap()[place]
                };
                let (u, v) = (Variable::U850, Variable::V850);
                // Northward in the east and westward in the north, if it is anticlockwise.
                let along = at(v, 0.0, 2.5) - at(v, 0.0, -2.5);
                let spin = along - at(u, 2.5, 0.0) + at(u, -2.5, 0.0);
                let (u, v) = (Variable::Ubot, Variable::Vbot);
                let inward = at(u, 0.0, -2.5) - at(u, 0.0, 2.5);
                let inflow = inward + at(v, -2.5, 0.0) - at(v, 2.5, 0.0);
                let side = if state.lat > 0.0 { 1.0 } else { -1.0 };
                assert!(side * spin > 10.0, "{spin} m/s at {state:?}");
                let sums = if side > 0.0 { &mut north } else { &mut south };
                *sums = (sums.0 + 1, sums.1 + inflow);
            }
        }
    }
    assert!(north.0 >= 3 && south.0 >= 3, "{north:?} {south:?}");
    assert!(north.1 > 0.0 && south.1 > 0.0, "{north:?} {south:?}");
}

/// They lie west and equatorward of their cyclones, hold more water than their latitudes, and blow eastward and, on the
/// whole, poleward.
#[test]
fn rivers_bring_vapour_from_the_tropics_to_their_cyclones() {
    let run = SyntheticRun::new(config(96, 144, 120)).unwrap();
    let grid = run.grid();
    let (mut rivers, mut poleward) = (0, 0.0);
    for index in (0..120).step_by(20) {
        let (snapshot, truth) = run.snapshot(index);
        let field = |variable| snapshot.field(variable).unwrap();
        let (water, u) = (field(Variable::Tmq), field(Variable::U850));
        let v = field(Variable::V850);
        for river in &truth.objects {
            if river.class != Class::AtmosphericRiver {
                continue;
            }
            let mut lows = run.extratropical_cyclones().iter();
            let low = lows.find(|low| low.id == river.track_id).unwrap();
            let low = low.at(6.0 * index as f64).unwrap();
            assert!(river.lat_deg.abs() < low.lat.abs(), "{river:?}: {low:?}");
            let east = lon_difference_deg(river.lon_deg, low.lon);
            assert!(east < 0.0, "{river:?}: {low:?}");
            let rows = river.south_deg..=river.north_deg;
            let width = (river.east_deg - river.west_deg).rem_euclid(360.0);
            let from_west = |i: usize| (grid.lon_deg()[i] - river.west_deg).rem_euclid(360.0);
            let all = truth.mask.codes.indexed_iter();
            let own = all.filter(|((j, i), code)| {
                let is_inside = rows.contains(&grid.lat_deg()[*j]) && from_west(*i) <= width;
                is_inside && **code == Class::AtmosphericRiver.code()
            });
            let cells: Vec<(usize, usize)> = own.map(|(at, _)| at).collect();
            // Cyclones stand above rivers and may hide one.
            if cells.is_empty() {
                continue;
            }
            let count = cells.len() as f32;
            let mean = |of: &dyn Fn((usize, usize)) -> f32| -> f32 {
                cells.iter().map(|&at| of(at)).sum::<f32>() / count
            };
            let around = |(j, _): (usize, usize)| water.row(j).mean().unwrap();
            let moister = mean(&|at| water[at]) / mean(&around);
            assert!(moister > 1.4, "{river:?}: {moister}");
            let (east, north) = (mean(&|at| u[at]), mean(&|at| v[at]));
            assert!(east > 0.0, "{river:?}: {east} m/s");
            rivers += 1;
            poleward += north * low.lat.signum() as f32;
        }
    }
    assert!(rivers > 10 && poleward > 0.0, "{rivers} {poleward}");
}

/// Warmth and rain follow the sun; trade winds blow from the east, those of the middle latitudes from the west, in both
/// hemispheres.
#[test]
fn zonal_means_have_the_season_and_the_winds_of_their_latitude() {
    for (month, summer) in [(1, -1.0), (7, 1.0)] {
        let start = Time::new(Calendar::NoLeap, 2000, month, 10, 0, 0, 0).unwrap();
        let run = SyntheticRun::new(SyntheticConfig {
            start,
            ..config(48, 72, 60)
        })
        .unwrap();
        let times = [0, 19, 38, 57].map(|index| run.snapshot(index).0);
        let mean = |variable: Variable, lat_deg: f64| -> f64 {
            let (row, _) = run.grid().nearest(lat_deg, 0.0);
            let of_time = |snapshot: &Snapshot| -> f64 {
                let field = snapshot.field(variable).unwrap();
                field.row(row).iter().map(|value| f64::from(*value)).sum()
            };
            times.iter().map(of_time).sum::<f64>() / (4.0 * 72.0)
        };
        for (variable, lat_deg, least) in [
            (Variable::Trefht, 40.0, 3.0),
            (Variable::T500, 40.0, 1.0),
            (Variable::Prect, 10.0, 0.0),
        ] {
            let north_less_south = mean(variable, lat_deg) - mean(variable, -lat_deg);
            assert!(
                summer * north_less_south > least,
                "{variable} in month {month}"
            );
        }
        for side in [-1.0, 1.0] {
            let (trades, westerlies) = (
                mean(Variable::Ubot, 15.0 * side),
                mean(Variable::U850, 45.0 * side),
            );
            let told = format!("{trades} and {westerlies} m/s in month {month}");
            assert!(trades < 0.0 && westerlies > 0.0, "{told}");
        }
    }
}

/// p = p0 (1 - Γ z / T)^(g / R Γ), and z = R T / g ln(p / 1000 hPa) for the heights of levels.
#[test]
fn pressure_and_heights_are_hydrostatic() {
    let run = SyntheticRun::new(config(48, 72, 4)).unwrap();
    let (snapshot, _) = run.snapshot(2);
    let field = |variable| snapshot.field(variable).unwrap();
    let (psl, z1000, z200) = (
        field(Variable::Psl),
        field(Variable::Z1000),
        field(Variable::Z200),
    );
    let (mut lows, mut highs) = (0, 0);
    for (at, psl) in psl.indexed_iter() {
        let (low, high) = (f64::from(z1000[at]), f64::from(z200[at]));
        // R / g = 29.27 m/K.
        let layer = 29.27 * (f64::from(*psl) / 100_000.0).ln();
        if (*psl - 100_000.0).abs() > 200.0 {
            let temperature = low / layer;
            assert!((220.0..320.0).contains(&temperature), "{temperature} K");
        }
        lows += usize::from(*psl < 99_800.0);
        highs += usize::from(*psl > 100_200.0);
        let temperature = (high - low) / (29.27 * 5f64.ln());
        assert!((220.0..285.0).contains(&temperature), "{temperature} K");
    }
    assert!(lows > 0 && highs > 0);
    let at = |lat_deg: f64, lon_deg: f64, variable: Variable| {
        snapshot.field(variable).unwrap()[run.grid().nearest(lat_deg, lon_deg)]
    };
    // Tibet is 4.5 km high, and there is no land in the Pacific.
    let tibet = at(33.0, 88.0, Variable::Ps);
    assert!((54_000.0..64_000.0).contains(&tibet), "{tibet} Pa");
    let [ps, psl] = [Variable::Ps, Variable::Psl].map(|variable| at(0.0, 200.0, variable));
    assert!((ps - psl).abs() < 1.0, "{ps} {psl} Pa");
}

/// Land is warmest against the air in the early afternoon; in Australia, nine hours east of Greenwich, that is at 6 UTC.
#[test]
fn the_ground_follows_the_local_sun() {
    let run = SyntheticRun::new(config(48, 72, 4)).unwrap();
    let warmer = |lat_deg: f64, lon_deg: f64| -> [f32; 4] {
        let place = run.grid().nearest(lat_deg, lon_deg);
        [0, 1, 2, 3].map(|index| {
            let (snapshot, _) = run.snapshot(index);
            let at = |variable| snapshot.field(variable).unwrap()[place];
            at(Variable::Ts) - at(Variable::Trefht)
        })
    };
    let [midnight, six, noon, eighteen] = warmer(-25.0, 134.0);
    assert!(six > midnight + 1.0 && six > noon + 1.0, "{six} K");
    assert!(eighteen < midnight - 1.0 && eighteen < noon - 1.0);
    // At sea there is hardly a day.
    let sea = warmer(0.0, 200.0);
    assert!(sea.iter().all(|warmer| (warmer - sea[0]).abs() < 0.1));
}

/// What is swept goes by exact names: others may be writing into the folder.
#[test]
fn what_a_killed_run_has_begun_is_cleared_away() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(24, 36, 4);
    let each = STEPS_PER_FILE;
    write_run(&config, folder.path(), each, |_| Ok(())).unwrap();
    let at = |name: &str| folder.path().join(name);
    let history = "squall_present_seed5.cam.h2.2000-08-01-00000.nc";
    assert!(at(history).is_file());
    let left = [
        format!(".{history}.17.tmp"),
        "truth/.truth.2000-08-01-00000.nc.17.tmp".into(),
        "truth/..objects.2000-08-01-00000.csv.17.tmp".into(),
        "truth/..boxes.2000-08-01-00000.csv.17.tmp".into(),
        "truth/.tracks.csv.17.tmp".into(),
        "truth/.run.txt.17.tmp".into(),
    ];
    let stays = [
        ".squall_present_seed6.cam.h2.2000-08-01-00000.nc.17.tmp",
        ".labels.2000-08-01-00000.nc.17.tmp",
        "truth/.mine.nc.17.tmp",
        "truth/.truth.2000-08-01-00000.nc.tmp",
    ];
    for name in left.iter().map(String::as_str).chain(stays) {
        fs::write(at(name), "half").unwrap();
    }
    let summary = write_run(&config, folder.path(), each, |_| Ok(())).unwrap();
    assert_eq!(summary.kept, 1);
    assert!(left.iter().all(|name| !at(name).exists()));
    assert!(stays.iter().all(|name| at(name).exists()));
}

#[test]
fn files_that_were_cut_short_are_written_anew() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(24, 36, 8);
    let each = 4;
    write_run(&config, folder.path(), each, |_| Ok(())).unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in [
        "squall_present_seed5.cam.h2.2000-08-01-00000.nc",
        "truth/truth.2000-08-02-00000.nc",
    ] {
        let whole = fs::read(at(name)).unwrap();
        fs::write(at(name), &whole[..whole.len() / 2]).unwrap();
        let summary = write_run(&config, folder.path(), each, |_| Ok(())).unwrap();
        assert_eq!((summary.files, summary.kept), (2, 1), "{name}");
        assert!(
            fs::read(at(name)).unwrap().len() > whole.len() / 2,
            "{name}"
        );
    }
    // Of what was copied to a full disk names are left; storms of half the times were missing in the tables.
    for name in [
        "truth/.objects.2000-08-01-00000.csv",
        "truth/.boxes.2000-08-02-00000.csv",
    ] {
        let whole = fs::read(at(name)).unwrap();
        for left in [0, whole.len() / 2] {
            fs::write(at(name), &whole[..left]).unwrap();
            let summary = write_run(&config, folder.path(), each, |_| Ok(())).unwrap();
            assert_eq!((summary.files, summary.kept), (2, 1), "{name}");
            assert_eq!(fs::read(at(name)).unwrap(), whole, "{name}");
        }
    }
    let (run, truth) = (folder.path(), at("truth"));
    let fields = Archive::open(run.to_str().unwrap()).unwrap();
    let masks = MaskArchive::open(truth.to_str().unwrap()).unwrap();
    assert_eq!((fields.times().len(), masks.times().len()), (8, 8));
}

#[test]
fn a_stopped_run_goes_on_and_another_run_is_refused() {
    let (whole, stopped) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let config = config(48, 72, 12);
    let each = 4;
    write_run(&config, whole.path(), each, |_| Ok(())).unwrap();
    let stop = |done| {
        if done < 6 {
            Ok(())
        } else {
            Err(DataError::Invalid("stop".into()))
        }
    };
    write_run(&config, stopped.path(), each, stop).unwrap_err();
    let run = SyntheticRun::new(config.clone()).unwrap();
    let there = |folder: &tempfile::TempDir| times_there(&run, folder.path(), each);
    assert_eq!([there(&stopped), there(&whole)], [4, 12]);
    let summary = write_run(&config, stopped.path(), each, |_| Ok(())).unwrap();
    assert_eq!(
        summary.kept, 1,
        "the finished file is kept, the half-written one is not"
    );
    for entry in fs::read_dir(whole.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let other = stopped.path().join(path.file_name().unwrap());
            assert!(
                fs::read(&path).unwrap() == fs::read(&other).unwrap(),
                "{}",
                path.display()
            );
        }
    }
    let other = SyntheticConfig { seed: 99, ..config };
    let error = write_run(&other, stopped.path(), each, |_| Ok(()))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("seed 99") && error.contains("seed 5"),
        "{error}"
    );
}
