//! The highest wind of a tropical cyclone, whatever part of it its mask holds.

use super::Event;
use super::extract::EventFields;
use squall_data::grid::lon_difference_deg;
use squall_data::{Class, LatLonGrid};

/// How far from the cell of its centre the wind of a tropical cyclone is looked for, degrees of a great circle.
///
/// # Source
/// Ullrich et al. 2021 (GMD 14, 5023-5048): the wind of a node is `_VECMAG(U10,V10),max,2`.
pub const CYCLONE_WIND_DEG: f64 = 2.0;

/// Raises the wind of a tropical cyclone to the highest within [`CYCLONE_WIND_DEG`] of its centre, if that is higher than
/// inside: masks by pressure hold the eye alone, and a stronger storm has a smaller one. Other classes are left as they
/// are. Beyond the edge of a regional grid nothing is known, and nothing is looked for around a centre there.
pub(super) fn look_around(event: &mut Event, grid: &LatLonGrid, fields: &EventFields<'_>) {
    let Some([u, v]) = fields.wind() else {
        return;
    };
    if event.class != Class::TropicalCyclone {
        return;
    }
    // From the cell, as TempestExtremes: on coarse grids a fraction of a cell would decide which neighbours are near.
    let (row, column) = grid.nearest(event.lat_deg, event.lon_deg);
    let (lat_deg, lon_deg) = (grid.lat_deg()[row], grid.lon_deg()[column]);
    let east = lon_difference_deg(event.lon_deg, lon_deg).abs();
    if (event.lat_deg - lat_deg).abs() > grid.lat_spacing_deg() || east > grid.lon_spacing_deg() {
        return;
    }
    let (sin, cos) = lat_deg.to_radians().sin_cos();
    // A cell at just this distance counts, however its place is rounded.
    let least = CYCLONE_WIND_DEG.to_radians().cos() - 1e-12;
    let along = grid.lon_deg().iter().map(|lon| lon - lon_deg);
    let columns: Vec<f64> = along.map(|east| east.to_radians().cos()).collect();
    for (j, lat) in grid.lat_deg().iter().enumerate() {
        if (lat - lat_deg).abs() > CYCLONE_WIND_DEG + 1e-9 {
            continue;
        }
        let (row_sin, row_cos) = lat.to_radians().sin_cos();
        for (i, east) in columns.iter().enumerate() {
            if sin * row_sin + cos * row_cos * east < least {
                continue;
            }
            let speed = f64::from(u[[j, i]]).hypot(f64::from(v[[j, i]]));
            if speed.is_finite() {
                let inside = event.max_wind_m_s;
                event.max_wind_m_s = Some(inside.map_or(speed, |wind| wind.max(speed)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::events::{Event, EventFields, ExtractOptions, extract, from_boxes};
    use ndarray::{Array2, Array3};
    use squall_data::grid::distance_km;
    use squall_data::{BoxClass, Calendar, Class, ClassMask, GeoBox, LatLonGrid, Snapshot};
    use squall_data::{Time, Variable};
    use std::sync::Arc;

    const FIELDS: [Variable; 3] = [Variable::Psl, Variable::Ubot, Variable::Vbot];

    fn time() -> Time {
        Time::new(Calendar::NoLeap, 2001, 9, 1, 0, 0, 0).unwrap()
    }

    /// A quarter of a degree from 5 to 35N, 60 degrees eastward from `west`.
    fn region(west: f64) -> Arc<LatLonGrid> {
        let lat = (0..121).map(|j| 5.0 + 0.25 * f64::from(j));
        let lon = (0..241).map(|i| west + 0.25 * f64::from(i));
        let grid = LatLonGrid::from_axes(lat.collect(), lon.collect());
        Arc::new(grid.unwrap().0)
    }

    /// Pressure rises from a centre; the wind is 1 m/s, and as `winds` say at some places (latitude, longitude, m/s).
    fn weather(
        grid: &Arc<LatLonGrid>,
        (lat, lon): (f64, f64),
        winds: &[(f64, f64, f32)],
    ) -> Snapshot {
        let (rows, columns) = grid.shape();
        let mut fields = Array3::from_shape_fn((3, rows, columns), |(k, j, i)| match k {
            0 => 95_000.0 + distance_km(lat, lon, grid.lat_deg()[j], grid.lon_deg()[i]) as f32,
            1 => 1.0,
            _ => 0.0,
        });
        for &(lat, lon, wind) in winds {
            let (j, i) = grid.nearest(lat, lon);
            (fields[[1, j, i]], fields[[2, j, i]]) = (0.6 * wind, -0.8 * wind);
        }
        Snapshot {
            time: time(),
            grid: grid.clone(),
            variables: FIELDS.to_vec(),
            fields,
            source: ("eye".into(), 0),
        }
    }

    /// The one event of a round mask.
    fn event(class: Class, (lat, lon): (f64, f64), radius_km: f64, snapshot: &Snapshot) -> Event {
        let grid = &snapshot.grid;
        let codes = Array2::from_shape_fn(grid.shape(), |(j, i)| {
            let off = distance_km(lat, lon, grid.lat_deg()[j], grid.lon_deg()[i]);
            class.code() * u8::from(off <= radius_km)
        });
        let mask = ClassMask::new(time(), codes).unwrap();
        let (fields, options) = (EventFields::of(snapshot), ExtractOptions::everything());
        let mut found = extract(&mask, grid, &fields, &options).unwrap();
        assert_eq!(found.len(), 1);
        found.remove(0).event
    }

    fn is_near(event: &Event, wind: f64) {
        let found = event.max_wind_m_s.unwrap();
        assert!((found - wind).abs() < 1e-4, "{found} for {wind}: {event:?}");
    }

    #[test]
    fn the_wind_beside_an_eye_is_the_cyclones_and_no_rivers() {
        // Just two degrees along the meridian, and just beyond them; also across Greenwich and the date line.
        for (west, lon) in [(180.0, 210.0), (330.0, 0.0), (330.0, 359.0), (150.0, 180.0)] {
            let grid = region(west);
            let winds = [
                (17.0, lon, 40.0),
                (17.25, lon, 60.0),
                (15.0, lon + 2.25, 70.0),
            ];
            let snapshot = weather(&grid, (15.0, lon), &winds);
            let centre = (15.0, lon);
            is_near(
                &event(Class::TropicalCyclone, centre, 30.0, &snapshot),
                40.0,
            );
            is_near(
                &event(Class::AtmosphericRiver, centre, 30.0, &snapshot),
                1.0,
            );
        }
        // 2.25 degrees of longitude are less than two of a great circle at 30N: 2.25 cos(30°) = 1.95.
        let snapshot = weather(&region(180.0), (30.0, 210.0), &[(30.0, 212.25, 70.0)]);
        is_near(
            &event(Class::TropicalCyclone, (30.0, 210.0), 30.0, &snapshot),
            70.0,
        );
    }

    /// The mask reaches 4 degrees: the wind inside counts wherever it is, and one outside does not.
    #[test]
    fn a_mask_beyond_the_circle_keeps_the_wind_inside() {
        let winds = [
            (18.5, 210.0, 45.0),
            (19.5, 210.0, 60.0),
            (16.0, 210.0, 30.0),
        ];
        let snapshot = weather(&region(180.0), (15.0, 210.0), &winds);
        is_near(
            &event(Class::TropicalCyclone, (15.0, 210.0), 445.0, &snapshot),
            45.0,
        );
    }

    #[test]
    fn edges_and_missing_winds_leave_what_is_known() {
        // The centre is the corner of the region.
        let grid = region(180.0);
        let mut snapshot = weather(&grid, (5.0, 180.0), &[(6.0, 181.0, 33.0)]);
        is_near(
            &event(Class::TropicalCyclone, (5.0, 180.0), 30.0, &snapshot),
            33.0,
        );
        let (j, i) = grid.nearest(6.0, 181.0);
        snapshot.fields[[1, j, i]] = f32::NAN;
        is_near(
            &event(Class::TropicalCyclone, (5.0, 180.0), 30.0, &snapshot),
            1.0,
        );
        snapshot
            .fields
            .index_axis_mut(ndarray::Axis(0), 2)
            .fill(f32::NAN);
        let blank = event(Class::TropicalCyclone, (5.0, 180.0), 30.0, &snapshot);
        assert_eq!(blank.max_wind_m_s, None);
    }

    /// On 1.875 by 2.5 degrees the rows beside that of the eye count, wherever in its cell the centre is.
    #[test]
    fn the_circle_is_around_the_cell_of_the_centre() {
        let grid = Arc::new(LatLonGrid::global(97, 144).unwrap());
        let (row, column) = grid.nearest(15.0, 210.0);
        let place = |j: usize| (grid.lat_deg()[j], grid.lon_deg()[column]);
        for (beside, centre) in [(row - 1, place(row).0 + 0.5), (row + 1, place(row).0 - 0.5)] {
            let (lat, lon) = place(beside);
            let snapshot = weather(&grid, (centre, lon), &[(lat, lon, 40.0)]);
            is_near(
                &event(Class::TropicalCyclone, place(row), 30.0, &snapshot),
                40.0,
            );
        }
    }

    /// Of the box only an edge is in the region, 4.5 degrees from its middle.
    #[test]
    fn nothing_is_looked_for_around_a_centre_off_the_region() {
        let grid = region(180.0);
        let snapshot = weather(&grid, (15.0, 210.0), &[(20.0, 181.0, 50.0)]);
        let geo = GeoBox::around(BoxClass::TropicalCyclone, (20.0, 175.5), (5.0, 5.0));
        let fields = EventFields::of(&snapshot);
        let found = from_boxes(time(), &[geo.into()], &grid, &fields).unwrap();
        is_near(&found[0].event, 1.0);
    }

    /// A box of a degree about the eye; that of an extratropical cyclone has what is inside.
    #[test]
    fn boxes_of_tropical_cyclones_have_the_wind_around_them() {
        let grid = region(180.0);
        let snapshot = weather(&grid, (15.0, 210.0), &[(16.5, 210.0, 50.0)]);
        for (class, wind) in [
            (BoxClass::TropicalCyclone, 50.0),
            (BoxClass::ExtratropicalCyclone, 1.0),
        ] {
            let geo = GeoBox::around(class, (15.0, 210.0), (1.0, 1.0));
            let fields = EventFields::of(&snapshot);
            let found = from_boxes(time(), &[geo.into()], &grid, &fields).unwrap();
            is_near(&found[0].event, wind);
        }
    }
}
