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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// The basin; everywhere if `None`.
    pub basin: Option<Basin>,
    /// The season, by its place in [`SEASONS`]; all selected months if `None`. December is of the same year as the
    /// January before it, unless years of the comparison begin in December.
    pub season: Option<usize>,
}

impl Group {
    /// Everywhere, in all selected months.
    pub const ALL: Self = Self {
        basin: None,
        season: None,
    };

    /// Number of groups.
    pub const COUNT: usize = (1 + Basin::ALL.len()) * (1 + SEASONS.len());

    /// One basin, in all selected months.
    pub fn of_basin(basin: Basin) -> Self {
        Self {
            basin: Some(basin),
            ..Self::ALL
        }
    }

    /// One season, everywhere.
    pub fn of_season(season: usize) -> Self {
        Self {
            season: Some(season),
            ..Self::ALL
        }
    }

    /// One season of one basin.
    pub fn of_both(basin: Basin, season: usize) -> Self {
        Self {
            basin: Some(basin),
            season: Some(season),
        }
    }

    /// All groups, in the order of tables.
    pub fn all() -> impl Iterator<Item = Self> {
        let basins = Basin::ALL.into_iter();
        let seasons = 0..SEASONS.len();
        let each = seasons.clone();
        let both = (basins.clone())
            .flat_map(move |basin| each.clone().map(move |season| Self::of_both(basin, season)));
        std::iter::once(Self::ALL)
            .chain(basins.map(Self::of_basin))
            .chain(seasons.map(Self::of_season))
            .chain(both)
    }

    /// Place in [`Self::all`].
    pub fn index(self) -> usize {
        let (basins, seasons) = (Basin::ALL.len(), SEASONS.len());
        match (self.basin, self.season) {
            (None, None) => 0,
            (Some(basin), None) => 1 + basin as usize,
            (None, Some(season)) => 1 + basins + season,
            (Some(basin), Some(season)) => 1 + basins + seasons * (1 + basin as usize) + season,
        }
    }

    /// The words in the columns `basin` and `season` of tables.
    pub fn columns(self) -> (&'static str, &'static str) {
        (
            self.basin.map_or("all", Basin::code),
            self.season.map_or("all", |season| SEASONS[season].0),
        )
    }

    /// The end of a sentence about it.
    pub fn words(self) -> String {
        let place = self.basin.map(|basin| format!(" in the {}", basin.name()));
        let months = self
            .season
            .map(|season| format!(" in {}", SEASONS[season].1));
        place.into_iter().chain(months).collect()
    }

    /// Whether it is one basin or one season, but not one season of one basin.
    pub(crate) fn is_basin_or_season(self) -> bool {
        self.basin.is_some() != self.season.is_some()
    }

    /// Which rows p is adjusted for together: those of the whole, of basins, of seasons, of seasons of basins.
    pub(crate) fn family(self) -> usize {
        2 * usize::from(self.season.is_some()) + usize::from(self.basin.is_some())
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
