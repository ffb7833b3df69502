//! Impact of events on hand-made weather with known results, and vapour transport against a real analysis.

use ndarray::{Array2, Array3};
use squall_climate::Track;
use squall_climate::derived::{integrated_vapour_transport, vapour_transport_proxy};
use squall_climate::events::{EventFields, ExtractOptions, extract};
use squall_climate::map::LandMask;
use squall_climate::statistics::{Statistics, ace_of_point};
use squall_climate::stream::{Decided, EventStream, Moment};
use squall_climate::track::TrackerOptions;
use squall_data::grid::{EARTH_RADIUS_KM, distance_km};
use squall_data::{
    Archive, Calendar, Class, ClassMask, LatLonGrid, Snapshot, Time, Variable, testdata, wire,
};
use std::sync::Arc;

fn at(step: usize) -> Time {
    Time::new(Calendar::NoLeap, 2001, 9, 1, 0, 0, 0)
        .unwrap()
        .add_seconds(21_600 * step as i64)
}

const FIELDS: [Variable; 7] = [
    Variable::Tmq,
    Variable::Ubot,
    Variable::Vbot,
    Variable::U850,
    Variable::V850,
    Variable::Psl,
    Variable::Prect,
];

/// One object of a class that moves along `path` (latitude, longitude), with a wind for each step.
struct World {
    grid: Arc<LatLonGrid>,
    class: Class,
    path: Vec<(f64, f64)>,
    wind_m_s: Vec<f32>,
    tmq: f32,
    radius_km: f64,
}

impl World {
    fn step(&self, step: usize) -> (ClassMask, Snapshot) {
        let (lat, lon) = self.path[step];
        let grid = &self.grid;
        let far = |j: usize, i: usize| distance_km(lat, lon, grid.lat_deg()[j], grid.lon_deg()[i]);
        let codes = Array2::from_shape_fn(grid.shape(), |(j, i)| {
            self.class.code() * u8::from(far(j, i) < self.radius_km)
        });
        let (rows, columns) = grid.shape();
        let wind = self.wind_m_s[step];
        let fields = Array3::from_shape_fn((7, rows, columns), |(k, j, i)| match FIELDS[k] {
            Variable::Tmq => self.tmq,
            Variable::Ubot | Variable::U850 => 0.6 * wind,
            Variable::Vbot | Variable::V850 => 0.8 * wind,
            Variable::Psl => 100_000.0 + far(j, i) as f32,
            _ => 1e-7,
        });
        let snapshot = Snapshot {
            time: at(step),
            grid: self.grid.clone(),
            variables: FIELDS.to_vec(),
            fields,
            source: ("world".into(), step),
        };
        (ClassMask::new(at(step), codes).unwrap(), snapshot)
    }

    fn run(&self) -> (Decided, Statistics) {
        self.run_with_fields_every(1)
    }

    /// The same with fields only at every `every`-th time.
    fn run_with_fields_every(&self, every: usize) -> (Decided, Statistics) {
        self.run_by(TrackerOptions::default(), every)
    }

    fn run_by(&self, options: TrackerOptions, every: usize) -> (Decided, Statistics) {
        let land = LandMask::natural_earth(&self.grid);
        let mut stream = EventStream::new(&self.grid, options).unwrap();
        let mut all = Decided::default();
        for step in 0..self.path.len() {
            let (mask, snapshot) = self.step(step);
            let fields = EventFields {
                land: Some(&land),
                snapshot: step.is_multiple_of(every).then_some(&snapshot),
                ..EventFields::default()
            };
            let found = extract(&mask, &self.grid, &fields, &ExtractOptions::default()).unwrap();
            let moment = Moment {
                time: mask.time,
                mask: Some(&mask),
                hours: 6.0,
                fields_hours: match fields.snapshot {
                    Some(_) => 6.0 * every as f64,
                    None => 6.0,
                },
                fields: &fields,
            };
            let decided = stream.add(&moment, found).unwrap();
            all.events.extend(decided.events);
            all.tracks.extend(decided.tracks);
        }
        let (last, statistics, _) = stream.finish();
        all.events.extend(last.events);
        all.tracks.extend(last.tracks);
        (all, statistics)
    }
}

fn only(decided: &Decided) -> &Track {
    assert_eq!(decided.tracks.len(), 1);
    &decided.tracks[0]
}

