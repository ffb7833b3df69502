//! What an inference will need, known before its first mask.

use super::input::{Fields, Pixels};
use super::pipeline::Job;
use super::{Ensemble, Gives, InferOptions, Inference, Model};
use crate::error::{JobError, Result};
use serde::Serialize;
use squall_data::gaps::Gaps;
use squall_model::Network;
use squall_model::gpu::tf32_is_allowed;
use std::num::NonZeroUsize;
use std::time::Instant;

/// Cells that a batch should hold at least: with fewer, threads wait for each other more than they compute.
const CELLS_OF_BATCH: usize = 1 << 16;
/// A batch has no more samples, so that the times of a day fit into few of them.
const LARGEST_BATCH: usize = 8;
/// With fewer masks the time is not predicted by a trial, which would itself take a noticeable part of it.
const MASKS_WORTH_A_TRIAL: usize = 50;

/// What will be done, known before the first mask.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InferPlan {
    /// What is made of each time.
    pub gives: Gives,
    /// Times of the input.
    pub times: usize,
    /// Mask files of the input.
    pub files: usize,
    /// Times whose file an earlier call finished.
    pub done_times: usize,
    /// Ranks that share the work.
    pub ranks: usize,
    /// Members of the ensemble that are averaged for a mask: models times views.
    pub members: usize,
    /// Samples computed at once.
    pub batch: usize,
    /// Floating-point operations of a mask, of all members.
    pub flops_per_mask: u64,
    /// Seconds that the rest takes, if it is long enough to be worth a trial.
    pub seconds: Option<f64>,
    /// Bytes of fields that will be read, uncompressed.
    pub read_bytes: u64,
    /// Bytes of masks that will be written at most, uncompressed. How many boxes there will be nobody knows.
    pub write_bytes: u64,
    /// Bytes of weights, activations, and fields and masks under way, of each rank.
    pub memory_bytes: u64,
    /// In how many strips of latitude the network is computed.
    pub strips: NonZeroUsize,
    /// Data type of activations.
    pub dtype: String,
    /// What computes.
    pub backend: String,
    /// Notes on model and input for the user, one sentence each.
    pub notes: Vec<String>,
}

/// How many samples are computed at once by default: the smallest power of two with 65,536 cells or more, at most 8.
///
/// The batch is the same wherever the program runs, because the last bits of a probability may depend on it.
pub fn batch_for(rows: usize, columns: usize) -> NonZeroUsize {
    let cells = (rows * columns).max(1);
    let wanted = CELLS_OF_BATCH.div_ceil(cells).next_power_of_two();
    NonZeroUsize::new(wanted.min(LARGEST_BATCH)).unwrap_or(NonZeroUsize::MIN)
}

/// The largest batch below `wanted` that fits, where all smaller ones fit as well: what is needed grows with the batch.
/// None if a single sample does not.
fn largest_below(
    wanted: NonZeroUsize,
    fits: impl Fn(NonZeroUsize) -> bool,
) -> Option<NonZeroUsize> {
    let (mut fitting, mut too_many) = (0, wanted.get());
    while too_many - fitting > 1 {
        let middle = fitting + (too_many - fitting) / 2;
        if NonZeroUsize::new(middle).is_some_and(&fits) {
            fitting = middle;
        } else {
            too_many = middle;
        }
    }
    NonZeroUsize::new(fitting)
}

/// Data types of the models' activations.
pub(super) fn dtype_name(ensemble: &Ensemble<'_>) -> String {
    let name = |model: &&Model| format!("{:?}", model.dtype()).to_lowercase();
    let mut names: Vec<String> = ensemble.models().iter().map(name).collect();
    names.dedup();
    let names = names.join(" and ");
    let gpu = ensemble.first().network().backend().is_gpu();
    match gpu && tf32_is_allowed() {
        true => format!("{names}, f32 convolutions in TF32"),
        false => names,
    }
}

/// The memory that an inference needs, by batch and strips.
pub(super) struct Demand {
    rows: usize,
    networks: Vec<(
        squall_model::summary::Summary,
        squall_model::Storage,
        squall_model::Backend,
    )>,
    /// Bytes of a sample's fields and of what is found in it, in all places where they wait.
    waiting: u64,
    /// Bytes for each sample of a batch that the mean of several members takes beside them; 0 of one alone.
    averaging: u64,
}

