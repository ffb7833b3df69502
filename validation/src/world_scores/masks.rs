//! Masks against a catalogue of masks, such as ARTMIP's of rivers.

use super::Taylor;
use crate::bootstrap::{Bootstrap, Interval};
use crate::confusion::{Confusion, Tally, ratio};
use crate::error::{Result, ValidationError};
use ndarray::{Array2, ArrayView2};
use serde::{Deserialize, Serialize};
use squall_climate::statistics::Occurrence;
use squall_data::{Class, ClassMask, LatLonGrid, Time};
use std::collections::BTreeMap;

/// For each cell of one grid the nearest cell of another, by which masks come from that grid to this one.
#[derive(Debug, Clone)]
pub struct NearestCells {
    rows: Vec<usize>,
    columns: Vec<usize>,
    from: (usize, usize),
}

impl NearestCells {
    /// # Errors
    /// [`ValidationError::Mismatch`] if the first grid does not cover the second.
    pub fn new(from: &LatLonGrid, to: &LatLonGrid) -> Result<Self> {
        let rows: Vec<usize> = to
            .lat_deg()
            .iter()
            .map(|&lat| from.nearest(lat, 0.0).0)
            .collect();
        let columns: Vec<usize> = to
            .lon_deg()
            .iter()
            .map(|&lon| from.nearest(0.0, lon).1)
            .collect();
        let reach = (from.lat_spacing_deg(), from.lon_spacing_deg());
        let far =
            |a: f64, b: f64, reach: f64| squall_data::grid::lon_difference_deg(a, b).abs() > reach;
        let uncovered = rows.iter().zip(to.lat_deg()).any(|(&j, &lat)| {
            // The last row of a grid without poles stands for them.
            (from.lat_deg()[j] - lat).abs() > 1.5 * reach.0
        }) || columns
            .iter()
            .zip(to.lon_deg())
            .any(|(&i, &lon)| far(from.lon_deg()[i], lon, reach.1));
        if uncovered {
            return Err(ValidationError::Mismatch {
                what: "grid of the masks",
                expected: to.describe(),
                found: from.describe(),
            });
        }
        Ok(Self {
            rows,
            columns,
            from: from.shape(),
        })
    }

    /// A mask on the second grid.
    ///
    /// # Errors
    /// [`ValidationError::Mismatch`] if it is not on the first.
    pub fn bring(&self, mask: &ClassMask) -> Result<ClassMask> {
        Ok(ClassMask::new(
            mask.time,
            self.bring_plane(mask.codes.view())?,
        )?)
    }

    /// Values of cells, `(lat, lon)`, on the second grid.
    ///
    /// # Errors
    /// [`ValidationError::Mismatch`] if they are not on the first.
    pub fn bring_plane<T: Copy>(&self, plane: ArrayView2<'_, T>) -> Result<Array2<T>> {
        if plane.dim() != self.from {
            return Err(ValidationError::Mismatch {
                what: "shape of a mask",
                expected: format!("{:?}", self.from),
                found: format!("{:?}", plane.dim()),
            });
        }
        let shape = (self.rows.len(), self.columns.len());
        let value = |(j, i): (usize, usize)| plane[[self.rows[j], self.columns[i]]];
        Ok(Array2::from_shape_fn(shape, value))
    }
}

/// Gathers pairs of masks of one grid, time by time.
#[derive(Debug, Clone)]
pub struct MaskAgreement {
    truth: Occurrence,
    predicted: Occurrence,
    row_areas_km2: Vec<f64>,
    /// By seconds from the start of year 1: for each class hits, misses, false alarms in km².
    times: BTreeMap<i64, [Tally; 2]>,
}

impl MaskAgreement {
    /// Nothing compared yet.
    pub fn new(grid: &LatLonGrid) -> Self {
        Self {
            truth: Occurrence::new(grid),
            predicted: Occurrence::new(grid),
            row_areas_km2: grid.row_areas_km2(),
            times: BTreeMap::new(),
        }
    }

    /// Adds a pair; what it confuses is `confusion`.
    ///
    /// # Errors
    /// [`ValidationError::Invalid`] if a mask is of another shape.
    pub fn add(
        &mut self,
        truth: &ClassMask,
        predicted: &ClassMask,
        confusion: &Confusion,
    ) -> Result<()> {
        let counted = self.truth.add(truth);
        counted
            .and_then(|()| self.predicted.add(predicted))
            .map_err(|error| ValidationError::Invalid(error.to_string()))?;
        let origin = Time::new(truth.time.calendar(), 1, 1, 1, 0, 0, 0)?;
        let tallies = Class::EVENTS.map(|class| confusion.area_of(class));
        self.times.insert(truth.time.seconds_since(origin), tallies);
        Ok(())
    }

    /// Leaves the cells in which a mask of the last pair is missing out of the maps of frequency.
    ///
    /// # Errors
    /// [`ValidationError::Invalid`] if they are of another shape.
    pub fn leave_out(&mut self, missing: ArrayView2<'_, bool>) -> Result<()> {
        let left_out = self.truth.leave_out(missing);
        left_out
            .and_then(|()| self.predicted.leave_out(missing))
            .map_err(|error| ValidationError::Invalid(error.to_string()))
    }

    /// How one class agrees; `None` if nothing was compared.
    pub fn score(&self, class: Class, bootstrap: &Bootstrap) -> Option<ClassAgreement> {
        let index = Class::EVENTS.iter().position(|&event| event == class)?;
        let (&first, _) = self.times.first_key_value()?;
        let mut blocks: BTreeMap<i64, [f64; 2]> = BTreeMap::new();
        let mut ious = Vec::new();
        for (&time, tallies) in &self.times {
            // A time at which neither side has the class says nothing about it.
            let Some(iou) = tallies[index].iou() else {
                continue;
            };
            ious.push(iou);
            let sums = blocks.entry(bootstrap.block(time - first)).or_default();
            sums[0] += iou;
            sums[1] += 1.0;
        }
        let blocks: Vec<[f64; 2]> = blocks.into_values().collect();
        let mean = |&[sum, count]: &[f64; 2]| [ratio(sum, count)];
        let [iou_interval] = bootstrap.intervals(6, &blocks, mean);
        let frequency = Taylor::of(
            self.truth.frequency(class).view(),
            self.predicted.frequency(class).view(),
            &self.row_areas_km2,
        )?;
        Some(ClassAgreement {
            class,
            times: self.times.len() as u64,
            times_with_class: ious.len() as u64,
            iou_per_time: Spread::from_values(ious),
            iou_interval,
            frequency,
        })
    }
}

/// Mean and order statistics.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// Least.
    pub least: f64,
    /// Median (the upper one of an even number).
    pub median: f64,
    /// Greatest.
    pub greatest: f64,
}

impl Spread {
    fn from_values(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (least, greatest) = (*values.first()?, *values.last()?);
        Some(Self {
            mean: values.iter().sum::<f64>() / values.len() as f64,
            least,
            median: values[values.len() / 2],
            greatest,
        })
    }
}

/// How one class of masks agrees with a catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ClassAgreement {
    /// Which class.
    pub class: Class,
    /// Times compared.
    pub times: u64,
    /// Times at which either side has the class.
    pub times_with_class: u64,
    /// Over those, shared area over covered area of each time.
    pub iou_per_time: Option<Spread>,
    /// Confidence interval of its mean.
    pub iou_interval: Option<Interval>,
    /// The map of how often each cell is of the class, against the catalogue's.
    pub frequency: Taylor,
}