#[test]
fn a_hurricane_lands_on_the_gulf_coast_once_with_its_energy() {
    // North over the Gulf of Mexico, half a degree per step; the coast of Louisiana is near 29.3N at 268.5E.
    let path: Vec<(f64, f64)> = (0..20)
        .map(|k| (24.0 + 0.5 * f64::from(k), 268.5))
        .collect();
    let wind: Vec<f32> = (0..20)
        .map(|k| if k < 10 { 40.0 + k as f32 } else { 20.0 })
        .collect();
    let world = World {
        grid: Arc::new(LatLonGrid::global(361, 720).unwrap()),
        class: Class::TropicalCyclone,
        path: path.clone(),
        wind_m_s: wind.clone(),
        tmq: 60.0,
        radius_km: 300.0,
    };
    let (decided, statistics) = world.run();
    let track = only(&decided);
    let details = &track.details;
    assert_eq!(details.landfalls, Some(1));
    let landfall = details.landfall.as_ref().unwrap();
    assert!((28.9..30.6).contains(&landfall.lat_deg), "{landfall:?}");
    assert!((landfall.lon_deg - 268.5).abs() < 0.3, "{landfall:?}");
    // The stronger wind of the points before landfall and at it.
    let step = (landfall.time.seconds_since(at(0)) / 21_600) as usize;
    let expected = f64::from(wind[step].max(wind[step - 1]));
    assert!(
        (landfall.max_wind_m_s.unwrap() - expected).abs() < 1e-4,
        "{landfall:?}"
    );
    assert!(decided.events[step - 1].details.land_lat_deg.is_none());
    // Energy by hand: every point stands for six hours.
    let ace: f64 = wind.iter().map(|&w| ace_of_point(f64::from(w), 6.0)).sum();
    assert!((details.ace_1e4_kt2.unwrap() / ace - 1.0).abs() < 1e-5);
    let pdi: f64 = wind.iter().map(|&w| f64::from(w).powi(3) * 21_600.0).sum();
    assert!((details.pdi_m3_s2.unwrap() / pdi - 1.0).abs() < 1e-5);
    // Half a degree of latitude in six hours.
    let speed = EARTH_RADIUS_KM * 1000.0 * 0.5f64.to_radians() / 21_600.0;
    assert!(
        (details.max_speed_m_s.unwrap() / speed - 1.0).abs() < 0.15,
        "{details:?}"
    );
    assert!((track.mean_speed_m_s().unwrap() / speed - 1.0).abs() < 0.05);
    // With rain of 1e-7 m/s everywhere, the cyclone's share of the rain is its share of the Earth.
    let month = &statistics.months()[0];
    let share = month.precipitation_km3[0].iter().sum::<f64>() / month.all_precipitation_km3;
    let cap = std::f64::consts::PI * 300f64.powi(2);
    let sphere = 4.0 * std::f64::consts::PI * EARTH_RADIUS_KM.powi(2);
    assert!((share / (cap / sphere) - 1.0).abs() < 0.03, "{share}");
    let area: f64 = decided.events.iter().map(|e| e.area_km2).sum();
    let water_km3 = area * 1e6 * 1e-7 * 21_600.0 / 1e9;
    assert!((details.precipitation_km3.unwrap() / water_km3 - 1.0).abs() < 1e-5);
    assert_eq!(month.landfalls[0].iter().sum::<u64>(), 1);
}

#[test]
fn a_storm_that_begins_on_land_or_stays_at_sea_makes_no_landfall() {
    let still = |lat: f64, lon: f64| World {
        grid: Arc::new(LatLonGrid::global(181, 360).unwrap()),
        class: Class::TropicalCyclone,
        path: vec![(lat, lon); 10],
        wind_m_s: vec![30.0; 10],
        tmq: 50.0,
        radius_km: 300.0,
    };
    for (lat, lon) in [(35.0, 265.0), (15.0, 200.0)] {
        let (decided, _) = still(lat, lon).run();
        let details = &only(&decided).details;
        assert_eq!(
            (details.landfalls, details.landfall),
            (Some(0), None),
            "{lat} {lon}"
        );
    }
}

