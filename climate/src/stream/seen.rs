//! Summary of one time without its fields, small enough to send between processes.

use super::{Moment, water_km3};
use crate::error::Result;
use crate::events::{DetectedEvent, Run};
use ndarray::{Array2, ArrayView2};
use serde::{Deserialize, Serialize};
use squall_data::{Class, ClassMask, DataError, Time, Variable};

/// The events of one time, and what the run needs of its mask and fields. It depends only on that time, so any process
/// can compute it ([`Seen::of`]); [`super::EventStream::take`] consumes the summaries in order of time.
///
/// # Example
/// ```
/// use squall_climate::events::{EventFields, ExtractOptions, extract};
/// use squall_climate::stream::{EventStream, Moment, Seen};
/// use squall_climate::track::TrackerOptions;
/// use squall_data::{Calendar, ClassMask, LatLonGrid, Time, wire};
/// let grid = LatLonGrid::global(19, 36).unwrap();
/// let time = Time::new(Calendar::NoLeap, 2000, 1, 1, 0, 0, 0).unwrap();
/// let mask = ClassMask::new(time, ndarray::Array2::from_elem((19, 36), 2)).unwrap();
/// let fields = EventFields::default();
/// let found = extract(&mask, &grid, &fields, &ExtractOptions::default()).unwrap();
/// let moment = Moment { time, mask: Some(&mask), hours: 3.0, fields_hours: 3.0, fields: &fields };
/// // Elsewhere:
/// let seen = Seen::of(&moment, found, &grid.row_areas_km2());
/// let bytes = wire::to_bytes(&seen).unwrap();
/// // Here:
/// let mut stream = EventStream::new(&grid, TrackerOptions::default()).unwrap();
/// stream.take(wire::from_bytes(&bytes).unwrap()).unwrap();
/// assert_eq!(stream.counts().rivers, 1);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    pub(super) time: Time,
    pub(super) hours: f64,
    pub(super) fields_hours: f64,
    pub(super) found: Vec<DetectedEvent>,
    /// The runs of the mask.
    marked: Option<EncodedMask>,
    /// The runs of the cells in which the mask is missing, if there are any.
    missing: Option<EncodedMask>,
    /// Vapour transport in the cells of all rivers, river by river.
    pub(super) transport: Option<Vec<f64>>,
    /// Rain on the whole grid, km³.
    pub(super) rain_km3: Option<f64>,
    /// Whether the fields could not be read.
    pub(super) unread: bool,
}

/// A run-length encoded mask.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct EncodedMask {
    shape: (usize, usize),
    runs: Vec<(u8, Run)>,
}

impl Seen {
    /// Summarises a moment with these events. `row_areas_km2` comes from [`squall_data::LatLonGrid::row_areas_km2`].
    pub fn of(moment: &Moment<'_>, found: Vec<DetectedEvent>, row_areas_km2: &[f64]) -> Self {
        Self {
            marked: (moment.mask).map(|mask| EncodedMask::of(mask.codes.view())),
            missing: (moment.fields.missing)
                .map(|missing| EncodedMask::of(missing.mapv(u8::from).view())),
            ..Self::without_mask(moment, found, row_areas_km2)
        }
    }

    /// Like [`Self::of`], but without the mask.
    pub(super) fn without_mask(
        moment: &Moment<'_>,
        mut found: Vec<DetectedEvent>,
        row_areas_km2: &[f64],
    ) -> Self {
        let masked = moment.mask.is_some();
        for detected in &mut found {
            detected.event.details.precipitation_km3 = inside_km3(moment, detected, row_areas_km2);
        }
        // A box also holds cells that are not of its river.
        let transport = (moment.fields.vapour_transport()).filter(|_| masked);
        let transport = transport.map(|transport| {
            let rivers = found.iter().filter(|one| is_river(one));
            let cells = rivers.flat_map(|river| river.region.indices());
            cells.map(|cell| transport.at(cell)).collect()
        });
        Self {
            time: moment.time,
            hours: moment.hours,
            fields_hours: moment.fields_hours,
            unread: moment.fields.unread,
            marked: None,
            missing: None,
            rain_km3: moment.mask.and_then(|_| rain_km3(moment, row_areas_km2)),
            transport,
            found,
        }
    }

    /// Decodes the mask, if there is one.
    ///
    /// # Errors
    /// [`DataError::Invalid`] if a run exceeds the mask's shape.
    pub(super) fn mask(&self) -> Result<Option<ClassMask>> {
        let Some(codes) = self.marked.as_ref().map(EncodedMask::codes).transpose()? else {
            return Ok(None);
        };
        Ok(Some(ClassMask::new(self.time, codes)?))
    }

    /// Decodes the cells in which the mask is missing, if there are any.
    ///
    /// # Errors
    /// As [`Self::mask`].
    pub(super) fn missing(&self) -> Result<Option<Array2<bool>>> {
        let codes = self.missing.as_ref().map(EncodedMask::codes).transpose()?;
        Ok(codes.map(|codes| codes.mapv(|code| code > 0)))
    }
}

/// Whether the event is a river, whose duration and intensity are counted per cell.
pub(super) fn is_river(detected: &DetectedEvent) -> bool {
    detected.event.class == Class::AtmosphericRiver
}

