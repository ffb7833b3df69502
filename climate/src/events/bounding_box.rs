//! Events as boxes on the globe.

use crate::events::Event;
use squall_data::{BoxClass, Class, GeoBox};

impl Event {
    /// The bounding box; of class tropical depression where the event is of no class. Without extent if the event's is
    /// not known.
    pub fn bounding_box(&self) -> GeoBox {
        GeoBox {
            class: match self.class {
                Class::TropicalCyclone => BoxClass::TropicalCyclone,
                Class::AtmosphericRiver => BoxClass::AtmosphericRiver,
                Class::ExtratropicalCyclone => BoxClass::ExtratropicalCyclone,
                Class::Background | Class::TropicalDepression => BoxClass::TropicalDepression,
            },
            west_deg: self.west_deg,
            south_deg: self.south_deg,
            east_deg: self.east_deg,
            north_deg: self.north_deg,
            confidence: self.mean_probability.map(|p| p as f32),
        }
    }
}
