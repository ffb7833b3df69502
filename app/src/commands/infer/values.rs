//! Parses option values of `squall infer`.

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::Error as WordError;
use squall_data::store::Split;
use squall_jobs::infer::Strips;
use squall_model::Precision;

/// Parses a precision, as named in recipes.
pub fn precision(word: &str) -> Result<Precision, WordError> {
    Precision::deserialize(word.into_deserializer())
}

/// Parses the name of a store's split.
pub fn split(word: &str) -> Result<Split, WordError> {
    Split::deserialize(word.into_deserializer())
}

/// Parses a number of strips, or auto.
pub fn strips(word: &str) -> Result<Strips, String> {
    match word {
        "auto" => Ok(Strips::Auto(None)),
        number => (number.parse().map(Strips::Count))
            .map_err(|_| format!("expected a number from 1 on or auto, found {number}")),
    }
}

/// Maximum batch size: more than fits into any memory.
const MOST_SAMPLES: usize = 1 << 24;

/// Parses a batch size; 0 for auto.
pub fn batch(word: &str) -> Result<usize, String> {
    match word {
        "auto" => Ok(0),
        number => (number.parse::<usize>().ok())
            .filter(|samples| (1..=MOST_SAMPLES).contains(samples))
            .ok_or_else(|| {
                format!("expected a number from 1 to {MOST_SAMPLES} or auto, found {number}")
            }),
    }
}

/// Parses gigabytes to bytes.
pub fn gigabytes(word: &str) -> Result<u64, String> {
    match word.parse::<f64>() {
        Ok(size) if size > 0.0 && size.is_finite() => Ok((size * 1e9) as u64),
        _ => Err(format!("expected gigabytes, above 0, found {word}")),
    }
}

/// Parses name and text of a global attribute; the name must be valid in netCDF and not one that squall writes itself.
pub fn attribute(word: &str) -> Result<(String, String), String> {
    let Some((name, value)) = word.split_once('=') else {
        return Err(format!("expected NAME=TEXT, found {word}"));
    };
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    if !name.starts_with(|letter: char| letter.is_ascii_alphabetic()) || !name.chars().all(is_part)
    {
        return Err(format!(
            "expected a name of letters, digits and underscores that begins with a letter, found `{name}`"
        ));
    }
    let lower = name.to_ascii_lowercase();
    let is_ours = ["conventions", "source", "history"].contains(&lower.as_str());
    if is_ours || lower.starts_with("squall_") {
        return Err(format!("`{name}` is written by squall itself"));
    }
    Ok((name.to_string(), value.to_string()))
}

#[cfg(test)]
mod tests {
    use super::{attribute, batch};

    #[test]
    fn a_batch_is_a_number_of_samples_or_auto() {
        assert_eq!(batch("auto"), Ok(0));
        assert_eq!(batch("8"), Ok(8));
        for word in ["0", "-1", "many", "1000000000000000000"] {
            let said = batch(word).unwrap_err();
            assert!(said.contains("from 1 to 16777216 or auto"), "{said}");
        }
    }

    #[test]
    fn attributes_that_no_file_takes_or_that_are_ours_are_refused() {
        let pair = ("institution".to_string(), "here = there".to_string());
        assert_eq!(attribute("institution=here = there"), Ok(pair));
        for word in ["institution", "=here", "a/b=1", "2nd=1", "_x=1", "a b=1"] {
            let said = attribute(word).unwrap_err();
            assert!(said.starts_with("expected"), "{said}");
        }
        for word in [
            "Conventions=CF-9",
            "history=",
            "squall_model=mine",
            "Source=x",
        ] {
            let said = attribute(word).unwrap_err();
            assert!(said.contains("written by squall itself"), "{said}");
        }
    }
}
