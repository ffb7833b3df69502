//! The years for which a run knows an annual number: tracks without a wind must not count as weak ones.

use super::Side;
use crate::compare::quantity::{Extreme, Kind, Quantity};

/// A year is unknown if a smaller share of its tracks or events has a value. A higher limit would be biased:
/// depressions in best tracks, which are not hurricanes, often have no wind, so only quiet seasons would remain.
const KNOWN_SHARE: f64 = 0.5;

/// A smaller share with values is noted.
const NOTE_BELOW_SHARE: f64 = 0.95;

/// The quantities that count the items summed by an annual number, and those of them with a value; `None` for numbers
/// of tracks, which every table contains.
fn seen_and_valued(quantity: Quantity) -> Option<(Quantity, Quantity)> {
    use Quantity as Q;
    Some(match quantity {
        Q::Hurricanes | Q::MajorHurricanes => (Q::CycloneTracks, Q::CycloneWind),
        Q::CycloneEnergy => (Q::CycloneTracks, Q::CycloneEnergy),
        Q::CycloneLandfalls => (Q::CycloneTracks, Q::CycloneLandfalls),
        Q::RiverLandfalls => (Q::RiverTracks, Q::RiverLandfalls),
        Q::CycloneWater => (Q::CyclonesPresent, Q::CycloneWater),
        Q::RiverWater => (Q::RiversPresent, Q::RiverWater),
        _ => return None,
    })
}

/// Whether enough items have a value for their sum to be meaningful. Without items nothing is missing.
fn is_known(seen: f64, valued: f64) -> bool {
    valued >= KNOWN_SHARE * seen
}

/// The share without a value, if not negligible.
pub(super) fn share_without((seen, valued): (f64, f64)) -> Option<f64> {
    (valued < NOTE_BELOW_SHARE * seen).then(|| 1.0 - valued / seen)
}

impl Side {
    /// Whether each used year has a known annual number. In years without a track (or event) it is known to be 0.
    pub(super) fn known_years(&self, quantity: Quantity) -> Vec<bool> {
        let count = |quantity: Quantity, year: usize| self.sums[quantity as usize][year][0].count;
        let of_year = |year: usize| match seen_and_valued(quantity) {
            Some((seen, valued)) => is_known(count(seen, year), count(valued, year)),
            None => true,
        };
        (0..self.blocks.len()).map(of_year).collect()
    }

    /// Whether enough tracks of each used year have the value of an extreme.
    pub(super) fn known_years_of(&self, of: Extreme) -> Vec<bool> {
        let mut valued = vec![0.0; self.blocks.len()];
        (self.values(of).iter()).for_each(|(_, key)| valued[key.year] += 1.0);
        let tracks = &self.sums[of.tracks() as usize];
        (tracks.iter().zip(valued))
            .map(|(year, valued)| is_known(year[0].count, valued))
            .collect()
    }

    /// The used years in which an annual number is unknown.
    pub(crate) fn unknown_years(&self, quantity: Quantity) -> Vec<i64> {
        if quantity.about().kind != Kind::PerYear {
            return Vec::new();
        }
        let years = self.years.used.iter().zip(self.known_years(quantity));
        years
            .filter(|(_, known)| !known)
            .map(|(year, _)| *year)
            .collect()
    }

    /// The number of tracks or events summed by an annual number in the known years, and how many of them have a value;
    /// `None` for numbers that every table contains.
    pub(super) fn seen_and_valued(&self, quantity: Quantity) -> Option<(f64, f64)> {
        let (seen, valued) = seen_and_valued(quantity)?;
        let known = self.known_years(quantity);
        let years = || (0..self.blocks.len()).filter(|&year| known[year]);
        let count = |quantity: Quantity| -> f64 {
            let sums = &self.sums[quantity as usize];
            years().map(|year| sums[year][0].count).sum()
        };
        Some((count(seen), count(valued)))
    }

    /// The share of tracks or events of the known years without a value, if not negligible.
    pub(crate) fn share_without(&self, quantity: Quantity) -> Option<f64> {
        share_without(self.seen_and_valued(quantity)?)
    }

    /// Number of known years of each block.
    pub(super) fn years_by_block(&self, known: &[bool]) -> Vec<f64> {
        let mut years = vec![0.0; self.blocks()];
        for (&block, known) in self.blocks.iter().zip(known) {
            years[block] += f64::from(u8::from(*known));
        }
        years
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_year_is_known_where_half_have_a_value_or_there_is_none() {
        assert!(is_known(0.0, 0.0) && is_known(20.0, 20.0) && is_known(20.0, 10.0));
        assert!(!is_known(20.0, 9.0) && !is_known(1.0, 0.0));
        // If fields are coarser than masks, a row with rain also counts for the times between.
        assert!(is_known(20.0, 21.0));
        assert_eq!(share_without((20.0, 15.0)), Some(0.25));
        assert_eq!(share_without((20.0, 19.0)), None);
        assert_eq!(share_without((0.0, 0.0)), None);
    }
}
