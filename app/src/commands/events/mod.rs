//! `squall events`: masks or boxes (and fields) to events, tracks and statistics.

mod fields;
mod following;
mod imported;
mod objects;
pub mod refusals;
mod source;
mod summary;
#[cfg(test)]
mod tests;
mod together;
mod tracking;

pub use summary::EventsSummary;

use crate::arguments::{MIN_CONFIDENCE, calendar, is_not_negative, number, wind};
use crate::failure::Advice;
use crate::input::file_facts;
use crate::own_folder::{self, Holds};
use crate::plan::{Plan, counted};
use crate::saving::SAVE_EVERY_SECONDS;
use crate::tags::Tags;
use crate::{input, interrupt, output, ranks};
use anyhow::Context;
use clap::Args;
use fields::Fields;
use following::Following;
use objects::{Objects, listed_cyclones};
use squall_climate::events::{ExtractOptions, cyclone_wind_deg};
use squall_climate::map::LandMask;
use squall_climate::stream::EventStream;
use squall_climate::track::formats::Format;
use squall_climate::track::{TrackerOptions, rule_of_landfalls};
use squall_data::{Archive, Calendar, Class, Time, Variable};
use squall_jobs::comm::{Communicator, Solo};
use squall_jobs::lock::FolderLock;
use std::path::PathBuf;

/// Raised whenever the same masks and fields give other events: a run is not continued by another method.
const METHOD: u32 = 13;

/// Most times in memory at once; their events are found in parallel.
const MOST_TIMES: usize = 8;

/// Turn masks or boxes into events (one row per object and time) and tracks (one row each).
///
/// Under `mpirun` or `srun`, ranks share the reading and the search for events; the first rank tracks all events in
/// time order, so the tables are the same for any number of ranks.
///
/// Events from boxes have the box's area, edges and confidence. Their length, width, orientation and rain stay blank,
/// and so do frequency maps: where in the box the event lies is unknown. Depressions and extratropical cyclones, which
/// masks do not have, are listed and tracked; statistics have the numbers of their tracks and objects.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  squall events masks --fields run --out events\n  squall events boxes.csv --fields run --out events\n  squall events ibtracs.csv --out best\n  squall events nodes.txt --columns lon,lat,slp,wind --out tempest"
)]
pub struct Events {
    /// Masks: Squall's, ClimateNet's LABELS, or ar_binary_tag, binary_tag or object_id of other tools. Or boxes:
    /// boxes.csv (of `squall infer` or `squall label`) or a folder with it, ExtremeWeather .h5, COCO .json. Or imported
    /// tracks, for `squall compare` and --format, without fields and statistics: IBTrACS (CSV, netCDF), HURDAT2, ATCF
    /// (b-decks or one forecast), TempestExtremes StitchNodes (gfdl, csv), TECA tables, TRACK (text, netCDF),
    /// trajectories as netCDF, CSV with track_id, time, lon and lat, or parquet or geojson written by --format.
    pub masks: String,
    #[command(flatten)]
    pub tags: Tags,
    /// Fields at the same times, for each event's pressure, wind, moisture, vapour transport and rain.
    #[arg(long, value_name = "IN")]
    pub fields: Option<String>,
    /// Output folder for events.csv, tracks.csv and statistics by month, year and basin (CSV, netCDF). An interrupted
    /// run is continued; results of a finished run are replaced.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Masks: minimum area of a cyclone, km² [default: 20000; 0 for masks that name their rules, such as those of
    /// `squall label`].
    #[arg(long, value_name = "KM2", value_parser = area)]
    pub min_cyclone_km2: Option<f64>,
    /// Masks: minimum area of a river, km² [default: 300000].
    #[arg(long, value_name = "KM2", value_parser = area)]
    pub min_river_km2: Option<f64>,
    /// Leave out tropical cyclones from the tracks whose wind never reaches this, m/s; 17 is a tropical storm. Masks
    /// and boxes need --fields for it, and keep tracks that the first or last time cuts off; imported tracks have their
    /// own winds. If --tracking sets a minimum too, the higher one applies.
    #[arg(long, value_name = "M_S", value_parser = wind)]
    pub min_wind: Option<f64>,
    /// TOML file with tracking parameters that differ from the defaults, such as `min_duration_hours = 72` under
    /// `[tropical_cyclone]` (docs/events.md, "From events to tracks").
    #[arg(long, value_name = "FILE")]
    pub tracking: Option<PathBuf>,
    /// Boxes: minimum confidence of an event; boxes without a confidence count as certain [default: 0.5].
    #[arg(long, value_name = "SHARE")]
    pub min_confidence: Option<f32>,
    /// Boxes and tracks: calendar of dates, which most tables do not name [default: that in labels.json beside boxes,
    /// else that of the fields, else standard]. Files that name another one are refused.
    #[arg(long, value_name = "NAME", value_parser = calendar)]
    pub calendar: Option<Calendar>,
    /// Tracks: columns of StitchNodes text, as in its --in_fmt; for TRACK text, the names of its added fields in order,
    /// such as mslp,wind10.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub columns: Vec<String>,
    /// IBTrACS tracks: wind column for all storms, such as usa_wind (1-minute means), wmo_wind or tokyo_wind [default:
    /// for each storm WMO_WIND or USA_WIND, whichever has more values].
    #[arg(long, value_name = "NAME")]
    pub wind_column: Option<String>,
    /// Also write tracks in these formats, comma-separated: gfdl, csv (both TempestExtremes), teca, ibtracs, geojson,
    /// parquet.
    #[arg(long, value_name = "FORMATS", value_delimiter = ',')]
    pub format: Vec<String>,
    /// Also write object_id.nc: the track number of every cell, like TempestExtremes' StitchBlobs.
    #[arg(long)]
    pub object_id: bool,
    /// Seconds between saved states, from which a killed run continues.
    #[arg(long, value_name = "SECONDS", default_value_t = SAVE_EVERY_SECONDS)]
    pub save_every: f64,
    /// Skip files and times that cannot be read; they are listed and counted. Where only fields cannot be read, the
    /// columns that need them stay blank.
    #[arg(long)]
    pub skip_bad: bool,
    /// Print a summary as one JSON document.
    #[arg(long)]
    pub json: bool,
}

