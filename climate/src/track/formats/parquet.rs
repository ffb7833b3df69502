//! Both tables as Parquet: the same columns, numbers as doubles, identities and counts as 64-bit integers, blanks as
//! nulls.
//!
//! In Gregorian calendars, times are timestamps: microseconds since 1970, without time zone. In other calendars they
//! are texts, because timestamps cannot represent 30 February and would allow 29 February in noleap. The metadata of
//! the file contain the calendar and the kind of times.
//!
//! Written by the crate `parquet` without Arrow and without compression; dictionary encoding shrinks repeated texts.

use super::TEXTS;
use crate::error::{ClimateError, Result};
use ::parquet::basic::{LogicalType, Repetition, TimeUnit, Type as Physical};
use ::parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::types::Type;
use squall_data::atomic::Pending;
use squall_data::{Calendar, DataError, Time};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rows per row group, which is the part kept in memory.
const GROUP_ROWS: usize = 65_536;

const TIMES: [&str; 4] = ["time", "start_time", "end_time", "landfall_time"];
const WHOLE: [&str; 9] = [
    "track_id",
    "points",
    "related_track",
    "parent_track",
    "merged_into",
    "touches_edge",
    "ar_scale",
    "landfalls",
    "landfall_ar_scale",
];

/// Writes `events.parquet` and `tracks.parquet` from the tables of a folder.
pub(super) fn write_tables(folder: &Path, calendar: Calendar) -> Result<[PathBuf; 2]> {
    let write = |name: &str| {
        let to = folder.join(name).with_extension("parquet");
        convert(&folder.join(name), &to, calendar)?;
        Ok::<_, ClimateError>(to)
    };
    Ok([write("events.csv")?, write("tracks.csv")?])
}

/// The origin of timestamps, for calendars that timestamps can represent; otherwise `None`.
fn epoch(calendar: Calendar) -> Option<Time> {
    if calendar.has_dates_of(Calendar::Standard) {
        Time::new(calendar, 1970, 1, 1, 0, 0, 0).ok()
    } else {
        None
    }
}

/// Microseconds from an epoch to the date of a cell; `None` if it is not a date or overflows.
fn microseconds(text: &str, epoch: Time) -> Option<i64> {
    let time = Time::parse(text, epoch.calendar()).ok()?;
    time.seconds_since(epoch).checked_mul(1_000_000)
}

/// The key-value metadata of a file.
fn notes(calendar: Calendar) -> Vec<KeyValue> {
    let times = match epoch(calendar) {
        Some(_) => "timestamps of no time zone".to_string(),
        None => format!("texts (ISO 8601): a timestamp cannot hold the calendar {calendar}"),
    };
    vec![
        KeyValue::new("calendar".into(), calendar.cf_name().to_string()),
        KeyValue::new("times".into(), times),
    ]
}

/// Values of a column in one row group.
enum Column {
    Text(Vec<ByteArray>),
    Whole(Vec<i64>),
    Number(Vec<f64>),
    /// Microseconds since an epoch.
    Time(Vec<i64>, Time),
}

impl Column {
    /// Creates an empty column of a table, by name.
    fn named(name: &str, epoch: Option<Time>) -> Self {
        match (name, epoch) {
            (name, Some(epoch)) if TIMES.contains(&name) => Self::Time(Vec::new(), epoch),
            (name, _) if TIMES.contains(&name) || TEXTS.contains(&name) => Self::Text(Vec::new()),
            (name, _) if WHOLE.contains(&name) => Self::Whole(Vec::new()),
            _ => Self::Number(Vec::new()),
        }
    }

    /// Adds the value of a cell; returns whether it is valid.
    fn push(&mut self, text: &str) -> bool {
        fn kept<T>(values: &mut Vec<T>, value: Option<T>) -> bool {
            let there = value.is_some();
            values.extend(value);
            there
        }
        match self {
            Self::Text(values) => kept(values, Some(text.into())),
            Self::Whole(values) => kept(values, text.parse().ok()),
            Self::Number(values) => kept(values, text.parse().ok()),
            Self::Time(values, epoch) => kept(values, microseconds(text, *epoch)),
        }
    }

    /// The expected content of a cell.
    fn expected(&self) -> &'static str {
        match self {
            Self::Text(_) => "a text",
            Self::Whole(_) | Self::Number(_) => "a number",
            Self::Time(..) => "a date such as 1996-08-26T03:00:00",
        }
    }
}

