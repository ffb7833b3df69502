//! Rivers by percentiles of vapour transport or column water, and by geometry.
//!
//! Two passes: first [`TransportClimatology::add`] for every time of the series (or of another one that defines the
//! climate), then [`TransportClimatology::thresholds`], then [`PercentileDetector::masks`] for every time. A
//! [`SavedClimatology`] passes the thresholds of one run to another: [`PercentileDetector::of_climate`].
//!
//! # Source
//! Guan and Waliser 2015; see [`PercentileThresholds`].

mod climatology;
mod geometry;
mod netcdf_file;
mod record;
mod saved;
mod thresholds;

pub use climatology::{MonthlyThresholds, TransportClimatology};
pub use record::MoistureRecord;
pub use saved::{ClimateOrigin, SavedClimatology};
pub use thresholds::{Moisture, PercentileThresholds};

use super::transport::{DetectFields, VapourTransport};
use crate::error::{ClimateError, Result};
use crate::events::Region;
use crate::label::LabelledSnapshot;
use crate::label::check_grid;
use crate::label::objects;
use crate::label::patches::{Touch, patches, row_runs};
use crate::label::planes;
use ndarray::{Array2, ArrayView2, CowArray, Ix2};
use rayon::prelude::*;
use squall_data::{Class, LatLonGrid, Time, Variable};
use std::borrow::Cow;
use std::sync::Arc;

/// Finds rivers on one grid by percentiles and geometry.
#[derive(Debug, Clone)]
pub struct PercentileDetector {
    grid: Arc<LatLonGrid>,
    thresholds: PercentileThresholds,
    row_areas_km2: Vec<f64>,
    /// The thresholds of a given climate, which make a first pass unnecessary.
    known: Option<Arc<MonthlyThresholds>>,
}

impl PercentileDetector {
    /// Creates the detector for a grid.
    ///
    /// # Errors
    /// [`ClimateError::Invalid`] if a threshold is out of range.
    pub fn new(thresholds: &PercentileThresholds, grid: Arc<LatLonGrid>) -> Result<Self> {
        thresholds.check()?;
        Ok(Self {
            thresholds: thresholds.clone(),
            row_areas_km2: grid.row_areas_km2(),
            grid,
            known: None,
        })
    }

    /// The same detector with the thresholds of a saved climatology. It needs no first pass, and accepts any times in
    /// the months of the climatology.
    #[must_use]
    pub fn of_climate(self, known: Arc<MonthlyThresholds>) -> Self {
        Self {
            known: Some(known),
            ..self
        }
    }

    /// The thresholds of the given climate, if any.
    pub fn known(&self) -> Option<&Arc<MonthlyThresholds>> {
        self.known.as_ref()
    }

    /// The thresholds in use.
    pub fn thresholds(&self) -> &PercentileThresholds {
        &self.thresholds
    }

    /// An empty climatology.
    pub fn climatology(&self) -> TransportClimatology {
        TransportClimatology::new(&self.thresholds, &self.grid)
    }

    /// Checks times from which percentiles are to be computed: rejects too few times in a season, and so many in a
    /// month that the counts of a block could overflow.
    ///
    /// # Errors
    /// [`ClimateError::FewTimes`], [`ClimateError::Invalid`].
    pub fn check_times(&self, times: &[Time]) -> Result<()> {
        if self.known.is_some() {
            return Ok(());
        }
        let months = times.iter().map(|time| month_of(*time));
        let times = climatology::check_months(months, &self.thresholds)?;
        self.climatology()
            .check_room(times.into_iter().max().unwrap_or(0))
    }

