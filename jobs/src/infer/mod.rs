//! Inference: from models and fields to mask files, on one rank or many.
//!
//! The work is divided by time: ranks claim mask files one by one (`claims`), so that fast ranks make more of them.
//! Each rank has three concurrent threads (`pipeline`): one reads and normalises, one computes, one writes. A mask file
//! is renamed into place when complete; only then is it added to its rank's log. A batch never spans files. So a call
//! that was killed at any point can be continued with any number of ranks: finished files stay, the others are made,
//! and the folder ends up byte for byte the same as without interruption.
//!
//! A network that outputs masks and boxes has two files for the same times; the box table is renamed into place before
//! the masks.
//!
//! A network over time sees windows that slide along the time axis, so that every time is scored exactly once
//! (`sliding`). A missing frame, at an end of the axis, in a gap or in a bad file, is replaced by the nearest one.
//!
//! Bad input is handled in three ways:
//!
//! - Input that cannot form one time axis, such as files of two calendars or grids, is rejected when it is opened.
//! - Repairable input is repaired with a note: a time in two files is read from the first, unordered times are sorted,
//!   a gap in the axis has no masks.
//! - A time that cannot be read ends the inference or is skipped, as [`BadInput`] says.

mod chunks;
mod claims;
mod computer;
mod conclusion;
mod differences;
mod ensemble;
mod folder;
mod heartbeat;
mod input;
mod log;
pub(crate) mod model;
mod opening;
mod options;
mod other_ranks;
mod output;
mod pipeline;
mod pixels;
mod plan;
mod polling;
mod read_from;
mod renamed_files;
mod report;
mod settings;
mod sliding;
mod stop_signal;
mod strips;
mod views;
mod work;

pub use chunks::{Chunk, FilePer, chunks};
pub use ensemble::Ensemble;
pub use input::Input;
pub use log::SkippedTime;
pub use model::{Gives, Model, Prediction, check_finite};
pub use opening::open_archive;
pub use options::{BadInput, InferOptions};
pub use plan::{InferPlan, batch_for};
pub use report::{InferEvent, InferReport, Spent};
pub use settings::{TRAINING_TIMES, is_unfinished, searched_times};
pub use strips::Strips;

use crate::comm::{Communicator, Solo, agree, doing};
use crate::error::{JobError, Result, all_or_none};
use claims::Claims;
use pipeline::Job;
use plan::Demand;
use sliding::Sliding;
use squall_data::Variable;
use squall_data::archive::Archive;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Makes a mask for every time of an archive, in files under `out`; continues an earlier call there.
///
/// Setting `stop` ends it after the current sample with [`crate::Outcome::Interrupted`].
///
/// # Errors
/// As [`Inference::run`].
pub fn infer(
    archive: &Archive,
    model: &Model,
    out: &Path,
    options: &InferOptions,
    progress: &mut dyn FnMut(&InferEvent<'_>),
    stop: &AtomicBool,
) -> Result<InferReport> {
    let inference = Inference {
        input: Input::archive(archive),
        ensemble: Ensemble::of(model),
        out,
        options,
    };
    inference.run(&mut Solo::new(), progress, stop)
}

/// An inference: its input, models, output folder and options.
#[derive(Debug)]
pub struct Inference<'a> {
    /// The fields.
    pub input: Input<'a>,
    /// One network, or several to average.
    pub ensemble: Ensemble<'a>,
    /// Output folder; must be shared by all ranks.
    pub out: &'a Path,
    /// Settings of inference and output.
    pub options: &'a InferOptions,
}

