//! Frames of the map, each compressed immediately.

use crate::error::{ClimateError, Result};
use crate::map::image::{codes_png, grey_png};
use crate::map::resample::{Resampler, levels, levels_or_none};
use crate::report::{FieldInfo, SourceKind};
use ndarray::{Array2, ArrayView2, Axis, concatenate};
use squall_data::{LatLonGrid, Time};
use std::collections::BTreeSet;

/// Sea-level pressure of the lowest and highest level of its picture, hPa: half a hectopascal per level from 1 to 255.
pub(crate) const PSL_RANGE_HPA: (f32, f32) = (920.5, 1047.5);
/// Wind component of the lowest and highest level of its picture, m/s: one metre per second per level.
pub(crate) const WIND_RANGE_M_S: (f32, f32) = (-127.0, 128.0);

/// The fields and masks of one time, `(lat, lon)` on the report's grid. Everything but the time may be missing.
#[derive(Debug, Clone)]
pub struct Frame<'a> {
    /// The time of the frame.
    pub time: Time,
    /// The field of [`crate::report::ReportInput::field`], in its unit.
    pub field: Option<ArrayView2<'a, f32>>,
    /// Sea-level pressure, Pa.
    pub sea_level_pressure_pa: Option<ArrayView2<'a, f32>>,
    /// Eastward and northward wind, m/s.
    pub wind_m_s: Option<(ArrayView2<'a, f32>, ArrayView2<'a, f32>)>,
    /// Class codes, per source.
    pub masks: Vec<(SourceKind, ArrayView2<'a, u8>)>,
    /// The cells in which the mask of a source is missing, and its codes are 0; not for sources without such cells.
    pub missing: Vec<(SourceKind, ArrayView2<'a, bool>)>,
}

impl<'a> Frame<'a> {
    /// A frame with nothing but its time.
    pub fn new(time: Time) -> Self {
        Self {
            time,
            field: None,
            sea_level_pressure_pa: None,
            wind_m_s: None,
            masks: Vec::new(),
            missing: Vec::new(),
        }
    }

    /// The mask of a source, if the frame has one.
    pub fn mask(&self, source: SourceKind) -> Option<&ArrayView2<'a, u8>> {
        self.masks
            .iter()
            .find(|(kind, _)| *kind == source)
            .map(|(_, mask)| mask)
    }

    /// The cells in which the mask of a source is missing, if it has any.
    pub(crate) fn missing_in(&self, source: SourceKind) -> Option<&ArrayView2<'a, bool>> {
        let mut missing = self.missing.iter();
        let own = missing.find(|(kind, _)| *kind == source);
        own.map(|(_, cells)| cells)
    }

    /// # Errors
    /// [`ClimateError::Mismatch`] with the first array that does not have the grid's shape, or with an unknown class
    /// code.
    pub(crate) fn check(&self, grid: &LatLonGrid) -> Result<()> {
        let wind = self.wind_m_s.as_ref();
        let fields = [
            ("field", self.field.as_ref()),
            ("sea-level pressure", self.sea_level_pressure_pa.as_ref()),
            ("eastward wind", wind.map(|w| &w.0)),
            ("northward wind", wind.map(|w| &w.1)),
        ];
        let shapes = fields
            .into_iter()
            .filter_map(|(what, field)| Some((what, field?.dim())))
            .chain(self.masks.iter().map(|(kind, m)| (kind.name(), m.dim())))
            .chain(self.missing.iter().map(|(_, m)| ("missing cells", m.dim())));
        for (what, shape) in shapes {
            if shape != grid.shape() {
                return Err(ClimateError::Mismatch {
                    what: format!("{what} of the report's frame at {}", self.time),
                    expected: format!("{:?}", grid.shape()),
                    found: format!("{shape:?}"),
                });
            }
        }
        for (kind, mask) in &self.masks {
            if let Some(code) = mask.iter().find(|&&code| code > 2) {
                return Err(ClimateError::Mismatch {
                    what: format!(
                        "{} mask of the report's frame at {}",
                        kind.name(),
                        self.time
                    ),
                    expected: "codes 0, 1 and 2".into(),
                    found: code.to_string(),
                });
            }
        }
        Ok(())
    }
}

/// A frame as PNG bytes.
#[derive(Debug, Clone)]
pub(crate) struct EncodedFrame {
    pub(crate) time: Time,
    pub(crate) field: Option<Vec<u8>>,
    pub(crate) pressure: Option<Vec<u8>>,
    pub(crate) wind: Option<Vec<u8>>,
    pub(crate) masks: Vec<(SourceKind, Vec<u8>)>,
}

impl EncodedFrame {
    /// Total size of all pictures.
    pub(crate) fn bytes(&self) -> usize {
        let fields = [&self.field, &self.pressure, &self.wind];
        let masks = self.masks.iter().map(|(_, mask)| mask);
        let pictures = fields.into_iter().flatten().chain(masks);
        pictures.map(Vec::len).sum()
    }

