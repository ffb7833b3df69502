//! The computing thread: batches and clips in, masks and boxes out.

use super::input::Fields;
use super::log::{FinishedFile, SkippedTime};
use super::other_ranks::OtherRanks;
use super::output::{Found, FoundMask, NotFinite};
use super::pipeline::{Job, RankResult, ReaderItem, WriterItem, finish};
use super::read_from::ReadFrom;
use super::work::Stage;
use super::{BadInput, Gives, InferEvent, Inference};
use crate::error::{JobError, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::Instant;

/// The second of a rank's three threads: receives batches of fields from the reader and sends masks to the writer.
pub(super) struct Computer<'c, 'j, 'a> {
    pub job: &'c Job<'j, 'a>,
    pub ran: &'c mut RankResult,
    /// Number of times this rank has done.
    pub own: usize,
    pub to_writer: SyncSender<WriterItem>,
    pub from_writer: &'c Receiver<FinishedFile>,
    pub progress: &'c mut dyn FnMut(&InferEvent<'_>),
    pub other_ranks: &'c mut OtherRanks,
}

/// The current mask file, as far as its fields have been read.
#[derive(Default)]
struct OpenFile {
    number: usize,
    read_from: Option<ReadFrom>,
    batch: Vec<Fields>,
    masks: usize,
    missing: u64,
    skipped: Vec<SkippedTime>,
    /// Results of clips, by time: they arrive in another order.
    found: BTreeMap<usize, Found>,
}

impl OpenFile {
    /// The name of its mask file; empty before its times come.
    fn name<'j>(&self, job: &'j Job<'_, '_>) -> &'j str {
        match &self.read_from {
            Some(_) => &job.chunks[self.number].name,
            None => "",
        }
    }
}

