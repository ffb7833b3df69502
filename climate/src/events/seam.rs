//! Boxes that the seam of a global grid cuts in two.

use squall_data::grid::lon_difference_deg;
use squall_data::{GeoBox, LatLonGrid, TrackedBox};

/// Two parts of one box share more than this of the latitudes of the smaller one.
const SHARED_LATITUDES: f64 = 0.5;

/// The boxes of one time, of which those that are two parts of one are joined: to a network whose longitude does not
/// wrap the seam is the two ends of its field, and it finds a storm there as two boxes.
///
/// Parts are of one class and identity, end within half a cell of the seam on its two sides, and lie beside each other
/// ([`SHARED_LATITUDES`]). If a box of that time lies across the seam, its source has no such ends: nothing is joined.
pub(super) fn joined(boxes: &[TrackedBox], grid: &LatLonGrid) -> Vec<TrackedBox> {
    let seam = Seam::of(grid);
    if !grid.is_periodic() || boxes.iter().any(|found| seam.cuts(&found.geo)) {
        return boxes.to_vec();
    }
    let mut boxes: Vec<Option<TrackedBox>> = boxes.iter().copied().map(Some).collect();
    for west in 0..boxes.len() {
        let Some(ends) = boxes[west] else {
            continue;
        };
        let others = (0..boxes.len()).filter(|&at| at != west);
        let parts = others.filter_map(|at| Some((at, seam.shared(&ends, &boxes[at]?)?)));
        if let Some((east, _)) = parts.max_by(|a, b| a.1.total_cmp(&b.1)) {
            let begins = boxes[east].take();
            boxes[west] = begins.map(|begins| whole(&ends, &begins));
        }
    }
    boxes.into_iter().flatten().collect()
}

/// Where the last column of a global grid meets the first.
struct Seam {
    lon_deg: f64,
    /// Half a cell, and a little for what rounding does.
    half_deg: f64,
}

impl Seam {
    fn of(grid: &LatLonGrid) -> Self {
        let half_deg = grid.lon_spacing_deg() / 2.0;
        Self {
            lon_deg: grid.lon_deg()[0] - half_deg,
            half_deg: half_deg + 1e-6,
        }
    }

    fn is_at(&self, lon_deg: f64) -> bool {
        lon_difference_deg(lon_deg, self.lon_deg).abs() <= self.half_deg
    }

    /// Whether a box lies on both sides by more than half a cell.
    fn cuts(&self, geo: &GeoBox) -> bool {
        let from_west = (self.lon_deg - geo.west_deg).rem_euclid(360.0);
        from_west > self.half_deg && from_west < geo.width_deg() - self.half_deg
    }

    /// The share of the smaller one's latitudes that two parts of one box have in common, of which the first ends at the
    /// seam and the second begins there; none of boxes that are no such parts.
    fn shared(&self, ends: &TrackedBox, begins: &TrackedBox) -> Option<f64> {
        let (a, b) = (&ends.geo, &begins.geo);
        let height = |geo: &GeoBox| geo.north_deg - geo.south_deg;
        let shared = a.north_deg.min(b.north_deg) - a.south_deg.max(b.south_deg);
        let share = shared / height(a).min(height(b));
        let are_parts = (a.class, ends.track_id) == (b.class, begins.track_id)
            && self.is_at(a.east_deg)
            && self.is_at(b.west_deg)
            && a.width_deg() + b.width_deg() < 360.0 - 4.0 * self.half_deg
            && share > SHARED_LATITUDES;
        are_parts.then_some(share)
    }
}

/// The box of which these are the parts, as sure as the surer one.
fn whole(ends: &TrackedBox, begins: &TrackedBox) -> TrackedBox {
    let (a, b) = (ends.geo, begins.geo);
    let geo = GeoBox {
        south_deg: a.south_deg.min(b.south_deg),
        north_deg: a.north_deg.max(b.north_deg),
        east_deg: b.east_deg,
        confidence: a.confidence.zip(b.confidence).map(|(a, b)| a.max(b)),
        ..a
    };
    TrackedBox { geo, ..*ends }
}

#[cfg(test)]
mod tests {
    use crate::events::{DetectedEvent, EventFields, from_boxes};
    use squall_data::{BoxClass, Calendar, GeoBox, LatLonGrid, Time, TrackedBox};

    /// A box from west to east of the seam of one-degree cells, or of a part of the globe.
    fn part(west: f64, south_deg: f64, east: f64, north_deg: f64) -> TrackedBox {
        let seam = LatLonGrid::global(180, 360).unwrap().lon_deg()[0] - 0.5;
        let geo = GeoBox {
            class: BoxClass::AtmosphericRiver,
            west_deg: (seam + west).rem_euclid(360.0),
            south_deg,
            east_deg: (seam + east).rem_euclid(360.0),
            north_deg,
            confidence: Some(0.75),
        };
        geo.into()
    }

    fn events(boxes: &[TrackedBox]) -> Vec<DetectedEvent> {
        let grid = LatLonGrid::global(180, 360).unwrap();
        let time = Time::new(Calendar::NoLeap, 2000, 1, 1, 0, 0, 0).unwrap();
        from_boxes(time, boxes, &grid, &EventFields::default()).unwrap()
    }

    #[test]
    fn two_parts_at_the_seam_are_one_event() {
        let (west, east) = (part(-10.0, 40.0, 0.3, 50.0), part(-0.3, 42.0, 15.0, 55.0));
        for boxes in [[west, east], [east, west]] {
            let found = events(&boxes);
            assert_eq!(found.len(), 1, "{found:?}");
            let whole = &events(&[part(-10.0, 40.0, 15.0, 55.0)])[0];
            assert_eq!(found[0].region, whole.region);
            assert_eq!(whole.region.cells(), 25 * 15);
            let edges = |one: &DetectedEvent| {
                let event = &one.event;
                let edges = (event.west_deg, event.south_deg, event.east_deg);
                (edges, event.north_deg, event.mean_probability)
            };
            assert_eq!(edges(&found[0]), edges(whole));
        }
        // The part with most in common is taken, and what has none stays.
        let other = part(0.0, 44.0, 5.0, 54.0);
        assert_eq!(events(&[other, west, east]).len(), 2);
    }

    #[test]
    fn boxes_that_are_no_parts_stay_two() {
        let (west, east) = (part(-10.0, 40.0, 0.0, 50.0), part(0.0, 40.0, 15.0, 50.0));
        assert_eq!(events(&[west, east]).len(), 1);
        let with = |change: &dyn Fn(&mut TrackedBox)| {
            let mut changed = east;
            change(&mut changed);
            events(&[west, changed]).len()
        };
        assert_eq!(with(&|b| b.geo.class = BoxClass::TropicalCyclone), 2);
        assert_eq!(with(&|b| b.track_id = Some(7)), 2);
        assert_eq!(with(&|b| b.geo = part(1.0, 40.0, 15.0, 50.0).geo), 2);
        assert_eq!(with(&|b| b.geo = part(0.0, 46.0, 15.0, 56.0).geo), 2);
        // Together they would be more than the globe.
        assert_eq!(with(&|b| b.geo = part(0.0, 40.0, 355.0, 50.0).geo), 2);
        // Longitude wraps for whoever found this one.
        let across = part(-5.0, -50.0, 5.0, -40.0);
        assert_eq!(events(&[west, east, across]).len(), 3);
    }
}
