//! Recognises the format of a track file, and reports what a nearly valid file lacks.

use super::imported::TrackFormat;
use super::units::WINDS;
use super::{atcf, hurdat2, ibtracs, points_csv, trajectories};
use crate::error::Result;
use crate::table::lines::plain_name;
use crate::table::sources::{TableFormat, detect_format};
use squall_data::DataError;
use squall_data::archive::on_library_thread;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Sufficient for the header of an official IBTrACS file, whose 160 columns take 2 kB, and for TECA's comments.
const HEAD_BYTES: u64 = 64 * 1024;

/// Returns the format of a track file from its first lines; `None` if it is none of the known formats.
///
/// # Errors
/// [`crate::ClimateError::Data`] if the file cannot be opened.
pub fn format_of(path: &Path) -> Result<Option<TrackFormat>> {
    let file = File::open(path).map_err(DataError::io("open", path))?;
    let mut head = Vec::new();
    let mut reader = BufReader::new(file).take(HEAD_BYTES);
    reader
        .read_to_end(&mut head)
        .map_err(DataError::io("read", path))?;
    if is_netcdf(&head) {
        return Ok(on_library_thread(|| of_netcdf(path)));
    }
    match detect_format(path)? {
        TableFormat::Parquet => return Ok(Some(TrackFormat::SquallExport)),
        // Other JSON, such as COCO's, contains no features.
        TableFormat::Geojson => {
            let features = head.windows(10).any(|part| part == b"\"features\"");
            return Ok(features.then_some(TrackFormat::SquallExport));
        }
        TableFormat::Delimited => {}
    }
    if is_track_text(&head) {
        return Ok(Some(TrackFormat::TrackText));
    }
    Ok(first_line(&head).and_then(|line| of_header(&line)))
}

fn of_netcdf(path: &Path) -> Option<TrackFormat> {
    let file = netcdf::open(path).ok()?;
    let has = |name: &&str| file.variable(name).is_some();
    if VARIABLES.iter().all(has) {
        return Some(TrackFormat::IbtracsNetcdf);
    }
    let is_one = !MASKS.iter().any(has) && trajectories::lacks(path, &file).is_empty();
    is_one.then_some(TrackFormat::TrajectoryNetcdf)
}

/// Whether one of the first lines states the number of tracks, as in TRACK's text; a description may precede it.
fn is_track_text(head: &[u8]) -> bool {
    let lines = head.split(|byte| *byte == b'\n');
    lines.map(<[u8]>::trim_ascii).any(|line| {
        let count = line.strip_prefix(b"TRACK_NUM");
        count.is_some_and(|count| {
            count
                .trim_ascii_start()
                .first()
                .is_some_and(u8::is_ascii_digit)
        })
    })
}

/// The columns that identify the table of a tool; the first matching row counts.
const HEADERS: [(TrackFormat, &[&str]); 6] = [
    (
        TrackFormat::SquallEvents,
        &["class", "time", "lon_deg", "lat_deg"],
    ),
    (TrackFormat::IbtracsCsv, &["sid", "iso_time", "lat", "lon"]),
    (
        TrackFormat::IbtracsCsv,
        &["track_id", "season", "basin", "time", "lon", "lat"],
    ),
    (
        TrackFormat::TecaCsv,
        &["track_id", "storm_id", "lon", "lat", "surface_wind"],
    ),
    (
        TrackFormat::StitchNodesCsv,
        &["track_id", "year", "month", "day", "hour", "lon", "lat"],
    ),
    (TrackFormat::PointsCsv, &["track_id", "time", "lon", "lat"]),
];

/// The variables that identify IBTrACS netCDF.
const VARIABLES: [&str; 4] = ["sid", "iso_time", "lat", "lon"];

/// Variables of masks, which may be in the same folder as tracks.
const MASKS: [&str; 4] = ["LABELS", "ar_binary_tag", "binary_tag", "object_id"];

fn of_header(line: &str) -> Option<TrackFormat> {
    if line.split_whitespace().next() == Some("start") {
        return Some(TrackFormat::StitchNodesGfdl);
    }
    if hurdat2::is_header(line) {
        return Some(TrackFormat::Hurdat2);
    }
    if atcf::is_line(line) {
        return Some(TrackFormat::Atcf);
    }
    let names: Vec<String> = line.split(',').map(plain_name).collect();
    let has = |wanted: &[&str]| missing(wanted, &names).is_empty();
    let of_tool =
        (HEADERS.into_iter()).find_map(|(format, columns)| has(columns).then_some(format));
    let is_of_points = points_csv::lacks(&names).is_empty();
    let of_points = || is_of_points.then_some(TrackFormat::PointsCsv);
    match of_tool {
        // StitchNodes has grid indices; best tracks with split dates have none, and their winds are in knots.
        Some(TrackFormat::StitchNodesCsv) if !has(&["i"]) => of_points(),
        // Model tracks with added season and basin; best tracks use other names for winds.
        Some(TrackFormat::IbtracsCsv) if !ibtracs::WINDS.iter().any(|name| has(&[*name])) => {
            let has_wind = WINDS.iter().any(|name| has(&[*name]));
            of_points().filter(|_| has_wind).or(of_tool)
        }
        found => found.or_else(of_points),
    }
}

