//! CSV with one row per point, as saved from data frames of tracks.

use super::delimited::{self, Dialect, TableSource};
use super::imported::{TrackFormat, TrackTable};
use super::units::{self, EXPECTED_WIND_UNIT, PRESSURES, WINDS};
use crate::error::{ClimateError, Result};
use crate::table::lines::{Table, plain_name};
use squall_data::Calendar;
use std::path::Path;

/// Names of required columns: track, longitude, latitude.
const IDENTITIES: [&str; 6] = [
    "track_id",
    "trajectory_id",
    "storm_id",
    "stormid",
    "sid",
    "track",
];
const LONGITUDES: [&str; 4] = ["lon", "longitude", "long", "lon_deg"];
const LATITUDES: [&str; 3] = ["lat", "latitude", "lat_deg"];
/// Names of the time as one text.
const TIMES: [&str; 5] = ["time", "iso_time", "isotime", "datetime", "valid_time"];
/// The parts of a date; hour, minute and second are optional.
const DATE: [&str; 3] = ["year", "month", "day"];

/// The missing columns of a table with these (lower-case) columns.
pub(super) fn lacks(names: &[String]) -> Vec<&'static str> {
    let has = |wanted: &str| names.iter().any(|name| name == wanted);
    let any = |wanted: &[&str]| wanted.iter().any(|name| has(name));
    let when = any(&TIMES) || DATE.iter().all(|name| has(name));
    let there = [
        ("track_id", any(&IDENTITIES)),
        ("time", when),
        ("lon", any(&LONGITUDES)),
        ("lat", any(&LATITUDES)),
    ];
    let lacking = there.into_iter().filter(|(_, is_there)| !is_there);
    lacking.map(|(name, _)| name).collect()
}

/// Reads the tracks of a table with a track, a time (a date as text, or its parts) and a position in every row.
///
/// Winds and pressures come from the first column with a usual name. [`units`] determines their units from names and
/// values. Winds at points that `status` or `nature` classify as extratropical or disturbance are dropped, as for
/// IBTrACS. The file does not state its calendar.
///
/// # Errors
/// Errors of [`super::read`].
pub(super) fn read(path: &Path, calendar: Calendar) -> Result<TrackTable> {
    let columns = Columns::of(path)?;
    let mut dialect = Dialect {
        format: TrackFormat::PointsCsv,
        identity: &IDENTITIES,
        name: &["name", "storm_name"],
        time: &TIMES,
        date_parts: true,
        lon: &LONGITUDES,
        lat: &LATITUDES,
        wind: &[],
        wind_m_s: 1.0,
        pressure: &[],
        pressure_pa: 1.0,
        season: &["season"],
        basin: &["basin"],
        track_type: &["track_type"],
        nature: &["nature"],
        status: &["status", "usa_status"],
    };
    let mut note = None;
    if let Some((place, name)) = &columns.wind {
        let known = units::wind_m_s(name, None, &columns.winds);
        let (factor, guess) = known.map_err(|found| ClimateError::WindUnit {
            path: path.into(),
            column: name.clone(),
            expected: EXPECTED_WIND_UNIT,
            found,
        })?;
        (dialect.wind, dialect.wind_m_s) = (&WINDS[*place..=*place], factor);
        note = guess;
    }
    if let Some((place, _)) = &columns.pressure {
        let factor = units::pressure_pa(None, &columns.pressures).unwrap_or(1.0);
        (dialect.pressure, dialect.pressure_pa) = (&PRESSURES[*place..=*place], factor);
    }
    let source = TableSource {
        path,
        calendar,
        time_units: None,
        wind_column: None,
    };
    let mut table = delimited::read(&source, &dialect)?;
    table.notes.extend(note);
    Ok(table)
}

/// The columns of winds and pressures with all their values: a single value does not determine a unit.
#[derive(Default)]
struct Columns {
    /// Index among the usual names, and the name in the file.
    wind: Option<(usize, String)>,
    pressure: Option<(usize, String)>,
    winds: Vec<f64>,
    pressures: Vec<f64>,
}

