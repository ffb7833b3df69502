//! The entries of the event browser: one life per track or untracked object, from masks and from boxes.

use super::chain::{Chain, chains};
use crate::Event;
use crate::events::box_class;
use crate::report::figures::category;
use crate::report::summary::{Object, by_time, objects, strays};
use crate::report::{BoxSource, Source};
use crate::statistics::Basin;
use crate::track::{Landfall, Track};
use squall_data::boxes::{BoxClass, GeoBox, TrackedBox};
use squall_data::grid::{distance_km, eastern_longitude, lon_difference_deg};
use squall_data::{Class, Time};
use std::collections::{BTreeMap, HashMap};

/// One point of a life. `first` and `second` are wind (m/s) and pressure (hPa) of cyclones, and water (kg m-2) and
/// length (km) of rivers. For untracked sources of boxes, `first` is the confidence in percent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    pub(super) time: Time,
    pub(super) lat_deg: f64,
    pub(super) lon_deg: f64,
    pub(super) first: Option<f32>,
    pub(super) second: Option<f32>,
    pub(super) area_km2: f32,
    /// Extent of its box in degrees of longitude and latitude, if it is a box.
    pub(super) box_deg: Option<(f32, f32)>,
}

/// A track with its points, or an untracked object.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Life {
    /// Index in the list of finders: the sources of masks, then those of boxes.
    pub(super) finder: usize,
    pub(super) class: BoxClass,
    pub(super) id: Option<u64>,
    pub(super) start: Time,
    pub(super) end: Time,
    /// Number of times at which it was seen, including those not among `points`.
    pub(super) seen: usize,
    /// Index in the report's basins.
    pub(super) basin: usize,
    /// Cyclones: 0 depression, 1 storm, 2 to 6 categories 1 to 5. Rivers: rank 0 to 5.
    pub(super) category: Option<u8>,
    pub(super) max_wind_m_s: Option<f64>,
    pub(super) min_psl_hpa: Option<f64>,
    pub(super) max_tmq_kg_m2: Option<f64>,
    pub(super) max_area_km2: f64,
    pub(super) max_length_km: Option<f64>,
    pub(super) distance_km: Option<f64>,
    /// Maximum confidence of its boxes, 0 to 1.
    pub(super) confidence: Option<f32>,
    /// Number of landfalls, if known.
    pub(super) landfalls: Option<u32>,
    pub(super) landfall: Option<Landfall>,
    /// 1 genesis, 2 split, 3 start of data; 0 if untracked.
    pub(super) origin: u8,
    /// 1 lysis, 2 merge, 3 end of data; 0 if untracked.
    pub(super) fate: u8,
    /// The track from which it split.
    pub(super) parent: Option<u64>,
    /// The track into which it merged.
    pub(super) merged_into: Option<u64>,
    /// Whether `first` of its points is a confidence.
    pub(super) by_confidence: bool,
    /// In time order.
    pub(super) points: Vec<Point>,
}

impl Life {
    /// Hours from its first to its last time.
    pub(super) fn hours(&self) -> f64 {
        self.end.hours_since(self.start)
    }

    /// Index of the strongest point: by wind or confidence for cyclones, else by area.
    pub(super) fn peak(&self) -> usize {
        let strongest = |by: &dyn Fn(&Point) -> Option<f32>| {
            let known = self.points.iter().enumerate();
            let known = known.filter_map(|(k, p)| Some((k, by(p)?)));
            known.reduce(|a, b| if b.1 > a.1 { b } else { a })
        };
        let cyclone = self.class != BoxClass::AtmosphericRiver;
        let by_strength = strongest(&|p| p.first).filter(|_| cyclone);
        let by_area = || strongest(&|p| Some(p.area_km2).filter(|km2| km2.is_finite()));
        by_strength.or_else(by_area).map_or(0, |(k, _)| k)
    }
}

/// The lives of a source of events; `boxes` says whether its events are boxes, whose edges are drawn.
pub(super) fn lives_of_source(source: &Source, finder: usize, boxes: bool) -> Vec<Life> {
    let tracks: HashMap<(Class, u64), &Track> = (source.tracks.iter())
        .map(|track| ((track.class, track.track_id), track))
        .collect();
    let found = Class::TRACKED.into_iter().flat_map(|class| {
        // Untracked brief events are only listed for boxes: the map shows everything that masks mark, but of boxes only
        // those that are listed.
        let strays = if boxes {
            strays(source, class)
        } else {
            Vec::new()
        };
        objects(source, class).into_iter().chain(strays)
    });
    found
        .map(|object| {
            let track = object.id.and_then(|id| tracks.get(&(object.class, id)));
            life_of_object(&object, track.copied(), finder, boxes)
        })
        .collect()
}

