//! Read, compute and write at the same time.

use super::log::{FinishedFile, SkippedTime};
use super::{BadInput, Chunk, InferEvent, InferOptions, Model};
use crate::error::{JobError, Result};
use crate::metrics::JsonLines;
use crate::train::Outcome;
use ndarray::{Array3, Axis};
use squall_data::archive::Archive;
use squall_data::mask_file::{MaskFileOptions, MaskWriter};
use squall_data::{ClassMask, DataError, Time};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::ScopedJoinHandle;
use std::time::Instant;

/// What an inference works on.
pub(super) struct Job<'a> {
    pub archive: &'a Archive,
    pub model: &'a Model,
    pub out: &'a Path,
    pub options: &'a InferOptions,
    /// The mask files to make.
    pub chunks: &'a [Chunk],
    /// All times.
    pub total: usize,
    /// Times done before.
    pub done: usize,
    /// How the network is computed.
    pub strips: NonZeroUsize,
}

/// What a job did.
pub(super) struct Ran {
    pub outcome: Outcome,
    pub finished: Vec<FinishedFile>,
    pub wait_seconds: f64,
    pub compute_seconds: f64,
}

/// From the reader to the network.
enum Read {
    Sample {
        time: Time,
        pixels: Vec<f32>,
        missing: usize,
    },
    Skipped(SkippedTime),
    /// All times of a file have come.
    EndOfFile,
}

/// From the network to the writer.
enum Write {
    Mask(ClassMask, Option<Array3<f32>>),
    EndOfFile(FinishedFile),
}