/// Parses an area.
fn area(text: &str) -> Result<f64, String> {
    let expected = "an area in km² that is not negative, such as 100000";
    number(text, is_not_negative, expected)
}

impl Events {
    /// Extracts, tracks and says what was found.
    pub fn run(self) -> anyhow::Result<()> {
        // Before ranks connect and files are opened, which may take minutes: the signal of a batch system would look like a crash.
        interrupt::flag();
        let summary = match ranks::processes()? {
            Some(mut world) => {
                let ranks = world.size();
                ranks::finish(ranks, self.extract_on(&mut world))?
            }
            None => Some(self.extract()?),
        };
        let Some(summary) = summary else {
            return Ok(());
        };
        if self.json {
            return output::json(&summary);
        }
        tracing::info!(
            "{}: {}; events.csv and tracks.csv in {}{}{}",
            counted(summary.counts.times, "time"),
            summary.found(),
            self.out.display(),
            summary.left_out(),
            summary.by_proxy()
        );
        Ok(())
    }

    /// Writes both tables and says what is in them.
    pub fn extract(&self) -> anyhow::Result<EventsSummary> {
        let summary = self.extract_on(&mut Solo::new())?;
        summary.context("one rank alone is the first: this is a bug")
    }

    /// Writes both tables together with the other ranks; the summary on the first, none on the others.
    fn extract_on(&self, comm: &mut dyn Communicator) -> anyhow::Result<Option<EventsSummary>> {
        let formats = self.formats()?;
        if comm.rank() == 0 {
            own_folder::check(&self.out, Holds::Events)?;
        }
        if imported::is_in(&self.masks)? {
            return match comm.rank() {
                0 => self.import(&formats).map(Some),
                _ => Ok(None),
            };
        }
        let (objects, fields, skipped_files) = self.open(comm)?;
        let land = LandMask::natural_earth(objects.grid());
        if comm.rank() > 0 {
            together::help(comm, self, &objects, fields, &land)?;
            return Ok(None);
        }
        // Refuses formats before a century of work, not after it.
        formats
            .iter()
            .try_for_each(|format| format.check(objects.times()))?;
        self.plan(&objects, fields.as_ref());
        let tracking = self.tracking(&objects, fields.as_ref())?;
        let new = EventStream::new(objects.grid(), tracking)?;
        let fingerprint = self.fingerprint(&objects, fields.as_ref(), &tracking)?;
        let _lock = FolderLock::take(&self.out)?;
        let mut following = Following::open(self, &objects, &fingerprint, new)?;
        let wind = fields.as_ref().and_then(Fields::wind);
        let ranked_by = fields.as_ref().and_then(Fields::ranked_by);
        let absent = fields.as_ref().map_or(0, |fields| fields.absent);
        let has_pressure =
            (fields.as_ref()).map(|fields| fields.variables.contains(&Variable::Psl));
        following.follow(comm, fields, &land)?;
        let summary =
            following.conclude((wind, ranked_by), self.rules(&objects, &tracking), &formats)?;
        let without = [summary.counts.unread_fields, absent];
        for sentence in
            fields::without_fields(without, objects.times().len(), chooses_by_wind(&tracking))
        {
            tracing::warn!("{sentence}");
        }
        let has_cyclones = summary.counts.cyclones + summary.counts.others > 0;
        if let Some(sentence) = fields::without_pressure(has_pressure, has_cyclones) {
            tracing::warn!("{sentence}");
        }
        if let Some(sentence) = summary.all_too_small(self.options(&objects)) {
            tracing::warn!("{sentence}");
        }
        if matches!(objects, Objects::Masks(_))
            && skipped_files == 0
            && let Some(sentence) =
                listed_cyclones(&self.masks).and_then(|listed| summary.joined(listed))
        {
            tracing::info!("{sentence}");
        }
        Ok(Some(EventsSummary {
            skipped_files,
            ..summary
        }))
    }

