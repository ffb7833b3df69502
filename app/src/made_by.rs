//! Lists the rules or network that made masks, number by number.

use serde_json::{Map, Value};
use squall_data::{Calendar, Class, LatLonGrid};
use std::collections::BTreeMap;
use std::path::Path;

/// Beside boxes that no masks accompany: what masks would say in attributes, as one table of texts.
pub const BESIDE_BOXES: &str = "labels.json";
/// Which classes these boxes are of, by name, with blanks between them.
pub const CLASSES: &str = "classes";
/// The grid of the fields they were found in, in words.
pub const GRID: &str = "grid";
/// The calendar of their times, by its CF name.
pub const CALENDAR: &str = "calendar";
/// What of it tells the rules.
const RULES_OF_BOXES: [&str; 3] = [THRESHOLDS, THRESHOLDS_APPLIED, "warm_core"];

/// What a folder of boxes says beside them; `None` of folders that have no such file, or one that is not ours.
pub fn beside_boxes(folder: &Path) -> Option<BTreeMap<String, String>> {
    let text = std::fs::read(folder.join(BESIDE_BOXES)).ok()?;
    serde_json::from_slice(&text).ok()
}

/// The rules of boxes number by number, as [`numbers`] tells those of masks, of what is said beside them.
pub fn numbers_of_boxes(said: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let rules = RULES_OF_BOXES.into_iter();
    let told = rules.filter_map(|name| Some((name, said.get(name)?.clone())));
    numbers(&told.collect::<Vec<_>>())
}

/// The classes that boxes are of, of what is said beside them.
pub fn classes_of_boxes(said: &BTreeMap<String, String>) -> Vec<Class> {
    let names = said.get(CLASSES).map_or("", String::as_str);
    let named = |class: &Class| names.split(' ').any(|name| name == class.name());
    Class::TRACKED.into_iter().filter(named).collect()
}

/// The classes that a table of boxes is of, as `label --method lows` says beside it; none if nothing says it.
pub fn told_classes(boxes: &Path) -> Vec<Class> {
    let is_table = boxes.file_name().is_some_and(|name| name == "boxes.csv");
    let folder = boxes.parent().filter(|_| is_table);
    let said = folder.and_then(beside_boxes);
    said.map(|said| classes_of_boxes(&said)).unwrap_or_default()
}

/// The calendar of the times of boxes, of what is said beside them.
pub fn calendar_of_boxes(said: &BTreeMap<String, String>) -> Option<Calendar> {
    Calendar::from_cf(said.get(CALENDAR)?)
}

/// The grid that boxes were found on, of what is said beside them; `None` of one that rows and columns do not tell: a
/// part of the globe, or rows that do not begin at the poles.
pub fn grid_of_boxes(said: &BTreeMap<String, String>) -> Option<LatLonGrid> {
    let told = said.get(GRID)?;
    let (rows, columns) = told.split_once(" (")?.0.split_once(" x ")?;
    let grid = LatLonGrid::global(rows.parse().ok()?, columns.parse().ok()?).ok()?;
    (grid.describe() == *told).then_some(grid)
}

/// Mask attributes: the requested thresholds, and those applied, which include all of the former.
const THRESHOLDS: &str = "thresholds";
pub const THRESHOLDS_APPLIED: &str = "thresholds_applied";

/// Mask attribute with the members of the ensemble of `bard` ([`squall_data::mask_file`] uses this name, too).
pub const ENSEMBLE: &str = "ensemble";

/// What there is to say of rivers by `bard` on a grid; `None` if it is the globe, for which that method was made.
pub fn caution_of_percentiles(grid: &LatLonGrid) -> Option<String> {
    (!grid.is_global()).then(|| {
        format!(
            "bard: its percentiles are those of all cells of the grid at each time, and the grid is not the globe but {}: it finds other rivers than on the globe, and far fewer if the domain is the moister one",
            grid.describe()
        )
    })
}

/// Keys of an adapted threshold: the applied value, its value at a quarter of a degree, for which it is published, and
/// the factor between both, if any.
pub const APPLIED: &str = "applied";
pub const AT_QUARTER_DEGREE: &str = "at_quarter_degree";
pub const FACTOR: &str = "factor";

/// Flattens attributes of masks ([`squall_data::mask_file::MaskArchive::made_by`]): tables of numbers become one named
/// number after the other. Thresholds adapted to the grid have their applied value, followed by what it was computed
/// from.
pub fn numbers(attributes: &[(&str, String)]) -> Vec<(String, String)> {
    let mut told = Vec::new();
    let tells_applied = attributes
        .iter()
        .any(|(name, _)| *name == THRESHOLDS_APPLIED);
    let as_applied = |(name, _): &&(&str, String)| !(tells_applied && *name == THRESHOLDS);
    for (name, text) in attributes.iter().filter(as_applied) {
        match serde_json::from_str(text) {
            Ok(Value::Object(table)) => {
                for (key, part) in &table {
                    add_numbers(key.clone(), part, &mut told);
                }
            }
            // `statistics.nc` has one line for each.
            _ => told.push((name.to_string(), text.replace('\n', " "))),
        }
    }
    told
}