#[test]
fn a_river_at_a_place_is_ranked_by_transport_and_stay() {
    // A transport of 30 kg m-2 times 20 m/s is 600, rank 2. Less than a day of it lowers the rank to 1; two days raise
    // it to 3.
    let world = |steps: usize, drift_deg: f64| World {
        grid: Arc::new(LatLonGrid::global(91, 180).unwrap()),
        class: Class::AtmosphericRiver,
        path: (0..steps)
            .map(|k| (40.0, 180.0 + drift_deg * k as f64))
            .collect(),
        wind_m_s: vec![20.0; steps],
        tmq: 30.0,
        radius_km: 800.0,
    };
    let (decided, _) = world(10, 0.0).run();
    let ranks: Vec<_> = decided
        .events
        .iter()
        .map(|e| e.details.river_scale)
        .collect();
    let expected = [1, 1, 1, 2, 2, 2, 2, 3, 3, 3].map(Some);
    assert_eq!(ranks, expected);
    let track = only(&decided);
    assert_eq!(track.details.river_scale, Some(3));
    // A long step bridged by the allowed gap is not a hole in the data, for places as for tracks.
    let short_steps = TrackerOptions {
        max_step_hours: 3.0,
        ..TrackerOptions::default()
    };
    let (bridged, _) = world(10, 0.0).run_by(short_steps, 1);
    assert_eq!(only(&bridged).details.river_scale, Some(3));
    assert!((track.details.max_ivt_proxy_kg_m_s.unwrap() - 600.0).abs() < 0.1);
    // A river that passes each place within 24 h keeps rank 1, however long it lives: 7 degrees (600 km, 28 m/s) a
    // step.
    let (decided, _) = world(10, 7.0).run();
    assert_eq!(only(&decided).details.river_scale, Some(1));
}

/// A river that reaches the west of North America six hours after it was first seen. Transport is 400 but for 2000 in a
/// cell at sea, and at 46N 240E that of the place, a step of six hours each.
fn landing(place: &[f32], is_proxy: bool) -> Track {
    let grid = Arc::new(LatLonGrid::global(91, 180).unwrap());
    let land = LandMask::natural_earth(&grid);
    let mut stream = EventStream::new(&grid, TrackerOptions::default()).unwrap();
    let mut tracks = Vec::new();
    for (step, &at_place) in place.iter().enumerate() {
        // 16 columns at sea, then 24.
        let east_deg = if step == 0 { 231.0 } else { 247.0 };
        let codes = Array2::from_shape_fn(grid.shape(), |(j, i)| {
            let (lat, lon) = (grid.lat_deg()[j], grid.lon_deg()[i]);
            2 * u8::from((39.0..51.0).contains(&lat) && (199.0..east_deg).contains(&lon))
        });
        let mask = ClassMask::new(at(step), codes).unwrap();
        let mut transport = Array2::from_elem(grid.shape(), 400f32);
        transport[grid.nearest(44.0, 210.0)] = 2000.0;
        transport[grid.nearest(46.0, 240.0)] = at_place;
        let (rows, columns) = grid.shape();
        let snapshot = Snapshot {
            time: mask.time,
            grid: grid.clone(),
            variables: vec![Variable::Tmq, Variable::U850, Variable::V850],
            fields: Array3::from_shape_fn((3, rows, columns), |(k, j, i)| match k {
                0 => transport[[j, i]] / 20.0,
                1 => 0.0,
                _ => 20.0,
            }),
            source: ("landing".into(), step),
        };
        let fields = EventFields {
            land: Some(&land),
            snapshot: is_proxy.then_some(&snapshot),
            transport: (!is_proxy).then_some(transport.view()),
            ..EventFields::default()
        };
        let found = extract(&mask, &grid, &fields, &ExtractOptions::default()).unwrap();
        let moment = Moment {
            time: mask.time,
            mask: Some(&mask),
            hours: 6.0,
            fields_hours: 6.0,
            fields: &fields,
        };
        tracks.extend(stream.add(&moment, found).unwrap().tracks);
        // A run may be continued from here.
        stream = wire::from_bytes(&wire::to_bytes(&stream).unwrap()).unwrap();
    }
    tracks.extend(stream.finish().0.tracks);
    assert_eq!(tracks.len(), 1);
    tracks.remove(0)
}

