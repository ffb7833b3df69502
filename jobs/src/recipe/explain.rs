//! Turns serde's errors into messages that a user can act on.

use std::num::IntErrorKind;

/// Returns the full keys that an unknown word may stand for.
pub(crate) type KeySuggestions = fn(&str) -> Vec<String>;

/// Line, problem and suggestion: a key from `meant`, or the nearest known word.
pub(crate) fn explain(text: &str, error: &toml::de::Error, meant: KeySuggestions) -> String {
    let reason = explain_without_line(error, meant);
    let Some(span) = error.span() else {
        return reason;
    };
    let line = text[..span.start.min(text.len())].matches('\n').count();
    let shown = text.lines().nth(line).unwrap_or("").trim();
    format!("line {}: {reason}\n  {} | {shown}", line + 1, line + 1)
}

/// Like [`explain`], for text that the user did not write.
pub(super) fn explain_without_line(error: &toml::de::Error, meant: KeySuggestions) -> String {
    let message = error.message().trim();
    let kinds = [
        ("unknown field ", "unknown key"),
        ("unknown variant ", "unknown value"),
    ];
    for (prefix, what) in kinds {
        if let Some((found, known)) = message
            .strip_prefix(prefix)
            .and_then(|rest| rest.split_once(','))
        {
            let found = found.trim().trim_matches('`');
            let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
            let mut near = match what {
                "unknown key" => meant(found),
                _ => Vec::new(),
            };
            if near.is_empty() {
                near.extend(nearest(found, &known).map(str::to_string));
            }
            let hint = match near.is_empty() {
                true => String::new(),
                false => format!("; did you mean `{}`?", near.join("` or `")),
            };
            return format!("{what} `{found}`{hint} (known: {})", known.join(", "));
        }
    }
    of_type(message).unwrap_or_else(|| message.to_string())
}

/// Reports a value of the wrong type in the words of TOML rather than Rust.
fn of_type(message: &str) -> Option<String> {
    if message == "u64 value was too large" {
        return Some(format!("expected at most {} as in all TOML", i64::MAX));
    }
    let kinds = ["invalid type: ", "invalid value: "];
    let rest = kinds
        .into_iter()
        .find_map(|kind| message.strip_prefix(kind))?;
    let (found, expected) = rest.rsplit_once(", expected ")?;
    let (expected, found) = (expected_in_words(expected), found_in_words(found));
    let limit = match expected.starts_with("a whole number") && is_past_toml(found) {
        true => format!(", at most {} as in all TOML", i64::MAX),
        false => String::new(),
    };
    Some(format!("expected {expected}{limit}, found {found}"))
}

/// Whether it is an integer out of TOML's range, which `--set` takes for a word.
fn is_past_toml(found: &str) -> bool {
    let parsed = found.trim_matches('"').parse::<i64>();
    parsed.is_err_and(|error| *error.kind() == IntErrorKind::PosOverflow)
}

/// Describes the expected value.
fn expected_in_words(expected: &str) -> &str {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number of 0 or more",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a string" | "path string" => "a text in quotes",
        "a sequence" => "a list",
        "a tuple of size 2" => "a list of 2",
        "a map" => "a table",
        _ if expected.starts_with("struct ") || expected.contains(" tagged enum ") => "a table",
        _ => expected,
    }
}

/// Describes the value found, without the name of its type.
fn found_in_words(found: &str) -> &str {
    match found {
        "sequence" => "a list",
        "map" => "a table",
        _ => ["integer ", "floating point ", "boolean ", "string "]
            .into_iter()
            .find_map(|kind| found.strip_prefix(kind))
            .map_or(found, |value| value.trim_matches('`')),
    }
}

/// The known word with the smallest edit distance, if that is small for its length.
fn nearest<'a>(found: &str, known: &[&'a str]) -> Option<&'a str> {
    let found = found.to_lowercase();
    let distance = |word: &str| edits(&found, &word.to_lowercase());
    let best = known.iter().min_by_key(|word| distance(word))?;
    (distance(best) <= found.len().max(best.len()).div_ceil(2)).then_some(*best)
}

/// Levenshtein distance.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, a) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_told_in_words_of_a_recipe() {
        for (message, expected) in [
            (
                "invalid type: string \"two, expected x\", expected usize",
                "expected a whole number of 0 or more, found \"two, expected x\"",
            ),
            (
                "invalid type: floating point `2.5`, expected u64",
                "expected a whole number of 0 or more, found 2.5",
            ),
            (
                "invalid type: boolean `true`, expected struct Augmentation",
                "expected a table, found true",
            ),
            (
                "invalid type: string \"18446744073709551615\", expected u64",
                "expected a whole number of 0 or more, at most 9223372036854775807 as in all TOML, found \"18446744073709551615\"",
            ),
            (
                "invalid type: string \"99999999999999999999\", expected a string list",
                "expected a string list, found \"99999999999999999999\"",
            ),
            (
                "invalid type: map, expected a sequence",
                "expected a list, found a table",
            ),
        ] {
            assert_eq!(of_type(message).as_deref(), Some(expected));
        }
        assert_eq!(of_type("extra `=`, expected nothing"), None);
    }

    #[test]
    fn distances_by_hand() {
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(edits("", "abc"), 3);
        assert_eq!(edits("optimizer", "optimiser"), 1);
        let known = ["training", "schedule", "seed"];
        assert_eq!(nearest("shedule", &known), Some("schedule"));
        assert_eq!(nearest("Seed", &known), Some("seed"));
        assert_eq!(nearest("zzzzzzzz", &known), None);
    }
}
