//! Read, compute and write at the same time, on each rank.

use super::chunks::table_of;
use super::claims::{Claims, refuse_taken};
use super::computer::Computer;
use super::input::{Fields, Reader};
use super::log::{FinishedFile, SkippedTime};
use super::other_ranks::OtherRanks;
use super::output::{Found, OutputFile, remove};
use super::read_from::ReadFrom;
use super::settings::about;
use super::sliding::{Sliding, completed};
use super::{BadInput, Chunk, InferEvent, Inference};
use crate::error::{JobError, Result};
use crate::metrics::JsonLines;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::ScopedJoinHandle;
use std::time::Instant;

/// What a rank works on.
pub(super) struct Job<'j, 'a> {
    pub inference: &'j Inference<'a>,
    /// The mask files that are left.
    pub chunks: &'j [Chunk],
    /// All times.
    pub total: usize,
    /// Times done before.
    pub done: usize,
    /// Samples computed at once.
    pub batch: NonZeroUsize,
    pub strips: NonZeroUsize,
    /// The windows of the time axis that a network over time sees.
    pub sliding: Option<&'j Sliding>,
}

/// What a rank did.
#[derive(Debug, Default)]
pub(super) struct Ran {
    pub finished: Vec<FinishedFile>,
    /// Whether it was told to stop, by its own flag or another rank.
    pub stopped: bool,
    /// Seconds in which the network waited for fields, computed, and waited for the writer.
    pub wait_seconds: f64,
    pub compute_seconds: f64,
    pub blocked_seconds: f64,
    /// Seconds from the first wait to the end of the last write.
    pub seconds: f64,
}

/// From the reader to the network.
pub(super) enum Read {
    /// The times of this file follow, and what they are read from.
    File(usize, ReadFrom),
    Sample(Fields),
    /// Frames, and which of the answers are about which times.
    Clip(Vec<Arc<Fields>>, Vec<(usize, usize)>),
    Skipped(SkippedTime),
    /// All times of the file have come.
    EndOfFile,
}

/// From the network to the writer; about one file after the other.
pub(super) enum Write {
    Found(usize, Found),
    EndOfFile(usize, FinishedFile),
}

