//! The pipeline of a rank: reads, computes and writes concurrently.

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
use super::work::Stage;
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

/// The work of a rank.
pub(super) struct Job<'j, 'a> {
    pub inference: &'j Inference<'a>,
    /// The remaining mask files.
    pub chunks: &'j [Chunk],
    /// Total number of times.
    pub total: usize,
    /// Number of times done before.
    pub done: usize,
    /// Samples per batch.
    pub batch: NonZeroUsize,
    pub strips: NonZeroUsize,
    /// The windows of a network over time.
    pub sliding: Option<&'j Sliding>,
}

/// The result of a rank's work.
#[derive(Debug, Default)]
pub(super) struct RankResult {
    pub finished: Vec<FinishedFile>,
    /// Whether it was asked to stop, by its own flag or another rank.
    pub stopped: bool,
    /// Seconds in which the network waited for fields, computed, and waited for the writer.
    pub wait_seconds: f64,
    pub compute_seconds: f64,
    pub blocked_seconds: f64,
    /// Seconds from the first wait to the end of the last write.
    pub seconds: f64,
}

/// Items from the reader to the network.
pub(super) enum ReaderItem {
    /// Begins a file with this index; its times follow.
    File(usize, ReadFrom),
    Sample(Fields),
    /// Frames of a clip, and pairs of an output to use and the time that it belongs to.
    Clip(Vec<Arc<Fields>>, Vec<(usize, usize)>),
    Skipped(SkippedTime),
    /// Ends the file.
    EndOfFile,
}

/// Items from the network to the writer, file by file.
pub(super) enum WriterItem {
    Found(usize, Found),
    EndOfFile(usize, FinishedFile),
}

impl Job<'_, '_> {
    /// Makes mask files as long as some can be claimed. Appends finished ones to `log`.
    pub fn run(
        &self,
        claims: &mut Claims,
        other_ranks: &mut OtherRanks,
        log: JsonLines,
        progress: &mut dyn FnMut(&InferEvent<'_>),
        stop: &AtomicBool,
    ) -> Result<RankResult> {
        let ahead = self.inference.options.read_ahead.max(1);
        let (to_network, from_reader) = sync_channel(ahead);
        let (to_writer, from_network) = sync_channel(ahead);
        let (finished, from_writer) = channel();
        let start = Instant::now();
        let claimed = claims.folder().map(Path::to_path_buf);
        let work = Arc::clone(&other_ranks.work);
        std::thread::scope(|scope| {
            let reader = scope.spawn(move || self.read(claims, &to_network));
            let writer =
                scope.spawn(move || self.write(&from_network, log, &finished, claimed.as_deref()));
            let mut ran = RankResult::default();
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
            // Closes the writer's channel: it ends after the items it already has.
            drop(network);
            work.begin(Stage::Writing, "");
            let (read, written) = (join(reader, "reading"), join(writer, "writing"));
            // A thread's own error is more informative than a closed channel.
            read.and(written).and(computed)?;
            for entry in from_writer.try_iter() {
                finish(self, entry, &mut ran, progress);
            }
            ran.seconds = start.elapsed().as_secs_f64();
            Ok(ran)
        })
    }

    fn read(&self, claims: &mut Claims, to_network: &SyncSender<ReaderItem>) -> Result<()> {
        let Inference {
            input, ensemble, ..
        } = self.inference;
        let mut reader = input.reader(ensemble)?;
        let variables = ensemble.variables();
        while let Some(number) = claims.next()? {
            let indices = self.chunks[number].indices.clone();
            // Recorded before reading, so that later changes are detected.
            let read_from = ReadFrom::now(input, indices.clone(), self.sliding, &variables);
            if to_network
                .send(ReaderItem::File(number, read_from))
                .is_err()
            {
                return Ok(());
            }
            let heard = match self.sliding {
                Some(sliding) => self.read_clips(&mut reader, sliding, indices, to_network)?,
                None => self.read_samples(&mut reader, indices, to_network)?,
            };
            // The send fails if the network has stopped.
            if !heard || to_network.send(ReaderItem::EndOfFile).is_err() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Reads the times of a file; false if the receiver is gone.
    fn read_samples(
        &self,
        reader: &mut Reader<'_>,
        indices: Range<usize>,
        to_network: &SyncSender<ReaderItem>,
    ) -> Result<bool> {
        for index in indices {
            let item = match self.read_time(reader, index)? {
                Ok(fields) => ReaderItem::Sample(fields),
                Err(skipped) => ReaderItem::Skipped(skipped),
            };
            if to_network.send(item).is_err() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads the fields of a time, or returns why it gets no mask if bad times are skipped.
    fn read_time(
        &self,
        reader: &mut Reader<'_>,
        index: usize,
    ) -> Result<std::result::Result<Fields, SkippedTime>> {
        let Inference { input, options, .. } = self.inference;
        match reader.read(index, options.max_missing_share) {
            Ok(fields) => Ok(Ok(fields)),
            // Only errors of the data: a failed disk or GPU would affect all following times, too.
            Err(JobError::Data(error))
                if options.bad_input == BadInput::Skip && error.is_damage() =>
            {
                Ok(Err(SkippedTime {
                    time: input.times()[index].to_string(),
                    reason: error.to_string(),
                    of_network: false,
                }))
            }
            Err(error) => Err(error),
        }
    }

    /// Reads the clips of a file; false if the receiver is gone.
    fn read_clips(
        &self,
        reader: &mut Reader<'_>,
        sliding: &Sliding,
        indices: Range<usize>,
        to_network: &SyncSender<ReaderItem>,
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
                            && to_network.send(ReaderItem::Skipped(skipped)).is_err()
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
                && to_network.send(ReaderItem::Clip(frames, takes)).is_err()
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn write(
        &self,
        from_network: &Receiver<WriterItem>,
        mut log: JsonLines,
        finished: &Sender<FinishedFile>,
        claims: Option<&Path>,
    ) -> Result<()> {
        let mut open: Option<OutputFile> = None;
        for item in from_network {
            match item {
                WriterItem::Found(number, found) => {
                    let file = match &mut open {
                        Some(file) => file,
                        None => open.insert(self.create(number, &found)?),
                    };
                    file.write(&found)?;
                }
                WriterItem::EndOfFile(number, entry) => {
                    refuse_taken(claims)?;
                    match open.take() {
                        Some(file) => file.finish()?,
                        // A file of an earlier call with other input must not be mistaken for ours.
                        None => {
                            let (out, name) = (self.inference.out, &self.chunks[number].name);
                            remove(&out.join(name))?;
                            remove(&out.join(table_of(name)))?;
                        }
                    }
                    log.push(&entry)?;
                    log.sync()?;
                    // The receiver outlives this thread.
                    let _ = finished.send(entry);
                }
            }
        }
        // An unfinished file is dropped, which removes its temporary name.
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

/// Reports a finished file and logs it.
pub(super) fn finish(
    job: &Job<'_, '_>,
    entry: FinishedFile,
    ran: &mut RankResult,
    progress: &mut dyn FnMut(&InferEvent<'_>),
) {
    if entry.masks > 0 {
        progress(&InferEvent::FileFinished(
            &job.inference.out.join(&entry.file),
        ));
    }
    ran.finished.push(entry);
}
