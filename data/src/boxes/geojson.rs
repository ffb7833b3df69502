//! Boxes as GeoJSON for maps; write-only.
//!
//! Longitudes range from -180 to 180; rings are anticlockwise; a box across the antimeridian is split there into two
//! polygons (RFC 7946, sections 3.1.6 and 3.1.9). Times without boxes are lost: GeoJSON cannot represent them.

use super::{BoxSink, GeoBox, SinkSummary, TrackedBox};
use crate::Time;
use crate::atomic::TextFile;
use crate::error::Result;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Writes a feature collection.
#[derive(Debug)]
pub struct GeoJsonWriter {
    file: TextFile,
    done: SinkSummary,
}

impl GeoJsonWriter {
    /// Begins a file.
    ///
    /// # Errors
    /// [`crate::DataError::Io`] if it cannot be created.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let file = TextFile::create(&path)?;
        let mut writer = Self {
            file,
            done: SinkSummary::begun(path),
        };
        writer
            .file
            .write("{\"type\":\"FeatureCollection\",\"features\":[")?;
        Ok(writer)
    }
}

impl BoxSink for GeoJsonWriter {
    fn write(&mut self, time: Time, boxes: &[TrackedBox]) -> Result<()> {
        for found in boxes {
            found.geo.check()?;
            self.file
                .write(if self.done.boxes > 0 { ",\n" } else { "\n" })?;
            self.file.write(&feature(time, found).to_string())?;
            self.done.boxes += 1;
        }
        self.done.times += 1;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<SinkSummary> {
        self.file.write("\n]}\n")?;
        self.file.finish()?;
        Ok(self.done)
    }
}

fn feature(time: Time, TrackedBox { geo, track_id }: &TrackedBox) -> Value {
    let (west, east) = geo.signed_longitudes_deg();
    json!({
        "type": "Feature",
        // West exceeds east across the antimeridian, as in section 5.2.
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

/// One polygon, or two if the antimeridian splits the box.
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
