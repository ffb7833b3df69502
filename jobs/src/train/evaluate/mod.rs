//! Validation: scores a network on samples that it does not train on.

mod box_judge;
mod boxes;
mod masks;
mod scored_units;

pub use boxes::BoxScores;
pub use masks::MaskScores;
pub(super) use scored_units::ScoredUnits;

use super::feed::{Batch, Feed};
use super::objective::Objective;
use super::share::RankPosition;
use super::team::Team;
use crate::comm::doing;
use crate::error::{JobError, Result};
use crate::recipe::BestBy;
use box_judge::BoxJudge;
use masks::MaskTally;
use serde::{Deserialize, Serialize};
use squall_data::loader::LoaderConfig;
use squall_data::sampler::{BatchPlan, Cursor, LastBatch, Sampler, SamplerConfig};
use squall_data::{BoxClass, Class, HostBatch, PixelBox, Store};
use squall_model::detection::ScoredBox;
use squall_model::ops::loss::Criterion;
use squall_model::{Network, Storage};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The scores of a network, by its kind of output: masks, boxes or both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Scores {
    /// Mask scores of a segmentation network.
    Masks(MaskScores),
    /// Box scores of a detector.
    Boxes(BoxScores),
    /// Both, for a detector that also outputs masks.
    Both(Box<BothScores>),
}

impl Scores {
    /// The number that selects the best model; larger is better.
    pub fn score(&self) -> f64 {
        match self {
            Self::Masks(scores) => scores.score(),
            Self::Boxes(scores) => scores.score(),
            Self::Both(scores) => scores.score(),
        }
    }

    /// Whether the network found no storm at all, as one does that gives background everywhere.
    pub fn finds_nothing(&self) -> bool {
        match self {
            Self::Masks(scores) => scores.finds_nothing(),
            Self::Boxes(scores) => scores.finds_nothing(),
            Self::Both(both) => both.masks.finds_nothing() && both.boxes.finds_nothing(),
        }
    }

    /// Names of the classes of which it found nothing, although masks of the truth have as many pixels of each class as
    /// told, or the truth has boxes of it.
    pub(super) fn missed_classes(&self, pixels: [u64; 3]) -> Vec<&'static str> {
        let is_zero = |score: Option<f64>| score.is_some_and(|score| score <= 0.0);
        let of_masks = |masks: &MaskScores| {
            let storms = Class::EVENTS.into_iter().filter(|class| {
                let code = usize::from(class.code());
                pixels[code] > 0 && is_zero(masks.iou[code])
            });
            storms.map(Class::name).collect::<Vec<_>>()
        };
        let of_boxes = |boxes: &BoxScores| {
            let classes = BoxClass::ALL.into_iter().zip(boxes.ap_10);
            let missed = classes.filter(|(_, ap)| is_zero(*ap));
            missed.map(|(class, _)| class.name()).collect::<Vec<_>>()
        };
        match self {
            Self::Masks(masks) => of_masks(masks),
            Self::Boxes(boxes) => of_boxes(boxes),
            Self::Both(both) => {
                let mut missed = of_boxes(&both.boxes);
                let more = of_masks(&both.masks).into_iter();
                let more: Vec<_> = more.filter(|name| !missed.contains(name)).collect();
                missed.extend(more);
                missed
            }
        }
    }

    /// The recipe's loss over all samples.
    pub fn loss(&self) -> f64 {
        match self {
            Self::Masks(scores) => scores.loss,
            Self::Boxes(scores) => scores.loss,
            Self::Both(scores) => scores.boxes.loss,
        }
    }

    /// The name of what [`Self::score`] measures.
    pub fn score_name(&self) -> &'static str {
        match self {
            Self::Masks(scores) => scores.score_name(),
            Self::Boxes(_) => "mAP",
            Self::Both(both) => match both.masks.best_by {
                BestBy::MeanIou => "mean of mAP and mean IoU",
                BestBy::SampleMeanIou => "mean of mAP and sample mean IoU",
                BestBy::AreaMeanIou => "mean of mAP and area mean IoU",
            },
        }
    }

    /// All scores, with their TensorBoard names.
    pub(super) fn scalars(&self) -> Vec<(&'static str, f64)> {
        match self {
            Self::Masks(scores) => scores.scalars(),
            Self::Boxes(scores) => scores.scalars(),
            Self::Both(scores) => scores.scalars(),
        }
    }

    /// Number of samples scored.
    pub fn samples(&self) -> u64 {
        match self {
            Self::Masks(scores) => scores.samples,
            Self::Boxes(scores) => scores.samples,
            Self::Both(scores) => scores.boxes.samples,
        }
    }
}

/// Box and mask scores of one network on the same samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BothScores {
    /// Box scores; their loss is the recipe's total loss of boxes and masks, without the reconstruction.
    pub boxes: BoxScores,
    /// Scores of the masks.
    pub masks: MaskScores,
}