    /// The masks or boxes and the fields, on all ranks; how many files of both could not be used.
    fn open(
        &self,
        comm: &mut dyn Communicator,
    ) -> anyhow::Result<(Objects, Option<Fields>, usize)> {
        let archive = (self.fields.as_deref())
            .map(|name| input::open_together(comm, name, self.skip_bad, &fields::DESCRIBING))
            .transpose()?;
        let objects = Objects::open(self, archive.as_ref(), comm.rank() == 0)?;
        if let (Some(archive), Objects::Masks(masks), 0) = (&archive, &objects, comm.rank()) {
            input::compare_origin(masks, archive);
        }
        let paths = archive.iter().flat_map(Archive::paths);
        refusals::refuse_own(objects.paths().into_iter().chain(paths), &self.out)?;
        let skipped = archive.as_ref().map_or(0, Archive::skipped_files);
        let fields = archive
            .zip(self.fields.as_deref())
            .map(|(archive, name)| {
                let says = comm.rank() == 0;
                Fields::new(archive, &objects, name, self.skip_bad, says)
            })
            .transpose()?;
        let skipped = skipped + objects.skipped_files();
        Ok((objects, fields, skipped))
    }

    /// The options of the library, as the arguments say, else those that are usual for these objects.
    fn options(&self, objects: &Objects) -> ExtractOptions {
        self.options_or(objects.usual_options())
    }

    fn options_or(&self, usual: ExtractOptions) -> ExtractOptions {
        ExtractOptions {
            min_tropical_cyclone_km2: (self.min_cyclone_km2)
                .unwrap_or(usual.min_tropical_cyclone_km2),
            min_atmospheric_river_km2: (self.min_river_km2)
                .unwrap_or(usual.min_atmospheric_river_km2),
        }
    }

    /// The least confidence of boxes that are events.
    fn confidence(&self) -> f32 {
        self.min_confidence.unwrap_or(MIN_CONFIDENCE)
    }

    /// Refuses options that have no effect on what the input holds.
    fn refuse_misfits(&self, holds: &str) -> anyhow::Result<()> {
        let misfits = [
            ("--min-cyclone-km2", self.min_cyclone_km2.is_some(), "masks"),
            ("--min-river-km2", self.min_river_km2.is_some(), "masks"),
            ("--object-id", self.object_id, "masks"),
            ("--tag-class", self.tags.tag_class.is_some(), "masks"),
            ("--min-confidence", self.min_confidence.is_some(), "boxes"),
            ("--columns", !self.columns.is_empty(), "tracks"),
            ("--wind-column", self.wind_column.is_some(), "tracks"),
            (
                "--tracking",
                holds == "tracks" && self.tracking.is_some(),
                "masks and boxes",
            ),
        ];
        let misfit = |(_, given, fits): &(&str, bool, &str)| *given && *fits != holds;
        match misfits.into_iter().find(misfit) {
            Some((option, _, fits)) => Err(Advice::usage(
                format!("{option} is for {fits}, and `{}` holds {holds}", self.masks),
                format!("leave {option} out"),
            )),
            None => Ok(()),
        }
    }

    /// How events are joined to tracks, and which of them are listed.
    fn tracking(
        &self,
        objects: &Objects,
        fields: Option<&Fields>,
    ) -> anyhow::Result<TrackerOptions> {
        let mut tracking = match &self.tracking {
            None => objects.tracking(),
            Some(file) => tracking::read(file, &objects.tracking())?,
        };
        if let Some(least) = self.min_wind {
            let linking = &mut tracking.tropical_cyclone;
            linking.min_peak_wind_m_s = linking.min_peak_wind_m_s.max(least);
        }
        let at_ground = |fields: &Fields| {
            let needed = [Variable::Ubot, Variable::Vbot];
            needed.iter().all(|v| fields.variables.contains(v))
        };
        if chooses_by_wind(&tracking) && !fields.is_some_and(at_ground) {
            let hint = "give fields with the wind of the lowest level (UBOT, VBOT), or leave --min-wind and \
                        min_peak_wind_m_s out: without a wind no track would reach it";
            let lacks = match fields {
                Some(_) => "the fields have no wind",
                None => "there are no fields whose wind would tell (--fields)",
            };
            let asked = match &self.tracking {
                Some(file) if self.min_wind.is_none_or(|least| least <= 0.0) => {
                    format!("min_peak_wind_m_s in `{}`", file.display())
                }
                _ => "--min-wind".into(),
            };
            return Err(Advice::usage(format!("{asked}: {lacks}"), hint));
        }
        Ok(tracking)
    }

