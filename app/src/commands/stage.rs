//! `squall stage`: fields and labels to a sample store; a store to the disks of a job's nodes.

use super::stage_local;
use crate::commands::label::channels;
use crate::failure::Advice;
use crate::plan::{Plan, bytes};
use crate::progress::Progress;
use crate::{input, interrupt, output};
use clap::Args;
use serde::Serialize;
use squall_data::mask_file::MaskArchive;
use squall_data::store::{Split, SplitRule, StoreMeta, StoreWriter};
use squall_data::{Archive, BoxFrames, DataError, GeoBox, Snapshot, Time, boxes};
use std::path::{Path, PathBuf};

/// Write fields and labels into a sample store: flat, checksummed, with statistics and a split.
///
/// With --local, and under MPI: copy a store to the disk of every node, reading each sample once from the shared file system.
/// Train with --data DIR afterwards; a copy of a part makes every node learn from the samples that it has.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  squall stage run --labels labels --out store\n  mpirun -n 64 squall stage store --local /tmp/store"
)]
pub struct Stage {
    /// Fields: a file, a folder, a glob in quotes, or a text file that lists paths. With --local: a sample store.
    pub input: String,
    /// Labels: masks of `squall label`, or of another tool.
    #[arg(long, value_name = "DIR", required_unless_present = "local")]
    pub labels: Option<String>,
    /// Boxes for detectors: a table (.csv), an ExtremeWeather file (.h5) or a COCO file (.json); default: boxes.csv among the labels, if
    /// it is there.
    #[arg(long, value_name = "FILE", conflicts_with = "local")]
    pub boxes: Option<PathBuf>,
    /// Folder for the store.
    #[arg(long, value_name = "STORE", required_unless_present = "local")]
    pub out: Option<PathBuf>,
    /// Folder on the disk of each node; {node} in it becomes the node's number.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["labels", "out", "channels"])]
    pub local: Option<PathBuf>,
    /// Training samples of each node, drawn at random so that each is somewhere; default: all.
    #[arg(long, value_name = "N", requires = "local")]
    pub per_node: Option<usize>,
    /// Channels to keep, separated by commas; default: all that the input has.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub channels: Vec<String>,
    /// Share of the samples for training; half of the rest is for validation, half for the test.
    #[arg(long, default_value_t = 0.8)]
    pub train_share: f64,
    /// Deal whole blocks of this many days to the splits, so that no storm is in two; 0 deals single times, as DeepCAM did.
    #[arg(long, default_value_t = 5.0)]
    pub block_days: f64,
    /// Seed of the split, or of what --per-node draws.
    #[arg(long, default_value_t = 12345)]
    pub seed: u64,
    /// Go on without input files that cannot be read; they are named and counted.
    #[arg(long)]
    pub skip_bad: bool,
    /// Print a summary as one JSON document.
    #[arg(long)]
    pub json: bool,
}

/// What is in a store.
#[derive(Debug, Serialize)]
pub struct StageSummary {
    /// Samples of training, validation and test.
    pub samples: [usize; 3],
    /// Channels kept.
    pub channels: Vec<&'static str>,
    /// Times of the input without a mask.
    pub unlabelled: usize,
    /// Share of background, cyclone and river pixels in training.
    pub class_shares: [f64; 3],
    /// Samples whose boxes are known; none if there are no boxes.
    pub boxed: Option<usize>,
    /// Boxes over all samples.
    pub boxes: usize,
}

impl Stage {
    /// Stages and says what is in the store.
    pub fn run(self) -> anyhow::Result<()> {
        if let Some(local) = &self.local {
            return stage_local::run(&self, local);
        }
        let summary = self.stage()?;
        if self.json {
            return output::json(&summary);
        }
        let [train, validation, test] = summary.samples;
        let [_, cyclone, river] = summary.class_shares.map(|share| 100.0 * share);
        tracing::info!(
            "{train} samples for training, {validation} for validation, {test} for the test; {} channels; \
             {cyclone:.2} % cyclone and {river:.2} % river pixels; in {}",
            summary.channels.len(),
            self.places()?.1.display()
        );
        if let Some(boxed) = summary.boxed {
            tracing::info!("{} boxes in {boxed} samples", summary.boxes);
        }
        Ok(())
    }

    /// The boxes that go with the labels, if there are any.
    fn find_boxes(&self, labels: &str, archive: &Archive) -> anyhow::Result<Option<BoxFrames>> {
        let beside = Path::new(labels).join("boxes.csv");
        let path = match &self.boxes {
            Some(path) => path,
            None if beside.is_file() => &beside,
            None => return Ok(None),
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
            return Err(DataError::NoInput { input, reason }.into());
        }
        Ok(Some(frames))
    }

