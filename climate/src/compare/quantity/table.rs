//! The properties of each quantity: its columns and computation, and its names in tables and sentences.

use super::Kind::{Mean, PerTime, PerYear, Quantile};
use super::Quantity::{self, *};
use super::{ANY, Extreme, Kind, QuantityInfo, WIND};
use squall_data::Class;

const TC: Class = Class::TropicalCyclone;
const AR: Class = Class::AtmosphericRiver;
const ETC: Class = Class::ExtratropicalCyclone;
const TD: Class = Class::TropicalDepression;

/// Properties of all quantities, in the order of [`Quantity`].
pub(super) static TABLE: [QuantityInfo; Quantity::COUNT] = [
    counted(CycloneTracks, TC, "tracks")
        .of_tracks(ANY)
        .label("number of tracks")
        .subject("tropical cyclones"),
    counted(Hurricanes, TC, "hurricanes")
        .of_tracks(WIND)
        .of_events(WIND)
        .computed_from(CycloneWind)
        .label("of hurricane strength")
        .subject("cyclones of hurricane strength"),
    counted(MajorHurricanes, TC, "major_hurricanes")
        .of_tracks(WIND)
        .of_events(WIND)
        .computed_from(CycloneWind)
        .label("of category 3 to 5")
        .subject("cyclones of category 3 to 5"),
    counted(CycloneLandfalls, TC, "landfalls")
        .of_tracks("landfalls")
        .label("landfalls")
        .subject("landfalls of tropical cyclones"),
    about(CyclonesPresent, TC, "present", "at a time", PerTime)
        .of_events(ANY)
        .label("present at a time")
        .subject("the mean number of tropical cyclones present at a time"),
    about(CycloneEnergy, TC, "energy", "10⁴ kt² a year", PerYear)
        .of_events(WIND)
        .label("cyclone energy (ACE)")
        .subject("accumulated cyclone energy"),
    about(CycloneWind, TC, "max_wind", "m/s", Mean)
        .of_tracks(WIND)
        .of_events(WIND)
        .label("strongest wind, mean")
        .subject("the mean lifetime-maximum wind of tropical cyclones"),
    about(
        CycloneWindHigh,
        TC,
        "max_wind_p90",
        "m/s",
        Quantile(Extreme::CycloneWind, 0.9),
    )
    .of_tracks(WIND)
    .of_events(WIND)
    .label("strongest wind, top tenth")
    .subject("the lifetime-maximum wind that a tenth of the tropical cyclones exceeds"),
    about(CyclonePressure, TC, "min_pressure", "hPa", Mean)
        .of_tracks("min_psl_pa")
        .label("lowest pressure, mean")
        .subject("the mean lifetime-minimum pressure of tropical cyclones")
        .absolute(),
    about(
        CyclonePressureLow,
        TC,
        "min_pressure_p10",
        "hPa",
        Quantile(Extreme::CyclonePressure, 0.1),
    )
    .of_tracks("min_psl_pa")
    .label("lowest pressure, deepest tenth")
    .subject("the lifetime-minimum pressure that a tenth of the tropical cyclones falls below")
    .absolute(),
    about(CycloneLatitude, TC, "latitude_of_max", "degrees", Mean)
        .of_events(WIND)
        .label("latitude when strongest")
        .subject("the mean distance from the equator at which tropical cyclones are strongest")
        .absolute(),
    about(CycloneLifetime, TC, "lifetime", "days", Mean)
        .of_tracks("end_time")
        .label("lifetime")
        .subject("the mean lifetime of tropical cyclones"),
    about(CycloneArea, TC, "area", "km²", Mean)
        .of_events("area_km2")
        .label("area")
        .subject("the mean area of tropical cyclones"),
    about(CycloneRain, TC, "rain_rate", "mm/day", Mean)
        .of_events("mean_prect_m_s")
        .label("rain rate inside")
        .subject("the mean rain rate inside tropical cyclones"),
    about(CycloneWater, TC, "precipitation", "km³ a year", PerYear)
        .of_events("precipitation_km3")
        .label("precipitation inside")
        .subject("the precipitation that falls inside tropical cyclones"),
    counted(RiverTracks, AR, "tracks")
        .of_tracks(ANY)
        .label("number of tracks")
        .subject("atmospheric rivers"),
    counted(RiverLandfalls, AR, "landfalls")
        .of_tracks("landfalls")
        .label("landfalls")
        .subject("landfalls of atmospheric rivers"),
    about(RiversPresent, AR, "present", "at a time", PerTime)
        .of_events(ANY)
        .label("present at a time")
        .subject("the mean number of atmospheric rivers present at a time"),
    about(RiverCover, AR, "cover", "% of the Earth", PerTime)
        .of_events("area_km2")
        .label("share of the Earth")
        .subject("the share of the Earth under atmospheric rivers"),
    about(RiverLifetime, AR, "lifetime", "days", Mean)
        .of_tracks("end_time")
        .label("lifetime")
        .subject("the mean lifetime of atmospheric rivers"),
    about(RiverArea, AR, "area", "km²", Mean)
        .of_events("area_km2")
        .label("area")
        .subject("the mean area of atmospheric rivers"),
    about(RiverLength, AR, "length", "km", Mean)
        .of_events("length_km")
        .label("length")
        .subject("the mean length of atmospheric rivers"),
    about(RiverMoisture, AR, "max_tmq", "kg m⁻²", Mean)
        .of_events("max_tmq_kg_m2")
        .label("precipitable water")
        .subject("the mean of the highest precipitable water inside atmospheric rivers"),
    about(RiverTransport, AR, "max_ivt", "kg m⁻¹ s⁻¹", Mean)
        .label("vapour transport")
        .subject("the mean of the highest vapour transport inside atmospheric rivers"),
    about(RiverRain, AR, "rain_rate", "mm/day", Mean)
        .of_events("mean_prect_m_s")
        .label("rain rate inside")
        .subject("the mean rain rate inside atmospheric rivers"),
    about(RiverWater, AR, "precipitation", "km³ a year", PerYear)
        .of_events("precipitation_km3")
        .label("precipitation inside")
        .subject("the precipitation that falls inside atmospheric rivers"),
    counted(ExtratropicalTracks, ETC, "tracks")
        .of_tracks(ANY)
        .label("number of tracks")
        .subject("extratropical cyclones"),
    about(ExtratropicalsPresent, ETC, "present", "at a time", PerTime)
        .of_events(ANY)
        .label("present at a time")
        .subject("the mean number of extratropical cyclones present at a time"),
    about(ExtratropicalWind, ETC, "max_wind", "m/s", Mean)
        .of_tracks(WIND)
        .label("strongest wind, mean")
        .subject("the mean lifetime-maximum wind of extratropical cyclones"),
    about(ExtratropicalPressure, ETC, "min_pressure", "hPa", Mean)
        .of_tracks("min_psl_pa")
        .label("lowest pressure, mean")
        .subject("the mean lifetime-minimum pressure of extratropical cyclones")
        .absolute(),
    about(ExtratropicalLifetime, ETC, "lifetime", "days", Mean)
        .of_tracks("end_time")
        .label("lifetime")
        .subject("the mean lifetime of extratropical cyclones"),
    about(ExtratropicalArea, ETC, "area", "km²", Mean)
        .of_events("area_km2")
        .label("area")
        .subject("the mean area of extratropical cyclones"),
    counted(DepressionTracks, TD, "tracks")
        .of_tracks(ANY)
        .label("number of tracks")
        .subject("tropical depressions"),
    about(DepressionsPresent, TD, "present", "at a time", PerTime)
        .of_events(ANY)
        .label("present at a time")
        .subject("the mean number of tropical depressions present at a time"),
    about(DepressionLifetime, TD, "lifetime", "days", Mean)
        .of_tracks("end_time")
        .label("lifetime")
        .subject("the mean lifetime of tropical depressions"),
    about(DepressionArea, TD, "area", "km²", Mean)
        .of_events("area_km2")
        .label("area")
        .subject("the mean area of tropical depressions"),
];

