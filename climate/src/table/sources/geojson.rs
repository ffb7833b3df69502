//! GeoJSON: the properties of features are cells, and a point without `lon_deg` and `lat_deg` is where it lies.
//!
//! Features are read one after the other by a thread that waits for whoever reads the rows, so that the file of a century needs
//! no memory. Its calendar may stand as a member `calendar` of the collection, before the features.

use super::{EVENT_COLUMNS, Opened, Rows, TRACK_COLUMNS, placed};
use crate::error::{ClimateError, Result};
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use squall_data::{Calendar, DataError};
use std::fmt;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Rows that are ready before they are asked for.
const AHEAD: usize = 256;

pub(super) fn open(path: &Path) -> Result<Opened> {
    let refused = |reason: String| ClimateError::Table {
        path: path.into(),
        reason,
    };
    let file = File::open(path).map_err(DataError::io("open", path))?;
    let header = columns();
    let (sender, receiver) = sync_channel(AHEAD);
    let names = header.clone();
    let reading = move || {
        let mut source = serde_json::Deserializer::from_reader(BufReader::new(file));
        let collection = Collection {
            sender: &sender,
            names: &names,
        };
        let read = collection.deserialize(&mut source);
        if let Err(error) = read.and_then(|()| source.end()) {
            // Nobody may be there any more.
            let _ = sender.send(Found::Fault(error.to_string()));
        }
    };
    std::thread::Builder::new()
        .name("geojson".into())
        .spawn(reading)
        .map_err(DataError::io("read", path))?;
    // What comes before the features.
    let mut first = receiver.recv().ok();
    let mut calendar = None;
    if let Some(Found::Calendar(name)) = &first {
        let known = Calendar::from_cf(name);
        calendar =
            Some(known.ok_or_else(|| {
                refused(format!("calendar: found `{name}`, which is none of CF"))
            })?);
        first = receiver.recv().ok();
    }
    Ok(Opened {
        header: header.iter().copied().collect(),
        header_place: "",
        calendar,
        rows: Box::new(Features {
            path: path.into(),
            first,
            receiver,
            row: 0,
        }),
    })
}

/// All columns of ours: features need not have the same properties.
fn columns() -> Vec<&'static str> {
    let mut names = EVENT_COLUMNS.to_vec();
    let of_tracks = TRACK_COLUMNS.iter().copied();
    names.extend(of_tracks.filter(|name| !EVENT_COLUMNS.contains(name)));
    names
}

/// What the reading thread found.
enum Found {
    Calendar(String),
    Row(csv::StringRecord),
    Fault(String),
}

struct Features {
    path: PathBuf,
    first: Option<Found>,
    receiver: Receiver<Found>,
    row: u64,
}

impl Rows for Features {
    fn next_into(&mut self, cells: &mut csv::StringRecord) -> Result<bool> {
        let refused = |reason: String| ClimateError::Table {
            path: self.path.clone(),
            reason,
        };
        match self.first.take().or_else(|| self.receiver.recv().ok()) {
            None => Ok(false),
            Some(Found::Row(row)) => {
                self.row += 1;
                *cells = placed(row, self.row);
                Ok(true)
            }
            Some(Found::Fault(reason)) => Err(refused(reason)),
            Some(Found::Calendar(_)) => Err(refused(
                "its `calendar` stands after features, expected before them".into(),
            )),
        }
    }
}

/// The collection as a whole.
struct Collection<'a> {
    sender: &'a SyncSender<Found>,
    names: &'a [&'static str],
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
        match found {
            true => Ok(()),
            false => Err(A::Error::custom(
                "expected a FeatureCollection of GeoJSON, found no `features`",
            )),
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
        while let Some(feature) = list.next_element::<Feature>()? {
            send(self.0.sender, Found::Row(cells(&feature, self.0.names)))?;
        }
        Ok(())
    }
}

/// An error ends the reading where nobody takes rows any more.
fn send<E: Error>(sender: &SyncSender<Found>, found: Found) -> std::result::Result<(), E> {
    sender.send(found).map_err(E::custom)
}

fn cells(feature: &Feature, names: &[&str]) -> csv::StringRecord {
    let place = |axis: usize| {
        let geometry = feature.geometry.as_ref().filter(|g| g.r#type == "Point")?;
        geometry.coordinates.get(axis)
    };
    let cell = |name: &&str| {
        let property = feature.properties.as_ref().and_then(|all| all.get(*name));
        match (property, *name) {
            (Some(value), _) => text_of(value),
            (None, "lon_deg") => place(0).map_or_else(String::new, text_of),
            (None, "lat_deg") => place(1).map_or_else(String::new, text_of),
            (None, _) => String::new(),
        }
    };
    names.iter().map(cell).collect()
}

fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(value) => u8::from(*value).to_string(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
