//! `events.csv`, `objects.csv` and `tracks.csv`.
//!
//! Numbers are written to a fixed number of decimals (positions 0.0001°, lengths 0.1 km, pressure 0.1 Pa, wind
//! 0.001 m/s); what is not known is blank. Columns are found by name, in any order; unknown ones are passed over.

pub(crate) mod lines;

use crate::error::{ClimateError, Result};
use crate::events::Event;
use crate::statistics::{Basin, Category};
use crate::track::{Fate, Origin, Track};
use lines::Table;
use squall_data::atomic::Pending;
use squall_data::{Calendar, Class, DataError};
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// Header of `events.csv` and `objects.csv`.
pub const EVENT_COLUMNS: [&str; 18] = [
    "class",
    "time",
    "lon_deg",
    "lat_deg",
    "area_km2",
    "track_id",
    "west_deg",
    "south_deg",
    "east_deg",
    "north_deg",
    "length_km",
    "width_km",
    "orientation_deg",
    "min_psl_pa",
    "max_wind_m_s",
    "max_tmq_kg_m2",
    "mean_prect_m_s",
    "mean_probability",
];

/// Header of `tracks.csv`.
pub const TRACK_COLUMNS: [&str; 22] = [
    "track_id",
    "class",
    "start_time",
    "end_time",
    "duration_hours",
    "points",
    "origin",
    "fate",
    "related_track",
    "genesis_lon_deg",
    "genesis_lat_deg",
    "end_lon_deg",
    "end_lat_deg",
    "distance_km",
    "mean_speed_m_s",
    "max_area_km2",
    "mean_area_km2",
    "min_psl_pa",
    "max_wind_m_s",
    "max_tmq_kg_m2",
    "category",
    "basin",
];

/// Writes a table row by row; it takes its name when it is whole.
///
/// `TableWriter<Event>` writes `events.csv`, `TableWriter<Track>` writes `tracks.csv`.
#[derive(Debug)]
pub struct TableWriter<T: Row> {
    csv: csv::Writer<BufWriter<File>>,
    pending: Pending,
    rows: std::marker::PhantomData<T>,
}

/// What can be a row of a table.
pub trait Row {
    /// The header.
    fn columns() -> Vec<&'static str>;
    /// The cells, as many as columns.
    fn cells(&self) -> Vec<String>;
}

impl<T: Row> TableWriter<T> {
    /// Begins a table.
    ///
    /// # Errors
    /// [`ClimateError::Data`] if the file cannot be created.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self> {
        Self::with_header(path, T::columns())
    }

    fn with_header<S: AsRef<[u8]>>(path: impl Into<PathBuf>, header: Vec<S>) -> Result<Self> {
        let pending = Pending::new(path)?;
        let file = File::create(pending.path()).map_err(DataError::io("create", pending.path()))?;
        let mut writer = Self {
            csv: csv::Writer::from_writer(BufWriter::new(file)),
            pending,
            rows: std::marker::PhantomData,
        };
        writer.record(header)?;
        Ok(writer)
    }

    /// Appends a row.
    ///
    /// # Errors
    /// [`ClimateError::Data`] if writing fails.
    pub fn write(&mut self, row: &T) -> Result<()> {
        self.record(row.cells())
    }

    /// Ends the table and gives it its name.
    ///
    /// # Errors
    /// [`ClimateError::Data`] if writing, syncing or renaming fails.
    pub fn finish(mut self) -> Result<()> {
        self.csv
            .flush()
            .map_err(DataError::io("write", self.pending.path()))?;
        drop(self.csv);
        Ok(self.pending.commit()?)
    }

    fn record<S: AsRef<[u8]>>(&mut self, cells: Vec<S>) -> Result<()> {
        self.csv.write_record(cells).map_err(|error| {
            ClimateError::Data(DataError::io("write", self.pending.path())(error.into()))
        })
    }
}