impl Demand {
    pub fn of(inference: &Inference<'_>) -> Result<Self> {
        let (ensemble, options) = (&inference.ensemble, inference.options);
        let (rows, columns) = inference.input.grid().shape();
        let networks = ensemble.models().iter().map(|model| {
            let summary = model.network().summary(rows, columns)?;
            Ok((summary, model.storage().clone(), model.network().backend()))
        });
        let cells = (rows * columns) as u64;
        let channels: usize = ensemble
            .normalisations()
            .iter()
            .map(|d| d.channels.len())
            .sum();
        let many = ensemble.members() > 1;
        let frames = ensemble.clips().map_or(1, |clips| clips.frames);
        // For each cell a byte of mask, three f32 of probabilities, and three of their spread.
        let found = 1 + 12 * u64::from(options.probabilities || many) + 12 * u64::from(many);
        let ahead = options.read_ahead.max(1) as u64;
        // For each cell the fields as they are, beside those that a member sees turned, and three f32 of its probabilities, of
        // the mean and of the sum of squares.
        let averaging = cells * u64::from(many) * (4 * channels as u64 + 3 * 12);
        Ok(Self {
            rows,
            networks: networks.collect::<Result<_>>()?,
            waiting: ahead * cells * (4 * (frames * channels) as u64 + found),
            averaging,
        })
    }

    /// Bytes at the peak.
    pub fn bytes(&self, batch: NonZeroUsize, strips: NonZeroUsize) -> Result<u64> {
        let (mut largest, mut weights) = (0, 0);
        for (summary, storage, backend) in &self.networks {
            let alone = summary.inference_bytes(*backend, batch.get(), storage, strips)?;
            largest = largest.max(alone);
            // The weights twice: as trained, and packed for speed.
            weights += 8 * summary.parameters as u64;
        }
        let others = match self.networks.len() {
            1 => 0,
            _ => weights,
        };
        let averaging = batch.get() as u64 * self.averaging;
        Ok(largest + others + self.waiting + averaging)
    }

    /// How many samples at once: what was asked for, or what is good for speed as far as it fits.
    ///
    /// # Errors
    /// [`JobError::Strips`] if a given batch does not fit into a given memory although a smaller one would.
    pub fn batch(&self, options: &InferOptions, wanted: NonZeroUsize) -> Result<NonZeroUsize> {
        let limit = match options.strips {
            super::Strips::Auto(limit) => limit,
            super::Strips::Count(_) => None,
        };
        let fits = |batch: NonZeroUsize| {
            options
                .strips
                .choose(self.rows, |strips| self.bytes(batch, strips), limit)
        };
        match (options.batch, limit) {
            (Some(batch), None) => Ok(batch),
            (Some(batch), Some(_)) => match fits(batch) {
                Err(JobError::Strips {
                    needed, available, ..
                }) => Err(JobError::Strips {
                    needed,
                    available,
                    batch: largest_below(batch, |batch| fits(batch).is_ok()),
                }),
                Err(other) => Err(other),
                Ok(_) => Ok(batch),
            },
            (None, None) => Ok(wanted),
            (None, Some(_)) => {
                let mut batch = wanted;
                while batch.get() > 1 && fits(batch).is_err() {
                    batch = NonZeroUsize::new(batch.get() / 2).unwrap_or(NonZeroUsize::MIN);
                }
                Ok(batch)
            }
        }
    }

    /// The number of strips, where `free` bytes are free.
    ///
    /// # Errors
    /// [`JobError::Strips`] if no number fits into a given memory.
    pub fn strips(
        &self,
        options: &InferOptions,
        batch: NonZeroUsize,
        free: Option<u64>,
    ) -> Result<NonZeroUsize> {
        let needed = |strips| self.bytes(batch, strips);
        options.strips.choose(self.rows, needed, free)
    }

    /// Operations of one mask by one view of all models.
    fn flops(&self) -> u64 {
        self.networks
            .iter()
            .map(|(summary, ..)| summary.inference_flops)
            .sum()
    }
}

