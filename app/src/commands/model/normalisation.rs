//! Means and standard deviations of fields as ClimateNet's `config.json` lists them.

use crate::failure::Advice;
use serde::Deserialize;
use squall_data::normalise::{ChannelScale, NormalisationMethod};
use squall_data::{DataError, Normalisation, Variable};
use std::collections::BTreeMap;
use std::path::Path;

/// The part of the file that is read.
#[derive(Debug, Deserialize)]
struct Config {
    fields: BTreeMap<String, Moments>,
}

/// Moments of a field over the training data, in the units of the files, which are SI.
#[derive(Debug, Deserialize)]
struct Moments {
    mean: f64,
    std: f64,
}

/// The normalisation of these channels by a file.
///
/// # Errors
/// Unusable input if it is no such file, lacks a channel, or has a deviation by which nothing can be divided.
pub fn read(path: &Path, channels: &[Variable]) -> anyhow::Result<Normalisation> {
    let name = path.display();
    let text = std::fs::read(path).map_err(DataError::io("read", path))?;
    let hint = "expected a file such as ClimateNet's config.json: {\"fields\": {\"TMQ\": {\"mean\": 19.2, \"std\": 15.8}, ...}}";
    let config: Config = serde_json::from_slice(&text)
        .map_err(|error| Advice::input(format!("`{name}`: {error}"), hint))?;
    let scale = |&variable: &Variable| {
        let Some(field) = config.fields.get(variable.name()) else {
            let said = format!("`{name}` has no mean and deviation of {variable}");
            return Err(Advice::input(said, hint));
        };
        let &Moments { mean, std } = field;
        if !(mean.is_finite() && std.is_finite() && std > 0.0) {
            let said = format!(
                "`{name}`: {variable} has mean {mean} and deviation {std}, by which nothing can be scaled"
            );
            return Err(Advice::input(said, hint));
        }
        Ok(ChannelScale {
            variable,
            subtract: mean,
            divide: std,
            missing: mean,
        })
    };
    Ok(Normalisation {
        method: NormalisationMethod::MeanStd,
        channels: channels.iter().map(scale).collect::<anyhow::Result<_>>()?,
    })
}
