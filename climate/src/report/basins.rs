//! Ocean basins of the report's counts.
//!
//! # Source
//! After the basins of IBTrACS v04 (Knapp et al. 2010, doi:10.1175/2009BAMS2755.1), simplified to meridians and one
//! line along Central America; the southern Indian and Pacific basins meet at 135°E. Rivers over the continent north
//! of 30°N and between 30 and 100°E, where no cyclone basin lies, are counted as Eurasia.

/// All basins, in the order of tables; the last one is land and holds rivers only.
pub(crate) const BASINS: [&str; 8] = [
    "North Atlantic",
    "East Pacific",
    "West Pacific",
    "North Indian",
    "South Indian",
    "South Pacific",
    "South Atlantic",
    "Eurasia",
];

/// Latitude and longitude of points on the divide between Pacific and Atlantic, from south to north.
const AMERICAS: [(f64, f64); 6] = [
    (0.0, 282.0),
    (8.5, 282.0),
    (9.5, 276.0),
    (15.0, 269.0),
    (18.5, 261.0),
    (30.0, 255.0),
];

/// Index in [`BASINS`] of a place.
pub(crate) fn basin(lat_deg: f64, lon_deg: f64) -> usize {
    let lon = lon_deg.rem_euclid(360.0);
    if lat_deg < 0.0 {
        return match lon {
            l if (20.0..135.0).contains(&l) => 4,
            l if (135.0..290.0).contains(&l) => 5,
            _ => 6,
        };
    }
    let divide = AMERICAS
        .windows(2)
        .find(|w| lat_deg < w[1].0)
        .map_or(255.0, |w| {
            w[0].1 + (lat_deg - w[0].0) / (w[1].0 - w[0].0) * (w[1].1 - w[0].1)
        });
    match lon {
        l if (30.0..100.0).contains(&l) && lat_deg >= 30.0 => 7,
        l if (30.0..100.0).contains(&l) => 3,
        l if (100.0..180.0).contains(&l) => 2,
        l if (180.0..divide).contains(&l) => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storms_lie_where_their_agencies_name_them() {
        for (name, lat, lon, expected) in [
            ("Katrina 2005", 23.1, -75.1, "North Atlantic"),
            ("Mitch 1998, Caribbean", 15.0, -83.0, "North Atlantic"),
            ("Jova 2011", 17.1, -107.5, "East Pacific"),
            ("Irwin 2011", 13.4, -120.0, "East Pacific"),
            ("Haiyan 2013", 6.5, 145.0, "West Pacific"),
            ("Nargis 2008", 12.0, 88.0, "North Indian"),
            ("Idai 2019", -18.0, 42.0, "South Indian"),
            ("Winston 2016", -17.0, 178.0, "South Pacific"),
            ("Catarina 2004", -28.0, -45.0, "South Atlantic"),
            ("a river over Turkey", 39.9, 31.0, "Eurasia"),
        ] {
            assert_eq!(BASINS[basin(lat, lon)], expected, "{name}");
        }
    }
}
