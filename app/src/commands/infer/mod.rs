//! `squall infer`: models over files or a sample store to CF masks and tables of boxes, on one process or many.

mod values;

use crate::arguments::{MIN_CONFIDENCE, check_confidence};
use crate::box_files::BoxFormats;
use crate::failure::Advice;
use crate::own_folder::{self, Holds};
use crate::plan::{Plan, counted, duration, operations};
use crate::progress::Progress;
use crate::{device, input, interrupt, output, ranks, skipped};
use clap::Args;
use squall_data::store::{INDEX_FILE, Split};
use squall_data::{Archive, Store, TrackedBox, Variable};
use squall_jobs::Outcome;
use squall_jobs::clips::ClipShape;
use squall_jobs::comm::{Communicator, Solo};
use squall_jobs::infer::{
    BadInput, Ensemble, FilePer, Gives, InferEvent, InferOptions, InferPlan, InferReport,
    Inference, Input, Model, Strips,
};
use squall_model::Precision;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use values::{attribute, batch, gigabytes, precision, split, strips};

/// Run models over files or a sample store; repeat the command to continue an interrupted run.
///
/// Under `mpirun` or `srun`, ranks take mask files in turn. A run may continue on a different number of ranks.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  squall infer run --model model/best.safetensors --out masks\n  squall supervise -- mpirun -n 64 squall infer run --model model/best.safetensors --out masks"
)]
pub struct Infer {
    /// Fields: a file, a folder, a quoted glob, a text file that lists paths, or a sample store.
    pub input: String,
    /// Model file: best.safetensors of a run. Repeat it for an ensemble, the mean of the models' probabilities.
    #[arg(long, value_name = "MODEL", required = true)]
    pub model: Vec<PathBuf>,
    /// Output folder for the masks; all ranks must see it.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Precision to compute in: f32, bf16, f16, or auto (bf16 where it is faster) [default: that of training].
    #[arg(long, value_name = "PRECISION", value_parser = precision)]
    pub precision: Option<Precision>,
    /// Also write the probabilities of cyclones and rivers.
    #[arg(long)]
    pub probabilities: bool,
    /// Also write rivers as `ar_binary_tag`, ARTMIP's format.
    #[arg(long)]
    pub artmip: bool,
    /// Times per mask file: day, month, year, or a number of times.
    #[arg(long, value_name = "PERIOD", default_value = "day")]
    pub file_per: FilePer,
    /// Samples per batch: a number, or auto (as many as speed up small fields and fit into memory). Networks over time
    /// take one clip.
    #[arg(long, value_name = "N", default_value = "auto", value_parser = batch)]
    pub batch: usize,
    /// Also average over the field rolled eastward by this many columns; several are comma-separated.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub roll: Vec<usize>,
    /// Also average over the mirrored field: hemispheres swapped, northward winds reversed. Not for cyclones of a
    /// network trained on deepcam masks, which are not mirrored in a mirrored field.
    #[arg(long)]
    pub mirror: bool,
    /// Only this split of a sample store: train, validation or test.
    #[arg(long, value_name = "SPLIT", value_parser = split)]
    pub split: Option<Split>,
    /// Global attribute for the mask files, such as institution or references; repeatable.
    #[arg(long, value_name = "NAME=TEXT", value_parser = attribute)]
    pub attribute: Vec<(String, String)>,
    #[command(flatten)]
    pub formats: BoxFormats,
    /// Minimum confidence of the boxes in these formats [default: 0.5]; boxes.csv has all boxes.
    #[arg(long, value_name = "SHARE")]
    pub min_confidence: Option<f32>,
    /// Skip files and times that cannot be used; they are listed and counted.
    #[arg(long)]
    pub skip_bad: bool,
    /// Latitude strips in which DeepLabV3+ and DeepCAM compute their last layers: a number, or auto (as few as fit).
    /// More strips need less memory; the masks are the same.
    #[arg(long, value_name = "N", default_value = "auto", value_parser = strips)]
    pub strips: Strips,
    /// Memory that auto may use, in GB [default: the free memory].
    #[arg(long, value_name = "GB", value_parser = gigabytes)]
    pub memory: Option<u64>,
    #[command(flatten)]
    pub device: device::Options,
    /// Print a summary as one JSON document.
    #[arg(long)]
    pub json: bool,
}