impl Job<'_> {
    /// Makes the files. Finished ones are appended to `log`.
    pub(super) fn run(
        &self,
        log: JsonLines,
        progress: &mut dyn FnMut(&InferEvent<'_>),
        stop: &AtomicBool,
    ) -> Result<Ran> {
        let ahead = self.options.read_ahead.max(1);
        let (to_network, from_reader) = sync_channel(ahead);
        let (to_writer, from_network) = sync_channel(ahead);
        let (finished, from_writer) = channel();
        std::thread::scope(|scope| {
            let reader = scope.spawn(move || self.read(&to_network));
            let writer = scope.spawn(move || {
                self.write(&from_network, log, |entry| {
                    let _ = finished.send(entry);
                })
            });
            let mut ran = Ran {
                outcome: Outcome::Finished,
                finished: Vec::new(),
                wait_seconds: 0.0,
                compute_seconds: 0.0,
            };
            let mut network = Computer {
                job: self,
                ran: &mut ran,
                done: self.done,
                to_writer,
                from_writer: &from_writer,
                progress,
            };
            let computed = network.run(from_reader, stop);
            // Closes the writer's channel: it ends after what it already has.
            drop(network);
            let (read, written) = (join(reader, "reading"), join(writer, "writing"));
            // A thread's own error says more than that its channel closed.
            read.and(written).and(computed)?;
            for entry in from_writer.try_iter() {
                finish(self, entry, &mut ran, progress);
            }
            let complete = ran.finished.len() == self.chunks.len();
            if !complete {
                ran.outcome = Outcome::Interrupted;
            }
            Ok(ran)
        })
    }

    fn read(&self, to_network: &SyncSender<Read>) -> Result<()> {
        let variables = self.model.contract().variables();
        for chunk in self.chunks {
            for index in chunk.indices.clone() {
                let item = match self.sample(index, &variables) {
                    Ok(sample) => sample,
                    Err(error) if self.options.bad_input == BadInput::Skip => {
                        Read::Skipped(SkippedTime {
                            time: self.archive.times()[index].to_string(),
                            reason: error.to_string(),
                        })
                    }
                    Err(error) => return Err(error),
                };
                // Nobody listens any more: the network stopped.
                if to_network.send(item).is_err() {
                    return Ok(());
                }
            }
            if to_network.send(Read::EndOfFile).is_err() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn sample(&self, index: usize, variables: &[squall_data::Variable]) -> Result<Read> {
        let snapshot = self.archive.read(index, variables)?;
        let (pixels, missing) = self.model.pixels(&snapshot)?;
        let share = missing as f64 / pixels.len().max(1) as f64;
        if share > self.options.max_missing_share {
            return Err(JobError::Data(DataError::Unreadable {
                path: snapshot.source.0,
                reason: format!(
                    "{:.1} % of the values at {} are missing, at most {:.1} % are allowed",
                    100.0 * share,
                    snapshot.time,
                    100.0 * self.options.max_missing_share
                ),
            }));
        }
        Ok(Read::Sample {
            time: snapshot.time,
            pixels,
            missing,
        })
    }

    fn write(
        &self,
        from_network: &Receiver<Write>,
        mut log: JsonLines,
        finished: impl Fn(FinishedFile),
    ) -> Result<()> {
        let mut chunks = self.chunks.iter();
        let mut chunk = chunks.next();
        let mut open: Option<MaskWriter> = None;
        for item in from_network {
            // The network sends an end for every file, in order, so there is always one.
            let Some(current) = chunk else { break };
            match item {
                Write::Mask(mask, probabilities) => {
                    let writer = match &mut open {
                        Some(writer) => writer,
                        None => open.insert(self.create(current, mask.time)?),
                    };
                    writer.write(&mask, probabilities.as_ref().map(|p| p.view()))?;
                }
                Write::EndOfFile(entry) => {
                    match open.take() {
                        Some(writer) => writer.finish()?,
                        // Of an earlier call with other input; it must not be taken for ours.
                        None => remove(&self.out.join(&current.name))?,
                    }
                    log.push(&entry)?;
                    log.sync()?;
                    finished(entry);
                    chunk = chunks.next();
                }
            }
        }
        // An open file that did not end is dropped, and with it its temporary name.
        Ok(())
    }

    fn create(&self, chunk: &Chunk, first: Time) -> Result<MaskWriter> {
        let contract = self.model.contract();
        let attribute = |name: &str, value: &str| (name.to_string(), value.to_string());
        let options = MaskFileOptions {
            title: "Tropical cyclones and atmospheric rivers found by a neural network".to_string(),
            source: format!(
                "Squall {}, {}, {} training steps",
                env!("CARGO_PKG_VERSION"),
                contract.network.name.as_str(),
                contract.step
            ),
            attributes: vec![
                attribute("squall_model_hash", self.model.hash()),
                attribute("squall_data_hash", &contract.data_hash),
                attribute("squall_normalisation_hash", &contract.normalisation_hash),
            ],
            probabilities: self.options.probabilities,
        };
        let path = self.out.join(&chunk.name);
        Ok(MaskWriter::create(
            &path,
            self.archive.grid(),
            first,
            &options,
        )?)
    }
}

fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(JobError::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}

fn join(handle: ScopedJoinHandle<'_, Result<()>>, name: &'static str) -> Result<()> {
    handle.join().unwrap_or(Err(JobError::Thread(name)))
}

fn finish(
    job: &Job<'_>,
    entry: FinishedFile,
    ran: &mut Ran,
    progress: &mut dyn FnMut(&InferEvent<'_>),
) {
    if entry.masks > 0 {
        progress(&InferEvent::FileFinished(&job.out.join(&entry.file)));
    }
    ran.finished.push(entry);
}

/// The middle of the three: batches in, masks out.
struct Computer<'j, 'r> {
    job: &'j Job<'j>,
    ran: &'r mut Ran,
    done: usize,
    to_writer: SyncSender<Write>,
    from_writer: &'r Receiver<FinishedFile>,
    progress: &'r mut dyn FnMut(&InferEvent<'_>),
}

/// What has come of the file under way.
#[derive(Default)]
struct Under {
    pixels: Vec<f32>,
    times: Vec<Time>,
    masks: usize,
    missing: u64,
    skipped: Vec<SkippedTime>,
}

impl Computer<'_, '_> {
    fn run(&mut self, from_reader: Receiver<Read>, stop: &AtomicBool) -> Result<()> {
        let batch = self.job.options.batch.max(1);
        for chunk in self.job.chunks {
            let mut under = Under::default();
            loop {
                let before = Instant::now();
                // The reader is done or failed; its own result says which.
                let Ok(item) = from_reader.recv() else {
                    return Ok(());
                };
                self.ran.wait_seconds += before.elapsed().as_secs_f64();
                if stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                match item {
                    Read::Sample {
                        time,
                        pixels,
                        missing,
                    } => {
                        under.times.push(time);
                        under.pixels.extend_from_slice(&pixels);
                        under.missing += missing as u64;
                        if under.times.len() == batch && !self.compute(&mut under)? {
                            return Ok(());
                        }
                    }
                    Read::Skipped(skipped) => {
                        tracing::warn!(time = %skipped.time, reason = %skipped.reason, "no mask");
                        self.done += 1;
                        (self.progress)(&InferEvent::Skipped(&skipped));
                        under.skipped.push(skipped);
                    }
                    Read::EndOfFile => break,
                }
            }
            if !self.compute(&mut under)? {
                return Ok(());
            }
            let time = |index: usize| self.job.archive.times()[index].to_string();
            let entry = FinishedFile {
                file: chunk.name.clone(),
                first: time(chunk.indices.start),
                last: time(chunk.indices.end - 1),
                masks: under.masks,
                missing_values: under.missing,
                skipped: under.skipped,
            };
            if self.to_writer.send(Write::EndOfFile(entry)).is_err() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Masks of the samples that wait; false if the writer is gone, whose own result says why.
    fn compute(&mut self, under: &mut Under) -> Result<bool> {
        let shape = self.job.archive.grid().shape();
        if !under.times.is_empty() {
            let before = Instant::now();
            let (model, wanted) = (self.job.model, self.job.options.probabilities);
            let how = (wanted, self.job.strips);
            let prediction = model.predict_in_strips(&under.pixels, &under.times, shape, how)?;
            self.ran.compute_seconds += before.elapsed().as_secs_f64();
            under.pixels.clear();
            under.times.clear();
            for (k, mask) in prediction.masks.into_iter().enumerate() {
                self.done += 1;
                under.masks += 1;
                (self.progress)(&InferEvent::Mask {
                    done: self.done,
                    total: self.job.total,
                    mask: &mask,
                });
                let probabilities = prediction.probabilities.as_ref();
                let probabilities = probabilities.map(|p| p.index_axis(Axis(0), k).to_owned());
                if self
                    .to_writer
                    .send(Write::Mask(mask, probabilities))
                    .is_err()
                {
                    return Ok(false);
                }
            }
        }
        while let Ok(entry) = self.from_writer.try_recv() {
            finish(self.job, entry, self.ran, &mut *self.progress);
        }
        Ok(true)
    }
}
