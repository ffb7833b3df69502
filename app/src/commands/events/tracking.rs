//! How events are joined to tracks: by default, or as given in a file.

use crate::failure::Advice;
use squall_climate::track::TrackerOptions;
use squall_data::DataError;
use std::path::Path;
use toml::{Table, Value};

/// The default numbers, except those given in a TOML file, such as `max_gap_hours` in its table `[tropical_cyclone]`.
///
/// # Errors
/// [`DataError`] if the file cannot be read; [`Advice`] if it names unknown keys or holds invalid numbers.
pub fn read(path: &Path, usual: &TrackerOptions) -> anyhow::Result<TrackerOptions> {
    let text = std::fs::read_to_string(path).map_err(DataError::io("read", path))?;
    let own: Table = toml::from_str(&text).map_err(|error| advice(path, error))?;
    let mut all = Table::try_from(usual)?;
    replace(&mut all, own);
    all.try_into().map_err(|error| advice(path, error))
}

/// Replaces values in nested tables, key by key.
fn replace(usual: &mut Table, own: Table) {
    for (key, value) in own {
        match (usual.get_mut(&key), value) {
            (Some(Value::Table(usual)), Value::Table(own)) => replace(usual, own),
            (_, value) => _ = usual.insert(key, value),
        }
    }
}

fn advice(path: &Path, error: toml::de::Error) -> anyhow::Error {
    Advice::usage(
        format!("`{}`: {error}", path.display()),
        "the keys are in docs/events.md, \"From events to tracks\", in a table for each class, such as \
         [tropical_cyclone]; what is left out has its default",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::{USAGE, classify};

    #[test]
    fn a_file_replaces_what_it_names() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tracking.toml");
        let of = |text: &str| {
            std::fs::write(&file, text).unwrap();
            read(&file, &TrackerOptions::default())
        };
        let usual = TrackerOptions::default();
        assert_eq!(of("").unwrap(), usual);
        // The numbers of the documentation are the defaults.
        let page = include_str!("../../../../docs/events.md");
        let example = page.split("```toml\n").nth(1).unwrap().split("```").next();
        assert_eq!(of(example.unwrap()).unwrap(), usual);
        let mut expected = usual;
        expected.tropical_cyclone.min_duration_hours = 72.0;
        expected.atmospheric_river.min_overlap = 0.5;
        expected.max_step_hours = 12.0;
        let text = "max_step_hours = 12\n[tropical_cyclone]\nmin_duration_hours = 72\n[atmospheric_river]\nmin_overlap = 0.5\n";
        assert_eq!(of(text).unwrap(), expected);
        for (text, said) in [
            ("[tropical_cyclone]\nmin_days = 3\n", "min_days"),
            ("[cyclone]\nmin_duration_hours = 72\n", "cyclone"),
            ("[tropical_cyclone]\nmin_overlap = \"half\"\n", "half"),
            ("[tropical_cyclone\n", "line 1"),
        ] {
            let error = of(text).unwrap_err();
            assert!(error.to_string().contains(said), "{text}: {error}");
            assert_eq!(classify(&error).0, USAGE, "{text}");
        }
    }
}
