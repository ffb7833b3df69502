//! The labels as events.

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
        // The centre and the strongest wind need not lie in the mask.
        let lowest = event
            .min_psl_pa
            .map_or(storm.min_psl_pa, |p| p.min(storm.min_psl_pa));
        event.min_psl_pa = Some(lowest);
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
