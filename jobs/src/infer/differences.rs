//! Describes settings that differ, in terms of the options of `squall infer`.

use serde_json::Value;

/// Describes how a setting differs, by its option; `was` is `None` if it was not recorded.
pub(super) fn in_words(key: &str, was: Option<&Value>, is: &Value) -> String {
    let name = match key {
        "model_hashes" => "--model (hash)",
        "views" => "--roll/--mirror",
        "dtype" => "--precision",
        "backend" => "what computes",
        "probabilities" => "--probabilities",
        "artmip" => "--artmip",
        "file_per" => "--file-per",
        "batch" => "--batch",
        "max_missing_share" => "the share of a field that may be missing",
        "bad_input" => "--skip-bad",
        "attributes" => "--attribute",
        "grid_hash" => "the grid (hash)",
        "calendar" => "the calendar",
        other => other,
    };
    let said = |value: &Value| match key {
        "views" => options_of(value),
        "bad_input" => on_or_off(value == "skip"),
        "attributes" => list(value, |pair| list(pair, plain, "="), ", "),
        _ => plain(value),
    };
    let was = was.map_or_else(|| "not known".into(), said);
    format!("{name} was {was}, is {}", said(is))
}

/// The options that produce the views of an ensemble. A view is a number of columns to roll by, and whether it is
/// mirrored.
fn options_of(views: &Value) -> String {
    let views = views.as_array().into_iter().flatten();
    let views: Vec<(u64, bool)> = views
        .filter_map(|view| Some((view.get(0)?.as_u64()?, view.get(1)?.as_bool()?)))
        .collect();
    let rolls = views.iter().filter(|(roll, mirror)| *roll > 0 && !mirror);
    let rolls: Vec<String> = rolls.map(|(roll, _)| roll.to_string()).collect();
    let mut options = Vec::new();
    if !rolls.is_empty() {
        options.push(format!("--roll {}", rolls.join(",")));
    }
    if views.iter().any(|(_, mirror)| *mirror) {
        options.push("--mirror".to_string());
    }
    match options.is_empty() {
        true => on_or_off(false),
        false => options.join(" "),
    }
}

fn on_or_off(on: bool) -> String {
    let word = if on { "on" } else { "off" };
    word.to_string()
}

/// Formats the elements of a list with `said`; `none` if it is empty.
fn list(value: &Value, said: impl Fn(&Value) -> String, between: &str) -> String {
    let members: Vec<String> = value.as_array().into_iter().flatten().map(said).collect();
    match members.is_empty() {
        true => "none".to_string(),
        false => members.join(between),
    }
}

/// Formats a value without JSON punctuation.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(on) => on_or_off(*on),
        Value::Array(_) => list(value, plain, ", "),
        // A choice with a number: times per file.
        Value::Object(choice) => choice.values().map(plain).collect(),
        Value::Null | Value::Number(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn differences_are_said_as_the_options_of_the_command() {
        for (key, was, is, expected) in [
            (
                "views",
                json!([[0, false]]),
                json!([[0, false], [0, true]]),
                "--roll/--mirror was off, is --mirror",
            ),
            (
                "views",
                json!([
                    [0, false],
                    [8, false],
                    [16, false],
                    [0, true],
                    [8, true],
                    [16, true]
                ]),
                json!([[0, false], [8, false]]),
                "--roll/--mirror was --roll 8,16 --mirror, is --roll 8",
            ),
            (
                "probabilities",
                json!(false),
                json!(true),
                "--probabilities was off, is on",
            ),
            (
                "file_per",
                json!("day"),
                json!({"times": 4}),
                "--file-per was day, is 4",
            ),
            (
                "attributes",
                json!([]),
                json!([["institution", "NERSC"], ["contact", "us"]]),
                "--attribute was none, is institution=NERSC, contact=us",
            ),
            (
                "bad_input",
                json!("skip"),
                json!("fail"),
                "--skip-bad was on, is off",
            ),
            ("batch", json!(2), json!(4), "--batch was 2, is 4"),
        ] {
            assert_eq!(in_words(key, Some(&was), &is), expected);
        }
        assert_eq!(
            in_words("dtype", None, &json!("bf16")),
            "--precision was not known, is bf16"
        );
    }
}
