//! Describes the differences between two sets of thresholds.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of listed differences.
const MOST_LISTED: usize = 4;
/// Maximum length of a listed value; for longer ones only the key is listed.
const LONGEST_VALUE: usize = 40;

/// The numbers that differ between two sets of thresholds as JSON.
pub fn changed_numbers(was: &str, is: &str) -> Vec<String> {
    let Ok(was) = serde_json::from_str::<Value>(was) else {
        return vec!["thresholds are not known".into()];
    };
    let is = serde_json::from_str(is).unwrap_or_default();
    let (was, is) = (numbers(&was), numbers(&is));
    let keys: BTreeSet<&String> = was.keys().chain(is.keys()).collect();
    let text = |value: Option<&Value>| value.map_or("not there".into(), Value::to_string);
    let differs = |key: &String| {
        let (was, is) = (was.get(key), is.get(key));
        let told = [text(was), text(is)];
        let long = told.iter().any(|text| text.len() > LONGEST_VALUE);
        (was != is).then(|| {
            if long {
                format!("{key} differs")
            } else {
                format!("{key} was {}, is {}", told[0], told[1])
            }
        })
    };
    keys.into_iter().filter_map(differs).collect()
}

/// Flattens nested tables to full keys, such as `river.min_length_km`.
fn numbers(value: &Value) -> BTreeMap<String, Value> {
    let Value::Object(table) = value else {
        return BTreeMap::from([(String::new(), value.clone())]);
    };
    let nested = table.iter().flat_map(|(key, value)| {
        let inner = numbers(value).into_iter();
        inner.map(move |(rest, value)| {
            if rest.is_empty() {
                (key.clone(), value)
            } else {
                (format!("{key}.{rest}"), value)
            }
        })
    });
    nested.collect()
}

/// The first clauses, and the number of others.
pub fn listed(clauses: &[String]) -> String {
    let shown = &clauses[..clauses.len().min(MOST_LISTED)];
    match clauses.len() - shown.len() {
        0 => shown.join("; "),
        more => format!("{}; and {more} more", shown.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_differ_are_named() {
        let was = r#"{"a": {"b": 1.0, "c": [1]}, "d": 2}"#;
        for (is, expected) in [
            (was, vec![]),
            (
                r#"{"a": {"b": 1.5, "c": [1]}, "d": 2}"#,
                vec!["a.b was 1.0, is 1.5"],
            ),
            (
                r#"{"a": {"b": 1.0, "c": [1]}}"#,
                vec!["d was 2, is not there"],
            ),
            (
                r#"{"a": {"b": 1.0, "c": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17]}, "d": 2}"#,
                vec!["a.c differs"],
            ),
        ] {
            assert_eq!(changed_numbers(was, is), expected, "{is}");
        }
        assert_eq!(changed_numbers("", was), ["thresholds are not known"]);
        assert_eq!(listed(&["a".into(), "b".into()]), "a; b");
        assert_eq!(listed(&vec!["a".into(); 6]), "a; a; a; a; and 2 more");
    }
}
