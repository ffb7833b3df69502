//! Wind and pressure around the centre of a cyclone, independent of the extent of its mask or box.

use super::Event;
use super::extract::EventFields;
use squall_data::grid::lon_difference_deg;
use squall_data::{Class, LatLonGrid, Variable};

/// Search radius for the wind of a tropical cyclone or depression around the cell of its centre, degrees of a great
/// circle; larger on coarse grids ([`cyclone_wind_deg`]).
///
/// # Source
/// Ullrich et al. 2021 (GMD 14, 5023-5048): the wind of a node is `_VECMAG(U10,V10),max,2`.
pub const CYCLONE_WIND_DEG: f64 = 2.0;

/// Search radius for the wind of an extratropical cyclone, a class of boxes only.
///
/// # Source
/// See [`CYCLONE_WIND_DEG`]. The closed contour of 2 hPa that defines these lows lies within this distance
/// (`--closedcontourcmd "PSL,200.0,6.0,0"`), so a wind inside it belongs to this low.
pub const EXTRATROPICAL_WIND_DEG: f64 = 6.0;

/// Search radius for the wind of a cyclone on a grid, degrees of a great circle around the cell of its centre; `None`
/// for classes other than cyclones. On grids coarser than one degree the radius is at least 1.5 cells, as for `squall
/// label --method tempest`: a smaller circle would contain little but the calm cell at the centre.
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

/// A radius, raised to at least 1.5 cells on grids coarser than one degree.
pub(crate) fn holding_cells(radius_deg: f64, grid: &LatLonGrid) -> f64 {
    let cell_deg = grid.lat_spacing_deg().max(grid.lon_spacing_deg());
    // Grids of exactly one degree keep the published radius.
    if cell_deg > 1.0 {
        radius_deg.max(1.5 * cell_deg)
    } else {
        radius_deg
    }
}

/// Raises the wind of a tropical cyclone to the highest within [`cyclone_wind_deg`] of its centre, if that is higher
/// than inside. Masks by pressure contain only the eye, which is smaller for stronger storms. Other classes are
/// unchanged.
pub(super) fn raise_wind(event: &mut Event, grid: &LatLonGrid, fields: &EventFields<'_>) {
    if event.class == Class::TropicalCyclone {
        let around = wind_around(event, grid, fields);
        let known = [event.max_wind_m_s, around];
        event.max_wind_m_s = known.into_iter().flatten().reduce(f64::max);
    }
}

/// The highest wind within [`cyclone_wind_deg`] of a cyclone's centre.
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

/// The lowest pressure within the same distance as [`wind_around`].
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

/// The cells within [`cyclone_wind_deg`] of the cell of a cyclone's centre; none if the centre is off a regional grid.
fn cells_around(event: &Event, grid: &LatLonGrid) -> Vec<(usize, usize)> {
    let mut cells = Vec::new();
    let Some(radius_deg) = cyclone_wind_deg(event.class, grid) else {
        return cells;
    };
    // Measured from the cell, like TempestExtremes: on coarse grids a fraction of a cell would decide which neighbours
    // are within the radius.
    let (row, column) = grid.nearest(event.lat_deg, event.lon_deg);
    let (lat_deg, lon_deg) = (grid.lat_deg()[row], grid.lon_deg()[column]);
    let east = lon_difference_deg(event.lon_deg, lon_deg).abs();
    if (event.lat_deg - lat_deg).abs() > grid.lat_spacing_deg() || east > grid.lon_spacing_deg() {
        return cells;
    }
    let (sin, cos) = lat_deg.to_radians().sin_cos();
    // Rounding must not exclude a cell at exactly this distance.
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

    /// A grid of 0.25 degrees from 5 to 35N, 60 degrees eastward from `west`.
    fn region(west: f64) -> Arc<LatLonGrid> {
        let lat = (0..121).map(|j| 5.0 + 0.25 * f64::from(j));
        let lon = (0..241).map(|i| west + 0.25 * f64::from(i));
        let grid = LatLonGrid::from_axes(lat.collect(), lon.collect());
        Arc::new(grid.unwrap().0)
    }

    /// Pressure rises from a centre. The wind is 1 m/s except at the given places (latitude, longitude, m/s).
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

    /// The only event of a circular mask.
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
        // Exactly two degrees along the meridian, and slightly more; also across Greenwich and the date line.
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
        // 2.25 degrees of longitude at 30N are less than two degrees of a great circle: 2.25 cos(30°) = 1.95.
        let snapshot = weather(&region(180.0), (30.0, 210.0), &[(30.0, 212.25, 70.0)]);
        is_near(
            &event(Class::TropicalCyclone, (30.0, 210.0), 30.0, &snapshot),
            70.0,
        );
    }

    /// The mask extends to 4 degrees: any wind inside counts, and wind outside does not.
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
        // The centre is at the corner of the region.
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

    /// On a grid of 1.875 by 2.5 degrees, 1.5 cells are two rows from the eye's cell, wherever the centre lies in that
    /// cell.
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

    /// On a grid of 3.8 by 5 degrees no neighbour of the eye is within two degrees.
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

    /// The middle of the box is off the region; its edge inside the region is 4.5 degrees away.
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

    /// Boxes of 2 and 20 degrees around one eye: the wind of a cyclone does not depend on the box size, that of a river
    /// does.
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

    /// Both boxes contain the only low, whose wind is 50 m/s.
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
        // The box centre is 859 km from the low; the nearest cells are two degrees closer.
        let pressure = second.min_psl_pa.unwrap();
        assert!((95_630.0..95_650.0).contains(&pressure), "{pressure}");
    }
}
