//! Where and when: the whole, each basin, each season, each season of each basin.

use crate::statistics::Basin;

/// Names of the seasons, and how they read.
pub const SEASONS: [(&str, &str); 4] = [
    ("DJF", "December to February"),
    ("MAM", "March to May"),
    ("JJA", "June to August"),
    ("SON", "September to November"),
];

/// A part of the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Everywhere, in all selected months.
    All,
    /// One basin, in all selected months.
    Basin(Basin),
    /// One season, by its place in [`SEASONS`]. December is of the same year as the January before it, unless years of
    /// the comparison begin in December.
    Season(usize),
    /// One season of one basin.
    BasinSeason(Basin, usize),
}

impl Group {
    /// Number of groups.
    pub const COUNT: usize = (1 + Basin::ALL.len()) * (1 + SEASONS.len());

    /// All groups, in the order of tables.
    pub fn all() -> impl Iterator<Item = Self> {
        let basins = Basin::ALL.into_iter().map(Self::Basin);
        let seasons = || 0..SEASONS.len();
        let both = Basin::ALL
            .into_iter()
            .flat_map(move |basin| seasons().map(move |season| Self::BasinSeason(basin, season)));
        std::iter::once(Self::All)
            .chain(basins)
            .chain(seasons().map(Self::Season))
            .chain(both)
    }

    /// Place in [`Self::all`].
    pub fn index(self) -> usize {
        match self {
            Self::All => 0,
            Self::Basin(basin) => 1 + basin as usize,
            Self::Season(season) => 1 + Basin::ALL.len() + season,
            Self::BasinSeason(basin, season) => {
                let before = 1 + Basin::ALL.len() + SEASONS.len();
                before + SEASONS.len() * basin as usize + season
            }
        }
    }

    /// The words in the columns `basin` and `season` of tables.
    pub fn columns(self) -> (&'static str, &'static str) {
        match self {
            Self::All => ("all", "all"),
            Self::Basin(basin) => (basin.code(), "all"),
            Self::Season(season) => ("all", SEASONS[season].0),
            Self::BasinSeason(basin, season) => (basin.code(), SEASONS[season].0),
        }
    }

    /// The end of a sentence about it.
    pub fn words(self) -> String {
        match self {
            Self::All => String::new(),
            Self::Basin(basin) => format!(" in the {}", basin.name()),
            Self::Season(season) => format!(" in {}", SEASONS[season].1),
            Self::BasinSeason(basin, season) => {
                format!(" in the {} in {}", basin.name(), SEASONS[season].1)
            }
        }
    }

    /// The season, where it is of one.
    pub fn season(self) -> Option<usize> {
        match self {
            Self::All | Self::Basin(_) => None,
            Self::Season(season) | Self::BasinSeason(_, season) => Some(season),
        }
    }

    /// The basin, where it is of one.
    pub fn basin(self) -> Option<Basin> {
        match self {
            Self::All | Self::Season(_) => None,
            Self::Basin(basin) | Self::BasinSeason(basin, _) => Some(basin),
        }
    }

    /// Which rows p is adjusted for together: those of the whole, of basins, of seasons, of seasons of basins.
    pub(crate) fn family(self) -> usize {
        2 * usize::from(self.season().is_some()) + usize::from(self.basin().is_some())
    }

    /// Number of families.
    pub(crate) const FAMILIES: usize = 4;
}

/// The season of a month: December, January and February of one calendar year are together, so that no year is lost.
pub fn season_of(month: i64) -> usize {
    (month.rem_euclid(12) / 3) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_has_its_place() {
        for (index, group) in Group::all().enumerate() {
            assert_eq!(group.index(), index);
        }
        assert_eq!(Group::all().count(), Group::COUNT);
        assert_eq!(
            [12, 1, 2, 3, 5, 8, 11].map(season_of),
            [0, 0, 0, 1, 1, 2, 3]
        );
    }
}
