//! Each quantity is computed by hand from a few rows and checked up to its column in the tables.

use super::*;
use squall_data::grid::EARTH_RADIUS_KM;
use std::collections::BTreeMap;
use std::f64::consts::PI;

/// Three cyclones, the last one in the South Indian Ocean, and a river, all in the first of twelve years.
const TRACKS: &str = "\
track_id,class,start_time,end_time,genesis_lon_deg,genesis_lat_deg,min_psl_pa,max_wind_m_s,landfalls,max_area_km2,max_ivt_kg_m_s
1,tropical_cyclone,2001-08-01T00:00:00,2001-08-03T00:00:00,142,17,99000,32,0,100000,
2,tropical_cyclone,2001-08-05T00:00:00,2001-08-09T00:00:00,142,18,97000,33,2,100000,
3,tropical_cyclone,2001-08-11T00:00:00,2001-08-17T00:00:00,60,-12,95000,50,1,300000,
4,atmospheric_river,2001-03-01T00:00:00,2001-03-02T12:00:00,220,40,,,1,900000,800
";

/// Points of these tracks. The first one stands for twelve hours; the third cyclone is strongest at its second point.
const EVENTS: &str = "\
class,time,lon_deg,lat_deg,area_km2,track_id,max_wind_m_s,mean_prect_m_s,hours,precipitation_km3,length_km,max_tmq_kg_m2,max_ivt_kg_m_s
tropical_cyclone,2001-08-01T00:00:00,142,17,100000,1,32,1e-7,12,2,,,
tropical_cyclone,2001-08-05T00:00:00,142,18,100000,2,33,,6,2,,,
tropical_cyclone,2001-08-11T00:00:00,60,-12,200000,3,30,3e-7,6,2,,,
tropical_cyclone,2001-08-12T00:00:00,60,-15,200000,3,50,,6,2,,,
tropical_cyclone,2001-08-13T00:00:00,60,-18,300000,3,40,,6,2,,,
atmospheric_river,2001-03-01T00:00:00,220,40,400000,4,,2e-7,6,3,2000,40,600
atmospheric_river,2001-03-02T00:00:00,225,41,600000,4,,2e-7,6,4,3000,50,800
";

fn of_rows() -> Comparison {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["a", "b"].map(|name| folder.path().join(name));
    for path in &paths {
        let quiet = Run {
            storms: 0,
            ..Run::default()
        };
        quiet.write(path);
        fs::write(path.join("tracks.csv"), TRACKS).unwrap();
        fs::write(path.join("events.csv"), EVENTS).unwrap();
    }
    let [a, b] = &paths;
    compare_with(side(a, "a"), side(b, "b"), &options()).unwrap()
}

#[test]
fn every_quantity_is_what_its_name_says() {
    let found = of_rows();
    let (years, times) = (12.0, 12.0 * 365.0);
    // Accumulated cyclone energy sums squared winds in knots every six hours, in 10⁴; a point of twelve hours counts
    // twice.
    let knots = 3600.0 / 1852.0f64;
    let squares = 2.0 * 32f64.powi(2) + 33f64.powi(2) + 30f64.powi(2) + 50f64.powi(2);
    let energy = 1e-4 * knots.powi(2) * (squares + 40f64.powi(2));
    let earth_km2 = 4.0 * PI * EARTH_RADIUS_KM.powi(2);
    use Quantity as Q;
    for (quantity, expected) in [
        (Q::CycloneTracks, 3.0 / years),
        // 32, 33 and 50 m/s are 62, 64 and 97 kt: a tropical storm, category 1 and category 3.
        (Q::Hurricanes, 2.0 / years),
        (Q::MajorHurricanes, 1.0 / years),
        (Q::CycloneLandfalls, 3.0 / years),
        (Q::CyclonesPresent, 5.0 / times),
        (Q::CycloneEnergy, energy / years),
        (Q::CycloneWind, (32.0 + 33.0 + 50.0) / 3.0),
        (Q::CycloneWindHigh, 50.0),
        (Q::CyclonePressure, 970.0),
        (Q::CyclonePressureLow, 950.0),
        (Q::CycloneLatitude, (17.0 + 18.0 + 15.0) / 3.0),
        (Q::CycloneLifetime, 4.0),
        (Q::CycloneArea, 180_000.0),
        // 8.64 and 25.92 mm a day, the latter over twice the area.
        (Q::CycloneRain, (8.64 + 2.0 * 25.92) / 3.0),
        (Q::CycloneWater, 10.0 / years),
        (Q::RiverTracks, 1.0 / years),
        (Q::RiverLandfalls, 1.0 / years),
        (Q::RiversPresent, 2.0 / times),
        (Q::RiverCover, 100.0 * 1e6 / earth_km2 / times),
        (Q::RiverLifetime, 1.5),
        (Q::RiverArea, 500_000.0),
        (Q::RiverLength, 2500.0),
        (Q::RiverMoisture, 45.0),
        (Q::RiverTransport, 700.0),
        (Q::RiverRain, 17.28),
        (Q::RiverWater, 7.0 / years),
    ] {
        let value = row(&found, quantity, Group::ALL).change.a.unwrap();
        let off = value / expected - 1.0;
        assert!(off.abs() < 1e-9, "{quantity:?}: {value} for {expected}");
    }
    let south = Group::of_region(Region::Southern);
    let of_south = |quantity| row(&found, quantity, south).change.a.unwrap();
    assert_eq!(of_south(Q::CycloneTracks), 1.0 / years);
    assert_eq!(of_south(Q::CycloneLatitude), 15.0);
    let spring = row(&found, Q::RiverTracks, Group::of_season(1)).change.a;
    assert_eq!(spring, Some(1.0 / years));
}