impl Columns {
    fn of(path: &Path) -> Result<Self> {
        let mut table = Table::open(path, &[])?;
        let find = |wanted: &[&str]| -> Option<(usize, String)> {
            wanted.iter().enumerate().find_map(|(place, wanted)| {
                let mut names = table.names().iter();
                let spelt = names.find(|name| plain_name(name) == *wanted)?;
                Some((place, spelt.clone()))
            })
        };
        let mut columns = Self {
            wind: find(&WINDS),
            pressure: find(&PRESSURES),
            ..Self::default()
        };
        while let Some(line) = table.next()? {
            // Non-numeric cells are reported with their line when rows are converted to points.
            let value = |column: &Option<(usize, String)>| {
                let (_, name) = column.as_ref()?;
                line.number(name).ok().flatten()
            };
            columns.winds.extend(value(&columns.wind));
            columns.pressures.extend(value(&columns.pressure));
        }
        Ok(columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::category::KNOT_M_S;
    use crate::track::readers::{ReadOptions, read as read_any};
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<TrackTable> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tracks.txt");
        std::fs::write(&path, text).unwrap();
        read_any(&path, &ReadOptions::default())
    }

    /// HURDAT2 as saved by pandas: knots, hPa, longitudes to the west.
    const BEST: &str = "track_id,time,lat,lon,status,wind,pressure\n\
        AL092011,2011-08-21 00:00:00,15.0,-59.0,TS,45,1006\n\
        AL092011,2011-08-21 06:00:00,16.0,-60.6,TS,50,1006.0\n\
        AL092011,2011-08-29 00:00:00,46.5,-69.5,EX,40,983\n\
        AL102011,2011-08-25 00:00:00,12.1,-27.1,TD,30,\n";

    #[test]
    fn best_tracks_of_a_data_frame() {
        let table = parse(BEST).unwrap();
        assert_eq!(
            (table.format, table.tracks.len()),
            (TrackFormat::PointsCsv, 2)
        );
        let track = &table.tracks[0];
        assert_eq!((track.name.as_str(), track.points.len()), ("AL092011", 3));
        let [first, _, last] = track.points[..] else {
            panic!("{track:?}")
        };
        assert_eq!((first.lon_deg, first.min_psl_pa), (301.0, Some(100_600.0)));
        assert!((first.max_wind_m_s.unwrap() - 45.0 * KNOT_M_S).abs() < 1e-9);
        assert_eq!((last.max_wind_m_s, last.other_wind), (None, true));
        assert_eq!(table.tracks[1].points[0].min_psl_pa, None);
        assert!(
            table.notes[0].contains("taken as knots"),
            "{:?}",
            table.notes
        );
    }

    #[test]
    fn a_model_s_table_and_other_names() {
        let text = "Storm_ID,year,month,day,hour,Latitude,Longitude,wind10,slp\n\
                    3.0,1996.0,2,29,18,-15.5,-0.25,20.5,100500\n";
        let table = parse(text).unwrap();
        let point = table.tracks[0].points[0];
        assert_eq!(
            (table.format, table.tracks[0].name.as_str()),
            (TrackFormat::PointsCsv, "3")
        );
        assert_eq!((point.lon_deg, point.max_wind_m_s), (359.75, Some(20.5)));
        assert_eq!(point.min_psl_pa, Some(100_500.0));
        assert_eq!(point.time.to_string(), "1996-02-29T18:00:00");
        assert!(table.notes.is_empty(), "{:?}", table.notes);
        // Fractions of an hour are rejected.
        let message = parse(&text.replace(",18,", ",18.5,")).unwrap_err();
        let message = message.to_string();
        assert!(
            message.contains("`hour`") && message.contains("18.5"),
            "{message}"
        );
        // A missing hour is not midnight.
        for missing in ["", "NA"] {
            let text = text.replace(",18,", &format!(",{missing},"));
            let message = parse(&text).unwrap_err().to_string();
            assert!(
                message.contains("line 2, column `hour`") && message.contains("hour of the day"),
                "{message}"
            );
        }
        // A table without winds and pressures is still one of tracks.
        let table = parse("track_id,time,lat,lon\n7,1996-02-29,1,-1e-30\n").unwrap();
        let point = table.tracks[0].points[0];
        // Slightly west of Greenwich, the longitude must not become 360.
        assert_eq!((point.max_wind_m_s, point.lon_deg), (None, 0.0));
    }

    /// Data frames have columns for year, month and day, to group by.
    #[test]
    fn parts_of_a_date_without_an_hour_do_not_take_the_place_of_its_time() {
        let text = "track_id,time,year,month,day,lat,lon,wind10\n\
                    1,2000-08-01 06:00:00,2000,8,1,15,140,30\n\
                    1,2000-08-01 12:00:00,2000,8,1,15,141,30\n";
        let table = parse(text).unwrap();
        let points = table.tracks[0].points.iter();
        let times: Vec<String> = points.map(|point| point.time.to_string()).collect();
        assert_eq!(times, ["2000-08-01T06:00:00", "2000-08-01T12:00:00"]);
        assert!(table.notes.is_empty(), "{:?}", table.notes);
        // A time of day is not a date, and a missing one is not midnight.
        let clock = text.replace("2000-08-01 06:00:00", "0600");
        let message = parse(&clock).unwrap_err().to_string();
        assert!(message.contains("line 2, column `time`"), "{message}");
    }

    /// With split dates they look like StitchNodes' tables, whose winds are in m/s.
    #[test]
    fn best_tracks_are_none_of_stitch_nodes() {
        let text = "track_id,year,month,day,hour,lat,lon,status,wind,pressure\n\
                    AL,2011,8,21,0,15.0,-59.0,TS,45,1006\n\
                    AL,2011,8,21,6,16.0,-60.6,TS,50,1006\n\
                    AL,2011,8,21,12,16.0,-60.6,TS,55,1005\n";
        let table = parse(text).unwrap();
        let point = table.tracks[0].points[0];
        assert_eq!(table.format, TrackFormat::PointsCsv);
        assert!((point.max_wind_m_s.unwrap() - 45.0 * KNOT_M_S).abs() < 1e-9);
        assert_eq!(point.min_psl_pa, Some(100_600.0));
    }

    #[test]
    fn winds_without_a_unit_are_refused() {
        let text = BEST.replace(",45,", ",45.5,");
        let error = parse(&text).unwrap_err();
        assert!(matches!(error, ClimateError::WindUnit { .. }));
        let message = error.to_string();
        for part in ["tracks.txt", "`wind`", "m/s or knots", "from 30 to 50"] {
            assert!(message.contains(part), "{message} lacks {part}");
        }
        let miles = BEST.replace(",wind,", ",wind (mph),");
        let message = parse(&miles).unwrap_err().to_string();
        assert!(message.contains("found `mph`"), "{message}");
        let text = text.replace(",wind,", ",wind_m_s,");
        let point = parse(&text).unwrap().tracks[0].points[0];
        assert_eq!(point.max_wind_m_s, Some(45.5));
    }

    /// Columns that look like winds but are not read are reported.
    #[test]
    fn winds_of_an_unusual_name_are_told() {
        let table = parse(&BEST.replace(",wind,", ",wind_mph,")).unwrap();
        assert_eq!(table.tracks[0].points[0].max_wind_m_s, None);
        let [note] = table.notes.as_slice() else {
            panic!("{:?}", table.notes)
        };
        assert!(
            note.contains("no wind is read") && note.contains("`wind_mph`"),
            "{note}"
        );
        // Without winds, all points represent their time, whatever their status.
        let grid = squall_data::LatLonGrid::global(181, 360).unwrap();
        let land = crate::map::LandMask::natural_earth(&grid);
        let events = crate::track::import::events(&table, &land);
        let hours = events.iter().filter(|e| e.details.hours.is_some()).count();
        assert_eq!((hours, events.len()), (4, 4));
    }

    /// Storms from dplyr state the kind of a point in words.
    #[test]
    fn kinds_in_words_are_those_of_the_codes() {
        for (words, is_other) in [
            ("extratropical", true),
            ("other low", true),
            ("Tropical Wave", true),
            ("disturbance", true),
            ("subtropical storm", false),
            ("tropical depression", false),
        ] {
            for column in ["status", "nature"] {
                let text = BEST.replace(",EX,", &format!(",{words},"));
                let table = parse(&text.replace(",status,", &format!(",{column},"))).unwrap();
                let point = table.tracks[0].points[2];
                assert_eq!(point.other_wind, is_other, "{column} {words}");
                assert_eq!(point.max_wind_m_s.is_none(), is_other, "{column} {words}");
            }
        }
    }

    #[test]
    fn what_is_missing_may_be_na() {
        let table = parse(&BEST.replace(",45,1006\n", ",NA,NA\n")).unwrap();
        let [first, second, _] = table.tracks[0].points[..] else {
            panic!("{table:?}")
        };
        assert_eq!((first.max_wind_m_s, first.min_psl_pa), (None, None));
        assert!(second.max_wind_m_s.is_some());
        // Formatted as in C.
        let table = parse(&BEST.replace(",45,1006\n", ",-nan,-NaN\n")).unwrap();
        let first = table.tracks[0].points[0];
        assert_eq!((first.max_wind_m_s, first.min_psl_pa), (None, None));
        let message = parse(&BEST.replace("-59.0", "NA")).unwrap_err().to_string();
        assert!(message.contains("line 2, column `lon`"), "{message}");
    }

    /// A name reused after a year does not belong to the same storm.
    #[test]
    fn tracks_with_long_gaps_are_told() {
        let again = BEST.replace("AL102011,2011-08-25", "AL092011,2012-08-25");
        let table = parse(&again).unwrap();
        let is_expected = |note: &String| note.contains("apart: 1") && note.contains("`AL092011`");
        assert!(table.notes.iter().any(is_expected), "{:?}", table.notes);
        let none = parse(BEST).unwrap();
        assert!(!none.notes.iter().any(|note| note.contains("days")));
    }

    #[test]
    fn faults_are_located() {
        for (old, new, parts) in [
            ("-59.0", "59W", ["line 2", "`lon`", "`59W`"]),
            ("15.0", "95.0", ["line 2", "`lat`", "`95.0`"]),
            ("15.0", "", ["line 2", "`lat`", "-90 to 90"]),
            (
                "2011-08-21 06",
                "2011-02-30 06",
                ["line 3", "`time`", "2011-02-30"],
            ),
            (",50,", ",fast,", ["line 3", "`wind`", "`fast`"]),
            ("\nAL102011", "\n", ["line 5", "`track_id`", "identity"]),
            // Points without a track do not belong to a track with that name.
            ("\nAL102011", "\nNA", ["line 5", "`track_id`", "`NA`"]),
            ("\nAL102011", "\nnan", ["line 5", "`track_id`", "`nan`"]),
        ] {
            let message = parse(&BEST.replacen(old, new, 1)).unwrap_err().to_string();
            for part in parts {
                assert!(message.contains(part), "{message} lacks {part}");
            }
        }
    }

    proptest! {
        /// With arbitrary cells, a table is read or rejected, and positions are on the globe.
        #[test]
        fn no_cells_are_taken_for_others(
            cells in prop::collection::vec("[-0-9.eNa,: T]{0,12}", 1..12),
        ) {
            let rows: Vec<String> = cells.iter().map(|cell| format!("1,2000-01-01,{cell}")).collect();
            let text = format!("track_id,time,lat,lon,wind_kt,slp\n{}\n", rows.join("\n"));
            if let Ok(table) = parse(&text) {
                for point in table.tracks.iter().flat_map(|track| &track.points) {
                    prop_assert!(point.lat_deg.abs() <= 90.0);
                    prop_assert!((0.0..360.0).contains(&point.lon_deg));
                }
            }
        }
    }
}
