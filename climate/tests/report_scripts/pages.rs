//! Pages of a synthetic day, 5 August 1995, six-hourly on a grid of five degrees.

use ndarray::Array2;
use squall_climate::report::{BoxSource, Frame, ReportBuilder, ReportInput, Source, SourceKind};
use squall_climate::{Event, track};
use squall_data::boxes::{self, BoxFrames};
use squall_data::{Calendar, Class, LatLonGrid, Time};
use std::sync::Arc;

/// An extratropical cyclone across the zero meridian, and a tropical one that continues after the last picture.
const BOXES: &str = "class,time,west_deg,south_deg,east_deg,north_deg,confidence,track_id
extratropical_cyclone,1995-08-05T00:00:00,350,40,10,50,0.9,4
extratropical_cyclone,1995-08-05T06:00:00,356,42,16,52,0.8,4
extratropical_cyclone,1995-08-05T12:00:00,2,42,22,52,0.8,4
tropical_cyclone,1995-08-05T06:00:00,100,10,110,20,0.7,5
tropical_cyclone,1995-08-05T12:00:00,104,11,114,21,,5
tropical_cyclone,1995-08-05T18:00:00,108,12,118,22,0.6,5
";

/// A grid of five degrees with this longitude of the first column.
pub fn grid(first_lon_deg: f64) -> Arc<LatLonGrid> {
    let lat = (0..36).map(|j| -87.5 + 5.0 * f64::from(j)).collect();
    let lon = (0..72)
        .map(|i| first_lon_deg + 5.0 * f64::from(i))
        .collect();
    Arc::new(LatLonGrid::from_axes(lat, lon).unwrap().0)
}

/// The time at an hour of the day.
pub fn hour(hour: i64) -> Time {
    Time::new(Calendar::NoLeap, 1995, 8, 5, hour, 0, 0).unwrap()
}

/// A mask of one class in cells at these latitudes and longitudes.
pub fn mask(grid: &LatLonGrid, code: u8, lats: &[f64], lons: &[f64]) -> Array2<u8> {
    let mut mask = Array2::zeros(grid.shape());
    for lat in lats {
        for lon in lons {
            mask[grid.nearest(*lat, *lon)] = code;
        }
    }
    mask
}

/// Precipitable water. At 7.5°N it is missing at 102.5°E, has the lowest colour at 112.5°E and exceeds the highest at
/// 122.5°E.
fn water(grid: &LatLonGrid) -> Array2<f32> {
    let mut water = Array2::from_elem(grid.shape(), 35.0);
    for (lon, value) in [(102.5, f32::NAN), (112.5, 0.0), (122.5, 90.0)] {
        water[grid.nearest(7.5, lon)] = value;
    }
    water
}

fn event(class: Class, id: u64, hours: i64, lat_deg: f64, lon_deg: f64) -> Event {
    Event {
        class,
        time: hour(hours),
        track_id: Some(id),
        lon_deg,
        lat_deg,
        area_km2: f64::NAN,
        west_deg: lon_deg,
        south_deg: lat_deg,
        east_deg: lon_deg,
        north_deg: lat_deg,
        length_km: 600.0,
        width_km: 500.0,
        orientation_deg: 0.0,
        min_psl_pa: None,
        max_wind_m_s: None,
        max_tmq_kg_m2: None,
        mean_prect_m_s: None,
        mean_probability: None,
        details: Default::default(),
    }
}

/// Cyclone 1 across the zero meridian, with unknown pressure in between; river 2; and cyclone 3, with no known
/// properties.
fn events() -> Vec<Event> {
    let cyclone = |id: u64, hours, lat, lon, wind, psl| Event {
        max_wind_m_s: wind,
        min_psl_pa: psl,
        area_km2: if id == 1 { 3e5 } else { f64::NAN },
        ..event(Class::TropicalCyclone, id, hours, lat, lon)
    };
    let river = |hours, lon, length_km| Event {
        max_tmq_kg_m2: Some(45.3),
        area_km2: 1.25e6,
        length_km,
        width_km: 500.0,
        ..event(Class::AtmosphericRiver, 2, hours, 37.0, lon)
    };
    vec![
        cyclone(1, 0, 16.0, 358.0, Some(20.0), Some(100_400.0)),
        cyclone(3, 0, 15.0, 140.0, None, None),
        cyclone(1, 6, 17.0, 1.0, Some(35.28), None),
        cyclone(3, 6, 15.0, 143.0, None, None),
        river(6, 205.0, 2500.0),
        cyclone(1, 12, 18.0, 4.0, Some(30.0), Some(97_020.0)),
        river(12, 210.0, 12_500.0),
    ]
}

/// The rules' source of events.
pub fn found() -> Source {
    let events = events();
    let mut tracks = track::from_events(&events);
    tracks[0].distance_km = 10_860.0;
    tracks[2].distance_km = 320.0;
    Source::new(SourceKind::Heuristic, events, tracks)
}

fn tracked_boxes() -> BoxFrames {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("boxes.csv");
    std::fs::write(&path, BOXES).unwrap();
    boxes::read(&path, &grid(2.5), Calendar::NoLeap).unwrap()
}

/// A page of the rules' masks: a cyclone at midnight, a river at six, nothing at noon.
pub fn of_masks(input: ReportInput, cyclone: &Array2<u8>) -> String {
    let grid = input.grid.clone();
    let mut builder = ReportBuilder::new(input).unwrap();
    let river = mask(&grid, 2, &[32.5, 37.5], &[202.5, 207.5, 212.5]);
    let nothing = Array2::zeros(grid.shape());
    let water = water(&grid);
    for (hours, mask) in [(0, cyclone), (6, &river), (12, &nothing)] {
        let mut frame = Frame::new(hour(hours));
        frame.field = Some(water.view());
        frame.masks.push((SourceKind::Heuristic, mask.view()));
        builder.add_frame(&frame).unwrap();
    }
    builder.html().unwrap()
}

/// The page of the day: masks, field, events of the rules, and boxes of a network that continue after the last picture.
pub fn day() -> String {
    let grid = grid(2.5);
    let mut input = ReportInput::new("A day", grid.clone());
    input.sources.push(found());
    let network = BoxSource::new(SourceKind::Network, "detector", tracked_boxes());
    input.boxes.push(network);
    let columns = [352.5, 357.5, 2.5, 7.5];
    let cyclone = mask(&grid, 1, &[12.5, 17.5, 22.5], &columns);
    of_masks(input, &cyclone)
}