/// Writes `events.csv` or `objects.csv`.
///
/// # Errors
/// [`ClimateError::Data`] if writing fails; the file is then as it was.
pub fn write_events(path: impl Into<PathBuf>, events: &[Event]) -> Result<()> {
    write_rows(path, events)
}

/// Writes `tracks.csv`.
///
/// # Errors
/// [`ClimateError::Data`] if writing fails; the file is then as it was.
pub fn write_tracks(path: impl Into<PathBuf>, tracks: &[Track]) -> Result<()> {
    write_rows(path, tracks)
}

fn write_rows<T: Row>(path: impl Into<PathBuf>, rows: &[T]) -> Result<()> {
    let mut writer = TableWriter::create(path)?;
    for row in rows {
        writer.write(row)?;
    }
    writer.finish()
}

/// Reads `events.csv` or `objects.csv`; only class, time and position are required. An unknown area or shape is NaN, an
/// unknown box is the centre.
///
/// # Errors
/// [`ClimateError::Table`] if the file is not a table or lacks a column, [`ClimateError::TableCell`] with line and column
/// if a cell cannot be understood, [`ClimateError::Data`] if it cannot be opened.
pub fn read_events(path: impl AsRef<Path>, calendar: Calendar) -> Result<Vec<Event>> {
    let required = &EVENT_COLUMNS[..4];
    let mut table = Table::open(path.as_ref(), required)?;
    let mut events = Vec::new();
    while let Some(line) = table.next()? {
        let (lon_deg, lat_deg) = line.position("lon_deg", "lat_deg")?;
        let or = |value: Option<f64>, other: f64| value.unwrap_or(other);
        events.push(Event {
            class: line.class()?,
            time: line.time("time", calendar)?,
            track_id: line.whole("track_id")?,
            lon_deg,
            lat_deg,
            area_km2: or(line.number("area_km2")?, f64::NAN),
            west_deg: or(line.number("west_deg")?, lon_deg),
            south_deg: or(line.number("south_deg")?, lat_deg),
            east_deg: or(line.number("east_deg")?, lon_deg),
            north_deg: or(line.number("north_deg")?, lat_deg),
            length_km: or(line.number("length_km")?, f64::NAN),
            width_km: or(line.number("width_km")?, f64::NAN),
            orientation_deg: or(line.number("orientation_deg")?, f64::NAN),
            min_psl_pa: line.number("min_psl_pa")?,
            max_wind_m_s: line.number("max_wind_m_s")?,
            max_tmq_kg_m2: line.number("max_tmq_kg_m2")?,
            mean_prect_m_s: line.number("mean_prect_m_s")?,
            mean_probability: line.number("mean_probability")?,
        });
    }
    Ok(events)
}

/// Reads `tracks.csv`; identity, class, times and genesis are required. What follows from other columns (duration, speed,
/// category, basin) is not read.
///
/// # Errors
/// As [`read_events`].
pub fn read_tracks(path: impl AsRef<Path>, calendar: Calendar) -> Result<Vec<Track>> {
    let required = [
        "track_id",
        "class",
        "start_time",
        "end_time",
        "genesis_lon_deg",
        "genesis_lat_deg",
    ];
    let mut table = Table::open(path.as_ref(), &required)?;
    let mut tracks = Vec::new();
    while let Some(line) = table.next()? {
        let (genesis_lon_deg, genesis_lat_deg) =
            line.position("genesis_lon_deg", "genesis_lat_deg")?;
        let (start, end) = (
            line.time("start_time", calendar)?,
            line.time("end_time", calendar)?,
        );
        if end.seconds_since(start) < 0 {
            return Err(line.bad("end_time", "a time not before start_time"));
        }
        let track_id = line.whole("track_id")?;
        tracks.push(Track {
            track_id: track_id.ok_or_else(|| line.bad("track_id", "a whole number"))?,
            class: line.class()?,
            start,
            end,
            points: line.whole("points")?.unwrap_or(0) as usize,
            origin: line
                .word("origin", &Origin::ALL, Origin::name)?
                .unwrap_or(Origin::Genesis),
            fate: line
                .word("fate", &Fate::ALL, Fate::name)?
                .unwrap_or(Fate::Lysis),
            related_track: line.whole("related_track")?,
            genesis_lon_deg,
            genesis_lat_deg,
            end_lon_deg: line.number("end_lon_deg")?.unwrap_or(genesis_lon_deg),
            end_lat_deg: line.number("end_lat_deg")?.unwrap_or(genesis_lat_deg),
            distance_km: line.number("distance_km")?.unwrap_or(f64::NAN),
            max_area_km2: line.number("max_area_km2")?.unwrap_or(f64::NAN),
            mean_area_km2: line.number("mean_area_km2")?.unwrap_or(f64::NAN),
            min_psl_pa: line.number("min_psl_pa")?,
            max_wind_m_s: line.number("max_wind_m_s")?,
            max_tmq_kg_m2: line.number("max_tmq_kg_m2")?,
        });
    }
    Ok(tracks)
}

