//! The quantities to which tracks and objects of a class contribute.

use crate::compare::quantity::Quantity;
use squall_data::Class;

/// The quantities of a class that come from table rows; `None` for those not compared for the class.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClassQuantities {
    /// Tracks begun.
    pub tracks: Quantity,
    /// Duration of a track.
    pub lifetime: Quantity,
    /// Number of objects at a time.
    pub present: Quantity,
    /// Area of objects.
    pub area: Quantity,
    /// Landfalls of tracks.
    pub landfalls: Option<Quantity>,
    /// Precipitation inside objects.
    pub water: Option<Quantity>,
    /// Rain rate inside objects.
    pub rain: Option<Quantity>,
    /// Lowest pressure of a track.
    pub pressure: Option<Quantity>,
}

/// The quantities of a class; `None` for the background, which tables do not contain.
pub(super) fn quantities(class: Class) -> Option<ClassQuantities> {
    use Quantity as Q;
    Some(match class {
        Class::Background => return None,
        Class::TropicalCyclone => ClassQuantities {
            tracks: Q::CycloneTracks,
            lifetime: Q::CycloneLifetime,
            present: Q::CyclonesPresent,
            area: Q::CycloneArea,
            landfalls: Some(Q::CycloneLandfalls),
            water: Some(Q::CycloneWater),
            rain: Some(Q::CycloneRain),
            pressure: Some(Q::CyclonePressure),
        },
        Class::AtmosphericRiver => ClassQuantities {
            tracks: Q::RiverTracks,
            lifetime: Q::RiverLifetime,
            present: Q::RiversPresent,
            area: Q::RiverArea,
            landfalls: Some(Q::RiverLandfalls),
            water: Some(Q::RiverWater),
            rain: Some(Q::RiverRain),
            pressure: None,
        },
        Class::ExtratropicalCyclone => ClassQuantities {
            tracks: Q::ExtratropicalTracks,
            lifetime: Q::ExtratropicalLifetime,
            present: Q::ExtratropicalsPresent,
            area: Q::ExtratropicalArea,
            landfalls: None,
            water: None,
            rain: None,
            pressure: Some(Q::ExtratropicalPressure),
        },
        Class::TropicalDepression => ClassQuantities {
            tracks: Q::DepressionTracks,
            lifetime: Q::DepressionLifetime,
            present: Q::DepressionsPresent,
            area: Q::DepressionArea,
            landfalls: None,
            water: None,
            rain: None,
            pressure: None,
        },
    })
}

/// Whether a quantity is a count, which is known to be 0 without events.
pub(super) fn is_number(quantity: Quantity) -> bool {
    quantities(quantity.about().class)
        .is_some_and(|of| quantity == of.tracks || quantity == of.present)
}
