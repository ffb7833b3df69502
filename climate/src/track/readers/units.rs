//! Names and units of winds and pressures in files of any tool.

use super::plausible::PRESSURE_PA;
use crate::statistics::category::KNOT_M_S;
use squall_data::archive::unit_factor;
use std::collections::BTreeSet;

/// Names of the highest wind near the surface, in lower case; the first one found in a file counts.
pub(super) static WINDS: [&str; 28] = [
    "wind_m_s",
    "wind_kt",
    "wind_kts",
    "wind_knots",
    "max_wind_m_s",
    "max_wind_kt",
    "vmax_m_s",
    "vmax_kt",
    "wind_speed_m_s",
    "wind_speed_kt",
    "wind10",
    "wind10m",
    "wind_10m",
    "wind10_max",
    "wind_speed_10m",
    "ws10",
    "sfcwind",
    "sfcwind_max",
    "max_wind_speed",
    "max_sustained_wind",
    "max_wind",
    "wind_speed",
    "wspd",
    "vmax",
    "wind",
    "wmo_wind",
    "usa_wind",
    "10m_wind_speed",
];

/// Names of the lowest sea-level pressure, likewise.
pub(super) static PRESSURES: [&str; 23] = [
    "slp",
    "psl",
    "msl",
    "mslp",
    "slp_min",
    "psl_min",
    "mslp_min",
    "min_slp",
    "min_psl",
    "min_mslp",
    "pslmin",
    "air_pressure_at_mean_sea_level",
    "air_pressure_at_sea_level",
    "mean_sea_level_pressure",
    "sea_level_pressure",
    "minimum_pressure",
    "min_pressure",
    "central_pressure",
    "pressure",
    "pres",
    "wmo_pres",
    "usa_pres",
    "pmin",
];

/// Names of a model's wind at 10 m in trackers; the unit is m/s.
const MODEL_WIND_NAMES: [&str; 9] = [
    "wind10",
    "wind10m",
    "wind_10m",
    "wind10_max",
    "wind_speed_10m",
    "ws10",
    "sfcwind",
    "sfcwind_max",
    "10m_wind_speed",
];

/// Names of winds of agencies in IBTrACS; the unit is knots.
const AGENCY_WIND_NAMES: [&str; 2] = ["wmo_wind", "usa_wind"];

/// A column with at least this many different winds, all multiples of five, is taken to be an agency's, in knots:
/// agencies round to five knots, and models do not produce integers.
const MIN_MULTIPLES_OF_FIVE: usize = 3;

/// The request in an error about a wind without a unit.
pub(super) const EXPECTED_WIND_UNIT: &str = "a known unit, m/s or knots";

/// The unit in m/s that a name ends with, such as `wind_kt` or `wind (m/s)`, or that its tool uses.
pub(super) fn wind_of_name(name: &str) -> Option<f64> {
    let lower = name.trim().to_ascii_lowercase();
    if MODEL_WIND_NAMES.contains(&lower.as_str()) {
        return Some(1.0);
    }
    if AGENCY_WIND_NAMES.contains(&lower.as_str()) {
        return Some(KNOT_M_S);
    }
    let is_between = |c: char| !c.is_ascii_alphanumeric() && c != '/';
    let words: Vec<&str> = lower.split(is_between).filter(|w| !w.is_empty()).collect();
    match words.as_slice() {
        [_, .., "kt" | "kts" | "knot" | "knots"] => Some(KNOT_M_S),
        [_, .., "m", "s"] | [_, .., "m/s" | "ms" | "mps"] => Some(1.0),
        _ => None,
    }
}

/// The unit in parentheses in a name, as in `wind (km/h)`. TECA has numeric type codes there.
fn unit_in_parentheses(name: &str) -> Option<&str> {
    let (_, rest) = name.split_once('(')?;
    let (unit, _) = rest.split_once(')')?;
    let is_code = unit.bytes().all(|byte| byte.is_ascii_digit());
    (!is_code).then_some(unit)
}

/// The unit in m/s that the name of a wind implies: by its ending, its tool or parentheses; `None` if it implies none.
///
/// # Errors
/// The text in parentheses, if it is not a unit of speed.
pub(super) fn wind_unit_of_name(name: &str) -> Result<Option<f64>, String> {
    if let Some(factor) = wind_of_name(name) {
        return Ok(Some(factor));
    }
    let in_parentheses = unit_in_parentheses(name);
    let factor =
        in_parentheses.map(|unit| unit_factor("m s-1", unit).ok_or_else(|| format!("`{unit}`")));
    factor.transpose()
}

/// Whether the name of a wind contains a number other than its height of 10 m, and therefore refers to another level,
/// as in `wind925`.
pub(super) fn is_aloft(name: &str) -> bool {
    let numbers = name.split(|c: char| !c.is_ascii_digit());
    numbers.filter(|n| !n.is_empty()).any(|n| n != "10")
}

/// A note on columns that resemble winds, if none has a known name.
pub(super) fn unread_wind<'n>(names: impl Iterator<Item = &'n str>) -> Option<String> {
    unread("wind", &["wind", "vmax"], "`wind_kt` or `wind_m_s`", names)
}

/// The same for pressures.
pub(super) fn unread_pressure<'n>(names: impl Iterator<Item = &'n str>) -> Option<String> {
    unread("pressure", &["pres", "slp", "msl"], "`slp`", names)
}

fn unread<'n>(
    what: &str,
    parts: &[&str],
    usual: &str,
    names: impl Iterator<Item = &'n str>,
) -> Option<String> {
    let looks_so = |name: &&str| {
        let lower = name.to_ascii_lowercase();
        parts.iter().any(|part| lower.contains(part))
    };
    let found: Vec<&str> = names.filter(looks_so).take(5).collect();
    (!found.is_empty()).then(|| {
        format!(
            "no {what} is read, because no field has a recognised name: found `{}`; rename the field that holds a track's {what} to {usual}",
            found.join("`, `")
        )
    })
}

