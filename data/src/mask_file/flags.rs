//! Maps the codes of a mask to classes, using the CF flags of its variable.

use crate::Class;
use crate::archive::nc;
use crate::error::{DataError, Result};
use std::path::Path;

/// Words for the classes in CF `flag_meanings`, in lower case.
const WORDS: [(&str, Class); 8] = [
    ("background", Class::Background),
    ("bg", Class::Background),
    ("none", Class::Background),
    ("no_event", Class::Background),
    ("tropical_cyclone", Class::TropicalCyclone),
    ("tc", Class::TropicalCyclone),
    ("atmospheric_river", Class::AtmosphericRiver),
    ("ar", Class::AtmosphericRiver),
];

/// Returns the class of each code, from CF `flag_values` and `flag_meanings`; without them, our own and ClimateNet's
/// codes.
///
/// # Errors
/// [`DataError::BadVariable`] if a meaning is not one of the classes, or the number of values differs.
pub(super) fn codes_of(path: &Path, variable: &netcdf::Variable<'_>) -> Result<Vec<(f64, Class)>> {
    let Some(meanings) = nc::text(variable, "flag_meanings").filter(|text| !text.is_empty()) else {
        let ours = Class::ALL.map(|class| (f64::from(class.code()), class));
        return Ok(ours.to_vec());
    };
    let bad = |expected: String, found: String| {
        DataError::bad_variable(path, variable.name(), expected, found)
    };
    let class = |word: &str| {
        let lower = word.to_ascii_lowercase();
        let known = WORDS.iter().find(|(name, _)| *name == lower);
        known.map(|(_, class)| *class).ok_or_else(|| {
            let names = Class::ALL.map(Class::name).join(", ");
            bad(
                format!("`flag_meanings` of {names}"),
                format!("`{word}` in `{meanings}`"),
            )
        })
    };
    let classes = meanings.split_whitespace().map(class);
    let classes = classes.collect::<Result<Vec<Class>>>()?;
    let values = match variable.attribute("flag_values") {
        Some(_) => nc::numbers(variable, "flag_values"),
        None => (0u8..).map(f64::from).take(classes.len()).collect(),
    };
    if values.len() != classes.len() {
        return Err(bad(
            format!("{} numbers in `flag_values`", classes.len()),
            values.len().to_string(),
        ));
    }
    Ok(values.into_iter().zip(classes).collect())
}

/// Lists the codes and their classes: `0 (background), 1 (tropical cyclone)`.
pub(super) fn described(codes: &[(f64, Class)]) -> String {
    let described =
        |(code, class): &(f64, Class)| format!("{code} ({})", class.name().replace('_', " "));
    codes.iter().map(described).collect::<Vec<_>>().join(", ")
}
