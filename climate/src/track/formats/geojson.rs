//! Tracks as lines and events as points, for geographic information systems.
//!
//! Properties are the columns of the tables; the calendar of their dates is a member of the collection. Numeric cells
//! are numbers, except in text columns. A line that crosses the antimeridian is cut there (RFC 7946, section 3.1.9); a
//! track of one point is a point.

use super::{TEXTS, TextFile, TrackSink};
use crate::error::Result;
use crate::events::Event;
use crate::map::projection::signed_longitude;
use crate::table::{EventReader, Row};
use crate::track::Track;
use serde_json::{Map, Value, json};
use squall_data::Calendar;
use std::path::{Path, PathBuf};

impl TrackSink for Collection {
    fn add(&mut self, track: &Track, points: &[Event]) -> Result<()> {
        let points: Vec<[f64; 2]> = points.iter().map(|p| [p.lon_deg, p.lat_deg]).collect();
        self.feature(track, geometry(&points))
    }

    fn finish(self: Box<Self>) -> Result<()> {
        self.end()
    }
}

/// Writes `events.geojson`: all rows of `events.csv`, including those without a track.
pub(super) fn write_events(folder: &Path, calendar: Calendar) -> Result<PathBuf> {
    let path = folder.join("events.geojson");
    let mut file = Collection::new(&path, calendar)?;
    for event in EventReader::open(folder.join("events.csv"), calendar)? {
        let event = event?;
        let place = geometry(&[[event.lon_deg, event.lat_deg]]);
        file.feature(&event, place)?;
    }
    file.end()?;
    Ok(path)
}

/// Converts the rows of a table to features.
pub(super) struct Collection {
    file: TextFile,
    features: usize,
}

impl Collection {
    pub fn new(path: &Path, calendar: Calendar) -> Result<Self> {
        let mut file = TextFile::create(path)?;
        let calendar = calendar.cf_name();
        file.write(&format!(
            "{{\"type\":\"FeatureCollection\",\"calendar\":\"{calendar}\",\"features\":["
        ))?;
        Ok(Self { file, features: 0 })
    }

    fn feature<T: Row>(&mut self, row: &T, geometry: Value) -> Result<()> {
        let cells = T::columns().into_iter().zip(row.cells());
        let properties: Map<String, Value> = cells
            .map(|(name, text)| (name.to_string(), value(name, text)))
            .collect();
        let feature = json!({"type": "Feature", "geometry": geometry, "properties": properties});
        let comma = if self.features > 0 { "," } else { "" };
        self.features += 1;
        Ok(self.file.write(&format!("{comma}\n{feature}"))?)
    }

    fn end(mut self) -> Result<()> {
        self.file.write("\n]}\n")?;
        Ok(self.file.finish()?)
    }
}

/// The cell of a column as JSON: null, a number or a string.
fn value(column: &str, text: String) -> Value {
    if text.is_empty() {
        return Value::Null;
    }
    if TEXTS.contains(&column) {
        return Value::String(text);
    }
    if let Ok(whole) = text.parse::<i64>() {
        return whole.into();
    }
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => number.into(),
        _ => Value::String(text),
    }
}

/// A point, line or multi-part line through points (longitude, latitude).
fn geometry(points: &[[f64; 2]]) -> Value {
    let rounded = |[lon, lat]: [f64; 2]| {
        let cut = |v: f64| (v * 1e4).round() / 1e4;
        [cut(lon), cut(lat)]
    };
    if let [one] = points {
        let place = rounded([signed_longitude(one[0]), one[1]]);
        return json!({"type": "Point", "coordinates": place});
    }
    let mut parts: Vec<Vec<[f64; 2]>> = vec![Vec::new()];
    let mut last: Option<[f64; 2]> = None;
    for &[lon, lat] in points {
        let here = [signed_longitude(lon), lat];
        if let Some([before, lat_before]) = last
            && (here[0] - before).abs() > 180.0
        {
            // A jump to the west is an eastward crossing of 180, and vice versa.
            let edge = if here[0] < before { 180.0 } else { -180.0 };
            let (to_edge, beyond) = (edge - before, here[0] + edge);
            let share = to_edge / (to_edge + beyond);
            let share = if share.is_finite() { share } else { 0.0 };
            let lat_edge = lat_before + share * (lat - lat_before);
            add(&mut parts, rounded([edge, lat_edge]));
            parts.push(vec![rounded([-edge, lat_edge])]);
        }
        add(&mut parts, rounded(here));
        last = Some(here);
    }
    // A part that stays at a single point on the antimeridian is not a line, unless the track has no other part.
    let moves = |part: &Vec<[f64; 2]>| part.iter().any(|place| *place != part[0]);
    if parts.iter().any(moves) {
        parts.retain(moves);
    }
    match <[_; 1]>::try_from(parts) {
        Ok([line]) => json!({"type": "LineString", "coordinates": line}),
        Err(parts) => json!({"type": "MultiLineString", "coordinates": parts}),
    }
}

fn add(parts: &mut [Vec<[f64; 2]>], place: [f64; 2]) {
    if let Some(part) = parts.last_mut() {
        part.push(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_at_the_antimeridian() {
        let line = geometry(&[[178.0, 10.0], [182.0, 14.0], [179.0, 20.0]]);
        // Halfway along the first segment; after two of three degrees of the second.
        let expected = json!({"type": "MultiLineString", "coordinates": [
            [[178.0, 10.0], [180.0, 12.0]],
            [[-180.0, 12.0], [-178.0, 14.0], [-180.0, 18.0]],
            [[180.0, 18.0], [179.0, 20.0]],
        ]});
        assert_eq!(line, expected);
        // Towards the antimeridian, away from it, and along it: parts that lie only on it are dropped.
        for (points, line) in [
            (
                [[178.0, 10.0], [180.0, 12.0]],
                [[178.0, 10.0], [180.0, 12.0]],
            ),
            (
                [[180.0, 12.0], [178.0, 10.0]],
                [[180.0, 12.0], [178.0, 10.0]],
            ),
            (
                [[180.0, 12.0], [180.0, 12.0]],
                [[-180.0, 12.0], [-180.0, 12.0]],
            ),
        ] {
            let expected = json!({"type": "LineString", "coordinates": line});
            assert_eq!(geometry(&points), expected, "{points:?}");
        }
        let greenwich = geometry(&[[359.0, 0.0], [1.0, 0.0]]);
        assert_eq!(
            greenwich,
            json!({"type": "LineString", "coordinates": [[-1.0, 0.0], [1.0, 0.0]]})
        );
        assert_eq!(
            geometry(&[[200.0, -5.0]]),
            json!({"type": "Point", "coordinates": [-160.0, -5.0]})
        );
    }
}