/// The names that are absent.
fn missing<'a>(wanted: &[&'a str], names: &[String]) -> Vec<&'a str> {
    let is_there = |name: &str| names.iter().any(|known| known == name);
    wanted
        .iter()
        .copied()
        .filter(|name| !is_there(name))
        .collect()
}

/// What a file lacks compared to the most similar track format, as the end of a sentence about the file; `None` if it
/// can be read, or does not resemble tracks at all.
///
/// # Example
/// ```
/// let path = std::env::temp_dir().join(format!("squall-lacking-{}.csv", std::process::id()));
/// std::fs::write(&path, "name,year,month,day,hour,lat,long,wind\n").unwrap();
/// let said = squall_climate::track::readers::lacking(&path).unwrap();
/// assert!(said.starts_with("lacks `track_id` of CSV of points"), "{said}");
/// std::fs::remove_file(&path).unwrap();
/// ```
pub fn lacking(path: &Path) -> Option<String> {
    let mut head = Vec::new();
    let file = File::open(path).ok()?;
    file.take(HEAD_BYTES).read_to_end(&mut head).ok()?;
    if is_netcdf(&head) {
        return on_library_thread(|| lacking_in_netcdf(path));
    }
    if is_track_text(&head) {
        return None;
    }
    let line = first_line(&head)?;
    let names: Vec<String> = line.split(',').map(plain_name).collect();
    if of_header(&line).is_some() {
        return None;
    }
    let nearest = HEADERS.into_iter().map(|(format, columns)| {
        let lacking = match format {
            // Each of its columns may have one of several names.
            TrackFormat::PointsCsv => points_csv::lacks(&names),
            _ => missing(columns, &names),
        };
        (2 * lacking.len() <= columns.len()).then_some((format, lacking))
    });
    // On ties the general format wins: any table can be converted to it.
    let distance = |(format, lacking): &(TrackFormat, Vec<&str>)| {
        (lacking.len(), *format != TrackFormat::PointsCsv)
    };
    let (format, lacking) = nearest.flatten().min_by_key(distance)?;
    Some(words(&lacking, format, &names))
}

fn lacking_in_netcdf(path: &Path) -> Option<String> {
    let file = netcdf::open(path).ok()?;
    let names: Vec<String> = file.variables().map(|variable| variable.name()).collect();
    let dimensions = file.dimensions().map(|dimension| dimension.name());
    let mut all = dimensions.chain(names.iter().cloned());
    let of_tracks = all.any(|name| {
        let name = name.to_ascii_lowercase();
        name.contains("traj") || name.starts_with("track")
    });
    let of_masks = MASKS.iter().any(|name| file.variable(name).is_some());
    let lacking = missing(&VARIABLES, &names);
    if !of_tracks || of_masks || lacking.is_empty() {
        return None;
    }
    // Only IBTrACS has these two.
    if VARIABLES[..2].iter().any(|name| !lacking.contains(name)) {
        return Some(words(&lacking, TrackFormat::IbtracsNetcdf, &names));
    }
    let lacking = trajectories::lacks(path, &file);
    (!lacking.is_empty()).then(|| words(&lacking, TrackFormat::TrajectoryNetcdf, &names))
}

fn words(lacking: &[&str], format: TrackFormat, names: &[String]) -> String {
    let found: Vec<&str> = names.iter().take(30).map(String::as_str).collect();
    format!(
        "lacks `{}` of {}; found {}",
        lacking.join("`, `"),
        format.name(),
        found.join(", ")
    )
}

fn is_netcdf(head: &[u8]) -> bool {
    head.starts_with(b"CDF") || head.starts_with(b"\x89HDF")
}

