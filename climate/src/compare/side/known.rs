//! The years for which a run knows a number or mean of tracks: tracks without a wind must not count as weak ones, and
//! those with one are not a fair choice of all.

use super::Side;
use crate::compare::group::Group;
use crate::compare::quantity::{Extreme, Kind, Quantity};

/// A year is unknown if a smaller share of its tracks or events has a value. A higher limit would be biased:
/// depressions in best tracks, which are not hurricanes, often have no wind, so only quiet seasons would remain.
const KNOWN_SHARE: f64 = 0.5;

/// A smaller share with values is noted.
const NOTE_BELOW_SHARE: f64 = 0.95;

/// The largest difference between two shares of tracks without a value at which a change can be called significant.
/// Tracks without a value are left out of means, of which they are mostly the weak ones, and count as none in annual
/// numbers, so sides with different shares of them are biased differently.
const MAX_DIFFERENCE: f64 = 0.05;

/// For an annual sum or mean: the quantity that counts all its tracks or events, and the one that counts those with a
/// value. `None` for numbers of tracks, which every table contains, and for means of events, whose fields may be coarser
/// in time than masks.
fn total_and_valued(quantity: Quantity) -> Option<(Quantity, Quantity)> {
    use Quantity as Q;
    Some(match quantity {
        Q::Hurricanes | Q::MajorHurricanes | Q::CycloneWind | Q::CycloneWindHigh => {
            (Q::CycloneTracks, Q::CycloneWind)
        }
        Q::CyclonePressure | Q::CyclonePressureLow => (Q::CycloneTracks, Q::CyclonePressure),
        Q::CycloneLatitude => (Q::CycloneTracks, Q::CycloneLatitude),
        Q::ExtratropicalWind => (Q::ExtratropicalTracks, Q::ExtratropicalWind),
        Q::ExtratropicalPressure => (Q::ExtratropicalTracks, Q::ExtratropicalPressure),
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

/// The sums over years of what is seen and of what has a value.
pub(crate) fn sum_of_years(by_year: &[(f64, f64)]) -> (f64, f64) {
    (by_year.iter()).fold((0.0, 0.0), |sum, year| (sum.0 + year.0, sum.1 + year.1))
}

/// The shares without a value, of all years and of the known ones, if the latter is not negligible.
pub(super) fn shares_without(all: (f64, f64), known: (f64, f64)) -> Option<[f64; 2]> {
    let (seen, valued) = known;
    let shares = || [all, known].map(|(seen, valued)| 1.0 - valued.min(seen) / seen);
    (valued < NOTE_BELOW_SHARE * seen).then(shares)
}

/// Whether a quantity needs a value of each track or event, which some may lack.
pub(crate) fn needs_values(quantity: Quantity) -> bool {
    total_and_valued(quantity).is_some()
}

/// Whether a quantity is a mean or percentile, which tracks without a value do not enter.
pub(crate) fn is_of_values(quantity: Quantity) -> bool {
    matches!(quantity.about().kind, Kind::Mean | Kind::Quantile(..))
}

/// The shares without a value of two samples of tracks, if they differ so much that a change of their number or mean
/// may come from it. Each sample is the number of tracks, and how many of them have a value.
pub(crate) fn unequal_shares(samples: [(f64, f64); 2]) -> Option<[f64; 2]> {
    // Without tracks the share is NaN, which differs from nothing. If fields are coarser than masks, more events count
    // as valued than there are.
    let [a, b] = samples.map(|(seen, valued)| 1.0 - valued.min(seen) / seen);
    ((a - b).abs() > MAX_DIFFERENCE).then_some([a, b])
}

impl Side {
    /// Whether each used year has a known annual number or mean of a group. In years without a track (or event) a
    /// number is known to be 0. Annual numbers are known everywhere or nowhere: in small groups a single track without
    /// a value, mostly a weak one, would remove a quiet year.
    pub(super) fn known_years(&self, quantity: Quantity, group: Group) -> Vec<bool> {
        let group = match quantity.about().kind {
            Kind::PerYear => Group::ALL,
            Kind::PerTime | Kind::Mean | Kind::Quantile(..) => group,
        };
        let index = group.index();
        let count =
            |quantity: Quantity, year: usize| self.sums[quantity as usize][year][index].count;
        let of_year = |year: usize| match total_and_valued(quantity) {
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

    /// The number of tracks in the known years of an extreme, and how many of them have its value.
    pub(crate) fn total_and_valued_of(&self, of: Extreme) -> (f64, f64) {
        let known = self.known_years_of(of);
        let tracks = self.sums[of.tracks() as usize].iter().zip(&known);
        let seen = tracks.filter(|(_, known)| **known);
        let values = self.values(of).iter();
        let valued = values.filter(|(_, key)| known[key.year]).count();
        (seen.map(|(year, _)| year[0].count).sum(), valued as f64)
    }

    /// The used years in which an annual number or mean is unknown.
    pub(crate) fn unknown_years(&self, quantity: Quantity) -> Vec<i64> {
        let known = self.known_years(quantity, Group::ALL);
        let years = self.years.used.iter().zip(known);
        years
            .filter(|(_, known)| !known)
            .map(|(year, _)| *year)
            .collect()
    }

    /// The number of tracks or events of a group summed by an annual number or mean in each known year, and how many of
    /// them have a value; `None` for numbers that every table contains.
    pub(crate) fn total_and_valued_by_year(
        &self,
        quantity: Quantity,
        group: Group,
    ) -> Option<Vec<(f64, f64)>> {
        self.total_and_valued_in(quantity, group, &self.known_years(quantity, group))
    }

    /// The same in given years.
    fn total_and_valued_in(
        &self,
        quantity: Quantity,
        group: Group,
        wanted: &[bool],
    ) -> Option<Vec<(f64, f64)>> {
        let (seen, valued) = total_and_valued(quantity)?;
        let years = (0..self.blocks.len()).filter(|&year| wanted[year]);
        let count = |quantity: Quantity, year: usize| {
            self.sums[quantity as usize][year][group.index()].count
        };
        Some(
            years
                .map(|year| (count(seen, year), count(valued, year)))
                .collect(),
        )
    }

    /// The sums of [`Self::total_and_valued_by_year`].
    pub(super) fn total_and_valued(&self, quantity: Quantity, group: Group) -> Option<(f64, f64)> {
        let by_year = self.total_and_valued_by_year(quantity, group)?;
        Some(sum_of_years(&by_year))
    }

    /// The number of tracks or events of all used years, and how many of them have a value.
    pub(super) fn total_and_valued_of_all(&self, quantity: Quantity) -> Option<(f64, f64)> {
        let all = vec![true; self.blocks.len()];
        let by_year = self.total_and_valued_in(quantity, Group::ALL, &all)?;
        Some(sum_of_years(&by_year))
    }

    /// The shares of tracks or events without a value, of all years and of the known ones, if the latter is not
    /// negligible.
    pub(crate) fn shares_without(&self, quantity: Quantity) -> Option<[f64; 2]> {
        shares_without(
            self.total_and_valued_of_all(quantity)?,
            self.total_and_valued(quantity, Group::ALL)?,
        )
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
        assert_eq!(
            shares_without((40.0, 20.0), (20.0, 15.0)),
            Some([0.5, 0.25])
        );
        assert_eq!(shares_without((40.0, 20.0), (20.0, 19.0)), None);
        assert_eq!(shares_without((0.0, 0.0), (0.0, 0.0)), None);
    }

    #[test]
    fn shares_differ_by_more_than_a_twentieth_and_not_from_none() {
        assert_eq!(
            unequal_shares([(100.0, 75.0), (100.0, 100.0)]),
            Some([0.25, 0.0])
        );
        assert_eq!(unequal_shares([(100.0, 96.0), (100.0, 100.0)]), None);
        assert_eq!(unequal_shares([(100.0, 75.0), (0.0, 0.0)]), None);
        assert_eq!(unequal_shares([(20.0, 22.0), (20.0, 20.0)]), None);
    }
}