#[test]
fn maps_bins_and_levels_are_of_the_same_rows() {
    let found = of_rows();
    // Two cyclones form in 15-20°N, 140-145°E: the 22nd row and the 29th column of the 5-degree map.
    let is_genesis = |map: &&compare::MapChange| {
        map.quantity == MapQuantity::GenesisDensity && map.class.code() == 1
    };
    let genesis = found.map_changes.iter().find(is_genesis).unwrap();
    let [south, north] = [15.0f64, 20.0].map(|deg| deg.to_radians().sin());
    let cell_km2 = EARTH_RADIUS_KM.powi(2) * 5f64.to_radians() * (north - south);
    let density = genesis.a[21 * 72 + 28];
    let expected = 2.0 / 12.0 / (cell_km2 / 1e6);
    assert!((density / expected - 1.0).abs() < 1e-9, "{density}");
    // A wind on the edge of two bins belongs to the upper one.
    let winds = found.distributions.iter().find(|d| d.name == "max_wind");
    let winds = winds.unwrap();
    assert_eq!(winds.edges, [30.0, 35.0, 40.0, 45.0, 50.0, 55.0]);
    let bins = winds.bins.iter().map(|bin| 12.0 * bin.change.a.unwrap());
    let counts: Vec<f64> = bins.map(f64::round).collect();
    assert_eq!(counts, [2.0, 0.0, 0.0, 0.0, 1.0]);
    for (name, extreme) in [
        ("annual_max_wind", 50.0),
        ("annual_min_pressure", 950.0),
        ("annual_max_area", 900_000.0),
    ] {
        let levels = found.return_levels.iter().find(|l| l.name == name);
        let fit = &levels.unwrap().fits[0];
        assert_eq!((&fit.extremes[..], fit.years), (&[extreme][..], 12));
    }
}

/// The numbers in the first row of the table that starts with `begin`, by column.
fn numbers_of(table: &Path, begin: &str) -> BTreeMap<String, f64> {
    let text = fs::read_to_string(table).unwrap();
    let columns = text.lines().next().unwrap().split(',');
    let row = text.lines().find(|row| row.starts_with(begin)).unwrap();
    let cells = columns.zip(row.split(','));
    let number =
        |(column, cell): (&str, &str)| Some((column.to_string(), cell.parse::<f64>().ok()?));
    cells.filter_map(number).collect()
}

#[test]
fn tables_have_each_number_in_its_column() {
    let folder = tempfile::tempdir().unwrap();
    let b = Run {
        storms: 3,
        wind_m_s: 46.0,
        seed: 2,
        ..Run::default()
    };
    let found = compare(&Run::default(), &b, &options()).unwrap();
    found.write(folder.path()).unwrap();
    let check = |name: &str, begin: &str, expected: &[(&str, Option<f64>)]| {
        let numbers = numbers_of(&folder.path().join(name), begin);
        for (column, expected) in expected {
            let (found, expected) = (numbers[*column], expected.unwrap());
            let off = (found - expected).abs();
            assert!(off <= 1e-5 * expected.abs(), "{name} {column}: {found}");
        }
    };
    let ends = |interval: Option<compare::Interval>| interval.map(|i| (i.low, i.high)).unzip();
    let tracks = row(&found, Quantity::CycloneTracks, Group::ALL);
    let change = &tracks.change;
    let (low, high) = ends(change.interval);
    let (relative_low, relative_high) = ends(change.relative_interval);
    check(
        "changes.csv",
        "tracks,tropical_cyclone,all,all,",
        &[
            ("a", change.a),
            ("b", change.b),
            ("difference", change.difference),
            ("low", low),
            ("high", high),
            ("relative_change", change.relative),
            ("relative_low", relative_low),
            ("relative_high", relative_high),
            ("p", change.p),
            ("adjusted_p", tracks.adjusted_p),
        ],
    );
    // The level for 20 years is the fourth.
    let levels = &found.return_levels[0];
    let [of_a, of_b] = &levels.fits;
    let ((a_low, a_high), (b_low, b_high)) = (ends(of_a.bands[3]), ends(of_b.bands[3]));
    let (low, high) = ends(levels.changes[3].interval);
    check(
        "return_levels.csv",
        "annual_max_wind,tropical_cyclone,m/s,20,",
        &[
            ("a", of_a.levels[3]),
            ("a_low", a_low),
            ("a_high", a_high),
            ("b", of_b.levels[3]),
            ("b_low", b_low),
            ("b_high", b_high),
            ("difference", levels.changes[3].difference),
            ("low", low),
            ("high", high),
        ],
    );
    // Twelve years are too short for the 50-year level.
    let table = fs::read_to_string(folder.path().join("return_levels.csv")).unwrap();
    let beyond = "annual_max_wind,tropical_cyclone,m/s,50,,,,,,,,,,beyond_record";
    assert!(table.lines().any(|row| row == beyond), "{table}");
    // Winds of 28 to 52 m/s against 32 to 60 m/s: check the bin from 40 to 45.
    let winds = &found.distributions[0];
    let place = winds.edges.iter().position(|edge| *edge == 40.0).unwrap();
    let bin = &winds.bins[place].change;
    let (low, high) = ends(bin.interval);
    check(
        "distributions.csv",
        "max_wind,tropical_cyclone,m/s,40.0000,",
        &[
            ("to", Some(45.0)),
            ("a", bin.a),
            ("b", bin.b),
            ("difference", bin.difference),
            ("low", low),
            ("high", high),
            ("p", bin.p),
            ("adjusted_p", winds.bins[place].adjusted_p),
        ],
    );
}
