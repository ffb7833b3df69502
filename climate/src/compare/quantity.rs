//! What is compared: counts, means and extremes of events and tracks, year by year.

mod about;

use serde::{Deserialize, Serialize};
use squall_data::Class;

/// How a number follows from the events of some years.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// A sum divided by years.
    PerYear,
    /// A sum divided by analysed times.
    PerTime,
    /// A sum divided by the number of values.
    Mean,
    /// A quantile of all values.
    Quantile(f64),
}

/// A number that two runs are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // `about` says what each is
pub enum Quantity {
    CycloneTracks,
    Hurricanes,
    MajorHurricanes,
    CycloneLandfalls,
    CyclonesPresent,
    CycloneEnergy,
    CycloneWind,
    CycloneWindHigh,
    CyclonePressure,
    CyclonePressureLow,
    CycloneLatitude,
    CycloneLifetime,
    CycloneArea,
    CycloneRain,
    CycloneWater,
    RiverTracks,
    RiverLandfalls,
    RiversPresent,
    RiverCover,
    RiverLifetime,
    RiverArea,
    RiverLength,
    RiverMoisture,
    RiverTransport,
    RiverRain,
    RiverWater,
    ExtratropicalTracks,
    ExtratropicalsPresent,
    ExtratropicalWind,
    ExtratropicalPressure,
    ExtratropicalLifetime,
    ExtratropicalArea,
    DepressionTracks,
    DepressionsPresent,
    DepressionLifetime,
    DepressionArea,
}

/// What is to be said about a quantity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct About {
    /// What all this is about.
    pub quantity: Quantity,
    /// The word in tables; with the class it is unique.
    pub name: &'static str,
    /// Whose number it is.
    pub class: Class,
    /// Its unit in tables.
    pub unit: &'static str,
    /// How it follows from events.
    pub kind: Kind,
    /// A few words beside marks of figures.
    pub label: &'static str,
    /// What it is called in a sentence.
    pub subject: &'static str,
    /// Whether the subject is things that become fewer, rather than a value that falls.
    pub counted: bool,
    /// Whether percent of it mean anything.
    pub relative: bool,
}

impl Quantity {
    /// All quantities, in the order of tables.
    pub const ALL: [Self; 36] = [
        Self::CycloneTracks,
        Self::Hurricanes,
        Self::MajorHurricanes,
        Self::CycloneLandfalls,
        Self::CyclonesPresent,
        Self::CycloneEnergy,
        Self::CycloneWind,
        Self::CycloneWindHigh,
        Self::CyclonePressure,
        Self::CyclonePressureLow,
        Self::CycloneLatitude,
        Self::CycloneLifetime,
        Self::CycloneArea,
        Self::CycloneRain,
        Self::CycloneWater,
        Self::RiverTracks,
        Self::RiverLandfalls,
        Self::RiversPresent,
        Self::RiverCover,
        Self::RiverLifetime,
        Self::RiverArea,
        Self::RiverLength,
        Self::RiverMoisture,
        Self::RiverTransport,
        Self::RiverRain,
        Self::RiverWater,
        Self::ExtratropicalTracks,
        Self::ExtratropicalsPresent,
        Self::ExtratropicalWind,
        Self::ExtratropicalPressure,
        Self::ExtratropicalLifetime,
        Self::ExtratropicalArea,
        Self::DepressionTracks,
        Self::DepressionsPresent,
        Self::DepressionLifetime,
        Self::DepressionArea,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_the_order_is_that_of_the_list() {
        let names: BTreeSet<_> = (Quantity::ALL.iter())
            .map(|q| (q.about().class.code(), q.about().name))
            .collect();
        assert_eq!(names.len(), Quantity::ALL.len());
        for (index, quantity) in Quantity::ALL.into_iter().enumerate() {
            assert_eq!(quantity as usize, index);
            assert_eq!(quantity.about().quantity, quantity);
        }
    }
}