impl BothScores {
    /// The mean of the two scores, so that neither task is sacrificed for the other.
    fn score(&self) -> f64 {
        (self.boxes.score() + self.masks.score()) / 2.0
    }

    fn scalars(&self) -> Vec<(&'static str, f64)> {
        let of_masks = self.masks.scalars().into_iter();
        let of_masks = of_masks.filter(|(name, _)| *name != "validation/loss");
        self.boxes.scalars().into_iter().chain(of_masks).collect()
    }
}

impl fmt::Display for Scores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Masks(scores) => scores.fmt(f),
            Self::Boxes(scores) => scores.fmt(f),
            Self::Both(scores) => write!(f, "{}; {}", scores.boxes, scores.masks),
        }
    }
}

/// Settings of a validation: how samples are read and what is compared.
pub(super) struct EvaluatorSettings {
    /// Samples, or clips, per batch.
    pub batch: usize,
    pub loader: LoaderConfig,
    pub objective: Objective,
    /// The data types of activations.
    pub storage: Storage,
    pub best_by: BestBy,
}

/// Reads validation samples and scores a network on them.
#[derive(Debug)]
pub(super) struct Evaluator {
    store: Arc<Store>,
    scored: Arc<ScoredUnits>,
    sampler: Sampler,
    /// Maps each sample's id to its position in the overall order.
    places: HashMap<usize, usize>,
    loader: LoaderConfig,
    objective: Objective,
    storage: Storage,
    best_by: BestBy,
    row_areas_km2: Vec<f64>,
}

impl Evaluator {
    /// Creates an evaluator of these samples or clips, in their order, on one of several ranks.
    ///
    /// # Errors
    /// [`JobError::Data`] if there are no samples.
    pub(super) fn new(
        store: &Arc<Store>,
        scored: ScoredUnits,
        settings: EvaluatorSettings,
        place: RankPosition,
    ) -> Result<Self> {
        let EvaluatorSettings {
            batch,
            loader,
            objective,
            storage,
            best_by,
        } = settings;
        let config = SamplerConfig {
            shuffle: None,
            rank: place.rank,
            ranks: place.ranks,
            batch,
            last: LastBatch::Keep,
        };
        Ok(Self {
            places: scored.places(),
            sampler: Sampler::new((0..scored.units()).collect(), config)?,
            scored: Arc::new(scored),
            row_areas_km2: store.grid().row_areas_km2(),
            store: Arc::clone(store),
            loader,
            objective,
            storage,
            best_by,
        })
    }

    /// Samples read by all ranks together, counting every frame of every clip.
    pub(super) fn samples_read(&self) -> u64 {
        (self.scored.units() * self.scored.frames()) as u64
    }

    /// Position in the overall order of a sample of a batch.
    fn place(&self, batch: &HostBatch, at: usize) -> usize {
        self.places.get(&batch.ids[at]).copied().unwrap_or(at)
    }

    /// Returns the scores of a network over the samples of all ranks, or `None` if any rank was asked to stop
    /// meanwhile.
    ///
    /// # Errors
    /// [`JobError::Data`] if a sample cannot be read; [`JobError::Model`] if the network does not fit.
    pub fn run(
        &self,
        network: &Network,
        stop: &AtomicBool,
        team: &mut Team,
    ) -> Result<Option<Scores>> {
        let _doing = doing::begin("validation");
        let mut judge = Judge::of(self);
        let scored = Arc::clone(&self.scored);
        let plans = self.sampler.epoch(Cursor::default());
        let plans = plans.map(move |plan| BatchPlan::new(plan.at, scored.read(&plan.ids)));
        let mut loader = Feed::new(&self.store, plans, &self.loader, network.backend())?;
        while let Some(batch) = loader.next() {
            let failed = batch.is_err();
            if team.any(failed || stop.load(Ordering::Relaxed))? {
                return match batch {
                    Err(error) => Err(error),
                    Ok(_) => Ok(None),
                };
            }
            let batch = batch?;
            if !batch.host.is_empty() {
                judge.add(network, &batch)?;
            }
            loader.give_back(batch);
        }
        let none = || JobError::Thread("validation loader");
        judge.scores(team)?.ok_or_else(none).map(Some)
    }
}

/// A validation in progress.
enum Judge<'a> {
    Masks(&'a Evaluator, &'a Criterion, MaskTally),
    Boxes(BoxJudge<'a>),
}

impl<'a> Judge<'a> {
    fn of(evaluator: &'a Evaluator) -> Self {
        match &evaluator.objective {
            Objective::Masks(criterion) => {
                let tally = MaskTally::new(&evaluator.row_areas_km2);
                Self::Masks(evaluator, criterion, tally)
            }
            Objective::Boxes(objective) => Self::Boxes(BoxJudge::new(evaluator, objective)),
        }
    }

