//! How good a network is on samples that it does not learn from.

mod masks;

pub use masks::{MaskScores, MaskTally};

use super::team::Team;
use crate::error::{JobError, Result};
use candle_core::{Device, Tensor};
use serde::{Deserialize, Serialize};
use squall_data::loader::{Loader, LoaderConfig};
use squall_data::sampler::{Cursor, LastBatch, Sampler, SamplerConfig};
use squall_data::{HostBatch, Store};
use squall_model::ops::loss::Criterion;
use squall_model::{Network, Storage};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How good a network is, by what it gives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Scores {
    /// Of a segmentation.
    Masks(MaskScores),
}

impl Scores {
    /// The number by which the best model is chosen, the larger the better.
    pub fn score(&self) -> f64 {
        match self {
            Self::Masks(scores) => scores.mean_iou,
        }
    }

    /// The recipe's loss over all samples.
    pub fn loss(&self) -> f64 {
        match self {
            Self::Masks(scores) => scores.loss,
        }
    }

    /// What [`Self::score`] is.
    pub fn score_name(&self) -> &'static str {
        match self {
            Self::Masks(_) => "mean IoU",
        }
    }

    /// Every number of it, named for TensorBoard.
    pub(super) fn scalars(&self) -> Vec<(&'static str, f64)> {
        match self {
            Self::Masks(scores) => scores.scalars(),
        }
    }

    /// Samples that it was tried on.
    pub fn samples(&self) -> u64 {
        match self {
            Self::Masks(scores) => scores.samples,
        }
    }
}

impl fmt::Display for Scores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Masks(scores) => scores.fmt(f),
        }
    }
}

/// The tensor of a batch, `(b, h, w, c)`.
pub(crate) fn tensor_of(batch: &HostBatch) -> Result<Tensor> {
    let [b, h, w, c] = batch.shape;
    Ok(Tensor::from_slice(&batch.x, (b, h, w, c), &Device::Cpu)?)
}

/// What a validation reads, and how it scores.
#[derive(Debug)]
pub struct Evaluator {
    store: Arc<Store>,
    sampler: Sampler,
    /// Of every sample, by its id.
    places: HashMap<usize, usize>,
    loader: LoaderConfig,
    criterion: Criterion,
    storage: Storage,
    row_areas_km2: Vec<f64>,
}

impl Evaluator {
    /// Scores on these samples, in their order, `batch` at a time, as one of several ranks.
    ///
    /// # Errors
    /// [`JobError::Data`] if there are none.
    pub fn new(
        store: &Arc<Store>,
        ids: Vec<usize>,
        batch: usize,
        loader: LoaderConfig,
        criterion: Criterion,
        storage: Storage,
        (rank, ranks): (usize, usize),
    ) -> Result<Self> {
        let config = SamplerConfig {
            shuffle: None,
            rank,
            ranks,
            batch,
            last: LastBatch::Keep,
        };
        Ok(Self {
            places: ids.iter().enumerate().map(|(at, &id)| (id, at)).collect(),
            sampler: Sampler::new(ids, config)?,
            row_areas_km2: store.grid().row_areas_km2(),
            store: Arc::clone(store),
            loader,
            criterion,
            storage,
        })
    }

    /// The scores of a network over the samples of all ranks; none if one of them was told to stop on the way.
    ///
    /// # Errors
    /// [`JobError::Data`] if a sample cannot be read; [`JobError::Model`] if the network does not fit.
    pub fn run(
        &self,
        network: &Network,
        stop: &AtomicBool,
        team: &mut Team,
    ) -> Result<Option<Scores>> {
        let mut tally = MaskTally::new(&self.row_areas_km2);
        let plans = self.sampler.epoch(Cursor::default());
        let mut loader = Loader::new(&self.store, plans, &self.loader)?;
        while let Some(batch) = loader.next() {
            let failed = batch.is_err();
            if team.any(failed || stop.load(Ordering::Relaxed))? {
                return match batch {
                    Err(error) => Err(error.into()),
                    Ok(_) => Ok(None),
                };
            }
            let batch = batch?;
            if batch.is_empty() {
                continue;
            }
            let logits = network.infer(&tensor_of(&batch)?, &self.storage)?;
            let backend = network.backend();
            let predicted = backend.argmax(&logits)?;
            let pixels = batch.labels.len() / batch.len();
            for (at, (truth, predicted)) in batch
                .labels
                .chunks_exact(pixels)
                .zip(predicted.chunks_exact(pixels))
                .enumerate()
            {
                let one = logits.narrow(0, at, 1)?;
                let loss = backend.segmentation_loss(&one, truth, &self.criterion, 1.0)?;
                let place = self.places.get(&batch.ids[at]).copied().unwrap_or(at);
                tally.add(place, truth, predicted, (loss.weighted_sum, loss.divisor));
            }
            loader.give_back(batch);
        }
        tally.share(team)?;
        let scores = tally.scores().map(Scores::Masks);
        let none = || JobError::Thread("validation loader");
        scores.ok_or_else(none).map(Some)
    }
}