/// The highest of any cell is rank 5 by a cell at sea, which says nothing about the coast.
#[test]
fn a_landfall_has_the_transport_and_the_rank_of_its_place() {
    // 800 is rank 3 and 1100 is rank 4, both one less before 24 h, which end with the fifth step. In the sixth the
    // place is below 250; what follows, 54 h of 1300, is another stay.
    let mut place = vec![400.0, 800.0, 1100.0, 700.0, 600.0, 200.0];
    place.extend([1300.0; 9]);
    for (steps, rank) in [
        (1, None),
        (2, Some(2)),
        (3, Some(3)),
        (4, Some(3)),
        (5, Some(4)),
        (6, Some(4)),
        (15, Some(4)),
    ] {
        let details = landing(&place[..steps], false).details;
        let found = details.landfall.map(|at| {
            assert_eq!((at.lat_deg, at.lon_deg), (46.0, 240.0));
            (at.ivt_kg_m_s, at.ivt_proxy_kg_m_s, at.river_scale)
        });
        let expected = rank.map(|rank| (Some(800.0), None, Some(rank)));
        assert_eq!(found, expected, "{steps} steps");
        assert_eq!(details.landfalls, Some(u32::from(rank.is_some())));
        if steps > 4 {
            assert_eq!(details.river_scale, Some(5), "{steps} steps");
        }
    }
    // The proxy counts for the rank, but is not passed off as the transport.
    let landfall = landing(&place[..5], true).details.landfall.unwrap();
    let found = (landfall.ivt_kg_m_s, landfall.ivt_proxy_kg_m_s);
    assert_eq!(found, (None, Some(800.0)));
    assert_eq!(landfall.river_scale, Some(4));
}

/// If the fields contain the transport itself, it determines the rank.
#[test]
fn known_transport_comes_before_its_stand_in() {
    let grid = Arc::new(LatLonGrid::global(91, 180).unwrap());
    let world = World {
        grid: grid.clone(),
        class: Class::AtmosphericRiver,
        path: vec![(40.0, 180.0); 5],
        wind_m_s: vec![20.0; 5],
        tmq: 30.0,
        radius_km: 800.0,
    };
    let transport = Array2::from_elem(grid.shape(), 1100f32);
    let mut stream = EventStream::new(&grid, TrackerOptions::default()).unwrap();
    let mut all = Decided::default();
    for step in 0..5 {
        let (mask, snapshot) = world.step(step);
        let fields = EventFields {
            transport: Some(transport.view()),
            ..EventFields::of(&snapshot)
        };
        let found = extract(&mask, &grid, &fields, &ExtractOptions::default()).unwrap();
        let moment = Moment {
            time: mask.time,
            mask: Some(&mask),
            hours: 6.0,
            fields_hours: 6.0,
            fields: &fields,
        };
        all.events
            .extend(stream.add(&moment, found).unwrap().events);
    }
    all.events.extend(stream.finish().0.events);
    // 1100 is rank 4; less than a day of it is rank 3.
    let ranks: Vec<_> = all.events.iter().map(|e| e.details.river_scale).collect();
    assert_eq!(ranks, [3, 3, 3, 4, 4].map(Some));
    for event in &all.events {
        assert_eq!(event.details.max_ivt_kg_m_s, Some(1100.0));
        assert!((event.details.max_ivt_proxy_kg_m_s.unwrap() - 600.0).abs() < 0.1);
    }
}

#[test]
fn fields_at_every_second_time_count_for_two() {
    let world = |class: Class, wind_m_s: f32, tmq: f32| World {
        grid: Arc::new(LatLonGrid::global(91, 180).unwrap()),
        class,
        path: (0..20)
            .map(|k| (20.0 + 0.5 * f64::from(k), 180.0))
            .collect(),
        wind_m_s: vec![wind_m_s; 20],
        tmq,
        radius_km: 800.0,
    };
    let storm = world(Class::TropicalCyclone, 40.0, 60.0);
    let of = |every: usize| {
        let (decided, statistics) = storm.run_with_fields_every(every);
        let ace: f64 = statistics
            .months()
            .iter()
            .map(|month| month.ace.iter().sum::<f64>())
            .sum();
        (only(&decided).details.clone(), Some(ace))
    };
    let ((all, ace), (half, ace_of_half)) = (of(1), of(2));
    for (a, b) in [
        (ace, ace_of_half),
        (all.ace_1e4_kt2, half.ace_1e4_kt2),
        (all.pdi_m3_s2, half.pdi_m3_s2),
        (all.precipitation_km3, half.precipitation_km3),
    ] {
        assert!((b.unwrap() / a.unwrap() - 1.0).abs() < 0.02, "{a:?} {b:?}");
    }
    let river = world(Class::AtmosphericRiver, 20.0, 30.0);
    let of = |every: usize| {
        only(&river.run_with_fields_every(every).0)
            .details
            .river_scale
    };
    assert_eq!((of(1), of(2)), (Some(3), Some(3)));
}