/// The first line that is neither blank nor a comment.
fn first_line(head: &[u8]) -> Option<String> {
    let lines = head.lines().map_while(|line| line.ok());
    lines
        .map(|line| line.trim_start_matches('\u{feff}').trim().to_string())
        .find(|line| !line.is_empty() && !line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_tell_the_tool() {
        for (line, expected) in [
            (
                "start\t33\t1999\t9\t10\t0",
                Some(TrackFormat::StitchNodesGfdl),
            ),
            (
                "AL092021,                IDA,     40,",
                Some(TrackFormat::Hurdat2),
            ),
            (
                "AL, 09, 2021082612,   , BEST,   0, 165N,  789W,  30, 1006, TD,  34, NEQ,    0,",
                Some(TrackFormat::Atcf),
            ),
            (
                "HC, 0001, 2021082612, 03, GFSO, 00600, 165N,  789W,  30, 1006, XX,  34, NEQ",
                Some(TrackFormat::Atcf),
            ),
            // Rows of HURDAT2 without a header, and files of the GFDL tracker with other identities.
            ("20210826, 1200,  , TD, 16.5N,  78.9W,  30, 1006", None),
            (
                "TG, 0001, 2021082612_F000_165N_0789W_FOF, 2021082612, 03, GFSO, 000",
                None,
            ),
            ("AL, 09, 2021082612, 03, GFSO", None),
            (
                "class,time,lon_deg,lat_deg,area_km2,track_id",
                Some(TrackFormat::SquallEvents),
            ),
            (
                "track_id, year, month, day, hour, i, j, lon, lat, slp",
                Some(TrackFormat::StitchNodesCsv),
            ),
            (
                "\"track_id(6)\", \"storm_id(6)\", \"lon(11)\", \"lat(11)\", \"surface_wind(11)\"",
                Some(TrackFormat::TecaCsv),
            ),
            (
                "track_id,time,lat,lon,wind,pressure",
                Some(TrackFormat::PointsCsv),
            ),
            (
                "Storm_ID,Datetime,Latitude,Longitude,vmax_kt",
                Some(TrackFormat::PointsCsv),
            ),
            (
                "track_id,year,month,day,hour,lat,lon,status,wind,pressure",
                Some(TrackFormat::PointsCsv),
            ),
            (
                "track_id,season,basin,time,lon,lat,wind,slp",
                Some(TrackFormat::IbtracsCsv),
            ),
            (
                "track_id,season,basin,time,lon,lat,slp",
                Some(TrackFormat::IbtracsCsv),
            ),
            // Its wind is in m/s.
            (
                "track_id,season,basin,time,lon,lat,wind10,slp",
                Some(TrackFormat::PointsCsv),
            ),
            // Neither a track nor a time.
            ("id,date,lat,lon,wind", None),
            (
                "class,time,west_deg,south_deg,east_deg,north_deg,confidence",
                None,
            ),
            ("name,wind", None),
        ] {
            assert_eq!(of_header(line), expected, "{line}");
        }
    }

    #[test]
    fn a_file_of_tracks_that_is_not_read_says_what_it_lacks() {
        let folder = tempfile::tempdir().unwrap();
        let said = |header: &str| {
            let path = folder.path().join("table.csv");
            std::fs::write(&path, format!("# comment\n{header}\n")).unwrap();
            lacking(&path)
        };
        let hurdat = said("name,year,month,day,hour,lat,long,status,wind,pressure").unwrap();
        assert!(
            hurdat.starts_with("lacks `track_id` of CSV of points; found name, year"),
            "{hurdat}"
        );
        let storms = said("id,date,lat,lon,wind").unwrap();
        assert!(
            storms.starts_with("lacks `track_id`, `time` of CSV of points"),
            "{storms}"
        );
        assert_eq!(said("sid,iso_time,lat,lon"), None);
        assert_eq!(said("name,wind"), None);
        let path = folder.path().join("tracks.nc");
        let write = |own: &'static [&'static str]| {
            on_library_thread(|| -> std::result::Result<(), netcdf::Error> {
                let mut file = netcdf::create(&path)?;
                file.add_dimension("record", 1)?;
                for name in own.iter().chain(&["lat", "lon"]) {
                    file.add_variable::<f32>(name, &["record"])?;
                }
                Ok(())
            })
        };
        write(&["TRACK_ID"]).unwrap();
        let said = lacking(&path).unwrap();
        assert!(
            said.starts_with("lacks `time` of trajectories as netCDF") && said.contains("TRACK_ID"),
            "{said}"
        );
        assert_eq!(format_of(&path).unwrap(), None);
        write(&["sid", "track_type"]).unwrap();
        let said = lacking(&path).unwrap();
        assert!(
            said.starts_with("lacks `iso_time` of IBTrACS netCDF"),
            "{said}"
        );
        write(&["LABELS"]).unwrap();
        assert_eq!(lacking(&path), None);
    }
}
