//! The data of the interactive map, as JSON for the page's script.

use crate::map::colour::{CYCLONE_COLOUR, RIVER_COLOUR, hex};
use crate::map::image::base64;
use crate::map::{ColourMap, Projection};
use crate::report::frames::{
    EncodedFrame, FrameEncoder, PSL_RANGE_HPA, WIND_RANGE_M_S, sources_of,
};
use crate::report::numbers::moment;
use crate::report::{ReportInput, SourceKind};
use serde_json::{Value, json};
use squall_data::{Class, LatLonGrid, Time};
use std::collections::HashMap;

fn window(grid: &LatLonGrid, centre_deg: f64) -> Value {
    let map = Projection::of_grid(grid);
    json!({
        "west": map.west_deg,
        "span": map.lon_span_deg,
        "south": map.south_deg,
        "north": map.north_deg,
        "global": map.is_global(),
        "centre": centre_deg,
    })
}

/// Number of objects of each class at each time.
type Counts = HashMap<(Time, Class), usize>;

fn counts(input: &ReportInput, kind: SourceKind) -> Option<Counts> {
    let source = input.sources.iter().find(|s| s.kind == kind)?;
    let mut counts = Counts::new();
    for event in &source.events {
        *counts.entry((event.time, event.class)).or_default() += 1;
    }
    Some(counts)
}

/// Length of the trail behind a track's newest point on the map and in movies, hours.
pub(crate) const TRAIL_HOURS: i64 = 120;

/// The data for the map's script; `frames` are in time order.
pub(crate) fn payload(
    input: &ReportInput,
    encoder: &FrameEncoder,
    frames: &[&EncodedFrame],
    centre_deg: f64,
) -> Value {
    if frames.is_empty() {
        return Value::Null;
    }
    let shown = sources_of(frames);
    let sources: Vec<Value> = shown
        .iter()
        .map(|kind| {
            json!({
                "kind": kind.css(),
                "label": input.label(*kind),
                "finder": input.sources.iter().position(|s| s.kind == *kind),
            })
        })
        .collect();
    let objects: Vec<Option<Counts>> = shown.iter().map(|k| counts(input, *k)).collect();
    let frame_values: Vec<Value> = frames
        .iter()
        .map(|frame| of_frame(frame, input, &shown, &objects))
        .collect();
    let [field, pressure, wind] = encoder.shapes();
    json!({
        "window": window(&input.grid, centre_deg),
        "shape": [field.0, field.1],
        "pressureShape": [pressure.0, pressure.1],
        "windShape": [wind.0, wind.1],
        "pressureRange": [PSL_RANGE_HPA.0, PSL_RANGE_HPA.1],
        "trailHours": TRAIL_HOURS,
        "windRange": [WIND_RANGE_M_S.0, WIND_RANGE_M_S.1],
        "field": {
            "name": input.field.name,
            "long": input.field.long_name,
            "unit": input.field.unit,
            "low": input.field.range.0,
            "high": input.field.range.1,
        },
        "colours": {
            "slate": colours(ColourMap::Slate),
            "viridis": colours(ColourMap::Viridis),
            "cividis": colours(ColourMap::Cividis),
        },
        "classColours": { "1": hex(CYCLONE_COLOUR), "2": hex(RIVER_COLOUR) },
        "sources": sources,
        "frames": frame_values,
    })
}

/// The data of one time. `objects` are those of the sources shown; classes that a source does not detect are null.
fn of_frame(
    frame: &EncodedFrame,
    input: &ReportInput,
    shown: &[SourceKind],
    objects: &[Option<Counts>],
) -> Value {
    let picture = |bytes: &Option<Vec<u8>>| bytes.as_ref().map(|b| base64(b));
    let masks: Vec<_> = shown
        .iter()
        .map(|kind| frame.mask(*kind).map(base64))
        .collect();
    let count =
        |counts: &Counts, class: Class| counts.get(&(frame.time, class)).copied().unwrap_or(0);
    let objects: Vec<_> = shown
        .iter()
        .zip(objects)
        .map(|(kind, counts)| {
            let counts = counts.as_ref()?;
            let known = |class| input.looked_for(*kind, class).then(|| count(counts, class));
            Some(Class::EVENTS.map(known))
        })
        .collect();
    json!({
        "t": moment(frame.time),
        "f": picture(&frame.field),
        "p": picture(&frame.pressure),
        "w": picture(&frame.wind),
        "m": masks,
        "n": objects,
    })
}

/// The colours of a colour map from low to high, six digits each.
fn colours(map: ColourMap) -> String {
    map.table()
        .iter()
        .map(|c| hex(*c)[1..].to_string())
        .collect()
}
