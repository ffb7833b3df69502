//! Masks that hold no more of a cyclone than its eye: it is an event, with the wind of the storm.

mod common;

use common::{path, run, squall, text};
use ndarray::Array2;
use netcdf::Extent;
use squall_data::LatLonGrid;
use squall_data::grid::distance_km;
use squall_data::mask_file::MaskArchive;
use std::path::Path;

const TIMES: usize = 12;
/// The centre, latitude and longitude: a cell of a quarter of a degree.
const CENTRE: (f64, f64) = (15.0, 325.0);
/// By how much pressure is lower there, Pa.
const DEFICIT_PA: f64 = 6000.0;
/// The shape of the profile of Holland (1980), and the density of air, kg m-3.
const SHAPE: f64 = 1.6;
const DENSITY: f64 = 1.15;

/// Six-hourly fields of a storm that stays where it is, on a regional grid. Its wind is highest two rows off its centre:
/// with x = (radius of maximum wind / distance)^SHAPE the pressure is DEFICIT_PA exp(-x) above that of the centre, and
/// the wind the root of SHAPE DEFICIT_PA x exp(-x) / DENSITY, which is highest at x = 1.
fn write_storm(file: &Path) {
    let axis = |first: f64| -> Vec<f64> { (0..97).map(|k| first + 0.25 * f64::from(k)).collect() };
    let (lat, lon) = (axis(3.0), axis(313.0));
    let grid = LatLonGrid::from_axes(lat.clone(), lon.clone())
        .expect("a grid")
        .0;
    let far = |lat: f64, lon: f64| distance_km(CENTRE.0, CENTRE.1, lat, lon);
    let windiest_km = far(CENTRE.0 + 0.5, CENTRE.1);
    let plane = |of: &dyn Fn(f64, f64) -> f64| {
        Array2::from_shape_fn(grid.shape(), |(j, i)| {
            let km = far(lat[j], lon[i]).max(0.01);
            of(km, (windiest_km / km).powf(SHAPE)) as f32
        })
    };
    let pressure = |x: f64| 101_000.0 - DEFICIT_PA + DEFICIT_PA * (-x).exp();
    let wind = |x: f64| (SHAPE * DEFICIT_PA * x * (-x).exp() / DENSITY).sqrt();
    let core = |km: f64| (-(km / 200.0).powi(2)).exp();
    let planes = [
        ("PSL", "Pa", plane(&|_, x| pressure(x))),
        ("UBOT", "m s-1", plane(&|_, x| 0.6 * wind(x))),
        ("VBOT", "m s-1", plane(&|_, x| -0.8 * wind(x))),
        ("U850", "m s-1", plane(&|_, x| wind(x))),
        ("V850", "m s-1", plane(&|_, _| 0.0)),
        ("TMQ", "kg m-2", plane(&|_, _| 50.0)),
        ("T200", "K", plane(&|km, _| 220.0 + 6.0 * core(km))),
        ("T500", "K", plane(&|km, _| 267.0 + 5.0 * core(km))),
        ("Z1000", "m", plane(&|_, x| (pressure(x) - 1e5) / 12.0)),
        ("Z200", "m", plane(&|km, _| 12_400.0 + 20.0 * core(km))),
        ("PRECT", "m s-1", plane(&|_, _| 1e-7)),
    ];
    let mut file = netcdf::create(file).expect("created");
    file.add_dimension("time", TIMES).expect("added");
    for (name, unit, values) in [
        ("lat", "degrees_north", &lat),
        ("lon", "degrees_east", &lon),
    ] {
        file.add_dimension(name, values.len()).expect("added");
        let mut variable = file.add_variable::<f64>(name, &[name]).expect("added");
        variable.put_attribute("units", unit).expect("written");
        variable.put_values(values, ..).expect("written");
    }
    let hours: Vec<f64> = (0..TIMES).map(|step| 6.0 * step as f64).collect();
    let mut time = file.add_variable::<f64>("time", &["time"]).expect("added");
    let since = "hours since 2001-09-01 00:00:00";
    time.put_attribute("units", since).expect("written");
    time.put_attribute("calendar", "standard").expect("written");
    time.put_values(&hours, ..).expect("written");
    for (name, unit, plane) in planes {
        let along = ["time", "lat", "lon"];
        let mut variable = file.add_variable::<f32>(name, &along).expect("added");
        variable.put_attribute("units", unit).expect("written");
        let values: Vec<f32> = plane.into_iter().collect();
        for step in 0..TIMES {
            let place: [Extent; 3] = [step.into(), (..).into(), (..).into()];
            variable.put_values(&values, place).expect("written");
        }
    }
    file.close().expect("closed");
}

/// The cells of a column of a table that has tropical cyclones alone.
fn column(table: &Path, name: &str) -> Vec<String> {
    let table = std::fs::read_to_string(table).expect("a table");
    let mut rows = table.lines().map(|row| row.split(',').collect::<Vec<_>>());
    let names = rows.next().expect("names");
    let at = names.iter().position(|column| *column == name).expect(name);
    rows.map(|row| row[at].to_string()).collect()
}

#[test]
fn the_eye_of_a_hurricane_is_an_event_with_the_wind_of_its_wall() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let (fields, labels, events) = (at("storm.nc"), at("labels"), at("events"));
    write_storm(&fields);
    let label = ["label", path(&fields), "--method", "tempest", "-q", "--out"];
    run(&[&label[..], &[path(&labels)]].concat());
    // Two hPa above the centre's pressure is nearer to it than the next cell: 746 km², and calm.
    let masks = MaskArchive::open(path(&labels)).expect("masks");
    for index in 0..TIMES {
        let cells = masks.read(index).expect("a mask").pixel_counts();
        assert_eq!(cells[1], 1, "{index}");
    }
    let call = ["events", path(&labels), "--fields", path(&fields)];
    let into = |out: &Path, more: &[&str]| {
        let output = squall()
            .args(call)
            .arg("--out")
            .arg(out)
            .args(more)
            .output();
        let output = output.expect("starts");
        let said = text(&output);
        assert!(output.status.success(), "{said}");
        said
    };
    let said = into(&events, &[]);
    assert!(!said.contains("no cyclone is kept"), "{said}");
    // By hand: the root of SHAPE DEFICIT_PA / (DENSITY e).
    let strongest = (SHAPE * DEFICIT_PA / (DENSITY * 1f64.exp())).sqrt();
    assert!((strongest - 55.4165).abs() < 1e-4);
    let winds = column(&events.join("events.csv"), "max_wind_m_s");
    assert_eq!(winds, ["55.417"; TIMES]);
    // What the rules themselves saw within two degrees.
    assert_eq!(column(&labels.join("objects.csv"), "max_wind_m_s"), winds);
    let of_track = |name: &str| column(&events.join("tracks.csv"), name);
    assert_eq!(of_track("category"), ["3"]);
    let knots = strongest * 3600.0 / 1852.0;
    let energy: f64 = of_track("ace_1e4_kt2")[0].parse().expect("a number");
    let expected = 1e-4 * knots.powi(2) * TIMES as f64;
    assert!(
        (energy / expected - 1.0).abs() < 1e-3,
        "{energy} {expected}"
    );

    // Who asks for a smallest area is told what it costs.
    let said = into(&at("large"), &["--min-cyclone-km2", "20000"]);
    let told = "no cyclone is kept: the masks have 12 areas of cyclones, none of 20000 km² or more; \
                --min-cyclone-km2 0";
    assert!(said.contains(told), "{said}");
    assert!(column(&at("large").join("events.csv"), "class").is_empty());
}
