//! Describes labelled cells as events.

use super::candidates::CycloneCandidate;
use crate::events::{Event, EventFields, Region, Run, extract};
use ndarray::Array2;
use squall_data::{Class, Snapshot};

/// The rivers without the cells covered by cyclones; fully covered rivers are dropped.
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

/// The events of cyclones, then those of rivers.
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
        // The mask may contain another low, and may exclude the centre and the strongest wind.
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

/// A cyclone whose box is entirely missing or constant: its centre, without cells.
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

    fn storm() -> CycloneCandidate {
        CycloneCandidate {
            lat_deg: 19.0,
            lon_deg: 41.0,
            min_psl_pa: 98_500.0,
            vorticity_per_s: 2e-4,
            max_wind_m_s: 25.0,
            warm_core: true,
            thick_core: true,
            core_temperature_k: None,
            core_thickness_m: None,
            track_id: Some(3),
        }
    }

    fn run(row: u32, first: u32, end: u32) -> Run {
        Run { row, first, end }
    }

    /// The pressure used to be that of a deeper low in its mask.
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
        let storm = storm();
        let of_cells = |runs: Vec<Run>| {
            let class = Class::TropicalCyclone;
            let found = describe(&snapshot, &[(&storm, Region { class, runs })], &[]);
            found[0].min_psl_pa
        };
        assert_eq!(of_cells(vec![run(12, 3, 7)]), Some(98_500.0));
        assert_eq!(of_cells(Vec::new()), Some(98_500.0));
    }

    #[test]
    fn a_cyclone_has_its_centre_its_track_and_the_strongest_wind_in_its_mask_or_beside_it() {
        let grid = Arc::new(LatLonGrid::global(19, 36).unwrap());
        let found = |wind_m_s: f32, runs: Vec<Run>| {
            let mut fields = ndarray::Array3::<f32>::zeros((2, 19, 36));
            // The mask is centred on 30N 45E, and has the wind in one cell.
            (fields[[0, 12, 5]], fields[[1, 12, 5]]) = (0.6 * wind_m_s, -0.8 * wind_m_s);
            let snapshot = Snapshot {
                time: Time::new(Calendar::NoLeap, 2000, 9, 1, 0, 0, 0).unwrap(),
                grid: grid.clone(),
                variables: vec![Variable::Ubot, Variable::Vbot],
                fields,
                source: ("made".into(), 0),
            };
            let class = Class::TropicalCyclone;
            let river = Region {
                class: Class::AtmosphericRiver,
                runs: vec![run(15, 20, 24)],
            };
            describe(&snapshot, &[(&storm(), Region { class, runs })], &[river])
        };
        for (wind_m_s, runs, strongest) in [
            (40.0, vec![run(12, 3, 7)], 40.0),
            (10.0, vec![run(12, 3, 7)], 25.0),
            (40.0, Vec::new(), 25.0),
        ] {
            let events = found(wind_m_s, runs);
            let classes: Vec<Class> = events.iter().map(|event| event.class).collect();
            assert_eq!(classes, [Class::TropicalCyclone, Class::AtmosphericRiver]);
            let cyclone = &events[0];
            assert_eq!((cyclone.lat_deg, cyclone.lon_deg), (19.0, 41.0));
            assert!((cyclone.max_wind_m_s.unwrap() - strongest).abs() < 1e-4);
            assert_eq!((cyclone.track_id, events[1].track_id), (Some(3), None));
        }
    }

    #[test]
    fn rivers_keep_the_cells_that_no_cyclone_took() {
        let rows = [
            "000111111000",
            "221122212222",
            "111111222222",
            "122222222221",
        ];
        let code = |(j, i): (usize, usize)| rows[j].as_bytes()[i] - b'0';
        let codes = Array2::from_shape_fn((4, 12), code);
        // One river is entirely under a cyclone; the other is cut at its ends and in the middle.
        let under = vec![run(0, 3, 6)];
        let cut = vec![run(1, 0, 12), run(2, 3, 9), run(3, 0, 12)];
        let left = uncovered(vec![under, cut], &codes);
        let expected = Region {
            class: Class::AtmosphericRiver,
            runs: vec![
                run(1, 0, 2),
                run(1, 4, 7),
                run(1, 8, 12),
                run(2, 6, 9),
                run(3, 1, 11),
            ],
        };
        assert_eq!(left, [expected]);
    }
}
