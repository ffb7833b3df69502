//! Overrides, `key.path=value`, which replace values of a recipe.

/// Applies overrides to a recipe, in their order.
///
/// # Errors
/// What is wrong with the first override that cannot be applied.
pub(super) fn apply(table: &mut toml::Table, overrides: &[String]) -> Result<(), String> {
    for change in overrides {
        set(table, change)?;
    }
    drop_other_length(table, overrides);
    drop_noted_channels(table, overrides);
    Ok(())
}

/// Whether a key is among the overrides.
fn is_given(overrides: &[String], key: &str) -> bool {
    let key_of = |change: &String| Some(change.split_once('=')?.0.trim() == key);
    overrides.iter().filter_map(key_of).any(|is| is)
}

/// Drops the channel count recorded in a run's recipe.toml if an override changes the channels, because it no longer
/// applies.
fn drop_noted_channels(table: &mut toml::Table, overrides: &[String]) {
    if is_given(overrides, "data.channels")
        && !is_given(overrides, "network.channels_in")
        && let Some(toml::Value::Table(network)) = table.get_mut("network")
    {
        network.remove("channels_in");
    }
}

/// Drops the recipe's length of training if an override gives the length in the other unit.
fn drop_other_length(table: &mut toml::Table, overrides: &[String]) {
    let given = ["training.epochs", "training.steps"].map(|key| is_given(overrides, key));
    let Some(training) = table
        .get_mut("training")
        .and_then(toml::Value::as_table_mut)
    else {
        return;
    };
    match given {
        [true, false] => training.remove("steps"),
        [false, true] => training.remove("epochs"),
        _ => None,
    };
}

/// Applies one `key.path=value`; a value that is not valid TOML is taken as a string.
fn set(table: &mut toml::Table, change: &str) -> Result<(), String> {
    let (path, value) = change
        .split_once('=')
        .ok_or_else(|| format!("override `{change}`: expected key.path=value"))?;
    let value = value.trim();
    let parsed: Result<toml::Table, _> = toml::from_str(&format!("v = {value}"));
    let value = parsed
        .ok()
        .and_then(|mut table| table.remove("v"))
        .unwrap_or_else(|| toml::Value::String(value.to_string()));
    let mut keys: Vec<&str> = path.trim().split('.').map(str::trim).collect();
    let last = keys.pop().unwrap_or_default();
    let is_precision = keys.is_empty() && last == "precision" && value.is_str();
    let mut at = table;
    for key in keys {
        let next = at
            .entry(key)
            .or_insert_with(|| toml::Value::Table(toml::Table::new()));
        // A string for a key that may also be a section, as in a run's recipe.toml.
        if let ("precision", toml::Value::String(word)) = (key, &*next) {
            let compute = ("compute".to_string(), word.clone().into());
            *next = toml::Value::Table(toml::Table::from_iter([compute]));
        }
        at = next
            .as_table_mut()
            .ok_or_else(|| format!("override `{change}`: `{key}` is a value, not a section"))?;
    }
    match at.get_mut(last) {
        // The string replaces `compute`; the rest of the section stays.
        Some(toml::Value::Table(section)) if is_precision => {
            section.insert("compute".to_string(), value);
        }
        _ => {
            at.insert(last.to_string(), value);
        }
    }
    Ok(())
}