impl Infer {
    /// Infers and reports the result.
    pub fn run(self) -> anyhow::Result<()> {
        // Before ranks connect and files are opened, which may take minutes: the signal of a batch system would look like a crash.
        interrupt::flag();
        self.device.open()?;
        let (report, first) = match ranks::processes()? {
            Some(mut world) => {
                ranks::separate_gpus(&mut world)?;
                let first = world.rank() == 0;
                (self.infer_on(&mut world)?, first)
            }
            None => (self.infer()?, true),
        };
        if !first {
            return Ok(());
        }
        let left_out = report.skipped.len();
        skipped::check_network(&report)?;
        skipped::say(left_out, report.masks + left_out, &self.input)?;
        if self.json {
            return output::json(&report);
        }
        let rate = report.new_masks as f64 / report.seconds.max(1e-3);
        tracing::info!(
            "{} ({} of them new, {rate:.1} a second) in {}: {}",
            report.gives.count(report.masks),
            report.new_masks,
            duration(report.seconds),
            self.out.display()
        );
        if report.new_masks > 0 {
            let spent = &report.spent;
            tracing::info!(
                "of the time {:.1} % in the network, {:.1} % waiting for fields, {:.1} % waiting for masks to be written",
                100.0 * spent.network,
                100.0 * spent.input,
                100.0 * spent.output
            );
        }
        Ok(())
    }

    /// Infers and reports the result; an error if a signal stopped it.
    pub fn infer(&self) -> anyhow::Result<InferReport> {
        self.infer_on(&mut Solo::new())
    }

    /// Infers as one of several ranks and reports the result; an error ends the job.
    fn infer_on(&self, comm: &mut dyn Communicator) -> anyhow::Result<InferReport> {
        let result = self.infer_with(comm);
        let report = ranks::finish(comm.size(), result)?;
        match report.outcome {
            Outcome::Finished => Ok(report),
            Outcome::Interrupted => {
                if self.json
                    && comm.rank() == 0
                    && let Err(error) = output::json(&report)
                {
                    tracing::warn!("the summary is not printed: {error}");
                }
                Err(interrupt::stopped())
            }
        }
    }

    /// Converts the arguments to the library's options.
    fn options(&self) -> anyhow::Result<InferOptions> {
        let strips = match (self.strips, self.memory) {
            (Strips::Count(_), Some(_)) => {
                return Err(Advice::usage(
                    "--memory is for --strips auto: a given number of strips takes as much memory as it needs",
                    "leave out --memory, or the number of --strips",
                ));
            }
            (Strips::Auto(_), memory) => Strips::Auto(memory),
            (count, None) => count,
        };
        Ok(InferOptions {
            strips,
            probabilities: self.probabilities,
            artmip: self.artmip,
            file_per: self.file_per,
            batch: NonZeroUsize::new(self.batch),
            bad_input: if self.skip_bad {
                BadInput::Skip
            } else {
                BadInput::Fail
            },
            stalled_after: ranks::stall_limit()?,
            attributes: self.attribute.clone(),
            ..InferOptions::default()
        })
    }

    /// Minimum confidence of the boxes in further formats; boxes.csv has all boxes.
    fn confidence(&self) -> f32 {
        self.min_confidence.unwrap_or(MIN_CONFIDENCE)
    }

    /// Rejects options that have no effect on the models' outputs.
    fn refuse_misfits(&self, gives: Gives) -> anyhow::Result<()> {
        if !self.formats.is_empty() && !gives.boxes() {
            let advice = "leave out --boxes-hdf5, --boxes-coco and --boxes-geojson";
            return Err(Advice::usage("the model gives masks, no boxes", advice));
        }
        let of_masks = [
            (self.probabilities, "--probabilities"),
            (self.artmip, "--artmip"),
        ];
        let given = of_masks.into_iter().find(|(given, _)| *given);
        if let (Some((_, option)), Gives::Boxes) = (given, gives) {
            return Err(Advice::usage(
                format!("{option} is for masks, and the model gives boxes"),
                format!("leave {option} out"),
            ));
        }
        if self.min_confidence.is_some() && self.formats.is_empty() {
            return Err(Advice::usage(
                "--min-confidence chooses boxes for --boxes-hdf5, --boxes-coco and --boxes-geojson: none of them is given",
                "leave it out: boxes.csv has all boxes, and `squall events` and `squall score` choose by their own --min-confidence",
            ));
        }
        Ok(())
    }

