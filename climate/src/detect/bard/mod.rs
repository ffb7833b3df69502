//! TECA-BARD: an ensemble of threshold detectors that assigns a probability to rivers.
//!
//! Each member damps the tropics by 1 − exp(−φ²/2σ²) with its own width, selects cells above its own percentile of the
//! damped transport of that time, and keeps connected areas above its minimum size. A cell's probability is the share
//! of members that flag it; cells with at least two thirds are rivers.
//!
//! # Source
//! O'Brien et al. 2020 (GMD 13, 6131-6148); TECA `teca_bayesian_ar_detect`, `teca_latitude_damper`,
//! `teca_binary_segmentation` (percentile over all cells, not weighted by area), `teca_connected_components` (edges and
//! corners, periodic), `teca_component_area_filter`; the tag at 2/3 from its application.

mod count;
mod parameters;
mod ranks;

pub use parameters::{BardMember, read_members, sample_members};

use super::transport::DetectFields;
use crate::derived::{check_shape, tropical_damping};
use crate::error::{ClimateError, Result};
use crate::events::Region;
use crate::label::LabelledSnapshot;
use crate::label::check_grid;
use crate::label::objects;
use crate::label::patches::{Touch, patches, row_runs};
use count::{Blocks, MemberThresholds, flag_counts, smallest_reaching};
use ndarray::{Array2, ArrayView2};
use ranks::RowRanks;
use serde::{Deserialize, Serialize};
use squall_data::{Class, LatLonGrid};
use std::sync::Arc;

/// The parameters of the ensemble.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BardThresholds {
    /// Number of members to draw by [`sample_members`] if none are given. TECA has 1,024.
    pub member_count: usize,
    /// Seed of the draw.
    pub seed: u64,
    /// The members, if given.
    pub members: Vec<BardMember>,
    /// Minimum share of members for a cell to be a river.
    pub tag_share: f64,
}

impl Default for BardThresholds {
    fn default() -> Self {
        Self {
            member_count: 128,
            seed: 0,
            members: Vec::new(),
            tag_share: 2.0 / 3.0,
        }
    }
}

/// Applies the ensemble on one grid.
#[derive(Debug, Clone)]
pub struct BardDetector {
    grid: Arc<LatLonGrid>,
    members: Vec<PreparedMember>,
    tag_share: f64,
    row_areas_km2: Vec<f64>,
}

/// A member with its filter evaluated on the grid's rows.
#[derive(Debug, Clone)]
struct PreparedMember {
    member: BardMember,
    factors: Vec<f32>,
    log_factors: Vec<f64>,
}

impl BardDetector {
    /// Creates the ensemble for a grid.
    ///
    /// # Errors
    /// [`ClimateError::Invalid`] if a parameter is out of range.
    pub fn new(thresholds: &BardThresholds, grid: Arc<LatLonGrid>) -> Result<Self> {
        let members = if thresholds.members.is_empty() {
            parameters::check_count(thresholds.member_count)?;
            sample_members(thresholds.member_count, thresholds.seed)
        } else {
            thresholds.members.clone()
        };
        parameters::check(&members)?;
        let share = thresholds.tag_share;
        if !(share > 0.0 && share <= 1.0) {
            return Err(ClimateError::Invalid(format!(
                "bard: tag_share: expected a share above 0, at most 1, found {share}"
            )));
        }
        if grid.shape().1 > usize::from(u16::MAX) {
            let columns = grid.shape().1;
            return Err(ClimateError::Invalid(format!(
                "bard: expected at most 65,535 columns, found {columns}"
            )));
        }
        let prepare = |member: BardMember| {
            // Half width at half maximum of a Gaussian.
            let sigma = member.half_width_deg / (2.0 * 2f64.ln()).sqrt();
            let lat = grid.lat_deg().iter();
            let factors: Vec<f32> = lat
                .map(|lat| tropical_damping(*lat, sigma) as f32)
                .collect();
            let log_factors = factors.iter().map(|f| f64::from(*f).ln()).collect();
            PreparedMember {
                member,
                factors,
                log_factors,
            }
        };
        Ok(Self {
            members: members.into_iter().map(prepare).collect(),
            tag_share: thresholds.tag_share,
            row_areas_km2: grid.row_areas_km2(),
            grid,
        })
    }

