//! Converts the units of files to SI: every conversion is a factor and an offset.
//!
//! A new unit, or a new spelling of one, is added to `conversion`.

/// Standard gravity, m s-2: geopotential to geopotential height.
pub(super) const GRAVITY: f64 = 9.80665;
/// Density of water, kg m-3: mass flux of rain to depth of rain.
const WATER: f64 = 1000.0;
/// A day in seconds.
const DAY: f64 = 86_400.0;
/// A knot in m s-1.
const KNOT: f64 = 1852.0 / 3600.0;

/// A conversion from one unit to another: `factor` · value + `offset`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Conversion {
    pub factor: f64,
    pub offset: f64,
}

impl Conversion {
    /// The identity, for two names of the same unit.
    pub(crate) const IDENTITY: Self = Self::by(1.0);

    /// A conversion without an offset.
    pub(super) const fn by(factor: f64) -> Self {
        let offset = 0.0;
        Self { factor, offset }
    }
}

/// The conversion from `found` to `target` (a unit of the variable table); `None` if no exact one exists.
pub(crate) fn conversion(target: &str, found: &str) -> Option<Conversion> {
    let found = tidy(found);
    if found == tidy(target) {
        return Some(Conversion::IDENTITY);
    }
    let factor = |factor: f64| Some(Conversion::by(factor));
    match (target, found.as_str()) {
        ("Pa", "pascal" | "pascals" | "n m-2") => factor(1.0),
        (
            "Pa",
            "hpa" | "mb" | "mbar" | "millibar" | "millibars" | "hectopascal" | "hectopascals",
        ) => factor(100.0),
        ("Pa", "kpa") => factor(1000.0),
        ("K", "kelvin" | "degk" | "deg_k" | "degrees_k") => factor(1.0),
        (
            "K",
            "c" | "deg c" | "degree c" | "degrees c" | "degc" | "deg_c" | "celsius"
            | "degree_celsius" | "degrees_celsius" | "degreec" | "degreesc" | "degree_c"
            | "degrees_c" | "°c",
        ) => Some(Conversion {
            factor: 1.0,
            offset: 273.15,
        }),
        (
            "m s-1",
            "m sec-1" | "meter per second" | "meters per second" | "meters second-1" | "metre s-1"
            | "meter second-1",
        ) => factor(1.0),
        ("m s-1", "knot" | "knots" | "kt" | "kts") => factor(KNOT),
        ("m s-1", "km h-1" | "km hr-1") => factor(1.0 / 3.6),
        ("m s-1", "kg m-2 s-1" | "kg s-1 m-2" | "mm s-1") => factor(1.0 / WATER),
        ("m s-1", "mm day-1" | "mm d-1" | "kg m-2 day-1" | "kg m-2 d-1") => {
            factor(1.0 / WATER / DAY)
        }
        ("m s-1", "mm h-1" | "mm hr-1" | "mm hour-1") => factor(1.0 / WATER / 3600.0),
        ("m s-1", "m day-1") => factor(1.0 / DAY),
        (
            "m",
            "gpm" | "m (geopotential)" | "meter" | "meters" | "metre" | "metres"
            | "geopotential_meter" | "geopotential meter",
        ) => factor(1.0),
        ("m", "m2 s-2" | "j kg-1") => factor(1.0 / GRAVITY),
        ("m", "dam" | "gpdm") => factor(10.0),
        ("m", "km") => factor(1000.0),
        ("kg kg-1", "1" | "" | "g g-1" | "dimensionless") => factor(1.0),
        ("kg kg-1", "g kg-1") => factor(1e-3),
        ("kg kg-1", "%" | "percent") => factor(1e-2),
        ("kg m-2", "mm" | "millimeter" | "millimeters") => factor(1.0),
        ("kg m-2", "m" | "meters") => factor(WATER),
        ("kg m-2", "cm") => factor(10.0),
        _ => None,
    }
}

/// The factor from the unit `found`, as spelled in files, to `target`, a unit of the variable table such as `Pa` or `m
/// s-1`; `None` if the conversion is unknown or also needs an offset, as from °C to K.
///
/// # Example
/// ```
/// use squall_data::archive::unit_factor;
/// assert_eq!(unit_factor("Pa", "hPa"), Some(100.0));
/// assert_eq!(unit_factor("m s-1", "m s**-1"), Some(1.0));
/// assert_eq!(unit_factor("m s-1", "furlongs"), None);
/// ```
pub fn unit_factor(target: &str, found: &str) -> Option<f64> {
    let conversion = conversion(target, found)?;
    (conversion.offset == 0.0).then_some(conversion.factor)
}

