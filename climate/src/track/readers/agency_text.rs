//! Shared parsing of the text formats of US agencies: HURDAT2 and ATCF.

use super::imported::ImportedPoint;
use super::kinds::is_other_status;
use super::plausible::Plausible;
use crate::error::{ClimateError, Result};
use crate::statistics::Basin;
use crate::statistics::category::KNOT_M_S;
use squall_data::grid::eastern_longitude;
use squall_data::{DataError, Time};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Stages of a point.
///
/// # Source
/// NRL, ATCF "Best Track/Objective Aid/Wind Radii Format"; NHC's description of HURDAT2, whose Pacific file also has
/// `ET`, `PT`, `TY` and `ST`.
const STATUSES: [&str; 18] = [
    "TD", "TS", "TY", "ST", "TC", "HU", "SD", "SS", "EX", "ET", "PT", "LO", "WV", "DB", "DS", "IN",
    "MD", "XX",
];

/// How far a storm may be on the other side of the equator from its basin: some begin there.
const BEYOND_EQUATOR_DEG: f64 = 5.0;

/// The region of the storms of a basin code of US agencies or of the GFDL vortex tracker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ocean {
    /// The northern hemisphere, and the basin if the code implies it.
    North(Option<Basin>),
    /// The southern hemisphere, and the basin if the code implies it.
    South(Option<Basin>),
    /// `HC`: storms found by the GFDL vortex tracker without a number of an agency.
    Anywhere,
}

impl Ocean {
    /// The codes accepted by [`Self::from_code`], for error messages.
    pub const CODES: &str = "a basin: AL, EP, CP, WP, IO, SH or SL, or the GFDL tracker's SC, EC, BB, NA, SI, SP, AU or HC";

    /// Parses the two letters in front of a storm's number.
    ///
    /// # Source
    /// NRL, as [`STATUSES`]; GFDL vortex tracker, `output_atcfunix`, whose letters are those of storms in `tcvitals`.
    pub fn from_code(code: &str) -> Option<Self> {
        Some(match code {
            "AL" => Self::North(Some(Basin::NorthAtlantic)),
            "EP" | "CP" => Self::North(Some(Basin::EastPacific)),
            // Includes the South and East China Seas.
            "WP" | "SC" | "EC" => Self::North(Some(Basin::WestPacific)),
            // Includes the Bay of Bengal.
            "IO" | "BB" => Self::North(Some(Basin::NorthIndian)),
            // The tracker's Arabian Sea; in IBTrACS the North Atlantic.
            "NA" => Self::North(None),
            // The Indian Ocean, the Pacific, and the seas around Australia between them.
            "SH" | "AU" => Self::South(None),
            "SI" => Self::South(Some(Basin::SouthIndian)),
            "SP" => Self::South(Some(Basin::SouthPacific)),
            "SL" => Self::South(Some(Basin::SouthAtlantic)),
            "HC" => Self::Anywhere,
            _ => return None,
        })
    }

    /// The basin of a storm that begins at a point.
    pub fn basin(self, lon_deg: f64, lat_deg: f64) -> Option<Basin> {
        // It may begin on the other side of the equator.
        let (known, lat_deg) = match self {
            Self::North(known) => (known, lat_deg.max(0.0)),
            Self::South(known) => (known, lat_deg.min(-1.0)),
            Self::Anywhere => return None,
        };
        Some(known.unwrap_or_else(|| Basin::of(lat_deg, lon_deg)))
    }

    /// Whether a storm of this region can be at a latitude.
    pub fn reaches(self, lat_deg: f64) -> bool {
        match self {
            Self::North(_) => lat_deg >= -BEYOND_EQUATOR_DEG,
            Self::South(_) => lat_deg <= BEYOND_EQUATOR_DEG,
            Self::Anywhere => true,
        }
    }

    /// The season of a time: the calendar year; in the south the year of the January within July to June.
    pub fn season(self, time: Time) -> i64 {
        let is_next = matches!(self, Self::South(_)) && time.month() >= 7;
        time.year() + i64::from(is_next)
    }
}

/// How a text writes degrees, before the letter of the hemisphere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Degrees {
    /// With a decimal point, as in `16.5N`.
    Decimal,
    /// In tenths, as in `165N`.
    Tenths,
}

