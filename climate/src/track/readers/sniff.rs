//! Which tool's tracks a file holds.

use super::delimited::plain_name;
use super::imported::TrackFormat;
use crate::error::Result;
use crate::table::sources::{Layout, layout_of};
use squall_data::DataError;
use squall_data::archive::on_library_thread;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Enough for the header of an official IBTrACS file, whose 160 columns take 2 kB, and the comments of TECA.
const HEAD_BYTES: u64 = 64 * 1024;

/// The format of a file of tracks by its first lines; `None` if it holds no tracks of a known tool.
///
/// # Errors
/// [`crate::ClimateError::Data`] if it cannot be opened.
pub fn format_of(path: &Path) -> Result<Option<TrackFormat>> {
    let file = File::open(path).map_err(DataError::io("open", path))?;
    let mut head = Vec::new();
    let mut reader = BufReader::new(file).take(HEAD_BYTES);
    reader
        .read_to_end(&mut head)
        .map_err(DataError::io("read", path))?;
    if head.starts_with(b"CDF") || head.starts_with(b"\x89HDF") {
        return Ok(on_library_thread(|| {
            let file = netcdf::open(path).ok()?;
            let has = |name| file.variable(name).is_some();
            (has("sid") && has("iso_time") && has("lat") && has("lon"))
                .then_some(TrackFormat::IbtracsNetcdf)
        }));
    }
    match layout_of(path)? {
        Layout::Parquet => return Ok(Some(TrackFormat::SquallExport)),
        // Other JSON, such as COCO's, holds no features.
        Layout::Geojson => {
            let features = head.windows(10).any(|part| part == b"\"features\"");
            return Ok(features.then_some(TrackFormat::SquallExport));
        }
        Layout::Delimited => {}
    }
    let lines = head.lines().map_while(|line| line.ok());
    let first = lines
        .map(|line| line.trim_start_matches('\u{feff}').trim().to_string())
        .find(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(first.and_then(|line| of_header(&line)))
}

fn of_header(line: &str) -> Option<TrackFormat> {
    if line.split_whitespace().next() == Some("start") {
        return Some(TrackFormat::StitchNodesGfdl);
    }
    let names: Vec<String> = line.split(',').map(plain_name).collect();
    let has = |wanted: &[&str]| {
        wanted
            .iter()
            .all(|&name| names.iter().any(|known| known == name))
    };
    [
        (
            TrackFormat::SquallEvents,
            &["class", "time", "lon_deg", "lat_deg"][..],
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
    ]
    .into_iter()
    .find_map(|(format, columns)| has(columns).then_some(format))
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
                "class,time,west_deg,south_deg,east_deg,north_deg,confidence",
                None,
            ),
            ("name,wind", None),
        ] {
            assert_eq!(of_header(line), expected, "{line}");
        }
    }
}