    /// Rejects --batch for a network over time, which takes one clip at a time.
    fn refuse_batch_of(&self, clips: Option<ClipShape>) -> anyhow::Result<()> {
        match clips {
            Some(ClipShape { frames, .. }) if self.batch > 1 => Err(Advice::usage(
                format!(
                    "--batch is for models of single times; this one sees clips of {frames}, one after the other"
                ),
                "leave --batch out",
            )),
            _ => Ok(()),
        }
    }

    /// Opens the input as an archive of files; `None` if it is a sample store.
    fn open_archive(&self, comm: &mut dyn Communicator) -> anyhow::Result<Option<Archive>> {
        if Path::new(&self.input).join(INDEX_FILE).is_file() {
            return Ok(None);
        }
        if self.split.is_some() {
            return Err(Advice::usage(
                format!("`{}` is no sample store and has no splits", self.input),
                "leave out --split, or give a store",
            ));
        }
        // All channels, because those of the models are not known yet.
        let channels = &Variable::CHANNELS;
        input::open_together(comm, &self.input, self.skip_bad, channels).map(Some)
    }

    /// Opens the input, loads the models, runs the inference and writes boxes in further formats.
    fn infer_with(&self, comm: &mut dyn Communicator) -> anyhow::Result<InferReport> {
        let options = self.options()?;
        check_confidence(self.confidence())?;
        let archive = self.open_archive(comm)?;
        let fields = match &archive {
            Some(archive) => {
                input::keep_apart(archive, &self.out)?;
                Input::archive(archive)
            }
            None => Input::store(Arc::new(Store::open(&self.input)?), self.split)?,
        };
        if comm.rank() == 0 {
            own_folder::check(&self.out, Holds::Masks)?;
        }
        // Already reported when the input was opened.
        let problems = fields.problems().to_vec();
        let load = |path: &PathBuf| Model::load(path, self.precision);
        let models: Vec<Model> = self.model.iter().map(load).collect::<Result<_, _>>()?;
        let mut progress = Progress::new("infer", fields.times().len());
        let (grid, calendar) = (fields.grid().clone(), fields.calendar());
        let ensemble = Ensemble::new(models.iter().collect(), &self.roll, self.mirror)?;
        self.refuse_misfits(ensemble.gives())?;
        self.refuse_batch_of(ensemble.clips())?;
        if comm.rank() == 0 {
            let of_masks = archive.as_ref().filter(|_| ensemble.gives().masks());
            of_masks.into_iter().for_each(input::say_axes);
            let fields = archive.iter().flat_map(Archive::paths);
            let models = self.model.iter().map(PathBuf::as_path);
            self.formats
                .check(&fields.chain(models).collect::<Vec<_>>())?;
        }
        let inference = Inference {
            ensemble,
            input: fields,
            out: &self.out,
            options: &options,
        };
        let (stop, first) = (interrupt::flag(), comm.rank() == 0);
        let mut hear = |event: &InferEvent<'_>| {
            if first {
                show_event(event, &problems, &mut progress);
            }
        };
        let report = inference.run(comm, &mut hear, &stop)?;
        progress.finish();
        if first && report.outcome == Outcome::Finished && !self.formats.is_empty() {
            let is_sure = |found: &TrackedBox| found.geo.is_sure(self.confidence());
            let table = self.out.join("boxes.csv");
            self.formats.write(&table, &grid, calendar, is_sure)?;
        }
        if first && report.missing_values > 0 {
            tracing::warn!(
                "{} missing values were replaced by the channel's mean",
                report.missing_values
            );
        }
        if first && let Some(completed) = archive.as_ref().and_then(Archive::completed) {
            tracing::warn!("{completed}");
        }
        Ok(report)
    }
}