/// Blanks the `track_id` of the rows of `events.csv` whose track is not to be kept, row by row: the second phase after
/// tracking, which is when it is known which tracks were too short. Returns the number of rows changed.
///
/// # Errors
/// As [`read_events`], and [`ClimateError::Data`] if writing fails; the file is then as it was.
pub fn keep_track_ids(path: impl AsRef<Path>, keep: impl Fn(u64) -> bool) -> Result<usize> {
    let path = path.as_ref();
    let mut table = Table::open(path, &["track_id"])?;
    let column = table.column("track_id").unwrap_or_default();
    // The header as found, which may be another one than ours.
    let mut writer = TableWriter::<Event>::with_header(path, table.header())?;
    let mut changed = 0;
    while let Some(line) = table.next()? {
        let mut cells = line.texts();
        if line.whole("track_id")?.is_some_and(|id| !keep(id)) {
            cells[column].clear();
            changed += 1;
        }
        writer.record(cells)?;
    }
    writer.finish()?;
    Ok(changed)
}

impl Row for Event {
    fn columns() -> Vec<&'static str> {
        EVENT_COLUMNS.to_vec()
    }

    fn cells(&self) -> Vec<String> {
        vec![
            self.class.name().into(),
            self.time.to_string(),
            longitude(self.lon_deg),
            fixed(self.lat_deg, 4),
            fixed(self.area_km2, 1),
            self.track_id.map_or_else(String::new, |id| id.to_string()),
            longitude(self.west_deg),
            fixed(self.south_deg, 4),
            longitude(self.east_deg),
            fixed(self.north_deg, 4),
            fixed(self.length_km, 1),
            fixed(self.width_km, 1),
            fixed(self.orientation_deg, 2),
            optional(self.min_psl_pa, 1),
            optional(self.max_wind_m_s, 3),
            optional(self.max_tmq_kg_m2, 3),
            self.mean_prect_m_s
                .filter(|v| v.is_finite())
                .map_or_else(String::new, |v| format!("{v:.5e}")),
            optional(self.mean_probability, 5),
        ]
    }
}

impl Row for Track {
    fn columns() -> Vec<&'static str> {
        TRACK_COLUMNS.to_vec()
    }

    fn cells(&self) -> Vec<String> {
        let category = (self.class == Class::TropicalCyclone)
            .then_some(self.max_wind_m_s)
            .flatten()
            .and_then(Category::saffir_simpson);
        vec![
            self.track_id.to_string(),
            self.class.name().into(),
            self.start.to_string(),
            self.end.to_string(),
            fixed(self.duration_hours(), 2),
            self.points.to_string(),
            self.origin.name().into(),
            self.fate.name().into(),
            self.related_track
                .map_or_else(String::new, |id| id.to_string()),
            longitude(self.genesis_lon_deg),
            fixed(self.genesis_lat_deg, 4),
            longitude(self.end_lon_deg),
            fixed(self.end_lat_deg, 4),
            fixed(self.distance_km, 1),
            optional(self.mean_speed_m_s(), 3),
            fixed(self.max_area_km2, 1),
            fixed(self.mean_area_km2, 1),
            optional(self.min_psl_pa, 1),
            optional(self.max_wind_m_s, 3),
            optional(self.max_tmq_kg_m2, 3),
            category.map_or("", Category::name).into(),
            Basin::of(self.genesis_lat_deg, self.genesis_lon_deg)
                .code()
                .into(),
        ]
    }
}

