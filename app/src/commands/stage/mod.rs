//! `squall stage`: fields and labels to a sample store; a store to the disks of a job's nodes.

mod chosen;
mod local;
pub(super) mod origin;
mod reading;
mod splits;
mod summary;
mod unread;

use self::chosen::Chosen;
use self::origin::Origin;
use self::reading::Reading;
pub use self::summary::StageSummary;
use self::unread::Unread;
use crate::arguments::{is_not_negative, number};
use crate::failure::Advice;
use crate::missing::Missing;
use crate::own_folder::{self, Holds};
use crate::plan::{Plan, bytes, counted};
use crate::skipped::{self, Skipped};
use crate::tags::{self, Tags};
use crate::{code, input, interrupt, output};
use clap::Args;
use squall_data::mask_file::MaskArchive;
use squall_data::store::{Selection, SplitRule, StoreMeta, StoreWriter};
use squall_data::{Archive, BoxFrames, DataError, Variable, boxes};
use squall_jobs::lock::FolderLock;
use std::path::{Path, PathBuf};

/// Defaults of --train-share, --block-days and --seed.
const TRAIN_SHARE: f64 = 0.8;
const BLOCK_DAYS: f64 = 5.0;
const SEED: u64 = 12345;

/// Write fields and labels into a sample store: flat, checksummed, with statistics and a split.
///
/// A store records its inputs. Repeating the command continues an unfinished store and leaves a finished one unchanged;
/// other fields or labels are refused. Only the boxes can be replaced, with --boxes.
///
/// With --local (also under MPI): copy a store to the disk of every node, reading each sample once from the shared file
/// system. Then train with --data DIR; if the copies are partial, each node trains on its own samples.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  squall stage run --labels labels --out store\n  squall stage run --boxes boxes.csv --keep-unlabelled --out store\n  mpirun -n 64 squall stage store --local /tmp/store"
)]
pub struct Stage {
    /// Fields: a file, a folder, a quoted glob, or a text file that lists paths. With --local: a sample store.
    pub input: String,
    /// Labels: masks of `squall label` or another tool; optional with --boxes. Samples without a mask are for detectors
    /// only.
    #[arg(long, value_name = "DIR")]
    pub labels: Option<String>,
    #[command(flatten)]
    pub tags: Tags,
    /// Boxes for detectors: a table (.csv), an ExtremeWeather file (.h5) or a COCO file (.json) [default: boxes.csv of
    /// the labels, if there is one]. They replace the boxes of an existing store.
    #[arg(long, value_name = "FILE", conflicts_with = "local")]
    pub boxes: Option<PathBuf>,
    /// Keep times with neither masks nor boxes: detectors can learn to reconstruct them.
    #[arg(long, conflicts_with = "local")]
    pub keep_unlabelled: bool,
    /// Folder of the store.
    #[arg(long, value_name = "STORE", required_unless_present = "local")]
    pub out: Option<PathBuf>,
    /// Folder on each node's disk; {node} is replaced by the node's number.
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = ["labels", "tag_class", "out", "channels", "train_share", "block_days", "guard_hours", "skip_bad"]
    )]
    pub local: Option<PathBuf>,
    /// Training samples per node, drawn at random so that every sample is on some node [default: all].
    #[arg(long, value_name = "N", requires = "local")]
    pub per_node: Option<usize>,
    /// Channels to keep, comma-separated [default: all that the input has at every time].
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub channels: Vec<String>,
    /// Share of the samples for training; the rest is halved into validation and test. If the rest is a single block,
    /// it is for validation.
    #[arg(long, value_name = "SHARE", default_value_t = TRAIN_SHARE)]
    pub train_share: f64,
    /// Split by blocks of this many days, so that few times of one split are close to those of another. A storm that
    /// lasts across a block boundary may be in two splits; longer blocks have fewer of these. 0 splits by single times,
    /// as DeepCAM did.
    #[arg(long, value_name = "DAYS", default_value_t = BLOCK_DAYS, value_parser = days, allow_negative_numbers = true)]
    pub block_days: f64,
    /// Leave out training samples less than this many hours from a sample of another split, and validation samples as
    /// close to a test sample, so that no network is judged on nearly the fields it was trained on.
    #[arg(long, default_value_t = 0.0, value_name = "HOURS", value_parser = hours, allow_negative_numbers = true)]
    pub guard_hours: f64,
    /// Random seed of the split, or of the draw of --per-node.
    #[arg(long, default_value_t = SEED)]
    pub seed: u64,
    /// Skip files and times that cannot be read or lack a channel; they are listed and counted, and give no samples.
    /// Channels that most times have are kept.
    #[arg(long)]
    pub skip_bad: bool,
    /// Print a summary as one JSON document.
    #[arg(long)]
    pub json: bool,
}