#[test]
fn a_stay_ends_where_no_river_is_at_a_time_without_fields() {
    // In one place for a day, away for six hours, back for a day: two stays, not one of two days.
    let path = |k: i32| if k == 5 { (40.0, 60.0) } else { (40.0, 180.0) };
    let world = World {
        grid: Arc::new(LatLonGrid::global(91, 180).unwrap()),
        class: Class::AtmosphericRiver,
        path: (0..9).map(path).collect(),
        wind_m_s: vec![20.0; 9],
        tmq: 30.0,
        radius_km: 800.0,
    };
    let (decided, _) = world.run_with_fields_every(2);
    let most = decided
        .events
        .iter()
        .filter_map(|e| e.details.river_scale)
        .max();
    // The first stay is 36 hours; both together would be 60 hours and rank 3.
    assert_eq!(most, Some(2), "{decided:?}");
}

#[test]
fn the_transport_proxy_is_close_to_the_integral_of_a_real_analysis() {
    let Some(path) = testdata::real("gfs-2p5deg-20111011/gfs_2p5deg_20111011T00.nc") else {
        return;
    };
    let archive = Archive::open(path.to_str().unwrap()).unwrap();
    let fields = [Variable::Tmq, Variable::U850, Variable::V850];
    let snapshot = archive.read(0, &fields).unwrap();
    let grid = snapshot.grid.clone();
    let file = netcdf::open(&path).unwrap();
    let levels = |name: &str| -> Array3<f32> {
        let variable = file.variable(name).unwrap();
        let values = variable.get::<f32, _>(..).unwrap();
        let shape: Vec<usize> = values.shape().to_vec();
        let [.., levels, rows, columns] = shape[..] else {
            panic!("{shape:?}")
        };
        let mut plane = values.to_shape((levels, rows, columns)).unwrap().to_owned();
        plane.invert_axis(ndarray::Axis(1)); // latitude descends in the file
        plane.mapv_inplace(|v| if v.abs() > 1e10 { f32::NAN } else { v });
        plane
    };
    let name = ["lev", "level", "plev", "lev_p"]
        .into_iter()
        .find(|n| file.variable(n).is_some());
    let variable = file.variable(name.expect("a pressure axis")).unwrap();
    let axis: Vec<f64> = variable.get_values(..).unwrap();
    let unit = if axis.iter().any(|&p| p > 5000.0) {
        1.0
    } else {
        100.0
    };
    let pressure: Vec<f64> = axis.iter().map(|p| p * unit).collect();
    let truth =
        integrated_vapour_transport(&pressure, &levels("Q"), &levels("U"), &levels("V"), None);
    let truth = truth.unwrap();
    let proxy = Array2::from_shape_fn(grid.shape(), |cell| {
        let of = |v| f64::from(snapshot.field(v).unwrap()[cell]);
        vapour_transport_proxy(of(Variable::Tmq), of(Variable::U850), of(Variable::V850))
    });
    // Only where rivers are searched: poleward of 20 degrees with a transport of at least 250.
    let (mut n, mut a, mut b, mut aa, mut bb, mut ab) = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0);
    for ((j, i), &truth) in truth.indexed_iter() {
        let (x, y) = (f64::from(truth), proxy[[j, i]]);
        if grid.lat_deg()[j].abs() < 20.0 || !x.is_finite() || !y.is_finite() || x < 250.0 {
            continue;
        }
        n += 1.0;
        (a, b, aa, bb, ab) = (a + x, b + y, aa + x * x, bb + y * y, ab + x * y);
    }
    let ratio = b / a;
    let correlation = (ab - a * b / n) / ((aa - a * a / n) * (bb - b * b / n)).sqrt();
    assert!(n > 200.0, "{n} cells");
    assert!(
        (0.8..1.25).contains(&ratio),
        "ratio {ratio}, correlation {correlation}, {n} cells"
    );
    assert!(
        correlation > 0.8,
        "ratio {ratio}, correlation {correlation}, {n} cells"
    );
}
