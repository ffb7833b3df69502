//! Hurricane Katrina in a moving WRF nest of 10 km: a grid with two-dimensional coordinates, and a storm that the edge
//! of the domain cuts off at every time.
//!
//! The nest is on a Mercator projection, so that its rows and columns are latitudes and longitudes, and it moves by
//! whole cells. The program refuses the file as it is; the test turns it into one regional grid per time, or into one
//! grid with missing cells for all times.

use ndarray::{Array2, Array3};
use squall_climate::detect::tempest::{
    DomainEdge, NodeThresholds, TempestDetector, TempestThresholds, closed_lows,
};
use squall_climate::events::{EventFields, ExtractOptions, extract};
use squall_climate::label::{Labeller, Thresholds};
use squall_climate::statistics::Category;
use squall_climate::track::{Fate, Origin, Tracker, TrackerOptions};
use squall_climate::{ClimateError, Event, Track};
use squall_data::archive::on_library_thread;
use squall_data::grid::{KM_PER_DEGREE, distance_km};
use squall_data::{
    Archive, Calendar, Class, ClassMask, DataError, LatLonGrid, Snapshot, Time, Variable, inspect,
    testdata,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The lowest pressure in the file: latitude, longitude, hPa, at 12, 15, 18 and 21 UTC on 2005-08-28.
const CENTRES: [(f64, f64, f64); 4] = [
    (25.67, 272.39, 942.7),
    (25.92, 272.03, 939.2),
    (26.40, 271.58, 939.4),
    (26.64, 271.13, 938.5),
];
/// Cells in a gale or in the eye, which are connected, and their area in km². Computed independently with numpy at the
/// mean spacing of columns (the f32 coordinates put some neighbours up to 0.012 % closer).
const STORMS: [(usize, f64); 4] = [
    (502, 41_350.3),
    (546, 44_801.7),
    (780, 63_616.5),
    (677, 54_953.3),
];
const GALE_M_S: f32 = 17.0;
/// The wind in the eye is below a gale, so the eye is found by its pressure.
const EYE_PA: f32 = 96_000.0;

fn nest() -> Option<PathBuf> {
    testdata::real("katrina-wrf-nest/ci_test_file.nc")
}

/// Pressure and wind of one time on the nest's own grid. The whole domain is sea, so surface pressure is sea-level
/// pressure.
fn snapshot(path: &Path, index: usize) -> Snapshot {
    let read = |file: &netcdf::File, name: &str| -> Array2<f32> {
        let variable = file.variable(name).unwrap();
        let values: Vec<f32> = variable.get_values((index, .., ..)).unwrap();
        Array2::from_shape_vec((48, 48), values).unwrap()
    };
    let names = ["XLAT", "XLONG", "HGT", "PSFC", "U10", "V10"];
    let [lat, lon, ground, psl, u, v] = on_library_thread(|| {
        let file = netcdf::open(path).unwrap();
        names.map(|name| read(&file, name))
    });
    assert!(ground.iter().all(|height| *height < 1.0));
    // Rows are latitudes and columns longitudes to within a hundredth of a cell.
    for (j, i) in ndarray::indices((48, 48)) {
        assert!(
            (lat[[j, i]] - lat[[j, 0]]).abs() < 1e-3 && (lon[[j, i]] - lon[[0, i]]).abs() < 1e-3
        );
    }
    let (rows, columns) = (lat.column(0), lon.row(0));
    let axes = [rows, columns].map(|axis| axis.iter().map(|v| f64::from(*v)).collect::<Vec<_>>());
    let [lat, lon] = axes;
    let (grid, _) = LatLonGrid::from_axes(lat, lon).unwrap();
    let mut fields = Array3::zeros((3, 48, 48));
    for (k, plane) in [psl, u, v].iter().enumerate() {
        fields.index_axis_mut(ndarray::Axis(0), k).assign(plane);
    }
    Snapshot {
        time: Time::new(Calendar::Standard, 2005, 8, 28, 12 + 3 * index as i64, 0, 0).unwrap(),
        grid: Arc::new(grid),
        variables: vec![Variable::Psl, Variable::Ubot, Variable::Vbot],
        fields,
        source: (path.into(), index),
    }
}

/// The cells with gale-force winds and the eye inside them.
fn storm(snapshot: &Snapshot) -> ClassMask {
    let wanted = [Variable::Psl, Variable::Ubot, Variable::Vbot];
    let [psl, u, v] = wanted.map(|variable| snapshot.field(variable).unwrap());
    let inside = |at: (usize, usize)| u[at].hypot(v[at]) >= GALE_M_S || psl[at] < EYE_PA;
    let codes = Array2::from_shape_fn(psl.dim(), |at| u8::from(inside(at)));
    ClassMask::new(snapshot.time, codes).unwrap()
}

fn off_by_km(lat_deg: f64, lon_deg: f64, index: usize) -> f64 {
    let (lat, lon, _) = CENTRES[index];
    distance_km(lat_deg, lon_deg, lat, lon)
}

#[test]
fn coordinates_of_two_dimensions_are_refused_with_the_reason() {
    let Some(path) = nest() else { return };
    let error = Archive::open(path.to_str().unwrap()).unwrap_err();
    assert!(
        matches!(&error, DataError::BadVariable { variable, found, .. }
            if variable == "XLAT" && found.contains("curvilinear") && found.contains("regridded")),
        "{error}"
    );
    let seen = inspect::inspect(path.to_str().unwrap()).unwrap();
    assert_eq!(seen.dialect, "WRF");
    let (first, last, count) = seen.times.clone().unwrap();
    assert_eq!(
        (first.as_str(), last.as_str(), count),
        ("2005-08-28T12:00:00", "2005-08-28T21:00:00", 4)
    );
    assert!(seen.problems.iter().any(|p| p.contains("curvilinear")));
}

/// Centres of events lie between cells, which are 12 km wide.
const HALF_A_CELL_KM: f64 = 6.0;

#[test]
fn a_low_on_the_edge_is_found_where_it_is_if_the_edge_is_a_wall_and_else_not() {
    let Some(path) = nest() else { return };
    for (index, (_, _, hpa)) in CENTRES.into_iter().enumerate() {
        let snapshot = snapshot(&path, index);
        let grid = &snapshot.grid;
        assert!(!grid.is_periodic());
        let psl = snapshot.field(Variable::Psl).unwrap();
        // Everything beyond the edge is unknown, so no contour closes.
        let open = NodeThresholds::default();
        assert!(closed_lows(psl, grid, &open).unwrap().is_empty());
        let walled = NodeThresholds {
            domain_edge: DomainEdge::Wall,
            ..open
        };
        let lows = closed_lows(psl, grid, &walled).unwrap();
        let [low] = lows[..] else {
            panic!("{lows:?}");
        };
        assert_eq!(low.0, 47, "on the northern edge");
        let (lat, lon) = (grid.lat_deg()[low.0], grid.lon_deg()[low.1]);
        assert!(off_by_km(lat, lon, index) < 1.0, "{lat} {lon}");
        assert!((f64::from(psl[low]) / 100.0 - hpa).abs() < 0.06);
        // Without temperature aloft a hurricane cannot be distinguished from other lows, and both methods report that.
        let thresholds = TempestThresholds {
            node: walled,
            ..TempestThresholds::default()
        };
        let detector = TempestDetector::new(&thresholds, grid.clone()).unwrap();
        let fields = squall_climate::detect::DetectFields::from_snapshot(snapshot.clone());
        let labeller = Labeller::new(&Thresholds::default(), grid.clone()).unwrap();
        for error in [
            detector.nodes(&fields).unwrap_err(),
            labeller.candidates(&snapshot).unwrap_err(),
        ] {
            assert!(
                matches!(&error, ClimateError::MissingField { missing, .. } if missing.contains(&Variable::T500)),
                "{error}"
            );
        }
    }
}

#[test]
fn a_storm_at_the_edge_is_one_event_whose_area_is_that_of_a_part() {
    let Some(path) = nest() else { return };
    for (index, (cells, km2)) in STORMS.into_iter().enumerate() {
        let snapshot = snapshot(&path, index);
        let mask = storm(&snapshot);
        let fields = EventFields::of(&snapshot);
        let found = extract(&mask, &snapshot.grid, &fields, &ExtractOptions::default()).unwrap();
        let [katrina] = &found[..] else {
            panic!("{found:?}");
        };
        let event = &katrina.event;
        assert_eq!(
            (event.class, katrina.region.cells()),
            (Class::TropicalCyclone, cells)
        );
        assert!(
            (event.area_km2 / km2 - 1.0).abs() < 1e-5,
            "{}",
            event.area_km2
        );
        assert_eq!(event.details.touches_edge, Some(true));
        assert!(
            off_by_km(event.lat_deg, event.lon_deg, index) < HALF_A_CELL_KM,
            "{event:?}"
        );
        assert!((event.min_psl_pa.unwrap() / 100.0 - CENTRES[index].2).abs() < 0.06);
        let wind = event.max_wind_m_s.unwrap();
        assert!((43.0..47.3).contains(&wind), "{wind}");
    }
}

/// One grid that covers the nest at all times and the fields of each time on it, missing outside the nest.
fn on_one_grid(path: &Path) -> Vec<Snapshot> {
    let all: Vec<Snapshot> = (0..4).map(|index| snapshot(path, index)).collect();
    let axis = |of: fn(&LatLonGrid) -> &[f64]| {
        let mut values: Vec<f64> = all.iter().flat_map(|s| of(&s.grid)).copied().collect();
        values.sort_by(f64::total_cmp);
        values.dedup_by(|a, b| (*a - *b).abs() < 0.01);
        values
    };
    let (lat, lon) = (axis(LatLonGrid::lat_deg), axis(LatLonGrid::lon_deg));
    let grid = Arc::new(LatLonGrid::from_axes(lat, lon).unwrap().0);
    let place = |part: Snapshot| {
        let (rows, columns) = grid.shape();
        let mut fields = Array3::from_elem((3, rows, columns), f32::NAN);
        let corner = grid.nearest(part.grid.lat_deg()[0], part.grid.lon_deg()[0]);
        let (j, i) = (corner.0 as isize, corner.1 as isize);
        let window = ndarray::s![.., j..j + 48, i..i + 48];
        fields.slice_mut(window).assign(&part.fields);
        Snapshot {
            grid: grid.clone(),
            fields,
            ..part
        }
    };
    all.into_iter().map(place).collect()
}

#[test]
fn katrina_is_one_track_to_the_north_west() {
    let Some(path) = nest() else { return };
    let all = on_one_grid(&path);
    let grid = all[0].grid.clone();
    let mut tracker = Tracker::new(&grid, TrackerOptions::default()).unwrap();
    let (mut points, mut tracks): (Vec<Event>, Vec<Track>) = (Vec::new(), Vec::new());
    for snapshot in &all {
        let fields = EventFields::of(snapshot);
        let options = ExtractOptions::default();
        let mut found = extract(&storm(snapshot), &grid, &fields, &options).unwrap();
        tracks.extend(tracker.push(snapshot.time, &mut found).unwrap().finished);
        points.extend(found.into_iter().map(|detected| detected.event));
    }
    tracks.extend(tracker.finish().finished);
    let [track] = &tracks[..] else {
        panic!("{tracks:?}");
    };
    assert_eq!((track.points, points.len()), (4, 4));
    assert_eq!(
        (track.origin, track.fate),
        (Origin::StartOfData, Fate::EndOfData)
    );
    assert_eq!(track.duration_hours(), 9.0);
    for (index, pair) in points.windows(2).enumerate() {
        // In the file: 45, 70 and 52 km in three hours, north-westward.
        let moved = distance_km(
            pair[0].lat_deg,
            pair[0].lon_deg,
            pair[1].lat_deg,
            pair[1].lon_deg,
        );
        let (from, to) = (CENTRES[index], CENTRES[index + 1]);
        let expected = distance_km(from.0, from.1, to.0, to.1);
        assert!(
            (moved - expected).abs() < HALF_A_CELL_KM,
            "{moved} km, expected {expected}"
        );
        assert!(pair[1].lat_deg > pair[0].lat_deg && pair[1].lon_deg < pair[0].lon_deg);
    }
    // The best track is up to a degree away and deeper: the storm is cut off at the edge.
    let best = [(25.7, 272.3), (26.3, 271.4)];
    for (at, (lat, lon)) in [0, 2].into_iter().zip(best) {
        let away = distance_km(points[at].lat_deg, points[at].lon_deg, lat, lon);
        assert!(away < KM_PER_DEGREE, "{away} km");
    }
    let strongest = points
        .iter()
        .filter_map(|p| p.max_wind_m_s)
        .fold(0.0, f64::max);
    assert_eq!(Category::saffir_simpson(strongest), Some(Category::Two));
}