impl EncodedMask {
    fn of(codes: ArrayView2<'_, u8>) -> Self {
        let mut runs: Vec<(u8, Run)> = Vec::new();
        for (j, row) in codes.rows().into_iter().enumerate() {
            let mut last = 0;
            for (i, &code) in row.iter().enumerate() {
                match runs.last_mut() {
                    Some((_, run)) if code != 0 && code == last => run.end += 1,
                    _ if code != 0 => runs.push((
                        code,
                        Run {
                            row: j as u32,
                            first: i as u32,
                            end: i as u32 + 1,
                        },
                    )),
                    _ => {}
                }
                last = code;
            }
        }
        Self {
            shape: codes.dim(),
            runs,
        }
    }

    fn codes(&self) -> Result<Array2<u8>> {
        let (rows, columns) = self.shape;
        let mut codes = Array2::zeros(self.shape);
        let cells = codes.as_slice_mut().unwrap_or_default();
        for (code, run) in &self.runs {
            let (row, first, end) = (run.row as usize, run.first as usize, run.end as usize);
            if row >= rows || first > end || end > columns {
                let reason = format!("{run:?} leaves a mask of {rows} x {columns}");
                return Err(DataError::Invalid(reason).into());
            }
            cells[row * columns + first..row * columns + end].fill(*code);
        }
        Ok(codes)
    }
}

/// Water that falls inside an event at a moment, over cells with known rain, as in [`rain_km3`]. `None` for boxes, and
/// for events without such cells.
fn inside_km3(moment: &Moment<'_>, detected: &DetectedEvent, row_areas_km2: &[f64]) -> Option<f64> {
    detected.event.mean_prect_m_s?;
    let rain = moment.fields.snapshot?.field(Variable::Prect)?;
    let cells = detected.region.indices().filter_map(|(j, i)| {
        let rain = f64::from(*rain.get((j, i))?);
        Some(rain * row_areas_km2.get(j)?)
    });
    let sum: f64 = cells.filter(|water| water.is_finite()).sum();
    Some(water_km3(sum, moment.fields_hours))
}

/// Water that falls on the whole grid at a moment.
fn rain_km3(moment: &Moment<'_>, row_areas_km2: &[f64]) -> Option<f64> {
    let rain = moment.fields.snapshot?.field(Variable::Prect)?;
    let rows = rain.rows().into_iter().zip(row_areas_km2);
    let sum: f64 = rows
        .map(|(row, area)| {
            let known = row.iter().filter(|v| v.is_finite());
            area * known.map(|&v| f64::from(v)).sum::<f64>()
        })
        .sum();
    Some(water_km3(sum, moment.fields_hours))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{EventFields, ExtractOptions, extract};
    use ndarray::Array3;
    use squall_data::grid::EARTH_RADIUS_KM;
    use squall_data::{Calendar, LatLonGrid, Snapshot};
    use std::f64::consts::PI;
    use std::sync::Arc;

    /// Regression: filling missing cells with the mean of the others gave three times as much rain inside as on the
    /// whole grid.
    #[test]
    fn rain_inside_an_event_is_that_of_the_cells_that_have_it() {
        let grid = Arc::new(LatLonGrid::global(19, 36).unwrap());
        let time = Time::new(Calendar::NoLeap, 2000, 1, 1, 0, 0, 0).unwrap();
        let mask = ClassMask::new(time, Array2::from_elem((19, 36), 2)).unwrap();
        let fields = Array3::from_shape_fn(
            (1, 19, 36),
            |(_, _, column)| {
                if column < 12 { 1e-7 } else { f32::NAN }
            },
        );
        let snapshot = Snapshot {
            time,
            grid: grid.clone(),
            variables: vec![Variable::Prect],
            fields,
            source: ("made up".into(), 0),
        };
        let fields = EventFields {
            snapshot: Some(&snapshot),
            ..EventFields::default()
        };
        let found = extract(&mask, &grid, &fields, &ExtractOptions::default()).unwrap();
        let moment = Moment {
            time,
            mask: Some(&mask),
            hours: 6.0,
            fields_hours: 6.0,
            fields: &fields,
        };
        let seen = Seen::of(&moment, found, &grid.row_areas_km2());
        let inside = seen.found[0].event.details.precipitation_km3.unwrap();
        // A third of the sphere, 4 π R², with 1e-7 m/s for six hours.
        let third_km2 = 4.0 * PI * EARTH_RADIUS_KM.powi(2) / 3.0;
        assert!((inside / (1e-10 * 21_600.0 * third_km2) - 1.0).abs() < 1e-6);
        assert!((inside / seen.rain_km3.unwrap() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn masks_come_back_from_their_runs() {
        let time = Time::new(Calendar::NoLeap, 2000, 1, 1, 0, 0, 0).unwrap();
        let codes = ndarray::arr2(&[[1, 1, 2, 0, 1], [0, 0, 0, 0, 0], [2, 0, 2, 2, 2]]);
        let mask = ClassMask::new(time, codes).unwrap();
        let mut seen = Seen {
            time,
            hours: 3.0,
            fields_hours: 3.0,
            found: Vec::new(),
            marked: Some(EncodedMask::of(mask.codes.view())),
            missing: Some(EncodedMask::of(
                mask.codes.mapv(|code| u8::from(code == 0)).view(),
            )),
            transport: None,
            rain_km3: None,
            unread: false,
        };
        assert_eq!(seen.marked.as_ref().unwrap().runs.len(), 5);
        assert_eq!(seen.mask().unwrap().unwrap(), mask);
        let missing = mask.codes.mapv(|code| code == 0);
        assert_eq!(seen.missing().unwrap(), Some(missing));
        seen.marked.as_mut().unwrap().shape = (3, 4);
        assert!(seen.mask().is_err());
    }
}
