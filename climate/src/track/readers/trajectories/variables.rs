//! Finds the variables of a netCDF file by name, and reads values and texts.

use crate::error::{ClimateError, Result};
use netcdf::types::NcVariableType;
use netcdf::{AttributeValue, File, Variable};
use squall_data::DataError;
use std::path::Path;

/// More values than in any track file; limits the memory that a damaged header can request.
pub(in crate::track::readers) const MOST_VALUES: usize = 1 << 27;

/// Values of at least this size are missing-value codes, whatever the attributes say: TRACK's 1e25, netCDF's 9.97e36.
const HUGE: f64 = 1e20;

/// The possible names of a variable, in lower case, of which the first found counts; otherwise a standard name that
/// only one variable has.
pub(super) struct Quantity {
    /// Usual names.
    pub names: &'static [&'static str],
    /// Standard names of the CF conventions.
    pub standard_names: &'static [&'static str],
}

/// Latitude of a centre. TRACK has further latitudes, of its added fields.
pub(super) const LATITUDE: Quantity = Quantity {
    names: &["lat", "latitude", "lat_deg"],
    standard_names: &["latitude"],
};
/// Longitude of a centre.
pub(super) const LONGITUDE: Quantity = Quantity {
    names: &["lon", "longitude", "lon_deg", "long"],
    standard_names: &["longitude"],
};
/// Time of a point.
pub(super) const TIME: Quantity = Quantity {
    names: &["time"],
    standard_names: &["time"],
};

/// An open file.
pub(super) struct TrajectoryFile<'a> {
    /// Its path.
    pub path: &'a Path,
    /// The netCDF handle.
    pub file: &'a File,
}

/// Names of the dimensions of a variable.
pub(super) fn dimensions(variable: &Variable<'_>) -> Vec<String> {
    variable.dimensions().iter().map(|d| d.name()).collect()
}

/// The same without the dimension along the characters of a text.
pub(super) fn text_dimensions(variable: &Variable<'_>) -> Vec<String> {
    let mut names = dimensions(variable);
    if variable.vartype() == NcVariableType::Char {
        names.pop();
    }
    names
}

/// A text attribute that is not blank.
pub(super) fn attribute(variable: &Variable<'_>, name: &str) -> Option<String> {
    let text = match variable.attribute_value(name)?.ok()? {
        AttributeValue::Str(text) => text,
        AttributeValue::Strs(texts) => texts.into_iter().next()?,
        _ => return None,
    };
    let text = text.trim_matches(['\0', ' ']);
    (!text.is_empty()).then(|| text.to_string())
}

fn number(variable: &Variable<'_>, name: &str) -> Option<f64> {
    f64::try_from(variable.attribute_value(name)?.ok()?).ok()
}

fn is_numeric(variable: &Variable<'_>) -> bool {
    matches!(
        variable.vartype(),
        NcVariableType::Int(_) | NcVariableType::Float(_)
    )
}

