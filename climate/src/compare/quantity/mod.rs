//! The compared quantities: annual counts, means and extremes of events and tracks.

mod extreme;
mod table;

pub use extreme::Extreme;

use serde::{Deserialize, Serialize};
use squall_data::Class;

/// How a quantity is computed from the events of some years.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// A sum divided by years.
    PerYear,
    /// A sum divided by analysed times.
    PerTime,
    /// A sum divided by the number of values.
    Mean,
    /// A quantile of a value of all tracks, such as 0.9 for the level that a tenth exceeds.
    Quantile(Extreme, f64),
}

/// A quantity by which two runs are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Tropical cyclones a year.
    CycloneTracks,
    /// Tropical cyclones of hurricane strength a year.
    Hurricanes,
    /// Tropical cyclones of category 3 to 5 a year.
    MajorHurricanes,
    /// Landfalls of tropical cyclones a year.
    CycloneLandfalls,
    /// Tropical cyclones present at a time, in the mean.
    CyclonesPresent,
    /// Accumulated cyclone energy a year.
    CycloneEnergy,
    /// Lifetime-maximum wind of tropical cyclones, in the mean.
    CycloneWind,
    /// Lifetime-maximum wind that a tenth of the tropical cyclones exceeds.
    CycloneWindHigh,
    /// Lifetime-minimum pressure of tropical cyclones, in the mean.
    CyclonePressure,
    /// Lifetime-minimum pressure that a tenth of the tropical cyclones falls below.
    CyclonePressureLow,
    /// Distance from the equator at which tropical cyclones are strongest, in the mean.
    CycloneLatitude,
    /// Lifetime of tropical cyclones, in the mean.
    CycloneLifetime,
    /// Area of tropical cyclones, in the mean.
    CycloneArea,
    /// Rain rate inside tropical cyclones, in the mean.
    CycloneRain,
    /// Precipitation that falls inside tropical cyclones in a year.
    CycloneWater,
    /// Atmospheric rivers a year.
    RiverTracks,
    /// Landfalls of atmospheric rivers a year.
    RiverLandfalls,
    /// Atmospheric rivers present at a time, in the mean.
    RiversPresent,
    /// Share of the Earth under atmospheric rivers.
    RiverCover,
    /// Lifetime of atmospheric rivers, in the mean.
    RiverLifetime,
    /// Area of atmospheric rivers, in the mean.
    RiverArea,
    /// Length of atmospheric rivers, in the mean.
    RiverLength,
    /// Highest precipitable water inside atmospheric rivers, in the mean.
    RiverMoisture,
    /// Highest vapour transport inside atmospheric rivers, in the mean.
    RiverTransport,
    /// Rain rate inside atmospheric rivers, in the mean.
    RiverRain,
    /// Precipitation that falls inside atmospheric rivers in a year.
    RiverWater,
    /// Extratropical cyclones a year.
    ExtratropicalTracks,
    /// Extratropical cyclones present at a time, in the mean.
    ExtratropicalsPresent,
    /// Lifetime-maximum wind of extratropical cyclones, in the mean.
    ExtratropicalWind,
    /// Lifetime-minimum pressure of extratropical cyclones, in the mean.
    ExtratropicalPressure,
    /// Lifetime of extratropical cyclones, in the mean.
    ExtratropicalLifetime,
    /// Area of extratropical cyclones, in the mean.
    ExtratropicalArea,
    /// Tropical depressions a year.
    DepressionTracks,
    /// Tropical depressions present at a time, in the mean.
    DepressionsPresent,
    /// Lifetime of tropical depressions, in the mean.
    DepressionLifetime,
    /// Area of tropical depressions, in the mean.
    DepressionArea,
}

/// The properties of a quantity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QuantityInfo {
    /// The quantity described.
    pub quantity: Quantity,
    /// The name in tables; unique within the class.
    pub name: &'static str,
    /// The class of its events.
    pub class: Class,
    /// Its unit in tables.
    pub unit: &'static str,
    /// How it is computed from events.
    pub kind: Kind,
    /// The column of `tracks.csv` that contains it, if any; [`ANY`] if every such table does.
    pub(super) track_column: Option<&'static str>,
    /// The same for `events.csv`. If both tables can contain it, either is sufficient.
    pub(super) event_column: Option<&'static str>,
    /// The quantity whose values it is computed from: usually itself, but a number of hurricanes comes from winds.
    /// Without any such value it is unknown, not 0.
    pub(super) source: Quantity,
    /// A short label for figures.
    pub label: &'static str,
    /// Its name in a sentence.
    pub subject: &'static str,
    /// Whether the subject is countable and becomes fewer, instead of a value that falls.
    pub counted: bool,
    /// Whether percentages are meaningful.
    pub relative: bool,
}

impl Quantity {
    /// Number of quantities.
    pub const COUNT: usize = Self::DepressionArea as usize + 1;

    /// All quantities, in the order of tables.
    pub fn all() -> impl Iterator<Item = Self> {
        table::TABLE.iter().map(|about| about.quantity)
    }

    /// The properties of the quantity.
    pub fn about(self) -> QuantityInfo {
        table::TABLE[self as usize]
    }
}

/// The column of winds, in both tables.
pub(super) const WIND: &str = "max_wind_m_s";

/// Placeholder for quantities that every table contains.
pub(super) const ANY: &str = "";

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_the_order_is_that_of_the_list() {
        let names: BTreeSet<_> = Quantity::all()
            .map(|q| (q.about().class.code(), q.about().name))
            .collect();
        assert_eq!(names.len(), Quantity::COUNT);
        for (index, quantity) in Quantity::all().enumerate() {
            assert_eq!(quantity as usize, index);
            assert_eq!(quantity.about().quantity, quantity);
        }
    }

    #[test]
    fn the_page_has_every_quantity_and_its_unit() {
        let page = include_str!("../../../../docs/compare.md");
        for quantity in Quantity::all() {
            let QuantityInfo { name, unit, .. } = quantity.about();
            let rows: Vec<&str> = (page.lines())
                .filter(|line| line.starts_with('|') && line.contains(&format!("`{name}`")))
                .collect();
            assert!(
                rows.iter().any(|row| row.contains(unit)),
                "no `{name}` in {unit}: {rows:?}"
            );
        }
    }
}