/// Shows an event of an inference; notes of its plan that are in `said` are not repeated.
fn show_event(event: &InferEvent<'_>, said: &[String], progress: &mut Progress) {
    match event {
        InferEvent::Started(plan) => {
            let notes = plan.notes.iter().filter(|note| !said.contains(note));
            notes.for_each(|note| tracing::warn!("{note}"));
            announce(plan);
            if plan.training_times > 0 {
                tracing::warn!(
                    "{} of the {} were the model's training: how well it does there says little about other weather (--split test leaves them out)",
                    plan.training_times,
                    counted(plan.times, "time")
                );
            }
            progress.start(plan.times, plan.done_times);
        }
        InferEvent::Mask { done, .. }
        | InferEvent::Boxes { done, .. }
        | InferEvent::Others { done, .. } => {
            progress.set(*done, String::new());
        }
        _ => {}
    }
}

/// Logs the plan and its costs.
fn announce(plan: &InferPlan) {
    let mut how = vec![plan.dtype.clone(), plan.backend.clone()];
    if plan.batch > 1 {
        how.push(format!("{} at once", plan.batch));
    }
    how.push(match plan.strips.get() {
        1 => "as a whole".to_string(),
        strips => format!("in {strips} strips"),
    });
    if plan.members > 1 {
        how.push(format!("the mean of {} members", plan.members));
    }
    if plan.ranks > 1 {
        how.push(format!("on {} ranks", plan.ranks));
    }
    Plan {
        work: format!(
            "infer {} into {}{} ({} are there; {}; {} each)",
            plan.gives.count(plan.times),
            counted(plan.files, "file"),
            if plan.gives == Gives::Both {
                " of masks and as many of boxes"
            } else {
                ""
            },
            plan.done_times,
            how.join(", "),
            operations(plan.flops_per_mask)
        ),
        read: plan.read_bytes,
        write: plan.write_bytes,
        memory: plan.memory_bytes,
        seconds: plan.seconds,
    }
    .announce();
}

#[cfg(test)]
mod tests {
    use super::{BadInput, ClipShape, FilePer, Infer, InferOptions, Strips};
    use crate::arguments::parsed;
    use std::num::NonZeroUsize;

    fn call(words: &str) -> Infer {
        let always = ["run", "--model", "m", "--out", "o"];
        parsed(always.into_iter().chain(words.split_whitespace())).unwrap()
    }

    #[test]
    fn every_option_reaches_the_library() {
        let words = "--probabilities --artmip --file-per month --batch 3 --skip-bad --strips 2 --attribute institution=ours";
        let expected = InferOptions {
            probabilities: true,
            artmip: true,
            file_per: FilePer::Month,
            batch: NonZeroUsize::new(3),
            bad_input: BadInput::Skip,
            strips: NonZeroUsize::new(2).map(Strips::Count).unwrap(),
            attributes: vec![("institution".into(), "ours".into())],
            ..InferOptions::default()
        };
        assert_eq!(call(words).options().unwrap(), expected);
        let usual = |memory| InferOptions {
            strips: Strips::Auto(memory),
            ..InferOptions::default()
        };
        assert_eq!(call("").options().unwrap(), usual(None));
        // A GB is a billion bytes.
        let memory = call("--memory 1.5").options().unwrap();
        assert_eq!(memory, usual(Some(1_500_000_000)));
        assert!(call("--memory 1.5 --strips 2").options().is_err());
    }

    #[test]
    fn clips_are_no_batch() {
        let clips = ClipShape {
            frames: 8,
            stride: 1,
            every: 2,
        };
        for (batch, is_refused) in [("auto", false), ("1", false), ("4", true)] {
            let words = ["run", "--model", "m", "--out", "o", "--batch", batch];
            let infer: Infer = parsed(words).unwrap();
            assert!(infer.refuse_batch_of(None).is_ok());
            let refused = infer.refuse_batch_of(Some(clips));
            assert_eq!(refused.is_err(), is_refused, "{batch}");
        }
    }
}
