//! What each quantity is called, in tables and in sentences.

use super::{About, Kind, Quantity};
use squall_data::Class;

impl Quantity {
    /// A few words beside marks of figures.
    pub fn label(self) -> &'static str {
        match self {
            Self::CycloneTracks
            | Self::RiverTracks
            | Self::ExtratropicalTracks
            | Self::DepressionTracks => "number of tracks",
            Self::Hurricanes => "of hurricane strength",
            Self::MajorHurricanes => "of category 3 to 5",
            Self::CycloneLandfalls | Self::RiverLandfalls => "landfalls",
            Self::CyclonesPresent
            | Self::RiversPresent
            | Self::ExtratropicalsPresent
            | Self::DepressionsPresent => "present at a time",
            Self::CycloneEnergy => "cyclone energy (ACE)",
            Self::CycloneWind | Self::ExtratropicalWind => "strongest wind, mean",
            Self::CycloneWindHigh => "strongest wind, top tenth",
            Self::CyclonePressure | Self::ExtratropicalPressure => "lowest pressure, mean",
            Self::CyclonePressureLow => "lowest pressure, deepest tenth",
            Self::CycloneLatitude => "latitude when strongest",
            Self::CycloneLifetime
            | Self::RiverLifetime
            | Self::ExtratropicalLifetime
            | Self::DepressionLifetime => "lifetime",
            Self::CycloneArea
            | Self::RiverArea
            | Self::ExtratropicalArea
            | Self::DepressionArea => "area",
            Self::CycloneRain | Self::RiverRain => "rain rate inside",
            Self::CycloneWater | Self::RiverWater => "precipitation inside",
            Self::RiverCover => "share of the Earth",
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
        let extratropical = Class::ExtratropicalCyclone;
        let depression = Class::TropicalDepression;
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
        let absolute = |class, name, unit, kind, subject| About {
            relative: false,
            ..about(class, name, unit, kind, subject)
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
                cyclone,
                "min_pressure",
                "hPa",
                Mean,
                "the mean lifetime-minimum pressure of tropical cyclones",
            ),
            Self::CyclonePressureLow => absolute(
                cyclone,
                "min_pressure_p10",
                "hPa",
                Quantile(0.1),
                "the lifetime-minimum pressure that a tenth of the tropical cyclones falls below",
            ),
            Self::CycloneLatitude => absolute(
                cyclone,
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
            Self::ExtratropicalTracks => counted(extratropical, "tracks", "extratropical cyclones"),
            Self::ExtratropicalsPresent => about(
                extratropical,
                "present",
                "at a time",
                PerTime,
                "the mean number of extratropical cyclones present at a time",
            ),
            Self::ExtratropicalWind => about(
                extratropical,
                "max_wind",
                "m/s",
                Mean,
                "the mean lifetime-maximum wind of extratropical cyclones",
            ),
            Self::ExtratropicalPressure => absolute(
                extratropical,
                "min_pressure",
                "hPa",
                Mean,
                "the mean lifetime-minimum pressure of extratropical cyclones",
            ),
            Self::ExtratropicalLifetime => about(
                extratropical,
                "lifetime",
                "days",
                Mean,
                "the mean lifetime of extratropical cyclones",
            ),
            Self::ExtratropicalArea => about(
                extratropical,
                "area",
                "km²",
                Mean,
                "the mean area of extratropical cyclones",
            ),
            Self::DepressionTracks => counted(depression, "tracks", "tropical depressions"),
            Self::DepressionsPresent => about(
                depression,
                "present",
                "at a time",
                PerTime,
                "the mean number of tropical depressions present at a time",
            ),
            Self::DepressionLifetime => about(
                depression,
                "lifetime",
                "days",
                Mean,
                "the mean lifetime of tropical depressions",
            ),
            Self::DepressionArea => about(
                depression,
                "area",
                "km²",
                Mean,
                "the mean area of tropical depressions",
            ),
        }
    }
}
