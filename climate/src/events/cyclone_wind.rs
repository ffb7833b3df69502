//! The wind and the pressure around the centre of a cyclone, whatever its mask or box holds.

use super::Event;
use super::extract::EventFields;
use squall_data::grid::lon_difference_deg;
use squall_data::{Class, LatLonGrid, Variable};

/// How far from the cell of its centre the wind of a tropical cyclone or depression is looked for, degrees of a great
/// circle; on coarse grids farther ([`cyclone_wind_deg`]).
///
/// # Source
/// Ullrich et al. 2021 (GMD 14, 5023-5048): the wind of a node is `_VECMAG(U10,V10),max,2`.
pub const CYCLONE_WIND_DEG: f64 = 2.0;

/// The same of an extratropical cyclone, which boxes alone know.
///
/// # Source
/// As [`CYCLONE_WIND_DEG`]: no farther from the centre than this lies the closed contour of 2 hPa by which they are
/// found (`--closedcontourcmd "PSL,200.0,6.0,0"`), so that a wind within it blows around this low.
pub const EXTRATROPICAL_WIND_DEG: f64 = 6.0;

/// How far from the cell of its centre the wind of a cyclone is looked for on a grid, degrees of a great circle; `None`
/// for what is no cyclone. On grids coarser than one degree it is at least 1.5 cells, as for `squall label --method
/// tempest`: fewer would be little more than the calm cell of the centre.
///
/// # Example
/// ```
/// use squall_climate::events::cyclone_wind_deg;
/// use squall_data::{Class, LatLonGrid};
/// let fine = LatLonGrid::global(721, 1440).unwrap();
/// assert_eq!(cyclone_wind_deg(Class::TropicalCyclone, &fine), Some(2.0));
/// // Columns are five degrees apart.
/// let coarse = LatLonGrid::global(48, 72).unwrap();
/// assert_eq!(cyclone_wind_deg(Class::TropicalCyclone, &coarse), Some(7.5));
/// ```
pub fn cyclone_wind_deg(class: Class, grid: &LatLonGrid) -> Option<f64> {
    let radius_deg = match class {
        Class::TropicalCyclone | Class::TropicalDepression => CYCLONE_WIND_DEG,
        Class::ExtratropicalCyclone => EXTRATROPICAL_WIND_DEG,
        Class::Background | Class::AtmosphericRiver => return None,
    };
    Some(holding_cells(radius_deg, grid))
}

/// A radius, on grids coarser than one degree at least 1.5 cells.
pub(crate) fn holding_cells(radius_deg: f64, grid: &LatLonGrid) -> f64 {
    let cell_deg = grid.lat_spacing_deg().max(grid.lon_spacing_deg());
    // One degree keeps the published search of one degree.
    if cell_deg > 1.0 {
        radius_deg.max(1.5 * cell_deg)
    } else {
        radius_deg
    }
}

/// Raises the wind of a tropical cyclone to the highest around its centre ([`cyclone_wind_deg`]), if that is higher
/// than inside: masks by pressure hold the eye alone, and a stronger storm has a smaller one. Other classes are left as
/// they are.
pub(super) fn raise_wind(event: &mut Event, grid: &LatLonGrid, fields: &EventFields<'_>) {
    if event.class == Class::TropicalCyclone {
        let around = wind_around(event, grid, fields);
        let known = [event.max_wind_m_s, around];
        event.max_wind_m_s = known.into_iter().flatten().reduce(f64::max);
    }
}

/// The highest wind around the centre of a cyclone.
pub(super) fn wind_around(
    event: &Event,
    grid: &LatLonGrid,
    fields: &EventFields<'_>,
) -> Option<f64> {
    let [u, v] = fields.wind()?;
    let cells = cells_around(event, grid).into_iter();
    let speeds = cells.map(|cell| f64::from(u[cell]).hypot(f64::from(v[cell])));
    speeds.filter(|speed| speed.is_finite()).reduce(f64::max)
}