/// The unit of a column of winds in m/s, with a note if it is a guess: from the file, from the name, or because only
/// best tracks have multiples of five.
///
/// # Errors
/// The unit found if it is not one of speed, or the range of values if the unit is unknown, since knots and m/s look
/// alike.
pub(super) fn wind_m_s(
    name: &str,
    unit: Option<&str>,
    values: &[f64],
) -> Result<(f64, Option<String>), String> {
    if let Some(unit) = unit {
        let factor = unit_factor("m s-1", unit);
        return factor
            .map(|factor| (factor, None))
            .ok_or_else(|| format!("`{unit}`"));
    }
    if let Some(factor) = wind_unit_of_name(name)? {
        return Ok((factor, None));
    }
    let known = || values.iter().copied().filter(|value| *value > 0.0);
    if known().next().is_none() {
        return Ok((1.0, None));
    }
    let fives: Option<BTreeSet<i64>> = known()
        .map(|value| (value % 5.0 == 0.0).then_some(value as i64))
        .collect();
    if fives.is_some_and(|different| different.len() >= MIN_MULTIPLES_OF_FIVE) {
        let note = format!(
            "`{name}` has no unit; all values are multiples of five, so they are taken as knots: if they are m/s, call it \
             `wind_m_s` or give the variable `units`"
        );
        return Ok((KNOT_M_S, Some(note)));
    }
    let (low, high) = known().fold((f64::INFINITY, 0.0_f64), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    Err(format!("none, of winds from {low} to {high}"))
}

/// The unit of a column of pressures in Pa: from the file, or from the magnitude, since the plausible ranges in hPa and
/// Pa do not overlap.
///
/// # Errors
/// The unit, if it is not one of pressure.
pub(super) fn pressure_pa(unit: Option<&str>, values: &[f64]) -> Result<f64, String> {
    if let Some(unit) = unit {
        return unit_factor("Pa", unit).ok_or_else(|| format!("`{unit}`"));
    }
    let in_unit = |pa: f64| pressures(values, pa);
    Ok(if in_unit(1.0) > in_unit(100.0) {
        1.0
    } else {
        100.0
    })
}

/// How many values are plausible pressures in a unit of `pa` pascals.
pub(super) fn pressures(values: &[f64], pa: f64) -> usize {
    let are = values
        .iter()
        .filter(|value| PRESSURE_PA.contains(&(**value * pa)));
    are.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tells_a_unit_comes_before_a_guess() {
        let fives = [35.0, 40.0, f64::NAN, 65.0];
        let factor = |name: &str, unit: Option<&str>, values: &[f64]| {
            wind_m_s(name, unit, values).map(|(factor, _)| factor)
        };
        assert_eq!(factor("wind", Some("m s**-1"), &fives), Ok(1.0));
        assert_eq!(factor("wind10", None, &fives), Ok(1.0));
        assert_eq!(factor("wind (m/s)", None, &fives), Ok(1.0));
        assert_eq!(factor("Wind_kt", None, &[17.3]), Ok(KNOT_M_S));
        assert_eq!(factor("wind", Some("knots"), &[17.3]), Ok(KNOT_M_S));
        let (guessed, note) = wind_m_s("wind", None, &fives).unwrap();
        assert_eq!(guessed, KNOT_M_S);
        assert!(note.unwrap().contains("taken as knots"));
        assert_eq!(factor("wind", None, &[f64::NAN]), Ok(1.0));
        // Two multiples of five may be rounded m/s; other values are ambiguous.
        assert!(factor("wind", None, &[35.0, 40.0]).is_err());
        let found = factor("wind", None, &[35.0, 40.0, 41.5]).unwrap_err();
        assert!(found.contains("from 35 to 41.5"), "{found}");
        assert_eq!(factor("wind", Some("K"), &fives), Err("`K`".into()));
        // A unit in parentheses counts, too, and an unknown one is not guessed.
        assert_eq!(factor("wind (km/h)", None, &fives), Ok(1.0 / 3.6));
        assert_eq!(factor("wind (mph)", None, &fives), Err("`mph`".into()));
        assert_eq!(factor("wind(6)", None, &fives), Ok(KNOT_M_S));
        // A name that is only a unit is not a wind with that unit.
        assert_eq!(wind_of_name("kt"), None);
    }

    #[test]
    fn winds_of_other_levels_and_names_are_none() {
        for name in ["wind925", "ws850", "wind_speed_2", "wind_100m"] {
            assert!(is_aloft(name), "{name}");
        }
        let near = |name: &&str| !is_aloft(name);
        assert!(WINDS.iter().all(near) && near(&"speed"));
        let note = unread_wind(["lat", "Wind_mph", "wind_radius"].into_iter()).unwrap();
        assert!(note.contains("found `Wind_mph`, `wind_radius`;"), "{note}");
        assert_eq!(unread_wind(["lat", "zs"].into_iter()), None);
        let note = unread_pressure(["mslp_hpa"].into_iter()).unwrap();
        assert!(note.starts_with("no pressure is read"), "{note}");
    }

    #[test]
    fn pressures_tell_their_unit_by_their_size() {
        assert_eq!(pressure_pa(None, &[980.0, f64::NAN, -999.0]), Ok(100.0));
        assert_eq!(pressure_pa(None, &[98_000.0, 0.0]), Ok(1.0));
        assert_eq!(pressure_pa(Some("mb"), &[98_000.0]), Ok(100.0));
        assert_eq!(pressure_pa(Some("m"), &[980.0]), Err("`m`".into()));
    }
}
