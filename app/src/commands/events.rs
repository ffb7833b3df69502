//! `squall events`: masks (and fields) to events, tracks and statistics.

use crate::plan::Plan;
use crate::progress::Progress;
use crate::{input, interrupt, output};
use clap::Args;
use serde::Serialize;
use squall_climate::events::{EventFields, ExtractOptions, extract};
use squall_climate::statistics::Statistics;
use squall_climate::table::{TableWriter, keep_track_ids, write_tracks};
use squall_climate::track::{Tracker, TrackerOptions};
use squall_climate::{Event, Track};
use squall_data::mask_file::MaskArchive;
use squall_data::{Archive, Class, DataError, Snapshot, Variable};
use std::collections::HashSet;
use std::path::PathBuf;

/// Fields that events are described by, as far as the input has them.
const DESCRIBING: [Variable; 5] = [
    Variable::Tmq,
    Variable::Ubot,
    Variable::Vbot,
    Variable::Psl,
    Variable::Prect,
];

/// Turn masks into events (one row per object and time) and tracks (one row each).
#[derive(Debug, Args)]
pub struct Events {
    /// Masks: ours, ClimateNet's LABELS, ar_binary_tag, binary_tag or object_id of other tools.
    pub masks: String,
    /// Fields at the same times, for pressure, wind, moisture and rain of each event.
    #[arg(long, value_name = "IN")]
    pub fields: Option<String>,
    /// Folder for events.csv, tracks.csv and statistics by month, year and basin (CSV and netCDF).
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Smallest cyclone, km².
    #[arg(long, default_value_t = ExtractOptions::default().min_tropical_cyclone_km2)]
    pub min_cyclone_km2: f64,
    /// Smallest river, km².
    #[arg(long, default_value_t = ExtractOptions::default().min_atmospheric_river_km2)]
    pub min_river_km2: f64,
    /// Go on without input files that cannot be read; they are named and counted.
    #[arg(long)]
    pub skip_bad: bool,
    /// Print a summary as one JSON document.
    #[arg(long)]
    pub json: bool,
}

/// What the masks hold.
#[derive(Debug, Default, Serialize)]
pub struct EventsSummary {
    /// Times read.
    pub times: usize,
    /// Cyclones over all times.
    pub cyclones: usize,
    /// Rivers over all times.
    pub rivers: usize,
    /// Tracks of cyclones.
    pub cyclone_tracks: usize,
    /// Tracks of rivers.
    pub river_tracks: usize,
}

impl Events {
    /// Extracts, tracks and says what was found.
    pub fn run(self) -> anyhow::Result<()> {
        let summary = self.extract()?;
        if self.json {
            return output::json(&summary);
        }
        tracing::info!(
            "{} times: {} cyclones on {} tracks, {} rivers on {} tracks; events.csv and tracks.csv in {}",
            summary.times,
            summary.cyclones,
            summary.cyclone_tracks,
            summary.rivers,
            summary.river_tracks,
            self.out.display()
        );
        Ok(())
    }