/// Those of [`numbers`] that were adapted to the grid, from the applied thresholds.
pub fn adapted_numbers(applied: &str) -> Vec<(String, String)> {
    let mut told = numbers(&[(THRESHOLDS_APPLIED, applied.into())]);
    told.retain(|(_, value)| value.contains(squall_climate::compare::ADAPTED));
    told
}

fn add_numbers(name: String, value: &Value, told: &mut Vec<(String, String)>) {
    match value {
        Value::Object(table) => {
            if let Some(words) = adapted(table) {
                told.push((name, words));
                return;
            }
            for (key, part) in table {
                add_numbers(format!("{name}.{key}"), part, told);
            }
        }
        number => told.push((name, number.to_string())),
    }
}

/// The applied value and its derivation, if the table holds an adapted threshold.
fn adapted(table: &Map<String, Value>) -> Option<String> {
    let (applied, published) = (table.get(APPLIED)?, table.get(AT_QUARTER_DEGREE)?);
    let factor = table.get(FACTOR).map(short);
    let factor = factor.map_or(String::new(), |factor| format!(", times {factor}"));
    Some(format!(
        "{} ({published}{}{factor})",
        short(applied),
        squall_climate::compare::ADAPTED
    ))
}

/// Formats a number with four digits.
fn short(value: &Value) -> String {
    let rounded = (value.as_f64()).and_then(|number| format!("{number:.3e}").parse::<f64>().ok());
    rounded.map_or_else(
        || value.to_string(),
        |number| Value::from(number).to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_tell_the_numbers_of_their_rules_one_by_one() {
        let told = |name: &str, text: &str| {
            let told = numbers(&[(name, text.to_string())]).into_iter();
            told.map(|(name, value)| format!("{name} = {value}"))
                .collect::<Vec<_>>()
        };
        let rules = r#"{"river": {"min_length_km": 1500.0, "on": [1, 2]}, "adapt_to_grid": true}"#;
        let mut found = told("thresholds", rules);
        found.sort();
        assert_eq!(
            found,
            [
                "adapt_to_grid = true",
                "river.min_length_km = 1500.0",
                "river.on = [1,2]",
            ]
        );
        // A hash may look like a number.
        for hash in ["3f2a", "1234"] {
            let line = format!("squall_model_hash = {hash}");
            assert_eq!(told("squall_model_hash", hash), [line]);
        }
        assert_eq!(told("thresholds", "two\nlines"), ["thresholds = two lines"]);
    }

    /// Events of `lows` had been those of the standard calendar and of half a degree.
    #[test]
    fn boxes_tell_their_calendar_and_a_global_grid() {
        let own = LatLonGrid::global(48, 72).unwrap();
        let axis = |first: f64, step: f64, count: u32| -> Vec<f64> {
            (0..count).map(|k| first + step * f64::from(k)).collect()
        };
        let part = LatLonGrid::from_axes(axis(0.0, 2.0, 40), axis(120.0, 2.0, 60)).unwrap();
        let between = LatLonGrid::from_axes(axis(-88.125, 3.75, 48), axis(2.5, 5.0, 72)).unwrap();
        for (grid, is_known) in [(&own, true), (&part.0, false), (&between.0, false)] {
            let said = [(GRID, grid.describe()), (CALENDAR, "noleap".into())];
            let said = said.map(|(name, text)| (name.to_string(), text));
            let said = BTreeMap::from(said);
            assert_eq!(calendar_of_boxes(&said), Some(Calendar::NoLeap));
            let found = grid_of_boxes(&said);
            assert_eq!(found.is_some(), is_known, "{}", grid.describe());
            assert!(found.is_none_or(|found| found.same_as(grid)));
        }
        let untold = BTreeMap::new();
        assert!(calendar_of_boxes(&untold).is_none() && grid_of_boxes(&untold).is_none());
    }

    /// What was asked for had been told as if it had been applied.
    #[test]
    fn numbers_that_were_adapted_to_the_grid_are_told_as_they_were_applied() {
        let asked = r#"{"cyclone": {"rise_pa": 400.0, "share": 0.5}}"#;
        let applied = r#"{"cyclone": {"share": 0.5, "rise_pa": {"applied": 271.75812, "at_quarter_degree": 400.0,
            "factor": 0.6793953}}, "margin": {"applied": 2.25, "at_quarter_degree": 0.0}}"#;
        let attributes = [
            (THRESHOLDS, asked.to_string()),
            ("warm_core", "by heights".to_string()),
            (THRESHOLDS_APPLIED, applied.to_string()),
        ];
        let told = |told: Vec<(String, String)>| {
            let mut lines: Vec<String> = (told.into_iter())
                .map(|(name, value)| format!("{name} = {value}"))
                .collect();
            lines.sort();
            lines
        };
        let adapted = [
            "cyclone.rise_pa = 271.8 (400.0 at a quarter of a degree, times 0.6794)",
            "margin = 2.25 (0.0 at a quarter of a degree)",
        ];
        let others = ["cyclone.share = 0.5", "warm_core = by heights"];
        let mut all = [adapted, others].concat();
        all.sort_unstable();
        assert_eq!(told(numbers(&attributes)), all);
        assert_eq!(told(adapted_numbers(applied)), adapted);
        // Of earlier versions what was asked for is all that is known.
        let earlier = ["cyclone.rise_pa = 400.0", "cyclone.share = 0.5"];
        assert_eq!(told(numbers(&attributes[..1])), earlier);
    }
}
