//! Further properties of an event: its impact (rain, transport, gales, land), and what depends on earlier times.

use crate::events::Event;
use crate::events::components::Region;
use crate::events::extract::{CellTransport, DetectedEvent, EventFields};
use crate::events::gale_radius::gale_radius_km;
use serde::{Deserialize, Serialize};
use squall_data::grid::distance_km;
use squall_data::{Class, LatLonGrid, Variable};

/// Impact of one event at one time. Unknown values are blank.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct EventDetails {
    /// Duration that this point represents, hours: the time step of the fields if there are any, otherwise that of the
    /// data.
    pub hours: Option<f64>,
    /// Whether it reaches the edge of a regional domain, so that area and centre are those of the part inside.
    pub touches_edge: Option<bool>,
    /// Highest vapour transport inside, kg m-1 s-1, by [`crate::derived::vapour_transport_proxy`].
    pub max_ivt_proxy_kg_m_s: Option<f64>,
    /// Highest vapour transport inside, kg m-1 s-1, of the transport in the fields ([`EventFields::transport`]).
    pub max_ivt_kg_m_s: Option<f64>,
    /// Tropical cyclones: gale radius by the wind of the lowest level, km ([`gale_radius_km`]).
    pub gale_radius_km: Option<f64>,
    /// Rivers: highest rank, 0 to 5, reached so far at any place under the river ([`crate::statistics::river_scale`]).
    pub river_scale: Option<u8>,
    /// Liquid water that fell inside during [`Self::hours`], km³, over cells with known rain.
    pub precipitation_km3: Option<f64>,
    /// Share of the area that is over land, 0 to 1.
    pub land_share: Option<f64>,
    /// Longitude of the impact on land: a cyclone's centre if that is over land; for a river the land cell of highest
    /// transport, or of highest moisture if transport is unknown, or nearest to the centre if both are unknown.
    pub land_lon_deg: Option<f64>,
    /// Latitude of that point.
    pub land_lat_deg: Option<f64>,
}

impl EventDetails {
    /// Computes the impact of an event from the fields and the land mask of its time.
    pub(super) fn of(
        detected: &DetectedEvent,
        grid: &LatLonGrid,
        areas: &[f64],
        fields: &EventFields<'_>,
    ) -> Self {
        let DetectedEvent { event, region, .. } = detected;
        let transport = fields.vapour_transport();
        let highest = |transport: CellTransport<'_>| {
            let values = region.indices().map(|cell| transport.at(cell));
            values.filter(|v| v.is_finite()).reduce(f64::max)
        };
        let mut details = EventDetails {
            touches_edge: Some(touches_edge(region, grid)),
            max_ivt_proxy_kg_m_s: fields.transport_proxy().and_then(highest),
            gale_radius_km: gale_radius(event, grid, fields),
            max_ivt_kg_m_s: (fields.transport.map(CellTransport::True)).and_then(highest),
            ..EventDetails::default()
        };
        let Some(land) = fields.land else {
            return details;
        };
        let on_land = || region.indices().filter(|&cell| land.is_land(cell));
        // An empty sum is -0, which would be visible in tables.
        let land_km2 = on_land().map(|(j, _)| areas[j]).sum::<f64>() + 0.0;
        details.land_share = Some((land_km2 / region.area_km2(areas).max(1e-9)).min(1.0));
        let place = if event.class.is_cyclone() {
            land.is_land_at(event.lat_deg, event.lon_deg)
                .then_some((event.lat_deg, event.lon_deg))
        } else {
            let at = |(j, i): (usize, usize)| (grid.lat_deg()[j], grid.lon_deg()[i]);
            let tmq = fields.plane(Variable::Tmq);
            let worth = |cell: (usize, usize)| {
                let moist = || tmq.as_ref().map(|plane| f64::from(plane[cell]));
                let known = transport.map(|t| t.at(cell)).or_else(moist);
                known.filter(|v| v.is_finite()).unwrap_or_else(|| {
                    let (lat, lon) = at(cell);
                    -distance_km(event.lat_deg, event.lon_deg, lat, lon)
                })
            };
            // The first of equal cells wins, so that the result depends only on cell order.
            on_land()
                .map(|cell| (worth(cell), cell))
                .reduce(|a, b| if b.0 > a.0 { b } else { a })
                .map(|(_, cell)| at(cell))
        };
        (details.land_lat_deg, details.land_lon_deg) = place.unzip();
        details
    }
}

