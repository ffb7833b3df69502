//! `squall label`: heuristics on fields to masks, objects and tracks.

mod differences;
mod masks;

use super::box_files::BoxFormats;
use super::tags::Tags;
use crate::input::{self, file_facts};
use crate::missing::Missing;
use crate::plan::Plan;
use crate::progress::Progress;
use crate::saving::Saving;
use crate::skipped::{self, Skipped};
use crate::{interrupt, output};
use clap::Args;
use serde::Serialize;
use squall_climate::ClimateError;
use squall_climate::detect::Method;
use squall_climate::label::{
    ArThresholds, LabelFolder, Labeller, Pass, TcThresholds, Thresholds, required_channels,
};
use squall_data::gaps::Gaps;
use squall_data::{Archive, BoxClass, DataError, Snapshot, Time, Variable};
use squall_jobs::lock::FolderLock;
use std::collections::BTreeMap;
use std::path::PathBuf;

pub(super) use masks::{Masks, release};

/// Find tropical cyclones and atmospheric rivers by published rules (those of the DeepCAM labels unless told
/// otherwise), and boxes around them, around extratropical cyclones and around tropical depressions.
#[derive(Debug, Args)]
pub struct Label {
    /// Fields: a file, a folder, a glob in quotes, or a text file that lists paths.
    pub input: String,
    /// Folder for the masks, objects.csv and boxes.csv.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Rules, several with commas between: deepcam, tempest (TempestExtremes), percentile (Guan and Waliser), bard
    /// (TECA-BARD). With several each writes to its own folder in DIR, and DIR/agreement.csv says how far they agree.
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        default_value = "deepcam"
    )]
    pub method: Vec<Method>,
    /// Masks to compare the methods with in agreement.csv, for instance those of `squall infer`.
    #[arg(long, value_name = "MASKS")]
    pub against: Option<String>,
    #[command(flatten)]
    pub tags: Tags,
    /// Members of the bard ensemble: a CSV with hwhm_latitude, min_water_vapor, min_component_area, as TECA's table.
    #[arg(long, value_name = "FILE")]
    pub bard_members: Option<PathBuf>,
    /// Strictness of deepcam for cyclones: default, medium, relaxed or super_relaxed.
    #[arg(long, default_value = "default", value_name = "PRESET")]
    pub cyclones: String,
    /// Strictness of deepcam for rivers: default (24 kg m-2 of damped column water) or relaxed (21).
    #[arg(long, default_value = "default", value_name = "PRESET", value_parser = ["default", "relaxed"])]
    pub rivers: String,
    /// All thresholds as a TOML file; overrides both presets. With other methods than deepcam alone: one table per
    /// method, for instance that of percentile with moisture = "column_water".
    #[arg(long, value_name = "FILE")]
    pub thresholds: Option<PathBuf>,
    /// Use the published quarter-degree numbers on any grid. A file of thresholds says so by `adapt_to_grid = false`.
    #[arg(long, conflicts_with = "thresholds")]
    pub no_grid_scaling: bool,
    #[command(flatten)]
    pub formats: BoxFormats,
    /// Seconds between two states from which a killed run goes on, each at the end of a mask file.
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0)]
    pub save_every: f64,
    /// Go on without files and times that cannot be read; they are named and counted, and have no masks.
    #[arg(long)]
    pub skip_bad: bool,
    /// Print a summary as one JSON document.
    #[arg(long)]
    pub json: bool,
}

/// What labelling came to.
#[derive(Debug, Serialize)]
pub struct LabelSummary {
    /// Times labelled.
    pub times: usize,
    /// Cyclones over all times.
    pub cyclones: usize,
    /// Rivers over all times.
    pub rivers: usize,
    /// Cyclone tracks.
    pub tracks: usize,
    /// The series is too short for the duration criterion.
    pub untracked: bool,
    /// Boxes over all times, by class.
    pub boxes: BTreeMap<&'static str, usize>,
    /// Boxes that the ExtremeWeather file had no room for.
    pub boxes_left_out: usize,
    /// Input files that could not be used (`--skip-bad`).
    pub skipped_files: usize,
    /// Times of the others whose data could not be read, which have no masks (`--skip-bad`).
    pub skipped_times: usize,
}

/// What follows from missing values.
pub(super) const NOT_LABELLED: &str =
    "rules find nothing where one of their fields is missing, and less around it";

