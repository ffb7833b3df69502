//! What can be a wind or a pressure of a track.

use super::imported::TrackFormat;
use std::ops::RangeInclusive;

/// What can be a sea-level pressure, Pa.
pub(super) const PRESSURE_PA: RangeInclusive<f64> = 80_000.0..=110_000.0;
/// What can be a wind, m/s.
pub(super) const WIND_M_S: RangeInclusive<f64> = 0.0..=150.0;

/// Tells values from codes for missing ones, and counts what is neither.
///
/// Archives mark what is missing with -1, -99, -999 or -9999, pressures also with 0: such values are unknown, as blank
/// cells are. Others that can be no wind or pressure are unknown, too, but a note says how many there are.
#[derive(Debug, Default)]
pub(super) struct Plausible {
    pressures: usize,
    winds: usize,
}

impl Plausible {
    /// The wind, m/s, if it is one.
    pub fn wind(&mut self, m_s: f64) -> Option<f64> {
        if WIND_M_S.contains(&m_s) {
            return Some(m_s);
        }
        self.winds += usize::from(m_s > 0.0);
        None
    }

    /// The sea-level pressure, Pa, if it is one.
    pub fn pressure(&mut self, pa: f64) -> Option<f64> {
        if PRESSURE_PA.contains(&pa) {
            return Some(pa);
        }
        self.pressures += usize::from(pa > 0.0);
        None
    }

    /// How many values were neither values nor codes for missing ones.
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
        // Pressures in hPa taken for Pa, and a wind that no storm has.
        assert_eq!(plausible.pressure(980.0), None);
        assert_eq!(plausible.wind(151.0), None);
        let notes = plausible.notes(TrackFormat::TecaCsv);
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].contains("1 values of sea-level pressure") && notes[0].contains("TECA"));
    }
}