    /// Where the labels are and where the store goes.
    fn places(&self) -> anyhow::Result<(&String, &PathBuf)> {
        match (&self.labels, &self.out) {
            (Some(labels), Some(out)) => Ok((labels, out)),
            _ => Err(Advice::usage(
                "a store is made of fields and labels",
                "give --labels and --out",
            )),
        }
    }

    /// Writes the store; a store that was begun is continued.
    pub fn stage(&self) -> anyhow::Result<StageSummary> {
        let (labels, out) = self.places()?;
        let archive = input::open(&self.input, self.skip_bad)?;
        let masks = MaskArchive::open(labels)?;
        if masks.grid().hash() != archive.grid().hash() {
            let (expected, found) = (archive.grid().describe(), masks.grid().describe());
            return Err(DataError::Mismatch {
                what: "grid of the labels",
                path: labels.into(),
                expected,
                found,
            }
            .into());
        }
        let channels = channels(&self.channels, &archive)?;
        input::require(&archive, &channels, "staging")?;
        let labelled: Vec<(usize, usize)> = (archive.times().iter().enumerate())
            .filter_map(|(index, &time)| Some((index, masks.find(time)?)))
            .collect();
        let unlabelled = archive.times().len() - labelled.len();
        if labelled.is_empty() {
            let reason = format!(
                "none of its {} masks is at a time of `{}`",
                masks.times().len(),
                self.input
            );
            return Err(DataError::NoInput {
                input: labels.clone(),
                reason,
            }
            .into());
        }
        if unlabelled > 0 {
            tracing::warn!("{unlabelled} times have no mask and are left out");
        }
        let times: Vec<_> = labelled
            .iter()
            .map(|&(index, _)| archive.times()[index])
            .collect();
        let splits = self.rule().assign(&times)?;
        let frames = self.find_boxes(labels, &archive)?;
        let boxes: Option<Vec<Option<Vec<GeoBox>>>> = frames.map(|frames| {
            let of = |&time: &Time| {
                let found = frames.at(time)?;
                Some(found.iter().map(|tracked| tracked.geo).collect())
            };
            times.iter().map(of).collect()
        });
        let meta = StoreMeta::new(archive.grid().clone(), archive.calendar(), channels.clone());
        let total = meta.record_bytes() * labelled.len() as u64;
        Plan {
            work: format!(
                "stage {} samples of {} channels",
                labelled.len(),
                channels.len()
            ),
            read: total,
            write: total,
            memory: 60_000_000 + 4 * meta.record_bytes(),
            seconds: Some(total as f64 / 2.5e8),
        }
        .announce();
        let mut writer = StoreWriter::create(out, meta)?;
        let mut progress = Progress::new("stage", labelled.len());
        // The next sample is read while this one is written.
        let read = |sample: usize| -> Result<(Snapshot, squall_data::ClassMask), DataError> {
            let (index, mask) = labelled[sample];
            Ok((archive.read(index, &channels)?, masks.read(mask)?))
        };
        let first = writer.len();
        let mut next = (first < labelled.len()).then(|| read(first)).transpose()?;
        for (sample, &split) in splits.iter().enumerate().skip(first) {
            interrupt::check()?;
            let Some((snapshot, mask)) = next.take() else {
                break;
            };
            let following = (sample + 1 < labelled.len()).then_some(sample + 1);
            let (ahead, pushed) = rayon::join(
                || following.map(read).transpose(),
                || writer.push(&snapshot, &mask, split),
            );
            pushed?;
            next = ahead?;
            progress.set(sample + 1, String::new());
        }
        progress.finish();
        let store = writer.finish_with_boxes(boxes.as_deref())?;
        let counts = store.class_counts(Split::Train);
        let all = counts.iter().sum::<u64>().max(1) as f64;
        tracing::debug!("{} in all", bytes(total));
        Ok(StageSummary {
            samples: Split::ALL.map(|split| store.ids(split).len()),
            channels: channels.iter().map(|v| v.name()).collect(),
            unlabelled,
            class_shares: counts.map(|count| count as f64 / all),
            boxed: boxes.as_ref().map(|boxes| boxes.iter().flatten().count()),
            boxes: boxes.iter().flatten().flatten().map(Vec::len).sum(),
        })
    }

    fn rule(&self) -> SplitRule {
        let (train, seed) = (self.train_share, self.seed);
        let validation = (1.0 - train) / 2.0;
        match self.block_days {
            days if days > 0.0 => SplitRule::Blocks {
                seed,
                train,
                validation,
                days,
            },
            _ => SplitRule::Shuffled {
                seed,
                train,
                validation,
            },
        }
    }
}