/// Where a file of thresholds for deepcam alone has its keys.
const TABLES: &str = "they are in [cyclone], [river], [extratropical] and [depression], and adapt_to_grid before them";

impl Label {
    /// Labels and says what was found.
    pub fn run(self) -> anyhow::Result<()> {
        self.check_methods()?;
        if self.method != [Method::Deepcam] || self.against.is_some() {
            return super::label_methods::run(&self);
        }
        let summary = self.label()?;
        if self.json {
            return output::json(&summary);
        }
        tracing::info!(
            "{} times: {} cyclones on {} tracks, {} rivers; {} boxes with those of extratropical cyclones and tropical depressions; \
             masks, objects.csv and boxes.csv in {}",
            summary.times,
            summary.cyclones,
            summary.tracks,
            summary.rivers,
            summary.boxes.values().sum::<usize>(),
            self.out.display()
        );
        Ok(())
    }

    /// Refuses options of methods that are not asked for.
    fn check_methods(&self) -> anyhow::Result<()> {
        let is_strict = self.cyclones != "default" || self.rivers != "default";
        if is_strict && !self.method.contains(&Method::Deepcam) {
            return Err(crate::failure::Advice::usage(
                "--cyclones and --rivers are thresholds of `--method deepcam`",
                "those of other methods are set by --thresholds FILE, one table per method",
            ));
        }
        if self.bard_members.is_some() && !self.method.contains(&Method::Bard) {
            return Err(crate::failure::Advice::usage(
                "--bard-members are those of `--method bard`",
                "add bard to --method, or leave --bard-members out",
            ));
        }
        Ok(())
    }

    /// The fields; says what was decided about them and where times are missing.
    pub(super) fn open_fields(&self) -> anyhow::Result<Archive> {
        let archive = input::open(&self.input, self.skip_bad)?;
        input::keep_apart(&archive, &self.out)?;
        if let Some(gaps) = Gaps::of(archive.times()) {
            tracing::warn!("{gaps}");
        }
        Ok(archive)
    }

    /// What a file of thresholds holds, whose tables are called so; `None` without one.
    pub(super) fn read_thresholds<T: serde::de::DeserializeOwned>(
        &self,
        tables: &str,
    ) -> anyhow::Result<Option<T>> {
        let Some(path) = &self.thresholds else {
            return Ok(None);
        };
        let text = std::fs::read_to_string(path).map_err(DataError::io("read", path))?;
        let read = toml::from_str(&text).map_err(|error| {
            let hint = format!(
                "every key is in docs/events.md, \"Thresholds of the label rules\"; here {tables}; what is left out has its default"
            );
            crate::failure::Advice::usage(format!("`{}`: {error}", path.display()), hint)
        })?;
        Ok(Some(read))
    }

    /// The numbers of the DeepCAM rules.
    pub(super) fn deepcam_thresholds(&self) -> anyhow::Result<Thresholds> {
        let river = if self.rivers == "relaxed" {
            ArThresholds::labels_1()
        } else {
            ArThresholds::labels_0()
        };
        let cyclone = TcThresholds::preset(&self.cyclones)?;
        Ok(Thresholds {
            cyclone,
            river,
            adapt_to_grid: !self.no_grid_scaling,
            ..Thresholds::default()
        })
    }

