//! Training objectives: the class of every pixel, or boxes.

use super::samples::Labelled;
use crate::clips::ClipShape;
use crate::error::Result;
use crate::recipe::{Detection, Recipe, Task};
use candle_core::Tensor;
use squall_data::{HostBatch, PixelBox};
use squall_model::detection::{BoxTarget, DetectionTargets, DetectorGradient, MaskTargets};
use squall_model::ops::loss::Criterion;
use squall_model::{Gradients, Network, Pass};

/// Minimum width in pixels of the parts into which the longitude seam cuts a box. A narrower part need not contain the
/// centre of a pixel and is not taught.
const NARROWEST: f64 = 0.5;
/// A box whose width is within this fraction of the full circle counts as spanning the globe: rounding may cause the
/// gap.
const NARROWER: f64 = 1e-6;
/// Minimum extent of a box in pixels: f32 can represent it in any field, and the logarithm stays finite.
const LEAST: f64 = 1.0 / 1024.0;

/// A training objective.
#[derive(Debug, Clone)]
pub(super) enum Objective {
    /// The class of every pixel.
    Masks(Criterion),
    /// Boxes, and masks if the network outputs them.
    Boxes(Box<BoxObjective>),
}

/// Settings of box training.
#[derive(Debug, Clone)]
pub(super) struct BoxObjective {
    pub detection: Detection,
    /// The mask loss, if the network outputs masks.
    pub criterion: Criterion,
    /// The samples whose labels are used; `None` means all.
    pub labelled: Option<Labelled>,
    /// The clips that a network over time sees.
    pub clips: Option<ClipShape>,
    /// Whether the network pads longitude periodically.
    pub periodic: bool,
}

/// Inputs of the loss of a batch.
pub(super) struct LossInput<'b> {
    /// Normalised fields.
    pub x: &'b Tensor,
    /// Labels, boxes and ids.
    pub batch: &'b HostBatch,
    /// Factor applied to the gradient (the loss scale).
    pub scale: f32,
    /// Whether the step has further batches, on other ranks or by accumulation. The gradient is then divided by a count
    /// that is the same for all of them; the true divisor is known only after the reduction.
    pub in_parts: bool,
    /// The completed share of the run.
    pub progress: f64,
}

/// The loss of a batch, and its gradient with respect to the network's output.
pub(super) struct LossOutput {
    pub loss: BatchLoss,
    gradient: Gradient,
}

/// The loss of a batch on this rank.
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchLoss {
    /// The recipe's loss, if the step consists of this batch alone.
    pub value: f64,
    /// Sum over samples or pixels; the batches of a step add up.
    pub weighted_sum: f64,
    /// Divisor of that sum, which also adds up over batches; `None` if the loss is a plain sum.
    pub divisor: Option<f64>,
    /// The divisor already applied to the gradient if the step has several batches ([`LossInput::in_parts`]).
    pub count: f64,
}

impl BatchLoss {
    /// Whether the loss and its gradient may be used in the update.
    pub(super) fn is_finite(&self) -> bool {
        self.weighted_sum.is_finite()
    }

    /// Combines the losses of this batch and a later one of the same step.
    pub(super) fn and(self, later: Self) -> Self {
        let divisors = self.divisor.zip(later.divisor);
        Self {
            weighted_sum: self.weighted_sum + later.weighted_sum,
            divisor: divisors.map(|(one, other)| one + other),
            ..self
        }
    }
}

enum Gradient {
    Masks(Tensor),
    Boxes(DetectorGradient),
}

impl LossOutput {
    /// Runs the backward pass, which adds to the gradient of every parameter.
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

impl Objective {
    /// Creates the objective of a recipe with this mask loss, using the labels of these samples.
    pub(super) fn of(recipe: &Recipe, masks: Criterion, labelled: Option<Labelled>) -> Self {
        match recipe.task {
            Task::Segment => Self::Masks(masks),
            Task::Detect => Self::Boxes(Box::new(BoxObjective {
                detection: recipe.detection.clone(),
                criterion: masks,
                labelled,
                clips: recipe.clips(),
                periodic: recipe.network.periodic_longitude,
            })),
        }
    }

    /// Whether the summed losses of all ranks are divided by their summed divisors.
    pub(super) fn is_mean(&self) -> bool {
        match self {
            Self::Masks(criterion) => criterion.is_mean(),
            Self::Boxes(_) => true,
        }
    }

