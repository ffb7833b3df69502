//! What is compared: counts, means and extremes of events and tracks, year by year.

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
}

/// What is to be said about a quantity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct About {
    /// The word in tables; with the class it is unique.
    pub name: &'static str,
    /// Whose number it is.
    pub class: Class,
    /// Its unit in tables.
    pub unit: &'static str,
    /// How it follows from events.
    pub kind: Kind,
    /// What it is called in a sentence.
    pub subject: &'static str,
    /// Whether the subject is things that become fewer, rather than a value that falls.
    pub counted: bool,
    /// Whether percent of it mean anything.
    pub relative: bool,
}

impl Quantity {
    /// All quantities, in the order of tables.
    pub const ALL: [Self; 26] = [
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
    ];

    /// A few words beside marks of figures.
    pub fn label(self) -> &'static str {
        match self {
            Self::CycloneTracks | Self::RiverTracks => "number of tracks",
            Self::Hurricanes => "of hurricane strength",
            Self::MajorHurricanes => "of category 3 to 5",
            Self::CycloneLandfalls | Self::RiverLandfalls => "landfalls",
            Self::CyclonesPresent | Self::RiversPresent => "present at a time",
            Self::CycloneEnergy => "cyclone energy (ACE)",
            Self::CycloneWind => "strongest wind, mean",
            Self::CycloneWindHigh => "strongest wind, top tenth",
            Self::CyclonePressure => "lowest pressure, mean",
            Self::CyclonePressureLow => "lowest pressure, deepest tenth",
            Self::CycloneLatitude => "latitude when strongest",
            Self::CycloneLifetime | Self::RiverLifetime => "lifetime",
            Self::CycloneArea | Self::RiverArea => "area",
            Self::CycloneRain | Self::RiverRain => "rain rate inside",
            Self::CycloneWater | Self::RiverWater => "precipitation inside",
            Self::RiverCover => "share of the Earth under",
            Self::RiverLength => "length",
            Self::RiverMoisture => "precipitable water",
            Self::RiverTransport => "vapour transport",
        }
    }

    /// What is to be said about it.
    pub fn about(self) -> About {
        use Kind::{Mean, PerTime, PerYear, Quantile};
        let cyclone = Class::TropicalCyclone;
        let river = Class::AtmosphericRiver;
        let about = |class, name, unit, kind, subject| About {
            name,
            class,
            unit,
            kind,
            subject,
            counted: false,
            relative: true,
        };
        let counted = |class, name, subject| About {
            counted: true,
            ..about(class, name, "a year", PerYear, subject)
        };
        let absolute = |name, unit, kind, subject| About {
            relative: false,
            ..about(cyclone, name, unit, kind, subject)
        };
        match self {
            Self::CycloneTracks => counted(cyclone, "tracks", "tropical cyclones"),
            Self::Hurricanes => counted(cyclone, "hurricanes", "cyclones of hurricane strength"),
            Self::MajorHurricanes => {
                counted(cyclone, "major_hurricanes", "cyclones of category 3 to 5")
            }
            Self::CycloneLandfalls => {
                counted(cyclone, "landfalls", "landfalls of tropical cyclones")
            }
            Self::CyclonesPresent => about(
                cyclone,
                "present",
                "at a time",
                PerTime,
                "the mean number of tropical cyclones present at a time",
            ),
            Self::CycloneEnergy => about(
                cyclone,
                "energy",
                "10⁴ kt² a year",
                PerYear,
                "accumulated cyclone energy",
            ),
            Self::CycloneWind => about(
                cyclone,
                "max_wind",
                "m/s",
                Mean,
                "the mean lifetime-maximum wind of tropical cyclones",
            ),
            Self::CycloneWindHigh => about(
                cyclone,
                "max_wind_p90",
                "m/s",
                Quantile(0.9),
                "the lifetime-maximum wind that a tenth of the tropical cyclones exceeds",
            ),
            Self::CyclonePressure => absolute(
                "min_pressure",
                "hPa",
                Mean,
                "the mean lifetime-minimum pressure of tropical cyclones",
            ),
            Self::CyclonePressureLow => absolute(
                "min_pressure_p10",
                "hPa",
                Quantile(0.1),
                "the lifetime-minimum pressure that a tenth of the tropical cyclones falls below",
            ),
            Self::CycloneLatitude => absolute(
                "latitude_of_max",
                "degrees",
                Mean,
                "the mean distance from the equator at which tropical cyclones are strongest",
            ),
            Self::CycloneLifetime => about(
                cyclone,
                "lifetime",
                "days",
                Mean,
                "the mean lifetime of tropical cyclones",
            ),
            Self::CycloneArea => about(
                cyclone,
                "area",
                "km²",
                Mean,
                "the mean area of tropical cyclones",
            ),
            Self::CycloneRain => about(
                cyclone,
                "rain_rate",
                "mm/day",
                Mean,
                "the mean rain rate inside tropical cyclones",
            ),
            Self::CycloneWater => about(
                cyclone,
                "precipitation",
                "km³ a year",
                PerYear,
                "the precipitation that falls inside tropical cyclones",
            ),
            Self::RiverTracks => counted(river, "tracks", "atmospheric rivers"),
            Self::RiverLandfalls => counted(river, "landfalls", "landfalls of atmospheric rivers"),
            Self::RiversPresent => about(
                river,
                "present",
                "at a time",
                PerTime,
                "the mean number of atmospheric rivers present at a time",
            ),
            Self::RiverCover => about(
                river,
                "cover",
                "% of the Earth",
                PerTime,
                "the share of the Earth under atmospheric rivers",
            ),
            Self::RiverLifetime => about(
                river,
                "lifetime",
                "days",
                Mean,
                "the mean lifetime of atmospheric rivers",
            ),
            Self::RiverArea => about(
                river,
                "area",
                "km²",
                Mean,
                "the mean area of atmospheric rivers",
            ),
            Self::RiverLength => about(
                river,
                "length",
                "km",
                Mean,
                "the mean length of atmospheric rivers",
            ),
            Self::RiverMoisture => about(
                river,
                "max_tmq",
                "kg m⁻²",
                Mean,
                "the mean of the highest precipitable water inside atmospheric rivers",
            ),
            Self::RiverTransport => about(
                river,
                "max_ivt",
                "kg m⁻¹ s⁻¹",
                Mean,
                "the mean of the highest vapour transport inside atmospheric rivers",
            ),
            Self::RiverRain => about(
                river,
                "rain_rate",
                "mm/day",
                Mean,
                "the mean rain rate inside atmospheric rivers",
            ),
            Self::RiverWater => about(
                river,
                "precipitation",
                "km³ a year",
                PerYear,
                "the precipitation that falls inside atmospheric rivers",
            ),
        }
    }
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
        }
    }
}
