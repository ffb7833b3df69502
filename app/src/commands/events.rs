//! `squall events`: masks (and fields) to events, tracks and statistics.

use crate::failure::Advice;
use crate::plan::Plan;
use crate::progress::Progress;
use crate::{input, interrupt, output, ranks};
use anyhow::Context;
use clap::Args;
use rayon::prelude::*;
use serde::Serialize;
use squall_climate::events::{DetectedEvent, EventFields, ExtractOptions, extract};
use squall_climate::map::LandMask;
use squall_climate::stream::{EventCounts, EventStream, Moment, RunFolder, hours_of};
use squall_climate::track::TrackerOptions;
use squall_climate::track::formats::{Format, Setting, export, write_object_ids};
use squall_data::mask_file::MaskArchive;
use squall_data::{Archive, Class, ClassMask, DataError, Snapshot, Time, Variable};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Instant;

/// Fields that events are described by, as far as the input has them.
const DESCRIBING: [Variable; 7] = [
    Variable::Tmq,
    Variable::Ubot,
    Variable::Vbot,
    Variable::U850,
    Variable::V850,
    Variable::Psl,
    Variable::Prect,
];
/// Most times in memory at once; their events are found in parallel.
const MOST_TIMES: usize = 8;

/// Turn masks into events (one row per object and time) and tracks (one row each).
#[derive(Debug, Args)]
pub struct Events {
    /// Masks: ours, ClimateNet's LABELS, ar_binary_tag, binary_tag or object_id of other tools.
    pub masks: String,
    /// Fields at the same times, for pressure, wind, moisture, vapour transport and rain of each event.
    #[arg(long, value_name = "IN")]
    pub fields: Option<String>,
    /// Folder for events.csv, tracks.csv and statistics by month, year and basin (CSV and netCDF). What an interrupted run left
    /// there is gone on with.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Smallest cyclone, km².
    #[arg(long, default_value_t = ExtractOptions::default().min_tropical_cyclone_km2)]
    pub min_cyclone_km2: f64,
    /// Smallest river, km².
    #[arg(long, default_value_t = ExtractOptions::default().min_atmospheric_river_km2)]
    pub min_river_km2: f64,
    /// Also write tracks as gfdl or csv (TempestExtremes), teca, ibtracs, geojson, parquet; several with commas.
    #[arg(long, value_name = "FORMATS", value_delimiter = ',')]
    pub format: Vec<String>,
    /// Also write object_id.nc: the track of every cell, as TempestExtremes' StitchBlobs has it.
    #[arg(long)]
    pub object_id: bool,
    /// Seconds between states to go on from after a kill.
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0)]
    pub save_every: f64,
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
    /// Times, objects and tracks.
    #[serde(flatten)]
    pub counts: EventCounts,
    /// Times that an interrupted run had done before.
    pub resumed_after: usize,
    /// Files in other formats.
    pub files: Vec<PathBuf>,
}

impl Events {
    /// Extracts, tracks and says what was found.
    pub fn run(self) -> anyhow::Result<()> {
        if ranks::number() > 0 {
            // One process follows a century faster than files are read; several would write the same files.
            return Ok(());
        }
        let summary = self.extract()?;
        if self.json {
            return output::json(&summary);
        }
        let counts = summary.counts;
        tracing::info!(
            "{} times: {} cyclones on {} tracks, {} rivers on {} tracks; events.csv and tracks.csv in {}",
            counts.times,
            counts.cyclones,
            counts.cyclone_tracks,
            counts.rivers,
            counts.river_tracks,
            self.out.display()
        );
        Ok(())
    }

