//! What a network learns from a batch: the class of every pixel, or boxes.

use super::samples::Labelled;
use crate::clips::ClipShape;
use crate::error::Result;
use crate::recipe::{Detection, Recipe, Task};
use candle_core::Tensor;
use squall_data::{HostBatch, PixelBox};
use squall_model::detection::{BoxTarget, DetectionTargets, DetectorGradient, MaskTargets};
use squall_model::ops::loss::Criterion;
use squall_model::{Gradients, Network, Pass};

/// What a network learns.
#[derive(Debug, Clone)]
pub(super) enum Goal {
    /// The class of every pixel.
    Masks(Criterion),
    /// Boxes, and masks where the network gives them too.
    Boxes(Box<BoxGoal>),
}

/// How boxes are learnt.
#[derive(Debug, Clone)]
pub(super) struct BoxGoal {
    pub detection: Detection,
    /// The loss of masks, where the network gives them too.
    pub criterion: Criterion,
    /// The samples whose labels are used; all of them where there is none.
    pub labelled: Option<Labelled>,
    /// The clips that a network over time sees.
    pub clips: Option<ClipShape>,
}

/// A batch that a network learns from, and how.
pub(super) struct Lesson<'b> {
    /// Normalised fields.
    pub x: &'b Tensor,
    /// Labels, boxes and ids.
    pub batch: &'b HostBatch,
    /// What the gradient is multiplied by.
    pub scale: f32,
    /// Of several ranks, the gradient is divided by what every rank has the same of, until the sum of all divisors is
    /// known.
    pub shared: bool,
    /// The share of the run that is done.
    pub progress: f64,
}

/// How far a network was off in a batch.
pub(super) struct Judged {
    /// The recipe's loss.
    pub value: f64,
    /// What ranks add up, and what they divide it by, unless the loss is a plain sum.
    pub weighted_sum: f64,
    pub divisor: Option<f64>,
    /// What the gradient was divided by instead, where ranks share the divisor.
    pub count: f64,
    gradient: Gradient,
}

enum Gradient {
    Masks(Tensor),
    Boxes(DetectorGradient),
}

impl Judged {
    /// Adds the gradient of every parameter.
    pub(super) fn backward(
        self,
        network: &Network,
        pass: Pass,
        gradients: &mut Gradients,
    ) -> Result<()> {
        match self.gradient {
            Gradient::Masks(dlogits) => network.backward(&dlogits, pass, gradients)?,
            Gradient::Boxes(gradient) => network.backward_detection(gradient, pass, gradients)?,
        }
        Ok(())
    }
}

impl Goal {
    /// The goal of a recipe, with these weights of mask classes; of the samples, these have labels that are used.
    pub(super) fn of(recipe: &Recipe, masks: Criterion, labelled: Option<Labelled>) -> Self {
        match recipe.task {
            Task::Segment => Self::Masks(masks),
            Task::Detect => Self::Boxes(Box::new(BoxGoal {
                detection: recipe.detection.clone(),
                criterion: masks,
                labelled,
                clips: recipe.clips(),
            })),
        }
    }

    /// Whether ranks divide the sum of their losses by the sum of what each of them counts.
    pub(super) fn is_mean(&self) -> bool {
        match self {
            Self::Masks(criterion) => criterion.is_mean(),
            Self::Boxes(_) => true,
        }
    }

    /// What a loss that is a plain sum is multiplied by.
    pub(super) fn constant_factor(&self) -> f64 {
        match self {
            Self::Masks(criterion) => criterion.constant_factor(),
            Self::Boxes(_) => 1.0,
        }
    }

    /// How far the network is off in a batch.
    pub(super) fn judge(
        &self,
        network: &Network,
        lesson: Lesson<'_>,
        pass: &mut Pass,
    ) -> Result<Judged> {
        let Lesson {
            x,
            batch,
            scale,
            shared,
            progress,
        } = lesson;
        match self {
            Self::Masks(criterion) => {
                let logits = network.forward(x, pass)?;
                let count = batch.labels.len() as f64;
                let common = (shared && criterion.is_mean()).then_some(count);
                let loss = network.backend().segmentation_loss_within(
                    &logits,
                    &batch.labels,
                    criterion,
                    scale,
                    common,
                )?;
                Ok(Judged {
                    value: loss.value(),
                    weighted_sum: loss.weighted_sum,
                    divisor: criterion.is_mean().then_some(loss.own_divisor),
                    count,
                    gradient: Gradient::Masks(loss.gradient),
                })
            }
            Self::Boxes(goal) => {
                let config = goal.detection.loss_at(progress);
                let output = network.detect(x, pass, config.reconstruction > 0.0)?;
                let boxes = goal.targets(batch);
                let masks = goal.masks(batch);
                let targets = DetectionTargets {
                    fields: x,
                    boxes: &boxes,
                    masks: network.gives_masks().then_some(MaskTargets {
                        labels: &masks,
                        criterion: &goal.criterion,
                    }),
                };
                let loss = output.loss(&targets, &config, scale)?;
                // Every sample counts the same, and so does every clip.
                let count = boxes.len() as f64;
                Ok(Judged {
                    value: loss.total,
                    weighted_sum: loss.total * count,
                    divisor: Some(count),
                    count,
                    gradient: Gradient::Boxes(loss.gradient),
                })
            }
        }
    }
}

impl BoxGoal {
    /// The boxes that the network should have found, of every sample or, of clips, of every frame that it has boxes
    /// for: none where labels do not exist or are not used.
    pub(super) fn targets(&self, batch: &HostBatch) -> Vec<Option<Vec<BoxTarget>>> {
        let of_sample = |(at, id): (usize, &usize)| {
            let boxes = batch
                .boxes
                .get(at)?
                .as_ref()
                .filter(|_| self.teaches_boxes(*id))?;
            Some(boxes.iter().map(target).collect())
        };
        let answered = |at: &usize| {
            let clip = self.clips.as_ref();
            clip.is_none_or(|clip| (at % clip.frames).is_multiple_of(clip.every))
        };
        let samples = batch.ids.iter().enumerate();
        samples
            .filter(|(at, _)| answered(at))
            .map(of_sample)
            .collect()
    }

    /// The mask that the network should have given, of every sample: none where labels are not used.
    fn masks<'b>(&self, batch: &'b HostBatch) -> Vec<Option<&'b [u8]>> {
        let pixels = batch.labels.len() / batch.ids.len().max(1);
        let masks = batch.labels.chunks_exact(pixels.max(1));
        let each = masks.zip(&batch.ids);
        each.map(|(mask, id)| self.teaches_mask(*id).then_some(mask))
            .collect()
    }

    fn teaches_boxes(&self, id: usize) -> bool {
        let labelled = self.labelled.as_ref();
        labelled.is_none_or(|labelled| labelled.boxes.contains(&id))
    }

    /// Masks of samples that have no boxes teach, too.
    fn teaches_mask(&self, id: usize) -> bool {
        let labelled = self.labelled.as_ref();
        labelled.is_none_or(|labelled| !labelled.withheld.contains(&id))
    }
}

/// A labelled box, as the network knows it.
pub(super) fn target(found: &PixelBox) -> BoxTarget {
    BoxTarget {
        class: usize::from(found.class.code()),
        y_min: found.y_min as f32,
        x_min: found.x_min as f32,
        y_max: found.y_max as f32,
        x_max: found.x_max as f32,
    }
}