    /// Writes both tables and says what is in them.
    pub fn extract(&self) -> anyhow::Result<EventsSummary> {
        let masks = MaskArchive::open(&self.masks)?;
        let fields = self
            .fields
            .as_deref()
            .map(|fields| input::open(fields, self.skip_bad))
            .transpose()?;
        let mut fields = fields
            .map(|archive| Fields::new(archive, &masks, self.fields.as_deref().unwrap_or("")))
            .transpose()?;
        let times = masks.times().len();
        let (rows, columns) = masks.grid().shape();
        let plane = (rows * columns) as u64;
        let planes = fields
            .as_ref()
            .map_or(0, |fields| fields.variables.len() as u64);
        Plan {
            work: format!("events of {times} masks, {}", masks.grid().describe()),
            read: plane * (1 + 4 * planes) * times as u64,
            memory: 50_000_000 + 60 * plane,
            seconds: Some(times as f64 * plane as f64 * (2.0 + planes as f64) * 1.2e-8),
            ..Plan::default()
        }
        .announce();
        let options = ExtractOptions {
            min_tropical_cyclone_km2: self.min_cyclone_km2,
            min_atmospheric_river_km2: self.min_river_km2,
        };
        let mut tracker = Tracker::new(masks.grid(), TrackerOptions::default())?;
        let mut table = TableWriter::<Event>::create(self.out.join("events.csv"))?;
        let (mut tracks, mut discarded): (Vec<Track>, HashSet<u64>) = Default::default();
        let mut statistics = Statistics::new(masks.grid());
        let mut summary = EventsSummary {
            times,
            ..EventsSummary::default()
        };
        let mut progress = Progress::new("events", times);
        for index in 0..times {
            interrupt::check()?;
            let mask = masks.read(index)?;
            let snapshot = fields
                .as_mut()
                .map(|fields| fields.at(mask.time))
                .transpose()?
                .flatten();
            let probability = |class| Ok::<_, DataError>((class, masks.probability(index, class)?));
            let probabilities = Class::EVENTS
                .into_iter()
                .map(probability)
                .collect::<Result<Vec<_>, _>>()?;
            let known = EventFields {
                snapshot: snapshot.as_ref(),
                probabilities: probabilities
                    .iter()
                    .filter_map(|(class, p)| Some((*class, p.as_ref()?.view())))
                    .collect(),
            };
            let mut found = extract(&mask, masks.grid(), &known, &options)?;
            let step = tracker.push(mask.time, &mut found)?;
            let events = found.iter().map(|detected| &detected.event);
            statistics.add_time(&mask, hours_of(masks.times(), index), events)?;
            tracks.extend(step.finished);
            discarded.extend(step.discarded);
            for detected in &found {
                table.write(&detected.event)?;
                match detected.event.class {
                    Class::TropicalCyclone => summary.cyclones += 1,
                    _ => summary.rivers += 1,
                }
            }
            progress.set(index + 1, String::new());
        }
        progress.finish();
        let step = tracker.finish();
        tracks.extend(step.finished);
        discarded.extend(step.discarded);
        table.finish()?;
        // Rows of tracks that turned out too short stay, without the track.
        keep_track_ids(self.out.join("events.csv"), |id| !discarded.contains(&id))?;
        tracks.sort_by_key(|track| track.track_id);
        write_tracks(self.out.join("tracks.csv"), &tracks)?;
        tracks.iter().for_each(|track| statistics.add_track(track));
        statistics.write_csv(&self.out)?;
        statistics.write_netcdf(
            self.out.join("statistics.nc"),
            masks.grid(),
            masks.calendar(),
        )?;
        let count = |class| tracks.iter().filter(|track| track.class == class).count();
        summary.cyclone_tracks = count(Class::TropicalCyclone);
        summary.river_tracks = count(Class::AtmosphericRiver);
        Ok(summary)
    }
}

/// Hours that a time stands for: to the next one, or from the one before.
fn hours_of(times: &[squall_data::Time], index: usize) -> f64 {
    let (from, to) = match times.len() {
        0 | 1 => return 6.0,
        count if index + 1 < count => (index, index + 1),
        _ => (index - 1, index),
    };
    // A hole in the data is not a time that a storm lasted.
    (times[to].seconds_since(times[from]) as f64 / 3600.0).min(24.0)
}

/// Fields at the times of masks.
struct Fields {
    archive: Archive,
    variables: Vec<Variable>,
    cursor: usize,
    unmatched: usize,
}

impl Fields {
    fn new(archive: Archive, masks: &MaskArchive, name: &str) -> anyhow::Result<Self> {
        if archive.grid().hash() != masks.grid().hash() {
            let (expected, found) = (masks.grid().describe(), archive.grid().describe());
            return Err(DataError::Mismatch {
                what: "grid of the fields",
                path: name.into(),
                expected,
                found,
            }
            .into());
        }
        let variables: Vec<Variable> = DESCRIBING
            .into_iter()
            .filter(|v| archive.available().contains(v))
            .collect();
        let lacking: Vec<&str> = DESCRIBING
            .iter()
            .filter(|v| !variables.contains(v))
            .map(|v| v.name())
            .collect();
        if !lacking.is_empty() {
            tracing::warn!(
                "no {} in the fields: their columns stay blank",
                lacking.join(", ")
            );
        }
        Ok(Self {
            archive,
            variables,
            cursor: 0,
            unmatched: 0,
        })
    }

    /// The fields at a time; times must rise.
    fn at(&mut self, time: squall_data::Time) -> anyhow::Result<Option<Snapshot>> {
        let times = self.archive.times();
        if times[0].calendar() != time.calendar() {
            let (expected, found) = (
                time.calendar().cf_name().into(),
                times[0].calendar().cf_name().into(),
            );
            let path = self.archive.source_of(0).0.into();
            return Err(DataError::Mismatch {
                what: "calendar of the fields",
                path,
                expected,
                found,
            }
            .into());
        }
        while self.cursor < times.len() && times[self.cursor].seconds_since(time) < 0 {
            self.cursor += 1;
        }
        if times.get(self.cursor) != Some(&time) {
            self.unmatched += 1;
            if self.unmatched == 1 {
                tracing::warn!(
                    "there are no fields at {time} (and perhaps at other times): those columns stay blank"
                );
            }
            return Ok(None);
        }
        Ok(Some(self.archive.read(self.cursor, &self.variables)?))
    }
}
