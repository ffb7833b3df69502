//! The methods of [`Network`] for detection and for training detectors.

use super::Detector;
use crate::detection::{DetectorGradient, DetectorOutput, Findings, ScoredBox};
use crate::error::{ModelError, Result};
use crate::gradients::Gradients;
use crate::networks::{Network, Prediction};
use crate::pass::Pass;
use crate::storage::Storage;
use candle_core::Tensor;

impl Network {
    /// Whether the network finds boxes. If so, use [`Self::detect`] and [`Self::backward_detection`] in place of
    /// [`Self::forward`] and [`Self::backward`].
    pub fn is_detector(&self) -> bool {
        self.layers.detector().is_some()
    }

    /// The output of a detector for fields. `reconstruct` also reconstructs the fields if the network has a decoder for
    /// it. This doubles the work; without it the loss has no reconstruction term.
    ///
    /// x `(b, h, w, c)`; for clips, whose frames are consecutive, `(b · t, h, w, c)` or `(b, t, h, w, c)` with
    /// [`crate::NetworkConfig::frames`] frames each.
    /// # Errors
    /// [`ModelError::Task`] if the network is no detector; [`ModelError::Shape`] if x does not fit.
    pub fn detect(&self, x: &Tensor, pass: &mut Pass, reconstruct: bool) -> Result<DetectorOutput> {
        if let Some((captured, _)) = pass.captured().cloned() {
            return captured.detect(x, pass);
        }
        let x = match *x.dims() {
            [b, t, h, w, c] => x.reshape((b * t, h, w, c))?,
            _ => x.clone(),
        };
        let fields = self.inputs(&x)?;
        (self.detector()?).detect(&self.parameters, pass, &fields, reconstruct)
    }

    /// Adds the gradient of every parameter to `gradients`, freeing the tape as it goes.
    ///
    /// # Errors
    /// [`ModelError::Task`] if the network is no detector; [`ModelError::Shape`] if the gradient does not fit the
    /// forward pass's output.
    pub fn backward_detection(
        &self,
        gradient: DetectorGradient,
        mut pass: Pass,
        gradients: &mut Gradients,
    ) -> Result<()> {
        if let Some((captured, launch)) = pass.captured() {
            captured.backward_detection(&gradient, *launch, gradients)?;
            gradients.complete();
            return Ok(());
        }
        pass.end_forward();
        (self.detector()?).backward_detection(&self.parameters, &mut pass, gradient, gradients)?;
        gradients.complete();
        assert!(pass.is_tape_empty(), "a layer left something on the tape");
        Ok(())
    }

    /// The boxes of every frame, found by an inference pass ([`DetectorOutput::decode`]).
    ///
    /// # Errors
    /// As [`Self::detect`].
    pub fn find_boxes(
        &self,
        x: &Tensor,
        storage: impl Into<Storage>,
        min_confidence: f32,
    ) -> Result<Vec<Vec<ScoredBox>>> {
        let mut pass = Pass::infer(self.backend, storage);
        self.detect(x, &mut pass, false)?.decode(min_confidence)
    }

    /// As [`Self::find_boxes`], and also the number of cells dropped because their values are not finite and, if the
    /// network outputs them, the masks. All come from one inference pass.
    ///
    /// # Errors
    /// As [`Self::detect`].
    pub fn find_boxes_and_masks(
        &self,
        x: &Tensor,
        storage: impl Into<Storage>,
        (min_confidence, probabilities): (f32, bool),
    ) -> Result<Findings> {
        let mut pass = Pass::infer(self.backend, storage);
        let output = self.detect(x, &mut pass, false)?;
        let masks = output.segmentation.as_ref();
        let masks =
            masks.map(|logits| Prediction::from_logits(self.backend, logits, probabilities));
        Ok(Findings {
            boxes: output.decode(min_confidence)?,
            not_finite: output.not_finite()?,
            masks: masks.transpose()?,
        })
    }

    /// Whether the network fills [`DetectorOutput::segmentation`].
    pub fn gives_masks(&self) -> bool {
        match self.layers.detector() {
            Some(detector) => detector.gives_masks(),
            None => true,
        }
    }

    fn detector(&self) -> Result<&dyn Detector> {
        self.layers.detector().ok_or_else(|| ModelError::Task {
            network: self.config.name.as_str().to_string(),
            gives: "the class of every pixel",
            asked: "boxes",
        })
    }
}
