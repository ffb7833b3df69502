//! Groups of events by region and season: all, each hemisphere, each basin, each season, and each season of each of
//! these regions.

use crate::statistics::Basin;
use squall_data::Class;

/// Codes of the seasons, and their names in sentences.
pub const SEASONS: [(&str, &str); 4] = [
    ("DJF", "December to February"),
    ("MAM", "March to May"),
    ("JJA", "June to August"),
    ("SON", "September to November"),
];

/// A part of the Earth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Region {
    /// From the equator northwards.
    Northern,
    /// South of the equator.
    Southern,
    /// One basin.
    Basin(Basin),
}

impl Region {
    /// Hemispheres.
    const HEMISPHERES: [Self; 2] = [Self::Northern, Self::Southern];

    /// Number of regions.
    const COUNT: usize = Self::HEMISPHERES.len() + Basin::ALL.len();

    /// All regions, in the order of tables.
    pub fn all() -> impl Iterator<Item = Self> {
        let basins = Basin::ALL.into_iter().map(Self::Basin);
        Self::HEMISPHERES.into_iter().chain(basins)
    }

    /// The hemisphere in which a basin lies.
    pub fn hemisphere_of(basin: Basin) -> Self {
        if basin.is_southern() {
            Self::Southern
        } else {
            Self::Northern
        }
    }

    /// Whether the region contains a basin.
    pub fn holds(self, basin: Basin) -> bool {
        match self {
            Self::Basin(own) => own == basin,
            hemisphere => hemisphere == Self::hemisphere_of(basin),
        }
    }

    /// Two-letter code: `NH`, `SH` or that of the basin.
    pub fn code(self) -> &'static str {
        match self {
            Self::Northern => "NH",
            Self::Southern => "SH",
            Self::Basin(basin) => basin.code(),
        }
    }

    /// The name used in sentences.
    pub fn name(self) -> &'static str {
        match self {
            Self::Northern => "northern hemisphere",
            Self::Southern => "southern hemisphere",
            Self::Basin(basin) => basin.name(),
        }
    }

    /// The name for a class, used in tables.
    pub fn name_for(self, class: Class) -> &'static str {
        match self {
            Self::Basin(basin) => basin.name_for(class),
            hemisphere => hemisphere.name(),
        }
    }

    /// Index in [`Self::all`].
    fn index(self) -> usize {
        match self {
            Self::Northern => 0,
            Self::Southern => 1,
            Self::Basin(basin) => Self::HEMISPHERES.len() + basin as usize,
        }
    }
}

impl From<Basin> for Region {
    fn from(basin: Basin) -> Self {
        Self::Basin(basin)
    }
}

/// A subset of the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// The hemisphere or basin; `None` for everywhere.
    pub region: Option<Region>,
    /// The season, as an index into [`SEASONS`]; `None` for all selected months. December belongs to the same year as
    /// the preceding January, unless years of the comparison begin in December.
    pub season: Option<usize>,
}

impl Group {
    /// Everywhere, in all selected months.
    pub const ALL: Self = Self {
        region: None,
        season: None,
    };

    /// Number of groups.
    pub const COUNT: usize = (1 + Region::COUNT) * (1 + SEASONS.len());

    /// One hemisphere or basin, in all selected months.
    pub fn of_region(region: Region) -> Self {
        Self {
            region: Some(region),
            ..Self::ALL
        }
    }

    /// One basin, in all selected months.
    pub fn of_basin(basin: Basin) -> Self {
        Self::of_region(basin.into())
    }

    /// One season, everywhere.
    pub fn of_season(season: usize) -> Self {
        Self {
            season: Some(season),
            ..Self::ALL
        }
    }

    /// One season of one hemisphere or basin.
    pub fn of_both(region: impl Into<Region>, season: usize) -> Self {
        Self {
            region: Some(region.into()),
            season: Some(season),
        }
    }

    /// All groups, in the order of tables.
    pub fn all() -> impl Iterator<Item = Self> {
        let seasons = 0..SEASONS.len();
        let each = seasons.clone();
        let both = Region::all().flat_map(move |region| {
            each.clone()
                .map(move |season| Self::of_both(region, season))
        });
        std::iter::once(Self::ALL)
            .chain(Region::all().map(Self::of_region))
            .chain(seasons.map(Self::of_season))
            .chain(both)
    }

