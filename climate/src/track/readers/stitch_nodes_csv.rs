//! CSV of TempestExtremes' `StitchNodes`.

use super::delimited::{self, Dialect, Source};
use super::imported::{TrackFormat, TrackTable};
use crate::error::Result;
use squall_data::Calendar;
use std::path::Path;

/// Names under which `StitchNodes --in_fmt` gives wind, in m/s. The user chooses them; these are the usual ones.
pub(super) const WINDS: [&str; 7] = ["wind10", "wind", "max_wind", "u10", "ws10", "wspd", "vmax"];
/// The same for sea-level pressure, in Pa.
pub(super) const PRESSURES: [&str; 6] = ["slp", "psl", "msl", "mslp", "min_slp", "pslmin"];

const DIALECT: Dialect = Dialect {
    format: TrackFormat::StitchNodesCsv,
    identity: &["track_id"],
    time: &["time"],
    date_parts: true,
    lon: &["lon"],
    lat: &["lat"],
    wind: &WINDS,
    wind_m_s: 1.0,
    pressure: &PRESSURES,
    pressure_pa: 1.0,
    season: &[],
    basin: &[],
    track_type: &[],
    nature: &[],
    status: &[],
};

/// The tracks of a file of `StitchNodes --out_file_format csv`:
/// `track_id, year, month, day, hour, i, j, lon, lat, ...`.
///
/// The file does not tell its calendar.
///
/// # Source
/// Ullrich et al. 2021, doi:10.5194/gmd-14-5023-2021; the layout as in TempestExtremes' `src/nodes/StitchNodes.cpp`.
///
/// # Errors
/// As [`super::read`].
pub(super) fn read(path: &Path, calendar: Calendar) -> Result<TrackTable> {
    let source = Source {
        path,
        calendar,
        time_units: None,
    };
    delimited::read(&source, &DIALECT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_in_parts_and_identities_as_pandas_writes_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tracks.csv");
        let text = "track_id, year, month, day, hour, i, j, lon, lat, slp, zs, wind10\n\
                    7.0, 1996.0, 2.0, 29.0, 18.0, 1, 2, 359.75, -15.5, 1.005e+05, 0, 20.5\n\
                    7.0, 1996.0, 3.0, 1.0, 0.0, 1, 2, 0.25, -15.75, 1.004e+05, 0, 21.5\n";
        std::fs::write(&path, text).unwrap();
        let table = read(&path, Calendar::Standard).unwrap();
        let track = &table.tracks[0];
        assert_eq!((track.name.as_str(), track.points.len()), ("7", 2));
        assert_eq!(track.points[1].max_wind_m_s, Some(21.5));
        assert_eq!(track.points[1].min_psl_pa, Some(100_400.0));
        assert_eq!(table.summaries()[0].duration_hours(), 6.0);
        // A calendar without that day.
        let message = read(&path, Calendar::NoLeap).unwrap_err().to_string();
        assert!(
            message.contains("line 2") && message.contains("`day`"),
            "{message}"
        );
    }
}