    /// Writes both tables and says what is in them.
    pub fn extract(&self) -> anyhow::Result<EventsSummary> {
        let formats = self.formats()?;
        let masks = MaskArchive::open(&self.masks)?;
        let fields = self
            .fields
            .as_deref()
            .map(|name| Fields::new(input::open(name, self.skip_bad)?, &masks, name))
            .transpose()?;
        self.plan(&masks, fields.as_ref());
        let tracking = TrackerOptions::default();
        let new = EventStream::new(masks.grid(), tracking)?;
        let fingerprint = self.fingerprint(&masks, fields.as_ref(), &tracking)?;
        let (mut folder, mut stream, start) = RunFolder::open(&self.out, &fingerprint, new)?;
        if start > 0 {
            tracing::info!("{start} times were done before: going on from there");
        }
        let source = Source {
            land: LandMask::natural_earth(masks.grid()),
            masks: &masks,
            fields,
            options: self.options(),
        };
        let times = masks.times();
        let mut progress = Progress::new("events", times.len());
        progress.start(times.len(), start);
        let mut saved = Instant::now();
        let most = rayon::current_num_threads().clamp(1, MOST_TIMES);
        let mut next = start;
        while next < times.len() {
            let block = next..times.len().min(next + most);
            for mut read in source.read(block)? {
                let found = std::mem::take(&mut read.found);
                let moment = Moment {
                    mask: &read.mask,
                    hours: hours_of(times, next),
                    fields: &read.known(&source.land),
                };
                folder.write(&stream.add(&moment, found)?)?;
                next += 1;
            }
            let interrupted = interrupt::check();
            if interrupted.is_err() || saved.elapsed().as_secs_f64() >= self.save_every {
                folder.save(&stream, next)?;
                saved = Instant::now();
            }
            interrupted?;
            progress.set(next, String::new());
        }
        progress.finish();
        let finished = folder.finish(stream)?;
        finished.statistics.write_netcdf(
            self.out.join("statistics.nc"),
            masks.grid(),
            masks.calendar(),
        )?;
        let setting = Setting {
            grid: masks.grid(),
            times,
            calendar: masks.calendar(),
            source: masks.source(),
        };
        let mut files = export(&self.out, &formats, &setting)?;
        if self.object_id {
            files.push(write_object_ids(&self.out, &masks, &source.options)?);
        }
        Ok(EventsSummary {
            counts: finished.counts,
            resumed_after: start,
            files,
        })
    }

    fn options(&self) -> ExtractOptions {
        ExtractOptions {
            min_tropical_cyclone_km2: self.min_cyclone_km2,
            min_atmospheric_river_km2: self.min_river_km2,
        }
    }

    fn formats(&self) -> anyhow::Result<Vec<Format>> {
        let hint = "for example --format gfdl,parquet";
        self.format
            .iter()
            .map(|name| {
                Format::from_name(name).map_err(|error| Advice::usage(error.to_string(), hint))
            })
            .collect()
    }

    fn plan(&self, masks: &MaskArchive, fields: Option<&Fields>) {
        let times = masks.times().len();
        let (rows, columns) = masks.grid().shape();
        let plane = (rows * columns) as u64;
        let planes = fields.map_or(0, |fields| fields.variables.len() as u64);
        let held = rayon::current_num_threads().clamp(1, MOST_TIMES) as u64;
        Plan {
            work: format!("events of {times} masks, {}", masks.grid().describe()),
            read: plane * (1 + 4 * planes) * times as u64,
            memory: 50_000_000 + plane * (40 + held * (10 + 4 * planes)) + 40 * times as u64,
            seconds: Some(times as f64 * plane as f64 * (2.0 + planes as f64) * 1.2e-8),
            ..Plan::default()
        }
        .announce();
    }

    /// Whatever would change the result.
    fn fingerprint(
        &self,
        masks: &MaskArchive,
        fields: Option<&Fields>,
        tracking: &TrackerOptions,
    ) -> anyhow::Result<String> {
        let size = |path: &std::path::Path| {
            let length = std::fs::metadata(path).map(|meta| meta.len());
            (path.display().to_string(), length.unwrap_or(0))
        };
        let span = |times: &[Time]| {
            let ends = [times.first(), times.last()].map(|time| time.map(Time::to_string));
            (times.len(), ends)
        };
        let parts = (
            env!("CARGO_PKG_VERSION"),
            masks.grid().hash(),
            masks.paths().map(size).collect::<Vec<_>>(),
            span(masks.times()),
            [self.min_cyclone_km2, self.min_river_km2],
            tracking,
            fields.map(|fields| {
                let names = fields
                    .variables
                    .iter()
                    .map(|v| v.name())
                    .collect::<Vec<_>>();
                let span = span(fields.archive.times());
                (
                    self.fields.as_deref(),
                    names,
                    fields.archive.file_count(),
                    span,
                )
            }),
        );
        serde_json::to_string(&parts).context("naming the run")
    }
}