/// The lowest pressure where [`wind_around`] looks.
pub(super) fn pressure_around(
    event: &Event,
    grid: &LatLonGrid,
    fields: &EventFields<'_>,
) -> Option<f64> {
    let psl = fields.plane(Variable::Psl)?;
    let cells = cells_around(event, grid).into_iter();
    let values = cells.map(|cell| f64::from(psl[cell]));
    values.filter(|value| value.is_finite()).reduce(f64::min)
}

/// The cells within [`cyclone_wind_deg`] of that of a cyclone's centre. Beyond the edge of a regional grid nothing is
/// known, and nothing is looked for around a centre there.
fn cells_around(event: &Event, grid: &LatLonGrid) -> Vec<(usize, usize)> {
    let mut cells = Vec::new();
    let Some(radius_deg) = cyclone_wind_deg(event.class, grid) else {
        return cells;
    };
    // From the cell, as TempestExtremes: on coarse grids a fraction of a cell would decide which neighbours are near.
    let (row, column) = grid.nearest(event.lat_deg, event.lon_deg);
    let (lat_deg, lon_deg) = (grid.lat_deg()[row], grid.lon_deg()[column]);
    let east = lon_difference_deg(event.lon_deg, lon_deg).abs();
    if (event.lat_deg - lat_deg).abs() > grid.lat_spacing_deg() || east > grid.lon_spacing_deg() {
        return cells;
    }
    let (sin, cos) = lat_deg.to_radians().sin_cos();
    // A cell at just this distance counts, however its place is rounded.
    let least = radius_deg.to_radians().cos() - 1e-12;
    let along = grid.lon_deg().iter().map(|lon| lon - lon_deg);
    let columns: Vec<f64> = along.map(|east| east.to_radians().cos()).collect();
    for (j, lat) in grid.lat_deg().iter().enumerate() {
        if (lat - lat_deg).abs() > radius_deg + 1e-9 {
            continue;
        }
        let (row_sin, row_cos) = lat.to_radians().sin_cos();
        let in_row = columns.iter().enumerate();
        let near = in_row.filter(|(_, east)| sin * row_sin + cos * row_cos * **east >= least);
        cells.extend(near.map(|(i, _)| (j, i)));
    }
    cells
}

#[cfg(test)]
mod tests {
    use crate::events::{Event, EventFields, ExtractOptions, extract, from_boxes};
    use ndarray::{Array2, Array3};
    use squall_data::grid::distance_km;
    use squall_data::{BoxClass, Calendar, Class, ClassMask, GeoBox, LatLonGrid, Snapshot};
    use squall_data::{Time, TrackedBox, Variable};
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

    /// On 1.875 by 2.5 degrees 1.5 cells are two rows from that of the eye, wherever in its cell the centre is.
    #[test]
    fn the_circle_is_around_the_cell_of_the_centre() {
        let grid = Arc::new(LatLonGrid::global(97, 144).unwrap());
        let (row, column) = grid.nearest(15.0, 210.0);
        let place = |j: usize| (grid.lat_deg()[j], grid.lon_deg()[column]);
        for (beside, centre) in [(row - 2, place(row).0 + 0.5), (row + 2, place(row).0 - 0.5)] {
            let (lat, lon) = place(beside);
            let snapshot = weather(&grid, (centre, lon), &[(lat, lon, 40.0)]);
            is_near(
                &event(Class::TropicalCyclone, place(row), 30.0, &snapshot),
                40.0,
            );
        }
    }

