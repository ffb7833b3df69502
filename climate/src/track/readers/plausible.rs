//! Plausible ranges of winds and pressures of tracks.

use super::imported::TrackFormat;
use std::ops::RangeInclusive;

/// Plausible sea-level pressures, Pa.
pub(super) const PRESSURE_PA: RangeInclusive<f64> = 80_000.0..=110_000.0;
/// Plausible winds, m/s.
pub(super) const WIND_M_S: RangeInclusive<f64> = 0.0..=150.0;

/// Separates values from missing-value codes, and counts implausible values.
///
/// Archives mark missing values with -1, -99, -999 or -9999, for pressures also with 0; these are unknown, like blank
/// cells. Other values outside the plausible range are unknown, too, but a note counts them.
#[derive(Debug, Default)]
pub(super) struct Plausible {
    pressures: usize,
    winds: usize,
}

impl Plausible {
    /// The wind, m/s, if plausible.
    pub fn wind(&mut self, m_s: f64) -> Option<f64> {
        if WIND_M_S.contains(&m_s) {
            return Some(m_s);
        }
        self.winds += usize::from(m_s > 0.0);
        None
    }

    /// The sea-level pressure, Pa, if plausible.
    pub fn pressure(&mut self, pa: f64) -> Option<f64> {
        if PRESSURE_PA.contains(&pa) {
            return Some(pa);
        }
        self.pressures += usize::from(pa > 0.0);
        None
    }

    /// Notes on values that were neither plausible nor missing-value codes.
    pub fn notes(&self, format: TrackFormat) -> Vec<String> {
        let counts = [
            (self.pressures, "sea-level pressure", "800 to 1100 hPa"),
            (self.winds, "wind", "0 to 150 m/s"),
        ];
        let found = counts.into_iter().filter(|(count, ..)| *count > 0);
        found
            .map(|(count, name, range)| {
                format!(
                    "{count} values of {name} lie outside {range} and are left out: are they in the unit that {} has?",
                    format.name()
                )
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_for_missing_values_need_no_words_and_others_do() {
        let mut plausible = Plausible::default();
        for code in [-1.0, -99.0, -999.0, -9999.0] {
            assert_eq!(plausible.wind(code), None);
            assert_eq!(plausible.pressure(code * 100.0), None);
        }
        assert_eq!(plausible.pressure(0.0), None);
        assert_eq!(plausible.wind(f64::NAN), None);
        assert!(plausible.notes(TrackFormat::TecaCsv).is_empty());
        assert_eq!(plausible.wind(0.0), Some(0.0));
        assert_eq!(plausible.pressure(87_000.0), Some(87_000.0));
        // Pressures in hPa taken for Pa, and an impossible wind.
        assert_eq!(plausible.pressure(980.0), None);
        assert_eq!(plausible.wind(151.0), None);
        let notes = plausible.notes(TrackFormat::TecaCsv);
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].contains("1 values of sea-level pressure") && notes[0].contains("TECA"));
    }
}
