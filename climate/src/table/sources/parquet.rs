//! Parquet: reads the known columns of a file, whichever numeric types a data frame library chose for them.
//!
//! Snappy and gzip compression are supported. Times may be texts or timestamps. Timestamps are in a Gregorian calendar:
//! the one stated in the file.

use super::{Opened, RowSource, calendar_of, is_known, with_position};
use crate::error::{ClimateError, Result};
use ::parquet::basic::{ConvertedType, LogicalType, Repetition, TimeUnit, Type as Physical};
use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::record::reader::RowIter;
use ::parquet::record::{Field, Row};
use ::parquet::schema::types::Type;
use squall_data::calendar::DAY_SECONDS;
use squall_data::caught::caught;
use squall_data::{Calendar, DataError, Time};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) fn open(path: &Path) -> Result<Opened> {
    let refused = |reason: String| ClimateError::Table {
        path: path.into(),
        reason,
    };
    let file = File::open(path).map_err(DataError::io("open", path))?;
    let reader = guarded(|| SerializedFileReader::new(file)).map_err(refused)?;
    let metadata = reader.metadata().file_metadata();
    let pairs = metadata.key_value_metadata().into_iter().flatten();
    let mut calendars = pairs.filter(|pair| pair.key == "calendar");
    let calendar = calendars.find_map(|pair| pair.value.as_deref());
    let calendar = calendar.map(|name| calendar_of(path, name)).transpose()?;
    let all = metadata.schema().get_fields();
    let names = all.iter().map(|field| field.name().to_string()).collect();
    let (mut fields, mut nanoseconds) = (Vec::new(), Vec::new());
    for field in all {
        if is_known(field.name()) {
            check(field).map_err(refused)?;
            nanoseconds.push(is_nanoseconds(field));
            fields.push(field.clone());
        }
    }
    let header = fields.iter().map(|field| field.name()).collect();
    let wanted = Type::group_type_builder(metadata.schema().name())
        .with_fields(fields)
        .build()
        .map_err(|error| refused(error.to_string()))?;
    let rows = guarded(|| RowIter::from_file_into(Box::new(reader)).project(Some(wanted)));
    Ok(Opened {
        header,
        names,
        unit: "row",
        calendar,
        rows: Box::new(Columns {
            path: path.into(),
            rows: rows.map_err(refused)?,
            nanoseconds,
            epoch: epoch(calendar),
            row: 0,
        }),
    })
}

struct Columns {
    path: PathBuf,
    rows: RowIter<'static>,
    /// Columns of nanoseconds, which the library returns as plain numbers.
    nanoseconds: Vec<bool>,
    /// The origin of timestamps.
    epoch: Option<Time>,
    row: u64,
}

impl RowSource for Columns {
    fn next_into(&mut self, cells: &mut csv::StringRecord) -> Result<bool> {
        let next = guarded(|| self.rows.next().transpose());
        let row = next.map_err(|reason| ClimateError::Table {
            path: self.path.clone(),
            reason: format!("after row {}: {reason}", self.row),
        })?;
        let Some(row) = row else {
            return Ok(false);
        };
        self.row += 1;
        *cells = with_position(self.texts(&row), self.row);
        Ok(true)
    }
}

impl Columns {
    fn texts(&self, row: &Row) -> csv::StringRecord {
        let columns = row.get_column_iter().zip(&self.nanoseconds);
        let text = |((_, field), nanoseconds): ((_, &Field), &bool)| match (field, nanoseconds) {
            (Field::Long(value), true) => self.date(seconds(*value, 1_000_000_000)),
            (Field::Date(days), _) => self.date(i64::from(*days) * DAY_SECONDS),
            (Field::TimestampMillis(value), _) => self.date(seconds(*value, 1000)),
            (Field::TimestampMicros(value), _) => self.date(seconds(*value, 1_000_000)),
            (field, _) => text_of(field),
        };
        columns.map(text).collect()
    }

    /// The date that many seconds after the start of 1970.
    fn date(&self, seconds: i64) -> String {
        self.epoch
            .map_or_else(String::new, |epoch| epoch.add_seconds(seconds).to_string())
    }
}

/// Converts fractions of a second to seconds, rounded: data frames may store six o'clock as 05:59:59.999999999.
fn seconds(count: i64, parts: i64) -> i64 {
    count.div_euclid(parts) + i64::from(2 * count.rem_euclid(parts) >= parts)
}

/// The start of 1970 in the calendar of a file. Dates before 1582 differ between the two Gregorian calendars.
fn epoch(calendar: Option<Calendar>) -> Option<Time> {
    let calendar = match calendar {
        Some(Calendar::ProlepticGregorian) => Calendar::ProlepticGregorian,
        _ => Calendar::Standard,
    };
    Time::new(calendar, 1970, 1, 1, 0, 0, 0).ok()
}

/// Calls the library and catches panics, which some damaged files cause.
fn guarded<T>(
    work: impl FnOnce() -> ::parquet::errors::Result<T>,
) -> std::result::Result<T, String> {
    match caught(work) {
        Some(found) => found.map_err(|error| error.to_string()),
        None => Err("it is damaged".into()),
    }
}

fn check(field: &Arc<Type>) -> std::result::Result<(), String> {
    use ConvertedType as C;
    let name = field.name();
    if !field.is_primitive() || field.get_basic_info().repetition() == Repetition::REPEATED {
        return Err(format!(
            "column `{name}`: expected one value a row, found lists or groups"
        ));
    }
    let converted = field.get_basic_info().converted_type();
    let plain = [
        C::NONE,
        C::UTF8,
        C::ENUM,
        C::INT_8,
        C::INT_16,
        C::INT_32,
        C::INT_64,
        C::UINT_8,
        C::UINT_16,
        C::UINT_32,
        C::UINT_64,
        C::DATE,
        C::TIMESTAMP_MILLIS,
        C::TIMESTAMP_MICROS,
    ];
    let physical = field.get_physical_type();
    if !plain.contains(&converted) || physical == Physical::FIXED_LEN_BYTE_ARRAY {
        return Err(format!(
            "column `{name}`: expected numbers, texts or times, found {physical} as {converted}"
        ));
    }
    Ok(())
}

fn is_nanoseconds(field: &Arc<Type>) -> bool {
    let logical = field.get_basic_info().logical_type_ref();
    matches!(logical, Some(LogicalType::Timestamp(time)) if time.unit == TimeUnit::NANOS)
}

fn text_of(field: &Field) -> String {
    match field {
        Field::Null => String::new(),
        Field::Bool(value) => u8::from(*value).to_string(),
        // Data frames store integer columns with gaps as reals with NaN.
        Field::Float(value) if value.is_nan() => String::new(),
        Field::Double(value) if value.is_nan() => String::new(),
        Field::Float(value) => value.to_string(),
        Field::Double(value) => value.to_string(),
        Field::Str(text) => text.clone(),
        Field::Bytes(bytes) => String::from_utf8_lossy(bytes.data()).into_owned(),
        other => other.to_string(),
    }
}
