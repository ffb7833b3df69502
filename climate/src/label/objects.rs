//! Turns the cells of labels into events with their properties.

use super::candidates::CycloneCandidate;
use crate::events::{Event, EventFields, Region, Run, extract};
use ndarray::Array2;
use squall_data::{Class, Snapshot};

/// The rivers without the cells that cyclones took; rivers that are gone are left out.
pub(crate) fn uncovered(rivers: Vec<Vec<Run>>, codes: &Array2<u8>) -> Vec<Region> {
    let river = Class::AtmosphericRiver.code();
    let left = |runs: Vec<Run>| -> Vec<Run> {
        let mut kept = Vec::with_capacity(runs.len());
        for run in runs {
            let row = codes.row(run.row as usize);
            let mut first = run.first;
            for i in run.first..=run.end {
                if i == run.end || row[i as usize] != river {
                    if first < i {
                        kept.push(Run {
                            first,
                            end: i,
                            ..run
                        });
                    }
                    first = i + 1;
                }
            }
        }
        kept
    };
    let regions = rivers.into_iter().map(left).filter(|runs| !runs.is_empty());
    let class = Class::AtmosphericRiver;
    regions.map(|runs| Region { class, runs }).collect()
}

/// Cyclones, then rivers.
pub(crate) fn describe(
    snapshot: &Snapshot,
    storms: &[(&CycloneCandidate, Region)],
    rivers: &[Region],
) -> Vec<Event> {
    let areas = snapshot.grid.row_areas_km2();
    let fields = EventFields::of(snapshot);
    let event_of =
        |region: &Region| extract::describe(region, snapshot.time, &snapshot.grid, &areas, &fields);
    let mut events = Vec::with_capacity(storms.len() + rivers.len());
    for (storm, region) in storms {
        let mut event = if region.runs.is_empty() {
            point(snapshot, storm)
        } else {
            event_of(region)
        };
        event.track_id = storm.track_id;
        (event.lat_deg, event.lon_deg) = (storm.lat_deg, storm.lon_deg);
        // Another low may lie in the mask, and the centre and the strongest wind beside it.
        event.min_psl_pa = Some(storm.min_psl_pa);
        let strongest = event
            .max_wind_m_s
            .map_or(storm.max_wind_m_s, |w| w.max(storm.max_wind_m_s));
        event.max_wind_m_s = Some(strongest);
        events.push(event);
    }
    events.extend(rivers.iter().map(event_of));
    events
}

/// A cyclone whose box is all missing or constant: its centre, without cells.
fn point(snapshot: &Snapshot, storm: &CycloneCandidate) -> Event {
    Event {
        class: Class::TropicalCyclone,
        time: snapshot.time,
        track_id: None,
        lon_deg: storm.lon_deg,
        lat_deg: storm.lat_deg,
        area_km2: 0.0,
        west_deg: storm.lon_deg,
        south_deg: storm.lat_deg,
        east_deg: storm.lon_deg,
        north_deg: storm.lat_deg,
        length_km: 0.0,
        width_km: 0.0,
        orientation_deg: 0.0,
        min_psl_pa: None,
        max_wind_m_s: None,
        max_tmq_kg_m2: None,
        mean_prect_m_s: None,
        mean_probability: None,
        details: Default::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::Axis;
    use squall_data::{Calendar, LatLonGrid, Time, Variable};
    use std::sync::Arc;

    /// That of a deeper low in its mask had been taken for its own.
    #[test]
    fn the_pressure_of_a_cyclone_is_that_of_its_centre() {
        let grid = Arc::new(LatLonGrid::global(19, 36).unwrap());
        let mut psl = Array2::from_elem(grid.shape(), 101_000.0f32);
        psl[[12, 5]] = 97_000.0;
        let snapshot = Snapshot {
            time: Time::new(Calendar::NoLeap, 2000, 9, 1, 0, 0, 0).unwrap(),
            grid,
            variables: vec![Variable::Psl],
            fields: psl.insert_axis(Axis(0)),
            source: ("made".into(), 0),
        };
        let storm = CycloneCandidate {
            lat_deg: 19.0,
            lon_deg: 41.0,
            min_psl_pa: 98_500.0,
            vorticity_per_s: 2e-4,
            max_wind_m_s: 25.0,
            warm_core: true,
            thick_core: true,
            core_temperature_k: None,
            core_thickness_m: None,
            track_id: None,
        };
        let of_cells = |runs: Vec<Run>| {
            let class = Class::TropicalCyclone;
            let found = describe(&snapshot, &[(&storm, Region { class, runs })], &[]);
            found[0].min_psl_pa
        };
        let run = Run {
            row: 12,
            first: 3,
            end: 7,
        };
        assert_eq!(of_cells(vec![run]), Some(98_500.0));
        assert_eq!(of_cells(Vec::new()), Some(98_500.0));
    }
}
