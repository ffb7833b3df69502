//! Encodes lives as bytes: columns of small integers, deflated.
//!
//! Every number has a variable length (seven bits per byte, lowest first). Signed numbers are zigzag-encoded (0, -1, 1,
//! -2 become 0, 1, 2, 3). In columns with unknown values, 0 means unknown and known values are stored plus one. Points
//! are stored as differences from the previous point; the first one of a life is relative to zero, with its time
//! relative to the start of the life. Numbers are grouped by column, because adjacent similar numbers compress better.

use super::clock::Clock;
use super::life::{Life, eastward_deg};
use crate::error::{ClimateError, Result};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use squall_data::boxes::BoxClass;
use squall_data::grid::eastern_longitude;
use std::io::Write as _;

/// Steps of an area per unit of its natural logarithm: one step is 1.5 percent.
pub(super) const AREA_STEPS: f64 = 64.0;

/// One column of variable-length numbers.
#[derive(Default)]
struct Column(Vec<u8>);

impl Column {
    fn push(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

/// Zigzag encoding of a signed number.
fn folded(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The value in steps of `step`, plus one; 0 if unknown.
fn known(value: Option<f64>, step: f64) -> u64 {
    let value = value.filter(|v| v.is_finite());
    value.map_or(0, |v| (v.max(0.0) / step).round() as u64 + 1)
}

fn tenths(degrees: f64) -> i64 {
    (10.0 * degrees).round() as i64
}

/// Bytes to compress between checks of the output size.
const PART: usize = 1 << 16;

/// Number of columns of [`rows`].
pub(super) const ROW_COLUMNS: usize = 26;
/// Number of columns of [`points`].
pub(super) const POINT_COLUMNS: usize = 8;

/// Encodes all lives with the points chosen by `keep`: columns of rows, then columns of points. Returns the bytes and
/// the number of points. Stops early, with incomplete data, once there are more than `max_bytes`.
///
/// # Errors
/// [`ClimateError::Invalid`] if compression fails.
pub(super) fn pack(
    lives: &[&Life],
    clock: &Clock,
    keep: impl Fn(&Life) -> Vec<usize>,
    max_bytes: usize,
) -> Result<(Vec<u8>, usize)> {
    let mut columns = rows(lives, clock);
    let mut count = 0;
    let mut of_points: Vec<Column> = (0..POINT_COLUMNS).map(|_| Column::default()).collect();
    for life in lives {
        let kept = keep(life);
        columns[ROW_COLUMNS - 1].push(kept.len() as u64);
        points(life, &kept, clock, &mut of_points);
        count += kept.len();
    }
    columns.append(&mut of_points);
    let failed = |error: std::io::Error| ClimateError::Invalid(format!("compression: {error}"));
    let mut deflated = ZlibEncoder::new(Vec::new(), Compression::best());
    'columns: for column in columns {
        let mut length = Column::default();
        length.push(column.0.len() as u64);
        deflated.write_all(&length.0).map_err(failed)?;
        for part in column.0.chunks(PART) {
            deflated.write_all(part).map_err(failed)?;
            if deflated.get_ref().len() > max_bytes {
                break 'columns;
            }
        }
    }
    Ok((deflated.finish().map_err(failed)?, count))
}

/// The columns of the table; the last one, the number of points, is left empty.
fn rows(lives: &[&Life], clock: &Clock) -> Vec<Column> {
    let mut columns: Vec<Column> = (0..ROW_COLUMNS).map(|_| Column::default()).collect();
    let (mut id, mut start) = (0, 0);
    for life in lives {
        let begin = clock.units(life.start);
        let own = life.id.map_or(0, |id| id as i64 + 1);
        let landfall = life.landfall.filter(|l| l.time >= life.start);
        let at = landfall.map(|l| (clock.units(l.time) - begin) as f64);
        let relative = |id: Option<u64>| id.map_or(0, |id| folded(own - 1 - id as i64));
        let values: [u64; ROW_COLUMNS - 1] = [
            life.finder as u64,
            u64::from(life.class.code()),
            folded(own - id),
            folded(begin - start),
            (clock.units(life.end) - begin).max(0) as u64,
            life.seen as u64,
            life.basin as u64,
            known(life.category.map(f64::from), 1.0),
            known(life.max_wind_m_s, 0.1),
            known(life.min_psl_hpa, 0.1),
            known(life.max_tmq_kg_m2, 0.1),
            known(Some(life.max_area_km2), 1000.0),
            known(life.max_length_km, 10.0),
            known(life.distance_km, 10.0),
            known(life.confidence.map(|c| 100.0 * f64::from(c)), 1.0),
            known(life.landfalls.map(f64::from), 1.0),
            known(at, 1.0),
            known(landfall.map(|l| l.lat_deg + 90.0), 0.1),
            known(landfall.map(|l| eastern_longitude(l.lon_deg)), 0.1),
            known(landfall.and_then(|l| l.max_wind_m_s), 0.1),
            known(landfall.and_then(|l| l.min_psl_pa).map(|p| p / 100.0), 0.1),
            u64::from(life.origin),
            u64::from(life.fate),
            relative(life.parent),
            relative(life.merged_into),
        ];
        for (column, value) in columns.iter_mut().zip(values) {
            column.push(value);
        }
        (id, start) = (own, begin);
    }
    columns
}

fn points(life: &Life, kept: &[usize], clock: &Clock, columns: &mut [Column]) {
    let start = clock.units(life.start);
    let mut before = [start, 0, 0, 0, 0, 0, 0, 0];
    let mut previous: Option<usize> = None;
    for &index in kept {
        let point = &life.points[index];
        // Longitudes continue beyond 360 or below 0 instead of jumping.
        let lon = match previous {
            Some(last) => {
                let steps =
                    (last..index).map(|k| eastward_deg(&life.points[k], &life.points[k + 1]));
                let from = life.points[last].lon_deg;
                before[2] + tenths(from + steps.sum::<f64>()) - tenths(from)
            }
            None => tenths(point.lon_deg),
        };
        let (first, second) = match life.class {
            _ if life.by_confidence => (1.0, 1.0),
            BoxClass::AtmosphericRiver => (0.5, 20.0),
            BoxClass::TropicalDepression
            | BoxClass::TropicalCyclone
            | BoxClass::ExtratropicalCyclone => (0.5, 0.5),
        };
        // The logarithm makes the relative error uniform. Tables of other tools often lack areas.
        let area = Some(f64::from(point.area_km2)).filter(|km2| km2.is_finite());
        let area = area.map(|km2| km2.max(1.0).ln());
        let (width, height) = point.box_deg.unzip();
        let now = [
            clock.units(point.time),
            tenths(point.lat_deg),
            lon,
            known(point.first.map(f64::from), first) as i64,
            known(point.second.map(f64::from), second) as i64,
            known(area, 1.0 / AREA_STEPS) as i64,
            known(width.map(f64::from), 0.1) as i64,
            known(height.map(f64::from), 0.1) as i64,
        ];
        for ((column, now), before) in columns.iter_mut().zip(now).zip(before) {
            column.push(folded(now - before));
        }
        before = now;
        previous = Some(index);
    }
}