    /// The constant factor of a loss that is a plain sum.
    pub(super) fn constant_factor(&self) -> f64 {
        match self {
            Self::Masks(criterion) => criterion.constant_factor(),
            Self::Boxes(_) => 1.0,
        }
    }

    /// Whether the loss includes the reconstruction of the fields at this share of the run.
    pub(super) fn reconstructs(&self, progress: f64) -> bool {
        match self {
            Self::Masks(_) => false,
            Self::Boxes(objective) => objective.detection.loss_at(progress).reconstruction > 0.0,
        }
    }

    /// Runs the forward pass on a batch and computes its loss.
    pub(super) fn loss(
        &self,
        network: &Network,
        input: LossInput<'_>,
        pass: &mut Pass,
    ) -> Result<LossOutput> {
        let LossInput {
            x,
            batch,
            scale,
            in_parts,
            progress,
        } = input;
        match self {
            Self::Masks(criterion) => {
                let logits = network.forward(x, pass)?;
                let count = batch.labels.len() as f64;
                let common = (in_parts && criterion.is_mean()).then_some(count);
                let loss = network.backend().segmentation_loss_within(
                    &logits,
                    &batch.labels,
                    criterion,
                    scale,
                    common,
                )?;
                Ok(LossOutput {
                    loss: BatchLoss {
                        value: loss.value(),
                        weighted_sum: loss.weighted_sum,
                        divisor: criterion.is_mean().then_some(loss.own_divisor),
                        count,
                    },
                    gradient: Gradient::Masks(loss.gradient),
                })
            }
            Self::Boxes(objective) => {
                let config = objective.detection.loss_at(progress);
                let output = network.detect(x, pass, config.reconstruction > 0.0)?;
                let boxes = objective.targets(batch);
                let masks = objective.masks(batch);
                let targets = DetectionTargets {
                    fields: x,
                    boxes: &boxes,
                    masks: network.gives_masks().then_some(MaskTargets {
                        labels: &masks,
                        criterion: &objective.criterion,
                    }),
                };
                let loss = output.loss(&targets, &config, scale)?;
                // All samples have equal weight, and so have all clips.
                let count = boxes.len() as f64;
                Ok(LossOutput {
                    loss: BatchLoss {
                        value: loss.total,
                        weighted_sum: loss.total * count,
                        divisor: Some(count),
                        count,
                    },
                    gradient: Gradient::Boxes(loss.gradient),
                })
            }
        }
    }
}

impl BoxObjective {
    /// The target boxes of every sample, or of every frame that the network outputs boxes for; `None` where labels are
    /// missing or unused.
    pub(super) fn targets(&self, batch: &HostBatch) -> Vec<Option<Vec<BoxTarget>>> {
        let of_sample = |(at, id): (usize, &usize)| {
            let boxes = batch
                .boxes
                .get(at)?
                .as_ref()
                .filter(|_| self.teaches_boxes(*id))?;
            Some(self.taught(boxes, batch.shape[2]))
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

    /// The target boxes for a field of this many columns. A network without periodic longitude gets a box across the
    /// seam as two, one at either end of the field.
    pub(super) fn taught(&self, boxes: &[PixelBox], columns: usize) -> Vec<BoxTarget> {
        if self.periodic {
            return boxes.iter().map(target).collect();
        }
        let all = boxes.iter().flat_map(|found| parts(found, columns as f64));
        all.map(|part| target(&part)).collect()
    }

    /// The target mask of every sample; `None` where labels are unused.
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

    /// Samples without boxes still teach masks.
    fn teaches_mask(&self, id: usize) -> bool {
        let labelled = self.labelled.as_ref();
        labelled.is_none_or(|labelled| !labelled.withheld.contains(&id))
    }
}

/// Splits a box at the seam behind the last column; returns the box itself if it does not cross the seam.
fn parts(found: &PixelBox, columns: f64) -> Vec<PixelBox> {
    let between = |x_min: f64, x_max: f64| PixelBox {
        x_min,
        x_max,
        ..*found
    };
    if found.x_max <= columns {
        return vec![*found];
    }
    // A box around the whole globe, wherever it begins.
    if found.x_max - found.x_min >= columns * (1.0 - NARROWER) {
        return vec![between(0.0, columns)];
    }
    let (first, last) = (columns - found.x_min, found.x_max - columns);
    let (west, east) = (between(found.x_min, columns), between(0.0, last));
    match (first >= NARROWEST, last >= NARROWEST) {
        (true, true) => vec![west, east],
        // Keeps the wider of two slivers, so that no box is lost.
        _ if first >= last => vec![west],
        _ => vec![east],
    }
}

/// Converts a labelled box to a network target.
fn target(found: &PixelBox) -> BoxTarget {
    let (y_min, y_max) = edges(found.y_min, found.y_max);
    let (x_min, x_max) = edges(found.x_min, found.x_max);
    BoxTarget {
        class: usize::from(found.class.code()),
        y_min,
        x_min,
        y_max,
        x_max,
    }
}

/// Rounds two edges of a box to f32 without letting a non-empty box collapse.
fn edges(from: f64, to: f64) -> (f32, f32) {
    let is_narrow = from < to && to - from < LEAST;
    let (from, to) = match is_narrow {
        true => (to.max(LEAST) - LEAST, to.max(LEAST)),
        false => (from, to),
    };
    (from as f32, to as f32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use squall_data::BoxClass;

    const COLUMNS: usize = 64;

    /// The objective of a detector whose longitude wraps or does not.
    fn objective(periodic: bool) -> BoxObjective {
        let text = format!(
            "task = 'detect'\n[network]\nname = 'detector-2d'\nperiodic_longitude = {periodic}"
        );
        let recipe = Recipe::parse(&text, &[]).unwrap();
        match Objective::of(&recipe, recipe.loss.criterion(vec![1.0; 3]), None) {
            Objective::Boxes(objective) => *objective,
            Objective::Masks(_) => panic!("the task is boxes"),
        }
    }

    fn found(x_min: f64, x_max: f64) -> PixelBox {
        PixelBox {
            class: BoxClass::TropicalCyclone,
            y_min: 4.0,
            x_min,
            y_max: 12.0,
            x_max,
            confidence: None,
        }
    }

    /// The columns of what a box of a global field teaches.
    fn columns(periodic: bool, x_min: f64, x_max: f64) -> Vec<(f32, f32)> {
        let batch = HostBatch {
            shape: [1, 32, COLUMNS, 3],
            boxes: vec![Some(vec![found(x_min, x_max)])],
            ids: vec![7],
            ..HostBatch::default()
        };
        let targets = objective(periodic).targets(&batch).remove(0).unwrap();
        let rest = |target: &BoxTarget| (target.class, target.y_min, target.y_max);
        assert!(targets.iter().all(|target| rest(target) == (1, 4.0, 12.0)));
        let ends = |target: &BoxTarget| (target.x_min, target.x_max);
        targets.iter().map(ends).collect()
    }

    /// Their edges had been one number, for which the step that met them ended the run.
    #[test]
    fn boxes_too_narrow_for_f32_have_an_extent() {
        for (x_min, x_max) in [(40.0, 40.000_000_1), (63.999_999_99, 64.0), (0.0, 1e-60)] {
            for periodic in [true, false] {
                let taught = columns(periodic, x_min, x_max);
                let (west, east) = taught[0];
                assert!(taught.len() == 1 && west < east, "{taught:?}");
                assert!(west >= 0.0 && east <= 64.0, "{taught:?}");
            }
        }
    }

    #[test]
    fn boxes_across_the_seam_are_two_where_longitude_does_not_wrap() {
        assert_eq!(columns(true, 60.0, 76.0), [(60.0, 76.0)]);
        for (x_min, x_max, expected) in [
            (60.0, 76.0, vec![(60.0, 64.0), (0.0, 12.0)]),
            (10.0, 20.0, vec![(10.0, 20.0)]),
            (54.0, 64.0, vec![(54.0, 64.0)]),
            (0.0, 64.0, vec![(0.0, 64.0)]),
            // Nearly all of it lies on one side.
            (54.0, 64.25, vec![(54.0, 64.0)]),
            (63.75, 72.0, vec![(0.0, 8.0)]),
            // Narrow, and half of it on either side.
            (63.75, 64.25, vec![(63.75, 64.0)]),
            // Once round the globe.
            (40.0, 104.0, vec![(0.0, 64.0)]),
            (0.5, 64.499_999, vec![(0.0, 64.0)]),
            (40.0, 103.0, vec![(40.0, 64.0), (0.0, 39.0)]),
        ] {
            let taught = columns(false, x_min, x_max);
            assert_eq!(taught, expected, "{x_min} to {x_max}");
        }
    }
}