    /// On 3.8 by 5 degrees no neighbour of the eye is within two degrees.
    #[test]
    fn on_a_coarse_grid_the_cells_beside_the_eye_count() {
        let grid = Arc::new(LatLonGrid::global(48, 72).unwrap());
        let (row, column) = grid.nearest(15.0, 210.0);
        let (lat, lon) = (grid.lat_deg()[row], grid.lon_deg()[column]);
        let north = grid.lat_deg()[row + 1];
        for (wind_lat, wind_lon) in [(north, lon), (lat, lon + 5.0), (north, lon - 5.0)] {
            let snapshot = weather(&grid, (lat, lon), &[(wind_lat, wind_lon, 40.0)]);
            let eye = event(Class::TropicalCyclone, (lat, lon), 30.0, &snapshot);
            is_near(&eye, 40.0);
        }
        // Two columns are 9.7 degrees.
        let snapshot = weather(&grid, (lat, lon), &[(lat, lon + 10.0, 40.0)]);
        let eye = event(Class::TropicalCyclone, (lat, lon), 30.0, &snapshot);
        is_near(&eye, 1.0);
    }

    /// The middle of the box is off the region, and its edge in the region 4.5 degrees from it.
    #[test]
    fn nothing_is_looked_for_around_a_centre_off_the_region() {
        let grid = region(180.0);
        let snapshot = weather(&grid, (15.0, 210.0), &[(20.0, 181.0, 50.0)]);
        let geo = GeoBox::around(BoxClass::TropicalCyclone, (20.0, 175.5), (5.0, 5.0));
        let fields = EventFields::of(&snapshot);
        let found = from_boxes(time(), &[geo.into()], &grid, &fields).unwrap();
        let event = &found[0].event;
        assert_eq!((event.max_wind_m_s, event.min_psl_pa), (None, None));
    }

    /// Boxes of 2 and of 20 degrees about one eye: the wind of a cyclone does not depend on them, that of a river does.
    #[test]
    fn boxes_of_cyclones_have_the_wind_around_their_centres() {
        let grid = region(180.0);
        let winds = [
            (16.5, 210.0, 50.0),
            (19.0, 210.0, 60.0),
            (22.0, 210.0, 70.0),
        ];
        let snapshot = weather(&grid, (15.0, 210.0), &winds);
        for (class, half_deg, wind) in [
            (BoxClass::TropicalCyclone, 1.0, 50.0),
            (BoxClass::TropicalCyclone, 10.0, 50.0),
            (BoxClass::TropicalDepression, 10.0, 50.0),
            (BoxClass::ExtratropicalCyclone, 1.0, 60.0),
            (BoxClass::ExtratropicalCyclone, 10.0, 60.0),
            (BoxClass::AtmosphericRiver, 1.0, 1.0),
            (BoxClass::AtmosphericRiver, 10.0, 70.0),
        ] {
            let geo = GeoBox::around(class, (15.0, 210.0), (half_deg, half_deg));
            let fields = EventFields::of(&snapshot);
            let found = from_boxes(time(), &[geo.into()], &grid, &fields).unwrap();
            is_near(&found[0].event, wind);
        }
    }

    /// Both boxes hold the one low, whose wind is 50 m/s; the second has no other.
    #[test]
    fn a_box_does_not_take_wind_and_pressure_of_a_neighbour() {
        let grid = region(180.0);
        let snapshot = weather(&grid, (15.0, 210.0), &[(16.0, 210.0, 50.0)]);
        let around = |lon| GeoBox::around(BoxClass::TropicalCyclone, (15.0, lon), (4.0, 10.0));
        let boxes = [210.0, 218.0].map(|lon| TrackedBox::from(around(lon)));
        let fields = EventFields::of(&snapshot);
        let found = from_boxes(time(), &boxes, &grid, &fields).unwrap();
        let [first, second] = [&found[0].event, &found[1].event];
        assert_eq!((first.min_psl_pa, second.lon_deg), (Some(95_000.0), 218.0));
        is_near(first, 50.0);
        is_near(second, 1.0);
        // Two degrees nearer to the low than 859 km.
        let pressure = second.min_psl_pa.unwrap();
        assert!((95_630.0..95_650.0).contains(&pressure), "{pressure}");
    }
}