impl Degrees {
    /// Parses an angle, positive with the first letter.
    fn angle(self, text: &str, [positive, negative]: [char; 2]) -> Option<f64> {
        let (number, sign) = match text.strip_suffix(positive) {
            Some(number) => (number, 1.0),
            None => (text.strip_suffix(negative)?, -1.0),
        };
        let ((whole, part), per_degree) = match self {
            Self::Decimal => (number.split_once('.')?, 1.0),
            Self::Tenths => ((number, "0"), 10.0),
        };
        let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !are_digits(whole) || !are_digits(part) {
            return None;
        }
        let value: f64 = number.parse().ok()?;
        Some(sign * value / per_degree)
    }
}

/// Calls `read` with the number and text of every line except blank lines and `#` comments.
///
/// # Errors
/// [`ClimateError::Data`] if the file cannot be read, and errors of `read`.
pub(super) fn each_line(path: &Path, mut read: impl FnMut(u64, &str) -> Result<()>) -> Result<()> {
    let file = File::open(path).map_err(DataError::io("open", path))?;
    for (number, line) in (1u64..).zip(BufReader::new(file).lines()) {
        let line = line.map_err(DataError::io("read", path))?;
        let text = line.trim_start_matches('\u{feff}').trim();
        if !text.is_empty() && !text.starts_with('#') {
            read(number, text)?;
        }
    }
    Ok(())
}

/// Parses a number with exactly `count` digits.
pub(super) fn digits(text: &str, count: usize) -> Option<i64> {
    let are = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    are.then(|| text.parse().ok()).flatten()
}

/// An error for a line with an unexpected layout.
pub(super) fn unexpected_layout(
    path: &Path,
    line: u64,
    expected: &str,
    found: &str,
) -> ClimateError {
    let found: String = found.chars().take(80).collect();
    ClimateError::Table {
        path: path.into(),
        reason: format!("line {line}: expected {expected}, found `{found}`"),
    }
}

/// What a line says of a storm, in the units of agencies.
pub(super) struct Report<'a> {
    pub time: Time,
    pub lon_deg: f64,
    pub lat_deg: f64,
    pub wind_knots: Option<f64>,
    pub pressure_hpa: Option<f64>,
    /// The stage; blank if unknown.
    pub status: &'a str,
}

impl Report<'_> {
    /// The point of the track. Winds are dropped for stages that are not tropical cyclones.
    pub fn point(&self, plausible: &mut Plausible) -> ImportedPoint {
        let knots = self.wind_knots;
        let wind = knots.and_then(|knots| plausible.wind(knots * KNOT_M_S));
        let is_other = is_other_status(self.status);
        let hpa = self.pressure_hpa;
        ImportedPoint {
            time: self.time,
            lon_deg: self.lon_deg,
            lat_deg: self.lat_deg,
            max_wind_m_s: wind.filter(|_| !is_other),
            other_wind: wind.is_some() && is_other,
            min_psl_pa: hpa.and_then(|hpa| plausible.pressure(hpa * 100.0)),
        }
    }
}

/// The comma-separated cells of a line.
pub(super) struct Cells<'a> {
    path: &'a Path,
    line: u64,
    text: &'a str,
    cells: Vec<&'a str>,
}

impl<'a> Cells<'a> {
    /// Splits a line, which may end with a comma.
    pub fn split(path: &'a Path, line: u64, text: &'a str) -> Self {
        let inner = text.strip_suffix(',').unwrap_or(text);
        Self {
            path,
            line,
            text,
            cells: inner.split(',').map(str::trim).collect(),
        }
    }

    /// Number of cells.
    pub fn count(&self) -> usize {
        self.cells.len()
    }