    /// Labels, writes everything and says what was found.
    pub fn label(&self) -> anyhow::Result<LabelSummary> {
        let archive = self.open_fields()?;
        let needed = required_channels();
        input::require(&archive, &needed, "labelling")?;
        let thresholds = match self.read_thresholds(TABLES)? {
            Some(thresholds) => thresholds,
            None => self.deepcam_thresholds()?,
        };
        let labeller = Labeller::new(&thresholds, archive.grid().clone())?;
        let times = archive.times().len();
        let (rows, columns) = archive.grid().shape();
        let plane = (rows * columns * 4) as u64;
        let planes = [Pass::First, Pass::Second].map(|pass| pass.channels().len() as u64);
        let planes: u64 = planes.iter().sum();
        let numbers = serde_json::to_string(&thresholds)?;
        let fingerprint = fingerprint(&archive, &numbers)?;
        self.formats.check()?;
        let mut masks = Masks::new(self.out.clone(), &archive, Method::Deepcam, numbers);
        let _lock = FolderLock::take(&self.out)?;
        masks.check_folder(&fingerprint)?;
        Plan {
            work: format!("label {times} times of {}", archive.grid().describe()),
            read: planes * plane * times as u64,
            write: plane / 40 * times as u64,
            memory: 80_000_000
                + 6 * rayon::current_num_threads() as u64 * plane * needed.len() as u64,
            seconds: Some(times as f64 * (rows * columns) as f64 * 2.2e-7),
        }
        .announce();
        let (mut folder, stream) =
            LabelFolder::open(&self.out, &fingerprint, labeller.stream(), |stream| {
                masks.are_of(&fingerprint, stream.done(), stream.left_out())
            })?;
        masks.claim(&fingerprint)?;
        let start = stream.done();
        if start > 0 {
            tracing::info!("{start} times were labelled before: going on from there");
        }
        let mut progress = Progress::new("label", times);
        progress.start(times, start);
        // From here on a signal is heard.
        interrupt::flag();
        let missing = Missing::default();
        let skipped = Skipped::new(self.skip_bad, "is left out");
        let read = |index: usize, pass: Pass| -> Result<Option<Snapshot>, ClimateError> {
            interrupt::check_data()?;
            let snapshot = archive.read_plausible(index, pass.channels());
            let snapshot = skipped.or_none(archive.times()[index], snapshot)?;
            snapshot.iter().for_each(|snapshot| missing.note(snapshot));
            Ok(snapshot)
        };
        let mut saving = Saving::every(self.save_every);
        let labelled = labeller.label_on(stream, times, read, |stream, index, labelled| {
            masks.write(index, labelled.as_ref())?;
            labelled
                .iter()
                .try_for_each(|labelled| folder.write(labelled))?;
            progress.set(index + 1, String::new());
            // A file of masks that is not whole is begun again.
            if saving.is_due() && masks.ends_at(index) {
                masks.close()?;
                saving.save(|| folder.save(stream))?;
            }
            Ok(())
        });
        progress.finish();
        let summary = labelled?;
        missing.say(NOT_LABELLED);
        let skipped_times = times - summary.times;
        skipped::say(skipped_times, times, &self.input)?;
        masks.finish()?;
        let boxes_left_out = match self.formats.is_empty() {
            true => 0,
            false => {
                let (grid, calendar) = (archive.grid(), archive.calendar());
                self.formats
                    .write(&folder.boxes()?, grid, calendar, |_| true)?
            }
        };
        folder.finish()?;
        release(&self.out);
        if summary.untracked {
            tracing::warn!(
                "the series is shorter than the two days a cyclone must last: candidates stand untracked"
            );
        }
        Ok(LabelSummary {
            times: summary.times,
            cyclones: summary.cyclones,
            rivers: summary.rivers,
            tracks: summary.tracks,
            untracked: summary.untracked,
            boxes: BoxClass::ALL
                .into_iter()
                .map(|class| (class.name(), summary.boxes[usize::from(class.code())]))
                .collect(),
            boxes_left_out,
            skipped_files: archive.skipped_files(),
            skipped_times,
        })
    }
}

/// A name for whatever would change the labels.
pub(super) fn fingerprint(archive: &Archive, thresholds: &str) -> anyhow::Result<String> {
    let files: Vec<_> = archive.paths().map(file_facts).collect();
    let times = archive.times();
    let ends = [times.first(), times.last()].map(|time| time.map(Time::to_string));
    let version = env!("CARGO_PKG_VERSION");
    let fields = (
        archive.grid().hash(),
        archive.available(),
        archive.problems(),
    );
    input::fingerprint(&(version, fields, files, times.len(), ends, thresholds))
}

/// The channels of a list of names, or of what an archive has.
pub fn channels(names: &[String], archive: &Archive) -> anyhow::Result<Vec<Variable>> {
    if names.is_empty() {
        return Ok(archive.available().to_vec());
    }
    let known = |name: &String| {
        Variable::from_name(&name.to_ascii_uppercase()).ok_or_else(|| {
            let all: Vec<&str> = Variable::CHANNELS.iter().map(|v| v.name()).collect();
            crate::failure::Advice::usage(
                format!("`{name}` is no channel"),
                format!("the channels are {}", all.join(", ")),
            )
        })
    };
    names.iter().map(known).collect()
}
