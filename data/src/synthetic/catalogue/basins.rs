//! Genesis regions and seasons of tropical cyclones.

use std::f64::consts::PI;

/// A genesis region of tropical cyclones.
#[derive(Debug, Clone, Copy)]
pub(super) struct Basin {
    /// Its name in IBTrACS.
    pub name: &'static str,
    /// Tropical cyclones per year in the present climate.
    ///
    /// # Source
    /// Rounded means of IBTrACS, 1981-2010.
    pub per_year: f64,
    /// Range of genesis latitudes and longitudes, degrees.
    pub lat: (f64, f64),
    pub lon: (f64, f64),
    /// Day of the year with the most births, and half width of the season in days.
    peak: (f64, f64),
}

pub(super) const BASINS: [Basin; 7] = [
    Basin {
        name: "NA",
        per_year: 12.0,
        lat: (10.0, 24.0),
        lon: (285.0, 335.0),
        peak: (255.0, 50.0),
    },
    Basin {
        name: "EP",
        per_year: 17.0,
        lat: (9.0, 17.0),
        lon: (235.0, 266.0),
        peak: (235.0, 60.0),
    },
    Basin {
        name: "WP",
        per_year: 26.0,
        lat: (7.0, 21.0),
        lon: (125.0, 165.0),
        peak: (245.0, 80.0),
    },
    Basin {
        name: "NI",
        per_year: 5.0,
        lat: (8.0, 16.0),
        lon: (60.0, 92.0),
        peak: (300.0, 70.0),
    },
    Basin {
        name: "SI",
        per_year: 15.0,
        lat: (-18.0, -8.0),
        lon: (50.0, 115.0),
        peak: (35.0, 60.0),
    },
    Basin {
        name: "AU",
        per_year: 6.0,
        lat: (-17.0, -9.0),
        lon: (118.0, 155.0),
        peak: (45.0, 55.0),
    },
    Basin {
        name: "SP",
        per_year: 6.0,
        lat: (-18.0, -9.0),
        lon: (160.0, 205.0),
        peak: (45.0, 55.0),
    },
];

impl Basin {
    /// Expected births on a day in a year of this many days.
    pub(super) fn births(&self, day_of_year: f64, year: f64) -> f64 {
        let (peak, width) = self.peak;
        let away = (day_of_year - peak + year / 2.0).rem_euclid(year) - year / 2.0;
        // The integral of the bell over a year is √π times its width.
        self.per_year * (-(away / width).powi(2)).exp() / (PI.sqrt() * width)
    }
}