fn life_of_object(object: &Object<'_>, track: Option<&Track>, finder: usize, boxes: bool) -> Life {
    let cyclone = object.class.is_cyclone();
    let details = track.map(|t| &t.details);
    let last = object.points.last().map_or(object.start, |e| e.time);
    let of_points = |value: fn(&Event) -> Option<u8>| {
        let values = object.points.iter().filter_map(|e| value(e));
        values.max()
    };
    let rank = || {
        let of_track = details.and_then(|d| d.river_scale);
        of_track.or_else(|| of_points(|e| e.details.river_scale))
    };
    Life {
        finder,
        class: box_class(object.class),
        id: object.id,
        start: object.start,
        end: track.map_or(last, |t| t.end),
        seen: track.map_or(object.points.len(), |t| t.points),
        basin: object.basin(),
        category: match object.class {
            Class::TropicalCyclone => object.max_wind_m_s.map(|wind| category(wind) as u8),
            Class::AtmosphericRiver => rank(),
            Class::Background | Class::ExtratropicalCyclone | Class::TropicalDepression => None,
        },
        max_wind_m_s: object.max_wind_m_s,
        min_psl_hpa: object.min_psl_pa.map(|p| p / 100.0),
        max_tmq_kg_m2: object.max_tmq_kg_m2,
        max_area_km2: object.max_area_km2,
        max_length_km: object.longest.map(|e| e.length_km),
        distance_km: object.distance_km,
        confidence: (object.points.iter().filter(|_| boxes))
            .filter_map(|e| e.mean_probability)
            .map(|p| p as f32)
            .reduce(f32::max),
        landfalls: details.and_then(|d| d.landfalls),
        landfall: details.and_then(|d| d.landfall),
        origin: track.map_or(0, |t| t.origin as u8 + 1),
        fate: track.map_or(0, |t| t.fate as u8 + 1),
        parent: details.and_then(|d| d.parent_track),
        merged_into: details.and_then(|d| d.merged_into),
        by_confidence: false,
        points: (object.points.iter())
            .map(|e| {
                if boxes {
                    point_of_box_event(e, cyclone)
                } else {
                    point_of_event(e, cyclone)
                }
            })
            .collect(),
    }
}

/// The point of an event that is a box. Its position is the middle of the box, not the pressure minimum, so that the
/// outline drawn around it is the box.
fn point_of_box_event(event: &Event, cyclone: bool) -> Point {
    let width = eastern_longitude(event.east_deg - event.west_deg);
    let height = event.north_deg - event.south_deg;
    Point {
        lat_deg: event.south_deg + height / 2.0,
        lon_deg: eastern_longitude(event.west_deg + width / 2.0),
        box_deg: Some((width as f32, height as f32)),
        ..point_of_event(event, cyclone)
    }
}

fn point_of_event(event: &Event, cyclone: bool) -> Point {
    let (first, second) = if cyclone {
        (event.max_wind_m_s, event.min_psl_pa.map(|p| p / 100.0))
    } else {
        (
            event.max_tmq_kg_m2,
            Some(event.length_km).filter(|km| km.is_finite()),
        )
    };
    Point {
        time: event.time,
        lat_deg: event.lat_deg,
        lon_deg: event.lon_deg,
        first: first.map(|v| v as f32),
        second: second.map(|v| v as f32),
        area_km2: event.area_km2 as f32,
        box_deg: None,
    }
}

/// The lives of boxes: one per track and class, and one per chain of untracked boxes ([`chains`]).
pub(super) fn lives_of_boxes(source: &BoxSource, finder: usize) -> Vec<Life> {
    let mut tracked: BTreeMap<(BoxClass, u64), Chain> = BTreeMap::new();
    for frame in source.frames.frames() {
        for TrackedBox { geo, track_id } in &frame.boxes {
            if let Some(id) = track_id {
                let chain = tracked.entry((geo.class, *id)).or_default();
                chain.push((frame.time, *geo));
            }
        }
    }
    let untracked = chains(source.frames.frames());
    let untracked = untracked
        .iter()
        .map(|chain| life_of_chain(finder, None, chain));
    let followed = tracked.iter();
    let followed = followed.map(|((_, id), chain)| life_of_chain(finder, Some(*id), chain));
    let mut lives: Vec<Life> = followed.chain(untracked).collect();
    lives.sort_by(|a, b| by_time(a.start, b.start));
    lives
}