    /// The numbers by which events and tracks are chosen; a comparison with another run checks them.
    fn rules(&self, objects: &Objects, tracking: &TrackerOptions) -> Vec<(String, String)> {
        let least = self.options(objects);
        let of_objects = match objects {
            Objects::Masks(_) => vec![
                (
                    "min_cyclone_km2",
                    least.min_tropical_cyclone_km2.to_string(),
                ),
                ("min_river_km2", least.min_atmospheric_river_km2.to_string()),
            ],
            Objects::Boxes { .. } => vec![("min_confidence", self.confidence().to_string())],
        };
        let within = |class: Class| {
            let radius_deg = cyclone_wind_deg(class, objects.grid());
            // Axes in files are rounded, and so would be what follows from them.
            radius_deg.map(|deg| ((1e4 * deg).round() / 1e4).to_string())
        };
        let mut of_wind = vec![("cyclone_wind_deg", within(Class::TropicalCyclone))];
        if let Objects::Boxes { .. } = objects {
            let radius = within(Class::ExtratropicalCyclone);
            of_wind.push(("extratropical_wind_deg", radius));
        }
        let of_wind = (of_wind.into_iter()).filter_map(|(name, value)| Some((name, value?)));
        let named = |(name, value): (&str, String)| (name.to_string(), value);
        (of_objects.into_iter().chain(of_wind).map(named))
            .chain(tracking.rules())
            .chain([rule_of_landfalls()])
            .chain(objects.made_by())
            .collect()
    }

    /// The further formats that are asked for.
    fn formats(&self) -> anyhow::Result<Vec<Format>> {
        let hint = "for example --format gfdl,parquet";
        self.format
            .iter()
            .map(|name| {
                Format::from_name(name).map_err(|error| Advice::usage(error.to_string(), hint))
            })
            .collect()
    }

    /// Says what the command will read and need.
    fn plan(&self, objects: &Objects, fields: Option<&Fields>) {
        let times = objects.times().len();
        let (rows, columns) = objects.grid().shape();
        let plane = (rows * columns) as u64;
        let [planes, kept] = fields.map_or([0, 0], Fields::planes);
        let held = rayon::current_num_threads().clamp(1, MOST_TIMES) as u64;
        Plan {
            work: format!(
                "events of {times} {}, {}",
                objects.noun(),
                objects.grid().describe()
            ),
            read: objects.bytes() + plane * 4 * planes * times as u64,
            // Levels are those of one time after the other.
            memory: 50_000_000
                + plane * (72 + held * (10 + 4 * kept) + 4 * planes.saturating_sub(kept))
                + 40 * times as u64,
            seconds: Some(times as f64 * plane as f64 * (2.0 + planes as f64) * 1.2e-8),
            ..Plan::default()
        }
        .announce();
    }

    /// A text that differs wherever the result would: a saved state of another text is not continued.
    fn fingerprint(
        &self,
        objects: &Objects,
        fields: Option<&Fields>,
        tracking: &TrackerOptions,
    ) -> anyhow::Result<String> {
        let span = |times: &[Time]| {
            let ends = [times.first(), times.last()].map(|time| time.map(Time::to_string));
            (times.len(), ends)
        };
        let least = self.options(objects);
        let parts = (
            (env!("CARGO_PKG_VERSION"), METHOD),
            (
                objects.grid().hash(),
                objects.calendar(),
                self.tags.tag_class,
            ),
            (objects.paths().into_iter().map(file_facts)).collect::<Vec<_>>(),
            span(objects.times()),
            (
                [
                    least.min_tropical_cyclone_km2,
                    least.min_atmospheric_river_km2,
                ],
                self.confidence(),
            ),
            tracking,
            fields.map(|fields| {
                let names = fields
                    .variables
                    .iter()
                    .map(|v| v.name())
                    .collect::<Vec<_>>();
                let span = span(fields.archive.times());
                let files: Vec<_> = fields.archive.paths().map(file_facts).collect();
                (names, files, span)
            }),
        );
        input::fingerprint(&parts)
    }
}

/// Whether tracks of some class are listed only if they reach a wind.
fn chooses_by_wind(tracking: &TrackerOptions) -> bool {
    let asks = |class: &Class| tracking.linking(*class).min_peak_wind_m_s > 0.0;
    Class::TRACKED.iter().any(asks)
}