impl<'a> TrajectoryFile<'a> {
    /// The numeric variable for a quantity, among those with fitting dimensions.
    pub fn find(
        &self,
        wanted: &Quantity,
        fits: impl Fn(&[String]) -> bool,
    ) -> Option<Variable<'a>> {
        let mut fitting: Vec<Variable<'a>> = self
            .file
            .variables()
            .filter(|variable| fits(&dimensions(variable)) && is_numeric(variable))
            .collect();
        let named = wanted.names.iter().find_map(|name| {
            let is_it = |variable: &Variable<'_>| variable.name().eq_ignore_ascii_case(name);
            fitting.iter().position(is_it)
        });
        let standard = || {
            let is_it = |place: &usize| {
                attribute(&fitting[*place], "standard_name")
                    .is_some_and(|name| wanted.standard_names.contains(&name.as_str()))
            };
            let mut places = (0..fitting.len()).filter(is_it);
            let only = places.next()?;
            places.next().is_none().then_some(only)
        };
        let place = named.or_else(standard)?;
        Some(fitting.swap_remove(place))
    }

    /// The values as stored; NaN if missing.
    ///
    /// # Errors
    /// [`DataError::BadVariable`] if it is not numeric, or larger than any track file.
    pub fn stored(&self, variable: &Variable<'_>) -> Result<Vec<f64>> {
        let length = variable.len();
        if length > MOST_VALUES {
            let expected = format!("at most {MOST_VALUES} values");
            return Err(self.bad(variable, &expected, length));
        }
        if length == 0 {
            return Ok(Vec::new());
        }
        if !is_numeric(variable) {
            return Err(self.bad(variable, "numbers", "another type"));
        }
        let values = variable.get_values::<f64, _>(..);
        let mut values = values.map_err(|error| self.bad(variable, "numbers", error))?;
        let codes: Vec<f64> = ["_FillValue", "missing_value"]
            .iter()
            .filter_map(|name| number(variable, name))
            .collect();
        // Attributes and values may differ in precision.
        let is_code = |value: f64| {
            let alike = |code: &f64| (value - code).abs() <= 1e-6 * code.abs();
            codes.iter().any(alike)
        };
        for value in &mut values {
            if !value.is_finite() || value.abs() >= HUGE || is_code(*value) {
                *value = f64::NAN;
            }
        }
        Ok(values)
    }

    /// The values, unpacked by scale and offset; NaN if missing.
    ///
    /// # Errors
    /// Errors of [`Self::stored`].
    pub fn values(&self, variable: &Variable<'_>) -> Result<Vec<f64>> {
        let (scale, offset) = packing(variable);
        let mut values = self.stored(variable)?;
        for value in &mut values {
            *value = *value * scale + offset;
        }
        Ok(values)
    }

    /// Track names from a variable of texts or integers; `None` if missing or blank.
    ///
    /// # Errors
    /// [`DataError::BadVariable`] if it contains neither.
    pub fn names(&self, variable: &Variable<'_>) -> Result<Vec<Option<String>>> {
        let texts = match variable.vartype() {
            NcVariableType::String => self.strings(variable)?,
            NcVariableType::Char => self.characters(variable)?,
            _ => {
                let values = self.stored(variable)?;
                let name = |value: f64| -> Result<Option<String>> {
                    match value {
                        value if value.is_nan() => Ok(None),
                        value if value.fract() == 0.0 => Ok(Some(format!("{value:.0}"))),
                        value => Err(self.bad(variable, "texts or whole numbers", value)),
                    }
                };
                return values.into_iter().map(name).collect();
            }
        };
        let known = |text: String| (!text.is_empty()).then_some(text);
        Ok(texts.into_iter().map(known).collect())
    }

    fn strings(&self, variable: &Variable<'_>) -> Result<Vec<String>> {
        let rank = variable.dimensions().len();
        if rank > 1 || variable.len() > MOST_VALUES {
            return Err(self.bad(variable, "a row of texts", format!("{rank} dimensions")));
        }
        let text = |place: usize| -> Result<String> {
            let at = [place];
            let text = variable.get_string(&at[..rank]);
            let text = text.map_err(|error| self.bad(variable, "texts", error))?;
            Ok(text.trim_matches(['\0', ' ']).to_string())
        };
        (0..variable.len()).map(text).collect()
    }

    fn characters(&self, variable: &Variable<'_>) -> Result<Vec<String>> {
        let width = variable.dimensions().last().map_or(1, |d| d.len());
        if variable.len() > MOST_VALUES {
            return Err(self.bad(variable, "a row of texts", variable.len()));
        }
        if variable.len() == 0 {
            return Ok(Vec::new());
        }
        let bytes = variable.get_raw_values(..);
        let bytes = bytes.map_err(|error| self.bad(variable, "texts", error))?;
        let text = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            text.trim_matches(['\0', ' ']).to_string()
        };
        Ok(bytes.chunks(width).map(text).collect())
    }

    /// An error for an unusable variable.
    pub fn bad(
        &self,
        variable: &Variable<'_>,
        expected: &str,
        found: impl ToString,
    ) -> ClimateError {
        ClimateError::Data(DataError::BadVariable {
            path: self.path.into(),
            variable: variable.name(),
            expected: expected.into(),
            found: found.to_string(),
        })
    }
}

/// Scale and offset of a packed variable.
pub(super) fn packing(variable: &Variable<'_>) -> (f64, f64) {
    let scale = number(variable, "scale_factor").unwrap_or(1.0);
    (scale, number(variable, "add_offset").unwrap_or(0.0))
}