struct Group {
    columns: Vec<Column>,
    /// For each column, 1 for rows with a value.
    known: Vec<Vec<i16>>,
    rows: usize,
}

impl Group {
    fn new(header: &csv::StringRecord, calendar: Calendar) -> Self {
        let epoch = epoch(calendar);
        Self {
            columns: (header.iter())
                .map(|name| Column::named(name, epoch))
                .collect(),
            known: vec![Vec::new(); header.len()],
            rows: 0,
        }
    }

    /// Adds a row; returns the index of an invalid cell, if any.
    fn add(&mut self, cells: &csv::StringRecord) -> std::result::Result<(), usize> {
        let places = self.columns.iter_mut().zip(&mut self.known).enumerate();
        for (at, (column, known)) in places {
            let text = cells.get(at).unwrap_or("");
            known.push(i16::from(!text.is_empty()));
            if !text.is_empty() && !column.push(text) {
                return Err(at);
            }
        }
        self.rows += 1;
        Ok(())
    }

    fn write(
        &self,
        writer: &mut SerializedFileWriter<File>,
    ) -> std::result::Result<(), ParquetError> {
        let mut group = writer.next_row_group()?;
        for (column, known) in self.columns.iter().zip(&self.known) {
            let Some(mut place) = group.next_column()? else {
                break;
            };
            let levels = Some(known.as_slice());
            match column {
                Column::Text(values) => place
                    .typed::<ByteArrayType>()
                    .write_batch(values, levels, None)?,
                Column::Whole(values) | Column::Time(values, _) => place
                    .typed::<Int64Type>()
                    .write_batch(values, levels, None)?,
                Column::Number(values) => place
                    .typed::<DoubleType>()
                    .write_batch(values, levels, None)?,
            };
            place.close()?;
        }
        group.close()?;
        Ok(())
    }

    fn schema(&self, header: &csv::StringRecord) -> std::result::Result<Type, ParquetError> {
        let field = |(name, column): (&str, &Column)| {
            let (physical, logical) = match column {
                Column::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
                Column::Whole(_) => (Physical::INT64, None),
                Column::Number(_) => (Physical::DOUBLE, None),
                Column::Time(..) => {
                    let logical = LogicalType::timestamp(false, TimeUnit::MICROS);
                    (Physical::INT64, Some(logical))
                }
            };
            Type::primitive_type_builder(name, physical)
                .with_repetition(Repetition::OPTIONAL)
                .with_logical_type(logical)
                .build()
                .map(Arc::new)
        };
        let fields = header.iter().zip(&self.columns).map(field);
        let fields = fields.collect::<std::result::Result<Vec<_>, _>>()?;
        Type::group_type_builder("table")
            .with_fields(fields)
            .build()
    }
}

fn convert(from: &Path, to: &Path, calendar: Calendar) -> Result<()> {
    let source = File::open(from).map_err(DataError::io("open", from))?;
    let mut csv = csv::Reader::from_reader(source);
    let not_a_table = |reason: String| ClimateError::Table {
        path: from.into(),
        reason,
    };
    let header = csv
        .headers()
        .map_err(|e| not_a_table(e.to_string()))?
        .clone();
    let pending = Pending::new(to)?;
    let file = pending.create()?;
    let refused = |error: ParquetError| DataError::Io {
        action: "write",
        path: to.into(),
        source: std::io::Error::other(error.to_string()),
    };
    let mut group = Group::new(&header, calendar);
    let properties = WriterProperties::builder()
        .set_created_by("squall".into())
        .set_key_value_metadata(Some(notes(calendar)))
        .build();
    let schema = group.schema(&header).map_err(refused)?;
    let mut writer =
        SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties)).map_err(refused)?;
    let mut cells = csv::StringRecord::new();
    let mut more = true;
    while more {
        more = csv
            .read_record(&mut cells)
            .map_err(|e| not_a_table(e.to_string()))?;
        if more {
            group.add(&cells).map_err(|at| ClimateError::TableCell {
                path: from.into(),
                unit: "line",
                line: cells.position().map_or(0, csv::Position::line),
                column: header.get(at).unwrap_or("").into(),
                expected: group.columns[at].expected(),
                found: cells.get(at).unwrap_or("").into(),
            })?;
        }
        if group.rows == GROUP_ROWS || (!more && group.rows > 0) {
            group.write(&mut writer).map_err(refused)?;
            group = Group::new(&header, calendar);
        }
    }
    writer.close().map_err(refused)?;
    Ok(pending.commit()?)
}
