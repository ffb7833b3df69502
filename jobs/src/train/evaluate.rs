//! How good a network is on samples that it does not learn from.
//!
//! The rules are those of `squall_validation`, which stands above this crate and scores finished masks; its tests compare
//! the two.

use crate::error::{JobError, Result};
use candle_core::{Device, Tensor};
use serde::{Deserialize, Serialize};
use squall_data::loader::{Loader, LoaderConfig};
use squall_data::sampler::{Cursor, LastBatch, Sampler, SamplerConfig};
use squall_data::{HostBatch, Store};
use squall_model::ops::loss::Criterion;
use squall_model::{Network, Storage};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Classes of a mask.
const CLASSES: usize = 3;

/// How good a network is. Per class: background, tropical cyclone, atmospheric river.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    /// Samples that it was tried on.
    pub samples: u64,
    /// The recipe's loss over all of them.
    pub loss: f64,
    /// Mean over classes of the IoU over all pixels; the best model is chosen by it.
    pub mean_iou: f64,
    /// MLPerf HPC DeepCAM's rule: mean over samples of the mean over classes, a class absent from both masks counting 1.
    pub sample_mean_iou: f64,
    /// As `mean_iou`, with pixels weighted by their area.
    pub area_mean_iou: f64,
    /// IoU of each class over all pixels; none if it is nowhere.
    pub iou: [Option<f64>; CLASSES],
    /// The same with pixels weighted by their area.
    pub area_iou: [Option<f64>; CLASSES],
}

/// Pixels and areas of every pair of true and predicted class, summed over samples.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    pixels: [[u64; CLASSES]; CLASSES],
    area_km2: [[f64; CLASSES]; CLASSES],
    sample_ious: f64,
    samples: u64,
    weighted_loss: f64,
    weight: f64,
}

impl Tally {
    /// Adds one sample: class codes `(lat, lon)` and the area of a cell of each row.
    pub fn add(&mut self, truth: &[u8], predicted: &[u8], row_areas_km2: &[f64]) {
        let mut sample = [[0u64; CLASSES]; CLASSES];
        let columns = truth.len() / row_areas_km2.len().max(1);
        let rows = truth
            .chunks_exact(columns.max(1))
            .zip(predicted.chunks_exact(columns.max(1)));
        for ((truth, predicted), area) in rows.zip(row_areas_km2) {
            let mut row = [[0u64; CLASSES]; CLASSES];
            for (&t, &p) in truth.iter().zip(predicted) {
                // Codes beyond the classes are pixels that do not count.
                if let Some(cell) = row
                    .get_mut(usize::from(t))
                    .and_then(|r| r.get_mut(usize::from(p)))
                {
                    *cell += 1;
                }
            }
            for (t, p) in pairs() {
                sample[t][p] += row[t][p];
                self.area_km2[t][p] += row[t][p] as f64 * area;
            }
        }
        pairs().for_each(|(t, p)| self.pixels[t][p] += sample[t][p]);
        let ious = (0..CLASSES).map(|k| iou(&sample, k, |n| n as f64).unwrap_or(1.0));
        self.sample_ious += ious.sum::<f64>() / CLASSES as f64;
        self.samples += 1;
    }

    /// The scores; none without samples.
    pub fn scores(&self) -> Option<Scores> {
        if self.samples == 0 {
            return None;
        }
        let ious = std::array::from_fn(|k| iou(&self.pixels, k, |n| n as f64));
        let area_ious = std::array::from_fn(|k| iou(&self.area_km2, k, |area| area));
        Some(Scores {
            samples: self.samples,
            loss: self.weighted_loss / self.weight.max(f64::MIN_POSITIVE),
            mean_iou: mean(&ious),
            sample_mean_iou: self.sample_ious / self.samples as f64,
            area_mean_iou: mean(&area_ious),
            iou: ious,
            area_iou: area_ious,
        })
    }
}

fn pairs() -> impl Iterator<Item = (usize, usize)> {
    (0..CLASSES * CLASSES).map(|i| (i / CLASSES, i % CLASSES))
}