    /// The share of members that flag each cell, `(lat, lon)`, given the transport of one time, kg m-1 s-1. Missing
    /// values are never flagged and do not count for percentiles.
    ///
    /// # Errors
    /// [`ClimateError::Mismatch`] if the field does not have the grid's shape.
    pub fn probability(&self, transport: ArrayView2<'_, f32>) -> Result<Array2<f32>> {
        check_shape("vapour transport", &transport, &self.grid)?;
        let standard = transport.as_standard_layout();
        let field = standard.as_slice().unwrap_or(&[]);
        let columns = self.grid.shape().1;
        let ranks = RowRanks::new(field, columns);
        let blocks = Blocks::new(field, columns);
        let thresholds = |prepared: &PreparedMember| {
            let (factors, member) = (&prepared.factors, &prepared.member);
            let least = ranks.percentile(factors, &prepared.log_factors, member.percentile);
            MemberThresholds {
                least: factors
                    .iter()
                    .map(|&factor| smallest_reaching(least, factor))
                    .collect(),
                min_area_km2: member.min_area_km2,
            }
        };
        let wrap = self.grid.is_periodic();
        let counts = flag_counts(
            &blocks,
            &self.row_areas_km2,
            wrap,
            &self.members,
            thresholds,
        );
        let all = self.members.len() as f32;
        Ok(counts.mapv(|count| f32::from(count) / all))
    }

    /// The mask and the rivers of one time; a river's mean probability is the area-weighted mean over its cells.
    ///
    /// # Errors
    /// [`ClimateError::MissingField`] or [`ClimateError::Mismatch`].
    pub fn masks(&self, fields: &DetectFields) -> Result<LabelledSnapshot> {
        let snapshot = &fields.snapshot;
        check_grid(&self.grid, snapshot)?;
        let probability = self.probability(fields.transport()?.magnitude.view())?;
        let least = least_probability(self.tag_share);
        let rows = probability.outer_iter();
        let lines: Vec<_> = rows
            .map(|row| row_runs(row.iter().map(|&p| p >= least)))
            .collect();
        let touch = Touch {
            corners: true,
            wrap: self.grid.is_periodic(),
        };
        let mut codes = Array2::<u8>::zeros(self.grid.shape());
        let class = Class::AtmosphericRiver;
        let pieces = patches(&lines, self.grid.shape().1 as u32, touch).into_iter();
        let rivers: Vec<Region> = pieces.map(|runs| Region { class, runs }).collect();
        let mut objects = objects::describe(snapshot, &[], &rivers);
        for (river, event) in rivers.iter().zip(&mut objects) {
            let (mut sum, mut weight) = (0.0, 0.0);
            for (j, i) in river.indices() {
                codes[[j, i]] = class.code();
                sum += f64::from(probability[[j, i]]) * self.row_areas_km2[j];
                weight += self.row_areas_km2[j];
            }
            event.mean_probability = (weight > 0.0).then_some(sum / weight);
        }
        Ok(LabelledSnapshot {
            river_probability: Some(probability),
            ..LabelledSnapshot::from_codes(snapshot.time, codes, objects)
        })
    }
}

