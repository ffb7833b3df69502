//! Makes the events of both sides comparable: if one side lists labelled objects, which may touch, and the other whole
//! connected areas, the objects are replaced by the areas of their masks.

use squall_climate::Event;
use squall_data::grid::distance_km;
use squall_data::{Class, GeoBox, Time};
use std::collections::HashMap;

/// The events of both sides: those in its table or, without a table or if `is_made` says so, those made from its masks.
pub(super) fn comparable(
    listed: [Option<Vec<Event>>; 2],
    made: [Vec<Event>; 2],
    is_made: [bool; 2],
) -> [Vec<Event>; 2] {
    let ([one, other], [first, second]) = (listed, made);
    match (one, other) {
        (Some(objects), Some(events)) if is_made[0] => {
            [at_centres(first, &objects, &events), events]
        }
        (Some(events), Some(objects)) if is_made[1] => {
            let second = at_centres(second, &objects, &events);
            [events, second]
        }
        (one, other) => [
            one.filter(|_| !is_made[0]).unwrap_or(first),
            other.filter(|_| !is_made[1]).unwrap_or(second),
        ],
    }
}

/// Moves the cyclones of areas to the centres in the labels. Without fields, a cyclone made from a mask is at the
/// middle of its area, but in event tables at a low. If several objects lie in one area, the table has one event, at
/// one of their lows, so the object nearest to an event provides the centre.
fn at_centres(mut areas: Vec<Event>, objects: &[Event], events: &[Event]) -> Vec<Event> {
    let areas_at = cyclones_of(&areas);
    let events_at = cyclones_of(events);
    let mut centres: HashMap<usize, (f64, (f64, f64))> = HashMap::new();
    for object in objects.iter().filter(|object| is_cyclone(object)) {
        let near = areas_at.get(&object.time);
        let Some(area) = near.and_then(|near| area_of(object, near, &areas)) else {
            continue;
        };
        let events_near = events_at.get(&object.time).into_iter().flatten();
        let nearest_km = events_near
            .map(|&k| apart_km(object, &events[k]))
            .fold(f64::INFINITY, f64::min);
        let found = (nearest_km, (object.lat_deg, object.lon_deg));
        let centre = centres.entry(area).or_insert(found);
        if nearest_km < centre.0 {
            *centre = found;
        }
    }
    for (area, (_, centre)) in centres {
        (areas[area].lat_deg, areas[area].lon_deg) = centre;
    }
    areas
}

fn is_cyclone(event: &Event) -> bool {
    event.class == Class::TropicalCyclone
}

/// The indices of the cyclones in `events`, by time.
fn cyclones_of(events: &[Event]) -> HashMap<Time, Vec<usize>> {
    let mut at: HashMap<Time, Vec<usize>> = HashMap::new();
    for (k, event) in events.iter().enumerate() {
        if is_cyclone(event) {
            at.entry(event.time).or_default().push(k);
        }
    }
    at
}

/// The area that contains an object, among those whose boxes overlap its box or contain its centre: the one that
/// contains most of the object's box, then the one with the most similar box (intersection over union), then the
/// nearest.
fn area_of(object: &Event, near: &[usize], areas: &[Event]) -> Option<usize> {
    let own = object.bounding_box();
    let holding = near.iter().filter_map(|&k| {
        let bounds = areas[k].bounding_box();
        let overlap = bounds.overlap(&own);
        let holds = overlap > 0.0 || bounds.contains(object.lat_deg, object.lon_deg);
        let part = (percent_inside(&own, &bounds), overlap);
        holds.then(|| (k, part, apart_km(object, &areas[k])))
    });
    let best = holding.min_by(|(_, a, a_km), (_, b, b_km)| {
        let part = b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1));
        part.then(a_km.total_cmp(b_km))
    });
    best.map(|(k, ..)| k)
}

/// Share of an object's box inside an area's box, in whole percent, because edges in tables are rounded.
fn percent_inside(object: &GeoBox, area: &GeoBox) -> f64 {
    let overlap = area.overlap(object);
    if overlap == 0.0 {
        return 0.0;
    }
    let shared_km2 = overlap / (1.0 + overlap) * (object.area_km2() + area.area_km2());
    (100.0 * shared_km2 / object.area_km2()).round()
}

fn apart_km(a: &Event, b: &Event) -> f64 {
    distance_km(a.lat_deg, a.lon_deg, b.lat_deg, b.lon_deg)
}

#[cfg(test)]
mod tests {
    use super::*;
    use squall_climate::table::read_events;
    use squall_data::Calendar;

    /// Events in boxes of ten degrees, or of twice as many, about centres (latitude, longitude).
    fn events(boxes: &[(f64, f64, f64)]) -> Vec<Event> {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("events.csv");
        let mut text =
            String::from("class,time,lat_deg,lon_deg,south_deg,north_deg,west_deg,east_deg\n");
        for &(lat, lon, size) in boxes {
            let half = size / 2.0;
            let (south, north) = (lat - half, lat + half);
            let [west, east] = [lon - half, lon + half].map(|lon| lon.rem_euclid(360.0));
            text +=
                &format!("tropical_cyclone,2000-08-01,{lat},{lon},{south},{north},{west},{east}\n");
        }
        std::fs::write(&table, text).unwrap();
        read_events(&table, Calendar::NoLeap).unwrap()
    }

    /// The first object: the box of the second area holds half of it and is more like it in size, but the larger box of
    /// the first area holds all of it and wins. Boxes cross the seam.
    #[test]
    fn an_object_is_part_of_the_area_that_holds_it() {
        let areas = events(&[(20.0, 0.0, 20.0), (10.0, 355.0, 10.0)]);
        let objects = events(&[(15.0, 355.0, 10.0), (25.0, 5.0, 10.0), (10.0, 355.0, 10.0)]);
        let found = at_centres(
            areas,
            &objects,
            &events(&[(15.0, 355.0, 20.0), (10.0, 355.0, 10.0)]),
        );
        let centres = found.iter().map(|area| (area.lat_deg, area.lon_deg));
        assert_eq!(centres.collect::<Vec<_>>(), [(15.0, 355.0), (10.0, 355.0)]);
    }
}