    /// The text of a cell; empty if there is none.
    pub fn get(&self, place: usize) -> &'a str {
        self.cells.get(place).copied().unwrap_or("")
    }

    /// An error for a line with an unexpected layout.
    pub fn unexpected_layout(&self, expected: &str) -> ClimateError {
        unexpected_layout(self.path, self.line, expected, self.text)
    }

    /// An error for a cell.
    pub fn bad(&self, column: &str, place: usize, expected: &'static str) -> ClimateError {
        ClimateError::TableCell {
            path: self.path.into(),
            unit: "line",
            line: self.line,
            column: column.into(),
            expected,
            found: self.get(place).into(),
        }
    }

    /// A non-negative integer; `None` if blank or a missing-value code.
    pub fn measure(&self, column: &str, place: usize) -> Result<Option<f64>> {
        let text = self.get(place);
        if text.is_empty() {
            return Ok(None);
        }
        match text.parse::<i32>() {
            Ok(-9 | -99 | -999) => Ok(None),
            Ok(value) if value >= 0 => Ok(Some(f64::from(value))),
            _ => {
                let expected = "a whole number, or -99 or -999 where it is not known";
                Err(self.bad(column, place, expected))
            }
        }
    }

    /// The stage; blank if the text has none.
    pub fn status(&self, place: usize) -> Result<&'a str> {
        let text = self.get(place);
        if text.is_empty() || STATUSES.contains(&text) {
            return Ok(text);
        }
        Err(self.bad("status", place, "a stage such as TD, TS, HU, EX or LO"))
    }

    /// Longitude, in [0, 360), and latitude, which is in the preceding cell.
    ///
    /// A longitude may exceed 180, like HURDAT2's 358.5W east of Greenwich.
    pub fn position(&self, lat: usize, ocean: Ocean, degrees: Degrees) -> Result<(f64, f64)> {
        let of_lat = degrees.angle(self.get(lat), ['N', 'S']);
        let of_lon = degrees.angle(self.get(lat + 1), ['E', 'W']);
        let (lat_expected, lon_expected) = match degrees {
            Degrees::Decimal => (
                "a latitude up to 90 such as 16.5N",
                "a longitude up to 360 such as 78.9W",
            ),
            Degrees::Tenths => (
                "a latitude in tenths up to 900 such as 165N",
                "a longitude in tenths up to 3600 such as 789W",
            ),
        };
        let lat_deg = of_lat
            .filter(|angle| angle.abs() <= 90.0)
            .ok_or_else(|| self.bad("lat", lat, lat_expected))?;
        if !ocean.reaches(lat_deg) {
            return Err(self.bad("lat", lat, "a latitude in the hemisphere of the basin"));
        }
        let lon_deg = of_lon
            .filter(|angle| angle.abs() <= 360.0)
            .ok_or_else(|| self.bad("lon", lat + 1, lon_expected))?;
        Ok((eastern_longitude(lon_deg), lat_deg))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn degrees_have_one_spelling_each() {
        let decimal = |text| Degrees::Decimal.angle(text, ['E', 'W']);
        let tenths = |text| Degrees::Tenths.angle(text, ['E', 'W']);
        assert_eq!(
            (decimal("78.9W"), tenths("789W")),
            (Some(-78.9), Some(-78.9))
        );
        assert_eq!((decimal("0.5E"), tenths("5E")), (Some(0.5), Some(0.5)));
        // Text in the other notation would be off by a factor of ten.
        assert_eq!((decimal("789W"), tenths("78.9W")), (None, None));
        for text in [
            "", "W", "78.9", "78.9N", "-78.9W", "7e1.0W", ".9W", "78.W", "1.2.3W", "78.9é",
        ] {
            assert_eq!(decimal(text), None, "{text}");
        }
        for text in ["W", "789", "789N", "-789W", "+789W", "infW", "7 89W"] {
            assert_eq!(tenths(text), None, "{text}");
        }
    }

    #[test]
    fn longitudes_may_go_round_the_globe() {
        let position = |text: &str| {
            let cells = Cells::split(Path::new("deck"), 7, text);
            let found = cells.position(
                0,
                Ocean::North(Some(Basin::NorthAtlantic)),
                Degrees::Decimal,
            );
            found.map_err(|error| error.to_string())
        };
        assert_eq!(position("46.0N, 358.5W"), Ok((1.5, 46.0)));
        assert_eq!(position("46.0N, 1.5E,"), Ok((1.5, 46.0)));
        assert_eq!(position("4.0S, 0.0W"), Ok((0.0, -4.0)));
        for (text, parts) in [
            ("46.0N, 360.5W", ["line 7", "`lon`", "`360.5W`"]),
            ("90.1N, 8.5W", ["line 7", "`lat`", "`90.1N`"]),
            ("16.5S, 8.5W", ["line 7", "hemisphere", "`16.5S`"]),
            ("16.5N", ["line 7", "`lon`", "``"]),
        ] {
            let message = position(text).unwrap_err();
            for part in parts {
                assert!(message.contains(part), "{message} lacks {part}");
            }
        }
    }
}