    fn add(&mut self, network: &Network, batch: &Batch) -> Result<()> {
        let backend = network.backend();
        let (x, batch) = (batch.tensor()?, &batch.host);
        match self {
            Self::Masks(evaluator, criterion, tally) => {
                let logits = network.infer(&x, &evaluator.storage)?;
                let predicted = backend.argmax(&logits)?;
                let pixels = batch.labels.len() / batch.len();
                let truth = batch.labels.chunks_exact(pixels);
                let pairs = truth.zip(predicted.chunks_exact(pixels)).enumerate();
                for (at, (truth, predicted)) in pairs {
                    let one = logits.narrow(0, at, 1)?;
                    let loss = backend.segmentation_loss(&one, truth, criterion, 1.0)?;
                    let place = evaluator.place(batch, at);
                    tally.add(place, truth, predicted, (loss.weighted_sum, loss.divisor));
                }
            }
            Self::Boxes(judge) => judge.add(network, &x, batch)?,
        }
        Ok(())
    }

    /// The scores over the samples of all ranks. All ranks call it.
    fn scores(self, team: &mut Team) -> Result<Option<Scores>> {
        match self {
            Self::Masks(evaluator, _, mut tally) => {
                tally.share(team)?;
                Ok(tally.scores(evaluator.best_by).map(Scores::Masks))
            }
            Self::Boxes(judge) => judge.scores(team),
        }
    }
}

/// The mean of the known values; 0 if there are none.
fn mean_of_known(values: &[Option<f64>]) -> f64 {
    let known: Vec<f64> = values.iter().flatten().copied().collect();
    known.iter().sum::<f64>() / known.len().max(1) as f64
}

/// Converts a box found by a network to pixels; `None` if the data has no such class.
pub(crate) fn in_pixels(found: &ScoredBox) -> Option<PixelBox> {
    Some(PixelBox {
        class: BoxClass::from_code(found.class as u8)?,
        y_min: found.y_min.into(),
        x_min: found.x_min.into(),
        y_max: found.y_max.into(),
        x_max: found.x_max.into(),
        confidence: Some(found.confidence),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The best model is good at both tasks, not at one of them.
    #[test]
    fn the_score_of_both_is_the_mean_of_either() {
        let boxes = BoxScores {
            samples: 2,
            loss: 4.0,
            mean_ap_10: 0.75,
            mean_ap_50: 0.25,
            ap_10: [None; 4],
            ap_50: [None; 4],
            truths: [1; 4],
        };
        let masks = MaskScores {
            samples: 3,
            loss: 2.0,
            mean_iou: 0.25,
            sample_mean_iou: 0.125,
            area_mean_iou: 1.0,
            iou: [None; 3],
            area_iou: [None; 3],
            best_by: BestBy::MeanIou,
        };
        let both = |best_by| {
            let masks = MaskScores {
                best_by,
                ..masks.clone()
            };
            Scores::Both(Box::new(BothScores {
                boxes: boxes.clone(),
                masks,
            }))
        };
        // Boxes have 0.5.
        assert_eq!(both(BestBy::MeanIou).score(), 0.375);
        assert_eq!(both(BestBy::SampleMeanIou).score(), 0.3125);
        assert_eq!(both(BestBy::AreaMeanIou).score(), 0.75);
        let both = both(BestBy::MeanIou);
        assert_eq!((both.loss(), both.samples()), (4.0, 2));
        let losses = both.scalars().into_iter();
        let losses = losses.filter(|(name, _)| *name == "validation/loss");
        assert_eq!(losses.collect::<Vec<_>>(), [("validation/loss", 4.0)]);
    }

    #[test]
    fn what_a_network_does_not_find_is_known() {
        let masks = |mean_iou: f64, cyclones: Option<f64>, rivers: f64| {
            Scores::Masks(MaskScores {
                samples: 3,
                loss: 2.0,
                mean_iou,
                sample_mean_iou: mean_iou,
                area_mean_iou: mean_iou,
                iou: [Some(0.9), cyclones, Some(rivers)],
                area_iou: [None; 3],
                best_by: BestBy::MeanIou,
            })
        };
        let (nothing, young) = (masks(0.33, Some(0.0), 0.0), masks(0.29, Some(0.0), 0.1));
        assert!(nothing.finds_nothing() && !young.finds_nothing());
        assert_eq!(
            nothing.missed_classes([9, 5, 5]),
            ["tropical_cyclone", "atmospheric_river"]
        );
        assert_eq!(young.missed_classes([9, 5, 5]), ["tropical_cyclone"]);
        // One that the truth does not have is invented, not missed.
        assert!(young.missed_classes([9, 0, 5]).is_empty());
        assert!(masks(0.5, None, 0.0).finds_nothing());
    }
}