    /// The field of one time that rivers must exceed the percentile of: transport or column water.
    ///
    /// # Errors
    /// [`ClimateError::MissingField`] if it is missing.
    pub fn moisture<'a>(&self, fields: &'a DetectFields) -> Result<CowArray<'a, f32, Ix2>> {
        match self.thresholds.moisture {
            Moisture::Transport => Ok(match fields.transport()? {
                Cow::Borrowed(known) => known.magnitude.view().into(),
                Cow::Owned(stand_in) => stand_in.magnitude.into(),
            }),
            Moisture::ColumnWater => Ok(column_water(fields)?.into()),
        }
    }

    /// The rivers of one time of a month (1 to 12), in scan order: areas where `moisture` exceeds the thresholds
    /// `usual` and that extend along the transport. Cells connect across edges and corners.
    ///
    /// # Errors
    /// [`ClimateError::Mismatch`] if a field does not have the grid's shape; [`ClimateError::Invalid`] if the
    /// climatology lacks the month.
    pub fn rivers(
        &self,
        moisture: ArrayView2<'_, f32>,
        transport: &VapourTransport,
        month: u8,
        usual: &MonthlyThresholds,
    ) -> Result<Vec<Region>> {
        let (rows, columns) = self.grid.shape();
        crate::derived::check_shape("vapour transport", &transport.magnitude.view(), &self.grid)?;
        crate::derived::check_shape("vapour transport or column water", &moisture, &self.grid)?;
        if usual.at(month, (rows - 1, columns - 1)).is_none() {
            return Err(ClimateError::Invalid(format!(
                "the climatology of moisture has no times of month {month}"
            )));
        }
        let lines: Vec<Vec<(u32, u32)>> = (0..rows)
            .into_par_iter()
            .with_min_len(32)
            .map(|j| {
                let Some(limit) = usual.row(month, j) else {
                    return Vec::new();
                };
                let row = moisture.row(j);
                row_runs(row.iter().enumerate().map(|(i, &value)| value > limit(i)))
            })
            .collect();
        let touch = Touch {
            corners: true,
            wrap: self.grid.is_periodic(),
        };
        let class = Class::AtmosphericRiver;
        let pieces: Vec<Region> = patches(&lines, columns as u32, touch)
            .into_iter()
            .map(|runs| Region { class, runs })
            .collect();
        let keep = |region: &Region| {
            let areas = &self.row_areas_km2;
            geometry::is_river(region, transport, &self.grid, areas, &self.thresholds)
        };
        Ok(pieces.into_par_iter().filter(keep).collect())
    }

    /// The mask and the rivers of one time.
    ///
    /// # Errors
    /// As [`Self::rivers`], and [`ClimateError::MissingField`] if neither transport nor its proxy is available.
    pub fn masks(
        &self,
        fields: &DetectFields,
        usual: &MonthlyThresholds,
    ) -> Result<LabelledSnapshot> {
        let snapshot = &fields.snapshot;
        check_grid(&self.grid, snapshot)?;
        let month = month_of(snapshot.time);
        let transport = fields.transport()?;
        let moisture = match self.thresholds.moisture {
            Moisture::Transport => transport.magnitude.view(),
            Moisture::ColumnWater => column_water(fields)?,
        };
        let rivers = self.rivers(moisture, transport.as_ref(), month, usual)?;
        let mut codes = Array2::<u8>::zeros(self.grid.shape());
        for cell in rivers.iter().flat_map(Region::indices) {
            codes[cell] = Class::AtmosphericRiver.code();
        }
        let objects = objects::describe(snapshot, &[], &rivers);
        Ok(LabelledSnapshot::from_codes(snapshot.time, codes, objects))
    }
}

fn column_water(fields: &DetectFields) -> Result<ArrayView2<'_, f32>> {
    let [water] = planes(&fields.snapshot, "rivers by column water", [Variable::Tmq])?;
    Ok(water)
}