fn fixed(value: f64, decimals: usize) -> String {
    if value.is_finite() {
        format!("{value:.decimals$}")
    } else {
        String::new()
    }
}

fn optional(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(String::new, |v| fixed(v, decimals))
}

/// A longitude of [0, 360) must not be rounded to 360.
fn longitude(value: f64) -> String {
    match fixed(value, 4) {
        text if text == "360.0000" => "0.0000".into(),
        text => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use squall_data::Time;
    use std::fs;

    fn time(hours: i64) -> Time {
        let start = Time::new(Calendar::NoLeap, 1996, 2, 28, 21, 0, 0).unwrap();
        start.add_seconds(3600 * hours)
    }

    fn some_event() -> impl Strategy<Value = Event> {
        let place = (0.0..359.9999f64, -90.0..90.0f64);
        let fields = proptest::collection::vec(proptest::option::of(0.01..1000.0f64), 5);
        (
            place,
            0..9000i64,
            any::<bool>(),
            fields,
            proptest::option::of(any::<u64>()),
        )
            .prop_map(|((lon, lat), hours, river, f, track_id)| Event {
                class: Class::EVENTS[usize::from(river)],
                time: time(hours),
                track_id,
                lon_deg: lon,
                lat_deg: lat,
                area_km2: 1e6 + lon,
                west_deg: lon,
                south_deg: lat,
                east_deg: (lon + 20.0).rem_euclid(360.0),
                north_deg: lat,
                length_km: 2000.0 + lat,
                width_km: 400.0,
                orientation_deg: lon / 2.0,
                min_psl_pa: f[0].map(|v| 95_000.0 + v),
                max_wind_m_s: f[1],
                max_tmq_kg_m2: f[2],
                mean_prect_m_s: f[3].map(|v| v * 1e-9),
                mean_probability: f[4].map(|v| v / 1000.0),
            })
    }

    fn near(a: Option<f64>, b: Option<f64>, tolerance: f64) -> bool {
        match (a, b) {
            (Some(a), Some(b)) => (a - b).abs() <= tolerance,
            (a, b) => a == b,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20))]
        #[test]
        fn events_come_back(events in proptest::collection::vec(some_event(), 0..6)) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("events.csv");
            write_events(&path, &events).unwrap();
            let back = read_events(&path, Calendar::NoLeap).unwrap();
            prop_assert_eq!(back.len(), events.len());
            for (a, b) in events.iter().zip(&back) {
                prop_assert_eq!((a.class, a.time, a.track_id), (b.class, b.time, b.track_id));
                prop_assert!((a.lon_deg - b.lon_deg).abs() < 1e-4 && (a.lat_deg - b.lat_deg).abs() < 1e-4);
                prop_assert!((a.east_deg - b.east_deg).abs() < 1e-4 && (a.area_km2 - b.area_km2).abs() < 0.06);
                prop_assert!(near(a.min_psl_pa, b.min_psl_pa, 0.06) && near(a.max_wind_m_s, b.max_wind_m_s, 6e-4));
                prop_assert!(near(a.max_tmq_kg_m2, b.max_tmq_kg_m2, 6e-4));
                prop_assert!(near(a.mean_prect_m_s, b.mean_prect_m_s, 1e-11));
                prop_assert!(near(a.mean_probability, b.mean_probability, 6e-6));
            }
            // What was read is written as it stood.
            let again = folder.path().join("again.csv");
            write_events(&again, &back).unwrap();
            prop_assert_eq!(fs::read(&path).unwrap(), fs::read(&again).unwrap());
        }
    }

    fn track() -> Track {
        Track {
            track_id: 7,
            class: Class::TropicalCyclone,
            start: time(0),
            end: time(48),
            points: 17,
            origin: Origin::Genesis,
            fate: Fate::Merge,
            related_track: Some(3),
            genesis_lon_deg: 359.99999,
            genesis_lat_deg: 12.5,
            end_lon_deg: 340.25,
            end_lat_deg: 20.0,
            distance_km: 2304.0,
            max_area_km2: 500_000.0,
            mean_area_km2: 400_000.0,
            min_psl_pa: Some(96_000.0),
            max_wind_m_s: Some(45.0),
            max_tmq_kg_m2: None,
        }
    }

    #[test]
    fn tracks_come_back_with_speed_category_and_basin() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tracks.csv");
        write_tracks(&path, &[track()]).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let row = text.lines().nth(1).unwrap();
        assert_eq!(
            row,
            "7,tropical_cyclone,1996-02-28T21:00:00,1996-03-02T21:00:00,48.00,17,genesis,merge,3,0.0000,12.5000,340.2500,\
             20.0000,2304.0,13.333,500000.0,400000.0,96000.0,45.000,,2,NA"
        );
        let back = read_tracks(&path, Calendar::NoLeap).unwrap();
        let expected = Track {
            genesis_lon_deg: 0.0,
            ..track()
        };
        assert_eq!(back, [expected]);
    }

    #[test]
    fn short_headers_are_enough_and_faults_are_located() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("objects.csv");
        let read = |text: &str| {
            fs::write(&path, text).unwrap();
            read_events(&path, Calendar::NoLeap)
        };
        // Other order, an unknown column, a byte order mark, longitudes of the other convention.
        let found = read(
            "\u{feff}time,note,lat_deg,lon_deg,class\n1996-02-28,x,10,-20.5,atmospheric_river\n",
        )
        .unwrap();
        assert_eq!((found[0].lon_deg, found[0].lat_deg), (339.5, 10.0));
        assert!(found[0].area_km2.is_nan() && found[0].track_id.is_none());
        for (text, parts) in [
            ("class,time,lon_deg\n", vec!["lat_deg", "lon_deg"]),
            (
                "class,time,lon_deg,lat_deg\ntornado,1996-01-01,1,2\n",
                vec!["line 2", "`class`", "tropical_cyclone", "`tornado`"],
            ),
            (
                "class,time,lon_deg,lat_deg\natmospheric_river,1996-01-01,1,2\natmospheric_river,1996-02-29,1,2\n",
                vec!["line 3", "`time`", "1996-02-29"],
            ),
            (
                "class,time,lon_deg,lat_deg\natmospheric_river,1996-01-01,1,95\n",
                vec!["line 2", "`lat_deg`", "-90 to 90", "`95`"],
            ),
            (
                "class,time,lon_deg,lat_deg\natmospheric_river,1996-01-01,,5\n",
                vec!["line 2", "`lon_deg`", "``"],
            ),
            (
                "class,time,lon_deg,lat_deg,track_id\natmospheric_river,1996-01-01,1,5,-4\n",
                vec!["`track_id`", "whole", "`-4`"],
            ),
            (
                "class,time,lon_deg,lat_deg\natmospheric_river,1996-01-01,1\n",
                vec!["objects.csv", "line 2"],
            ),
            ("", vec!["objects.csv", "empty"]),
        ] {
            let message = read(text).unwrap_err().to_string();
            for part in parts {
                assert!(message.contains(part), "{message} lacks {part}");
            }
        }
    }

    #[test]
    fn ids_of_short_tracks_are_blanked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.csv");
        fs::write(&path, "class,track_id,extra\na,1,x\nb,2,y\nc,,z\n").unwrap();
        assert_eq!(keep_track_ids(&path, |id| id == 2).unwrap(), 1);
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, "class,track_id,extra\na,,x\nb,2,y\nc,,z\n");
    }
}