/// Intersection over union of a class; none if it is in neither mask.
fn iou<T: Copy>(
    table: &[[T; CLASSES]; CLASSES],
    class: usize,
    number: impl Fn(T) -> f64,
) -> Option<f64> {
    let of_truth: f64 = (0..CLASSES).map(|k| number(table[class][k])).sum();
    let predicted: f64 = (0..CLASSES).map(|k| number(table[k][class])).sum();
    let both = number(table[class][class]);
    let union = of_truth + predicted - both;
    (union > 0.0).then(|| both / union)
}

fn mean(values: &[Option<f64>]) -> f64 {
    let known: Vec<f64> = values.iter().flatten().copied().collect();
    known.iter().sum::<f64>() / known.len().max(1) as f64
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
    loader: LoaderConfig,
    criterion: Criterion,
    storage: Storage,
    row_areas_km2: Vec<f64>,
}

impl Evaluator {
    /// Scores on these samples, in their order, `batch` at a time.
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
    ) -> Result<Self> {
        let config = SamplerConfig {
            shuffle: None,
            rank: 0,
            ranks: 1,
            batch,
            last: LastBatch::Keep,
        };
        Ok(Self {
            sampler: Sampler::new(ids, config)?,
            row_areas_km2: store.grid().row_areas_km2(),
            store: Arc::clone(store),
            loader,
            criterion,
            storage,
        })
    }

    /// The scores of a network; none if told to stop on the way.
    ///
    /// # Errors
    /// [`JobError::Data`] if a sample cannot be read; [`JobError::Model`] if the network does not fit.
    pub fn run(&self, network: &Network, stop: &AtomicBool) -> Result<Option<Scores>> {
        let mut tally = Tally::default();
        let plans = self.sampler.epoch(Cursor::default());
        let mut loader = Loader::new(&self.store, plans, &self.loader)?;
        while let Some(batch) = loader.next() {
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let batch = batch?;
            if batch.is_empty() {
                continue;
            }
            let logits = network.infer(&tensor_of(&batch)?, &self.storage)?;
            let backend = network.backend();
            let loss = backend.segmentation_loss(&logits, &batch.labels, &self.criterion, 1.0)?;
            tally.weighted_loss += loss.weighted_sum;
            tally.weight += loss.divisor;
            let predicted = backend.argmax(&logits)?;
            let pixels = batch.labels.len() / batch.len();
            let samples = batch.labels.chunks_exact(pixels);
            for (truth, predicted) in samples.zip(predicted.chunks_exact(pixels)) {
                tally.add(truth, predicted, &self.row_areas_km2);
            }
            loader.give_back(batch);
        }
        let scores = tally.scores();
        let none = || JobError::Thread("validation loader");
        scores.ok_or_else(none).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use approx::assert_relative_eq;

    #[test]
    fn scores_by_hand() {
        let mut tally = Tally::default();
        assert_eq!(tally.scores(), None);
        // Background 3 of 4 pixels, cyclone 1 of 2, no river anywhere: (3/4 + 1/2 + 1) / 3.
        tally.add(&[0, 0, 0, 1, 1], &[0, 0, 0, 0, 1], &[1.0]);
        // A river that was invented counts 0; a pixel that does not count is left out.
        tally.add(&[0, 0, 0, 0, 0, 255], &[0, 0, 0, 0, 2, 1], &[1.0]);
        let scores = tally.scores().unwrap();
        let (a, b) = ((0.75 + 0.5 + 1.0) / 3.0, (0.8 + 1.0 + 0.0) / 3.0);
        assert_relative_eq!(scores.sample_mean_iou, (a + b) / 2.0);
        assert_relative_eq!(scores.mean_iou, (7.0 / 9.0 + 0.5 + 0.0) / 3.0);
        assert_eq!(scores.iou[2], Some(0.0));
    }

    #[test]
    fn areas_weigh() {
        // The cyclone is found in the large row and missed in the small one.
        let mut tally = Tally::default();
        tally.add(&[1, 0, 1, 0], &[1, 0, 0, 0], &[9.0, 1.0]);
        let scores = tally.scores().unwrap();
        assert_eq!(scores.iou, [Some(2.0 / 3.0), Some(0.5), None]);
        assert_relative_eq!(scores.area_iou[1].unwrap(), 0.9);
        assert_relative_eq!(scores.area_mean_iou, (0.9 + 10.0 / 11.0) / 2.0);
    }
}