impl Job<'_, '_> {
    /// Makes mask files as long as some can be claimed. Finished ones are appended to `log`.
    pub fn run(
        &self,
        claims: &mut Claims,
        other_ranks: &mut OtherRanks,
        log: JsonLines,
        progress: &mut dyn FnMut(&InferEvent<'_>),
        stop: &AtomicBool,
    ) -> Result<Ran> {
        let ahead = self.inference.options.read_ahead.max(1);
        let (to_network, from_reader) = sync_channel(ahead);
        let (to_writer, from_network) = sync_channel(ahead);
        let (finished, from_writer) = channel();
        let start = Instant::now();
        let claimed = claims.folder().map(Path::to_path_buf);
        std::thread::scope(|scope| {
            let reader = scope.spawn(move || self.read(claims, &to_network));
            let writer =
                scope.spawn(move || self.write(&from_network, log, &finished, claimed.as_deref()));
            let mut ran = Ran::default();
            let mut network = Computer {
                job: self,
                ran: &mut ran,
                own: 0,
                to_writer,
                from_writer: &from_writer,
                progress,
                other_ranks,
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
            ran.seconds = start.elapsed().as_secs_f64();
            Ok(ran)
        })
    }

    fn read(&self, claims: &mut Claims, to_network: &SyncSender<Read>) -> Result<()> {
        let Inference {
            input, ensemble, ..
        } = self.inference;
        let mut reader = input.reader(ensemble)?;
        let variables = ensemble.variables();
        while let Some(number) = claims.next()? {
            let indices = self.chunks[number].indices.clone();
            // Before it is read: what changes afterwards has changed since.
            let read_from = ReadFrom::now(input, indices.clone(), self.sliding, &variables);
            if to_network.send(Read::File(number, read_from)).is_err() {
                return Ok(());
            }
            let heard = match self.sliding {
                Some(sliding) => self.read_clips(&mut reader, sliding, indices, to_network)?,
                None => self.read_samples(&mut reader, indices, to_network)?,
            };
            // Where nobody listens any more the network stopped.
            if !heard || to_network.send(Read::EndOfFile).is_err() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Reads the times of a file; false if nobody listens any more.
    fn read_samples(
        &self,
        reader: &mut Reader<'_>,
        indices: Range<usize>,
        to_network: &SyncSender<Read>,
    ) -> Result<bool> {
        for index in indices {
            let item = match self.read_time(reader, index)? {
                Ok(fields) => Read::Sample(fields),
                Err(skipped) => Read::Skipped(skipped),
            };
            if to_network.send(item).is_err() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The fields of a time, or why it gets no mask where bad times are skipped.
    fn read_time(
        &self,
        reader: &mut Reader<'_>,
        index: usize,
    ) -> Result<std::result::Result<Fields, SkippedTime>> {
        let Inference { input, options, .. } = self.inference;
        match reader.read(index, options.max_missing_share) {
            Ok(fields) => Ok(Ok(fields)),
            // Where the disk has gone, or a GPU, so would be all times that follow.
            Err(JobError::Data(error))
                if options.bad_input == BadInput::Skip && error.is_damage() =>
            {
                Ok(Err(SkippedTime {
                    time: input.times()[index].to_string(),
                    reason: error.to_string(),
                }))
            }
            Err(error) => Err(error),
        }
    }

    /// Reads the clips of a file; false if nobody listens any more.
    fn read_clips(
        &self,
        reader: &mut Reader<'_>,
        sliding: &Sliding,
        indices: Range<usize>,
        to_network: &SyncSender<Read>,
    ) -> Result<bool> {
        // Neighbouring clips share frames.
        let mut kept: BTreeMap<usize, Option<Arc<Fields>>> = BTreeMap::new();
        let mut told = BTreeSet::new();
        for window in sliding.within(indices.clone()) {
            let first = window.frames[0];
            kept.retain(|&index, _| index >= first);
            for &index in &window.frames {
                if kept.contains_key(&index) {
                    continue;
                }
                let fields = match self.read_time(reader, index)? {
                    Ok(fields) => Some(Arc::new(fields)),
                    Err(skipped) => {
                        if indices.contains(&index)
                            && told.insert(index)
                            && to_network.send(Read::Skipped(skipped)).is_err()
                        {
                            return Ok(false);
                        }
                        None
                    }
                };
                kept.insert(index, fields);
            }
            let read = |index: &usize| kept.get(index).cloned().flatten();
            let frames: Vec<_> = window.frames.iter().map(read).collect();
            let takes = window.takes.into_iter();
            let takes: Vec<_> = takes.filter(|(_, index)| read(index).is_some()).collect();
            if let (Some(frames), false) = (completed(&frames), takes.is_empty())
                && to_network.send(Read::Clip(frames, takes)).is_err()
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn write(
        &self,
        from_network: &Receiver<Write>,
        mut log: JsonLines,
        finished: &Sender<FinishedFile>,
        claims: Option<&Path>,
    ) -> Result<()> {
        let mut open: Option<OutputFile> = None;
        for item in from_network {
            match item {
                Write::Found(number, found) => {
                    let file = match &mut open {
                        Some(file) => file,
                        None => open.insert(self.create(number, &found)?),
                    };
                    file.write(&found)?;
                }
                Write::EndOfFile(number, entry) => {
                    refuse_taken(claims)?;
                    match open.take() {
                        Some(file) => file.finish()?,
                        // There may be one of an earlier call with other input, which must not be taken for ours.
                        None => {
                            let (out, name) = (self.inference.out, &self.chunks[number].name);
                            remove(&out.join(name))?;
                            remove(&out.join(table_of(name)))?;
                        }
                    }
                    log.push(&entry)?;
                    log.sync()?;
                    // Somebody listens until this thread has ended.
                    let _ = finished.send(entry);
                }
            }
        }
        // An open file that did not end is dropped, and with it its temporary name.
        Ok(())
    }

    fn create(&self, number: usize, first: &Found) -> Result<OutputFile> {
        let (inference, chunk) = (self.inference, &self.chunks[number]);
        let about = about(inference, chunk.indices.clone());
        OutputFile::create(inference.out, chunk, inference.input.grid(), first, &about)
    }
}

fn join(handle: ScopedJoinHandle<'_, Result<()>>, name: &'static str) -> Result<()> {
    handle.join().unwrap_or(Err(JobError::Thread(name)))
}

/// Tells of a file that is finished, and notes it.
pub(super) fn finish(
    job: &Job<'_, '_>,
    entry: FinishedFile,
    ran: &mut Ran,
    progress: &mut dyn FnMut(&InferEvent<'_>),
) {
    if entry.masks > 0 {
        progress(&InferEvent::FileFinished(
            &job.inference.out.join(&entry.file),
        ));
    }
    ran.finished.push(entry);
}
