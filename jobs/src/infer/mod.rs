//! From models and fields to mask files, on one rank or many.
//!
//! The work is divided by time: ranks claim mask files one after the other (`claims`), so that fast ones make more of
//! them. On each rank three threads work at the same time: one reads and normalises, one computes, one writes. A mask
//! file appears whole, under its name, and then its line in the log of its rank; batches never cross files. So a call
//! that was killed anywhere is continued by the next one, with any number of ranks: finished files stay, the others are
//! made, and in the end folders are the same byte for byte.
//!
//! A network that gives masks and boxes has two files for the same times, the table of boxes named first.
//!
//! A network over time is shown windows of the time axis that slide so that every time is asked for once (`sliding`); a
//! frame that is missing at an end of the axis, at a hole or in a bad file is replaced by its neighbour.
//!
//! Bad input is met in three ways. What cannot be a time axis, such as two calendars or grids, is refused when the
//! input is opened; a time that stands in two files is read from the first, and times in any order are sorted; both are
//! said. Gaps are said and have no masks. A time that cannot be read ends the inference or is left out, as [`BadInput`]
//! says.

mod alive;
mod chunks;
mod claims;
mod differences;
mod ensemble;
mod gives;
mod input;
mod log;
mod model;
mod opening;
mod options;
mod output;
mod pipeline;
mod pixels;
mod plan;
mod read_from;
mod report;
mod settings;
mod sliding;
mod strips;
mod views;

pub use chunks::{Chunk, FilePer, chunks};
pub use ensemble::Ensemble;
pub use gives::Gives;
pub use input::Input;
pub use log::{FinishedFile, SkippedTime};
pub use model::{Model, Prediction};
pub use opening::open_archive;
pub use options::{BadInput, InferOptions};
pub use plan::{InferPlan, batch_for};
pub use read_from::ReadFrom;
pub use report::{InferEvent, InferReport, Spent};
pub use settings::is_unfinished;
pub use strips::Strips;

use crate::comm::collectives::tree;
use crate::comm::{Communicator, Solo, agree, doing};
use crate::error::{JobError, Result, all_or_none};
use crate::lock::FolderLock;
use crate::metrics::to_json;
use crate::train::Outcome;
use alive::{Pulse, Watched};
use claims::Claims;
use log::Others;
use pipeline::{Job, Neighbours, Ran};
use plan::{Demand, Work};
use settings::Settings;
use sliding::Sliding;
use squall_data::archive::Archive;
use squall_data::atomic;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Makes a mask for every time of an archive, in files under `out`; continues what an earlier call there began.
///
/// Setting `stop` ends it after the sample under way with [`Outcome::Interrupted`].
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

/// What is to be inferred, how, and where masks go.
#[derive(Debug)]
pub struct Inference<'a> {
    /// Fields.
    pub input: Input<'a>,
    /// One network, or the members of an ensemble.
    pub ensemble: Ensemble<'a>,
    /// Folder of the masks; one that all ranks see.
    pub out: &'a Path,
    /// How.
    pub options: &'a InferOptions,
}