impl Inference<'_> {
    /// Makes a mask for every time, together with the other ranks of `comm`; continues an earlier call, whatever its
    /// number of ranks. All ranks call it with the same input, models and options.
    ///
    /// `progress` receives events for the masks of its own rank; on the first rank, counts cover all ranks. Setting
    /// `stop` on any rank ends all of them after their current samples with [`crate::Outcome::Interrupted`].
    ///
    /// # Errors
    /// [`Contract`] if a model does not fit the input; [`Strips`](crate::JobError::Strips) if it does not fit into the
    /// memory given by [`InferOptions::strips`]; [`Resume`] if the folder holds masks of another model or other
    /// options; [`Locked`]; [`NotShared`] if a rank cannot write into the `out` of the first rank; [`Comm`] if ranks
    /// disagree about the work, or one is gone; [`Elsewhere`] if another rank failed; errors of reading, computing and
    /// writing.
    ///
    /// [`Contract`]: crate::JobError::Contract
    /// [`Resume`]: crate::JobError::Resume
    /// [`Locked`]: crate::JobError::Locked
    /// [`NotShared`]: crate::JobError::NotShared
    /// [`Comm`]: crate::JobError::Comm
    /// [`Elsewhere`]: crate::JobError::Elsewhere
    pub fn run(
        &self,
        comm: &mut dyn Communicator,
        progress: &mut dyn FnMut(&InferEvent<'_>),
        stop: &AtomicBool,
    ) -> Result<InferReport> {
        let start = Instant::now();
        let _doing = doing::begin("inference");
        let prepared = self.prepare();
        let (demand, wanted, notes) = all_or_none(comm, prepared)?;
        self.agree(comm)?;
        // The lock is held to the end.
        let (_lock, batch) = self.take(comm, wanted)?;
        let free = self.available_memory(comm)?;
        let strips = demand.strips(self.options, batch, free);
        let strips = all_or_none(comm, strips)?;
        let all = chunks(self.input.times(), self.options.file_per);
        let all = match self.ensemble.gives() {
            Gives::Boxes => chunks::of_boxes(all),
            Gives::Masks | Gives::Both => all,
        };
        let sliding = (self.ensemble.clips()).map(|shape| Sliding::of(&self.input, shape));
        let left = self.left_to_make(comm, &all, sliding.as_ref(), batch)?;
        let times = |chunks: &[Chunk]| chunks.iter().map(|c| c.indices.len()).sum::<usize>();
        let total = times(&all);
        let job = Job {
            inference: self,
            chunks: &left,
            total,
            done: total - times(&left),
            batch,
            strips,
            sliding: sliding.as_ref(),
        };
        let planned = job.plan(&demand, all.len(), comm.size(), notes);
        let plan = all_or_none(comm, planned)?;
        progress(&InferEvent::Started(plan));
        let mut claims = Claims::begin(self.out, left.len(), comm)?;
        let ran = other_ranks::work(&job, &mut claims, comm, progress, stop)?;
        self.conclude(comm, &all, &claims, &ran, start)
    }

    /// Number of times of the input that a member was trained on, as far as hashes show it; of several the highest.
    pub(super) fn training_times(&self) -> usize {
        let models = self.ensemble.models().iter();
        let counts = models.map(|model| self.input.training_times(&model.contract().data_hash));
        counts.max().unwrap_or(0)
    }

    /// Computes the memory demand, the batch size and notes for the user, before any file is touched.
    fn prepare(&self) -> Result<(Demand, NonZeroUsize, Vec<String>)> {
        let channels = self.ensemble.variables();
        let readable = self.input.readable(&channels, self.options);
        let mut notes = self.ensemble.check(self.input.grid(), &readable)?;
        self.check_times()?;
        let apart = self.other_sources(&channels);
        let others = not_told(self.input.problems(), &apart);
        notes.extend(apart);
        notes.extend(others);
        let demand = Demand::of(self)?;
        let (rows, columns) = self.input.grid().shape();
        let wanted = match self.ensemble.clips() {
            // A clip is a batch by itself.
            Some(_) => NonZeroUsize::MIN,
            None => batch_for(rows, columns),
        };
        let batch = demand.batch(self.options, wanted)?;
        Ok((demand, batch, notes))
    }

    /// Notes on channels that come from another source than in training, each once for all members.
    fn other_sources(&self, channels: &[Variable]) -> Vec<String> {
        let given = self.input.sources(channels);
        let models = self.ensemble.models().iter();
        let mut notes: Vec<String> = Vec::new();
        for note in models.flat_map(|model| model.contract().other_sources(&given)) {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        notes
    }

    /// Fails if the frames of a clip have another spacing in time than in training: storms would seem to move at
    /// another speed.
    fn check_times(&self) -> Result<()> {
        let model = self.ensemble.first();
        let learnt = model.contract().frame_seconds;
        let step = self.input.step_seconds();
        let found = (self.ensemble.clips()).and_then(|shape| shape.frame_seconds(step));
        let (Some(learnt), Some(found)) = (learnt, found) else {
            return Ok(());
        };
        if learnt == found {
            return Ok(());
        }
        let hours = |seconds: i64| seconds as f64 / 3600.0;
        Err(JobError::Contract {
            model: model.path().to_path_buf(),
            reasons: vec![format!(
                "it was trained on clips with {} hours from frame to frame, those of the input have {}",
                hours(learnt),
                hours(found)
            )],
        })
    }

    /// Fails if ranks have different work.
    fn agree(&self, comm: &mut dyn Communicator) -> Result<()> {
        let times: Vec<String> = self.input.times().iter().map(ToString::to_string).collect();
        let hashes: Vec<&str> = self.ensemble.models().iter().map(|m| m.hash()).collect();
        let options = InferOptions {
            // They depend on each rank's own memory.
            strips: Strips::default(),
            // It does not change what is made.
            stalled_after: InferOptions::default().stalled_after,
            ..self.options.clone()
        };
        let facts = agree::Facts::new()
            .with_text("the program", crate::code::version())
            .with("times", times.join(" ").as_bytes())
            .with("grid", &self.input.grid().hash().to_le_bytes())
            .with("models", hashes.join(" ").as_bytes())
            .with("views", format!("{:?}", self.ensemble.views()).as_bytes())
            // `auto` means bf16 on some machines and f32 on others. Which rank makes which mask depends on speed, so
            // all ranks must use the same format.
            .with_text("what computes", settings::computing(&self.ensemble))
            .with("options", format!("{options:?}").as_bytes());
        Ok(facts.check(comm)?)
    }

    /// Bytes that this rank may use: those of its GPU, or its share of the node's memory.
    fn available_memory(&self, comm: &mut dyn Communicator) -> Result<Option<u64>> {
        // Collective, so it comes before querying the GPU, which only some ranks may have.
        let ranks = match comm.size() {
            1 => 1,
            _ => comm.split_by_node()?.size() as u64,
        };
        // Every rank has a GPU of its own.
        let of_gpu = squall_model::Backend::best().available_memory();
        Ok(of_gpu.or_else(|| crate::memory::available_memory(ranks)))
    }
}

/// The notes on the input without those on stand-ins of channels that are told as `apart` from training.
fn not_told(problems: &[String], apart: &[String]) -> Vec<String> {
    let is_told = |problem: &&String| {
        let stand_in = problem.split_once(" is read from ");
        stand_in.is_some_and(|(channel, _)| {
            let begins = format!("{channel} was ");
            apart.iter().any(|note| note.starts_with(&begins))
        })
    };
    let others = problems.iter().filter(|problem| !is_told(problem));
    others.cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of files of ERA5 a model of CAM's had two warnings for each of five channels.
    #[test]
    fn a_stand_in_that_training_did_not_have_is_told_once() {
        let wind = "UBOT is read from `u10`: 10 m wind (1 of 2 files)";
        let rain = "PRECT is read from `tp`: a sum over the hour before";
        let order = "times were in another order";
        let problems = [wind, rain, order].map(String::from);
        let apart = ["UBOT was `UBOT` in training; here it is `u10` (10 m wind)".to_string()];
        assert_eq!(not_told(&problems, &apart), [rain, order]);
        assert_eq!(not_told(&problems, &[]), problems);
    }
}