/// The land cell of a river's impact ([`EventDetails::land_lat_deg`]), and the vapour transport there.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RiverOnLand {
    /// Row and column.
    pub cell: (u32, u32),
    /// Vapour transport of the transport in the fields ([`EventFields::transport`]), kg m-1 s-1.
    pub ivt_kg_m_s: Option<f64>,
    /// Vapour transport by [`crate::derived::vapour_transport_proxy`], kg m-1 s-1.
    pub ivt_proxy_kg_m_s: Option<f64>,
}

impl RiverOnLand {
    /// Where a described event reaches land, if it is a river that does.
    pub(super) fn where_it_lands(
        event: &Event,
        grid: &LatLonGrid,
        fields: &EventFields<'_>,
    ) -> Option<Self> {
        let details = &event.details;
        let place = details.land_lat_deg.zip(details.land_lon_deg);
        let (lat_deg, lon_deg) = place.filter(|_| event.class == Class::AtmosphericRiver)?;
        let cell = grid.nearest(lat_deg, lon_deg);
        let there = |transport: CellTransport<'_>| {
            let value = transport.at(cell);
            value.is_finite().then_some(value)
        };
        Some(Self {
            cell: (cell.0 as u32, cell.1 as u32),
            ivt_kg_m_s: fields.transport.map(CellTransport::True).and_then(there),
            ivt_proxy_kg_m_s: fields.transport_proxy().and_then(there),
        })
    }
}

/// The gale radius of a tropical cyclone, if the wind near the ground is known.
fn gale_radius(event: &Event, grid: &LatLonGrid, fields: &EventFields<'_>) -> Option<f64> {
    let wind = [Variable::Ubot, Variable::Vbot].map(|v| fields.plane(v));
    let [Some(u), Some(v)] = wind else {
        return None;
    };
    match event.class {
        Class::TropicalCyclone => gale_radius_km(grid, [u, v], (event.lat_deg, event.lon_deg)),
        Class::Background
        | Class::AtmosphericRiver
        | Class::ExtratropicalCyclone
        | Class::TropicalDepression => None,
    }
}

/// Whether the edge of a grid is a pole; the last row of a Gaussian grid ends slightly short of it.
pub(crate) fn is_pole(bound_deg: f64, grid: &LatLonGrid) -> bool {
    90.0 - bound_deg.abs() <= grid.lat_spacing_deg()
}

/// Whether a region reaches an edge of the domain that is neither the seam of a periodic grid nor a pole.
fn touches_edge(region: &Region, grid: &LatLonGrid) -> bool {
    let (rows, columns) = grid.shape();
    let bounds = grid.lat_bounds_deg();
    let open = |bound_deg: f64| !is_pole(bound_deg, grid);
    let (south, north) = (open(bounds[0]), open(bounds[rows]));
    region.runs.iter().any(|run| {
        (south && run.row == 0)
            || (north && run.row as usize + 1 == rows)
            || (!grid.is_periodic() && (run.first == 0 || run.end as usize == columns))
    })
}

#[cfg(test)]
mod tests {
    use crate::events::{EventFields, from_boxes};
    use crate::map::LandMask;
    use squall_data::{BoxClass, Calendar, GeoBox, LatLonGrid, Time};

    /// Near the mouth of the Mississippi; the middle of its cell is sea.
    #[test]
    fn a_cyclone_is_over_land_where_its_centre_is() {
        let grid = LatLonGrid::global(48, 72).unwrap();
        let land = LandMask::natural_earth(&grid);
        assert!(!land.is_land(grid.nearest(29.5, 270.4)));
        let time = Time::new(Calendar::NoLeap, 1996, 8, 26, 3, 0, 0).unwrap();
        let fields = EventFields {
            land: Some(&land),
            ..EventFields::default()
        };
        let is_over_land = |lat: f64| {
            let geo = GeoBox::around(BoxClass::TropicalCyclone, (lat, 270.4), (4.0, 4.0));
            let found = from_boxes(time, &[geo.into()], &grid, &fields).unwrap();
            found[0].event.details.land_lat_deg.is_some()
        };
        assert_eq!((is_over_land(29.5), is_over_land(28.2)), (true, false));
    }
}
