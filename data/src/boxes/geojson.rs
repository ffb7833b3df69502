//! Boxes as GeoJSON, for maps: written, not read.
//!
//! Longitudes run from -180 to 180; rings run anticlockwise; a box across the antimeridian is cut there into two polygons
//! (RFC 7946, sections 3.1.6 and 3.1.9). A time without boxes leaves no trace: GeoJSON has no place for it.

use super::{BoxSink, GeoBox, SinkSummary, TrackedBox};
use crate::Time;
use crate::atomic::Pending;
use crate::error::{DataError, Result};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

/// Writes a collection of features.
#[derive(Debug)]
pub struct GeoJsonWriter {
    file: BufWriter<File>,
    pending: Pending,
    path: PathBuf,
    times: usize,
    boxes: usize,
}

impl GeoJsonWriter {
    /// Begins a file.
    ///
    /// # Errors
    /// [`DataError::Io`] if it cannot be created.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let pending = Pending::new(&path)?;
        let file = File::create(pending.path()).map_err(DataError::io("create", pending.path()))?;
        let mut writer = Self {
            file: BufWriter::new(file),
            pending,
            path,
            times: 0,
            boxes: 0,
        };
        writer.put("{\"type\":\"FeatureCollection\",\"features\":[")?;
        Ok(writer)
    }

    fn put(&mut self, text: &str) -> Result<()> {
        self.file
            .write_all(text.as_bytes())
            .map_err(DataError::io("write", self.pending.path()))
    }
}

impl BoxSink for GeoJsonWriter {
    fn write(&mut self, time: Time, boxes: &[TrackedBox]) -> Result<()> {
        for found in boxes {
            found.geo.check()?;
            self.put(if self.boxes > 0 { ",\n" } else { "\n" })?;
            self.put(&feature(time, found).to_string())?;
            self.boxes += 1;
        }
        self.times += 1;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<SinkSummary> {
        self.put("\n]}\n")?;
        self.file
            .flush()
            .map_err(DataError::io("write", self.pending.path()))?;
        drop(self.file);
        self.pending.commit()?;
        Ok(SinkSummary {
            path: self.path,
            times: self.times,
            boxes: self.boxes,
            left_out: 0,
        })
    }
}

fn feature(time: Time, TrackedBox { geo, track_id }: &TrackedBox) -> Value {
    let (west, east) = geo.signed_longitudes_deg();
    json!({
        "type": "Feature",
        // West exceeds east across the antimeridian, as section 5.2 has it.
        "bbox": [rounded(west), rounded(geo.south_deg), rounded(east), rounded(geo.north_deg)],
        "geometry": geometry(geo),
        "properties": {
            "class": geo.class.name(),
            "time": time.to_string(),
            "confidence": geo.confidence,
            "track_id": track_id,
        },
    })
}

/// One polygon, or two where the antimeridian cuts the box.
fn geometry(geo: &GeoBox) -> Value {
    let (west, east) = geo.signed_longitudes_deg();
    let ring = |west: f64, east: f64| {
        let (west, east) = (rounded(west), rounded(east));
        let (south, north) = (rounded(geo.south_deg), rounded(geo.north_deg));
        json!([[
            [west, south],
            [east, south],
            [east, north],
            [west, north],
            [west, south]
        ]])
    };
    if west < east {
        return json!({"type": "Polygon", "coordinates": ring(west, east)});
    }
    let parts: Vec<Value> = [(west, 180.0), (-180.0, east)]
        .into_iter()
        .filter(|(west, east)| west < east)
        .map(|(west, east)| ring(west, east))
        .collect();
    json!({"type": "MultiPolygon", "coordinates": parts})
}

/// Four decimals, as in tables.
fn rounded(degrees: f64) -> f64 {
    (degrees * 1e4).round() / 1e4
}