    /// All groups that contain a basin and season.
    pub(crate) fn around(basin: Basin, season: usize) -> impl Iterator<Item = Self> {
        let regions = [
            None,
            Some(Region::hemisphere_of(basin)),
            Some(Region::Basin(basin)),
        ];
        regions.into_iter().flat_map(move |region| {
            [None, Some(season)]
                .into_iter()
                .map(move |season| Self { region, season })
        })
    }

    /// Whether the group contains a basin and season.
    pub(crate) fn holds(self, basin: Basin, season: usize) -> bool {
        self.region.is_none_or(|region| region.holds(basin))
            && self.season.is_none_or(|own| own == season)
    }

    /// Index in [`Self::all`].
    pub fn index(self) -> usize {
        let (regions, seasons) = (Region::COUNT, SEASONS.len());
        match (self.region, self.season) {
            (None, None) => 0,
            (Some(region), None) => 1 + region.index(),
            (None, Some(season)) => 1 + regions + season,
            (Some(region), Some(season)) => 1 + regions + seasons * (1 + region.index()) + season,
        }
    }

    /// The entries in the columns `basin` and `season` of tables.
    pub fn columns(self) -> (&'static str, &'static str) {
        (
            self.region.map_or("all", Region::code),
            self.season.map_or("all", |season| SEASONS[season].0),
        )
    }

    /// The end of a sentence about events of a class in this group.
    pub fn words(self, class: Class) -> String {
        let place = self.region.map(|region| {
            let what = match region {
                Region::Basin(_) if !Basin::is_of(class) => "sector ",
                _ => "",
            };
            format!(" in the {what}{}", region.name_for(class))
        });
        let months = self
            .season
            .map(|season| format!(" in {}", SEASONS[season].1));
        place.into_iter().chain(months).collect()
    }

    /// Whether it is one region or one season, but not one season of one region.
    pub(crate) fn is_region_or_season(self) -> bool {
        self.region.is_some() != self.season.is_some()
    }

    /// The family of rows for which p is adjusted together: the whole, hemispheres and basins, seasons, or seasons of
    /// hemispheres and basins.
    pub(crate) fn family(self) -> usize {
        2 * usize::from(self.season.is_some()) + usize::from(self.region.is_some())
    }

    /// Number of families.
    pub(crate) const FAMILIES: usize = 4;
}

/// The season of a month. December, January and February of one calendar year form one season, so that no year is lost.
pub fn season_of(month: i64) -> usize {
    (month.rem_euclid(12) / 3) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_group_has_its_place() {
        for (index, group) in Group::all().enumerate() {
            assert_eq!(group.index(), index);
        }
        assert_eq!(Group::all().count(), Group::COUNT);
        let words: BTreeSet<_> = Group::all().map(Group::columns).collect();
        assert_eq!(words.len(), Group::COUNT);
        assert_eq!(
            [12, 1, 2, 3, 5, 8, 11].map(season_of),
            [0, 0, 0, 1, 1, 2, 3]
        );
    }

    #[test]
    fn each_basin_is_of_the_hemisphere_in_which_it_lies() {
        let of = |hemisphere: Region| -> Vec<&str> {
            let basins = Basin::ALL.into_iter();
            let held = basins.filter(|basin| hemisphere.holds(*basin));
            held.map(Basin::code).collect()
        };
        assert_eq!(of(Region::Northern), ["NA", "EP", "WP", "NI"]);
        assert_eq!(of(Region::Southern), ["SI", "SP", "SA"]);
        assert!(Region::Northern.holds(Basin::of(0.0, 200.0)));
        assert!(Region::Southern.holds(Basin::of(-0.1, 200.0)));
    }

    #[test]
    fn the_groups_around_a_place_are_those_that_hold_it() {
        for basin in Basin::ALL {
            for season in 0..SEASONS.len() {
                let around: BTreeSet<usize> =
                    Group::around(basin, season).map(Group::index).collect();
                let holding = Group::all().filter(|group| group.holds(basin, season));
                assert_eq!(around, holding.map(Group::index).collect());
                assert_eq!(around.len(), 6);
            }
        }
    }
}
