//! The river criteria for areas of strong transport: length, width, and direction of transport.

use super::thresholds::PercentileThresholds;
use crate::detect::transport::VapourTransport;
use crate::events::Region;
use crate::events::shape::measure;
use squall_data::LatLonGrid;

/// Whether an area is a river. Tests of direction are skipped if directions are unknown.
pub(super) fn is_river(
    region: &Region,
    transport: &VapourTransport,
    grid: &LatLonGrid,
    row_areas_km2: &[f64],
    t: &PercentileThresholds,
) -> bool {
    // Cheap rejection of most pieces: an area of the minimum length is at least half a cell wide.
    if region.area_km2(row_areas_km2) < 0.5 * t.min_length_km * min_width_km(region, grid) {
        return false;
    }
    let mean = transport
        .direction
        .as_ref()
        .map(|parts| MeanTransport::over(region, parts, transport, row_areas_km2));
    if let Some(mean) = mean
        && !(mean.poleward(region, grid, row_areas_km2) > t.min_poleward_kg_m_s
            && mean.deviating_share(region, transport, row_areas_km2, t.max_deviation_deg)
                <= t.max_deviating_share)
    {
        return false;
    }
    let shape = measure(region, grid, row_areas_km2);
    let long = shape.length_km > t.min_length_km
        && shape.length_km > t.min_length_over_width * shape.width_km;
    let along = mean.is_none_or(|mean| {
        let angle = mean.angle_deg() - shape.orientation_deg;
        // The axis has no sense of direction: 0 to 90 degrees.
        let off = (angle + 90.0).rem_euclid(180.0) - 90.0;
        off.abs() <= t.max_deviation_deg
    });
    long && along
}

/// The width of the region's narrowest cell.
fn min_width_km(region: &Region, grid: &LatLonGrid) -> f64 {
    let rows = region.runs.iter().map(|run| run.row as usize);
    let cosine = rows
        .map(|j| grid.lat_deg()[j].to_radians().cos())
        .fold(1.0, f64::min);
    let column = grid.lon_spacing_deg() / grid.lat_spacing_deg() * grid.spacing_km();
    grid.spacing_km().min(cosine * column)
}

/// Area-weighted mean transport.
#[derive(Debug, Clone, Copy)]
struct MeanTransport {
    east: f64,
    north: f64,
}

impl MeanTransport {
    fn over(
        region: &Region,
        parts: &[ndarray::Array2<f32>; 2],
        transport: &VapourTransport,
        row_areas_km2: &[f64],
    ) -> Self {
        let (mut east, mut north, mut weight) = (0.0, 0.0, 0.0);
        for (j, i) in region.indices() {
            let [u, v] = unit(parts, (j, i));
            let size = f64::from(transport.magnitude[[j, i]]) * row_areas_km2[j];
            // Files with only the magnitude of transport may lack it where there is wind.
            if u.is_finite() && v.is_finite() && size.is_finite() {
                east += u * size;
                north += v * size;
                weight += row_areas_km2[j];
            }
        }
        Self {
            east: east / weight,
            north: north / weight,
        }
    }

    fn angle_deg(self) -> f64 {
        self.north.atan2(self.east).to_degrees()
    }

    /// The component away from the equator, on the side with most of the area.
    fn poleward(self, region: &Region, grid: &LatLonGrid, row_areas_km2: &[f64]) -> f64 {
        let side: f64 = region
            .runs
            .iter()
            .map(|run| {
                let j = run.row as usize;
                run.cells() as f64 * row_areas_km2[j] * grid.lat_deg()[j].signum()
            })
            .sum();
        self.north * side.signum()
    }

    /// The share of the area whose transport deviates by more than an angle.
    fn deviating_share(
        self,
        region: &Region,
        transport: &VapourTransport,
        row_areas_km2: &[f64],
        angle_deg: f64,
    ) -> f64 {
        let Some(parts) = &transport.direction else {
            return 0.0;
        };
        let length = self.east.hypot(self.north);
        let least = angle_deg.to_radians().cos() * length;
        let (mut off, mut all) = (0.0, 0.0);
        for (j, i) in region.indices() {
            let [u, v] = unit(parts, (j, i));
            all += row_areas_km2[j];
            if u * self.east + v * self.north < least {
                off += row_areas_km2[j];
            }
        }
        off / all
    }
}

/// The unit vector of transport at a cell.
fn unit(parts: &[ndarray::Array2<f32>; 2], cell: (usize, usize)) -> [f64; 2] {
    let (u, v) = (f64::from(parts[0][cell]), f64::from(parts[1][cell]));
    let size = u.hypot(v);
    [u / size, v / size]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::transport::TransportSource;
    use crate::events::Run;
    use ndarray::Array2;
    use squall_data::Class;

    /// Column water may show a river where a cell of transport is missing.
    #[test]
    fn a_missing_size_of_transport_does_not_end_a_river() {
        let grid = LatLonGrid::global(181, 360).unwrap();
        // 35 degrees of latitude by 3 of longitude: 3,900 km by 270 km.
        let run = |row| Run {
            row,
            first: 200,
            end: 203,
        };
        let region = Region {
            class: Class::AtmosphericRiver,
            runs: (115..150).map(run).collect(),
        };
        let mut transport = VapourTransport {
            magnitude: Array2::from_elem(grid.shape(), 500.0),
            direction: Some([
                Array2::zeros(grid.shape()),
                Array2::from_elem(grid.shape(), 20.0),
            ]),
            source: TransportSource::File,
        };
        let areas = grid.row_areas_km2();
        let thresholds = PercentileThresholds::default();
        let passes =
            |transport: &VapourTransport| is_river(&region, transport, &grid, &areas, &thresholds);
        assert!(passes(&transport));
        transport.magnitude[[130, 201]] = f32::NAN;
        assert!(passes(&transport));
        // With eastward transport it is no river; with unknown direction it may be one.
        let east = Array2::from_elem(grid.shape(), 20.0);
        transport.direction = Some([east, Array2::zeros(grid.shape())]);
        assert!(!passes(&transport));
        transport.direction = None;
        assert!(passes(&transport));
        // Pieces that are short, or as wide as long, are rejected.
        let limits = |change: fn(&mut PercentileThresholds)| {
            let mut changed = thresholds.clone();
            change(&mut changed);
            is_river(&region, &transport, &grid, &areas, &changed)
        };
        assert!(limits(|t| t.min_length_km = 3600.0) && !limits(|t| t.min_length_km = 4200.0));
        assert!(
            limits(|t| t.min_length_over_width = 10.0)
                && !limits(|t| t.min_length_over_width = 20.0)
        );
    }
}