fn days(text: &str) -> Result<f64, String> {
    let fits = |days: &f64| days.is_finite() && *days >= 0.0;
    number(text, fits, "days, 0 for single times")
}

fn hours(text: &str) -> Result<f64, String> {
    number(text, is_not_negative, "hours, 0 for no gap")
}

impl Stage {
    /// Stages and reports the contents of the store.
    pub fn run(self) -> anyhow::Result<()> {
        // Before files are opened, which may take minutes: the signal of a batch system would look like a crash.
        interrupt::flag();
        if let Some(local) = &self.local {
            return local::run(&self, local);
        }
        let summary = self.stage()?;
        if self.json {
            return output::json(&summary);
        }
        summary.say(self.place()?);
        Ok(())
    }

    /// The boxes that were given or found among the labels, if any.
    fn find_boxes(&self, archive: &Archive) -> anyhow::Result<Option<BoxFrames>> {
        let beside = (self.labels.as_ref()).map(|labels| Path::new(labels).join("boxes.csv"));
        let beside = beside.filter(|path| path.is_file());
        let Some(path) = self.boxes.as_ref().or(beside.as_ref()) else {
            return Ok(None);
        };
        let grid = boxes::pixel_grid(path, Some(archive.grid()))?;
        let frames = boxes::read(path, &grid, archive.calendar())?;
        frames
            .notes
            .iter()
            .for_each(|note| tracing::info!("{note}"));
        let known = (archive.times().iter())
            .filter(|time| frames.at(**time).is_some())
            .count();
        if known == 0 {
            let reason = format!(
                "none of its {} times with boxes is a time of `{}`",
                frames.frames().len(),
                self.input
            );
            let input = path.display().to_string();
            return Err(DataError::no_input(input, reason).into());
        }
        Ok(Some(frames))
    }

    /// The masks, which must match the fields' grid and dates, if any.
    fn find_masks(&self, archive: &Archive) -> anyhow::Result<Option<MaskArchive>> {
        let Some(labels) = &self.labels else {
            return Ok(None);
        };
        let masks = (self.tags).open_with(labels, input::bad_files(self.skip_bad))?;
        tags::say(&masks);
        self.tags.say_unused(&masks);
        input::same_grid("grid of the labels", labels, masks.grid(), archive.grid())?;
        input::same_dates(labels, masks.calendar(), archive.calendar())?;
        input::compare_origin(&masks, archive);
        input::some_times((labels, &masks), (&self.input, archive))?;
        Ok(Some(masks))
    }

    /// The channels whose times are those of the fields: those of --channels, else those that are together.
    fn needed(&self, archive: &Archive) -> Vec<Variable> {
        if self.channels.is_empty() {
            return archive.most_together();
        }
        // Other names are refused where the channels are chosen.
        let names = self.channels.iter().map(|name| name.to_ascii_uppercase());
        names
            .filter_map(|name| Variable::from_name(&name))
            .collect()
    }

    /// The store's folder.
    ///
    /// # Errors
    /// Wrong usage if the folder or labels are missing.
    fn place(&self) -> anyhow::Result<&PathBuf> {
        let has_labels = self.labels.is_some() || self.boxes.is_some();
        match self.out.as_ref().filter(|_| has_labels) {
            Some(out) => Ok(out),
            None => Err(Advice::usage(
                "a store is made of fields and labels",
                "give --out, and --labels or --boxes",
            )),
        }
    }