impl Job<'_, '_> {
    /// What `ranks` ranks will do; `files` is the number of mask files, finished ones included.
    pub fn plan(
        &self,
        demand: &Demand,
        files: usize,
        ranks: usize,
        mut notes: Vec<String>,
    ) -> Result<InferPlan> {
        let Inference {
            input,
            ensemble,
            options,
            ..
        } = self.inference;
        let (rows, columns) = input.grid().shape();
        let (left, to_do) = (self.chunks.len(), self.total - self.done);
        let cells = (rows * columns) as u64;
        let members = ensemble.members();
        // LABELS and ARTMIP's tag, two probabilities and two spreads: a byte each.
        let mask = match ensemble.gives().masks() {
            true => {
                1 + u64::from(options.artmip)
                    + 2 * u64::from(options.probabilities)
                    + 2 * u64::from(members > 1)
            }
            false => 0,
        };
        if let Some(gaps) = Gaps::of(input.times()) {
            notes.push(format!(
                "{gaps}: there are no masks of times that are not there"
            ));
        }
        if ranks > left && left > 0 {
            notes.push(format!(
                "{left} mask files are left for {ranks} ranks: some have nothing to do (more files by a smaller --file-per)"
            ));
        }
        let channels = ensemble.variables().len();
        Ok(InferPlan {
            gives: ensemble.gives(),
            times: self.total,
            files,
            done_times: self.done,
            ranks,
            members,
            batch: self.batch.get(),
            flops_per_mask: demand.flops() * ensemble.views().len() as u64 / self.answers() as u64,
            seconds: self.seconds(to_do, ranks)?,
            read_bytes: to_do as u64 * input.bytes_read(channels),
            write_bytes: to_do as u64 * cells * mask,
            memory_bytes: demand.bytes(self.batch, self.strips)?,
            strips: Network::strips_of(rows, self.strips),
            dtype: dtype_name(ensemble),
            backend: ensemble.first().network().backend().describe(),
            notes,
        })
    }

    /// Answers of a network over time about one clip, else 1.
    fn answers(&self) -> usize {
        let clips = self.inference.ensemble.clips();
        clips.map_or(1, |clips| clips.answers())
    }

    /// Predicted seconds for this many masks on this many ranks, from a batch of zeros that is computed twice: the
    /// first pass prepares the kernels, which are used later. None where the trial is not worth its time.
    fn seconds(&self, masks: usize, ranks: usize) -> Result<Option<f64>> {
        if masks < MASKS_WORTH_A_TRIAL * ranks {
            return Ok(None);
        }
        let Inference {
            input, ensemble, ..
        } = self.inference;
        let (shape, start) = (input.grid().shape(), input.times()[0]);
        let pixels = |channels: usize| vec![0f32; shape.0 * shape.1 * channels];
        let normalisations = ensemble.normalisations().iter();
        let zeros: Vec<Vec<f32>> = normalisations
            .map(|normalisation| pixels(normalisation.channels.len()))
            .collect();
        let one = || Fields {
            time: start,
            pixels: Pixels::Host(zeros.clone()),
            missing: 0,
        };
        let mut seconds = 0.0;
        for _ in 0..2 {
            let frames = ensemble.clips().map_or(1, |clips| clips.frames);
            let batch = (0..self.batch.get() * frames).map(|_| one()).collect();
            let before = Instant::now();
            let probabilities = self.inference.options.probabilities;
            ensemble.predict(batch, input.grid(), probabilities, self.strips)?;
            seconds = before.elapsed().as_secs_f64();
        }
        let per_mask = seconds / (self.batch.get() * self.answers()) as f64;
        Ok(Some(per_mask * masks as f64 / ranks as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_fields_are_computed_together() {
        let batch = |rows, columns| batch_for(rows, columns).get();
        assert_eq!(batch(768, 1152), 1);
        assert_eq!(batch(192, 288), 2);
        assert_eq!(batch(64, 128), 8);
        assert_eq!(batch(16, 32), 8);
    }

    /// Asking whether a batch fits takes a while, above all where it does not.
    #[test]
    fn the_largest_batch_that_fits_is_found_by_few_questions() {
        for (wanted, most, expected) in [(1 << 24, 8, 8), (6, 100, 5), (6, 0, 0), (1, 8, 0)] {
            let asked = std::cell::Cell::new(0);
            let fits = |batch: NonZeroUsize| {
                asked.set(asked.get() + 1);
                batch.get() <= most
            };
            let found = largest_below(NonZeroUsize::new(wanted).unwrap(), fits);
            assert_eq!(found, NonZeroUsize::new(expected), "{wanted}");
            assert!(asked.get() <= 24, "{wanted}: {} questions", asked.get());
        }
    }
}