/// The factor from a depth of water (or mass per area) to m.
pub(super) fn water_depth(found: &str) -> Option<f64> {
    match tidy(found).as_str() {
        "m" | "meter" | "meters" | "metre" | "metres" => Some(1.0),
        "mm" | "millimeter" | "millimeters" | "kg m-2" => Some(1.0 / WATER),
        _ => None,
    }
}

/// Normalises the spelling of a unit: lower case, single spaces, CF exponents (`m s-1`, not `m/s` or `m s**-1`).
fn tidy(unit: &str) -> String {
    let text = unit
        .trim()
        .to_ascii_lowercase()
        .replace("**", "")
        .replace('^', "")
        .replace(['*', '.'], " ");
    let mut parts = text.split('/');
    let mut tidy: Vec<String> = parts
        .next()
        .unwrap_or("")
        .split_whitespace()
        .map(str::to_string)
        .collect();
    for below in parts {
        for (index, word) in below.split_whitespace().enumerate() {
            let digits = word.trim_start_matches(|c: char| !c.is_ascii_digit());
            // Only the first word after a slash is in the denominator; "kg/m2/s" has two slashes.
            match (index, digits.is_empty()) {
                (0, true) => tidy.push(format!("{word}-1")),
                (0, false) => tidy.push(format!("{}-{digits}", &word[..word.len() - digits.len()])),
                _ => tidy.push(word.to_string()),
            }
        }
    }
    tidy.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_unit() {
        for spelling in ["m s-1", "m/s", "m s**-1", "m s^-1", "m.s-1", " M S-1 "] {
            assert_eq!(
                conversion("m s-1", spelling),
                Some(Conversion::IDENTITY),
                "{spelling}"
            );
        }
        for spelling in ["kg m-2 s-1", "kg/m2/s", "kg m**-2 s**-1", "kg/m^2/s"] {
            assert_eq!(
                conversion("m s-1", spelling),
                Some(Conversion::by(1e-3)),
                "{spelling}"
            );
        }
    }

    #[test]
    fn converted_values_agree_with_a_calculation_by_hand() {
        let convert = |target, found, value: f64| {
            conversion(target, found).map(|c| c.factor * value + c.offset)
        };
        assert_eq!(convert("Pa", "hPa", 1013.25), Some(101_325.0));
        for celsius in ["degC", "degrees_C", "Celsius"] {
            assert_eq!(convert("K", celsius, 0.0), Some(273.15), "{celsius}");
        }
        assert_eq!(convert("m", "m**2 s**-2", 9806.65), Some(1000.0));
        assert!((convert("m s-1", "mm/day", 86.4).unwrap() - 1e-6).abs() < 1e-18);
        assert_eq!(convert("m s-1", "K", 1.0), None);
        assert_eq!(convert("Pa", "", 1.0), None);
    }

    /// By the definitions of the units; 1 kg of water on a m² is 1 mm deep.
    #[test]
    fn every_unit_has_its_size() {
        for (target, found, value, expected) in [
            ("Pa", "kPa", 101.325, 101_325.0),
            ("Pa", "millibars", 1013.25, 101_325.0),
            ("m s-1", "kt", 3600.0, 1852.0),
            ("m s-1", "km/h", 36.0, 10.0),
            ("m s-1", "mm/s", 1.0, 1e-3),
            ("m s-1", "mm/h", 3.6, 1e-6),
            ("m s-1", "kg m-2 day-1", 86.4, 1e-6),
            ("m s-1", "m/day", 86.4, 1e-3),
            ("m", "gpm", 5700.0, 5700.0),
            ("m", "J/kg", 9806.65, 1000.0),
            ("m", "dam", 570.0, 5700.0),
            ("m", "km", 1.5, 1500.0),
            ("kg kg-1", "g/kg", 18.0, 0.018),
            ("kg kg-1", "%", 1.8, 0.018),
            ("kg m-2", "mm", 30.0, 30.0),
            ("kg m-2", "cm", 3.0, 30.0),
            ("kg m-2", "m", 0.03, 30.0),
        ] {
            let Conversion { factor, offset } = conversion(target, found).unwrap();
            let off = (factor * value + offset) / expected - 1.0;
            assert!(off.abs() < 1e-12, "{value} {found} in {target}: {off}");
        }
        // An offset is no factor.
        let factors = ["degC", "kelvin"].map(|found| unit_factor("K", found));
        assert_eq!(factors, [None, Some(1.0)]);
        let depths = ["m", "mm", "kg m**-2", "K"].map(water_depth);
        assert_eq!(depths, [Some(1.0), Some(1e-3), Some(1e-3), None]);
    }
}