impl Inference<'_> {
    /// Makes a mask for every time, together with the other ranks of `comm`; continues what an earlier call began,
    /// whatever its number of ranks. All ranks call it with the same input, models and options.
    ///
    /// `progress` hears of the masks of its own rank; on the first rank numbers are those of all. Setting `stop` on any
    /// rank ends all of them after the samples under way with [`Outcome::Interrupted`].
    ///
    /// # Errors
    /// [`JobError::Contract`] if a model does not fit the input; [`JobError::Strips`] if it does not fit the memory
    /// that [`InferOptions::strips`] gives; [`JobError::Resume`] if the folder holds masks of another model or other
    /// options; [`JobError::Locked`]; [`JobError::Comm`] if ranks disagree about what to do, or one is gone;
    /// [`JobError::Elsewhere`] if another rank failed; whatever reading, computing and writing may cause.
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
        let taken = match comm.rank() {
            0 => self.take_folder(wanted).map(Some),
            _ => Ok(None),
        };
        // The lock is held to the end.
        let (_lock, batch) = match all_or_none(comm, taken)? {
            Some((lock, batch)) => (Some(lock), batch.get()),
            None => (None, 0),
        };
        let batch = self.first_says(comm, batch)?;
        let free = self.available_memory(comm)?;
        let strips = demand.strips(self.options, batch, free);
        let strips = all_or_none(comm, strips)?;
        let all = chunks(self.input.times(), self.options.file_per);
        let all = match self.ensemble.gives() {
            Gives::Boxes => chunks::of_boxes(all),
            Gives::Masks | Gives::Both => all,
        };
        let sliding = (self.ensemble.clips()).map(|shape| Sliding::of(&self.input, shape));
        let finished = self.finished_before(comm, &all, sliding.as_ref())?;
        let left: Vec<Chunk> = (all.iter())
            .filter(|chunk| !finished.contains_key(&chunk.name))
            .cloned()
            .collect();
        let removed = match comm.rank() {
            0 if !left.is_empty() => settings::remove_manifest(self.out),
            _ => Ok(()),
        };
        all_or_none(comm, removed)?;
        let work = Work {
            input: &self.input,
            ensemble: &self.ensemble,
            options: self.options,
            all: &all,
            left: &left,
            ranks: comm.size(),
            batch,
            strips,
        };
        let planned = work.plan(&demand, notes);
        let plan = all_or_none(comm, planned)?;
        let (total, done) = (plan.times, plan.done_times);
        progress(&InferEvent::Started(plan));
        let job = Job {
            input: &self.input,
            ensemble: &self.ensemble,
            out: self.out,
            options: self.options,
            chunks: &left,
            total,
            done,
            batch,
            strips,
            sliding: sliding.as_ref(),
        };
        let claims = Claims::begin(self.out, left.len(), comm)?;
        let mut neighbours = Neighbours {
            bell: claims.bell(),
            claims,
            others: (comm.rank() == 0 && comm.size() > 1)
                .then(|| Others::of(self.out, comm.size())),
        };
        let pulse = Pulse::start(&neighbours.claims, comm.rank())?;
        // Whatever ends this rank early, a panic included, ends the others too.
        let mut alarm = neighbours.claims.bell().armed();
        let ran = log::open(self.out, comm.rank())
            .and_then(|log| job.run(&mut neighbours, log, progress, stop));
        if let Ok(done) = &ran
            && !done.stopped
        {
            let own = done.finished.iter().map(FinishedFile::times).sum();
            let others = Watched::of(&neighbours.claims, comm.rank(), comm.size());
            // The first rank sees when all others are done, and they wait for it: nobody comes to the meeting below
            // while a rank still computes, because there patience ends.
            let (at_once, later) = match comm.rank() {
                0 => (None, pulse),
                _ => (pulse, None),
            };
            at_once.into_iter().for_each(Pulse::done);
            // A dead rank comes to no meeting: nothing is left to agree on.
            pipeline::watch(&job, own, (&mut neighbours, others), progress, stop)?;
            later.into_iter().for_each(Pulse::done);
            alarm.disarm();
        } else {
            pulse.into_iter().for_each(Pulse::done);
        }
        drop(alarm);
        let ran = all_or_none(comm, ran)?;
        self.conclude(comm, (&all, &neighbours.claims), &ran, start)
    }

    /// What can be known before a file is touched: the memory that is needed, the batch, and what may surprise.
    fn prepare(&self) -> Result<(Demand, NonZeroUsize, Vec<String>)> {
        let readable = self
            .input
            .readable(&self.ensemble.variables(), self.options);
        let mut notes = self.ensemble.check(self.input.grid(), &readable)?;
        notes.extend(self.input.problems().iter().cloned());
        let demand = Demand::of(&self.input, &self.ensemble, self.options)?;
        let (rows, columns) = self.input.grid().shape();
        let wanted = match self.ensemble.clips() {
            // A clip is batch enough.
            Some(_) => NonZeroUsize::MIN,
            None => batch_for(rows, columns),
        };
        let batch = demand.batch(self.options, wanted)?;
        Ok((demand, batch, notes))
    }

    /// An error if ranks mean different work.
    fn agree(&self, comm: &mut dyn Communicator) -> Result<()> {
        let times: Vec<String> = self.input.times().iter().map(ToString::to_string).collect();
        let hashes: Vec<&str> = self.ensemble.models().iter().map(|m| m.hash()).collect();
        let options = InferOptions {
            // They depend on memory, which is each rank's own.
            strips: Strips::default(),
            ..self.options.clone()
        };
        let facts = agree::Facts::new()
            .with_text("the program", crate::code::version())
            .with("times", times.join(" ").as_bytes())
            .with("grid", &self.input.grid().hash().to_le_bytes())
            .with("models", hashes.join(" ").as_bytes())
            .with("views", format!("{:?}", self.ensemble.views()).as_bytes())
            .with("options", format!("{options:?}").as_bytes());
        Ok(facts.check(comm)?)
    }

    /// Takes the folder on behalf of all ranks and clears away what a killed call left; gives the batch, that of the
    /// masks that are there unless another is asked for.
    fn take_folder(&self, wanted: NonZeroUsize) -> Result<(FolderLock, NonZeroUsize)> {
        let lock = FolderLock::take(self.out)?;
        let before = Settings::batch_of(self.out).filter(|_| self.options.batch.is_none());
        let batch = before.unwrap_or(wanted);
        Settings::of(&self.input, &self.ensemble, self.options, batch).settle(self.out)?;
        atomic::sweep(self.out, |_| true)?;
        claims::remove_old(self.out)?;
        Ok((lock, batch))
    }

    fn first_says(&self, comm: &mut dyn Communicator, batch: usize) -> Result<NonZeroUsize> {
        let mut said = [batch as u64];
        tree::broadcast(comm, bytemuck::cast_slice_mut(&mut said), 0)?;
        Ok(NonZeroUsize::new(said[0] as usize).unwrap_or(NonZeroUsize::MIN))
    }

    /// Bytes that this rank may use, where those of its node share what is there.
    fn available_memory(&self, comm: &mut dyn Communicator) -> Result<Option<u64>> {
        // Every rank has a GPU of its own.
        if let Some(bytes) = squall_model::Backend::best().available_memory() {
            return Ok(Some(bytes));
        }
        let ranks = match comm.size() {
            1 => 1,
            _ => comm.split_by_node()?.size() as u64,
        };
        Ok(crate::memory::available_to(ranks))
    }

    /// The files that earlier calls finished and that are whole; each rank looks at some of them.
    fn finished_before(
        &self,
        comm: &mut dyn Communicator,
        all: &[Chunk],
        sliding: Option<&Sliding>,
    ) -> Result<BTreeMap<String, FinishedFile>> {
        let (rank, size) = (comm.rank(), comm.size());
        let read = match rank {
            0 => self.wanted_of_log(all, sliding).map(Some),
            _ => Ok(None),
        };
        let read = all_or_none(comm, read)?.unwrap_or_default();
        let entries: Vec<FinishedFile> = share(comm, &read, self.out)?;
        let mut whole = vec![0u64; entries.len().div_ceil(64)];
        for (at, entry) in entries.iter().enumerate().skip(rank).step_by(size) {
            whole[at / 64] |= u64::from(entry.verify(self.out)) << (at % 64);
        }
        tree::all_fold(comm, &mut whole, |all, some| *all |= some)?;
        let is_whole = |at: &usize| whole[at / 64] >> (at % 64) & 1 == 1;
        let kept: BTreeMap<String, FinishedFile> = (entries.into_iter().enumerate())
            .filter(|(at, _)| is_whole(at))
            .map(|(_, entry)| (entry.file.clone(), entry))
            .collect();
        let restarted = match rank {
            0 => log::restart(self.out, in_order(all, &kept).into_iter()),
            _ => Ok(()),
        };
        all_or_none(comm, restarted)?;
        Ok(kept)
    }

    /// The files of the log that this call would make as they are.
    fn wanted_of_log(&self, all: &[Chunk], sliding: Option<&Sliding>) -> Result<Vec<FinishedFile>> {
        let times = self.input.times();
        let variables = self.ensemble.variables();
        let by_name: BTreeMap<&str, &Chunk> = all
            .iter()
            .map(|chunk| (chunk.name.as_str(), chunk))
            .collect();
        let wanted = |entry: &FinishedFile| {
            // An input that has grown, or shrunk, changes the file at its edge.
            let same = by_name.get(entry.file.as_str()).is_some_and(|chunk| {
                times[chunk.indices.start].to_string() == entry.first
                    && times[chunk.indices.end - 1].to_string() == entry.last
                    && chunk.indices.len() == entry.times()
                    && entry.seen == sliding.map(|s| s.seen(chunk.indices.clone(), times))
            });
            // Who does not skip bad times wants to hear of those that an earlier call skipped.
            same && (self.options.bad_input == BadInput::Skip || entry.skipped.is_empty())
        };
        let (found, foreign): (Vec<_>, Vec<_>) = (log::read(self.out)?.into_values())
            .partition(|entry| by_name.contains_key(entry.file.as_str()));
        let is_there = |entry: &&FinishedFile| self.out.join(&entry.file).exists();
        if let Some(one) = foreign.iter().find(is_there) {
            tracing::warn!(
                "`{}` holds masks of times that the input does not have, such as `{}`: they stay, and are not in its manifest",
                self.out.display(),
                one.file
            );
        }
        let found = found.into_iter().filter_map(|entry| {
            let chunk = by_name.get(entry.file.as_str())?;
            let indices = chunk.indices.clone();
            let now = ReadFrom::now(&self.input, indices, sliding, &variables);
            Some((entry, now))
        });
        let same = read_from::of_these_fields(self.out, found.collect())?;
        Ok(same.into_iter().filter(wanted).collect())
    }

    /// Puts together what all ranks did.
    fn conclude(
        &self,
        comm: &mut dyn Communicator,
        (all, claims): (&[Chunk], &Claims),
        ran: &Ran,
        start: Instant,
    ) -> Result<InferReport> {
        let masks = ran.finished.iter().map(|entry| entry.masks).sum::<usize>();
        let mut sums = [
            ran.wait_seconds,
            ran.compute_seconds,
            ran.blocked_seconds,
            ran.seconds,
            masks as f64,
        ];
        agree::sum_exactly(comm, &mut sums)?;
        let closed = match comm.rank() {
            0 => self.close(all, claims).map(Some),
            _ => Ok(None),
        };
        let entries = all_or_none(comm, closed)?.unwrap_or_default();
        let entries: Vec<FinishedFile> = share(comm, &entries, self.out)?;
        let outcome = match entries.len() == all.len() {
            true => Outcome::Finished,
            false => Outcome::Interrupted,
        };
        let with_masks = entries.iter().filter(|entry| entry.masks > 0);
        let [wait, compute, blocked, running, new_masks] = sums;
        Ok(InferReport {
            outcome,
            masks: entries.iter().map(|entry| entry.masks).sum(),
            new_masks: new_masks as usize,
            files: with_masks.map(|entry| self.out.join(&entry.file)).collect(),
            missing_values: entries.iter().map(|entry| entry.missing_values).sum(),
            skipped: entries
                .into_iter()
                .flat_map(|entry| entry.skipped)
                .collect(),
            skipped_files: self.input.skipped_files(),
            ranks: comm.size(),
            gives: self.ensemble.gives(),
            members: self.ensemble.members(),
            seconds: start.elapsed().as_secs_f64(),
            wait_seconds: wait,
            compute_seconds: compute,
            spent: Spent::of(compute, wait, blocked, running),
        })
    }

    /// One log of all ranks and, if nothing is missing, the manifest; gives the finished files in order of time.
    fn close(&self, all: &[Chunk], claims: &Claims) -> Result<Vec<FinishedFile>> {
        let finished = log::read(self.out)?;
        let in_order = in_order(all, &finished);
        log::restart(self.out, in_order.iter().copied())?;
        claims.end()?;
        if in_order.len() == all.len() {
            let settings = Settings::batch_of(self.out).unwrap_or(NonZeroUsize::MIN);
            let settings = Settings::of(&self.input, &self.ensemble, self.options, settings);
            settings::write_manifest(self.out, &self.input, &self.ensemble, &settings, &in_order)?;
            if self.ensemble.gives().boxes() {
                output::join_tables(self.out, &in_order)?;
            }
        }
        Ok(in_order.into_iter().cloned().collect())
    }
}

/// Finished files in the order of time.
fn in_order<'f>(
    all: &[Chunk],
    finished: &'f BTreeMap<String, FinishedFile>,
) -> Vec<&'f FinishedFile> {
    all.iter()
        .filter_map(|chunk| finished.get(&chunk.name))
        .collect()
}

/// The first rank's files on all ranks.
fn share(
    comm: &mut dyn Communicator,
    files: &[FinishedFile],
    folder: &Path,
) -> Result<Vec<FinishedFile>> {
    if comm.size() == 1 {
        return Ok(files.to_vec());
    }
    let bytes = to_json(&files, folder)?.into_bytes();
    let bytes = tree::broadcast_any(comm, bytes, 0)?;
    serde_json::from_slice(&bytes).map_err(|error| JobError::Damaged {
        path: folder.to_path_buf(),
        reason: format!("the first rank's list of finished files: {error}"),
    })
}