impl Computer<'_, '_, '_> {
    /// Processes the reader's items until there are no more, a stop is requested or the writer is gone.
    pub fn run(&mut self, from_reader: Receiver<ReaderItem>, stop: &AtomicBool) -> Result<()> {
        let mut file = OpenFile::default();
        loop {
            let before = Instant::now();
            self.begin(Stage::Reading, file.name(self.job));
            // The reader has finished or failed; its own result says which.
            let Ok(item) = from_reader.recv() else {
                return Ok(());
            };
            self.ran.wait_seconds += before.elapsed().as_secs_f64();
            if stop.load(Ordering::Relaxed) || self.other_ranks.stop.is_sent() {
                self.ran.stopped = true;
                return Ok(());
            }
            match item {
                ReaderItem::File(number, read_from) => {
                    file = OpenFile {
                        number,
                        read_from: Some(read_from),
                        ..OpenFile::default()
                    };
                }
                ReaderItem::Sample(fields) => {
                    file.missing += fields.missing as u64;
                    file.batch.push(fields);
                    if file.batch.len() == self.job.batch.get() && !self.compute(&mut file)? {
                        return Ok(());
                    }
                }
                ReaderItem::Clip(frames, takes) => self.compute_clip(&mut file, &frames, &takes)?,
                ReaderItem::Skipped(skipped) => self.skip(&mut file, skipped),
                ReaderItem::EndOfFile => {
                    let end = self.compute(&mut file)?
                        && self.send_clips(&mut file)
                        && self.end(std::mem::take(&mut file));
                    if !end {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Lets the other ranks know what this one is busy with.
    fn begin(&self, stage: Stage, file: &str) {
        self.other_ranks.work.begin(stage, file);
    }

    /// Skips a time and logs why.
    fn skip(&mut self, file: &mut OpenFile, skipped: SkippedTime) {
        tracing::warn!(time = %skipped.time, reason = %skipped.reason, "no mask");
        self.own += 1;
        file.skipped.push(skipped);
    }

    /// Whether the output at a time is finite. If not, the time is skipped if bad times may be.
    ///
    /// # Errors
    /// [`JobError::NotFinite`] if bad times must end the inference.
    fn is_usable(&mut self, file: &mut OpenFile, found: &Found) -> Result<bool> {
        let Some(NotFinite { model, points }) = &found.not_finite else {
            return Ok(true);
        };
        let Inference {
            input,
            ensemble,
            options,
            ..
        } = self.job.inference;
        let mut indices = self.job.chunks[file.number].indices.clone();
        let index = indices.find(|&index| input.times()[index] == found.time);
        let origin = |index: usize| input.origin_of(index..index + 1, &ensemble.variables());
        let time = found.time.to_string();
        let error = JobError::NotFinite {
            model: model.clone(),
            time: time.clone(),
            origin: index.map(origin),
            points: *points,
        };
        if options.bad_input == BadInput::Fail {
            return Err(error);
        }
        let skipped = SkippedTime {
            time,
            reason: error.to_string(),
            of_network: true,
        };
        self.skip(file, skipped);
        Ok(false)
    }

    /// Ends a file; false if the writer is gone, whose own result says why.
    fn end(&mut self, mut file: OpenFile) -> bool {
        // Clips come in another order than times.
        file.skipped.sort_by(|a, b| a.time.cmp(&b.time));
        let chunk = &self.job.chunks[file.number];
        let Inference {
            input, ensemble, ..
        } = self.job.inference;
        let time = |index: usize| input.times()[index].to_string();
        let entry = FinishedFile {
            file: chunk.name.clone(),
            with_boxes: file.masks > 0 && ensemble.gives() == Gives::Both,
            first: time(chunk.indices.start),
            last: time(chunk.indices.end - 1),
            masks: file.masks,
            missing_values: file.missing,
            skipped: file.skipped,
            seen: (self.job.sliding)
                .map(|sliding| sliding.seen(chunk.indices.clone(), input.times())),
            read_from: file.read_from,
        };
        self.send(WriterItem::EndOfFile(file.number, entry))
    }

    /// Sends an item to the writer; false if it is gone.
    fn send(&mut self, item: WriterItem) -> bool {
        let before = Instant::now();
        let (WriterItem::Found(number, _) | WriterItem::EndOfFile(number, _)) = &item;
        self.begin(Stage::Writing, &self.job.chunks[*number].name);
        let sent = self.to_writer.send(item).is_ok();
        self.ran.blocked_seconds += before.elapsed().as_secs_f64();
        sent
    }

    /// Computes the boxes for some times of a clip; they are kept until the end of the file.
    fn compute_clip(
        &mut self,
        file: &mut OpenFile,
        frames: &[Arc<Fields>],
        takes: &[(usize, usize)],
    ) -> Result<()> {
        let Inference {
            input, ensemble, ..
        } = self.job.inference;
        let before = Instant::now();
        self.begin(Stage::Computing, file.name(self.job));
        let every = (self.job.sliding).map_or(1, |sliding| sliding.shape().every);
        let mut found = ensemble.find_in_clip(frames, input.grid())?;
        self.ran.compute_seconds += before.elapsed().as_secs_f64();
        for &(answer, index) in takes {
            let (boxes, cells) = std::mem::take(&mut found[answer]);
            file.missing += frames[answer * every].missing as u64;
            let found = Found {
                not_finite: NotFinite::if_any(ensemble.first(), cells),
                ..Found::boxes(input.times()[index], boxes)
            };
            if !self.is_usable(file, &found)? {
                continue;
            }
            self.report_found(&found);
            file.found.insert(index, found);
        }
        Ok(())
    }

    /// Sends the results of clips to the writer, in order of time; false if it is gone.
    fn send_clips(&mut self, file: &mut OpenFile) -> bool {
        let found = std::mem::take(&mut file.found);
        file.masks += found.len();
        (found.into_values()).all(|found| self.send(WriterItem::Found(file.number, found)))
    }

    /// Counts a time as done and reports its results.
    fn report_found(&mut self, found: &Found) {
        self.own += 1;
        let done = self.job.done + self.own + self.other_ranks.times();
        let total = self.job.total;
        if let Some(FoundMask { mask, .. }) = &found.mask {
            (self.progress)(&InferEvent::Mask { done, total, mask });
        }
        if let Some(boxes) = &found.boxes {
            (self.progress)(&InferEvent::Boxes { done, total, boxes });
        }
    }

    /// Computes the masks of the waiting samples; false if the writer is gone.
    fn compute(&mut self, file: &mut OpenFile) -> Result<bool> {
        let Inference {
            input,
            ensemble,
            options,
            ..
        } = self.job.inference;
        if !file.batch.is_empty() {
            self.begin(Stage::Computing, file.name(self.job));
            let before = Instant::now();
            let (probabilities, strips) = (options.probabilities, self.job.strips);
            let batch = std::mem::take(&mut file.batch);
            let found = ensemble.predict(batch, input.grid(), probabilities, strips)?;
            self.ran.compute_seconds += before.elapsed().as_secs_f64();
            for found in found {
                if !self.is_usable(file, &found)? {
                    continue;
                }
                file.masks += 1;
                self.report_found(&found);
                if !self.send(WriterItem::Found(file.number, found)) {
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