/// The minimum probability for a cell to be a river. The tolerance makes a share of exactly two thirds count however it
/// is rounded; a share of 0 never counts.
fn least_probability(tag_share: f64) -> f32 {
    (tag_share as f32 - 1e-6).max(f32::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::{TransportSource, VapourTransport};
    use squall_data::{Calendar, Snapshot, Time, Variable};

    #[test]
    fn cells_that_no_member_flags_are_no_rivers() {
        let of = |members: u16, all: u16| f32::from(members) / f32::from(all);
        for tag_share in [1e-300, 1e-7, 1e-6] {
            let least = least_probability(tag_share);
            assert!(of(0, 128) < least && of(1, 32_767) >= least, "{tag_share}");
        }
        let least = least_probability(2.0 / 3.0);
        assert!(of(2, 3) >= least && of(682, 1024) < least);
        assert!(of(128, 128) >= least_probability(1.0));
    }

    fn member(percentile: f64, min_area_km2: f64) -> BardMember {
        BardMember {
            half_width_deg: 12.0,
            percentile,
            min_area_km2,
        }
    }

    fn ensemble(members: Vec<BardMember>, tag_share: f64) -> BardDetector {
        let thresholds = BardThresholds {
            members,
            tag_share,
            ..BardThresholds::default()
        };
        let grid = Arc::new(LatLonGrid::global(181, 360).unwrap());
        BardDetector::new(&thresholds, grid).unwrap()
    }

    #[test]
    fn a_filter_has_half_its_height_at_its_half_width() {
        let detector = ensemble(vec![member(90.0, 1e5)], 0.5);
        let factor = |row: usize| detector.members[0].factors[row];
        assert_eq!(factor(90), 0.0);
        // 12 degrees on either side; 1 - 2^-4 at twice that.
        for (row, expected) in [(102, 0.5), (78, 0.5), (114, 0.9375), (0, 1.0)] {
            assert!((factor(row) - expected).abs() < 1e-6, "{row}");
        }
    }

    /// One area of 100 cells from 39.5N to 49.5N with a stronger northern half, and one of 14 cells across the seam at
    /// 30N and 31N, with 150,000 km².
    #[test]
    fn a_cell_has_the_share_of_the_members_that_flag_it_and_a_river_their_mean() {
        let members = vec![
            member(0.0, 1e5),
            // Only the larger area.
            member(0.0, 5e5),
            // Half of the 114 cells are above the mean of 30N and 31N; those at 31N form too small an area.
            member(50.0, 1e5),
        ];
        let magnitude = Array2::from_shape_fn((181, 360), |(j, i)| match (j, i) {
            (130..135, 100..110) => 100.0,
            (135..140, 100..110) => 1000.0,
            (120..122, 355.. | ..2) => 1000.0,
            _ => f32::NAN,
        });
        let labels = |tag_share: f64| {
            let detector = ensemble(members.clone(), tag_share);
            let snapshot = Snapshot {
                time: Time::new(Calendar::NoLeap, 2000, 9, 1, 0, 0, 0).unwrap(),
                grid: detector.grid.clone(),
                variables: vec![Variable::Psl],
                fields: ndarray::Array3::zeros((1, 181, 360)),
                source: ("rivers".into(), 0),
            };
            let transport = VapourTransport {
                magnitude: magnitude.clone(),
                direction: None,
                source: TransportSource::File,
            };
            let fields = DetectFields {
                transport: Some(transport),
                ..DetectFields::from_snapshot(snapshot)
            };
            detector.masks(&fields).unwrap()
        };
        let tagged = labels(2.0 / 3.0);
        let of_classes = tagged.probabilities().unwrap();
        assert_eq!(of_classes.dim(), (181, 360, 3));
        let probability = tagged.river_probability.unwrap();
        for (cell, expected) in [
            ((132, 105), 2.0 / 3.0),
            ((137, 105), 1.0),
            ((120, 359), 1.0 / 3.0),
            ((121, 1), 1.0 / 3.0),
            ((121, 50), 0.0),
        ] {
            assert!((probability[cell] - expected).abs() < 1e-6, "{cell:?}");
            let (j, i) = cell;
            assert_eq!(of_classes[[j, i, 2]], probability[cell], "{cell:?}");
            assert_eq!(of_classes[[j, i, 1]], 0.0, "{cell:?}");
            let background = of_classes[[j, i, 0]];
            assert!((background - (1.0 - expected)).abs() < 1e-6, "{cell:?}");
        }
        // Weighted by area: sin 49.5° - sin 44.5° = 0.05950 at 1, sin 44.5° - sin 39.5° = 0.06483 at 2/3.
        let mean = (0.05950 + 2.0 / 3.0 * 0.06483) / (0.05950 + 0.06483);
        let of = |event: &crate::Event| event.mean_probability.unwrap();
        assert_eq!(tagged.objects.len(), 1);
        assert!((of(&tagged.objects[0]) - mean).abs() < 1e-4);
        assert_eq!(tagged.mask.pixel_counts()[2], 100);
        let more = labels(0.3);
        let found: Vec<f64> = more.objects.iter().map(of).collect();
        assert!(
            found.len() == 2 && (found[0] - 1.0 / 3.0).abs() < 1e-6,
            "{found:?}"
        );
        assert_eq!(more.mask.pixel_counts()[2], 114);
    }

    #[test]
    fn a_share_of_members_that_is_none_is_refused() {
        let grid = Arc::new(LatLonGrid::global(9, 18).unwrap());
        let with = |tag_share| {
            let thresholds = BardThresholds {
                tag_share,
                ..BardThresholds::default()
            };
            BardDetector::new(&thresholds, grid.clone())
        };
        for tag_share in [f64::NAN, 0.0, -0.5, 66.7] {
            let error = with(tag_share).unwrap_err().to_string();
            assert!(error.contains("tag_share"), "{error}");
        }
        assert!(with(1.0).is_ok());
    }

    /// Members used to be drawn, or memory allocated for them, before their number was checked.
    #[test]
    fn more_members_than_can_be_counted_are_refused_before_they_are_drawn() {
        let grid = Arc::new(LatLonGrid::global(9, 18).unwrap());
        for member_count in [0, 32_768, 1 << 60] {
            let thresholds = BardThresholds {
                member_count,
                ..BardThresholds::default()
            };
            let error = BardDetector::new(&thresholds, grid.clone()).unwrap_err();
            assert!(error.to_string().contains("1 to 32,767"), "{error}");
        }
    }
}
