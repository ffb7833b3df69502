//! Ocean basins of tropical cyclones, and hemispheric sectors with the same borders.

use serde::{Deserialize, Serialize};
use squall_data::Class;
use squall_data::grid::eastern_longitude;

/// A basin as defined by IBTrACS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Basin {
    /// North Atlantic.
    NorthAtlantic,
    /// Eastern and central North Pacific: from 180° to the Americas.
    EastPacific,
    /// Western North Pacific: 100°E to 180°.
    WestPacific,
    /// North Indian Ocean: 30°E to 100°E.
    NorthIndian,
    /// South Indian Ocean: 10°E to 135°E.
    SouthIndian,
    /// South Pacific: 135°E to 70°W.
    SouthPacific,
    /// South Atlantic: 70°W to 10°E.
    SouthAtlantic,
}

/// Latitude and longitude of the divide between Pacific and Atlantic, from south to north: the Andes, Panama, the
/// volcanoes of Central America, the Isthmus of Tehuantepec, the Sierra Madre Occidental.
const AMERICAS: [(f64, f64); 12] = [
    (0.0, 290.0),
    (7.5, 282.5),
    (9.0, 280.3),
    (9.2, 277.2),
    (10.5, 274.6),
    (13.0, 272.8),
    (14.6, 269.5),
    (16.6, 265.8),
    (17.5, 262.0),
    (20.0, 258.0),
    (24.0, 254.5),
    (30.0, 251.0),
];

/// Latitudes closer to the equator than this count as on it, degrees: tables write them as 0, and rounding moves the
/// centroid of an area that is symmetric about the equator.
const ON_EQUATOR_DEG: f64 = 5e-5;

/// Whether a latitude is south of the equator; the equator itself is not.
pub(crate) fn is_southern(lat_deg: f64) -> bool {
    lat_deg < -ON_EQUATOR_DEG
}

impl Basin {
    /// All basins, in the order of tables.
    pub const ALL: [Self; 7] = [
        Self::NorthAtlantic,
        Self::EastPacific,
        Self::WestPacific,
        Self::NorthIndian,
        Self::SouthIndian,
        Self::SouthPacific,
        Self::SouthAtlantic,
    ];

    /// The names of all basins.
    pub const NAMES: [&str; 7] = [
        "North Atlantic",
        "East Pacific",
        "West Pacific",
        "North Indian",
        "South Indian",
        "South Pacific",
        "South Atlantic",
    ];

    /// The sectors between the same borders, for classes without basins: rivers and extratropical cyclones, which also
    /// pass over land. The eastern border of the Pacific is named by its longitude north of 30°N.
    pub const SECTORS: [&str; 7] = [
        "109°W–30°E north",
        "180–109°W north",
        "100°E–180° north",
        "30–100°E north",
        "10–135°E south",
        "135°E–70°W south",
        "70°W–10°E south",
    ];

    /// Whether the events of a class are assigned to basins; otherwise to sectors.
    pub fn is_of(class: Class) -> bool {
        matches!(class, Class::TropicalCyclone | Class::TropicalDepression)
    }

    /// All names for a class: basins or sectors. A river over Moscow is not in the North Indian Ocean.
    pub fn names_for(class: Class) -> &'static [&'static str; 7] {
        if Self::is_of(class) {
            &Self::NAMES
        } else {
            &Self::SECTORS
        }
    }

    /// Returns the basin of a point. Every point has one: land and middle latitudes belong to the basin of their
    /// longitude.
    ///
    /// # Source
    /// Borders of IBTrACS v04 (Knapp et al. 2010, doi:10.1175/2009BAMS2755.1); the divide through the Americas is a
    /// line of twelve points.
    pub fn of(lat_deg: f64, lon_deg: f64) -> Self {
        let lon = eastern_longitude(lon_deg);
        if is_southern(lat_deg) {
            return match lon {
                l if (10.0..135.0).contains(&l) => Self::SouthIndian,
                l if (135.0..290.0).contains(&l) => Self::SouthPacific,
                _ => Self::SouthAtlantic,
            };
        }
        match lon {
            l if (30.0..100.0).contains(&l) => Self::NorthIndian,
            l if (100.0..180.0).contains(&l) => Self::WestPacific,
            l if l >= 180.0 && l < divide_lon_deg(lat_deg) => Self::EastPacific,
            _ => Self::NorthAtlantic,
        }
    }

    /// The two-letter code of IBTrACS.
    pub fn code(self) -> &'static str {
        ["NA", "EP", "WP", "NI", "SI", "SP", "SA"][self as usize]
    }

    /// The basin with a two-letter code.
    pub fn from_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|basin| basin.code() == code)
    }

    /// Whether it lies south of the equator.
    pub fn is_southern(self) -> bool {
        matches!(
            self,
            Self::SouthIndian | Self::SouthPacific | Self::SouthAtlantic
        )
    }

    /// The name of the basin or sector for a class.
    pub fn name_for(self, class: Class) -> &'static str {
        Self::names_for(class)[self as usize]
    }

    /// The name.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

fn divide_lon_deg(lat_deg: f64) -> f64 {
    let segment = AMERICAS.windows(2).find(|pair| lat_deg < pair[1].0);
    segment.map_or(AMERICAS[AMERICAS.len() - 1].1, |pair| {
        let ((south, a), (north, b)) = (pair[0], pair[1]);
        a + (lat_deg - south) / (north - south) * (b - a)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_has_a_basin_and_names_are_unique() {
        for (index, basin) in Basin::ALL.into_iter().enumerate() {
            assert_eq!(basin as usize, index);
            assert_eq!(Basin::from_code(basin.code()), Some(basin));
        }
        assert!(AMERICAS.windows(2).all(|pair| pair[0].0 < pair[1].0));
        // Panama City (Pacific side) and Colón (Atlantic side); Acapulco and Veracruz.
        assert_eq!(Basin::of(8.0, -79.7), Basin::EastPacific);
        assert_eq!(Basin::of(9.8, -79.9), Basin::NorthAtlantic);
        assert_eq!(Basin::of(16.8, -99.9), Basin::EastPacific);
        assert_eq!(Basin::of(19.2, -96.1), Basin::NorthAtlantic);
        assert_eq!(Basin::of(-15.0, 360.0), Basin::SouthAtlantic);
        assert_eq!(Basin::of(-90.0, -180.0), Basin::SouthPacific);
        assert_eq!(Basin::of(-1e-17, 150.0), Basin::WestPacific);
        assert_eq!(Basin::of(-1e-4, 150.0), Basin::SouthPacific);
    }

    #[test]
    fn a_river_over_land_is_in_a_sector_and_a_cyclone_in_a_basin() {
        // North of Donetsk.
        let place = Basin::of(48.9, 38.9);
        assert_eq!(place.name_for(Class::AtmosphericRiver), "30–100°E north");
        assert_eq!(
            place.name_for(Class::ExtratropicalCyclone),
            "30–100°E north"
        );
        assert_eq!(place.name_for(Class::TropicalCyclone), "North Indian");
        for basin in Basin::ALL {
            let sector = basin.name_for(Class::AtmosphericRiver);
            assert_eq!(sector.ends_with("south"), basin.is_southern());
        }
    }
}
