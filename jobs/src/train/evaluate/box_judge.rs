//! A box validation in progress; it also scores masks if the network outputs them.

use super::boxes::BoxTally;
use super::{BothScores, Evaluator, MaskTally, Scores, in_pixels};
use crate::error::Result;
use crate::train::objective::BoxObjective;
use crate::train::team::Team;
use candle_core::Tensor;
use squall_data::{GeoBox, HostBatch, PixelBox};
use squall_model::detection::{DetectionTargets, DetectorOutput, ScoredBox};
use squall_model::ops::loss::IGNORED;
use squall_model::{Network, Pass};

/// Scores of the samples seen so far.
pub(super) struct BoxJudge<'a> {
    evaluator: &'a Evaluator,
    objective: &'a BoxObjective,
    boxes: BoxTally,
    masks: MaskTally,
}

/// One sample to score.
struct Question<'b> {
    /// Index of the network output for this sample.
    answer: usize,
    /// Its position in the network's input unit, and in the overall sample order.
    at: usize,
    place: usize,
    /// True boxes, if they are known.
    boxes: Option<&'b [PixelBox]>,
    mask: Option<&'b [u8]>,
}

impl<'a> BoxJudge<'a> {
    pub(super) fn new(evaluator: &'a Evaluator, objective: &'a BoxObjective) -> Self {
        Self {
            evaluator,
            objective,
            boxes: BoxTally::default(),
            masks: MaskTally::new(&evaluator.row_areas_km2),
        }
    }

    /// Scores the network's outputs for a batch.
    pub(super) fn add(&mut self, network: &Network, x: &Tensor, batch: &HostBatch) -> Result<()> {
        let frames = self.evaluator.scored.frames();
        for first in (0..batch.len()).step_by(frames) {
            let questions = self.questions(batch, first, network.gives_masks());
            if questions.is_empty() {
                continue;
            }
            let mut pass = Pass::infer(network.backend(), &self.evaluator.storage);
            let unit = x.narrow(0, first, frames)?.contiguous()?;
            let output = network.detect(&unit, &mut pass, false)?;
            let least = self.objective.detection.suppression.min_confidence;
            let mut found = output.decode(least)?;
            for question in questions {
                let of_mask = self.judge_mask(network, &output, &question)?;
                let found = std::mem::take(&mut found[question.answer]);
                self.judge_boxes((&unit, &output), &question, &found, of_mask)?;
            }
        }
        Ok(())
    }

    /// The samples to score in the unit that starts at `first` in a batch: those that have labels.
    fn questions<'b>(&self, batch: &'b HostBatch, first: usize, masks: bool) -> Vec<Question<'b>> {
        let (scored, pixels) = (&self.evaluator.scored, batch.labels.len() / batch.len());
        let judged = scored.judged(&batch.ids[first..first + scored.frames()]);
        let question = |(answer, at): (usize, usize)| {
            let boxes = batch.boxes.get(first + at).and_then(Option::as_deref);
            let mask = &batch.labels[(first + at) * pixels..][..pixels];
            let looked = masks && mask.iter().any(|&label| label != IGNORED);
            let mask = looked.then_some(mask);
            let place = self.evaluator.place(batch, first + at);
            (boxes.is_some() || mask.is_some()).then_some(Question {
                answer,
                at,
                place,
                boxes,
                mask,
            })
        };
        judged.into_iter().filter_map(question).collect()
    }

    /// Tallies a mask and returns its part of the loss.
    fn judge_mask(
        &mut self,
        network: &Network,
        output: &DetectorOutput,
        question: &Question<'_>,
    ) -> Result<f64> {
        let (Some(logits), Some(truth)) = (output.segmentation(), question.mask) else {
            return Ok(0.0);
        };
        let backend = network.backend();
        let one = logits.narrow(0, question.at, 1)?;
        let loss = backend.segmentation_loss(&one, truth, &self.objective.criterion, 1.0)?;
        let terms = (loss.weighted_sum, loss.divisor);
        let predicted = backend.argmax(&one)?;
        self.masks.add(question.place, truth, &predicted, terms);
        Ok(self.objective.detection.loss.segmentation * loss.value())
    }

    /// Tallies the boxes of a sample; `of_mask` is the mask's part of its loss.
    fn judge_boxes(
        &mut self,
        (unit, output): (&Tensor, &DetectorOutput),
        question: &Question<'_>,
        found: &[ScoredBox],
        of_mask: f64,
    ) -> Result<()> {
        let Some(truth) = question.boxes else {
            return Ok(());
        };
        let grid = self.evaluator.store.grid();
        let mut boxes = vec![None; self.evaluator.scored.answers()];
        boxes[question.answer] = Some(self.objective.taught(truth, grid.shape().1));
        let targets = DetectionTargets {
            fields: unit,
            boxes: &boxes,
            masks: None,
        };
        let config = self.objective.detection.loss_at(1.0);
        // The loss is a mean over all outputs for the unit; only one of them is scored here.
        let loss = output.loss(&targets, &config, 1.0)?.total * boxes.len() as f64;
        let found: Vec<GeoBox> = (found.iter())
            .filter_map(|found| Some(in_pixels(found)?.to_degrees(grid)))
            .collect();
        let found = self.objective.detection.suppression.apply(&found);
        let truth: Vec<GeoBox> = truth.iter().map(|b| b.to_degrees(grid)).collect();
        self.boxes
            .add(question.place, &truth, &found, loss + of_mask);
        Ok(())
    }

    /// The scores over the samples of all ranks; mask scores alone if no sample has boxes. All ranks call it.
    pub(super) fn scores(mut self, team: &mut Team) -> Result<Option<Scores>> {
        self.boxes.share(team)?;
        self.masks.share(team)?;
        let masks = self.masks.scores(self.evaluator.best_by);
        Ok(match (self.boxes.scores(), masks) {
            (Some(boxes), Some(masks)) => Some(Scores::Both(Box::new(BothScores { boxes, masks }))),
            (boxes, masks) => boxes.map(Scores::Boxes).or(masks.map(Scores::Masks)),
        })
    }
}