    /// Writes the store or continues an unfinished one; returns its contents.
    pub fn stage(&self) -> anyhow::Result<StageSummary> {
        let out = self.place()?;
        let used = &Variable::CHANNELS;
        let needed = |archive: &Archive| self.needed(archive);
        let archive = input::open_needing(&self.input, self.skip_bad, used, needed)?;
        input::keep_apart(&archive, out)?;
        own_folder::check(out, Holds::Store)?;
        let masks = self.find_masks(&archive)?;
        let labels = self.labels.as_deref().zip(masks.as_ref());
        let origin = Origin::of(&self.input, &archive, labels, self.tags.tag_class)?;
        let channels = input::channels(&self.channels, &archive, self.skip_bad)?;
        input::require(&archive, &channels, "staging", self.skip_bad)?;
        let frames = self.find_boxes(&archive)?;
        let mut chosen = self.choose(&archive, masks.as_ref(), frames.as_ref())?;
        let meta = StoreMeta::new(archive.grid().clone(), archive.calendar(), channels.clone());
        let record_bytes = meta.record_bytes();
        let _lock = FolderLock::take(out)?;
        let mut writer = StoreWriter::create(out, meta)?;
        let mut unread = Unread::of(out)?;
        if self.skip_bad {
            unread.say();
            chosen.leave_out(&unread.times);
        }
        SplitRule::keep_single_test(&mut chosen.splits, writer.samples());
        let Chosen {
            selection, splits, ..
        } = &chosen;
        selection.check_begun(out, writer.samples(), splits)?;
        let counts = [selection.samples.len(), writer.len()];
        announce(counts, channels.len(), record_bytes);
        let reading = Reading {
            archive: &archive,
            masks: masks.as_ref(),
            channels: &channels,
            missing: Missing::default(),
            skipped: Skipped::new(self.skip_bad, "is left out"),
        };
        let boxes = frames.is_some().then(|| selection.boxes());
        self.check_same(&reading, &origin, selection, &mut writer)?;
        if !self.skip_bad {
            // No time may be skipped now. The store has the first samples of the selection (checked above), which do
            // not include these times, so they must still be read.
            unread.forget()?;
        }
        if self.boxes.is_none() {
            origin::keep_boxes(out, boxes.as_deref())?;
        }
        let [wanted, there] = counts;
        if there < wanted {
            code::work_on(out, there > 0);
        }
        origin.remember(out)?;
        reading.write_all(&selection.samples, splits, &mut writer, &mut unread)?;
        reading
            .missing
            .say("a network gets the mean of the channel there");
        if let Some(completed) = archive.completed() {
            tracing::warn!("{completed}");
        }
        chosen.leave_out(&unread.times);
        self.finish(&reading, &chosen, writer, frames.is_some())
    }

    /// Completes a store whose samples are written; `with_boxes` if boxes were given or found.
    fn finish(
        &self,
        reading: &Reading<'_>,
        chosen: &Chosen,
        mut writer: StoreWriter,
        with_boxes: bool,
    ) -> anyhow::Result<StageSummary> {
        let (archive, selection) = (reading.archive, &chosen.selection);
        skipped::say(chosen.skipped(), chosen.count, &self.input)?;
        let boxes = with_boxes.then(|| selection.boxes());
        // Of the samples that are there, whoever wrote them: a store that was continued has the same.
        let staged = selection.samples.iter().map(|sample| sample.index);
        writer.set_sources(archive.sources(staged, reading.channels));
        let store = writer.finish_with_boxes(boxes.as_deref())?;
        code::finish(self.place()?);
        let unusable_masks = reading.masks.map_or(0, |masks| masks.skipped().len());
        Ok(StageSummary {
            skipped_files: archive.skipped_files() + unusable_masks,
            skipped_times: chosen.skipped(),
            guarded_times: chosen.guarded,
            ..StageSummary::of(&store, selection, boxes.as_deref(), self.block_days)
        })
    }

    /// Refuses to continue a store that was started with other fields or labels.
    fn check_same(
        &self,
        reading: &Reading<'_>,
        origin: &Origin,
        selection: &Selection,
        writer: &mut StoreWriter,
    ) -> anyhow::Result<()> {
        if writer.is_empty() {
            return Ok(());
        }
        let store = self.place()?;
        let was = Origin::read(store);
        if was.as_ref().is_some_and(|was| was.has_files_of(origin)) {
            return Ok(());
        }
        let mut differences = was.map_or(Vec::new(), |was| origin.changes(&was));
        if differences.is_empty() {
            // Files that were regenerated or copied may have the same contents, and stores of earlier versions do not
            // record their origin.
            tracing::info!(
                "comparing fields and labels with the {} there already",
                counted(writer.len(), "sample")
            );
            differences.extend(reading.first_other(&selection.samples, writer)?);
        }
        if differences.is_empty() {
            Ok(())
        } else {
            Err(origin::refusal(store, &differences))
        }
    }
}

/// Logs the cost of staging `samples`, some of which are already `there`.
fn announce([samples, there]: [usize; 2], channels: usize, record_bytes: u64) {
    let left = record_bytes * (samples - there) as u64;
    let before = match there {
        0 => String::new(),
        there => format!(" ({there} are there)"),
    };
    Plan {
        work: format!(
            "stage {} of {}{before}",
            counted(samples, "sample"),
            counted(channels, "channel")
        ),
        read: left,
        write: left,
        memory: 60_000_000 + 4 * record_bytes,
        seconds: Some(left as f64 / 2.5e8),
    }
    .announce();
    tracing::debug!("{} in all", bytes(record_bytes * samples as u64));
}