/// The month of a time, 1 to 12.
pub(super) fn month_of(time: Time) -> u8 {
    u8::try_from(time.date().1).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::transport::TransportSource;
    use crate::events::shape::TangentPlane;
    use ndarray::Axis;
    use squall_data::{Calendar, Snapshot};

    /// A straight band of transport 500 along some bearing (degrees anticlockwise from east), with the wind turned from
    /// it by `turn_deg`.
    fn band(
        grid: &LatLonGrid,
        (lat, lon): (f64, f64),
        (length_km, width_km): (f64, f64),
        bearing_deg: f64,
        turn_deg: f64,
    ) -> VapourTransport {
        let plane = TangentPlane::new(lat, lon);
        let (sin, cos) = bearing_deg.to_radians().sin_cos();
        let inside = |j: usize, i: usize| {
            let (e, n) = plane.project(grid.lat_deg()[j], grid.lon_deg()[i]);
            (e * cos + n * sin).abs() < length_km / 2.0
                && (n * cos - e * sin).abs() < width_km / 2.0
        };
        let size = Array2::from_shape_fn(
            grid.shape(),
            |(j, i)| if inside(j, i) { 500.0 } else { 20.0 },
        );
        let (north, east) = (bearing_deg + turn_deg).to_radians().sin_cos();
        let parts = [
            size.mapv(|s: f32| s * east as f32),
            size.mapv(|s| s * north as f32),
        ];
        VapourTransport::from_components(parts, TransportSource::File).unwrap()
    }

    #[test]
    fn each_test_of_geometry_decides() {
        let grid = Arc::new(LatLonGrid::global(181, 360).unwrap());
        let t = PercentileThresholds {
            min_times: 1,
            ..PercentileThresholds::default()
        };
        let detector = PercentileDetector::new(&t, grid.clone()).unwrap();
        let mut climatology = detector.climatology();
        let usual = Array2::from_elem(grid.shape(), 30.0f32);
        climatology.add(1, usual.view()).unwrap();
        let usual = climatology.thresholds(&t).unwrap();
        let rivers = |transport: &VapourTransport, month| {
            detector.rivers(transport.magnitude.view(), transport, month, &usual)
        };
        let count = |transport: VapourTransport| rivers(&transport, 1).unwrap().len();
        let (long, place) = ((3000.0, 500.0), (40.0, 200.0));
        for (lat, lon, bearing) in [
            (40.0, 200.0, 40.0),
            (40.0, 0.0, 40.0),
            (-40.0, 359.0, -40.0),
        ] {
            assert_eq!(
                count(band(&grid, (lat, lon), long, bearing, 0.0)),
                1,
                "{lat} {lon}"
            );
        }
        assert_eq!(
            count(band(&grid, place, (1700.0, 500.0), 40.0, 0.0)),
            0,
            "short"
        );
        assert_eq!(
            count(band(&grid, place, (2500.0, 1500.0), 40.0, 0.0)),
            0,
            "wide"
        );
        assert_eq!(count(band(&grid, place, long, 40.0, 40.0)), 1, "oblique");
        assert_eq!(
            count(band(&grid, place, long, 40.0, 60.0)),
            0,
            "across its axis"
        );
        assert_eq!(
            count(band(&grid, place, long, -40.0, 0.0)),
            0,
            "equatorward"
        );
        assert_eq!(count(band(&grid, place, long, 0.0, 0.0)), 0, "zonal");
        let mut torn = band(&grid, place, long, 40.0, 0.0);
        for (component, part) in torn.direction.iter_mut().flatten().enumerate() {
            for ((j, i), value) in part.indexed_iter_mut() {
                // Six of eight cells turn by 70 degrees, half of them to either side: the direction of the mean is
                // unchanged.
                let turn = [0.0, 0.0, 70.0, -70.0, 70.0, -70.0, 70.0, -70.0][(j * 3 + i) % 8];
                let (north, east) = f64::to_radians(40.0 + turn).sin_cos();
                *value = 500.0 * if component == 0 { east } else { north } as f32;
            }
        }
        assert_eq!(count(torn), 0, "incoherent");
        assert!(rivers(&band(&grid, place, long, 40.0, 0.0), 2).is_err());
    }

    /// A run that is a fifth moister everywhere has the same cells by its own percentiles; by those of the drier run it
    /// also has the flanks of each river.
    #[test]
    fn percentiles_of_the_run_itself_hide_that_it_is_moister() {
        let grid = Arc::new(LatLonGrid::global(91, 180).unwrap());
        let t = PercentileThresholds {
            min_times: 1,
            ..PercentileThresholds::default()
        };
        let detector = PercentileDetector::new(&t, grid.clone()).unwrap();
        // The 85th percentile of 100, 104, ..., 296, interpolated in its bin: 267, and 320 if everything is moister.
        let usual = |moister: f32| {
            let mut climatology = detector.climatology();
            for k in 0..50 {
                let plane = Array2::from_elem(grid.shape(), moister * (100.0 + 4.0 * k as f32));
                climatology.add(1, plane.view()).unwrap();
            }
            climatology.thresholds(&t).unwrap()
        };
        let (present, warmer) = (usual(1.0), usual(1.2));
        let of_width = |width_km| {
            let river = band(&grid, (40.0, 200.0), (3000.0, width_km), 40.0, 0.0);
            river.magnitude
        };
        let (core, all) = (of_width(500.0), of_width(900.0));
        let cells = |moister: f32, usual: &MonthlyThresholds| {
            let size = Array2::from_shape_fn(grid.shape(), |cell| {
                let size = match (core[cell] > 100.0, all[cell] > 100.0) {
                    (true, _) => 300.0,
                    (_, true) => 250.0,
                    _ => 20.0,
                };
                moister * size
            });
            let (north, east) = f32::to_radians(40.0).sin_cos();
            let parts = [size.mapv(|s| s * east), size.mapv(|s| s * north)];
            let transport = VapourTransport::from_components(parts, TransportSource::File).unwrap();
            let moisture = transport.magnitude.view();
            let rivers = detector.rivers(moisture, &transport, 1, usual).unwrap();
            rivers.iter().flat_map(Region::indices).count()
        };
        let count = |plane: &Array2<f32>| plane.iter().filter(|size| **size > 100.0).count();
        assert_eq!(cells(1.0, &present), count(&core));
        assert_eq!(cells(1.2, &warmer), count(&core));
        assert_eq!(cells(1.2, &present), count(&all));
        assert!(count(&all) > 3 * count(&core) / 2);
    }

    /// Fast dry air is a river by transport only, slow moist air by column water only.
    #[test]
    fn column_water_may_take_the_place_of_transport() {
        let grid = Arc::new(LatLonGrid::global(91, 180).unwrap());
        let inside = |lat: f64, j: usize, i: usize| {
            let plane = TangentPlane::new(lat, 200.0);
            let (e, n) = plane.project(grid.lat_deg()[j], grid.lon_deg()[i]);
            (e + n).abs() < 2200.0 && (n - e).abs() < 450.0
        };
        let field = |fast: f32, moist: f32, other: f32| {
            Array2::from_shape_fn(grid.shape(), |(j, i)| {
                if inside(40.0, j, i) {
                    fast
                } else if inside(-40.0, j, i) {
                    moist
                } else {
                    other
                }
            })
        };
        let (water, wind) = (field(14.0, 32.0, 14.0), field(36.0, 2.0, 1.0));
        // South of the equator, poleward is southward.
        let north = Array2::from_shape_fn(grid.shape(), |(j, i)| {
            wind[[j, i]] * if grid.lat_deg()[j] < 0.0 { -1.0 } else { 1.0 }
        });
        let turned = |lat: f64| if lat < 0.0 { -1.0 } else { 1.0 };
        let east = Array2::from_shape_fn(grid.shape(), |(j, i)| {
            wind[[j, i]] * turned(grid.lat_deg()[j])
        });
        let planes = [water.view(), east.view(), north.view()];
        let fields = DetectFields::from_snapshot(Snapshot {
            time: Time::new(Calendar::NoLeap, 2000, 1, 1, 0, 0, 0).unwrap(),
            grid: grid.clone(),
            variables: vec![Variable::Tmq, Variable::U850, Variable::V850],
            fields: ndarray::stack(Axis(0), &planes).unwrap(),
            source: ("made".into(), 0),
        });
        for (moisture, expected) in [(Moisture::Transport, 40.0), (Moisture::ColumnWater, -40.0)] {
            let t = PercentileThresholds {
                moisture,
                min_times: 1,
                percentile: 50.0,
                ..PercentileThresholds::default()
            };
            let detector = PercentileDetector::new(&t, grid.clone()).unwrap();
            let mut climatology = detector.climatology();
            climatology
                .add(1, Array2::zeros(grid.shape()).view())
                .unwrap();
            let usual = climatology.thresholds(&t).unwrap();
            let found = detector.masks(&fields, &usual).unwrap().objects;
            assert_eq!(found.len(), 1, "{moisture:?}: {found:?}");
            assert!(
                (found[0].lat_deg - expected).abs() < 3.0,
                "{moisture:?}: {found:?}"
            );
        }
    }
}
