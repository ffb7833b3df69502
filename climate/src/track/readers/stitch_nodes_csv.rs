//! CSV of TempestExtremes' `StitchNodes`.

use super::delimited::{self, Dialect, TableSource};
use super::imported::{TrackFormat, TrackTable};
use super::units;
use crate::error::Result;
use crate::table::lines::{Table, plain_name};
use squall_data::Calendar;
use std::path::Path;

/// Names of the wind in `StitchNodes --in_fmt`, in m/s. The user chooses them; these are the usual ones and precede the
/// names of other tools ([`units`]). The last is CAM's speed, or ERA5's eastward component.
static WINDS: [&str; 7] = ["wind10", "wind", "max_wind", "ws10", "wspd", "vmax", "u10"];
/// Columns that mark `u10` as a component of the wind.
const NORTHWARD: &str = "v10";
/// The note if there are only components.
pub(super) const COMPONENTS_ONLY_NOTE: &str =
    "no wind is read: `u10` beside `v10` is its eastward part alone";

/// The possible wind columns of a file with these (lower-case) columns; and whether it has only the components of the
/// wind.
pub(super) fn winds(names: &[String]) -> (&'static [&'static str], bool) {
    let has = |name: &str| names.iter().any(|known| known == name);
    let has_any = |wanted: &[&str]| wanted.iter().any(|name| has(name));
    let usual = match has(NORTHWARD) {
        true => &WINDS[..WINDS.len() - 1],
        false => &WINDS[..],
    };
    if has_any(usual) {
        return (usual, false);
    }
    let is_alone = has("u10") && !has_any(&units::WINDS);
    (&units::WINDS, is_alone)
}

/// The usual names of sea-level pressure, in Pa.
pub(super) const PRESSURES: [&str; 6] = ["slp", "psl", "msl", "mslp", "min_slp", "pslmin"];

const DIALECT: Dialect = Dialect {
    format: TrackFormat::StitchNodesCsv,
    identity: &["track_id"],
    name: &[],
    time: &["time"],
    date_parts: true,
    lon: &["lon"],
    lat: &["lat"],
    wind: &[],
    wind_m_s: 1.0,
    pressure: &PRESSURES,
    pressure_pa: 1.0,
    season: &[],
    basin: &[],
    track_type: &[],
    nature: &[],
    status: &[],
};

/// Reads a file of `StitchNodes --out_file_format csv`: `track_id, year, month, day, hour, i, j, lon, lat, ...`.
///
/// The file does not state its calendar.
///
/// # Source
/// Ullrich et al. 2021, doi:10.5194/gmd-14-5023-2021; the format as in TempestExtremes' `src/nodes/StitchNodes.cpp`.
///
/// # Errors
/// Errors of [`super::read`].
pub(super) fn read(path: &Path, calendar: Calendar) -> Result<TrackTable> {
    let names = Table::open(path, &[])?;
    let names: Vec<String> = names.names().iter().map(|name| plain_name(name)).collect();
    let (wind, only_components) = winds(&names);
    let source = TableSource {
        path,
        calendar,
        time_units: None,
        wind_column: None,
    };
    let mut table = delimited::read(&source, &Dialect { wind, ..DIALECT })?;
    table
        .notes
        .extend(only_components.then(|| COMPONENTS_ONLY_NOTE.to_string()));
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::category::KNOT_M_S;

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

    /// `u10` is the eastward component of the wind in ERA5, but the speed in CAM.
    #[test]
    fn the_eastward_part_of_the_wind_is_no_speed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tracks.csv");
        let parse = |columns: &str, values: &str| {
            let head = "track_id, year, month, day, hour, i, j, lon, lat";
            let text =
                format!("{head}, {columns}\n7, 1996, 2, 28, 18, 1, 2, 10.0, 15.0, {values}\n");
            std::fs::write(&path, text).unwrap();
            read(&path, Calendar::Standard).unwrap()
        };
        let wind = |table: &TrackTable| table.tracks[0].points[0].max_wind_m_s;
        let speed = parse("u10, v10, ws10", "3.0, 30.0, 30.1");
        assert_eq!((wind(&speed), speed.notes.len()), (Some(30.1), 0));
        let parts = parse("slp, u10, v10", "99000, 3.0, 30.0");
        assert_eq!(wind(&parts), None);
        assert_eq!(parts.notes, [COMPONENTS_ONLY_NOTE]);
        let cam = parse("slp, U10", "99000, 30.0");
        assert_eq!((wind(&cam), cam.notes.len()), (Some(30.0), 0));
        // Names of other tools, and an unknown one.
        let cmip = parse("psl, sfcWind", "99000, 30.0");
        assert_eq!((wind(&cmip), cmip.notes.len()), (Some(30.0), 0));
        let knots = parse("slp, wind_kt, u10, v10", "99000, 60.0, 3.0, 30.0");
        let m_s = wind(&knots).unwrap();
        assert!((m_s - 60.0 * KNOT_M_S).abs() < 1e-9 && knots.notes.is_empty());
        let aloft = parse("pres, wind850", "99000, 30.0");
        assert_eq!(wind(&aloft), None);
        assert!(
            aloft.notes[0].contains("found `wind850`") && aloft.notes[1].contains("found `pres`"),
            "{:?}",
            aloft.notes
        );
    }
}
