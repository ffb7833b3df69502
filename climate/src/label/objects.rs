//! The labels as events.

use super::candidates::CycloneCandidate;
use crate::events::shape::{bounding_box_deg, measure};
use crate::events::{Event, Region, Run};
use ndarray::{Array2, ArrayView2};
use squall_data::{Class, Snapshot, Variable};

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
    let fields = Fields::of(snapshot);
    let mut events = Vec::with_capacity(storms.len() + rivers.len());
    for (storm, region) in storms {
        let mut event = if region.runs.is_empty() {
            point(snapshot, storm)
        } else {
            fields.event(snapshot, region, &areas)
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
    events.extend(
        rivers
            .iter()
            .map(|region| fields.event(snapshot, region, &areas)),
    );
    events
}

struct Fields<'a> {
    psl: Option<ArrayView2<'a, f32>>,
    wind: Option<(ArrayView2<'a, f32>, ArrayView2<'a, f32>)>,
    tmq: Option<ArrayView2<'a, f32>>,
    prect: Option<ArrayView2<'a, f32>>,
}

impl<'a> Fields<'a> {
    fn of(snapshot: &'a Snapshot) -> Self {
        Self {
            psl: snapshot.field(Variable::Psl),
            wind: snapshot
                .field(Variable::Ubot)
                .zip(snapshot.field(Variable::Vbot)),
            tmq: snapshot.field(Variable::Tmq),
            prect: snapshot.field(Variable::Prect),
        }
    }

    fn event(&self, snapshot: &Snapshot, region: &Region, areas: &[f64]) -> Event {
        let shape = measure(region, &snapshot.grid, areas);
        let [west_deg, south_deg, east_deg, north_deg] = bounding_box_deg(region, &snapshot.grid);
        let over = |plane: Option<ArrayView2<'_, f32>>, pick: fn(f64, f64) -> f64| {
            let plane = plane?;
            let values = region.indices().map(|cell| f64::from(plane[cell]));
            values.filter(|v| v.is_finite()).reduce(pick)
        };
        let max_wind_m_s = self.wind.and_then(|(u, v)| {
            let speeds = region
                .indices()
                .map(|c| f64::from(u[c]).hypot(f64::from(v[c])));
            speeds.filter(|s| s.is_finite()).reduce(f64::max)
        });
        let mean_prect_m_s = self.prect.and_then(|plane| {
            let wet = region
                .indices()
                .map(|(j, i)| (f64::from(plane[[j, i]]), areas[j]));
            let (sum, weight) = wet
                .filter(|(value, _)| value.is_finite())
                .fold((0.0, 0.0), |(s, w), (value, area)| {
                    (s + value * area, w + area)
                });
            (weight > 0.0).then(|| sum / weight)
        });
        Event {
            class: region.class,
            time: snapshot.time,
            track_id: None,
            lon_deg: shape.lon_deg,
            lat_deg: shape.lat_deg,
            area_km2: shape.area_km2,
            west_deg,
            south_deg,
            east_deg,
            north_deg,
            length_km: shape.length_km,
            width_km: shape.width_km,
            orientation_deg: shape.orientation_deg,
            min_psl_pa: over(self.psl, f64::min),
            max_wind_m_s,
            max_tmq_kg_m2: over(self.tmq, f64::max),
            mean_prect_m_s,
            mean_probability: None,
            details: Default::default(),
        }
    }
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