/// Where events come from.
struct Source<'a> {
    masks: &'a MaskArchive,
    fields: Option<Fields>,
    land: LandMask,
    options: ExtractOptions,
}

/// One time as read, and its events.
struct Read {
    mask: ClassMask,
    snapshot: Option<Snapshot>,
    probabilities: Vec<(Class, ndarray::Array2<f32>)>,
    found: Vec<DetectedEvent>,
}

impl Read {
    fn known<'a>(&'a self, land: &'a LandMask) -> EventFields<'a> {
        let probabilities = self.probabilities.iter();
        EventFields {
            snapshot: self.snapshot.as_ref(),
            probabilities: probabilities.map(|(c, p)| (*c, p.view())).collect(),
            land: Some(land),
        }
    }
}

impl Source<'_> {
    /// Some times one after the other, because netCDF has one lock; then their events in parallel.
    fn read(&self, block: Range<usize>) -> anyhow::Result<Vec<Read>> {
        let mut read = block
            .map(|index| self.read_one(index))
            .collect::<anyhow::Result<Vec<_>>>()?;
        read.par_iter_mut().try_for_each(|read| {
            let grid = self.masks.grid();
            let found = extract(&read.mask, grid, &read.known(&self.land), &self.options)?;
            read.found = found;
            Ok::<_, anyhow::Error>(())
        })?;
        Ok(read)
    }

    fn read_one(&self, index: usize) -> anyhow::Result<Read> {
        let mask = self.masks.read(index)?;
        let mut probabilities = Vec::new();
        for class in Class::EVENTS {
            let known = self.masks.probability(index, class)?;
            probabilities.extend(known.map(|plane| (class, plane)));
        }
        let fields = self.fields.as_ref();
        let snapshot = fields.map(|fields| fields.at(mask.time)).transpose()?;
        Ok(Read {
            mask,
            snapshot: snapshot.flatten(),
            probabilities,
            found: Vec::new(),
        })
    }
}

/// Fields at the times of masks.
struct Fields {
    archive: Archive,
    variables: Vec<Variable>,
}

impl Fields {
    /// Refuses fields of another grid or calendar, or of none of the times; warns of what is lacking.
    fn new(archive: Archive, masks: &MaskArchive, name: &str) -> anyhow::Result<Self> {
        let differs = |what, expected: String, found: String| DataError::Mismatch {
            what,
            path: name.into(),
            expected,
            found,
        };
        if archive.grid().hash() != masks.grid().hash() {
            let (expected, found) = (masks.grid().describe(), archive.grid().describe());
            return Err(differs("grid of the fields", expected, found).into());
        }
        if archive.calendar() != masks.calendar() {
            let (expected, found) = (masks.calendar().to_string(), archive.calendar().to_string());
            return Err(differs("calendar of the fields", expected, found).into());
        }
        let times = masks.times();
        let lacking = times.iter().filter(|time| archive.find(**time).is_none());
        let first = lacking.clone().next();
        let missing = lacking.count();
        if missing == times.len() {
            let span = |times: &[Time]| match times {
                [first, .., last] => format!("{} from {first} to {last}", times.len()),
                _ => times.iter().map(Time::to_string).collect(),
            };
            let expected = format!("some of the masks' times ({})", span(times));
            return Err(differs("times of the fields", expected, span(archive.times())).into());
        }
        if let Some(first) = first {
            tracing::warn!(
                "there are no fields at {missing} of {} times, the first {first}: their columns stay blank there",
                times.len()
            );
        }
        let (variables, absent): (Vec<Variable>, Vec<Variable>) = DESCRIBING
            .into_iter()
            .partition(|variable| archive.available().contains(variable));
        if !absent.is_empty() {
            let names: Vec<&str> = absent.iter().map(|v| v.name()).collect();
            tracing::warn!(
                "no {} in the fields: their columns stay blank",
                names.join(", ")
            );
        }
        Ok(Self { archive, variables })
    }

    /// The fields at a time, if there are any.
    fn at(&self, time: Time) -> anyhow::Result<Option<Snapshot>> {
        let found = self.archive.find(time);
        let read = found.map(|index| self.archive.read(index, &self.variables));
        Ok(read.transpose()?)
    }
}