/// The life of a chain; it must not be empty.
fn life_of_chain(finder: usize, id: Option<u64>, chain: &[(Time, GeoBox)]) -> Life {
    let points: Vec<Point> = chain
        .iter()
        .map(|(time, geo)| point_of_box(*time, geo))
        .collect();
    let (begin, end) = (&points[0], &points[points.len() - 1]);
    let steps = points.windows(2);
    let path_km: f64 = steps
        .map(|p| distance_km(p[0].lat_deg, p[0].lon_deg, p[1].lat_deg, p[1].lon_deg))
        .sum();
    Life {
        finder,
        class: chain[0].1.class,
        id,
        start: begin.time,
        end: end.time,
        seen: points.len(),
        basin: Basin::of(begin.lat_deg, begin.lon_deg) as usize,
        category: None,
        max_wind_m_s: None,
        min_psl_hpa: None,
        max_tmq_kg_m2: None,
        max_area_km2: chain.iter().map(|(_, g)| g.area_km2()).fold(0.0, f64::max),
        max_length_km: None,
        distance_km: (points.len() > 1).then_some(path_km),
        confidence: chain
            .iter()
            .filter_map(|(_, g)| g.confidence)
            .reduce(f32::max),
        landfalls: None,
        landfall: None,
        origin: 0,
        fate: 0,
        parent: None,
        merged_into: None,
        by_confidence: true,
        points,
    }
}

fn point_of_box(time: Time, geo: &GeoBox) -> Point {
    let (width, height) = (geo.width_deg(), geo.north_deg - geo.south_deg);
    Point {
        time,
        lat_deg: geo.south_deg + height / 2.0,
        lon_deg: eastern_longitude(geo.west_deg + width / 2.0),
        first: geo.confidence.map(|c| 100.0 * c),
        second: None,
        area_km2: geo.area_km2() as f32,
        box_deg: Some((width as f32, height as f32)),
    }
}

/// Degrees eastward between two points, by the shorter way.
pub(super) fn eastward_deg(from: &Point, to: &Point) -> f64 {
    lon_difference_deg(to.lon_deg, from.lon_deg)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::SourceKind;
    use squall_data::Calendar;

    #[test]
    fn boxes_of_a_track_are_one_life() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("boxes.csv");
        let header = "class,time,west_deg,south_deg,east_deg,north_deg,confidence,track_id\n";
        let rows = "tropical_cyclone,2000-01-01T00:00:00,355,10,5,20,0.5,7\n\
                    tropical_cyclone,2000-01-01T06:00:00,357,10,7,20,0.75,7\n\
                    extratropical_cyclone,2000-01-01T06:00:00,100,-50,120,-40,0.25,\n\
                    ,2000-01-01T12:00:00,,,,,,\n";
        std::fs::write(&path, format!("{header}{rows}")).unwrap();
        let grid = squall_data::LatLonGrid::global(8, 16).unwrap();
        let frames = squall_data::boxes::read(&path, &grid, Calendar::NoLeap).unwrap();
        let lives = lives_of_boxes(&BoxSource::new(SourceKind::Network, "net", frames), 3);
        assert_eq!(lives.len(), 2);
        let (storm, low) = (&lives[0], &lives[1]);
        assert_eq!((storm.id, storm.seen, storm.hours()), (Some(7), 2, 6.0));
        assert_eq!(storm.confidence, Some(0.75));
        // The centre moves from 0°E to 2°E: two degrees on the circle of 15°N.
        assert_eq!(
            (storm.points[0].lon_deg, storm.points[1].lon_deg),
            (0.0, 2.0)
        );
        assert!((storm.distance_km.unwrap() - 214.8).abs() < 0.5);
        assert_eq!(storm.peak(), 1);
        assert_eq!((low.id, low.distance_km, low.finder), (None, None, 3));
        assert_eq!(low.points[0].box_deg, Some((20.0, 10.0)));
        assert_eq!(low.class, BoxClass::ExtratropicalCyclone);
    }
}
