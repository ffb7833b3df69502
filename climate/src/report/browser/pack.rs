//! Encodes lives as bytes: columns of small integers, deflated.
//!
//! Every number has a variable length (seven bits per byte, lowest first). Signed numbers are zigzag-encoded (0, -1, 1,
//! -2 become 0, 1, 2, 3). In columns with unknown values, 0 means unknown and known values are stored plus one. Points
//! are stored as differences from the previous point; the first one of a life is relative to zero, with its time
//! relative to the start of the life. Numbers are grouped by column, because adjacent similar numbers compress better.

use super::clock::Clock;
use super::life::{Life, eastward_deg};
use crate::error::{ClimateError, Result};
use crate::track::Landfall;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use squall_data::Time;
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

/// A life, and what its columns are relative to.
pub(super) struct Row<'a> {
    life: &'a Life,
    clock: &'a Clock,
    /// Its number plus one, 0 if it has none, and its start in units of the clock.
    own: i64,
    start: i64,
    /// The same of the row before.
    own_before: i64,
    start_before: i64,
    /// Number of its points in the page.
    points: usize,
}

impl Row<'_> {
    fn landfall(&self) -> Option<Landfall> {
        self.life.landfall.filter(|l| l.time >= self.life.start)
    }

    /// The number of another track, as a difference; 0 if there is none.
    fn relative(&self, id: Option<u64>) -> u64 {
        id.map_or(0, |id| folded(self.own - 1 - id as i64))
    }

    /// A time as units of the clock after the start.
    fn after_start(&self, time: Time) -> i64 {
        self.clock.units(time) - self.start
    }
}

/// A column of rows: the name by which the page's script finds it, and its value.
pub(super) type RowColumn = (&'static str, fn(&Row<'_>) -> u64);

/// The columns of rows.
pub(super) const ROW_COLUMNS: [RowColumn; 26] = [
    ("finder", |row| row.life.finder as u64),
    ("kind", |row| u64::from(row.life.class.code())),
    ("id", |row| folded(row.own - row.own_before)),
    ("start", |row| folded(row.start - row.start_before)),
    ("duration", |row| {
        row.after_start(row.life.end).max(0) as u64
    }),
    ("seen", |row| row.life.seen as u64),
    ("basin", |row| row.life.basin as u64),
    ("category", |row| {
        known(row.life.category.map(f64::from), 1.0)
    }),
    ("wind", |row| known(row.life.max_wind_m_s, 0.1)),
    ("pressure", |row| known(row.life.min_psl_hpa, 0.1)),
    ("water", |row| known(row.life.max_tmq_kg_m2, 0.1)),
    ("area", |row| known(Some(row.life.max_area_km2), 1000.0)),
    ("length", |row| known(row.life.max_length_km, 10.0)),
    ("path", |row| known(row.life.distance_km, 10.0)),
    ("confidence", |row| {
        known(row.life.confidence.map(|c| 100.0 * f64::from(c)), 1.0)
    }),
    ("landfalls", |row| {
        known(row.life.landfalls.map(f64::from), 1.0)
    }),
    ("landAt", |row| {
        known(row.landfall().map(|l| row.after_start(l.time) as f64), 1.0)
    }),
    ("landLat", |row| {
        known(row.landfall().map(|l| l.lat_deg + 90.0), 0.1)
    }),
    ("landLon", |row| {
        known(row.landfall().map(|l| eastern_longitude(l.lon_deg)), 0.1)
    }),
    ("landWind", |row| {
        known(row.landfall().and_then(|l| l.max_wind_m_s), 0.1)
    }),
    ("landPressure", |row| {
        let pa = row.landfall().and_then(|l| l.min_psl_pa);
        known(pa.map(|pa| pa / 100.0), 0.1)
    }),
    ("origin", |row| u64::from(row.life.origin)),
    ("fate", |row| u64::from(row.life.fate)),
    ("parent", |row| row.relative(row.life.parent)),
    ("merged", |row| row.relative(row.life.merged_into)),
    ("count", |row| row.points as u64),
];

/// The names of the columns of [`points`], by which the page's script finds them.
pub(super) const POINT_COLUMNS: [&str; 8] = ["t", "lat", "lon", "a", "b", "area", "w", "h"];

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
    let empty = |count: usize| -> Vec<Column> { (0..count).map(|_| Column::default()).collect() };
    let mut columns = empty(ROW_COLUMNS.len());
    let mut of_points = empty(POINT_COLUMNS.len());
    let (mut own_before, mut start_before, mut count) = (0, 0, 0);
    for life in lives {
        let kept = keep(life);
        let row = Row {
            life,
            clock,
            own: life.id.map_or(0, |id| id as i64 + 1),
            start: clock.units(life.start),
            own_before,
            start_before,
            points: kept.len(),
        };
        for (column, (_, value)) in columns.iter_mut().zip(ROW_COLUMNS) {
            column.push(value(&row));
        }
        (own_before, start_before) = (row.own, row.start);
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
        let now: [i64; POINT_COLUMNS.len()] = [
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