    /// The mask of a source, if there is one.
    pub(crate) fn mask(&self, source: SourceKind) -> Option<&[u8]> {
        let mut masks = self.masks.iter();
        let own = masks.find(|(kind, _)| *kind == source);
        own.map(|(_, mask)| mask.as_slice())
    }
}

/// Encodes frames as pictures of fixed sizes.
#[derive(Debug)]
pub(crate) struct FrameEncoder {
    field: Resampler,
    pressure: Resampler,
    wind: Resampler,
}

impl FrameEncoder {
    pub(crate) fn new(grid: &LatLonGrid, rows: usize, columns: usize) -> Self {
        Self {
            field: Resampler::new(grid, rows, columns),
            pressure: Resampler::new(grid, rows.min(96), columns.min(144)),
            wind: Resampler::new(grid, 36, 72),
        }
    }

    /// (rows, columns) of the pictures of field and masks, pressure, and wind.
    pub(crate) fn shapes(&self) -> [(usize, usize); 3] {
        [&self.field, &self.pressure, &self.wind].map(Resampler::picture_shape)
    }

    pub(crate) fn encode(&self, frame: &Frame<'_>, info: &FieldInfo) -> Result<EncodedFrame> {
        let field = frame.field.map(|field| {
            let picture = self.field.mean(field);
            grey_png(&levels_or_none(&picture, info.range.0, info.range.1))
        });
        let pressure = frame.sea_level_pressure_pa.map(|psl| {
            let (low, high) = PSL_RANGE_HPA;
            let picture = self.pressure.mean(psl);
            grey_png(&levels_or_none(&picture, low * 100.0, high * 100.0))
        });
        let wind = frame.wind_m_s.map(|(u, v)| {
            let (low, high) = WIND_RANGE_M_S;
            // Missing wind is drawn as calm.
            let component = |c| {
                levels(
                    &self.wind.mean(c).mapv(|w| if w.is_nan() { 0.0 } else { w }),
                    low,
                    high,
                )
            };
            let (u, v): (Array2<u8>, Array2<u8>) = (component(u), component(v));
            let both = concatenate(Axis(0), &[u.view(), v.view()])
                .map_err(|error| ClimateError::Invalid(error.to_string()))?;
            grey_png(&both)
        });
        let masks = frame.masks.iter().map(|(kind, mask)| -> Result<_> {
            let picture = codes_png(&self.field.majority(mask.view()))?;
            Ok((*kind, picture))
        });
        let masks: Vec<(SourceKind, Vec<u8>)> = masks.collect::<Result<_>>()?;
        Ok(EncodedFrame {
            time: frame.time,
            field: field.transpose()?,
            pressure: pressure.transpose()?,
            wind: wind.transpose()?,
            masks,
        })
    }
}

/// The sources with a mask in any frame, in the order of legends.
pub(crate) fn sources_of(frames: &[&EncodedFrame]) -> Vec<SourceKind> {
    let masks = frames.iter().flat_map(|frame| &frame.masks);
    let kinds: BTreeSet<SourceKind> = masks.map(|(kind, _)| *kind).collect();
    kinds.into_iter().collect()
}

/// Evenly spaced indices of at most `limit` of `total` times, every n-th from the first.
pub fn select_frames(total: usize, limit: usize) -> Vec<usize> {
    (0..total).step_by(frame_step(total, limit)).collect()
}

/// The n of [`select_frames`].
pub(crate) fn frame_step(total: usize, limit: usize) -> usize {
    total.div_ceil(limit.max(1)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use squall_data::Calendar;

    #[test]
    fn a_level_of_pressure_is_half_a_hectopascal() {
        let (low, high) = PSL_RANGE_HPA;
        assert_eq!((high - low) / 254.0, 0.5);
    }

    #[test]
    fn every_nth_frame_is_taken() {
        assert_eq!(select_frames(10, 4), [0, 3, 6, 9]);
        assert_eq!(select_frames(3, 160), [0, 1, 2]);
        assert_eq!(select_frames(0, 5), [0; 0]);
        for total in 1..200 {
            let chosen = select_frames(total, 16);
            assert!(chosen.len() <= 16 && chosen[0] == 0 && chosen.iter().all(|&i| i < total));
        }
    }

    #[test]
    fn frames_of_another_grid_are_refused() {
        let grid = LatLonGrid::global(8, 16).unwrap();
        let time = Time::new(Calendar::NoLeap, 1, 1, 1, 0, 0, 0).unwrap();
        let (bad, codes) = (Array2::zeros((8, 15)), Array2::from_elem((8, 16), 3));
        let mut frame = Frame::new(time);
        assert!(frame.check(&grid).is_ok());
        frame.field = Some(bad.view());
        let error = frame.check(&grid).unwrap_err().to_string();
        assert!(
            error.contains("(8, 15)") && error.contains("0001-01-01"),
            "{error}"
        );
        frame.field = None;
        frame.masks.push((SourceKind::Network, codes.view()));
        let error = frame.check(&grid).unwrap_err().to_string();
        assert!(error.contains("Network mask"), "{error}");
    }
}
