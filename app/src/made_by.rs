//! By which rules or network masks were made, number by number.

use serde_json::Value;

/// What attributes of masks say ([`squall_data::mask_file::MaskArchive::made_by`]): one number after the other, each
/// with its name, where they hold a table of numbers.
pub fn numbers(attributes: &[(&str, String)]) -> Vec<(String, String)> {
    let mut told = Vec::new();
    for (name, text) in attributes {
        match serde_json::from_str(text) {
            Ok(Value::Object(table)) => {
                for (key, part) in &table {
                    add_numbers(key.clone(), part, &mut told);
                }
            }
            // In `statistics.nc` each has a line.
            _ => told.push((name.to_string(), text.replace('\n', " "))),
        }
    }
    told
}

fn add_numbers(name: String, value: &Value, told: &mut Vec<(String, String)>) {
    match value {
        Value::Object(table) => {
            for (key, part) in table {
                add_numbers(format!("{name}.{key}"), part, told);
            }
        }
        number => told.push((name, number.to_string())),
    }
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
}
