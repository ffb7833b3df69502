//! GeoJSON: the properties of features are cells. Without `lon_deg` and `lat_deg`, the coordinates of a point are used.
//!
//! A separate thread reads the features and waits for the consumer of the rows, so that memory does not depend on the
//! size of the file. The calendar may be a member `calendar` of the collection, before the features.

use super::{
    BYTE_ORDER_MARK, EVENT_COLUMNS, Opened, RowSource, TRACK_COLUMNS, calendar_of, with_position,
};
use crate::error::{ClimateError, Result};
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use squall_data::DataError;
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Maximum number of rows that the thread reads ahead.
const MAX_ROWS_AHEAD: usize = 256;

pub(super) fn open(path: &Path) -> Result<Opened> {
    let file = File::open(path).map_err(DataError::io("open", path))?;
    let mut text = BufReader::new(file);
    let start = text.fill_buf().map_err(DataError::io("read", path))?;
    if start.starts_with(BYTE_ORDER_MARK) {
        text.consume(BYTE_ORDER_MARK.len());
    }
    let header = columns();
    let (sender, receiver) = sync_channel(MAX_ROWS_AHEAD);
    let columns = header.clone();
    let reading = move || {
        let mut source = serde_json::Deserializer::from_reader(text);
        let collection = Collection {
            sender: &sender,
            columns: &columns,
        };
        let read = collection.deserialize(&mut source);
        let last = match read.and_then(|()| source.end()) {
            Ok(()) => Found::End,
            Err(error) => Found::Fault(error.to_string()),
        };
        // The receiver may be gone.
        let _ = sender.send(last);
    };
    std::thread::Builder::new()
        .name("geojson".into())
        .spawn(reading)
        .map_err(DataError::io("read", path))?;
    // Messages before the first row.
    let mut names = None;
    let mut calendar = None;
    let first = loop {
        match receiver.recv() {
            Ok(Found::Calendar(name)) => calendar = Some(calendar_of(path, &name)?),
            Ok(Found::Names(found)) => names = Some(found),
            first => break first.ok(),
        }
    };
    Ok(Opened {
        names: names.unwrap_or_else(|| header.iter().map(|name| name.to_string()).collect()),
        header: header.into_iter().collect(),
        unit: "feature",
        calendar,
        rows: Box::new(Features {
            path: path.into(),
            first,
            receiver,
            row: 0,
        }),
    })
}

/// All known columns, because features need not have the same properties.
fn columns() -> Vec<&'static str> {
    let mut names = EVENT_COLUMNS.to_vec();
    let of_tracks = TRACK_COLUMNS.iter().copied();
    names.extend(of_tracks.filter(|name| !EVENT_COLUMNS.contains(name)));
    names
}

/// A message of the reading thread.
enum Found {
    Calendar(String),
    /// The properties of the first feature.
    Names(Vec<String>),
    Row(csv::StringRecord),
    Fault(String),
    End,
}

struct Features {
    path: PathBuf,
    first: Option<Found>,
    receiver: Receiver<Found>,
    row: u64,
}

impl RowSource for Features {
    fn next_into(&mut self, cells: &mut csv::StringRecord) -> Result<bool> {
        let refused = |reason: String| ClimateError::Table {
            path: self.path.clone(),
            reason,
        };
        let next = self.first.take().or_else(|| self.receiver.recv().ok());
        match next {
            Some(Found::Row(row)) => {
                self.row += 1;
                *cells = with_position(row, self.row);
                Ok(true)
            }
            Some(Found::End) => {
                // Repeated calls also see the end.
                self.first = Some(Found::End);
                Ok(false)
            }
            Some(Found::Fault(reason)) => Err(refused(reason)),
            Some(Found::Calendar(_)) => Err(refused(
                "its `calendar` stands after features, expected before them".into(),
            )),
            Some(Found::Names(_)) | None => {
                Err(refused(format!("reading ended after feature {}", self.row)))
            }
        }
    }
}

/// The feature collection.
struct Collection<'a> {
    sender: &'a SyncSender<Found>,
    columns: &'a [&'static str],
}

/// Its list of features.
struct List<'a>(&'a Collection<'a>);

#[derive(Deserialize)]
struct Feature {
    properties: Option<Map<String, Value>>,
    geometry: Option<Geometry>,
}

#[derive(Deserialize)]
struct Geometry {
    r#type: String,
    #[serde(default)]
    coordinates: Value,
}

impl<'de> DeserializeSeed<'de> for Collection<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> std::result::Result<(), D::Error> {
        source.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Collection<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a FeatureCollection of GeoJSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<(), A::Error> {
        let mut found = false;
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "features" => {
                    map.next_value_seed(List(&self))?;
                    found = true;
                }
                "calendar" => {
                    let name = map.next_value()?;
                    send(self.sender, Found::Calendar(name))?;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        if found {
            Ok(())
        } else {
            Err(A::Error::custom(
                "expected a FeatureCollection of GeoJSON, found no `features`",
            ))
        }
    }
}

impl<'de> DeserializeSeed<'de> for List<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> std::result::Result<(), D::Error> {
        source.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for List<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of features")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> std::result::Result<(), A::Error> {
        let mut is_first = true;
        while let Some(feature) = list.next_element::<Feature>()? {
            if std::mem::take(&mut is_first) {
                send(self.0.sender, Found::Names(feature.names()))?;
            }
            send(self.0.sender, Found::Row(feature.cells(self.0.columns)))?;
        }
        Ok(())
    }
}

/// Sends a message; the error ends the reading when the receiver is gone.
fn send<E: Error>(sender: &SyncSender<Found>, found: Found) -> std::result::Result<(), E> {
    sender.send(found).map_err(E::custom)
}

impl Feature {
    /// A coordinate of the feature's point, if its geometry is a point.
    fn place(&self, axis: usize) -> Option<&Value> {
        let geometry = self.geometry.as_ref().filter(|g| g.r#type == "Point")?;
        geometry.coordinates.get(axis)
    }

    fn names(&self) -> Vec<String> {
        let properties = self.properties.iter().flat_map(Map::keys).cloned();
        let mut names: Vec<String> = properties.collect();
        let place = ["lon_deg", "lat_deg"].map(String::from);
        if self.place(0).is_some() {
            names.extend(place);
        }
        names
    }

    fn cells(&self, columns: &[&str]) -> csv::StringRecord {
        let cell = |name: &&str| {
            let property = self.properties.as_ref().and_then(|all| all.get(*name));
            let property = property.filter(|value| !value.is_null());
            let value = property.or_else(|| match *name {
                "lon_deg" => self.place(0),
                "lat_deg" => self.place(1),
                _ => None,
            });
            value.map_or_else(String::new, text_of)
        };
        columns.iter().map(cell).collect()
    }
}

/// Beyond this, not every integer is representable.
const LARGEST_WHOLE: f64 = 9_007_199_254_740_992.0;

fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(value) => u8::from(*value).to_string(),
        Value::String(text) => text.clone(),
        // Data frames store integer columns with gaps as reals: 7.0 is 7.
        Value::Number(number) => match number.as_f64() {
            Some(real) if number.is_f64() && real.fract() == 0.0 && real.abs() < LARGEST_WHOLE => {
                (real as i64).to_string()
            }
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}