const fn about(
    quantity: Quantity,
    class: Class,
    name: &'static str,
    unit: &'static str,
    kind: Kind,
) -> QuantityInfo {
    QuantityInfo {
        quantity,
        name,
        class,
        unit,
        kind,
        track_column: None,
        event_column: None,
        source: quantity,
        label: "",
        subject: "",
        counted: false,
        relative: true,
    }
}

/// A number of things per year.
const fn counted(quantity: Quantity, class: Class, name: &'static str) -> QuantityInfo {
    QuantityInfo {
        counted: true,
        ..about(quantity, class, name, "a year", PerYear)
    }
}

impl QuantityInfo {
    const fn of_tracks(self, column: &'static str) -> Self {
        Self {
            track_column: Some(column),
            ..self
        }
    }

    const fn of_events(self, column: &'static str) -> Self {
        Self {
            event_column: Some(column),
            ..self
        }
    }

    /// Sets the quantity without whose values this one is unknown.
    const fn computed_from(self, source: Quantity) -> Self {
        Self { source, ..self }
    }

    const fn label(self, label: &'static str) -> Self {
        Self { label, ..self }
    }

    const fn subject(self, subject: &'static str) -> Self {
        Self { subject, ..self }
    }

    /// Marks percentages as meaningless.
    const fn absolute(self) -> Self {
        Self {
            relative: false,
            ..self
        }
    }
}
