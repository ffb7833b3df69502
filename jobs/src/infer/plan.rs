//! The plan of an inference: its work, memory and time, known before the first mask.

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

/// Minimum number of cells in a batch: with fewer, threads spend most of their time synchronising.
const CELLS_OF_BATCH: usize = 1 << 16;
/// Maximum number of samples in a batch: the few times of a daily file should fill whole batches.
const LARGEST_BATCH: usize = 8;
/// Minimum number of masks for which a trial run predicts the time: with fewer, the trial takes a noticeable part of
/// it.
const MASKS_WORTH_A_TRIAL: usize = 50;

/// The plan, known before the first mask.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InferPlan {
    /// Output per time.
    pub gives: Gives,
    /// Number of times of the input.
    pub times: usize,
    /// Number of mask files of the input.
    pub files: usize,
    /// Times of the input that the network was trained on; 0 if its hash shows no such times.
    pub training_times: usize,
    /// Times whose file was finished by an earlier call.
    pub done_times: usize,
    /// Ranks that share the work.
    pub ranks: usize,
    /// Ensemble members averaged per mask: models times views.
    pub members: usize,
    /// Samples per batch.
    pub batch: usize,
    /// Floating-point operations per mask, over all members.
    pub flops_per_mask: u64,
    /// Predicted seconds for the rest, if long enough to be worth a trial.
    pub seconds: Option<f64>,
    /// Uncompressed bytes of fields to be read.
    pub read_bytes: u64,
    /// Upper limit of uncompressed bytes of masks to be written. The number of boxes is unknown.
    pub write_bytes: u64,
    /// Bytes per rank: weights, activations, and fields and masks in flight.
    pub memory_bytes: u64,
    /// Number of strips of latitude that the network is computed in.
    pub strips: NonZeroUsize,
    /// Data type of activations.
    pub dtype: String,
    /// The compute backend.
    pub backend: String,
    /// Notes on model and input for the user, one sentence each.
    pub notes: Vec<String>,
}

/// The default batch size: the smallest power of two with at least 65,536 cells, but no more than 8.
///
/// The batch size is the same wherever the program runs, because the last bits of a probability may depend on it.
pub fn batch_for(rows: usize, columns: usize) -> NonZeroUsize {
    let cells = (rows * columns).max(1);
    let wanted = CELLS_OF_BATCH.div_ceil(cells).next_power_of_two();
    NonZeroUsize::new(wanted.min(LARGEST_BATCH)).unwrap_or(NonZeroUsize::MIN)
}

/// The largest batch below `wanted` that fits, assuming that memory grows with the batch. `None` if not even a single
/// sample fits.
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

/// The memory that an inference needs, as a function of batch size and strips.
pub(super) struct Demand {
    rows: usize,
    networks: Vec<(
        squall_model::summary::Summary,
        squall_model::Storage,
        squall_model::Backend,
    )>,
    /// Bytes per sample for fields and results in all queues.
    waiting: u64,
    /// Additional bytes per sample of a batch for averaging over several members; 0 for one.
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
        // Per cell: one byte of mask, three f32 of probabilities, and three of their spread.
        let found = 1 + 12 * u64::from(options.probabilities || many) + 12 * u64::from(many);
        let ahead = options.read_ahead.max(1) as u64;
        // Per cell: the original fields besides the transformed ones, and three f32 each for a member's probabilities,
        // the mean and the sum of squares.
        let averaging = cells * u64::from(many) * (4 * channels as u64 + 3 * 12);
        Ok(Self {
            rows,
            networks: networks.collect::<Result<_>>()?,
            waiting: ahead * cells * (4 * (frames * channels) as u64 + found),
            averaging,
        })
    }

    /// Peak bytes.
    pub fn bytes(&self, batch: NonZeroUsize, strips: NonZeroUsize) -> Result<u64> {
        let (mut largest, mut weights) = (0, 0);
        for (summary, storage, backend) in &self.networks {
            let alone = summary.inference_bytes(*backend, batch.get(), storage, strips)?;
            largest = largest.max(alone);
            // Weights count twice: as trained, and packed for speed.
            weights += 8 * summary.parameters as u64;
        }
        let others = match self.networks.len() {
            1 => 0,
            _ => weights,
        };
        let averaging = batch.get() as u64 * self.averaging;
        Ok(largest + others + self.waiting + averaging)
    }

    /// The batch size: the requested one, or the fastest one that fits.
    ///
    /// # Errors
    /// [`JobError::Strips`] if a requested batch does not fit into a given memory limit but a smaller one would.
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

    /// The number of strips for `free` bytes of memory.
    ///
    /// # Errors
    /// [`JobError::Strips`] if no number fits into a given memory limit.
    pub fn strips(
        &self,
        options: &InferOptions,
        batch: NonZeroUsize,
        free: Option<u64>,
    ) -> Result<NonZeroUsize> {
        let needed = |strips| self.bytes(batch, strips);
        options.strips.choose(self.rows, needed, free)
    }

    /// Operations per mask for one view of all models.
    fn flops(&self) -> u64 {
        self.networks
            .iter()
            .map(|(summary, ..)| summary.inference_flops)
            .sum()
    }
}

impl Job<'_, '_> {
    /// The plan for `ranks` ranks; `files` is the number of mask files, including finished ones.
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
        // LABELS and ARTMIP's tag, two probabilities and two spreads: one byte each.
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
            training_times: self.inference.training_times(),
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

    /// Outputs per clip of a network over time, else 1.
    fn answers(&self) -> usize {
        let clips = self.inference.ensemble.clips();
        clips.map_or(1, |clips| clips.answers())
    }

    /// Predicted seconds for this many masks on this many ranks, from running a batch of zeros twice; the first run
    /// prepares the kernels. `None` if the trial is not worth its time.
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
